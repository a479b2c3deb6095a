// SPDX-License-Identifier: MIT
// Pieces of the live platform that are in files of their own.
#pragma once

#include "platform/platform.h"

int mare__live_tick_init(void *context, struct mare__tick *tick, void (*handler)(void *),
                         void *argument);
void mare__live_tick_set(void *context, struct mare__tick *tick, uint64_t period_ns);
void mare__live_tick_fini(void *context, struct mare__tick *tick);
