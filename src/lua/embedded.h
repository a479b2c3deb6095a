// SPDX-License-Identifier: MIT
// The Lua modules that the binary carries, made from lua/ by tools/embed.py and sorted by name.
#pragma once

#include <stddef.h>

struct mare__embedded {
    const char *name; // as for require: "mare.rpc"
    const char *source;
    size_t length;
};

extern const struct mare__embedded mare__embedded[];
extern const size_t mare__embedded_count;
