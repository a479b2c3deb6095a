// SPDX-License-Identifier: MIT
// mare.select: turns a table of cases into the array that channels understand, and the outcome into
// results. What has a metamethod __select (a routine, a WebSocket, an object of the program) says
// itself what is to be waited for in its place: lua/mare/_select.lua asks it, and comes back here.
#include <string.h>

#include "base/alloc.h"
#include "lua/binding.h"
#include "sched/process.h"
#include "sched/trace.h"

// What is behind a reference of another kind, if that can be waited for; else NULL.
static const struct mare__class *class_of(const mare_process *self,
                                          const struct mare__reference *ref)
{
    const struct mare__class *class =
        ref && ref->object ? &self->runtime->classes[ref->object->kind] : NULL;
    return class && class->await ? class : NULL;
}

// The channel of the case was found, with this outcome. False: there is nothing to wait for, and
// the case is popped.
static bool add_awaited(lua_State *L, struct mare__case *c, mare_err err)
{
    if (err == MARE_NOMEM)
        luaL_error(L, "%s", mare_strerror(err));
    if (err == MARE_OK)
        mare_chan_ref(c->channel);
    else
        lua_pop(L, 1);
    return err == MARE_OK;
}

// What lua/mare/_select.lua is called with: the cases, the timeout, and by their numbers the
// metamethods of those that have one; nil while none has.
enum { CASES = 1, TIMEOUT, HOOKS };

// Takes note of the metamethod on top of the stack, which is popped.
static void add_hook(lua_State *L, lua_Integer number)
{
    if (lua_isnil(L, HOOKS)) {
        lua_newtable(L);
        lua_replace(L, HOOKS);
    }
    lua_rawseti(L, HOOKS, number);
}

// Describes the case on top of the stack and pops it. For one that need not be waited for (a
// process that has ended), returns its number; else 0.
static lua_Integer add_case(lua_State *L, mare_process *self, lua_Integer number)
{
    struct mare__case *c = &self->sleep.cases[self->sleep.case_count];
    memset(c, 0, sizeof *c);
    mare__list_init(&c->spot.entry);
    struct mare__reference *ref = mare__handle_test(L, -1);
    if (ref && !ref->object)
        luaL_error(L, "bad argument #1 to 'select' (case %I: the reference was finalized)", number);
    const struct mare__class *class = class_of(self, ref);
    if ((ref = mare__handle_of(L, -1, MARE__KIND_CHANNEL)) != NULL) {
        c->channel = mare_chan_ref((mare_channel *)ref->object);
    } else if ((ref = mare__handle_of(L, -1, MARE__KIND_PROCESS)) != NULL) {
        if (!add_awaited(L, c, mare__process_await((mare_process *)ref->object, true, &c->channel)))
            return number;
    } else if (class) {
        ref = mare__handle_test(L, -1);
        if (!add_awaited(L, c, class->await(ref->object, &c->channel)))
            return number;
    } else if (luaL_getmetafield(L, -1, "__select") != LUA_TNIL) {
        add_hook(L, number);
        lua_pop(L, 1);
        return 0;
    } else if (lua_istable(L, -1)) {
        int table = lua_gettop(L);
        lua_rawgeti(L, table, 1);
        ref = mare__handle_of(L, -1, MARE__KIND_CHANNEL);
        if (!ref || !ref->object)
            luaL_error(L, "bad argument #1 to 'select' (case %I: a table must be {channel, ...})",
                       number);
        lua_Integer count = luaL_len(L, table);
        luaL_checkstack(L, (int)count, "too many values");
        for (lua_Integer i = 2; i <= count; i++)
            lua_rawgeti(L, table, i);
        self->sleep.leaving_case = self->sleep.case_count;
        if (mare__marshal(L, table + 2, (int)count - 1, &c->message, "value") != MARE_OK)
            luaL_error(L, "bad argument #1 to 'select' (case %I: %s)", number, lua_tostring(L, -1));
        c->channel = mare_chan_ref((mare_channel *)ref->object);
        c->send = true;
        mare__trace_send(self, c->channel, &c->message);
        lua_settop(L, table);
    } else {
        luaL_error(
            L,
            "bad argument #1 to 'select' (case %I: expected a channel, a process, a routine, a "
            "timer, a stream or something else that can be waited for, or a table)",
            number);
    }
    self->sleep.case_count++;
    lua_pop(L, 1);
    return 0;
}

// The processes among the cases are awaited no more, but for the one that ended.
static void unawait(lua_State *L, uint32_t cases, uint32_t fired)
{
    for (uint32_t i = 0; i < cases; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_PROCESS);
        if (ref && ref->object && i != fired)
            mare__process_unawait((mare_process *)ref->object);
        lua_pop(L, 1);
    }
}

// What is pushed for something else than a channel that need not be waited for any more.
static int push_told(lua_State *L, const struct mare__reference *ref)
{
    if (ref->object->kind == MARE__KIND_PROCESS)
        return mare__lua_push_end(L, (mare_process *)ref->object);
    if (ref->object->kind == MARE__KIND_CHILD)
        return mare__lua_push_child_end(L, ref->object);
    lua_pushboolean(L, 1);
    return 1;
}

