// SPDX-License-Identifier: MIT
// The part of the module mare.time that has to do with servers: an exchange, the association with
// one server and its filter, the choice among several, packets.
#include "lua/time.h"

#include <mare/coord_ntp.h>
#include <string.h>

// ---- One server ---------------------------------------------------------------------------------

// Checks four instants from `index` on: ours are local ones, the server's on a calendar, less than
// 146 years apart.
static void check_exchange(lua_State *L, int index, int64_t t[4])
{
    t[0] = mare__time_check_local(L, index);
    t[1] = mare__time_check_calendar(L, index + 1);
    t[2] = mare__time_check_calendar(L, index + 2);
    t[3] = mare__time_check_local(L, index + 3);
    for (int i = 1; i < 3; i++) {
        int64_t offset = t[i] - t[i == 1 ? 0 : 3];
        luaL_argcheck(L, offset < CALENDAR_LAST && offset > -CALENDAR_LAST, index + i,
                      "more than 146 years from the other clock's");
    }
}

// measure(t1, t2, t3, t4) -> offset, delay
static int time_measure(lua_State *L)
{
    int64_t t[4];
    check_exchange(L, 1, t);
    mare_ntp_exchange exchange = mare_ntp_measure(t[0], t[1], t[2], t[3]);
    lua_pushinteger(L, exchange.offset_ns);
    lua_pushinteger(L, exchange.delay_ns);
    return 2;
}

// A key at `index`, in the argument number `argument`: a table with `id` and `secret`, 16 bytes.
// False: there is none.
static bool read_key(lua_State *L, int argument, int index, mare_ntp_key *key)
{
    if (lua_isnoneornil(L, index))
        return false;
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE)
        luaL_argerror(
            L, argument,
            lua_pushfstring(L, "a key must be a table, not a %s", luaL_typename(L, index)));
    int is_integer;
    size_t length = 0;
    lua_getfield(L, index, "id");
    lua_Integer id = lua_tointegerx(L, -1, &is_integer);
    lua_getfield(L, index, "secret");
    const char *secret = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
    luaL_argcheck(L, is_integer && id > 0 && id <= UINT32_MAX, argument,
                  "a key must have an `id`, an integer from 1 to 4294967295");
    if (!secret || length != sizeof key->secret)
        return luaL_argerror(L, argument,
                             "a key must have a `secret`, a string of 16 bytes: AES-128-CMAC");
    key->id = (uint32_t)id;
    memcpy(key->secret, secret, length);
    lua_pop(L, 2);
    return true;
}

// client{drift = 15000, precision = 1, near = 0, tai = false, key =, poll = 6, slowest = 10}
static int time_client(lua_State *L)
{
    mare__time_check_options(L, 1, "drift precision near tai key poll slowest");
    mare_ntp_key key;
    mare_ntp_setup setup = {
        .drift_ppb = (uint64_t)mare__time_field(L, 1, "drift", 15000, 0, RATE_MOST),
        .precision_ns = (uint64_t)mare__time_field(L, 1, "precision", 1, 0, MARE_TIME_SECOND),
        .near_ns = mare__time_field(L, 1, "near", 0, CALENDAR_FIRST, LOCAL_MOST),
        .poll_least = (int8_t)mare__time_field(L, 1, "poll", 6, 0, 17),
        .poll_most = (int8_t)mare__time_field(L, 1, "slowest", 10, 0, 17)};
    lua_getfield(L, 1, "tai");
    setup.leaps = lua_toboolean(L, -1) ? mare_time_leaps_known() : NULL;
    lua_getfield(L, 1, "key");
    setup.key = read_key(L, 1, -1, &key) ? &key : NULL;
    mare_ntp_client *client = lua_newuserdatauv(L, sizeof *client, 0);
    mare_ntp_client_init(client, &setup);
    luaL_setmetatable(L, MARE__TIME_CLIENT);
    return 1;
}

static mare_ntp_client *check_client(lua_State *L)
{
    return luaL_checkudata(L, 1, MARE__TIME_CLIENT);
}

