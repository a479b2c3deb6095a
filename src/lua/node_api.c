// SPDX-License-Identifier: MIT
// mare/node.h: nodes for C programs. What decides about nodes is written in Lua
// (lua/mare/node.lua), so each of these calls is a process of a moment that calls it there, and is
// joined:
//
//     thread --mare_spawn--> process: node.find(...) --> keeper --> other node
//            <----join-----  false, code, message | true, what it returned
#include <mare/node.h>
#include <stdlib.h>
#include <string.h>

#include "lua/binding.h"
#include "sched/runtime.h"

// How long a call may take beyond its deadline, which Lua keeps: then it is given up.
enum { GRACE_MS = 2000 };

// Calls a function of the module with what follows its name, and says how it went.
#define CALL                                                                                       \
    "local function outcome(fine, first, message, code)\n"                                         \
    "    if not fine then return false, 'invalid', tostring(first) end\n"                          \
    "    if first == nil then return false, code, tostring(message) end\n"                         \
    "    return true, first\n"                                                                     \
    "end\n"                                                                                        \
    "local function call(f, ...) return outcome(pcall(f, ...)) end\n"                              \
    "local node = require 'mare.node'\n"

static const char start_code[] =
    CALL "local lists, options, given = {join = true, allow = true}, {}, table.pack(...)\n"
         "for i = 1, given.n, 2 do\n"
         "    local key, value = given[i], given[i + 1]\n"
         "    if lists[key] then\n"
         "        options[key] = options[key] or {}\n"
         "        table.insert(options[key], value)\n"
         "    else\n"
         "        options[key] = value\n"
         "    end\n"
         "end\n"
         "return call(node.start, options)\n";
static const char stop_code[] = CALL "return call(node.stop, ...)\n";
static const char connect_code[] = CALL "return call(node.connect, ...)\n";
static const char find_code[] = CALL "return call(node.find, ...)\n";
static const char monitor_code[] = CALL "return call(node.monitor, ...)\n";
static const char spawn_code[] =
    CALL "local where, timeout = ...\n"
         "return call(node.spawn, {node = where, timeout = timeout}, select(3, ...))\n";

// ---- Arguments ----------------------------------------------------------------------------------

// A message being built: the first failure is kept.
struct arguments {
    mare_message *message;
    mare_err err;
};

static void begin(struct arguments *arguments, const mare_runtime *runtime, char **error)
{
    if (error)
        *error = NULL;
    arguments->message = NULL;
    arguments->err = mare__runtime_valid(runtime) ? MARE_OK : MARE_STOPPED;
    if (!arguments->err)
        arguments->err = mare_message_create(&arguments->message);
}

static void add_value(struct arguments *arguments, mare_value value)
{
    if (!arguments->err)
        arguments->err = mare_message_add(arguments->message, &value);
}

static void add_text(struct arguments *arguments, const char *text)
{
    if (!text && !arguments->err)
        arguments->err = MARE_INVALID;
    if (!arguments->err)
        arguments->err = mare_message_add_string(arguments->message, text);
}

// The time that is left, in seconds, as Lua counts it.
static void add_timeout(struct arguments *arguments, const mare_runtime *runtime, uint64_t deadline)
{
    const double longest = 1e9;
    uint64_t now = mare_now_ns(runtime);
    double left = deadline > now ? (double)(deadline - now) / 1e9 : 0;
    add_value(arguments,
              (mare_value){.type = MARE_FLOAT, .as.number = left < longest ? left : longest});
}

static void add_option(struct arguments *arguments, const char *name, const char *value)
{
    if (!value)
        return;
    add_text(arguments, name);
    add_text(arguments, value);
}

static void add_list(struct arguments *arguments, const char *name, const char *const *values)
{
    for (; values && *values; values++)
        add_option(arguments, name, *values);
}

static void add_flag(struct arguments *arguments, const char *name, bool value)
{
    if (!value)
        return;
    add_text(arguments, name);
    add_value(arguments, (mare_value){.type = MARE_BOOLEAN, .as.boolean = true});
}

