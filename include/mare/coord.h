/* SPDX-License-Identifier: MIT */
#pragma once

/* libmare-coord: coordination algorithms as state machines that do no input or output.
 *
 * There is one shape for all of them. A *machine* is one member of one group running one algorithm
 * (one machine for each resource that is locked: independent resources cannot interfere because
 * they share nothing). The host steps it with an *event*, and carries out the *effects* that come
 * back:
 *
 *     mare_coord_setup setup;
 *     mare_coord_setup_init(&setup, &mare_coord_ricart, 3);              // three members, 0 to 2
 *     setup.self = 1;
 *     setup.founds = 1;                                           // the first start of the group
 *     mare_coord *machine = mare_coord_init(memory, sizeof memory, &setup);
 *
 *     mare_coord_event event = {.kind = MARE_COORD_ENTER, .now_us = clock_us()};
 *     mare_coord_step(machine, &event, &effects);
 *     for (uint32_t i = 0; i < effects.count; i++)
 *         carry_out(&effects.list[i]);                  // send, set a timer, tell the application
 *
 * A machine reads no clock, opens no socket, draws no random number of its own, allocates nothing
 * and calls nothing but memcpy, memset and memmove. The same sequence of events gives the same
 * effects, byte for byte, on every compiler: that is what the simulator in sim/ rests on.
 *
 * Threads: no function here blocks or locks. A machine belongs to one thread at a time; different
 * machines are independent. The table of algorithms is constant.
 *
 * docs/reference/coord.md has a whole program, the table of what each algorithm promises under
 * which faults, and what memory it takes. */

#include <mare/coord_clock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A machine: one member's part of one algorithm, in the caller's memory. One thread at a time. */
typedef struct mare_coord mare_coord;
/* A kind of machine. Those of the library are constant and live for ever. */
typedef struct mare_coord_algorithm mare_coord_algorithm;

#define MARE_COORD_PARAMS 8           /* settings of an algorithm, at most */
#define MARE_COORD_FIELDS 6           /* numbers in a message, at most */
#define MARE_COORD_TIMERS 8           /* timers of a machine; the last is the core's own */
#define MARE_COORD_NOBODY UINT32_MAX  /* no member */
#define MARE_COORD_MEMBERS_MAX 65536u /* slots of a group, at most */

/* What a step, or the making of a machine, says about what it was given. Apart from OK they all
 * mean that nothing has changed and there are no effects. */
typedef enum mare_coord_status {
    MARE_COORD_OK,
    MARE_COORD_NOROOM,    /* the effects buffer is smaller than mare_coord_room() asks for */
    MARE_COORD_MALFORMED, /* bytes that are no message of this algorithm */
    MARE_COORD_STRANGER,  /* from, or about, somebody outside the group */
    MARE_COORD_REFUSED, /* out of place: exit while outside, before START, after having left … */
    MARE_COORD_UNKNOWN, /* no such event, parameter or request for this algorithm */
} mare_coord_status;

/* The name of a status, a constant string ("?" for a number that is none; so for those below). */
MARE_COORD_EXPORT const char *mare_coord_status_name(mare_coord_status status);

/* Events ------------------------------------------------------------------------------------- */

