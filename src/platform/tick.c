// SPDX-License-Identifier: MIT
// The live tick: a POSIX timer whose signal goes to one thread. The signal is SIGURG: ignored by
// default, so that one in flight while a handler is being removed does no harm, and hardly used by
// programs (the Go runtime chose it for the same reasons). SA_RESTART keeps it from interrupting
// most system calls that C libraries make.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/live.h"
#include "platform/lock.h"

#define TICK_SIGNAL SIGURG

static _Thread_local struct {
    void (*handler)(void *);
    void *argument;
} mine __attribute__((tls_model("initial-exec"))); // read in a handler: no allocation there

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    unsigned held = mare__begin_handler();
    if (mine.handler)
        mine.handler(mine.argument);
    mare__end_handler(held);
    errno = saved;
}

int mare__live_tick_init(void *context, struct mare__tick *tick, void (*handler)(void *),
                         void *argument)
{
    (void)context;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(TICK_SIGNAL, &action, NULL) != 0)
        return errno;
    mine.argument = argument;
    atomic_signal_fence(memory_order_seq_cst); // the argument before the handler that reads it
    mine.handler = handler;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK_SIGNAL};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    tick->period_ns = 0;
    tick->made = timer_create(CLOCK_MONOTONIC, &event, &tick->timer) == 0;
    return tick->made ? 0 : errno;
}

void mare__live_tick_set(void *context, struct mare__tick *tick, uint64_t period_ns)
{
    (void)context;
    enum { NS_PER_S = 1000000000 };
    // What a worker had left to its next tick when it went to sleep it has left when it goes on: so
    // ticks meet those who run for a moment at a time too, as often as they deserve.
    uint64_t first_ns = tick->left_ns > 0 && tick->left_ns < period_ns ? tick->left_ns : period_ns;
    struct itimerspec spec = {
        .it_interval = {(time_t)(period_ns / NS_PER_S), (long)(period_ns % NS_PER_S)},
        .it_value = {(time_t)(first_ns / NS_PER_S), (long)(first_ns % NS_PER_S)}};
    struct itimerspec before = {0};
    tick->period_ns = period_ns;
    if (tick->made)
        timer_settime(tick->timer, 0, &spec, &before);
    tick->left_ns = (uint64_t)before.it_value.tv_sec * NS_PER_S + (uint64_t)before.it_value.tv_nsec;
}

void mare__live_tick_fini(void *context, struct mare__tick *tick)
{
    (void)context;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, TICK_SIGNAL);
    pthread_sigmask(SIG_BLOCK, &set, NULL); // one may be on its way to a thread that is ending
    mine.handler = NULL;
    if (tick->made)
        timer_delete(tick->timer);
    tick->made = false;
    tick->period_ns = 0;
}
