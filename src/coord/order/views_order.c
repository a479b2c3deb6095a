/* SPDX-License-Identifier: MIT */

/* In which order the messages of a view are delivered; views.c describes the views.
 *
 *     stored, and sent:   [ what the order needs | the application's bytes ]
 *     order = 0           nothing: the next of its sender is delivered when it is here
 *     order = 1, causal   length (4 bytes), then pairs of member and count: a sparse vector clock
 *     order = 2, total    stamp (8 bytes): the sender's Lamport clock
 *
 * Causal: as in causal.c, VC[k] being how many messages of k were delivered in this view. A message
 * carries only the entries of its sender's clock that have changed since its last multicast
 * (Singhal and Kshemkalyani 1992). That is enough: the one before it was delivered first, so what
 * has not changed since was already there. One that is held back is acknowledged when delivered.
 *
 * Total: as in total.c with acknowledgements to all (SEEN), by Lamport's stamps. The head is
 * delivered once everybody in the view, even the gone,
 *   - has said a time after its stamp, with nothing of its own from before missing here, and
 *   - has said that it has the message: so no survivor lacks what anybody delivered, the dead
 *     included, and all deliveries of a view are beginnings of one sequence.
 * A member that waits asks (ASK) those it waits for, and each tells all that it has (TOLD). SEEN
 * says how many the sender has received, which others may not yet have delivered; so there are two
 * windows of places, the second for copies at the end of the view, when nothing is delivered to
 * make place: a multicast goes out when all have received the one `window` before, which none takes
 * in unless it has delivered the one `window` before that.
 *
 * When the view ends all have the same messages, those up to the cut, and deliver the rest of them
 * in their order. In the causal order some may depend on what no survivor has, sent by one that is
 * gone: they are left out by all, and nobody that survives had delivered them.
 *
 * Invariants: of a sender all is delivered in the order of its numbers, whatever the order; clocks
 * of total orders outlast views, vectors begin anew. */

#include "coord/order/views.h"

#define LENGTH_BYTES 4u
#define PAIR_BYTES 12u /* see mare_coord_sparse_encode() */
#define STAMP_BYTES 8u

static int64_t order_of(const mare_coord *m)
{
    return mare__param(m, ORDER);
}

static uint32_t window_of(const mare_coord *m)
{
    return (uint32_t)mare__param(m, WINDOW);
}

/* What is in front of the data ----------------------------------------------------------------- */

uint32_t mare__views_place_bytes(const mare_coord_setup *setup)
{
    uint32_t data = (uint32_t)setup->param[BYTES];
    if (setup->param[ORDER] == TOTAL)
        return STAMP_BYTES + data;
    return setup->param[ORDER] == CAUSAL ? LENGTH_BYTES + PAIR_BYTES * setup->capacity + data
                                         : data;
}

uint32_t mare__views_places(const mare_coord_setup *setup)
{
    return (uint32_t)setup->param[WINDOW] * (setup->param[ORDER] == TOTAL ? 2 : 1);
}

static uint32_t head_bytes(const mare_coord *m, const uint8_t *bytes)
{
    if (order_of(m) == TOTAL)
        return STAMP_BYTES;
    return order_of(m) == CAUSAL ? LENGTH_BYTES + (uint32_t)mare__get_number(bytes, LENGTH_BYTES)
                                 : 0;
}

uint64_t mare__views_stamp_of(const mare_coord *m, const uint8_t *bytes)
{
    return order_of(m) == TOTAL ? mare__get_number(bytes, STAMP_BYTES) : 0;
}

uint32_t mare__views_wrap(mare_coord *m, const uint8_t *data, uint32_t length)
{
    views *v = m->state;
    uint32_t head = 0;
    if (order_of(m) == TOTAL) {
        mare__put_number(v->wrapped, mare_coord_lamport_tick(&v->clock), STAMP_BYTES);
        head = STAMP_BYTES;
    } else if (order_of(m) == CAUSAL) {
        size_t room = (size_t)PAIR_BYTES * m->setup.capacity;
        size_t pairs = mare_coord_sparse_encode(&v->past, v->wrapped + LENGTH_BYTES, room);
        mare__put_number(v->wrapped, pairs, LENGTH_BYTES);
        head = LENGTH_BYTES + (uint32_t)pairs;
        v->past.count = 0;
    }
    if (length)
        memcpy(v->wrapped + head, data, length);
    return head + length;
}

