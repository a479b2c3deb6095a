// SPDX-License-Identifier: MIT
// How a routine waits: it is put to sleep, and cleans up when it goes on.
#pragma once

#include "sched/sched.h"

// Whether the calling routine can wait here.
static inline bool mare__block_possible(lua_State *L, const mare_process *process)
{
    return process->host || (L == process->current && !process->unyieldable && lua_isyieldable(L));
}

// Raises an error that says why it cannot.
void mare__block_refuse(lua_State *L, const mare_process *process);

// Raises it if it cannot.
static inline void mare__block_check(lua_State *L, const mare_process *process)
{
    if (!mare__block_possible(L, process))
        mare__block_refuse(L, process);
}

// Of the next: when it has a deadline, is traced, or has no worker to yield to.
int mare__block_otherwise(lua_State *L, mare_process *process, uint64_t deadline,
                          lua_KFunction then, lua_KContext context);

// Puts the calling routine to sleep until it has sent or received what is in process->sleep.wait,
// its select has fired, or the deadline has passed. Then `then` runs, which first calls
// mare__block_clean and finds the outcome in process->sleep.wait. To be used as `return
// mare__block(...)`.
static inline int mare__block(lua_State *L, mare_process *process, enum mare__waits waits,
                              mare_channel *channel, uint64_t deadline, lua_KFunction then,
                              lua_KContext context)
{
    process->sleep.waits = (uint8_t)waits;
    process->sleep.waits_for = channel;
    if (deadline != MARE_FOREVER || process->host || mare__traced(process))
        return mare__block_otherwise(L, process, deadline, then, context);
    process->sleep.timed = false; // so the deadline is not looked at: a line of the cache less
    process->yield = MARE__YIELD_WAIT;
    return lua_yieldk(L, 0, context, then);
}

// The state is at rest: begins the wait. True: it waits, and must not be touched any more, for
// another thread may have it already. False: it need not wait.
bool mare__sleep_commit(mare_process *process, struct mare__sleep *sleep);

// Leaves every line and stops the timer.
void mare__sleep_clean(mare_process *process, struct mare__sleep *sleep);

// The same; most waits have no timer, stood in one line and were taken out of it.
static inline void mare__sleep_over(mare_process *process, struct mare__sleep *sleep)
{
    if (sleep->timed || sleep->wait.fired == MARE__FIRED_NONE ||
        sleep->waits == MARE__WAITS_IN_SELECT)
        mare__sleep_clean(process, sleep);
    sleep->waits = MARE__WAITS_NOT;
}

// Frees the cases of a select, with what they hold.
void mare__sleep_drop_cases(struct mare__sleep *sleep);

// The same for the routine that runs.
static inline void mare__block_clean(mare_process *process)
{
    mare__sleep_over(process, &process->sleep);
}

static inline void mare__block_drop_cases(mare_process *process)
{
    mare__sleep_drop_cases(&process->sleep);
}
