/* SPDX-License-Identifier: MIT */

/* Mutual exclusion by a central coordinator: three messages for an entry and its exit.
 *
 *     member                    coordinator                     member
 *       │ ── REQUEST ───────────────▶ │                           │
 *       │ ◀──────────────── GRANT ─── │ ◀───────────── REQUEST ── │   queued, no answer
 *       │    inside                   │                           │
 *       │ ── RELEASE ───────────────▶ │ ─── GRANT ──────────────▶ │
 *
 * Source: Tanenbaum and Van Steen, "Distributed Systems", 6.3.2 and figure 6.14; Coulouris et al.,
 * "Distributed Systems", the central server algorithm. The highest numbered member coordinates.
 *
 * With `repair` = 0 this is the algorithm of the sources: messages are not lost, nobody crashes.
 *
 * With `repair` = 1, what the sources name as its weak point is mended:
 *   - Lost messages. Requests are repeated; a request has a ticket (life and count), which makes
 *     repetitions harmless. While others wait, the coordinator repeats its GRANT to the holder, and
 *     one that is no longer inside answers by RELEASE: so a lost RELEASE needs no acknowledgement.
 *   - A dead coordinator. The highest member left takes over: it opens a new epoch, collects a
 *     REPORT (idle, waiting or inside, with ticket) from every member that is not down, rebuilds
 *     the queue from them, and serves. The epoch names the coordinator, epoch mod capacity, so one
 *     epoch has one coordinator. Members obey the largest epoch that they have seen and tell it to
 *     whoever uses a smaller one.
 *   - Returning members. One that was down asks all others that are up for their epoch, and obeys
 *     and takes over only after they have told it; an old message alone must not teach it, for it
 *     could open again an epoch of its own earlier life. So fencing numbers never go back.
 *
 * Invariants: a coordinator that serves has one holder or none; a GRANT is accepted only in the
 * epoch of the receiver and for the ticket it waits with; a fencing number is (epoch, grants in
 * it).
 *
 * Assumes, for EM1: PEER_DOWN is only said of members that are down (a wrong one lets a second
 * coordinator rebuild without the holder; with `majority` = 1 at least the side that is smaller
 * stays without one, and fencing numbers still tell old from new; then, for EM2, who crashes comes
 * back in the end). Any delay, order, loss, repeated delivery. Of those that are up at any moment,
 * one at least was never down. Does not promise EM3: requests are granted in the order in which
 * they reach the coordinator.
 *
 * With `lease` = 1 no member need have been there always (arrival.h): one takes over only with the
 * reports of more than half of the founders who have forgotten nothing, and the epoch is kept on
 * disk (SAVE) before it is reported to. So one of any majority knows the latest epoch. */

#include "coord/mutex/central.h"

#include "coord/election/epoch.h"
#include "coord/mutex/arrival.h"
#include "coord/table.h"

enum { REPAIR, RETRY_US, MAJORITY, LEASE }; /* parameters */
enum { RETRY };                             /* timers */
enum { REQUEST, GRANT, RELEASE, TAKEOVER, REPORT, ASK, TOLD };
enum { EPOCH, TICKET, FENCE }; /* fields; a REPORT has one more */
enum { PHASE = 3, LIFE = 1, KNOWS = 2 };
enum { IDLE, WAITING, INSIDE, PHASES }; /* of one that has forgotten, as many more */

/* Enough for 2^31 / capacity takeovers. After those, messages are refused, and nobody enters any
 * more: fencing numbers have no room for a larger epoch, so the group must be founded anew. */
#define EPOCH_LIMIT (UINT64_C(1) << 31)
#define GRANTS_LIMIT UINT32_MAX

typedef enum duty { MEMBER, COLLECTING, SERVING } duty;

