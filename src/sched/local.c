// SPDX-License-Identifier: MIT
// A process from birth to the news of its end.
//
//     new (idle) -> launch -> ready <-> running <-> blocked -> finish -> finished
//
// References: its maker has one, and the runtime has one from launch to finish. How it ended, with
// the results or the error, stays in the structure until the last reference goes.
//
// An error that nobody takes note of is printed. "Nobody" is decided a little after the end,
// because its maker may be about to join: the finished process waits, with the runtime's own timer,
// for a join to cancel the report.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/block.h"
#include "sched/code.h"
#include "sched/libraries.h"
#include "sched/local.h"
#include "sched/marshal.h"
#include "sched/process.h"
#include "sched/routine.h"
#include "sched/runtime.h"
#include "sched/state.h"
#include "sched/ties.h"
#include "sched/timer.h"
#include "sched/trace.h"
#include "sched/worker.h"

static void destroy(struct mare__object *object)
{
    struct mare__local *process = (struct mare__local *)object;
    if (process->keeps) {
        mare__lock_acquire(&process->shared.runtime->process_lock);
        mare__list_remove(&process->in_all);
        mare__lock_release(&process->shared.runtime->process_lock);
    }
    mare__message_forget(&process->sleep.wait.message, object);
    mare__message_clear(&process->sleep.wait.message);
    if (process->shared.ended)
        mare_chan_unref(process->shared.ended);
    if (!mare__list_empty(&process->shared.monitors))
        mare__monitors_drop(&process->shared);
    mare__free(process->shared.kill_reason);
    mare__free(process->shared.name);
    mare__free(process->numbers.free);
    mare__free(atomic_load(&process->pool));
    mare__account_unref(process->account);
    mare__modules_unref(process->modules);
    mare__spare_give(MARE__SPARE_PROCESS, process);
}

static void wake(struct mare__wait *wait)
{
    struct mare__local *process = MARE__ENTRY(wait, struct mare__local, sleep.wait);
    mare__trace_wake(process);
    mare__ready(process);
}

struct mare__local *mare__local_new(mare_runtime *runtime)
{
    struct mare__local *process = mare__spare_take(MARE__SPARE_PROCESS, sizeof *process);
    if (!process)
        return NULL;
    mare__object_init(&process->shared.object, MARE__KIND_PROCESS, destroy);
    process->shared.object.weight = sizeof *process + sizeof *process->shared.ended;
    process->shared.runtime = runtime;
    process->shared.id = atomic_fetch_add(&runtime->next_id, 1) + 1;
    process->sleep.wait.wake = wake;
    process->sleep.spot.wait = &process->sleep.wait;
    mare__list_init(&process->sleep.spot.entry);
    mare__list_init(&process->handles);
    mare__list_init(&process->shared.monitors);
    return process;
}

void mare__local_launch(struct mare__local *process)
{
    mare_runtime *runtime = process->shared.runtime;
    mare__trace_spawn(process);
    mare__ref(&process->shared.object);
    mare__lock_acquire(&runtime->process_lock);
    mare__list_append(&runtime->processes, &process->in_all);
    atomic_init(&process->traced, atomic_load(&runtime->trace.on));
    mare__lock_release(&runtime->process_lock);
    struct mare__worker *worker = mare__this_worker();
    if (worker && worker->runtime == runtime)
        mare__count(&worker->counters.spawned);
    else
        atomic_fetch_add(&runtime->spawned_outside, 1);
    atomic_fetch_add(&runtime->live, 1);
    mare__ready_new(process);
}

// ---- Start --------------------------------------------------------------------------------------

// As in the stock interpreter: all libraries, the generational collector, the table `arg`. On the
// stack are the program and that table; the program and its arguments replace them.
static int prepare_main(lua_State *L)
{
    mare__lazy_finish(L);
    if (!mare__self(L)->shared.runtime->gc_stress)
        lua_gc(L, LUA_GCGEN, 0, 0);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "arg");
    int table = lua_gettop(L), count = (int)lua_rawlen(L, table);
    luaL_checkstack(L, count + 1, "too many arguments");
    lua_pushvalue(L, table - 1);
    for (int i = 1; i <= count; i++)
        lua_rawgeti(L, table, i);
    return count + 1;
}

