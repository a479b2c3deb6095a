// SPDX-License-Identifier: MIT
// A member of a live group: one lease and the machines under it (src/coord/lease/tenants.h),
// stepped by lua/mare/_group.lua, which brings messages and the time and carries out what comes
// back. The object code is the simulator's. A member and its machines belong to one process.
#include <string.h>

#include "coord/election/place.h"
#include "coord/lease/bounds.h"
#include "coord/lease/tenants.h"
#include "coord/mutex/central.h"
#include "coord/mutex/majority.h"
#include "coord/mutex/ricart.h"
#include "lua/binding.h"
#include "wire/pack.h"

#define PARTY "mare.group.party"
#define MEMBERS_MOST 256
#define KEPT_MOST 128 // bytes: enough for the sets of so many
#define BOUND_AT 32   // the place of the bound in saved bytes: after the head of each SAVE
#define REST_US 10000 // for which a token rests with a member that does not want it
#define GOSSIP_US 500000
#define FIELDS 8           // of an effect, usually
#define DIMENSIONS 3       // of network coordinates
#define SUPERPEERS_MOST 32 // by tokens: what one message has room for

// How the SAVEs of a machine are kept: as a bound and a set for all machines of its kind; as a
// bound for them; each by itself; or not at all.
enum keeping { BOUND_AND_SET, BOUND, EACH, NOTHING };

static const struct {
    const mare_coord_algorithm *algorithm;
    enum keeping keeping;
} kinds[] = {
    {&mare_coord_majority, BOUND_AND_SET},
    {&mare_coord_central, BOUND},
    {&mare_coord_ricart, BOUND},
    {&mare_coord_token, BOUND},
    {&mare_coord_voting, EACH},
    {&mare_coord_bully, NOTHING},
    {&mare_coord_ring, NOTHING},
    {&mare_coord_wireless, NOTHING},
    {&mare_coord_superpeer_dht, NOTHING},
    {&mare_coord_superpeer_tokens, NOTHING},
};

enum { MAJORITY, CENTRAL, RICART, KINDS = sizeof kinds / sizeof *kinds, BY_TOKENS = KINDS - 1 };

// Each machine is a userdata of its own, in the table that is the party's user value.
struct machine {
    mare__tenant tenant; // first
    const char *name;    // of the key in that table
    size_t length;       // of the name, which may have zeros in it
    int kind;
    uint64_t memory[];
};

