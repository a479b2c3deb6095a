// SPDX-License-Identifier: MIT
// Two transports joined in memory: what is written to one is read from the other. For programs that
// talk to themselves, and for tests of code that talks over streams.
#pragma once

#include "platform/transport.h"
#include "sched/sched.h"

// Makes a pair, and returns one end. Each way has room for so many bytes, at least 1; a writer
// waits while there is none. NULL: not enough memory.
struct mare__transport *mare__pair_new(mare_runtime *runtime, size_t room);

// The other end, for the one that will own it. Call it once, before either end is used.
struct mare__transport *mare__pair_other(struct mare__transport *end);
