/* SPDX-License-Identifier: MIT */

/* Mutual exclusion by voting, decentralised: 3mk messages for an entry in k attempts, delay 2m.
 *
 *     member               coordinators of replicas 0 … n−1
 *       │ ── REQUEST ──────▶ m of them, m > n/2
 *       │ ◀── GRANT, DENY ──  each has one vote
 *       │    m votes: inside; fewer: all go back, and after a random while it tries again
 *       │ ── RELEASE ──────▶ the m
 *
 * A resource has n replicas, each with a coordinator. Replica i of the resource `name` is found by
 * hashing "name-i" onto a ring of the founders: the next founder on it coordinates. One member can
 * have several replicas, and votes for each on its own.
 *
 * Source: Lin, Lian, Chen and Zhang, "A practical distributed mutual exclusion protocol in dynamic
 * peer-to-peer systems" (2004); Tanenbaum and Van Steen, "Distributed Systems", 6.3.3.
 *
 * A coordinator that restarts without memory has forgotten its vote, and may give it a second time.
 * So EM1 and fencing hold with a probability: at least 2m − n of the m must forget during one stay
 * to let a second one in, which mare__voting_risk() computes. A second attempt asks first those who
 * voted for it last time, then those it has not asked. So it finds m free votes if there are any.
 *
 * With `queue` = 0 this is the algorithm of the sources: under contention all collect a few votes
 * and nobody enough. With `queue` = 1, the improvement: coordinators do not deny but remember the
 * request, vote for the oldest (by Lamport stamp), and ask a vote back (INQUIRE) for one that is
 * older; a member that still waits YIELDs it. The oldest of all is never made to yield.
 *
 * With `repair` = 0 nothing is lost and nobody crashes. With `repair` = 1 unanswered requests are
 * repeated, or the attempt given up (`queue` = 0); silent coordinators are replaced by others; and
 * a coordinator repeats its GRANT when others insist, which makes up for a lost RELEASE: one that
 * is no longer inside answers by it.
 *
 * Assumes no failure detector. Any delay, order, loss, repeated delivery. For EM2 who crashes comes
 * back in the end: votes of one that died inside can be returned by nobody else. With `queue` = 0
 * EM2 is not promised: among rivals that never rest one can go without for long, by bad luck; it
 * gets in when they do. The coordinators are among the founders; members that join later may ask.
 *
 * Invariants: a replica's vote is held by one ticket, until that member itself says that it is over
 * or yields; a vote that was yielded does not count (votes are numbered). The fencing number is
 * (clock at the grant, process): two that enter share a coordinator, which has heard the clock of
 * the first before it votes for the second. Does not promise EM3.
 *
 * With `lease` = 1 coordinators keep their last vote for each replica on disk (SAVE), before
 * anybody hears of it, and a bound on their clock. So one that restarts has forgotten nothing, and
 * EM1 and fencing hold as such. One that has lost what it kept abstains: it does not answer. A
 * lease's detector is not listened to: of one that died inside nobody knows the fencing number, so
 * its votes wait for its return. */

#include "coord/mutex/voting.h"

#include "coord/mutex/ballot.h"
#include "coord/table.h"

enum { REPAIR, RETRY_US, QUEUE = MARE__VOTING_NAME + 1, BACKOFF_US, LEASE }; /* parameters */
enum { RETRY, BACKOFF };                                                     /* timers */
enum { REQUEST, GRANT, DENY, INQUIRE, YIELD, RELEASE };                      /* messages */
enum { TIME, TICKET, REPLICA, STAMP }; /* fields; a vote's number, as STAMP */
enum { RESERVE = 65536 };              /* ticks that one write to the disk is for */

/* What is kept: the bound, whether it abstains, and of the last vote for each replica these. */
enum { BOUND, ABSTAINS, KEPT_HEAD };
enum { VOTE, HOLDER, HELD_TICKET, HELD_STAMP, KEPT_EACH };

