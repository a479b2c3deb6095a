// SPDX-License-Identifier: MIT
// The module mare.time: physical clocks without input or output. Instants and spans are integers of
// nanoseconds, rates parts in 10^9. What has to do with servers is in time_ntp.c.
#include "lua/time.h"

#include <mare/coord_time.h>
#include <stdio.h>

#define CLOCK "mare.time.clock"
#define RBS "mare.time.rbs"

#define JITTER_MOST INT64_C(1000000000000000)
#define TICKS_MOST INT64_C(9000000000)
#define CLOCKS_MOST 1000

struct clock {
    mare_time_clock clock;
    int64_t first_ns; // the first local instant that was named
    bool named;
};

// ---- Arguments and results ----------------------------------------------------------------------

int64_t mare__time_check_range(lua_State *L, int index, int64_t least, int64_t most,
                               const char *what)
{
    lua_Integer value = luaL_checkinteger(L, index);
    if (value < least || value > most)
        luaL_argerror(L, index,
                      lua_pushfstring(L, "%s must be from %I to %I", what, (LUAI_UACINT)least,
                                      (LUAI_UACINT)most));
    return value;
}

int64_t mare__time_check_local(lua_State *L, int index)
{
    return mare__time_check_range(L, index, 1 - LOCAL_MOST, LOCAL_MOST - 1, "a local instant");
}

int64_t mare__time_check_calendar(lua_State *L, int index)
{
    return mare__time_check_range(L, index, CALENDAR_FIRST, CALENDAR_LAST, "an instant");
}

uint64_t mare__time_check_error(lua_State *L, int index)
{
    return (uint64_t)mare__time_check_range(L, index, 0, ERROR_MOST, "an error bound");
}

static uint64_t check_drift(lua_State *L, int index)
{
    return (uint64_t)mare__time_check_range(L, index, 0, RATE_MOST, "a drift rate");
}

int64_t mare__time_field(lua_State *L, int index, const char *name, int64_t otherwise,
                         int64_t least, int64_t most)
{
    int64_t value = otherwise;
    if (lua_getfield(L, index, name) != LUA_TNIL) {
        int is_integer;
        value = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer || value < least || value > most)
            mare__lua_option_error(L, index, name,
                                   lua_pushfstring(L, "an integer from %I to %I",
                                                   (LUAI_UACINT)least, (LUAI_UACINT)most));
    }
    lua_pop(L, 1);
    return value;
}

void mare__time_check_options(lua_State *L, int index, const char *names)
{
    if (lua_isnoneornil(L, index)) {
        lua_settop(L, index - 1);
        lua_newtable(L);
    }
    mare__lua_check_options(L, index, names);
}

void mare__time_set_integer(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

uint64_t mare__time_cut(uint64_t span)
{
    return span > INT64_MAX ? INT64_MAX : span;
}

// An error bound, or nil: nothing is known.
static void push_error(lua_State *L, uint64_t error_ns)
{
    if (error_ns > INT64_MAX)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)error_ns);
}

static int push_reading(lua_State *L, mare_time_reading reading)
{
    lua_pushinteger(L, reading.time_ns);
    push_error(L, reading.error_ns);
    return 2;
}

int mare__time_fail(lua_State *L, mare_err err, const char *message)
{
    lua_pushstring(L, message);
    return mare__lua_fail_with(L, err);
}

// ---- Arithmetic of drift ------------------------------------------------------------------------

// skew(nominal, actual) -> ppb
static int time_skew(lua_State *L)
{
    uint64_t nominal = (uint64_t)mare__time_check_range(L, 1, 1, TICKS_MOST, "a number of ticks");
    uint64_t actual = (uint64_t)mare__time_check_range(L, 2, 0, TICKS_MOST, "a number of ticks");
    lua_pushinteger(L, mare_time_skew_ppb(nominal, actual));
    return 1;
}

// apart(drift, elapsed) -> ns: 2ρΔt
static int time_apart(lua_State *L)
{
    uint64_t drift = check_drift(L, 1);
    uint64_t elapsed = (uint64_t)mare__time_check_range(L, 2, 0, INT64_MAX, "a span");
    lua_pushinteger(L, (lua_Integer)mare__time_cut(mare_time_apart_ns(drift, elapsed)));
    return 1;
}

// resync(drift, apart) -> ns: δ/2ρ
static int time_resync(lua_State *L)
{
    uint64_t drift = check_drift(L, 1);
    uint64_t apart = (uint64_t)mare__time_check_range(L, 2, 0, INT64_MAX, "a span");
    lua_pushinteger(L, (lua_Integer)mare__time_cut(mare_time_resync_ns(drift, apart)));
    return 1;
}

