// SPDX-License-Identifier: MIT
// Points at which a listener hears what processes do: see mare_trace. While nobody listens, a point
// is one load and a branch that is not taken; what comes after it is out of the way.
#pragma once

#include "sched/sched.h"

#define MARE__COLD __attribute__((cold, noinline))

// Tell the listener, if there is one, what a process does: with a channel (may be NULL), or with a
// message on its way. A message that is sent carries the number of its event. A message that was
// received from no channel is about the end of another process.
MARE__COLD void mare__tell_of(const struct mare__local *process, mare_event_kind kind,
                              const mare_channel *channel);
MARE__COLD void mare__tell_of_send(const struct mare__local *process, const mare_channel *channel,
                                   mare_message *message);
MARE__COLD void mare__tell_of_receive(const struct mare__local *process,
                                      const mare_channel *channel, const mare_message *message);

static inline void mare__trace_block(const struct mare__local *process, const mare_channel *channel)
{
    if (mare__traced(process))
        mare__tell_of(process, MARE_EVENT_BLOCK, channel);
}

static inline void mare__trace_wake(const struct mare__local *process)
{
    if (mare__traced(process))
        mare__tell_of(process, MARE_EVENT_WAKE, NULL);
}

static inline void mare__trace_send(const struct mare__local *process, const mare_channel *channel,
                                    mare_message *message)
{
    if (mare__traced(process))
        mare__tell_of_send(process, channel, message);
}

static inline void mare__trace_receive(const struct mare__local *process,
                                       const mare_channel *channel, const mare_message *message)
{
    if (mare__traced(process))
        mare__tell_of_receive(process, channel, message);
}

// The same by a thread that is no process.
void mare__trace_send_outside(const mare_channel *channel, mare_message *message);
void mare__trace_receive_outside(mare_runtime *runtime, const mare_channel *channel,
                                 const mare_message *message);

// A process is made, starts to run, and ends. The first and the last event leave their number in
// the process's message. Its first run finds it there, and so do those that hear of its end.
void mare__trace_spawn(struct mare__local *process);
void mare__trace_start(struct mare__local *process);
void mare__trace_end(struct mare__local *process);

// The program is a node now, which has a name and a life (its incarnation).
void mare__trace_node(mare_runtime *runtime, const char *name, uint64_t life);

// A message of that node is here, as its event of this number told. Returns the number of its
// arrival, for the message; 0: nobody listens.
uint64_t mare__trace_arrive(mare_runtime *runtime, const char *node, uint64_t life,
                            uint64_t channel, uint64_t number);

// The number that a message takes along to another node, or 0.
static inline uint64_t mare__trace_number(const mare_runtime *runtime, const mare_message *message)
{
    return atomic_load(&runtime->trace.on) ? mare__message_stamp_of(message) : 0;
}
