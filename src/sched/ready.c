// SPDX-License-Identifier: MIT
// The lines of the ready: who stands where, and who comes next.
//
// Two kinds of processes share the workers: those that wait again and again and have little to do
// in between, and those that compute. The first kind must be served soon, the second must get its
// share, and neither may keep the other from the workers.
//
//     waited, new, gave way, on a worker  -> [slot], [queue] --+  its own lines
//     the same, on another thread         -> [inbox] ----------+
//     used up a slice                     -> [spent] ----------+--> run
//     new, in a crowd that computes       -> [few], [fresh] ---+  common lines
//     another worker's queue              -> steal ------------+
//
// A process that becomes ready stands in the lines of the worker that made it so. It goes into the
// slot if the queue is empty (no lock: two processes that talk to each other never touch one),
// otherwise to the end of the queue. The slot is always older than the queue, so the order is kept.
//
// A process that has used up a slice goes to the end of the spent. That line is common to all
// workers: whichever comes serves the first of it, and so all in it have the same share, however
// many workers there are and however fast each of them is.
//
// A worker serves its own lines first, and the common ones when those are empty. But if a tick
// finds it at its own ones, the common ones come first until the next tick, and then the other way
// round. So while both have somebody, each has half of the worker.
//
// A process that does not wait is cut off by a tick. If it came from the common lines that was its
// slice. If it came from the worker's own it keeps its place, the first of the queue, until it has
// used up a slice too, in as many pieces as that takes. One that makes new processes is then not
// spent, but goes to the end of its queue: it has others do the work. (Else the last of ten
// thousand endless loops would be made after as many rounds of them as it takes slices to make
// them.)
//
// Most new processes wait soon, or end, and are served like all who become ready. But if one has
// used up a slice without ever having waited, and others do compute, the next ones may be of its
// kind: then they stand in the fresh, until one of those turns out to be better. Of the common
// lines, three ticks go to the fresh and then one turn to the spent: three new ones that compute,
// or as many as fit into that time if they wait, or end, before a tick comes.
//
// A process that makes one new process now and then, beside one that has made thousands, does not
// wait for all of those: the first few that are made in a turn of their maker's stand in a line of
// their own. The few and the fresh take turns.
//
// The length of a slice is a target latency divided by how many stand in line, between a least and
// a most. It ends with a tick, but those of the spent are measured in processor time of the thread,
// and what one got too little or too much is made good later: neither what else the machine does
// nor a long call into C makes the shares uneven.
#include "sched/ready.h"

#include "sched/task.h"
#include "sched/worker.h"

// ---- Lines --------------------------------------------------------------------------------------

// Relaxed, and no read-modify-write: under the lock of the line.
static void add_length(struct mare__line *line, int change)
{
    atomic_store_explicit(&line->length, mare__line_length(line) + (unsigned)change,
                          memory_order_relaxed);
}

static void append(struct mare__line *line, struct mare__local *process)
{
    process->next = NULL;
    if (line->head)
        line->tail->next = process;
    else
        line->head = process;
    line->tail = process;
    add_length(line, 1);
}

static void put_first(struct mare__line *line, struct mare__local *process)
{
    process->next = line->head;
    if (!line->head)
        line->tail = process;
    line->head = process;
    add_length(line, 1);
}

static struct mare__local *take_first(struct mare__line *line)
{
    struct mare__local *process = line->head;
    if (process) {
        line->head = process->next;
        add_length(line, -1);
    }
    return process;
}

void mare__ready_wake_one(mare_runtime *runtime)
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
    // The work was added; now it looks at the idle count. Pairs with the fence in rest (worker.c).
    atomic_thread_fence(memory_order_seq_cst);
    mare__ready_wake_one(runtime);
}

static void append_common(mare_runtime *runtime, struct mare__line *line,
                          struct mare__local *process)
{
    mare__lock_acquire(&runtime->common.lock);
    append(line, process);
    mare__lock_release(&runtime->common.lock);
}

