/* SPDX-License-Identifier: MIT */

/* Election on a ring: a list of names goes round, then the name of the highest, with the list.
 *
 *     2 ── ELECTION [2] ──────────▶ 3 ── ELECTION [2 3] ────────▶ 4 … ──▶ 2: all names are there
 *     2 ── COORDINATOR 6 [2 3 …] ─▶ 3 ── COORDINATOR 6 [2 3 …] ─▶ 4 … ──▶ 2: everybody knows
 *
 * The ring is the order of numbers; the successor is the next member that is not known to be down.
 * Each member adds its number to the list and passes it on. The caller knows its own round by its
 * number, picks the highest of the list, and sends its name round once more, with the list: those
 * are the members of the new ring, which each tells its application (VIEW). 2n messages.
 *
 * Source: Tanenbaum and Van Steen, "Distributed Systems", 6.5.1 and figure 6.20. Removing the
 * duplicate when several call at once (`single` = 1) is their problem 15; the idea is that of Chang
 * and Roberts (1979): rounds are ordered by count and caller, and a member that has passed on one
 * swallows every lower one.
 *
 * With `repair` = 0 this is the algorithm of the sources: nothing is lost, nobody dies with the
 * list in hand. With `repair` = 1 (which implies `single`):
 *   - Each hop is acknowledged and repeated; a successor that goes down is passed over.
 *   - A member that has passed on an ELECTION waits for its COORDINATOR, and the caller for its
 *     return; one that waits too long (`hop_us` for each member and turn, and a random part) calls
 *     a higher round. So a list that is lost with its holder is replaced. It waits twice as long
 *     each time, until a round comes to its end, and keeps in mind how long that one took: a slow
 *     network must not be taken for a lost list for ever.
 *   - One that returns or joins calls, and so does one that hears of it; or that its leader is down
 *     or gone; or that is told of a leader that it knows to be down, or lower than itself.
 *
 * Epochs: a round with count c elects l in epoch c' × capacity + l, where c' is c or the first
 * count above it that belongs to the life of l (epoch.h). An epoch names its leader and which life
 * of it, so two leaders of one epoch are impossible under any fault, loss of memory included.
 * Callers of one count that agree on the leader agree on the epoch. Members that cannot reach each
 * other can have leaders of different epochs at one moment only if DOWN is said of members that
 * live; otherwise a round does not close without everybody that is up.
 *
 * Assumes: DOWN is only said of the dead, and is said in the end. Any delay, order, loss, repeated
 * delivery; members may join and leave. The list is 8 bytes a member. */

#include "coord/bytes.h"
#include "coord/election/epoch.h"
#include "coord/election/patience.h"
#include "coord/machine.h"
#include "coord/table.h"

#include <string.h>

enum { REPAIR, SINGLE, HOP_US, RETRY_US }; /* parameters */
enum { PATIENCE, RETRY };                  /* timers */
enum { ELECTION, COORDINATOR, RECEIVED };  /* messages */
enum { ROUND, LEADER, LIFE };              /* fields */
enum { WHICH = 1, BEHIND };                /* … of RECEIVED */

#define NUMBER_BYTES 4u
#define NAME_BYTES (2u * NUMBER_BYTES) /* a name on the list: the number, and which life of it */

typedef struct name {
    uint32_t number, life;
} name;

typedef struct ring {
    uint64_t round;   /* the highest that I have passed on: count × capacity + caller */
    uint64_t settled; /* the last one whose COORDINATOR I have seen (the caller: come back) */
    uint64_t epoch;
    uint32_t leader;
    uint32_t calling;        /* without single: my own list is under way */
    mare__patience patience; /* with a round that does not come to its end */

    /* With repair: what I have passed on and is not acknowledged. */
    uint32_t holding, kind, to, listed;
    name chosen;
    uint8_t *list; /* of names */
} ring;

static int one_round(const mare_coord *m)
{
    return mare__param(m, REPAIR) || mare__param(m, SINGLE);
}

static name myself(const mare_coord *m)
{
    return (name){m->setup.self, (uint32_t)m->setup.incarnation};
}

static name read_name(const uint8_t *at)
{
    return (name){(uint32_t)mare__get_number(at, NUMBER_BYTES),
                  (uint32_t)mare__get_number(at + NUMBER_BYTES, NUMBER_BYTES)};
}

