/* SPDX-License-Identifier: MIT */
#pragma once

/* What the author of an algorithm works with: the machine's common part, sets of members, and the
 * functions that make effects. Internal to the library, the simulator and the tests.
 *
 * An algorithm is one file with a `mare_coord_algorithm` and one line in table.c. Its handlers are
 * called by mare_coord_step() only, with what can be checked for all of them checked already:
 *
 *   - START came first; messages are well formed and from another member;
 *   - ENTER only when neither waiting nor inside, EXIT only when inside, ABANDON only when waiting;
 *     those three and MULTICAST and ELECT reach `request`, if the family has them;
 *   - the sets `members` and `down` already say what a JOIN, LEAVE, DOWN or UP told;
 *   - `waiting` and `inside` are kept by the core: set by ENTER and mare__grant(), cleared by EXIT,
 *     mare__revoke() and ABANDON (after the handler, so that it can still see them).
 *
 * A handler may use its state, its parameters, mare__random() and the functions below; it must not
 * make more effects than its `room` declares. */

#include <mare/coord.h>

/* Sets of members: one bit a slot. */
typedef struct mare__set {
    uint64_t *word;
} mare__set;

static inline size_t mare__set_bytes(uint32_t capacity)
{
    return ((size_t)capacity + 63) / 64 * 8;
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
    uint32_t started, waiting, inside;
};

/* The algorithm's parameter by its place in the list. */
static inline int64_t mare__param(const mare_coord *m, unsigned index)
{
    return m->setup.param[index];
}

/* Another member, not known to be down. */
static inline int mare__alive(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member) && !mare__set_has(m->down, member);
}

/* A pseudo-random number (splitmix64) from the machine's seed. */
uint64_t mare__random(mare_coord *m);

/* Carves `bytes` (rounded up to 8) out of a block. Called with a cursor of NULL it only counts: so
 * one layout function gives both the size and the pointers. */
typedef struct mare__block {
    uint8_t *base;
    size_t used;
} mare__block;

void *mare__carve(mare__block *block, size_t bytes);

/* Making effects. */
void mare__send(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare_coord_message *msg);
void mare__broadcast(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg);
void mare__set_timer(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us);
void mare__cancel_timer(mare_coord_effects *fx, uint32_t timer);
void mare__grant(mare_coord *m, mare_coord_effects *fx, uint64_t fence);
void mare__revoke(mare_coord *m, mare_coord_effects *fx, const char *why);
void mare__elected(mare_coord_effects *fx, uint32_t leader, uint64_t epoch);
void mare__deliver(mare_coord_effects *fx, uint32_t from, uint64_t number, const uint8_t *data,
                   uint32_t length);
void mare__view(mare_coord_effects *fx, uint64_t number, const uint8_t *data, uint32_t length);
void mare__suspect(mare_coord_effects *fx, uint32_t peer, uint64_t attempts);
void mare__mark(mare_coord *m, mare_coord_effects *fx, const char *text);

/* Bytes of a message with `fields` numbers and no tail. */
#define MARE__MESSAGE_BYTES(fields) (2u + 8u * (fields))
