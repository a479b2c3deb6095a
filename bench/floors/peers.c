// SPDX-License-Identifier: MIT
// Many peers of one node, with heartbeats: light ones, each a link and a socket, all in this
// program. And what it costs to hold them at the least: a server that has the links alone.
//
//   floor_peers dial N PORT SECONDS    N nodes that dial; when all are up, "up" and how long it
//                                      took; then they live for so long; held: how many are left.
//                                      One whose handshake came to nothing, or that was lost, tries
//                                      again, later and later, as nodes that join do
//   floor_peers hold N SECONDS         a server that they dial, in a child: held, kib a peer, cpu
//                                      in per cent of a core while nothing is said but heartbeats
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "floor.h"
#include "wire/link.h"

enum { PIECES = 16, READ = 65536, TICK_MS = 20, NAME = 32 };
enum { AT_ONCE = 128 }; // handshakes, as if each were a program of its own that comes by itself
enum { FIRST_PAUSE_US = 100000, LAST_PAUSE_US = 10000000 };

struct peer {
    struct mare__link_settings settings; // of its own name, if it dials
    struct mare__link *link;
    int fd;
    bool is_up, is_over;
    uint64_t again_us, pause_us; // when it dials once more; 0: it need not
    char name[NAME];
};

struct crowd {
    int poll, listener; // listener: -1 for those who dial
    int port;           // that they dial
    struct peer *peers;
    long count, room, up, over;          // over: how many times one was lost that had been up
    struct mare__link_settings settings; // of the one who accepts
    uint64_t stamp;
};

static uint64_t now_us(void)
{
    return (uint64_t)(floor_now_ns() / 1000);
}

static void release(void *context, void *owner)
{
    (void)context, (void)owner;
}

static void settle(struct mare__link_settings *settings, const char *name)
{
    mare__link_settings_init(settings);
    settings->self.name = (struct mare__span){name, strlen(name)};
    settings->self.incarnation = now_us();
    if (getrandom(&settings->secret, sizeof settings->secret, 0) < 0)
        floor_fail("getrandom");
    settings->release = release;
}

static void accept_link(struct crowd *crowd, struct peer *peer)
{
    uint8_t session[MARE__LINK_SESSION];
    if (getrandom(session, sizeof session, 0) < 0)
        floor_fail("getrandom");
    mare__link_accept(peer->link, session, ++crowd->stamp);
}

// What a node says first: the channel that it is asked through has the number 1. When the other
// wants to ask, [2, 1, tag, …], it opens a flow for that; what comes is not looked at. See
// docs/reference/wire.md.
static void greet(struct peer *peer)
{
    static const uint8_t service[] = {0x95, 1, 1, 0, 0xc4, 0, 0xc4, 0};
    const struct mare__link_part part = {service, sizeof service, NULL};
    if (mare__link_send(peer->link, 0, &part, 1) != MARE_OK)
        floor_fail("a greeting");
}

static void on_message(struct peer *peer, const struct mare__link_event *event)
{
    const struct mare__link_window window = {64, 4 << 20};
    if (event->flow == 0 && event->size > 3 && event->data[1] == 2 && event->data[3] < 0x80)
        mare__link_open(peer->link, 2u * event->data[3], window, false, NULL);
    mare__link_consumed(peer->link, event->flow, 1, event->size);
    mare__free(event->block);
}

// The handshake of one who dials came to nothing.
static void try_later(struct peer *peer)
{
    peer->pause_us = peer->pause_us ? peer->pause_us * 2 : FIRST_PAUSE_US;
    if (peer->pause_us > LAST_PAUSE_US)
        peer->pause_us = LAST_PAUSE_US;
    peer->again_us = now_us() + peer->pause_us;
    if (peer->fd >= 0)
        close(peer->fd); // leaves the poll too
    peer->fd = -1;
    mare__link_destroy(peer->link);
    peer->link = NULL;
}

static void on_over(struct crowd *crowd, struct peer *peer, const struct mare__link_event *event)
{
    if (peer->is_up && crowd->over++ < 3)
        fprintf(stderr, "floor: %s: %s\n", peer->name, mare__link_code_text(event->code));
    crowd->up -= peer->is_up;
    peer->is_over = crowd->listener >= 0;
    peer->pause_us = peer->is_up ? 0 : peer->pause_us;
    peer->is_up = false;
    if (crowd->listener < 0)
        try_later(peer);
}

// What has happened, and what is to be sent.
static void advance(struct crowd *crowd, struct peer *peer)
{
    struct mare__link_event event;
    while (mare__link_next(peer->link, &event)) {
        if (event.kind == MARE__LINK_HELLO) {
            accept_link(crowd, peer);
        } else if (event.kind == MARE__LINK_UP) {
            peer->is_up = true;
            crowd->up++;
            greet(peer);
        } else if (event.kind == MARE__LINK_MESSAGE) {
            on_message(peer, &event);
        } else if (event.kind == MARE__LINK_OVER) {
            on_over(crowd, peer, &event);
            return;
        }
    }
    struct iovec pieces[PIECES];
    int count;
    while ((count = mare__link_output(peer->link, pieces, PIECES)) > 0) {
        ssize_t wrote = writev(peer->fd, pieces, count);
        if (wrote <= 0)
            return; // next time: the buffers of the system are large for heartbeats
        mare__link_sent(peer->link, (size_t)wrote);
    }
}

