// SPDX-License-Identifier: MIT
// Preemption: a tick on the worker's own thread, only while it runs something. When another waits,
// the handler sets a count hook on the running coroutine; the hook yields. Code that is never
// interrupted never pays for it.
#include "sched/preempt.h"

#include "sched/libraries.h"
#include "sched/local.h"
#include "sched/profile.h"
#include "sched/routine.h"
#include "sched/runtime.h"
#include "sched/state.h"
#include "sched/worker.h"

// It was killed where it cannot yield: an error takes it out of there. No pcall of Lua code stops
// that error (see stdlib.c). Handlers of <close> on its way have their time before the next tick
// raises it again. The lua_pcall of a C function can stop it; but from the third time on every
// instruction raises it.
static void throw_kill(lua_State *L, struct mare__local *process)
{
    if ((process->winding_up || process->throws > 0) &&
        process->worker->age_ns < MARE__WIND_UP_NS && !mare__is_out_of_time(process))
        return; // armed in a C function before that began: a handler has its time
    if (mare__is_out_of_time(process)) {
        mare__hook_arm(process, L);
    } else {
        process->throws++;
        process->worker->age_ns = 0; // so has the next handler
    }
    mare__hooks_again(L);
    mare__kill_throw(L);
}

void mare__give_way(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    bool only_sampled = process->only_sampled;
    process->only_sampled = false;
    if (atomic_load_explicit(&process->shared.runtime->profile, memory_order_acquire))
        mare__profile_take(L, process);
    mare__stuck_heard(L, process);
    if (only_sampled && !mare__killed(process))
        return;
    if (mare__routine_is_main(process) && mare__local_heed(process)) {
        mare__hooks_again(L);
        luaL_error(L, "interrupted!");
    }
    if (L != process->current || process->unyieldable || process->winding_up ||
        !lua_isyieldable(L)) {
        if (mare__killed(process))
            throw_kill(L, process);
        return; // left to finish; the next tick tries again
    }
    mare__count(&process->worker->counters.preemptions);
    // Only an interrupt makes one routine give way to another: to the main one, whose it is.
    struct mare__pool *pool = atomic_load_explicit(&process->pool, memory_order_relaxed);
    bool interrupted = pool && atomic_load(&pool->main.sleep.wait.note);
    process->yield = interrupted ? MARE__YIELD_TURN : MARE__YIELD_SLICE;
    lua_yield(L, 0);
}

// An idle worker is woken from a signal handler: no lock but by trying; next tick if it is held,
// perhaps by the code under this very handler.
static void wake_one_from_handler(mare_runtime *runtime)
{
    if (!mare__lock_try(&runtime->idle_lock))
        return;
    struct mare__list *entry = mare__list_first(&runtime->idle);
    struct mare__worker *idle = entry ? MARE__ENTRY(entry, struct mare__worker, idle) : NULL;
    mare__lock_release(&runtime->idle_lock);
    if (idle)
        mare__unpark(&idle->parker); // it finds itself still listed, and takes itself off
}

// The process that has the worker has grown older by a whole period. But what it is charged with is
// only the processor time that the thread had, for the machine may have run something else; and if
// others had turns since the last tick too, only an equal part of that. Else the one that a tick
// happens to meet would pay for all of them.
static void grow_older(struct mare__worker *worker)
{
    uint64_t now_ns = mare__thread_time_ns(worker->runtime), period_ns = worker->tick.period_ns;
    uint64_t had_ns = now_ns - worker->burnt_till;
    uint64_t before_ns = worker->age_ns > 0 ? worker->burnt_ns : 0; // 0: a new turn
    // Relaxed: only this thread counts.
    unsigned long turn = atomic_load_explicit(&worker->counters.switches, memory_order_relaxed);
    unsigned long begun = turn - worker->ticked_turn; // since the last tick
    uint64_t most_ns = period_ns * (1 + worker->missed_ticks);
    had_ns = had_ns < most_ns ? had_ns : most_ns;
    worker->missed_ticks = 0;
    // All of it to the one that the tick meets: on the average that is right. Relaxed: a figure.
    struct mare__local *process = worker->running;
    if (process) {
        atomic_fetch_add_explicit(&process->cpu_ns, had_ns, memory_order_relaxed);
        process->unsampled_ns = process->unsampled_ns + had_ns;
    }
    worker->burnt_ns = before_ns + (begun > 1 ? had_ns / begun : had_ns);
    worker->burnt_till = now_ns;
    worker->ticked_turn = turn;
    worker->age_ns = worker->age_ns + period_ns;
}

