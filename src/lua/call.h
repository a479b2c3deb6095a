// SPDX-License-Identifier: MIT
// For the interfaces of C programs whose logic is written in Lua (mare/node.h, mare/group.h): each
// call starts a short process, which calls a function there, and joins it:
//
//     thread --mare_spawn--> process: node.find(...) --> keeper --> other node
//            <----join-----  false, code, message | true, what it returned
//
// Any thread may call these functions; those that run something block.
#pragma once

#include <mare.h>

// A message being built: the first failure is kept.
struct mare__arguments {
    mare_message *message;
    mare_err err;
};

// Code that defines call(f, ...): calls a function, and returns its outcome.
#define MARE__CALL                                                                                 \
    "local function outcome(fine, first, message, code)\n"                                         \
    "    if not fine then return false, 'invalid', tostring(first) end\n"                          \
    "    if first == nil then return false, code, tostring(message) end\n"                         \
    "    return true, first\n"                                                                     \
    "end\n"                                                                                        \
    "local function call(f, ...) return outcome(pcall(f, ...)) end\n"

// Begins a call; `*error`, if there is one, becomes NULL.
void mare__call_begin(struct mare__arguments *arguments, const mare_runtime *runtime, char **error);

// What it is called with. A NULL text is MARE_INVALID.
void mare__call_add(struct mare__arguments *arguments, mare_value value);
void mare__call_text(struct mare__arguments *arguments, const char *text);
// The time that is left, in seconds, as Lua counts it.
void mare__call_timeout(struct mare__arguments *arguments, const mare_runtime *runtime,
                        uint64_t deadline);
// Adds a name and a value, unless it is zero; for a list, the name with each value.
void mare__call_option(struct mare__arguments *arguments, const char *name, const char *value);
void mare__call_list(struct mare__arguments *arguments, const char *name,
                     const char *const *values);
void mare__call_flag(struct mare__arguments *arguments, const char *name, bool value);
void mare__call_number(struct mare__arguments *arguments, const char *name, double value);

// The time at which to stop waiting for Lua, which should have kept the deadline itself.
uint64_t mare__call_grace(uint64_t deadline);

// Reads a message that begins with true; or is false, a code, and a message for `error`.
mare_err mare__call_outcome(const mare_message *message, char **error);

// Runs the code, and destroys the arguments. MARE_OK: `*result` is what it returned; value 1 is the
// answer.
mare_err mare__call(mare_runtime *runtime, const char *code, struct mare__arguments *arguments,
                    uint64_t deadline, mare_message **result, char **error);

// The same, if only a string is of interest, or nothing; for a channel or a process: a reference.
mare_err mare__call_for_text(mare_runtime *runtime, const char *code,
                             struct mare__arguments *arguments, uint64_t deadline, char **text,
                             char **error);
mare_err mare__call_for_object(mare_runtime *runtime, const char *code,
                               struct mare__arguments *arguments, uint64_t deadline,
                               mare_value *value, char **error);