/* What can happen to a machine. Fields not named are ignored. */
typedef enum mare_coord_event_kind {
    /* The first event of every machine, except that JOIN and LEAVE may come before it to say what
     * the group is. A second START says that the process crashed and came back with the machine's
     * memory intact (timers are gone, messages may be, and others may have been told that it was
     * down); it comes before anything else after the crash. A stay or a wait is over then
     * (REVOKED). The machine then forgets what it has heard of its peers: after START the host
     * reports all that are down. */
    MARE_COORD_START,
    MARE_COORD_MESSAGE, /* `data` arrived from `peer` */
    MARE_COORD_TIMER,   /* the timer `number` that a SET_TIMER asked for has run out */

    /* Requests of the local application. */
    MARE_COORD_ENTER,     /* wants in; `number`: gives up at this time (us), 0: waits for ever */
    MARE_COORD_EXIT,      /* goes out */
    MARE_COORD_ABANDON,   /* no longer wants in */
    MARE_COORD_ELECT,     /* calls an election */
    MARE_COORD_MULTICAST, /* sends `data` to the group */

    /* What the host's failure detector says of `peer`. Algorithms state whether they need it to be
     * right. Between DOWN and UP the machine ignores the peer: its messages are REFUSED, so that
     * the dead do not speak. In a DOWN, `number` is not 0 if at some moment since this member's
     * process began the peer held nothing, whatever an earlier process granted it. A lease knows.
     */
    MARE_COORD_PEER_DOWN,
    MARE_COORD_PEER_UP,

    /* The group itself changes by `peer`. All living members are told of a JOIN before the newcomer
     * is started, and of changes in the same order; virtual synchrony (see the multicasts) does
     * that, or an administrator. LEAVE about oneself is an orderly goodbye: after it the machine
     * does and hears nothing. A member that comes back is a new machine with a larger incarnation.
     */
    MARE_COORD_JOIN,
    MARE_COORD_LEAVE,
    MARE_COORD_EVENT_KINDS
} mare_coord_event_kind;

/* What a machine is stepped with. The bytes it points to are read during the step only. */
typedef struct mare_coord_event {
    mare_coord_event_kind kind;
    uint32_t peer;
    uint64_t now_us; /* the local clock of this member; only differences are ever used */
    uint64_t number;
    const uint8_t *data; /* of the caller, for the duration of the step */
    uint32_t length;
} mare_coord_event;

/* The name of a kind of event, a constant string. */
MARE_COORD_EXPORT const char *mare_coord_event_name(mare_coord_event_kind kind);

/* Effects ------------------------------------------------------------------------------------ */

/* What the host must do, in the order of the list. */
typedef enum mare_coord_effect_kind {
    /* Keep `data` in place of what was kept before. It must be on the disk before you do anything
     * that comes after it in the list. Comes first, and only with setup.keeps. */
    MARE_COORD_SAVE,
    MARE_COORD_SEND,         /* `data` to `peer`, never oneself */
    MARE_COORD_BROADCAST,    /* `data` to each other member for whom mare_coord_has_member() */
    MARE_COORD_SET_TIMER,    /* TIMER with `timer` after `number` us; replaces a pending one */
    MARE_COORD_CANCEL_TIMER, /* forget `timer`, pending or not */

    /* News for the application. */
    MARE_COORD_GRANTED, /* it is inside; `number` is the fencing number, larger than all before */
    MARE_COORD_REVOKED, /* it is no longer inside or waiting; `text` says why */
    MARE_COORD_DELIVER, /* `data`, multicast by `peer`; `number` counts deliveries at this member */
    MARE_COORD_ELECTED, /* `peer` leads in epoch `number` */
    /* The group was agreed to be `data`, a uint32_t for each member in this machine's byte order
     * (copy them out: they are not aligned); `number` is the view's. In an election on a ring:
     * the members of the new ring, in its order; `number` is the epoch. */
    MARE_COORD_VIEW,
    /* This member lives but is no longer in a view; `text` says why. Nothing is delivered, and a
     * multicast is REFUSED, until a VIEW says that it is in again. Then it begins another life: it
     * has missed what was delivered elsewhere in the meantime. */
    MARE_COORD_OUTSIDE,
    /* Said once a life: all members that are up have answered, `number` of them, and none remembers
     * the group. If a member that remembers it comes back, the machine goes on by itself. If there
     * is no such member left, the group must be founded again (setup.founds). */
    MARE_COORD_NO_GROUP,

    /* News of the lease under which a member acts for its group (src/coord/lease). */
    MARE_COORD_LEASED,   /* it may act; `number` is the epoch of its lease */
    MARE_COORD_UNLEASED, /* it may no longer act, and has given up what it held */
    MARE_COORD_DOWN,     /* `peer` holds no lease: that of epoch `number` is over, for good */
    MARE_COORD_UP,       /* `peer` holds a lease, of epoch `number` */

    /* News for the host. */
    MARE_COORD_SUSPECT, /* `peer` was silent for `number` attempts; the host may say DOWN */
    MARE_COORD_MARK,    /* `text`: a word for drawings and logs; only with setup.marks */
    MARE_COORD_EFFECT_KINDS
} mare_coord_effect_kind;

