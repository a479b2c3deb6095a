// SPDX-License-Identifier: MIT
// mare/group.h: groups for C programs. Their logic is written in Lua (lua/mare/group.lua). What a
// program holds is a process there (lua/mare/_group_c.lua), because a lock belongs to a process:
//
//     thread --orders--> process with the lock --> member of the group
//            <--reply---  true, then the values | false, code, message
//            <--news----  lost, leader, delivered
//
// The process ends when its orders are closed, or is killed when nobody waits for it any more. Both
// give back what it held. Calls without an object use a short process: call.h.
#include <mare/group.h>
#include <stdlib.h>
#include <string.h>

#include "lua/binding.h"
#include "lua/call.h"
#include "sched/foreign.h"
#include "sched/runtime.h"

enum { ORDERS = 64, NEWS = 1024 }; // messages that may wait

static const char found_code[] = "return require 'mare._group_c'.enter('found', ...)";
static const char join_code[] = "return require 'mare._group_c'.enter('join', ...)";
static const char ask_code[] = "return require 'mare._group_c'.ask(...)";
static const char members_code[] = "return require 'mare._group_c'.members(...)";
static const char lock_code[] = "require 'mare._group_c'.lock(...)";
static const char election_code[] = "require 'mare._group_c'.election(...)";
static const char multicast_code[] = "require 'mare._group_c'.multicast(...)";
static const char replica_code[] = "require 'mare._group_c'.replica(...)";

// ---- Members ------------------------------------------------------------------------------------

static mare_err enter(mare_runtime *runtime, const char *code, const mare_group_options *options,
                      char **error)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, error);
    mare__call_option(&arguments, "name", options->name);
    mare__call_list(&arguments, "members", options->members);
    mare__call_list(&arguments, "voters", options->voters);
    mare__call_option(&arguments, "folder", options->folder);
    mare__call_list(&arguments, "engine", options->engine);
    mare__call_list(&arguments, "algorithm", options->algorithm);
    mare__call_number(&arguments, "lease", (double)options->lease_ms / 1e3);
    mare__call_number(&arguments, "drift", options->drift);
    mare__call_flag(&arguments, "lost", options->lost);
    mare__call_flag(&arguments, "newcomer", options->newcomer);
    mare__call_number(&arguments, "timeout", (double)options->timeout_ms / 1e3);
    return mare__call_for_text(runtime, code, &arguments, MARE_FOREVER, NULL, error);
}

mare_err mare_group_found(mare_runtime *runtime, const mare_group_options *options, char **error)
{
    return enter(runtime, found_code, options, error);
}

mare_err mare_group_join(mare_runtime *runtime, const mare_group_options *options, char **error)
{
    return enter(runtime, join_code, options, error);
}

mare_err mare_group_leave(mare_runtime *runtime, const char *group)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, NULL);
    mare__call_text(&arguments, group);
    mare__call_text(&arguments, "leave");
    return mare__call_for_text(runtime, ask_code, &arguments, MARE_FOREVER, NULL, NULL);
}

mare_err mare_group_members(mare_runtime *runtime, const char *group, mare_message **out,
                            char **error)
{
    struct mare__arguments arguments;
    mare_message *result = NULL;
    mare_value value;
    *out = NULL;
    mare__call_begin(&arguments, runtime, error);
    mare__call_text(&arguments, group);
    mare_err err = mare__call(runtime, members_code, &arguments, MARE_FOREVER, &result, error);
    if (!err)
        err = mare_message_create(out);
    for (size_t i = 1; !err && mare_message_get(result, i, &value) == MARE_OK; i++)
        err = mare_message_add(*out, &value);
    mare_message_destroy(result);
    if (err && *out) {
        mare_message_destroy(*out);
        *out = NULL;
    }
    return err;
}

static mare_err alter(mare_runtime *runtime, const char *group, const char *what, const char *node,
                      uint64_t deadline, char **error)
{
    struct mare__arguments arguments;
    mare__call_begin(&arguments, runtime, error);
    mare__call_text(&arguments, group);
    mare__call_text(&arguments, what);
    mare__call_text(&arguments, node);
    mare__call_timeout(&arguments, runtime, deadline);
    return mare__call_for_text(runtime, ask_code, &arguments, deadline, NULL, error);
}

mare_err mare_group_add(mare_runtime *runtime, const char *group, const char *node,
                        uint64_t deadline, char **error)
{
    return alter(runtime, group, "add", node, deadline, error);
}

mare_err mare_group_remove(mare_runtime *runtime, const char *group, const char *node,
                           uint64_t deadline, char **error)
{
    return alter(runtime, group, "remove", node, deadline, error);
}

