/* SPDX-License-Identifier: MIT */

/* Election in an ad hoc network: a tree grows over neighbours, and the best node's name comes up.
 *
 *     source ── ELECTION ──▶ R ── ELECTION ──▶ leaf        down, each to all neighbours but its
 *     source ◀── REPORT ─── R ◀── REPORT ──── leaf         parent; up, the best node known below;
 *     source ── LEADER ───▶ R ── LEADER ────▶ leaf         and down again, to everybody
 *
 * A node knows only its neighbours: they are the "members" of its machine. The sender of the first
 * ELECTION is its parent; others that send one are answered ACK at once. When all neighbours it
 * asked have answered, it reports the best node that it knows of to its parent: by the parameter
 * `capacity` (battery, memory …), then by number. The source tells everybody. Elections are ordered
 * by count and source; a node takes part in the highest it has heard of and drops the others.
 * 3(2E − n + 1) messages over E links, which is 3(n−1)² where everybody hears everybody.
 *
 * Sources: Vasudevan, Kurose and Towsley, "Design and Analysis of a Leader Election Algorithm for
 * Mobile Ad Hoc Networks" (2004); Tanenbaum and Van Steen, "Distributed Systems", 6.5.2 and figure
 * 6.21.
 *
 * With `repair` = 0 this is the algorithm of the book: nothing is lost and nobody moves. With
 * `repair` = 1:
 *   - ELECTION is repeated until answered, LEADER until acknowledged by GOT.
 *   - Every change of a node's neighbours (one appears, goes out of reach, dies, returns) makes it
 *     call a higher election. So parts that separate each get a leader, and parts that meet get one
 *     together. The paper does with fewer elections by beacons of the leader; this way a network
 *     that rests is silent.
 *   - A node that has waited too long for an election's end calls a higher one, and waits twice as
 *     long for that, until one ends: a slow network is not a lost message. How long that one took
 *     it keeps in mind, or those for whom an election ended would soon be the next to cut one off.
 *     One that is told of a leader worse than itself calls too: the tree has missed it.
 *   - A node that is behind (it lost its memory, or comes from elsewhere) is told how far the
 *     others are.
 *
 * Epochs: an election with count c that finds l makes epoch c' × capacity of the group + l, where
 * c' is c or the first count above it that belongs to the life of l (epoch.h). An epoch names its
 * leader and which life of it, so two leaders of one epoch are impossible under any fault, loss of
 * memory included. While parts of the network do not reach each other each has a leader, of
 * different epochs unless it is the same one.
 *
 * Assumes nothing for that: any delay, order, loss, repeated delivery, neighbours that come and go.
 * For agreement, that links work both ways and rest in the end. */

#include "coord/election/epoch.h"
#include "coord/election/patience.h"
#include "coord/machine.h"
#include "coord/table.h"

enum { REPAIR, CAPACITY, RETRY_US, PATIENCE_US }; /* parameters */
enum { RETRY, PATIENCE };                         /* timers */
enum { ELECTION, ACK, REPORT, LEADER, GOT };      /* messages */
enum { ID, NODE, WORTH, LIFE };                   /* fields */

#define WORTH_LIMIT (INT64_C(1) << 32)

typedef struct node {
    uint32_t number, life; /* which node, and which life of it */
    uint64_t worth;
} node;

typedef struct wireless {
    uint64_t id;      /* the highest election that I have heard of: count × capacity + source */
    uint64_t settled; /* the last whose result I know */
    uint64_t epoch;
    uint32_t open;     /* `id` is under way here */
    uint32_t reported; /* my part of it is done */
    uint32_t parent;
    mare__patience patience; /* with an election that does not end */
    node best;               /* below me */
    node leader;
    mare__set waiting;  /* asked, and not answered yet */
    mare__set informed; /* neighbours that know the result of `settled` */
} wireless;

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t id,
                node about)
{
    mare_coord_message msg = {.kind = kind, .field = {id, about.number, about.worth, about.life}};
    mare__send(m, fx, to, &msg);
}

static node myself(const mare_coord *m)
{
    return (node){m->setup.self, (uint32_t)m->setup.incarnation,
                  (uint64_t)mare__param(m, CAPACITY)};
}

static int is_better(node a, node b)
{
    if (a.worth != b.worth)
        return a.worth > b.worth;
    return a.number != b.number ? a.number > b.number : a.life > b.life;
}

/* What an election finds: a leader, in an epoch. */
static uint64_t epoch_of(const mare_coord *m, uint64_t id, node leader)
{
    return mare__epoch_make(mare__epoch_count(id / m->setup.capacity, leader.life), leader.number,
                            m->setup.capacity);
}

/* Whether it is about me as I was before I lost my memory. */
static int is_former(const mare_coord *m, node n)
{
    return n.number == m->setup.self && n.life != m->setup.incarnation;
}

static uint32_t next_of(const mare_coord *m, mare__set set, uint32_t from)
{
    return mare__set_next(set, from, m->setup.capacity);
}

