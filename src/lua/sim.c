// SPDX-License-Identifier: MIT
// The module mare._sim: runs the simulator from Lua. lua/mare/sim.lua is what people use.
//
// run(spec) reads the whole table first, so that what can raise has raised before anything is
// allocated that Lua does not own; hooks and algorithms in Lua are called protected while it runs.
#include "lua/sim.h"
#include "coord/lease/leased.h"

#include <stdlib.h>
#include <string.h>

#include "lua/binding.h"
#include "sim/report.h"

enum { SHRINK_BUDGET = 2000, MILLION = 1000000, DRIFT_MOST = 100000, CALM_MEMBERS = 3 };

// ---- Reading the specification -----------------------------------------------------------------

static uint64_t number_field(lua_State *L, int index, const char *name, uint64_t otherwise)
{
    int type = lua_getfield(L, index, name);
    int whole = 1;
    lua_Integer value = type == LUA_TNIL ? 0 : lua_tointegerx(L, -1, &whole);
    if (!whole || value < 0)
        luaL_error(L, "`%s` must be a whole number, 0 or more", name);
    lua_pop(L, 1);
    return type == LUA_TNIL ? otherwise : (uint64_t)value;
}

// … and not above `most`.
static uint32_t part_field(lua_State *L, int index, const char *name, uint32_t otherwise,
                           uint32_t most)
{
    uint64_t value = number_field(L, index, name, otherwise);
    if (value > most)
        luaL_error(L, "`%s` is at most %I", name, (LUAI_UACINT)most);
    return (uint32_t)value;
}

static bool has(lua_State *L, const char *name, int type)
{
    int found = lua_getfield(L, SIM_SPEC, name);
    lua_pop(L, 1);
    if (found != LUA_TNIL && found != type)
        luaL_error(L, "`%s` is a %s", name, lua_typename(L, type));
    return found == type;
}

static bool flag_field(lua_State *L, int index, const char *name)
{
    lua_getfield(L, index, name);
    bool flag = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

// The string belongs to the table.
static const char *bytes_field(lua_State *L, int index, const char *name, size_t *length)
{
    int type = lua_getfield(L, index, name);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_error(L, "`%s` is a string", name);
    const char *text = lua_tolstring(L, -1, length);
    mare__lua_sim_keep(L);
    return text;
}

static const char *text_field(lua_State *L, int index, const char *name)
{
    return bytes_field(L, index, name, NULL);
}

static int choice_field(lua_State *L, int index, const char *name, const char *const *names,
                        int otherwise)
{
    const char *text = text_field(L, index, name);
    if (!text)
        return otherwise;
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    return luaL_error(L, "`%s` cannot be '%s'", name, text);
}

static void read_network(lua_State *L, mare_sim_network *network)
{
    static const char *const delays[] = {"fixed", "uniform", "exponential", "spiky", NULL};
    static const char *const fields[] = {"delay", "delay_us", "loss_ppm", "duplicate_ppm",
                                         "fifo",  "bus",      NULL};
    if (has(L, "network", LUA_TTABLE)) {
        lua_getfield(L, SIM_SPEC, "network");
        int at = lua_gettop(L);
        mare__lua_sim_check_fields(L, at, "`network`", fields);
        network->delay = (mare_sim_delay)choice_field(L, at, "delay", delays, (int)network->delay);
        network->delay_us = number_field(L, at, "delay_us", network->delay_us);
        network->loss_ppm = part_field(L, at, "loss_ppm", network->loss_ppm, MILLION);
        network->duplicate_ppm =
            part_field(L, at, "duplicate_ppm", network->duplicate_ppm, MILLION);
        network->fifo |= flag_field(L, at, "fifo");
        network->bus |= flag_field(L, at, "bus");
        lua_pop(L, 1);
    }
}

static void read_params(lua_State *L, mare_coord_setup *setup)
{
    if (has(L, "params", LUA_TTABLE)) {
        lua_getfield(L, SIM_SPEC, "params");
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
            mare__lua_sim_set_param(L, setup, name);
        }
        lua_pop(L, 1);
    }
}