struct party {
    mare__tenants tenants;
    mare_coord_effects lease_effects, effects;
    mare_coord_setup setup[KINDS];
    uint64_t clock;           // the latest of any lock by majority
    mare__majority_past past; // what locks by majority have left that were forgotten
    mare__ricart_past ricart_past;
    mare__central_past central_past;
    uint32_t first;  // this is the first life of the member …
    uint32_t leases; // … and how often it has had a lease
    lua_State *L;    // of the step under way; its effects are in the table at `effects_at`
    int effects_at;
    lua_Integer count;
    uint8_t kept[KINDS][KEPT_MOST];  // what must be on the disk, for all of a kind together …
    uint8_t known[KINDS][KEPT_MOST]; // … what was there when this life began …
    uint32_t begun[KINDS];           // … and its length, for those that keep a bound
    int32_t places[MEMBERS_MOST * DIMENSIONS]; // of members, as superpeers count them
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

// Merges what one machine of a kind saves into what is kept for the kind. Nonzero: that must be
// written to disk.
static int merge(struct party *party, int kind, const uint8_t *saved, uint32_t length)
{
    uint8_t *into = party->kept[kind];
    if (kinds[kind].keeping == BOUND_AND_SET)
        return mare__majority_merge(into, saved, length);
    return kinds[kind].keeping == EACH || mare__bounds_merge(into, saved, length);
}

static void push_machine(lua_State *L, const struct machine *machine)
{
    lua_pushlstring(L, machine->name, machine->length);
    lua_setfield(L, -2, "lock");
    set_text(L, "algorithm", kinds[machine->kind].algorithm->name);
}

// An effect becomes {what =, lock =, algorithm =, peer =, number =, timer =, data =, text =, epoch
// =}. What a lock SAVEs is merged into what is kept for all locks of its kind; most of it is there
// already.
static void carry(void *context, mare__tenant *tenant, const mare_coord_effect *effect)
{
    struct party *party = context;
    const struct machine *machine = (struct machine *)(void *)tenant;
    lua_State *L = party->L;
    const uint8_t *data = effect->data;
    party->leases += effect->kind == MARE_COORD_LEASED;
    if (effect->kind == MARE_COORD_SAVE) {
        if (!merge(party, machine->kind, data, effect->length))
            return;
        if (kinds[machine->kind].keeping != EACH)
            data = party->kept[machine->kind];
    }
    luaL_checkstack(L, 4, NULL);
    lua_createtable(L, 0, FIELDS);
    set_text(L, "what", mare_coord_effect_name(effect->kind));
    if (machine)
        push_machine(L, machine);
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

// Places the effects of one step, of any of these machines, in the memory at `at`; without memory,
// counts the bytes.
static size_t lay_out(mare_coord_effects *effects, const mare_coord_setup *setup, int count,
                      char *at)
{
    effects->room = effects->bytes_room = 0;
    for (int i = 0; i < count; i++) {
        uint32_t room, bytes;
        mare_coord_room(&setup[i], &room, &bytes);
        effects->room = room > effects->room ? room : effects->room;
        effects->bytes_room = bytes > effects->bytes_room ? bytes : effects->bytes_room;
    }
    size_t list = padded(effects->room * sizeof *effects->list);
    effects->list = (mare_coord_effect *)(void *)at;
    effects->bytes = at ? (uint8_t *)at + list : NULL;
    return list + padded(effects->bytes_room);
}

static void set_param(lua_State *L, mare_coord_setup *setup, const char *name)
{
    if (mare_coord_setup_set(setup, name, option(L, name)) == MARE_COORD_REFUSED)
        luaL_error(L, "option '%s' is out of its limits", name);
}

static void read_setup(lua_State *L, mare_coord_setup *setup, const mare_coord_algorithm *algorithm)
{
    mare_coord_setup_init(setup, algorithm, (uint32_t)option(L, "voters"));
    setup->capacity = (uint32_t)option(L, "members");
    setup->self = (uint32_t)option(L, "self") - 1;
    setup->founds = (uint32_t)option(L, "founds");
    setup->incarnation = (uint64_t)option(L, "incarnation");
    setup->seed = (uint64_t)option(L, "seed");
}

// The set-ups of all kinds. Elections begin when a machine does, so nobody founds one.
static void read_kinds(lua_State *L, mare_coord_setup *setup)
{
    for (int i = 0; i < KINDS; i++) {
        read_setup(L, &setup[i], kinds[i].algorithm);
        set_param(L, &setup[i], "retry_us");
        mare_coord_setup_set(&setup[i], "lease", 1);
        mare_coord_setup_set(&setup[i], "rest_us", REST_US);
        mare_coord_setup_set(&setup[i], "bits", 32);
        mare_coord_setup_set(&setup[i], "tokens", SUPERPEERS_MOST);
        mare_coord_setup_set(&setup[i], "dimensions", DIMENSIONS);
        mare_coord_setup_set(&setup[i], "gossip_us", GOSSIP_US);
        setup[i].keeps = kinds[i].keeping != NOTHING;
        if (kinds[i].keeping == NOTHING)
            setup[i].founds = 0;
        luaL_argcheck(L, mare_coord_size(&setup[i]) && setup[i].capacity < MEMBERS_MOST, 1,
                      "no such group can be");
    }
}

// _member{members =, voters =, keepers =, self =, founds =, incarnation =, seed =, lease_us =,
// beat_us =, drift_ppm =, retry_us =, first =} -> a member; the first members are the voters, the
// first of these those that keep the lease; `founds` (0 or 1) says that it votes, and has forgotten
// nothing, `first` (0 or 1) that this is its first life
static int party_new(lua_State *L)
{
    mare_coord_setup lease_setup, setup[KINDS];
    mare_coord_effects counted;
    read_setup(L, &lease_setup, &mare__lease);
    read_kinds(L, setup);
    set_param(L, &lease_setup, "lease_us");
    set_param(L, &lease_setup, "beat_us");
    set_param(L, &lease_setup, "drift_ppm");
    lease_setup.members = (uint32_t)option(L, "keepers");
    bool first = option(L, "first") != 0; // no life before this one has promised
    lease_setup.founds = first && lease_setup.self < lease_setup.members;
    size_t lease_size = padded(mare_coord_size(&lease_setup));
    luaL_argcheck(L, lease_size, 1, "no such group can be");
    size_t effects =
        lay_out(&counted, &lease_setup, 1, NULL) + lay_out(&counted, setup, KINDS, NULL);
    struct party *party = lua_newuserdatauv(L, sizeof *party + lease_size + effects, 1);
    memset(party, 0, sizeof *party);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, PARTY);
    char *at = (char *)party->memory;
    memcpy(party->setup, setup, sizeof setup);
    party->first = first;
    party->tenants = (mare__tenants){.lease = mare_coord_init(at, lease_size, &lease_setup),
                                     .lease_effects = &party->lease_effects,
                                     .effects = &party->effects,
                                     .carry = carry,
                                     .context = party};
    luaL_argcheck(L, party->tenants.lease, 1, "no such member can be");
    at += lease_size;
    at += lay_out(&party->lease_effects, &lease_setup, 1, at);
    lay_out(&party->effects, setup, KINDS, at);
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].keeping == BOUND)
            party->begun[i] = mare__bounds_begin(&setup[i], party->kept[i], KEPT_MOST);
        memcpy(party->known[i], party->kept[i], KEPT_MOST);
    }
    return 1;
}

