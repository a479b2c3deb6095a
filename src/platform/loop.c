// SPDX-License-Identifier: MIT
// The event loop, by epoll and libuv.
#include "platform/loop.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/socket.h"

// So many changes are taken at a time; the others stay in line.
enum { EVENTS_MAX = 512 };

static bool add(struct mare__loop *loop, int fd, uint32_t events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool make(struct mare__loop *loop)
{
    enum { NEEDED = 8 }; // descriptors: libuv's first loop ends the program when there are less
    if (!mare__descriptors_left(NEEDED) || uv_loop_init(&loop->uv) != 0)
        return false;
    loop->stirred = loop->told = false;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll >= 0 && loop->bell >= 0 &&
        add(loop, loop->bell, EPOLLIN | EPOLLET, &loop->bell) &&
        add(loop, uv_backend_fd(&loop->uv), EPOLLIN, &loop->uv))
        return true;
    close(loop->bell);
    close(loop->epoll);
    uv_loop_close(&loop->uv);
    return false;
}

static bool live_init(void *context, struct mare__loop *loop)
{
    (void)context;
    // If the program was started without standard input, output or error, something must be in
    // their place: libuv would take those, which others write to, and refuse to close them.
    int places[STDERR_FILENO + 1], count = 0, fd;
    while ((fd = eventfd(0, EFD_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        places[count++] = fd;
    if (fd >= 0)
        close(fd);
    bool made = make(loop);
    while (count > 0)
        close(places[--count]);
    return made;
}

static void live_fini(struct mare__loop *loop)
{
    close(loop->bell);
    close(loop->epoll);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
}

static void run_uv(struct mare__loop *loop)
{
    loop->stirred = false;
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static void on_change(struct mare__poll *poll, uint32_t events)
{
    unsigned ways = (events & (EPOLLIN | EPOLLRDHUP) ? MARE__READABLE : 0) |
                    (events & EPOLLOUT ? MARE__WRITABLE : 0) |
                    (events & (EPOLLRDHUP | EPOLLPRI) ? MARE__ODD : 0);
    if (events & (EPOLLERR | EPOLLHUP))
        ways = MARE__READABLE | MARE__WRITABLE | MARE__BROKEN | MARE__ODD;
    poll->ready(poll, ways);
}

static void turn(struct mare__loop *loop, int ms)
{
    struct epoll_event events[EVENTS_MAX];
    if (loop->stirred) {
        loop->told = false;
        run_uv(loop);
        ms = loop->told ? 0 : ms;
    }
    int count = epoll_wait(loop->epoll, events, EVENTS_MAX, ms);
    for (int i = 0; i < count; i++) {
        void *what = events[i].data.ptr;
        if (what == &loop->uv)
            run_uv(loop);
        else if (what != &loop->bell) // it has done its work: the wait is over
            on_change(what, events[i].events);
    }
}

static void live_look(struct mare__loop *loop)
{
    turn(loop, 0);
}

static void live_wait(struct mare__loop *loop, uint64_t ns)
{
    uint64_t ms = ns / 1000000 + (ns % 1000000 > 0);
    turn(loop, ns == UINT64_MAX ? -1 : ms < INT_MAX ? (int)ms : INT_MAX);
}

static void live_ring(struct mare__loop *loop)
{
    int saved = errno; // of what a signal has interrupted
    uint64_t one = 1;
    ssize_t unused = write(loop->bell, &one, sizeof one);
    (void)unused; // it cannot be full in the life of a program
    errno = saved;
}

// ---- Descriptors --------------------------------------------------------------------------------

static void on_poll(uv_poll_t *uv, int status, int events)
{
    struct mare__poll *poll = uv->data;
    unsigned ways = MARE__READABLE | MARE__WRITABLE | MARE__BROKEN;
    if (status == 0)
        ways = (events & UV_READABLE ? MARE__READABLE : 0) |
               (events & UV_WRITABLE ? MARE__WRITABLE : 0);
    poll->loop->told = true;
    poll->ready(poll, ways); // with an error, libuv has stopped to watch it
}

static void on_poll_closed(uv_handle_t *uv)
{
    struct mare__poll *poll = uv->data;
    poll->closed(poll);
}

static bool live_open(struct mare__loop *loop, struct mare__poll *poll, int fd)
{
    bool opened = uv_poll_init(&loop->uv, &poll->uv, fd) == 0;
    poll->uv.data = poll;
    poll->loop = loop;
    poll->edges = false;
    return opened;
}

enum { CHANGES = (int)(EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET) };

static bool live_open_edges(struct mare__loop *loop, struct mare__poll *poll, int fd)
{
    uint8_t state; // the first byte of what the system tells of a connection
    socklen_t size = sizeof state;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &size) != 0 || state == TCP_LISTEN)
        return false;
    poll->loop = loop;
    poll->fd = fd;
    poll->edges = poll->fresh = true;
    return add(loop, fd, CHANGES, poll);
}

static void live_want(struct mare__poll *poll, unsigned ways)
{
    if (poll->edges) {
        struct epoll_event event = {.events = CHANGES, .data.ptr = poll};
        if (!poll->fresh)
            epoll_ctl(poll->loop->epoll, EPOLL_CTL_MOD, poll->fd, &event);
        poll->fresh = false;
        return;
    }
    int events =
        (ways & MARE__READABLE ? UV_READABLE : 0) | (ways & MARE__WRITABLE ? UV_WRITABLE : 0);
    poll->loop->stirred = true;
    if (events)
        uv_poll_start(&poll->uv, events, on_poll);
    else
        uv_poll_stop(&poll->uv);
}

static bool live_close(struct mare__poll *poll)
{
    if (poll->edges) {
        epoll_ctl(poll->loop->epoll, EPOLL_CTL_DEL, poll->fd, NULL);
        return false;
    }
    poll->loop->stirred = true;
    uv_close((uv_handle_t *)&poll->uv, on_poll_closed);
    return true;
}

const struct mare__loops mare__loops_live = {.init = live_init,
                                             .fini = live_fini,
                                             .look = live_look,
                                             .wait = live_wait,
                                             .ring = live_ring,
                                             .open = live_open,
                                             .open_edges = live_open_edges,
                                             .want = live_want,
                                             .close = live_close};
