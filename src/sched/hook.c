// SPDX-License-Identifier: MIT
// The hooks of the debug library, which share Lua's own with preemption.
//
// Lua has one hook for a coroutine. A program's hook and the tick that takes the worker from a
// process (mare__hook_arm) both need it, and the program must see the events that it would see
// without the tick: the same, each once, the counts exact. So ours stands there for both:
//
//     Lua: event -> on_event -> the program's function, if the event is the program's
//                            -> gives way, if the tick asked for it and the place is a good one
//
// A hook that yields is no everyday thing for Lua 5.4. What it does then, and what we do about it:
// - When it goes on, it looks at the same instruction again, and remembers by a mark in the
//   function that the hook was called. Only a look with a hook takes the mark away: so a hook that
//   was set by the tick alone stays for one instruction more. Else the first event of the next hook
//   is lost.
// - It counts that instruction twice, or counts from the start again if it was the one counted to.
//   So we set what is left to count (see mare__countdown). Lua counts the instructions of the
//   program's hook function too; so what is left is looked at after it has run.
// - After a count event it goes on to the line event of the same instruction, in a coroutine that
//   has yielded already. Where there are lines, we give way in a line event.
// - If the instruction is the first of its function, it says `call` again. So we must know that it
//   is the first, and then we swallow the second call. With lines we do; else the instruction
//   before must have been looked at too.
// - Inside of some functions it is better not to: see in_half_an_instruction.
#include <string.h>

#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/worker.h"

// Lua counts no more at a time, so that a process with a long count gives way when it should.
enum { MOST = 50000 };

// The hook of a coroutine as the program set it, in a table with the coroutines as weak keys. The
// functions are in a table of their own, as in the stock interpreter.
struct setting {
    int mask, count;  // as it was set; no mask: no hook
    unsigned changes; // how often it was set
    int beyond;       // what is to be counted after what Lua has left to count
    int held;         // while `near`: what Lua would have left to count
    int told;         // what it had left after a count event, if there was no other since; or 0
    bool near;        // each instruction is looked at, until we give way
    bool based;       // Lua counts from another number than it should when it begins again
    bool inherited;   // from the coroutine that made this one, so it has no function
    bool called;      // a Lua function was entered, and none of its instructions was seen yet
    bool first;       // the instruction that is looked at is the first of its function
    bool again;       // the next call event was told before
};

// The setting of the coroutine at an index of the stack, or, with 0, of L; made if `make` says so,
// else NULL where the program set no hook.
static struct setting *setting_of(lua_State *L, int index, bool make)
{
    luaL_checkstack(L, 4, NULL);
    mare__weak_table(L, MARE__REGISTRY_HOOKS, "k");
    if (index)
        lua_pushvalue(L, index);
    else
        lua_pushthread(L);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    struct setting *setting = lua_touserdata(L, -1);
    if (!setting && make) {
        lua_pop(L, 1);
        setting = lua_newuserdatauv(L, sizeof *setting, 0);
        *setting = (struct setting){0};
        lua_rawset(L, -3);
        lua_pop(L, 1);
    } else {
        lua_pop(L, 3);
    }
    return setting;
}

// ---- Lua's own hook -----------------------------------------------------------------------------

static void on_event(lua_State *L, lua_Debug *event);

// Sets it while the tick, a signal handler on this thread, leaves it alone.
static void set_hook(struct mare__local *process, lua_State *L, int mask, int count)
{
    process->hooking = true;
    atomic_signal_fence(memory_order_seq_cst);
    if (mask)
        lua_sethook(L, on_event, mask, count);
    else
        mare__hook_rest(process, L);
    atomic_signal_fence(memory_order_seq_cst);
    process->hooking = false;
}

static int *countdown(const struct mare__local *process, lua_State *L)
{
    return mare__countdown(process->shared.runtime, L);
}

