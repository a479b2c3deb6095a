// SPDX-License-Identifier: MIT
// The live platform: clock, parking and threads on Linux. Parking is a futex: a thread sleeps
// there, or elsewhere; or a wake is stored.
#include "platform/platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/file.h"
#include "platform/live.h"
#include "platform/lock.h"
#include "platform/loop.h"
#include "platform/resolve.h"
#include "platform/wall.h"

#define NS_PER_S 1000000000u

enum { EMPTY, ASLEEP, ELSEWHERE, TOKEN };

static uint64_t read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t live_now_ns(void *context)
{
    (void)context;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t live_thread_time_ns(void *context)
{
    (void)context;
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t live_cpu_time_ns(void *context)
{
    (void)context;
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t live_random(void *context)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = live_now_ns(context) ^ (uint64_t)getpid() << 32;
    return number;
}

void mare__yield_thread(void)
{
    sched_yield();
}

long mare__os_process(void)
{
    return getpid();
}

unsigned mare__cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

void mare__lock_contended(mare__lock *lock)
{
    for (;;) {
        for (int i = 0; i < 64; i++) {
            mare__pause();
            // Relaxed: only a hint; mare__lock_try has the acquire.
            if (atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
                mare__lock_try(lock))
                return;
        }
        sched_yield(); // the holder may have lost its processor
    }
}

void mare__say(const char *text, size_t length)
{
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written; // there is nobody else to tell
}

bool mare__barrier_is_asymmetric;

static void ask_once(void)
{
    mare__barrier_is_asymmetric =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void mare__barrier_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_once);
}

void mare__barrier_everywhere(void)
{
    mare__takes_long();
    if (mare__barrier_is_asymmetric)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

bool mare__park(struct mare__parker *parker, uint64_t deadline)
{
    mare__takes_long();
    struct timespec at, *limit = NULL;
    if (deadline != MARE_FOREVER) {
        at.tv_sec = (time_t)(deadline / NS_PER_S);
        at.tv_nsec = (long)(deadline % NS_PER_S);
        limit = &at;
    }
    for (;;) {
        unsigned seen = EMPTY;
        if (!atomic_compare_exchange_strong(&parker->word, &seen, ASLEEP) && seen == TOKEN) {
            atomic_store(&parker->word, EMPTY);
            return true;
        }
        long r = syscall(SYS_futex, &parker->word, FUTEX_WAIT_BITSET_PRIVATE, ASLEEP, limit, NULL,
                         FUTEX_BITSET_MATCH_ANY);
        bool expired = r < 0 && errno == ETIMEDOUT;
        if (expired || atomic_load(&parker->word) == TOKEN)
            return atomic_exchange(&parker->word, EMPTY) == TOKEN;
    }
}

void mare__unpark(struct mare__parker *parker)
{
    mare__takes_long();
    unsigned was = atomic_exchange(&parker->word, TOKEN);
    int saved = errno; // a signal handler must leave it alone
    if (was == ASLEEP)
        syscall(SYS_futex, &parker->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    else if (was == ELSEWHERE)
        parker->bell(parker->bell_argument);
    errno = saved;
}

bool mare__parker_woken(struct mare__parker *parker)
{
    unsigned seen = TOKEN;
    return atomic_compare_exchange_strong(&parker->word, &seen, EMPTY);
}

bool mare__park_elsewhere(struct mare__parker *parker)
{
    unsigned seen = EMPTY;
    if (atomic_compare_exchange_strong(&parker->word, &seen, ELSEWHERE))
        return true;
    atomic_store(&parker->word, EMPTY);
    return false;
}

void mare__park_return(struct mare__parker *parker)
{
    atomic_store(&parker->word, EMPTY);
}

_Thread_local void *mare__thread_data;

int mare__thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *argument)
{
    mare__takes_long();
    int err = pthread_create(thread, NULL, main, argument);
    if (err == 0)
        pthread_setname_np(*thread, name);
    return err;
}

int mare__thread_start_apart(const char *name, void *(*main)(void *), void *argument)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // which the new thread has from its maker
    int err = mare__thread_start(&thread, name, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        pthread_detach(thread);
    return err;
}

void mare__library_keep(uintptr_t address)
{
    Dl_info info;
    if (!dladdr((const void *)address, &info) || !info.dli_fname)
        return;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (library)
        dlclose(library); // the mark stays
}

static void (*taken)(int number);

static void on_taken(int number)
{
    int saved = errno;
    unsigned held = mare__begin_handler();
    taken(number);
    mare__end_handler(held);
    errno = saved;
}

void mare__signals_take(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = on_taken, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    taken = handler;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

// ---- As a platform ------------------------------------------------------------------------------

static void live_read_wall(void *context, struct mare__wall *wall)
{
    (void)context;
    mare__wall_read(wall);
}

static bool live_park(void *context, struct mare__parker *parker, uint64_t deadline)
{
    (void)context;
    return mare__park(parker, deadline);
}

static void *serve(void *argument)
{
    struct mare__runner *runner = argument;
    runner->serve(runner->argument);
    return NULL;
}

static int live_start(void *context, struct mare__runner *runner)
{
    (void)context;
    pthread_t thread;
    bool is_detached = runner->is_detached; // once it runs it may be gone
    int err = mare__thread_start(&thread, runner->name, serve, runner);
    if (err == 0 && is_detached)
        pthread_detach(thread);
    else if (err == 0)
        runner->thread = thread;
    return err;
}

static void live_join(void *context, struct mare__runner *runner)
{
    mare__takes_long();
    (void)context;
    pthread_join(runner->thread, NULL);
}

static int live_start_apart(void *context, const char *name, void *(*main)(void *), void *argument)
{
    (void)context;
    return mare__thread_start_apart(name, main, argument);
}

const struct mare__platform mare__platform_live = {
    .now_ns = live_now_ns,
    .random = live_random,
    .read_wall = live_read_wall,
    .thread_time_ns = live_thread_time_ns,
    .cpu_time_ns = live_cpu_time_ns,
    .park = live_park,
    .loops = &mare__loops_live,
    .names = &mare__names_live,
    .files = &mare__files_live,
    .start = live_start,
    .join = live_join,
    .start_apart = live_start_apart,
    .tick_init = mare__live_tick_init,
    .tick_set = mare__live_tick_set,
    .tick_fini = mare__live_tick_fini,
};
