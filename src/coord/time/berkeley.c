/* SPDX-License-Identifier: MIT */

/* Berkeley's algorithm: nobody knows the true time, but all agree on one.
 *
 *     daemon ── ASK, its own time ──▶ everybody        (a) it is 3:00; what do you say?
 *     daemon ◀── TELL, the difference ── each          (b) 0, −10, +25 minutes
 *     daemon ── MOVE, by how much ──▶ each             (c) +5, +15, −20 minutes
 *
 * Then the daemon waits `round_us` and asks again. The bully algorithm elects the daemon. A whole
 * machine of it runs inside this one, and its messages travel as the tail of ours. When the daemon
 * dies, an election follows, and the winner goes on.
 *
 * The mean is taken over the largest set of clocks within `agree_us` of each other. The daemon's
 * own clock need not be among them. A clock far from all others is broken: it is moved, but does
 * not count.
 *
 * Each clock is a disciplined one (mare_time_clock): it is slewed and never goes back.
 * TELL and MOVE are about where a clock is heading, as if nothing were still to be slewed.
 *
 * The bound. A member tells C at an instant that lies, by the daemon's clock, between the sending
 * of ASK, T1, and the arrival of TELL, T4. So the difference at that instant is C − (T1 + T4) / 2,
 * give or take (T4 − T1) / 2, whatever the network did. From then on two oscillators may part by
 * 2ρ. The member knows when it told, and adds that up. So the clocks of two members that have taken
 * up the same round differ by at most the sum of their errors. AGREED_TIME promises this, and
 * nothing about members of different rounds.
 *
 * A round has a number that is never used twice: the daemon's epoch, its life, and a count. A
 * member takes up a MOVE only if it belongs to the round that it told last, and only once. So lost,
 * late and repeated messages do no harm. The next round does what this one did not.
 *
 * Sources: Gusella and Zatti, "The accuracy of the clock synchronization achieved by TEMPO in
 * Berkeley UNIX 4.3BSD" (1989); Tanenbaum and Van Steen, "Distributed Systems", 6.1.3, figure 6.7.
 *
 * Assumes oscillators within `drift_ppm` of the true rate. */

#include "coord/machine.h"
#include "coord/table.h"
#include "coord/time/fixed.h"

#include <mare/coord_time.h>

enum { REPAIR, ANSWER_US, RETRY_US, ROUND_US, AGREE_US, DRIFT_PPM, SLEW_PPM }; /* parameters */
enum { ROUND, COLLECT, INNER };     /* timers; those of the election come from INNER on */
enum { ELECTION, ASK, TELL, MOVE }; /* messages */

#define INNER_PARAMS 3 /* the first parameters are the election's, in its order */
#define NS_PER_US 1000
#define TICK_NS (2 * NS_PER_US) /* a local instant comes in whole microseconds: so coarse is it */
#define FAR (INT64_C(1) << 60)  /* 36 years: no honest difference is so large */

typedef struct member {
    int64_t ahead_ns; /* of the daemon, in this round */
    uint64_t error_ns;
} member;

typedef struct berkeley {
    mare_coord *election;
    mare_coord_effects inner; /* where the election's effects go before they are passed on */
    mare_time_clock clock;

    uint64_t taken_epoch, taken_round; /* the round that the clock follows */
    uint64_t told_epoch, told_round;   /* the round that was answered last, 0: none */
    int64_t told_ns;
    uint32_t told_to; /* the daemon, from which a MOVE is expected */
    uint32_t moved;   /* … and has been taken */

    uint64_t epoch, round; /* as daemon: of the round under way or the last one */
    uint32_t collecting;
    int64_t asked_ns; /* T1: where the daemon's own clock was heading */
    mare__set answered;
    member *member;
    int64_t *sorted;
} berkeley;

static int64_t local_ns(const mare_coord *m)
{
    return (int64_t)(m->now_us & (UINT64_MAX >> 12)) * NS_PER_US;
}

static int64_t heading(const mare_coord *m)
{
    const berkeley *b = m->state;
    return mare_time_clock_target(&b->clock, local_ns(m)).time_ns;
}

/* Whether the clock may be moved so far: it stays within sums that fit into 64 bits. */
static int may_move(const mare_coord *m, int64_t by_ns)
{
    int64_t from_local = heading(m) - local_ns(m) + by_ns;
    return by_ns < FAR && by_ns > -FAR && from_local < 2 * FAR && from_local > -2 * FAR;
}

static mare_coord_view election_of(const mare_coord *m)
{
    mare_coord_view view;
    mare_coord_look(((const berkeley *)m->state)->election, &view);
    return view;
}

/* The election inside -------------------------------------------------------------------------- */