/* What a step wants done. The bytes it points to lie in the caller's buffer of effects. */
typedef struct mare_coord_effect {
    mare_coord_effect_kind kind;
    uint32_t peer;
    uint64_t number;
    const uint8_t *data; /* in the caller's byte buffer, until the next step with it */
    uint32_t length;
    uint32_t timer;
    const char *text; /* a constant of the library, or NULL */
} mare_coord_effect;

/* The name of a kind of effect, a constant string. */
MARE_COORD_EXPORT const char *mare_coord_effect_name(mare_coord_effect_kind kind);

/* The buffer for the effects of one step, all of it memory of the caller, used again and again.
 *
 * mare_coord_room() says what the largest step of a machine can need; a step with less returns
 * NOROOM and does nothing, so that running out in the middle cannot happen. `lost` counts effects
 * that an algorithm made beyond what it had declared. In this library it is always 0 (a test
 * checks); in an algorithm of yours, a lost effect is as harmful as a lost message. */
typedef struct mare_coord_effects {
    mare_coord_effect *list;
    uint32_t room; /* in effects */
    uint32_t count;
    uint8_t *bytes;
    uint32_t bytes_room, bytes_count;
    uint32_t lost;
} mare_coord_effects;

/* Set-up ------------------------------------------------------------------------------------- */

/* What a machine is made from. Copied by mare_coord_init, but for what it points to. */
typedef struct mare_coord_setup {
    const mare_coord_algorithm *algorithm;
    uint32_t self;
    uint32_t members;  /* 0 … members − 1 found the group */
    uint32_t capacity; /* slots for members, so that others can join; at least `members` */
    uint32_t marks;    /* nonzero: effects include MARK */
    uint32_t keeps;    /* nonzero: effects include SAVE, if the algorithm has something to keep */
    /* Nonzero: this start founds the group. Each founder says so once, when the group is made, and
     * never again, whatever it has lost since: a second founding is a second group. A member that
     * does not found joins a group that exists, and learns from the others before it acts. If no
     * member that is up remembers the group, it says so (NO_GROUP). */
    uint32_t founds;
    /* Which life of this member: larger at each start without memory; 0 only for a founder. Use a
     * counter on disk, or the seconds since 1970. Below 2^31. If a counter numbers the lives, one
     * life is good for 2^32 requests; after that start again, with a larger number. */
    uint64_t incarnation;
    uint64_t seed; /* of the machine's pseudo-random numbers */
    void *context; /* for an algorithm of the host's own (one written in Lua, say); not used here */
    int64_t param[MARE_COORD_PARAMS];
} mare_coord_setup;

/* Defaults for `algorithm` in a group of `members`, `self` 0, no marks, seed 1. It does not say
 * which start this is: set `founds` or `incarnation`. */
MARE_COORD_EXPORT void mare_coord_setup_init(mare_coord_setup *setup,
                                             const mare_coord_algorithm *algorithm,
                                             uint32_t members);

/* Sets a parameter by name. UNKNOWN: there is none of that name; REFUSED: outside its limits. */
MARE_COORD_EXPORT mare_coord_status mare_coord_setup_set(mare_coord_setup *setup, const char *name,
                                                         int64_t value);

/* Bytes of memory that a machine so set up takes, all it will ever use; 0 when the set-up makes no
 * sense, or asks for more than can be counted. */
MARE_COORD_EXPORT size_t mare_coord_size(const mare_coord_setup *setup);

/* The largest step of a machine so set up: how many effects, and bytes of messages in them. Both 0
 * when the set-up makes no sense. */
