/* SPDX-License-Identifier: MIT */

/* Election by the bully: of those that are up, the one with the highest number leads.
 *
 *     quiet ── notices ──▶ asking ── nobody higher answers ──▶ leading
 *       ▲                    │ OK from a higher one              │ tells everybody
 *       │                    ▼                                   │
 *       └─ COORDINATOR ── giving way ── none comes ──▶ asking    └── a higher one ──▶ quiet
 *
 * A member that notices that the leader is gone sends ELECTION to all with a higher number. Each of
 * them answers OK and asks those above itself, unless it is asking already. One that gets no answer
 * in time has won, and sends COORDINATOR to all. One that returns calls an election: if it is the
 * highest it takes the lead from whoever has it. (n−1)(n+1) messages when the lowest of n calls,
 * n−1 when the highest does.
 *
 * Sources: Garcia-Molina, "Elections in a Distributed Computing System" (1982); Tanenbaum and Van
 * Steen, "Distributed Systems", 6.5.1 and figure 6.19.
 *
 * With `repair` = 0 this is the algorithm of the sources: nothing is lost, and an answer comes
 * within `answer_us`. With `repair` = 1:
 *   - ELECTION is repeated once before silence counts, COORDINATOR until everybody that is up has
 *     answered ACK, which also says the answerer's epoch.
 *   - A leader that hears of a later epoch than its own calls an election; one that hears a lower
 *     one say COORDINATOR does too. So two leaders find each other when they can talk again.
 *   - Members that are down are not asked, and nothing is awaited from them.
 *
 * Epochs: the winner takes a count above all it has seen, one that belongs to its life (epoch.h),
 * times the capacity, plus its own number. So an epoch names its leader and which life of it, and
 * two leaders of one epoch are impossible under any fault, loss of memory included. Two leaders of
 * *different* epochs at one moment are possible, and this is precisely when: a member's ELECTION or
 * the OK to it is lost or late on every path to the higher ones for longer than it waits (a
 * partition, one-way loss, a pause, a detector that is wrong). The lower one then leads those that
 * hear it until a message passes between the two leaders, or between one of them and a member of
 * the other. tests/sim shows it with a one-way cut. Work that must not be done twice carries the
 * epoch, and its receiver refuses smaller ones than it has seen.
 *
 * Assumes nothing for the above: any delay, order, loss, repeated delivery, members that come and
 * go, detectors that are wrong. For agreement, that messages pass in time in the end. */

#include "coord/election/epoch.h"
#include "coord/machine.h"
#include "coord/table.h"

enum { REPAIR, ANSWER_US, RETRY_US };        /* parameters */
enum { ANSWER, RETRY };                      /* timers */
enum { ELECTION, OK, COORDINATOR, ACK };     /* messages: all say an epoch */
enum { QUIET, ASKING, GIVING_WAY, LEADING }; /* phases */

#define ATTEMPTS 2u   /* with repair: how often ELECTION is sent before silence counts */
#define WAY_FACTOR 4u /* who gives way waits this much longer than for an answer */

typedef struct bully {
    uint64_t epoch; /* of the leader that I obey, or my own */
    uint64_t seen;  /* the largest that I have heard of */
    uint32_t leader, phase;
    uint32_t attempt; /* how often I have asked */
    mare__set acked;  /* who knows that I lead */
} bully;

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t epoch)
{
    mare_coord_message msg = {.kind = kind, .field = {epoch}};
    mare__send(m, fx, to, &msg);
}

/* Winning -------------------------------------------------------------------------------------- */

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (mare__param(m, REPAIR) && b->phase == LEADING &&
        !mare__set_covered(m->members, b->acked, m->down, m->setup.capacity))
        mare__arm(m, fx, RETRY, RETRY_US);
}