static void write_name(uint8_t *at, name n)
{
    mare__put_number(at, n.number, NUMBER_BYTES);
    mare__put_number(at + NUMBER_BYTES, n.life, NUMBER_BYTES);
}

/* Whether it is about me as I was before I lost my memory. */
static int is_former(const mare_coord *m, name n)
{
    return n.number == m->setup.self && n.life != m->setup.incarnation;
}

/* Passing on ----------------------------------------------------------------------------------- */

/* Waits for the round to come to its end. */
static void wait_for_end(mare_coord *m, mare_coord_effects *fx)
{
    ring *r = m->state;
    if (!mare__param(m, REPAIR))
        return;
    uint64_t turn_us =
        (uint64_t)mare__param(m, HOP_US) * mare__set_count(m->members, m->setup.capacity);
    uint64_t patience_us = mare__patience_begin(&r->patience, m->now_us, 2 * turn_us);
    mare__set_timer(fx, PATIENCE, patience_us + mare__random(m) % (patience_us / 2 + 1));
}

static void close(mare_coord *m, uint64_t round, name leader, const uint8_t *list, uint32_t length,
                  mare_coord_effects *fx);

/* Sends to the successor what is to be passed on. One that is alone is its own successor. */
static void pass(mare_coord *m, uint32_t kind, uint64_t round, name leader, const uint8_t *list,
                 uint32_t length, mare_coord_effects *fx)
{
    ring *r = m->state;
    uint32_t next = mare__successor(m);
    mare_coord_message msg = {.kind = kind,
                              .field = {round, leader.number, leader.life},
                              .tail = list,
                              .tail_length = length};
    if (mare__param(m, REPAIR)) {
        r->holding = next != m->setup.self;
        r->kind = kind;
        r->to = next;
        r->chosen = leader;
        r->listed = length;
        if (length && list != r->list)
            memcpy(r->list, list, length);
        if (r->holding)
            mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US));
    }
    if (next != m->setup.self)
        mare__send(m, fx, next, &msg);
    else if (kind == ELECTION)
        close(m, round, myself(m), list, length, fx);
}

/* What a round finds: a leader, in an epoch. */
static uint64_t epoch_of(const mare_coord *m, uint64_t round, name leader)
{
    return mare__epoch_make(mare__epoch_count(round / m->setup.capacity, leader.life),
                            leader.number, m->setup.capacity);
}

/* Where a list is made, at the end of the byte buffer: see room(). */
static uint8_t *scratch_of(const mare_coord *m, const mare_coord_effects *fx)
{
    return fx->bytes + fx->bytes_room - (size_t)NAME_BYTES * m->setup.capacity;
}

/* The numbers of a list alone, as an application wants them. */
static void tell_ring(const mare_coord *m, uint64_t epoch, const uint8_t *list, uint32_t length,
                      mare_coord_effects *fx)
{
    uint32_t count = length / NAME_BYTES;
    uint8_t *numbers = scratch_of(m, fx) - sizeof(uint32_t) * count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = read_name(list + (size_t)NAME_BYTES * i).number;
        memcpy(numbers + sizeof number * i, &number, sizeof number);
    }
    mare__view(fx, epoch, numbers, (uint32_t)sizeof(uint32_t) * count);
}

static void adopt(mare_coord *m, uint64_t round, name leader, const uint8_t *list, uint32_t length,
                  mare_coord_effects *fx)
{
    ring *r = m->state;
    uint64_t epoch = epoch_of(m, round, leader);
    if (epoch < r->epoch || (epoch == r->epoch && r->leader == leader.number) ||
        is_former(m, leader))
        return;
    r->epoch = epoch;
    r->leader = leader.number;
    mare__elected(fx, leader.number, epoch);
    tell_ring(m, epoch, list, length, fx);
}

/* The list has come back: the leader's name goes round, with those on it that have not died since.
 */
static void close(mare_coord *m, uint64_t round, name leader, const uint8_t *list, uint32_t length,
                  mare_coord_effects *fx)
{
    ring *r = m->state;
    uint8_t *alive = scratch_of(m, fx);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < length; i += NAME_BYTES) {
        name listed = read_name(list + i);
        if (!mare__alive(m, listed.number))
            continue;
        write_name(alive + kept, listed);
        kept += NAME_BYTES;
    }
    r->calling = 0;
    adopt(m, round, leader, alive, kept, fx);
    if (mare__successor(m) == m->setup.self)
        r->settled = round;
    pass(m, COORDINATOR, round, leader, alive, kept, fx);
}