void mare__hook_arm(struct mare__local *process, lua_State *L)
{
    lua_Hook hook = lua_gethook(L);
    if (process->hooking || (hook && hook != on_event)) // the next tick comes; a library's own
        return;
    int mask = lua_gethookmask(L);
    process->armed = L;
    // Where there are lines or counts, the next one will do. A count of one can be set again, and
    // must be: Lua may have been about to find that there is no hook.
    if (!(mask & (LUA_MASKLINE | LUA_MASKCOUNT)) ||
        (!(mask & LUA_MASKLINE) && lua_gethookcount(L) == 1))
        lua_sethook(L, on_event, mask | LUA_MASKCOUNT, 1);
    else if ((mask & LUA_MASKCOUNT) && mare__killed(process))
        // The next count may be far, for an instruction can call C for long, and no count matters
        // to one that was killed. (lua_sethook walks over all calls that are active.)
        *countdown(process, L) = 1;
}

static int most_of(int count)
{
    return count < MOST ? count : MOST;
}

// Lets Lua count what the program counts, with so much left to count now.
static void count_on(struct mare__local *process, lua_State *L, struct setting *setting, int left)
{
    int base = most_of(setting->count);
    if (setting->based || lua_gethookcount(L) != base)
        set_hook(process, L, setting->mask, base);
    setting->based = false;
    *countdown(process, L) = left;
}

// ---- Telling the program ------------------------------------------------------------------------

// Pushes its hook function for the coroutine at an index, or, with 0, for L. Returns the type.
static int push_function(lua_State *L, int thread)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, "_HOOKKEY") != LUA_TTABLE)
        return lua_type(L, -1);
    if (thread)
        lua_pushvalue(L, thread);
    else
        lua_pushthread(L);
    int type = lua_rawget(L, -2);
    lua_remove(L, -2);
    return type;
}

// False: it has set another hook meanwhile.
static bool tell(struct mare__local *process, lua_State *L, struct setting *setting,
                 const lua_Debug *event)
{
    static const char *const names[] = {"call", "return", "line", "count", "tail call"};
    if (push_function(L, 0) != LUA_TFUNCTION)
        return true;
    lua_pushstring(L, names[event->event]);
    if (event->currentline >= 0)
        lua_pushinteger(L, event->currentline);
    else
        lua_pushnil(L);
    unsigned changes = setting->changes;
    bool near = setting->near;
    setting->near = false; // also if it fails
    if (near)
        *countdown(process, L) = setting->held;
    lua_call(L, 2, 0);
    if (changes != setting->changes)
        return false;
    setting->near = near;
    if (near) {
        setting->held = *countdown(process, L);
        *countdown(process, L) = 1;
    }
    return true;
}

// ---- Giving way ---------------------------------------------------------------------------------

// Whether an instruction that calls is under way in L, of a kind that Lua finishes after a yield as
// if it were one more: the call of a loop's iterator, a comparison by a metamethod, the closing of
// variables. A hook that counts would count one too many. True also if that cannot be seen: where a
// tail call hides who called, or too deep in the stack.
static bool in_half_an_instruction(lua_State *L)
{
    enum { LEVELS = 200 }; // each is found from the top
    bool hidden = false;
    lua_Debug frame;
    for (int level = 0; level < LEVELS; level++) {
        if (!lua_getstack(L, level, &frame))
            return false;
        lua_getinfo(L, "nSt", &frame);
        bool is_metamethod = strcmp(frame.namewhat, "metamethod") == 0;
        if ((hidden && *frame.what != 'C') || strcmp(frame.namewhat, "for iterator") == 0 ||
            (is_metamethod && strstr("close lt le eq", frame.name)))
            return true;
        hidden = frame.istailcall;
    }
    return true;
}

// Whether a hook that counts instructions or lines, of the program's, would see that we give way
// here. Nobody waits for a better place for long.
static bool would_be_seen(struct mare__local *process, lua_State *L, const struct setting *setting)
{
    enum { PATIENCE_NS = 100000000, TRACES = LUA_MASKLINE | LUA_MASKCOUNT };
    if (process->worker->age_ns >= PATIENCE_NS || atomic_load(&process->sleep.wait.note))
        return false;
    if (setting && (setting->mask & TRACES) && in_half_an_instruction(L))
        return true;
    for (uint32_t i = 0; process->hooked && i < process->nested; i++) { // it goes through them all
        lua_State *outer = process->nest[i].before;
        if ((lua_gethookmask(outer) & TRACES) && in_half_an_instruction(outer))
            return true;
    }
    return false;
}

