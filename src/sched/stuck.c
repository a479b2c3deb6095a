// SPDX-License-Identifier: MIT
// What processes wait for when nothing can move any more: who, at which line, for what. It is read
// from their states and sleeps, which nobody touches then.
#include <stdio.h>
#include <stdlib.h>

#include "sched/routine.h"
#include "sched/runtime.h"

enum { LINES = 10 }; // there may be thousands

struct report {
    mare_runtime *runtime;
    FILE *out;
    unsigned told, left;
};

// Where a coroutine is: the line of the innermost function in Lua.
static void tell_place(FILE *out, lua_State *L)
{
    lua_Debug frame;
    for (int level = 0; L && lua_getstack(L, level, &frame); level++)
        if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0) {
            fprintf(out, " at %s:%d", frame.short_src, frame.currentline);
            return;
        }
}

// The process whose end the channel tells, or NULL; under the lock of the list.
static const mare_process *ends_with(mare_runtime *runtime, const mare_channel *channel)
{
    for (struct mare__list *l = runtime->processes.next; l != &runtime->processes; l = l->next) {
        const mare_process *process = &MARE__ENTRY(l, struct mare__local, in_all)->shared;
        if (process->ended == channel)
            return process;
    }
    return NULL;
}

static void tell_process(FILE *out, const mare_process *process)
{
    fprintf(out, "process %llu", (unsigned long long)process->id);
    if (process->name)
        fprintf(out, " (%s)", process->name);
}

static void tell_channel(struct report *report, const char *what, const mare_channel *channel)
{
    const mare_process *process = ends_with(report->runtime, channel);
    if (process) {
        fputs(" for the end of ", report->out);
        tell_process(report->out, process);
    } else {
        fprintf(report->out, "%s channel %llu", what, (unsigned long long)channel->id);
        if (channel->name)
            fprintf(report->out, " (%s)", channel->name);
    }
}

static void tell_sleep(struct report *report, const struct mare__sleep *sleep)
{
    if (sleep->waits == MARE__WAITS_TO_SEND && sleep->waits_for)
        tell_channel(report, " to send to", sleep->waits_for);
    else if (sleep->waits == MARE__WAITS_TO_RECEIVE && sleep->waits_for)
        tell_channel(report, " to receive from", sleep->waits_for);
    else if (sleep->waits == MARE__WAITS_IN_SELECT)
        fprintf(report->out, " in a select of %u cases", sleep->case_count);
}

static void tell_line(struct report *report, const struct mare__local *process,
                      const struct mare__routine *routine)
{
    const struct mare__nested *nest = routine ? routine->nest : process->nest;
    uint32_t nested = routine ? routine->nested : process->nested;
    if (report->told == LINES) {
        report->left++;
        return;
    }
    report->told++;
    fputs("mare:   ", report->out);
    if (routine && routine->id > 1)
        fprintf(report->out, "routine %llu of ", (unsigned long long)routine->id);
    tell_process(report->out, &process->shared);
    fputs(" waits", report->out);
    tell_place(report->out, nested > 0 ? nest[nested - 1].co
                            : routine  ? routine->thread
                                       : process->state);
    tell_sleep(report, routine ? &routine->sleep : &process->sleep);
    fputs("\n", report->out);
}

char *mare__stuck_text(mare_runtime *runtime)
{
    char *text = NULL;
    size_t length;
    struct report report = {.runtime = runtime, .out = open_memstream(&text, &length)};
    if (!report.out)
        return NULL;
    mare__lock_acquire(&runtime->process_lock);
    for (struct mare__list *l = runtime->processes.next; l != &runtime->processes; l = l->next) {
        struct mare__local *process = MARE__ENTRY(l, struct mare__local, in_all);
        struct mare__pool *pool = atomic_load(&process->pool);
        if (process->host || process->given_up || !process->state)
            continue;
        if (!pool)
            tell_line(&report, process, NULL);
        for (struct mare__list *r = pool ? pool->all.next : NULL; pool && r != &pool->all;
             r = r->next)
            tell_line(&report, process, MARE__ENTRY(r, struct mare__routine, in_all));
    }
    mare__lock_release(&runtime->process_lock);
    if (report.left > 0)
        fprintf(report.out, "mare:   and %u more\n", report.left);
    fclose(report.out);
    return text;
}
