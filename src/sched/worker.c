// SPDX-License-Identifier: MIT
// Workers: threads that run ready processes, in the order in which they became ready.
//
// Each worker has a slot and a queue. A process that becomes ready while the queue is empty goes
// into the slot (no lock: two processes that talk to each other never touch one); otherwise to the
// end of the queue. The slot is always older than the queue, so the order is kept. What becomes
// ready on a foreign thread goes to the inbox, which every worker looks at. A worker with nothing
// to do takes half of another's queue, or a slot that nobody has served for a tick
// (a worker that has no tick uses no slot).
//
//     ready (same worker) -> [slot] or [queue]  --+
//     ready (foreign)     -> [inbox] -------------+--> run -> wait | turn over | end
//     other workers       -> steal ---------------+
//
// Sleep and wake: a worker announces itself as idle, then looks once more everywhere, then sleeps.
// Whoever adds work that another could do looks at the idle count after adding. One of the two
// always sees the other.
//
// Preemption: a tick on the worker's own thread, only while it runs something. When a process has
// had its slice and another waits, the handler sets a count hook on the running coroutine; the hook
// yields. Code that is never interrupted never pays for it.
#include <stdio.h>

#include "sched/block.h"
#include "sched/libraries.h"
#include "sched/process.h"
#include "sched/routine.h"
#include "sched/runtime.h"
#include "sched/state.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "sched/worker.h"

// ---- Queues -------------------------------------------------------------------------------------

static void append(mare_process **head, mare_process **tail, mare_process *process)
{
    process->next = NULL;
    if (*head)
        (*tail)->next = process;
    else
        *head = process;
    *tail = process;
}

static unsigned length_of(const atomic_uint *length)
{
    // Relaxed: a hint; who acts on it takes the lock.
    return atomic_load_explicit(length, memory_order_relaxed);
}

static void add_length(atomic_uint *length, int change)
{
    // Relaxed, and no read-modify-write: under the lock of the queue.
    atomic_store_explicit(length, length_of(length) + (unsigned)change, memory_order_relaxed);
}

static void wake_one(mare_runtime *runtime)
{
    if (atomic_load(&runtime->idle_count) == 0)
        return;
    mare__lock_acquire(&runtime->idle_lock);
    struct mare__list *entry = mare__list_first(&runtime->idle);
    struct mare__worker *worker = entry ? MARE__ENTRY(entry, struct mare__worker, idle) : NULL;
    if (worker) {
        mare__list_remove(entry);
        worker->is_idle = false;
        atomic_fetch_sub(&runtime->idle_count, 1);
    }
    mare__lock_release(&runtime->idle_lock);
    if (worker)
        mare__unpark(&worker->parker);
}

void mare__workers_wake(mare_runtime *runtime)
{
    atomic_thread_fence(memory_order_seq_cst); // added, then looks: pairs with the fence in go_idle
    wake_one(runtime);
}

void mare__workers_look(mare_runtime *runtime)
{
    struct mare__worker *worker = mare__this_worker();
    if (!worker || worker->runtime != runtime)
        wake_one(runtime);
}

// Under the lock.
static void enqueue(struct mare__worker *worker, mare_process *process)
{
    append(&worker->head, &worker->tail, process);
    add_length(&worker->length, 1);
}

static void queue_push(struct mare__worker *worker, mare_process *process)
{
    mare__lock_acquire(&worker->lock);
    enqueue(worker, process);
    mare__lock_release(&worker->lock);
}

static void inbox_push(mare_runtime *runtime, mare_process *process)
{
    mare__lock_acquire(&runtime->inbox_lock);
    append(&runtime->inbox_head, &runtime->inbox_tail, process);
    add_length(&runtime->inbox_length, 1);
    mare__lock_release(&runtime->inbox_lock);
}

static void own_ready(struct mare__worker *own, mare_process *process)
{
    atomic_fetch_add(&own->runtime->own_busy, 1); // so that nobody takes it for a deadlock
    mare__lock_acquire(&own->lock);
    enqueue(own, process);
    mare__unpark(&own->parker); // under the lock: who takes it out may end with it, and free `own`
    mare__lock_release(&own->lock);
}