static void read_numbers(lua_State *L, mare_sim_options *options)
{
    static const char *const detectors[] = {"none", "accurate", "eager", "hasty", NULL};
    options->detector =
        (mare_sim_detector)choice_field(L, SIM_SPEC, "detector", detectors, (int)options->detector);
    options->detect_us = number_field(L, SIM_SPEC, "detect_us", options->detect_us);
    options->drift_ppm = part_field(L, SIM_SPEC, "drift_ppm", options->drift_ppm, DRIFT_MOST);
    options->duration_us = number_field(L, SIM_SPEC, "duration_us", options->duration_us);
    options->settle_us = number_field(L, SIM_SPEC, "settle_us", options->settle_us);
    options->entrants = part_field(L, SIM_SPEC, "entrants", options->entrants, UINT32_MAX);
    options->rounds = part_field(L, SIM_SPEC, "rounds", options->rounds, UINT32_MAX);
    options->think_us = number_field(L, SIM_SPEC, "think_us", options->think_us);
    options->hold_us = number_field(L, SIM_SPEC, "hold_us", options->hold_us);
    options->abandon_ppm = part_field(L, SIM_SPEC, "abandon_ppm", options->abandon_ppm, MILLION);
}

static mare_coord_event_kind request_kind(lua_State *L, const char *word)
{
    for (int kind = MARE_COORD_ENTER; kind <= MARE_COORD_MULTICAST; kind++)
        if (word && strcmp(word, mare_coord_event_name((mare_coord_event_kind)kind)) == 0)
            return (mare_coord_event_kind)kind;
    luaL_error(L, "a request is enter, exit, abandon, elect or multicast, not '%s'",
               word ? word : "nothing");
    return MARE_COORD_EVENT_KINDS;
}

// {process, "enter", at_us = 0, hold_us = 1000, give_up_us = 0, data = "…"}; hold_us = false stays.
static void read_request(lua_State *L, mare_sim_script_row *row, uint32_t capacity)
{
    static const char *const fields[] = {"at_us", "hold_us", "give_up_us", "data", NULL};
    int at = lua_gettop(L);
    mare__lua_sim_table(L, "a request");
    mare__lua_sim_check_fields(L, at, "a request", fields);
    lua_geti(L, at, 1);
    lua_Integer process = mare__lua_sim_whole(L, "the process of a request");
    lua_geti(L, at, 2);
    if (process < 0 || process >= capacity)
        luaL_error(L, "a request is by a process below %d, not by %d", capacity, (int)process);
    *row = (mare_sim_script_row){.process = (uint32_t)process,
                                 .kind = request_kind(L, lua_tostring(L, -1)),
                                 .at_us = number_field(L, at, "at_us", 0),
                                 .number = number_field(L, at, "give_up_us", 0)};
    bool stays = lua_getfield(L, at, "hold_us") == LUA_TBOOLEAN && !lua_toboolean(L, -1);
    row->hold_us = stays ? MARE_SIM_STAYS : number_field(L, at, "hold_us", 1000);
    size_t length = 0;
    row->data = (const uint8_t *)bytes_field(L, at, "data", &length);
    row->length = (uint32_t)length;
    lua_settop(L, at);
}

enum { REQUESTS_MOST = 1000000 };

// The script stays on the stack.
static mare_sim_script *read_requests(lua_State *L, uint32_t capacity)
{
    if (!has(L, "requests", LUA_TTABLE))
        return NULL;
    lua_getfield(L, SIM_SPEC, "requests");
    int at = lua_gettop(L);
    lua_Integer count = luaL_len(L, at); // which a metamethod may have said
    if (count < 0 || count > REQUESTS_MOST)
        luaL_error(L, "`requests` are more than %d, or fewer than none", REQUESTS_MOST);
    mare_sim_script *script = lua_newuserdatauv(L, sizeof *script, 0);
    mare_sim_script_row *row = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *row, 0);
    *script = (mare_sim_script){.row = row, .count = (uint32_t)count};
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, at, i + 1);
        read_request(L, &row[i], capacity);
        lua_pop(L, 1);
    }
    return script;
}

// ---- Hooks -------------------------------------------------------------------------------------

