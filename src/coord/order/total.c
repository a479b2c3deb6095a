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
 * order. Besides, each tells a sender of every half window of its multicasts that it has delivered
 * (FREE), so that the sender knows where there is room. With `repair` = 1:
 *   - A time counts only once all multicasts that its sender had made by then are here, so that
 *     order on the way does not matter.
 *   - Multicasts are sent again until their receipt is known; a member that waits for another's
 *     time asks for it.
 *
 * Invariants: stamps of one sender grow with its numbers; heard[j] is a time at or before which j
 * will not multicast any more, nor has multicast anything that is not here.
 *
 * Assumes a fixed group in which nobody dies: one dead member stops it (views.c goes on). Any
 * delay; with `repair` = 1 any order, loss and repeated delivery. A multicast is REFUSED when it is
 * longer than `bytes`, or for `window` of them somebody may have no place. */

#include "coord/order/casts.h"
#include "coord/order/hearing.h"
#include "coord/table.h"

enum { REPAIR, ACKS, WINDOW, BYTES, RETRY_US, CLOCK };   /* parameters */
enum { RETRY };                                          /* timers */
enum { CAST, ACK, ASK, FREE };                           /* messages */
enum { TIME, SEQ, STAMP, SENT = 1, OF, UPTO, DONE = 1 }; /* fields */

typedef struct total {
    uint64_t clock;
    uint64_t said; /* the time of the last thing that I told everybody */
    uint64_t delivered;
    mare__hearing hearing;
    mare__casts casts;
} total;

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, mare_coord_message *msg)
{
    total *t = m->state;
    msg->field[TIME] = mare_coord_lamport_tick(&t->clock);
    mare__send(m, fx, to, msg);
    if (to == MARE__EVERYBODY)
        t->said = t->clock;
}

static void acknowledge(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t of)
{
    total *t = m->state;
    mare_coord_message msg = {.kind = ACK};
    msg.field[SENT] = mare__casts_sent(m, &t->casts);
    msg.field[OF] = of;
    msg.field[UPTO] = t->casts.received[of];
    say(m, fx, to, &msg);
}

/* One more of `from` was delivered. A message that is not sent again must find a place: its sender
 * is told when there are that many more. */
static void free_place(mare_coord *m, mare_coord_effects *fx, uint32_t from)
{
    const total *t = m->state;
    mare_coord_message msg = {.kind = FREE};
    msg.field[DONE] = t->casts.taken[from];
    if (!mare__param(m, REPAIR) && from != m->setup.self && mare__casts_frees(&t->casts, from))
        say(m, fx, from, &msg);
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    total *t = m->state;
    int waits = mare__casts_owed(m, &t->casts, m->members) > 0;
    for (uint32_t i = 0; !waits && i < m->setup.capacity; i++)
        waits = t->casts.taken[i] < t->casts.received[i];
    if (waits && mare__param(m, REPAIR))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* The earliest message that waits, or NULL; `from` gets its sender. */
static const mare__cast *find_head(const mare_coord *m, uint32_t *from)
{
    const total *t = m->state;
    return mare__casts_earliest(&t->casts, m->setup.capacity, NULL, from);
}

/* Whether `other` may still send, or have sent, something that comes before `head`. A full ring of
 * its multicasts, all of them later than the head, also says that it cannot; without this they
 * would keep out what its next time depends on, and all could wait for all. */
static int may_precede(const mare_coord *m, const mare__cast *head, uint32_t from, uint32_t other)
{
    const total *t = m->state;
    uint64_t need = head->stamp + (mare__param(m, ACKS) ? 1 : 0);
    return other != from && other != m->setup.self &&
           !mare__casts_past(t->hearing.heard[other], need) &&
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
        free_place(m, fx, from);
    }
}

/* `from` was at `time` with `sent` multicasts behind it. */
static void hear(total *t, uint32_t from, uint64_t time, uint64_t sent)
{
    mare__hear(&t->hearing, from, t->casts.received[from], time, sent);
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
        acknowledge(m, fx, MARE__EVERYBODY, from);
    else if (mare__param(m, REPAIR))
        acknowledge(m, fx, from, from); /* that it has arrived is for the sender to know */
}

