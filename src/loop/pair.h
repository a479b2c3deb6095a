// SPDX-License-Identifier: MIT
// Two transports joined in memory: what is written to one is read from the other. For programs that
// talk to themselves, and for tests of whatever talks over streams.
#pragma once

#include "platform/transport.h"
#include "sched/sched.h"

// One end. Each way has room for so many bytes, at least 1: then who writes must wait. NULL: not
// enough memory.
struct mare__transport *mare__pair_new(mare_runtime *runtime, size_t room);

// The other end, for whoever wants to own it. Once, before either end is used.
struct mare__transport *mare__pair_other(struct mare__transport *end);