/* The sparse clock of a message; nonzero when it is none. */
static int read_pairs(const mare_coord *m, const uint8_t *bytes)
{
    views *v = m->state;
    return mare_coord_sparse_decode(&v->stamp, bytes + LENGTH_BYTES,
                                    head_bytes(m, bytes) - LENGTH_BYTES);
}

int mare__views_is_wrapped(const mare_coord *m, uint32_t of, const uint8_t *bytes, uint32_t length)
{
    const views *v = m->state;
    uint32_t least = order_of(m) == TOTAL ? STAMP_BYTES : order_of(m) == CAUSAL ? LENGTH_BYTES : 0;
    if (length < least || length > v->casts.bytes)
        return 0;
    if (order_of(m) == TOTAL)
        return mare__views_stamp_of(m, bytes) - 1 < MARE__CLOCK_LIMIT - 1;
    if (order_of(m) != CAUSAL)
        return 1;
    if (mare__get_number(bytes, LENGTH_BYTES) > length - LENGTH_BYTES ||
        length - head_bytes(m, bytes) > (uint64_t)mare__param(m, BYTES) || read_pairs(m, bytes))
        return 0;
    for (uint32_t i = 0; i < v->stamp.count; i++) {
        if (v->stamp.entry[i].member >= m->setup.capacity || v->stamp.entry[i].member == of)
            return 0;
    }
    return 1;
}

/* Delivering ----------------------------------------------------------------------------------- */

static void deliver_one(mare_coord *m, mare_coord_effects *fx, uint32_t from,
                        const mare__cast *cast)
{
    views *v = m->state;
    const uint8_t *bytes = mare__casts_bytes(&v->casts, cast);
    uint32_t head = head_bytes(m, bytes);
    mare_coord_sparse_entry entry = {.member = from, .count = ++v->casts.taken[from]};
    if (order_of(m) == CAUSAL && from != m->setup.self)
        mare_coord_sparse_merge(&v->past, &(mare_coord_sparse){&entry, 1, 1});
    mare__deliver(fx, from, ++v->delivered, bytes + head, cast->length - head);
}

/* Whether all that a message depends on has been delivered. */
static int is_free(const mare_coord *m, const mare__cast *cast)
{
    const views *v = m->state;
    if (order_of(m) != CAUSAL)
        return 1;
    read_pairs(m, mare__casts_bytes(&v->casts, cast));
    for (uint32_t i = 0; i < v->stamp.count; i++) {
        const mare_coord_sparse_entry *entry = &v->stamp.entry[i];
        if (!mare__casts_past(v->casts.taken[entry->member], entry->count))
            return 0;
    }
    return 1;
}

/* Delivers what comes next of a sender; returns how many that were. */
static uint64_t deliver_of(mare_coord *m, mare_coord_effects *fx, uint32_t from, uint64_t upto)
{
    views *v = m->state;
    uint64_t before = v->casts.taken[from];
    const mare__cast *next;
    while (v->casts.taken[from] < upto &&
           (next = mare__casts_at(&v->casts, from, v->casts.taken[from] + 1)) != NULL &&
           is_free(m, next))
        deliver_one(m, fx, from, next);
    return v->casts.taken[from] - before;
}

/* One may set free another, of anybody. Deliveries are acknowledged, once for each sender. */
static void deliver_causally(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    uint64_t *before = v->most; /* the leader's, who does not deliver */
    mare__views_copy_array(m, before, v->casts.taken);
    for (uint64_t some = 1; some;) {
        some = 0;
        for (uint32_t i = 0; i < m->setup.capacity; i++)
            some += deliver_of(m, fx, i, UINT64_MAX);
    }
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        if (v->casts.taken[i] > before[i])
            mare__views_say(m, fx, i, ACK, v->casts.taken[i], 0, 0);
    }
}

