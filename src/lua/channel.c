// SPDX-License-Identifier: MIT
// Channels in Lua. The hot path of every message: a send marshals into a message of its own, offers
// it to the channel, and gives it to the process's sleep only if it must wait; a receive is its
// mirror.
#include <string.h>

#include "lua/binding.h"
#include "sched/foreign.h"
#include "sched/look.h"
#include "sched/trace.h"

// A statistic: a host's messages are not counted.
static void count_message(struct mare__local *process, bool sent)
{
    struct mare__worker *worker = process->worker;
    if (worker)
        mare__count(sent ? &worker->counters.sent : &worker->counters.received);
}

static int send_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *process = mare__self(L);
    mare__block_clean(process);
    mare_err err = process->sleep.wait.result;
    if (process->sleep.leaving)
        mare__leaving_end(L, &process->sleep.leaving, 0, !err);
    if (err) {
        mare__message_clear(&process->sleep.wait.message);
        return mare__lua_fail(L, err);
    }
    count_message(process, true);
    lua_pushboolean(L, 1);
    return 1;
}

bool mare__lua_can_leave(lua_State *L, mare_channel *channel, mare_message *message,
                         struct mare__leaving **leaving)
{
    const char *why = NULL;
    mare_err err = channel->far->check(channel->far, message, &why);
    if (!err)
        return true;
    mare__message_clear(message); // first: to say why may fail
    mare__leaving_drop(leaving);
    lua_pushstring(L, why ? why : mare_strerror(err));
    mare__lua_fail_with(L, err);
    return false;
}

// Sends the values from `first` on.
static inline int send(lua_State *L, mare_channel *channel, int first, bool wait, uint64_t deadline)
{
    struct mare__local *process = mare__self(L);
    mare_message message;
    struct mare__leaving *leaving = NULL;
    mare__message_init(&message);
    int count = lua_gettop(L) - first + 1;
    if (mare__marshal_quickly(L, first, count, &message, "arg", &leaving) != MARE_OK)
        return mare__lua_refuse(L);
    if (__builtin_expect(channel->far != NULL, 0) &&
        !mare__lua_can_leave(L, channel, &message, &leaving))
        return 3;
    mare__trace_send(process, channel, &message);
    mare_err err =
        mare__can(channel, MARE__CAN_SEND) ? mare__chan_send(channel, &message, NULL) : MARE_FULL;
    if (__builtin_expect(err == MARE_OK, 1)) {
        if (leaving)
            mare__leaving_end(L, &leaving, 0, true);
        count_message(process, true);
        lua_pushboolean(L, 1);
        return 1;
    }
    if (err == MARE_FULL && wait && mare__block_possible(L, process))
        return mare__block_send(L, process, &message, leaving, channel, deadline, send_done);
    mare__message_clear(&message);
    mare__leaving_drop(&leaving);
    if (err == MARE_FULL && wait)
        mare__block_refuse(L, process);
    return mare__lua_fail(L, err);
}

static int channel_send(lua_State *L)
{
    return send(L, mare__lua_channel(L, 1), 2, true, MARE_FOREVER);
}

static int channel_sendwithin(lua_State *L)
{
    mare_channel *channel = mare__lua_channel(L, 1);
    if (lua_isnone(L, 2))
        return luaL_typeerror(L, 2, "number of seconds or deadline");
    return send(L, channel, 3, true, mare__lua_deadline(L, 2));
}

static int channel_trysend(lua_State *L)
{
    return send(L, mare__lua_channel(L, 1), 2, false, 0);
}

// message (light userdata) -> its values
static int read_protected(lua_State *L)
{
    mare_message *message = mare__passed(L, 1);
    return mare__unmarshal_own(L, message);
}

int mare__lua_push_foreign(lua_State *L, mare_message *message)
{
    int top = lua_gettop(L);
    struct mare__pass pass;
    lua_pushcfunction(L, read_protected);
    mare__pass_push(L, &pass, message);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    if (status == LUA_OK)
        return lua_gettop(L) - top;
    luaL_tolstring(L, -1, NULL);
    return mare__lua_fail_with(L, MARE_BADMSG);
}

static int push_received(lua_State *L, struct mare__local *process, mare_message *message)
{
    count_message(process, false);
    if (__builtin_expect(message->trust != MARE__TRUST_OWN, 0))
        return mare__lua_push_foreign(L, message);
    return mare__unmarshal_quickly(L, message);
}

static int receive_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *process = mare__self(L);
    mare__block_clean(process);
    if (process->sleep.wait.result) {
        struct mare__far *far = process->sleep.waits_for->far;
        if (far)
            far->ask(far);
        return mare__lua_fail(L, process->sleep.wait.result);
    }
    mare__trace_receive(process, process->sleep.waits_for, &process->sleep.wait.message);
    return push_received(L, process, &process->sleep.wait.message);
}

static inline int receive(lua_State *L, mare_channel *channel, bool wait, uint64_t deadline)
{
    struct mare__local *process = mare__self(L);
    mare_message message;
    mare_err err = MARE_EMPTY;
    channel = mare__chan_in(channel);
    if (mare__can(channel, MARE__CAN_RECEIVE))
        err = mare__chan_receive(channel, &message, NULL);
    if (err == MARE_OK) {
        mare__trace_receive(process, channel, &message);
        return push_received(L, process, &message);
    }
    if (err == MARE_EMPTY && wait) {
        mare__block_check(L, process);
        return mare__block(L, process, MARE__WAITS_TO_RECEIVE, channel, deadline, receive_done, 0);
    }
    return mare__lua_fail(L, err);
}

static int channel_receive(lua_State *L)
{
    mare_channel *channel = mare__lua_channel(L, 1);
    return receive(L, channel, true, lua_gettop(L) > 1 ? mare__lua_deadline(L, 2) : MARE_FOREVER);
}

