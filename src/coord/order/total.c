/* SPDX-License-Identifier: MIT */

/* Totally ordered multicast by Lamport's clocks: all members deliver the same messages in the same
 * order, that of their stamps.
 *
 *     multicast ──▶ CAST with its stamp, to all ──▶ queue of each, by stamp ──▶ ACK, to all
 *                                                        │
 *            the head, once nothing earlier can come ◀───┘──▶ deliver
 *
 * Nothing earlier can come from a member that was heard at a later time, for its clock only grows:
 * that is all that an acknowledgement says. So any later message of a member serves as well.
 * With `acks` = 1 everybody acknowledges everything to everybody, and only acknowledgements count,
 * as in the sources: n(n−1) messages for a multicast. With `acks` = 0 multicasts count too, and a
 * member that has already said something at the time of the stamp, or later, does not acknowledge:
 * from n−1 messages (all members speak at once) to n(n−1) (one speaks).
 *
 * Sources: Lamport (1978); Tanenbaum and Van Steen, "Distributed Systems", 6.2.1 and figure 6.11.
 *
 * With `repair` = 0 this is the algorithm of the sources: what one member sends another arrives, in
 * order, and no more than `window` multicasts of a member are under way. With `repair` = 1:
 *   - A time counts only once all multicasts that its sender had made by then are here, so that
 *     order on the way does not matter.
 *   - Multicasts are sent again until their receipt is known; a member that waits for another's
 *     time asks for it.
 *
 * Invariants: stamps of one sender grow with its numbers; heard[j] is a time at or before which j
 * will not multicast any more, nor has multicast anything that is not here. The group is fixed:
 * one dead member stops it (views.c goes on). A multicast is REFUSED when it is longer than `bytes`
 * or `window` of them are not yet with everybody. */

#include "coord/order/casts.h"
#include "coord/table.h"

enum { REPAIR, ACKS, WINDOW, BYTES, RETRY_US, CLOCK }; /* parameters */
enum { RETRY };                                        /* timers */
enum { CAST, ACK, ASK };                               /* messages */
enum { TIME, SEQ, STAMP, SENT = 1, OF, UPTO };         /* fields */

typedef struct total {
    uint64_t clock;
    uint64_t said; /* the time of the last thing that I told everybody */
    uint64_t sent, delivered;
    uint32_t armed;
    uint64_t *acked;      /* by member: it has my multicasts up to this one */
    uint64_t *heard;      /* by member: nothing at or before this time is missing */
    uint64_t *later;      /* by member: a time to be heard … */
    uint64_t *later_sent; /* … once its multicasts up to this one are here */
    mare__casts casts;
} total;

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, mare_coord_message *msg)
{
    total *t = m->state;
    msg->field[TIME] = mare_coord_lamport_tick(&t->clock);
    if (to == MARE_COORD_NOBODY) {
        mare__broadcast(m, fx, msg);
        t->said = t->clock;
    } else {
        mare__send(m, fx, to, msg);
    }
}

static void acknowledge(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t of)
{
    total *t = m->state;
    mare_coord_message msg = {.kind = ACK};
    msg.field[SENT] = t->sent;
    msg.field[OF] = of;
    msg.field[UPTO] = t->casts.received[of];
    say(m, fx, to, &msg);
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    total *t = m->state;
    int waits = mare__casts_least(m, t->acked, t->sent) < t->sent;
    for (uint32_t i = 0; !waits && i < m->setup.capacity; i++)
        waits = t->casts.taken[i] < t->casts.received[i];
    if (!mare__param(m, REPAIR) || t->armed || !waits)
        return;
    t->armed = 1;
    mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US));
}

/* The earliest message that waits, or NULL; `from` gets its sender. */
static const mare__cast *find_head(const mare_coord *m, uint32_t *from)
{
    const total *t = m->state;
    const mare__cast *head = NULL;
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        const mare__cast *next = mare__casts_at(&t->casts, i, t->casts.taken[i] + 1);
        if (!next)
            continue;
        mare_coord_stamp a = {next->stamp, i}, b = {head ? head->stamp : 0, *from};
        if (!head || mare_coord_stamp_before(a, b)) {
            head = next;
            *from = i;
        }
    }
    return head;
}

