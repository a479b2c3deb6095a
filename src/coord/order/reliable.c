/* SPDX-License-Identifier: MIT */

/* Multicasts that are sent again until everybody has them; reliable.h has the picture. Invariant:
 * of mine, no more than `window` are not confirmed by everybody, so none that somebody may lack has
 * lost its place; and, where they are not sent again, each finds a place. */

#include "coord/order/reliable.h"

void mare__reliable_lay_out(mare__reliable *r, mare__block *block, const mare_coord_setup *setup,
                            uint32_t bytes)
{
    mare__casts_lay_out(&r->casts, block, setup->capacity, (uint32_t)setup->param[WINDOW], bytes);
}

static void send(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare__cast *cast)
{
    const mare__reliable *r = m->state;
    mare_coord_message msg = {.kind = CAST,
                              .field = {cast->seq},
                              .tail = mare__casts_bytes(&r->casts, cast),
                              .tail_length = cast->length};
    mare__send(m, fx, to, &msg);
}

mare_coord_status mare__reliable_cast(mare_coord *m, const uint8_t *data, uint32_t length,
                                      mare_coord_effects *fx)
{
    mare__reliable *r = m->state;
    uint64_t seq = mare__casts_sent(m, &r->casts) + 1;
    if (mare__casts_owed(m, &r->casts, m->members) >= r->casts.window ||
        !mare__casts_put(&r->casts, m->setup.self, seq, 0, data, length))
        return MARE_COORD_REFUSED;
    send(m, fx, MARE__EVERYBODY, mare__casts_at(&r->casts, m->setup.self, seq));
    return MARE_COORD_OK;
}

void mare__reliable_arm(mare_coord *m, mare_coord_effects *fx)
{
    const mare__reliable *r = m->state;
    if (mare__param(m, REPAIR) && mare__casts_owed(m, &r->casts, m->members))
        mare__arm(m, fx, RETRY, RETRY_US);
}

void mare__reliable_acknowledge(mare_coord *m, uint32_t to, mare_coord_effects *fx)
{
    const mare__reliable *r = m->state;
    mare_coord_message ack = {.kind = ACK, .field = {r->casts.received[to]}};
    if (mare__param(m, REPAIR))
        mare__send(m, fx, to, &ack);
}

void mare__reliable_free(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    const mare__reliable *r = m->state;
    mare_coord_message ack = {.kind = ACK, .field = {r->casts.taken[from]}};
    if (!mare__param(m, REPAIR) && from != m->setup.self && mare__casts_frees(&r->casts, from))
        mare__send(m, fx, from, &ack);
}

mare_coord_status mare__reliable_confirm(mare_coord *m, uint32_t from,
                                         const mare_coord_message *msg)
{
    mare__reliable *r = m->state;
    if (msg->field[UPTO] > mare__casts_sent(m, &r->casts))
        return MARE_COORD_MALFORMED;
    mare__casts_confirm(&r->casts, from, msg->field[UPTO]);
    return MARE_COORD_OK;
}

void mare__reliable_start(mare_coord *m, mare_coord_effects *fx)
{
    mare__reliable_arm(m, fx);
}

void mare__reliable_timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    const mare__reliable *r = m->state;
    (void)which;
    if (!mare__param(m, REPAIR))
        return;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity))
        mare__casts_repeat(m, fx, &r->casts, i, send);
    mare__reliable_arm(m, fx);
}

unsigned mare__reliable_tolerates(const mare_coord_setup *setup)
{
    return setup->param[REPAIR] ? MARE__SLOW | MARE__LOSSY : MARE__SLOW;
}

uint64_t mare__reliable_messages(const mare_coord_setup *setup)
{
    int each = setup->param[REPAIR] || setup->param[WINDOW] == 1; /* is acknowledged */
    return (uint64_t)(setup->members - 1) * (each ? 2 : 1);
}

// Delivered when it arrives: without rivals it depends on nothing.
void mare__reliable_cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = 1;
    if (cost->messages_least > setup->members - 1)
        cost->formula = "2(n-1)";
}

const mare_coord_param mare__reliable_params[] = {
    {"repair", "0: as in the sources; 1: acknowledged, and sent again until then", 1, 0, 1},
    {"window", "multicasts of a member that may be under way", 16, 1, 1024},
    {"bytes", "the longest multicast", 64, 0, 65536},
    {"retry_us", "how long to wait before sending again", 50000, 1, INT64_C(1) << 40},
    {0},
};

const mare_coord_form mare__reliable_forms[] = {
    {"CAST", {"seq"}, 1},
    {"ACK", {"upto"}, 0},
    {0},
};
