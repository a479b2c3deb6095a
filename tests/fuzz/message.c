// SPDX-License-Identifier: MIT
// Any bytes as a message from elsewhere, into Lua and out again: no crash, memory in proportion to
// the bytes, and what came in goes out with the same meaning. Once as a stranger's, once as a
// peer's, which may have functions by name, modules, shared tables and all other ext kinds.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/foreign.h"
#include "sched/marshal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PER_BYTE = 400, BASE = 1 << 20 }; // the most memory that a message may cost

static struct {
    mare_runtime *runtime;
    struct mare__local *host;
    struct mare__parker parker;
    size_t used, limit;
} all;

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size)
{
    (void)ud;
    if (!block)
        old_size = 0;
    if (new_size > old_size && all.used - old_size + new_size > all.limit) {
        fprintf(stderr, "a message takes more memory than it may: %zu bytes\n",
                all.used - old_size + new_size);
        abort();
    }
    all.used = all.used - old_size + new_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

// message (light userdata) -> the values
static int unmarshal(lua_State *L)
{
    const mare_message *message = lua_touserdata(L, 1);
    lua_settop(L, 0);
    return mare__unmarshal(L, message);
}

static int arrive(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

// Whether the values at two places are the same, tables pair by pair. Keys that are tables are left
// out.
static bool same(lua_State *L, int a, int b, int depth)
{
    if (lua_type(L, a) != lua_type(L, b))
        return false;
    if (lua_type(L, a) == LUA_TNUMBER && lua_tonumber(L, a) != lua_tonumber(L, a))
        return lua_tonumber(L, b) != lua_tonumber(L, b);
    if (!lua_istable(L, a))
        return lua_rawequal(L, a, b) && lua_isinteger(L, a) == lua_isinteger(L, b);
    if (depth > 100 || !lua_checkstack(L, 8))
        return true; // deep enough
    long balance = 0;
    bool equal = true;
    for (lua_pushnil(L); equal && lua_next(L, a); lua_settop(L, -2), balance++) {
        if (lua_istable(L, -2))
            continue;
        int value = lua_gettop(L);
        lua_pushvalue(L, -2);
        lua_rawget(L, b);
        equal = same(L, value, lua_gettop(L), depth + 1);
        lua_pop(L, 1);
    }
    if (!equal)
        return false;
    for (lua_pushnil(L); lua_next(L, b); lua_pop(L, 1))
        balance--;
    return balance == 0;
}

struct round {
    mare_message *in, out;
};

// Values into a message, and that into values again: they are the same.
static int go_round(lua_State *L)
{
    struct round *round = lua_touserdata(L, 1);
    lua_settop(L, 0);
    int count = mare__unmarshal(L, round->in);
    assert(count == lua_gettop(L) && (size_t)count == mare_message_count(round->in));
    struct mare__leaving *leaving = NULL;
    if (mare__marshal(L, 1, count, &round->out, "arg", &leaving) != MARE_OK)
        return lua_error(L);
    assert(mare_message_count(&round->out) == (size_t)count);
    int again = mare__unmarshal(L, &round->out);
    assert(again == count && lua_gettop(L) == 2 * count);
    for (int i = 1; i <= count; i++)
        assert(same(L, i, count + i, 0));
    return 0;
}

static void check_round(lua_State *L, mare_message *message)
{
    struct round round = {.in = message};
    mare__message_init(&round.out);
    lua_pushcfunction(L, go_round);
    lua_pushlightuserdata(L, &round);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        const char *error = lua_tostring(L, -1);
        if (!error || !strstr(error, "too many values")) {
            fprintf(stderr, "what came does not go: %s\n", error ? error : "?");
            abort();
        }
        lua_pop(L, 1);
    }
    mare__message_clear(&round.out);
}

static void look_at_values(const mare_message *message)
{
    for (size_t i = 0; i < mare_message_count(message) && i < 100; i++) {
        mare_value value;
        mare_err err = mare_message_get(message, i, &value);
        assert(err == MARE_OK);
        assert(value.type != MARE_CHANNEL &&
               value.type != MARE_PROCESS); // a stranger cannot make these
    }
}

// A state for one message of that many bytes.
static lua_State *state_new(size_t size)
{
    all.used = 0;
    all.limit = BASE + PER_BYTE * size;
    lua_State *L = lua_newstate(allocate, NULL);
    if (!L)
        abort();
    *(struct mare__local **)lua_getextraspace(L) = all.host;
    return L;
}

static bool read_message(lua_State *L, const mare_message *message)
{
    lua_pushcfunction(L, unmarshal);
    lua_pushlightuserdata(L, (void *)message);
    bool read = lua_pcall(L, 1, LUA_MULTRET, 0) == LUA_OK;
    lua_settop(L, 0);
    return read;
}

static void read_as_stranger(const uint8_t *data, size_t size)
{
    mare_message *message;
    mare_err err = mare_message_parse(data, size, &message);
    if (err) {
        assert(err == MARE_BADMSG);
        return;
    }
    look_at_values(message);
    lua_State *L = state_new(size);
    if (read_message(L, message))
        check_round(L, message);
    lua_close(L);
    mare_message_destroy(message);
}

// require(name): every module is the same, and lets values arrive as they are.
static int require(lua_State *L)
{
    luaL_checkstring(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, arrive);
    lua_setfield(L, -2, "arrive");
    return 1;
}

static void read_as_peer(const uint8_t *data, size_t size)
{
    mare_message message;
    mare__message_init(&message);
    mare_err err = mare__message_accept(&message, data, size, MARE__TRUST_PEER);
    if (err) {
        assert(err == MARE_BADMSG);
        return;
    }
    assert(message.handles == 0);
    lua_State *L = state_new(size);
    lua_pushcfunction(L, require);
    lua_setglobal(L, "require");
    read_message(L, &message);
    lua_close(L);
    mare__message_clear(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!all.runtime) {
        mare_options options = {.workers = 1};
        if (mare_start(&options, &all.runtime) != MARE_OK ||
            !(all.host = mare__host_open(all.runtime, &all.parker)))
            abort();
    }
    read_as_stranger(data, size);
    read_as_peer(data, size);
    return 0;
}
