// SPDX-License-Identifier: MIT
// A member of a live group: one lease and the locks under it (src/coord/lease/tenants.h), stepped
// by lua/mare/_group.lua, which brings messages and the time and carries out what comes back. The
// object code is the simulator's. A member and its locks belong to one process.
#include <string.h>

#include "coord/lease/tenants.h"
#include "coord/mutex/majority.h"
#include "lua/binding.h"
#include "lua/guest.h"

#define PARTY "mare.group.party"
#define MEMBERS_MOST 256
#define KEPT_MOST 128 // bytes: enough for the sets of so many

// Each lock is a userdata of its own, in the table that is the party's user value.
struct lock {
    mare__tenant tenant; // first
    const char *name;    // of the key in that table
    size_t length;       // of the name, which may have zeros in it
    uint64_t machine[];
};

struct party {
    mare__tenants tenants;
    mare_coord_effects lease_effects, effects;
    mare_coord_setup lock_setup;
    uint64_t clock; // the latest of any lock
    lua_State *L;   // of the step under way; its effects are in the table at `effects_at`
    int effects_at;
    lua_Integer count;
    uint8_t kept[KEPT_MOST]; // what must be on the disk, for all locks together
    uint64_t memory[];
};

static struct party *check_party(lua_State *L)
{
    return luaL_checkudata(L, 1, PARTY);
}

static void set_number(lua_State *L, const char *name, uint64_t number)
{
    lua_pushinteger(L, (lua_Integer)number);
    lua_setfield(L, -2, name);
}