#define BACKOFF_DOUBLINGS 5u
#define ATTEMPT_DOUBLINGS 10u

typedef struct voting {
    uint64_t clock, stamp;
    uint64_t reserved; /* the clock of a later life begins here */
    uint64_t ticket;   /* of my last attempt: incarnation and count */
    uint64_t begun_us;
    uint16_t asking;   /* an attempt is under way */
    uint16_t late;     /* how many of this wait had to be given up because answers were missing */
    uint32_t failed;   /* attempts of this wait that were in vain */
    uint32_t abstains; /* has lost the memory of its votes */
    uint32_t n, m;     /* replicas, votes needed */
    uint32_t *home;    /* by replica: who coordinates */
    uint32_t *place;   /* by replica: index of my ballot for it, or NOBODY */
    mare__ballot *ballot;
    uint64_t *given;                    /* by replica: my last vote for it, as it is kept */
    mare__set asked, granted, answered; /* replicas, in this attempt */
    mare__set voted, refused;           /* … in the last one */
    uint64_t *vote;                     /* by replica: its last vote for me … */
    uint64_t *yielded;                  /* … and the last that I returned */
} voting;

/* Messages ----------------------------------------------------------------------------------- */

static void handle(mare_coord *m, uint32_t from, uint32_t kind, uint64_t ticket, uint32_t replica,
                   uint64_t number, mare_coord_effects *fx);

/* The clock is to move: what a later life begins with stays ahead of it. */
static void reserve(voting *v)
{
    if (v->clock + 1 >= v->reserved)
        v->reserved = v->clock + RESERVE;
}

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t ticket,
                uint32_t replica, uint64_t number)
{
    voting *v = m->state;
    reserve(v);
    if (to == m->setup.self) {
        handle(m, to, kind, ticket, replica, number, fx);
        return;
    }
    mare_coord_message msg = {.kind = kind, .field = {++v->clock, ticket, replica, number}};
    if (mare__set_has(m->members, to))
        mare__send(m, fx, to, &msg);
}

/* As coordinator ----------------------------------------------------------------------------- */

static void note_given(voting *v, uint32_t replica)
{
    const mare__ballot *b = &v->ballot[v->place[replica]];
    uint64_t *given = v->given + (size_t)replica * KEPT_EACH;
    given[VOTE] = b->vote;
    given[HOLDER] = b->holder;
    given[HELD_TICKET] = b->ticket[b->holder];
    given[HELD_STAMP] = b->stamp[b->holder];
}

/* Gives the vote if it is free. Otherwise asks for it back when an older request waits; or tells
 * the holder of it once more, when somebody insists, for the RELEASE may have been lost. */
static void serve(mare_coord *m, uint32_t replica, int insists, mare_coord_effects *fx)
{
    voting *v = m->state;
    mare__ballot *b = &v->ballot[v->place[replica]];
    int given = mare__ballot_next(b, m->setup.capacity) != MARE_COORD_NOBODY;
    if (b->holder == MARE_COORD_NOBODY)
        return;
    if (given)
        note_given(v, replica);
    if (!given && mare__ballot_contested(b, m->setup.capacity))
        say(m, fx, b->holder, INQUIRE, b->ticket[b->holder], replica, b->vote);
    else if (given || insists)
        say(m, fx, b->holder, GRANT, b->ticket[b->holder], replica, b->vote);
}

static void on_request(mare_coord *m, uint32_t from, uint64_t ticket, uint32_t replica,
                       uint64_t stamp, mare_coord_effects *fx)
{
    voting *v = m->state;
    mare__ballot *b = &v->ballot[v->place[replica]];
    int news = v->abstains ? 0 : mare__ballot_ask(b, from, ticket, stamp);
    if (!news)
        return;
    if (b->holder == from) {
        say(m, fx, from, GRANT, ticket, replica, b->vote); /* the first one was lost */
    } else if (mare__param(m, QUEUE) || b->holder == MARE_COORD_NOBODY) {
        serve(m, replica, news == 2, fx);
    } else {
        mare__ballot_turn_away(b, from);
        say(m, fx, from, DENY, ticket, replica, 0);
        if (mare__param(m, REPAIR))
            serve(m, replica, 1, fx);
    }
}

