// SPDX-License-Identifier: MIT
// The pool of threads for what blocks: who runs when, what is told, and what becomes of a job that
// nobody waits for, or that outlives its runtime. Jobs here stand before a gate, for as long as a
// case likes.
#include "loop/job.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime.h"

// ---- A gate -------------------------------------------------------------------------------------

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open;
    unsigned inside, most, made, begun, ended, dropped, lost;
    char name[16];
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// A thread that has told of a job's end is done with it a little later, perhaps after the case: it
// is to count for no other.
static int setup(void **state)
{
    (void)state;
    pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    while (gate.ended < gate.made)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.open = false;
    gate.inside = gate.most = gate.made = gate.begun = gate.ended = gate.dropped = gate.lost = 0;
    pthread_mutex_unlock(&gate.mutex);
    return 0;
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void await(const unsigned *count, unsigned value)
{
    pthread_mutex_lock(&gate.mutex);
    while (*count < value)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

static unsigned look(const unsigned *count)
{
    pthread_mutex_lock(&gate.mutex);
    unsigned value = *count;
    pthread_mutex_unlock(&gate.mutex);
    return value;
}

static void count(unsigned *count)
{
    pthread_mutex_lock(&gate.mutex);
    ++*count;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void pass_gate(struct mare__job *job)
{
    pthread_mutex_lock(&gate.mutex);
    gate.begun++;
    gate.inside++;
    gate.most = gate.inside > gate.most ? gate.inside : gate.most;
    pthread_getname_np(pthread_self(), gate.name, sizeof gate.name);
    pthread_cond_broadcast(&gate.changed);
    while (!gate.open)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.inside--;
    pthread_mutex_unlock(&gate.mutex);
    if (mare__job_is_lost(job))
        count(&gate.lost);
}

static void drop(struct mare__job *job)
{
    (void)job;
    count(&gate.dropped);
}

static void end(struct mare__job *job)
{
    mare__free(job);
    count(&gate.ended);
}

// A job that is waited for by one who sleeps elsewhere.
static struct mare__job *make(mare_runtime *runtime, enum mare__lane lane)
{
    struct mare__job *job = mare__alloc_zero(sizeof *job);
    assert_non_null(job);
    assert_true(mare__job_init(job, runtime, lane, pass_gate, end));
    job->drop = drop;
    count(&gate.made);
    return job;
}

static struct mare__job *begin(mare_runtime *runtime, enum mare__lane lane)
{
    struct mare__job *job = make(runtime, lane);
    assert_true(mare__job_start(job));
    mare__job_expect(job);
    return job;
}

static void finish(mare_runtime *runtime, struct mare__job *job)
{
    mare_message *message = NULL;
    assert_int_equal(mare_chan_receive_until(job->done, &message, run_soon(runtime)), MARE_CLOSED);
    assert_true(mare__job_is_over(job));
    mare__job_leave(job);
    mare__unref(&job->object);
}

// ---- Running ------------------------------------------------------------------------------------

static void a_job_runs_elsewhere_and_is_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *job = begin(runtime, MARE__LANE_FILES);
    await(&gate.begun, 1);
    assert_string_equal(gate.name, "mare-job");
    assert_false(mare__job_is_over(job));
    assert_false(mare__job_is_lost(job));
    open_gate();
    finish(runtime, job);
    await(&gate.ended, 1);
    assert_int_equal(look(&gate.dropped), 0);
    mare_stop(runtime);
}

enum { AT_WORK = 16 }; // as in job.c

static void so_many_run_at_once_and_no_more(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *jobs[3 * AT_WORK];
    for (int i = 0; i < 3 * AT_WORK; i++)
        jobs[i] = begin(runtime, MARE__LANE_FILES);
    await(&gate.inside, AT_WORK);
    open_gate();
    for (int i = 0; i < 3 * AT_WORK; i++)
        finish(runtime, jobs[i]);
    assert_int_equal(look(&gate.begun), 3 * AT_WORK);
    assert_int_equal(look(&gate.most), AT_WORK);
    mare_stop(runtime);
}

static void one_kind_does_not_wait_for_another(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *names[AT_WORK + 1], *file;
    for (int i = 0; i <= AT_WORK; i++)
        names[i] = begin(runtime, MARE__LANE_RESOLVE);
    await(&gate.inside, AT_WORK);
    file = begin(runtime, MARE__LANE_FILES);
    await(&gate.inside, AT_WORK + 1);
    open_gate();
    for (int i = 0; i <= AT_WORK; i++)
        finish(runtime, names[i]);
    finish(runtime, file);
    mare_stop(runtime);
}

static void threads_are_used_again(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    open_gate();
    for (int i = 0; i < 2000; i++)
        finish(runtime, begin(runtime, i % 2 ? MARE__LANE_FILES : MARE__LANE_RESOLVE));
    assert_int_equal(look(&gate.begun), 2000);
    mare_stop(runtime);
}

// How many threads of this program have that name.
static unsigned threads_called(const char *name)
{
    unsigned found = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], has[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "r"); // it may have ended meanwhile
        if (comm && fgets(has, sizeof has, comm))
            has[strcspn(has, "\n")] = '\0';
        if (comm)
            fclose(comm);
        found += strcmp(has, name) == 0;
    }
    closedir(tasks);
    return found;
}

