// SPDX-License-Identifier: MIT
// For callers that are not processes of Maré: C programs, and the Lua states of a host.
#pragma once

#include "sched/sched.h"

// A new channel, registered if it has a name.
mare_err mare__chan_create(mare_runtime *runtime, size_t capacity, const char *name,
                           mare_channel **out);

// The same, of a box: what another node sends to it begins with that node's name, which the node
// has proved. Other nodes neither receive from it nor close it.
mare_err mare__chan_create_box(mare_runtime *runtime, size_t capacity, const char *name,
                               mare_channel **out);

// Sends to a process, receives from one, as mare_chan_send_until and mare_chan_receive_until do; or
// MARE_DIED: the process has ended, and nobody else will come. (What it has sent is received.)
mare_err mare__send_to(mare_process *process, mare_channel *channel, mare_message *message,
                       uint64_t deadline);
mare_err mare__receive_of(mare_process *process, mare_channel *channel, uint64_t deadline,
                          mare_message **out);

// Something that stands for a Lua state which is not ours, so that it can use the bindings: its
// thread sleeps in `parker`.
struct mare__local *mare__host_open(mare_runtime *runtime, struct mare__parker *parker);
void mare__host_wake(struct mare__wait *wait);

// Runs a C function with a light userdata in a state that is thrown away, to marshal what a new
// process starts with. On failure `*error` (if not NULL) is a string to free: MARE_SYNTAX,
// MARE_NOMEM.
mare_err mare__compile(struct mare__local *process, lua_CFunction function, void *argument,
                       char **error);