/* Whether the head has to wait for `other`. A full window of its messages, all of them later than
 * the head, also says that nothing earlier can come; see total.c. */
static int must_wait_for(const mare_coord *m, const mare__cast *head, uint32_t from, uint32_t other)
{
    const views *v = m->state;
    if (other == from || other == m->setup.self)
        return 0;
    int is_past = mare__casts_past(v->hearing.heard[other], head->stamp + 1) ||
                  v->casts.received[other] - v->casts.taken[other] >= window_of(m);
    return !is_past ||
           !mare__casts_has(v->has[(size_t)other * m->setup.capacity + from], head->seq);
}

static void deliver_stamped(mare_coord *m, mare_coord_effects *fx)
{
    const views *v = m->state;
    uint32_t n = m->setup.capacity, from = 0;
    for (const mare__cast *head;
         (head = mare__casts_earliest(&v->casts, n, NULL, &from)) != NULL;) {
        for (uint32_t i = mare__set_next(v->group, 0, n); i != MARE_COORD_NOBODY;
             i = mare__set_next(v->group, i + 1, n)) {
            if (must_wait_for(m, head, from, i))
                return;
        }
        deliver_one(m, fx, from, head);
    }
}

void mare__views_deliver_rest(mare_coord *m, mare_coord_effects *fx)
{
    const views *v = m->state;
    uint32_t n = m->setup.capacity, from = 0;
    const mare__cast *head;
    while (order_of(m) == TOTAL &&
           (head = mare__casts_earliest(&v->casts, n, v->cut, &from)) != NULL)
        deliver_one(m, fx, from, head);
    for (uint64_t some = order_of(m) != TOTAL; some;) {
        some = 0;
        for (uint32_t i = 0; i < n; i++)
            some += deliver_of(m, fx, i, v->cut[i]);
    }
}

/* Messages ------------------------------------------------------------------------------------- */

void mare__views_tell_time(mare_coord *m, const mare_coord_message *msg)
{
    views *v = m->state;
    if (order_of(m) != TOTAL)
        return;
    if (msg->kind == SEEN || msg->kind == TOLD)
        mare_coord_lamport_receive(&v->clock, msg->field[CLOCK]);
    else if (msg->kind == CAST || msg->kind == COPY)
        mare_coord_lamport_receive(&v->clock, mare__views_stamp_of(m, msg->tail));
}

/* That I have so many of `of`, and what my time is. */
static void say_seen(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t of)
{
    views *v = m->state;
    mare_coord_message msg = {.kind = SEEN, .field = {v->view}};
    msg.field[CLOCK] = mare_coord_lamport_tick(&v->clock);
    msg.field[SENT] = mare__casts_sent(m, &v->casts);
    msg.field[OF] = of;
    msg.field[UPTO] = v->casts.received[of];
    mare__send(m, fx, to, &msg);
}

static void on_stamped(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                       mare_coord_effects *fx)
{
    views *v = m->state;
    uint64_t seq = msg->field[SECOND], stamp = mare__views_stamp_of(m, msg->tail);
    int fresh = seq <= v->casts.taken[from] + window_of(m) &&
                mare__casts_put(&v->casts, from, seq, stamp, msg->tail, msg->tail_length);
    mare__hear(&v->hearing, from, v->casts.received[from], 0, 0);
    say_seen(m, fx, fresh ? MARE__EVERYBODY : from, from);
    deliver_stamped(m, fx);
}

void mare__views_on_cast(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                         mare_coord_effects *fx)
{
    views *v = m->state;
    uint64_t seq = msg->field[SECOND], before = v->casts.taken[from];
    if (order_of(m) == TOTAL) {
        on_stamped(m, from, msg, fx);
        return;
    }
    mare__casts_put(&v->casts, from, seq, 0, msg->tail, msg->tail_length);
    if (order_of(m) == CAUSAL) {
        deliver_causally(m, fx);
        if (v->casts.taken[from] < seq)
            mare__mark(m, fx, "held back");
    } else {
        deliver_of(m, fx, from, UINT64_MAX);
    }
    if (order_of(m) != CAUSAL || seq <= before)
        mare__views_say(m, fx, from, ACK, v->casts.taken[from], 0, 0);
}