MARE_COORD_EXPORT void mare_coord_room(const mare_coord_setup *setup, uint32_t *effects,
                                       uint32_t *bytes);

/* Makes a machine in `memory` (aligned for uint64_t, not moved while in use). There is nothing to
 * undo: the machine ends when the caller takes the memory back. NULL when it is too small or not
 * aligned, or the set-up makes no sense: also when it neither founds nor has an incarnation. The
 * set-up is copied. */
MARE_COORD_EXPORT mare_coord *mare_coord_init(void *memory, size_t size,
                                              const mare_coord_setup *setup);

/* Before START: the machine is one that crashed and comes back, with what the last SAVE was made of
 * (and it has an incarnation larger than before). It goes on as after a crash with memory, and has
 * forgotten nothing that others rely on. MALFORMED: these are no such bytes, or those of another
 * member or group; REFUSED: it has been started; UNKNOWN: the algorithm keeps nothing. */
MARE_COORD_EXPORT mare_coord_status mare_coord_load(mare_coord *machine, const uint8_t *bytes,
                                                    uint32_t length);

/* The one step. Clears `effects`, then fills it. Effects are complete or none: with any status but
 * OK there are none, and nothing has changed. Never crashes and never leaves the algorithm's
 * safety behind, whatever the event says; a message that is a lie but well formed is believed, for
 * none of these algorithms is about traitors. */
MARE_COORD_EXPORT mare_coord_status mare_coord_step(mare_coord *machine,
                                                    const mare_coord_event *event,
                                                    mare_coord_effects *effects);

/* Looking in --------------------------------------------------------------------------------- */

/* What can be seen of a machine from outside, for drawings, logs and checkers. */
typedef struct mare_coord_view {
    const char *phase;      /* one word: "idle", "waiting", "inside", "coordinator" … */
    uint64_t lamport;       /* 0: the algorithm keeps no such clock */
    const uint64_t *vector; /* capacity numbers inside the machine, or NULL */
    uint32_t leader;        /* who this member takes for leader or coordinator, or NOBODY */
    uint64_t epoch;
    int inside, waiting; /* of the critical section */
    int asked;           /* waiting, and the others are being asked: order counts from here */
    int stuck;           /* it has said NO_GROUP, and that is still so */
    uint64_t until_us;   /* by the local clock, all this is so until here at most; 0: no limit */
} mare_coord_view;

/* Fills in what an onlooker may know of a machine: for drawing, checking and tests. */
MARE_COORD_EXPORT void mare_coord_look(const mare_coord *machine, mare_coord_view *view);
/* Whether the machine counts this number among the members of its group. */
MARE_COORD_EXPORT int mare_coord_has_member(const mare_coord *machine, uint32_t member);
/* The set-up that the machine was made from; it belongs to the machine. */
MARE_COORD_EXPORT const mare_coord_setup *mare_coord_setup_of(const mare_coord *machine);

/* Messages ----------------------------------------------------------------------------------- */

/* Every message is: the algorithm's tag (1 byte), the kind (1 byte), the numbers of its form (8
 * bytes each, little endian), then a tail of bytes if the form has one. One encoder and one decoder
 * serve all algorithms, drawings and the fuzzers. */
typedef struct mare_coord_form {
    const char *name;                     /* "REQUEST" */
    const char *field[MARE_COORD_FIELDS]; /* names of its numbers, then NULL */
    int has_tail;
} mare_coord_form;

/* A message taken apart: its kind, its numbers, and the bytes that follow them. */
typedef struct mare_coord_message {
    uint32_t kind; /* index into the algorithm's forms */
    uint64_t field[MARE_COORD_FIELDS];
    const uint8_t *tail;
    uint32_t tail_length;
} mare_coord_message;

/* Writes a message. Returns the bytes written, or 0 when there is no such kind or no room. */
MARE_COORD_EXPORT uint32_t mare_coord_encode(const mare_coord_algorithm *algorithm,
                                             const mare_coord_message *message, uint8_t *out,
                                             uint32_t room);
