// SPDX-License-Identifier: MIT
// mare.select: turns a table of cases into the array that channels understand, and the outcome into
// results. What has a metamethod __select (a routine, a WebSocket, an object of the program) says
// itself what to wait for in its place: lua/mare/_select.lua asks it, and comes back here.
//
// The table is read once, in a protected call; what was made of it is the call's own until it
// waits, and the sleep's meanwhile. So nothing that Lua code does in between (a __travel, a
// finalizer, another routine that changes the table) is seen by the select, and an error finds
// everything given back.
#include <string.h>

#include "lua/binding.h"
#include "sched/process.h"
#include "sched/trace.h"

// A select that is being put together.
struct selecting {
    struct mare__case *cases;
    uint32_t count, room;
    struct mare__leaving *leaving;
    lua_Integer over;           // the number of a case that need not be waited for, or 0
    struct mare__object *about; // what that one is about; a reference
};

// What lua/mare/_select.lua is called with: copies of the cases, the timeout, and by their numbers
// the metamethods of those that have one.
enum { CASES = 1, TIMEOUT, COPIES, HOOKS };

static void free_all(struct selecting *s)
{
    mare__cases_free(s->cases, s->count);
    mare__leaving_drop(&s->leaving);
    if (s->about)
        mare__unref(s->about);
}

// Raises an error at the line that called select, from the function that reads the cases.
static _Noreturn void refuse_case(lua_State *L, lua_Integer number, const char *why)
{
    luaL_where(L, 2);
    lua_pushfstring(L, "bad argument #1 to 'select' (case %I: %s)", number, why);
    lua_concat(L, 2);
    lua_error(L);
    __builtin_unreachable();
}

// ---- Reading the cases --------------------------------------------------------------------------

// The next case, which the select will wait for.
static struct mare__case *add(struct selecting *s, mare_channel *channel,
                              struct mare__object *about)
{
    struct mare__case *c = &s->cases[s->count++];
    *c = (struct mare__case){.channel = mare_chan_ref(channel),
                             .about = about ? mare__ref(about) : NULL};
    mare__list_init(&c->spot.entry);
    return c;
}

// A reference: to a channel, a process, or something else that can be waited for. False: it cannot.
static bool add_reference(lua_State *L, struct selecting *s, struct mare__reference *ref,
                          lua_Integer number)
{
    struct mare__object *object = ref->object;
    mare_channel *channel = (mare_channel *)object;
    mare_err err = MARE_OK;
    if (object->kind == MARE__KIND_CHANNEL) {
        add(s, mare__chan_in(channel), NULL);
        return true;
    }
    const struct mare__class *class = &mare__self(L)->shared.runtime->classes[object->kind];
    if (object->kind == MARE__KIND_PROCESS)
        err = mare__process_await((mare_process *)object, true, &channel);
    else if (class->await)
        err = class->await(object, &channel);
    else
        return false;
    if (err == MARE_NOMEM)
        mare__lua_no_memory(L);
    if (err == MARE_OK) {
        add(s, channel, object);
    } else {
        s->over = number;
        s->about = mare__ref(object);
    }
    return true;
}

// A table {channel, values ...} at the top: to be sent.
static void add_send(lua_State *L, struct selecting *s, lua_Integer number)
{
    int table = lua_gettop(L);
    lua_rawgeti(L, table, 1);
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_CHANNEL);
    if (!ref || !ref->object)
        refuse_case(L, number, "a table must be {channel, ...}");
    lua_Unsigned count = lua_rawlen(L, table);
    if (count > 1 << 20 || !lua_checkstack(L, (int)count + 4))
        refuse_case(L, number, "too many values");
    for (lua_Unsigned i = 2; i <= count; i++)
        lua_rawgeti(L, table, (lua_Integer)i);
    struct mare__marshalling how = {.what = "value", .leaving = &s->leaving, .which = s->count};
    mare_message message;
    mare__message_init(&message);
    if (mare__marshal_as(L, table + 2, (int)count - 1, &message, &how) != MARE_OK)
        refuse_case(L, number, lua_tostring(L, -1));
    mare_channel *channel = (mare_channel *)ref->object;
    if (channel->far && !mare__lua_can_leave(L, channel, &message, &s->leaving))
        refuse_case(L, number, lua_tostring(L, -2));
    struct mare__case *c = add(s, channel, NULL);
    c->send = true;
    mare__message_move(&c->message, &message);
    mare__trace_send(mare__self(L), c->channel, &c->message);
    lua_settop(L, table);
}