// ---- The disciplined clock ----------------------------------------------------------------------

// clock{drift = 15000, slew = 500000} -> clock
static int time_clock(lua_State *L)
{
    mare__time_check_options(L, 1, "drift slew");
    uint64_t drift = (uint64_t)mare__time_field(L, 1, "drift", 15000, 0, RATE_MOST);
    uint64_t slew = (uint64_t)mare__time_field(L, 1, "slew", 500000, 1, RATE_MOST);
    struct clock *clock = lua_newuserdatauv(L, sizeof *clock, 0);
    *clock = (struct clock){.named = false};
    mare_time_clock_init(&clock->clock, drift, slew);
    luaL_setmetatable(L, CLOCK);
    return 1;
}

static struct clock *check_clock(lua_State *L)
{
    return luaL_checkudata(L, 1, CLOCK);
}

// The local instant of a call, which every method has as its first argument.
static int64_t clock_local(lua_State *L, struct clock *clock)
{
    int64_t local_ns = mare__time_check_local(L, 2);
    if (!clock->named)
        clock->first_ns = local_ns;
    clock->named = true;
    luaL_argcheck(
        L, local_ns - clock->first_ns <= CLOCK_LIFE && clock->first_ns - local_ns <= CLOCK_LIFE, 2,
        "more than 18 years from the clock's first instant");
    return local_ns;
}

// clock:set(local, time, error)
static int clock_set(lua_State *L)
{
    struct clock *clock = check_clock(L);
    int64_t time_ns = mare__time_check_calendar(L, 3);
    uint64_t error_ns = mare__time_check_error(L, 4);
    mare_time_clock_set(&clock->clock, clock_local(L, clock), time_ns, error_ns);
    return 0;
}

// clock:move(local, by, error)
static int clock_move(lua_State *L)
{
    struct clock *clock = check_clock(L);
    int64_t by_ns = mare__time_check_range(L, 3, -YEARS_18, YEARS_18, "a correction");
    uint64_t error_ns = mare__time_check_error(L, 4);
    int64_t local_ns = clock_local(L, clock);
    int64_t to_ns = mare_time_clock_target(&clock->clock, local_ns).time_ns + by_ns;
    luaL_argcheck(L, to_ns >= CALENDAR_FIRST && to_ns <= CALENDAR_LAST, 3,
                  "that is before 1897 or after 2116");
    mare_time_clock_move(&clock->clock, local_ns, by_ns, error_ns);
    return 0;
}

// clock:tune(local, rate, drift)
static int clock_tune(lua_State *L)
{
    struct clock *clock = check_clock(L);
    int64_t rate = mare__time_check_range(L, 3, -400000000, 400000000, "a rate");
    uint64_t drift = check_drift(L, 4);
    mare_time_clock_tune(&clock->clock, clock_local(L, clock), rate, drift);
    return 0;
}

// clock:read(local) -> time, error
static int clock_read(lua_State *L)
{
    struct clock *clock = check_clock(L);
    return push_reading(L, mare_time_clock_read(&clock->clock, clock_local(L, clock)));
}

// clock:target(local) -> time, error
static int clock_target(lua_State *L)
{
    struct clock *clock = check_clock(L);
    return push_reading(L, mare_time_clock_target(&clock->clock, clock_local(L, clock)));
}

// clock:gap(local) -> ns
static int clock_gap(lua_State *L)
{
    struct clock *clock = check_clock(L);
    lua_pushinteger(L, mare_time_clock_gap(&clock->clock, clock_local(L, clock)));
    return 1;
}

// ---- Berkeley -----------------------------------------------------------------------------------