// Gives way, as the tick has asked. Returns whether it does: then Lua yields when there is no more
// to tell of this instruction.
static bool give_way(struct mare__local *process, lua_State *L, const struct setting *setting)
{
    process->armed = NULL;
    if (would_be_seen(process, L, setting))
        return false; // the next tick asks again
    mare__give_way(L);
    return lua_status(L) == LUA_YIELD;
}

// The same at an instruction that is a good one for it. `counted`: Lua has counted down to it.
static void give_way_here(struct mare__local *process, lua_State *L, struct setting *setting,
                          bool counted)
{
    int left = *countdown(process, L);
    if (setting->mask & LUA_MASKCOUNT) {
        if (counted) { // it will begin again
            set_hook(process, L, setting->mask, left);
            setting->based = true;
        } else {
            *countdown(process, L) = left + 1;
        }
    }
    if (give_way(process, L, setting))
        setting->again = setting->first && (setting->mask & LUA_MASKCALL);
    else if (setting->mask & LUA_MASKCOUNT)
        count_on(process, L, setting, left);
}

// ---- Events -------------------------------------------------------------------------------------

// Lets Lua tell of the next instruction.
static void look_closely(struct mare__local *process, lua_State *L, struct setting *setting)
{
    if (setting->near)
        return;
    setting->near = true;
    setting->held = *countdown(process, L);
    *countdown(process, L) = 1;
}

static void on_call_or_return(struct mare__local *process, lua_State *L, struct setting *setting,
                              lua_Debug *event)
{
    enum { BOTH = LUA_MASKCOUNT | LUA_MASKLINE };
    setting->called = false;
    setting->told = 0;
    // What is counted may fall into the hook function each time, where there are no events.
    if (tell(process, L, setting, event) && process->armed == L &&
        (setting->mask & BOTH) == LUA_MASKCOUNT)
        look_closely(process, L, setting);
    if (event->event == LUA_HOOKRET)
        return;
    // One with variable arguments begins with an instruction that is not looked at.
    setting->called = lua_getinfo(L, "u", event) && !event->isvararg;
}

static void on_line(struct mare__local *process, lua_State *L, struct setting *setting,
                    lua_Debug *event)
{
    bool counted = *countdown(process, L) == setting->told;
    setting->told = 0; // by the program's function it may come to the same again
    setting->first = setting->called;
    setting->called = false;
    if (tell(process, L, setting, event) && process->armed == L)
        give_way_here(process, L, setting, counted);
}

// What Lua has counted to is the program's count, a part of it, or the next instruction. Returns
// whether it is the first.
static bool is_due(struct mare__local *process, lua_State *L, struct setting *setting)
{
    int left = setting->near ? setting->held - 1 : 0;
    bool due = left == 0 && setting->beyond == 0;
    if (due)
        setting->beyond = setting->count;
    if (left == 0) {
        left = most_of(setting->beyond);
        setting->beyond -= left;
    }
    count_on(process, L, setting, left);
    return due;
}

static void on_count(struct mare__local *process, lua_State *L, struct setting *setting,
                     lua_Debug *event)
{
    bool lines = setting->mask & LUA_MASKLINE, counts = setting->mask & LUA_MASKCOUNT;
    bool sure = setting->near || setting->count == 1 || !(setting->mask & LUA_MASKCALL);
    bool due = counts && is_due(process, L, setting);
    setting->near = false;
    if (!lines) {
        setting->first = setting->called;
        setting->called = false;
    }
    if (due && !tell(process, L, setting, event))
        return;
    setting->told = *countdown(process, L);
    if (process->armed != L || lines) {
        if (!counts)
            set_hook(process, L, setting->mask, 0);
    } else if (sure) {
        give_way_here(process, L, setting, true);
    } else {
        look_closely(process, L, setting);
    }
}

