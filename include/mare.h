/* SPDX-License-Identifier: MIT */
/*
 * Maré for C programs: start a runtime, spawn Lua processes in it, exchange messages with them,
 * stop.
 *
 * Unless a function says otherwise, any thread may call it at any time between mare_start and
 * mare_stop, and it does not block. Functions come in families: the plain one waits for as long as
 * it takes, `_until` takes a deadline, `try_` never waits. A deadline is a point on the runtime's
 * monotonic clock in nanoseconds: see mare_deadline_ms.
 *
 * Objects are counted. A function that returns one through an out parameter hands over a reference,
 * which the caller gives back with the matching `_unref` or `_destroy`, before mare_stop.
 */
#ifndef MARE_H
#define MARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what the shared objects export. */
#define MARE_API __attribute__((visibility("default")))

/* Every code: its symbol, the word that Lua programs see, and a sentence. */
#define MARE_ERRORS(X)                                                                             \
    X(MARE_OK, "ok", "success")                                                                    \
    X(MARE_TIMEOUT, "timeout", "the deadline passed")                                              \
    X(MARE_CLOSED, "closed", "the channel is closed")                                              \
    X(MARE_FULL, "full", "there is no room in the channel, or nobody is receiving")                \
    X(MARE_EMPTY, "empty", "no message is waiting")                                                \
    X(MARE_DIED, "died", "the process died of an error")                                           \
    X(MARE_KILLED, "killed", "the process was killed")                                             \
    X(MARE_EXISTS, "exists", "the name is taken")                                                  \
    X(MARE_NONAME, "noname", "nobody has that name")                                               \
    X(MARE_NOPROC, "noproc", "the process does not exist")                                         \
    X(MARE_NONODE, "nonode", "the node cannot be reached")                                         \
    X(MARE_REFUSED, "refused", "the request was refused")                                          \
    X(MARE_DENIED, "denied", "the policy does not allow it")                                       \
    X(MARE_BADMSG, "badmsg", "the message is malformed or holds what cannot travel")               \
    X(MARE_TOOBIG, "toobig", "the message is too large")                                           \
    X(MARE_NOMEM, "nomem", "not enough memory")                                                    \
    X(MARE_CANCELLED, "cancelled", "the operation was cancelled")                                  \
    X(MARE_REMOTE, "remote", "the remote function raised an error")                                \
    X(MARE_DEADLOCK, "deadlock", "every process waits, and nothing can wake any")                  \
    X(MARE_STOPPED, "stopped", "the runtime is stopping, or does not exist in this process")       \
    X(MARE_SYNTAX, "syntax", "the code does not compile")                                          \
    X(MARE_INVALID, "invalid", "an argument is out of range")                                      \
    X(MARE_IO, "io", "the operating system refused the operation")                                 \
    X(MARE_NOQUORUM, "noquorum", "this member does not reach a majority of the group")             \
    X(MARE_UNSURE, "unsure", "it is not known to be done, and may be yet")                         \
    X(MARE_NOSTATE, "nostate", "there is no state on the disk to go on from")                      \
    X(MARE_CORRUPT, "corrupt", "the state on the disk is damaged")

/* What an operation returns: 0 is success. */
typedef enum mare_err {
#define MARE_ERROR_ENUM(symbol, word, sentence) symbol,
    MARE_ERRORS(MARE_ERROR_ENUM)
#undef MARE_ERROR_ENUM
} mare_err;

/* A sentence for a code. The string is static. */
MARE_API const char *mare_strerror(mare_err err);

/* A scheduler with its workers, processes and names. */
typedef struct mare_runtime mare_runtime;

/* A Lua process, alive or finished. */
typedef struct mare_process mare_process;

/* A channel: processes and threads send and receive messages through it. */
typedef struct mare_channel mare_channel;

/* A tuple of values to send or receive. Only one thread at a time may touch it. */
typedef struct mare_message mare_message;

/* How to start a runtime. All zero is a good choice. */
typedef struct mare_options {
    unsigned workers; /* kernel threads that run processes; 0: one per core */
    unsigned recycle; /* the most finished Lua states kept for reuse */
} mare_options;

/* Starts a runtime. `options` may be NULL. Errors: MARE_NOMEM, MARE_INVALID. */
MARE_API mare_err mare_start(const mare_options *options, mare_runtime **out);