// The program has returned: its results are what is above the base.
static int program_done(lua_State *L, int status, lua_KContext base)
{
    (void)status;
    return lua_gettop(L) - (int)base;
}

// What the process starts with has been read. The program and its arguments are what the first
// function of the coroutine returns, and the worker resumes it with them: so that function needs no
// memory while the program runs. But the main script has a C function below it, as in the stock
// interpreter; and where modules have set hooks or made routines, there is no such moment.
static int begin_program(lua_State *L, int count)
{
    struct mare__local *process = mare__self(L);
    mare__reader_free(process->start);
    process->start = NULL;
    if (process->is_main)
        count = prepare_main(L);
    else if (!process->pool && !process->hooked) {
        process->is_read = true;
        return count;
    }
    int base = lua_gettop(L) - count;
    lua_callk(L, count - 1, LUA_MULTRET, base, program_done);
    return program_done(L, LUA_OK, base);
}

// reader (light userdata) [, function] -> what the program returns. The first that runs in a
// process: modules that it starts with are loaded here, where it can be preempted and killed.
static int begin(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    int function = lua_gettop(L) > 1 ? 2 : 0;
    if (process->begun) // a program that has found this function
        return luaL_error(L, "the process has begun");
    process->begun = true;
    return mare__unmarshal_then(L, process->start, function, begin_program);
}

static int load_code(lua_State *L)
{
    const struct mare__code *code = mare__passed(L, 1);
    if (luaL_loadbufferx(L, code->bytes, code->length, "=?", "b") != LUA_OK)
        return lua_error(L);
    return 1;
}

// The code object with which the message begins, or NULL.
static struct mare__code *code_in(const mare_message *message)
{
    const uint8_t *at = mare__message_data(message), *end = at + message->length;
    struct mare__token token;
    if (!message->handles || !mare__unpack(&at, end, &token) || token.kind != MARE__TOKEN_EXT ||
        token.ext != MARE__EXT_HANDLE)
        return NULL;
    struct mare__object *object = mare__handle_object(at);
    return object->kind == MARE__KIND_CODE ? (struct mare__code *)object : NULL;
}

// Leaves the function on the stack of the new state, or what will read it and its arguments.
// Returns a status of Lua.
static int push_start(struct mare__local *process, struct mare__code *code)
{
    lua_State *L = process->state;
    if (code && !process->loaded) {
        struct mare__pass pass;
        lua_pushcfunction(L, load_code);
        mare__pass_push(L, &pass, code);
        int status = lua_pcall(L, 1, 1, 0);
        mare__pass_end(L, &pass);
        if (status != LUA_OK)
            return status;
        mare__state_loaded(process, code);
    }
    if (process->start) {
        lua_pushcfunction(L, begin);
        lua_pushlightuserdata(L, process->start);
        if (code)
            lua_rotate(L, 1, -1); // the function becomes the second argument
    }
    return LUA_OK;
}

bool mare__local_start(struct mare__local *process, int *arguments)
{
    mare_message *message = &process->sleep.wait.message;
    struct mare__code *code = code_in(message);
    bool code_alone = code && message->count == 1;
    mare__trace_start(process);
    process->start = code_alone ? NULL : mare__reader_new(message);
    int status = LUA_ERRMEM;
    if ((process->start || code_alone) && mare__state_open(process, code))
        status = push_start(process, code);
    if (status != LUA_OK) {
        mare__local_finish(process, status, 0);
        return false;
    }
    mare__message_clear(message); // the code, if it was alone
    *arguments = lua_gettop(process->state) - 1;
    return true;
}

// ---- The end ------------------------------------------------------------------------------------

