// SPDX-License-Identifier: MIT
// What a routine or a task waits for: to send, to receive, one of several such things, or a time;
// until a deadline, if it has one. This is how a wait begins and what is left to do when it has
// ended, for both.
#pragma once

#include "sched/sched.h"

struct mare__want {
    uint8_t waits;     // enum mare__waits
    uint64_t deadline; // MARE_FOREVER: none
    mare_channel *channel;
    mare_message *message; // to be sent
    const struct mare__choice *choice;
};

// Whether an attempt has found that it must be waited for.
static inline bool mare__must_wait(mare_err err)
{
    return err == MARE_EMPTY || err == MARE_FULL;
}

// Does it, if it can be done at once, else returns MARE_EMPTY or MARE_FULL. What is received goes
// into the wait's message, the case of a select that fired into `*fired`.
mare_err mare__want_try(const struct mare__want *want, struct mare__wait *wait, uint32_t *fired);

// The same, or stands in line with the spot and starts the timer. Spinlocks may be held: nobody is
// woken, and no memory is asked for. The other end, if there was one, is `*met`: the caller calls
// its wake when no lock is held. MARE_NOMEM: a ring is too small, and grows when it is tried.
//
// Another thread may end the wait, and wake its owner, before this has returned. The owner must not
// begin its next wait, or free this one, while this still touches it. So the owner, woken, first
// takes and gives back a lock that is held here: with a deadline that of the timers, which
// mare__want_leave does; without one, where there is no channel either (a wait for ever), a lock
// that the caller holds.
mare_err mare__want_begin(mare_runtime *runtime, const struct mare__want *want,
                          struct mare__spot *spot, uint32_t *fired, struct mare__wait **met);

// The wait has ended: leaves every line, and stops the timer.
void mare__want_leave(mare_runtime *runtime, const struct mare__want *want,
                      struct mare__spot *spot);