static void append_new(struct mare__line *line, struct mare__local *process)
{
    append_common(process->shared.runtime, line, process);
    mare__workers_wake(process->shared.runtime);
}

// The number of the turn that runs, or ran last.
static unsigned long turn_of(const struct mare__worker *worker)
{
    return atomic_load_explicit(&worker->counters.switches, memory_order_relaxed);
}

static bool is_new(const struct mare__local *process)
{
    return atomic_load_explicit(&process->slices, memory_order_relaxed) == 0;
}

// ---- Becoming ready -----------------------------------------------------------------------------

static void own_ready(struct mare__worker *own, struct mare__local *process)
{
    atomic_fetch_add(&own->runtime->own_busy, 1); // so that nobody takes it for a deadlock
    atomic_fetch_add(&own->wakers, 1); // who takes the process out may end with it, and free `own`
    mare__lock_acquire(&own->lock);
    append(&own->queue, process);
    mare__lock_release(&own->lock);
    mare__unpark(&own->parker);
    atomic_fetch_sub(&own->wakers, 1);
}

// Into a queue, where others see it.
static __attribute__((noinline)) void ready_in_queue(struct mare__local *process)
{
    mare_runtime *runtime = process->shared.runtime;
    struct mare__worker *worker = mare__this_worker();
    if (process->own) {
        own_ready(process->own, process);
        return;
    }
    bool here = worker && worker->runtime == runtime;
    mare__lock *lock = here ? &worker->lock : &runtime->inbox_lock;
    mare__lock_acquire(lock);
    append(here ? &worker->queue : &runtime->inbox, process);
    mare__lock_release(lock);
    mare__workers_wake(runtime);
}

// It runs next: what it will touch comes into the cache while the one before it ends its turn.
static inline void fetch(const struct mare__local *process)
{
    enum { LINE = 64, STATE_LINES = 3 };
    if (!process->routine) // it has not begun
        return;
    for (int i = 0; i < STATE_LINES; i++)
        __builtin_prefetch((const char *)process->routine + i * LINE);
    __builtin_prefetch(process->known[0]);
    __builtin_prefetch(process->known[1]);
}

// Into the slot. Nobody is woken: this worker will be free for it before that.
static inline void fill_slot(struct mare__worker *worker, struct mare__local *process)
{
    // Release: pairs with the exchange of whoever takes it.
    atomic_store_explicit(&worker->slot, process, memory_order_release);
}

static inline bool is_slot_free(struct mare__worker *worker, const struct mare__local *process)
{
    // Relaxed: only this thread fills its slot.
    return worker && worker->runtime == process->shared.runtime && !process->own &&
           mare__line_length(&worker->queue) == 0 && worker->tick.made &&
           !atomic_load_explicit(&worker->slot, memory_order_relaxed);
}

static void mark_ready(struct mare__local *process)
{
    // Release: who looks at it (look.c) finds the state as it was left.
    atomic_store_explicit(&process->status, MARE__READY, memory_order_release);
}

void mare__ready(struct mare__local *process)
{
    struct mare__worker *worker = mare__this_worker();
    mark_ready(process);
    if (is_slot_free(worker, process)) {
        fetch(process);
        fill_slot(worker, process);
    } else {
        ready_in_queue(process);
    }
}

// Whether new processes shall stand apart. As long as some do, the next ones stand behind them.
static bool parts_new(const struct mare__worker *worker)
{
    const mare_runtime *runtime = worker->runtime;
    return mare__line_length(&runtime->common.fresh) > 0 ||
           mare__line_length(&runtime->common.few) > 0 ||
           (worker->wary && mare__line_length(&runtime->common.spent) > 0);
}

enum { FEW_MOST = 4 }; // in a turn

static void count_spawn(struct mare__worker *worker)
{
    unsigned long turn = turn_of(worker);
    worker->spawned = worker->spawning_turn == turn ? worker->spawned + 1 : 1;
    worker->spawning_turn = turn;
}

