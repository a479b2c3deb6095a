// SPDX-License-Identifier: MIT
// A name of a host being looked up, or the name of an address.
#pragma once

#include "loop/observer.h"
#include "platform/names.h"

struct mare__inquiry {
    struct mare__object object; // referred to by who asked, and by the loop
    struct mare__request request;
    struct mare__naming naming;
    mare_channel *done; // gets a message when it has been answered
    char host[];        // empty: what is asked for is the name of naming.addresses[0]
};

// An inquiry that has not begun; the caller fills in what `naming` needs to know. NULL: not enough
// memory.
struct mare__inquiry *mare__inquiry_new(mare_runtime *runtime, const char *host);

// False: not enough memory.
bool mare__inquiry_start(mare_runtime *runtime, struct mare__inquiry *inquiry);