// ---- Objects ------------------------------------------------------------------------------------

// What every object is: a process and the channels between it and the program.
struct part {
    mare_runtime *runtime;
    mare_process *process;
    mare_channel *orders, *news;
};

struct mare_lock {
    struct part part;
};

struct mare_election {
    struct part part;
};

struct mare_multicast {
    struct part part;
};

struct mare_replica {
    struct part part;
};

static void add_channel(struct mare__arguments *arguments, mare_channel *channel)
{
    mare__call_add(arguments, (mare_value){.type = MARE_CHANNEL, .as.channel = channel});
}

static void add_all(struct mare__arguments *arguments, const mare_message *values)
{
    if (!arguments->err && values && !mare__message_join(arguments->message, values))
        arguments->err = MARE_NOMEM;
    if (!arguments->err && values && arguments->message->trust < values->trust)
        arguments->message->trust = values->trust; // they may come from another node
}

// Ends the process, which gives back what it holds. Waits for that.
static void end(struct part *part)
{
    if (part->orders) {
        mare_chan_close(part->orders);
        mare_chan_unref(part->orders);
    }
    if (part->process) {
        mare_message *result = NULL;
        uint64_t until = mare__call_grace(mare_now_ns(part->runtime));
        if (mare_process_join_until(part->process, until, &result) == MARE_TIMEOUT)
            mare_process_kill(part->process);
        mare_message_destroy(result);
        mare_process_unref(part->process);
    }
    if (part->news) {
        mare_chan_close(part->news);
        mare_chan_unref(part->news);
    }
    free(part);
}

// An object in the making: the arguments of its process, and the channel for its first message.
struct start {
    struct part *part;
    struct mare__arguments arguments;
    mare_channel *word;
    uint64_t deadline;
    char **error;
    mare_err err; // how it went
};

static void make_part(struct start *start, mare_runtime *runtime)
{
    struct part *part = calloc(1, sizeof *part);
    mare_err err = part ? mare_chan_create(runtime, 1, NULL, &start->word) : MARE_NOMEM;
    if (!err)
        err = mare_chan_create(runtime, ORDERS, NULL, &part->orders);
    if (!err)
        err = mare_chan_create(runtime, NEWS, NULL, &part->news);
    if (part)
        part->runtime = runtime;
    start->part = part;
    start->arguments.err = err;
}

// Begins an object of this name in a group. The caller adds further arguments.
static struct start begin(mare_runtime *runtime, const char *group, const char *name,
                          uint64_t deadline, char **error)
{
    struct start start = {.deadline = deadline, .error = error};
    mare__call_begin(&start.arguments, runtime, error);
    if (!start.arguments.err)
        make_part(&start, runtime);
    if (!start.arguments.err) {
        add_channel(&start.arguments, start.word);
        add_channel(&start.arguments, start.part->orders);
        add_channel(&start.arguments, start.part->news);
    }
    mare__call_text(&start.arguments, group);
    mare__call_text(&start.arguments, name);
    return start;
}

// Starts the process, and waits for its first message. Returns the object; or NULL, and why in
// `err`.
static void *launch(struct start *start, const char *code)
{
    struct part *part = start->part;
    mare_message *word = NULL;
    mare_err err = start->arguments.err;
    if (!err)
        err = mare_spawn(part->runtime, code, strlen(code), "=group", start->arguments.message,
                         &part->process, NULL);
    mare_message_destroy(start->arguments.message);
    if (!err)
        err =
            mare__receive_of(part->process, start->word, mare__call_grace(start->deadline), &word);
    if (!err) {
        err = mare__call_outcome(word, start->error);
        mare_message_destroy(word);
    } else if (part && part->process) {
        mare_process_kill(part->process);
    }
    if (start->word)
        mare_chan_unref(start->word);
    if (err && part)
        end(part);
    start->err = err;
    return err ? NULL : part;
}

