// SPDX-License-Identifier: MIT
// Sessions with other nodes in Lua. lua/mare/node.lua makes the module `mare.node` of this: who
// connects, who is let in, what peers may do.
#include <string.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "lua/guest.h"
#include "lua/net.h"
#include "node/session.h"
#include "sched/trace.h"

static struct mare__session *check_session(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_SESSION);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "session");
    return (struct mare__session *)ref->object;
}

// A field of the options at index 2: text without zero bytes, which stays in the table.
static const char *text_of(lua_State *L, const char *name, size_t most)
{
    size_t size = 0;
    int type = lua_getfield(L, 2, name);
    const char *text = type == LUA_TSTRING ? lua_tolstring(L, -1, &size) : "";
    if ((type != LUA_TNIL && type != LUA_TSTRING) || strlen(text) != size || size > most)
        luaL_error(L, "option '%s' must be a string of at most %d bytes", name, (int)most);
    lua_pop(L, 1);
    return text;
}

static uint64_t number_of(lua_State *L, const char *name)
{
    int whole = 1, type = lua_getfield(L, 2, name);
    lua_Integer number = lua_tointegerx(L, -1, &whole);
    if (type != LUA_TNIL && (!whole || number < 0))
        luaL_error(L, "option '%s' must be a whole number, not negative", name);
    lua_pop(L, 1);
    return (uint64_t)number;
}

static enum mare__trust check_trust(lua_State *L, int index)
{
    static const char *const words[] = {"bytecode", "values", NULL};
    return luaL_checkoption(L, index, "values", words) == 0 ? MARE__TRUST_EQUAL : MARE__TRUST_PEER;
}

// _begin(stream, options, events, service): a session, which owns the stream from then on
static int node_begin(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    mare_channel *events = mare__lua_channel(L, 3), *service = mare__lua_channel(L, 4);
    struct mare__session_options options = {.name = text_of(L, "name", MARE__LINK_TEXT_MOST),
                                            .group = text_of(L, "group", MARE__LINK_TEXT_MOST),
                                            .incarnation = number_of(L, "incarnation"),
                                            .stamp = number_of(L, "stamp"),
                                            .silence_us = number_of(L, "silence_us"),
                                            .message_bytes = number_of(L, "message_bytes")};
    strcpy(options.facts, text_of(L, "facts", sizeof options.facts - 1));
    lua_getfield(L, 2, "dials");
    options.dials = lua_toboolean(L, -1);
    const char *address = text_of(L, "address", MARE__LINK_TEXT_MOST);
    options.addresses = &address;
    options.address_count = *address != 0;
    struct mare__transport *transport = mare__stream_take_transport(stream);
    mare__transport_await(transport, MARE__TO_READ); // here: this process gathers
    struct mare__session *session =
        mare__session_new(mare__self(L)->shared.runtime, transport, &options, events, service);
    if (!session)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push(L, mare__session_object(session));
    return 1;
}

// _gather(): from now on all that this process watches is watched by the same worker
static int node_gather(lua_State *L)
{
    mare__self(L)->gathers = true;
    return 0;
}

// home(object): the name of the node that a channel or a process is at home in, or nil: this one;
// and its number there
static int node_home(lua_State *L)
{
    const struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_PROCESS);
    uint64_t id;
    if (ref && ref->object)
        lua_pushstring(L, mare__process_node((mare_process *)ref->object, &id));
    else
        lua_pushstring(L, mare__channel_node(mare__lua_channel(L, 1), &id));
    lua_pushinteger(L, (lua_Integer)id);
    return 2;
}

// _name([name, life]): the name of this node, or ""
static int node_name(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    char copy[sizeof runtime->node_name];
    const char *name = luaL_optstring(L, 1, NULL);
    uint64_t life = (uint64_t)luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, !name || strlen(name) < sizeof copy, 1, "too long");
    mare__lock_acquire(&runtime->process_lock);
    if (name) {
        strcpy(runtime->node_name, name);
        runtime->node_life = life;
    }
    strcpy(copy, runtime->node_name);
    mare__lock_release(&runtime->process_lock);
    if (name && name[0])
        mare__trace_node(runtime, name, life);
    lua_pushstring(L, copy);
    return 1;
}

// session:accept(stamp, trust)
static int session_accept(lua_State *L)
{
    struct mare__session *session = check_session(L, 1);
    mare__session_accept(session, (uint64_t)luaL_checkinteger(L, 2), check_trust(L, 3));
    return 0;
}