/* As member ---------------------------------------------------------------------------------- */

/* Whether a message is about the attempt under way, or the stay that came of it. */
static int is_current(const mare_coord *m, uint64_t ticket)
{
    const voting *v = m->state;
    return ticket == v->ticket && (m->inside || (m->waiting && v->asking));
}

/* A vote for what is over: the RELEASE was lost, or is under way. */
static void remind(mare_coord *m, uint32_t from, uint64_t ticket, uint32_t replica,
                   mare_coord_effects *fx)
{
    if (mare__param(m, REPAIR))
        say(m, fx, from, RELEASE, ticket, replica, 0);
}

static void on_grant(mare_coord *m, uint32_t from, uint64_t ticket, uint32_t replica, uint64_t vote,
                     mare_coord_effects *fx)
{
    voting *v = m->state;
    if (!is_current(m, ticket)) {
        remind(m, from, ticket, replica, fx);
    } else if (m->waiting && vote <= v->yielded[replica]) {
        say(m, fx, from, YIELD, ticket, replica, vote);
    } else if (m->waiting) {
        v->vote[replica] = vote;
        mare__set_add(v->granted, replica);
        mare__set_add(v->answered, replica);
    }
}

static void on_inquire(mare_coord *m, uint32_t from, uint64_t ticket, uint32_t replica,
                       uint64_t vote, mare_coord_effects *fx)
{
    voting *v = m->state;
    if (!is_current(m, ticket)) {
        remind(m, from, ticket, replica, fx);
    } else if (m->waiting && vote >= v->vote[replica]) {
        v->yielded[replica] = vote > v->yielded[replica] ? vote : v->yielded[replica];
        mare__set_remove(v->granted, replica);
        say(m, fx, from, YIELD, ticket, replica, vote);
    }
}

static void handle(mare_coord *m, uint32_t from, uint32_t kind, uint64_t ticket, uint32_t replica,
                   uint64_t number, mare_coord_effects *fx)
{
    voting *v = m->state;
    mare__ballot *b = v->place[replica] == MARE_COORD_NOBODY ? NULL : &v->ballot[v->place[replica]];
    if (kind == GRANT) {
        on_grant(m, from, ticket, replica, number, fx);
    } else if (kind == INQUIRE) {
        on_inquire(m, from, ticket, replica, number, fx);
    } else if (kind == DENY) {
        if (ticket == v->ticket)
            mare__set_add(v->answered, replica);
    } else if (kind == REQUEST) {
        on_request(m, from, ticket, replica, number, fx);
    } else {
        if (kind == YIELD)
            mare__ballot_yield(b, from, ticket, number);
        else
            mare__ballot_release(b, from, ticket);
        serve(m, replica, 0, fx);
    }
}

/* Attempts ----------------------------------------------------------------------------------- */

static void ask(mare_coord *m, uint32_t replica, mare_coord_effects *fx)
{
    voting *v = m->state;
    mare__set_add(v->asked, replica);
    say(m, fx, v->home[replica], REQUEST, v->ticket, replica, v->stamp);
}

/* Asks m replicas, from a random one on: those that voted last time, those that were not asked,
 * those that refused. */
