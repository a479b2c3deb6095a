/* SPDX-License-Identifier: MIT */

/* Superpeers by a part of the identifiers of a distributed hash table.
 *
 *     identifier of m bits:   p p p x x x x x        mask 11100000, for m = 8 and k = 3
 *     superpeer of a node:    the node responsible for  identifier AND mask
 *
 * Nodes stand on a circle of 2^m identifiers; responsible for a key is the first node at or after
 * it. A node looks up its own identifier with the last m − k bits cleared: LOOKUP is routed by
 * fingers (the nodes responsible for 1, 2, 4 … further on), the responsible node answers FOUND, and
 * one whose own lookup ends at itself is a superpeer.
 *
 * Source: Tanenbaum and Van Steen, "Distributed Systems", 6.5.3; the circle is Chord's (Stoica et
 * al., 2001). The book gives 2^(k−m)·N superpeers on average. That counts the nodes whose last
 * m − k bits are zero, and is exact when every identifier is taken. In a sparse circle the first
 * node after each of the 2^k patterns answers for it, so there are as many superpeers as patterns
 * with somebody behind them: 2^k (1 − (1 − 2^−k)^N) on average; choose k for the number wanted. The
 * tests measure the first on a full circle, the second on sparse ones.
 *
 * Of the four requirements for superpeers: the proportion is set by k; the spread and the load (N /
 * 2^k each, on average) are as even as the identifiers; latency is a lookup of O(log N) hops, and
 * nothing makes a superpeer near. A test prints them as measured.
 *
 * With `repair` = 1 a lookup is repeated until it is answered, and made anew when a change of the
 * group gives the node another superpeer. An answer counts when the node, too, takes the answerer
 * for responsible: so one with an old view of the group is not believed for long.
 *
 * There is no one leader: ELECTED names the superpeer of this node, and the number counts its
 * changes here. Assumes that all are told who is in the group and who is down, in the end. Any
 * delay, order, loss, repeated delivery; members may join and leave. */

#include "coord/election/dht.h"
#include "coord/machine.h"
#include "coord/table.h"

enum { REPAIR, BITS, PREFIX, SALT, RETRY_US }; /* parameters */
enum { RETRY };                                /* timers */
enum { LOOKUP, FOUND };                        /* messages */
enum { KEY, ORIGIN, HOPS };                    /* fields */

typedef struct dht {
    uint32_t superpeer;
    uint32_t looking;
    uint64_t changes, hops; /* hops of the last lookup */
} dht;

/* The circle ----------------------------------------------------------------------------------- */

static uint64_t circle(const mare_coord_setup *setup)
{
    return UINT64_C(1) << setup->param[BITS];
}

static uint64_t place_of(const mare_coord_setup *setup, uint32_t member)
{
    return mare__dht_place((uint32_t)setup->param[BITS], (uint64_t)setup->param[SALT], member);
}

static uint64_t pattern_of(const mare_coord_setup *setup, uint32_t member)
{
    int64_t rest = setup->param[BITS] - setup->param[PREFIX]; /* bits that are cleared */
    return rest > 0 ? place_of(setup, member) >> rest << rest : place_of(setup, member);
}

static uint64_t distance(const mare_coord_setup *setup, uint64_t from, uint64_t to)
{
    return (to - from) & (circle(setup) - 1);
}

/* The first at or after the key; of several at one place, the lowest number. */
static uint32_t responsible(const mare_coord *m, uint64_t key)
{
    uint32_t best = m->setup.self;
    uint64_t near = distance(&m->setup, key, place_of(&m->setup, best));
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        uint64_t far = distance(&m->setup, key, place_of(&m->setup, i));
        if (mare__alive(m, i) && (far < near || (far == near && i < best))) {
            best = i;
            near = far;
        }
    }
    return best;
}

/* The farthest finger that does not pass the key, or the one responsible for it. */
static uint32_t next_hop(const mare_coord *m, uint64_t key)
{
    uint64_t here = place_of(&m->setup, m->setup.self), ahead = distance(&m->setup, here, key);
    for (int64_t bit = mare__param(m, BITS) - 1; bit >= 0; bit--) {
        uint64_t step = UINT64_C(1) << bit;
        if (step > ahead)
            continue;
        uint32_t finger = responsible(m, (here + step) & (circle(&m->setup) - 1));
        uint64_t reach = distance(&m->setup, here, place_of(&m->setup, finger));
        if (finger != m->setup.self && reach && reach <= ahead)
            return finger;
    }
    return responsible(m, key);
}

/* Lookups -------------------------------------------------------------------------------------- */

