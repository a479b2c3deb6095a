// SPDX-License-Identifier: MIT
// Reports a process that stays in a C function and so holds its worker, while it is still there:
// with its name, the function, and the line that called it.
//
// The worker's own tick, a signal handler, notices. It sets a hook, which is called at the next
// instruction of Lua code. If the hook is not called for long, no Lua code runs: the thread is in
// C. If it has used no processor time, it sleeps in a system call; else it computes.
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

static void add_name(struct text *text, const char *before, const char *name)
{
    if (!name)
        return;
    add(text, before);
    add(text, "'");
    add(text, name);
    add(text, "'");
}

static void add_line(struct text *text, const char *before, const lua_Debug *frame)
{
    add(text, before);
    add(text, frame->short_src);
    add(text, ":");
    add_number(text, (uint64_t)frame->currentline);
}

// The line of the innermost function in Lua; and, if it is called by that, the name of the one in
// C.
static void add_place(struct text *text, lua_State *L, const char *before)
{
    lua_Debug frame;
    if (lua_getstack(L, 0, &frame) && lua_getinfo(L, "nS", &frame) && *frame.what == 'C')
        add_name(text, " ", frame.name);
    for (int level = 0; level < 10 && lua_getstack(L, level, &frame); level++)
        if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0) {
            add_line(text, before, &frame);
            return;
        }
}

// ---- In the handler -----------------------------------------------------------------------------
// What is computing may be anywhere: it may be moving its stack, or be about to begin a call or to
// end one. docs/decisions/021-a-stack-read-at-any-time.md says what can be read nevertheless, and
// why only of this version of Lua.
// A library may be another version than its headers: mare.so takes the one of its interpreter.
static bool is_known(void)
{
    return LUA_VERSION_RELEASE_NUM == 50404 && strstr(lua_ident, " " LUA_RELEASE " ");
}

// All that Lua has on an active call, as this version has it.
struct call {
    const void *function; // in the stack
    void *top;
    struct call *previous, *next;
    union {
        struct {
            const void *continuation;
            ptrdiff_t error_function, context;
        } c;
    } u;
    int u2;
    short results;
    unsigned short status;
};
enum { IN_C = 1 << 1 }; // in `status`

// The innermost call may be half made, or half over. So its function is not looked at: what is
// asked for its name is a call of nothing, at the same place. That reads only the caller.
static const char *name_of(lua_State *L, lua_Debug *caller)
{
    static const struct {
        uint64_t value, type;
    } nothing;
    struct call call = {
        .function = &nothing, .previous = (struct call *)caller->i_ci, .status = IN_C};
    lua_Debug frame = {.i_ci = (struct CallInfo *)&call};
    return lua_getinfo(L, "n", &frame) ? frame.name : NULL;
}

// The function in C that the innermost one in Lua has called, and where.
static void add_caller(struct text *text, lua_State *L)
{
    lua_Debug frame;
    bool called = lua_getstack(L, 0, &frame);
    bool in_c = !called || (((const struct call *)frame.i_ci)->status & IN_C);
    add(text, in_c ? ", in a C function" : ", in Lua code that cannot give way");
    for (int level = 1; level < 10 && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (*frame.what == 'C')
            continue;
        if (in_c || level > 1)
            add_name(text, in_c ? " " : ", in ", name_of(L, &frame));
        if (frame.currentline > 0)
            add_line(text, " called at ", &frame);
        return;
    }
}

// What holds the worker.
static void add_call(struct text *text, lua_State *L, bool computes)
{
    if (is_known()) {
        add_caller(text, L);
    } else {
        add(text, ", in a C function");
        if (!computes) // who sleeps does not change its stack
            add_place(text, L, " called at ");
    }
    if (computes)
        add(text, " (it computes)");
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
    add_call(&text, process->current, computes);
    add(&text, "\n");
    mare__say(text.bytes, text.length);
}

// Whether the innermost call is the one that it was at the last tick. If not, that one is over, and
// the process may be about to go on in Lua.
static bool is_same_call(struct mare__worker *worker, lua_State *L)
{
    lua_Debug frame;
    const void *call = lua_getstack(L, 0, &frame) ? (const void *)frame.i_ci : NULL;
    bool same = call == worker->silent_call;
    worker->silent_call = call;
    return same;
}

// What was noted in the turn before says nothing of this one. It may have ended in C, so that
// nobody was heard of after the report.
static void forget_last_turn(struct mare__worker *worker)
{
    if (worker->age_ns > worker->tick.period_ns) // the second tick of this turn, or a later one
        return;
    worker->heard_ns = worker->heard_burnt_ns = 0;
    worker->told = false;
}

bool mare__stuck_watch(struct mare__worker *worker, struct mare__local *process)
{
    uint64_t limit_ns = worker->runtime->stuck_ns;
    if (limit_ns == 0 || process->own) // which is what a thread of its own is for
        return false;
    forget_last_turn(worker);
    uint64_t silent_ns = worker->age_ns - worker->heard_ns;
    if (silent_ns < limit_ns / 2) {
        worker->heard_burnt_ns = worker->burnt_ns;
        worker->silent_call = NULL;
    }
    if (silent_ns >= limit_ns && !worker->told && process->armed == process->current &&
        is_same_call(worker, process->current)) {
        worker->told = true;
        tell(worker, process, silent_ns);
    }
    return silent_ns >= limit_ns / 2;
}

void mare__stuck_heard(lua_State *L, struct mare__local *process)
{
    struct mare__worker *worker = process->worker;
    forget_last_turn(worker);
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
    char message[sizeof text.bytes + 1]; // without the "mare: ", which the log's module says
    snprintf(message, sizeof message, "%.*s", (int)text.length - 6, text.bytes + 6);
    if (mare__log_try(process->shared.runtime, true, message, NULL))
        return;
    add(&text, "\n");
    mare__say(text.bytes, text.length);
}