/* Takes a message apart: OK, or MALFORMED for anything that mare_coord_encode() would not have
 * written. The tail points into `bytes`. */
MARE_COORD_EXPORT mare_coord_status mare_coord_decode(const mare_coord_algorithm *algorithm,
                                                      const uint8_t *bytes, uint32_t length,
                                                      mare_coord_message *message);

/* Writes "REQUEST clock=8 stamp=8 ticket=1", always ended by a zero, cut when too long. */
MARE_COORD_EXPORT void mare_coord_describe(const mare_coord_algorithm *algorithm,
                                           const uint8_t *bytes, uint32_t length, char *out,
                                           size_t room);

/* Algorithms --------------------------------------------------------------------------------- */

/* What an algorithm is for, which decides the requests that it understands. */
typedef enum mare_coord_family {
    MARE_COORD_MUTEX,
    MARE_COORD_ELECTION,
    MARE_COORD_ORDER,
    MARE_COORD_FAMILIES
} mare_coord_family;

/* What an algorithm promises, given its assumptions: these are what the checkers hold it to. */
enum {
    MARE_COORD_EM1 = 1 << 0,         /* at most one inside */
    MARE_COORD_EM2 = 1 << 1,         /* every request is granted in the end */
    MARE_COORD_EM3 = 1 << 2,         /* grants follow happened-before */
    MARE_COORD_FENCING = 1 << 3,     /* fencing numbers only grow */
    MARE_COORD_ONE_LEADER = 1 << 4,  /* at most one leader in an epoch */
    MARE_COORD_FIFO = 1 << 5,        /* deliveries: each sender's in the order sent */
    MARE_COORD_CAUSAL = 1 << 6,      /* … and after all that they depend on */
    MARE_COORD_TOTAL = 1 << 7,       /* … and in one order everywhere */
    MARE_COORD_ATOMIC = 1 << 8,      /* all that survive a view deliver the same in it */
    MARE_COORD_AGREED_TIME = 1 << 9, /* clocks of one round are within the sum of their errors */
};

/* The faults under which it keeps them: these are what the simulator throws at it. */
enum {
    MARE_COORD_REORDER = 1 << 0,
    MARE_COORD_LOSS = 1 << 1,
    MARE_COORD_DUPLICATION = 1 << 2,
    MARE_COORD_PARTITION = 1 << 3,
    MARE_COORD_CRASH = 1 << 4,     /* and restart with memory; the detector is right but late */
    MARE_COORD_AMNESIA = 1 << 5,   /* … or without memory */
    MARE_COORD_ALL_CRASH = 1 << 6, /* without it, one member is spared: see `assumes` */
    MARE_COORD_PAUSE = 1 << 7,
    MARE_COORD_DRIFT = 1 << 8,
    MARE_COORD_CHURN = 1 << 9,       /* members join and leave */
    MARE_COORD_SUSPECTS = 1 << 10,   /* a detector that is sometimes wrong */
    MARE_COORD_ALL_RETURN = 1 << 11, /* no fault but a limit to them: no crash is for ever */
};

/* What one entry and exit, one election or one multicast costs without faults or rivals. Least and
 * most differ where it depends on who asks, or when; UINT64_MAX is without limit. The delay is
 * counted in times of a message: for mutual exclusion until the entry, with one message at a time
 * on the network, as the table of Tanenbaum and Van Steen (6.3.6) has it; for elections and
 * multicasts until the last member knows, with messages under way at once. */
typedef struct mare_coord_cost {
    uint64_t messages_least, messages_most;
    uint64_t delay_least, delay_most;
    int is_bound;              /* it can be less than `most` says */
    int is_period;             /* there is no end: messages of one period, when nothing changes */
    const char *formula;       /* the messages as text: "2(n-1)" */
    const char *delay_formula; /* the delay as text; NULL: there is none to speak of */
} mare_coord_cost;

/* A parameter of an algorithm, set by name. */
typedef struct mare_coord_param {
    const char *name;    /* units last: "retry_us" */
    const char *meaning; /* one line for help and documentation */
    int64_t initial, least, most;
} mare_coord_param;