// berkeley({time, …}[, agree]) -> mean, {by, …}
static int time_berkeley(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer count = luaL_len(L, 1);
    luaL_argcheck(L, count >= 1 && count <= CLOCKS_MOST, 1, "must have 1 to 1000 clocks");
    int64_t agree_ns = INT64_MAX;
    if (!lua_isnoneornil(L, 2))
        agree_ns = mare__time_check_range(L, 2, 0, INT64_MAX, "a span");
    int64_t clocks[CLOCKS_MOST], sorted[CLOCKS_MOST];
    for (lua_Integer i = 0; i < count; i++) {
        int is_integer;
        lua_geti(L, 1, i + 1);
        clocks[i] = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer || clocks[i] < CALENDAR_FIRST || clocks[i] > CALENDAR_LAST)
            return luaL_error(L, "clock %I must be an integer of nanoseconds, from 1897 to 2116",
                              (LUAI_UACINT)i + 1);
        sorted[i] = clocks[i];
        lua_pop(L, 1);
    }
    int64_t mean_ns = mare_berkeley_mean(sorted, (uint32_t)count, agree_ns);
    lua_pushinteger(L, mean_ns);
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 0; i < count; i++) {
        // cppcheck-suppress uninitvar ; the same loop has filled it above
        lua_pushinteger(L, mean_ns - clocks[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 2;
}

// ---- Reference broadcasts -----------------------------------------------------------------------

// rbs{jitter = 1000000, drift = 15000, wander = 1000} -> rbs
static int time_rbs(lua_State *L)
{
    mare__time_check_options(L, 1, "jitter drift wander");
    uint64_t jitter = (uint64_t)mare__time_field(L, 1, "jitter", 1000000, 0, JITTER_MOST);
    uint64_t drift = (uint64_t)mare__time_field(L, 1, "drift", 15000, 0, RATE_MOST);
    uint64_t wander = (uint64_t)mare__time_field(L, 1, "wander", 1000, 0, RATE_MOST);
    mare_rbs *rbs = lua_newuserdatauv(L, sizeof *rbs, 0);
    mare_rbs_init(rbs, jitter, drift, wander);
    luaL_setmetatable(L, RBS);
    return 1;
}

static mare_rbs *check_rbs(lua_State *L)
{
    return luaL_checkudata(L, 1, RBS);
}

// rbs:hear(number, local)
static int rbs_hear(lua_State *L)
{
    mare_rbs *rbs = check_rbs(L);
    uint64_t number = (uint64_t)luaL_checkinteger(L, 2);
    mare_rbs_hear(rbs, number, mare__time_check_local(L, 3));
    return 0;
}

// rbs:match(number, theirs) -> whether it makes a new pair
static int rbs_match(lua_State *L)
{
    mare_rbs *rbs = check_rbs(L);
    uint64_t number = (uint64_t)luaL_checkinteger(L, 2);
    lua_pushboolean(L, mare_rbs_match(rbs, number, mare__time_check_local(L, 3)));
    return 1;
}

static int push_offset(lua_State *L, int found, const mare_rbs_offset *offset, const char *why)
{
    if (!found)
        return mare__time_fail(L, MARE_EMPTY, why);
    lua_createtable(L, 0, 6);
    mare__time_set_integer(L, "offset", (uint64_t)offset->offset_ns);
    mare__time_set_integer(L, "error", mare__time_cut(offset->error_ns));
    mare__time_set_integer(L, "alpha", (uint64_t)offset->alpha_ppb);
    mare__time_set_integer(L, "beta", (uint64_t)offset->beta_ns);
    mare__time_set_integer(L, "origin", (uint64_t)offset->origin_ns);
    mare__time_set_integer(L, "pairs", offset->pairs);
    return 1;
}

// rbs:mean(local) -> offset; or nil, message, code
static int rbs_mean(lua_State *L)
{
    mare_rbs_offset offset = {0};
    int found = mare_rbs_mean(check_rbs(L), mare__time_check_local(L, 2), &offset);
    return push_offset(L, found, &offset, "there are no pairs");
}

// rbs:line(local) -> offset; or nil, message, code
static int rbs_line(lua_State *L)
{
    mare_rbs_offset offset = {0};
    int found = mare_rbs_line(check_rbs(L), mare__time_check_local(L, 2), &offset);
    return push_offset(L, found, &offset, "a line needs three pairs, not far from the instant");
}

// rbs:copy() -> another that knows as much
static int rbs_copy(lua_State *L)
{
    const mare_rbs *rbs = check_rbs(L);
    mare_rbs *copy = lua_newuserdatauv(L, sizeof *copy, 0);
    *copy = *rbs;
    luaL_setmetatable(L, RBS);
    return 1;
}

// broadcast{series =, number =[, who =, when =, name =]} -> bytes; with `who` a receiver's report
static int time_broadcast(lua_State *L)
{
    mare__lua_check_options(L, 1, "series number who when name");
    uint8_t out[MARE_RBS_PACKET_BYTES];
    bool reports = lua_getfield(L, 1, "who") != LUA_TNIL;
    mare_rbs_packet packet = {
        .kind = reports ? MARE_RBS_REPORT : MARE_RBS_BEACON,
        .series = (uint64_t)mare__time_field(L, 1, "series", 0, INT64_MIN, INT64_MAX),
        .number = (uint64_t)mare__time_field(L, 1, "number", 0, INT64_MIN, INT64_MAX),
        .who = (uint64_t)mare__time_field(L, 1, "who", 0, INT64_MIN, INT64_MAX),
        .when_ns = mare__time_field(L, 1, "when", 0, 1 - LOCAL_MOST, LOCAL_MOST - 1)};
    lua_getfield(L, 1, "name");
    snprintf(packet.name, sizeof packet.name, "%s", luaL_optstring(L, -1, ""));
    mare_rbs_encode(&packet, out);
    lua_pushlstring(L, (const char *)out, sizeof out);
    return 1;
}

// heard(bytes) -> packet; or nil, message, code
static int time_heard(lua_State *L)
{
    size_t length;
    mare_rbs_packet packet;
    const char *bytes = luaL_checklstring(L, 1, &length);
    bool whole =
        length <= UINT16_MAX && mare_rbs_decode((const uint8_t *)bytes, (uint32_t)length, &packet);
    if (!whole || packet.when_ns <= -LOCAL_MOST || packet.when_ns >= LOCAL_MOST)
        return mare__time_fail(L, MARE_BADMSG, "that is not a reference broadcast");
    lua_createtable(L, 0, 5);
    mare__time_set_integer(L, "series", packet.series);
    mare__time_set_integer(L, "number", packet.number);
    if (packet.kind == MARE_RBS_BEACON)
        return 1;
    mare__time_set_integer(L, "who", packet.who);
    mare__time_set_integer(L, "when", (uint64_t)packet.when_ns);
    lua_pushstring(L, packet.name);
    lua_setfield(L, -2, "name");
    return 1;
}

// ---- TAI ----------------------------------------------------------------------------------------

// tai(utc) -> tai, whether the table of leap seconds still holds
static int time_tai(lua_State *L)
{
    const mare_time_leaps *leaps = mare_time_leaps_known();
    int64_t utc_ns = mare__time_check_calendar(L, 1);
    lua_pushinteger(L, mare_time_tai_from_utc(leaps, utc_ns));
    lua_pushboolean(L, !mare_time_leaps_expired(leaps, utc_ns));
    return 2;
}

// utc(tai) -> utc, whether it is inside an inserted second
static int time_utc(lua_State *L)
{
    int inside;
    lua_pushinteger(L, mare_time_utc_from_tai(mare_time_leaps_known(),
                                              mare__time_check_calendar(L, 1), &inside));
    lua_pushboolean(L, inside);
    return 2;
}

// leaptoday(utc) -> 1, 0 or -1: what is inserted at the end of the day
static int time_leaptoday(lua_State *L)
{
    lua_pushinteger(L,
                    mare_time_leap_today(mare_time_leaps_known(), mare__time_check_calendar(L, 1)));
    return 1;
}

// ---- The module ---------------------------------------------------------------------------------

static const luaL_Reg clock_methods[] = {
    {"set", clock_set},       {"move", clock_move}, {"tune", clock_tune}, {"read", clock_read},
    {"target", clock_target}, {"gap", clock_gap},   {NULL, NULL},
};

static const luaL_Reg rbs_methods[] = {
    {"hear", rbs_hear}, {"match", rbs_match}, {"mean", rbs_mean},
    {"line", rbs_line}, {"copy", rbs_copy},   {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"clock", time_clock},
    {"rbs", time_rbs},
    {"berkeley", time_berkeley},
    {"skew", time_skew},
    {"apart", time_apart},
    {"resync", time_resync},
    {"tai", time_tai},
    {"utc", time_utc},
    {"leaptoday", time_leaptoday},
    {"broadcast", time_broadcast},
    {"heard", time_heard},
    {NULL, NULL},
};

static void new_class(lua_State *L, const char *name, const luaL_Reg *methods)
{
    if (luaL_newmetatable(L, name)) {
        lua_newtable(L);
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
}

int mare__lua_open_time(lua_State *L)
{
    new_class(L, CLOCK, clock_methods);
    new_class(L, RBS, rbs_methods);
    new_class(L, MARE__TIME_CLIENT, mare__time_client_methods);
    new_class(L, MARE__TIME_SERVER, mare__time_server_methods);
    new_class(L, MARE__TIME_ARRIVALS, mare__time_arrivals_methods);
    luaL_newlib(L, functions);
    luaL_setfuncs(L, mare__time_ntp_functions, 0);
    for (const luaL_Reg *f = mare__time_live_functions; f->name; f++) {
        mare__function_push(L, f->func); // it asks who calls
        lua_setfield(L, -2, f->name);
    }
    return 1;
}