// Describes the case on top of the stack. True: it has a metamethod, which is pushed.
static bool add_case(lua_State *L, struct selecting *s, lua_Integer number)
{
    struct mare__reference *ref = mare__handle_test(L, -1);
    if (ref && !ref->object)
        refuse_case(L, number, "the reference was finalized");
    if (ref && ref->away)
        refuse_case(L, number, "it is being sent");
    if (ref && add_reference(L, s, ref, number))
        return false;
    if (luaL_getmetafield(L, -1, "__select") != LUA_TNIL)
        return true;
    if (!lua_istable(L, -1))
        refuse_case(L, number,
                    "expected a channel, a process, a routine, a timer, a stream or something else "
                    "that can be waited for, or a table");
    add_send(L, s, number);
    return false;
}

// selecting (light userdata), table of cases -> nothing, or the tables of copies and of metamethods
static int read_cases(lua_State *L)
{
    struct selecting *s = mare__passed(L, 1);
    lua_Integer count = s->room; // the call may have run a finalizer, which has changed the table
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        lua_rawseti(L, 3, i);
    }
    lua_pushnil(L);
    for (lua_Integer i = 1; i <= count && !s->over; i++) {
        lua_rawgeti(L, 3, i);
        if (add_case(L, s, i)) {
            if (lua_isnil(L, 4)) {
                lua_newtable(L);
                lua_replace(L, 4);
            }
            lua_rawseti(L, 4, i);
        }
        lua_settop(L, 4);
    }
    return lua_isnil(L, 4) ? 0 : 2;
}

// ---- Outcomes -----------------------------------------------------------------------------------

// What has come of something else than a channel.
struct told {
    struct mare__object *about;
    mare_err err;
    mare_message *message;
};

// told (light userdata) -> the message about it
static int push_told(lua_State *L)
{
    struct told *told = mare__passed(L, 1);
    switch (told->about->kind) {
    case MARE__KIND_PROCESS:
        return mare__lua_push_end(L, (mare_process *)told->about);
    case MARE__KIND_CHILD:
        return mare__lua_push_child_end(L, told->about);
    case MARE__KIND_SIGNALS:
        return mare__lua_push_signal(L, told->about, told->err, told->message);
    case MARE__KIND_SOURCE: // who has a source gets its event
        return told->err ? mare__lua_fail_source(L, told->about, told->err)
                         : mare__unmarshal_own(L, told->message);
    default: // of others it is told only that there is something
        if (told->err)
            return mare__lua_fail(L, told->err);
        lua_pushboolean(L, 1);
        return 1;
    }
}

// Returns the number of the case and what is said of what it was about, whose reference goes.
static int return_told(lua_State *L, lua_Integer number, struct told *told)
{
    lua_pushinteger(L, number);
    int top = lua_gettop(L);
    struct mare__pass pass;
    lua_pushcfunction(L, push_told);
    mare__pass_push(L, &pass, told);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    mare__unref(told->about);
    mare__message_clear(told->message);
    return status == LUA_OK ? 1 + lua_gettop(L) - top : lua_error(L);
}