/* Whether something is owed that a lost message could hold up. */
static int owes(const mare_coord *m, const wireless *w)
{
    if (w->open)
        return next_of(m, w->waiting, 0) != MARE_COORD_NOBODY;
    return w->settled && !mare__set_covered(m->members, w->informed, m->down, m->setup.capacity);
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (mare__param(m, REPAIR) && owes(m, w))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* The result ----------------------------------------------------------------------------------- */

static void inform(mare_coord *m, mare_coord_effects *fx)
{
    wireless *w = m->state;
    mare_coord_message msg = {
        .kind = LEADER, .field = {w->settled, w->leader.number, w->leader.worth, w->leader.life}};
    mare__send_rest(m, fx, w->informed, &msg);
}

/* The result of election `id`, from a neighbour or found by myself. */
static void settle(mare_coord *m, uint64_t id, node leader, uint32_t from, mare_coord_effects *fx)
{
    wireless *w = m->state;
    w->id = w->settled = id;
    w->open = 0;
    w->leader = leader;
    w->epoch = epoch_of(m, id, leader);
    mare__elected(fx, leader.number, w->epoch);
    mare__set_clear(w->informed, m->setup.capacity);
    mare__set_add(w->informed, m->setup.self);
    if (from != MARE_COORD_NOBODY)
        mare__set_add(w->informed, from);
    if (mare__param(m, REPAIR)) {
        mare__patience_rewarded(&w->patience, m->now_us);
        mare__cancel_timer(fx, PATIENCE);
    }
    inform(m, fx);
}

/* The tree ------------------------------------------------------------------------------------- */

/* When nobody is waited for any more, the best goes up, or is told to all. */
static void try_report(mare_coord *m, mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (!w->open || w->reported || next_of(m, w->waiting, 0) != MARE_COORD_NOBODY)
        return;
    w->reported = 1;
    if (w->parent != MARE_COORD_NOBODY)
        say(m, fx, w->parent, REPORT, w->id, w->best);
    else
        settle(m, w->id, w->best, MARE_COORD_NOBODY, fx);
}

/* Takes part in election `id`, with this parent or as its source. */
static void take_part(mare_coord *m, uint64_t id, uint32_t parent, mare_coord_effects *fx)
{
    wireless *w = m->state;
    w->id = id;
    w->open = 1;
    w->reported = 0;
    w->parent = parent;
    w->best = myself(m);
    mare__set_clear(w->waiting, m->setup.capacity);
    for (uint32_t i = next_of(m, m->members, 0); i != MARE_COORD_NOBODY;
         i = next_of(m, m->members, i + 1)) {
        if (i == m->setup.self || i == parent || !mare__alive(m, i))
            continue;
        mare__set_add(w->waiting, i);
        say(m, fx, i, ELECTION, id, (node){0});
    }
    if (mare__param(m, REPAIR)) {
        uint64_t least_us = (uint64_t)mare__param(m, PATIENCE_US);
        uint64_t patience_us = mare__patience_begin(&w->patience, m->now_us, least_us);
        mare__set_timer(fx, PATIENCE, patience_us + mare__random(m) % patience_us);
    }
    try_report(m, fx);
}

static void call(mare_coord *m, mare_coord_effects *fx)
{
    wireless *w = m->state;
    uint64_t known = w->epoch > w->id ? w->epoch : w->id;
    uint64_t count = mare__epoch_count(known / m->setup.capacity + 1, m->setup.incarnation);
    mare__mark(m, fx, "calls an election");
    take_part(m, count * m->setup.capacity + m->setup.self, MARE_COORD_NOBODY, fx);
}

/* Messages ------------------------------------------------------------------------------------- */

static void on_election(mare_coord *m, uint32_t from, uint64_t id, mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (id > w->id) {
        take_part(m, id, from, fx);
    } else if (id == w->id && from == w->parent) {
        if (w->reported)
            say(m, fx, from, REPORT, id, w->best); /* the first one was lost */
    } else if (id == w->id) {
        say(m, fx, from, ACK, id, (node){0});
    } else if (mare__param(m, REPAIR)) { /* it is behind */
        if (w->open)
            say(m, fx, from, ELECTION, w->id, (node){0});
        else
            say(m, fx, from, LEADER, w->settled, w->leader);
    }
}

static void on_answer(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                      mare_coord_effects *fx)
{
    wireless *w = m->state;
    node found = {(uint32_t)msg->field[NODE], (uint32_t)msg->field[LIFE], msg->field[WORTH]};
    if (!w->open || msg->field[ID] != w->id || !mare__set_has(w->waiting, from))
        return;
    mare__set_remove(w->waiting, from);
    if (msg->kind == REPORT && is_better(found, w->best))
        w->best = found;
    try_report(m, fx);
}

static void on_leader(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                      mare_coord_effects *fx)
{
    wireless *w = m->state;
    uint64_t id = msg->field[ID];
    node leader = {(uint32_t)msg->field[NODE], (uint32_t)msg->field[LIFE], msg->field[WORTH]};
    if (mare__param(m, REPAIR))
        say(m, fx, from, GOT, id, (node){0});
    if (id == w->settled) {
        mare__set_add(w->informed, from);
    } else if (id < w->id) {
        mare__set_remove(w->informed, from); /* it has something older: tell it */
    } else if (epoch_of(m, id, leader) < w->epoch || is_former(m, leader)) {
        w->id = id; /* a rival election found another; or me, whom I have forgotten */
        call(m, fx);
    } else {
        settle(m, id, leader, from, fx);
        if (mare__param(m, REPAIR) && is_better(myself(m), leader))
            call(m, fx);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (msg->field[ID] >= MARE__EPOCH_LIMIT || msg->field[ID] < m->setup.capacity ||
        msg->field[NODE] >= m->setup.capacity || msg->field[WORTH] > (uint64_t)WORTH_LIMIT ||
        msg->field[LIFE] >= MARE__LIFE_LIMIT)
        return MARE_COORD_MALFORMED;
    if (msg->kind == ELECTION)
        on_election(m, from, msg->field[ID], fx);
    else if (msg->kind == LEADER)
        on_leader(m, from, msg, fx);
    else if (msg->kind != GOT)
        on_answer(m, from, msg, fx);
    else if (msg->field[ID] == w->settled)
        mare__set_add(w->informed, from);
    arm(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    (void)event;
    call(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (!mare__param(m, REPAIR))
        return;
    if (which == PATIENCE && w->open) {
        mare__patience_failed(&w->patience);
        call(m, fx);
    } else if (which == RETRY && !w->open && w->settled) {
        inform(m, fx);
    } else if (which == RETRY && w->open) {
        for (uint32_t i = next_of(m, w->waiting, 0); i != MARE_COORD_NOBODY;
             i = next_of(m, w->waiting, i + 1))
            say(m, fx, i, ELECTION, w->id, (node){0});
    }
    arm(m, fx);
}

/* The neighbourhood changes. */
static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    wireless *w = m->state;
    if (event->peer == m->setup.self)
        return;
    mare__set_remove(w->informed, event->peer);
    if (!mare__param(m, REPAIR))
        return;
    call(m, fx);
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    if (mare__founds(m))
        return;
    call(m, fx);
    arm(m, fx);
}

/* Set-up --------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    return sizeof(wireless) + 2 * mare__set_bytes(setup->capacity);
}

static void init(mare_coord *m)
{
    wireless *w = m->state;
    mare__block block = {m->state, sizeof *w};
    w->waiting = mare__carve_set(&block, m->setup.capacity);
    w->informed = mare__carve_set(&block, m->setup.capacity);
    w->parent = w->leader.number = MARE_COORD_NOBODY;
}

/* The largest step settles one election and calls the next. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = 2 * setup->capacity + 12;
    *bytes = (2 * setup->capacity + 4) * MARE__MESSAGE_BYTES(4);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const wireless *w = m->state;
    view->phase = w->open ? (w->reported ? "reported" : "collecting")
                          : (w->leader.number == m->setup.self ? "leading" : "quiet");
    view->leader = w->leader.number;
    view->epoch = w->epoch;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_ONE_LEADER;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    if (!setup->param[REPAIR])
        return MARE__SLOW;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH | MARE_COORD_SUSPECTS;
}

/* Where everybody hears everybody. */
static uint64_t messages(const mare_coord_setup *setup)
{
    uint64_t others = setup->members - 1;
    return 3 * others * others;
}

/* Everybody hears everybody: all are asked, ask each other, answer, report, and are told. Two have
 * nobody else to ask. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = setup->members > 2 ? 5 : 3;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the book; 1: repeats, and calls when the neighbourhood changes", 1, 0, 1},
    {"capacity", "how good a leader this node would be", 1, 0, WORTH_LIMIT},
    {"retry_us", "how long to wait before asking or telling again", 50000, 1, INT64_C(1) << 40},
    {"patience_us", "how long an election may take at least before another", 400000, 1,
     INT64_C(1) << 40},
    {0},
};

static const mare_coord_form forms[] = {
    {"ELECTION", {"id"}, 0},
    {"ACK", {"id"}, 0},
    {"REPORT", {"id", "best", "capacity", "life"}, 0},
    {"LEADER", {"id", "leader", "capacity", "life"}, 0},
    {"GOT", {"id"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_wireless = {
    .name = "wireless",
    .title = "election of the best node by a tree over neighbours (ad hoc networks)",
    .source = "Vasudevan, Kurose and Towsley 2004; Tanenbaum and Van Steen 6.5.2",
    .assumes = "nothing for one leader an epoch; links that rest in the end, for agreement",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_WIRELESS,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "3(n-1)^2",
    .cost = cost,
    .delay_formula = "5 (3 for two)",
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
