// SPDX-License-Identifier: MIT
// A name of a host being looked up, or the name of an address, by a thread of the pool.
#pragma once

#include "loop/job.h"
#include "platform/names.h"

struct mare__inquiry {
    struct mare__job job;
    struct mare__naming naming;
    char host[]; // empty: what is asked for is the name of naming.addresses[0]
};

// An inquiry that has not begun; the caller fills in what `naming` needs to know, and starts the
// job. NULL: not enough memory.
struct mare__inquiry *mare__inquiry_new(mare_runtime *runtime, const char *host);
