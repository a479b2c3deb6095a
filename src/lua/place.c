// SPDX-License-Identifier: MIT
// The module mare.place: positions and network coordinates. A place is a table: the coordinates in
// order, and the fields `height` and `error`.
#include <lauxlib.h>
#include <mare/coord_place.h>

#include "lua/place.h"

#define NODE "mare.place.node"
#define MOST_ENTRIES 100000 // of a list

struct node {
    mare_coord_vivaldi *vivaldi;
    uint32_t dimensions;
    lua_Integer peers; // names given to peers so far
};

// ---- Tables ------------------------------------------------------------------------------------

// The option `name` of the table that is the first argument, as the others below.
static double number_option(lua_State *L, const char *name, double otherwise)
{
    double value = otherwise;
    if (lua_getfield(L, 1, name) != LUA_TNIL) {
        int is_number;
        value = lua_tonumberx(L, -1, &is_number);
        if (!is_number)
            mare__lua_option_error(L, 1, name,
                                   lua_pushfstring(L, "a number, not a %s", luaL_typename(L, -1)));
    }
    lua_pop(L, 1);
    return value;
}

uint32_t mare__place_whole(lua_State *L, const char *name, uint32_t otherwise, uint32_t least,
                           uint32_t most)
{
    double value = number_option(L, name, otherwise);
    if (!(value >= least && value <= most) || value != (double)(uint32_t)value)
        mare__lua_option_error(
            L, 1, name, lua_pushfstring(L, "a whole number from %d to %d", (int)least, (int)most));
    return (uint32_t)value;
}

static bool flag_option(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    bool set = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return set;
}

// How many entries the table at `index` says it has. A metamethod may say anything, and something
// else the next time: so ask once, and check the number.
static uint32_t checked_length(lua_State *L, int index, const char *name)
{
    lua_Integer count = luaL_len(L, index);
    if (count < 0)
        luaL_error(L, "%s have a negative length", name);
    if (count > MOST_ENTRIES)
        luaL_error(L, "%s are more than %d", name, MOST_ENTRIES);
    return (uint32_t)count;
}

// Leaves the table that is the option on the stack.
static void table_option(lua_State *L, const char *name)
{
    if (lua_getfield(L, 1, name) != LUA_TTABLE)
        mare__lua_option_error(L, 1, name,
                               lua_pushfstring(L, "a table, not a %s", luaL_typename(L, -1)));
}

// The same, and returns its length.
static uint32_t list_option(lua_State *L, const char *name)
{
    table_option(L, name);
    return checked_length(L, -1, name);
}

// A field of a place.
static double place_field(lua_State *L, int index, const char *name)
{
    int is_number = 1;
    double value = 0;
    if (lua_getfield(L, index, name) != LUA_TNIL)
        value = lua_tonumberx(L, -1, &is_number);
    if (!is_number)
        luaL_error(L, "the %s of a place must be a number, not a %s", name, luaL_typename(L, -1));
    lua_pop(L, 1);
    return value;
}

static double number_at(lua_State *L, int index, uint32_t i)
{
    lua_geti(L, index, (lua_Integer)i + 1);
    int is_number;
    double value = lua_tonumberx(L, -1, &is_number);
    if (!is_number)
        luaL_error(L, "entry %d must be a number, not a %s", (int)i + 1, luaL_typename(L, -1));
    lua_pop(L, 1);
    return value;
}

static uint32_t read_place(lua_State *L, int index, mare_coord_place *place)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE)
        luaL_error(L, "a place must be a table, not a %s", luaL_typename(L, index));
    uint32_t dimensions = checked_length(L, index, "coordinates");
    if (dimensions > MARE_COORD_DIMENSIONS)
        luaL_error(L, "a place has at most %d coordinates", MARE_COORD_DIMENSIONS);
    *place = (mare_coord_place){.height = place_field(L, index, "height"),
                                .error = place_field(L, index, "error")};
    for (uint32_t i = 0; i < dimensions; i++)
        place->x[i] = number_at(L, index, i);
    return dimensions;
}

