// SPDX-License-Identifier: MIT
// How a wait with a deadline begins: all of it under the lock of the timers.
//
//     1. take the lock of the timers
//     2. stand in line and publish the wait: from here on another thread may end it
//     3. start the timer
//     4. give the lock back
//
// If the wait is ended between 2 and 3, its owner, woken on another thread, stops the timer before
// all else, and for that it needs the lock: it gets it after 4, and finds a timer to stop. Nor can
// the timer end the wait before it is published, for a worker that looks at timers needs the lock.
#include "sched/want.h"

#include "sched/timer.h"

mare_err mare__want_try(const struct mare__want *want, struct mare__wait *wait, uint32_t *fired)
{
    switch (want->waits) {
    case MARE__WAITS_TO_RECEIVE:
        return mare__chan_receive(want->channel, &wait->message, NULL);
    case MARE__WAITS_TO_SEND:
        return mare__chan_send(want->channel, want->message, NULL);
    case MARE__WAITS_IN_SELECT:
        return mare__chan_choose(want->choice, NULL, &wait->message, fired);
    case MARE__WAITS_FOR_A_TURN:
        return MARE_OK;
    default:
        return MARE_EMPTY;
    }
}

static mare_err stand(const struct mare__want *want, struct mare__spot *spot, uint32_t *fired,
                      struct mare__wait **met)
{
    struct mare__wait *wait = spot->wait;
    switch (want->waits) {
    case MARE__WAITS_TO_RECEIVE:
        return mare__chan_receive_quietly(want->channel, &wait->message, spot, met);
    case MARE__WAITS_TO_SEND:
        return mare__chan_send_quietly(want->channel, want->message, spot, met);
    case MARE__WAITS_IN_SELECT:
        return mare__chan_choose_quietly(want->choice, wait, &wait->message, fired, met);
    case MARE__WAITS_FOR_A_TURN:
        return MARE_OK;
    default:
        return mare__wait_publish(wait) ? MARE_EMPTY : wait->result;
    }
}

mare_err mare__want_begin(mare_runtime *runtime, const struct mare__want *want,
                          struct mare__spot *spot, uint32_t *fired, struct mare__wait **met)
{
    struct mare__wait *wait = spot->wait; // once it is published, what is not locked may be gone
    uint64_t deadline = want->deadline;
    *met = NULL;
    if (deadline == MARE_FOREVER)
        return stand(want, spot, fired, met);
    mare__lock_acquire(&runtime->timer_lock);
    mare_err err = stand(want, spot, fired, met);
    if (mare__must_wait(err))
        mare__timer_start(runtime, wait, deadline);
    mare__lock_release(&runtime->timer_lock);
    return err;
}

void mare__want_leave(mare_runtime *runtime, const struct mare__want *want, struct mare__spot *spot)
{
    struct mare__wait *wait = spot->wait;
    if (want->deadline != MARE_FOREVER)
        mare__timer_stop(runtime, wait);
    if (want->waits == MARE__WAITS_IN_SELECT) {
        for (uint32_t i = 0; i < want->choice->count; i++)
            if (i != wait->fired)
                mare__chan_forget(want->choice->cases[i].channel, &want->choice->cases[i].spot);
    } else if (want->channel && wait->fired == MARE__FIRED_NONE) {
        mare__chan_forget(want->channel, spot);
    }
}