// Into a queue, where others see it.
static __attribute__((noinline)) void ready_in_queue(mare_process *process)
{
    mare_runtime *runtime = process->runtime;
    struct mare__worker *worker = mare__this_worker();
    if (process->own) {
        own_ready(process->own, process);
        return;
    }
    if (worker && worker->runtime == runtime)
        queue_push(worker, process);
    else
        inbox_push(runtime, process);
    mare__workers_wake(runtime);
}

// It runs next: what it will touch comes into the cache while the one before it ends its turn.
static inline void fetch(const mare_process *process)
{
    enum { LINE = 64, STATE_LINES = 3 };
    if (!process->routine) // it has not begun
        return;
    for (int i = 0; i < STATE_LINES; i++)
        __builtin_prefetch((const char *)process->routine + i * LINE);
    __builtin_prefetch(process->known[0]);
    __builtin_prefetch(process->known[1]);
}

void mare__ready(mare_process *process)
{
    struct mare__worker *worker = mare__this_worker();
    atomic_store_explicit(&process->status, MARE__READY, memory_order_relaxed); // for those who ask
    // Relaxed: only this thread fills its slot; emptying it is an exchange.
    if (worker && worker->runtime == process->runtime && !process->own &&
        length_of(&worker->length) == 0 && worker->tick.made &&
        !atomic_load_explicit(&worker->slot, memory_order_relaxed)) {
        fetch(process);
        // Release: pairs with the exchange of whoever takes it. Nobody is woken: this worker will
        // be free for it before that.
        atomic_store_explicit(&worker->slot, process, memory_order_release);
    } else
        ready_in_queue(process);
}

// By a thief, or by the owner when thieves may be about: under the lock, where alone a shared slot
// stops being shared.
static mare_process *take_shared_slot(struct mare__worker *worker)
{
    mare_process *process = NULL;
    mare__lock_acquire(&worker->lock);
    if (atomic_load_explicit(&worker->slot_shared, memory_order_relaxed)) {
        // Acquire: pairs with the release in mare__ready.
        process = atomic_load_explicit(&worker->slot, memory_order_acquire);
        atomic_store_explicit(&worker->slot, NULL, memory_order_relaxed);
        // Release: pairs with the acquire in take_slot: an owner who sees this sees the slot empty.
        atomic_store_explicit(&worker->slot_shared, false, memory_order_release);
    }
    mare__lock_release(&worker->lock);
    return process;
}

// By the owner, without a lock. Only the tick, on this same thread, lets others touch the slot, and
// it does not while `taking` is set; so as long as it has not, the slot is the owner's alone.
static mare_process *take_slot(struct mare__worker *worker)
{
    if (!atomic_load_explicit(&worker->slot, memory_order_relaxed))
        return NULL;
    worker->taking = 1;
    atomic_signal_fence(memory_order_seq_cst);
    mare_process *process;
    // Acquire: pairs with the release above.
    if (atomic_load_explicit(&worker->slot_shared, memory_order_acquire)) {
        process = take_shared_slot(worker);
    } else {
        process = atomic_load_explicit(&worker->slot, memory_order_relaxed);
        atomic_store_explicit(&worker->slot, NULL, memory_order_relaxed);
    }
    atomic_signal_fence(memory_order_seq_cst);
    worker->taking = 0;
    return process;
}

static mare_process *queue_pop(struct mare__worker *worker)
{
    if (length_of(&worker->length) == 0)
        return NULL;
    mare__lock_acquire(&worker->lock);
    mare_process *process = worker->head;
    if (process) {
        worker->head = process->next;
        add_length(&worker->length, -1);
    }
    mare__lock_release(&worker->lock);
    return process;
}

static mare_process *inbox_pop(mare_runtime *runtime)
{
    if (length_of(&runtime->inbox_length) == 0)
        return NULL;
    mare__lock_acquire(&runtime->inbox_lock);
    mare_process *process = runtime->inbox_head;
    if (process) {
        runtime->inbox_head = process->next;
        add_length(&runtime->inbox_length, -1);
    }
    mare__lock_release(&runtime->inbox_lock);
    return process;
}