typedef struct central {
    uint64_t epoch;
    uint64_t ticket;       /* of my last request: incarnation and count */
    uint64_t fence;        /* of my present stay */
    mare__arrival arrival; /* until it is ready, `epoch` means nothing */

    /* As coordinator. */
    duty duty;
    uint32_t holder;
    uint64_t holder_fence, grants;
    uint32_t *queue; /* members in order of arrival */
    uint32_t queued;
    uint64_t *wanted;    /* by member: the ticket that waits or is inside */
    uint64_t *finished;  /* by member: no ticket up to this one is of interest any more */
    mare__set answered;  /* who has reported to the new coordinator … */
    mare__set counted;   /* … and has forgotten nothing */
    uint64_t reopens;    /* an epoch of mine, which may be opened again, or 0 … */
    uint64_t counted_on; /* … and the grants that there were in it */
    uint32_t starts;
} central;

static uint32_t coordinator_of(const mare_coord *m, const central *c)
{
    return c->arrival.ready ? (uint32_t)(c->epoch % m->setup.capacity) : MARE_COORD_NOBODY;
}

static void tell(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t ticket,
                 uint64_t fence)
{
    central *c = m->state;
    mare_coord_message msg = {.kind = kind, .field = {c->epoch, ticket, fence}};
    if (to != MARE_COORD_NOBODY)
        mare__send(m, fx, to, &msg);
}

/* Whether others wait for a member that may not know that it was granted, or may be inside no
 * more. */
static int must_remind(const mare_coord *m, const central *c)
{
    return c->duty == SERVING && c->queued && c->holder != MARE_COORD_NOBODY &&
           c->holder != m->setup.self;
}

/* Starts the retry timer if a lost message could hold up something that this member waits for. */
static void arm(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    if (mare__param(m, REPAIR) &&
        (m->waiting || !c->arrival.ready || c->duty == COLLECTING || must_remind(m, c)))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* The queue ---------------------------------------------------------------------------------- */

static uint32_t place_in_queue(const central *c, uint32_t member)
{
    for (uint32_t i = 0; i < c->queued; i++) {
        if (c->queue[i] == member)
            return i;
    }
    return MARE_COORD_NOBODY;
}

static void take_from_queue(central *c, uint32_t place)
{
    c->queued--;
    for (uint32_t i = place; i < c->queued; i++)
        c->queue[i] = c->queue[i + 1];
}

static void forget_duty(central *c)
{
    c->duty = MEMBER;
    c->holder = MARE_COORD_NOBODY;
    c->queued = 0;
    c->grants = 0;
}

static void take_over(mare_coord *m, mare_coord_effects *fx);

/* Lets the first of the queue in, if nobody is. */
static void serve(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    if (c->duty != SERVING || c->holder != MARE_COORD_NOBODY || c->queued == 0)
        return;
    if (c->grants == GRANTS_LIMIT) {
        take_over(m, fx); /* a fresh epoch, with numbers to spare */
        return;
    }
    uint32_t next = c->queue[0];
    take_from_queue(c, 0);
    c->holder = next;
    c->grants++;
    c->holder_fence = (c->epoch - (m->setup.members - 1)) << 32 | c->grants;
    if (next == m->setup.self) {
        c->fence = c->holder_fence;
        mare__grant(m, fx, c->fence);
    } else {
        tell(m, fx, next, GRANT, c->wanted[next], c->holder_fence);
    }
}

static void on_request(mare_coord *m, uint32_t from, uint64_t ticket, mare_coord_effects *fx)
{
    central *c = m->state;
    if (c->duty != SERVING || ticket <= c->finished[from] || ticket < c->wanted[from])
        return;
    if (c->holder == from && ticket == c->wanted[from]) {
        if (from != m->setup.self)
            tell(m, fx, from, GRANT, ticket, c->holder_fence); /* the first one was lost */
        return;
    }
    if (c->holder == from)
        c->holder = MARE_COORD_NOBODY; /* it asks anew, so it is no longer inside */
    if (place_in_queue(c, from) == MARE_COORD_NOBODY)
        c->queue[c->queued++] = from;
    c->wanted[from] = ticket;
    if (c->holder != MARE_COORD_NOBODY)
        mare__mark(m, fx, "queued");
    serve(m, fx);
}

/* `ticket` of `from` is over: released, abandoned, or it was never alive. */
static void on_release(mare_coord *m, uint32_t from, uint64_t ticket, mare_coord_effects *fx)
{
    central *c = m->state;
    if (c->duty == MEMBER)
        return;
    if (c->finished[from] < ticket)
        c->finished[from] = ticket;
    if (c->wanted[from] > ticket)
        return;
    uint32_t place = place_in_queue(c, from);
    if (place != MARE_COORD_NOBODY)
        take_from_queue(c, place);
    if (c->holder == from)
        c->holder = MARE_COORD_NOBODY;
    serve(m, fx);
}

/* Taking over -------------------------------------------------------------------------------- */

static void finish_takeover(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    uint32_t reports = 1;
    if (c->duty != COLLECTING)
        return;
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        if (i == m->setup.self || !mare__set_has(m->members, i))
            continue;
        int reported = mare__set_has(c->answered, i);
        reports += (uint32_t)reported;
        if (!reported && mare__alive(m, i))
            return;
    }
    if (mare__param(m, MAJORITY) && reports <= mare__set_count(m->members, m->setup.capacity) / 2)
        return;
    if (!mare__arrival_enough(m, &c->arrival, c->counted))
        return;
    c->duty = SERVING;
    if (m->inside) {
        c->holder = m->setup.self;
        c->wanted[m->setup.self] = c->ticket;
    }
    mare__elected(fx, m->setup.self, c->epoch);
    if (m->waiting)
        on_request(m, m->setup.self, c->ticket, fx);
    serve(m, fx);
}