static int channel_tryreceive(lua_State *L)
{
    return receive(L, mare__lua_channel(L, 1), false, 0);
}

// The iterator: a failure ends the loop. A message of another node that cannot be read here is
// skipped.
static int messages_next(lua_State *L);

// Returns the values of a message to the loop; or goes on to the next message.
static int messages_got(lua_State *L, mare_channel *channel, mare_message *message)
{
    struct mare__local *process = mare__self(L);
    bool own = message->trust == MARE__TRUST_OWN;
    mare__trace_receive(process, channel, message);
    int count = push_received(L, process, message);
    // Values from here: return them. (The first value of a loop's message is never nil, because nil
    // ends the loop.)
    if (own || !lua_isnil(L, -count) || count != 3 || lua_type(L, -1) != LUA_TSTRING ||
        strcmp(lua_tostring(L, -1), mare__err_word(MARE_BADMSG)) != 0)
        return count;
    lua_settop(L, 1);
    return messages_next(L);
}

static int messages_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *process = mare__self(L);
    mare__block_clean(process);
    mare_err err = process->sleep.wait.result;
    if (err == MARE_OK)
        return messages_got(L, process->sleep.waits_for, &process->sleep.wait.message);
    return err == MARE_CLOSED ? 0 : mare__lua_fail(L, err);
}

static int messages_next(lua_State *L)
{
    mare_channel *channel = mare__chan_in(mare__lua_channel(L, 1));
    mare_message message;
    mare_err err = mare__chan_receive(channel, &message, NULL);
    if (err == MARE_OK)
        return messages_got(L, channel, &message);
    if (err != MARE_EMPTY)
        return 0;
    struct mare__local *process = mare__self(L);
    mare__block_check(L, process);
    return mare__block(L, process, MARE__WAITS_TO_RECEIVE, channel, MARE_FOREVER, messages_done, 0);
}

static int channel_messages(lua_State *L)
{
    mare__lua_channel(L, 1);
    mare__function_push(L, messages_next);
    lua_pushvalue(L, 1);
    return 2;
}

static int channel_close(lua_State *L)
{
    lua_pushboolean(L, mare_chan_close(mare__lua_channel(L, 1)));
    return 1;
}

static int channel_closed(lua_State *L)
{
    mare_channel *channel = mare__lua_channel(L, 1);
    mare__lock_acquire(&channel->lock);
    bool closed = channel->closed;
    mare__lock_release(&channel->lock);
    lua_pushboolean(L, closed);
    return 1;
}

static int channel_capacity(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare__lua_channel(L, 1)->capacity);
    return 1;
}

static int channel_name(lua_State *L)
{
    lua_pushstring(L, mare__lua_channel(L, 1)->name);
    return 1;
}

static int channel_len(lua_State *L)
{
    mare_channel *channel = mare__lua_channel(L, 1);
    mare__lock_acquire(&channel->lock);
    size_t count = channel->count;
    mare__lock_release(&channel->lock);
    lua_pushinteger(L, (lua_Integer)count);
    return 1;
}

static int channel_tostring(lua_State *L)
{
    mare_channel *channel = mare__lua_channel(L, 1);
    lua_pushfstring(L, "channel %I", (lua_Integer)channel->id);
    if (channel->name) {
        lua_pushfstring(L, " (%s)", channel->name);
        lua_concat(L, 2);
    }
    return 1;
}

const luaL_Reg mare__channel_methods[] = {{"send", channel_send},
                                          {"sendwithin", channel_sendwithin},
                                          {"trysend", channel_trysend},
                                          {"receive", channel_receive},
                                          {"tryreceive", channel_tryreceive},
                                          {"messages", channel_messages},
                                          {"close", channel_close},
                                          {"closed", channel_closed},
                                          {"capacity", channel_capacity},
                                          {"name", channel_name},
                                          {NULL, NULL}};

const luaL_Reg mare__channel_metamethods[] = {{"__len", channel_len},
                                              {"__tostring", channel_tostring},
                                              {"__close", channel_close},
                                              {NULL, NULL}};

// Index 3 is for our own modules: `mare.processes` then shows another line as the place where this
// one was made.
static int make(lua_State *L, bool box)
{
    lua_Integer capacity = luaL_optinteger(L, 1, 0);
    const char *name = lua_isnoneornil(L, 2) ? NULL : mare__lua_name(L, 2);
    luaL_argcheck(L, capacity >= 0, 1, "a capacity cannot be negative");
    const mare_channel *like = lua_isnoneornil(L, 3) ? NULL : mare__lua_channel(L, 3);
    mare_channel *channel;
    mare__handle_affords(L, sizeof *channel + (name ? strlen(name) + 1 : 0)); // or collect garbage
                                                                              // first
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    mare_err err = box ? mare__chan_create_box(runtime, (size_t)capacity, name, &channel)
                       : mare__chan_create(runtime, (size_t)capacity, name, &channel);
    if (err == MARE_EXISTS) {
        lua_pushfstring(L, "the name '%s' is taken", name);
        return mare__lua_fail_with(L, err);
    }
    if (err)
        return mare__lua_fail(L, err);
    if (!name)
        channel->made = like ? like->made : mare__site_of(runtime, L);
    if (name)
        mare__handle_push(L, channel); // another process may have found it already
    else
        mare__handle_push_new(L, channel);
    return 1;
}

int mare__lua_channel_new(lua_State *L)
{
    return make(L, false);
}

// _box(capacity, name): a channel for messages of other nodes. Each begins with the name that the
// node has proved to this one, and no node receives from it or closes it.
int mare__lua_box_new(lua_State *L)
{
    return make(L, true);
}