// At nobody's cost: a process that ends for its limit could not say so otherwise.
static void add_string(mare_message *message, const char *string)
{
    struct mare__account *payer = mare__paying;
    mare__paying = NULL;
    mare_message_add_string(message, string); // if there is no memory, the message stays shorter
    mare__paying = payer;
}

// Marshals values for those who will ask how it ended. What has one owner leaves with them: its
// reference goes with the state.
static mare_err keep_values(lua_State *L, int count, const char *what)
{
    mare_message message;
    struct mare__leaving *leaving = NULL;
    mare__message_init(&message);
    mare_err err = mare__marshal(L, 1, count, &message, what, &leaving);
    mare__leaving_end(L, &leaving, 0, true);
    mare__message_move(&mare__self(L)->sleep.wait.message, &message);
    return err;
}

// The results that lua_resume left, or why they cannot travel.
static int keep_results(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    mare_err err = keep_values(L, lua_gettop(L), "result");
    if (err) {
        process->shared.how = err == MARE_NOMEM ? MARE_NOMEM : MARE_BADMSG;
        mare__message_clear(&process->sleep.wait.message); // which was at its cost
        add_string(&process->sleep.wait.message, lua_tostring(L, -1));
    }
    return 0;
}

// value -> text. The module is ours, and need not be there.
static int show_value(lua_State *L)
{
    if (!lua_istable(L, 1) || !mare__lazy_require(L, "mare._show"))
        return 0;
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

// value -> text, whatever it is
static int describe(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TNUMBER) {
        lua_pushvalue(L, 1);
        lua_tostring(L, -1);
        return 1;
    }
    lua_pushcfunction(L, show_value);
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK || lua_type(L, -1) != LUA_TSTRING)
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    return 1;
}

const char *mare__error_push(lua_State *L, int error)
{
    error = lua_absindex(L, error);
    lua_pushcfunction(L, describe);
    lua_pushvalue(L, error);
    lua_pcall(L, 1, 1, 0); // if there is no memory, that is what it says
    return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "?";
}

// Adds a hint for those who spawn a function that uses a global of their own. (What the process
// does have as a global was sought in another environment.)
static void explain_globals(lua_State *L, const struct mare__local *process)
{
    static const char words[] = "a nil value (global '";
    if (process->is_main || lua_type(L, 1) != LUA_TSTRING)
        return;
    const char *name = strstr(lua_tostring(L, 1), words), *end = NULL;
    if (name)
        end = strchr(name += sizeof words - 1, '\'');
    if (!end)
        return;
    lua_pushglobaltable(L);
    lua_pushlstring(L, name, (size_t)(end - name));
    if (lua_gettable(L, -2) == LUA_TNIL) {
        lua_pushfstring(L,
                        "%s; unless it is misspelt: globals are not copied into a process, so "
                        "pass it as an argument, make it a local of the function that spawns, or "
                        "put it into a module",
                        lua_tostring(L, 1));
        lua_replace(L, 1);
    }
    lua_pop(L, 2);
}

// The error value, as it is if it can travel, else as a string; the traceback; and, if it is not a
// string, what to print of it.
static int keep_error(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    mare_message *message = &process->sleep.wait.message;
    const char *traceback = mare__passed(L, 2);
    explain_globals(L, process);
    if (keep_values(L, 1, "error") != MARE_OK) {
        luaL_tolstring(L, 1, NULL);
        add_string(message, lua_tostring(L, -1));
    }
    add_string(message, traceback);
    if (lua_type(L, 1) == LUA_TSTRING)
        return 0;
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
        add_string(message, lua_tostring(L, -1));
    else
        add_string(message, mare__error_push(L, 1));
    return 0;
}

