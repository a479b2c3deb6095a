// SPDX-License-Identifier: MIT
// Tells of a process that stays in a C function and so holds its worker, while it does: with its
// name, the function, and the line that called it.
//
// The worker's own tick, a signal handler, notices. A hook that it sets is called at the next
// instruction of Lua code; when that is long in coming there is none, and the thread is in C. If it
// has used no processor time, it sleeps in a system call. Then nothing changes the Lua stack, and
// the handler may read it. If it computes, that would not be safe: then its line is told when it
// comes back.
#include <stdio.h>
#include <string.h>

#include "sched/preempt.h"

// A text that is put together in a signal handler, where little may be called.
struct text {
    size_t length;
    char bytes[400];
};

static void add(struct text *text, const char *more)
{
    size_t length = strlen(more), room = sizeof text->bytes - text->length;
    length = length < room ? length : room;
    memcpy(text->bytes + text->length, more, length);
    text->length += length;
}

static void add_number(struct text *text, uint64_t number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    for (*at = '\0'; number > 0 || !at[0]; number /= 10)
        *--at = (char)('0' + number % 10);
    add(text, at);
}

static void add_seconds(struct text *text, uint64_t ns)
{
    char tenth[] = ".0";
    tenth[1] = (char)('0' + ns / 100000000 % 10);
    add_number(text, ns / 1000000000);
    add(text, tenth);
    add(text, " s");
}

static void add_process(struct text *text, const struct mare__local *process)
{
    add(text, "mare: process ");
    add_number(text, process->shared.id);
    if (process->shared.name) {
        add(text, " (");
        add(text, process->shared.name);
        add(text, ")");
    }
}

// The line of the innermost function in Lua; and, if it is called by that, the name of the one in
// C.
static void add_place(struct text *text, lua_State *L, const char *before)
{
    lua_Debug frame;
    if (lua_getstack(L, 0, &frame) && lua_getinfo(L, "nS", &frame) && *frame.what == 'C' &&
        frame.name) {
        add(text, " '");
        add(text, frame.name);
        add(text, "'");
    }
    for (int level = 0; level < 10 && lua_getstack(L, level, &frame); level++)
        if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0) {
            add(text, before);
            add(text, frame.short_src);
            add(text, ":");
            add_number(text, (uint64_t)frame.currentline);
            return;
        }
}

static void tell(const struct mare__worker *worker, const struct mare__local *process,
                 uint64_t silent_ns)
{
    struct text text = {0};
    // In the second half of the time. The ticks themselves cost a little.
    enum { TICK_COSTS_NS = 60000 };
    uint64_t ticks = silent_ns / 2 / (worker->tick.period_ns ? worker->tick.period_ns : 1);
    bool computes =
        worker->burnt_ns - worker->heard_burnt_ns > silent_ns / 20 + ticks * TICK_COSTS_NS;
    add_process(&text, process);
    add(&text, " has held a worker for ");
    add_seconds(&text, silent_ns);
    add(&text, ", in a C function");
    if (computes)
        add(&text, " that computes");
    else
        add_place(&text, process->current, " called at ");
    add(&text, "\n");
    mare__say(text.bytes, text.length);
}

bool mare__stuck_watch(struct mare__worker *worker, struct mare__local *process)
{
    uint64_t limit_ns = worker->runtime->stuck_ns;
    if (limit_ns == 0 || process->own) // which is what a thread of its own is for
        return false;
    if (worker->heard_ns > worker->age_ns) { // a new turn
        worker->heard_ns = worker->heard_burnt_ns = 0;
        worker->told = false;
    }
    uint64_t silent_ns = worker->age_ns - worker->heard_ns;
    if (silent_ns < limit_ns / 2)
        worker->heard_burnt_ns = worker->burnt_ns;
    if (silent_ns >= limit_ns && !worker->told && process->armed == process->current) {
        worker->told = true;
        tell(worker, process, silent_ns);
    }
    return silent_ns >= limit_ns / 2;
}

void mare__stuck_heard(lua_State *L, struct mare__local *process)
{
    struct mare__worker *worker = process->worker;
    uint64_t silent_ns = worker->age_ns - worker->heard_ns;
    worker->heard_ns = worker->age_ns;
    worker->heard_burnt_ns = worker->burnt_ns;
    if (!worker->told)
        return;
    worker->told = false;
    struct text text = {0};
    add_process(&text, process);
    add(&text, " is back from C after ");
    add_seconds(&text, silent_ns);
    add_place(&text, L, ", at ");
    add(&text, "\n");
    mare__say(text.bytes, text.length);
}
