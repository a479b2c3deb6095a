// SPDX-License-Identifier: MIT
// The log of a runtime. Lines wait in a bounded queue for a thread that writes them. So a slow
// disk, or a terminal that has stopped, holds up nobody. lua/mare/log.lua decides what is logged
// and how it looks.
#pragma once

#include "sched/sched.h"

enum { MARE__LOG_WHY = 256 }; // the most bytes of the reason for a loss

struct mare__log;

// The log of a runtime, made on first use. NULL: not enough memory.
struct mare__log *mare__log_of(mare_runtime *runtime);

// Puts a line (copied), with its newline, into the queue. `says` is 0, or the number of losses that
// this line tells of: if this line is lost too, they will be told again. False: there was no room;
// the line is lost and counted.
bool mare__log_put(struct mare__log *log, const char *line, size_t length, unsigned long says);

// Counts a record that was lost for another reason: `why`, or NULL. `says` as above.
void mare__log_lose(struct mare__log *log, unsigned long says, const char *why);

// Sends later lines to standard error if the path is NULL, else to a file (see sink.h). `room`: how
// many may wait; `json`: how the runtime's own messages are written. False: not enough memory.
bool mare__log_direct(struct mare__log *log, const char *path, uint64_t limit, unsigned keep,
                      size_t room, bool json);

// Sets what every process needs to know of the log: a message, which is moved, and a channel (a
// reference that is taken over, or NULL) that the end of the program closes. Each change makes a
// new version.
void mare__log_set(struct mare__log *log, mare_message *settings, mare_channel *channel);
unsigned long mare__log_version(const struct mare__log *log);

// Pushes the values of the settings; returns their number.
int mare__log_push(lua_State *L, struct mare__log *log);

struct mare__log_counts {
    size_t waiting;
    unsigned long written, lost, unsaid; // `unsaid`: lost since the last call
    char why[MARE__LOG_WHY];             // why the last one was lost, if that is known; else ""
};
void mare__log_count(struct mare__log *log, bool says, struct mare__log_counts *counts);

// Nothing in the program can move any more: closes the channel, so that its receiver ends. False:
// there is none, or it was closed before.
bool mare__log_end(mare_runtime *runtime);
