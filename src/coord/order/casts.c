/* SPDX-License-Identifier: MIT */

/* The rings of messages that the multicasts keep; casts.h has the picture and the invariants. */

#include "coord/order/casts.h"

#include <string.h>

void mare__casts_lay_out(mare__casts *casts, mare__block *block, uint32_t capacity, uint32_t window,
                         uint32_t bytes)
{
    casts->window = window;
    casts->bytes = bytes;
    casts->received = mare__carve_array(block, capacity, sizeof *casts->received);
    casts->taken = mare__carve_array(block, capacity, sizeof *casts->taken);
    casts->acked = mare__carve_array(block, capacity, sizeof *casts->acked);
    /* 65,536 members by 1,024 places by sizeof *place is below 2^32: only the bytes can be more. */
    casts->place = mare__carve_array(block, (size_t)capacity * window, sizeof *casts->place);
    casts->data = mare__carve_array(block, (size_t)capacity * window, bytes);
}

static mare__cast *place_of(const mare__casts *casts, uint32_t from, uint64_t seq)
{
    return &casts->place[(size_t)from * casts->window + seq % casts->window];
}

const mare__cast *mare__casts_at(const mare__casts *casts, uint32_t from, uint64_t seq)
{
    const mare__cast *cast = place_of(casts, from, seq);
    return seq && cast->seq == seq ? cast : NULL;
}

int mare__casts_put(mare__casts *casts, uint32_t from, uint64_t seq, uint64_t stamp,
                    const uint8_t *data, uint32_t length)
{
    uint64_t taken = casts->taken[from];
    if (seq <= casts->received[from] || seq - taken > casts->window || length > casts->bytes ||
        mare__casts_at(casts, from, seq))
        return 0;
    mare__cast *cast = place_of(casts, from, seq);
    *cast = (mare__cast){seq, stamp, length};
    if (length)
        memcpy(casts->data + (size_t)(cast - casts->place) * casts->bytes, data, length);
    while (mare__casts_at(casts, from, casts->received[from] + 1))
        casts->received[from]++;
    return 1;
}

const mare__cast *mare__casts_earliest(const mare__casts *casts, uint32_t capacity,
                                       const uint64_t *upto, uint32_t *from)
{
    const mare__cast *head = NULL;
    for (uint32_t i = 0; i < capacity; i++) {
        const mare__cast *next = mare__casts_at(casts, i, casts->taken[i] + 1);
        if (!next || (upto && casts->taken[i] >= upto[i]))
            continue;
        mare_coord_stamp a = {next->stamp, i}, b = {head ? head->stamp : 0, *from};
        if (!head || mare_coord_stamp_before(a, b)) {
            head = next;
            *from = i;
        }
    }
    return head;
}

uint64_t mare__casts_owed(const mare_coord *m, const mare__casts *casts, mare__set group)
{
    uint64_t sent = mare__casts_sent(m, casts), least = sent;
    for (uint32_t i = mare__set_next(group, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(group, i + 1, m->setup.capacity)) {
        if (i != m->setup.self && casts->acked[i] < least)
            least = casts->acked[i];
    }
    return sent - least;
}

void mare__casts_confirm(mare__casts *casts, uint32_t member, uint64_t upto)
{
    if (casts->acked[member] < upto)
        casts->acked[member] = upto;
}

void mare__casts_repeat(mare_coord *m, mare_coord_effects *fx, const mare__casts *casts,
                        uint32_t to, mare__casts_send *send)
{
    uint64_t sent = mare__casts_sent(m, casts);
    for (uint64_t s = casts->acked[to] + 1; to != m->setup.self && s <= sent; s++) {
        const mare__cast *cast = mare__casts_at(casts, m->setup.self, s);
        if (cast)
            send(m, fx, to, cast);
    }
}

void mare__casts_clear(mare__casts *casts, uint32_t capacity)
{
    memset(casts->received, 0, capacity * sizeof *casts->received);
    memset(casts->taken, 0, capacity * sizeof *casts->taken);
    memset(casts->acked, 0, capacity * sizeof *casts->acked);
    memset(casts->place, 0, (size_t)capacity * casts->window * sizeof *casts->place);
}