static void begin_attempt(mare_coord *m, mare_coord_effects *fx)
{
    voting *v = m->state;
    uint32_t first = (uint32_t)(mare__random(m) % v->n), count = 0;
    v->asking = 1;
    v->begun_us = m->now_us;
    v->ticket++;
    v->stamp = v->clock + 1;
    mare__set_clear(v->asked, v->n);
    mare__set_clear(v->granted, v->n);
    mare__set_clear(v->answered, v->n);
    for (int liking = 2; liking >= 0; liking--) {
        for (uint32_t i = 0; i < v->n && count < v->m; i++) {
            uint32_t replica = (first + i) % v->n;
            int voted = mare__set_has(v->voted, replica);
            if (liking == (voted ? 2 : mare__set_has(v->refused, replica) ? 0 : 1)) {
                count++;
                ask(m, replica, fx);
            }
        }
    }
    if (mare__param(m, REPAIR)) /* longer each time: far coordinators are not silent ones */
        mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US) << v->late);
}

/* The votes go back, and with them every request that may still be under way. */
static void end_attempt(mare_coord *m, mare_coord_effects *fx)
{
    voting *v = m->state;
    v->asking = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        int granted = mare__set_has(v->granted, i);
        if (granted)
            mare__set_add(v->voted, i);
        else
            mare__set_remove(v->voted, i);
        if (mare__set_has(v->asked, i) && !granted)
            mare__set_add(v->refused, i);
        else
            mare__set_remove(v->refused, i);
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if (mare__set_has(v->asked, i))
            say(m, fx, v->home[i], RELEASE, v->ticket, i, 0);
    }
}

/* How long to leave the others alone, at most: twice as long each time, until that is long enough
 * for an attempt of everybody, one after the other. */
static uint64_t backoff_us(const mare_coord *m)
{
    const voting *v = m->state;
    uint64_t first_us = (uint64_t)mare__param(m, BACKOFF_US);
    uint64_t enough_us = (m->now_us - v->begun_us) * m->setup.capacity;
    uint64_t most_us = first_us << BACKOFF_DOUBLINGS;
    most_us = most_us > enough_us ? most_us : enough_us;
    return v->failed < 20 && first_us << v->failed < most_us ? first_us << v->failed : most_us;
}