static int check_algorithm(lua_State *L, int index)
{
    const char *word = luaL_checkstring(L, index);
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].algorithm->name, word) == 0)
            return i;
    }
    return luaL_argerror(L, index, "no such algorithm");
}

// member:_recall(algorithm, saved) -> whether it is of this member: what its locks had kept when
// this life began
static int party_recall(lua_State *L)
{
    struct party *party = check_party(L);
    int kind = check_algorithm(L, 2);
    size_t length;
    const uint8_t *saved = (const uint8_t *)luaL_checklstring(L, 3, &length);
    int fits =
        length <= KEPT_MOST && (kinds[kind].keeping == BOUND_AND_SET ||
                                (length == party->begun[kind] &&
                                 mare__bounds_fit(party->kept[kind], saved, (uint32_t)length)));
    if (fits)
        merge(party, kind, saved, (uint32_t)length);
    memcpy(party->known[kind], party->kept[kind], KEPT_MOST);
    lua_pushboolean(L, fits);
    return 1;
}

// member:_exceed(algorithm, number) -> what is kept now: this number and those below it are used.
// It is for all locks of the algorithm, as _recall() is, and needs nothing to be asked.
static int party_exceed(lua_State *L)
{
    struct party *party = check_party(L);
    int kind = check_algorithm(L, 2);
    lua_Integer number = luaL_checkinteger(L, 3);
    uint8_t saved[KEPT_MOST];
    uint32_t length = mare__bounds_begin(&party->setup[kind], saved, sizeof saved);
    luaL_argcheck(L, kinds[kind].keeping <= BOUND && length > BOUND_AT, 2, "no bound is kept");
    luaL_argcheck(L, number >= 0, 3, "not a bound");
    for (int i = 0; i < 8; i++)
        saved[BOUND_AT + i] = (uint8_t)((uint64_t)number >> (8 * i));
    merge(party, kind, saved, length);
    memcpy(party->known[kind], party->kept[kind], KEPT_MOST);
    lua_pushlstring(L, (const char *)party->kept[kind], length);
    return 1;
}

// What a new machine remembers of earlier lives. A lock by majority gets what was on the disk when
// this life began. So does one of a kind whose bound is kept, unless the group began with this very
// lease, and the lock did too. What other locks have reached since does not count: otherwise each
// new lock would begin above the one before.
static mare_coord_status load(const struct party *party, struct machine *machine,
                              const uint8_t *saved, size_t length)
{
    const mare_coord_setup *setup = &party->setup[machine->kind];
    if (kinds[machine->kind].keeping == BOUND) {
        bool begins = party->first && party->leases <= 1;
        if (machine->kind == CENTRAL && party->central_past.epoch >= setup->members)
            begins = false; // one of the forgotten locks had another epoch
        if (!setup->founds || begins)
            return MARE_COORD_OK;
        saved = party->known[machine->kind];
        length = party->begun[machine->kind];
    }
    return saved ? mare_coord_load(machine->tenant.machine, saved, (uint32_t)length)
                 : MARE_COORD_OK;
}

