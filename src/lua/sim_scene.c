// SPDX-License-Identifier: MIT
// What a scenario adds to a run for those who look at it: names of processes, remarks at moments,
// and a function that sees everything. And what figures want to know before the run.
#include <ctype.h>
#include <string.h>

#include "coord/election/dht.h"
#include "coord/election/place.h"
#include "coord/mutex/voting.h"
#include "lua/sim.h"
#include "sim/check.h"

enum { NAME_MOST = 12 };

static void refuse_type(lua_State *L, const char *what, const char *wanted)
{
    luaL_error(L, "%s is a %s, not %s", what, wanted, luaL_tolstring(L, -1, NULL));
}

lua_Integer mare__lua_sim_whole(lua_State *L, const char *what)
{
    int whole = lua_type(L, -1) == LUA_TNUMBER;
    lua_Integer value = whole ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole)
        refuse_type(L, what, "whole number");
    return value;
}

void mare__lua_sim_keep(lua_State *L)
{
    lua_rawseti(L, SIM_KEPT, (lua_Integer)lua_rawlen(L, SIM_KEPT) + 1);
}

const char *mare__lua_sim_string(lua_State *L, const char *what, size_t *length)
{
    if (lua_type(L, -1) != LUA_TSTRING)
        refuse_type(L, what, "string");
    lua_pushvalue(L, -1);
    mare__lua_sim_keep(L);
    return lua_tolstring(L, -1, length);
}

void mare__lua_sim_table(lua_State *L, const char *what)
{
    if (!lua_istable(L, -1))
        refuse_type(L, what, "table");
}

void mare__lua_sim_set_param(lua_State *L, mare_coord_setup *setup, const char *name)
{
    char why[300];
    lua_Integer value = mare__lua_sim_whole(L, name);
    if (mare_sim_set_param(setup, name, value, why, sizeof why))
        luaL_error(L, "%s", why);
}

// Names stand in drawings and logs as they are.
static const char *check_name(lua_State *L)
{
    size_t length;
    const char *name = mare__lua_sim_string(L, "a name of `names`", &length);
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
            length = 0;
    if (length == 0 || length > NAME_MOST)
        luaL_error(L, "a name of `names` has up to %d letters, digits, - or _", NAME_MOST);
    return name;
}

// {[0] = "a", "b", …}
static void read_names(lua_State *L, struct mare__lua_sim *sim, uint32_t capacity)
{
    if (lua_getfield(L, SIM_SPEC, "names") != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    int at = lua_gettop(L);
    const char **name = lua_newuserdatauv(L, capacity * sizeof *name, 0);
    for (uint32_t i = 0; i < capacity; i++) {
        name[i] = lua_geti(L, at, i) == LUA_TNIL ? NULL : check_name(L);
        lua_pop(L, 1);
    }
    sim->captions.name = name;
}

// {{at_us, "words"}, …}, in the order of time.
static void read_notes(lua_State *L, struct mare__lua_sim *sim)
{
    if (lua_getfield(L, SIM_SPEC, "notes") != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    int at = lua_gettop(L);
    lua_Integer count = (lua_Integer)lua_rawlen(L, at), before = 0;
    mare_sim_note *note = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *note, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, at, i + 1);
        mare__lua_sim_table(L, "a note of `notes`");
        lua_geti(L, -1, 2);
        const char *words = mare__lua_sim_string(L, "the second of `notes`", NULL);
        lua_geti(L, -2, 1);
        lua_Integer time_us = mare__lua_sim_whole(L, "the first of `notes`");
        if (time_us < before)
            luaL_error(L, "`notes` is in the order of time");
        before = time_us;
        note[i] = (mare_sim_note){(uint64_t)time_us, words};
        lua_pop(L, 3);
    }
    sim->captions.note = note;
    sim->captions.notes = (size_t)count;
}

// ---- What nobody reads -------------------------------------------------------------------------

void mare__lua_sim_check_fields(lua_State *L, int table, const char *what, const char *const *names)
{
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        size_t i = 0;
        bool place = lua_isinteger(L, -2) && strcmp(what, "a request") == 0;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        while (!place && names[i] && strcmp(names[i], name) != 0)
            i++;
        if (!place && !names[i])
            luaL_error(L, "%s has no field '%s'", what, name);
    }
}

