/* SPDX-License-Identifier: MIT */

/* Causally ordered multicast by vector clocks: a message is delivered after all that its sender had
 * multicast or delivered before it. What is concurrent may be delivered in any order.
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
 * With `repair` = 0 this is the algorithm of the source: n−1 messages, none lost, and no more than
 * `window` of a member held back by another. With `repair` = 1 each message is acknowledged to its
 * sender, who sends it again until then. Any order, any delay.
 *
 * Invariant: VC is casts.taken, and ts[i] is the number of the message. The group is fixed: when a
 * member dies in the middle of a multicast, what depends on it may be held back for ever where it
 * did not arrive (views.c has no such gap). A multicast is REFUSED when it is longer than `bytes`
 * or `window` of them are not yet with everybody. */

#include "coord/order/casts.h"
#include "coord/table.h"

#include <string.h>

enum { REPAIR, WINDOW, BYTES, RETRY_US }; /* parameters */
enum { RETRY };                           /* timers */
enum { CAST, ACK };                       /* messages */
enum { SEQ, UPTO = 0 };                   /* fields; the tail of CAST: vector, then data */

typedef struct causal {
    uint64_t delivered;
    uint32_t armed;
    uint64_t *acked;  /* by member: it has my multicasts up to this one */
    uint64_t *stamp;  /* for reading a vector from bytes */
    uint8_t *scratch; /* for writing one, with its data */
    mare__casts casts;
} causal;

static uint32_t vector_bytes(const mare_coord *m)
{
    return 8 * m->setup.capacity;
}

static void write_vector(const uint64_t *clock, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t b = 0; b < 8; b++)
            *out++ = (uint8_t)(clock[i] >> (8 * b));
    }
}

static void read_vector(uint64_t *clock, uint32_t count, const uint8_t *in)
{
    for (uint32_t i = 0; i < count; i++) {
        clock[i] = 0;
        for (uint32_t b = 0; b < 8; b++)
            clock[i] |= (uint64_t)*in++ << (8 * b);
    }
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    causal *c = m->state;
    uint64_t sent = c->casts.taken[m->setup.self];
    if (!mare__param(m, REPAIR) || c->armed || mare__casts_least(m, c->acked, sent) == sent)
        return;
    c->armed = 1;
    mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US));
}

static void send_cast(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare__cast *cast)
{
    causal *c = m->state;
    mare_coord_message msg = {.kind = CAST,
                              .field = {cast->seq},
                              .tail = mare__casts_bytes(&c->casts, cast),
                              .tail_length = cast->length};
    if (to == MARE_COORD_NOBODY)
        mare__broadcast(m, fx, &msg);
    else
        mare__send(m, fx, to, &msg);
}

/* Delivers the next of `from` if nothing stands in its way. */
static int deliver_next(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    causal *c = m->state;
    uint64_t *clock = c->casts.taken;
    const mare__cast *next = mare__casts_at(&c->casts, from, clock[from] + 1);
    if (!next)
        return 0;
    const uint8_t *bytes = mare__casts_bytes(&c->casts, next);
    read_vector(c->stamp, m->setup.capacity, bytes);
    if (!mare_coord_vector_deliverable(clock, c->stamp, m->setup.capacity, from)) {
        mare__mark(m, fx, "held back");
        return 0;
    }
    clock[from]++; /* the larger of each pair: the others are no larger than mine */
    mare__deliver(fx, from, ++c->delivered, bytes + vector_bytes(m),
                  next->length - vector_bytes(m));
    return 1;
}

static void deliver_ready(mare_coord *m, mare_coord_effects *fx)
{
    uint32_t marks = m->setup.marks;
    for (int again = 1; again;) {
        again = 0;
        for (uint32_t i = 0; i < m->setup.capacity; i++)
            again |= i != m->setup.self && deliver_next(m, i, fx);
        m->setup.marks = 0; /* what is held back is said once a step */
    }
    m->setup.marks = marks;
}