static void win(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    uint64_t count = mare__epoch_count(b->seen / m->setup.capacity + 1, m->setup.incarnation);
    b->epoch = b->seen = mare__epoch_make(count, m->setup.self, m->setup.capacity);
    b->leader = m->setup.self;
    b->phase = LEADING;
    mare__cancel_timer(fx, ANSWER);
    mare__elected(fx, b->leader, b->epoch);
    say(m, fx, MARE__EVERYBODY, COORDINATOR, b->epoch);
    mare__set_clear(b->acked, m->setup.capacity);
    mare__set_add(b->acked, m->setup.self);
    arm(m, fx);
}

/* Asking --------------------------------------------------------------------------------------- */

/* Whether somebody above me may be up: with the source's means only silence can tell. */
static int is_asked(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member) &&
           !(mare__param(m, REPAIR) && mare__set_has(m->down, member));
}

static void ask(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    uint32_t asked = 0;
    for (uint32_t i = m->setup.self + 1; i < m->setup.capacity; i++) {
        if (is_asked(m, i)) {
            say(m, fx, i, ELECTION, b->seen);
            asked++;
        }
    }
    b->attempt++;
    if (asked)
        mare__set_timer(fx, ANSWER, (uint64_t)mare__param(m, ANSWER_US));
    else
        win(m, fx);
}

static void call(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (b->phase == ASKING || b->phase == GIVING_WAY)
        return;
    b->phase = ASKING;
    b->leader = MARE_COORD_NOBODY;
    b->attempt = 0;
    mare__mark(m, fx, "calls an election");
    ask(m, fx);
}

static void give_way(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (b->phase != ASKING)
        return;
    b->phase = GIVING_WAY;
    mare__mark(m, fx, "gives way");
    mare__set_timer(fx, ANSWER, WAY_FACTOR * (uint64_t)mare__param(m, ANSWER_US));
}

/* Messages ------------------------------------------------------------------------------------- */

/* One below me calls. A leader whose COORDINATOR the caller cannot have heard need not win
 * again. */
static void on_election(mare_coord *m, uint32_t from, uint64_t known, mare_coord_effects *fx)
{
    bully *b = m->state;
    say(m, fx, from, OK, b->seen);
    if (b->phase != LEADING || known >= b->epoch)
        call(m, fx);
    else if (mare__param(m, REPAIR))
        say(m, fx, from, COORDINATOR, b->epoch);
}

static void on_coordinator(mare_coord *m, uint32_t from, uint64_t epoch, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (epoch < b->epoch) {
        if (mare__param(m, REPAIR))
            say(m, fx, from, ACK, b->epoch); /* it has missed something, and will see to it */
        return;
    }
    if (from < m->setup.self) {
        call(m, fx); /* not while I am here */
        return;
    }
    if (epoch > b->epoch || b->leader != from)
        mare__elected(fx, from, epoch);
    b->epoch = epoch;
    b->leader = from;
    b->phase = QUIET;
    mare__cancel_timer(fx, ANSWER);
    if (mare__param(m, REPAIR))
        say(m, fx, from, ACK, epoch);
}

static void on_ack(mare_coord *m, uint32_t from, uint64_t epoch, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (b->phase != LEADING)
        return;
    if (epoch == b->epoch)
        mare__set_add(b->acked, from);
    else if (epoch > b->epoch)
        call(m, fx);
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    bully *b = m->state;
    uint64_t epoch = msg->field[0];
    if (epoch >= MARE__EPOCH_LIMIT ||
        (msg->kind == COORDINATOR && !mare__epoch_names(epoch, from, m->setup.capacity)) ||
        (msg->kind == ELECTION && from > m->setup.self) ||
        (msg->kind == OK && from < m->setup.self))
        return MARE_COORD_MALFORMED;
    b->seen = epoch > b->seen ? epoch : b->seen;
    if (msg->kind == ELECTION)
        on_election(m, from, epoch, fx);
    else if (msg->kind == OK)
        give_way(m, fx);
    else if (msg->kind == COORDINATOR)
        on_coordinator(m, from, epoch, fx);
    else
        on_ack(m, from, epoch, fx);
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
    bully *b = m->state;
    if (which == RETRY && b->phase == LEADING) { /* tells those that have not answered once more */
        mare__send_rest(m, fx, b->acked,
                        &(mare_coord_message){.kind = COORDINATOR, .field = {b->epoch}});
        arm(m, fx);
    } else if (which == ANSWER && b->phase == ASKING) {
        if (mare__param(m, REPAIR) && b->attempt < ATTEMPTS)
            ask(m, fx);
        else
            win(m, fx);
    } else if (which == ANSWER && b->phase == GIVING_WAY) {
        b->phase = QUIET; /* those above me have died in the meantime */
        call(m, fx);
    }
}