// Returns the number of the case and what its operation returned.
static int push_outcome(lua_State *L, mare_process *self, uint32_t fired, mare_err err)
{
    bool sent = self->sleep.cases[fired].send;
    if (!sent && !err)
        mare__trace_receive(self, self->sleep.cases[fired].channel, &self->sleep.wait.message);
    unawait(L, self->sleep.case_count, fired);
    mare__block_drop_cases(self);
    mare__handles_left(L, fired, sent && !err);
    lua_rawgeti(L, 1, (lua_Integer)fired + 1);
    struct mare__reference *ref = mare__handle_test(L, -1);
    if (ref && !ref->object) // another routine has sent it away meanwhile
        ref = NULL;
    int kind = ref ? ref->object->kind : 0;
    // Who has a source gets its event; of others it is told only that there is something.
    struct mare__reference *source = kind == MARE__KIND_SOURCE ? ref : NULL;
    bool told = !source && class_of(self, ref) != NULL;
    lua_pop(L, 1); // the table of cases keeps it
    lua_pushinteger(L, (lua_Integer)fired + 1);
    if (kind == MARE__KIND_PROCESS || kind == MARE__KIND_CHILD)
        return 1 + push_told(L, ref);
    if (kind == MARE__KIND_SIGNALS)
        return 1 + mare__lua_push_signal(L, ref->object, err);
    if (err)
        return 1 +
               (source ? mare__lua_fail_source(L, source->object, err) : mare__lua_fail(L, err));
    if (sent || told) {
        lua_pushboolean(L, 1);
        return 2;
    }
    return 1 + mare__unmarshal_own(L, &self->sleep.wait.message);
}

// Nothing is waited for after all: what was put together of the first so many cases goes.
static void give_up(lua_State *L, mare_process *self, lua_Integer cases)
{
    unawait(L, (uint32_t)cases, MARE__FIRED_NONE);
    mare__block_drop_cases(self);
    mare__handles_left(L, 0, false);
}

static int select_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    mare_process *self = mare__self(L);
    mare__block_clean(self);
    uint32_t fired = self->sleep.wait.fired;
    if (fired != MARE__FIRED_NONE)
        return push_outcome(L, self, fired, self->sleep.wait.result);
    give_up(L, self, self->sleep.case_count);
    return mare__lua_fail(L, self->sleep.wait.result);
}

static int asked(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    return lua_gettop(L) - HOOKS;
}

// Lets lua/mare/_select.lua ask those that have metamethods.
static int ask_objects(lua_State *L)
{
    static const char module[] = "mare._select";
    if (lua_getfield(L, LUA_REGISTRYINDEX, module) != LUA_TFUNCTION) {
        lua_pop(L, 1);
        mare__lua_push_embedded(L, module);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, module);
    }
    lua_pushvalue(L, CASES);
    lua_pushvalue(L, TIMEOUT);
    lua_pushvalue(L, HOOKS);
    lua_callk(L, 3, LUA_MULTRET, 0, asked);
    return asked(L, LUA_OK, 0);
}

int mare__lua_select(lua_State *L)
{
    mare_process *self = mare__self(L);
    luaL_checktype(L, CASES, LUA_TTABLE);
    lua_settop(L, TIMEOUT);
    lua_pushnil(L);
    uint64_t deadline = mare__lua_deadline(L, TIMEOUT);
    lua_Integer count = luaL_len(L, CASES);
    luaL_argcheck(L, count <= 1 << 20, 1, "too many cases");
    luaL_argcheck(L, count > 0 || deadline != MARE_FOREVER, 1,
                  "no cases and no timeout: it would wait for ever");
    if (deadline != 0)
        mare__block_check(L, self);
    mare__block_drop_cases(self);
    mare__message_clear(&self->sleep.wait.message);
    self->sleep.leaving = NULL; // of a message that was refused
    // One block: the cases, then scratch for as many pointers.
    self->sleep.cases =
        mare__alloc((size_t)(count + 1) * (sizeof *self->sleep.cases + sizeof(mare_channel *)));
    if (!self->sleep.cases)
        return mare__lua_fail(L, MARE_NOMEM);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, i);
        if (add_case(L, self, i) != 0) { // nothing to wait for
            lua_rawgeti(L, 1, i);
            struct mare__reference *ref = mare__handle_test(L, -1);
            give_up(L, self, i - 1);
            lua_pushinteger(L, i);
            return 1 + push_told(L, ref);
        }
    }
    if (!lua_isnil(L, HOOKS)) {
        give_up(L, self, count);
        return ask_objects(L);
    }
    if (count == 0 && deadline != 0)
        return mare__block(L, self, MARE__WAITS_FOR_TIME, NULL, deadline, select_done, 0);
    self->sleep.turn =
        count ? (self->sleep.turn + 1) % (uint32_t)count : 0; // so that no case has precedence
    if (deadline != 0) {
        mare__handles_wait(self);
        return mare__block(L, self, MARE__WAITS_IN_SELECT, NULL, deadline, select_done, 0);
    }
    uint32_t fired = 0;
    mare_err err = MARE_EMPTY;
    if (count > 0)
        err = mare__chan_select(self->sleep.cases, (uint32_t)count, self->sleep.turn, NULL,
                                &self->sleep.wait.message, &fired,
                                (mare_channel **)(self->sleep.cases + count));
    if (err != MARE_EMPTY)
        return push_outcome(L, self, fired, err);
    give_up(L, self, count);
    return mare__lua_fail(L, MARE_TIMEOUT);
}
