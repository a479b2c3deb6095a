// SPDX-License-Identifier: MIT
// Routines: several lines of control in a process.
#pragma once

#include "sched/sched.h"

// One of several routines of a process. It is a userdata of the state, kept in the registry as long
// as it lives. While it runs, what it has here is in the process.
struct mare__routine {
    struct mare__local *process;
    struct mare__list in_all;
    struct mare__routine *next; // in the line of the ready
    uint64_t id;
    lua_State *thread, *current;
    struct mare__nested *nest;
    uint32_t nested, nest_room, unyieldable;
    uint8_t stage;       // enum mare__stage
    bool queued;         // under the pool's lock: it stands in the line
    bool noted;          // somebody knows how it ended
    bool detached;       // the process does not wait for its end
    int values;          // on the thread's stack: arguments before the first run, then results
    mare_channel *ended; // closed when it ends, or NULL; its userdata is the routine's user value
    struct mare__sleep sleep;
};

enum mare__stage { MARE__ROUTINE_LIVES, MARE__ROUTINE_DONE, MARE__ROUTINE_FAILED };

// The routines of a process, once it has more than one.
struct mare__pool {
    mare__lock lock; // guards the line of the ready, and `parked`
    struct mare__routine *head, *tail;
    bool parked; // none is ready, and the process stands in no queue: who wakes one wakes it

    // Touched only by the thread that runs the process.
    struct mare__list all;
    struct mare__routine *running;
    struct mare__routine *heir, *heir_of; // who starts when the other gives way, or NULL
    uint64_t last_id;
    unsigned alive; // and not detached
    struct mare__routine main;
};

// Makes the userdata on top of the stack (zeros) a new routine that runs what is on the thread's
// stack: a function and its arguments. It starts `now`, or may become somebody's heir. Raises an
// error when there is no memory.
void mare__routine_start(lua_State *L, struct mare__routine *routine, lua_State *thread, bool now);

// When the running routine next waits, yields or ends, this one, which has not started and is the
// first on the stack, starts; NULL: none does. One routine of a process at a time has an heir.
// False: it has started before, and nothing was changed.
bool mare__routine_appoint(lua_State *L, struct mare__routine *heir);

// Ends what a routine of this process waits for, or will wait for next, with MARE_CANCELLED.
void mare__routine_cancel(struct mare__routine *routine);

// The process does not wait for its end any more. False: it has ended, or nothing else is left.
bool mare__routine_detach(struct mare__routine *routine);

// Whether the routine that runs is the main one, which others can interrupt but not cancel.
bool mare__routine_is_main(const struct mare__local *process);

// Somebody knows how it ended.
void mare__routine_note(struct mare__routine *routine);

// Whether a coroutine is a routine, or one that a routine at rest is in: nobody may resume it.
bool mare__routine_holds(const struct mare__local *process, lua_State *co);

// Whether the process waits, all of it. Any thread.
bool mare__at_rest(const struct mare__local *process);

// Which routine shall run next, with how many arguments: it is the one that runs. False: none, the
// process is at rest and must not be touched any more. True also if the process was killed.
bool mare__pool_next(struct mare__local *process, int *arguments);

// The running routine gave up the worker with this status of lua_resume, and that many results.
// False: the process shall end, with *status and *results.
bool mare__pool_back(struct mare__local *process, int *status, int *results);

// Wakes the process so that it notices that it has been killed.
void mare__pool_wake(struct mare__local *process);

// The main routine's wait, which others may end.
struct mare__wait *mare__main_wait(struct mare__local *process);

// The process ends: no routine waits any more; and they are closed, but for the main one.
void mare__pool_calm(struct mare__local *process);
void mare__pool_unwind(struct mare__local *process);
