// SPDX-License-Identifier: MIT
// What a thread that is no worker can do: the public functions of mare.h that spawn, wait, send and
// receive.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/foreign.h"
#include "sched/handle.h"
#include "sched/local.h"
#include "sched/marshal.h"
#include "sched/process.h"
#include "sched/runtime.h"
#include "sched/trace.h"
#include "sched/worker.h"

// A thread waits as a process does, with a place to sleep instead of a worker to leave.
struct sleeper {
    struct mare__wait wait;
    struct mare__spot spot;
    struct mare__parker parker;
};

static void wake(struct mare__wait *wait)
{
    mare__unpark(&MARE__ENTRY(wait, struct sleeper, wait)->parker);
}

static void sleeper_init(struct sleeper *sleeper)
{
    memset(sleeper, 0, sizeof *sleeper);
    sleeper->wait.wake = wake;
    sleeper->spot.wait = &sleeper->wait;
    mare__list_init(&sleeper->spot.entry);
    mare__wait_begin(&sleeper->wait);
}

// Sleeps until the wait has ended; takes itself out of line if that was not the channel's doing.
static mare_err sleep_until(struct sleeper *sleeper, mare_channel *channel, uint64_t deadline)
{
    while (!mare__runtime_park(channel->runtime, &sleeper->parker, deadline))
        mare__wait_end(&sleeper->wait, MARE_TIMEOUT); // if too late, the wake is on its way
    if (sleeper->wait.fired == MARE__FIRED_NONE)
        mare__chan_forget(channel, &sleeper->spot);
    return sleeper->wait.result;
}

static bool usable(const mare_channel *channel)
{
    return mare__runtime_valid(channel->runtime);
}

// Whether the message can be sent there at all.
static mare_err check(const mare_channel *channel, const mare_message *message)
{
    const char *why;
    if (!usable(channel))
        return MARE_STOPPED;
    if (message->open)
        return MARE_INVALID;
    return channel->far ? channel->far->check(channel->far, message, &why) : MARE_OK;
}

mare_err mare_chan_send_until(mare_channel *channel, mare_message *message, uint64_t deadline)
{
    struct sleeper sleeper;
    mare_err err = check(channel, message);
    if (err)
        return err;
    sleeper_init(&sleeper);
    mare__trace_send_outside(channel, message);
    err = mare__chan_send(channel, message, &sleeper.spot);
    return err == MARE_FULL ? sleep_until(&sleeper, channel, deadline) : err;
}

mare_err mare_chan_send(mare_channel *channel, mare_message *message)
{
    return mare_chan_send_until(channel, message, MARE_FOREVER);
}

mare_err mare_chan_try_send(mare_channel *channel, mare_message *message)
{
    mare_err err = check(channel, message);
    if (err)
        return err;
    mare__trace_send_outside(channel, message);
    return mare__chan_send(channel, message, NULL);
}

// Receives into a new message; `wait` tells whether to stand in line.
static mare_err receive(mare_channel *channel, mare_message **out, bool wait, uint64_t deadline)
{
    struct sleeper sleeper;
    if (!usable(channel))
        return MARE_STOPPED;
    mare_err err = mare_message_create(out);
    if (err)
        return err;
    sleeper_init(&sleeper);
    channel = mare__chan_in(channel);
    err = mare__chan_receive(channel, *out, wait ? &sleeper.spot : NULL);
    if (err == MARE_EMPTY && wait) {
        if (channel->far)
            channel->far->ask(channel->far);
        err = sleep_until(&sleeper, channel, deadline);
        if (!err)
            mare__message_move(*out, &sleeper.wait.message);
    }
    if (err) {
        mare_message_destroy(*out);
        *out = NULL;
    } else {
        mare__trace_receive_outside(channel->runtime, channel, *out);
    }
    return err;
}