static void take(mare_coord *m, uint32_t superpeer, uint64_t hops, mare_coord_effects *fx)
{
    dht *d = m->state;
    d->looking = 0;
    d->hops = hops;
    if (d->superpeer == superpeer)
        return;
    d->superpeer = superpeer;
    mare__elected(fx, superpeer, ++d->changes);
}

static void route(mare_coord *m, uint64_t key, uint32_t origin, uint64_t hops,
                  mare_coord_effects *fx)
{
    uint32_t at = responsible(m, key);
    mare_coord_message msg = {.kind = LOOKUP, .field = {key, origin, hops + 1}};
    if (at != m->setup.self) {
        mare__send(m, fx, next_hop(m, key), &msg);
    } else if (origin == m->setup.self) {
        take(m, at, hops, fx);
    } else {
        msg = (mare_coord_message){.kind = FOUND, .field = {key, origin, hops}};
        if (mare__set_has(m->members, origin))
            mare__send(m, fx, origin, &msg);
    }
}

static void look_up(mare_coord *m, mare_coord_effects *fx)
{
    dht *d = m->state;
    d->looking = 1;
    route(m, pattern_of(&m->setup, m->setup.self), m->setup.self, 0, fx);
    if (mare__param(m, REPAIR) && d->looking)
        mare__arm(m, fx, RETRY, RETRY_US);
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    const dht *d = m->state;
    uint64_t mine = pattern_of(&m->setup, m->setup.self);
    if (msg->field[KEY] >= circle(&m->setup) || msg->field[ORIGIN] >= m->setup.capacity ||
        msg->field[HOPS] > m->setup.capacity)
        return MARE_COORD_MALFORMED;
    if (msg->kind == LOOKUP) {
        if (msg->field[HOPS] < m->setup.capacity) /* views that differ could send it in circles */
            route(m, msg->field[KEY], (uint32_t)msg->field[ORIGIN], msg->field[HOPS], fx);
    } else if (d->looking && msg->field[KEY] == mine && responsible(m, mine) == from) {
        take(m, from, msg->field[HOPS], fx);
    }
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    (void)event;
    look_up(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    const dht *d = m->state;
    (void)which;
    if (d->looking)
        look_up(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    const dht *d = m->state;
    if (mare__param(m, REPAIR) && event->peer != m->setup.self &&
        responsible(m, pattern_of(&m->setup, m->setup.self)) != d->superpeer)
        look_up(m, fx);
}

/* Everybody needs a superpeer from the beginning. */
static void start(mare_coord *m, mare_coord_effects *fx)
{
    if (mare__param(m, REPAIR))
        look_up(m, fx);
}

/* Set-up --------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    (void)setup;
    return sizeof(dht);
}

static void init(mare_coord *m)
{
    dht *d = m->state;
    d->superpeer = MARE_COORD_NOBODY;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    (void)setup;
    *effects = 6;
    *bytes = 3 * MARE__MESSAGE_BYTES(3);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const dht *d = m->state;
    view->phase = d->looking ? "looking" : d->superpeer == m->setup.self ? "superpeer" : "member";
    view->leader = d->superpeer;
    view->epoch = d->changes;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return 0;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    if (!setup->param[REPAIR])
        return MARE__SLOW;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH | MARE_COORD_SUSPECTS;
}

/* At most: each hop of a lookup halves the way at least, and there is one answer. */
static uint64_t messages(const mare_coord_setup *setup)
{
    return (uint64_t)setup->param[BITS] + 2;
}

/* Nothing for one that is its own superpeer. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->messages_least = 0;
    cost->delay_least = 0;
    cost->delay_most = (uint64_t)setup->param[BITS] + 2;
    cost->is_bound = 1;
}

static const mare_coord_param params[] = {
    {"repair", "0: looks up when asked to; 1: repeats, and follows changes of the group", 1, 0, 1},
    {"bits", "m: bits of an identifier", 8, 1, 32},
    {"prefix", "k: how many of them name a superpeer", 3, 0, 32},
    {"salt", "places nodes differently on the circle", 0, 0, INT64_C(1) << 32},
    {"retry_us", "how long to wait before looking up again", 50000, 1, INT64_C(1) << 40},
    {0},
};

static const mare_coord_form forms[] = {
    {"LOOKUP", {"key", "origin", "hops"}, 0},
    {"FOUND", {"key", "origin", "hops"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_superpeer_dht = {
    .name = "superpeer-dht",
    .title = "superpeers by a prefix of identifiers in a distributed hash table",
    .source = "Tanenbaum and Van Steen 6.5.3; Stoica et al. 2001",
    .assumes = "all are told of the group's changes in the end",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_SUPERPEER_DHT,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "<= m+2",
    .cost = cost,
    .delay_formula = "<= m+2",
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
