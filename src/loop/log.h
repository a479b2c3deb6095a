// SPDX-License-Identifier: MIT
// The log of a runtime: lines wait in a bounded line for a thread that writes them, so that nobody
// is held up by a slow disk or a terminal that stands still. What to log, and how it looks, is
// decided in Lua (lua/mare/log.lua).
#pragma once

#include "sched/sched.h"

struct mare__log;

// The log of a runtime, made on first use. NULL: not enough memory.
struct mare__log *mare__log_of(mare_runtime *runtime);

// A line (copied), with its newline. False: there was no room, and it is lost; that is counted.
bool mare__log_put(struct mare__log *log, const char *line, size_t length);

// Counts a record that is lost for another reason.
void mare__log_lose(struct mare__log *log);

// Later lines go there: standard error if the path is NULL, else a file (see sink.h). `room`
// is how many may wait; `json` how the runtime's own messages are written. False: not enough
// memory.
bool mare__log_direct(struct mare__log *log, const char *path, uint64_t limit, unsigned keep,
                      size_t room, bool json);

// What every process wants to know of it: a message, moved, and a channel (a reference that is
// taken, or NULL) that the program's end closes. The version is another after each change.
void mare__log_set(struct mare__log *log, mare_message *settings, mare_channel *channel);
unsigned long mare__log_version(const struct mare__log *log);

// Pushes the values of the settings; returns their number.
int mare__log_push(lua_State *L, struct mare__log *log);

struct mare__log_counts {
    size_t waiting;
    unsigned long written, lost, unsaid; // `unsaid`: lost since it was last asked for
    int error;                           // the errno value of the last line that was not written
};
void mare__log_count(struct mare__log *log, bool says, struct mare__log_counts *counts);

// Nothing can move any more: closes the channel, so that whoever receives from it ends. False:
// there is none, or it was closed before.
bool mare__log_end(mare_runtime *runtime);
