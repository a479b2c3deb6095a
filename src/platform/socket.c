// SPDX-License-Identifier: MIT
// Sockets, and pipes, by the system's own calls.
#include "platform/socket.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/socket.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"

// An IPv6 address that is local to a link says which: "fe80::1%eth0".
static bool parse_six(const char *host, struct sockaddr_in6 *six)
{
    char text[INET6_ADDRSTRLEN];
    const char *scope = strchr(host, '%');
    if (!scope)
        return inet_pton(AF_INET6, host, &six->sin6_addr) == 1;
    size_t length = (size_t)(scope - host);
    if (length >= sizeof text)
        return false;
    memcpy(text, host, length);
    text[length] = '\0';
    six->sin6_scope_id = if_nametoindex(scope + 1);
    return six->sin6_scope_id && inet_pton(AF_INET6, text, &six->sin6_addr) == 1;
}

bool mare__address_numeric(struct mare__address *address, const char *host, uint16_t port)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->storage;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        address->length = sizeof *four;
    } else if (parse_six(host, six)) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        address->length = sizeof *six;
    }
    return address->length > 0;
}

bool mare__address_unix(struct mare__address *address, const char *path)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&address->storage;
    memset(address, 0, sizeof *address);
    if (strlen(path) >= sizeof local->sun_path)
        return false;
    local->sun_family = AF_UNIX;
    strcpy(local->sun_path, path);
    address->length = sizeof *local;
    return true;
}

static void write_six(const struct sockaddr_in6 *six, char host[MARE__HOST_MAX])
{
    char name[IF_NAMESIZE];
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) { // a socket that speaks both
        inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], host, MARE__HOST_MAX);
        return;
    }
    inet_ntop(AF_INET6, &six->sin6_addr, host, MARE__HOST_MAX);
    if (six->sin6_scope_id && if_indextoname(six->sin6_scope_id, name)) {
        size_t length = strlen(host);
        snprintf(host + length, MARE__HOST_MAX - length, "%%%s", name);
    }
}

int mare__address_text(const struct mare__address *address, char host[MARE__HOST_MAX])
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;
    const struct sockaddr_un *local = (const struct sockaddr_un *)&address->storage;
    host[0] = '\0';
    switch (address->storage.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &four->sin_addr, host, MARE__HOST_MAX);
        return ntohs(four->sin_port);
    case AF_INET6:
        write_six(six, host);
        return ntohs(six->sin6_port);
    case AF_UNIX:
        if (address->length > offsetof(struct sockaddr_un, sun_path))
            snprintf(host, MARE__HOST_MAX, "%.*s", (int)sizeof local->sun_path, local->sun_path);
        return -1;
    default:
        return -1;
    }
}

// ---- Packed addresses ---------------------------------------------------------------------------

enum { IP = 16, MAPPED = 12 }; // bytes of an address, and of what a mapped one begins with

static const uint8_t mapped[MAPPED] = {[10] = 0xff, [11] = 0xff};

void mare__address_pack(const struct mare__address *address, uint8_t packed[MARE__ADDRESS_PACKED])
{
    memset(packed, 0, MARE__ADDRESS_PACKED);
    if (address->storage.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
        memcpy(packed, mapped, MAPPED);
        memcpy(packed + MAPPED, &four->sin_addr, 4);
        memcpy(packed + IP, &four->sin_port, 2);
    } else if (address->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;
        memcpy(packed, &six->sin6_addr, IP);
        memcpy(packed + IP, &six->sin6_port, 2);
    }
}

void mare__address_unpack(const uint8_t packed[MARE__ADDRESS_PACKED], struct mare__address *address)
{
    memset(&address->storage, 0, sizeof address->storage);
    if (memcmp(packed, mapped, MAPPED) == 0) {
        struct sockaddr_in *four = (struct sockaddr_in *)&address->storage;
        four->sin_family = AF_INET;
        memcpy(&four->sin_addr, packed + MAPPED, 4);
        memcpy(&four->sin_port, packed + IP, 2);
        address->length = sizeof *four;
    } else {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->storage;
        six->sin6_family = AF_INET6;
        memcpy(&six->sin6_addr, packed, IP);
        memcpy(&six->sin6_port, packed + IP, 2);
        address->length = sizeof *six;
    }
}

static int result(int r)
{
    return r < 0 ? -errno : r;
}

