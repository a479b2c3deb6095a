// SPDX-License-Identifier: MIT
// Children without Lua: memory and descriptors that run out at every point of a start, and the end
// of a runtime that still has some.
#include "loop/child.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime.h"

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static int start(mare_runtime *runtime, char **arguments, bool detached, struct mare__child **child)
{
    struct mare__spawning spawning = {.arguments = arguments, .session = detached};
    struct mare__child_stream streams[MARE__CHILD_STREAMS] = {
        {.use = MARE__CHILD_PIPE}, {.use = MARE__CHILD_PIPE}, {.use = MARE__CHILD_INHERITS}};
    struct mare__launch *launch;
    int err = mare__launch_new(runtime, &spawning, streams, &launch);
    if (err)
        return err;
    mare__job_expect(&launch->job);
    err = mare__job_start(&launch->job) ? 0 : -ENOMEM;
    if (!err) {
        while (!mare__job_is_over(&launch->job)) // a wait in a channel would need memory
            sched_yield();
        err = mare__launch_take(launch, child);
    }
    mare__job_leave(&launch->job);
    mare__unref(&launch->job.object);
    return err;
}

static struct mare__child *must_start(mare_runtime *runtime, char **arguments, bool detached)
{
    struct mare__child *child = NULL;
    assert_int_equal(start(runtime, arguments, detached, &child), 0);
    if (!child)
        abort(); // what reads this code does not know that an assert does not return
    return child;
}

// One way or the other, every child is reaped.
static void assert_no_children(void)
{
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void await(mare_runtime *runtime, struct mare__child *child)
{
    mare_message *message = NULL;
    assert_int_equal(mare_chan_receive_until(child->ended, &message, run_soon(runtime)),
                     MARE_CLOSED);
}

static char *TRUE[] = {"true", NULL};
static char *SLEEP[] = {"sleep", "1000", NULL};
static char *NOTHING[] = {"/nowhere", NULL};

static void a_child_ends_and_tells_how(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__child *child;
    int code;
    assert_int_equal(start(runtime, TRUE, false, &child), 0);
    await(runtime, child);
    assert_int_equal(mare__child_outcome(child, &code), MARE__CHILD_EXITED);
    assert_int_equal(code, 0);
    assert_int_equal(mare__child_send(child, SIGTERM), -ESRCH);
    mare__unref(&child->object);
    assert_no_children();
    mare_stop(runtime);
}

static void without_memory(void **state)
{
    (void)state;
    for (int warm = 0; warm < 2;
         warm++) { // the loop of the worker is made by the first, or is there
        mare_runtime *runtime = run_start(1);
        struct mare__child *child;
        if (warm) {
            assert_int_equal(start(runtime, TRUE, false, &child), 0);
            await(runtime, child);
            mare__unref(&child->object);
        }
        int failures = 0, err;
        long n = 1;
        do {
            mare__alloc_fail_after(n++);
            err = start(runtime, TRUE, false, &child);
            mare__alloc_fail_after(0);
            failures += err != 0;
            if (err)
                assert_int_equal(err, -ENOMEM);
            else
                await(runtime, child), mare__unref(&child->object);
        } while (err);
        assert_true(failures > 3);
        assert_no_children();
        mare_stop(runtime);
    }
}

static void without_descriptors(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__child *child;
    assert_int_equal(start(runtime, TRUE, false, &child), 0);
    await(runtime, child);
    mare__unref(&child->object);
    struct rlimit before, limit;
    getrlimit(RLIMIT_NOFILE, &before);
    int failures = 0, err, highest = dup(0);
    close(highest);
    for (int room = 0; room < 16; room++) {
        limit = before;
        limit.rlim_cur = (rlim_t)highest + (rlim_t)room;
        setrlimit(RLIMIT_NOFILE, &limit);
        err = start(runtime, TRUE, false, &child);
        setrlimit(RLIMIT_NOFILE, &before);
        failures += err != 0;
        if (err)
            assert_int_equal(err, -EMFILE);
        else
            await(runtime, child), mare__unref(&child->object);
    }
    assert_in_range(failures, 3, 15);
    assert_no_children();
    mare_stop(runtime);
}

static void nothing_is_left_of_a_start_that_fails(void **state)
{
    (void)state;
    int before = descriptors();
    mare_runtime *runtime = run_start(1);
    struct mare__child *child;
    for (int i = 0; i < 100; i++)
        assert_int_equal(start(runtime, NOTHING, false, &child), -ENOENT);
    assert_no_children();
    mare_stop(runtime); // until then a thread of jobs may hold the last of them
    assert_int_equal(descriptors(), before);
}

static struct mare__launch *launch_sleeper(mare_runtime *runtime)
{
    struct mare__spawning spawning = {.arguments = SLEEP};
    struct mare__child_stream streams[MARE__CHILD_STREAMS] = {{.use = MARE__CHILD_PIPE}};
    struct mare__launch *launch;
    assert_int_equal(mare__launch_new(runtime, &spawning, streams, &launch), 0);
    mare__job_expect(&launch->job);
    assert_true(mare__job_start(&launch->job));
    return launch;
}

// Whoever asked for it is gone: before, while or after it is started.
static void what_nobody_takes_is_killed(void **state)
{
    (void)state;
    mare_message *message = NULL;
    for (int i = 0; i < 20; i++) {
        int before = descriptors();
        mare_runtime *runtime = run_start(1);
        struct mare__launch *launch = launch_sleeper(runtime);
        if (i % 2)
            assert_int_equal(mare_chan_receive_until(launch->job.done, &message, run_soon(runtime)),
                             MARE_CLOSED);
        mare__unref(&launch->job.object); // as a process that was killed lets go of it
        mare_stop(runtime);               // waits for one that is under way
        int status;
        while (waitpid(-1, &status, 0) > 0) // it may be dead, and not yet buried
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_no_children();
        while (descriptors() > before)
            sched_yield();
    }
}

static void the_end_of_the_runtime_ends_children(void **state)
{
    (void)state;
    int before = descriptors();
    mare_runtime *runtime = run_start(2);
    pid_t pid;
    for (int i = 0; i < 5; i++) {
        struct mare__child *kept = must_start(runtime, SLEEP, false);
        if (i % 2)
            mare__child_terminate(kept); // else by letting go of it
        mare__unref(&kept->object);
    }
    struct mare__child *detached = must_start(runtime, SLEEP, true);
    pid = detached->pid;
    mare__unref(&detached->object);
    mare_stop(runtime);
    assert_int_equal(kill(pid, SIGKILL), 0); // it was left alone
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_no_children();
    assert_int_equal(descriptors(), before);
}

UNIT_TESTS(cmocka_unit_test(a_child_ends_and_tells_how), cmocka_unit_test(without_memory),
           cmocka_unit_test(without_descriptors),
           cmocka_unit_test(nothing_is_left_of_a_start_that_fails),
           cmocka_unit_test(what_nobody_takes_is_killed),
           cmocka_unit_test(the_end_of_the_runtime_ends_children))
