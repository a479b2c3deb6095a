/* SPDX-License-Identifier: MIT */

/* Superpeers by tokens that repel each other in a space of several dimensions.
 *
 *     ·   · ●→  ·          ● holds a token: the others push it; when they push hard enough it goes
 *       ●   ·   ·  ·       on to a node on the side they push to. Who holds one for long enough
 *     ·   ·    ·   ●       becomes a superpeer, and serves the nodes that are nearest to it.
 *
 * There are `tokens` of them, at nodes picked at random, at most one at each. Every node has a
 * table of where the tokens are, and sends it to a random other from time to time (gossip); of two
 * entries about one token the later stamp counts, then the higher holder. To move a token is to
 * write a later entry and to gossip it to the node that gets it. A token moves when the sum of the
 * forces on it (1 / distance from each of the others) is above `threshold`, to the node in that
 * direction where it is pushed least; and only if that is clearly less, so that tokens come to
 * rest. The borders of the space push too, as if the token stood mirrored behind each: without that
 * the tokens gather at the borders, as charges do, and the middle goes unserved.
 *
 * Sources: Tanenbaum and Van Steen, "Distributed Systems", 6.5.3 and figure 6.22; Lo et al.,
 * "Scalable Supernode Selection in Peer-to-Peer Overlay Networks" (2005).
 *
 * Faults: lost gossip is replaced by the next. A token whose holder is down or gone is given on by
 * the lowest member that is up; should two do so, the later entry counts everywhere in the end. A
 * node that hears that it holds a token holds it: so one that forgot everything is reminded. Two
 * nodes can both take themselves for holder of one token until gossip has passed between them.
 *
 * There is no one leader: ELECTED names the superpeer of this node (the nearest), and the number
 * counts its changes here. Of the four requirements: the number of tokens sets the proportion;
 * repulsion gives the spread, and with it short ways and even loads, though nothing bounds a load.
 * A test prints them as measured. Assumes that all know where all are, and are told who is down, in
 * the end. Any delay, order, loss, repeated delivery; members may join and leave. */

#include "coord/bytes.h"
#include "coord/election/place.h"
#include "coord/machine.h"
#include "coord/table.h"

enum { TOKENS, DIMENSIONS, THRESHOLD, HOLD, GOSSIP_US, SALT }; /* parameters */
enum { TICK };                                                 /* timers */
enum { GOSSIP };                                               /* messages */

#define ENTRY_BYTES 12u /* holder 4, stamp 8 */
#define STAMP_LIMIT (UINT64_C(1) << 60)
#define FORCE INT64_C(1048576) /* at distance 1 */
#define PROMOTED UINT64_C(1)   /* the lowest bit of a stamp: held for long enough */

typedef struct entry {
    uint64_t stamp;
    uint32_t holder;
} entry;

typedef struct tokens {
    uint32_t superpeer;
    uint32_t rests; /* ticks for which my token has not moved */
    uint64_t changes;
    entry *entry; /* by token */
    uint8_t *bytes;
    const int32_t *places; /* that were measured, or NULL */
} tokens;

static uint32_t count_of(const mare_coord_setup *setup)
{
    uint32_t wanted = (uint32_t)setup->param[TOKENS];
    return wanted < setup->members ? wanted : setup->members;
}

void mare__superpeer_places(mare_coord *m, const int32_t *places)
{
    tokens *k = m->state;
    k->places = places;
}

static int64_t place_of(const mare_coord *m, uint32_t member, uint32_t dimension)
{
    const tokens *k = m->state;
    if (k->places)
        return k->places[member * (uint32_t)mare__param(m, DIMENSIONS) + dimension];
    return mare__place_of((uint64_t)mare__param(m, SALT), member, dimension);
}

/* The square of the distance between two nodes. */
static int64_t square(const mare_coord *m, uint32_t a, uint32_t b)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < (uint32_t)mare__param(m, DIMENSIONS); i++) {
        int64_t way = place_of(m, a, i) - place_of(m, b, i);
        sum += way * way;
    }
    return sum;
}

static int is_up(const mare_coord *m, uint32_t member)
{
    return member == m->setup.self ? mare__set_has(m->members, member) : mare__alive(m, member);
}

static int is_free(const mare_coord *m, uint32_t member)
{
    const tokens *k = m->state;
    for (uint32_t t = 0; t < count_of(&m->setup); t++) {
        if (k->entry[t].holder == member)
            return 0;
    }
    return is_up(m, member);
}

/* Forces --------------------------------------------------------------------------------------- */

/* How hard a token would be pushed at this node, all directions added up. */
static int64_t pressure(const mare_coord *m, uint32_t token, uint32_t at)
{
    const tokens *k = m->state;
    int64_t sum = 0;
    for (uint32_t t = 0; t < count_of(&m->setup); t++) {
        if (t != token)
            sum += FORCE / (1 + square(m, at, k->entry[t].holder));
    }
    for (uint32_t i = 0; i < (uint32_t)mare__param(m, DIMENSIONS); i++) {
        int64_t low = 2 * place_of(m, at, i);
        int64_t high = 2 * MARE__PLACE_SIDE - low;
        sum += FORCE / (1 + low * low) + FORCE / (1 + high * high);
    }
    return sum;
}