int mare__socket_open(int family, int type)
{
    return result(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int mare__socket_adopt(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return result(flags < 0 ? flags : fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

int mare__socket_bind(int fd, const struct mare__address *address)
{
    return result(bind(fd, (const struct sockaddr *)&address->storage, address->length));
}

int mare__socket_listen(int fd, int backlog)
{
    return result(listen(fd, backlog));
}

int mare__socket_connect(int fd, const struct mare__address *address)
{
    return result(connect(fd, (const struct sockaddr *)&address->storage, address->length));
}

int mare__socket_outcome(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLOUT};
    if (poll(&look, 1, 0) == 0)
        return -EINPROGRESS;
    return mare__socket_error(fd);
}

int mare__socket_error(int fd)
{
    int err = 0;
    socklen_t size = sizeof err;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0 ? -err : -errno;
}

int mare__socket_accept(int fd)
{
    int got;
    do // again, if the connection was reset while it stood in the backlog
        got = result(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    while (got == -EINTR || got == -ECONNABORTED);
    return got;
}

int mare__socket_family(int fd)
{
    int family = AF_UNSPEC;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    return family;
}

int mare__socket_address(int fd, bool peer, struct mare__address *address)
{
    address->length = sizeof address->storage;
    struct sockaddr *out = (struct sockaddr *)&address->storage;
    return result(peer ? getpeername(fd, out, &address->length)
                       : getsockname(fd, out, &address->length));
}

// ---- In words -----------------------------------------------------------------------------------

enum { NAMED = MARE__HOST_MAX + 16 };

// "127.0.0.1:4000", "[::1]:4000", a path. False: it has no name.
static bool write_name(int fd, bool peer, char name[NAMED])
{
    struct mare__address address;
    char host[MARE__HOST_MAX];
    if (mare__socket_address(fd, peer, &address) != 0)
        return false;
    int port = mare__address_text(&address, host);
    if (port < 0)
        snprintf(name, NAMED, "%s", host);
    else
        snprintf(name, NAMED, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return *host;
}

static int option(int fd, int number)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, number, &value, &size) == 0 ? value : 0;
}

// One that is being connected, or was reset.
static bool is_unconnected(int fd)
{
    struct mare__address address;
    return mare__socket_address(fd, true, &address) == -ENOTCONN;
}

// One that is no socket.
static void describe_other(int fd, const char *what, char text[MARE__DESCRIBED])
{
    struct stat facts = {0};
    fstat(fd, &facts);
    snprintf(text, MARE__DESCRIBED, "%s %s (descriptor %d)", what,
             S_ISFIFO(facts.st_mode)  ? "a pipe"
             : isatty(fd)             ? "a terminal"
             : S_ISCHR(facts.st_mode) ? "a device"
                                      : "a file",
             fd);
}

void mare__socket_describe(int fd, bool writes, char text[MARE__DESCRIBED])
{
    mare__takes_long();
    const char *what = writes ? "to write to" : "to read from";
    char name[NAMED];
    int type = option(fd, SO_TYPE);
    if (!type)
        describe_other(fd, what, text);
    else if (type == SOCK_DGRAM && write_name(fd, false, name))
        snprintf(text, MARE__DESCRIBED, "%s the datagram socket at %s", what, name);
    else if (type == SOCK_DGRAM)
        snprintf(text, MARE__DESCRIBED, "%s a datagram socket (descriptor %d)", what, fd);
    else if (write_name(fd, true, name))
        snprintf(text, MARE__DESCRIBED, "%s the stream %s", what, name);
    else if (option(fd, SO_ACCEPTCONN) && write_name(fd, false, name))
        snprintf(text, MARE__DESCRIBED, "to accept at %s", name);
    else if (writes && is_unconnected(fd))
        snprintf(text, MARE__DESCRIBED, "for a connection (descriptor %d)", fd);
    else if (write_name(fd, false, name)) // the peer of a Unix-domain socket seldom has a name
        snprintf(text, MARE__DESCRIBED, "%s the stream at %s", what, name);
    else
        snprintf(text, MARE__DESCRIBED, "%s a stream (descriptor %d)", what, fd);
}

// ---- Bytes --------------------------------------------------------------------------------------

ssize_t mare__socket_read(int fd, void *bytes, size_t size)
{
    ssize_t got;
    do
        if ((got = recv(fd, bytes, size, MSG_DONTWAIT)) < 0 && errno == ENOTSOCK)
            got = read(fd, bytes, size);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t mare__socket_read_into(int fd, struct iovec *pieces, int count)
{
    ssize_t got;
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    do
        if ((got = recvmsg(fd, &message, MSG_DONTWAIT)) < 0 && errno == ENOTSOCK)
            got = readv(fd, pieces, count);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

// A write that nobody will read, without the flag against it, makes a signal that would end the
// program. The signal goes to this thread, so it can be held back and taken here.
struct quiet {
    sigset_t pipe, before;
    bool was_pending;
};

static void be_quiet(struct quiet *quiet)
{
    sigset_t pending;
    sigemptyset(&quiet->pipe);
    sigaddset(&quiet->pipe, SIGPIPE);
    sigpending(&pending);
    quiet->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &quiet->pipe, &quiet->before);
}

// Returns what it is given: the number of bytes, or -1, with errno as it was. The peer may have
// gone when some were written already: then there is a signal and no error.
static ssize_t was_quiet(const struct quiet *quiet, ssize_t wrote, size_t size)
{
    static const struct timespec now = {0, 0};
    int err = errno;
    bool gone = wrote < 0 ? err == EPIPE : (size_t)wrote < size;
    if (gone && !quiet->was_pending)
        while (sigtimedwait(&quiet->pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    errno = err;
    return wrote;
}

// To a pipe, or a terminal.
static ssize_t write_quietly(int fd, struct iovec *pieces, int count)
{
    struct quiet quiet;
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    be_quiet(&quiet);
    return was_quiet(&quiet, writev(fd, pieces, count), size);
}

ssize_t mare__socket_send_file(int fd, int file, size_t size)
{
    struct quiet quiet;
    ssize_t sent;
    do {
        be_quiet(&quiet);
        sent = was_quiet(&quiet, sendfile(fd, file, NULL, size), size);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t mare__socket_write(int fd, struct iovec *pieces, int count, bool more)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t sent;
    do {
        sent = count == 1 ? send(fd, pieces->iov_base, pieces->iov_len, flags)
                          : sendmsg(fd, &message, flags);
        if (sent < 0 && errno == ENOTSOCK)
            sent = write_quietly(fd, pieces, count);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static bool is_loopback(const struct mare__address *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;
    if (four->sin_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (six->sin6_family != AF_INET6)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

// On the way through this machine nothing is ever waiting for an answer, so a long queue gains
// nothing; but with many connections what is queued was written so long ago that whoever reads it
// fetches it from memory. Measured in docs/decisions/226-what-a-request-costs.md.
void mare__socket_keep_little(int fd)
{
    enum { KEPT = 256 << 10 }; // the system doubles it, for its own records
    int set = 0, kept = KEPT;  // which buffers have a size that somebody has set
    socklen_t size = sizeof set;
    struct mare__address peer;
    if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &set, &size) == 0 && !(set & SOCK_SNDBUF_LOCK) &&
        mare__socket_address(fd, true, &peer) == 0 && is_loopback(&peer))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kept, sizeof kept);
}

int mare__socket_shutdown(int fd, enum mare__half half)
{
    static const int hows[] = {
        [MARE__HALF_RECEIVE] = SHUT_RD, [MARE__HALF_SEND] = SHUT_WR, [MARE__HALF_BOTH] = SHUT_RDWR};
    return result(shutdown(fd, hows[half]));
}

const size_t mare__socket_look_scratch = sizeof(struct pollfd);

int mare__socket_look(struct mare__look *looks, size_t count, void *scratch)
{
    static const short events[] = {
        [MARE__LOOK_READ] = POLLIN, [MARE__LOOK_WRITE] = POLLOUT, [MARE__LOOK_LEAVE] = POLLRDHUP};
    struct pollfd *polls = scratch;
    for (size_t i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = looks[i].fd, .events = events[looks[i].what]};
    int got;
    do
        got = poll(polls, count, 0);
    while (got < 0 && errno == EINTR);
    for (size_t i = 0; i < count; i++)
        if (looks[i].fd >= 0)
            looks[i].ready = got > 0 && polls[i].revents != 0;
    return result(got);
}

bool mare__descriptors_left(int count)
{
    int fds[8], made = 0;
    assert(count <= (int)(sizeof fds / sizeof *fds));
    while (made < count && (fds[made] = eventfd(0, EFD_CLOEXEC)) >= 0)
        made++;
    bool enough = made == count;
    while (made > 0)
        close(fds[--made]);
    return enough;
}

int mare__flag_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd < 0 ? -1 : fd;
}

void mare__flag_raise(int fd)
{
    mare__takes_long();
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one); // full: it is raised
    (void)written;
}

void mare__flag_lower(int fd)
{
    mare__takes_long();
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count); // empty: it is lowered
    (void)got;
}

void mare__socket_close(int fd)
{
    close(fd);
}

int mare__socket_copy(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

int mare__device_open(const char *path)
{
    int flags = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = open(path, O_RDWR | flags);
    if (fd < 0 && (errno == EACCES || errno == EROFS))
        fd = open(path, O_RDONLY | flags);
    return fd < 0 ? -errno : fd;
}

ssize_t mare__device_read(int fd, void *bytes, size_t size)
{
    ssize_t got;
    do
        got = read(fd, bytes, size);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

int mare__host_name(char name[MARE__HOST_MAX])
{
    return result(gethostname(name, MARE__HOST_MAX));
}
