// SPDX-License-Identifier: MIT
// Links and monitors: who is told of the end of a process, and what it does to them.
//
// A link is two structures, one in the list of each side. Whoever ends first takes its list along;
// the other side's goes when it is told, or when it ends itself. Lists are guarded by the lock of
// their process; nobody holds two of these locks.
#include <stdio.h>

#include "base/alloc.h"
#include "sched/process.h"
#include "sched/ties.h"

static const char *how_word(mare_err how)
{
    return how == MARE_OK || how == MARE_BADMSG ? "normal" : how == MARE_KILLED ? "killed" : "died";
}

// Tells a monitor: process, how, error, traceback.
static void tell(mare_process *process, mare_channel *channel)
{
    mare_message message;
    mare_value self = {.type = MARE_PROCESS, .as.process = process};
    mare__message_init(&message); // if there is no memory, it stays shorter
    mare_message_add(&message, &self);
    mare_message_add_string(&message, how_word(process->how));
    if (process->how == MARE_KILLED && process->kill_reason)
        mare_message_add_string(&message, process->kill_reason);
    else if (process->how != MARE_OK && process->how != MARE_KILLED) {
        mare__message_join(&message, &process->sleep.wait.message);
    }
    mare__message_stamp(&message, mare__message_stamp_of(&process->sleep.wait.message));
    mare__chan_post(channel, &message);
}

void mare__ties_tell(mare_process *process, struct mare__list *ties)
{
    char reason[512];
    mare_value error = {.type = MARE_NIL};
    if (process->how == MARE_DIED)
        mare_message_get(&process->sleep.wait.message,
                         process->sleep.wait.message.count > 2 ? 2 : 0, &error);
    bool text = error.type == MARE_STRING;
    snprintf(reason, sizeof reason, "linked process %llu %s%s%.*s", (unsigned long long)process->id,
             process->how == MARE_KILLED ? "was killed" : how_word(process->how), text ? ": " : "",
             text ? (int)error.as.string.length : 0, text ? error.as.string.bytes : "");
    struct mare__list *at;
    while ((at = mare__list_first(ties)) != NULL) {
        struct mare__tie *tie = MARE__ENTRY(at, struct mare__tie, entry);
        mare__list_remove(at);
        if (process->how == MARE_OK || process->how == MARE_BADMSG)
            mare__process_untie(tie->other, process);
        else
            mare__process_kill(tie->other, reason);
        mare_process_unref(tie->other);
        mare__free(tie);
    }
}

void mare__monitors_tell(mare_process *process, struct mare__list *monitors)
{
    struct mare__list *at;
    while ((at = mare__list_first(monitors)) != NULL) {
        struct mare__monitor *monitor = MARE__ENTRY(at, struct mare__monitor, entry);
        mare__list_remove(at);
        tell(process, monitor->channel);
        mare_chan_unref(monitor->channel);
        mare__free(monitor);
    }
}

void mare__ties_drop(mare_process *process)
{
    struct mare__list *at;
    while ((at = mare__list_first(&process->ties)) != NULL) {
        struct mare__tie *tie = MARE__ENTRY(at, struct mare__tie, entry);
        mare__list_remove(at);
        mare_process_unref(tie->other);
        mare__free(tie);
    }
    while ((at = mare__list_first(&process->monitors)) != NULL) {
        struct mare__monitor *monitor = MARE__ENTRY(at, struct mare__monitor, entry);
        mare__list_remove(at);
        mare_chan_unref(monitor->channel);
        mare__free(monitor);
    }
}

// ---- Made and undone ----------------------------------------------------------------------------

// Adds a tie on one side; `ended` tells that this side has finished, and how.
static void attach(mare_process *process, struct mare__tie *tie, bool *ended)
{
    mare__lock_acquire(&process->lock);
    *ended = process->finished;
    if (!*ended)
        mare__list_append(&process->ties, &tie->entry);
    mare__lock_release(&process->lock);
}

bool mare__process_tie(mare_process *a, mare_process *b)
{
    if (a == b)
        return true;
    mare__process_untie(a, b); // one tie is enough
    struct mare__tie *to_b = mare__alloc(sizeof *to_b), *to_a = mare__alloc(sizeof *to_a);
    if (!to_a || !to_b) {
        mare__free(to_a);
        mare__free(to_b);
        return false;
    }
    *to_b = (struct mare__tie){.other = mare_process_ref(b)};
    *to_a = (struct mare__tie){.other = mare_process_ref(a)};
    bool a_ended, b_ended;
    attach(a, to_b, &a_ended);
    attach(b, to_a, &b_ended);
    if (a_ended) {
        mare__free(to_b);
        mare_process_unref(b);
    }
    if (b_ended) {
        mare__free(to_a);
        mare_process_unref(a);
        mare__process_observed(b);
        if (b->how != MARE_OK && b->how != MARE_BADMSG)
            mare__process_kill(a, "linked to a process that had died");
        mare__process_untie(a, b);
    }
    return true;
}

static void detach(mare_process *process, mare_process *other)
{
    struct mare__tie *found = NULL;
    mare__lock_acquire(&process->lock);
    for (struct mare__list *l = process->ties.next; l != &process->ties && !found; l = l->next) {
        struct mare__tie *tie = MARE__ENTRY(l, struct mare__tie, entry);
        if (tie->other == other)
            found = tie;
    }
    if (found)
        mare__list_remove(&found->entry);
    mare__lock_release(&process->lock);
    if (found) {
        mare_process_unref(found->other);
        mare__free(found);
    }
}

void mare__process_untie(mare_process *a, mare_process *b)
{
    detach(a, b);
    detach(b, a);
}

bool mare__process_monitor(mare_process *process, mare_channel *channel)
{
    struct mare__monitor *monitor = mare__alloc(sizeof *monitor);
    if (!monitor)
        return false;
    monitor->channel = mare_chan_ref(channel);
    mare__lock_acquire(&process->lock);
    bool finished = process->finished;
    if (!finished)
        mare__list_append(&process->monitors, &monitor->entry);
    mare__lock_release(&process->lock);
    if (finished) {
        mare__process_observed(process);
        tell(process, channel);
        mare_chan_unref(channel);
        mare__free(monitor);
    }
    return true;
}