static void add_number(struct arguments *arguments, const char *name, double value)
{
    if (value == 0)
        return;
    add_text(arguments, name);
    add_value(arguments, (mare_value){.type = MARE_FLOAT, .as.number = value});
}

// ---- Calling ------------------------------------------------------------------------------------

static mare_err code_of(const mare_value *word)
{
#define COMPARE(symbol, text, sentence)                                                            \
    if (word->type == MARE_STRING && word->as.string.length == strlen(text) &&                     \
        memcmp(word->as.string.bytes, text, strlen(text)) == 0)                                    \
        return symbol;
    MARE_ERRORS(COMPARE)
#undef COMPARE
    return MARE_IO;
}

// A copy of a string, for free(); NULL: it is none, or there is no memory.
static char *copy(const mare_value *value)
{
    if (value->type != MARE_STRING)
        return NULL;
    char *text = malloc(value->as.string.length + 1);
    if (!text)
        return NULL;
    memcpy(text, value->as.string.bytes, value->as.string.length);
    text[value->as.string.length] = 0;
    return text;
}

// Runs the code. MARE_OK: `*result` is what it returned, in which value 1 is what was asked for.
static mare_err run(mare_runtime *runtime, const char *code, struct arguments *arguments,
                    uint64_t deadline, mare_message **result, char **error)
{
    mare_process *process;
    mare_value value;
    mare_err err = arguments->err;
    if (!err)
        err = mare_spawn(runtime, code, strlen(code), "=node", arguments->message, &process, NULL);
    mare_message_destroy(arguments->message);
    if (err)
        return err;
    uint64_t until = deadline > MARE_FOREVER - GRACE_MS * UINT64_C(1000000)
                         ? MARE_FOREVER
                         : deadline + GRACE_MS * UINT64_C(1000000);
    err = mare_process_join_until(process, until, result);
    if (err == MARE_TIMEOUT)
        mare_process_kill(process);
    mare_process_unref(process);
    if (!err && (mare_message_get(*result, 0, &value) || value.type != MARE_BOOLEAN))
        err = MARE_BADMSG;
    else if (!err && !value.as.boolean) {
        err = mare_message_get(*result, 1, &value) ? MARE_IO : code_of(&value);
        if (error && mare_message_get(*result, 2, &value) == MARE_OK)
            *error = copy(&value);
    }
    if (err) {
        mare_message_destroy(*result);
        *result = NULL;
    }
    return err;
}

// The same, if only a string is of interest, or nothing.
static mare_err run_for_text(mare_runtime *runtime, const char *code, struct arguments *arguments,
                             uint64_t deadline, char **text, char **error)
{
    mare_message *result = NULL;
    mare_value value;
    mare_err err = run(runtime, code, arguments, deadline, &result, error);
    if (text)
        *text = NULL;
    if (!err && text && mare_message_get(result, 1, &value) == MARE_OK) {
        *text = copy(&value);
        if (!*text && value.type == MARE_STRING)
            err = MARE_NOMEM;
    }
    mare_message_destroy(result);
    return err;
}

// The same for a channel or a process: a reference.
static mare_err run_for_object(mare_runtime *runtime, const char *code, struct arguments *arguments,
                               uint64_t deadline, mare_value *value, char **error)
{
    mare_message *result = NULL;
    mare_type wanted = value->type;
    mare_err err = run(runtime, code, arguments, deadline, &result, error);
    if (!err)
        err = mare_message_get(result, 1, value);
    if (!err && value->type != wanted)
        err = MARE_INVALID;
    else if (!err && wanted == MARE_CHANNEL)
        mare_chan_ref(value->as.channel);
    else if (!err)
        mare_process_ref(value->as.process);
    mare_message_destroy(result);
    return err;
}

// ---- The interface ------------------------------------------------------------------------------

