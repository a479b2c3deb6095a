// SPDX-License-Identifier: MIT
// Bytes that nobody else should see: private keys, and keys that two sides share. A Lua string
// cannot be wiped, and is copied by whoever handles it. So these bytes stay outside Lua, in one
// place, and are wiped when the last reference is given back.
#pragma once

#include <stddef.h>

#include "base/object.h"

struct mare__secret {
    struct mare__object object;
    size_t size;
    char bytes[]; // and a zero byte behind them
};

// One of that size, which the caller fills in and owns. NULL: not enough memory.
struct mare__secret *mare__secret_new(size_t size);

// Copies bytes one by one. memcpy would leave them in registers of the processor, and from there
// they come onto stacks: by a signal, or when the dynamic linker looks up a function. Returns where
// the copy ends.
void *mare__secret_copy(void *to, const void *from, size_t size);

// Whether two are the same, in a time that depends on their sizes alone.
bool mare__secret_equal(const void *a, size_t a_size, const void *b, size_t b_size);
