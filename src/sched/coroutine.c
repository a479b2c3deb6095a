// SPDX-License-Identifier: MIT
// coroutine.resume and coroutine.wrap for programs whose coroutines may wait.
//
// When a routine must wait inside a coroutine that the program made, the yield arrives at the
// program's own resume. These versions tell the scheduler's yields from the program's: a
// scheduler's yield is passed on upwards, with a continuation that resumes the same coroutine later
// as if nothing had happened; the program's yields return as they always did.
//
//     worker -> lua_resume(main) -> resume -> lua_resume(co) -> receive: yields (process->yield
//     set)
//            <------------------- yields again <-------------
//
// process->nest lists the coroutines that are being resumed inside each other, so that a kill can
// close them all, and process->current is the innermost, so that the tick knows where to set its
// hook. The coroutine that was innermost before is held by the stack of the one that resumes it,
// and so on down to the routine's own, for as long as it is in that list: none of them can end, or
// be left, in any other way than through here. Where a C library has resumed a coroutine without
// us, that one is in no list, and nothing inside of it can wait: its yield would arrive at the
// library.
#include "base/alloc.h"
#include "sched/libraries.h"
#include "sched/routine.h"
#include "sched/state.h"

// Whether a yield cannot pass from here down to the worker.
static bool is_cut_off(lua_State *L, const struct mare__local *process)
{
    return L != process->current || !lua_isyieldable(L);
}

static bool enter(lua_State *L, struct mare__local *process, lua_State *co)
{
    if (process->nested == process->nest_room) {
        uint32_t room = process->nest_room ? process->nest_room * 2 : 4;
        struct mare__nested *nest = mare__realloc(process->nest, room * sizeof *nest);
        if (!nest)
            return false;
        process->nest = nest;
        process->nest_room = room;
    }
    process->unyieldable += is_cut_off(L, process);
    process->nest[process->nested++] = (struct mare__nested){co, process->current};
    process->current = co;
    return true;
}

static void leave(lua_State *L, struct mare__local *process)
{
    process->current = process->nest[--process->nested].before;
    process->unyieldable -= is_cut_off(L, process);
    if (mare__is_out_of_time(process)) // whatever a library makes of the error
        mare__hook_arm(process, process->current);
}

int mare__thread_close(struct mare__local *process, lua_State *co, lua_State *then)
{
    process->current = co;
    if (mare__is_out_of_time(process))
        mare__hook_arm(process, co); // it has its own hook
    int status = lua_resetthread(co);
    process->current = then;
    return status;
}

// It has ended, or not begun.
static bool is_at_bottom(lua_State *co)
{
    lua_Debug frame;
    return lua_status(co) == LUA_OK && !lua_getstack(co, 0, &frame);
}

// What differs between resume and wrap is only how the outcome is returned: with a number of
// results, or with -1 and the error on top.
typedef int (*finisher)(lua_State *L, lua_State *co, int results);

// The coroutine ran until it ended, failed, or the program yielded: takes over what it left.
static int collect(lua_State *L, lua_State *co, int status, int results, finisher finish)
{
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return finish(L, co, -1);
    }
    if (!lua_checkstack(L, results + 1)) {
        lua_pop(co, results);
        lua_pushliteral(L, "too many results to resume");
        return finish(L, co, -1);
    }
    lua_xmove(co, L, results);
    return finish(L, co, results);
}

static int go_on(lua_State *L, lua_State *co, int arguments, lua_KFunction again, finisher finish)
{
    struct mare__local *process = mare__self(L);
    // Whose yield the last one was is over: the handlers of a process that was killed while it
    // waited run here, too.
    process->yield = MARE__YIELD_BY_PROGRAM;
    int results, status = lua_resume(co, L, arguments, &results);
    if (status == LUA_YIELD && process->yield != MARE__YIELD_BY_PROGRAM)
        return lua_yieldk(L, 0, 0, again);
    leave(L, process);
    return collect(L, co, status, results, finish);
}

