// SPDX-License-Identifier: MIT
// Lua states: born with almost nothing (lazy.c opens libraries when they are named), put away, and
// used again.
//
// A state is the arena it lives in. To recycle one, the bytes that it had when it was born are put
// back. What a state can have outside its arena is this: references held by userdata, which stand
// in process->handles; whatever finalizers must run, for which lua_close is called if there may be
// any (needs_close); and pointers that C modules of strangers keep, in which case the state is not
// used again.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/code.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/routine.h"
#include "sched/state.h"
#include "sched/worker.h"

// A state put away, as new, or as it was when `code` had been loaded into it. The structure lies
// beside its arena's images, also while the state is in use.
struct mare__recycled {
    struct mare__recycled *next;
    struct mare__arena *arena;
    lua_State *state;
    struct mare__code *code; // a reference, or NULL
};

static int panic(lua_State *L)
{
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "mare: internal error: unprotected Lua error (%s)\n", message ? message : "?");
    return 0; // Lua aborts
}

// When a finalizer fails, Lua warns in pieces: "error in ", "__gc", " (", why, ")". (A program can
// warn in the same words.) Our finalizers do not fail, but Lua may be unable to call one: there is
// no memory, or no stack. What such a one should have given back is given back here. To find it
// takes a walk over all references: so that is done only for the reasons that can be ours.
static void heed_failure(struct mare__local *process, const char *message)
{
    static const char *const reasons[] = {"not enough memory", "stack overflow",
                                          "error in error handling"};
    enum { WHY = 3 };
    if (process->warning == 0)
        process->warning_tells = strcmp(message, "error in ") == 0;
    if (!process->state || !process->warning_tells || process->warning != WHY)
        return;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(message, reasons[i])) {
            mare__handles_salvage(process);
            return;
        }
}

static void on_warning(void *ud, const char *message, int continues)
{
    struct mare__local *process = ud;
    heed_failure(process, message);
    if (!process->warning && !continues && *message == '@') {
        if (strcmp(message, "@on") == 0)
            process->warnings_on = true;
        else if (strcmp(message, "@off") == 0)
            process->warnings_on = false;
        return;
    }
    if (process->warnings_on) {
        if (!process->warning)
            fputs("Lua warning: ", stderr);
        fputs(message, stderr);
        if (!continues)
            fputc('\n', stderr);
    }
    process->warning = !continues                     ? 0
                       : process->warning < UINT8_MAX ? process->warning + 1
                                                      : UINT8_MAX;
}

static int give_birth(lua_State *L)
{
    mare__lazy_install(L);
    return 0;
}

// A new state in a new arena; what it is born with must not depend on the process that gets it.
static lua_State *state_new(mare_runtime *runtime, struct mare__arena **arena)
{
    *arena = mare__arena_create();
    if (!*arena)
        return NULL;
    lua_State *L = lua_newstate(mare__arena_alloc, *arena);
    if (!L) {
        mare__arena_destroy(*arena);
        return NULL;
    }
    lua_atpanic(L, panic);
    *(struct mare__local **)lua_getextraspace(L) = NULL;
    lua_pushcfunction(L, give_birth);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        lua_close(L);
        mare__arena_destroy(*arena);
        return NULL;
    }
    mare__arena_born(*arena);
    unsigned limit =
        atomic_load_explicit(&runtime->recycle_limit, memory_order_relaxed); // a setting
    if (limit > 0 && !MARE__ARENA_PLAIN) {
        if (atomic_fetch_add(&runtime->images, 1) >= limit ||
            !mare__arena_remember(*arena, MARE__AT_BIRTH))
            atomic_fetch_sub(&runtime->images, 1);
    }
    return L;
}

// Takes one if there are more than `leave`.
static struct mare__recycled *take_recycled(mare_runtime *runtime, unsigned leave)
{
    mare__lock_acquire(&runtime->recycle_lock);
    struct mare__recycled *recycled = runtime->recycled_count > leave ? runtime->recycled : NULL;
    if (recycled) {
        runtime->recycled = recycled->next;
        runtime->recycled_count--;
    }
    mare__lock_release(&runtime->recycle_lock);
    return recycled;
}

// Relaxed: by the thread that runs it, which alone changes it.
static struct mare__arena *arena_of(const struct mare__local *process)
{
    return atomic_load_explicit(&process->arena, memory_order_relaxed);
}

void mare__state_loaded(struct mare__local *process, struct mare__code *code)
{
    struct mare__arena *arena = arena_of(process);
    if (!mare__arena_remembers(arena, MARE__AT_BIRTH))
        return;
    struct mare__recycled *recycled = mare__arena_scratch(arena);
    if (recycled->code)
        mare__unref(&recycled->code->object);
    bool done = mare__arena_remember(arena, MARE__AFTER_LOADING);
    recycled->code = done ? mare__ref(&code->object) : NULL;
}

