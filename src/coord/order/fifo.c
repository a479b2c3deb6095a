/* SPDX-License-Identifier: MIT */

/* FIFO multicast: the messages of each sender are delivered in the order sent, without gaps;
 * between senders there is no order.
 *
 *     multicast ──▶ CAST with its number ──▶ the next of its sender? ──▶ deliver, and what follows
 *                                                   │ no: held back
 *
 * One's own are delivered at once. Source: Tanenbaum and Van Steen, "Distributed Systems", 8.4
 * (reliable multicast in FIFO order); the sliding window with cumulative acknowledgements is that
 * of any transport.
 *
 * With `repair` = 0 nothing is lost, and no more than `window` multicasts of a member overtake each
 * other: n−1 messages. With `repair` = 1 each is acknowledged to its sender, who sends it again
 * until then.
 *
 * Who dies in the middle of a multicast may leave some with the message and some without (views.c
 * makes it all or none). The group is fixed: a dead member fills the window of the others. A
 * multicast is REFUSED when it is longer than `bytes` or `window` of them are not yet with
 * everybody. */

#include "coord/order/casts.h"
#include "coord/table.h"

enum { REPAIR, WINDOW, BYTES, RETRY_US }; /* parameters */
enum { RETRY };                           /* timers */
enum { CAST, ACK };                       /* messages */
enum { SEQ, UPTO = 0 };                   /* fields */

typedef struct fifo {
    uint64_t delivered;
    uint32_t armed;
    uint64_t *acked; /* by member: it has my multicasts up to this one */
    mare__casts casts;
} fifo;

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    fifo *f = m->state;
    uint64_t sent = f->casts.taken[m->setup.self];
    if (!mare__param(m, REPAIR) || f->armed || mare__casts_least(m, f->acked, sent) == sent)
        return;
    f->armed = 1;
    mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US));
}

static void send_cast(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare__cast *cast)
{
    fifo *f = m->state;
    mare_coord_message msg = {.kind = CAST,
                              .field = {cast->seq},
                              .tail = mare__casts_bytes(&f->casts, cast),
                              .tail_length = cast->length};
    if (to == MARE_COORD_NOBODY)
        mare__broadcast(m, fx, &msg);
    else
        mare__send(m, fx, to, &msg);
}

static void deliver_ready(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    fifo *f = m->state;
    const mare__cast *next;
    while ((next = mare__casts_at(&f->casts, from, f->casts.taken[from] + 1)) != NULL) {
        f->casts.taken[from]++;
        mare__deliver(fx, from, ++f->delivered, mare__casts_bytes(&f->casts, next), next->length);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    fifo *f = m->state;
    if (msg->kind == ACK && msg->field[UPTO] > f->casts.taken[m->setup.self])
        return MARE_COORD_MALFORMED;
    if (msg->kind == ACK) {
        f->acked[from] = f->acked[from] < msg->field[UPTO] ? msg->field[UPTO] : f->acked[from];
        return MARE_COORD_OK;
    }
    if (msg->field[SEQ] == 0 || msg->tail_length > f->casts.bytes)
        return MARE_COORD_MALFORMED;
    mare__casts_put(&f->casts, from, msg->field[SEQ], 0, msg->tail, msg->tail_length);
    if (mare__param(m, REPAIR)) {
        mare_coord_message ack = {.kind = ACK, .field = {f->casts.received[from]}};
        mare__send(m, fx, from, &ack);
    }
    deliver_ready(m, from, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    fifo *f = m->state;
    uint32_t self = m->setup.self;
    uint64_t sent = f->casts.taken[self];
    if ((mare__param(m, REPAIR) &&
         sent - mare__casts_least(m, f->acked, sent) >= f->casts.window) ||
        !mare__casts_put(&f->casts, self, sent + 1, 0, event->data, event->length))
        return MARE_COORD_REFUSED;
    send_cast(m, fx, MARE_COORD_NOBODY, mare__casts_at(&f->casts, self, sent + 1));
    deliver_ready(m, self, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    fifo *f = m->state;
    (void)which;
    f->armed = 0;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        uint64_t sent = f->casts.taken[m->setup.self];
        for (uint64_t s = f->acked[i] + 1; i != m->setup.self && s <= sent; s++) {
            const mare__cast *cast = mare__casts_at(&f->casts, m->setup.self, s);
            if (cast && mare__param(m, REPAIR))
                send_cast(m, fx, i, cast);
        }
    }
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    fifo *f = m->state;
    f->armed = 0;
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static fifo *lay_out(mare__block *block, const mare_coord_setup *setup)
{
    fifo *f = mare__carve(block, sizeof *f);
    uint64_t *acked = mare__carve(block, setup->capacity * sizeof *acked);
    mare__casts_lay_out(f ? &f->casts : NULL, block, setup->capacity,
                        (uint32_t)setup->param[WINDOW], (uint32_t)setup->param[BYTES]);
    if (f)
        f->acked = acked;
    return f;
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

/* The largest steps: a gap is filled and all behind it is delivered; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint32_t places = setup->capacity * (uint32_t)setup->param[WINDOW];
    *effects = places + 4;
    *bytes = (places + 2) * (MARE__MESSAGE_BYTES(1) + (uint32_t)setup->param[BYTES]);
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_FIFO;
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

/* Delivered when it arrives. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    (void)setup;
    cost->delay_least = cost->delay_most = 1;
}

static const mare_coord_param params[] = {
    {"repair", "0: nothing is lost; 1: acknowledged, and sent again until then", 1, 0, 1},
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

const mare_coord_algorithm mare__fifo = {
    .name = "fifo",
    .title = "multicast in the order of each sender",
    .source = "Tanenbaum and Van Steen 8.4",
    .assumes = "the group is fixed and nobody dies",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_FIFO,
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
};
