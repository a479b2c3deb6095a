// SPDX-License-Identifier: MIT
// Links and monitors: who is told of the end of a process, and what it does to them.
//
// A link is one block with two ends. Each end is in the index of its process, under the number of
// the other, so that one with very many links finds any of them in a few steps. Both ends come and
// go together, while the locks of both processes are held, the one with the lower address first. So
// there are never two links between the same two processes, nor half of one, even if both make,
// undo and end at the same time. A process that has finished gets no new links, and undoes its last
// ones one after the other.
//
// The process that makes a link or a monitor pays for it until it is gone.
//
// What a monitor is told has its room from the start: it comes when there is no memory, too, if
// need be without the error and its traceback.
#include <stdio.h>

#include "base/alloc.h"
#include "sched/process.h"
#include "sched/ties.h"

static const char *how_word(mare_err how)
{
    if (how == MARE_OK || how == MARE_BADMSG)
        return "normal";
    return how == MARE_KILLED ? "killed" : how == MARE_NONODE ? "nonode" : "died";
}

// A block that the process that runs here pays for.
static void *make(size_t size, struct mare__account **payer)
{
    *payer = NULL;
    if (mare__paying && !mare__account_take(mare__paying, size))
        return NULL;
    void *block = mare__alloc_zero(size);
    if (block && mare__paying)
        *payer = mare__account_ref(mare__paying);
    else if (mare__paying)
        mare__account_give(mare__paying, size);
    return block;
}

static void unmake(void *block, size_t size, struct mare__account *payer)
{
    mare__free(block);
    if (payer) {
        mare__account_give(payer, size);
        mare__account_unref(payer);
    }
}

// ---- Links --------------------------------------------------------------------------------------

static void lock_both(mare_process *a, mare_process *b)
{
    mare__lock_acquire(a < b ? &a->lock : &b->lock);
    mare__lock_acquire(a < b ? &b->lock : &a->lock);
}

static void unlock_both(mare_process *a, mare_process *b)
{
    mare__lock_release(&a->lock);
    mare__lock_release(&b->lock);
}

// Whether it ended in a way that its linked ones do not survive. It has finished.
static bool ended_badly(const mare_process *process)
{
    return process->how != MARE_OK && process->how != MARE_BADMSG;
}

enum { REASON = 512 };

// What those who are linked to a process that has ended badly are killed for.
static void describe_end(const mare_process *process, char reason[REASON])
{
    mare_value error = {.type = MARE_NIL};
    if (process->how == MARE_DIED)
        mare_message_get(process->result, process->result->count > 2 ? 2 : 0, &error);
    bool text = error.type == MARE_STRING;
    const char *name = process->name;
    snprintf(reason, REASON, "linked process %llu%s%s%s %s%s%.*s", (unsigned long long)process->id,
             name ? " (" : "", name ? name : "", name ? ")" : "",
             process->how == MARE_KILLED   ? "was killed"
             : process->how == MARE_NONODE ? "was lost with its node"
                                           : how_word(process->how),
             text ? ": " : "", text ? (int)error.as.string.length : 0,
             text ? error.as.string.bytes : "");
}

// Adds both ends. False: there is a tie already, or one of the two has finished.
static bool join(mare_process *a, mare_process *b, struct mare__tie *tie)
{
    lock_both(a, b);
    bool joins = !a->finished && !b->finished && !mare__index_find(&a->ties, b->id);
    if (joins) {
        mare__index_add(&a->ties, &tie->ends[0].entry, b->id);
        mare__index_add(&b->ties, &tie->ends[1].entry, a->id);
        tie->ends[0].other = mare_process_ref(b);
        tie->ends[1].other = mare_process_ref(a);
    }
    unlock_both(a, b);
    return joins;
}

bool mare__process_tie(mare_process *a, mare_process *b)
{
    if (a == b)
        return true;
    struct mare__account *payer;
    struct mare__tie *tie = make(sizeof *tie, &payer);
    if (!tie)
        return false;
    tie->payer = payer;
    if (join(a, b, tie)) {
        if (b->abroad)
            b->abroad->tied(b);
        return true;
    }
    unmake(tie, sizeof *tie, payer);
    if (mare_process_alive(b))
        return true;
    mare__process_observed(b);
    if (ended_badly(b)) {
        char reason[REASON];
        describe_end(b, reason);
        mare__process_kill(a, reason);
    }
    return true;
}

