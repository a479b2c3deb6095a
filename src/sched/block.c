// SPDX-License-Identifier: MIT
// How a routine sleeps. In one of our processes it yields, through every coroutine that the program has put between (see
// coroutine.c), and the worker parks it. In the state of a host program (the stock interpreter) the thread itself sleeps.
#include "base/alloc.h"
#include "sched/sched.h"

void mare__block_check(lua_State *L, mare_process *process)
{
    if (mare__block_possible(L, process))
        return;
    if (L != process->current)
        luaL_error(L, "cannot wait inside a coroutine that a C library resumed");
    luaL_error(L, "cannot wait here: inside a callback of a C function (table.sort, string.gsub, load, "
                  "a finalizer or a closing handler)");
}

void mare__block_begin(mare_process *process)
{
    process->waits_for = NULL;
    mare__wait_begin(&process->wait);
}

void mare__block_clean(mare_process *process)
{
    struct mare__wait *wait = &process->wait;
    if (mare__heap_holds(&wait->timer) || wait->fired == MARE__FIRED_NONE)
        mare__timer_stop(process->runtime, wait);
    if (process->waits_for && wait->fired == MARE__FIRED_NONE)
        mare__chan_forget(process->waits_for, &process->node);
    process->waits_for = NULL;
    if (process->in_lines)
        for (uint32_t i = 0; i < process->case_count; i++)
            if (i != wait->fired)
                mare__chan_forget(process->cases[i].channel, &process->cases[i].node);
    process->in_lines = false;
    atomic_store_explicit(&wait->word, MARE__WAIT_IDLE, memory_order_relaxed); // only the owner looks now
}

void mare__block_drop_cases(mare_process *process)
{
    for (uint32_t i = 0; i < process->case_count; i++) {
        mare__message_clear(&process->cases[i].message);
        mare_chan_unref(process->cases[i].channel);
    }
    mare__free(process->cases);
    process->cases = NULL;
    process->case_count = 0;
}

// A host's thread sleeps until its wait has ended.
static void host_sleep(mare_process *process, uint64_t deadline)
{
    struct mare__wait *wait = &process->wait;
    mare_runtime *runtime = process->runtime;
    if (mare__wait_parked(wait)) {
        atomic_fetch_add(&runtime->waiters, 1);
        while (!mare__park(process->host, deadline))
            mare__wait_cancel(wait, MARE_TIMEOUT); // if it comes too late, the wake is on its way
        atomic_fetch_sub(&runtime->waiters, 1);
    }
}

int mare__block(lua_State *L, mare_process *process, uint64_t deadline, lua_KContext context, lua_KFunction then)
{
    if (process->host) {
        host_sleep(process, deadline);
        return then(L, LUA_OK, context);
    }
    if (deadline != MARE_FOREVER)
        mare__timer_start(process->runtime, &process->wait, deadline);
    process->yield = MARE__YIELD_WAIT;
    return lua_yieldk(L, 0, context, then);
}