mare_err mare_node_start(mare_runtime *runtime, const mare_node_options *options, char **address,
                         char **error)
{
    struct arguments arguments;
    begin(&arguments, runtime, error);
    add_option(&arguments, "name", options->name);
    add_option(&arguments, "listen", options->listen);
    add_option(&arguments, "address", options->address);
    add_list(&arguments, "join", options->join);
    add_option(&arguments, "keys", options->keys);
    add_option(&arguments, "secret", options->secret);
    add_option(&arguments, "group", options->group);
    add_list(&arguments, "allow", options->allow);
    add_option(&arguments, "code", options->code);
    add_flag(&arguments, "insecure", options->insecure);
    add_flag(&arguments, "guests", options->guests);
    add_number(&arguments, "memory", (double)options->memory);
    add_number(&arguments, "silence", (double)options->silence_ms / 1e3);
    add_number(&arguments, "message", (double)options->message);
    if (options->log) {
        add_text(&arguments, "log");
        add_value(&arguments, (mare_value){.type = MARE_CHANNEL, .as.channel = options->log});
    }
    return run_for_text(runtime, start_code, &arguments, MARE_FOREVER, address, error);
}

mare_err mare_node_stop(mare_runtime *runtime, uint64_t deadline)
{
    struct arguments arguments;
    begin(&arguments, runtime, NULL);
    add_timeout(&arguments, runtime, deadline);
    return run_for_text(runtime, stop_code, &arguments, deadline, NULL, NULL);
}

mare_err mare_node_connect(mare_runtime *runtime, const char *address, uint64_t deadline,
                           char **name, char **error)
{
    struct arguments arguments;
    begin(&arguments, runtime, error);
    add_text(&arguments, address);
    add_timeout(&arguments, runtime, deadline);
    return run_for_text(runtime, connect_code, &arguments, deadline, name, error);
}

static mare_err find(mare_runtime *runtime, const char *address, uint64_t deadline,
                     mare_value *value, char **error)
{
    struct arguments arguments;
    begin(&arguments, runtime, error);
    add_text(&arguments, address);
    add_timeout(&arguments, runtime, deadline);
    return run_for_object(runtime, find_code, &arguments, deadline, value, error);
}

mare_err mare_node_find(mare_runtime *runtime, const char *address, uint64_t deadline,
                        mare_channel **out, char **error)
{
    mare_value value = {.type = MARE_CHANNEL};
    mare_err err = find(runtime, address, deadline, &value, error);
    if (!err)
        *out = value.as.channel;
    return err;
}

mare_err mare_node_find_process(mare_runtime *runtime, const char *address, uint64_t deadline,
                                mare_process **out, char **error)
{
    mare_value value = {.type = MARE_PROCESS};
    mare_err err = find(runtime, address, deadline, &value, error);
    if (!err)
        *out = value.as.process;
    return err;
}

mare_err mare_node_spawn(mare_runtime *runtime, const char *node, const char *function,
                         const mare_message *arguments, uint64_t deadline, mare_process **out,
                         char **error)
{
    struct arguments all;
    mare_value value = {.type = MARE_PROCESS};
    begin(&all, runtime, error);
    add_text(&all, node);
    add_timeout(&all, runtime, deadline);
    add_text(&all, function);
    if (!all.err && arguments && !mare__message_join(all.message, arguments))
        all.err = MARE_NOMEM;
    if (!all.err && arguments && all.message->trust < arguments->trust)
        all.message->trust = arguments->trust; // they may have come from somebody else
    mare_err err = run_for_object(runtime, spawn_code, &all, deadline, &value, error);
    if (!err)
        *out = value.as.process;
    return err;
}

mare_err mare_node_call(mare_runtime *runtime, const char *node, const char *function,
                        const mare_message *arguments, uint64_t deadline, mare_message **result,
                        char **error)
{
    mare_process *process;
    if (result)
        *result = NULL;
    mare_err err = mare_node_spawn(runtime, node, function, arguments, deadline, &process, error);
    if (err)
        return err;
    err = mare_process_join_until(process, deadline, result);
    if (err == MARE_TIMEOUT)
        mare_process_kill(process);
    mare_process_unref(process);
    return err;
}

mare_err mare_node_monitor(mare_runtime *runtime, mare_channel *channel)
{
    struct arguments arguments;
    begin(&arguments, runtime, NULL);
    add_value(&arguments, (mare_value){.type = MARE_CHANNEL, .as.channel = channel});
    return run_for_text(runtime, monitor_code, &arguments, MARE_FOREVER, NULL, NULL);
}