static void call(mare_coord *m, mare_coord_effects *fx)
{
    ring *r = m->state;
    uint8_t first[NAME_BYTES];
    if (!one_round(m) && r->calling)
        return;
    r->calling = 1;
    uint64_t known = r->epoch > r->round ? r->epoch : r->round;
    uint64_t count = mare__epoch_count(known / m->setup.capacity + 1, m->setup.incarnation);
    r->round = count * m->setup.capacity + m->setup.self;
    mare__mark(m, fx, "calls an election");
    wait_for_end(m, fx);
    write_name(first, myself(m));
    pass(m, ELECTION, r->round, (name){0}, first, NAME_BYTES, fx);
}

/* Messages ------------------------------------------------------------------------------------- */

static name highest(const mare_coord *m, const mare_coord_message *msg)
{
    name best = myself(m);
    for (uint32_t i = 0; i < msg->tail_length; i += NAME_BYTES) {
        name listed = read_name(msg->tail + i);
        if (listed.number > best.number && mare__alive(m, listed.number))
            best = listed;
    }
    return best;
}

static int is_mine(const mare_coord *m, uint64_t round)
{
    return round % m->setup.capacity == m->setup.self;
}

static void on_election(mare_coord *m, const mare_coord_message *msg, mare_coord_effects *fx)
{
    ring *r = m->state;
    uint64_t round = msg->field[ROUND];
    if (is_mine(m, round)) { /* with one round only: unless I have called again since */
        if (r->calling && (!one_round(m) || round == r->round))
            close(m, round, highest(m, msg), msg->tail, msg->tail_length, fx);
        return;
    }
    if (one_round(m) && round <= r->round) {
        mare__mark(m, fx, "swallows");
        return;
    }
    r->round = round > r->round ? round : r->round;
    if (one_round(m))
        r->calling = 0; /* mine has lost */
    if (msg->tail_length / NAME_BYTES == m->setup.capacity)
        return; /* everybody is on it: it has lost its caller */
    /* The list grows by my name. */
    uint32_t length = msg->tail_length + NAME_BYTES;
    uint8_t *grown = scratch_of(m, fx);
    memmove(grown, msg->tail, msg->tail_length);
    write_name(grown + msg->tail_length, myself(m));
    wait_for_end(m, fx);
    pass(m, ELECTION, round, (name){0}, grown, length, fx);
}

static void on_coordinator(mare_coord *m, const mare_coord_message *msg, mare_coord_effects *fx)
{
    ring *r = m->state;
    uint64_t round = msg->field[ROUND];
    name leader = {(uint32_t)msg->field[LEADER], (uint32_t)msg->field[LIFE]};
    if (one_round(m) && (round < r->round || round <= r->settled))
        return; /* a higher one is under way; or I have passed it on */
    if (one_round(m))
        r->round = r->settled = round;
    if (mare__param(m, REPAIR)) {
        mare__patience_rewarded(&r->patience, m->now_us);
        mare__cancel_timer(fx, PATIENCE);
    }
    adopt(m, round, leader, msg->tail, msg->tail_length, fx);
    if (!is_mine(m, round))
        pass(m, COORDINATOR, round, leader, msg->tail, msg->tail_length, fx);
    int gone = is_former(m, leader) || /* while its name went round */
               (leader.number != m->setup.self && !mare__alive(m, leader.number));
    int passed_over = leader.number < m->setup.self;      /* I came after the list */
    int too_late = r->epoch > epoch_of(m, round, leader); /* I know of a later one */
    if (mare__param(m, REPAIR) && (gone || passed_over || too_late))
        call(m, fx);
}

