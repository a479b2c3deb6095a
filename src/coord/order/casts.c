/* SPDX-License-Identifier: MIT */

/* The rings of messages that the multicasts keep; casts.h has the picture and the invariants. */

#include "coord/order/casts.h"

#include <string.h>

void mare__casts_lay_out(mare__casts *casts, mare__block *block, uint32_t capacity, uint32_t window,
                         uint32_t bytes)
{
    size_t places = (size_t)capacity * window;
    uint64_t *received = mare__carve(block, capacity * sizeof *received);
    uint64_t *taken = mare__carve(block, capacity * sizeof *taken);
    mare__cast *place = mare__carve(block, places * sizeof *place);
    uint8_t *data = mare__carve(block, places * bytes);
    if (casts)
        *casts = (mare__casts){window, bytes, received, taken, place, data};
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

uint64_t mare__casts_least(const mare_coord *m, const uint64_t *number, uint64_t limit)
{
    uint64_t least = limit;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        if (i != m->setup.self && number[i] < least)
            least = number[i];
    }
    return least;
}

void mare__casts_clear(mare__casts *casts, uint32_t capacity)
{
    memset(casts->received, 0, capacity * sizeof *casts->received);
    memset(casts->taken, 0, capacity * sizeof *casts->taken);
    memset(casts->place, 0, (size_t)capacity * casts->window * sizeof *casts->place);
}