static void idle_threads_end_after_a_while(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *jobs[5];
    for (int round = 0; round < 2; round++) {
        setup(state);
        for (int i = 0; i < 5; i++)
            jobs[i] = begin(runtime, MARE__LANE_FILES);
        await(&gate.inside, 5);
        assert_true(threads_called("mare-job") >= 5);
        open_gate();
        for (int i = 0; i < 5; i++)
            finish(runtime, jobs[i]);
        while (threads_called("mare-job") > 0) // a test that waits for ever is ended
            usleep(10000);
    }
    mare_stop(runtime);
}

// ---- Leaving ------------------------------------------------------------------------------------

static void a_job_that_everybody_left_is_lost_and_counts_no_more(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *stuck[AT_WORK];
    for (int i = 0; i < AT_WORK; i++)
        stuck[i] = begin(runtime, MARE__LANE_FILES);
    await(&gate.inside, AT_WORK);
    struct mare__job *next = begin(runtime, MARE__LANE_FILES); // waits for a thread
    mare__job_leave(stuck[0]);
    await(&gate.inside, AT_WORK + 1); // and has one
    assert_true(mare__job_is_lost(stuck[0]));
    mare__job_expect(stuck[0]); // somebody waits again
    assert_false(mare__job_is_lost(stuck[0]));
    for (int i = 1; i < AT_WORK; i++)
        mare__unref(&stuck[i]->object); // as a process that was killed
    open_gate();
    finish(runtime, next);
    finish(runtime, stuck[0]);
    await(&gate.ended, AT_WORK + 1);
    assert_int_equal(look(&gate.lost), AT_WORK - 1);
    assert_int_equal(look(&gate.dropped), 0);
    mare_stop(runtime);
}

static void a_job_left_in_line_is_never_begun(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *stuck[AT_WORK], *left, *killed;
    for (int i = 0; i < AT_WORK; i++)
        stuck[i] = begin(runtime, MARE__LANE_FILES);
    await(&gate.inside, AT_WORK);
    left = begin(runtime, MARE__LANE_FILES);
    killed = begin(runtime, MARE__LANE_FILES);
    mare__job_leave(left);
    assert_true(mare__job_is_over(left));
    mare__unref(&left->object);
    mare__unref(&killed->object);
    assert_int_equal(look(&gate.ended), 2);
    assert_int_equal(look(&gate.dropped), 2);
    open_gate();
    for (int i = 0; i < AT_WORK; i++)
        finish(runtime, stuck[i]);
    assert_int_equal(look(&gate.begun), AT_WORK);
    mare_stop(runtime);
}