// client:ask(local, nonce) -> bytes; or nil, message, code
static int client_ask(lua_State *L)
{
    mare_ntp_client *client = check_client(L);
    uint8_t packet[MARE_NTP_PACKET_BYTES];
    int64_t local_ns = mare__time_check_local(L, 2);
    uint32_t length =
        mare_ntp_client_ask(client, local_ns, (uint64_t)luaL_checkinteger(L, 3), packet);
    if (length == 0)
        return mare__time_fail(L, MARE_REFUSED, "the server does not want to be asked");
    lua_pushlstring(L, (const char *)packet, length);
    return 1;
}

// client:take(local, bytes) -> verdict, whether the question is still open
static int client_take(lua_State *L)
{
    mare_ntp_client *client = check_client(L);
    size_t length;
    int64_t local_ns = mare__time_check_local(L, 2);
    const char *bytes = luaL_checklstring(L, 3, &length);
    uint32_t count = length > UINT16_MAX ? 0 : (uint32_t)length; // no datagram is so long
    mare_ntp_verdict verdict =
        mare_ntp_client_take(client, local_ns, (const uint8_t *)bytes, count);
    lua_pushstring(L, mare_ntp_verdict_name(verdict));
    lua_pushboolean(L, client->pending != 0);
    return 2;
}

// client:note(t1, t2, t3, t4, error) -> verdict
static int client_note(lua_State *L)
{
    mare_ntp_client *client = check_client(L);
    int64_t t[4];
    check_exchange(L, 2, t);
    uint64_t error_ns = mare__time_check_error(L, 6);
    lua_pushstring(
        L, mare_ntp_verdict_name(mare_ntp_client_note(client, t[0], t[1], t[2], t[3], error_ns)));
    return 1;
}

// client:forget()
static int client_forget(lua_State *L)
{
    mare_ntp_client_forget(check_client(L));
    return 0;
}

// client:wait() -> ns
static int client_wait(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare_ntp_client_wait_ns(check_client(L)));
    return 1;
}

// client:status() -> {reach =, kiss =, packets = {taken =, …}}
static int client_status(lua_State *L)
{
    const mare_ntp_client *client = check_client(L);
    lua_createtable(L, 0, 3);
    mare__time_set_integer(L, "reach", client->reach);
    if (client->kiss) {
        char code[4] = {(char)(client->kiss >> 24), (char)(client->kiss >> 16),
                        (char)(client->kiss >> 8), (char)client->kiss};
        lua_pushlstring(L, code, sizeof code);
        lua_setfield(L, -2, "kiss");
    }
    lua_newtable(L);
    for (int v = 0; v < MARE_NTP_VERDICTS; v++)
        if (client->verdicts[v])
            mare__time_set_integer(L, mare_ntp_verdict_name((mare_ntp_verdict)v),
                                   client->verdicts[v]);
    lua_setfield(L, -2, "packets");
    return 1;
}

static void push_estimate(lua_State *L, const mare_ntp_estimate *estimate)
{
    lua_createtable(L, 0, 10);
    mare__time_set_integer(L, "time", (uint64_t)estimate->time_ns);
    mare__time_set_integer(L, "error", mare__time_cut(estimate->error_ns));
    mare__time_set_integer(L, "delay", (uint64_t)estimate->delay_ns);
    mare__time_set_integer(L, "age", estimate->age_ns);
    mare__time_set_integer(L, "jitter", estimate->jitter_ns);
    mare__time_set_integer(L, "root_delay", estimate->root_delay_ns);
    mare__time_set_integer(L, "stratum", estimate->stratum);
    mare__time_set_integer(L, "reference_id", estimate->reference_id);
    mare__time_set_integer(L, "samples", estimate->samples);
    mare__time_set_integer(L, "leap", estimate->leap);
}

