// SPDX-License-Identifier: MIT
// How a routine sleeps. It notes what it wants to wait for and yields, through every coroutine that
// the program has put between (see coroutine.c). The worker, when the state is at rest, puts it
// into the lines of the channels concerned (commits the wait); or finds that what it wants has
// become possible meanwhile, and lets it go on. In the state of a host program (the stock
// interpreter) there is no worker: the thread commits and sleeps itself.
#include "sched/block.h"
#include "base/alloc.h"
#include "sched/leaving.h"
#include "sched/process.h"
#include "sched/trace.h"
#include "sched/want.h"

void mare__block_refuse(lua_State *L, const struct mare__local *process)
{
    if (L != process->current)
        luaL_error(L, "cannot wait inside a coroutine that a C library resumed");
    luaL_error(L, "cannot wait here: inside a callback of a C function (table.sort, string.gsub, "
                  "load, a finalizer or a closing handler)");
}

// Does what the routine waits for, or stands in line for it, without a deadline. MARE_EMPTY,
// MARE_FULL: it waits.
static inline mare_err attempt(struct mare__local *process, struct mare__sleep *sleep,
                               uint32_t *fired)
{
    struct mare__wait *wait = &sleep->wait;
    switch (sleep->waits) {
    case MARE__WAITS_TO_SEND:
        return mare__chan_send(sleep->waits_for, &wait->message, &sleep->spot);
    case MARE__WAITS_TO_RECEIVE:
        return mare__chan_receive(sleep->waits_for, &wait->message, &sleep->spot);
    case MARE__WAITS_IN_SELECT:
        return mare__chan_select(sleep->cases, sleep->case_count, sleep->turn, wait, &wait->message,
                                 fired, mare__cases_scratch(sleep->cases, sleep->case_count));
    default: // for ever, in no line. Under the lock that mare__sleep_clean takes: see there
        mare__lock_acquire(&process->shared.lock);
        mare_err err = mare__wait_publish(wait) ? MARE_EMPTY : wait->result;
        mare__lock_release(&process->shared.lock);
        return err;
    }
}

static struct mare__want want_of(struct mare__sleep *sleep, const struct mare__choice *choice)
{
    return (struct mare__want){.waits = sleep->waits,
                               .deadline = sleep->timed ? sleep->deadline : MARE_FOREVER,
                               .channel = sleep->waits_for,
                               .message = &sleep->wait.message,
                               .choice = choice};
}

// With a deadline.
static mare_err attempt_timed(mare_runtime *runtime, struct mare__sleep *sleep, uint32_t *fired)
{
    struct mare__choice choice;
    struct mare__wait *met;
    const struct mare__want want = want_of(sleep, &choice);
    if (sleep->waits == MARE__WAITS_IN_SELECT) {
        mare__choice_init(&choice, sleep->cases, sleep->case_count,
                          mare__cases_scratch(sleep->cases, sleep->case_count));
        choice.turn = sleep->turn;
    }
    for (;;) {
        mare_err err = mare__want_begin(runtime, &want, &sleep->spot, fired, &met);
        if (met)
            met->wake(met);
        if (err != MARE_NOMEM)
            return err;
        err = mare__want_try(&want, &sleep->wait, fired); // a ring grows, where no lock is held
        if (!mare__must_wait(err))
            return err;
    }
}

// The cases of a select that wait for channels of other nodes are asked for there. They are held,
// for the sleep is not the caller's any more when it has begun. False: there is no memory for that,
// and so nobody would be asked.
static bool hold_asked(const struct mare__sleep *sleep, struct mare__far ***asked, uint32_t *count)
{
    *asked = NULL;
    *count = 0;
    for (uint32_t i = 0; i < sleep->case_count; i++) {
        struct mare__far *far = sleep->cases[i].send ? NULL : sleep->cases[i].channel->far;
        if (!far)
            continue;
        if (!*asked)
            *asked = mare__alloc(sleep->case_count * sizeof(struct mare__far *));
        if (!*asked)
            return false;
        far->hold(far);
        (*asked)[(*count)++] = far;
    }
    return true;
}

static mare_err attempt_select(struct mare__local *process, struct mare__sleep *sleep,
                               uint32_t *fired)
{
    uint32_t count;
    struct mare__far **asked;
    if (!hold_asked(sleep, &asked, &count))
        return MARE_NOMEM;
    mare_err err = sleep->timed ? attempt_timed(process->shared.runtime, sleep, fired)
                                : attempt(process, sleep, fired);
    for (uint32_t i = 0; i < count; i++) {
        if (mare__must_wait(err))
            asked[i]->ask(asked[i]);
        asked[i]->release(asked[i]);
    }
    mare__free(asked);
    return err;
}

