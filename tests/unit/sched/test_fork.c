// SPDX-License-Identifier: MIT
// The child of a fork has the runtime's memory but none of its threads. Whatever it calls, it gets
// an answer at once, and it can end; a lock that some thread held at the moment of the fork is held
// for ever in the child.
#include <sys/wait.h>
#include <unistd.h>

#include "runtime.h"
#include "sched/sched.h"

static struct {
    mare_runtime *runtime;
    mare_process *process;
    mare_channel *channel, *named;
    mare_message *message;
} all;

// A call made in the child: 0 when the answer was right.
typedef int child_call(void);

static int make_runtime(void **state)
{
    (void)state;
    all.runtime = run_start(2);
    all.channel = run_channel(all.runtime, 1);
    assert_int_equal(mare_chan_create(all.runtime, 1, "named", &all.named), MARE_OK);
    all.process = run_spawn(all.runtime, "while true do require 'mare'.yield() end", NULL);
    all.message = run_message();
    mare_message_add_integer(all.message, 1);
    return 0;
}

static int end_runtime(void **state)
{
    (void)state;
    mare_message_destroy(all.message);
    mare_process_unref(all.process);
    mare_chan_close(all.named);
    mare_chan_unref(all.named);
    mare_chan_unref(all.channel);
    mare_stop(all.runtime);
    return 0;
}

static bool is_child;

// LeakSanitizer stops all threads before it looks for leaks, and waits in vain for those that a
// child does not have: it looks in the parent.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

// A child's fault is its own: cmocka's handlers would make another test program of it.
static void become_child(unsigned seconds)
{
    is_child = true;
    static const int faults[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL);
    alarm(seconds * unit_slow());
}

// Runs it in a child; a child that hangs is ended by an alarm.
static void in_child(child_call *call)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        become_child(60);
        _exit(call());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the child died of signal %d%s", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int call_send(void)
{
    return mare_chan_send(all.channel, all.message) != MARE_STOPPED ||
           mare_chan_send_until(all.channel, all.message, MARE_FOREVER) != MARE_STOPPED ||
           mare_chan_try_send(all.channel, all.message) != MARE_STOPPED;
}

static int call_receive(void)
{
    mare_message *got;
    return mare_chan_receive(all.channel, &got) != MARE_STOPPED ||
           mare_chan_receive_until(all.channel, &got, MARE_FOREVER) != MARE_STOPPED ||
           mare_chan_try_receive(all.channel, &got) != MARE_STOPPED;
}

static int call_spawn(void)
{
    mare_process *process;
    return mare_spawn(all.runtime, "return 1", 8, NULL, NULL, &process, NULL) != MARE_STOPPED;
}

static int call_process(void)
{
    mare_message *result;
    return mare_process_join_until(all.process, MARE_FOREVER, &result) != MARE_STOPPED ||
           mare_process_kill(all.process) || mare_process_id(all.process) == 0;
}

static int call_create(void)
{
    mare_channel *channel;
    return mare_chan_create(all.runtime, 0, NULL, &channel) != MARE_STOPPED;
}

static int call_find(void)
{
    mare_channel *channel = NULL;
    return mare_chan_find(all.runtime, "named", &channel) != MARE_STOPPED;
}

static int call_close(void)
{
    mare_chan_close(all.channel);
    mare_chan_close(all.named);
    return 0;
}

static int call_unref(void)
{
    mare_process_unref(all.process);
    mare_chan_unref(all.channel);
    return 0;
}

static int call_settings(void)
{
    mare_set_recycle(all.runtime, 5);
    return mare_set_workers(all.runtime, 4) != MARE_STOPPED;
}

static int call_wait(void)
{
    return mare_wait_until(all.runtime, MARE_FOREVER) != MARE_STOPPED;
}

static int call_stop(void)
{
    mare_stop(all.runtime);
    return 0;
}

static int call_exit(void)
{
    exit(0); // with handlers and all
}

// A runtime of its own is a child's right.
static int call_start(void)
{
    mare_runtime *runtime;
    mare_process *process;
    if (mare_start(NULL, &runtime) != MARE_OK)
        return 1;
    if (mare_spawn(runtime, "return 1", 8, NULL, NULL, &process, NULL) != MARE_OK)
        return 2;
    if (mare_process_join_until(process, run_soon(runtime), NULL) != MARE_OK)
        return 3;
    mare_process_unref(process);
    mare_stop(runtime);
    return 0;
}

static child_call *const calls[] = {call_send,   call_receive,  call_spawn, call_process,
                                    call_create, call_find,     call_close, call_unref,
                                    call_wait,   call_settings, call_stop};

#define SINGLE(name)                                                                               \
    static void child_##name(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        in_child(call_##name);                                                                     \
    }

SINGLE(send)
SINGLE(receive)
SINGLE(spawn)
SINGLE(process)
SINGLE(create)
SINGLE(find)
SINGLE(close)
SINGLE(unref)
SINGLE(settings)
SINGLE(wait)
SINGLE(stop)
SINGLE(exit)

// AddressSanitizer does not hold its own locks across a fork, so a thread that allocates or starts
// just then leaves the child without malloc: there the workers sleep meanwhile.
static void child_start(void **state)
{
    (void)state;
    if (__asan_init) {
        mare_process_kill(all.process);
        while (atomic_load(&all.runtime->idle_count) < 2)
            usleep(100);
    }
    in_child(call_start);
}

// The same with every lock held, as if threads of the runtime had been interrupted in the
// middle of something.
static void locks_held_at_the_fork_do_not_matter(void **state)
{
    (void)state;
    mare__lock *locks[] = {&all.channel->lock,         &all.named->lock,
                           &all.process->lock,         &all.runtime->inbox_lock,
                           &all.runtime->recycle_lock, &all.runtime->timer_lock};
    enum { LOCKS = sizeof locks / sizeof *locks };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int k = 0; k < LOCKS; k++)
            mare__lock_acquire(locks[k]);
        pthread_mutex_lock(&all.runtime->worker_mutex);
        pid_t child = fork();
        if (child == 0) {
            become_child(60);
            _exit(calls[i]());
        }
        pthread_mutex_unlock(&all.runtime->worker_mutex);
        for (int k = 0; k < LOCKS; k++)
            mare__lock_release(locks[k]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status))
            fail_msg("call number %zu hung", i);
    }
}

static void the_parent_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(call_send());
        run_true(all.runtime, "return true", NULL);
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

// ThreadSanitizer does not support children of programs with threads: they hang in its own locks.
static int not_under_tsan(void **state)
{
    (void)state;
    if (__tsan_init)
        unit_skip_all("ThreadSanitizer does not support fork in programs with threads");
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_runtime, end_runtime)

UNIT_TESTS_WITH(not_under_tsan, NULL, CASE(child_send), CASE(child_receive), CASE(child_spawn),
                CASE(child_process), CASE(child_create), CASE(child_find), CASE(child_close),
                CASE(child_unref), CASE(child_settings), CASE(child_wait), CASE(child_stop),
                CASE(child_exit), CASE(child_start), CASE(locks_held_at_the_fork_do_not_matter),
                CASE(the_parent_goes_on))