mare_err mare_chan_receive_until(mare_channel *channel, mare_message **out, uint64_t deadline)
{
    return receive(channel, out, true, deadline);
}

mare_err mare_chan_receive(mare_channel *channel, mare_message **out)
{
    return receive(channel, out, true, MARE_FOREVER);
}

mare_err mare_chan_try_receive(mare_channel *channel, mare_message **out)
{
    return receive(channel, out, false, 0);
}

// Does what the case says, or learns that the process has ended: whichever comes first.
static mare_err meet(mare_process *process, struct mare__case *wanted, uint64_t deadline,
                     mare_message *received)
{
    struct sleeper sleeper;
    mare_channel *ended, *order[2];
    uint32_t fired = MARE__FIRED_NONE;
    mare_err err = mare__process_await(process, false, &ended);
    if (err)
        return err == MARE_CLOSED ? MARE_DIED : err;
    struct mare__case cases[2] = {*wanted, {.channel = ended}};
    sleeper_init(&sleeper);
    err = mare__chan_select(cases, 2, 0, &sleeper.wait, received, &fired, order);
    if (err == MARE_EMPTY) {
        while (!mare__runtime_park(wanted->channel->runtime, &sleeper.parker, deadline))
            mare__wait_end(&sleeper.wait, MARE_TIMEOUT);
        for (int i = 0; i < 2; i++)
            mare__chan_forget(cases[i].channel, &cases[i].spot);
        err = sleeper.wait.result;
        fired = sleeper.wait.fired;
        if (!err && !wanted->send)
            mare__message_move(received, &sleeper.wait.message);
    }
    mare__message_move(&wanted->message, &cases[0].message);
    return fired == 1 ? MARE_DIED : err;
}

mare_err mare__send_to(mare_process *process, mare_channel *channel, mare_message *message,
                       uint64_t deadline)
{
    struct mare__case wanted = {.channel = channel, .send = true};
    mare_err err = check(channel, message);
    if (err)
        return err;
    mare__trace_send_outside(channel, message);
    mare_message none;
    mare__message_init(&none);
    mare__message_move(&wanted.message, message);
    err = meet(process, &wanted, deadline, &none);
    mare__message_move(message, &wanted.message);
    return err;
}

mare_err mare__receive_of(mare_process *process, mare_channel *channel, uint64_t deadline,
                          mare_message **out)
{
    struct mare__case wanted = {.channel = channel};
    *out = NULL;
    if (!usable(channel))
        return MARE_STOPPED;
    mare_message *message;
    mare_err err = mare_message_create(&message);
    if (err)
        return err;
    err = meet(process, &wanted, deadline, message);
    if (err == MARE_DIED && mare__chan_receive(channel, message, NULL) == MARE_OK)
        err = MARE_OK; // it was sent before
    if (err) {
        mare_message_destroy(message);
        return err;
    }
    mare__trace_receive_outside(channel->runtime, channel, message);
    *out = message;
    return MARE_OK;
}

// With `box`, as mare__chan_create_box.
static mare_err create(mare_runtime *runtime, size_t capacity, const char *name, bool box,
                       mare_channel **out)
{
    mare_channel *channel = mare__chan_new(runtime, capacity);
    if (!channel)
        return MARE_NOMEM;
    channel->box = box;
    channel->id = atomic_fetch_add(&runtime->next_channel, 1) + 1;
    channel->name = name ? mare__alloc(strlen(name) + 1) : NULL;
    mare_err err = name && !channel->name ? MARE_NOMEM : MARE_OK;
    // Whole before it is in the list, where others look at it; there before it can be found by its
    // name, and closed.
    if (channel->name) {
        strcpy(channel->name, name);
        mare__object_gains(&channel->object, strlen(name) + 1);
    }
    if (!err && !mare__object_charge(&channel->object, mare__paying))
        err = MARE_NOMEM;
    if (!err)
        mare__chan_list(channel, &runtime->channels);
    if (channel->name && !err)
        err = mare__directory_add(runtime->names, name, &channel->object);
    if (err)
        mare_chan_unref(channel);
    *out = err ? NULL : channel;
    return err;
}