static void take(struct crowd *crowd, struct peer *peer)
{
    char bytes[READ];
    ssize_t got = read(peer->fd, bytes, sizeof bytes);
    if (got < 0 && errno == EAGAIN)
        return;
    mare__link_tick(peer->link, now_us());
    if (got > 0) {
        mare__link_input(peer->link, bytes, (size_t)got);
    } else {
        close(peer->fd); // leaves the poll too
        peer->fd = -1;
        mare__link_quit(peer->link, MARE__LINK_CODE_BROKEN, (struct mare__span){0});
    }
    advance(crowd, peer);
}

static void begin(struct crowd *crowd, struct peer *peer, int fd, enum mare__link_role role)
{
    const struct mare__link_settings *settings = &crowd->settings;
    if (role == MARE__LINK_DIALS) {
        snprintf(peer->name, NAME, "light%ld", (long)(peer - crowd->peers) + 1);
        settle(&peer->settings, peer->name);
        settings = &peer->settings;
    }
    peer->fd = fd;
    peer->again_us = 0;
    peer->link = mare__link_create(settings, role, ++crowd->stamp, now_us());
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (!peer->link || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(crowd->poll, EPOLL_CTL_ADD, fd, &event) < 0)
        floor_fail("a link");
    advance(crowd, peer);
}

static void dial(struct crowd *crowd, struct peer *peer)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)crowd->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        floor_fail("connect");
    begin(crowd, peer, fd, MARE__LINK_DIALS);
}

// Waits a moment for what comes; then tells those the time who want to know it.
static void turn(struct crowd *crowd)
{
    struct epoll_event events[256];
    int count = epoll_wait(crowd->poll, events, 256, TICK_MS);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            take(crowd, events[i].data.ptr);
        else
            for (int fd; (fd = accept(crowd->listener, NULL, NULL)) >= 0;) {
                if (crowd->count == crowd->room)
                    floor_fail("too many were lost");
                begin(crowd, &crowd->peers[crowd->count++], fd, MARE__LINK_ACCEPTS);
            }
    }
    uint64_t now = now_us();
    for (struct peer *peer = crowd->peers; peer < crowd->peers + crowd->count; peer++) {
        if (peer->again_us > 0 && peer->again_us <= now) {
            dial(crowd, peer);
        } else if (peer->link && !peer->is_over && mare__link_deadline(peer->link) <= now) {
            mare__link_tick(peer->link, now);
            advance(crowd, peer);
        }
    }
}

static void live(struct crowd *crowd, double seconds)
{
    double end = floor_now_ns() + seconds * 1e9;
    while (floor_now_ns() < end)
        turn(crowd);
}

static struct crowd *gather(long room)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (!crowd || !(crowd->peers = calloc((size_t)room, sizeof *crowd->peers)))
        floor_fail("memory");
    crowd->room = room;
    crowd->poll = epoll_create1(0);
    crowd->listener = -1;
    return crowd;
}

static void run_dial(long count, int port, double seconds)
{
    struct crowd *crowd = gather(count);
    double start = floor_now_ns();
    crowd->port = port;
    for (long i = 0; i < count; i++) {
        dial(crowd, &crowd->peers[crowd->count++]);
        while (crowd->count - crowd->up > AT_ONCE) // or connect would wait
            turn(crowd);
    }
    while (crowd->up < count)
        turn(crowd);
    floor_report("up", (floor_now_ns() - start) / 1e9);
    fflush(stdout);
    live(crowd, seconds);
    floor_report("held", (double)crowd->up);
}

// ---- The server ---------------------------------------------------------------------------------

static double resident_kib(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2)
        floor_fail("statm");
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static int listen_somewhere(struct crowd *crowd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct epoll_event event = {.events = EPOLLIN};
    crowd->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (crowd->listener < 0 || bind(crowd->listener, (struct sockaddr *)&at, size) < 0 ||
        listen(crowd->listener, 4096) < 0 ||
        getsockname(crowd->listener, (struct sockaddr *)&at, &size) < 0 ||
        epoll_ctl(crowd->poll, EPOLL_CTL_ADD, crowd->listener, &event) < 0)
        floor_fail("listen");
    return ntohs(at.sin_port);
}

static void run_hold(long count, double seconds)
{
    struct crowd *crowd = gather(2 * count);
    settle(&crowd->settings, "hub");
    int port = listen_somewhere(crowd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout))
            floor_fail("stdout");
        close(crowd->listener);
        run_dial(count, port, seconds + 2);
        exit(0);
    }
    double before = resident_kib();
    while (crowd->up < count)
        turn(crowd);
    double begun = cpu_seconds();
    live(crowd, seconds);
    floor_report("held", (double)crowd->up);
    floor_report("kib", (resident_kib() - before) / (double)count);
    floor_report("cpu", (cpu_seconds() - begun) / seconds * 100);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (argc == 5 && strcmp(argv[1], "dial") == 0)
        run_dial(atol(argv[2]), atoi(argv[3]), atof(argv[4]));
    else if (argc == 4 && strcmp(argv[1], "hold") == 0)
        run_hold(atol(argv[2]), atof(argv[3]));
    else
        floor_fail("dial N PORT SECONDS, or hold N SECONDS");
    return 0;
}
