// SPDX-License-Identifier: MIT
// The routine pool: the routines of a process that has more than one, which of them are ready, and
// which comes next.
//
// A process begins with one routine, its main script, and needs no pool: its wait wakes the process
// itself. With the second routine comes the pool. From then on a routine that gives up the worker
// takes what it waits with along (process->sleep and the coroutines it is in) and puts it back when
// it goes on, so that whatever waits, waits in the same way. The thread that ends the wait of a
// routine puts it into the line of the ready, and wakes the process if it was at rest.
//
//     running -> waiting -> ready -> running        process: runs while one is ready, else parked
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/block.h"
#include "sched/libraries.h"
#include "sched/local.h"
#include "sched/process.h"
#include "sched/routine.h"
#include "sched/state.h"
#include "sched/trace.h"
#include "sched/worker.h"

static struct mare__pool *pool_of(const struct mare__local *process)
{
    return atomic_load_explicit(&process->pool, memory_order_relaxed); // set by this very thread
}

// ---- The line of the ready ----------------------------------------------------------------------

// True: the process was at rest, and is the caller's to make ready.
static bool enqueue(struct mare__pool *pool, struct mare__routine *routine)
{
    mare__lock_acquire(&pool->lock);
    routine->next = NULL;
    routine->queued = true;
    if (pool->head)
        pool->tail->next = routine;
    else
        pool->head = routine;
    pool->tail = routine;
    bool parked = pool->parked;
    pool->parked = false;
    mare__lock_release(&pool->lock);
    return parked;
}

// The same for one whose slice is over, while it computes. It stays the first in line: no routine
// of its process may run before it waits or yields, or they would see variables that it is in the
// middle of changing. The process runs, so nobody need make it ready.
static void requeue(struct mare__pool *pool, struct mare__routine *routine)
{
    mare__lock_acquire(&pool->lock);
    routine->next = pool->head;
    routine->queued = true;
    if (!pool->head)
        pool->tail = routine;
    pool->head = routine;
    mare__lock_release(&pool->lock);
}

static void wake(struct mare__wait *wait)
{
    struct mare__routine *routine = MARE__ENTRY(wait, struct mare__routine, sleep.wait);
    struct mare__local *process = routine->process;
    mare__trace_wake(process);
    if (enqueue(atomic_load_explicit(&process->pool, memory_order_relaxed), routine))
        mare__ready(process);
}

// The first in line; or NULL, and the process is parked, unless it was killed.
static struct mare__routine *dequeue(struct mare__local *process, struct mare__pool *pool,
                                     bool *killed)
{
    mare__lock_acquire(&pool->lock);
    struct mare__routine *routine = pool->head;
    // A kill from another thread notes it in the wait, then takes this lock and looks at `parked`
    // (mare__pool_wake). So either we see the note here, or it sees that we have parked.
    *killed = mare__killed(process);
    if (routine && !*killed) {
        pool->head = routine->next;
        routine->queued = false;
    } else {
        routine = NULL;
        pool->parked = !*killed;
        if (pool->parked) // before anybody can wake it. Release: see look.c
            atomic_store_explicit(&process->status, MARE__BLOCKED, memory_order_release);
    }
    mare__lock_release(&pool->lock);
    return routine;
}

void mare__pool_wake(struct mare__local *process)
{
    struct mare__pool *pool = atomic_load(&process->pool);
    if (!pool)
        return;
    mare__lock_acquire(&pool->lock);
    bool parked = pool->parked;
    pool->parked = false;
    mare__lock_release(&pool->lock);
    if (parked)
        mare__ready(process);
}

// ---- Changing places ----------------------------------------------------------------------------

// A coroutine at rest belongs to no process, by which mare__routine_holds knows it. The main thread
// is the exception, for from it new coroutines take whom they belong to.
static void lend(const struct mare__routine *routine, struct mare__local *process)
{
    for (uint32_t i = 0; i < routine->nested; i++)
        *(struct mare__local **)lua_getextraspace(routine->nest[i].co) = process;
    if (routine->thread != routine->process->state)
        *(struct mare__local **)lua_getextraspace(routine->thread) = process;
}