// Returns the number of the case and what its operation returned.
static int return_outcome(lua_State *L, struct selecting *s, uint32_t fired, mare_err err,
                          mare_message *message)
{
    struct mare__case *c = &s->cases[fired];
    bool sent = c->send;
    struct told told = {c->about, err, message};
    if (!sent && !err)
        mare__trace_receive(mare__self(L), c->channel, message);
    if (told.about)
        mare__ref(told.about);
    mare__cases_free(s->cases, s->count);
    mare__leaving_end(L, &s->leaving, fired, sent && !err);
    if (told.about)
        return return_told(L, (lua_Integer)fired + 1, &told);
    lua_pushinteger(L, (lua_Integer)fired + 1);
    if (err)
        return 1 + mare__lua_fail(L, err);
    if (!sent)
        return 1 + (message->trust == MARE__TRUST_OWN ? mare__unmarshal_own(L, message)
                                                      : mare__lua_push_foreign(L, message));
    lua_pushboolean(L, 1);
    return 2;
}

static int select_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    struct selecting s = {.leaving = self->sleep.leaving};
    s.cases = mare__block_cases(self, &s.count);
    self->sleep.leaving = NULL;
    uint32_t fired = self->sleep.wait.fired;
    if (fired == MARE__FIRED_NONE) {
        free_all(&s);
        return mare__lua_fail(L, self->sleep.wait.result);
    }
    mare_message message;
    mare__message_move(&message, &self->sleep.wait.message);
    return return_outcome(L, &s, fired, self->sleep.wait.result, &message);
}

// Looks once. Returns the results.
static int select_now(lua_State *L, struct selecting *s)
{
    uint32_t fired = 0;
    mare_message message;
    mare__message_init(&message);
    mare_err err = MARE_EMPTY;
    if (s->count > 0)
        err = mare__chan_select(s->cases, s->count, mare__self(L)->sleep.turn, NULL, &message,
                                &fired, mare__cases_scratch(s->cases, s->count));
    if (err != MARE_EMPTY)
        return return_outcome(L, s, fired, err, &message);
    free_all(s);
    return mare__lua_fail(L, MARE_TIMEOUT);
}

// ---- Objects that say themselves what to wait for -----------------------------------------------

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
    lua_pushvalue(L, COPIES);
    lua_pushvalue(L, TIMEOUT);
    lua_pushvalue(L, HOOKS);
    lua_callk(L, 3, LUA_MULTRET, 0, asked);
    return asked(L, LUA_OK, 0);
}

// mare.select(cases [, timeout])
int mare__lua_select(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    luaL_checktype(L, CASES, LUA_TTABLE);
    lua_settop(L, TIMEOUT);
    uint64_t deadline = mare__lua_deadline(L, TIMEOUT);
    lua_Unsigned count = lua_rawlen(L, CASES);
    luaL_argcheck(L, count <= 1 << 20, 1, "too many cases");
    luaL_argcheck(L, count > 0 || deadline != MARE_FOREVER, 1,
                  "no cases and no timeout: it would wait forever");
    if (deadline != 0)
        mare__block_check(L, self);
    if (count == 0 && deadline != 0)
        return mare__block(L, self, MARE__WAITS_FOR_TIME, NULL, deadline, select_done, 0);
    struct selecting s = {.cases = mare__cases_new((uint32_t)count), .room = (uint32_t)count};
    if (!s.cases)
        return mare__lua_fail(L, MARE_NOMEM);
    struct mare__pass pass;
    lua_pushcfunction(L, read_cases);
    mare__pass_push(L, &pass, &s);
    lua_pushvalue(L, CASES);
    int status = lua_pcall(L, 2, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    if (status != LUA_OK) {
        free_all(&s);
        return lua_error(L);
    }
    if (s.over) {
        struct told told = {s.about, MARE_OK, &(mare_message){0}};
        mare__cases_free(s.cases, s.count);
        mare__leaving_drop(&s.leaving);
        return return_told(L, s.over, &told);
    }
    if (lua_gettop(L) == HOOKS) {
        free_all(&s);
        return ask_objects(L);
    }
    self->sleep.turn =
        s.count ? (self->sleep.turn + 1) % s.count : 0; // so that none has precedence
    if (deadline == 0)
        return select_now(L, &s);
    self->sleep.leaving = s.leaving;
    return mare__block_select(L, self, s.cases, s.count, deadline, select_done);
}