/* Whether `other` may still send, or have sent, something that comes before `head`. A full ring of
 * its multicasts, all of them later than the head, also says that it cannot; without this they
 * would keep out what its next time depends on, and all could wait for all. */
static int may_precede(const mare_coord *m, const mare__cast *head, uint32_t from, uint32_t other)
{
    const total *t = m->state;
    uint64_t need = head->stamp + (mare__param(m, ACKS) ? 1 : 0);
    return other != from && other != m->setup.self && !mare__casts_past(t->heard[other], need) &&
           t->casts.received[other] - t->casts.taken[other] < t->casts.window;
}

static void deliver_ready(mare_coord *m, mare_coord_effects *fx)
{
    total *t = m->state;
    uint32_t from = 0;
    for (const mare__cast *head; (head = find_head(m, &from)) != NULL;) {
        for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
             i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
            if (may_precede(m, head, from, i))
                return;
        }
        t->casts.taken[from]++;
        mare__deliver(fx, from, ++t->delivered, mare__casts_bytes(&t->casts, head), head->length);
    }
}

/* `from` was at `time` with `sent` multicasts behind it. A time that has to wait for them is not
 * given up for a later one, which would have to wait longer. */
static void hear(total *t, uint32_t from, uint64_t time, uint64_t sent)
{
    if (t->casts.received[from] >= t->later_sent[from]) {
        t->heard[from] = t->heard[from] < t->later[from] ? t->later[from] : t->heard[from];
        t->later[from] = t->later_sent[from] = 0;
    }
    if (t->casts.received[from] >= sent) {
        t->heard[from] = t->heard[from] < time ? time : t->heard[from];
    } else if (!t->later_sent[from] && time) {
        t->later[from] = time;
        t->later_sent[from] = sent;
    }
}

