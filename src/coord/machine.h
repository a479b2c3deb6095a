/* SPDX-License-Identifier: MIT */
#pragma once

/* What the author of an algorithm works with: the machine's common part, sets of members, and the
 * functions that make effects. Internal to the library, the simulator and the tests.
 *
 * An algorithm is one file with a `mare_coord_algorithm` and one line in table.c. Its handlers are
 * called by mare_coord_step() only, with what can be checked for all of them checked already:
 *
 *   - START came first; messages are well formed and from another member;
 *   - one that has left the group hears nothing any more; its own LEAVE is the last it is told;
 *   - ENTER only when neither waiting nor inside, EXIT only when inside, ABANDON only when waiting;
 *     those three and MULTICAST and ELECT reach `request`, if the family has them;
 *   - the sets `members` and `down` already say what a JOIN, LEAVE, DOWN or UP told;
 *   - `waiting` and `inside` are kept by the core: set by ENTER and mare__grant(), cleared by EXIT,
 *     mare__revoke() and ABANDON (after the handler, so that it can still see them), and revoked by
 *     a second START, before the handler;
 *   - which timers of mare__arm() are running is known to the core, as is that a crash ended them.
 *
 * A handler may use its state, its parameters, mare__random() and the functions below; it must not
 * make more effects than its `room` declares. */

#include <mare/coord.h>

/* Sets of members: one bit a slot. */
typedef struct mare__set {
    uint64_t *word;
} mare__set;

/* 64-bit words of a set. */
#define MARE__SET_WORDS(capacity) (((capacity) + 63) / 64)

static inline size_t mare__set_bytes(uint32_t capacity)
{
    return MARE__SET_WORDS((size_t)capacity) * 8;
}

static inline int mare__set_has(mare__set set, uint32_t member)
{
    return (int)(set.word[member / 64] >> (member % 64) & 1);
}

static inline void mare__set_add(mare__set set, uint32_t member)
{
    set.word[member / 64] |= UINT64_C(1) << (member % 64);
}

static inline void mare__set_remove(mare__set set, uint32_t member)
{
    set.word[member / 64] &= ~(UINT64_C(1) << (member % 64));
}

void mare__set_clear(mare__set set, uint32_t capacity);
uint32_t mare__set_count(mare__set set, uint32_t capacity);

/* Nonzero when every member of `set` is in `a` or in `b`. */
int mare__set_covered(mare__set set, mare__set a, mare__set b, uint32_t capacity);

/* The first member of the set at `from` or after it, or NOBODY. Walk a set with
 * for (i = mare__set_next(s, 0, n); i != MARE_COORD_NOBODY; i = mare__set_next(s, i + 1, n)) */
uint32_t mare__set_next(mare__set set, uint32_t from, uint32_t capacity);

/* The machine's common part. The algorithm's own state follows it in the same memory. */
struct mare_coord {
    mare_coord_setup setup;
    uint64_t now_us;
    uint64_t random;
    mare__set members; /* includes oneself, until one has left */
    mare__set down;    /* members that the host says are down */
    void *state;
    uint64_t *kept; /* what was last SAVEd, if it keeps anything */
    uint8_t started, waiting, inside;
    uint8_t limited : 1; /* the present wait has a deadline */
    uint8_t unsure : 1;  /* does not know how it has voted in an earlier life, and is asking */
    uint8_t late : 1;    /* a founder that the others may have begun without */
    uint32_t armed;      /* timers of mare__arm() that have not run out yet: one bit each */
};

/* The algorithm's parameter by its place in the list. */
static inline int64_t mare__param(const mare_coord *m, unsigned index)
{
    return m->setup.param[index];
}

/* A member, not known to be down. */
static inline int mare__alive(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member) && !mare__set_has(m->down, member);
}

/* In a START: whether it is that of a founder, when the group begins. */
static inline int mare__founds(const mare_coord *m)
{
    return !m->started && m->setup.founds && !m->late;
}

/* Whether nobody that is up has a higher number. */
int mare__is_highest(const mare_coord *m);

/* The next on the ring of the members that are up; oneself when nobody else is. */
uint32_t mare__successor(const mare_coord *m);

/* A pseudo-random number (splitmix64) from the machine's seed. */
uint64_t mare__random(mare_coord *m);

/* Memory that is handed out piece by piece. Without a base it only counts, and hands out NULL: so
 * one function that lays out a state gives both its size and its pointers. A sum beyond what there
 * can be stays at SIZE_MAX. */
