// SPDX-License-Identifier: MIT
// Waiting: how a routine (or a foreign thread) sleeps until exactly one of several things happens to it.
//
// A wait has one word. Whoever wants to end the wait (a channel's other end, a close, a timer, a kill) must first claim
// it, and only one can; the claimant then writes the outcome and finishes. The owner goes to sleep in two steps, for it
// puts itself into queues while it still runs:
//
//          owner: begin            owner: parked
//     IDLE ------------> PARKING ------------------> PARKED
//                           |                           | claim (then finish: wake the owner)
//                     claim |                           v
//                           v      finish             READY
//                        CLAIMED --------------------> READY   the owner sees it and does not sleep
//                           | owner: parked
//                           v
//                         HELD -- finish: wake the owner --> READY
//
// Nodes stand in the queues of channels, under the channel's lock. A node found in a queue belongs to the current wait
// of its owner, for an owner takes its nodes out of every queue before it waits again.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "chan/message.h"

enum { MARE__WAIT_IDLE, MARE__WAIT_PARKING, MARE__WAIT_PARKED, MARE__WAIT_CLAIMED, MARE__WAIT_HELD, MARE__WAIT_READY };

enum { MARE__FIRED_NONE = UINT32_MAX }; // ended by a timer or a kill, not by a channel

struct mare__wait {
    atomic_uint word;
    uint32_t fired;      // index of the node that won
    mare_err result;     // what happened
    mare_message message; // what a receiver received; what a lone sender sends
    void (*wake)(struct mare__wait *wait);
    struct mare__heap_node timer; // owned by the scheduler
};

struct mare__node {
    struct mare__list link;
    struct mare__wait *wait;
    mare_message *message; // sender: what to send
    uint32_t index;
};

enum mare__claim { MARE__CLAIM_NO, MARE__CLAIM_PARKED, MARE__CLAIM_EARLY };

static inline void mare__wait_begin(struct mare__wait *wait)
{
    wait->fired = MARE__FIRED_NONE;
    wait->result = MARE_OK;
    // Sequentially consistent, and an exchange for that: the owner reads whether it was killed after this, and a killer
    // tries to end the wait after it has set that flag.
    atomic_exchange(&wait->word, MARE__WAIT_PARKING);
}

// Tries to become the one who ends the wait.
static inline enum mare__claim mare__wait_claim(struct mare__wait *wait)
{
    unsigned word = MARE__WAIT_PARKED;
    // Acquire, on success: pairs with the release in mare__wait_parked: the owner's last words are seen.
    if (atomic_compare_exchange_strong_explicit(&wait->word, &word, MARE__WAIT_READY,
                                                memory_order_acquire, memory_order_relaxed))
        return MARE__CLAIM_PARKED;
    while (word == MARE__WAIT_PARKING || word == MARE__WAIT_PARKED) {
        bool early = word == MARE__WAIT_PARKING;
        if (atomic_compare_exchange_weak_explicit(
                &wait->word, &word, early ? MARE__WAIT_CLAIMED : MARE__WAIT_READY,
                memory_order_acquire, memory_order_relaxed))
            return early ? MARE__CLAIM_EARLY : MARE__CLAIM_PARKED;
    }
    return MARE__CLAIM_NO;
}

// After the outcome was written: lets the owner go on.
static inline void mare__wait_finish(struct mare__wait *wait, enum mare__claim claim)
{
    if (claim == MARE__CLAIM_EARLY) {
        unsigned word = MARE__WAIT_CLAIMED;
        // Release: pairs with the acquire in mare__wait_parked: the owner sees the outcome.
        if (atomic_compare_exchange_strong_explicit(&wait->word, &word, MARE__WAIT_READY,
                                                    memory_order_acq_rel, memory_order_acquire))
            return;
        // Relaxed: the queue through which the owner is woken publishes it.
        atomic_store_explicit(&wait->word, MARE__WAIT_READY, memory_order_relaxed);
    }
    wait->wake(wait);
}

// The owner has put itself to rest. True: it stays there, and must not be touched any more, for another thread may have
// it already. False: the wait has ended, go on at once.
static inline bool mare__wait_parked(struct mare__wait *wait)
{
    unsigned word = MARE__WAIT_PARKING;
    // Release: pairs with the acquire in mare__wait_claim. Acquire: with the release in mare__wait_finish.
    if (atomic_compare_exchange_strong_explicit(&wait->word, &word, MARE__WAIT_PARKED,
                                                memory_order_release, memory_order_acquire))
        return true;
    return word == MARE__WAIT_CLAIMED &&
           atomic_compare_exchange_strong_explicit(&wait->word, &word, MARE__WAIT_HELD,
                                                   memory_order_acq_rel, memory_order_acquire);
}

// Ends the wait from outside with `result`, if nobody else has. False if somebody has.
static inline bool mare__wait_cancel(struct mare__wait *wait, mare_err result)
{
    enum mare__claim claim = mare__wait_claim(wait);
    if (claim == MARE__CLAIM_NO)
        return false;
    wait->result = result;
    mare__wait_finish(wait, claim);
    return true;
}
