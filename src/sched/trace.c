// SPDX-License-Identifier: MIT
// Events are numbered and told one at a time, under a mutex: so their numbers rise along every
// chain of causes, a listener needs no lock of its own, and after mare_trace has returned the
// former one is not called any more. The number of a send travels in bytes of the message that were
// unused; to another node it goes before the message (src/node/message.c). What arrives from there
// raises our own number beyond it: Lamport's clock (1978), which ticks with every event.
#include "sched/trace.h"
#include "sched/runtime.h"

const char *mare_event_name(mare_event_kind kind)
{
    static const char *const names[] = {
#define NAME(symbol, word) word,
        MARE_EVENTS(NAME)
#undef NAME
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

// Tells every process whether somebody listens. One launched meanwhile looks at `on` itself, under
// the lock under which it comes to the others.
static void tell_processes(mare_runtime *runtime)
{
    struct mare__visit visit;
    struct mare__local *process;
    mare__visit_begin(&visit, runtime);
    while ((process = mare__visit_next(&visit)) != NULL) {
        bool on;
        do { // again if another thread has changed it, and may have told this process before us
            on = atomic_load(&runtime->trace.on);
            atomic_store(&process->traced, on);
        } while (on != atomic_load(&runtime->trace.on));
        mare_process_unref(&process->shared);
    }
    mare__visit_end(&visit);
}

void mare_trace(mare_runtime *runtime, mare_listener *listener, void *user)
{
    if (!mare__runtime_valid(runtime))
        return;
    struct mare__trace *trace = &runtime->trace;
    pthread_mutex_lock(&trace->mutex);
    trace->listener = listener;
    trace->user = user;
    atomic_store(&trace->on, listener != NULL);
    pthread_mutex_unlock(&trace->mutex);
    char name[sizeof runtime->node_name];
    mare__lock_acquire(&runtime->process_lock);
    uint64_t life = runtime->node_life;
    strcpy(name, runtime->node_name);
    mare__lock_release(&runtime->process_lock);
    tell_processes(runtime);
    if (name[0])
        mare__trace_node(runtime, name, life);
}

// A peer that says it is so many events further on than we are does not tell the truth. We would
// soon have no numbers left: a message has 40 bits for its own.
#define MARE__TRACE_LEAP (UINT64_C(1) << 32)

// Returns the event's number, or 0 when nobody listens any more.
static uint64_t tell(mare_runtime *runtime, mare_event event)
{
    struct mare__trace *trace = &runtime->trace;
    pthread_mutex_lock(&trace->mutex);
    if (trace->listener) {
        if (event.kind == MARE_EVENT_ARRIVE && event.cause > trace->last &&
            event.cause - trace->last < MARE__TRACE_LEAP)
            trace->last = event.cause;
        event.number = ++trace->last;
        event.time_ns = mare__now(runtime);
        trace->listener(trace->user, &event);
    }
    pthread_mutex_unlock(&trace->mutex);
    return event.number;
}

void mare__tell_of(const struct mare__local *process, mare_event_kind kind,
                   const mare_channel *channel)
{
    tell(process->shared.runtime, (mare_event){.kind = kind,
                                               .process = process->shared.id,
                                               .channel = channel ? channel->id : 0,
                                               .name = channel ? channel->name : NULL});
}

// `process` is 0 for a thread that is not a process.
static void tell_of_send(mare_runtime *runtime, uint64_t process, const mare_channel *channel,
                         mare_message *message)
{
    mare_event event = {
        .kind = MARE_EVENT_SEND, .process = process, .channel = channel->id, .name = channel->name};
    mare__message_stamp(message, tell(runtime, event));
}

static void tell_of_receive(mare_runtime *runtime, uint64_t process, const mare_channel *channel,
                            const mare_message *message)
{
    tell(runtime, (mare_event){.kind = MARE_EVENT_RECEIVE,
                               .process = process,
                               .channel = channel ? channel->id : 0,
                               .name = channel ? channel->name : NULL,
                               .cause = mare__message_stamp_of(message)});
}

void mare__tell_of_send(const struct mare__local *process, const mare_channel *channel,
                        mare_message *message)
{
    tell_of_send(process->shared.runtime, process->shared.id, channel, message);
}

void mare__tell_of_receive(const struct mare__local *process, const mare_channel *channel,
                           const mare_message *message)
{
    tell_of_receive(process->shared.runtime, process->shared.id, channel, message);
}

void mare__trace_send_outside(const mare_channel *channel, mare_message *message)
{
    mare__message_stamp(message, 0); // it may have that of an attempt before
    if (atomic_load(&channel->runtime->trace.on))
        tell_of_send(channel->runtime, 0, channel, message);
}

void mare__trace_receive_outside(mare_runtime *runtime, const mare_channel *channel,
                                 const mare_message *message)
{
    if (atomic_load(&runtime->trace.on))
        tell_of_receive(runtime, 0, channel, message);
}

void mare__trace_spawn(struct mare__local *process)
{
    mare_runtime *runtime = process->shared.runtime;
    if (!atomic_load(&runtime->trace.on))
        return;
    struct mare__worker *worker = mare__this_worker();
    const struct mare__local *parent =
        worker && worker->runtime == runtime ? worker->running : NULL;
    mare_event event = {.kind = MARE_EVENT_SPAWN,
                        .process = parent ? parent->shared.id : 0,
                        .other = process->shared.id};
    mare__message_stamp(&process->sleep.wait.message, tell(runtime, event));
}

void mare__trace_start(struct mare__local *process)
{
    if (mare__traced(process))
        tell(process->shared.runtime,
             (mare_event){.kind = MARE_EVENT_START,
                          .process = process->shared.id,
                          .cause = mare__message_stamp_of(&process->sleep.wait.message),
                          .name = process->shared.name});
}

void mare__trace_end(struct mare__local *process)
{
    mare_event event = {.kind = MARE_EVENT_END, .process = process->shared.id};
    uint64_t number = mare__traced(process) ? tell(process->shared.runtime, event) : 0;
    mare__message_stamp(&process->sleep.wait.message, number); // what it had was of something else
}

void mare__trace_node(mare_runtime *runtime, const char *name, uint64_t life)
{
    if (atomic_load(&runtime->trace.on))
        tell(runtime, (mare_event){.kind = MARE_EVENT_NODE, .other = life, .name = name});
}

uint64_t mare__trace_arrive(mare_runtime *runtime, const char *node, uint64_t life,
                            uint64_t channel, uint64_t number)
{
    if (!atomic_load(&runtime->trace.on))
        return 0;
    return tell(runtime, (mare_event){.kind = MARE_EVENT_ARRIVE,
                                      .channel = channel,
                                      .other = life,
                                      .cause = number,
                                      .name = node});
}
