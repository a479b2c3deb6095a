/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that tells of the next view first, and then delivers the rest of the last one.
 */

#include "tests/sim/broken.h"

#include "coord/machine.h"

enum { REST_MOST = 1000 };

static struct {
    uint32_t from, length;
    uint64_t number;
    const uint8_t *data; /* in a place that is not used again before the step is over */
} rest[REST_MOST];
static uint32_t rests;

static void deliver_later(mare_coord *m, mare_coord_effects *fx, uint32_t from, uint64_t number,
                          const uint8_t *data, uint32_t length);

static inline void view_first(mare_coord_effects *fx, uint64_t number, const uint8_t *data,
                              uint32_t length)
{
    mare__view(fx, number, data, length);
    for (uint32_t i = 0; i < rests; i++)
        mare__deliver(fx, rest[i].from, rest[i].number, rest[i].data, rest[i].length);
    rests = 0;
}

#define BROKEN_VIEWS mare_broken_views_early
#define mare__deliver(fx, from, number, data, length)                                              \
    deliver_later(m, fx, from, number, data, length)
#define mare__view view_first
#include "tests/sim/broken_views.h"
#undef mare__deliver

static void deliver_later(mare_coord *m, mare_coord_effects *fx, uint32_t from, uint64_t number,
                          const uint8_t *data, uint32_t length)
{
    const views *v = m->state;
    if (!v->promised || rests == REST_MOST) {
        mare__deliver(fx, from, number, data, length);
        return;
    }
    rest[rests].from = from;
    rest[rests].number = number;
    rest[rests].data = data;
    rest[rests++].length = length;
}