void mare__place_push(lua_State *L, const mare_coord_place *place, uint32_t dimensions)
{
    lua_createtable(L, (int)dimensions, 2);
    for (uint32_t i = 0; i < dimensions; i++) {
        lua_pushnumber(L, place->x[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnumber(L, place->height);
    lua_setfield(L, -2, "height");
    lua_pushnumber(L, place->error);
    lua_setfield(L, -2, "error");
}

// The places in the table at `index`, in memory that stays on the stack. `dimensions`, if not NULL,
// gets the largest number of coordinates.
static mare_coord_place *read_places(lua_State *L, int index, uint32_t *count, uint32_t *dimensions)
{
    index = lua_absindex(L, index);
    luaL_checktype(L, index, LUA_TTABLE);
    *count = checked_length(L, index, "places");
    mare_coord_place *places = lua_newuserdatauv(L, ((size_t)*count + 1) * sizeof *places, 0);
    for (uint32_t i = 0; i < *count; i++) {
        lua_geti(L, index, (lua_Integer)i + 1);
        uint32_t own = read_place(L, -1, &places[i]);
        if (dimensions && own > *dimensions)
            *dimensions = own;
        lua_pop(L, 1);
    }
    return places;
}

// The numbers in the table at `index`, in memory that stays on the stack.
static double *read_numbers(lua_State *L, int index, uint32_t count)
{
    index = lua_absindex(L, index);
    double *numbers = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *numbers, 0);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = number_at(L, index, i);
    return numbers;
}

static int fail(lua_State *L, mare_err err, const char *message)
{
    lua_pushstring(L, message);
    return mare__lua_fail_with(L, err);
}

// ---- Vivaldi -----------------------------------------------------------------------------------

static struct node *check_node(lua_State *L)
{
    return luaL_checkudata(L, 1, NODE);
}

// vivaldi{dimensions = 8, neighbours = 32, seed = 0} -> node
static int place_vivaldi(lua_State *L)
{
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    if (!lua_isnoneornil(L, 1)) {
        mare__lua_check_options(L, 1, "dimensions neighbours seed longest");
        setup.dimensions =
            mare__place_whole(L, "dimensions", setup.dimensions, 1, MARE_COORD_DIMENSIONS);
        setup.neighbours = mare__place_whole(L, "neighbours", setup.neighbours, 8, 1024);
        setup.seed = mare__place_whole(L, "seed", 0, 0, INT32_MAX);
        setup.longest = number_option(L, "longest", setup.longest);
    }
    size_t size = mare_coord_vivaldi_size(&setup);
    if (size == 0)
        return mare__lua_option_error(L, 1, "longest", "from 0.001 to 1e9 milliseconds");
    struct node *node = lua_newuserdatauv(L, sizeof *node + size, 1);
    *node = (struct node){.vivaldi = mare_coord_vivaldi_init(node + 1, size, &setup),
                          .dimensions = setup.dimensions};
    lua_newtable(L); // peer -> its number
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, NODE);
    return 1;
}

// The number of the peer at `index`, any value but nil; 0 if it has none.
static lua_Integer peer_number(lua_State *L, int index)
{
    luaL_checkany(L, index);
    luaL_argcheck(L, !lua_isnil(L, index), index, "a peer cannot be nil");
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    lua_Integer number = lua_tointeger(L, -1);
    lua_pop(L, 2);
    return number;
}

// Sets the number of the peer at `index`; 0: it has none any more.
static void name_peer(lua_State *L, int index, lua_Integer number)
{
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, index);
    if (number)
        lua_pushinteger(L, number);
    else
        lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

// node:update(peer, place, rtt) -> true, or nil, message, code
static int node_update(lua_State *L)
{
    struct node *node = check_node(L);
    mare_coord_place there;
    read_place(L, 3, &there);
    double rtt = luaL_checknumber(L, 4);
    lua_Integer known = peer_number(L, 2), peer = known ? known : node->peers + 1;
    if (!known)
        name_peer(L, 2, peer); // before the update: it may raise an error without memory
    mare_coord_status status =
        mare_coord_vivaldi_update(node->vivaldi, (uint64_t)peer, &there, rtt);
    if (!known && status == MARE_COORD_OK)
        node->peers = peer;
    else if (!known)
        name_peer(L, 2, 0); // do not keep a name that came with a senseless place
    switch (status) {
    case MARE_COORD_OK:
        lua_pushboolean(L, 1);
        return 1;
    case MARE_COORD_MALFORMED:
        return fail(L, MARE_INVALID, "that cannot be a place");
    default:
        return fail(L, MARE_INVALID, "that cannot be a round trip");
    }
}

// node:here() -> place
static int node_here(lua_State *L)
{
    struct node *node = check_node(L);
    mare__place_push(L, mare_coord_vivaldi_here(node->vivaldi), node->dimensions);
    return 1;
}

// node:estimate(place) -> milliseconds
static int node_estimate(lua_State *L)
{
    struct node *node = check_node(L);
    mare_coord_place there;
    read_place(L, 2, &there);
    lua_pushnumber(L, mare_coord_place_distance(mare_coord_vivaldi_here(node->vivaldi), &there));
    return 1;
}

// node:forget(peer)
static int node_forget(lua_State *L)
{
    struct node *node = check_node(L);
    mare_coord_vivaldi_forget(node->vivaldi, (uint64_t)peer_number(L, 2));
    name_peer(L, 2, 0);
    return 0;
}

// node:choose{peer, …} -> peer, or nil of none
static int node_choose(lua_State *L)
{
    struct node *node = check_node(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint32_t count = checked_length(L, 2, "peers");
    uint64_t *peers = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *peers, 0);
    for (uint32_t i = 0; i < count; i++) {
        lua_geti(L, 2, (lua_Integer)i + 1);
        peers[i] = (uint64_t)peer_number(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    uint32_t chosen = mare_coord_vivaldi_choose(node->vivaldi, peers, count);
    if (chosen == MARE_COORD_NOBODY)
        lua_pushnil(L);
    else
        lua_geti(L, 2, (lua_Integer)chosen + 1);
    return 1;
}

// distance(place, place) -> milliseconds
static int place_distance(lua_State *L)
{
    mare_coord_place a, b;
    read_place(L, 1, &a);
    read_place(L, 2, &b);
    lua_pushnumber(L, mare_coord_place_distance(&a, &b));
    return 1;
}

// ---- Landmarks ---------------------------------------------------------------------------------

static void read_gnp(lua_State *L, mare_coord_gnp_setup *setup, uint32_t landmarks)
{
    mare_coord_gnp_setup_init(setup, landmarks);
    setup->dimensions =
        mare__place_whole(L, "dimensions", setup->dimensions, 0, MARE_COORD_DIMENSIONS);
    setup->starts = mare__place_whole(L, "starts", setup->starts, 0, 10000);
    setup->seed = mare__place_whole(L, "seed", 0, 0, INT32_MAX);
    setup->height = flag_option(L, "height");
    setup->robust = number_option(L, "robust", 0);
    if (mare_coord_gnp_size(setup) == 0)
        mare__lua_option_error(L, 1, "dimensions", "from 1 to 8 and fewer than the landmarks");
}

// landmarks{rtt = {{…}, …}, dimensions =, seed =, …} -> {place, …}, sum; or nil, message, code
static int place_landmarks(lua_State *L)
{
    mare__lua_check_options(L, 1, "rtt dimensions starts seed height robust");
    mare_coord_gnp_setup setup;
    uint32_t count = list_option(L, "rtt");
    int rows = lua_gettop(L);
    luaL_argcheck(L, count <= 1000, 1, "more than 1000 landmarks");
    read_gnp(L, &setup, count);
    double *rtt = lua_newuserdatauv(L, ((size_t)count * count + 1) * sizeof *rtt, 0), sum;
    for (uint32_t i = 0; i < count; i++) {
        if (lua_geti(L, rows, (lua_Integer)i + 1) != LUA_TTABLE)
            return mare__lua_option_error(
                L, 1, "rtt", lua_pushfstring(L, "a list of lists: row %d is not one", (int)i + 1));
        for (uint32_t j = 0; j < count; j++)
            rtt[i * count + j] = number_at(L, -1, j);
        lua_pop(L, 1);
    }
    size_t size = mare_coord_gnp_size(&setup);
    mare_coord_place *places = lua_newuserdatauv(L, (size_t)count * sizeof *places, 0);
    if (mare_coord_gnp_landmarks(&setup, rtt, lua_newuserdatauv(L, size, 0), size, places, &sum) !=
        MARE_COORD_OK)
        return fail(L, MARE_INVALID, "too few round trips are known");
    lua_createtable(L, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        mare__place_push(L, &places[i], setup.dimensions);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnumber(L, sum);
    return 2;
}

// locate{landmarks = {place, …}, rtt = {…}, …} -> place, sum; or nil, message, code
static int place_locate(lua_State *L)
{
    mare__lua_check_options(L, 1, "landmarks rtt seed height robust");
    mare_coord_gnp_setup setup;
    mare_coord_place place;
    uint32_t count, dimensions = 0;
    table_option(L, "landmarks");
    mare_coord_place *landmark = read_places(L, -1, &count, &dimensions);
    if (list_option(L, "rtt") < count)
        return mare__lua_option_error(L, 1, "rtt", "as long as option 'landmarks'");
    double *rtt = read_numbers(L, -1, count), sum;
    mare_coord_gnp_setup_init(&setup, count);
    setup.dimensions = dimensions;
    setup.seed = mare__place_whole(L, "seed", 0, 0, INT32_MAX);
    setup.height = flag_option(L, "height");
    setup.robust = number_option(L, "robust", 0);
    size_t size = mare_coord_gnp_size(&setup);
    if (size == 0)
        return mare__lua_option_error(L, 1, "landmarks", "more than a place has coordinates");
    if (mare_coord_gnp_place(&setup, landmark, rtt, lua_newuserdatauv(L, size, 0), size, &place,
                             &sum) != MARE_COORD_OK)
        return fail(L, MARE_INVALID, "too few round trips are known, or a landmark is no place");
    mare__place_push(L, &place, setup.dimensions);
    lua_pushnumber(L, sum);
    return 2;
}

// ---- A fix -------------------------------------------------------------------------------------

static void push_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

// fix{references = {place, …}, ranges = {…}, bias = true, near =, worst =} -> fix; or nil, message,
// code, dilution
static int place_fix(lua_State *L)
{
    mare__lua_check_options(L, 1, "references ranges bias near worst");
    mare_coord_fix_setup setup = {.bias = true};
    mare_coord_place near;
    mare_coord_fix fix;
    uint32_t count;
    table_option(L, "references");
    setup.reference = read_places(L, -1, &count, &setup.dimensions);
    setup.count = count;
    if (list_option(L, "ranges") != count)
        return mare__lua_option_error(L, 1, "ranges", "as long as option 'references'");
    setup.range = read_numbers(L, -1, count);
    setup.worst = number_option(L, "worst", 0);
    if (lua_getfield(L, 1, "bias") == LUA_TBOOLEAN)
        setup.bias = lua_toboolean(L, -1);
    if (lua_getfield(L, 1, "near") != LUA_TNIL) {
        read_place(L, -1, &near);
        setup.near = &near;
    }
    mare_coord_fix_end end = mare_coord_fix_solve(&setup, &fix);
    if (end != MARE_COORD_FIX_OK) {
        int pushed = fail(L, MARE_INVALID, mare_coord_fix_end_name(end));
        lua_pushnumber(L, fix.dilution);
        return pushed + 1;
    }
    mare__place_push(L, &fix.at, setup.dimensions);
    lua_pushnil(L);
    lua_setfield(L, -2, "height");
    lua_pushnil(L);
    lua_setfield(L, -2, "error");
    push_number(L, "bias", fix.at.height);
    push_number(L, "dilution", fix.dilution);
    push_number(L, "residual", fix.residual);
    return 1;
}

// ---- Uses --------------------------------------------------------------------------------------

// nearest(place, {place, …}) -> index, or nil of none
static int place_nearest(lua_State *L)
{
    mare_coord_place from;
    uint32_t count;
    read_place(L, 1, &from);
    mare_coord_place *sites = read_places(L, 2, &count, NULL);
    uint32_t best = mare_coord_nearest(&from, sites, count);
    if (best == MARE_COORD_NOBODY)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)best + 1);
    return 1;
}

// next_hop(here, target, {place, …}) -> index, or nil: a dead end
static int place_next_hop(lua_State *L)
{
    mare_coord_place here, target;
    uint32_t count;
    read_place(L, 1, &here);
    read_place(L, 2, &target);
    mare_coord_place *neighbours = read_places(L, 3, &count, NULL);
    uint32_t next = mare_coord_next_hop(&here, &target, neighbours, count);
    if (next == MARE_COORD_NOBODY)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)next + 1);
    return 1;
}