// False: there was no tie.
static bool part(mare_process *a, mare_process *b)
{
    lock_both(a, b);
    struct mare__index_entry *to_b = mare__index_find(&a->ties, b->id), *to_a = NULL;
    if (to_b) {
        to_a = mare__index_find(&b->ties, a->id);
        mare__index_remove(to_b);
        mare__index_remove(to_a);
    }
    unlock_both(a, b);
    if (!to_b)
        return false;
    // The first of the two, with which the block begins.
    struct mare__tie *tie = (struct mare__tie *)(to_a < to_b ? to_a : to_b);
    unmake(tie, sizeof *tie, tie->payer);
    if (a->abroad)
        a->abroad->tied(a);
    if (b->abroad)
        b->abroad->tied(b);
    mare_process_unref(a);
    mare_process_unref(b);
    return true;
}

void mare__process_untie(mare_process *a, mare_process *b)
{
    if (a != b)
        part(a, b);
}

// One that it is tied to, held; or NULL.
static mare_process *any_tied(mare_process *process)
{
    mare__lock_acquire(&process->lock);
    struct mare__index_entry *entry = mare__index_any(&process->ties);
    mare_process *other =
        entry ? mare_process_ref(MARE__ENTRY(entry, struct mare__tie_end, entry)->other) : NULL;
    mare__lock_release(&process->lock);
    return other;
}

void mare__ties_tell(mare_process *process)
{
    char reason[REASON];
    mare_process *other;
    describe_end(process, reason);
    bool badly = ended_badly(process);
    while ((other = any_tied(process)) != NULL) {
        // One of another node is killed while it is still linked: if it is never told so, for the
        // nodes lose each other, the link ends it. It undoes none, unless it has ended.
        if (badly && other->abroad)
            mare__process_kill(other, reason);
        // Else the other one has just undone it.
        if (part(process, other) && badly && !other->abroad)
            mare__process_kill(other, reason);
        mare_process_unref(other);
    }
}

// ---- Monitors -----------------------------------------------------------------------------------

// The process, how it ended, and what is told in any case: never more than this.
enum { NOTICE = MARE__PACK_EXT + sizeof(struct mare__handle) + MARE__PACK_MAX + sizeof "killed" };

// Tells a monitor, which is gone then: process, how, error, traceback.
static void tell(mare_process *process, struct mare__monitor *monitor)
{
    mare_channel *channel = monitor->channel;
    mare_message *message = &monitor->letter.wait.message;
    mare_value self = {.type = MARE_PROCESS, .as.process = process};
    mare_message_add(message, &self);
    mare_message_add_string(message, how_word(process->how));
    // If there is no memory for the rest, it stays shorter.
    if (process->how == MARE_KILLED && process->kill_reason)
        mare_message_add_string(message, process->kill_reason);
    else if (process->how != MARE_OK && process->how != MARE_KILLED)
        mare__message_join(message, process->result);
    mare__message_stamp(message, mare__message_stamp_of(process->result));
    mare__chan_post(channel, &monitor->letter);
    mare_chan_unref(channel);
}

void mare__monitors_tell(mare_process *process, struct mare__list *monitors)
{
    struct mare__list *at;
    while ((at = mare__list_first(monitors)) != NULL) {
        mare__list_remove(at);
        tell(process, MARE__ENTRY(at, struct mare__monitor, entry));
        if (process->abroad)
            mare_process_unref(process); // see mare__process_monitor
    }
}

// It was received, or never will be.
static void end(struct mare__wait *wait)
{
    struct mare__monitor *monitor = (struct mare__monitor *)wait;
    mare__message_clear(&wait->message);
    unmake(monitor, sizeof *monitor, monitor->payer);
}

static void drop(struct mare__monitor *monitor)
{
    mare_chan_unref(monitor->channel);
    end(&monitor->letter.wait);
}

void mare__monitors_drop(mare_process *process)
{
    struct mare__list *at;
    while ((at = mare__list_first(&process->monitors)) != NULL) {
        mare__list_remove(at);
        drop(MARE__ENTRY(at, struct mare__monitor, entry));
    }
}

bool mare__process_monitor(mare_process *process, mare_channel *channel)
{
    struct mare__account *payer;
    struct mare__monitor *monitor = make(sizeof *monitor, &payer);
    if (!monitor)
        return false;
    monitor->payer = payer;
    mare__letter_init(&monitor->letter);
    monitor->letter.wait.wake = end;
    monitor->channel = mare_chan_ref(channel);
    if (!mare__message_room(&monitor->letter.wait.message, NOTICE)) {
        drop(monitor);
        return false;
    }
    mare__lock_acquire(&process->lock);
    bool finished = process->finished;
    if (!finished)
        mare__list_append(&process->monitors, &monitor->entry);
    if (!finished &&
        process->abroad) // nobody else may: it is told although nobody else refers to it
        mare_process_ref(process);
    mare__lock_release(&process->lock);
    if (finished) {
        mare__process_observed(process);
        tell(process, monitor);
    }
    return true;
}