// A routine that waits takes along what it waits with.
static void move_out(struct mare__local *process, struct mare__routine *routine)
{
    struct mare__sleep *to = &routine->sleep, *from = &process->sleep;
    to->waits = from->waits;
    to->timed = from->timed;
    to->waits_for = from->waits_for;
    to->leaving = from->leaving;
    to->deadline = from->deadline;
    to->cases = from->cases;
    to->case_count = from->case_count;
    to->turn = from->turn;
    mare__message_move(&to->wait.message, &from->wait.message);
    from->waits = MARE__WAITS_NOT;
    from->timed = false;
    from->leaving = NULL;
    from->cases = NULL;
    from->case_count = 0;
    routine->current = process->current;
    routine->nest = process->nest;
    routine->nested = process->nested;
    routine->nest_room = process->nest_room;
    routine->unyieldable = process->unyieldable;
    process->nest = NULL;
    process->nested = process->nest_room = process->unyieldable = 0;
    lend(routine, NULL);
}

static void move_in(struct mare__local *process, struct mare__routine *routine)
{
    struct mare__sleep *to = &process->sleep, *from = &routine->sleep;
    lend(routine, process);
    mare__sleep_clean(process, from);
    to->waits = MARE__WAITS_NOT;
    to->timed = false;
    to->waits_for = from->waits_for;
    to->leaving = from->leaving;
    to->deadline = from->deadline;
    to->cases = from->cases;
    to->case_count = from->case_count;
    to->turn = from->turn;
    to->wait.fired = from->wait.fired;
    to->wait.result = from->wait.result;
    mare__message_move(&to->wait.message, &from->wait.message);
    from->leaving = NULL;
    from->cases = NULL;
    from->case_count = 0;
    mare__free(process->nest);
    process->nest = routine->nest;
    process->nested = routine->nested;
    process->nest_room = routine->nest_room;
    process->unyieldable = routine->unyieldable;
    routine->nest = NULL;
    routine->nested = routine->nest_room = 0;
    process->routine = routine->thread;
    process->current = routine->current;
}

static void dismiss(struct mare__local *process, struct mare__routine *routine);

bool mare__pool_next(struct mare__local *process, int *arguments)
{
    struct mare__pool *pool = pool_of(process);
    struct mare__routine *routine;
    bool killed;
    while ((routine = dequeue(process, pool, &killed)) && routine->stage != MARE__ROUTINE_LIVES)
        dismiss(process, routine);
    if (killed) // which the worker sees
        return true;
    if (!routine)
        return false;
    pool->running = routine;
    move_in(process, routine);
    // An interrupt is the main routine's, whose turns may be too short for a tick to come in one.
    if (routine == &pool->main && atomic_load(&routine->sleep.wait.note))
        mare__hook_arm(process, process->current);
    *arguments = routine->values;
    routine->values = 0;
    return true;
}

// ---- The beginning and the end of one -----------------------------------------------------------

static void init(struct mare__local *process, struct mare__pool *pool,
                 struct mare__routine *routine, lua_State *thread)
{
    routine->process = process;
    routine->id = ++pool->last_id;
    routine->thread = routine->current = thread;
    routine->sleep.wait.wake = wake;
    routine->sleep.spot.wait = &routine->sleep.wait;
    mare__list_init(&routine->sleep.spot.entry);
    mare__list_init(&routine->in_all);
}

// From now on it lives.
static void join_pool(struct mare__pool *pool, struct mare__routine *routine)
{
    mare__list_append(&pool->all, &routine->in_all);
    pool->alive += !routine->detached;
}