void mare__ready_new(struct mare__local *process)
{
    struct mare__worker *worker = mare__this_worker();
    mare_runtime *runtime = process->shared.runtime;
    bool here = worker && worker->runtime == runtime;
    if (here)
        count_spawn(worker);
    if (here && !process->own && parts_new(worker)) {
        bool few = worker->spawned <= FEW_MOST;
        mark_ready(process);
        append_new(few ? &runtime->common.few : &runtime->common.fresh, process);
    } else {
        mare__ready(process);
    }
}

// ---- Giving way ---------------------------------------------------------------------------------

// More is not kept: when the machine itself stood still, no process is to blame.
enum { OWED_MOST_NS = 4 * MARE__TICK_NS };

static uint32_t slice_for(unsigned in_line, uint32_t most_ns)
{
    uint32_t slice_ns = MARE__LATENCY_NS / (in_line + 1);
    return slice_ns > most_ns                ? most_ns
           : slice_ns < MARE__SLICE_LEAST_NS ? MARE__SLICE_LEAST_NS
                                             : slice_ns;
}

// What one got too little or too much of its slice. Of the next turns, one may be twice as long, or
// be left out.
static void settle(struct mare__worker *worker, struct mare__local *process)
{
    if (!mare__ready_common_turn(worker) || !worker->spent_turn) {
        process->owed_ns = 0;
        return;
    }
    uint64_t now_ns = mare__thread_time_ns(worker->runtime);
    int64_t used_ns = (int64_t)(now_ns - worker->begun_ns);
    int64_t owed_ns = process->owed_ns + (int64_t)worker->tick.period_ns - used_ns;
    process->owed_ns = (int32_t)(owed_ns < -OWED_MOST_NS  ? -OWED_MOST_NS
                                 : owed_ns > OWED_MOST_NS ? OWED_MOST_NS
                                                          : owed_ns);
    worker->begun_ns = now_ns; // of the next, if it comes at once
    worker->begun_after = turn_of(worker);
}

// The length of its turns since it last waited, this one included, by the ticks that came.
static uint32_t used_ns(const struct mare__worker *worker, struct mare__local *process)
{
    uint32_t turn = (uint32_t)atomic_load_explicit(&process->slices, memory_order_relaxed);
    bool in_a_row = process->used_until + 1 == turn; // a new one has used nothing until 0
    process->has_waited = process->has_waited || !in_a_row;
    uint64_t now_ns = worker->age_ns > 0 ? worker->burnt_ns : 0; // else no tick has come
    uint64_t all_ns = (in_a_row ? process->used_ns : 0) + now_ns;
    process->used_until = turn;
    process->used_ns = all_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)all_ns;
    return process->used_ns;
}

// The new ones among those that stand in its queue shall stand apart.
static void become_wary(struct mare__worker *worker)
{
    struct mare__line queue = {0};
    worker->wary = true;
    mare__lock_acquire(&worker->lock);
    for (struct mare__local *process; (process = take_first(&worker->queue)) != NULL;)
        if (is_new(process))
            append_common(worker->runtime, &worker->runtime->common.fresh, process);
        else
            append(&queue, process);
    worker->queue.head = queue.head;
    worker->queue.tail = queue.tail;
    add_length(&worker->queue, (int)mare__line_length(&queue));
    mare__lock_release(&worker->lock);
}

// It has used up its slice.
static void change_place(struct mare__worker *worker, struct mare__local *process)
{
    mare_runtime *runtime = worker->runtime;
    if (worker->spawning_turn == turn_of(worker)) {
        process->used_ns = 0;
        mare__ready(process);
        return;
    }
    if (!process->has_waited)
        become_wary(worker);
    settle(worker, process);
    append_common(runtime, &runtime->common.spent, process);
}

// Its turn has been cut short, and it will be the first that goes on.
static void keep_place(struct mare__worker *worker, struct mare__local *process)
{
    mare__lock_acquire(&worker->lock);
    put_first(&worker->queue, process);
    mare__lock_release(&worker->lock);
}