// Runs one of the above protected, on what it finds on the stack. When even that fails there is no
// memory.
static void keep(lua_State *L, lua_CFunction keeper, int arguments)
{
    struct mare__local *process = mare__self(L);
    lua_pushcfunction(L, keeper);
    lua_insert(L, -arguments - 1);
    int status = lua_pcall(L, arguments, 0, 0);
    if (status != LUA_OK) {
        bool text = status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING; // a __tostring failed
        mare__message_clear(&process->sleep.wait.message);
        add_string(&process->sleep.wait.message, text ? lua_tostring(L, -1) : "not enough memory");
        if (process->shared.how == MARE_OK)
            process->shared.how = status == LUA_ERRMEM ? MARE_NOMEM : MARE_BADMSG;
        lua_pop(L, 1);
    }
}

static int push_traceback(lua_State *L)
{
    luaL_traceback(L, L, NULL, 1);
    return 1;
}

char *mare__traceback(lua_State *L)
{
    char *copy = NULL;
    if (!lua_checkstack(L, 4))
        return NULL;
    lua_pushcfunction(L, push_traceback);
    if (lua_pcall(L, 0, 1, 0) == LUA_OK)
        copy = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    return copy;
}

// What remains of it: results or error, marshalled. Closes pending variables first: their handlers
// may use channels, and an error in one takes the place of the first.
static void settle(struct mare__local *process, int status, int results)
{
    lua_State *L = process->state;
    bool killed = mare__killed(process);
    process->shared.how = killed ? MARE_KILLED : status == LUA_OK ? MARE_OK : MARE_DIED;
    if (process->shared.how == MARE_OK) {
        mare__pool_unwind(process); // routines that it did not wait for
        if (results > 0)
            keep(L, keep_results, results);
        if (mare__killed(process)) { // while a __travel ran
            mare__message_clear(&process->sleep.wait.message);
            process->shared.how = MARE_KILLED;
        }
        return;
    }
    bool at_start =
        !killed && lua_status(L) == LUA_OK; // nothing has run: the error is on the stack
    char *traceback = killed || at_start ? NULL : mare__traceback(L);
    if (!at_start)
        mare__state_unwind(process);
    mare__message_clear(&process->sleep.wait.message);
    if (mare__killed(process)) { // meanwhile, perhaps: a handler may have been cut off
        process->shared.how = MARE_KILLED;
    } else {
        struct mare__pass pass;
        mare__pass_push(L, &pass, traceback ? traceback : "");
        mare__paying = NULL; // see add_string
        keep(L, keep_error, 2);
        mare__paying = process->account;
        mare__pass_end(L, &pass);
    }
    free(traceback);
}

static void print_error(struct mare__local *process)
{
    mare_value error, traceback;
    const mare_message *message = &process->sleep.wait.message;
    const char *name = process->shared.name;
    bool text = mare_message_get(message, message->count > 2 ? 2 : 0, &error) == MARE_OK &&
                error.type == MARE_STRING;
    bool trace =
        mare_message_get(message, 1, &traceback) == MARE_OK && traceback.type == MARE_STRING;
    flockfile(stderr);
    if (&process->shared == process->shared.runtime->main)
        fputs("mare: ", stderr); // as the stock interpreter does
    else
        fprintf(stderr, "mare: process %llu%s%s%s died: ", (unsigned long long)process->shared.id,
                name ? " (" : "", name ? name : "", name ? ")" : "");
    fprintf(stderr, "%.*s\n", text ? (int)error.as.string.length : 1,
            text ? error.as.string.bytes : "?");
    if (trace)
        fprintf(stderr, "%.*s\n", (int)traceback.as.string.length, traceback.as.string.bytes);
    funlockfile(stderr);
}

static char *string_in(const mare_message *message, uint32_t index)
{
    mare_value value;
    if (mare_message_get(message, index, &value) != MARE_OK || value.type != MARE_STRING)
        value = (mare_value){.as.string = {"?", 1}};
    char *copy = mare__alloc(value.as.string.length + 1);
    if (copy) {
        memcpy(copy, value.as.string.bytes, value.as.string.length);
        copy[value.as.string.length] = 0;
    }
    return copy;
}