// `members` at the top: {[0] = {parameter = value, …}, …}
static void check_members(lua_State *L, const mare_coord_setup *setup)
{
    int members = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, members); lua_pop(L, 1)) {
        mare_coord_setup trial = *setup;
        int whole;
        lua_Integer who = lua_tointegerx(L, -2, &whole);
        if (!whole || who < 0 || who >= setup->capacity || !lua_istable(L, -1))
            luaL_error(L, "`members` has tables of parameters, by process: 0 to %d",
                       (int)setup->capacity - 1);
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
            mare__lua_sim_set_param(L, &trial, name);
        }
    }
}

void mare__lua_sim_check_names(lua_State *L)
{
    static const char *const fields[] = {
        "about",     "abandon_ppm", "algorithm", "capacity", "detect_us", "detector", "draw",
        "drift_ppm", "duration_us", "entrants",  "expect",   "faults",    "from_us",  "hold_us",
        "json",      "linked",      "map",       "members",  "n",         "names",    "network",
        "notes",     "params",      "profile",   "report",   "requests",  "rounds",   "route",
        "see",       "seed",        "settle_us", "shiviz",   "shrink",    "text",     "think_us",
        "title",     "to_us",       "trace",     "vary",     NULL};
    luaL_checkstack(L, 10, "checks");
    mare__lua_sim_check_fields(L, SIM_SPEC, "a scenario", fields);
}

void mare__lua_sim_check_spec(lua_State *L, const mare_coord_setup *setup)
{
    if (lua_getfield(L, SIM_SPEC, "members") == LUA_TTABLE)
        check_members(L, setup);
    const char *expected = lua_getfield(L, SIM_SPEC, "expect") == LUA_TSTRING //
                               ? lua_tostring(L, -1)
                               : NULL;
    if (!lua_isnil(L, -1) && (!expected || !mare_sim_is_promise(expected)))
        luaL_error(L, "`expect` is something that can be reported, as EM1, not '%s'",
                   expected ? expected : luaL_typename(L, -1));
    lua_pop(L, 2);
}

void mare__lua_sim_captions(struct mare__lua_sim *sim, uint32_t capacity)
{
    luaL_checkstack(sim->L, 10, "captions");
    read_names(sim->L, sim, capacity);
    read_notes(sim->L, sim);
}

// ---- The witness -------------------------------------------------------------------------------

struct sight {
    const struct mare__lua_sim_witness *witness;
    const mare_sim_observation *seen;
    uint64_t clock;
};

static void set_text(lua_State *L, const char *name, const char *text)
{
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, uint64_t number)
{
    lua_pushinteger(L, (lua_Integer)number);
    lua_setfield(L, -2, name);
}

static const char *what_of(const mare_sim_observation *seen)
{
    if (seen->sight == MARE_SIM_STEPPED)
        return mare_coord_event_name(seen->event->kind);
    if (seen->sight == MARE_SIM_EFFECT)
        return mare_coord_effect_name(seen->effect->kind);
    return mare_sim_sight_name(seen->sight);
}

// Pushes {what, time_us, process, peer, number, data, text, clock, message}: what there is of it.
static void push_sight(lua_State *L, const struct sight *sight)
{
    const mare_sim_observation *seen = sight->seen;
    const mare_coord_algorithm *algorithm = sight->witness->algorithm;
    mare_coord_message message;
    lua_newtable(L);
    set_text(L, "what", what_of(seen));
    set_number(L, "time_us", seen->time_us);
    if (seen->process != MARE_COORD_NOBODY)
        set_number(L, "process", seen->process);
    if (seen->peer != MARE_COORD_NOBODY)
        set_number(L, "peer", seen->peer);
    set_number(L, "number", seen->number);
    if (seen->text)
        set_text(L, "text", seen->text);
    if (seen->effect && seen->effect->data) {
        lua_pushlstring(L, (const char *)seen->effect->data, seen->effect->length);
        lua_setfield(L, -2, "data");
    }
    if (seen->data &&
        mare_coord_decode(algorithm, seen->data, seen->length, &message) == MARE_COORD_OK) {
        mare__lua_sim_push_message(L, algorithm, &message);
        lua_setfield(L, -2, "message");
    }
}

static int call_see(lua_State *L)
{
    const struct sight *sight = mare__passed(L, 1);
    lua_getfield(L, SIM_SPEC + 1, "see");
    push_sight(L, sight);
    set_number(L, "clock", sight->clock);
    lua_getfield(L, SIM_KEPT + 1, "seen");
    lua_call(L, 2, 0);
    return 0;
}