static void on_received(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                        mare_coord_effects *fx)
{
    ring *r = m->state;
    uint64_t behind = msg->field[BEHIND];
    if (r->calling && msg->field[WHICH] == ELECTION && msg->field[ROUND] == r->round &&
        behind > r->round) {
        r->round = behind; /* my round was over before it began: I have been away */
        call(m, fx);
        return;
    }
    if (!r->holding || from != r->to || msg->field[ROUND] != r->round ||
        msg->field[WHICH] != r->kind)
        return;
    r->holding = 0;
    mare__cancel_timer(fx, RETRY);
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    uint32_t capacity = m->setup.capacity;
    if (msg->field[ROUND] >= MARE__EPOCH_LIMIT || msg->field[ROUND] < capacity ||
        msg->tail_length % NAME_BYTES || msg->tail_length / NAME_BYTES > capacity ||
        (msg->kind == RECEIVED && msg->field[BEHIND] >= MARE__EPOCH_LIMIT) ||
        (msg->kind == COORDINATOR &&
         (msg->field[LEADER] >= capacity || msg->field[LIFE] >= MARE__LIFE_LIMIT)))
        return MARE_COORD_MALFORMED;
    for (uint32_t i = 0; i < msg->tail_length; i += NAME_BYTES) {
        name listed = read_name(msg->tail + i);
        if (listed.number >= capacity || listed.life >= MARE__LIFE_LIMIT)
            return MARE_COORD_MALFORMED;
    }
    if (msg->kind != RECEIVED && mare__param(m, REPAIR)) {
        const ring *r = m->state; /* no round under way, and this one is older: let it know */
        uint64_t behind = r->settled == r->round ? r->settled : 0;
        mare_coord_message ack = {.kind = RECEIVED,
                                  .field = {msg->field[ROUND], msg->kind, behind}};
        mare__send(m, fx, from, &ack);
    }
    if (msg->kind == ELECTION)
        on_election(m, msg, fx);
    else if (msg->kind == COORDINATOR)
        on_coordinator(m, msg, fx);
    else
        on_received(m, from, msg, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    (void)event;
    call(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    ring *r = m->state;
    if (!mare__param(m, REPAIR))
        return;
    if (which == RETRY && r->holding) {
        pass(m, r->kind, r->round, r->chosen, r->list, r->listed, fx);
    } else if (which == PATIENCE && r->settled < r->round) {
        mare__patience_failed(&r->patience);
        call(m, fx);
    }
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    ring *r = m->state;
    uint32_t other = event->peer;
    if (other == m->setup.self || !mare__param(m, REPAIR))
        return;
    if (mare__alive(m, other)) {
        call(m, fx); /* it may have been alone, and have elected itself */
    } else if (r->leader == other) {
        r->leader = MARE_COORD_NOBODY;
        call(m, fx);
    } else if (r->holding && r->to == other) {
        pass(m, r->kind, r->round, r->chosen, r->list, r->listed, fx); /* to the one after it */
    }
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    ring *r = m->state;
    r->holding = 0;
    if (!mare__founds(m))
        call(m, fx);
}

/* Set-up --------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    return sizeof(ring) + (setup->param[REPAIR] ? (size_t)NAME_BYTES * setup->capacity : 0);
}

static void init(mare_coord *m)
{
    ring *r = m->state;
    r->list = (uint8_t *)(r + 1);
    r->leader = MARE_COORD_NOBODY;
}

/* Two messages at most carry a list. The application gets one of half the size, which is made ready
 * in as much; and the last room is where a list grows, or loses the dead. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = 16;
    *bytes = 4 * NAME_BYTES * setup->capacity + 5 * MARE__MESSAGE_BYTES(3);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const ring *r = m->state;
    int open = mare__param(m, REPAIR) ? r->settled < r->round : (int)r->calling;
    view->phase = open ? "electing" : r->leader == m->setup.self ? "leading" : "quiet";
    view->leader = r->leader;
    view->epoch = r->epoch;
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
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return 2 * (uint64_t)setup->members;
}

/* Once round to collect, and once more until the last one knows, who is before the caller. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = 2 * (uint64_t)setup->members - 1;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: acknowledges hops, replaces what is lost", 1, 0, 1},
    {"single", "1: of several rounds at once all but the highest are removed", 1, 0, 1},
    {"hop_us", "what a hop may take before a round counts as lost", 30000, 1, INT64_C(1) << 32},
    {"retry_us", "how long to wait for the acknowledgement of a hop", 30000, 1, INT64_C(1) << 40},
    {0},
};

static const mare_coord_form forms[] = {
    {"ELECTION", {"round"}, 1},
    {"COORDINATOR", {"round", "leader", "life"}, 1},
    {"RECEIVED", {"round", "kind", "settled"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_ring = {
    .name = "ring",
    .title = "election of the highest number by a list that goes round a ring",
    .source = "Tanenbaum and Van Steen 6.5.1; Chang and Roberts 1979",
    .assumes = "DOWN is only said of the dead",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_RING,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "2n",
    .cost = cost,
    .delay_formula = "2n-1",
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