static void take_over(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    forget_duty(c);
    if (c->reopens && c->reopens >= c->epoch) {
        c->epoch = c->reopens;
        c->grants = c->counted_on;
    } else {
        c->epoch = mare__epoch_above(c->epoch, m->setup.self, m->setup.capacity);
    }
    c->reopens = 0;
    c->duty = COLLECTING;
    mare__set_clear(c->answered, m->setup.capacity);
    mare__set_clear(c->counted, m->setup.capacity);
    if (!c->arrival.forgot)
        mare__set_add(c->counted, m->setup.self);
    mare_coord_message msg = {.kind = TAKEOVER, .field = {c->epoch}};
    mare__broadcast(m, fx, &msg);
    mare__mark(m, fx, "takes over");
    finish_takeover(m, fx);
}

/* Takes over if the coordinator is gone and this is the highest member left. */
static void check_coordinator(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    uint32_t coordinator = coordinator_of(m, c);
    if (!mare__param(m, REPAIR) || !c->arrival.ready)
        return;
    if (coordinator == m->setup.self) {
        if (c->duty == MEMBER)
            take_over(m, fx); /* the others count on me, and I have forgotten */
        return;
    }
    if (!mare__alive(m, coordinator) && mare__is_highest(m))
        take_over(m, fx);
}

/* Obeys a larger epoch. */
static void adopt(mare_coord *m, uint64_t epoch, mare_coord_effects *fx)
{
    central *c = m->state;
    forget_duty(c);
    c->epoch = epoch;
    if (coordinator_of(m, c) != m->setup.self)
        mare__elected(fx, coordinator_of(m, c), epoch);
}

static void on_report(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                      mare_coord_effects *fx)
{
    central *c = m->state;
    uint64_t ticket = msg->field[TICKET], phase = msg->field[PHASE] % PHASES;
    if (c->duty != COLLECTING || mare__set_has(c->answered, from))
        return;
    mare__set_add(c->answered, from);
    if (msg->field[PHASE] < PHASES)
        mare__set_add(c->counted, from);
    if (phase != IDLE && ticket > c->finished[from]) {
        c->wanted[from] = ticket;
        if (phase == WAITING)
            c->queue[c->queued++] = from;
        else
            c->holder = from, c->holder_fence = msg->field[FENCE];
    }
    finish_takeover(m, fx);
}

