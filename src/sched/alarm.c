// SPDX-License-Identifier: MIT
// Timers that a program holds: at their time a message goes into a channel of theirs, once or
// again and again. They stand in the same heap as the deadlines of waits.
#include "sched/alarm.h"
#include "base/alloc.h"
#include "sched/timer.h"
#include "sched/worker.h"

struct mare__alarm {
    struct mare__object object;
    atomic_uint holders; // the object, and the heap while it stands there or is being told
    mare_runtime *runtime;
    mare_channel *channel;  // made when somebody wants to wait; under the timers' lock
    bool due;               // its time came before that; under the same
    struct mare__wait wait; // nobody waits with it: its end is the event
    uint64_t at, period;    // period 0: once
    atomic_bool cancelled;
    atomic_uchar last; // below: whether it has come for the last time
};

// Who is told may ask at once, before the one who tells is done.
enum { TO_COME, BEING_TOLD, TOLD };

static void release(struct mare__alarm *alarm)
{
    if (atomic_fetch_sub(&alarm->holders, 1) > 1)
        return;
    if (alarm->channel)
        mare_chan_unref(alarm->channel);
    mare__free(alarm);
}

static void tell(mare_channel *channel)
{
    mare_message message;
    mare__message_init(&message);
    mare__chan_send(channel, &message, NULL);
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
    bool goes_on = alarm->period && wait->result == MARE_TIMEOUT && !atomic_load(&alarm->cancelled);
    mare__lock_acquire(&alarm->runtime->timer_lock);
    mare_channel *channel = alarm->channel;
    alarm->due = !channel;
    if (!goes_on)
        atomic_store(&alarm->last, BEING_TOLD);
    mare__lock_release(&alarm->runtime->timer_lock);
    if (channel && !atomic_load(&alarm->cancelled))
        tell(channel);
    if (!goes_on) {
        atomic_store(&alarm->last, TOLD);
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
    bool first = !atomic_exchange(&alarm->cancelled, true);
    mare__lock_acquire(&alarm->runtime->timer_lock);
    bool mine = mare__wait_claim(&alarm->wait);
    mare_channel *channel = alarm->channel;
    mare__lock_release(&alarm->runtime->timer_lock);
    if (channel)
        mare_chan_close(channel);
    if (mine) { // else it has come, or is coming on another thread, which sees that it was
                // cancelled
        mare__timer_stop(alarm->runtime, &alarm->wait);
        release(alarm);
    }
    return mine || (first && alarm->period); // a periodic one always has a next time
}

bool mare__alarm_over(struct mare__object *object)
{
    struct mare__alarm *alarm = (struct mare__alarm *)object;
    while (atomic_load(&alarm->last) == BEING_TOLD)
        mare__pause(); // for a few instructions of another thread
    return atomic_load(&alarm->last) == TOLD;
}

static void destroy(struct mare__object *object)
{
    mare__alarm_cancel(object);
    release((struct mare__alarm *)object);
}

struct mare__object *mare__alarm_new(mare_runtime *runtime, uint64_t at, uint64_t period)
{
    struct mare__alarm *alarm = mare__alloc_zero(sizeof *alarm);
    if (!alarm)
        return NULL;
    mare__object_init(&alarm->object, MARE__KIND_TIMER, destroy);
    alarm->object.weight = sizeof *alarm;
    atomic_init(&alarm->holders, 2);
    alarm->runtime = runtime;
    alarm->wait.wake = on_time;
    alarm->at = at;
    alarm->period = period;
    start(alarm);
    mare__workers_look(runtime);
    return &alarm->object;
}

mare_channel *mare__alarm_channel(struct mare__object *object)
{
    struct mare__alarm *alarm = (struct mare__alarm *)object;
    if (alarm->channel) // only its owner makes one
        return alarm->channel;
    mare_channel *channel = mare__chan_new(alarm->runtime, 1);
    if (!channel)
        return NULL;
    mare__lock_acquire(&alarm->runtime->timer_lock);
    alarm->channel = channel;
    bool due = alarm->due;
    mare__lock_release(&alarm->runtime->timer_lock);
    if (atomic_load(&alarm->cancelled))
        mare_chan_close(channel);
    else if (due)
        tell(channel);
    return channel;
}
