// SPDX-License-Identifier: MIT
// The operating system's signals: their names, sending them, and watching for them. A watch is a
// descriptor that is readable when one of its signals has come.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The number of a signal by its name, with or without "SIG"; 0: there is none of that name.
int mare__signal_number(const char *name);

// Its name, or NULL.
const char *mare__signal_name(int number);

// Sends a signal (0: only asks whether it could be) to an operating-system process. Returns 0, or
// an errno value, negated.
int mare__signal_send(long process, int number);

// Why a signal cannot be watched, or NULL.
const char *mare__signal_refusal(int number);

enum { MARE__SIGNAL_LISTENERS = 256 }; // in a program, at a time

// A new watch for the signals in the set (bit n: signal n), or an errno value, negated. While a
// signal is watched it does nothing else; then again what it did before. -ENOSPC: too many.
int mare__signal_listen(uint64_t set);

// The next of the signals that have come, or 0: then the descriptor is not readable until one
// does; or it was given up.
int mare__signal_take(int fd);

// Gives it up, before the descriptor is closed.
void mare__signal_forget(int fd);