/* An algorithm: a row of the table. The functions are for the core to call; see src/coord/machine.h
 * for what they may do and docs/reference/coord.md for adding one. Handlers that do nothing may be
 * NULL, but for size, room, init, receive and request. */
struct mare_coord_algorithm {
    const char *name;                     /* on command lines: "ricart" */
    const char *title, *source, *assumes; /* one line each */
    mare_coord_family family;
    uint8_t tag; /* first byte of its messages; unique in the table, 0 is nobody's */
    const mare_coord_param *params; /* up to MARE_COORD_PARAMS, ended by a NULL name */
    const mare_coord_form *forms;   /* its messages, ended by a NULL name */

    unsigned (*promises)(const mare_coord_setup *setup);
    unsigned (*tolerates)(const mare_coord_setup *setup);
    /* Messages for one entry and exit, one broadcast or one election without faults or rivals. */
    uint64_t (*messages)(const mare_coord_setup *setup);
    const char *formula; /* the same as text */
    /* Sets the delay, messages where they are not what `messages` says, least and most, and texts
     * where the set-up decides. NULL: they are an estimate, and no table compares them. */
    void (*cost)(const mare_coord_setup *setup, mare_coord_cost *cost);
    const char *delay_formula; /* the delay as text, or NULL */

    size_t (*size)(const mare_coord_setup *setup); /* of its own state */
    void (*room)(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes);
    void (*init)(mare_coord *machine); /* state is zeroed */
    void (*start)(mare_coord *machine, mare_coord_effects *effects);
    mare_coord_status (*receive)(mare_coord *machine, uint32_t from,
                                 const mare_coord_message *message, mare_coord_effects *effects);
    void (*timer)(mare_coord *machine, uint32_t timer, mare_coord_effects *effects);
    mare_coord_status (*request)(mare_coord *machine, const mare_coord_event *event,
                                 mare_coord_effects *effects);
    void (*peer)(mare_coord *machine, const mare_coord_event *event, mare_coord_effects *effects);
    void (*look)(const mare_coord *machine, mare_coord_view *view);
    /* What must outlive a crash: how many numbers, what they are, and back, MALFORMED if they make
     * no sense. For an algorithm that keeps nothing, all three are NULL, or `kept` returns 0. */
    uint32_t (*kept)(const mare_coord_setup *setup);
    void (*keep)(const mare_coord *machine, uint64_t *out);
    mare_coord_status (*recall)(mare_coord *machine, const uint64_t *in);
};

/* What the algorithm costs in a group with this set-up. For an algorithm without `cost`, only the
 * messages are set, and the rest is zero. */
MARE_COORD_EXPORT void mare_coord_cost_of(const mare_coord_setup *setup, mare_coord_cost *cost);

/* The algorithms of the library. A program that names those it uses, and links libmare-coord.a, is
 * given no others; the two functions below bring them all. */
#define MARE_COORD_ALGORITHM extern MARE_COORD_EXPORT const mare_coord_algorithm
MARE_COORD_ALGORITHM mare_coord_central, mare_coord_voting, mare_coord_ricart, mare_coord_majority,
    mare_coord_token;
MARE_COORD_ALGORITHM mare_coord_bully, mare_coord_ring, mare_coord_wireless,
    mare_coord_superpeer_dht, mare_coord_superpeer_tokens;
MARE_COORD_ALGORITHM mare_coord_fifo, mare_coord_causal, mare_coord_total, mare_coord_views;
MARE_COORD_ALGORITHM mare_coord_berkeley;
#undef MARE_COORD_ALGORITHM

/* The table of them all, a constant; `count` gets its length. */
MARE_COORD_EXPORT const mare_coord_algorithm *const *mare_coord_table(size_t *count);

/* The algorithm of this name ("ricart"), or NULL when there is none. */
MARE_COORD_EXPORT const mare_coord_algorithm *mare_coord_find(const char *name);

#ifdef __cplusplus
}
#endif