static void on_event(lua_State *L, lua_Debug *event)
{
    struct mare__local *process = mare__self(L);
    struct setting *setting = process->hooked ? setting_of(L, 0, false) : NULL;
    if (!setting || !setting->mask || setting->inherited) {
        bool armed = process->armed == L;
        if (armed && event->event != LUA_HOOKCOUNT) // of a hook that a library in C passed on
            set_hook(process, L, LUA_MASKCOUNT, 1); // Lua yields at an instruction, not at a call
        else if (!armed || !give_way(process, L, NULL))
            set_hook(process, L, 0, 0);
        return;
    }
    if (setting->again) { // before the instruction is looked at again
        setting->again = false;
        return;
    }
    if (setting->based && event->event != LUA_HOOKCOUNT)
        count_on(process, L, setting, *countdown(process, L));
    if (event->event == LUA_HOOKCOUNT)
        on_count(process, L, setting, event);
    else if (event->event == LUA_HOOKLINE)
        on_line(process, L, setting, event);
    else
        on_call_or_return(process, L, setting, event);
}

// ---- The library's functions --------------------------------------------------------------------

void mare__hook_inherit(lua_State *L, lua_State *made)
{
    struct mare__local *process = mare__self(L);
    if (lua_gethook(made) == on_event)
        mare__hook_rest(process, made); // nobody would be told
    const struct setting *from = process->hooked ? setting_of(L, 0, false) : NULL;
    if (from && from->mask) {
        int mask = from->mask, count = from->count;
        struct setting *setting = setting_of(L, lua_gettop(L), true);
        *setting = (struct setting){.mask = mask, .count = count, .inherited = true};
    }
}

// The table of hook functions, which is its own metatable, as in the stock interpreter.
static void push_functions(lua_State *L)
{
    if (luaL_getsubtable(L, LUA_REGISTRYINDEX, "_HOOKKEY"))
        return;
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -2);
}

// debug.sethook([thread,] hook, mask [, count])
int mare__hook_set(lua_State *L)
{
    int first, mask = 0, count = 0;
    lua_State *of = mare__debug_about(L, &first);
    struct mare__local *process = mare__self(L);
    if (lua_isnoneornil(L, first)) {
        lua_settop(L, first);
    } else {
        const char *letters = luaL_checkstring(L, first + 1);
        luaL_checktype(L, first, LUA_TFUNCTION);
        count = (int)luaL_optinteger(L, first + 2, 0);
        mask = (strchr(letters, 'c') ? LUA_MASKCALL : 0) |
               (strchr(letters, 'r') ? LUA_MASKRET : 0) |
               (strchr(letters, 'l') ? LUA_MASKLINE : 0) | (count > 0 ? LUA_MASKCOUNT : 0);
    }
    struct setting *setting = setting_of(L, first - 1, true); // so that nothing fails later
    push_functions(L);
    if (first > 1)
        lua_pushvalue(L, 1);
    else
        lua_pushthread(L);
    lua_pushvalue(L, first);
    lua_rawset(L, -3);
    *setting = (struct setting){.mask = mask,
                                .count = count,
                                .beyond = count > MOST ? count - MOST : 0,
                                .changes = setting->changes + 1};
    process->hooked = true;
    set_hook(process, of, mask, most_of(count));
    return 0;
}

// debug.gethook([thread])
int mare__hook_get(lua_State *L)
{
    int first;
    lua_State *of = mare__debug_about(L, &first);
    const struct setting *setting = setting_of(L, first - 1, false);
    lua_Hook hook = lua_gethook(of);
    bool external = hook && hook != on_event;
    if (!external && !(setting && setting->mask)) {
        lua_pushnil(L);
        return 1;
    }
    int mask = external ? lua_gethookmask(of) : setting->mask;
    char letters[3], *at = letters;
    if (external)
        lua_pushliteral(L, "external hook");
    else
        push_function(L, first - 1);
    if (mask & LUA_MASKCALL)
        *at++ = 'c';
    if (mask & LUA_MASKRET)
        *at++ = 'r';
    if (mask & LUA_MASKLINE)
        *at++ = 'l';
    lua_pushlstring(L, letters, (size_t)(at - letters));
    lua_pushinteger(L, external ? lua_gethookcount(of) : setting->count);
    return 3;
}
