/* SPDX-License-Identifier: MIT */

/* One vote and those who want it; ballot.h has the states. Invariants: the holder has a ticket that
 * is not over; `vote` grows with every giving. */

#include "coord/mutex/ballot.h"

void mare__ballot_lay_out(mare__ballot *b, mare__block *block, uint32_t capacity)
{
    b->ticket = mare__carve_array(block, capacity, sizeof *b->ticket);
    b->stamp = mare__carve_array(block, capacity, sizeof *b->stamp);
    b->over = mare__carve_array(block, capacity, sizeof *b->over);
    b->holder = MARE_COORD_NOBODY;
}

static int before(const mare__ballot *b, uint32_t x, uint32_t y)
{
    mare_coord_stamp a = {b->stamp[x], x}, c = {b->stamp[y], y};
    return mare_coord_stamp_before(a, c);
}

/* The oldest that waits, or NOBODY. */
static uint32_t oldest(const mare__ballot *b, uint32_t capacity)
{
    uint32_t best = MARE_COORD_NOBODY;
    for (uint32_t i = 0; i < capacity; i++) {
        if (b->ticket[i] && i != b->holder && (best == MARE_COORD_NOBODY || before(b, i, best)))
            best = i;
    }
    return best;
}

int mare__ballot_ask(mare__ballot *b, uint32_t from, uint64_t ticket, uint64_t stamp)
{
    if (ticket <= b->over[from] || ticket < b->ticket[from])
        return 0;
    if (ticket == b->ticket[from])
        return 2;
    if (b->holder == from)
        b->holder = MARE_COORD_NOBODY; /* it asks anew, so the last ticket is over */
    b->ticket[from] = ticket;
    b->stamp[from] = stamp;
    return 1;
}

uint32_t mare__ballot_next(mare__ballot *b, uint32_t capacity)
{
    if (b->holder != MARE_COORD_NOBODY)
        return MARE_COORD_NOBODY;
    b->holder = oldest(b, capacity);
    b->vote += b->holder != MARE_COORD_NOBODY;
    return b->holder;
}

int mare__ballot_contested(const mare__ballot *b, uint32_t capacity)
{
    uint32_t rival = oldest(b, capacity);
    return b->holder != MARE_COORD_NOBODY && rival != MARE_COORD_NOBODY &&
           before(b, rival, b->holder);
}

void mare__ballot_yield(mare__ballot *b, uint32_t from, uint64_t ticket, uint64_t vote)
{
    if (b->holder == from && b->ticket[from] == ticket && b->vote == vote)
        b->holder = MARE_COORD_NOBODY;
}

void mare__ballot_release(mare__ballot *b, uint32_t from, uint64_t ticket)
{
    if (b->over[from] < ticket)
        b->over[from] = ticket;
    if (b->ticket[from] > ticket)
        return;
    b->ticket[from] = 0;
    if (b->holder == from)
        b->holder = MARE_COORD_NOBODY;
}

void mare__ballot_turn_away(mare__ballot *b, uint32_t from)
{
    if (b->holder != from)
        b->ticket[from] = 0;
}
