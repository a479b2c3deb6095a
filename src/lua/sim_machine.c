// SPDX-License-Identifier: MIT
// An algorithm written in Lua behind the same interface as those in C. Each member is a Lua table,
// kept by number in the table at SIM_MEMBERS; its methods make the effects of the step under way.
// A member that comes back with its memory keeps its table, one without gets a new one.
#include <stdlib.h>
#include <string.h>

#include "coord/machine.h"
#include "lua/sim.h"

enum { NUMBER_MOST = 1000000 }; // effects of a step, messages of an entry: what room() can count

enum handler { INIT, START, RECEIVE, TIMER, REQUEST, PEER };

struct call {
    struct mare__lua_sim *sim;
    enum handler handler;
    uint32_t peer, timer;
    const mare_coord_message *message;
    const mare_coord_event *event;
    bool refused;
};

static struct mare__lua_sim *sim_of(const mare_coord *m)
{
    return m->setup.context;
}

static void push_member(struct mare__lua_sim *sim, uint32_t member)
{
    lua_rawgeti(sim->L, SIM_MEMBERS, (lua_Integer)member + 1);
}

// ---- Methods of a member: self:send(…) and the like --------------------------------------------

// The run that a member is in.
static struct mare__lua_sim *run_of(lua_State *L)
{
    struct mare__lua_sim *sim = lua_touserdata(L, lua_upvalueindex(1));
    if (!sim->machine)
        luaL_error(L, "the run is over");
    return sim;
}

// The same if a step is under way; effects are made nowhere else.
static struct mare__lua_sim *step_of(lua_State *L)
{
    struct mare__lua_sim *sim = run_of(L);
    if (!sim->effects)
        luaL_error(L, "effects can be made in a handler of a step only, not in init");
    return sim;
}

static uint32_t check_member(lua_State *L, int index)
{
    const struct mare__lua_sim *sim = run_of(L);
    lua_Integer member = luaL_checkinteger(L, index);
    luaL_argcheck(L, member >= 0 && member < sim->machine->setup.capacity, index, "no such member");
    return (uint32_t)member;
}

static void check_message(lua_State *L, const mare_coord_algorithm *algorithm, int index,
                          mare_coord_message *message)
{
    const char *name = luaL_checkstring(L, index);
    *message = (mare_coord_message){0};
    const mare_coord_form *form = algorithm->forms;
    while (form->name && strcmp(form->name, name) != 0)
        form++;
    luaL_argcheck(L, form->name, index, "no such message; list it in `messages`");
    message->kind = (uint32_t)(form - algorithm->forms);
    for (int i = 0; i < MARE_COORD_FIELDS && form->field[i]; i++) {
        if (lua_isnoneornil(L, index + 1) || lua_getfield(L, index + 1, form->field[i]) == LUA_TNIL)
            luaL_error(L, "message %s lacks its field '%s'", name, form->field[i]);
        int whole;
        message->field[i] = (uint64_t)lua_tointegerx(L, -1, &whole);
        if (!whole)
            luaL_error(L, "field '%s' of message %s is not a whole number", form->field[i], name);
        lua_pop(L, 1);
    }
    if (form->has_tail && lua_getfield(L, index + 1, "tail") == LUA_TSTRING) {
        size_t length;
        message->tail = (const uint8_t *)lua_tolstring(L, -1, &length); // the table keeps it
        message->tail_length = (uint32_t)length;
    }
}

static int member_send(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare_coord_message message;
    uint32_t to = check_member(L, 2);
    luaL_argcheck(L, to != sim->machine->setup.self, 2, "nobody sends to itself");
    check_message(L, &sim->row, 3, &message);
    mare__send(sim->machine, sim->effects, to, &message);
    return 0;
}

static int member_broadcast(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare_coord_message message;
    check_message(L, &sim->row, 2, &message);
    mare__broadcast(sim->machine, sim->effects, &message);
    return 0;
}

static uint32_t check_timer(lua_State *L, int index)
{
    lua_Integer timer = luaL_checkinteger(L, index);
    luaL_argcheck(L, timer >= 0 && timer < MARE_COORD_TIMERS - 1, index, "timers are 0 to 6");
    return (uint32_t)timer;
}

