// SPDX-License-Identifier: MIT
// The agents of mare.place: what to send, and what comes of what arrives. The program brings the
// instants, nanoseconds of any clock that is not set, and carries the packets; lua/mare/agent.lua
// does so over sockets. The packets are those of `mare place agent`.
#include <string.h>

#include "coord/place/agent.h"
#include "lua/place.h"
#include "platform/socket.h"

#define AGENT "mare.place.agent"

static struct mare__agent *check_agent(lua_State *L)
{
    return luaL_checkudata(L, 1, AGENT);
}

static uint64_t check_instant(lua_State *L, int index)
{
    lua_Integer now_ns = luaL_checkinteger(L, index);
    luaL_argcheck(L, now_ns >= 0, index, "an instant is not negative");
    return (uint64_t)now_ns;
}

// A numeric host at `index`, and a port after it.
static void check_address(lua_State *L, int index, uint8_t packed[MARE__AGENT_ADDRESS])
{
    struct mare__address address;
    const char *host = mare__lua_name(L, index);
    lua_Integer port = luaL_checkinteger(L, index + 1);
    luaL_argcheck(L, port > 0 && port <= 65535, index + 1, "a port is between 1 and 65535");
    luaL_argcheck(L, mare__address_numeric(&address, host, (uint16_t)port), index,
                  "not a numeric address");
    mare__address_pack(&address, packed);
}

static int push_address(lua_State *L, const uint8_t packed[MARE__AGENT_ADDRESS])
{
    struct mare__address address;
    char host[MARE__HOST_MAX];
    mare__address_unpack(packed, &address);
    int port = mare__address_text(&address, host);
    lua_pushstring(L, host);
    lua_pushinteger(L, port);
    return 2;
}

static int nothing(lua_State *L, const char *why)
{
    lua_pushstring(L, why);
    return mare__lua_fail_with(L, MARE_EMPTY);
}

// agent{dimensions = 3, seed = 0} -> agent
static int place_agent(lua_State *L)
{
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    setup.dimensions = 3;
    if (!lua_isnoneornil(L, 1)) {
        mare__lua_check_options(L, 1, "dimensions seed");
        setup.dimensions = mare__place_whole(L, "dimensions", 3, 1, MARE_COORD_DIMENSIONS);
        lua_getfield(L, 1, "seed");
        int is_integer;
        setup.seed = (uint64_t)lua_tointegerx(L, -1, &is_integer);
        if (!is_integer && !lua_isnil(L, -1))
            return mare__lua_option_error(L, 1, "seed", "an integer");
        lua_pop(L, 1);
    }
    size_t size = mare_coord_vivaldi_size(&setup);
    struct mare__agent *agent = lua_newuserdatauv(L, sizeof *agent + size, 0);
    mare__agent_init(agent, mare_coord_vivaldi_init(agent + 1, size, &setup), setup.dimensions,
                     setup.seed + 1);
    luaL_setmetatable(L, AGENT);
    return 1;
}

// agent:add(host, port): a peer that is never forgotten
static int agent_add(lua_State *L)
{
    struct mare__agent *agent = check_agent(L);
    uint8_t address[MARE__AGENT_ADDRESS];
    check_address(L, 2, address);
    mare__agent_add(agent, address, 1);
    return 0;
}

// agent:probe(now, nonce) -> bytes, host, port; or nil, message, code
static int agent_probe(lua_State *L)
{
    struct mare__agent *agent = check_agent(L);
    uint8_t address[MARE__AGENT_ADDRESS], bytes[MARE__AGENT_PACKET];
    uint32_t length = mare__agent_probe(agent, check_instant(L, 2),
                                        (uint64_t)luaL_checkinteger(L, 3), address, bytes);
    if (length == 0)
        return nothing(L, "there is nobody to probe now");
    lua_pushlstring(L, (const char *)bytes, length);
    return 1 + push_address(L, address);
}