mare_err mare__chan_create(mare_runtime *runtime, size_t capacity, const char *name,
                           mare_channel **out)
{
    return create(runtime, capacity, name, false, out);
}

mare_err mare__chan_create_box(mare_runtime *runtime, size_t capacity, const char *name,
                               mare_channel **out)
{
    return create(runtime, capacity, name, true, out);
}

mare_err mare_chan_create(mare_runtime *runtime, size_t capacity, const char *name,
                          mare_channel **out)
{
    return mare__runtime_valid(runtime) ? mare__chan_create(runtime, capacity, name, out)
                                        : MARE_STOPPED;
}

mare_err mare_chan_find(mare_runtime *runtime, const char *name, mare_channel **out)
{
    *out = NULL;
    if (!mare__runtime_valid(runtime))
        return MARE_STOPPED;
    struct mare__object *object = mare__directory_find(runtime->names, name);
    if (object && object->kind != MARE__KIND_CHANNEL) {
        mare__unref(object);
        object = NULL;
    }
    *out = (mare_channel *)object;
    return object ? MARE_OK : MARE_NONAME;
}

mare_err mare_process_join_until(mare_process *process, uint64_t deadline, mare_message **result)
{
    struct sleeper sleeper;
    mare_channel *ended;
    if (result)
        *result = NULL;
    if (!mare__runtime_valid(process->runtime))
        return MARE_STOPPED;
    mare_err err = mare__process_await(process, true, &ended);
    if (err == MARE_OK) {
        sleeper_init(&sleeper);
        err = mare__chan_receive(ended, &sleeper.wait.message, &sleeper.spot);
        if (err == MARE_EMPTY)
            err = sleep_until(&sleeper, ended, deadline);
    }
    if (err != MARE_CLOSED) {
        if (err != MARE_NOMEM)
            mare__process_unawait(process);
        return err;
    }
    mare__trace_receive_outside(process->runtime, NULL, process->result);
    if (result && !mare__message_empty(process->result)) {
        err = mare_message_create(result);
        if (err)
            return err;
        if (!mare__message_copy(*result, process->result)) {
            mare_message_destroy(*result);
            *result = NULL;
            return MARE_NOMEM;
        }
    }
    return process->how;
}

// ---- Spawning -----------------------------------------------------------------------------------

struct mare__local *mare__host_open(mare_runtime *runtime, struct mare__parker *parker)
{
    struct mare__local *host = mare__local_new(runtime);
    if (host) {
        host->host = parker;
        host->sleep.wait.wake = mare__host_wake;
        atomic_init(&host->status, MARE__RUNNING);
    }
    return host;
}

void mare__host_wake(struct mare__wait *wait)
{
    struct mare__local *process = MARE__ENTRY(wait, struct mare__local, sleep.wait);
    mare__trace_wake(process);
    mare__unpark(process->host);
}

struct request {
    const char *code, *name;
    size_t length;
    const mare_message *arguments;
    struct mare__local *process;
    mare_err err; // why, when it is not the code's fault
};

// Compiles the code and marshals the function and its arguments; in a state that is thrown away.
static int compile(lua_State *L)
{
    struct request *request = lua_touserdata(L, 1);
    lua_settop(L, 0);
    if (luaL_loadbuffer(L, request->code, request->length, request->name) != LUA_OK)
        return lua_error(L);
    // Through Lua values, so that arguments from outside are checked and tables get their numbers.
    int count = request->arguments ? mare__unmarshal(L, request->arguments) : 0;
    struct mare__leaving *leaving = NULL;
    mare_message *message = &request->process->sleep.wait.message;
    request->err = mare__marshal(L, 1, 1 + count, message, "value", &leaving);
    mare__leaving_end(L, &leaving, 0, true);
    return request->err ? lua_error(L) : 0;
}

