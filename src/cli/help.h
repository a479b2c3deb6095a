// SPDX-License-Identifier: MIT
// The functions that docs/reference describes; made by tools/help.py.
#pragma once

#include <stddef.h>

struct mare__help {
    const char *names; // " mare.spawn spawn ": a space before and after each
    const char *text;  // how it is called, and what it does
};

extern const struct mare__help mare__help[];
extern const size_t mare__help_count;