/* One coordinate of the force on a token held here. */
static int64_t force(const mare_coord *m, uint32_t token, uint32_t dimension)
{
    const tokens *k = m->state;
    int64_t sum = 0, here = place_of(m, m->setup.self, dimension);
    for (uint32_t t = 0; t < count_of(&m->setup); t++) {
        int64_t away = here - place_of(m, k->entry[t].holder, dimension);
        if (t != token)
            sum += FORCE * away / (1 + square(m, m->setup.self, k->entry[t].holder));
    }
    int64_t low = 2 * here, high = 2 * MARE__PLACE_SIDE - low;
    return sum + FORCE * low / (1 + low * low) - FORCE * high / (1 + high * high);
}

/* The free node on the side that the force points to with the least pressure, or NOBODY. */
static uint32_t way_out(const mare_coord *m, uint32_t token)
{
    uint32_t dimensions = (uint32_t)mare__param(m, DIMENSIONS), best = MARE_COORD_NOBODY;
    int64_t push[4], strength = 0, threshold = mare__param(m, THRESHOLD);
    int64_t least = pressure(m, token, m->setup.self) * 7 / 8;
    for (uint32_t i = 0; i < dimensions; i++) {
        push[i] = force(m, token, i);
        strength += push[i] * push[i];
    }
    if (strength <= threshold * threshold)
        return MARE_COORD_NOBODY;
    for (uint32_t j = 0; j < m->setup.capacity; j++) {
        int64_t along = 0;
        if (!is_free(m, j))
            continue;
        for (uint32_t i = 0; i < dimensions; i++)
            along += push[i] * (place_of(m, j, i) - place_of(m, m->setup.self, i));
        int64_t there = along > 0 ? pressure(m, token, j) : least;
        if (there < least) {
            least = there;
            best = j;
        }
    }
    return best;
}

static uint32_t nearest_free(const mare_coord *m, uint32_t to)
{
    uint32_t best = MARE_COORD_NOBODY;
    for (uint32_t j = 0; j < m->setup.capacity; j++) {
        if (is_free(m, j) && (best == MARE_COORD_NOBODY || square(m, j, to) < square(m, best, to)))
            best = j;
    }
    return best;
}

/* Gossip --------------------------------------------------------------------------------------- */

static void tell(mare_coord *m, uint32_t to, mare_coord_effects *fx)
{
    tokens *k = m->state;
    uint8_t *out = k->bytes;
    for (uint32_t t = 0; t < count_of(&m->setup); t++)
        out = mare__put_number(mare__put_number(out, k->entry[t].holder, 4), k->entry[t].stamp, 8);
    mare_coord_message msg = {
        .kind = GOSSIP, .tail = k->bytes, .tail_length = (uint32_t)(out - k->bytes)};
    if (to != MARE_COORD_NOBODY && to != m->setup.self)
        mare__send(m, fx, to, &msg);
}

static void move(mare_coord *m, uint32_t token, uint32_t to, mare_coord_effects *fx)
{
    tokens *k = m->state;
    if (to == MARE_COORD_NOBODY || to == k->entry[token].holder)
        return;
    k->entry[token].stamp = (k->entry[token].stamp | PROMOTED) + 1;
    k->entry[token].holder = to;
    k->rests = 0;
    mare__mark(m, fx, "moves a token");
    tell(m, to, fx);
}

/* The nearest holder that has been promoted; oneself before all. */
static void choose(mare_coord *m, mare_coord_effects *fx)
{
    tokens *k = m->state;
    uint32_t best = MARE_COORD_NOBODY;
    for (uint32_t t = 0; t < count_of(&m->setup); t++) {
        uint32_t holder = k->entry[t].holder;
        if (!(k->entry[t].stamp & PROMOTED) || !is_up(m, holder))
            continue;
        if (best == MARE_COORD_NOBODY || holder == m->setup.self ||
            (best != m->setup.self &&
             square(m, holder, m->setup.self) < square(m, best, m->setup.self)))
            best = holder;
    }
    if (best == k->superpeer)
        return;
    k->superpeer = best;
    if (best != MARE_COORD_NOBODY)
        mare__elected(fx, best, ++k->changes);
}

static uint32_t random_peer(mare_coord *m)
{
    uint32_t count = 0, chosen = MARE_COORD_NOBODY;
    for (uint32_t j = 0; j < m->setup.capacity; j++) {
        if (j != m->setup.self && mare__alive(m, j) && mare__random(m) % ++count == 0)
            chosen = j;
    }
    return chosen;
}

