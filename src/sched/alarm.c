// SPDX-License-Identifier: MIT
// Timers that a program holds: at their time a message goes into a channel of theirs, once or
// again and again. They stand in the same heap as the deadlines of waits.
#include "base/alloc.h"
#include "sched/sched.h"

struct mare__alarm {
    struct mare__object object;
    atomic_uint holders; // the object, and the heap while it stands there or is being told
    mare_runtime *runtime;
    mare_channel *channel;
    struct mare__wait wait; // nobody waits with it: its end is the event
    uint64_t at, period;    // period 0: once
    atomic_bool cancelled;
};

static void release(struct mare__alarm *alarm)
{
    if (atomic_fetch_sub(&alarm->holders, 1) > 1)
        return;
    mare_chan_unref(alarm->channel);
    mare__free(alarm);
}

static void start(struct mare__alarm *alarm)
{
    mare_runtime *runtime = alarm->runtime;
    mare__lock_acquire(&runtime->timer_lock); // who ends it needs this lock first
    mare__wait_begin(&alarm->wait);
    mare__wait_publish(&alarm->wait);
    mare__timer_start(runtime, &alarm->wait, alarm->at);
    mare__lock_release(&runtime->timer_lock);
}

// Its time has come. A tick that nobody has taken note of yet is enough: it is not told twice.
static void on_time(struct mare__wait *wait)
{
    struct mare__alarm *alarm = MARE__ENTRY(wait, struct mare__alarm, wait);
    mare_message message;
    mare__message_init(&message);
    bool goes_on = alarm->period && wait->result == MARE_TIMEOUT && !atomic_load(&alarm->cancelled);
    if (!atomic_load(&alarm->cancelled))
        mare__chan_send(alarm->channel, &message, NULL);
    if (!goes_on) {
        release(alarm);
        return;
    }
    uint64_t now = mare__now(alarm->runtime);
    alarm->at += alarm->period; // from when it should have been: it does not drift
    if (alarm->at <= now)
        alarm->at += (now - alarm->at) / alarm->period * alarm->period + alarm->period;
    start(alarm);
    if (atomic_load(&alarm->cancelled)) // meanwhile
        mare__alarm_cancel(&alarm->object);
}

bool mare__alarm_cancel(struct mare__object *object)
{
    struct mare__alarm *alarm = (struct mare__alarm *)object;
    atomic_store(&alarm->cancelled, true);
    mare__lock_acquire(&alarm->runtime->timer_lock);
    bool mine = mare__wait_claim(&alarm->wait);
    mare__lock_release(&alarm->runtime->timer_lock);
    if (!mine) // it has come, or is coming on another thread, which sees that it was cancelled
        return false;
    mare__timer_stop(alarm->runtime, &alarm->wait);
    release(alarm);
    return true;
}

static void destroy(struct mare__object *object)
{
    mare__alarm_cancel(object);
    release((struct mare__alarm *)object);
}

struct mare__object *mare__alarm_new(mare_runtime *runtime, uint64_t at, uint64_t period)
{
    struct mare__alarm *alarm = mare__alloc_zero(sizeof *alarm);
    mare_channel *channel = alarm ? mare__chan_new(runtime, 1) : NULL;
    if (!channel) {
        mare__free(alarm);
        return NULL;
    }
    mare__object_init(&alarm->object, MARE__KIND_TIMER, destroy);
    alarm->object.weight = sizeof *alarm + sizeof *channel;
    atomic_init(&alarm->holders, 2);
    alarm->runtime = runtime;
    alarm->channel = channel;
    alarm->wait.wake = on_time;
    alarm->at = at;
    alarm->period = period;
    start(alarm);
    mare__workers_look(runtime);
    return &alarm->object;
}

mare_channel *mare__alarm_channel(struct mare__object *object)
{
    return ((struct mare__alarm *)object)->channel;
}