// Gets the place of the process, a function and its argument.
static int in_host_state(lua_State *L)
{
    lua_pushvalue(L, 1);
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_HOST);
    lua_call(L, 1, 0);
    return 0;
}

mare_err mare__compile(struct mare__local *process, lua_CFunction function, void *argument,
                       char **error)
{
    struct mare__parker parker = {0};
    struct mare__local *host = mare__host_open(process->shared.runtime, &parker);
    lua_State *L = host ? luaL_newstate() : NULL;
    mare_err err = L ? MARE_OK : MARE_NOMEM;
    if (L) {
        *(struct mare__local **)lua_getextraspace(L) = host;
        lua_pushcfunction(L, in_host_state);
        lua_pushlightuserdata(L, &host);
        lua_pushcfunction(L, function);
        lua_pushlightuserdata(L, argument);
        int status = lua_pcall(L, 3, 0, 0);
        if (status != LUA_OK) {
            err = status == LUA_ERRMEM ? MARE_NOMEM : MARE_SYNTAX;
            if (error && err == MARE_SYNTAX)
                *error = strdup(luaL_tolstring(L, -1, NULL));
        }
        lua_close(L);
    }
    if (host) {
        mare__handles_drop(host);
        mare_process_unref(&host->shared);
    }
    return err;
}

mare_err mare__local_equip(struct mare__local *process, const mare_spawn_options *options,
                           mare_process *tied_to)
{
    struct mare__directory *names = process->shared.runtime->names;
    mare_err err = MARE_OK;
    if (options->memory && !(process->account = mare__account_new(options->memory)))
        return MARE_NOMEM;
    if (options->name) {
        process->shared.name = mare__alloc(strlen(options->name) + 1);
        if (!process->shared.name)
            return MARE_NOMEM;
        strcpy(process->shared.name, options->name);
        err = mare__directory_add(names, options->name, &process->shared.object);
        if (err)
            return err;
    }
    if (options->monitor && !mare__process_monitor(&process->shared, options->monitor))
        err = MARE_NOMEM;
    if (!err && tied_to && !mare__process_tie(tied_to, &process->shared))
        err = MARE_NOMEM;
    if (!err && options->thread && !mare__worker_own(process)) {
        if (tied_to)
            mare__process_untie(tied_to, &process->shared);
        err = MARE_NOMEM;
    }
    if (err && options->name)
        mare__directory_remove(names, options->name, &process->shared.object);
    return err;
}

mare_err mare_spawn_with(mare_runtime *runtime, const char *code, size_t length, const char *name,
                         const mare_message *arguments, const mare_spawn_options *options,
                         mare_process **out, char **error)
{
    if (error)
        *error = NULL;
    if (!mare__runtime_valid(runtime) || atomic_load(&runtime->stopping))
        return MARE_STOPPED;
    if (arguments && arguments->open)
        return MARE_INVALID;
    struct mare__local *process = mare__local_new(runtime);
    if (!process)
        return MARE_NOMEM;
    struct request request = {code,   name ? name : "=(mare_spawn)", length, arguments, process,
                              MARE_OK};
    mare_err err = mare__compile(process, compile, &request, error);
    if (request.err) {
        err = request.err;
        if (error) {
            free(*error);
            *error = NULL;
        }
    }
    if (!err)
        err = mare__local_equip(process, options, NULL);
    if (err) {
        mare_process_unref(&process->shared);
        return err;
    }
    mare__local_launch(process);
    *out = &process->shared;
    return MARE_OK;
}

mare_err mare_spawn(mare_runtime *runtime, const char *code, size_t length, const char *name,
                    const mare_message *arguments, mare_process **out, char **error)
{
    static const mare_spawn_options none;
    return mare_spawn_with(runtime, code, length, name, arguments, &none, out, error);
}