// A program that waits for a job is not stuck; one whose jobs nobody waits for may be.
static void those_who_wait_are_counted(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *job = begin(runtime, MARE__LANE_RESOLVE);
    assert_int_equal(atomic_load(&runtime->own_busy), 1);
    mare__job_expect(job);
    assert_int_equal(atomic_load(&runtime->own_busy), 1);
    mare__job_leave(job);
    assert_int_equal(atomic_load(&runtime->own_busy), 1);
    await(&gate.begun, 1);
    mare__job_leave(job);
    assert_int_equal(atomic_load(&runtime->own_busy), 0);
    mare__job_expect(job);
    assert_int_equal(atomic_load(&runtime->own_busy), 1);
    open_gate();
    finish(runtime, job);
    while (atomic_load(&runtime->own_busy) > 0) // who waits is told first
        mare__pause();
    mare_stop(runtime);
}

// ---- The end ------------------------------------------------------------------------------------

static void a_runtime_does_not_wait_for_a_stuck_job(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__job *job = begin(runtime, MARE__LANE_RESOLVE);
    await(&gate.begun, 1);
    mare__unref(&job->object);
    mare_stop(runtime);
    assert_int_equal(look(&gate.ended), 0);
    open_gate(); // only now, and the job finds no runtime
    await(&gate.ended, 1);
}

static void what_stands_in_line_at_the_end_is_still_done(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    for (int i = 0; i < AT_WORK + 5; i++) {
        struct mare__job *job = make(runtime, MARE__LANE_FILES);
        assert_true(mare__job_start(job)); // nobody ever waits for it
        mare__unref(&job->object);
    }
    await(&gate.inside, AT_WORK);
    mare_stop(runtime);
    open_gate();
    await(&gate.ended, AT_WORK + 5);
    assert_int_equal(look(&gate.begun), AT_WORK + 5);
}

static void posted(void *argument)
{
    count(argument);
}

static void functions_are_called_before_and_after_the_end(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct mare__jobs *jobs = mare__jobs_ref(mare__jobs_of(runtime));
    for (int i = 0; i < 100; i++)
        mare__jobs_post(jobs, MARE__LANE_FILES, posted, &gate.ended);
    await(&gate.ended, 100);
    mare_stop(runtime);
    mare__jobs_post(jobs, MARE__LANE_FILES, posted, &gate.ended);
    assert_int_equal(look(&gate.ended), 101); // by this thread
    mare__jobs_unref(jobs);
}

static void starts_and_ends_with_jobs_under_way(void **state)
{
    (void)state;
    open_gate();
    for (unsigned round = 1; round <= 50; round++) {
        mare_runtime *runtime = run_start(1);
        for (int i = 0; i < 8; i++)
            mare__unref(&begin(runtime, i % 2 ? MARE__LANE_FILES : MARE__LANE_RESOLVE)->object);
        mare_stop(runtime);
        await(&gate.ended, round * 8);
    }
}

static void want_of_memory_is_said(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    open_gate();
    bool made = false;
    for (long n = 1; !made; n++) {
        struct mare__job *job = mare__alloc_zero(sizeof *job);
        mare__alloc_fail_after(n);
        made = mare__job_init(job, runtime, MARE__LANE_FILES, pass_gate, end);
        mare__alloc_fail_after(0);
        if (!made) {
            mare__free(job);
            continue;
        }
        assert_true(n > 1);
        assert_true(mare__job_start(job));
        mare__job_expect(job);
        finish(runtime, job);
    }
    mare__alloc_fail_after(1); // a function is called all the same
    mare__jobs_post(mare__jobs_of(runtime), MARE__LANE_FILES, posted, &gate.ended);
    mare__alloc_fail_after(0);
    await(&gate.ended, 2);
    mare_stop(runtime);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

UNIT_TESTS(CASE(a_job_runs_elsewhere_and_is_told), CASE(so_many_run_at_once_and_no_more),
           CASE(one_kind_does_not_wait_for_another), CASE(threads_are_used_again),
           CASE(idle_threads_end_after_a_while),
           CASE(a_job_that_everybody_left_is_lost_and_counts_no_more),
           CASE(a_job_left_in_line_is_never_begun), CASE(those_who_wait_are_counted),
           CASE(a_runtime_does_not_wait_for_a_stuck_job),
           CASE(what_stands_in_line_at_the_end_is_still_done),
           CASE(functions_are_called_before_and_after_the_end),
           CASE(starts_and_ends_with_jobs_under_way), CASE(want_of_memory_is_said))
