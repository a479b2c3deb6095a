// SPDX-License-Identifier: MIT
// Watches for signals. The handler (src/platform/signal.c) makes a descriptor readable; a task
// waits for that, and turns what has come into messages:
//
//     handler --> eventfd --> observer --> [task] --> channel of the watch --> whoever waits there
//
// Only the task reads from the descriptor and closes it. To close the watch is to cancel the task.
#include "loop/signal.h"

#include <errno.h>

#include "base/alloc.h"
#include "platform/signal.h"
#include "sched/runtime.h"

static void destroy_task(struct mare__object *object)
{
    struct mare__signals *signals = MARE__ENTRY(object, struct mare__signals, task.object);
    for (int way = 0; way < MARE__WAYS; way++)
        if (signals->observed.ready[way])
            mare_chan_unref(signals->observed.ready[way]);
    mare_chan_unref(signals->come);
    mare__free(signals);
}

static void on_closed(struct mare__observed *observed)
{
    mare__task_release(&MARE__ENTRY(observed, struct mare__signals, observed)->task);
}

// A signal that is in the channel already stands for this one too, as it does in the operating
// system. So each number is there once at most, and there is always room.
static void tell(struct mare__signals *signals, int number)
{
    mare_message message;
    uint64_t bit = UINT64_C(1) << number;
    if (atomic_fetch_or(&signals->queued, bit) & bit)
        return;
    mare__message_init(&message);
    if (mare_message_add_integer(&message, number) != MARE_OK ||
        mare__chan_send(signals->come, &message, NULL) != MARE_OK)
        atomic_fetch_and(&signals->queued, ~bit); // the channel is closed
    mare__message_clear(&message);
}

// Tells what has come, and waits for more. The channel to wait in exists: the first wait made it,
// before anybody could see the watch.
static bool pass_on(struct mare__task *task)
{
    struct mare__signals *signals = MARE__ENTRY(task, struct mare__signals, task);
    mare__message_clear(&task->wait.message);
    if (task->wait.result != MARE_OK) {
        mare__observed_close(&signals->observed);
        return false;
    }
    for (int number; (number = mare__signal_take(signals->observed.fd)) > 0;)
        tell(signals, number);
    return mare__task_receive(
        task, mare__observed_await(task->runtime, &signals->observed, MARE__TO_READ), MARE_FOREVER);
}

bool mare__signals_close(struct mare__signals *signals)
{
    if (atomic_exchange(&signals->closed, true))
        return false;
    mare__signal_forget(signals->observed.fd); // now; the task closes the descriptor later
    mare_chan_close(signals->come);
    mare__task_cancel(&signals->task);
    return true;
}

static void destroy(struct mare__object *object)
{
    struct mare__signals *signals = (struct mare__signals *)object;
    if (!mare__runtime_valid(signals->task.runtime))
        return; // after a fork: the threads are in the other process
    mare__signals_close(signals);
    mare__task_release(&signals->task);
}

int mare__signals_taken(struct mare__signals *signals, mare_message *message)
{
    mare_value value = {.type = MARE_NIL};
    mare_message_get(message, 0, &value);
    mare__message_clear(message);
    if (value.type != MARE_INTEGER)
        return 0;
    atomic_fetch_and(&signals->queued, ~(UINT64_C(1) << value.as.integer));
    return (int)value.as.integer;
}

int mare__signals_open(mare_runtime *runtime, uint64_t set, struct mare__signals **out)
{
    struct mare__signals *signals = mare__alloc_zero(sizeof *signals);
    size_t different = (size_t)__builtin_popcountll(set);
    mare_channel *come = signals ? mare__chan_new_whole(runtime, different) : NULL;
    int fd = come ? mare__signal_listen(set) : -ENOMEM;
    if (fd < 0) {
        if (come)
            mare_chan_unref(come);
        mare__free(signals);
        return fd;
    }
    come->event = (struct mare__event){.tells = MARE__TELLS_SIGNAL};
    mare__object_init(&signals->object, MARE__KIND_SIGNALS, destroy);
    mare__task_init(&signals->task, runtime, pass_on, destroy_task);
    signals->object.weight = sizeof *signals + 2 * sizeof(mare_channel);
    signals->come = come;
    signals->timeout = MARE_FOREVER;
    mare__observed_init(&signals->observed, fd, on_closed);
    mare__task_hold(&signals->task);
    mare_channel *ready = mare__observed_await(runtime, &signals->observed, MARE__TO_READ);
    if (!ready) {
        mare__signal_forget(fd);
        mare__observed_close(&signals->observed);
        mare__task_release(&signals->task);
        return -ENOMEM;
    }
    mare__task_receive(&signals->task, ready, MARE_FOREVER);
    mare__task_start(&signals->task);
    *out = signals;
    return 0;
}