static void report(mare_coord *m, uint32_t to, mare_coord_effects *fx)
{
    central *c = m->state;
    uint64_t phase = m->inside ? INSIDE : m->waiting ? WAITING : IDLE;
    phase += c->arrival.quorum && c->arrival.forgot ? PHASES : 0;
    mare_coord_message msg = {.kind = REPORT, .field = {c->epoch, c->ticket, c->fence, phase}};
    mare__send(m, fx, to, &msg);
}

/* Returning ---------------------------------------------------------------------------------- */

/* Knows the epoch once all others that are up have told theirs. */
static void try_learn(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    if (!mare__arrival_try(m, &c->arrival, fx))
        return;
    if (c->epoch < m->setup.members - 1)
        c->epoch = m->setup.members - 1; /* alone, and never told: as the founders began */
    uint32_t coordinator = coordinator_of(m, c);
    if (coordinator != m->setup.self) {
        mare__elected(fx, coordinator, c->epoch);
        if (m->waiting)
            tell(m, fx, coordinator, REQUEST, c->ticket, 0);
    }
    check_coordinator(m, fx);
}

static void on_told(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    central *c = m->state;
    if (!mare__arrival_told(&c->arrival, from, msg->field[LIFE], msg->field[KNOWS]))
        return;
    if (msg->field[KNOWS] && c->epoch < msg->field[EPOCH])
        c->epoch = msg->field[EPOCH];
    try_learn(m, fx);
}

/* The handlers ------------------------------------------------------------------------------- */