void mare__ready_again(struct mare__worker *worker, struct mare__local *process)
{
    mare_runtime *runtime = worker->runtime;
    if (process->own || process->yield == MARE__YIELD_WAIT) { // one of its routines has waited
        mare__ready(process);
        return;
    }
    bool cut = process->yield == MARE__YIELD_SLICE;
    bool first_here = !mare__ready_here(worker), alone = first_here && !mare__ready_common(runtime);
    uint32_t allowed_ns = slice_for(mare__line_length(&worker->queue), MARE__SLICE_NS);
    bool spent = used_ns(worker, process) >= allowed_ns;
    if (!cut && !spent) { // by its own choice: all others come first
        worker->common_first = worker->common_first || (first_here && !alone);
        mare__ready(process);
        return;
    }
    mark_ready(process);
    if (spent || mare__ready_common_turn(worker))
        change_place(worker, process);
    else
        keep_place(worker, process);
    // If it is alone it goes on here. Should somebody come before, the next tick calls for help.
    if (!alone)
        mare__workers_wake(runtime);
}

// ---- Who comes next -----------------------------------------------------------------------------

// Under the lock, where alone a shared slot stops being shared.
struct mare__local *mare__ready_take_shared_slot(struct mare__worker *worker)
{
    struct mare__local *process = NULL;
    mare__lock_acquire(&worker->lock);
    if (atomic_load_explicit(&worker->slot_shared, memory_order_relaxed)) {
        // Acquire: pairs with the release in fill_slot.
        process = atomic_load_explicit(&worker->slot, memory_order_acquire);
        atomic_store_explicit(&worker->slot, NULL, memory_order_relaxed);
        // Release: pairs with the acquire in mare__ready_take_slot: an owner who sees this sees the
        // slot empty.
        atomic_store_explicit(&worker->slot_shared, false, memory_order_release);
    }
    mare__lock_release(&worker->lock);
    return process;
}

struct mare__local *mare__ready_take_queue(struct mare__worker *worker)
{
    mare__lock_acquire(&worker->lock);
    struct mare__local *process = take_first(&worker->queue);
    mare__lock_release(&worker->lock);
    return process;
}

void mare__ready_fetch_inbox(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    mare__lock_acquire(&runtime->inbox_lock);
    struct mare__local *process = take_first(&runtime->inbox);
    mare__lock_release(&runtime->inbox_lock);
    if (!process)
        return;
    if (is_new(process) && parts_new(worker)) {
        append_new(&runtime->common.fresh, process);
        return;
    }
    mare__lock_acquire(&worker->lock);
    append(&worker->queue, process); // after what waits here already, before what comes later
    mare__lock_release(&worker->lock);
}

enum {
    FRESH_TURNS = 3, // in which a tick came, before one of the spent
    LOOKED_AT = 16   // of the spent
};

// The first of the spent who has not had more than its share. If that is far to look for, they all
// have, and the first it is.
static struct mare__local *take_spent(struct mare__line *spent, int32_t slice_ns)
{
    for (int i = 0; i < LOOKED_AT && spent->head->owed_ns <= -slice_ns; i++) {
        struct mare__local *process = take_first(spent);
        process->owed_ns += slice_ns;
        append(spent, process);
    }
    return take_first(spent);
}

// The few and the fresh take turns. NULL: there are none.
static struct mare__local *take_new(struct mare__common *common)
{
    bool few = common->few.head && !(common->few_last && common->fresh.head);
    common->few_last = few;
    return take_first(few ? &common->few : &common->fresh);
}

// `ticked`: a tick came in the worker's last turn of the new ones.
static struct mare__local *take_from_lines(struct mare__common *common, int32_t slice_ns,
                                           bool ticked, bool *spent)
{
    struct mare__local *process = NULL;
    mare__lock_acquire(&common->lock);
    common->fresh_turns += ticked;
    bool new_first = (common->few.head || common->fresh.head) && common->fresh_turns < FRESH_TURNS;
    *spent = common->spent.head && !new_first;
    if (*spent)
        common->fresh_turns = 0;
    process = *spent ? take_spent(&common->spent, slice_ns) : take_new(common);
    mare__lock_release(&common->lock);
    return process;
}

