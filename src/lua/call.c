// SPDX-License-Identifier: MIT
// Calls of Lua from C programs (call.h): each starts a short process and joins it.
#include "lua/call.h"

#include <stdlib.h>
#include <string.h>

#include "lua/binding.h"
#include "sched/runtime.h"

// How long after its deadline a call is given up. Lua itself keeps the deadline.
enum { GRACE_MS = 2000 };

uint64_t mare__call_grace(uint64_t deadline)
{
    const uint64_t grace_ns = GRACE_MS * UINT64_C(1000000);
    return deadline > MARE_FOREVER - grace_ns ? MARE_FOREVER : deadline + grace_ns;
}

// ---- Arguments ----------------------------------------------------------------------------------

void mare__call_begin(struct mare__arguments *arguments, const mare_runtime *runtime, char **error)
{
    if (error)
        *error = NULL;
    arguments->message = NULL;
    arguments->err = mare__runtime_valid(runtime) ? MARE_OK : MARE_STOPPED;
    if (!arguments->err)
        arguments->err = mare_message_create(&arguments->message);
}

void mare__call_add(struct mare__arguments *arguments, mare_value value)
{
    if (!arguments->err)
        arguments->err = mare_message_add(arguments->message, &value);
}

void mare__call_text(struct mare__arguments *arguments, const char *text)
{
    if (!text && !arguments->err)
        arguments->err = MARE_INVALID;
    if (!arguments->err)
        arguments->err = mare_message_add_string(arguments->message, text);
}

void mare__call_timeout(struct mare__arguments *arguments, const mare_runtime *runtime,
                        uint64_t deadline)
{
    const double longest = 1e9;
    uint64_t now = mare_now_ns(runtime);
    double left = deadline > now ? (double)(deadline - now) / 1e9 : 0;
    mare__call_add(arguments,
                   (mare_value){.type = MARE_FLOAT, .as.number = left < longest ? left : longest});
}

void mare__call_option(struct mare__arguments *arguments, const char *name, const char *value)
{
    if (!value)
        return;
    mare__call_text(arguments, name);
    mare__call_text(arguments, value);
}

void mare__call_list(struct mare__arguments *arguments, const char *name, const char *const *values)
{
    for (; values && *values; values++)
        mare__call_option(arguments, name, *values);
}

void mare__call_flag(struct mare__arguments *arguments, const char *name, bool value)
{
    if (!value)
        return;
    mare__call_text(arguments, name);
    mare__call_add(arguments, (mare_value){.type = MARE_BOOLEAN, .as.boolean = true});
}

void mare__call_number(struct mare__arguments *arguments, const char *name, double value)
{
    if (value == 0)
        return;
    mare__call_text(arguments, name);
    mare__call_add(arguments, (mare_value){.type = MARE_FLOAT, .as.number = value});
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

mare_err mare__call_outcome(const mare_message *message, char **error)
{
    mare_value value;
    if (mare_message_get(message, 0, &value) || value.type != MARE_BOOLEAN)
        return MARE_BADMSG;
    if (value.as.boolean)
        return MARE_OK;
    mare_err err = mare_message_get(message, 1, &value) ? MARE_IO : code_of(&value);
    if (error && mare_message_get(message, 2, &value) == MARE_OK)
        *error = copy(&value);
    return err;
}

mare_err mare__call(mare_runtime *runtime, const char *code, struct mare__arguments *arguments,
                    uint64_t deadline, mare_message **result, char **error)
{
    mare_process *process;
    mare_err err = arguments->err;
    if (!err)
        err = mare_spawn(runtime, code, strlen(code), "=call", arguments->message, &process, NULL);
    mare_message_destroy(arguments->message);
    if (err)
        return err;
    err = mare_process_join_until(process, mare__call_grace(deadline), result);
    if (err == MARE_TIMEOUT)
        mare_process_kill(process);
    mare_process_unref(process);
    if (!err)
        err = mare__call_outcome(*result, error);
    if (err) {
        mare_message_destroy(*result);
        *result = NULL;
    }
    return err;
}

mare_err mare__call_for_text(mare_runtime *runtime, const char *code,
                             struct mare__arguments *arguments, uint64_t deadline, char **text,
                             char **error)
{
    mare_message *result = NULL;
    mare_value value;
    mare_err err = mare__call(runtime, code, arguments, deadline, &result, error);
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

mare_err mare__call_for_object(mare_runtime *runtime, const char *code,
                               struct mare__arguments *arguments, uint64_t deadline,
                               mare_value *value, char **error)
{
    mare_message *result = NULL;
    mare_type wanted = value->type;
    mare_err err = mare__call(runtime, code, arguments, deadline, &result, error);
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