// The bound that is on the disk for all locks of a kind.
static uint64_t bound_of(const struct party *party, int kind)
{
    uint64_t bound = 0;
    for (int i = 7; i >= 0; i--)
        bound = bound << 8 | party->kept[kind][BOUND_AT + i];
    return bound;
}

// Makes a new machine begin after the locks that were forgotten, and tells it the places of
// members.
static void follow(struct party *party, const struct machine *machine)
{
    mare_coord *m = machine->tenant.machine;
    uint64_t lease = mare__lease_epoch(party->tenants.lease, NULL);
    if (machine->kind == MAJORITY)
        mare__majority_follow(m, &party->past);
    else if (machine->kind == CENTRAL)
        mare__central_follow(m, lease, &party->central_past);
    else if (machine->kind == RICART)
        mare__ricart_follow(m, &party->ricart_past, bound_of(party, RICART));
    else if (machine->kind == BY_TOKENS)
        mare__superpeer_places(m, party->places);
}

static bool is_forgotten(struct party *party, const struct machine *machine)
{
    const mare_coord *m = machine->tenant.machine;
    uint64_t lease = mare__lease_epoch(party->tenants.lease, NULL);
    switch (machine->kind) {
    case MAJORITY:
        return mare__majority_forget(m, &party->past);
    case CENTRAL:
        return mare__central_forget(m, lease, &party->central_past);
    case RICART:
        return mare__ricart_forget(m, &party->ricart_past);
    default:
        return false;
    }
}

// Of a lock, for an algorithm that has a place for each.
static int64_t number_of(const char *name, size_t length)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
    return (int64_t)(sum >> 1);
}

// member:_add(now_us, name, algorithm, saved or nil, worth or nil) -> effects; nil when what was
// saved is not of this member. `worth` is that of a candidate; of superpeers, how many bits of a
// prefix or tokens.
static int party_add(lua_State *L)
{
    struct party *party = check_party(L);
    uint64_t now_us = (uint64_t)luaL_checkinteger(L, 2);
    size_t saved = 0, length;
    const char *name = luaL_checklstring(L, 3, &length);
    int kind = check_algorithm(L, 4);
    const char *bytes = luaL_optlstring(L, 5, NULL, &saved);
    mare_coord_setup setup = party->setup[kind];
    mare_coord_setup_set(&setup, "name", number_of(name, length));
    static const char *const worths[] = {"capacity", "prefix", "tokens"};
    for (size_t i = 0; i < 3 && !lua_isnoneornil(L, 6); i++)
        luaL_argcheck(L,
                      mare_coord_setup_set(&setup, worths[i], luaL_checkinteger(L, 6)) !=
                          MARE_COORD_REFUSED,
                      6, "out of its limits");
    size_t size = mare_coord_size(&setup);
    lua_getiuservalue(L, 1, 1);
    struct machine *machine = lua_newuserdatauv(L, sizeof *machine + size, 0);
    *machine = (struct machine){.name = name, .length = length, .kind = kind};
    machine->tenant.machine = mare_coord_init(machine->memory, size, &setup);
    luaL_argcheck(L, machine->tenant.machine, 4, "no such machine can be");
    if (load(party, machine, (const uint8_t *)bytes, saved) != MARE_COORD_OK)
        return 0;
    follow(party, machine);
    lua_pushvalue(L, 3); // the key keeps the name
    lua_insert(L, -2);
    lua_rawset(L, -3);
    begin(L, party);
    mare__tenants_add(&party->tenants, &machine->tenant, now_us);
    return 1;
}

static struct machine *check_machine(lua_State *L, int index)
{
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    struct machine *machine = lua_touserdata(L, -1);
    luaL_argcheck(L, machine, index, "no such machine");
    return machine;
}

// With the machine as check_machine() has left it.
static void remove_machine(lua_State *L, struct party *party, struct machine *machine)
{
    mare__tenants_remove(&party->tenants, &machine->tenant);
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_rawset(L, -4);
}

// member:_remove(name): it takes part no more
static int party_remove(lua_State *L)
{
    struct party *party = check_party(L);
    remove_machine(L, party, check_machine(L, 2));
    return 0;
}

