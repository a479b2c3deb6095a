// SPDX-License-Identifier: MIT
// Shared by sim.c (running the simulator from Lua) and sim_machine.c (an algorithm written in Lua).
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>

#include "sched/sched.h"
#include "sim/report.h"
#include "sim/script.h"

// What a run keeps on the Lua stack, from the call of run() to its end.
enum { SIM_SPEC = 1, SIM_ALGORITHM, SIM_MEMBERS, SIM_KEPT, SIM_TOP = SIM_KEPT, SIM_RUN };

enum { SIM_FORMS_MOST = 32 };

// A run: hooks and algorithms written in Lua find the state here. An error in them is kept under
// "error" in the table at SIM_KEPT; from then on they do nothing, and run() raises it in the end.
struct mare__lua_sim {
    lua_State *L;
    bool failed;
    // The algorithm, when it is written in Lua.
    mare_coord_algorithm row;
    mare_coord_param params[MARE_COORD_PARAMS + 1];
    mare_coord_form forms[SIM_FORMS_MOST + 1];
    unsigned promises, tolerates;
    lua_Integer messages;
    uint32_t room;
    // What the scenario adds for its readers; the strings belong to its table.
    mare_sim_captions captions;
    // The step that is under way.
    mare_coord *machine;
    mare_coord_effects *effects;
};

// Makes `sim->row` from the table at SIM_ALGORITHM; raises when it makes no sense.
void mare__lua_sim_algorithm(struct mare__lua_sim *sim);

// Calls `body` with `argument`, protected; remembers the first error. Returns whether it went well.
bool mare__lua_sim_protect(struct mare__lua_sim *sim, lua_CFunction body, void *argument);

// Reads `names` and `notes` of the specification into `sim->captions`; what they point to stays on
// the stack.
void mare__lua_sim_captions(struct mare__lua_sim *sim, uint32_t capacity);

// Raise what the specification has and nobody reads: a field that there is not, a member or a
// parameter of one that there is not.
void mare__lua_sim_check_fields(lua_State *L, int table, const char *what,
                                const char *const *names);
void mare__lua_sim_check_names(lua_State *L);
void mare__lua_sim_check_spec(lua_State *L, const mare_coord_setup *setup);

// The whole number, or the string, at the top, which `what` is to be; a string that its table
// keeps, because a number would become a string that nobody keeps.
lua_Integer mare__lua_sim_whole(lua_State *L, const char *what);
const char *mare__lua_sim_string(lua_State *L, const char *what, size_t *length);

// Pops a string and keeps it until the end of the run, for the table it is from may change.
void mare__lua_sim_keep(lua_State *L);

// Raises unless a table is at the top.
void mare__lua_sim_table(lua_State *L, const char *what);

// Sets the parameter of this name to the number at the top.
void mare__lua_sim_set_param(lua_State *L, mare_coord_setup *setup, const char *name);

// An observer that calls the function `see` of the specification with what happens and with a
// table of the run's own, which ends up in the outcome as `seen`.
struct mare__lua_sim_witness {
    mare_sim_observer observer;
    struct mare__lua_sim *sim;
    const mare_coord_algorithm *algorithm;
};

void mare__lua_sim_witness(struct mare__lua_sim_witness *witness, struct mare__lua_sim *sim,
                           const mare_coord_algorithm *algorithm);

// Functions of the module about what is fixed before a run: where the coordinators of voting are,
// what their forgetting costs, where nodes are that become superpeers.
int mare__lua_sim_replicas(lua_State *L);
int mare__lua_sim_risk(lua_State *L);
int mare__lua_sim_places(lua_State *L);

// Pushes a table with the name and fields of a message.
void mare__lua_sim_push_message(lua_State *L, const mare_coord_algorithm *algorithm,
                                const mare_coord_message *message);