static struct mare__pool *pool_new(struct mare__local *process)
{
    struct mare__pool *pool = mare__alloc_zero(sizeof *pool);
    if (!pool)
        return NULL;
    mare__list_init(&pool->all);
    init(process, pool, &pool->main, process->state);
    join_pool(pool, &pool->main);
    pool->running = &pool->main;
    // A kill from another thread notes it, then looks for the pool (mare__local_kill). This thread
    // stores the pool, then looks at the note (dequeue). So at least one of the two sees the other.
    atomic_store(&process->pool, pool);
    return pool;
}

// The table of the registry that keeps routines.
static void push_table(lua_State *L)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_ROUTINES) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    // A finalizer may have run, and may have made it.
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_ROUTINES) == LUA_TTABLE) {
        lua_remove(L, -2);
        return;
    }
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_ROUTINES);
}

// The routine at this index is kept, as long as it lives.
static void keep(lua_State *L, int index, lua_State *thread)
{
    lua_pushvalue(L, index);
    push_table(L);
    lua_insert(L, -2);
    lua_rawsetp(L, -2, thread);
    lua_pop(L, 1);
}

// Nothing of it is needed any more but what the program still refers to.
static void forget(struct mare__routine *routine)
{
    lua_State *L = routine->thread;
    if (!lua_checkstack(L, 2))
        return; // then it goes with the process
    lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_ROUTINES);
    lua_pushnil(L);
    lua_rawsetp(L, -2, L);
    lua_pop(L, 1);
}

void mare__routine_start(lua_State *L, struct mare__routine *routine, lua_State *thread, bool now)
{
    struct mare__local *process = mare__self(L);
    struct mare__pool *pool = pool_of(process);
    if (!pool)
        pool = pool_new(process);
    if (!pool)
        luaL_error(L, "not enough memory");
    if (now)
        keep(L, -1, thread);
    routine->values = lua_gettop(thread) - 1;
    init(process, pool, routine, thread);
    lend(routine, NULL);
    if (!now)
        return;
    join_pool(pool, routine);
    enqueue(pool, routine); // the process runs, so it is not parked
}

bool mare__routine_appoint(lua_State *L, struct mare__routine *heir)
{
    struct mare__pool *pool = pool_of(mare__self(L));
    if (heir && (heir->stage != MARE__ROUTINE_LIVES || !mare__list_empty(&heir->in_all)))
        return false;
    if (heir)
        keep(L, 1, heir->thread);
    if (pool && pool->heir && pool->heir != heir)
        forget(pool->heir);
    if (pool) {
        pool->heir = heir;
        pool->heir_of = pool->running;
    }
    return true;
}

// The one that runs gives way, or ends: its heir takes its place.
static void let_inherit(struct mare__pool *pool, const struct mare__routine *routine)
{
    struct mare__routine *heir = pool->heir;
    if (!heir || pool->heir_of != routine)
        return;
    pool->heir = NULL;
    heir->detached = routine->detached;
    join_pool(pool, heir);
    enqueue(pool, heir);
}

static int push_text(lua_State *L)
{
    lua_pushstring(L, mare__passed(L, 1));
    return 1;
}

// Closes its variables, which may change the error, and leaves that and the traceback on its stack.
static void close_failed(struct mare__local *process, struct mare__routine *routine)
{
    lua_State *L = routine->thread;
    struct mare__worker *worker = process->worker;
    char *traceback = mare__traceback(L);
    worker->running = process; // a handler that does not end can be killed
    mare__thread_close(process, L, L);
    worker->running = NULL;
    routine->values = 1;
    struct mare__pass pass;
    lua_pushcfunction(L, push_text);
    mare__pass_push(L, &pass, traceback ? traceback : "");
    int status = lua_pcall(L, 1, 1, 0);
    mare__pass_end(L, &pass);
    if (status == LUA_OK)
        routine->values = 2;
    else
        lua_pop(L, 1);
    free(traceback);
}