// Begins to resume `co` with the arguments on top of L.
static int begin(lua_State *L, lua_State *co, int arguments, lua_KFunction again, finisher finish)
{
    struct mare__local *process = mare__self(L);
    const char *refusal = NULL;
    if (mare__routine_holds(process, co))
        refusal = is_at_bottom(co) ? "cannot resume dead coroutine"
                                   : "cannot resume non-suspended coroutine";
    else if (!lua_checkstack(co, arguments))
        refusal = "too many arguments to resume";
    else if (!enter(L, process, co))
        refusal = "not enough memory";
    if (refusal) {
        lua_pushstring(L, refusal);
        return finish(L, co, -1);
    }
    lua_xmove(L, co, arguments);
    return go_on(L, co, arguments, again, finish);
}

static int finish_resume(lua_State *L, lua_State *co, int results)
{
    (void)co;
    if (results < 0 && mare__kill_thrown(L))
        return lua_error(L);
    lua_pushboolean(L, results >= 0);
    int returned = results < 0 ? 2 : results + 1;
    lua_insert(L, -returned);
    return returned;
}

static int resume_again(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    return go_on(L, lua_tothread(L, 1), 0, resume_again, finish_resume);
}

// coroutine.resume(co, ...)
static int co_resume(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "thread");
    return begin(L, co, lua_gettop(L) - 1, resume_again, finish_resume);
}

static int finish_wrap(lua_State *L, lua_State *co, int results)
{
    if (results >= 0)
        return results;
    int status = lua_status(co);
    if (status != LUA_OK &&
        status != LUA_YIELD) { // it failed: its variables are closed, which may change the error
        struct mare__local *process = mare__self(L);
        status = mare__thread_close(process, co, process->current);
        lua_xmove(co, L, 1);
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrap_again(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    return go_on(L, lua_tothread(L, lua_upvalueindex(1)), 0, wrap_again, finish_wrap);
}

static int wrapped(lua_State *L)
{
    return begin(L, lua_tothread(L, lua_upvalueindex(1)), lua_gettop(L), wrap_again, finish_wrap);
}

// coroutine.create(f)
static int co_create(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    mare__hook_inherit(L, co);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

// coroutine.wrap(f)
static int co_wrap(lua_State *L)
{
    co_create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

// coroutine.close(co)
static int co_close(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "thread");
    struct mare__local *process = mare__self(L);
    bool held = mare__routine_holds(process, co), at_bottom = is_at_bottom(co);
    if (co == L)
        return luaL_error(L, "cannot close a running coroutine");
    if (!at_bottom && (held || lua_status(co) == LUA_OK))
        return luaL_error(L, "cannot close a normal coroutine");
    // A routine that has ended keeps its results until nobody can ask for them.
    bool well = held || mare__thread_close(process, co, process->current) == LUA_OK;
    lua_pushboolean(L, well);
    if (!well)
        lua_xmove(co, L, 1);
    return well ? 1 : 2;
}

// coroutine.status(co): as the original, but one in which a routine is at rest is not suspended.
static int co_status(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "thread");
    bool held = mare__routine_holds(mare__self(L), co);
    const char *word = "dead";
    if (co == L)
        word = "running";
    else if (is_at_bottom(co))
        word = held || lua_gettop(co) == 0 ? "dead" : "suspended";
    else if (lua_status(co) == LUA_OK || held)
        word = "normal";
    else if (lua_status(co) == LUA_YIELD)
        word = "suspended";
    lua_pushstring(L, word);
    return 1;
}

void mare__coroutine_patch(lua_State *L)
{
    lua_pushcfunction(L, co_status);
    lua_setfield(L, -2, "status");
    lua_pushcfunction(L, co_close);
    lua_setfield(L, -2, "close");
    lua_pushcfunction(L, co_resume);
    lua_setfield(L, -2, "resume");
    lua_pushcfunction(L, co_create);
    lua_setfield(L, -2, "create");
    lua_pushcfunction(L, co_wrap);
    lua_setfield(L, -2, "wrap");
}
