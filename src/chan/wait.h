// SPDX-License-Identifier: MIT
// Waiting: how a routine (or a foreign thread) sleeps until exactly one of several things happens
// to it.
//
// A wait has one word. Its owner stands in the lines of channels and publishes the wait; to end it,
// a channel's other end, a close, a timer or a kill must first claim it, and only one can. The
// claimant writes the outcome and wakes the owner.
//
//          owner: publish          anyone: claim           owner: begins again
//     IDLE ---------------> WAITING -------------> ENDED ---------------------> IDLE
//
// A process publishes only after it has yielded to its worker, so a claimed wait always belongs to
// someone who is at rest and can be made ready at once.
//
// Spots stand in the lines of channels, under the channel's lock. A spot found in a line belongs
// to the current wait of its owner, for an owner leaves every line before it waits again. And as
// long as somebody holds the lock of a line in which a spot stands, the spot's owner cannot get
// past leaving that line, whoever ended its wait: its memory stays.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "chan/message.h"
#include "platform/platform.h"

enum { MARE__WAIT_IDLE, MARE__WAIT_WAITING, MARE__WAIT_ENDED };

enum { MARE__FIRED_NONE = UINT32_MAX }; // ended by a timer or a kill, not by a channel

struct mare__wait {
    atomic_uint word;
    atomic_uchar note; // 0, or why the owner shall not wait: MARE_CANCELLED once, MARE_KILLED ever
    uint32_t fired;    // index of the spot that won
    mare_err result;   // what happened
    void (*wake)(struct mare__wait *wait);
    mare_message message;          // what a receiver received; what a lone sender sends
    struct mare__heap_entry timer; // the scheduler's
};

struct mare__spot {
    struct mare__list entry;
    struct mare__wait *wait;
    mare_message *message; // sender: what to send
    uint32_t index;
};

static inline void mare__wait_begin(struct mare__wait *wait)
{
    wait->fired = MARE__FIRED_NONE;
    wait->result = MARE_OK;
    // Relaxed: nobody else looks until it is published.
    atomic_store_explicit(&wait->word, MARE__WAIT_IDLE, memory_order_relaxed);
}

// Tries to become the one who ends the wait.
static inline bool mare__wait_claim(struct mare__wait *wait)
{
    unsigned word = MARE__WAIT_WAITING;
    // Acquire: pairs with the release in mare__wait_publish: what the owner wrote before is seen.
    return atomic_compare_exchange_strong_explicit(&wait->word, &word, MARE__WAIT_ENDED,
                                                   memory_order_acquire, memory_order_relaxed);
}

// Takes note of an interruption, if there is one: it has had its effect.
static inline bool mare__wait_heed(struct mare__wait *wait)
{
    unsigned char note = MARE_CANCELLED;
    return atomic_compare_exchange_strong(&wait->note, &note, 0);
}

// From here on the wait can be ended. Called with a lock held that the owner needs before it can
// go on (a channel's, the timers'), for it may be woken at once. False: it was cancelled before
// and does not wait, for the reason in `result`; the caller takes it out of the lines again.
static inline bool mare__wait_publish(struct mare__wait *wait)
{
    for (;;) {
        // Release: pairs with the acquire in mare__wait_claim.
        atomic_store_explicit(&wait->word, MARE__WAIT_WAITING, memory_order_release);
        // Published, then looks; who cancels notes, then claims. One of the two sees the other.
        mare__barrier_here();
        unsigned char note = atomic_load_explicit(&wait->note, memory_order_relaxed);
        if (__builtin_expect(!note, 1) || !mare__wait_claim(wait))
            return true; // if somebody else has claimed it, that is as good as waiting
        if (note == MARE_KILLED || mare__wait_heed(wait)) {
            wait->result = (mare_err)note;
            return false;
        } // who interrupts has just taken the note back, to try again: so does this
    }
}

// Ends the wait from outside with `result`, if it has not ended.
static inline bool mare__wait_end(struct mare__wait *wait, mare_err result)
{
    if (!mare__wait_claim(wait))
        return false;
    wait->result = result;
    wait->wake(wait);
    return true;
}

// Ends the wait, and every later one before it begins.
static inline void mare__wait_cancel(struct mare__wait *wait)
{
    atomic_store(&wait->note, MARE_KILLED);
    mare__barrier_everywhere();
    mare__wait_end(wait, MARE_KILLED);
}

// Ends the wait with MARE_CANCELLED, or else the next one before it begins, unless the owner heeds
// the note earlier. An interruption has one effect: whoever takes the note away (the owner as it
// publishes or at a tick, or this function) is the one who acts on it.
static inline void mare__wait_interrupt(struct mare__wait *wait)
{
    for (;;) {
        unsigned char none = 0;
        atomic_compare_exchange_strong(&wait->note, &none, MARE_CANCELLED);
        // Noted, then looks; mare__wait_publish publishes, then looks for the note.
        mare__barrier_everywhere();
        if (atomic_load(&wait->word) != MARE__WAIT_WAITING)
            return; // the owner sees the note before it waits
        if (!mare__wait_heed(wait))
            return; // somebody has acted on it, or a kill has taken its place
        if (mare__wait_claim(wait)) {
            wait->result = MARE_CANCELLED;
            wait->wake(wait);
            return;
        } // another has just ended that wait: so the next one, or a tick
    }
}