// Its error, nobody having asked.
static void report(struct mare__local *process, struct mare__routine *routine)
{
    lua_State *L = routine->thread;
    int error = lua_gettop(L) - routine->values + 1;
    const char *text = lua_type(L, error) == LUA_TSTRING ? lua_tostring(L, error) : NULL;
    const char *traceback = routine->values > 1 ? lua_tostring(L, error + 1) : "";
    if (!text && lua_checkstack(L, 4)) {
        *(struct mare__local **)lua_getextraspace(L) = process; // it is at rest no longer
        text = mare__error_push(L, error);
    }
    text = text ? text : "?";
    const char *format = "mare: routine %llu of process %llu%s%s%s died: %s";
    const char *name = process->shared.name;
    unsigned long long id = routine->id, of = process->shared.id;
    size_t room = strlen(format) + 40 + strlen(text) + (name ? strlen(name) : 0);
    char *line = mare__alloc(room);
    if (line)
        snprintf(line, room, format, id, of, name ? " (" : "", name ? name : "", name ? ")" : "",
                 text);
    // The log's records have no "mare: ": their module says it.
    if (!line || !mare__log_try(process->shared.runtime, false, line + 6, traceback))
        fprintf(stderr, "%s\n%s\n", line ? line : "mare: a routine died", traceback);
    mare__free(line);
}

// One that failed has waited long enough for somebody to ask.
static void dismiss(struct mare__local *process, struct mare__routine *routine)
{
    mare__sleep_clean(process, &routine->sleep);
    if (!routine->noted)
        report(process, routine);
    routine->noted = true;
    mare__list_remove(&routine->in_all);
    forget(routine);
}

// One that failed waits a little, because its maker may be about to join.
static void await_notice(struct mare__local *process, struct mare__pool *pool,
                         struct mare__routine *routine)
{
    struct mare__sleep *sleep = &routine->sleep;
    mare__list_append(&pool->all, &routine->in_all);
    mare__wait_heed(&sleep->wait); // a cancellation for which there was no wait
    sleep->waits = MARE__WAITS_FOR_TIME;
    sleep->waits_for = NULL;
    sleep->timed = true;
    sleep->deadline = mare__now(process->shared.runtime) + MARE__REPORT_NS;
    if (!mare__sleep_commit(process, sleep))
        enqueue(pool, routine);
}

void mare__routine_note(struct mare__routine *routine)
{
    if (routine->noted || routine->stage != MARE__ROUTINE_FAILED)
        return;
    routine->noted = true;
    if (mare__wait_claim(&routine->sleep.wait)) // else it stands in line, and is dismissed there
        dismiss(routine->process, routine);
}

static void end(struct mare__local *process, struct mare__pool *pool, int status, int results)
{
    struct mare__routine *routine = pool->running;
    pool->running = NULL;
    mare__list_remove(&routine->in_all);
    pool->alive -= !routine->detached;
    routine->values = results;
    routine->stage = status == LUA_OK ? MARE__ROUTINE_DONE : MARE__ROUTINE_FAILED;
    if (status != LUA_OK)
        close_failed(process, routine);
    process->routine = process->current = process->state; // which stays, while this one may go
    if (routine->ended)
        mare_chan_close(routine->ended);
    if (routine == &pool->main)
        return;
    lend(routine, NULL);
    if (status == LUA_OK)
        forget(routine);
    else
        await_notice(process, pool, routine);
}

