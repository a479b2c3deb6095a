// SPDX-License-Identifier: MIT
// mare/node.h: nodes for C programs. The logic of nodes is written in Lua (lua/mare/node.lua). So
// each of these calls starts a short process that calls it there, and joins it: see call.h.
#include <mare/node.h>

#include "lua/call.h"
#include "sched/runtime.h"

#define CALL MARE__CALL "local node = require 'mare.node'\n"

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

mare_err mare_node_start(mare_runtime *runtime, const mare_node_options *options, char **address,
                         char **error)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, error);
    mare__call_option(&arguments, "name", options->name);
    mare__call_option(&arguments, "listen", options->listen);
    mare__call_option(&arguments, "address", options->address);
    mare__call_list(&arguments, "join", options->join);
    mare__call_option(&arguments, "keys", options->keys);
    mare__call_option(&arguments, "secret", options->secret);
    mare__call_option(&arguments, "group", options->group);
    mare__call_list(&arguments, "allow", options->allow);
    mare__call_option(&arguments, "code", options->code);
    mare__call_flag(&arguments, "insecure", options->insecure);
    mare__call_flag(&arguments, "guests", options->guests);
    mare__call_number(&arguments, "memory", (double)options->memory);
    mare__call_number(&arguments, "silence", (double)options->silence_ms / 1e3);
    mare__call_number(&arguments, "message", (double)options->message);
    if (options->log) {
        mare__call_text(&arguments, "log");
        mare__call_add(&arguments, (mare_value){.type = MARE_CHANNEL, .as.channel = options->log});
    }
    return mare__call_for_text(runtime, start_code, &arguments, MARE_FOREVER, address, error);
}

mare_err mare_node_stop(mare_runtime *runtime, uint64_t deadline)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, NULL);
    mare__call_timeout(&arguments, runtime, deadline);
    return mare__call_for_text(runtime, stop_code, &arguments, deadline, NULL, NULL);
}

mare_err mare_node_connect(mare_runtime *runtime, const char *address, uint64_t deadline,
                           char **name, char **error)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, error);
    mare__call_text(&arguments, address);
    mare__call_timeout(&arguments, runtime, deadline);
    return mare__call_for_text(runtime, connect_code, &arguments, deadline, name, error);
}

static mare_err find(mare_runtime *runtime, const char *address, uint64_t deadline,
                     mare_value *value, char **error)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, error);
    mare__call_text(&arguments, address);
    mare__call_timeout(&arguments, runtime, deadline);
    return mare__call_for_object(runtime, find_code, &arguments, deadline, value, error);
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
    struct mare__arguments all;
    mare_value value = {.type = MARE_PROCESS};
    mare__call_begin(&all, runtime, error);
    mare__call_text(&all, node);
    mare__call_timeout(&all, runtime, deadline);
    mare__call_text(&all, function);
    if (!all.err && arguments && !mare__message_join(all.message, arguments))
        all.err = MARE_NOMEM;
    if (!all.err && arguments && all.message->trust < arguments->trust)
        all.message->trust = arguments->trust; // they may come from another node
    mare_err err = mare__call_for_object(runtime, spawn_code, &all, deadline, &value, error);
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
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, NULL);
    mare__call_add(&arguments, (mare_value){.type = MARE_CHANNEL, .as.channel = channel});
    return mare__call_for_text(runtime, monitor_code, &arguments, MARE_FOREVER, NULL, NULL);
}