void mare__views_cast_own(mare_coord *m, mare_coord_effects *fx)
{
    if (order_of(m) == TOTAL)
        deliver_stamped(m, fx); /* at once for one that is alone */
    else
        deliver_of(m, fx, m->setup.self, UINT64_MAX);
}

/* That `from` has so many of `of`. */
static void note_has(mare_coord *m, uint32_t from, uint32_t of, uint64_t upto)
{
    views *v = m->state;
    uint64_t *has = &v->has[(size_t)from * m->setup.capacity + of];
    *has = *has < upto ? upto : *has;
    if (of == m->setup.self)
        mare__casts_confirm(&v->casts, from, upto);
}

void mare__views_on_seen(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                         mare_coord_effects *fx)
{
    views *v = m->state;
    if (v->promised)
        return; /* what is delivered is being settled */
    if (msg->kind == SEEN)
        note_has(m, from, (uint32_t)msg->field[OF], msg->field[UPTO]);
    for (uint32_t i = 0; msg->kind == TOLD && i < m->setup.capacity; i++)
        note_has(m, from, i, mare__views_get_number(m, msg, 0, i));
    mare__hear(&v->hearing, from, v->casts.received[from], msg->field[CLOCK], msg->field[SENT]);
    deliver_stamped(m, fx);
}

void mare__views_on_ask(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    views *v = m->state;
    uint64_t sent = mare__casts_sent(m, &v->casts);
    mare__views_put_array(m, 0, v->casts.received);
    mare__views_say(m, fx, from, TOLD, mare_coord_lamport_tick(&v->clock), sent, 1);
}

int mare__views_waits(const mare_coord *m)
{
    const views *v = m->state;
    uint32_t i = 0;
    while (order_of(m) == TOTAL && i < m->setup.capacity &&
           v->casts.taken[i] == v->casts.received[i])
        i++;
    return order_of(m) == TOTAL && i < m->setup.capacity;
}

/* Whether something that waits has to wait for `other`. */
static int waits_for(const mare_coord *m, uint32_t other)
{
    const views *v = m->state;
    for (uint32_t from = 0; from < m->setup.capacity; from++) {
        const mare__cast *next = mare__casts_at(&v->casts, from, v->casts.taken[from] + 1);
        if (next && must_wait_for(m, next, from, other))
            return 1;
    }
    return 0;
}

void mare__views_ask(mare_coord *m, mare_coord_effects *fx)
{
    const views *v = m->state;
    for (uint32_t i = 0; order_of(m) == TOTAL && i < m->setup.capacity; i++) {
        if (mare__set_has(v->group, i) && !mare__set_has(v->gone, i) && waits_for(m, i))
            mare__views_say(m, fx, i, ASK, 0, 0, 0);
    }
}

/* Set-up --------------------------------------------------------------------------------------- */

void mare__views_order_lay_out(views *v, mare__block *block, const mare_coord_setup *setup)
{
    uint32_t n = setup->capacity;
    v->wrapped = mare__carve(block, mare__views_place_bytes(setup));
    if (setup->param[ORDER] == TOTAL) {
        mare__hearing_lay_out(&v->hearing, block, n);
        v->has = mare__carve_array(block, n, n * sizeof *v->has);
    } else if (setup->param[ORDER] == CAUSAL) {
        v->past = (mare_coord_sparse){.room = n};
        v->past.entry = mare__carve_array(block, n, sizeof *v->past.entry);
        v->stamp = (mare_coord_sparse){.room = n};
        v->stamp.entry = mare__carve_array(block, n, sizeof *v->stamp.entry);
    }
}

void mare__views_order_clear(mare_coord *m)
{
    views *v = m->state;
    size_t each = m->setup.capacity * sizeof *v->has;
    v->past.count = 0;
    if (order_of(m) != TOTAL)
        return;
    memset(v->hearing.heard, 0, each);
    memset(v->hearing.later, 0, each);
    memset(v->hearing.later_sent, 0, each);
    memset(v->has, 0, m->setup.capacity * each);
}