// client:best(local) -> estimate; or nil, message, code
static int client_best(lua_State *L)
{
    mare_ntp_client *client = check_client(L);
    mare_ntp_estimate estimate;
    if (!mare_ntp_client_best(client, mare__time_check_local(L, 2), &estimate))
        return mare__time_fail(L, MARE_EMPTY, "there is no answer yet");
    push_estimate(L, &estimate);
    return 1;
}

// ---- Several servers ----------------------------------------------------------------------------

// A field of an estimate. It need not be complete, nor is it checked for others: client:best has
// more.
static int64_t estimate_field(lua_State *L, int index, const char *name, int64_t otherwise,
                              int64_t least, int64_t most)
{
    int is_integer = 1;
    int64_t value = otherwise;
    if (lua_getfield(L, index, name) != LUA_TNIL)
        value = lua_tointegerx(L, -1, &is_integer);
    if (!is_integer || (value != otherwise && (value < least || value > most)))
        luaL_argerror(L, 1,
                      lua_pushfstring(L,
                                      "the `%s` of an estimate must be an integer "
                                      "from %I to %I",
                                      name, (LUAI_UACINT)least, (LUAI_UACINT)most));
    lua_pop(L, 1);
    return value;
}

// A bound of 16 seconds or more is as good as none for mare_ntp_select, which leaves it out.
static void read_estimate(lua_State *L, int index, mare_ntp_estimate *estimate)
{
    if (lua_type(L, index) != LUA_TTABLE)
        luaL_argerror(
            L, 1,
            lua_pushfstring(L, "an estimate must be a table, not a %s", luaL_typename(L, index)));
    index = lua_absindex(L, index);
    *estimate = (mare_ntp_estimate){
        .time_ns = estimate_field(L, index, "time", INT64_MIN, CALENDAR_FIRST, CALENDAR_LAST),
        .error_ns = (uint64_t)estimate_field(L, index, "error", -1, 0, INT64_MAX),
        .jitter_ns = (uint64_t)estimate_field(L, index, "jitter", 0, 0, INT64_MAX),
        .stratum = (uint32_t)estimate_field(L, index, "stratum", 0, 0, MARE_NTP_UNSYNCHRONISED)};
    if (estimate->time_ns == INT64_MIN || estimate->error_ns == UINT64_MAX)
        luaL_argerror(L, 1, "an estimate must have `time` and `error`");
}

// The positions of the bits of a set, from 1 on, as a list in the field `name`.
static void set_members(lua_State *L, const char *name, uint32_t set)
{
    lua_newtable(L);
    for (lua_Integer i = 0, at = 0; i < MARE_NTP_SERVERS_MAX; i++) {
        if (set >> i & 1) {
            lua_pushinteger(L, i + 1);
            lua_rawseti(L, -2, ++at);
        }
    }
    lua_setfield(L, -2, name);
}

// select({estimate, …}[, liars]) -> choice; or nil, message, code
static int time_select(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    mare_ntp_estimate estimates[MARE_NTP_SERVERS_MAX];
    mare_ntp_choice choice;
    lua_Integer count = luaL_len(L, 1);
    luaL_argcheck(L, count >= 0 && count <= MARE_NTP_SERVERS_MAX, 1, "more than 32 servers");
    uint32_t liars = count > 0 ? (uint32_t)(count - 1) / 2 : 0;
    if (!lua_isnoneornil(L, 2))
        liars =
            (uint32_t)mare__time_check_range(L, 2, 0, MARE_NTP_SERVERS_MAX, "the number of liars");
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, 1, i + 1);
        read_estimate(L, -1, &estimates[i]);
        lua_pop(L, 1);
    }
    if (!mare_ntp_select(estimates, (uint32_t)count, liars, &choice))
        return mare__time_fail(L, MARE_INVALID,
                               "the servers do not agree, or too few have answered");
    lua_createtable(L, 0, 6);
    mare__time_set_integer(L, "time", (uint64_t)choice.estimate.time_ns);
    mare__time_set_integer(L, "error", choice.estimate.error_ns);
    mare__time_set_integer(L, "stratum", choice.estimate.stratum);
    mare__time_set_integer(L, "peer", (uint64_t)choice.peer + 1);
    set_members(L, "survivors", choice.survivors);
    set_members(L, "outliers", choice.outliers);
    return 1;
}