/*
 * Kills every process, waits for their closing handlers, ends the workers and frees everything. The
 * caller must have released its references, and no other thread may be inside a call. Blocks. Do
 * not call it from a Lua process.
 */
MARE_API void mare_stop(mare_runtime *runtime);

/* Waits until every process has finished. Error: MARE_TIMEOUT at the deadline. Blocks. */
MARE_API mare_err mare_wait_until(mare_runtime *runtime, uint64_t deadline);

/* No deadline: wait as long as it takes. */
#define MARE_FOREVER UINT64_MAX

/* The runtime's monotonic clock, in nanoseconds. */
MARE_API uint64_t mare_now_ns(const mare_runtime *runtime);

/* The deadline `timeout_ms` milliseconds from now. */
MARE_API uint64_t mare_deadline_ms(const mare_runtime *runtime, uint64_t timeout_ms);

/* Sets the number of workers, 1 to 1024 (else MARE_INVALID), and the most finished states kept for
 * reuse. */
MARE_API mare_err mare_set_workers(mare_runtime *runtime, unsigned workers);
MARE_API void mare_set_recycle(mare_runtime *runtime, unsigned states);

/* ---- Watching a runtime ---------------------------------------------------------------------- */

/* Counters of a runtime since its start, and a few current numbers. Messages of other threads of
 * the program are not counted. */
typedef struct mare_stats {
    uint64_t spawned, live;                 /* processes: all so far, and now */
    uint64_t switches, preemptions, steals; /* turns given; cut short; taken from another worker */
    uint64_t recycled;                      /* processes that ran in a state used before */
    uint64_t sent, received;                /* messages */
    uint64_t timers;                        /* pending now */
    unsigned workers;
} mare_stats;

/* Reads the counters, from any thread; they may be a moment old. */
MARE_API void mare_get_stats(mare_runtime *runtime, mare_stats *out);

/* A process, as mare_list_processes describes it. */
typedef struct mare_process_info {
    uint64_t id;
    uint64_t memory;    /* bytes in its Lua state */
    uint64_t slices;    /* how often it got a worker */
    uint64_t cpu_ns;    /* processor time, by samples: see docs/reference/lua.md */
    const char *status; /* static: "idle", "ready", "running", "blocked" or "finished" */
    /* What it waits for, if it is blocked. Static: "send", "receive", "select", "join" (the end of
     * a process), "call" (the answer of a process, mare.rpc), "serve" and "room" (before that:
     * until the process serves calls, and until its inbox has room), "time", "event" (a socket, a
     * file, a timer, a program), or "". */
    const char *waits;
    uint64_t waits_for;    /* the id of the channel, or of the process; or 0 */
    unsigned cases;        /* number of cases of the select */
    const char *first;     /* what its first case is, in these words; "" if none of them fits */
    unsigned routines;     /* how many it has, if it is at rest */
    bool background;       /* the program does not wait for its end */
    uint64_t routine;      /* the number of the routine that this describes */
    char name[64];         /* its first 63 bytes, or "" */
    char at[80];           /* where in its code it is, if it is at rest: "app.lua:12"; or "" */
    char channel[64];      /* the name of the channel that it waits for, or "" */
    char channel_made[80]; /* where that was made, or "" */
    char what[192];        /* which event, in words; which function it has called; or "" */
} mare_process_info;

/* A channel, as mare_list_channels describes it. */
typedef struct mare_chan_info {
    uint64_t id;
    size_t capacity, buffered;
    size_t senders, receivers; /* how many wait */
    uint64_t sent;             /* messages so far */
    bool closed;
    char name[64]; /* its first 63 bytes, or "" */
} mare_chan_info;

/*
 * Copies a snapshot of the live processes, or of the channels, into `rows`, which has room for
 * `room` entries (NULL for none). Returns how many there are, which may be more. Any thread may
 * call it; meanwhile others cannot spawn or make channels. A process with several routines is
 * described by its main one.
 */
MARE_API size_t mare_list_processes(mare_runtime *runtime, mare_process_info *rows, size_t room);
MARE_API size_t mare_list_channels(mare_runtime *runtime, mare_chan_info *rows, size_t room);