bool mare__state_open(struct mare__local *process, const struct mare__code *code)
{
    mare_runtime *runtime = process->shared.runtime;
    struct mare__recycled *recycled = take_recycled(runtime, 0);
    struct mare__arena *arena;
    lua_State *L;
    if (recycled) {
        arena = recycled->arena;
        L = recycled->state;
        process->loaded = recycled->code && recycled->code == code;
        if (recycled->code && !process->loaded)
            mare__arena_revert(arena, MARE__AT_BIRTH);
        mare__count(&process->worker->counters.recycled);
    } else {
        L = state_new(runtime, &arena);
        if (!L)
            return false;
    }
    *(struct mare__local **)lua_getextraspace(L) = process;
    lua_setwarnf(L, on_warning, process);
    if (runtime->gc_stress)
        lua_gc(L, LUA_GCINC, 1, 1000, 0);
    mare__arena_use(arena, process);
    if (process->account)
        mare__arena_account(arena, process->account);
    lua_pushglobaltable(L);
    process->globals = lua_topointer(L, -1);
    lua_pop(L, 1);
    mare__hook_rest(process, L);
    process->state = process->routine = process->current = L;
    // Release: who lists the processes looks at the arena.
    atomic_store_explicit(&process->arena, arena, memory_order_release);
    return true;
}

void mare__wind_up(struct mare__local *process, bool begins)
{
    struct mare__worker *worker = process->worker;
    worker->running = NULL;
    process->winding_up = begins;
    process->throws = 0;
    worker->age_ns = 0;
    if (begins)
        worker->running = process;
}

void mare__routine_close(struct mare__local *process, lua_State *routine)
{
    while (process->nested > 0)
        mare__thread_close(process, process->nest[--process->nested].co, routine);
    process->unyieldable = 0;
    mare__thread_close(process, routine, routine);
}

void mare__state_unwind(struct mare__local *process)
{
    mare__pool_unwind(process);
    mare__routine_close(process, process->state);
}

// Puts a state away for reuse. False when it cannot be or there are enough.
static bool keep(mare_runtime *runtime, struct mare__arena *arena, lua_State *L)
{
    if (!mare__arena_remembers(arena, MARE__AT_BIRTH))
        return false;
    struct mare__recycled *recycled = mare__arena_scratch(arena);
    mare__arena_revert(arena, recycled->code ? MARE__AFTER_LOADING : MARE__AT_BIRTH);
    mare__lock_acquire(&runtime->recycle_lock);
    bool room = runtime->recycled_count < atomic_load(&runtime->recycle_limit);
    if (room) {
        recycled->next = runtime->recycled;
        recycled->arena = arena;
        recycled->state = L;
        runtime->recycled = recycled;
        runtime->recycled_count++;
    }
    mare__lock_release(&runtime->recycle_lock);
    return room;
}

static void discard(mare_runtime *runtime, struct mare__arena *arena)
{
    if (mare__arena_remembers(arena, MARE__AT_BIRTH)) {
        const struct mare__recycled *recycled = mare__arena_scratch(arena);
        if (recycled->code)
            mare__unref(&recycled->code->object);
        atomic_fetch_sub(&runtime->images, 1);
    }
    mare__arena_destroy(arena);
}

void mare__state_close(struct mare__local *process)
{
    lua_State *L = process->state;
    struct mare__arena *arena = arena_of(process);
    if (!L)
        return;
    process->current = L;
    mare__wind_up(process, false); // no hook would run in a finalizer
    process->closing = true;
    if (process->needs_close || MARE__ARENA_PLAIN)
        lua_close(L);
    mare__handles_drop(process);
    mare__arena_use(arena, NULL);
    mare__lock_acquire(&process->shared.lock); // nobody looks at the arena meanwhile
    process->state = process->current = NULL;
    atomic_store_explicit(&process->arena, NULL, memory_order_relaxed); // the lock orders it
    mare__lock_release(&process->shared.lock);
    if (process->has_c_modules || !keep(process->shared.runtime, arena, L))
        discard(process->shared.runtime, arena);
    mare__free(process->nest);
    process->nest = NULL;
    process->nest_room = 0;
}

void mare__state_trim(mare_runtime *runtime, unsigned limit)
{
    struct mare__recycled *recycled;
    while ((recycled = take_recycled(runtime, limit)) != NULL)
        discard(runtime, recycled->arena);
}