/* The first round waits until everybody can have heard who asks. */
static void begin_reign(mare_coord *m, mare_coord_effects *fx, uint64_t epoch)
{
    berkeley *b = m->state;
    b->collecting = 0;
    b->epoch = epoch;
    mare__cancel_timer(fx, COLLECT);
    mare__set_timer(fx, ROUND, (uint64_t)mare__param(m, ANSWER_US));
}

static void pass_on(mare_coord *m, mare_coord_effects *fx, const mare_coord_effect *effect)
{
    mare_coord_message msg = {
        .kind = ELECTION, .tail = effect->data, .tail_length = effect->length};
    switch (effect->kind) {
    case MARE_COORD_SEND:
        mare__send(m, fx, effect->peer, &msg);
        break;
    case MARE_COORD_BROADCAST:
        mare__broadcast(m, fx, &msg);
        break;
    case MARE_COORD_SET_TIMER:
        mare__set_timer(fx, INNER + effect->timer, effect->number);
        break;
    case MARE_COORD_CANCEL_TIMER:
        mare__cancel_timer(fx, INNER + effect->timer);
        break;
    case MARE_COORD_ELECTED:
        mare__elected(fx, effect->peer, effect->number);
        if (effect->peer == m->setup.self)
            begin_reign(m, fx, effect->number);
        break;
    case MARE_COORD_MARK:
        mare__mark(m, fx, effect->text);
        break;
    default:
        break;
    }
}

static mare_coord_status step_election(mare_coord *m, mare_coord_effects *fx,
                                       mare_coord_event event)
{
    berkeley *b = m->state;
    event.now_us = m->now_us;
    mare_coord_status status = mare_coord_step(b->election, &event, &b->inner);
    for (uint32_t i = 0; i < b->inner.count; i++)
        pass_on(m, fx, &b->inner.list[i]);
    return status;
}

/* A round ------------------------------------------------------------------------------------- */

static int leads(const mare_coord *m)
{
    const berkeley *b = m->state;
    mare_coord_view view = election_of(m);
    return view.leader == m->setup.self && view.epoch == b->epoch;
}

static uint64_t next_round(const mare_coord *m)
{
    const berkeley *b = m->state;
    uint64_t life = m->setup.incarnation << 32;
    return b->round >= life ? b->round + 1 : life + 1;
}

static void ask(mare_coord *m, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    b->round = next_round(m);
    b->collecting = 1;
    b->moved = 1; /* whatever another daemon may still answer: from here on I move myself */
    b->asked_ns = heading(m);
    mare__set_clear(b->answered, m->setup.capacity);
    mare__set_add(b->answered, m->setup.self);
    b->member[m->setup.self] = (member){0};
    mare_coord_message msg = {.kind = ASK, .field = {b->epoch, b->round, (uint64_t)b->asked_ns}};
    mare__broadcast(m, fx, &msg);
    mare__set_timer(fx, COLLECT, (uint64_t)mare__param(m, ANSWER_US));
}