static int member_after(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    lua_Integer delay_us = luaL_checkinteger(L, 3);
    luaL_argcheck(L, delay_us >= 0, 3, "a delay cannot be negative");
    mare__set_timer(sim->effects, check_timer(L, 2), (uint64_t)delay_us);
    return 0;
}

static int member_cancel(lua_State *L)
{
    mare__cancel_timer(step_of(L)->effects, check_timer(L, 2));
    return 0;
}

static int member_grant(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    if (!sim->machine->waiting)
        return luaL_error(L, "grant: this member is not waiting (it may have given up since: look "
                             "at self.waiting)");
    mare__grant(sim->machine, sim->effects, (uint64_t)luaL_optinteger(L, 2, 0));
    return 0;
}

// A string that outlives the step, and the run.
static const char *keep(lua_State *L, int index)
{
    const char *text = luaL_checkstring(L, index);
    lua_pushvalue(L, index);
    lua_pushboolean(L, 1);
    lua_rawset(L, lua_upvalueindex(2));
    return text;
}

static int member_revoke(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare__revoke(sim->machine, sim->effects, keep(L, 2));
    return 0;
}

static int member_mark(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare__mark(sim->machine, sim->effects, keep(L, 2));
    return 0;
}

static int member_elected(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare__elected(sim->effects, check_member(L, 2), (uint64_t)luaL_checkinteger(L, 3));
    return 0;
}

static int member_deliver(lua_State *L)
{
    size_t length;
    struct mare__lua_sim *sim = step_of(L);
    uint32_t from = check_member(L, 2);
    const char *data = luaL_checklstring(L, 3, &length);
    mare__deliver(sim->effects, from, (uint64_t)luaL_checkinteger(L, 4), (const uint8_t *)data,
                  (uint32_t)length);
    return 0;
}

static int member_suspect(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    mare__suspect(sim->effects, check_member(L, 2), (uint64_t)luaL_optinteger(L, 3, 1));
    return 0;
}

static int member_random(lua_State *L)
{
    struct mare__lua_sim *sim = step_of(L);
    lua_Integer limit = luaL_checkinteger(L, 2);
    luaL_argcheck(L, limit > 0, 2, "a limit is above 0");
    lua_pushinteger(L, (lua_Integer)(mare__random(sim->machine) % (uint64_t)limit));
    return 1;
}

static int member_others(lua_State *L)
{
    const mare_coord *m = run_of(L)->machine;
    lua_Integer count = 0;
    lua_newtable(L);
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        if (i != m->setup.self && mare__alive(m, i)) {
            lua_pushinteger(L, i);
            lua_rawseti(L, -2, ++count);
        }
    }
    return 1;
}

static const luaL_Reg methods[] = {{"send", member_send},
                                   {"broadcast", member_broadcast},
                                   {"after", member_after},
                                   {"cancel", member_cancel},
                                   {"grant", member_grant},
                                   {"revoke", member_revoke},
                                   {"mark", member_mark},
                                   {"elected", member_elected},
                                   {"deliver", member_deliver},
                                   {"suspect", member_suspect},
                                   {"random", member_random},
                                   {"others", member_others},
                                   {NULL, NULL}};

// ---- Handlers ----------------------------------------------------------------------------------

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

static void new_member(lua_State *L, const mare_coord *m)
{
    lua_newtable(L);
    set_integer(L, "id", m->setup.self);
    set_integer(L, "n", m->setup.members);
    set_integer(L, "incarnation", m->setup.incarnation);
    lua_newtable(L);
    for (int i = 0; i < MARE_COORD_PARAMS && m->setup.algorithm->params[i].name; i++)
        set_integer(L, m->setup.algorithm->params[i].name, (uint64_t)m->setup.param[i]);
    lua_setfield(L, -2, "params");
    lua_getfield(L, SIM_KEPT + 1, "metatable");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, SIM_MEMBERS + 1, (lua_Integer)m->setup.self + 1);
}

static const char *const handler_names[] = {"init", "start", "receive", "timer", NULL, "peer"};

static const char *name_of(const struct call *call)
{
    return call->handler == REQUEST ? mare_coord_event_name(call->event->kind)
                                    : handler_names[call->handler];
}