// Gives the error to the program's log, if there is one that takes it.
static bool log_error(struct mare__local *process)
{
    mare_runtime *runtime = process->shared.runtime;
    const mare_message *message = &process->sleep.wait.message;
    if (!atomic_load(&runtime->log_note))
        return false;
    const char *name = process->shared.name;
    char *error = string_in(message, message->count > 2 ? 2 : 0), *trace = string_in(message, 1);
    size_t room = 64 + (name ? strlen(name) : 0) + (error ? strlen(error) : 0);
    char *text = mare__alloc(room);
    bool done = error && trace && text;
    if (done) {
        snprintf(text, room, "process %llu%s%s%s died: %s", (unsigned long long)process->shared.id,
                 name ? " (" : "", name ? name : "", name ? ")" : "", error);
        done = mare__log_try(runtime, false, text, trace);
    }
    mare__free(error);
    mare__free(trace);
    mare__free(text);
    return done;
}

// The wait of the report has ended. MARE_OK: somebody has looked at how the process ended
// (mare__local_observed). Else the time is over, or the runtime stops, and the error is printed.
static void report(struct mare__wait *wait)
{
    struct mare__local *process = MARE__ENTRY(wait, struct mare__local, sleep.wait);
    mare__timer_stop(process->shared.runtime,
                     wait); // it may have been ended by a kill that came too late
    if (wait->result != MARE_OK) {
        if (!log_error(process))
            print_error(process);
        mare__unnoticed(process->shared.runtime);
    }
    mare_process_unref(&process->shared);
}

void mare__local_observed(struct mare__local *process)
{
    mare__lock_acquire(&process->shared.lock);
    bool reporting = process->reporting;
    process->reporting = false;
    mare__lock_release(&process->shared.lock);
    if (reporting) {
        mare__timer_stop(process->shared.runtime, &process->sleep.wait);
        mare__wait_end(&process->sleep.wait, MARE_OK);
    }
}

// The last thing a process does: everybody who wants to know is told.
static void announce(struct mare__local *process)
{
    mare_runtime *runtime = process->shared.runtime;
    struct mare__list monitors;
    mare__trace_end(process);
    mare__message_disown(&process->sleep.wait.message,
                         &process->shared.object); // it may have returned itself
    if (process->shared.name)
        mare__directory_remove(runtime->names, process->shared.name, &process->shared.object);
    process->keeps = process->sleep.wait.message.handles != 0;
    mare__lock_acquire(&runtime->process_lock);
    mare__tour_remove(&runtime->visits, &process->in_all);
    if (process->keeps)
        mare__list_append(&runtime->keepers, &process->in_all);
    mare__lock_release(&runtime->process_lock);

    bool is_main =
        &process->shared == runtime->main; // whose error is the program's, and is printed at once
    if (process->shared.how == MARE_DIED && is_main)
        print_error(process);
    mare__lock_acquire(&process->shared.lock);
    atomic_store(&process->status, MARE__FINISHED);
    mare__list_take(&monitors, &process->shared.monitors);
    bool tied =
        mare__index_any(&process->shared.ties) != NULL; // once it is finished, it gets no more
    bool observed = process->shared.awaiters > 0 || process->shared.observed || tied ||
                    !mare__list_empty(&monitors);
    process->shared.observed = observed;
    process->reporting = process->shared.how == MARE_DIED && !observed && !is_main;
    if (process->reporting) {
        mare__ref(&process->shared.object);
        process->sleep.wait.wake = report;
        mare__wait_begin(&process->sleep.wait);
        // Published under the lock that report() takes first, so that it finds a timer to stop.
        mare__lock_acquire(&runtime->timer_lock);
        atomic_store(&process->sleep.wait.word, MARE__WAIT_WAITING);
        mare__timer_start(runtime, &process->sleep.wait, mare__now(runtime) + MARE__REPORT_NS);
        mare__lock_release(&runtime->timer_lock);
    }
    process->shared.result = &process->sleep.wait.message;
    atomic_store(&process->shared.finished, true);
    if (process->given_up)
        atomic_fetch_sub(&runtime->given_up, 1);
    mare__lock_release(&process->shared.lock);

    if (process->shared.ended)
        mare_chan_close(process->shared.ended);
    if (tied)
        mare__ties_tell(&process->shared);
    if (!mare__list_empty(&monitors))
        mare__monitors_tell(&process->shared, &monitors);
    if (atomic_fetch_sub(&runtime->live, 1) == 1 || &process->shared == runtime->main ||
        (atomic_load(&runtime->live) <= 1 + atomic_load(&runtime->given_up) &&
         atomic_load(&runtime->waiters) > 0))
        mare__runtime_changed(runtime);
    mare_process_unref(&process->shared);
}