// It need not wait after all.
static bool commit_failed(struct mare__sleep *sleep, uint32_t fired, mare_err err)
{
    sleep->wait.fired = fired;
    sleep->wait.result = err;
    sleep->timed = false;
    // Relaxed: somebody may be looking what it waits for (look.c).
    __atomic_store_n(&sleep->waits, MARE__WAITS_NOT, __ATOMIC_RELAXED);
    return false;
}

// Any wait but the most frequent one.
static __attribute__((noinline)) bool commit_other(struct mare__local *process,
                                                   struct mare__sleep *sleep)
{
    struct mare__wait *wait = &sleep->wait;
    uint32_t fired = MARE__FIRED_NONE;
    bool receives = sleep->waits == MARE__WAITS_TO_RECEIVE;
    struct mare__far *far = receives ? sleep->waits_for->far : NULL;
    mare_err err;
    if (__builtin_expect(far != NULL, 0))
        far->hold(far);
    mare__wait_begin(wait);
    if (sleep->waits == MARE__WAITS_IN_SELECT)
        err = attempt_select(process, sleep, &fired);
    else
        err = sleep->timed ? attempt_timed(process->shared.runtime, sleep, &fired)
                           : attempt(process, sleep, &fired);
    if (__builtin_expect(far != NULL, 0)) {
        if (mare__must_wait(err))
            far->ask(far);
        far->release(far);
    }
    return mare__must_wait(err) || commit_failed(sleep, fired, err);
}

bool mare__sleep_commit(struct mare__local *process, struct mare__sleep *sleep)
{
    mare_channel *channel = sleep->waits_for;
    if (sleep->waits != MARE__WAITS_TO_RECEIVE || sleep->timed || channel->far)
        return commit_other(process, sleep);
    mare__wait_begin(&sleep->wait);
    mare_err err = mare__chan_receive(channel, &sleep->wait.message, &sleep->spot);
    return mare__must_wait(err) || commit_failed(sleep, MARE__FIRED_NONE, err);
}

void mare__sleep_clean(struct mare__local *process, struct mare__sleep *sleep)
{
    const struct mare__choice choice = {.cases = sleep->cases, .count = sleep->case_count};
    if (!sleep->timed && sleep->waits == MARE__WAITS_FOR_TIME) {
        // The worker that published this wait (attempt) holds the lock while it does, and may still
        // be looking at it although another thread has ended it. If the routine began its next wait
        // meanwhile, that worker would take it for the one it published. So we let it finish first.
        mare__lock_acquire(&process->shared.lock);
        mare__lock_release(&process->shared.lock);
    }
    const struct mare__want want = want_of(sleep, &choice);
    if (sleep->waits != MARE__WAITS_NOT)
        mare__want_leave(process->shared.runtime, &want, &sleep->spot);
    sleep->timed = false;
    sleep->waits = MARE__WAITS_NOT;
}

struct mare__case *mare__cases_new(uint32_t count)
{
    return mare__alloc((size_t)(count + 1) * (sizeof(struct mare__case) + sizeof(mare_channel *)));
}

void mare__cases_free(struct mare__case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mare__case *c = &cases[i];
        mare__message_clear(&c->message);
        mare_chan_unref(c->channel);
        if (c->about && c->about->kind == MARE__KIND_PROCESS)
            mare__process_unawait((mare_process *)c->about);
        if (c->about)
            mare__unref(c->about);
    }
    mare__free(cases);
}

void mare__sleep_drop(struct mare__sleep *sleep)
{
    mare__cases_free(sleep->cases, sleep->case_count);
    sleep->cases = NULL;
    sleep->case_count = 0;
    mare__message_clear(&sleep->wait.message);
    mare__leaving_drop(&sleep->leaving);
}

// A host's thread sleeps until its wait has ended.
static void host_sleep(struct mare__local *process)
{
    if (!mare__sleep_commit(process, &process->sleep))
        return;
    atomic_fetch_add(&process->shared.runtime->waiters, 1);
    while (!mare__runtime_park(process->shared.runtime, process->host, process->sleep.deadline))
        mare__wait_end(&process->sleep.wait, MARE_TIMEOUT); // if too late, the wake is on its way
    atomic_fetch_sub(&process->shared.runtime->waiters, 1);
}

int mare__block_otherwise(lua_State *L, struct mare__local *process, uint64_t deadline,
                          lua_KFunction then, lua_KContext context)
{
    mare__trace_block(process, process->sleep.waits_for);
    process->sleep.deadline = deadline;
    if (process->host) {
        host_sleep(process);
        return then(L, LUA_OK, context);
    }
    process->sleep.timed = deadline != MARE_FOREVER;
    process->yield = MARE__YIELD_WAIT;
    return lua_yieldk(L, 0, context, then);
}
