// SPDX-License-Identifier: MIT
// Timers that a program holds. When its time comes, a message goes into the timer's channel, once
// or again and again. A task waits for the time. The timer's owner, which asks and cancels, may be
// on another thread. So the lock guards what both look at.
#include "sched/alarm.h"
#include "base/alloc.h"
#include "sched/runtime.h"
#include "sched/task.h"

struct mare__alarm {
    struct mare__object object;
    struct mare__task task;
    uint64_t at, period;   // period 0: once
    mare__lock lock;       // guards all below
    mare_channel *channel; // made when somebody wants to wait
    bool due;              // its time came before that
    bool over;             // it does not come again: it has come, or was cancelled
    bool cancelled;
};

static struct mare__alarm *alarm_of(struct mare__object *object)
{
    return MARE__ENTRY(object, struct mare__alarm, object);
}

// Puts a message into the channel, which has room for one. If one is there already, nobody has
// noticed the last time yet, and that one is enough. Returns the waiter that the caller wakes when
// it holds no lock any more, or NULL. Asks for no memory.
static struct mare__wait *tell(mare_channel *channel)
{
    struct mare__wait *met;
    mare_message message;
    mare__message_init(&message);
    mare__chan_send_quietly(channel, &message, NULL, &met);
    return met;
}

static bool on_time(struct mare__task *task)
{
    struct mare__alarm *alarm = MARE__ENTRY(task, struct mare__alarm, task);
    struct mare__wait *met = NULL;
    bool comes = task->wait.result == MARE_TIMEOUT;
    mare__lock_acquire(&alarm->lock);
    comes = comes && !alarm->over;
    alarm->over = !comes || !alarm->period; // told under the same lock: who sees that finds it
    alarm->due = comes && !alarm->channel;
    if (comes && alarm->channel)
        met = tell(alarm->channel);
    mare__lock_release(&alarm->lock);
    if (met)
        met->wake(met);
    if (!comes || !alarm->period)
        return false;
    uint64_t now = mare__now(task->runtime);
    alarm->at += alarm->period; // from when it should have been: it does not drift
    if (alarm->at <= now)
        alarm->at += (now - alarm->at) / alarm->period * alarm->period + alarm->period;
    return mare__task_sleep(task, alarm->at);
}

bool mare__alarm_cancel(struct mare__object *object)
{
    struct mare__alarm *alarm = alarm_of(object);
    mare__lock_acquire(&alarm->lock);
    bool over = alarm->over;
    mare_channel *channel = alarm->channel;
    alarm->over = alarm->cancelled = true;
    mare__lock_release(&alarm->lock);
    if (!over)
        mare__task_withdraw(&alarm->task);
    if (channel)
        mare_chan_close(channel);
    return !over;
}

bool mare__alarm_over(struct mare__object *object)
{
    struct mare__alarm *alarm = alarm_of(object);
    mare__lock_acquire(&alarm->lock);
    bool over = alarm->over;
    mare__lock_release(&alarm->lock);
    return over;
}

bool mare__alarm_cancelled(struct mare__object *object)
{
    struct mare__alarm *alarm = alarm_of(object);
    mare__lock_acquire(&alarm->lock);
    bool cancelled = alarm->cancelled;
    mare__lock_release(&alarm->lock);
    return cancelled;
}

static void destroy(struct mare__object *object)
{
    if (!mare__runtime_valid(alarm_of(object)->task.runtime))
        return; // a fork: its threads are not here
    mare__alarm_cancel(object);
    mare__task_release(&alarm_of(object)->task);
}

static void destroy_task(struct mare__object *object)
{
    struct mare__alarm *alarm = MARE__ENTRY(object, struct mare__alarm, task.object);
    if (alarm->channel)
        mare_chan_unref(alarm->channel);
    mare__free(alarm);
}

struct mare__object *mare__alarm_new(mare_runtime *runtime, uint64_t at, uint64_t period)
{
    struct mare__alarm *alarm = mare__alloc_zero(sizeof *alarm);
    if (!alarm)
        return NULL;
    mare__object_init(&alarm->object, MARE__KIND_TIMER, destroy);
    mare__task_init(&alarm->task, runtime, on_time, destroy_task);
    alarm->object.weight = sizeof *alarm;
    alarm->at = at;
    alarm->period = period;
    mare__task_sleep(&alarm->task, at);
    mare__task_start(&alarm->task);
    return &alarm->object;
}

mare_channel *mare__alarm_channel(struct mare__object *object)
{
    struct mare__alarm *alarm = alarm_of(object);
    if (alarm->channel) // only its owner makes one
        return alarm->channel;
    mare_channel *channel = mare__chan_new_event(alarm->task.runtime, 1,
                                                 (struct mare__event){.tells = MARE__TELLS_TIMER});
    if (!channel)
        return NULL;
    mare__lock_acquire(&alarm->lock);
    alarm->channel = channel;
    bool cancelled = alarm->cancelled, due = alarm->due;
    if (due && !cancelled)
        tell(channel); // nobody waits there yet
    mare__lock_release(&alarm->lock);
    if (cancelled)
        mare_chan_close(channel);
    return channel;
}