/* The events that a listener gets: the symbol and its name. */
#define MARE_EVENTS(X)                                                                             \
    X(MARE_EVENT_SPAWN, "spawn")     /* `process` makes the process `other` */                     \
    X(MARE_EVENT_START, "start")     /* it runs for the first time; the cause is its spawn */      \
    X(MARE_EVENT_SEND, "send")       /* it offers a message to `channel`, by select perhaps */     \
    X(MARE_EVENT_RECEIVE, "receive") /* it has got one, and the cause is that send; or, when */    \
                                     /* there is no channel, news of an end, which is the cause */ \
    X(MARE_EVENT_BLOCK, "block")     /* it has to wait, for `channel` or for something else */     \
    X(MARE_EVENT_WAKE, "wake")       /* the wait is over, and it is ready to run */                \
    X(MARE_EVENT_END, "end")         /* it has finished */                                         \
    X(MARE_EVENT_NODE, "node")       /* the program is the node `name`, in its life `other` */     \
    X(MARE_EVENT_ARRIVE, "arrive")   /* a message of another program that is traced, the node */   \
                                     /* `name` in its life `other`, is here; the cause is the */   \
                                     /* event of that number there */

/* A kind of event. */
typedef enum mare_event_kind {
#define MARE_EVENT_ENUM(symbol, word) symbol,
    MARE_EVENTS(MARE_EVENT_ENUM)
#undef MARE_EVENT_ENUM
} mare_event_kind;

/*
 * Something that happened. Events are numbered 1, 2, ... in an order that agrees with
 * happened-before: the numbers of one process rise, and a cause has a smaller number than its
 * effect. From the causes you can compute vector clocks. (The first 2^40 events of a runtime.)
 * Numbers are Lamport's clock: they go with messages to nodes that are traced too, which go on from
 * there. So over all of them an effect has a larger number than its cause.
 */
typedef struct mare_event {
    uint64_t number;
    uint64_t time_ns; /* as mare_now_ns */
    uint64_t process; /* the process, or 0 for another thread of the program */
    uint64_t channel; /* its id, or 0 */
    uint64_t other;   /* for a spawn: the new process; for a node: its life, in ns since 1970 */
    uint64_t cause;   /* the number of an event, or 0: none, or before anybody listened */
    mare_event_kind kind;
    /* The name of the process that starts, of the node, or else of the channel; NULL: it has none.
     * Valid during the call. */
    const char *name;
} mare_event;

/* The word for a kind of event. The string is static. */
MARE_API const char *mare_event_name(mare_event_kind kind);

/*
 * A listener gets one event at a time, on the thread on which it happens; other events wait
 * meanwhile. It must not call functions of the runtime.
 */
typedef void mare_listener(void *user, const mare_event *event);

/*
 * Calls a listener for every event from now on, instead of the previous one. NULL turns tracing
 * off, as at the start; then it costs nothing. After the return the previous listener is not called
 * any more. Any thread may call it, but not from within a listener.
 */
MARE_API void mare_trace(mare_runtime *runtime, mare_listener *listener, void *user);

/* ---- Messages -------------------------------------------------------------------------------- */

/* The types of a value seen from C. A function or another rich value is MARE_OTHER: you can pass it
 * on, but not read it. */
typedef enum mare_type {
    MARE_NIL,
    MARE_BOOLEAN,
    MARE_INTEGER,
    MARE_FLOAT,
    MARE_STRING,
    MARE_CHANNEL,
    MARE_PROCESS,
    MARE_TABLE,
    MARE_OTHER
} mare_type;

/* A table in a message: one to read, or one that is being built. The fields are private. */
typedef struct mare_table {
    const mare_message *message;
    uint32_t start, count, elements, pairs, first_pair;
} mare_table;

/* One value. Strings, tables, channels and processes belong to the message they were read from, and
 * are valid while it lives and is not changed. Ref channels and processes to keep them. */
typedef struct mare_value {
    mare_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *bytes;
            size_t length;
        } string;
        mare_channel *channel;
        mare_process *process;
        mare_table table;
    } as;
} mare_value;

/* Makes an empty message. Error: MARE_NOMEM. */
MARE_API mare_err mare_message_create(mare_message **out);

/* Frees a message and what it holds. NULL is allowed. */
MARE_API void mare_message_destroy(mare_message *message);

/* Appends a copy of a value. Errors: MARE_NOMEM, MARE_TOOBIG, and MARE_INVALID for MARE_TABLE and
 * MARE_OTHER (to build a table, see mare_message_open_table). */
MARE_API mare_err mare_message_add(mare_message *message, const mare_value *value);

/* Appends a string that ends with a zero byte. */
MARE_API mare_err mare_message_add_string(mare_message *message, const char *string);