bool mare__pool_back(struct mare__local *process, int *status, int *results)
{
    struct mare__pool *pool = pool_of(process);
    struct mare__routine *routine = pool->running;
    if (*status == LUA_YIELD) {
        if (*results > 0)
            lua_pop(routine->thread, *results);
        pool->running = NULL;
        move_out(process, routine);
        if (process->yield != MARE__YIELD_SLICE)
            let_inherit(pool, routine);
        if (process->yield == MARE__YIELD_SLICE)
            requeue(pool, routine);
        else if (process->yield != MARE__YIELD_WAIT ||
                 !mare__sleep_commit(process, &routine->sleep))
            enqueue(pool, routine);
        return true;
    }
    // A kill may show as an error: then the handlers run, and have their time, when all are closed.
    if (*status != LUA_OK && (routine == &pool->main || mare__killed(process)))
        return false;
    let_inherit(pool, routine);
    end(process, pool, *status, *results);
    if (pool->alive > 0)
        return true;
    *status = LUA_OK;
    *results = pool->main.values;
    return false;
}

// ---- The end of all -----------------------------------------------------------------------------

// Sees to it that nobody ends its wait any more.
static void calm(struct mare__pool *pool, struct mare__routine *routine)
{
    for (bool queued = false; !queued && !mare__wait_claim(&routine->sleep.wait);) {
        mare__lock_acquire(&pool->lock);
        queued = routine->queued;
        mare__lock_release(&pool->lock);
        if (!queued)
            mare__pause(); // somebody has claimed the wait, and is about to enqueue it
    }
}

void mare__pool_calm(struct mare__local *process)
{
    struct mare__pool *pool = pool_of(process);
    if (!pool)
        return;
    for (struct mare__list *at = pool->all.next, *next; at != &pool->all; at = next) {
        struct mare__routine *routine = MARE__ENTRY(at, struct mare__routine, in_all);
        next = at->next;
        if (routine == pool->running)
            continue;
        calm(pool, routine);
        if (routine->stage != MARE__ROUTINE_LIVES) {
            dismiss(process, routine);
            continue;
        }
        mare__sleep_clean(process, &routine->sleep);
        mare__sleep_drop(&routine->sleep);
    }
    pool->head = pool->tail = NULL;
}

void mare__pool_unwind(struct mare__local *process)
{
    struct mare__pool *pool = pool_of(process);
    if (!pool)
        return;
    struct mare__list *at;
    if (pool->running)
        move_out(process, pool->running);
    pool->running = NULL;
    while ((at = pool->all.prev) != &pool->all) {
        struct mare__routine *routine = MARE__ENTRY(at, struct mare__routine, in_all);
        mare__list_remove(at);
        move_in(process, routine);
        if (routine == &pool->main)
            return; // who is closed last, by the caller
        mare__routine_close(process, routine->thread);
    }
    process->routine = process->current = process->state;
}

// ---- What others can do with one ----------------------------------------------------------------

void mare__routine_cancel(struct mare__routine *routine)
{
    if (routine->stage == MARE__ROUTINE_LIVES)
        mare__wait_interrupt(&routine->sleep.wait);
}

bool mare__routine_detach(struct mare__routine *routine)
{
    struct mare__pool *pool = pool_of(routine->process);
    bool last = pool->alive == 1 && !routine->detached;
    if (routine->stage != MARE__ROUTINE_LIVES || last)
        return false;
    pool->alive -= !routine->detached;
    routine->detached = true;
    return true;
}

bool mare__routine_is_main(const struct mare__local *process)
{
    struct mare__pool *pool = pool_of(process);
    return !pool || pool->running == &pool->main;
}

bool mare__routine_holds(const struct mare__local *process, lua_State *co)
{
    return pool_of(process) && (co == process->state || mare__self(co) != process);
}

bool mare__at_rest(const struct mare__local *process)
{
    struct mare__pool *pool = atomic_load(&process->pool);
    if (!pool)
        return atomic_load(&process->sleep.wait.word) == MARE__WAIT_WAITING;
    mare__lock_acquire(&pool->lock);
    bool parked = pool->parked;
    mare__lock_release(&pool->lock);
    return parked;
}

struct mare__wait *mare__main_wait(struct mare__local *process)
{
    struct mare__pool *pool = atomic_load(&process->pool);
    return pool ? &pool->main.sleep.wait : &process->sleep.wait;
}