static int64_t mean_ahead(mare_coord *m)
{
    berkeley *b = m->state;
    uint32_t count = 0;
    for (uint32_t i = mare__set_next(b->answered, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(b->answered, i + 1, m->setup.capacity))
        b->sorted[count++] = b->member[i].ahead_ns;
    return mare_berkeley_mean(b->sorted, count, mare__param(m, AGREE_US) * NS_PER_US);
}

/* Tells everybody who answered by how much to move, and moves oneself. */
static void finish(mare_coord *m, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    b->collecting = 0;
    mare__cancel_timer(fx, COLLECT);
    if (mare__param(m, ROUND_US))
        mare__set_timer(fx, ROUND, (uint64_t)mare__param(m, ROUND_US));
    int64_t mean_ns = mean_ahead(m);
    if (!may_move(m, mean_ns))
        return;
    for (uint32_t i = mare__set_next(b->answered, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(b->answered, i + 1, m->setup.capacity)) {
        uint64_t by_ns = (uint64_t)(mean_ns - b->member[i].ahead_ns);
        mare_coord_message msg = {.kind = MOVE,
                                  .field = {b->epoch, b->round, by_ns, b->member[i].error_ns}};
        if (i != m->setup.self && mare__alive(m, i))
            mare__send(m, fx, i, &msg);
    }
    /* The group's time is the daemon's clock, which is never wrong about itself. */
    mare_time_clock_move(&b->clock, local_ns(m), mean_ns, TICK_NS);
    b->taken_epoch = b->epoch;
    b->taken_round = b->round;
}

/* Messages ------------------------------------------------------------------------------------ */

static void on_ask(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                   mare_coord_effects *fx)
{
    berkeley *b = m->state;
    mare_coord_view view = election_of(m);
    uint64_t epoch = msg->field[0], round = msg->field[1];
    if (view.leader != from || view.epoch != epoch)
        return; /* not my daemon, or not yet */
    if (epoch == b->told_epoch && round <= b->told_round)
        return; /* repeated: the bound counts from the first answer */
    b->told_epoch = epoch;
    b->told_round = round;
    b->told_ns = local_ns(m);
    b->told_to = from;
    b->moved = b->collecting = 0;
    uint64_t ahead_ns = (uint64_t)heading(m) - msg->field[2];
    mare_coord_message tell = {.kind = TELL, .field = {epoch, round, ahead_ns}};
    mare__send(m, fx, from, &tell);
}

static mare_coord_status on_tell(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    berkeley *b = m->state;
    int64_t ahead_ns = (int64_t)msg->field[2];
    if (ahead_ns >= FAR || ahead_ns <= -FAR)
        return MARE_COORD_MALFORMED;
    if (!b->collecting || !leads(m) || msg->field[0] != b->epoch || msg->field[1] != b->round ||
        mare__set_has(b->answered, from))
        return MARE_COORD_OK; /* late, or repeated */
    int64_t trip_ns = heading(m) > b->asked_ns ? heading(m) - b->asked_ns : 0;
    b->member[from] = (member){.ahead_ns = ahead_ns - trip_ns / 2,
                               .error_ns = mare__half_up(trip_ns) + 2 * TICK_NS};
    mare__set_add(b->answered, from);
    if (mare__set_covered(m->members, b->answered, m->down, m->setup.capacity))
        finish(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status on_move(mare_coord *m, uint32_t from, const mare_coord_message *msg)
{
    berkeley *b = m->state;
    int64_t by_ns = (int64_t)msg->field[2];
    if (!may_move(m, by_ns) || msg->field[3] >= (uint64_t)FAR)
        return MARE_COORD_MALFORMED;
    if (from != b->told_to || msg->field[0] != b->told_epoch || msg->field[1] != b->told_round ||
        b->moved)
        return MARE_COORD_OK;
    b->moved = 1;
    uint64_t since = local_ns(m) > b->told_ns ? (uint64_t)(local_ns(m) - b->told_ns) : 0;
    mare_time_clock_move(&b->clock, local_ns(m), by_ns,
                         msg->field[3] + TICK_NS + mare__drift_bound(since, b->clock.drift_ppb));
    b->taken_epoch = b->told_epoch;
    b->taken_round = b->told_round;
    return MARE_COORD_OK;
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    switch (msg->kind) {
    case ELECTION:
        return step_election(m, fx,
                             (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                                .peer = from,
                                                .data = msg->tail,
                                                .length = msg->tail_length});
    case ASK:
        on_ask(m, from, msg, fx);
        return MARE_COORD_OK;
    case TELL:
        return on_tell(m, from, msg, fx);
    default:
        return on_move(m, from, msg);
    }
}

/* The other events ----------------------------------------------------------------------------- */

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    if (which >= INNER) {
        step_election(m, fx, (mare_coord_event){.kind = MARE_COORD_TIMER, .number = which - INNER});
    } else if (!leads(m) || !mare__set_has(m->members, m->setup.self)) {
        b->collecting = 0;
    } else if (which == ROUND && !b->collecting) {
        ask(m, fx);
    } else if (which == COLLECT && b->collecting) {
        finish(m, fx);
    }
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    return step_election(m, fx, *event);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    step_election(m, fx, *event);
    if (b->collecting && leads(m) &&
        mare__set_covered(m->members, b->answered, m->down, m->setup.capacity))
        finish(m, fx); /* nobody is left to wait for */
}

/* What was told of the group before the start, the election has not heard yet. */
static void tell_election_of_group(mare_coord *m, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        int here = mare__set_has(m->members, i), known = mare_coord_has_member(b->election, i);
        if (here != known)
            step_election(
                m, fx,
                (mare_coord_event){.kind = here ? MARE_COORD_JOIN : MARE_COORD_LEAVE, .peer = i});
    }
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    berkeley *b = m->state;
    b->collecting = 0;
    if (!m->started) {
        tell_election_of_group(m, fx);
        mare_time_clock_set(&b->clock, local_ns(m), local_ns(m), 0);
    }
    step_election(m, fx, (mare_coord_event){.kind = MARE_COORD_START});
}

/* Set-up -------------------------------------------------------------------------------------- */

static mare_coord_setup setup_of_election(const mare_coord_setup *setup)
{
    mare_coord_setup inner;
    mare_coord_setup_init(&inner, &mare_coord_bully, setup->members);
    inner.self = setup->self;
    inner.capacity = setup->capacity;
    inner.marks = setup->marks;
    inner.founds = setup->founds;
    inner.incarnation = setup->incarnation;
    inner.seed = setup->seed;
    for (int i = 0; i < INNER_PARAMS; i++)
        inner.param[i] = setup->param[i];
    return inner;
}

static berkeley *lay_out(mare__block *block, const mare_coord_setup *setup)
{
    mare_coord_setup inner = setup_of_election(setup);
    mare_coord_effects room = {0};
    mare_coord_room(&inner, &room.room, &room.bytes_room);
    berkeley *b = mare__carve(block, sizeof *b);
    uint64_t *answered = mare__carve(block, mare__set_bytes(setup->capacity));
    member *members = mare__carve(block, setup->capacity * sizeof *members);
    int64_t *sorted = mare__carve(block, setup->capacity * sizeof *sorted);
    room.list = mare__carve(block, room.room * sizeof *room.list);
    room.bytes = mare__carve(block, room.bytes_room);
    void *memory = mare__carve(block, mare_coord_size(&inner));
    if (b) {
        b->answered.word = answered;
        b->member = members;
        b->sorted = sorted;
        b->inner = room;
        b->election = mare_coord_init(memory, mare_coord_size(&inner), &inner);
    }
    return b;
}

static size_t size(const mare_coord_setup *setup)
{
    mare__block block = {0};
    lay_out(&block, setup);
    return block.used;
}

/* The clock's own drift is against that of another oscillator, so twice ρ. */
static void init(mare_coord *m)
{
    mare__block block = {.base = m->state};
    berkeley *b = lay_out(&block, &m->setup);
    mare_time_clock_init(&b->clock, 2 * (uint64_t)mare__param(m, DRIFT_PPM) * 1000,
                         (uint64_t)mare__param(m, SLEW_PPM) * 1000);
}

/* What the election may need, its messages inside ours; then a round: a MOVE for each. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    mare_coord_setup inner = setup_of_election(setup);
    uint32_t inner_effects, inner_bytes;
    mare_coord_room(&inner, &inner_effects, &inner_bytes);
    *effects = 2 * inner_effects + 2 * setup->capacity + 8;
    *bytes = inner_bytes + inner_effects * MARE__MESSAGE_BYTES(0) +
             (setup->capacity + 2) * MARE__MESSAGE_BYTES(4);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const berkeley *b = m->state;
    mare_coord_view inner = election_of(m);
    view->phase = b->collecting ? "collecting" : inner.phase;
    view->leader = inner.leader;
    view->epoch = inner.epoch;
}

const mare_time_clock *mare_berkeley_clock(const mare_coord *m, uint64_t *epoch, uint64_t *round)
{
    const berkeley *b = m->state;
    if (m->setup.algorithm->tag != MARE__TAG_BERKELEY)
        return NULL;
    if (epoch)
        *epoch = b->taken_epoch;
    if (round)
        *round = b->taken_round;
    return &b->clock;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_ONE_LEADER | MARE_COORD_AGREED_TIME;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    mare_coord_setup inner = setup_of_election(setup);
    return mare_coord_bully.tolerates(&inner);
}

static uint64_t messages(const mare_coord_setup *setup)
{
    mare_coord_setup inner = setup_of_election(setup);
    return mare_coord_bully.messages(&inner) + 3 * (uint64_t)(setup->members - 1);
}

static const mare_coord_param params[] = {
    {"repair", "1: the election survives losses and crashes; 0: as in the source", 1, 0, 1},
    {"answer_us", "how long answers are waited for", 100000, 1, INT64_C(1) << 40},
    {"retry_us", "unanswered announcements are repeated after this", 50000, 1, INT64_C(1) << 40},
    {"round_us", "between two rounds; 0: one round an election", 100000, 0, INT64_C(1) << 40},
    {"agree_us", "clocks further apart than this do not count in the mean", 3600000000, 0,
     INT64_C(1) << 50},
    {"drift_ppm", "maximum drift rate of the oscillators", 500, 0, 100000},
    {"slew_ppm", "how fast corrections go in", 100000, 1, 500000},
    {0},
};

static const mare_coord_form forms[] = {
    {"ELECTION", {0}, 1},
    {"ASK", {"epoch", "round", "time_ns"}, 0},
    {"TELL", {"epoch", "round", "ahead_ns"}, 0},
    {"MOVE", {"epoch", "round", "by_ns", "error_ns"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_berkeley = {
    .name = "berkeley",
    .title = "clocks that agree: an elected daemon asks, averages and tells each how far to move",
    .source = "Gusella and Zatti 1989; Tanenbaum and Van Steen 6.1.3",
    .assumes = "oscillators within drift_ppm; one daemon once messages pass in time",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_BERKELEY,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "(n-1)(n+1) + 3(n-1)",
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