// Takes the older half of a queue; returns its first and keeps the others.
static mare_process *steal_from(struct mare__worker *thief, struct mare__worker *victim)
{
    mare_process *first = NULL, *last = NULL;
    unsigned taken = 0;
    if (length_of(&victim->length) > 0) {
        mare__lock_acquire(&victim->lock);
        unsigned want = (length_of(&victim->length) + 1) / 2;
        first = last = victim->head;
        for (taken = first != NULL; taken > 0 && taken < want; taken++)
            last = last->next;
        if (first) {
            victim->head = last->next;
            last->next = NULL;
            add_length(&victim->length, -(int)taken);
        }
        mare__lock_release(&victim->lock);
    }
    if (!first && atomic_load(&victim->slot_shared))
        return take_shared_slot(victim);
    if (!first || taken == 1)
        return first;
    mare__lock_acquire(&thief->lock); // empty until here: nobody but its owner fills it
    thief->head = first->next;
    thief->tail = last;
    add_length(&thief->length, (int)taken - 1);
    mare__lock_release(&thief->lock);
    return first;
}

static mare_process *steal(struct mare__worker *thief)
{
    mare_runtime *runtime = thief->runtime;
    for (unsigned i = 1; i < MARE__WORKERS_MAX; i++) {
        struct mare__worker *victim = runtime->workers[(thief->index + i) % MARE__WORKERS_MAX];
        if (!victim && thief->index + i < MARE__WORKERS_MAX) {
            i = MARE__WORKERS_MAX - thief->index - 1; // workers fill the array from its start
            continue;
        }
        mare_process *process = victim ? steal_from(thief, victim) : NULL;
        if (process) {
            mare__count(&thief->counters.steals);
            return process;
        }
    }
    return NULL;
}

// ---- The tick -----------------------------------------------------------------------------------

static bool others_wait(const struct mare__worker *worker)
{
    return length_of(&worker->length) > 0 || length_of(&worker->runtime->inbox_length) > 0 ||
           atomic_load_explicit(&worker->slot, memory_order_relaxed) != NULL ||
           mare__tasks_wait(worker);
}

// It was killed where it cannot yield: an error takes it out of there. No pcall of Lua code stops
// that error (see stdlib.c), and handlers of <close> on its way have their time. A C function's
// lua_pcall may stop it; from the third time on, every instruction raises it again.
static void throw_kill(lua_State *L, mare_process *process)
{
    enum { PATIENCE = 2 };
    if ((process->winding_up || process->throws > 0) &&
        process->worker->age < MARE__WIND_UP_TICKS && process->throws <= PATIENCE)
        return;               // armed in a C function before that began: a handler has its time
    process->worker->age = 0; // so has the next handler
    if (process->throws <= PATIENCE)
        process->throws++;
    else
        lua_sethook(L, mare__give_way_hook, LUA_MASKCOUNT, 1);
    mare__kill_throw(L);
}

