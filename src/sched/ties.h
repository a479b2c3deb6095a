// SPDX-License-Identifier: MIT
// What the end of a process asks of its links and monitors. How they are made is in process.h.
#pragma once

#include "sched/sched.h"

// The process has ended: kills the linked, or unties them if it ended well. No lock is held.
void mare__ties_tell(mare_process *process);

// The same: tells the monitors, a list that was taken from it and is empty afterwards.
void mare__monitors_tell(mare_process *process, struct mare__list *monitors);

// Frees those of a process that was never launched, and so can tell nobody.
void mare__monitors_drop(mare_process *process);
