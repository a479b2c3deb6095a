// SPDX-License-Identifier: MIT
// Timers that a program has as objects, and that send to a channel.
#pragma once

#include "sched/sched.h"

// A timer that sends an empty message to its channel at a time, and then, if the period is not 0,
// after every period; a message that was not taken yet stands for those that follow. NULL: no
// memory.
struct mare__object *mare__alarm_new(mare_runtime *runtime, uint64_t at, uint64_t period);

// The channel, made on first use; NULL: no memory. By its owner.
mare_channel *mare__alarm_channel(struct mare__object *object);

// Whether it has come and does not come again; what it told is in its channel, or was taken.
bool mare__alarm_over(struct mare__object *object);

// Whether somebody has cancelled it.
bool mare__alarm_cancelled(struct mare__object *object);

// It will not come any more. False: it was over already.
bool mare__alarm_cancel(struct mare__object *object);