typedef struct mare__block {
    uint8_t *base;
    size_t used;
} mare__block;

/* Room for so many bytes, rounded up to 8; for `count` things of `each` bytes; for a set. */
void *mare__carve(mare__block *block, size_t bytes);
void *mare__carve_array(mare__block *block, size_t count, size_t each);
mare__set mare__carve_set(mare__block *block, uint32_t capacity);

/* Making effects. A message to EVERYBODY is a BROADCAST. */
#define MARE__EVERYBODY (UINT32_MAX - 1)
void mare__send(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare_coord_message *msg);
void mare__broadcast(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg);
/* To each other member that is up and not in `but`: those whose answer is missing. */
void mare__send_rest(mare_coord *m, mare_coord_effects *fx, mare__set but,
                     const mare_coord_message *msg);
void mare__set_timer(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us);
/* Starts a timer for as long as the parameter at `delay_us` says, unless it is running. */
void mare__arm(mare_coord *m, mare_coord_effects *fx, uint32_t timer, unsigned delay_us);
/* The same, from the beginning if it is running. */
void mare__arm_anew(mare_coord *m, mare_coord_effects *fx, uint32_t timer, unsigned delay_us);
void mare__cancel_timer(mare_coord_effects *fx, uint32_t timer);
void mare__grant(mare_coord *m, mare_coord_effects *fx, uint64_t fence);
void mare__revoke(mare_coord *m, mare_coord_effects *fx, const char *why);
void mare__elected(mare_coord_effects *fx, uint32_t leader, uint64_t epoch);
void mare__deliver(mare_coord_effects *fx, uint32_t from, uint64_t number, const uint8_t *data,
                   uint32_t length);
void mare__view(mare_coord_effects *fx, uint64_t number, const uint8_t *data, uint32_t length);
void mare__outside(mare_coord_effects *fx, const char *why);
void mare__no_group(mare_coord_effects *fx, uint32_t answered);
/* LEASED, UNLEASED, DOWN or UP of a member, in an epoch. */
void mare__peer_news(mare_coord_effects *fx, mare_coord_effect_kind kind, uint32_t peer,
                     uint64_t epoch);
void mare__suspect(mare_coord_effects *fx, uint32_t peer, uint64_t attempts);
/* An effect of another machine's, as it is, with a copy of its bytes. */
void mare__pass_on(mare_coord_effects *fx, const mare_coord_effect *effect);
void mare__mark(mare_coord *m, mare_coord_effects *fx, const char *text);

/* Room to put the tail of a message together, at the end of what is left for bytes: declare it. */
uint8_t *mare__scratch(mare_coord_effects *fx, uint32_t bytes);

/* Whether two words are the same, as strcmp() would say. */
static inline int mare__same_word(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* Bytes of a message with `fields` numbers and no tail. */
#define MARE__MESSAGE_BYTES(fields) (2u + 8u * (fields))

/* What a room() declares, where it may be more than 32 bits hold: such a set-up is refused. */
static inline void mare__declare(uint64_t most, uint64_t most_bytes, uint32_t *effects,
                                 uint32_t *bytes)
{
    *effects = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    *bytes = most_bytes < UINT32_MAX ? (uint32_t)most_bytes : UINT32_MAX;
}

/* Numbers of what is SAVEd that are the core's; then come the algorithm's own. */
enum { MARE__SAVED_HEAD = 4 };

/* No Lamport clock gets here by counting: at a million events a second it would take four years.
 * A message that claims more is not believed, so that nobody is pushed to where numbers end; a time
 * below it, multiplied by the capacity of a group, is still a number. */
#define MARE__CLOCK_LIMIT (UINT64_C(1) << 47)

/* Faults that come together, for what an algorithm tolerates. */
enum {
    MARE__SLOW = MARE_COORD_REORDER | MARE_COORD_PAUSE | MARE_COORD_DRIFT,
    MARE__LOSSY = MARE_COORD_LOSS | MARE_COORD_DUPLICATION | MARE_COORD_PARTITION,
    MARE__MORTAL = MARE_COORD_CRASH | MARE_COORD_AMNESIA | MARE_COORD_CHURN,
    /* All may crash, if enough return with what they kept. */
    MARE__RECALLING = MARE_COORD_CRASH | MARE_COORD_ALL_CRASH | MARE_COORD_ALL_RETURN,
};
