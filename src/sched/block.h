// SPDX-License-Identifier: MIT
// How a routine waits: it is put to sleep, and cleans up when it goes on.
#pragma once

#include "sched/sched.h"

// Whether the calling routine can wait here.
static inline bool mare__block_possible(lua_State *L, const struct mare__local *process)
{
    return process->host || (L == process->current && !process->unyieldable && lua_isyieldable(L));
}

// Raises an error that says why it cannot.
void mare__block_refuse(lua_State *L, const struct mare__local *process);

// Raises it if it cannot.
static inline void mare__block_check(lua_State *L, const struct mare__local *process)
{
    if (!mare__block_possible(L, process))
        mare__block_refuse(L, process);
}

// Of the next: when it has a deadline, is traced, or has no worker to yield to.
int mare__block_otherwise(lua_State *L, struct mare__local *process, uint64_t deadline,
                          lua_KFunction then, lua_KContext context);

// Puts the calling routine to sleep until it has sent or received what is in process->sleep.wait,
// its select has fired, or the deadline has passed. Then `then` runs, which first calls
// mare__block_clean and finds the outcome in process->sleep.wait. To be used as `return
// mare__block(...)`.
static inline int mare__block(lua_State *L, struct mare__local *process, enum mare__waits waits,
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

// A send waits: the message and what leaves with it are the sleep's from here on.
static inline int mare__block_send(lua_State *L, struct mare__local *process, mare_message *message,
                                   struct mare__leaving *leaving, mare_channel *channel,
                                   uint64_t deadline, lua_KFunction then)
{
    mare__message_move(&process->sleep.wait.message, message);
    process->sleep.leaving = leaving;
    return mare__block(L, process, MARE__WAITS_TO_SEND, channel, deadline, then, 0);
}

// The state is at rest: begins the wait. True: it waits, and must not be touched any more, for
// another thread may have it already. False: it need not wait.
bool mare__sleep_commit(struct mare__local *process, struct mare__sleep *sleep);

// Leaves every line and stops the timer.
void mare__sleep_clean(struct mare__local *process, struct mare__sleep *sleep);

// The same; most waits have no timer, stood in one line and were taken out of it.
static inline void mare__sleep_over(struct mare__local *process, struct mare__sleep *sleep)
{
    if (sleep->timed || sleep->wait.fired == MARE__FIRED_NONE ||
        sleep->waits == MARE__WAITS_IN_SELECT)
        mare__sleep_clean(process, sleep);
    sleep->waits = MARE__WAITS_NOT;
}

// The cases of a select: their maker has them until it waits. One block, with room behind the cases
// for as many pointers; or NULL.
struct mare__case *mare__cases_new(uint32_t count);

static inline mare_channel **mare__cases_scratch(struct mare__case *cases, uint32_t count)
{
    return (mare_channel **)(cases + count);
}

// Frees them with all that the first so many hold; those about processes await their end no more.
void mare__cases_free(struct mare__case *cases, uint32_t count);

// Frees what was prepared to be sent and was not: cases and message; and what should have left with
// them stays.
void mare__sleep_drop(struct mare__sleep *sleep);

// The same for the routine that runs.
static inline void mare__block_clean(struct mare__local *process)
{
    mare__sleep_over(process, &process->sleep);
}

// A select waits: its cases are the sleep's from here on. The other arguments as above.
static inline int mare__block_select(lua_State *L, struct mare__local *process,
                                     struct mare__case *cases, uint32_t count, uint64_t deadline,
                                     lua_KFunction then)
{
    process->sleep.cases = cases;
    process->sleep.case_count = count;
    return mare__block(L, process, MARE__WAITS_IN_SELECT, NULL, deadline, then, 0);
}

// Takes the cases back, when it has waited.
static inline struct mare__case *mare__block_cases(struct mare__local *process, uint32_t *count)
{
    struct mare__case *cases = process->sleep.cases;
    *count = process->sleep.case_count;
    process->sleep.cases = NULL;
    process->sleep.case_count = 0;
    return cases;
}