// Gives an order and waits for the answer: `*values`, if it is not NULL, is what was returned.
// MARE_DIED: the process has been killed, as any process of the program can be.
static mare_err order(struct part *part, const char *what, const mare_message *value,
                      uint64_t deadline, mare_message **values, char **error)
{
    struct mare__arguments arguments;
    mare_channel *reply = NULL;
    mare_message *answer = NULL;
    uint64_t late = mare__call_grace(deadline);
    if (values)
        *values = NULL;
    mare__call_begin(&arguments, part->runtime, error);
    if (!arguments.err)
        arguments.err = mare_chan_create(part->runtime, 2, NULL, &reply);
    if (!arguments.err)
        add_channel(&arguments, reply);
    mare__call_text(&arguments, what);
    mare__call_timeout(&arguments, part->runtime, deadline);
    add_all(&arguments, value);
    mare_err err = arguments.err;
    if (!err)
        err = mare__send_to(part->process, part->orders, arguments.message, deadline);
    mare_message_destroy(arguments.message);
    if (!err)
        err = mare__receive_of(part->process, reply, late, &answer);
    if (!err) {
        err = mare__call_outcome(answer, error);
        mare_message_destroy(answer);
    }
    if (!err && values)
        err = mare__receive_of(part->process, reply, late, values);
    if (reply)
        mare_chan_unref(reply);
    return err;
}

// ---- Locks --------------------------------------------------------------------------------------

mare_err mare_group_lock(mare_runtime *runtime, const char *group, const char *name,
                         uint64_t deadline, mare_lock **out, char **error)
{
    struct start start = begin(runtime, group, name, deadline, error);
    mare__call_timeout(&start.arguments, runtime, deadline);
    *out = launch(&start, lock_code);
    return start.err;
}

mare_err mare_lock_fence(mare_lock *lock, uint64_t deadline, uint64_t *fence, char **error)
{
    mare_message *values;
    mare_value value;
    mare_err err = order(&lock->part, "fence", NULL, deadline, &values, error);
    if (!err && (mare_message_get(values, 0, &value) || value.type != MARE_INTEGER))
        err = MARE_BADMSG;
    if (!err)
        *fence = (uint64_t)value.as.integer;
    mare_message_destroy(values);
    return err;
}

mare_channel *mare_lock_lost(mare_lock *lock)
{
    return lock->part.news;
}

void mare_lock_release(mare_lock *lock)
{
    if (lock)
        end(&lock->part);
}

// ---- Elections ----------------------------------------------------------------------------------

mare_err mare_group_election(mare_runtime *runtime, const char *group, const char *name,
                             const char *algorithm, uint32_t worth, uint64_t deadline,
                             mare_election **out, char **error)
{
    struct start start = begin(runtime, group, name, deadline, error);
    if (algorithm) {
        mare__call_text(&start.arguments, algorithm);
        mare__call_add(&start.arguments,
                       (mare_value){.type = MARE_INTEGER, .as.integer = (int64_t)worth});
    }
    *out = launch(&start, election_code);
    return start.err;
}

mare_channel *mare_election_changes(mare_election *election)
{
    return election->part.news;
}

void mare_election_resign(mare_election *election)
{
    if (election)
        end(&election->part);
}

// ---- Multicasts ---------------------------------------------------------------------------------

mare_err mare_group_multicast(mare_runtime *runtime, const char *group, const char *name,
                              const char *order, uint64_t deadline, mare_multicast **out,
                              char **error)
{
    struct start start = begin(runtime, group, name, deadline, error);
    mare__call_text(&start.arguments, order ? order : "total");
    mare__call_timeout(&start.arguments, runtime, deadline);
    *out = launch(&start, multicast_code);
    return start.err;
}

mare_err mare_multicast_send(mare_multicast *multicast, const mare_message *value,
                             uint64_t deadline, char **error)
{
    return order(&multicast->part, "send", value, deadline, NULL, error);
}

mare_channel *mare_multicast_messages(mare_multicast *multicast)
{
    return multicast->part.news;
}

void mare_multicast_leave(mare_multicast *multicast)
{
    if (multicast)
        end(&multicast->part);
}

// ---- Replicas -----------------------------------------------------------------------------------

mare_err mare_group_replica(mare_runtime *runtime, const char *group, const char *name,
                            const mare_message *initial, const char *module, const char *function,
                            uint64_t deadline, mare_replica **out, char **error)
{
    struct start start = begin(runtime, group, name, deadline, error);
    mare__call_text(&start.arguments, module);
    mare__call_text(&start.arguments, function);
    add_all(&start.arguments, initial);
    *out = launch(&start, replica_code);
    return start.err;
}

mare_err mare_replica_apply(mare_replica *replica, const mare_message *value, uint64_t deadline,
                            mare_message **answer, char **error)
{
    return order(&replica->part, "apply", value, deadline, answer, error);
}

mare_err mare_replica_read(mare_replica *replica, uint64_t deadline, mare_message **state,
                           char **error)
{
    return order(&replica->part, "read", NULL, deadline, state, error);
}

void mare_replica_leave(mare_replica *replica)
{
    if (replica)
        end(&replica->part);
}
