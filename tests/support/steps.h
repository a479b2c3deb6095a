// SPDX-License-Identifier: MIT
// How much work a program does, in steps: pieces of code without a branch that were run, and lines
// of the cache that were copied. Not time: a busy machine does not change it. The program is
// compiled so that each such piece calls steps.c (see tests/meson.build).
#pragma once

// All since the program began, on all threads.
unsigned long steps_made(void);