// A tick has come: whether the turn of the process that runs is over. On the worker's own thread;
// perhaps in a signal handler.
static bool ends_turn(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    struct mare__local *process = worker->running;
    worker->ticked = 1;
    grow_older(worker);
    uint64_t next = atomic_load_explicit(&runtime->next_deadline, memory_order_relaxed);
    // One that serves a single process has nobody to serve beside it.
    bool wanted =
        worker->index < MARE__WORKERS_MAX &&
        (mare__others_wait(worker) || mare__ready_common(runtime) || atomic_load(&worker->quit) ||
         (next != MARE_FOREVER && next <= mare__now(runtime)));
    // What is watched here nobody else can look at, idle or not.
    struct mare__lookout *lookout = mare__lookout_in(worker);
    bool stuck = worker->age_ns > 2 * MARE__SLICE_NS; // it did not give way when it was asked to
    bool idle = atomic_load(&runtime->idle_count) > 0;
    if (wanted && (idle || stuck)) {
        if (!worker->taking && atomic_load_explicit(&worker->slot, memory_order_relaxed))
            atomic_store(&worker->slot_shared, true);
        mare__tasks_share(worker);
    }
    if (wanted && idle)
        wake_one_from_handler(runtime);
    if (!process)
        return false;
    struct mare__pool *pool = atomic_load_explicit(&process->pool, memory_order_relaxed);
    if (lookout && stuck && atomic_load(&runtime->attendant.started) &&
        !atomic_exchange(&lookout->unattended, true))
        mare__unpark(&runtime->attendant.parker);
    // Routines of its own that are ready are no reason: they share variables, and a turn among them
    // ends only where one waits or yields.
    bool over = wanted || lookout;
    if (mare__ready_common_turn(worker) && worker->ticks_left > 1) { // a longer one
        worker->ticks_left = worker->ticks_left - 1;
        over = false;
    }
    if (process->winding_up || process->throws > 0) // a killed one has time, but not for ever
        over = mare__killed(process) &&
               (worker->age_ns >= MARE__WIND_UP_NS || mare__is_out_of_time(process));
    else if (atomic_load(&process->sleep.wait.note) ||
             (pool && atomic_load(&pool->main.sleep.wait.note))) // killed, or interrupted
        over = true;
    return over;
}

// Lua sets a hook by walking over all calls that are active. With a million of them that takes
// longer than a tick, and if each tick did it, nothing else would be done. So the process gets
// several times as much processor time as that took before it is done again.
static void arm(struct mare__worker *worker, struct mare__local *process)
{
    enum { TIMES = 8 };
    if (process->unarmed_ns > worker->tick.period_ns) {
        process->unarmed_ns = process->unarmed_ns - worker->tick.period_ns;
        return;
    }
    mare__hook_arm(process, process->current);
    process->unarmed_ns = TIMES * (mare__thread_time_ns(worker->runtime) - worker->burnt_till);
}

// In a signal handler.
void mare__on_tick(void *argument)
{
    struct mare__worker *worker = argument;
    if (worker->resting) { // longer than it expected: see pause_tick
        worker->missed_ticks = worker->missed_ticks + 1;
        mare__worker_tick(worker, 0);
        return;
    }
    bool over = ends_turn(worker);
    struct mare__local *process = worker->running;
    if (!process)
        return;
    bool sampled = atomic_load(&worker->runtime->profile);
    sampled |= mare__stuck_watch(worker, process);
    if (over)
        process->only_sampled = false;
    else if (sampled && !process->armed)
        process->only_sampled = true;
    if (over || sampled)
        arm(worker, process);
}

// Where instructions are counted instead.
static void on_count(lua_State *L, lua_Debug *event)
{
    struct mare__worker *worker = mare__self(L)->worker;
    const struct mare__platform *platform = &worker->runtime->platform;
    (void)event;
    if (platform->counted(platform->context, &worker->tick) && ends_turn(worker))
        mare__give_way(L);
}

void mare__hook_rest(const struct mare__local *process, lua_State *L)
{
    int count = process->shared.runtime->platform.instructions;
    lua_sethook(L, count ? on_count : NULL, count ? LUA_MASKCOUNT : 0, count);
}