static unsigned check_code(lua_State *L, int index)
{
    const char *word = luaL_checkstring(L, index);
#define COMPARE(symbol, number, text, sentence)                                                    \
    if (strcmp(word, text) == 0)                                                                   \
        return number;
    MARE__LINK_CODES(COMPARE)
#undef COMPARE
    return (unsigned)luaL_argerror(L, index, "no code of a link");
}

// session:_drain(): sends what waits, and then tells "drained"
static int session_drain(lua_State *L)
{
    mare__session_drain(check_session(L, 1));
    return 0;
}

// session:refuse(code, text), session:_bye(code, text), session:_quit(code, text)
static int session_refuse(lua_State *L)
{
    mare__session_refuse(check_session(L, 1), check_code(L, 2), luaL_optstring(L, 3, ""));
    return 0;
}

static int session_bye(lua_State *L)
{
    mare__session_bye(check_session(L, 1), check_code(L, 2), luaL_optstring(L, 3, ""));
    return 0;
}

static int session_quit(lua_State *L)
{
    mare__session_quit(check_session(L, 1), check_code(L, 2), luaL_optstring(L, 3, ""));
    return 0;
}

// session:look(): the last round trip in seconds, bytes and messages in and out
static int session_look(lua_State *L)
{
    struct mare__session_view view;
    mare__session_look(check_session(L, 1), &view);
    const uint64_t counts[] = {view.bytes_in, view.bytes_out, view.messages_in, view.messages_out,
                               view.samples};
    static const char *const names[] = {"bytes_in", "bytes_out", "messages_in", "messages_out",
                                        "samples"};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        lua_pushinteger(L, (lua_Integer)counts[i]);
        lua_setfield(L, -2, names[i]);
    }
    if (view.rtt_us > 0) {
        lua_pushnumber(L, (lua_Number)view.rtt_us / 1e6);
        lua_setfield(L, -2, "round_trip");
        lua_pushlstring(L, (const char *)view.beat, view.beat_size);
        lua_setfield(L, -2, "beat");
    }
    return 1;
}

// session:_beat(bytes): sets what goes along in heartbeats
static int session_beat(lua_State *L)
{
    size_t size;
    const char *bytes = luaL_checklstring(L, 2, &size);
    mare__session_set_beat(check_session(L, 1), bytes, size);
    return 0;
}

// session:_introduced(): the program has carried out an "introduce"
static int session_introduced(lua_State *L)
{
    mare__session_introduced(check_session(L, 1));
    return 0;
}

// session:_claimed(number [, object]): the answer to a "claim": a channel or process
static int session_claimed(lua_State *L)
{
    struct mare__session *session = check_session(L, 1);
    uint64_t number = (uint64_t)luaL_checkinteger(L, 2);
    const struct mare__reference *ref = mare__handle_of(L, 3, MARE__KIND_PROCESS);
    if (!ref)
        ref = mare__handle_of(L, 3, MARE__KIND_CHANNEL);
    mare__session_claimed(session, number, ref ? ref->object : NULL);
    return 0;
}

// _same(a, b): whether two secrets are equal, in a time that says nothing of where they differ
static int node_same(lua_State *L)
{
    size_t size, other_size;
    const char *a = luaL_checklstring(L, 1, &size), *b = luaL_checklstring(L, 2, &other_size);
    lua_pushboolean(L, mare__secret_equal(a, size, b, other_size));
    return 1;
}

const luaL_Reg mare__session_methods[] = {
    {"accept", session_accept},
    {"refuse", session_refuse},
    {"_drain", session_drain},
    {"_bye", session_bye},
    {"_quit", session_quit},
    {"_beat", session_beat},
    {"_introduced", session_introduced},
    {"_claimed", session_claimed},
    {"look", session_look},
    {NULL, NULL},
};

int mare__lua_open_node(lua_State *L)
{
    static const luaL_Reg functions[] = {{"_begin", node_begin},
                                         {"_box", mare__lua_box_new},
                                         {"_gather", node_gather},
                                         {"home", node_home},
                                         {"_name", node_name},
                                         {"_same", node_same},
                                         {"_reader", mare__lua_guest_reader},
                                         {"_answer", mare__lua_guest_answer},
                                         {"_failure", mare__lua_guest_failure},
                                         {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}