/* Enters with m votes; gives up for a while when they cannot be had any more. */
static void decide(mare_coord *m, int in_vain, mare_coord_effects *fx)
{
    voting *v = m->state;
    if (!m->waiting || !v->asking)
        return;
    if (mare__set_count(v->granted, v->n) >= v->m) {
        reserve(v);
        mare__grant(m, fx, ++v->clock * m->setup.capacity + m->setup.self);
    } else if (in_vain || (!mare__param(m, QUEUE) &&
                           mare__set_covered(v->asked, v->answered, v->answered, v->n))) {
        uint64_t most = backoff_us(m);
        v->failed++;
        v->late = (uint16_t)(v->late + (in_vain && v->late < ATTEMPT_DOUBLINGS));
        end_attempt(m, fx);
        mare__mark(m, fx, "backs off");
        mare__set_timer(fx, BACKOFF, 1 + mare__random(m) % most);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    voting *v = m->state;
    uint64_t replica = msg->field[REPLICA], ticket = msg->field[TICKET];
    if (msg->field[TIME] >= MARE__CLOCK_LIMIT || replica >= v->n || ticket == 0 || ticket >> 63 ||
        (msg->kind == REQUEST && msg->field[STAMP] > msg->field[TIME]))
        return MARE_COORD_MALFORMED;
    int for_coordinator = msg->kind == REQUEST || msg->kind == YIELD || msg->kind == RELEASE;
    if ((for_coordinator ? m->setup.self : from) != v->home[replica])
        return MARE_COORD_REFUSED; /* not the coordinator of this replica */
    mare_coord_lamport_receive(&v->clock, msg->field[TIME]);
    reserve(v);
    handle(m, from, msg->kind, ticket, (uint32_t)replica, msg->field[STAMP], fx);
    decide(m, 0, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    voting *v = m->state;
    if (event->kind == MARE_COORD_ENTER) {
        v->failed = v->late = 0;
        mare__set_clear(v->voted, v->n);
        mare__set_clear(v->refused, v->n);
        begin_attempt(m, fx);
        decide(m, 0, fx);
    } else {
        m->waiting = m->inside = 0;
        if (v->asking)
            end_attempt(m, fx);
    }
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    voting *v = m->state;
    if (!m->waiting)
        return;
    if (which == BACKOFF && !v->asking) {
        begin_attempt(m, fx);
    } else if (which == RETRY && v->asking && mare__param(m, REPAIR)) {
        if (!mare__param(m, QUEUE)) {
            decide(m, 1, fx);
            return;
        }
        for (uint32_t i = 0; i < v->n; i++) {
            if (!mare__set_has(v->granted, i))
                ask(m, i, fx); /* any m will do */
        }
        mare__set_timer(fx, RETRY, (uint64_t)mare__param(m, RETRY_US));
    }
    decide(m, 0, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    voting *v = m->state;
    if (!m->started) {
        v->clock = !m->setup.founds; /* to be born again is an event */
        return;
    }
    if (v->asking)
        end_attempt(m, fx);
}

/* Keeping ------------------------------------------------------------------------------------ */

static uint32_t kept(const mare_coord_setup *setup)
{
    return setup->param[LEASE] ? KEPT_HEAD + KEPT_EACH * mare__voting_replicas(setup) : 0;
}

static void keep(const mare_coord *m, uint64_t *out)
{
    const voting *v = m->state;
    out[BOUND] = v->reserved;
    out[ABSTAINS] = v->abstains;
    for (uint32_t i = 0; i < KEPT_EACH * v->n; i++)
        out[KEPT_HEAD + i] = v->given[i];
}

/* That a vote is over is not kept: its holder will say so. */
static mare_coord_status recall(mare_coord *m, const uint64_t *in)
{
    voting *v = m->state;
    if (in[BOUND] >= MARE__CLOCK_LIMIT || in[ABSTAINS] > 1)
        return MARE_COORD_MALFORMED;
    v->clock = v->reserved = in[BOUND];
    v->abstains = (uint32_t)in[ABSTAINS];
    for (uint32_t i = 0; i < v->n; i++) {
        const uint64_t *given = in + KEPT_HEAD + (size_t)i * KEPT_EACH;
        if (given[VOTE] == 0)
            continue;
        if (given[HOLDER] >= m->setup.capacity || given[HELD_STAMP] >= MARE__CLOCK_LIMIT ||
            v->place[i] == MARE_COORD_NOBODY)
            return MARE_COORD_MALFORMED;
        mare__ballot *b = &v->ballot[v->place[i]];
        b->vote = given[VOTE];
        b->holder = (uint32_t)given[HOLDER];
        b->ticket[b->holder] = given[HELD_TICKET];
        b->stamp[b->holder] = given[HELD_STAMP];
        note_given(v, i);
    }
    return MARE_COORD_OK;
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(voting *v, mare__block *block, const mare_coord_setup *setup)
{
    uint32_t n = mare__voting_replicas(setup), mine = 0;
    v->n = n;
    v->home = mare__carve_array(block, n, sizeof *v->home);
    v->place = mare__carve_array(block, n, sizeof *v->place);
    v->vote = mare__carve_array(block, n, sizeof *v->vote);
    v->yielded = mare__carve_array(block, n, sizeof *v->yielded);
    mare__set *const sets[] = {&v->asked, &v->granted, &v->answered, &v->voted, &v->refused};
    for (int i = 0; i < 5; i++)
        *sets[i] = mare__carve_set(block, n);
    v->given = mare__carve_array(block, (size_t)n * KEPT_EACH, sizeof *v->given);
    for (uint32_t i = 0; i < n; i++)
        mine += mare__voting_home(setup, i) == setup->self;
    v->ballot = mare__carve_array(block, mine, sizeof *v->ballot);
    for (uint32_t i = 0; i < mine; i++) {
        mare__ballot counted;
        mare__ballot_lay_out(v->ballot ? &v->ballot[i] : &counted, block, setup->capacity);
    }
}

static size_t size(const mare_coord_setup *setup)
{
    voting counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    voting *v = m->state;
    uint32_t mine = 0;
    lay_out(v, &(mare__block){m->state, sizeof *v}, &m->setup);
    v->m = mare__voting_votes(&m->setup);
    v->ticket = m->setup.incarnation << 32;
    v->abstains = mare__param(m, LEASE) && !m->setup.founds;
    for (uint32_t i = 0; i < v->n; i++) {
        v->home[i] = mare__voting_home(&m->setup, i);
        v->place[i] = MARE_COORD_NOBODY;
        if (v->home[i] != m->setup.self)
            continue;
        v->place[i] = mine++;
        v->ballot[v->place[i]].vote = m->setup.incarnation << 32;
    }
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint32_t n = mare__voting_replicas(setup);
    *effects = 4 * n + 8;
    *bytes = (4 * n + 4) * MARE__MESSAGE_BYTES(4);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const voting *v = m->state;
    if (m->waiting && !v->asking)
        view->phase = "backing off";
    view->lamport = v->clock;
}

static unsigned promises(const mare_coord_setup *setup)
{
    return MARE_COORD_EM1 | MARE_COORD_FENCING | (setup->param[QUEUE] ? MARE_COORD_EM2 : 0u);
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    if (!setup->param[REPAIR])
        return MARE__SLOW;
    return MARE__SLOW | MARE__LOSSY | MARE_COORD_CRASH | MARE_COORD_ALL_CRASH |
           MARE_COORD_ALL_RETURN | MARE_COORD_SUSPECTS;
}

/* In one attempt, by a member that coordinates none of the replicas it asks. */
static uint64_t messages(const mare_coord_setup *setup)
{
    return 3 * (uint64_t)mare__voting_votes(setup);
}

/* m REQUESTs and m GRANTs, one after the other. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    uint64_t m = mare__voting_votes(setup);
    cost->delay_least = cost->delay_most = 2 * m;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: survives loss and silent coordinators", 1, 0, 1},
    {"retry_us", "how long to wait for answers", 50000, 1, INT64_C(1) << 40},
    {"replicas", "n, of the resource; 0: one for each founder, at most 32", 0, 0, 4096},
    {"votes", "m, needed to enter; 0: 3n/4; at least n/2 + 1 and at most n in any case", 0, 0,
     4096},
    {"name", "of the resource: a number", 1, 0, INT64_MAX},
    {"queue", "1: the improvement for contention; 0: deny, and back off", 1, 0, 1},
    {"backoff_us", "longest first random wait after a failed attempt", 10000, 1, INT64_C(1) << 40},
    {"lease", "1: coordinators keep their votes on disk, and live under a lease", 0, 0, 1},
    {0},
};

static const mare_coord_form forms[] = {
    {"REQUEST", {"clock", "ticket", "replica", "stamp"}, 0},
    {"GRANT", {"clock", "ticket", "replica", "vote"}, 0},
    {"DENY", {"clock", "ticket", "replica"}, 0},
    {"INQUIRE", {"clock", "ticket", "replica", "vote"}, 0},
    {"YIELD", {"clock", "ticket", "replica", "vote"}, 0},
    {"RELEASE", {"clock", "ticket", "replica"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_voting = {
    .name = "voting",
    .title = "mutual exclusion by votes of replicated coordinators",
    .source = "Lin et al. 2004; Tanenbaum and Van Steen 6.3.3",
    .assumes =
        "coordinators keep votes, or EM1 is a probability; crashed members return in the end",
    .family = MARE_COORD_MUTEX,
    .tag = MARE__TAG_VOTING,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "3mk",
    .cost = cost,
    .delay_formula = "2m",
    .size = size,
    .room = room,
    .init = init,
    .start = start,
    .receive = receive,
    .timer = timer,
    .request = request,
    .look = look,
    .kept = kept,
    .keep = keep,
    .recall = recall,
};