// In steps, so that the tick is not set anew each time.
static uint32_t common_slice_ns(const mare_runtime *runtime)
{
    const struct mare__common *common = &runtime->common;
    unsigned in_line = mare__line_length(&common->few) + mare__line_length(&common->fresh) +
                       mare__line_length(&common->spent);
    unsigned workers = atomic_load_explicit(&runtime->worker_count, memory_order_relaxed);
    uint32_t wanted_ns = slice_for(in_line / (workers ? workers : 1), MARE__TICK_NS);
    uint32_t slice_ns = MARE__TICK_NS;
    while (slice_ns / 2 >= wanted_ns)
        slice_ns /= 2;
    return slice_ns;
}

struct mare__local *mare__ready_take_common(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    bool spent = false;
    if (!mare__ready_common(runtime))
        return NULL;
    uint32_t slice_ns = common_slice_ns(runtime);
    struct mare__local *process =
        take_from_lines(&runtime->common, (int32_t)slice_ns, worker->fresh_ticked, &spent);
    worker->fresh_ticked = false;
    if (!process)
        return NULL;
    if (worker->tick.period_ns != slice_ns)
        mare__worker_tick(worker, slice_ns);
    worker->common_turn = turn_of(worker) + 1;
    worker->spent_turn = spent;
    worker->ticks_left = spent && process->owed_ns >= (int32_t)slice_ns / 2 ? 2 : 1;
    if (spent && worker->begun_after != turn_of(worker))
        worker->begun_ns = mare__thread_time_ns(runtime);
    if (!spent)
        worker->wary = false; // unless it turns out to be of that kind too
    return process;
}

// Takes the older half of a queue; returns its first and keeps the others.
static struct mare__local *steal_from(struct mare__worker *thief, struct mare__worker *victim)
{
    struct mare__local *first = NULL, *last = NULL;
    unsigned taken = 0;
    if (mare__line_length(&victim->queue) > 0) {
        mare__lock_acquire(&victim->lock);
        unsigned want = (mare__line_length(&victim->queue) + 1) / 2;
        first = last = victim->queue.head;
        for (taken = first != NULL; taken > 0 && taken < want; taken++)
            last = last->next;
        if (first) {
            victim->queue.head = last->next;
            last->next = NULL;
            add_length(&victim->queue, -(int)taken);
        }
        mare__lock_release(&victim->lock);
    }
    if (!first && atomic_load(&victim->slot_shared))
        return mare__ready_take_shared_slot(victim);
    if (!first || taken == 1)
        return first;
    mare__lock_acquire(&thief->lock); // empty until here: nobody but its owner fills it
    thief->queue.head = first->next;
    thief->queue.tail = last;
    add_length(&thief->queue, (int)taken - 1);
    mare__lock_release(&thief->lock);
    return first;
}

struct mare__local *mare__ready_steal(struct mare__worker *thief)
{
    mare_runtime *runtime = thief->runtime;
    for (unsigned i = 1; i < MARE__WORKERS_MAX; i++) {
        struct mare__worker *victim = runtime->workers[(thief->index + i) % MARE__WORKERS_MAX];
        if (!victim && thief->index + i < MARE__WORKERS_MAX) {
            i = MARE__WORKERS_MAX - thief->index - 1; // workers fill the array from its start
            continue;
        }
        struct mare__local *process = victim ? steal_from(thief, victim) : NULL;
        if (process) {
            mare__count(&thief->counters.steals);
            return process;
        }
    }
    return NULL;
}

bool mare__ready_anywhere(mare_runtime *runtime)
{
    if (mare__line_length(&runtime->inbox) > 0 || mare__ready_common(runtime) ||
        mare__tasks_anywhere(runtime))
        return true;
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++) {
        struct mare__worker *worker = runtime->workers[i];
        if (mare__line_length(&worker->queue) > 0 ||
            (atomic_load(&worker->slot_shared) && atomic_load(&worker->slot)))
            return true;
    }
    return false;
}