// member:_forget(name) -> whether the machine is gone: nobody misses it, for it begins again where
// it was
static int party_forget(lua_State *L)
{
    struct party *party = check_party(L);
    struct machine *machine = check_machine(L, 2);
    bool gone = is_forgotten(party, machine);
    if (gone)
        remove_machine(L, party, machine);
    lua_pushboolean(L, gone);
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

// New locks begin with the latest clock of all. So a member that has come back finds their stamps
// new enough.
static void note_clock(struct party *party, const struct machine *machine)
{
    mare_coord_view view;
    if (machine->kind != MAJORITY)
        return;
    mare_coord_look(machine->tenant.machine, &view);
    if (view.lamport > party->clock && mare_coord_setup_set(&party->setup[MAJORITY], "clock",
                                                            (int64_t)view.lamport) == MARE_COORD_OK)
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
        struct machine *machine = check_machine(L, 3);
        status = mare__tenants_step(&party->tenants, &machine->tenant, &event, epoch);
        note_clock(party, machine);
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
    luaL_argcheck(L, peer > 0 && peer <= party->setup[MAJORITY].capacity, 2, "no such member");
    lua_pushboolean(L, mare__lease_is_down(party->tenants.lease, (uint32_t)peer - 1));
    return 1;
}

// member:_stuck(name) -> whether nobody can enter: too few members remember what they must
static int party_stuck(lua_State *L)
{
    mare_coord_view view;
    check_party(L);
    mare_coord_look(check_machine(L, 2)->tenant.machine, &view);
    lua_pushboolean(L, view.stuck);
    return 1;
}

// member:_place(peer, x, y, z): where it is, 0 … 1023 each; for superpeers
static int party_place(lua_State *L)
{
    struct party *party = check_party(L);
    lua_Integer peer = luaL_checkinteger(L, 2);
    luaL_argcheck(L, peer > 0 && peer <= party->setup[MAJORITY].capacity, 2, "no such member");
    for (int i = 0; i < DIMENSIONS; i++) {
        lua_Integer at = luaL_checkinteger(L, 3 + i);
        luaL_argcheck(L, at >= 0 && at < MARE__PLACE_SIDE, 3 + i, "outside of the space");
        party->places[(peer - 1) * DIMENSIONS + i] = (int32_t)at;
    }
    return 0;
}

// ---- Values as bytes ----------------------------------------------------------------------------

// Whether a value has only numbers, strings, booleans, and tables of them; also tables that are a
// list with other keys.
static bool is_plain(const uint8_t *at, const uint8_t *end)
{
    struct mare__token token;
    while (at < end) {
        if (!mare__unpack(&at, end, &token))
            return false;
        if (token.kind == MARE__TOKEN_EXT && token.ext != MARE__EXT_MIXED)
            return false;
        if (token.kind == MARE__TOKEN_STRING)
            at += token.size;
    }
    return true;
}

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
    const uint8_t *data = mare__message_data(&message);
    bool plain = is_plain(data, data + message.length);
    bool pushed = plain && mare__lua_try_push(L, data, message.length);
    mare__message_clear(&message);
    if (plain)
        return pushed ? 1 : lua_error(L);
    lua_pushliteral(L, "plain values expected: numbers, strings, booleans, tables of them");
    return mare__lua_fail_with(L, MARE_BADMSG);
}

// _unpack(bytes) -> all values in them; nothing when they cannot be read
static int party_unpack(lua_State *L)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    mare_message own;
    mare__message_init(&own);
    if (!is_plain((const uint8_t *)bytes, (const uint8_t *)bytes + length))
        return 0;
    mare_err err = mare__message_accept(&own, bytes, length, MARE__TRUST_PEER);
    if (err == MARE_NOMEM)
        mare__lua_no_memory(L);
    if (err)
        return 0;
    if (!lua_checkstack(L, (int)own.count + 8)) {
        mare__message_clear(&own);
        return 0;
    }
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
                                       {"_remove", party_remove},
                                       {"_recall", party_recall},
                                       {"_step", party_step},
                                       {"_exceed", party_exceed},
                                       {"_epoch", party_epoch},
                                       {"_down", party_down},
                                       {"_forget", party_forget},
                                       {"_place", party_place},
                                       {"_stuck", party_stuck},
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