static int somebody_above(const mare_coord *m)
{
    for (uint32_t i = m->setup.self + 1; i < m->setup.capacity; i++) {
        if (is_asked(m, i))
            return 1;
    }
    return 0;
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    bully *b = m->state;
    uint32_t other = event->peer;
    if (other == m->setup.self || !mare__param(m, REPAIR))
        return;
    if (mare__alive(m, other)) { /* it is new, or back: it must hear who leads */
        mare__set_remove(b->acked, other);
    } else if (b->leader == other) {
        call(m, fx);
    } else if ((b->phase == ASKING || b->phase == GIVING_WAY) && !somebody_above(m)) {
        win(m, fx);
    }
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    bully *b = m->state;
    if (mare__founds(m))
        return; /* a founder waits for somebody to call */
    b->phase = QUIET;
    call(m, fx);
}

/* Set-up --------------------------------------------------------------------------------------- */

static size_t size(const mare_coord_setup *setup)
{
    return sizeof(bully) + mare__set_bytes(setup->capacity);
}

static void init(mare_coord *m)
{
    bully *b = m->state;
    b->acked = mare__carve_set(&(mare__block){m->state, sizeof *b}, m->setup.capacity);
    b->leader = MARE_COORD_NOBODY;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = setup->capacity + 8;
    *bytes = (setup->capacity + 2) * MARE__MESSAGE_BYTES(1);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    static const char *const names[] = {"quiet", "asking", "giving way", "leading"};
    const bully *b = m->state;
    view->phase = names[b->phase];
    view->leader = b->leader;
    view->epoch = b->epoch;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_ONE_LEADER;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    if (!setup->param[REPAIR])
        return MARE_COORD_REORDER | MARE_COORD_DRIFT;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL | MARE_COORD_ALL_CRASH | MARE_COORD_SUSPECTS;
}

/* The lowest calls: everybody asks everybody above, each is answered, the winner tells all. */
static uint64_t messages(const mare_coord_setup *setup)
{
    return (uint64_t)(setup->members - 1) * (setup->members + 1);
}

/* The highest calls, and only tells the others; the lowest calls, and the highest hears of it. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->messages_least = setup->members - 1;
    cost->delay_least = 1;
    cost->delay_most = 2;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: repeats, acknowledges, listens to the detector", 1, 0, 1},
    {"answer_us", "how long an answer may take before silence counts", 100000, 1, INT64_C(1) << 40},
    {"retry_us", "how long to wait before telling again who leads", 50000, 1, INT64_C(1) << 40},
    {0},
};

static const mare_coord_form forms[] = {
    {"ELECTION", {"epoch"}, 0},
    {"OK", {"epoch"}, 0},
    {"COORDINATOR", {"epoch"}, 0},
    {"ACK", {"epoch"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_bully = {
    .name = "bully",
    .title = "election of the highest number by asking all above (bully)",
    .source = "Garcia-Molina 1982; Tanenbaum and Van Steen 6.5.1",
    .assumes = "nothing for one leader an epoch; timely messages in the end, for agreement",
    .family = MARE_COORD_ELECTION,
    .tag = MARE__TAG_BULLY,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "n-1 ... (n-1)(n+1)",
    .cost = cost,
    .delay_formula = "1 ... 2",
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