// agent:receive(now, bytes, host, port) -> answer; or nil, message, code
static int agent_receive(lua_State *L)
{
    struct mare__agent *agent = check_agent(L);
    uint8_t address[MARE__AGENT_ADDRESS], answer[MARE__AGENT_PACKET];
    size_t length;
    uint64_t now_ns = check_instant(L, 2);
    const char *bytes = luaL_checklstring(L, 3, &length);
    check_address(L, 4, address);
    uint32_t wanted =
        mare__agent_receive(agent, now_ns, address, (const uint8_t *)bytes, length, answer);
    if (wanted == 0)
        return nothing(L, "nothing is to be answered");
    lua_pushlstring(L, (const char *)answer, wanted);
    return 1;
}

// agent:wake(): the clock stood still, or jumped
static int agent_wake(lua_State *L)
{
    mare__agent_wake(check_agent(L));
    return 0;
}

static int agent_here(lua_State *L)
{
    const struct mare__agent *agent = check_agent(L);
    mare__place_push(L, mare_coord_vivaldi_here(agent->node), agent->dimensions);
    return 1;
}

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

static void push_peer(lua_State *L, const struct mare__agent *agent,
                      const struct mare__agent_peer *peer)
{
    lua_createtable(L, 0, 7);
    push_address(L, peer->address);
    lua_setfield(L, -3, "port");
    lua_setfield(L, -2, "host");
    lua_pushnumber(L, peer->rtt);
    lua_setfield(L, -2, "measured");
    lua_pushnumber(L,
                   mare_coord_place_distance(mare_coord_vivaldi_here(agent->node), &peer->place));
    lua_setfield(L, -2, "estimated");
    mare__place_push(L, &peer->place, agent->dimensions);
    lua_setfield(L, -2, "place");
    set_integer(L, "answers", peer->answers);
    set_integer(L, "silent", peer->silent);
}

// agent:peers() -> those that have answered
static int agent_peers(lua_State *L)
{
    const struct mare__agent *agent = check_agent(L);
    lua_newtable(L);
    for (uint32_t i = 0, at = 0; i < agent->count; i++) {
        if (!agent->peer[i].answers)
            continue;
        push_peer(L, agent, &agent->peer[i]);
        lua_rawseti(L, -2, ++at);
    }
    return 1;
}

// agent:counts() -> probes, answers, packets ignored
static int agent_counts(lua_State *L)
{
    const struct mare__agent *agent = check_agent(L);
    lua_pushinteger(L, (lua_Integer)agent->probes);
    lua_pushinteger(L, (lua_Integer)agent->answers);
    lua_pushinteger(L, (lua_Integer)agent->ignored);
    return 3;
}

// question(nonce) -> bytes, that an agent answers to anybody
static int place_question(lua_State *L)
{
    struct mare__agent_packet packet = {.kind = MARE__AGENT_QUESTION,
                                        .dimensions = MARE_COORD_DIMENSIONS,
                                        .nonce = (uint64_t)luaL_checkinteger(L, 1)};
    uint8_t bytes[MARE__AGENT_PACKET];
    lua_pushlstring(L, (const char *)bytes, mare__agent_write(&packet, bytes));
    return 1;
}

// answer(bytes, nonce) -> place; or nil, message, code
static int place_answer(lua_State *L)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    uint64_t nonce = (uint64_t)luaL_checkinteger(L, 2);
    struct mare__agent_packet packet;
    if (!mare__agent_read(&packet, (const uint8_t *)bytes, length) ||
        packet.kind != MARE__AGENT_REPLY || packet.nonce != nonce) {
        lua_pushliteral(L, "that does not answer the question");
        return mare__lua_fail_with(L, MARE_BADMSG);
    }
    mare__place_push(L, &packet.place, packet.dimensions);
    return 1;
}

void mare__place_add_agent(lua_State *L)
{
    static const luaL_Reg methods[] = {{"add", agent_add},         {"probe", agent_probe},
                                       {"receive", agent_receive}, {"wake", agent_wake},
                                       {"here", agent_here},       {"peers", agent_peers},
                                       {"counts", agent_counts},   {NULL, NULL}};
    static const luaL_Reg functions[] = {{"agent", place_agent},
                                         {"question", place_question},
                                         {"answer", place_answer},
                                         {NULL, NULL}};
    if (luaL_newmetatable(L, AGENT)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
