// SPDX-License-Identifier: MIT
// Timers, which end waits.
#pragma once

#include "sched/sched.h"

// Ends the wait with MARE_TIMEOUT at the deadline, if it has not ended by then. The caller holds
// the runtime's timer_lock.
void mare__timer_start(mare_runtime *runtime, struct mare__wait *wait, uint64_t deadline);

// Forgets it; takes the lock. Must be called before the wait is used again.
void mare__timer_stop(mare_runtime *runtime, struct mare__wait *wait);

// Ends the waits whose time has come. `now` of MARE_FOREVER ends them all, with MARE_STOPPED.
void mare__timer_expire(mare_runtime *runtime, uint64_t now);