/* Appends an integer. */
MARE_API mare_err mare_message_add_integer(mare_message *message, int64_t integer);

/* The number of values in a message. */
MARE_API size_t mare_message_count(const mare_message *message);

/* Reads the value at `index`, from 0. Error: MARE_INVALID when there is none. */
MARE_API mare_err mare_message_get(const mare_message *message, size_t index, mare_value *out);

/*
 * Builds a table at the end of a message. Until you close it, added values go into it: after
 * mare_message_open_table keys and values in turn, after mare_message_open_array the elements 1, 2,
 * and so on. You can open tables inside each other; close them in the reverse order. `table` must
 * live until then. Errors: MARE_NOMEM, MARE_TOOBIG.
 */
MARE_API mare_err mare_message_open_table(mare_message *message, mare_table *table);
MARE_API mare_err mare_message_open_array(mare_message *message, mare_table *array);

/*
 * Closes the innermost open table. MARE_INVALID: it is not this one, a key lacks its value, or a
 * key is nil or NaN; in the last two cases the whole table is removed from the message. A message
 * with an open table cannot be sent: MARE_INVALID.
 */
MARE_API mare_err mare_message_close_table(mare_table *table);

/* How many elements a table has from 1 on, as `#t`, where it was written as a sequence. The others
 * are pairs. */
MARE_API size_t mare_table_length(const mare_table *table);

/*
 * Reads the value of a key; MARE_NIL when there is none. It searches the table: to read all of a
 * large one, use mare_table_next. Errors: MARE_BADMSG, MARE_NOMEM.
 */
MARE_API mare_err mare_table_get(const mare_table *table, const mare_value *key, mare_value *out);
MARE_API mare_err mare_table_get_field(const mare_table *table, const char *name, mare_value *out);
MARE_API mare_err mare_table_get_element(const mare_table *table, int64_t index, mare_value *out);

/*
 * Reads one pair after the other: `*position` is 0 at first, then what the last call left there.
 * Elements of a sequence come first, in order, even those that are nil. MARE_EMPTY after the last.
 * Errors: MARE_BADMSG, MARE_NOMEM. A table may contain itself, so a recursive reader must take care
 * not to run forever.
 */
MARE_API mare_err mare_table_next(const mare_table *table, uint64_t *position, mare_value *key,
                                  mare_value *value);

/* Whether two tables that were read are the same one: a message keeps what is shared. */
MARE_API bool mare_table_same(const mare_table *a, const mare_table *b);

/* The values as they travel: `count` MessagePack objects, one after the other. Valid while the
 * message lives. */
MARE_API const void *mare_message_bytes(const mare_message *message, size_t *length);

/* Makes a message of MessagePack bytes from anywhere. Checks them: MARE_BADMSG. */
MARE_API mare_err mare_message_parse(const void *bytes, size_t length, mare_message **out);

/* ---- Processes ------------------------------------------------------------------------------- */

/*
 * Creates a process from Lua source or a binary chunk. `name` is what error messages call the code.
 * `arguments` may be NULL; it stays the caller's. On MARE_SYNTAX, `*error` (if not NULL) is a
 * string to free() that says what is wrong.
 */
MARE_API mare_err mare_spawn(mare_runtime *runtime, const char *code, size_t length,
                             const char *name, const mare_message *arguments, mare_process **out,
                             char **error);

/* Options of a process, as in Lua's mare.spawn({...}). All zero is the same as mare_spawn. */
typedef struct mare_spawn_options {
    const char *name;      /* the name to register it under; NULL: none */
    size_t memory;         /* the most bytes that it may have; 0: no limit */
    mare_channel *monitor; /* gets the process, how it ended, error and traceback; or NULL */
    bool thread;           /* it has a thread of its own, for C functions that block */
} mare_spawn_options;

/* The same, with options (not NULL). Also MARE_EXISTS, when the name is taken. */
MARE_API mare_err mare_spawn_with(mare_runtime *runtime, const char *code, size_t length,
                                  const char *name, const mare_message *arguments,
                                  const mare_spawn_options *options, mare_process **out,
                                  char **error);

/* Adds a reference to a process, or releases one. */
MARE_API mare_process *mare_process_ref(mare_process *process);
MARE_API void mare_process_unref(mare_process *process);

/* A number unique in this runtime. */
MARE_API uint64_t mare_process_id(const mare_process *process);

/* Whether it has not finished. */
MARE_API bool mare_process_alive(const mare_process *process);