static void see(mare_sim_observer *observer, const mare_sim_observation *seen)
{
    struct mare__lua_sim_witness *witness = (struct mare__lua_sim_witness *)observer;
    struct sight sight = {.witness = witness, .seen = seen};
    mare_coord_view view;
    if (seen->machine) {
        mare_coord_look(seen->machine, &view); // not inside: it finds a member in Lua by its index
        sight.clock = view.lamport;
    }
    if (mare__lua_sim_protect(witness->sim, call_see, &sight))
        lua_pop(witness->sim->L, 1);
}

void mare__lua_sim_witness(struct mare__lua_sim_witness *witness, struct mare__lua_sim *sim,
                           const mare_coord_algorithm *algorithm)
{
    *witness = (struct mare__lua_sim_witness){
        .observer = {.see = see}, .sim = sim, .algorithm = algorithm};
    lua_newtable(sim->L);
    lua_setfield(sim->L, SIM_KEPT, "seen");
}

// ---- Before the run ----------------------------------------------------------------------------

// replicas(n, name, count) -> {home of name-0, home of name-1, …}, of a group of n
int mare__lua_sim_replicas(lua_State *L)
{
    mare_coord_setup setup;
    lua_Integer n = luaL_checkinteger(L, 1), count = luaL_checkinteger(L, 3);
    luaL_argcheck(L, n >= 1 && n <= MARE_COORD_MEMBERS_MAX, 1, "1 to 65536 members");
    mare_coord_setup_init(&setup, mare_coord_find("voting"), (uint32_t)n);
    luaL_argcheck(L, mare_coord_setup_set(&setup, "name", luaL_checkinteger(L, 2)) == MARE_COORD_OK,
                  2, "a name is a number, not negative");
    luaL_argcheck(L, count >= 0 && count <= 4096, 3, "0 to 4096 replicas");
    lua_newtable(L);
    for (lua_Integer i = 0; i < count; i++) {
        lua_pushinteger(L, mare__voting_home(&setup, (uint32_t)i));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

// risk(n, m, p) -> the probability that one stay is violated
int mare__lua_sim_risk(lua_State *L)
{
    lua_Integer n = luaL_checkinteger(L, 1), m = luaL_checkinteger(L, 2);
    double p = luaL_checknumber(L, 3);
    luaL_argcheck(L, n >= 1 && n <= 4096, 1, "1 to 4096 replicas");
    luaL_argcheck(L, m <= n && 2 * m > n, 2, "more than half of the replicas");
    luaL_argcheck(L, p >= 0 && p <= 1, 3, "a probability");
    lua_pushnumber(L, mare__voting_risk((uint32_t)n, (uint32_t)m, p));
    return 1;
}

// places("superpeer-dht", n, salt, bits) -> {[0] = identifier, …}
// places("superpeer-tokens", n, salt, dimensions) -> {[0] = {x, y, …}, …}
int mare__lua_sim_places(lua_State *L)
{
    static const char *const names[] = {"superpeer-dht", "superpeer-tokens", NULL};
    mare_coord_setup setup;
    int space = luaL_checkoption(L, 1, NULL, names);
    lua_Integer n = luaL_checkinteger(L, 2), salt = luaL_checkinteger(L, 3);
    lua_Integer size = luaL_checkinteger(L, 4);
    luaL_argcheck(L, n >= 1 && n <= MARE_COORD_MEMBERS_MAX, 2, "1 to 65536 members");
    mare_coord_setup_init(&setup, mare_coord_find(names[space]), (uint32_t)n);
    const char *parameter = space ? "dimensions" : "bits";
    luaL_argcheck(L, mare_coord_setup_set(&setup, "salt", salt) == MARE_COORD_OK, 3, "no salt");
    luaL_argcheck(L, mare_coord_setup_set(&setup, parameter, size) == MARE_COORD_OK, 4, parameter);
    lua_newtable(L);
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        if (!space)
            lua_pushinteger(L, (lua_Integer)mare__dht_place((uint32_t)size, (uint64_t)salt, i));
        else
            lua_newtable(L);
        for (uint32_t d = 0; space && d < (uint32_t)size; d++) {
            lua_pushinteger(L, mare__place_of((uint64_t)salt, i, d));
            lua_rawseti(L, -2, d + 1);
        }
        lua_rawseti(L, -2, i);
    }
    return 1;
}