/* What becomes of my own token, of a second one, and of those whose holder is gone. */
static void tend(mare_coord *m, mare_coord_effects *fx)
{
    tokens *k = m->state;
    uint32_t mine = MARE_COORD_NOBODY, lowest = 0;
    while (!is_up(m, lowest))
        lowest++;
    for (uint32_t t = 0; t < count_of(&m->setup); t++) {
        uint32_t holder = k->entry[t].holder;
        if (holder == m->setup.self && mine == MARE_COORD_NOBODY)
            mine = t;
        else if (holder == m->setup.self || (lowest == m->setup.self && !is_up(m, holder)))
            move(m, t, nearest_free(m, holder), fx);
    }
    if (mine == MARE_COORD_NOBODY)
        return;
    uint32_t way = way_out(m, mine);
    if (way != MARE_COORD_NOBODY)
        move(m, mine, way, fx);
    else if (++k->rests >= (uint64_t)mare__param(m, HOLD))
        k->entry[mine].stamp |= PROMOTED;
}

static void tick(mare_coord *m, mare_coord_effects *fx)
{
    uint64_t pace_us = (uint64_t)mare__param(m, GOSSIP_US);
    tend(m, fx);
    tell(m, random_peer(m), fx);
    choose(m, fx);
    mare__set_timer(fx, TICK, pace_us + mare__random(m) % (pace_us / 2 + 1));
}

static entry read_entry(const mare_coord_message *msg, uint32_t token)
{
    const uint8_t *at = msg->tail + token * ENTRY_BYTES;
    return (entry){.holder = (uint32_t)mare__get_number(at, 4),
                   .stamp = mare__get_number(at + 4, 8)};
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    tokens *k = m->state;
    uint32_t count = count_of(&m->setup);
    (void)from;
    if (msg->tail_length != count * ENTRY_BYTES)
        return MARE_COORD_MALFORMED;
    for (uint32_t t = 0; t < count; t++) {
        entry heard = read_entry(msg, t);
        if (heard.holder >= m->setup.capacity || heard.stamp >= STAMP_LIMIT)
            return MARE_COORD_MALFORMED;
    }
    for (uint32_t t = 0; t < count; t++) {
        entry heard = read_entry(msg, t), *known = &k->entry[t];
        if (heard.stamp > known->stamp ||
            (heard.stamp == known->stamp && heard.holder > known->holder))
            *known = heard;
    }
    choose(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    (void)event;
    tick(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    (void)which;
    tick(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    (void)event;
    choose(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    tokens *k = m->state;
    k->rests = 0;
    mare__set_timer(fx, TICK, 1 + mare__random(m) % (uint64_t)mare__param(m, GOSSIP_US));
}

/* Set-up --------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    return sizeof(tokens) + count_of(setup) * (sizeof(entry) + ENTRY_BYTES);
}

/* At first the tokens are with founders next to each other in number: at random in space. */
static void init(mare_coord *m)
{
    tokens *k = m->state;
    k->entry = (entry *)(k + 1);
    k->bytes = (uint8_t *)(k->entry + count_of(&m->setup));
    k->superpeer = MARE_COORD_NOBODY;
    for (uint32_t t = 0; t < count_of(&m->setup); t++)
        k->entry[t].holder = t;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint32_t count = count_of(setup);
    *effects = 2 * count + 8;
    *bytes = (count + 3) * (MARE__MESSAGE_BYTES(0) + count * ENTRY_BYTES);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const tokens *k = m->state;
    int holds = mare__set_has(m->members, m->setup.self) && !is_free(m, m->setup.self);
    view->phase = k->superpeer == m->setup.self ? "superpeer" : holds ? "holder" : "member";
    view->leader = k->superpeer;
    view->epoch = k->changes;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return 0;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH | MARE_COORD_SUSPECTS;
}

/* One from each node in each period. */
static uint64_t messages(const mare_coord_setup *setup)
{
    return setup->members;
}

/* Everybody gossips once, and a node that moves a token once more. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    (void)setup;
    cost->is_period = 1;
}

static const mare_coord_param params[] = {
    {"tokens", "how many superpeers there are to be", 2, 1, 1024},
    {"dimensions", "of the space that nodes have places in", 2, 1, 4},
    {"threshold", "the force, of 2^20 / distance, that a token stands", 2000, 0, 1 << 20},
    {"hold", "for how many periods a holder must keep a token to be promoted", 5, 1, 1000},
    {"gossip_us", "the period of gossip", 20000, 1, INT64_C(1) << 40},
    {"salt", "places nodes differently in space", 0, 0, INT64_C(1) << 32},
    {0},
};

static const mare_coord_form forms[] = {
    {"GOSSIP", {0}, 1},
    {0},
};

const mare_coord_algorithm mare_coord_superpeer_tokens = {
    .name = "superpeer-tokens",
    .title = "superpeers by tokens that repel each other, known by gossip",
    .source = "Lo et al. 2005; Tanenbaum and Van Steen 6.5.3",
    .assumes = "all know where all are, and are told who is down in the end",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_SUPERPEER_TOKENS,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "n a period",
    .cost = cost,
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