static void on_cast(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    total *t = m->state;
    uint64_t stamp = msg->field[STAMP];
    int fresh =
        mare__casts_put(&t->casts, from, msg->field[SEQ], stamp, msg->tail, msg->tail_length);
    hear(t, from, mare__param(m, ACKS) ? 0 : stamp, msg->field[SEQ]);
    if (fresh && (mare__param(m, ACKS) || t->said < stamp))
        acknowledge(m, fx, MARE_COORD_NOBODY, from);
    else if (mare__param(m, REPAIR))
        acknowledge(m, fx, from, from); /* that it has arrived is for the sender to know */
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    total *t = m->state;
    if (msg->field[TIME] >> 40 ||
        (msg->kind == CAST &&
         (msg->field[SEQ] == 0 || msg->field[SEQ] >> 40 || msg->field[STAMP] == 0 ||
          msg->field[STAMP] > msg->field[TIME] || msg->tail_length > t->casts.bytes)) ||
        (msg->kind == ACK && (msg->field[OF] >= m->setup.capacity || msg->field[SENT] >> 40 ||
                              (msg->field[OF] == m->setup.self && msg->field[UPTO] > t->sent))))
        return MARE_COORD_MALFORMED; /* no clock gets there, and none is to be pushed there */
    mare_coord_lamport_receive(&t->clock, msg->field[TIME]);
    if (msg->kind == CAST) {
        on_cast(m, from, msg, fx);
    } else if (msg->kind == ASK) {
        acknowledge(m, fx, from, from);
    } else {
        hear(t, from, msg->field[TIME], msg->field[SENT]);
        if (msg->field[OF] == m->setup.self && msg->field[UPTO] > t->acked[from])
            t->acked[from] = msg->field[UPTO];
    }
    deliver_ready(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void send_cast(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare__cast *cast)
{
    total *t = m->state;
    mare_coord_message msg = {
        .kind = CAST, .tail = mare__casts_bytes(&t->casts, cast), .tail_length = cast->length};
    msg.field[SEQ] = cast->seq;
    msg.field[STAMP] = cast->stamp;
    say(m, fx, to, &msg);
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    total *t = m->state;
    uint64_t everywhere = mare__casts_least(m, t->acked, t->sent);
    if ((mare__param(m, REPAIR) && t->sent - everywhere >= t->casts.window) ||
        !mare__casts_put(&t->casts, m->setup.self, t->sent + 1, t->clock + 1, event->data,
                         event->length))
        return MARE_COORD_REFUSED;
    t->sent++;
    send_cast(m, fx, MARE_COORD_NOBODY, mare__casts_at(&t->casts, m->setup.self, t->sent));
    deliver_ready(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    total *t = m->state;
    uint32_t from = 0;
    const mare__cast *head = find_head(m, &from);
    (void)which;
    t->armed = 0;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        if (i == m->setup.self || !mare__param(m, REPAIR))
            continue;
        for (uint64_t s = t->acked[i] + 1; s <= t->sent; s++) {
            const mare__cast *cast = mare__casts_at(&t->casts, m->setup.self, s);
            if (cast)
                send_cast(m, fx, i, cast);
        }
        if (head && may_precede(m, head, from, i))
            say(m, fx, i, &(mare_coord_message){.kind = ASK});
    }
    arm(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    (void)event;
    deliver_ready(m, fx); /* who has left is not waited for */
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    total *t = m->state;
    t->armed = 0;
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static total *lay_out(mare__block *block, const mare_coord_setup *setup)
{
    total *t = mare__carve(block, sizeof *t);
    size_t bytes = setup->capacity * sizeof(uint64_t);
    uint64_t *acked = mare__carve(block, bytes), *heard = mare__carve(block, bytes);
    uint64_t *later = mare__carve(block, bytes), *later_sent = mare__carve(block, bytes);
    mare__casts_lay_out(t ? &t->casts : NULL, block, setup->capacity,
                        (uint32_t)setup->param[WINDOW], (uint32_t)setup->param[BYTES]);
    if (t) {
        t->acked = acked;
        t->heard = heard;
        t->later = later;
        t->later_sent = later_sent;
    }
    return t;
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
    total *t = lay_out(&block, &m->setup);
    t->clock = (uint64_t)mare__param(m, CLOCK);
}

/* The largest steps: the last time that everything waited for arrives; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint32_t places = setup->capacity * (uint32_t)setup->param[WINDOW];
    *effects = places + setup->capacity + 4;
    *bytes = places * (MARE__MESSAGE_BYTES(3) + (uint32_t)setup->param[BYTES]) +
             (setup->capacity + 2) * MARE__MESSAGE_BYTES(4);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const total *t = m->state;
    view->lamport = t->clock;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_FIFO | MARE_COORD_CAUSAL | MARE_COORD_TOTAL;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    unsigned always = MARE_COORD_PAUSE | MARE_COORD_DRIFT;
    if (!setup->param[REPAIR])
        return always;
    return always | MARE_COORD_REORDER | MARE_COORD_LOSS | MARE_COORD_DUPLICATION |
           MARE_COORD_PARTITION;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return (uint64_t)setup->members * (setup->members - 1);
}

/* The multicast, then the acknowledgements. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    (void)setup;
    cost->delay_least = cost->delay_most = 2;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: sends again and asks what is missing", 1, 0, 1},
    {"acks", "1: everybody acknowledges everything; 0: only when nothing else says it", 1, 0, 1},
    {"window", "multicasts of a member that may be under way", 16, 1, 1024},
    {"bytes", "the longest multicast", 64, 0, 65536},
    {"retry_us", "how long to wait before sending or asking again", 50000, 1, INT64_C(1) << 40},
    {"clock", "where the Lamport clock starts", 0, 0, INT64_C(1) << 32},
    {0},
};

static const mare_coord_form forms[] = {
    {"CAST", {"clock", "seq", "stamp"}, 1},
    {"ACK", {"clock", "sent", "of", "upto"}, 0},
    {"ASK", {"clock"}, 0},
    {0},
};

const mare_coord_algorithm mare__total = {
    .name = "total",
    .title = "totally ordered multicast by Lamport's clocks",
    .source = "Lamport 1978; Tanenbaum and Van Steen 6.2.1",
    .assumes = "the group is fixed and nobody dies",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_TOTAL,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "n(n-1)",
    .cost = cost,
    .delay_formula = "2",
    .size = size,
    .room = room,
    .init = init,
    .start = start,
    .receive = receive,
    .timer = timer,
    .request = request,
    .peer = peer,
    .look = look,
};