static void adjust(void *context, mare_coord_setup *setup)
{
    struct mare__lua_sim *sim = context;
    lua_State *L = sim->L;
    lua_getfield(L, SIM_SPEC, "members");
    lua_rawgeti(L, -1, setup->self);
    for (int i = 0; lua_istable(L, -1) && setup->algorithm->params[i].name; i++) {
        if (lua_getfield(L, -1, setup->algorithm->params[i].name) == LUA_TNUMBER)
            mare_coord_setup_set(setup, setup->algorithm->params[i].name, lua_tointeger(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

struct link {
    uint32_t a, b;
    bool is;
};

static int call_linked(lua_State *L)
{
    struct link *link = mare__passed(L, 1);
    lua_getfield(L, SIM_SPEC + 1, "linked");
    lua_pushinteger(L, link->a);
    lua_pushinteger(L, link->b);
    lua_call(L, 2, 1);
    link->is = lua_toboolean(L, -1);
    return 0;
}

static int linked(void *context, uint32_t a, uint32_t b)
{
    struct mare__lua_sim *sim = context;
    struct link link = {a, b, false};
    if (mare__lua_sim_protect(sim, call_linked, &link))
        lua_pop(sim->L, 1);
    return link.is;
}

struct way {
    const mare_coord_algorithm *algorithm;
    uint64_t time_us, delay_us;
    uint32_t from, to, length;
    const uint8_t *data;
    bool lost;
};

// What route() returned: a delay in us, false to lose it, nothing or true to leave it to the
// network.
static void read_way(lua_State *L, struct way *way)
{
    int whole = lua_type(L, -1) == LUA_TNUMBER;
    lua_Integer delay_us = whole ? lua_tointegerx(L, -1, &whole) : 0;
    if (whole && delay_us >= 0)
        way->delay_us = (uint64_t)delay_us;
    else if (lua_isboolean(L, -1))
        way->lost = !lua_toboolean(L, -1);
    else if (!lua_isnil(L, -1))
        luaL_error(L, "`route` returns a delay in whole us, false or nothing, not %s",
                   luaL_tolstring(L, -1, NULL));
}

static int call_route(lua_State *L)
{
    struct way *way = mare__passed(L, 1);
    mare_coord_message message;
    lua_getfield(L, SIM_SPEC + 1, "route");
    if (mare_coord_decode(way->algorithm, way->data, way->length, &message) == MARE_COORD_OK)
        mare__lua_sim_push_message(L, way->algorithm, &message);
    else
        lua_newtable(L);
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {{"from", way->from}, {"to", way->to}, {"time_us", way->time_us}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        lua_pushinteger(L, (lua_Integer)fields[i].value);
        lua_setfield(L, -2, fields[i].name);
    }
    lua_call(L, 1, 1);
    read_way(L, way);
    return 0;
}

static int route(void *context, uint64_t time_us, uint32_t from, uint32_t to, const uint8_t *data,
                 uint32_t length, uint64_t *delay_us)
{
    struct mare__lua_sim *sim = context;
    struct way way = {.algorithm = sim->row.name ? &sim->row : NULL,
                      .time_us = time_us,
                      .delay_us = *delay_us,
                      .from = from,
                      .to = to,
                      .data = data,
                      .length = length};
    if (!way.algorithm)
        way.algorithm = mare_sim_find(text_field(sim->L, SIM_SPEC, "algorithm"));
    if (mare__lua_sim_protect(sim, call_route, &way))
        lua_pop(sim->L, 1);
    *delay_us = way.delay_us;
    return !way.lost;
}

// ---- Running -----------------------------------------------------------------------------------

static const mare_coord_algorithm *read_algorithm(struct mare__lua_sim *sim)
{
    lua_State *L = sim->L;
    lua_getfield(L, SIM_SPEC, "algorithm");
    lua_replace(L, SIM_ALGORITHM);
    if (lua_istable(L, SIM_ALGORITHM)) {
        mare__lua_sim_algorithm(sim);
        return &sim->row;
    }
    const char *name = lua_tostring(L, SIM_ALGORITHM);
    const mare_coord_algorithm *algorithm = name ? mare_sim_find(name) : NULL;
    if (!name)
        luaL_error(L,
                   "a scenario has an `algorithm`: a name that 'mare sim list' shows, or a table");
    if (!algorithm)
        luaL_error(L, "there is no algorithm '%s'; 'mare sim list' shows them", name);
    return algorithm;
}

static void read_faults(lua_State *L, mare_sim_options *options)
{
    const char *text = text_field(L, SIM_SPEC, "faults");
    mare_sim_fault_list check = {0};
    size_t wrong = text ? mare_sim_faults_read(&check, text) : 0;
    mare_sim_faults_fini(&check);
    if (wrong)
        luaL_error(L, "`faults` cannot be read from '%s' on", text + wrong - 1);
    if (text)
        mare_sim_faults_read(&options->faults, text); // from here on nothing raises
    if (!has(L, "capacity", LUA_TNUMBER))
        mare_sim_make_room_to_join(options);
}

static mare_sim_profile read_profile(lua_State *L)
{
    const char *names[MARE_SIM_PROFILES + 1] = {NULL};
    for (int i = 0; i < MARE_SIM_PROFILES; i++)
        names[i] = mare_sim_profile_name((mare_sim_profile)i);
    return (mare_sim_profile)choice_field(L, SIM_SPEC, "profile", names, MARE_SIM_USUAL);
}

static void read_options(struct mare__lua_sim *sim, mare_sim_options *options)
{
    lua_State *L = sim->L;
    mare__lua_sim_check_names(L); // first: a field that is misspelt is missing elsewhere
    const mare_coord_algorithm *algorithm = read_algorithm(sim);
    bool vary = flag_field(L, SIM_SPEC, "vary");
    uint64_t seed = number_field(L, SIM_SPEC, "seed", 1);
    uint64_t n = number_field(L, SIM_SPEC, "n", vary ? mare_sim_draw_members(seed) : CALM_MEMBERS);
    uint64_t capacity = number_field(L, SIM_SPEC, "capacity", n);
    if (n < 1 || capacity < n || capacity > MARE_COORD_MEMBERS_MAX)
        luaL_error(L, "`n` is 1 to 65536, and `capacity` not smaller");
    mare_sim_options_init(options, algorithm, (uint32_t)n);
    options->setup.capacity = (uint32_t)capacity;
    options->setup.context = sim;
    options->seed = seed;
    options->profile = read_profile(L);
    read_params(L, &options->setup);
    mare__lua_sim_check_spec(L, &options->setup);
    has(L, "names", LUA_TTABLE);
    has(L, "notes", LUA_TTABLE);
    mare__lua_sim_captions(sim, options->setup.capacity);
    options->workload_context = read_requests(L, options->setup.capacity);
    if (options->workload_context)
        options->workload = &mare_sim_workload_script;
    options->hooks.context = sim;
    options->hooks.adjust = has(L, "members", LUA_TTABLE) ? adjust : NULL;
    options->hooks.linked = has(L, "linked", LUA_TFUNCTION) ? linked : NULL;
    options->hooks.route = has(L, "route", LUA_TFUNCTION) ? route : NULL;
    mare_sim_options trial = *options; // what raises does so before the faults are drawn
    read_network(L, &trial.network);
    read_numbers(L, &trial);
    options->duration_us = trial.duration_us; // faults are drawn for as long
    if (vary)
        mare_sim_vary(options);
    read_network(L, &options->network);
    read_numbers(L, options);
    read_faults(L, options);
}

static void set_number(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

static void push_outcome(lua_State *L, const mare_coord_algorithm *algorithm,
                         const mare_sim_outcome *outcome)
{
    lua_newtable(L);
    lua_pushboolean(L, outcome->violation[0] == '\0');
    lua_setfield(L, -2, "kept");
    if (outcome->violation[0]) {
        lua_pushstring(L, outcome->violation);
        lua_setfield(L, -2, "violation");
        lua_pushstring(L, outcome->detail);
        lua_setfield(L, -2, "detail");
    }
    set_number(L, "time_us", outcome->time_us);
    set_number(L, "waiting", outcome->waiting);
    set_number(L, "steps", outcome->steps);
    set_number(L, "sent", outcome->sent);
    set_number(L, "delivered", outcome->delivered);
    set_number(L, "lost", outcome->lost);
    set_number(L, "duplicated", outcome->duplicated);
    set_number(L, "requests", outcome->requests);
    set_number(L, "grants", outcome->grants);
    set_number(L, "revoked", outcome->revoked);
    set_number(L, "elections", outcome->elections);
    set_number(L, "deliveries", outcome->deliveries);
    set_number(L, "wait_us", outcome->wait_us);
    set_number(L, "wait_most_us", outcome->wait_most_us);
    lua_newtable(L);
    for (unsigned i = 0; algorithm->forms[i].name; i++)
        set_number(L, algorithm->forms[i].name, outcome->by_kind[i]);
    lua_setfield(L, -2, "by_kind");
}

struct run {
    mare_sim_options options;
    mare_sim_outcome outcome;
    char *text, *faults, *replay;
    size_t length, replay_length;
    uint32_t faults_before;
    unsigned shrink_runs;
    int code;
};

// A run, under the eyes of `see` if the specification has it; what it saw before is forgotten.
static int run_seen(lua_State *L, struct run *run)
{
    struct mare__lua_sim_witness witness;
    mare_sim_observer *observers[] = {NULL, NULL};
    if (has(L, "see", LUA_TFUNCTION)) {
        mare__lua_sim_witness(&witness, run->options.setup.context, run->options.setup.algorithm);
        observers[0] = &witness.observer;
        run->options.setup.marks = 1;
    }
    return mare_sim_run(&run->options, observers, &run->outcome);
}

static void carry_out(lua_State *L, struct run *run, const mare_sim_show *show)
{
    bool shown = show->draw || show->shiviz || show->trace || show->json;
    run->faults_before = run->options.faults.count;
    int good = run_seen(L, run);
    if (!good && flag_field(L, SIM_SPEC, "shrink")) {
        char violation[sizeof run->outcome.violation];
        memcpy(violation, run->outcome.violation, sizeof violation);
        run->shrink_runs = mare_sim_shrink(&run->options, violation, SHRINK_BUDGET);
        run_seen(L, run);
    }
    if (shown || flag_field(L, SIM_SPEC, "text")) {
        FILE *memory = open_memstream(&run->text, &run->length);
        run->code = memory ? mare_sim_show_run(&run->options, show, memory, &run->outcome) : 2;
        if (memory)
            fclose(memory);
    }
    size_t length = mare_sim_faults_write(&run->options.faults, NULL, 0);
    run->faults = malloc(length + 1);
    if (run->faults)
        mare_sim_faults_write(&run->options.faults, run->faults, length + 1);
    FILE *replay = open_memstream(&run->replay, &run->replay_length);
    if (replay) {
        mare_sim_write_replay(&run->options, replay);
        fclose(replay);
    }
}

static void free_run(struct run *run)
{
    mare_sim_options_fini(&run->options);
    free(run->text);
    free(run->faults);
    free(run->replay);
}

// What repeats the run, as it was drawn or shrunk.
static void push_options(lua_State *L, const struct run *run)
{
    const mare_sim_options *options = &run->options;
    lua_pushstring(L, run->faults ? run->faults : "");
    lua_setfield(L, -2, "faults");
    lua_pushlstring(L, run->replay ? run->replay : "", run->replay_length);
    lua_setfield(L, -2, "replay");
    set_number(L, "n", options->setup.members);
    set_number(L, "seed", options->seed);
    set_number(L, "rounds", options->rounds);
    set_number(L, "loss_ppm", options->network.loss_ppm);
    set_number(L, "duplicate_ppm", options->network.duplicate_ppm);
    set_number(L, "abandon_ppm", options->abandon_ppm);
    set_number(L, "drift_ppm", options->drift_ppm);
    set_number(L, "faults_before", run->faults_before);
    set_number(L, "faults_after", options->faults.count);
    set_number(L, "shrink_runs", run->shrink_runs);
}

// run(spec) -> outcome
static int sim_run(lua_State *L)
{
    struct run run = {.text = NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushnil(L);
    lua_newtable(L);
    lua_newtable(L);
    struct mare__lua_sim *sim = lua_newuserdatauv(L, sizeof *sim, 0);
    *sim = (struct mare__lua_sim){.L = L};
    mare_sim_show show = {.title = text_field(L, SIM_SPEC, "title"),
                          .about = text_field(L, SIM_SPEC, "about"),
                          .draw = text_field(L, SIM_SPEC, "draw"),
                          .shiviz = text_field(L, SIM_SPEC, "shiviz"),
                          .trace = flag_field(L, SIM_SPEC, "trace"),
                          .json = flag_field(L, SIM_SPEC, "json"),
                          .from_us = number_field(L, SIM_SPEC, "from_us", 0),
                          .to_us = number_field(L, SIM_SPEC, "to_us", 0)};
    has(L, "see", LUA_TFUNCTION);
    read_options(sim, &run.options);
    char why[200];
    if (mare_sim_options_refuse(&run.options, why, sizeof why)) {
        mare_sim_options_fini(&run.options);
        return luaL_error(L, "%s", why);
    }
    show.captions = &sim->captions;
    carry_out(L, &run, &show);
    sim->machine = NULL; // members that a program has kept find no run any more
    sim->effects = NULL;
    if (sim->failed) {
        free_run(&run);
        lua_getfield(L, SIM_KEPT, "error");
        return lua_error(L);
    }
    push_outcome(L, run.options.setup.algorithm, &run.outcome);
    push_options(L, &run);
    lua_pushlstring(L, run.text ? run.text : "", run.length);
    lua_setfield(L, -2, "text");
    lua_pushboolean(L, run.code != 2);
    lua_setfield(L, -2, "written");
    lua_getfield(L, SIM_KEPT, "seen");
    lua_setfield(L, -2, "seen");
    free_run(&run);
    return 1;
}

// algorithms() -> {name, …}
static int sim_algorithms(lua_State *L)
{
    size_t count, under_lease;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    const mare_coord_algorithm *const *leased = mare__leased_table(&under_lease);
    lua_newtable(L);
    for (size_t i = 0; i < count + under_lease; i++) {
        lua_pushstring(L, i < count ? table[i]->name : leased[i - count]->name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

int mare__lua_open_sim(lua_State *L)
{
    static const luaL_Reg functions[] = {{"run", sim_run},
                                         {"algorithms", sim_algorithms},
                                         {"replicas", mare__lua_sim_replicas},
                                         {"risk", mare__lua_sim_risk},
                                         {"places", mare__lua_sim_places},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