static mare_coord_status on_cast(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    causal *c = m->state;
    if (msg->tail_length < vector_bytes(m) || msg->tail_length > c->casts.bytes)
        return MARE_COORD_MALFORMED;
    read_vector(c->stamp, m->setup.capacity, msg->tail);
    if (c->stamp[from] != msg->field[SEQ] || c->stamp[from] == 0)
        return MARE_COORD_MALFORMED;
    mare__casts_put(&c->casts, from, msg->field[SEQ], 0, msg->tail, msg->tail_length);
    if (mare__param(m, REPAIR)) {
        mare_coord_message ack = {.kind = ACK, .field = {c->casts.received[from]}};
        mare__send(m, fx, from, &ack);
    }
    deliver_ready(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    causal *c = m->state;
    if (msg->kind == CAST)
        return on_cast(m, from, msg, fx);
    if (msg->field[UPTO] > c->casts.taken[m->setup.self])
        return MARE_COORD_MALFORMED;
    if (msg->field[UPTO] > c->acked[from])
        c->acked[from] = msg->field[UPTO];
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    causal *c = m->state;
    uint64_t *clock = c->casts.taken;
    uint32_t self = m->setup.self, head = vector_bytes(m);
    uint64_t sent = clock[self];
    if (event->length > c->casts.bytes - head ||
        (mare__param(m, REPAIR) && sent - mare__casts_least(m, c->acked, sent) >= c->casts.window))
        return MARE_COORD_REFUSED;
    mare_coord_vector_tick(clock, self);
    write_vector(clock, m->setup.capacity, c->scratch);
    if (event->length)
        memcpy(c->scratch + head, event->data, event->length);
    clock[self] = sent; /* until it is in its place */
    mare__casts_put(&c->casts, self, sent + 1, 0, c->scratch, head + event->length);
    clock[self] = sent + 1;
    send_cast(m, fx, MARE_COORD_NOBODY, mare__casts_at(&c->casts, self, sent + 1));
    mare__deliver(fx, self, ++c->delivered, event->data, event->length);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    causal *c = m->state;
    (void)which;
    c->armed = 0;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        uint64_t sent = c->casts.taken[m->setup.self];
        for (uint64_t s = c->acked[i] + 1; i != m->setup.self && s <= sent; s++) {
            const mare__cast *cast = mare__casts_at(&c->casts, m->setup.self, s);
            if (cast && mare__param(m, REPAIR))
                send_cast(m, fx, i, cast);
        }
    }
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    causal *c = m->state;
    c->armed = 0;
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static causal *lay_out(mare__block *block, const mare_coord_setup *setup)
{
    causal *c = mare__carve(block, sizeof *c);
    uint32_t bytes = 8 * setup->capacity + (uint32_t)setup->param[BYTES];
    uint64_t *acked = mare__carve(block, setup->capacity * sizeof *acked);
    uint64_t *stamp = mare__carve(block, setup->capacity * sizeof *stamp);
    uint8_t *scratch = mare__carve(block, bytes);
    mare__casts_lay_out(c ? &c->casts : NULL, block, setup->capacity,
                        (uint32_t)setup->param[WINDOW], bytes);
    if (c) {
        c->acked = acked;
        c->stamp = stamp;
        c->scratch = scratch;
    }
    return c;
}

static size_t size(const mare_coord_setup *setup)
{
    mare__block block = {0};
    lay_out(&block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    mare__block block = {.base = m->state};
    lay_out(&block, &m->setup);
}

/* The largest steps: everything that was held back is delivered; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint32_t places = setup->capacity * (uint32_t)setup->param[WINDOW];
    uint32_t each = MARE__MESSAGE_BYTES(1) + 8 * setup->capacity + (uint32_t)setup->param[BYTES];
    *effects = places + setup->capacity + 4;
    *bytes = (places + 2) * each;
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const causal *c = m->state;
    view->vector = c->casts.taken;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_FIFO | MARE_COORD_CAUSAL;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    unsigned always = MARE_COORD_REORDER | MARE_COORD_PAUSE | MARE_COORD_DRIFT;
    if (!setup->param[REPAIR])
        return always;
    return always | MARE_COORD_LOSS | MARE_COORD_DUPLICATION | MARE_COORD_PARTITION;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return (uint64_t)(setup->members - 1) * (setup->param[REPAIR] ? 2 : 1);
}

/* Delivered when it arrives, for it depends on nothing. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    (void)setup;
    cost->delay_least = cost->delay_most = 1;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the source; 1: acknowledged, and sent again until then", 1, 0, 1},
    {"window", "multicasts of a member that may be under way", 16, 1, 1024},
    {"bytes", "the longest multicast", 64, 0, 65536},
    {"retry_us", "how long to wait before sending again", 50000, 1, INT64_C(1) << 40},
    {0},
};

static const mare_coord_form forms[] = {
    {"CAST", {"seq"}, 1},
    {"ACK", {"upto"}, 0},
    {0},
};

const mare_coord_algorithm mare__causal = {
    .name = "causal",
    .title = "causally ordered multicast by vector clocks",
    .source = "Birman, Schiper and Stephenson 1991; Tanenbaum and Van Steen 6.2.2",
    .assumes = "the group is fixed and nobody dies",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_CAUSAL,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "n-1",
    .cost = cost,
    .delay_formula = "1",
    .size = size,
    .room = room,
    .init = init,
    .start = start,
    .receive = receive,
    .timer = timer,
    .request = request,
    .look = look,
};
