/* SPDX-License-Identifier: MIT */
/*
 * Nodes for C programs: a runtime with a name. Other nodes can use its channels and processes, and
 * it can use theirs; see docs/guide/nodes.md.
 *
 *     mare_node_options options = {.name = "gauge", .listen = "127.0.0.1:7001", .join = others};
 *     mare_node_start(runtime, &options, NULL, &error);
 *     mare_node_find(runtime, "tides@ebb", deadline, &channel, &error);
 *     mare_chan_send_until(channel, message, deadline);         as to any channel
 *     mare_node_call(runtime, "ebb", "height", arguments, deadline, &result, &error);
 *
 * Others can find the channels of this runtime that have a name (mare_chan_create). Use what you
 * find with the functions of mare.h; when its node is lost, they return MARE_NONODE.
 *
 * Threads: any thread may call these functions. All of them block, at most until the deadline and a
 * moment; they are for threads of the program, not for C functions that Lua calls.
 *
 * Errors: MARE_NOMEM, MARE_STOPPED, and those that each function names. A parameter `error` may be
 * NULL; else it is set to NULL, or to a string to free() that says more.
 */
#ifndef MARE_NODE_H
#define MARE_NODE_H

#include <mare.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The options of a node: those of node.start in docs/reference/node.md. Zero is the default of
 * each, except `name`, which is required. Everything is copied. A list ends with NULL.
 */
typedef struct mare_node_options {
    const char *name;
    const char *listen;      /* "host:port", with port 0 for any, or a path; NULL: it only dials */
    const char *address;     /* for others to dial, if it differs */
    const char *const *join; /* "host:port" or "name@host:port" */
    const char *keys;        /* a folder of `mare keys` */
    const char *secret;      /* a file of `mare keys secret` */
    const char *group;
    const char *const *allow; /* names of nodes */
    const char *code;         /* "none", "source", "bytecode": what code others may send */
    bool insecure;            /* other machines may connect, without keys */
    bool guests;              /* programs that are not nodes may call exports */
    uint64_t memory;          /* limit, in bytes, of each process that others start here */
    uint64_t silence_ms;      /* a node that is silent for so long is lost */
    uint64_t message;         /* the largest message, in bytes */
    mare_channel *log;        /* gets a line of text for every refusal and failure */
} mare_node_options;

/*
 * Makes the runtime a node. `address`, if not NULL, is set to the address at which others can join
 * it, a string to free(), or to NULL if it does not listen. Errors: MARE_EXISTS (it is a node
 * already, or the address is in use), MARE_INVALID (an option), MARE_DENIED (without keys it would
 * be open to others), MARE_IO.
 */
MARE_API mare_err mare_node_start(mare_runtime *runtime, const mare_node_options *options,
                                  char **address, char **error);

/*
 * Delivers what was sent, then tells the others that the node has left. Errors: MARE_NONODE (it is
 * not a node), MARE_TIMEOUT. Call it before mare_stop, which delivers nothing.
 */
MARE_API mare_err mare_node_stop(mare_runtime *runtime, uint64_t deadline);

/*
 * Connects to a node at "host:port" or "name@host:port". `name`, if not NULL, is set to its name, a
 * string to free(). Errors: MARE_NONODE, MARE_DENIED, MARE_EXISTS, MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_connect(mare_runtime *runtime, const char *address, uint64_t deadline,
                                    char **name, char **error);

/*
 * Finds the channel, or the process, called "name@node", and returns a new reference. Errors:
 * MARE_NONAME (nobody has the name), MARE_INVALID (it is of the other kind, or the text is not such
 * a name), MARE_NONODE, MARE_DENIED, MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_find(mare_runtime *runtime, const char *address, uint64_t deadline,
                                 mare_channel **out, char **error);
MARE_API mare_err mare_node_find_process(mare_runtime *runtime, const char *address,
                                         uint64_t deadline, mare_process **out, char **error);

/*
 * Starts a process on a node, from a function that it exports, and returns a new reference.
 * `arguments` may be NULL; it stays the caller's. Errors: MARE_NONAME (there is no such function),
 * MARE_NONODE, MARE_DENIED, MARE_BADMSG, MARE_TOOBIG, MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_spawn(mare_runtime *runtime, const char *node, const char *function,
                                  const mare_message *arguments, uint64_t deadline,
                                  mare_process **out, char **error);

/*
 * The same, but also waits for its end and returns what mare_process_join_until does. A process
 * that has not ended by the deadline is killed: MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_call(mare_runtime *runtime, const char *node, const char *function,
                                 const mare_message *arguments, uint64_t deadline,
                                 mare_message **result, char **error);

/*
 * Sends news of nodes to a channel from now on. A message is a word, a node's name, and perhaps the
 * reason: "up", "suspected", "trusted", "down", "left", "unreachable". A full channel gets nothing.
 * Error: MARE_NONODE (this runtime is not a node).
 */
MARE_API mare_err mare_node_monitor(mare_runtime *runtime, mare_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