static void set_text(lua_State *L, const char *name, const char *text)
{
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

// An effect becomes {what =, lock =, peer =, number =, timer =, data =, text =, epoch =}. What a
// lock SAVEs is taken into what is kept for all of them; most of it is there already.
static void carry(void *context, mare__tenant *tenant, const mare_coord_effect *effect)
{
    struct party *party = context;
    lua_State *L = party->L;
    const uint8_t *data = effect->data;
    if (effect->kind == MARE_COORD_SAVE) {
        if (!mare__majority_merge(party->kept, data, effect->length))
            return;
        data = party->kept;
    }
    luaL_checkstack(L, 4, NULL);
    lua_newtable(L);
    set_text(L, "what", mare_coord_effect_name(effect->kind));
    if (tenant) {
        const struct lock *lock = (struct lock *)(void *)tenant;
        lua_pushlstring(L, lock->name, lock->length);
        lua_setfield(L, -2, "lock");
    }
    if (effect->peer != MARE_COORD_NOBODY)
        set_number(L, "peer", (uint64_t)effect->peer + 1);
    set_number(L, "number", effect->number);
    set_number(L, "timer", effect->timer);
    set_number(L, "epoch", mare__lease_epoch(party->tenants.lease, NULL));
    if (effect->text)
        set_text(L, "text", effect->text);
    lua_pushlstring(L, (const char *)data, effect->length);
    lua_setfield(L, -2, "data");
    lua_rawseti(L, party->effects_at, ++party->count);
}

static void begin(lua_State *L, struct party *party)
{
    lua_newtable(L);
    party->L = L;
    party->effects_at = lua_gettop(L);
    party->count = 0;
}

static lua_Integer option(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    lua_Integer value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

static size_t padded(size_t size)
{
    return (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

// Room for the effects of one step, in the memory at `at`; counts when there is none.
static size_t lay_out(mare_coord_effects *effects, const mare_coord_setup *setup, char *at)
{
    mare_coord_room(setup, &effects->room, &effects->bytes_room);
    size_t list = padded(effects->room * sizeof *effects->list);
    effects->list = (mare_coord_effect *)(void *)at;
    effects->bytes = at ? (uint8_t *)at + list : NULL;
    return list + padded(effects->bytes_room);
}

static void set_param(lua_State *L, mare_coord_setup *setup, const char *name)
{
    if (mare_coord_setup_set(setup, name, option(L, name)) != MARE_COORD_OK)
        luaL_error(L, "option '%s' is out of its limits", name);
}

static void read_setup(lua_State *L, mare_coord_setup *setup, const mare_coord_algorithm *algorithm)
{
    mare_coord_setup_init(setup, algorithm, (uint32_t)option(L, "members"));
    setup->self = (uint32_t)option(L, "self") - 1;
    setup->founds = (uint32_t)option(L, "founds");
    setup->incarnation = (uint64_t)option(L, "incarnation");
    setup->seed = (uint64_t)option(L, "seed");
}

// _member{members =, self =, founds =, incarnation =, seed =, lease_us =, beat_us =, drift_ppm =,
// retry_us =, first =} -> a member; `founds` is for locks that have nothing saved, `first` (0 or 1,
// as that) says that this is the first life of the member
static int party_new(lua_State *L)
{
    mare_coord_setup lease_setup, lock_setup;
    mare_coord_effects counted;
    read_setup(L, &lease_setup, &mare__lease);
    read_setup(L, &lock_setup, &mare_coord_majority);
    set_param(L, &lease_setup, "lease_us");
    set_param(L, &lease_setup, "beat_us");
    set_param(L, &lease_setup, "drift_ppm");
    set_param(L, &lock_setup, "retry_us");
    mare_coord_setup_set(&lock_setup, "lease", 1);
    lock_setup.keeps = 1;
    lease_setup.founds = (uint32_t)option(L, "first"); // no life before this one has promised
    size_t lease_size = padded(mare_coord_size(&lease_setup));
    luaL_argcheck(L,
                  lease_size && mare_coord_size(&lock_setup) && lock_setup.members < MEMBERS_MOST,
                  1, "no such group can be");
    size_t effects = lay_out(&counted, &lease_setup, NULL) + lay_out(&counted, &lock_setup, NULL);
    struct party *party = lua_newuserdatauv(L, sizeof *party + lease_size + effects, 1);
    memset(party, 0, sizeof *party);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, PARTY);
    char *at = (char *)party->memory;
    party->lock_setup = lock_setup;
    party->tenants = (mare__tenants){.lease = mare_coord_init(at, lease_size, &lease_setup),
                                     .lease_effects = &party->lease_effects,
                                     .effects = &party->effects,
                                     .carry = carry,
                                     .context = party};
    luaL_argcheck(L, party->tenants.lease, 1, "no such member can be");
    at += lease_size;
    at += lay_out(&party->lease_effects, &lease_setup, at);
    lay_out(&party->effects, &lock_setup, at);
    return 1;
}

// member:_add(now_us, name, saved or nil) -> effects; nil when what was saved is not of this
// member. What was saved is the same for all locks: what was there when this life began.
static int party_add(lua_State *L)
{
    struct party *party = check_party(L);
    uint64_t now_us = (uint64_t)luaL_checkinteger(L, 2);
    size_t saved = 0, length, size = mare_coord_size(&party->lock_setup);
    const char *name = luaL_checklstring(L, 3, &length);
    const char *bytes = luaL_optlstring(L, 4, NULL, &saved);
    lua_getiuservalue(L, 1, 1);
    struct lock *lock = lua_newuserdatauv(L, sizeof *lock + size, 0);
    *lock = (struct lock){.name = name, .length = length};
    lock->tenant.machine = mare_coord_init(lock->machine, size, &party->lock_setup);
    if (bytes && mare_coord_load(lock->tenant.machine, (const uint8_t *)bytes, (uint32_t)saved) !=
                     MARE_COORD_OK)
        return 0;
    mare__majority_merge(party->kept, (const uint8_t *)bytes, (uint32_t)saved);
    lua_pushvalue(L, 3); // the key keeps the name
    lua_insert(L, -2);
    lua_rawset(L, -3);
    begin(L, party);
    mare__tenants_add(&party->tenants, &lock->tenant, now_us);
    return 1;
}

static mare_coord_event_kind check_kind(lua_State *L, int index)
{
    const char *word = luaL_checkstring(L, index);
    for (int kind = 0; kind < MARE_COORD_EVENT_KINDS; kind++) {
        if (strcmp(mare_coord_event_name((mare_coord_event_kind)kind), word) == 0)
            return (mare_coord_event_kind)kind;
    }
    return (mare_coord_event_kind)luaL_argerror(L, index, "no such event");
}

// A new lock begins with the latest clock of all: who has come back finds its stamps new enough.
static void note_clock(struct party *party, const struct lock *lock)
{
    mare_coord_view view;
    mare_coord_look(lock->tenant.machine, &view);
    if (view.lamport > party->clock &&
        mare_coord_setup_set(&party->lock_setup, "clock", (int64_t)view.lamport) == MARE_COORD_OK)
        party->clock = view.lamport;
}

// member:_step(now_us, lock or nil, what, peer or nil, number, data, epoch) -> status, effects
static int party_step(lua_State *L)
{
    struct party *party = check_party(L);
    size_t length = 0;
    mare_coord_event event = {.now_us = (uint64_t)luaL_checkinteger(L, 2),
                              .kind = check_kind(L, 4),
                              .peer = (uint32_t)luaL_optinteger(L, 5, 0) - 1,
                              .number = (uint64_t)luaL_optinteger(L, 6, 0)};
    event.data = (const uint8_t *)luaL_optlstring(L, 7, "", &length);
    event.length = (uint32_t)length;
    uint64_t epoch = (uint64_t)luaL_optinteger(L, 8, 0);
    mare_coord_status status;
    lua_settop(L, 8);
    begin(L, party);
    if (lua_isnil(L, 3)) {
        status = mare__tenants_step_lease(&party->tenants, &event);
    } else {
        lua_getiuservalue(L, 1, 1);
        lua_pushvalue(L, 3);
        lua_rawget(L, -2);
        struct lock *lock = lua_touserdata(L, -1);
        luaL_argcheck(L, lock, 3, "no such lock");
        status = mare__tenants_step(&party->tenants, &lock->tenant, &event, epoch);
        note_clock(party, lock);
    }
    lua_pushstring(L, mare_coord_status_name(status));
    lua_pushvalue(L, party->effects_at);
    return 2;
}

// member:_epoch(now_us) -> the epoch of its lease or false, effects: what the time has done to it
static int party_epoch(lua_State *L)
{
    struct party *party = check_party(L);
    uint64_t now_us = (uint64_t)luaL_checkinteger(L, 2);
    begin(L, party);
    uint64_t epoch = mare__tenants_epoch(&party->tenants, now_us);
    if (epoch)
        lua_pushinteger(L, (lua_Integer)epoch);
    else
        lua_pushboolean(L, 0);
    lua_pushvalue(L, party->effects_at);
    return 2;
}

// member:_down(peer) -> whether the peer is known to hold no lease
static int party_down(lua_State *L)
{
    struct party *party = check_party(L);
    lua_Integer peer = luaL_checkinteger(L, 2);
    luaL_argcheck(L, peer > 0 && peer <= party->lock_setup.members, 2, "no such member");
    lua_pushboolean(L, mare__lease_is_down(party->tenants.lease, (uint32_t)peer - 1));
    return 1;
}

// ---- Values as bytes ----------------------------------------------------------------------------

// _pack(value) -> bytes that any member can read, and that can be put one after the other; nil,
// message, code when something in it has no meaning elsewhere
static int party_pack(lua_State *L)
{
    struct mare__leaving *leaving = NULL;
    mare_message message;
    lua_settop(L, 1);
    mare__message_init(&message);
    mare_err err = mare__marshal(L, 1, 1, &message, "value", &leaving);
    mare__leaving_end(L, &leaving, 0, false);
    if (err)
        return mare__lua_fail_with(L, err);
    bool plain = mare__lua_is_plain(&message);
    if (plain)
        lua_pushlstring(L, (const char *)mare__message_data(&message), message.length);
    mare__message_clear(&message);
    if (plain)
        return 1;
    lua_pushliteral(L, "plain values expected: numbers, strings, booleans, tables of them");
    return mare__lua_fail_with(L, MARE_BADMSG);
}

// _unpack(bytes) -> all values in them; nothing when they cannot be read
static int party_unpack(lua_State *L)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    mare_message *parsed, own;
    mare_err err = mare_message_parse(bytes, length, &parsed);
    if (err == MARE_NOMEM)
        mare__lua_no_memory(L);
    if (err)
        return 0;
    mare__message_init(&own);
    mare__message_move(&own, parsed);
    mare_message_destroy(parsed);
    luaL_checkstack(L, (int)own.count + 8, "too many values");
    return mare__unmarshal_own(L, &own);
}

// _checksum(bytes) -> FNV-1a, 64 bits: finds a damage, not an attack
static int party_checksum(lua_State *L)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    lua_pushinteger(L, (lua_Integer)sum);
    return 1;
}

int mare__lua_open_group(lua_State *L)
{
    static const luaL_Reg methods[] = {{"_add", party_add},
                                       {"_step", party_step},
                                       {"_epoch", party_epoch},
                                       {"_down", party_down},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"_member", party_new},
                                         {"_pack", party_pack},
                                         {"_unpack", party_unpack},
                                         {"_checksum", party_checksum},
                                         {NULL, NULL}};
    if (luaL_newmetatable(L, PARTY)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}