void mare__local_finish(struct mare__local *process, int status, int results)
{
    mare__pool_calm(process);
    if (process->own)
        atomic_store(&process->own->quit, true); // with this run
    mare__block_clean(process);
    mare__sleep_drop(&process->sleep);
    mare__reader_free(process->start);
    process->start = NULL;
    if (process->state) {
        mare__wind_up(process, true);
        settle(process, status, results);
        mare_message result; // aside: finalizers may use channels
        mare__message_move(&result, &process->sleep.wait.message);
        mare__state_close(process);
        mare__message_move(&process->sleep.wait.message, &result);
    } else if (mare__killed(process)) {
        process->shared.how = MARE_KILLED;
    } else {
        process->shared.how = MARE_DIED;
        add_string(&process->sleep.wait.message, "not enough memory");
    }
    mare__paying = NULL; // others are told, at nobody's cost
    announce(process);
}

// ---- What can be done to it ---------------------------------------------------------------------

bool mare__local_kill(struct mare__local *process, const char *reason)
{
    // Before the lock is taken: who holds a spinlock asks for no memory.
    char *copy = reason ? mare__alloc(strlen(reason) + 1) : NULL;
    if (copy)
        strcpy(copy, reason);
    mare__lock_acquire(&process->shared.lock);
    bool alive = !process->shared.finished;
    if (alive && !process->shared.kill_reason) {
        process->shared.kill_reason = copy;
        copy = NULL;
    }
    bool host = process->host != NULL; // a host cannot be killed
    bool gives_up = alive && process->own && !process->given_up;
    process->given_up |= gives_up;
    if (gives_up)
        atomic_fetch_add(&process->shared.runtime->given_up, 1);
    mare__lock_release(&process->shared.lock);
    mare__free(copy);
    if (gives_up)
        mare__runtime_changed(process->shared.runtime);
    if (alive && !host) {
        mare__wait_cancel(&process->sleep.wait);
        mare__pool_wake(process);
    }
    return alive && !host;
}

void mare__local_interrupt(struct mare__local *process)
{
    struct mare__wait *wait;
    do { // if it does not wait, its next tick sees the note
        wait = mare__main_wait(process);
        mare__wait_interrupt(wait);
    } while (wait != mare__main_wait(process)); // it has just got a pool
}

bool mare__local_heed(struct mare__local *process)
{
    return mare__wait_heed(mare__main_wait(process)) || mare__wait_heed(&process->sleep.wait);
}

const char *mare__local_status(const struct mare__local *process)
{
    return mare__status_word(process, atomic_load(&process->status));
}

const char *mare__status_word(const struct mare__local *process, unsigned status)
{
    static const char *const words[] = {"idle", "ready", "running", "blocked", "finished"};
    if (status == MARE__BLOCKED && !mare__at_rest(process))
        status = MARE__RUNNING;
    return words[status];
}

void mare__local_release_kept(mare_runtime *runtime)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(&runtime->keepers)) != NULL) {
        struct mare__local *process = MARE__ENTRY(entry, struct mare__local, in_all);
        mare__list_remove(entry);
        mare_process_ref(&process->shared);
        mare__message_forget(&process->sleep.wait.message, &process->shared.object);
        mare__message_clear(&process->sleep.wait.message);
        mare_process_unref(&process->shared);
    }
}
