// SPDX-License-Identifier: MIT
// Watching signals. The handler may do little: for each watch that wants the signal it sets a bit
// and writes to the watch's descriptor, an eventfd. Watches stand in a table of fixed size, so that
// the handler needs no lock. To take one out, wait until no handler is looking at the table.
#include "platform/signal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/terminal.h"

static const struct {
    const char *name;
    int number;
} names[] = {
    {"SIGHUP", SIGHUP},       {"SIGINT", SIGINT},       {"SIGQUIT", SIGQUIT},
    {"SIGILL", SIGILL},       {"SIGTRAP", SIGTRAP},     {"SIGABRT", SIGABRT},
    {"SIGBUS", SIGBUS},       {"SIGFPE", SIGFPE},       {"SIGKILL", SIGKILL},
    {"SIGUSR1", SIGUSR1},     {"SIGSEGV", SIGSEGV},     {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE},     {"SIGALRM", SIGALRM},     {"SIGTERM", SIGTERM},
    {"SIGSTKFLT", SIGSTKFLT}, {"SIGCHLD", SIGCHLD},     {"SIGCONT", SIGCONT},
    {"SIGSTOP", SIGSTOP},     {"SIGTSTP", SIGTSTP},     {"SIGTTIN", SIGTTIN},
    {"SIGTTOU", SIGTTOU},     {"SIGURG", SIGURG},       {"SIGXCPU", SIGXCPU},
    {"SIGXFSZ", SIGXFSZ},     {"SIGPROF", SIGPROF},     {"SIGWINCH", SIGWINCH},
    {"SIGIO", SIGIO},         {"SIGVTALRM", SIGVTALRM}, {"SIGPWR", SIGPWR},
    {"SIGSYS", SIGSYS},
};

int mare__signal_number(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0 || strcmp(names[i].name + 3, name) == 0)
            return names[i].number;
    return 0;
}

const char *mare__signal_name(int number)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

int mare__signal_send(long process, int number)
{
    return kill((pid_t)process, number) == 0 ? 0 : -errno;
}

const char *mare__signal_refusal(int number)
{
    switch (number) {
    case SIGKILL:
    case SIGSTOP:
        return "the system lets nobody watch it";
    case SIGURG:
        return "it is used to share the processors among processes";
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGSYS:
        return "it tells of a fault after which the program cannot go on";
    default:
        return NULL;
    }
}

// ---- Watching -----------------------------------------------------------------------------------

enum { SIGNALS = 64 };

// Static, as the dispositions of signals are: there is one set for the whole program.
static struct watch {
    atomic_int fd;         // 0: a free place. (A watch is never standard input.)
    atomic_ullong set;     // signals that it wants
    atomic_ullong pending; // those that have come
} watches[MARE__SIGNAL_LISTENERS];

static atomic_uint looking;                                 // handlers that are
static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static unsigned watchers[SIGNALS];
static struct sigaction before[SIGNALS];

static void on_signal(int number)
{
    static const uint64_t one = 1;
    int saved = errno;
    atomic_fetch_add(&looking, 1);
    for (int i = 0; i < MARE__SIGNAL_LISTENERS; i++) {
        struct watch *watch = &watches[i];
        int fd = atomic_load(&watch->fd);
        if (fd <= 0 || !(atomic_load(&watch->set) >> number & 1))
            continue;
        atomic_fetch_or(&watch->pending, UINT64_C(1) << number);
        if (write(fd, &one, sizeof one) < 0)
            continue; // it is full, and so readable
    }
    atomic_fetch_sub(&looking, 1);
    errno = saved;
}

// One more, or one less, watches the signal.
static void count(int number, int by)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    bool was = watchers[number] > 0;
    watchers[number] += (unsigned)by;
    if (!was)
        sigaction(number, &action, &before[number]);
    else if (watchers[number] == 0)
        mare__terminal_give_back(number, &before[number]);
}

static void count_all(uint64_t set, int by)
{
    for (int number = 1; number < SIGNALS; number++)
        if (set >> number & 1)
            count(number, by);
}

static struct watch *find(int fd)
{
    for (int i = 0; i < MARE__SIGNAL_LISTENERS; i++)
        if (atomic_load(&watches[i].fd) == fd)
            return &watches[i];
    return NULL;
}

int mare__signal_listen(uint64_t set)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fd == 0) { // there is no standard input, and its number means a free place
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int err = errno;
        close(0);
        if (fd < 0)
            return -err;
    }
    pthread_mutex_lock(&changes);
    struct watch *watch = find(0);
    if (watch) {
        atomic_store(&watch->pending, 0);
        atomic_store(&watch->set, set);
        atomic_store(&watch->fd, fd);
        count_all(set, 1);
    }
    pthread_mutex_unlock(&changes);
    if (watch)
        return fd;
    close(fd);
    return -ENOSPC;
}

// The descriptor is emptied only after none was seen, and then they are looked at again: one that
// comes in between is seen, or leaves the descriptor readable.
static int take(int fd, struct watch *watch)
{
    uint64_t times, set;
    while ((set = atomic_load(&watch->pending)) == 0)
        if (read(fd, &times, sizeof times) < 0)
            return 0;
    int number = __builtin_ctzll(set);
    atomic_fetch_and(&watch->pending, ~(UINT64_C(1) << number));
    return number;
}

int mare__signal_take(int fd)
{
    pthread_mutex_lock(&changes); // so that its place does not become another's
    struct watch *watch = find(fd);
    int number = watch ? take(fd, watch) : 0;
    pthread_mutex_unlock(&changes);
    return number;
}

void mare__signal_forget(int fd)
{
    pthread_mutex_lock(&changes);
    struct watch *watch = find(fd);
    if (watch) {
        count_all(atomic_load(&watch->set), -1);
        atomic_store(&watch->fd, 0);
    }
    pthread_mutex_unlock(&changes);
    // One that has seen the descriptor may be about to write to it.
    while (watch && atomic_load(&looking) > 0)
        sched_yield();
}
