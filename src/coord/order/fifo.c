/* SPDX-License-Identifier: MIT */

/* FIFO multicast: the messages of each sender are delivered in the order sent, without gaps;
 * between senders there is no order.
 *
 *     multicast ──▶ CAST with its number ──▶ the next of its sender? ──▶ deliver, and what follows
 *                                                   │ no: held back
 *
 * One's own are delivered at once. Source: Tanenbaum and Van Steen, "Distributed Systems", 8.4
 * (reliable multicast in FIFO order).
 *
 * With `repair` = 0 nothing is lost: n−1 messages, and one acknowledgement from each for half a
 * window. With `repair` = 1 each is acknowledged to its sender, who sends it again until then.
 *
 * Assumes a fixed group in which nobody dies. A death in the middle of a multicast may leave some
 * with the message and some without (views.c makes it all or none), and fills the window of the
 * others. Any delay, any order; with `repair` = 1 loss and repeated delivery. A multicast is
 * REFUSED when it is longer than `bytes`, or for `window` of them somebody may have no place. */

#include "coord/order/reliable.h"
#include "coord/table.h"

typedef struct fifo {
    mare__reliable base;
} fifo;

static void deliver_ready(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    fifo *f = m->state;
    mare__casts *casts = &f->base.casts;
    const mare__cast *next;
    while ((next = mare__casts_at(casts, from, casts->taken[from] + 1)) != NULL) {
        casts->taken[from]++;
        mare__deliver(fx, from, ++f->base.delivered, mare__casts_bytes(casts, next), next->length);
        mare__reliable_free(m, from, fx);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    fifo *f = m->state;
    if (msg->kind == ACK)
        return mare__reliable_confirm(m, from, msg);
    if (msg->field[SEQ] == 0 || msg->tail_length > f->base.casts.bytes)
        return MARE_COORD_MALFORMED;
    mare__casts_put(&f->base.casts, from, msg->field[SEQ], 0, msg->tail, msg->tail_length);
    mare__reliable_acknowledge(m, from, fx);
    deliver_ready(m, from, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    mare_coord_status status = mare__reliable_cast(m, event->data, event->length, fx);
    if (status != MARE_COORD_OK)
        return status;
    deliver_ready(m, m->setup.self, fx);
    mare__reliable_arm(m, fx);
    return MARE_COORD_OK;
}

/* Set-up ------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    fifo counted;
    mare__block block = {.used = sizeof counted};
    mare__reliable_lay_out(&counted.base, &block, setup, (uint32_t)setup->param[BYTES]);
    return block.used;
}

static void init(mare_coord *m)
{
    fifo *f = m->state;
    mare__reliable_lay_out(&f->base, &(mare__block){m->state, sizeof *f}, &m->setup,
                           (uint32_t)mare__param(m, BYTES));
}

/* The largest steps: a gap is filled and all behind it is delivered; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t places = setup->capacity * (uint64_t)setup->param[WINDOW];
    uint64_t each = MARE__MESSAGE_BYTES(1) + (uint64_t)setup->param[BYTES];
    mare__declare(places + 8, (places + 4) * each, effects, bytes);
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_FIFO;
}

const mare_coord_algorithm mare_coord_fifo = {
    .name = "fifo",
    .title = "multicast in the order of each sender",
    .source = "Tanenbaum and Van Steen 8.4",
    .assumes = "the group is fixed and nobody dies",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_FIFO,
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
};