void mare__lua_sim_push_message(lua_State *L, const mare_coord_algorithm *algorithm,
                                const mare_coord_message *message)
{
    const mare_coord_form *form = &algorithm->forms[message->kind];
    lua_newtable(L);
    lua_pushstring(L, form->name);
    lua_setfield(L, -2, "kind");
    for (int i = 0; i < MARE_COORD_FIELDS && form->field[i]; i++)
        set_integer(L, form->field[i], message->field[i]);
    if (form->has_tail) {
        lua_pushlstring(L, (const char *)message->tail, message->tail_length);
        lua_setfield(L, -2, "tail");
    }
}

static int push_arguments(lua_State *L, const struct call *call)
{
    switch (call->handler) {
    case RECEIVE:
        lua_pushinteger(L, call->peer);
        mare__lua_sim_push_message(L, &call->sim->row, call->message);
        return 2;
    case TIMER:
        lua_pushinteger(L, call->timer);
        return 1;
    case PEER:
        lua_pushstring(L, mare_coord_event_name(call->event->kind));
        lua_pushinteger(L, call->event->peer);
        return 2;
    case REQUEST:
        if (call->event->kind == MARE_COORD_MULTICAST) {
            lua_pushlstring(L, (const char *)call->event->data, call->event->length);
            return 1;
        }
        return 0;
    default:
        return 0;
    }
}

// Protected; the stack is spec, algorithm, members, kept, call, each one place further up.
static int call_handler(lua_State *L)
{
    struct call *call = mare__passed(L, 1);
    const mare_coord *m = call->sim->machine;
    if (call->handler == INIT)
        new_member(L, m);
    else
        lua_rawgeti(L, SIM_MEMBERS + 1, (lua_Integer)m->setup.self + 1);
    set_integer(L, "now_us", m->now_us);
    lua_pushboolean(L, m->waiting != 0);
    lua_setfield(L, -2, "waiting");
    lua_pushboolean(L, m->inside != 0);
    lua_setfield(L, -2, "inside");
    int member = lua_gettop(L);
    if (lua_getfield(L, SIM_ALGORITHM + 1, name_of(call)) != LUA_TFUNCTION) {
        bool needed = call->handler == RECEIVE ||
                      (call->handler == REQUEST && call->event->kind != MARE_COORD_ABANDON);
        return needed ? luaL_error(L, "the algorithm has no function '%s'", name_of(call)) : 0;
    }
    lua_pushvalue(L, member);
    lua_call(L, 1 + push_arguments(L, call), 1);
    call->refused = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    return 0;
}

static int add_traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

bool mare__lua_sim_protect(struct mare__lua_sim *sim, lua_CFunction body, void *argument)
{
    lua_State *L = sim->L;
    if (sim->failed || !lua_checkstack(L, 20))
        return false;
    int top = lua_gettop(L);
    lua_pushcfunction(L, add_traceback);
    lua_pushcfunction(L, body);
    struct mare__pass pass;
    mare__pass_push(L, &pass, argument);
    for (int i = SIM_SPEC; i <= SIM_TOP; i++)
        lua_pushvalue(L, i);
    int status = lua_pcall(L, 1 + SIM_TOP, 1, top + 1);
    mare__pass_end(L, &pass);
    if (status != LUA_OK) {
        sim->failed = true;
        lua_setfield(L, SIM_KEPT, "error");
        lua_settop(L, top);
        return false;
    }
    lua_remove(L, top + 1);
    return true; // with one value on the stack
}

static mare_coord_status run_handler(mare_coord *m, mare_coord_effects *fx, struct call call)
{
    struct mare__lua_sim *sim = sim_of(m);
    call.sim = sim;
    sim->machine = m;
    sim->effects = fx;
    if (mare__lua_sim_protect(sim, call_handler, &call))
        lua_pop(sim->L, 1);
    sim->effects = NULL;
    return call.refused ? MARE_COORD_REFUSED : MARE_COORD_OK;
}

static void on_init(mare_coord *m)
{
    run_handler(m, NULL, (struct call){.handler = INIT});
}

static void on_start(mare_coord *m, mare_coord_effects *fx)
{
    run_handler(m, fx, (struct call){.handler = START});
}

