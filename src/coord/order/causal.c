/* SPDX-License-Identifier: MIT */

/* Causally ordered multicast by vector clocks: a message is delivered after all that its sender had
 * multicast or delivered before it. Concurrent messages may be delivered in any order.
 *
 *     multicast: VC[i] + 1 ──▶ CAST with ts = VC ──▶ held back ──▶ deliver: VC = max(VC, ts)
 *
 *     deliverable at j, from i:   ts[i] = VC_j[i] + 1      it is the next of its sender
 *                                 ts[k] ≤ VC_j[k], k ≠ i   it depends on nothing unseen
 *
 * Clocks move on multicast and on delivery only, so VC_j[i] is how many messages of i were
 * delivered at j. One's own are delivered at once.
 *
 * Sources: Birman, Schiper and Stephenson (1991); Tanenbaum and Van Steen, "Distributed Systems",
 * 6.2.2 and figure 6.13.
 *
 * With `repair` = 0 this is the algorithm of the source: n−1 messages, none lost, and besides one
 * acknowledgement from each for half a window. With `repair` = 1 each message is acknowledged to
 * its sender, who sends it again until then.
 *
 * Invariant: VC is base.casts.taken, and ts[i] is the number of the message.
 *
 * Assumes a fixed group in which nobody dies: when a member dies in the middle of a multicast, what
 * depends on it may be held back for ever where it did not arrive (views.c has no such gap). Any
 * delay, any order; with `repair` = 1 loss and repeated delivery. A multicast is REFUSED when it is
 * longer than `bytes`, or for `window` of them somebody may have no place. */

#include "coord/bytes.h"
#include "coord/order/reliable.h"
#include "coord/table.h"

#include <string.h>

typedef struct causal {
    mare__reliable base; /* what is cast: the vector, then the data */
    uint64_t *stamp;     /* for reading a vector from bytes */
    uint8_t *scratch;    /* for writing one, with its data */
} causal;

static uint32_t vector_bytes(const mare_coord_setup *setup)
{
    return 8 * setup->capacity;
}

static uint32_t cast_bytes(const mare_coord_setup *setup)
{
    return vector_bytes(setup) + (uint32_t)setup->param[BYTES];
}

/* Delivers the next of `from` if nothing stands in its way. */
static int deliver_next(mare_coord *m, uint32_t from, int first_try, mare_coord_effects *fx)
{
    causal *c = m->state;
    mare__casts *casts = &c->base.casts;
    const mare__cast *next = mare__casts_at(casts, from, casts->taken[from] + 1);
    if (!next)
        return 0;
    const uint8_t *bytes = mare__casts_bytes(casts, next);
    uint32_t head = vector_bytes(&m->setup);
    mare__get_numbers(c->stamp, bytes, m->setup.capacity);
    if (!mare_coord_vector_deliverable(casts->taken, c->stamp, m->setup.capacity, from)) {
        if (first_try)
            mare__mark(m, fx, "held back");
        return 0;
    }
    casts->taken[from]++; /* the larger of each pair: the others are no larger than mine */
    mare__deliver(fx, from, ++c->base.delivered, bytes + head, next->length - head);
    mare__reliable_free(m, from, fx);
    return 1;
}

static void deliver_ready(mare_coord *m, mare_coord_effects *fx)
{
    int first_try = 1;
    for (int again = 1; again; first_try = 0) {
        again = 0;
        for (uint32_t i = 0; i < m->setup.capacity; i++)
            again |= i != m->setup.self && deliver_next(m, i, first_try, fx);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    causal *c = m->state;
    if (msg->kind == ACK)
        return mare__reliable_confirm(m, from, msg);
    if (msg->tail_length < vector_bytes(&m->setup) || msg->tail_length > c->base.casts.bytes ||
        msg->field[SEQ] == 0 || mare__get_number(msg->tail + 8 * from, 8) != msg->field[SEQ])
        return MARE_COORD_MALFORMED;
    mare__casts_put(&c->base.casts, from, msg->field[SEQ], 0, msg->tail, msg->tail_length);
    mare__reliable_acknowledge(m, from, fx);
    deliver_ready(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    causal *c = m->state;
    uint64_t *clock = c->base.casts.taken;
    uint32_t self = m->setup.self, head = vector_bytes(&m->setup);
    if (event->length > c->base.casts.bytes - head)
        return MARE_COORD_REFUSED;
    mare__put_numbers(c->scratch, clock, m->setup.capacity);
    mare__put_number(c->scratch + 8 * self, clock[self] + 1, 8);
    if (event->length)
        memcpy(c->scratch + head, event->data, event->length);
    mare_coord_status status = mare__reliable_cast(m, c->scratch, head + event->length, fx);
    if (status != MARE_COORD_OK)
        return status;
    mare_coord_vector_tick(clock, self);
    mare__deliver(fx, self, ++c->base.delivered, event->data, event->length);
    mare__reliable_arm(m, fx);
    return MARE_COORD_OK;
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(causal *c, mare__block *block, const mare_coord_setup *setup)
{
    c->stamp = mare__carve_array(block, setup->capacity, sizeof *c->stamp);
    c->scratch = mare__carve(block, cast_bytes(setup));
    mare__reliable_lay_out(&c->base, block, setup, cast_bytes(setup));
}

static size_t size(const mare_coord_setup *setup)
{
    causal counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    causal *c = m->state;
    lay_out(c, &(mare__block){m->state, sizeof *c}, &m->setup);
}

/* The largest steps: everything that was held back is delivered; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t places = setup->capacity * (uint64_t)setup->param[WINDOW];
    uint64_t each = MARE__MESSAGE_BYTES(1) + cast_bytes(setup);
    uint64_t acks = 3 * (uint64_t)setup->capacity;
    mare__declare(places + acks + setup->capacity + 4,
                  (places + 2) * each + acks * MARE__MESSAGE_BYTES(1), effects, bytes);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const causal *c = m->state;
    view->vector = c->base.casts.taken;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_FIFO | MARE_COORD_CAUSAL;
}

const mare_coord_algorithm mare_coord_causal = {
    .name = "causal",
    .title = "causally ordered multicast by vector clocks",
    .source = "Birman, Schiper and Stephenson 1991; Tanenbaum and Van Steen 6.2.2",
    .assumes = "the group is fixed and nobody dies",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_CAUSAL,
    .params = mare__reliable_params,
    .forms = mare__reliable_forms,
    .promises = promises,
    .tolerates = mare__reliable_tolerates,
    .messages = mare__reliable_messages,
    .formula = "n-1",
    .cost = mare__reliable_cost,
    .delay_formula = "1",
    .size = size,
    .room = room,
    .init = init,
    .start = mare__reliable_start,
    .receive = receive,
    .timer = mare__reliable_timer,
    .request = request,
    .look = look,
};