// follows(mine, theirs) -> whether one of stratum `mine` adjusts to one of stratum `theirs`
static int time_follows(lua_State *L)
{
    uint32_t mine = (uint32_t)mare__time_check_range(L, 1, 0, MARE_NTP_UNSYNCHRONISED, "a stratum");
    uint32_t theirs =
        (uint32_t)mare__time_check_range(L, 2, 0, MARE_NTP_UNSYNCHRONISED, "a stratum");
    lua_pushboolean(L, mare_ntp_follows(mine, theirs));
    return 1;
}

// ---- The server ---------------------------------------------------------------------------------

enum { KEYS_MOST = 16 };

struct server {
    mare_ntp_server server;
    mare_ntp_key keys[KEYS_MOST];
};

static struct server *check_server(lua_State *L)
{
    return luaL_checkudata(L, 1, MARE__TIME_SERVER);
}

#define TOLD "stratum reference_id precision reference root_delay leap"

// Takes over what the table at `index` has.
static void tell(lua_State *L, int index, mare_ntp_server *server)
{
    server->stratum = (uint32_t)mare__time_field(L, index, "stratum", server->stratum, 1,
                                                 MARE_NTP_UNSYNCHRONISED);
    server->reference_id =
        (uint32_t)mare__time_field(L, index, "reference_id", server->reference_id, 0, UINT32_MAX);
    server->precision =
        (int8_t)mare__time_field(L, index, "precision", server->precision, -128, 127);
    server->reference_ns = mare__time_field(L, index, "reference", server->reference_ns,
                                            CALENDAR_FIRST, CALENDAR_LAST);
    server->root_delay_ns = (uint64_t)mare__time_field(
        L, index, "root_delay", (int64_t)server->root_delay_ns, 0, ERROR_MOST);
    server->leap = (mare_ntp_leap)mare__time_field(L, index, "leap", server->leap, 0, 3);
}

// server{stratum = 16, reference_id =, precision = -23, reference =, root_delay =, leap =,
//        keys = {key, …}, authenticated = false, tai = false} -> server
static int time_server(lua_State *L)
{
    mare__time_check_options(L, 1, TOLD " keys authenticated tai");
    struct server *made = lua_newuserdatauv(L, sizeof *made, 0);
    *made = (struct server){.server = {.stratum = MARE_NTP_UNSYNCHRONISED, .precision = -23}};
    tell(L, 1, &made->server);
    if (lua_getfield(L, 1, "keys") != LUA_TNIL) {
        if (!lua_istable(L, -1))
            mare__lua_option_error(L, 1, "keys", "a list");
        lua_Integer count = luaL_len(L, -1);
        if (count > KEYS_MOST)
            mare__lua_option_error(L, 1, "keys", "a list of up to 16 keys");
        for (lua_Integer i = 0; i < count; i++) {
            lua_geti(L, -1, i + 1);
            if (!read_key(L, 1, -1, &made->keys[i]))
                luaL_argerror(L, 1, "a key must be a table, not a nil");
            lua_pop(L, 1);
        }
        made->server.key_count = count > 0 ? (uint32_t)count : 0;
    }
    made->server.keys = made->keys;
    lua_getfield(L, 1, "authenticated");
    made->server.authenticated_only = (uint32_t)lua_toboolean(L, -1);
    lua_getfield(L, 1, "tai");
    made->server.leaps = lua_toboolean(L, -1) ? mare_time_leaps_known() : NULL;
    lua_pop(L, 3);
    luaL_setmetatable(L, MARE__TIME_SERVER);
    return 1;
}

// server:tell{stratum =, …}: what has changed
static int server_tell(lua_State *L)
{
    struct server *server = check_server(L);
    mare__lua_check_options(L, 2, TOLD);
    tell(L, 2, &server->server);
    return 0;
}

