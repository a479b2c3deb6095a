// SPDX-License-Identifier: MIT
// mare.select: turns a table of cases into the array that channels understand, and the outcome into
// results.
#include <string.h>

#include "base/alloc.h"
#include "lua/binding.h"
#include "sched/trace.h"

// Describes the case on top of the stack and pops it. For a process that has ended, returns its
// number; else 0.
static lua_Integer add_case(lua_State *L, mare_process *self, lua_Integer number)
{
    struct mare__case *c = &self->cases[self->case_count];
    memset(c, 0, sizeof *c);
    mare__list_init(&c->node.link);
    struct mare__ref_link *ref = mare__handle_test(L, -1);
    if (ref && !ref->object)
        luaL_error(L, "bad argument #1 to 'select' (case %I: the reference was finalized)", number);
    if ((ref = mare__handle_of(L, -1, MARE__KIND_CHANNEL)) != NULL) {
        c->channel = mare_chan_ref((mare_channel *)ref->object);
    } else if ((ref = mare__handle_of(L, -1, MARE__KIND_PROCESS)) != NULL) {
        mare_err err = mare__process_watch((mare_process *)ref->object, true, &c->channel);
        if (err == MARE_NOMEM)
            luaL_error(L, "%s", mare_strerror(err));
        if (err == MARE_CLOSED) {
            lua_pop(L, 1);
            return number;
        }
        mare_chan_ref(c->channel);
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
        self->leaving_case = self->case_count;
        if (mare__marshal(L, table + 2, (int)count - 1, &c->message, "value") != MARE_OK)
            luaL_error(L, "bad argument #1 to 'select' (case %I: %s)", number, lua_tostring(L, -1));
        c->channel = mare_chan_ref((mare_channel *)ref->object);
        c->send = true;
        mare__trace_send(self, c->channel, &c->message);
        lua_settop(L, table);
    } else {
        luaL_error(
            L, "bad argument #1 to 'select' (case %I: expected a channel, a process or a table)",
            number);
    }
    self->case_count++;
    lua_pop(L, 1);
    return 0;
}

// The processes among the cases are watched no more, but for the one that ended.
static void unwatch(lua_State *L, uint32_t cases, uint32_t fired)
{
    for (uint32_t i = 0; i < cases; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        struct mare__ref_link *ref = mare__handle_of(L, -1, MARE__KIND_PROCESS);
        if (ref && ref->object && i != fired)
            mare__process_unwatch((mare_process *)ref->object);
        lua_pop(L, 1);
    }
}

// Returns the number of the case and what its operation returned.
static int push_outcome(lua_State *L, mare_process *self, uint32_t fired, mare_err err)
{
    bool sent = self->cases[fired].send;
    if (!sent && !err)
        mare__trace_receive(self, self->cases[fired].channel, &self->wait.message);
    unwatch(L, self->case_count, fired);
    mare__block_drop_cases(self);
    mare__handles_left(L, fired, sent && !err);
    lua_rawgeti(L, 1, (lua_Integer)fired + 1);
    struct mare__ref_link *ref = mare__handle_of(L, -1, MARE__KIND_PROCESS);
    lua_pop(L, 1); // the table of cases keeps it
    lua_pushinteger(L, (lua_Integer)fired + 1);
    if (ref)
        return 1 + mare__lua_push_end(L, (mare_process *)ref->object);
    if (err)
        return 1 + mare__lua_fail(L, err);
    if (sent) {
        lua_pushboolean(L, 1);
        return 2;
    }
    return 1 + mare__unmarshal_own(L, &self->wait.message);
}

static int select_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    mare_process *self = mare__self(L);
    mare__block_clean(self);
    uint32_t fired = self->wait.fired;
    if (fired != MARE__FIRED_NONE)
        return push_outcome(L, self, fired, self->wait.result);
    unwatch(L, self->case_count, MARE__FIRED_NONE);
    mare__block_drop_cases(self);
    mare__handles_left(L, 0, false);
    return mare__lua_fail(L, self->wait.result);
}

int mare__lua_select(lua_State *L)
{
    mare_process *self = mare__self(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    uint64_t deadline = mare__lua_deadline(L, 2);
    lua_Integer count = luaL_len(L, 1);
    luaL_argcheck(L, count <= 1 << 20, 1, "too many cases");
    luaL_argcheck(L, count > 0 || deadline != MARE_FOREVER, 1,
                  "no cases and no timeout: it would wait for ever");
    if (deadline != 0)
        mare__block_check(L, self);
    mare__block_drop_cases(self);
    mare__message_clear(&self->wait.message);
    self->leaving = NULL; // of a message that was refused
    // One block: the cases, then scratch for as many pointers.
    self->cases = mare__alloc((size_t)(count + 1) * (sizeof *self->cases + sizeof(mare_channel *)));
    if (!self->cases)
        return mare__lua_fail(L, MARE_NOMEM);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, i);
        if (add_case(L, self, i) != 0) { // a process that has ended: nothing to wait for
            lua_rawgeti(L, 1, i);
            mare_process *process = mare__lua_process(L, -1);
            unwatch(L, self->case_count, MARE__FIRED_NONE);
            mare__block_drop_cases(self);
            mare__handles_left(L, 0, false);
            lua_pushinteger(L, i);
            return 1 + mare__lua_push_end(L, process);
        }
    }
    if (count == 0 && deadline != 0)
        return mare__block(L, self, MARE__WAITS_FOR_TIME, NULL, deadline, select_done, 0);
    self->turn = count ? (self->turn + 1) % (uint32_t)count : 0; // so that no case has precedence
    if (deadline != 0)
        return mare__block(L, self, MARE__WAITS_IN_SELECT, NULL, deadline, select_done, 0);
    uint32_t fired = 0;
    mare_err err = MARE_EMPTY;
    if (count > 0)
        err = mare__chan_select(self->cases, (uint32_t)count, self->turn, NULL, &self->wait.message,
                                &fired, (mare_channel **)(self->cases + count));
    if (err != MARE_EMPTY)
        return push_outcome(L, self, fired, err);
    unwatch(L, self->case_count, MARE__FIRED_NONE);
    mare__block_drop_cases(self);
    mare__handles_left(L, 0, false);
    return mare__lua_fail(L, MARE_TIMEOUT);
}