// replicas{count = K, clients = {place, …}, sites = {place, …}, share = {…}} -> {index, …}, mean
static int place_replicas(lua_State *L)
{
    mare__lua_check_options(L, 1, "count clients sites share");
    mare_coord_replicas wanted = {.count = mare__place_whole(L, "count", 0, 0, 100000)};
    double mean;
    table_option(L, "clients");
    wanted.client = read_places(L, -1, &wanted.clients, NULL);
    table_option(L, "sites");
    wanted.site = read_places(L, -1, &wanted.sites, NULL);
    if (lua_getfield(L, 1, "share") == LUA_TTABLE)
        wanted.share = read_numbers(L, -1, wanted.clients);
    size_t size = mare_coord_replicas_size(&wanted);
    void *memory = lua_newuserdatauv(L, size + 1, 0);
    uint32_t *chosen = lua_newuserdatauv(L, ((size_t)wanted.count + 1) * sizeof *chosen, 0);
    if (mare_coord_replicas_choose(&wanted, memory, size, chosen, &mean) != MARE_COORD_OK)
        return mare__lua_option_error(
            L, 1, "count", "from 1 to the number of sites, for some clients, all of them places");
    lua_createtable(L, (int)wanted.count, 0);
    for (uint32_t k = 0; k < wanted.count; k++) {
        lua_pushinteger(L, (lua_Integer)chosen[k] + 1);
        lua_rawseti(L, -2, (lua_Integer)k + 1);
    }
    lua_pushnumber(L, mean);
    return 2;
}

int mare__lua_open_place(lua_State *L)
{
    static const luaL_Reg methods[] = {{"update", node_update},     {"here", node_here},
                                       {"estimate", node_estimate}, {"forget", node_forget},
                                       {"choose", node_choose},     {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"vivaldi", place_vivaldi},   {"distance", place_distance}, {"landmarks", place_landmarks},
        {"locate", place_locate},     {"fix", place_fix},           {"nearest", place_nearest},
        {"replicas", place_replicas}, {"next_hop", place_next_hop}, {NULL, NULL}};
    if (luaL_newmetatable(L, NODE)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    mare__place_add_agent(L);
    return 1;
}