static mare_time_reading check_reading(lua_State *L, int index)
{
    return (mare_time_reading){.time_ns = mare__time_check_calendar(L, index),
                               .error_ns = lua_isnil(L, index + 1)
                                               ? MARE_TIME_UNKNOWN
                                               : mare__time_check_error(L, index + 1)};
}

static int push_answer(lua_State *L, const uint8_t *answer, uint32_t length)
{
    if (length == 0)
        return mare__time_fail(L, MARE_BADMSG, "that deserves no answer");
    lua_pushlstring(L, (const char *)answer, length);
    return 1;
}

// server:answer(bytes, received, error, leaves, error) -> bytes; or nil, message, code
static int server_answer(lua_State *L)
{
    const struct server *server = check_server(L);
    size_t length;
    uint8_t out[MARE_NTP_PACKET_BYTES];
    const uint8_t *bytes = (const uint8_t *)luaL_checklstring(L, 2, &length);
    mare_time_reading received = check_reading(L, 3), leaves = check_reading(L, 5);
    uint32_t count = length > UINT16_MAX ? 0 : (uint32_t)length;
    return push_answer(L, out,
                       mare_ntp_serve(&server->server, bytes, count, received, leaves, out));
}

// server:refuse(bytes, code) -> bytes; or nil, message, code
static int server_refuse(lua_State *L)
{
    const struct server *server = check_server(L);
    size_t length, letters;
    uint8_t out[MARE_NTP_PACKET_BYTES];
    const uint8_t *bytes = (const uint8_t *)luaL_checklstring(L, 2, &length);
    const char *code = luaL_checklstring(L, 3, &letters);
    luaL_argcheck(L, letters == 4, 3, "a code has four letters");
    uint32_t count = length > UINT16_MAX ? 0 : (uint32_t)length;
    return push_answer(L, out, mare_ntp_refuse(&server->server, bytes, count, code, out));
}

// ---- Packets and stamps -------------------------------------------------------------------------

// encode(packet[, key]) -> bytes
static int time_encode(lua_State *L)
{
    mare__lua_check_options(L, 1,
                            "leap version mode stratum poll precision root_delay root_dispersion "
                            "reference_id reference origin receive transmit key_id");
    mare_ntp_key key;
    uint8_t out[MARE_NTP_PACKET_BYTES];
    mare_ntp_packet packet = {
        .leap = (uint8_t)mare__time_field(L, 1, "leap", 0, 0, 3),
        .version = (uint8_t)mare__time_field(L, 1, "version", 4, 1, 7),
        .mode = (uint8_t)mare__time_field(L, 1, "mode", MARE_NTP_CLIENT, 0, 7),
        .stratum = (uint8_t)mare__time_field(L, 1, "stratum", 0, 0, 255),
        .poll = (int8_t)mare__time_field(L, 1, "poll", 0, -128, 127),
        .precision = (int8_t)mare__time_field(L, 1, "precision", 0, -128, 127),
        .root_delay = (uint32_t)mare__time_field(L, 1, "root_delay", 0, 0, UINT32_MAX),
        .root_dispersion = (uint32_t)mare__time_field(L, 1, "root_dispersion", 0, 0, UINT32_MAX),
        .reference_id = (uint32_t)mare__time_field(L, 1, "reference_id", 0, 0, UINT32_MAX),
        .reference = (uint64_t)mare__time_field(L, 1, "reference", 0, INT64_MIN, INT64_MAX),
        .origin = (uint64_t)mare__time_field(L, 1, "origin", 0, INT64_MIN, INT64_MAX),
        .receive = (uint64_t)mare__time_field(L, 1, "receive", 0, INT64_MIN, INT64_MAX),
        .transmit = (uint64_t)mare__time_field(L, 1, "transmit", 0, INT64_MIN, INT64_MAX)};
    uint32_t length = mare_ntp_encode(&packet, read_key(L, 2, 2, &key) ? &key : NULL, out);
    lua_pushlstring(L, (const char *)out, length);
    return 1;
}