/*
 * Waits for its end. Returns MARE_OK and its results; MARE_DIED and the error (any value that can
 * travel) with its traceback; MARE_KILLED; MARE_BADMSG and the reason, when its results cannot
 * travel; MARE_NOMEM, when there was no memory for them, or to wait; MARE_TIMEOUT; or MARE_STOPPED,
 * when the runtime stops or belongs to the parent of this process. `result` may be NULL; otherwise
 * it is set (perhaps to NULL), and the caller destroys it. Blocks.
 */
MARE_API mare_err mare_process_join_until(mare_process *process, uint64_t deadline,
                                          mare_message **result);

/* Ends it wherever it is; its `__close` handlers run. Returns false if it had finished. */
MARE_API bool mare_process_kill(mare_process *process);

/* ---- Functions of the host ------------------------------------------------------------------- */

/*
 * A function of the host that Lua processes can call. `arguments` has the values of the call. The
 * call returns what the function adds to `results`, which is empty at first. If the function fails,
 * the call returns nil, a message and the code's word; the message is the string that the function
 * has added to `results`, or that of mare_strerror. It runs on the thread of the calling process,
 * so several calls may run at once. It must not block: send with mare_chan_try_send, or spawn the
 * process with the option `thread`.
 */
typedef mare_err mare_function(void *user, const mare_message *arguments, mare_message *results);

/* A function and its name. */
typedef struct mare_named_function {
    const char *name;
    mare_function *function;
} mare_named_function;

/*
 * Offers functions to all processes of the runtime, as the module that `require(module)` returns.
 * `functions` ends with a NULL name; it and `user`, which the functions get, must live as long as
 * the runtime. Errors: MARE_EXISTS (there is a module of that name), MARE_NOMEM, MARE_STOPPED. Only
 * processes that require it afterwards find it.
 */
MARE_API mare_err mare_offer(mare_runtime *runtime, const char *module,
                             const mare_named_function *functions, void *user);

/* The same with a function for Lua (lua_CFunction) that makes the module, as `luaopen_` ones do. It
 * is called in each process that requires it. */
struct lua_State;
MARE_API mare_err mare_offer_lua(mare_runtime *runtime, const char *module,
                                 int (*open)(struct lua_State *L));

/* ---- Channels -------------------------------------------------------------------------------- */

/*
 * Makes a channel: a rendezvous when `capacity` is 0, else a buffer of that many messages. `name`
 * may be NULL. Error: MARE_EXISTS, when the name is taken.
 */
MARE_API mare_err mare_chan_create(mare_runtime *runtime, size_t capacity, const char *name,
                                   mare_channel **out);

/* Finds the channel registered under a name. Error: MARE_NONAME. */
MARE_API mare_err mare_chan_find(mare_runtime *runtime, const char *name, mare_channel **out);

/* Adds a reference to a channel, or releases one. */
MARE_API mare_channel *mare_chan_ref(mare_channel *channel);
MARE_API void mare_chan_unref(mare_channel *channel);

/*
 * Sends a message. On success its contents have left and `message` is empty, to be used again; on
 * failure (MARE_CLOSED, MARE_TIMEOUT, MARE_FULL, MARE_NOMEM, MARE_STOPPED; MARE_INVALID for one
 * with an open table) it is as it was. The first two block; for a foreign thread only.
 */
MARE_API mare_err mare_chan_send(mare_channel *channel, mare_message *message);
MARE_API mare_err mare_chan_send_until(mare_channel *channel, mare_message *message,
                                       uint64_t deadline);
MARE_API mare_err mare_chan_try_send(mare_channel *channel, mare_message *message);

/*
 * Receives a message into `*out`, which the caller destroys. Errors: MARE_CLOSED, MARE_TIMEOUT,
 * MARE_EMPTY, MARE_NOMEM, MARE_STOPPED. The first two functions block: call them only from threads
 * of the program, not from C functions that Lua calls.
 */
MARE_API mare_err mare_chan_receive(mare_channel *channel, mare_message **out);
MARE_API mare_err mare_chan_receive_until(mare_channel *channel, mare_message **out,
                                          uint64_t deadline);
MARE_API mare_err mare_chan_try_receive(mare_channel *channel, mare_message **out);

/* Closes a channel and wakes every waiter with MARE_CLOSED. Buffered messages can still be
 * received. Returns false if it was closed before. */
MARE_API bool mare_chan_close(mare_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
