// SPDX-License-Identifier: MIT
// The part of the module mare.time that looks at this machine: its clocks, and when datagrams have
// reached it. With a socket of mare.net it makes what the rest computes live; lua/mare/ntp.lua and
// rbs.lua do so.
#include "lua/time.h"
#include "platform/socket.h"
#include "platform/wall.h"

// ---- Clocks -------------------------------------------------------------------------------------

static void read_wall(lua_State *L, struct mare__wall *wall)
{
    const struct mare__platform *platform = &mare__self(L)->runtime->platform;
    platform->read_wall(platform->context, wall);
}

static int push_wall(lua_State *L, const struct mare__wall *wall)
{
    lua_pushinteger(L, wall->local_ns);
    lua_pushinteger(L, wall->utc_ns);
    lua_pushinteger(L, (lua_Integer)wall->width_ns);
    return 3;
}

// now() -> local, utc, how well they were read together
static int time_now(lua_State *L)
{
    struct mare__wall wall;
    read_wall(L, &wall);
    return push_wall(L, &wall);
}

// nonce() -> a number nobody can guess
static int time_nonce(lua_State *L)
{
    const struct mare__platform *platform = &mare__self(L)->runtime->platform;
    lua_pushinteger(L, (lua_Integer)platform->random(platform->context));
    return 1;
}

// ---- Arrivals -----------------------------------------------------------------------------------

struct arrivals {
    struct mare__arrivals arrivals;
    int64_t suspended_ns;
};

static struct arrivals *check_arrivals(lua_State *L)
{
    return luaL_checkudata(L, 1, MARE__TIME_ARRIVALS);
}

// arrivals() -> arrivals, of one socket
static int time_arrivals(lua_State *L)
{
    struct arrivals *made = lua_newuserdatauv(L, sizeof *made, 0);
    mare__arrivals_init(&made->arrivals);
    made->suspended_ns = mare__wall_suspended_ns();
    luaL_setmetatable(L, MARE__TIME_ARRIVALS);
    return 1;
}

// arrivals:age(stamp) -> how long ago that was, then as now()
static int arrivals_age(lua_State *L)
{
    struct arrivals *arrivals = check_arrivals(L);
    struct mare__wall wall;
    int64_t stamp_ns = luaL_optinteger(L, 2, 0);
    read_wall(L, &wall);
    lua_pushinteger(L, mare__wall_age_ns(&arrivals->arrivals, &wall, stamp_ns));
    return 1 + push_wall(L, &wall);
}

// arrivals:woke() -> whether the machine was suspended since this was asked last
static int arrivals_woke(lua_State *L)
{
    lua_pushboolean(L, mare__wall_woke(&check_arrivals(L)->suspended_ns));
    return 1;
}

// ---- References ---------------------------------------------------------------------------------

// reference(host) -> how a server calls itself that follows one at a numeric address
static int time_reference(lua_State *L)
{
    struct mare__address address;
    uint8_t packed[MARE__ADDRESS_PACKED];
    luaL_argcheck(L, mare__address_numeric(&address, mare__lua_name(L, 1), 0), 1,
                  "not a numeric address");
    mare__address_pack(&address, packed);
    lua_Integer id = 0; // the last four bytes: of IPv4 all of it
    for (int i = 12; i < 16; i++)
        id = id << 8 | packed[i];
    lua_pushinteger(L, id);
    return 1;
}

const luaL_Reg mare__time_arrivals_methods[] = {
    {"age", arrivals_age}, {"woke", arrivals_woke}, {NULL, NULL}};

const luaL_Reg mare__time_live_functions[] = {{"now", time_now},
                                              {"nonce", time_nonce},
                                              {"arrivals", time_arrivals},
                                              {"reference", time_reference},
                                              {NULL, NULL}};