static mare_coord_status on_receive(mare_coord *m, uint32_t from, const mare_coord_message *message,
                                    mare_coord_effects *fx)
{
    return run_handler(m, fx, (struct call){.handler = RECEIVE, .peer = from, .message = message});
}

static void on_timer(mare_coord *m, uint32_t timer, mare_coord_effects *fx)
{
    run_handler(m, fx, (struct call){.handler = TIMER, .timer = timer});
}

static mare_coord_status on_request(mare_coord *m, const mare_coord_event *event,
                                    mare_coord_effects *fx)
{
    return run_handler(m, fx, (struct call){.handler = REQUEST, .event = event});
}

static void on_peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    run_handler(m, fx, (struct call){.handler = PEER, .event = event});
}

// What drawings and checkers see: fields of the member, if it has them.
static void on_look(const mare_coord *m, mare_coord_view *view)
{
    struct mare__lua_sim *sim = sim_of(m);
    lua_State *L = sim->L;
    if (sim->failed || !lua_checkstack(L, 4))
        return;
    push_member(sim, m->setup.self);
    if (lua_istable(L, -1)) {
        int found;
        lua_getfield(L, -1, "clock");
        view->lamport = (uint64_t)lua_tointegerx(L, -1, &found);
        lua_getfield(L, -2, "epoch");
        view->epoch = (uint64_t)lua_tointegerx(L, -1, &found);
        lua_getfield(L, -3, "leader");
        lua_Integer leader = lua_tointegerx(L, -1, &found);
        view->leader = found ? (uint32_t)leader : MARE_COORD_NOBODY;
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
}

static unsigned promises(const mare_coord_setup *setup)
{
    return ((struct mare__lua_sim *)setup->context)->promises;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    return ((struct mare__lua_sim *)setup->context)->tolerates;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return (uint64_t)((struct mare__lua_sim *)setup->context)->messages;
}

static size_t size(const mare_coord_setup *setup)
{
    (void)setup;
    return 8; // the state is in Lua
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = ((struct mare__lua_sim *)setup->context)->room + 4 * setup->capacity;
    *bytes = *effects * 256;
}

// ---- Reading the table -------------------------------------------------------------------------

static unsigned read_bits(lua_State *L, const char *field, const char *const *names)
{
    unsigned bits = 0;
    if (lua_getfield(L, SIM_ALGORITHM, field) == LUA_TNIL)
        return lua_pop(L, 1), 0;
    mare__lua_sim_table(L, field);
    for (lua_Integer i = 1; lua_geti(L, -1, i) != LUA_TNIL; i++) {
        const char *word = mare__lua_sim_string(L, field, NULL);
        unsigned bit = 0;
        while (names[bit] && strcmp(names[bit], word) != 0)
            bit++;
        if (!names[bit])
            luaL_error(L, "'%s' in `%s` is not known", word, field);
        bits |= 1u << bit;
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return bits;
}

static void read_forms(lua_State *L, struct mare__lua_sim *sim)
{
    if (lua_getfield(L, SIM_ALGORITHM, "messages") != LUA_TTABLE)
        luaL_error(L, "an algorithm needs `messages`: a list such as {{\"REQUEST\", \"stamp\"}}");
    for (int i = 0; lua_geti(L, -1, i + 1) != LUA_TNIL; i++) {
        if (i == SIM_FORMS_MOST || !lua_istable(L, -1))
            luaL_error(L, "`messages` has up to 32 lists of a name and its fields");
        lua_geti(L, -1, 1);
        sim->forms[i].name = mare__lua_sim_string(L, "the name of a message", NULL);
        lua_pop(L, 1);
        for (int field = 0; lua_geti(L, -1, field + 2) != LUA_TNIL; field++) {
            if (field == MARE_COORD_FIELDS)
                luaL_error(L, "message %s has more than 6 fields", sim->forms[i].name);
            sim->forms[i].field[field] = mare__lua_sim_string(L, "a field of a message", NULL);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        lua_getfield(L, -1, "tail");
        sim->forms[i].has_tail = lua_toboolean(L, -1);
        lua_pop(L, 2);
    }
    lua_pop(L, 2);
}

static int compare_params(const void *a, const void *b)
{
    return strcmp(((const mare_coord_param *)a)->name, ((const mare_coord_param *)b)->name);
}

// By name: a table of Lua has its own order each time, and what is written of a run must not.
static void read_params(lua_State *L, struct mare__lua_sim *sim)
{
    if (lua_getfield(L, SIM_ALGORITHM, "params") == LUA_TTABLE) {
        int count = 0;
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (count == MARE_COORD_PARAMS || lua_type(L, -2) != LUA_TSTRING)
                luaL_error(L, "`params` has up to 8 names with their values");
            const char *name = lua_tostring(L, -2);
            lua_pushvalue(L, -2);
            mare__lua_sim_keep(L);
            sim->params[count++] =
                (mare_coord_param){name, "", mare__lua_sim_whole(L, name), INT64_MIN, INT64_MAX};
        }
        qsort(sim->params, (size_t)count, sizeof *sim->params, compare_params);
    }
    lua_pop(L, 1);
}

static const char *text_field(lua_State *L, const char *field, const char *otherwise)
{
    bool given = lua_getfield(L, SIM_ALGORITHM, field) != LUA_TNIL;
    const char *text = given ? mare__lua_sim_string(L, field, NULL) : otherwise;
    lua_pop(L, 1);
    return text;
}

static lua_Integer number_field(lua_State *L, const char *field, lua_Integer otherwise)
{
    bool given = lua_getfield(L, SIM_ALGORITHM, field) != LUA_TNIL;
    lua_Integer value = given ? mare__lua_sim_whole(L, field) : otherwise;
    lua_pop(L, 1);
    if (value < 0 || value > NUMBER_MOST)
        luaL_error(L, "%s is 0 to %d", field, NUMBER_MOST);
    return value;
}

static void make_metatable(lua_State *L)
{
    lua_newtable(L);
    luaL_newlibtable(L, methods);
    lua_pushvalue(L, SIM_RUN); // which lives as long as its members
    lua_newtable(L);           // texts that effects point to
    lua_pushvalue(L, -1);
    lua_setfield(L, SIM_KEPT, "texts");
    luaL_setfuncs(L, methods, 2);
    lua_setfield(L, -2, "__index");
    lua_setfield(L, SIM_KEPT, "metatable");
}

void mare__lua_sim_algorithm(struct mare__lua_sim *sim)
{
    static const char *const promise_names[] = {"EM1",  "EM2",    "EM3",   "fencing", "one leader",
                                                "fifo", "causal", "total", "atomic",  NULL};
    static const char *const fault_names[] = {"reorder", "loss",    "duplication", "partition",
                                              "crash",   "amnesia", "all crash",   "pause",
                                              "drift",   "churn",   "suspects",    NULL};
    static const char *const families[] = {"mutex", "election", "order", NULL};
    lua_State *L = sim->L;
    const char *family = text_field(L, "family", "mutex");
    int which = 0;
    while (families[which] && strcmp(families[which], family) != 0)
        which++;
    if (!families[which])
        luaL_error(L, "`family` is mutex, election or order, not '%s'", family);
    read_forms(L, sim);
    read_params(L, sim);
    sim->promises = read_bits(L, "promises", promise_names);
    sim->tolerates = read_bits(L, "tolerates", fault_names);
    sim->room = (uint32_t)number_field(L, "room", 32);
    sim->messages = number_field(L, "cost", 0);
    make_metatable(L);
    sim->row = (mare_coord_algorithm){.name = text_field(L, "name", "lua"),
                                      .title = text_field(L, "title", "an algorithm in Lua"),
                                      .source = text_field(L, "source", "its author"),
                                      .assumes = text_field(L, "assumes", ""),
                                      .formula = text_field(L, "formula", "not given"),
                                      .family = (mare_coord_family)which,
                                      .tag = 255,
                                      .params = sim->params,
                                      .forms = sim->forms,
                                      .promises = promises,
                                      .tolerates = tolerates,
                                      .messages = messages,
                                      .size = size,
                                      .room = room,
                                      .init = on_init,
                                      .start = on_start,
                                      .receive = on_receive,
                                      .timer = on_timer,
                                      .request = on_request,
                                      .peer = on_peer,
                                      .look = on_look};
}
