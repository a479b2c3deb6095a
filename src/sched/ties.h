// SPDX-License-Identifier: MIT
// What the end of a process asks of its links and monitors. How they are made is in process.h.
#pragma once

#include "sched/sched.h"

// Kills the linked, or unties them from a process that ended well; tells the monitors. The process
// has ended, and the lists, which are empty afterwards, were taken from it: no lock is held.
void mare__ties_tell(mare_process *process, struct mare__list *links);
void mare__monitors_tell(mare_process *process, struct mare__list *monitors);

// Frees those of a process that was never launched, and so can tell nobody.
void mare__ties_drop(mare_process *process);
