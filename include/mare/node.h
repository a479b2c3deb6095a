/* SPDX-License-Identifier: MIT */
/*
 * Nodes for C programs: a runtime with a name, whose channels and processes are used from other
 * nodes, and which uses theirs; see docs/guide/nodes.md.
 *
 *     mare_node_options options = {.name = "gauge", .listen = "127.0.0.1:7001", .join = others};
 *     mare_node_start(runtime, &options, NULL, &error);
 *     mare_node_find(runtime, "tides@ebb", deadline, &channel, &error);
 *     mare_chan_send_until(channel, message, deadline);         as to any channel
 *     mare_node_call(runtime, "ebb", "height", arguments, deadline, &result, &error);
 *
 * A channel of this runtime that has a name (mare_chan_create) can be found by others. What is
 * found is used by the functions of mare.h: when its node is lost, they return MARE_NONODE.
 *
 * Threads: any thread may call these functions. All of them block, at most until the deadline and a
 * moment; they are for threads of the program, not for C functions that Lua calls.
 *
 * Errors: beside MARE_NOMEM and MARE_STOPPED those that each function names. Where there is an
 * `error`, it may be NULL; else it is set to NULL, or to a string to free() that says more.
 */
#ifndef MARE_NODE_H
#define MARE_NODE_H

#include <mare.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a node is: the options of node.start in docs/reference/node.md. Zero is the default of each,
 * but for `name`, which is needed. All is copied. A list ends with NULL.
 */
typedef struct mare_node_options {
    const char *name;
    const char *listen;      /* "host:port", with port 0 for any, or a path; NULL: it only dials */
    const char *address;     /* what others are told to dial */
    const char *const *join; /* "host:port" or "name@host:port" */
    const char *keys;        /* a folder of `mare keys` */
    const char *secret;      /* a file of `mare keys secret` */
    const char *group;
    const char *const *allow; /* names of nodes */
    const char *code;         /* "none", "source", "bytecode": what code others may send */
    bool insecure;            /* others than this machine may come, without keys */
    bool guests;              /* programs that are no nodes may call what is exported */
    uint64_t memory;          /* bytes that each process may use which others start here */
    uint64_t silence_ms;      /* a node that was not heard for so long is lost */
    uint64_t message;         /* bytes of the largest message */
    mare_channel *log;        /* gets a line of text for every refusal and failure */
} mare_node_options;

/*
 * Makes the runtime a node. `address`, if not NULL, is set to where others can join it, a string to
 * free(), or to NULL if it does not listen. MARE_EXISTS: it is one already, or the address is in
 * use; MARE_INVALID: an option; MARE_DENIED: without keys it would be open to others; MARE_IO.
 */
MARE_API mare_err mare_node_start(mare_runtime *runtime, const mare_node_options *options,
                                  char **address, char **error);

/*
 * What was sent is delivered, then the others are told that the node has left. MARE_NONODE: it is
 * none; MARE_TIMEOUT. To be called before mare_stop, which delivers nothing.
 */
MARE_API mare_err mare_node_stop(mare_runtime *runtime, uint64_t deadline);

/*
 * Connects to a node at "host:port" or "name@host:port". `name`, if not NULL, is set to its name, a
 * string to free(). MARE_NONODE, MARE_DENIED, MARE_EXISTS, MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_connect(mare_runtime *runtime, const char *address, uint64_t deadline,
                                    char **name, char **error);

/*
 * The channel, or the process, that is called "name@node": a new reference. MARE_NONAME: nobody is;
 * MARE_INVALID: it is of the other kind, or this is no such name; MARE_NONODE, MARE_DENIED,
 * MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_find(mare_runtime *runtime, const char *address, uint64_t deadline,
                                 mare_channel **out, char **error);
MARE_API mare_err mare_node_find_process(mare_runtime *runtime, const char *address,
                                         uint64_t deadline, mare_process **out, char **error);

/*
 * A new process on a node, of a function that it exports: a new reference. `arguments` may be NULL;
 * it stays the caller's. MARE_NONAME: there is no such function; MARE_NONODE, MARE_DENIED,
 * MARE_BADMSG, MARE_TOOBIG, MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_spawn(mare_runtime *runtime, const char *node, const char *function,
                                  const mare_message *arguments, uint64_t deadline,
                                  mare_process **out, char **error);

/*
 * The same, and waits for its end: what mare_process_join_until returns. One that has not ended by
 * the deadline is killed: MARE_TIMEOUT.
 */
MARE_API mare_err mare_node_call(mare_runtime *runtime, const char *node, const char *function,
                                 const mare_message *arguments, uint64_t deadline,
                                 mare_message **result, char **error);

/*
 * Tells a channel of nodes from now on. A message is a word, a node's name, and perhaps why: "up",
 * "suspected", "trusted", "down", "left", "unreachable". A channel that is full is told nothing.
 * MARE_NONODE: this is no node.
 */
MARE_API mare_err mare_node_monitor(mare_runtime *runtime, mare_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