void mare__give_way(lua_State *L)
{
    mare_process *process = mare__self(L);
    if (mare__routine_is_main(process) && mare__process_heed(process))
        luaL_error(L, "interrupted!");
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

// Runs at the next instruction after the tick has armed it.
void mare__give_way_hook(lua_State *L, lua_Debug *event)
{
    (void)event;
    lua_sethook(L, NULL, 0, 0);
    mare__give_way(L);
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

// What this worker watches beside the queues, or NULL when there is nothing now.
static struct mare__lookout *lookout_in(const struct mare__worker *worker)
{
    struct mare__lookout *lookout = atomic_load_explicit(&worker->lookout, memory_order_acquire);
    return lookout && (length_of(&lookout->busy) > 0 || atomic_load(&lookout->called)) ? lookout
                                                                                       : NULL;
}

// In a signal handler, on the worker's own thread.
static void on_tick(void *argument)
{
    struct mare__worker *worker = argument;
    mare_runtime *runtime = worker->runtime;
    mare_process *process = worker->running;
    worker->ticked = 1;
    worker->age = worker->age + 1;
    uint64_t next = atomic_load_explicit(&runtime->next_deadline, memory_order_relaxed);
    bool wanted = others_wait(worker) || (next != MARE_FOREVER && next <= mare__now(runtime));
    // What is watched here nobody else can look at, idle or not.
    bool looks = lookout_in(worker) != NULL;
    if (wanted && atomic_load(&runtime->idle_count) > 0) {
        if (!worker->taking && atomic_load_explicit(&worker->slot, memory_order_relaxed))
            atomic_store(&worker->slot_shared, true);
        mare__tasks_share(worker);
        wake_one_from_handler(runtime);
    }
    if (!process)
        return;
    struct mare__pool *pool = atomic_load_explicit(&process->pool, memory_order_relaxed);
    struct mare__lookout *lookout = looks ? lookout_in(worker) : NULL;
    if (lookout &&
        worker->age > 2 * MARE__SLICE_TICKS && // it did not give way when it was asked to
        atomic_load(&runtime->attendant.started) && !atomic_exchange(&lookout->unattended, true))
        mare__unpark(&runtime->attendant.parker);
    // Routines of its own that are ready are no reason: they share variables, and a turn among them
    // ends only where one waits or yields.
    bool over = (wanted || looks) && worker->age >= MARE__SLICE_TICKS;
    if (process->winding_up || process->throws > 0) // a killed one has time, but not for ever
        over = mare__killed(process) && worker->age >= MARE__WIND_UP_TICKS;
    else if (atomic_load(&process->sleep.wait.note) ||
             (pool && atomic_load(&pool->main.sleep.wait.note))) // killed, or interrupted
        over = true;
    if (over)
        mare__hook_arm(process);
}

// ---- Running ------------------------------------------------------------------------------------

// So many routines of a process may run after each other, none of them for long, before another
// process that waits has its turn.
enum { TURNS_OF_ROUTINES = 16 };

// Whether others shall have the worker, now that the process that has it could go on: those that
// wait here, and with each tick the timers and what is watched.
static bool is_wanted(const struct mare__worker *worker)
{
    return others_wait(worker) || worker->ticked || !worker->tick.made;
}

// Gives the process the worker until it waits, its turn is over or it ends.
static inline __attribute__((always_inline)) void run(struct mare__worker *worker,
                                                      mare_process *process)
{
    int arguments = 0, results = 0, turns = 0;
    process->worker = worker;
    mare__count(&process->slices);
    mare__count(&worker->counters.switches);
    for (;;) {
        if (process->pool && !mare__pool_next(process, &arguments))
            return;
        if (mare__killed(process)) {
            mare__process_finish(process, LUA_YIELD, 0);
            return;
        }
        if (!process->state && !mare__process_start(process, &arguments))
            return;
        process->yield = MARE__YIELD_BY_PROGRAM;
        atomic_store_explicit(&process->status, MARE__RUNNING, memory_order_relaxed); // as above
        worker->age = 0;
        worker->running = process;
        int status = lua_resume(process->routine, NULL, arguments, &results);
        worker->running = NULL;
        arguments = 0;
        if (process->pool) {
            if (!mare__pool_back(process, &status, &results)) {
                mare__process_finish(process, status, results);
                return;
            }
            bool whole = process->yield != MARE__YIELD_WAIT || ++turns >= TURNS_OF_ROUTINES;
            if (worker->ticked || (whole && (is_wanted(worker) || lookout_in(worker)))) {
                // After a tick in any case: a timer may be due, or the worker may be to leave.
                mare__ready(process);
                return;
            }
            continue;
        }
        if (status != LUA_YIELD) {
            mare__process_finish(process, status, results);
            return;
        }
        if (results > 0)
            lua_pop(process->state, results);
        if (process->yield != MARE__YIELD_WAIT) {
            mare__ready(process);
            return;
        }
        atomic_store_explicit(&process->status, MARE__BLOCKED,
                              memory_order_relaxed); // for those who ask
        if (mare__sleep_commit(process, &process->sleep))
            return;
        if (is_wanted(worker)) { // it need not wait, but had its turn: a loop of selects is one
            mare__ready(process);
            return;
        }
    }
}

// The oldest ready process that this worker can find.
static inline mare_process *find(struct mare__worker *worker)
{
    mare_process *outside = inbox_pop(worker->runtime);
    if (outside)
        queue_push(worker, outside); // after what waits here already, before what comes later
    mare_process *process = take_slot(worker);
    return process ? process : queue_pop(worker);
}

static bool work_anywhere(mare_runtime *runtime)
{
    if (length_of(&runtime->inbox_length) > 0 || mare__tasks_anywhere(runtime))
        return true;
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++) {
        struct mare__worker *worker = runtime->workers[i];
        if (length_of(&worker->length) > 0 ||
            (atomic_load(&worker->slot_shared) && atomic_load(&worker->slot)))
            return true;
    }
    return false;
}

// The same for who only looks: a process in the slot of a worker that has yet to leave idleness
// too.
static bool ready_anywhere(mare_runtime *runtime)
{
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        if (atomic_load(&runtime->workers[i]->slot))
            return true;
    return work_anywhere(runtime) || mare__tasks_are_ready(runtime);
}

static void leave_idle(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    mare__lock_acquire(&runtime->idle_lock);
    if (worker->is_idle) {
        mare__list_remove(&worker->idle);
        worker->is_idle = false;
        atomic_fetch_sub(&runtime->idle_count, 1);
    }
    mare__lock_release(&runtime->idle_lock);
}

// ---- Watching -----------------------------------------------------------------------------------

// A busy worker looks at what it watches every so many runs, and with every tick.
enum { RUNS_BETWEEN_LOOKS = 32 };

static void look(struct mare__worker *worker)
{
    struct mare__lookout *lookout = lookout_in(worker);
    worker->runs = 0;
    if (lookout)
        lookout->wait(lookout, 0);
}

static bool anything_looked_for(mare_runtime *runtime)
{
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        if (lookout_in(runtime->workers[i]))
            return true;
    return false;
}

// What a worker that was dismissed has not come to goes to the inbox; and somebody else looks at
// the timers, for this one may have started one that nobody has looked at.
static void hand_over(struct mare__worker *worker)
{
    mare_process *left;
    mare__thread_data = NULL; // so that what it makes ready goes there
    while ((left = take_slot(worker)) != NULL || (left = queue_pop(worker)) != NULL)
        mare__ready(left);
    mare__tasks_hand_over(worker);
    wake_one(worker->runtime);
}

// A worker that was dismissed but watches something stays for that, unless the runtime stops.
static void only_watch(struct mare__worker *worker)
{
    struct mare__lookout *lookout;
    mare__tick_stop(&worker->tick);
    hand_over(worker);
    while (atomic_load(&worker->quit) && !atomic_load(&worker->runtime->stopping) &&
           (lookout = lookout_in(worker)) != NULL)
        lookout->wait(lookout, MARE_FOREVER);
    mare__tick_start(&worker->tick, MARE__TICK_NS);
    mare__thread_data = worker;
}

// ---- Idleness -----------------------------------------------------------------------------------

// Sleeps until there may be something to do.
static void go_idle(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    mare__tick_stop(&worker->tick);
    mare__lock_acquire(&runtime->idle_lock);
    mare__list_append(&runtime->idle, &worker->idle);
    worker->is_idle = true;
    unsigned idle = atomic_fetch_add(&runtime->idle_count, 1) + 1;
    mare__lock_release(&runtime->idle_lock);
    atomic_thread_fence(
        memory_order_seq_cst); // announced, then looks: pairs with the fence in mare__ready
    if (!work_anywhere(runtime) && !atomic_load(&worker->quit)) {
        if (idle >= atomic_load(&runtime->worker_alive) && atomic_load(&runtime->waiters) > 0 &&
            atomic_load(&runtime->timer_count) == 0 && !anything_looked_for(runtime) &&
            atomic_load(&runtime->own_busy) == 0)
            mare__runtime_changed(runtime);
        struct mare__lookout *lookout = lookout_in(worker);
        uint64_t deadline = atomic_load(&runtime->next_deadline);
        if (lookout)
            lookout->wait(lookout, deadline ? deadline : 1);
        else
            mare__park(&worker->parker, deadline);
    }
    leave_idle(worker);
    mare__tick_start(&worker->tick, MARE__TICK_NS);
}

bool mare__workers_stuck(mare_runtime *runtime)
{
    // Under the lock that a worker needs before it looks at timers or queues again.
    mare__lock_acquire(&runtime->idle_lock);
    // A lookout makes ready what it was waited for, and only then has less to watch: in that order.
    bool stuck = atomic_load(&runtime->idle_count) >= atomic_load(&runtime->worker_alive) &&
                 atomic_load(&runtime->timer_count) == 0 && !anything_looked_for(runtime) &&
                 !ready_anywhere(runtime) && atomic_load(&runtime->own_busy) == 0;
    mare__lock_release(&runtime->idle_lock);
    return stuck;
}

// Looks a few times before it sleeps: a wake through the kernel costs more than a short wait.
static mare_process *find_or_steal(struct mare__worker *worker)
{
    for (int i = 0; i < MARE__SPINS; i++) {
        mare__timer_expire(worker->runtime, mare__now(worker->runtime));
        if (mare__tasks_wait(worker)) // they come first
            return NULL;
        mare_process *process = find(worker);
        if (!process)
            process = steal(worker);
        if (process || atomic_load(&worker->quit) || mare__tasks_steal(worker))
            return process;
        mare__pause();
    }
    return NULL;
}

// Leaves if it still should; under the lock, so that whoever wants it back can tell whether it is
// too late.
static bool retire(struct mare__worker *worker)
{
    mare__lock_acquire(&worker->lock);
    bool leaves = atomic_load(&worker->quit);
    worker->alive = !leaves;
    mare__lock_release(&worker->lock);
    return leaves;
}

static void work(struct mare__worker *worker)
{
    while (!atomic_load_explicit(&worker->quit, memory_order_relaxed)) {
        if (worker->ticked || !worker->tick.made) {
            worker->ticked = 0;
            mare__timer_expire(worker->runtime, mare__now(worker->runtime));
            look(worker);
        } else if (++worker->runs >= RUNS_BETWEEN_LOOKS) {
            look(worker);
        }
        mare__tasks_run(worker);
        mare_process *process = find(worker);
        if (!process && worker->lookout) {
            look(worker);
            mare__tasks_run(worker);
            process = find(worker);
        }
        if (!process)
            process = find_or_steal(worker);
        if (process)
            run(worker, process);
        else if (!others_wait(worker)) // or a task that it has just run made something ready
            go_idle(worker);
    }
}

void mare__worker_serve(struct mare__worker *worker)
{
    mare__thread_data = worker;
    if (mare__tick_init(&worker->tick, on_tick, worker) != 0)
        fputs("mare: no timer for a worker: processes on it are not preempted\n", stderr);
    mare__tick_start(&worker->tick, MARE__TICK_NS);
    do {
        work(worker);
        only_watch(worker);
    } while (!retire(worker));
    mare__tick_fini(&worker->tick);
    mare__thread_data = NULL;
    atomic_fetch_sub(&worker->runtime->worker_alive, 1);
    wake_one(worker->runtime); // which may find that nothing can move any more
}

// It counts for no other thread as a worker: what it makes ready goes to the inbox.
void mare__worker_serve_own(struct mare__worker *own)
{
    mare_runtime *runtime = own->runtime;
    if (mare__tick_init(&own->tick, on_tick, own) != 0)
        fputs("mare: no timer for a process's own thread: it is not preempted\n", stderr);
    while (!atomic_load(&own->quit)) {
        mare_process *process = queue_pop(own);
        if (!process) {
            mare__park(&own->parker, MARE_FOREVER);
            continue;
        }
        mare__tick_start(&own->tick, MARE__TICK_NS);
        run(own, process);
        mare__tick_stop(&own->tick);
        atomic_fetch_sub(&runtime->own_busy, 1);
        wake_one(runtime); // it may have started a timer, which workers look after
        if (atomic_load(&runtime->waiters) > 0)
            mare__runtime_changed(runtime); // perhaps nothing can move now
    }
    mare__tick_fini(&own->tick);
}