/* Every multicast is an event, so their numbers are within the limit of clocks too. */
static int is_malformed(const mare_coord *m, const mare_coord_message *msg)
{
    const total *t = m->state;
    const uint64_t *field = msg->field;
    if (field[TIME] >= MARE__CLOCK_LIMIT)
        return 1;
    if (msg->kind == CAST)
        return field[SEQ] == 0 || field[SEQ] > field[TIME] || field[STAMP] == 0 ||
               field[STAMP] > field[TIME] || msg->tail_length > t->casts.bytes;
    if (msg->kind == FREE)
        return field[DONE] > mare__casts_sent(m, &t->casts);
    return msg->kind == ACK &&
           (field[OF] >= m->setup.capacity || field[SENT] > field[TIME] ||
            (field[OF] == m->setup.self && field[UPTO] > mare__casts_sent(m, &t->casts)));
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    total *t = m->state;
    if (is_malformed(m, msg))
        return MARE_COORD_MALFORMED;
    mare_coord_lamport_receive(&t->clock, msg->field[TIME]);
    if (msg->kind == CAST) {
        on_cast(m, from, msg, fx);
    } else if (msg->kind == ASK) {
        acknowledge(m, fx, from, from);
    } else if (msg->kind == FREE) {
        mare__casts_confirm(&t->casts, from, msg->field[DONE]);
    } else {
        hear(t, from, msg->field[TIME], msg->field[SENT]);
        if (msg->field[OF] == m->setup.self && mare__param(m, REPAIR))
            mare__casts_confirm(&t->casts, from, msg->field[UPTO]);
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
    uint64_t seq = mare__casts_sent(m, &t->casts) + 1;
    if (mare__casts_owed(m, &t->casts, m->members) >= t->casts.window ||
        !mare__casts_put(&t->casts, m->setup.self, seq, t->clock + 1, event->data, event->length))
        return MARE_COORD_REFUSED;
    send_cast(m, fx, MARE__EVERYBODY, mare__casts_at(&t->casts, m->setup.self, seq));
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
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        if (i == m->setup.self || !mare__param(m, REPAIR))
            continue;
        mare__casts_repeat(m, fx, &t->casts, i, send_cast);
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
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(total *t, mare__block *block, const mare_coord_setup *setup)
{
    mare__hearing_lay_out(&t->hearing, block, setup->capacity);
    mare__casts_lay_out(&t->casts, block, setup->capacity, (uint32_t)setup->param[WINDOW],
                        (uint32_t)setup->param[BYTES]);
}

static size_t size(const mare_coord_setup *setup)
{
    total counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    total *t = m->state;
    lay_out(t, &(mare__block){m->state, sizeof *t}, &m->setup);
    t->clock = (uint64_t)mare__param(m, CLOCK);
}

/* The largest steps: the last time that everything waited for arrives; nobody has answered. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t places = setup->capacity * (uint64_t)setup->param[WINDOW];
    uint64_t each = MARE__MESSAGE_BYTES(3) + (uint64_t)setup->param[BYTES];
    uint64_t others = 4 * (uint64_t)setup->capacity + 2;
    mare__declare(places + others + 2, places * each + others * MARE__MESSAGE_BYTES(4), effects,
                  bytes);
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
    return setup->param[REPAIR] ? MARE__SLOW | MARE__LOSSY : MARE_COORD_PAUSE | MARE_COORD_DRIFT;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    int frees = !setup->param[REPAIR] && setup->param[WINDOW] == 1; /* each one half a window */
    return (uint64_t)(setup->members + (uint32_t)frees) * (setup->members - 1);
}

/* The multicast, then the acknowledgements. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = 2;
    if (cost->messages_least > (uint64_t)setup->members * (setup->members - 1))
        cost->formula = "(n+1)(n-1)";
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
    {"FREE", {"clock", "upto"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_total = {
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
