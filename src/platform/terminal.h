// SPDX-License-Identifier: MIT
// The terminal of the program: its input, its size, its modes.
// Functions return 0 or a descriptor; failures are errno values, negated.
#pragma once

#include <signal.h>
#include <stdbool.h>

// A descriptor for standard input that never blocks. Standard input itself stays as it is, because
// other programs, such as the shell, share it.
int mare__terminal_input(void);

bool mare__terminal_is(int fd);
int mare__terminal_size(int fd, int *columns, int *rows);

// USUAL: as it was in the beginning. QUIET: what is typed is not shown. RAW: what is typed comes at
// once, key by key, and means nothing to the terminal; output is as usual. The mode is the whole
// program's. However the program ends, if it can do anything then, it is USUAL again.
enum mare__terminal_mode { MARE__TERMINAL_USUAL, MARE__TERMINAL_QUIET, MARE__TERMINAL_RAW };
int mare__terminal_set(enum mare__terminal_mode mode);

// Restores the first mode, where the program ends without running anything else. A signal handler
// may call it.
void mare__terminal_restore(void);

// Restores the action that a signal had, for code that took the signal over. A signal that ends the
// program may have to restore the terminal first; whether it must can have changed meanwhile.
void mare__terminal_give_back(int number, const struct sigaction *before);