static void on_grant(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                     mare_coord_effects *fx)
{
    central *c = m->state;
    int mine = msg->field[TICKET] == c->ticket;
    if (from != coordinator_of(m, c))
        return;
    if (mine && m->waiting) {
        c->fence = msg->field[FENCE];
        mare__grant(m, fx, c->fence);
    } else if (!mine || !m->inside) {
        tell(m, fx, from, RELEASE, msg->field[TICKET], 0); /* a GRANT for what is over */
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    central *c = m->state;
    uint64_t epoch = msg->field[EPOCH];
    if (epoch >= EPOCH_LIMIT || (msg->kind == REPORT && msg->field[PHASE] >= 2 * PHASES))
        return MARE_COORD_MALFORMED;
    int ready = c->arrival.ready != 0;
    if (msg->kind == ASK || (ready && epoch < c->epoch)) {
        tell(m, fx, from, TOLD, msg->kind == ASK ? msg->field[LIFE] : 0,
             mare__arrival_answer(&c->arrival));
        return MARE_COORD_OK;
    }
    if (!ready || (msg->kind == TOLD && msg->field[KNOWS] != MARE__ARRIVAL_READY)) {
        if (msg->kind == TOLD)
            on_told(m, from, msg, fx);
        arm(m, fx);
        return MARE_COORD_OK;
    }
    int news = epoch > c->epoch;
    if (news)
        adopt(m, epoch, fx);
    if (msg->kind == REQUEST)
        on_request(m, from, msg->field[TICKET], fx);
    else if (msg->kind == RELEASE)
        on_release(m, from, msg->field[TICKET], fx);
    else if (msg->kind == GRANT)
        on_grant(m, from, msg, fx);
    else if (msg->kind == REPORT)
        on_report(m, from, msg, fx);
    else if (msg->kind == TAKEOVER && from == coordinator_of(m, c))
        report(m, from, fx);
    else if (news && m->waiting && coordinator_of(m, c) != m->setup.self)
        tell(m, fx, coordinator_of(m, c), REQUEST, c->ticket, 0);
    check_coordinator(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    central *c = m->state;
    uint32_t coordinator = coordinator_of(m, c);
    int at_home = coordinator == m->setup.self;
    if (event->kind == MARE_COORD_ENTER) {
        c->ticket++;
        if (at_home)
            on_request(m, m->setup.self, c->ticket, fx);
        else
            tell(m, fx, coordinator, REQUEST, c->ticket, 0);
        if (m->waiting && mare__param(m, REPAIR))
            mare__arm_anew(m, fx, RETRY, RETRY_US);
        return MARE_COORD_OK;
    }
    if (at_home) {
        m->waiting = 0; /* so that a coordinator that is still collecting does not queue itself */
        m->inside = 0;
        on_release(m, m->setup.self, c->ticket, fx);
    } else {
        tell(m, fx, coordinator, RELEASE, c->ticket, 0);
    }
    arm(m, fx);
    return MARE_COORD_OK;
}

/* Whether there is nobody to turn to: the epoch is unknown; or its coordinator is gone and a higher
 * member must take over, which may have happened unnoticed. */
static int is_lost(const mare_coord *m, const central *c)
{
    uint32_t coordinator = coordinator_of(m, c);
    return !c->arrival.ready || (coordinator != m->setup.self && !mare__alive(m, coordinator));
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    central *c = m->state;
    (void)which;
    if (!mare__param(m, REPAIR))
        return;
    if (is_lost(m, c))
        tell(m, fx, MARE__EVERYBODY, ASK, c->arrival.life, 0);
    else if (c->duty == COLLECTING)
        mare__send_rest(m, fx, c->answered,
                        &(mare_coord_message){.kind = TAKEOVER, .field = {c->epoch}});
    else if (must_remind(m, c))
        tell(m, fx, c->holder, GRANT, c->wanted[c->holder], c->holder_fence);
    else if (c->duty == MEMBER && m->waiting)
        tell(m, fx, coordinator_of(m, c), REQUEST, c->ticket, 0);
    arm(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    central *c = m->state;
    if (event->peer == m->setup.self || !mare__param(m, REPAIR))
        return;
    if (!mare__alive(m, event->peer) && c->duty != MEMBER) {
        on_release(m, event->peer, c->wanted[event->peer], fx);
        finish_takeover(m, fx);
    }
    try_learn(m, fx);
    check_coordinator(m, fx);
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    central *c = m->state;
    forget_duty(c);
    if (c->starts++)
        c->reopens = 0;                        /* under another lease */
    if (mare__arrival_start(m, &c->arrival)) { /* others may have gone on without me */
        tell(m, fx, MARE__EVERYBODY, ASK, c->arrival.life, 0);
        try_learn(m, fx);
        arm(m, fx);
        return;
    }
    c->epoch = m->setup.members - 1;
    if (coordinator_of(m, c) == m->setup.self)
        c->duty = SERVING;
    if (c->reopens == c->epoch)
        c->grants = c->counted_on;
}

/* Keeping ------------------------------------------------------------------------------------ */

static uint32_t kept(const mare_coord_setup *setup)
{
    return setup->param[LEASE] ? MARE__ARRIVAL_KEPT : 0;
}

static void keep(const mare_coord *m, uint64_t *out)
{
    const central *c = m->state;
    mare__arrival_keep(&c->arrival, c->epoch, out);
}

static mare_coord_status recall(mare_coord *m, const uint64_t *in)
{
    central *c = m->state;
    return mare__arrival_recall(&c->arrival, EPOCH_LIMIT, in, &c->epoch);
}

/* Forgetting --------------------------------------------------------------------------------- */

int mare__central_forget(const mare_coord *m, uint64_t lease, mare__central_past *past)
{
    const central *c = m->state;
    int serves = c->duty == SERVING;
    if (m->waiting || m->inside || !c->arrival.ready || c->duty == COLLECTING ||
        serves != (coordinator_of(m, c) == m->setup.self) || c->holder != MARE_COORD_NOBODY ||
        c->queued)
        return 0;
    if (past->epoch < c->epoch) {
        past->epoch = c->epoch;
        past->grants = past->lease = 0;
    }
    if (serves && c->epoch == past->epoch) {
        past->lease = lease;
        past->grants = c->grants > past->grants ? c->grants : past->grants;
    }
    past->ticket = c->ticket > past->ticket ? c->ticket : past->ticket;
    past->life = c->arrival.life > past->life ? c->arrival.life : past->life;
    return 1;
}

/* A report or a request that is still on its way is of somebody who is out since, and is undone by
 * a RELEASE: so it harms nobody that they count in an epoch that was opened again. */
void mare__central_follow(mare_coord *m, uint64_t lease, const mare__central_past *past)
{
    central *c = m->state;
    c->epoch = c->epoch < past->epoch ? past->epoch : c->epoch;
    c->ticket = past->ticket > c->ticket ? past->ticket : c->ticket;
    c->arrival.life = past->life > c->arrival.life ? past->life : c->arrival.life;
    c->reopens = lease && past->lease == lease ? past->epoch : 0;
    c->counted_on = past->grants;
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(central *c, mare__block *block, const mare_coord_setup *setup)
{
    c->queue = mare__carve_array(block, setup->capacity, sizeof *c->queue);
    c->wanted = mare__carve_array(block, setup->capacity, sizeof *c->wanted);
    c->finished = mare__carve_array(block, setup->capacity, sizeof *c->finished);
    c->answered = mare__carve_set(block, setup->capacity);
    c->counted = mare__carve_set(block, setup->capacity);
    mare__arrival_lay_out(&c->arrival, block, setup);
}

static size_t size(const mare_coord_setup *setup)
{
    central counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    central *c = m->state;
    lay_out(c, &(mare__block){m->state, sizeof *c}, &m->setup);
    c->ticket = m->setup.incarnation << 32;
    c->holder = MARE_COORD_NOBODY;
    c->arrival.quorum = mare__param(m, LEASE) != 0;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = setup->capacity + 8;
    *bytes = (setup->capacity + 4) * MARE__MESSAGE_BYTES(4);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const central *c = m->state;
    if (c->duty == SERVING && !m->waiting && !m->inside)
        view->phase = "coordinator";
    view->leader = coordinator_of(m, c);
    view->epoch = c->epoch;
    view->stuck = mare__arrival_is_stuck(&c->arrival);
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_EM1 | MARE_COORD_EM2 | MARE_COORD_FENCING;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    unsigned needs = setup->param[MAJORITY] ? MARE_COORD_ALL_RETURN : 0u;
    unsigned mortal = setup->param[LEASE] ? MARE__RECALLING : MARE__MORTAL;
    return setup->param[REPAIR] ? MARE__SLOW | MARE__LOSSY | mortal | needs : MARE__SLOW;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    (void)setup;
    return 3;
}

/* REQUEST there, GRANT back. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    (void)setup;
    cost->delay_least = cost->delay_most = 2;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: survives loss and the death of the coordinator", 1, 0, 1},
    {"retry_us", "how long to wait before asking again", 50000, 1, INT64_C(1) << 40},
    {"majority", "1: take over only with the reports of more than half of the group", 0, 0, 1},
    {"lease", "1: DOWN is only said of members without a lease; all may have been away", 0, 0, 1},
    {0},
};

static const mare_coord_form forms[] = {
    {"REQUEST", {"epoch", "ticket"}, 0},
    {"GRANT", {"epoch", "ticket", "fence"}, 0},
    {"RELEASE", {"epoch", "ticket"}, 0},
    {"TAKEOVER", {"epoch"}, 0},
    {"REPORT", {"epoch", "ticket", "fence", "phase"}, 0},
    {"ASK", {"epoch", "life"}, 0},
    {"TOLD", {"epoch", "life", "knows"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_central = {
    .name = "central",
    .title = "mutual exclusion by a central coordinator",
    .source = "Tanenbaum and Van Steen 6.3.2; Coulouris et al., central server",
    .assumes = "DOWN is only said of the dead; some member is never down",
    .family = MARE_COORD_MUTEX,
    .tag = MARE__TAG_CENTRAL,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "3",
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
    .kept = kept,
    .keep = keep,
    .recall = recall,
};