// The bytes at `index`, taken apart.
static bool decode(lua_State *L, int index, const uint8_t **bytes, mare_ntp_packet *packet)
{
    size_t length;
    *bytes = (const uint8_t *)luaL_checklstring(L, index, &length);
    return length <= UINT16_MAX && mare_ntp_decode(*bytes, (uint32_t)length, packet);
}

// decode(bytes) -> packet; or nil, message, code
static int time_decode(lua_State *L)
{
    const uint8_t *bytes;
    mare_ntp_packet packet;
    if (!decode(L, 1, &bytes, &packet))
        return mare__time_fail(L, MARE_BADMSG, "that is not an NTP packet");
    lua_createtable(L, 0, 14);
    mare__time_set_integer(L, "leap", packet.leap);
    mare__time_set_integer(L, "version", packet.version);
    mare__time_set_integer(L, "mode", packet.mode);
    mare__time_set_integer(L, "stratum", packet.stratum);
    mare__time_set_integer(L, "poll", (uint64_t)packet.poll);
    mare__time_set_integer(L, "precision", (uint64_t)packet.precision);
    mare__time_set_integer(L, "root_delay", packet.root_delay);
    mare__time_set_integer(L, "root_dispersion", packet.root_dispersion);
    mare__time_set_integer(L, "reference_id", packet.reference_id);
    mare__time_set_integer(L, "reference", packet.reference);
    mare__time_set_integer(L, "origin", packet.origin);
    mare__time_set_integer(L, "receive", packet.receive);
    mare__time_set_integer(L, "transmit", packet.transmit);
    if (packet.mac_bytes)
        mare__time_set_integer(L, "key_id", packet.key_id);
    return 1;
}

// authentic(bytes, key) -> boolean
static int time_authentic(lua_State *L)
{
    const uint8_t *bytes;
    mare_ntp_packet packet;
    mare_ntp_key key;
    luaL_checktype(L, 2, LUA_TTABLE);
    read_key(L, 2, 2, &key);
    lua_pushboolean(L, decode(L, 1, &bytes, &packet) && mare_ntp_authentic(bytes, &packet, &key));
    return 1;
}

// stamp(utc) -> stamp
static int time_stamp(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare_ntp_stamp(mare__time_check_calendar(L, 1)));
    return 1;
}

// unstamp(stamp, near) -> utc
static int time_unstamp(lua_State *L)
{
    uint64_t stamp = (uint64_t)luaL_checkinteger(L, 1);
    lua_pushinteger(L, mare_ntp_unstamp(stamp, mare__time_check_calendar(L, 2)));
    return 1;
}

// leaps(said, until, announced) -> how many may have come in between
static int time_leaps(lua_State *L)
{
    int64_t said_ns = mare__time_check_calendar(L, 1), until_ns = mare__time_check_calendar(L, 2);
    int64_t announced =
        lua_isnoneornil(L, 3) ? 0 : mare__time_check_range(L, 3, 0, 3, "a leap indicator");
    lua_pushinteger(L, mare_ntp_leaps_since(said_ns, (mare_ntp_leap)announced, until_ns));
    return 1;
}

const luaL_Reg mare__time_client_methods[] = {
    {"ask", client_ask},       {"take", client_take}, {"note", client_note},
    {"wait", client_wait},     {"best", client_best}, {"forget", client_forget},
    {"status", client_status}, {NULL, NULL},
};

const luaL_Reg mare__time_server_methods[] = {
    {"tell", server_tell}, {"answer", server_answer}, {"refuse", server_refuse}, {NULL, NULL}};

const luaL_Reg mare__time_ntp_functions[] = {
    {"measure", time_measure}, {"client", time_client},   {"select", time_select},
    {"encode", time_encode},   {"decode", time_decode},   {"authentic", time_authentic},
    {"stamp", time_stamp},     {"unstamp", time_unstamp}, {"leaps", time_leaps},
    {"follows", time_follows}, {"server", time_server},   {NULL, NULL},
};
