/* SPDX-License-Identifier: MIT */

/* Mutual exclusion by permission of a majority: the variant of Ricart and Agrawala's algorithm in
 * which more than half of the votes are enough, 3(n−1) messages for an entry.
 *
 *     idle ── enter ──▶ waiting ── votes of more than half of the founders ──▶ inside
 *      ▲                  │  ▲                                                   │
 *      │            INQUIRE  GRANT                                               │
 *      │                  ▼  │                                                   │
 *      │                 YIELD: the vote goes to an older request                │
 *      └─────────────────────── exit: RELEASE to everybody ◀─────────────────────┘
 *
 * Each founder has one vote, its own among them, and gives it to one at a time: to the oldest
 * request that it knows of, by Lamport stamp. Two majorities share a voter, so there is one inside.
 * Two that wait could each hold what the other needs; so a voter that hears of a request older than
 * the one it has voted for INQUIREs, and one that is still waiting YIELDs. The oldest request of
 * all is never made to yield, and is granted.
 *
 * Sources: Tanenbaum and Van Steen, "Distributed Systems", 6.3.4 (the improvement named there: a
 * simple majority, and no second permission before the first is over); Maekawa (1985) and Sanders
 * (1987) for inquiring and yielding.
 *
 * Assumes no failure detector at all: PEER_DOWN and PEER_UP are ignored, so a wrong one harms
 * nobody. While a minority is down, slow or cut off, the others go on. Messages may be lost,
 * repeated, late, out of order; with `repair` = 1 requests are repeated, and a voter repeats its
 * GRANT when others insist, which makes up for a lost RELEASE: one that is no longer inside answers
 * by it. For EM1 and fencing voters keep their votes across a crash: one that starts without memory
 * abstains for good, and says so. A member that hears it of so many that no majority is left tells
 * its host (NO_GROUP). For EM2 who crashes comes back in the end, for one that died inside has
 * votes that nobody else can return. The voters are the founders. A member that joins later may ask
 * but has no vote; one that leaves counts as down.
 *
 * With `lease` = 1 there is a detector that is right, that of a lease (lease/lease.c): the vote of
 * a holder that is down is free again, for it is not inside any more. Then a minority need not
 * return.
 *
 * What is kept on disk (SAVE) without a lease is the last vote that was given, before anybody hears
 * of it. That it is over is not kept: a voter that comes back takes it for given, and hears better
 * from its holder. What was asked for is asked for again; tickets go on with the incarnation.
 *
 * With a lease votes are not kept, for that would be a write to the disk for each. Kept is a bound:
 * stamps below it may have had the vote; and who has ever had it. A write is for RESERVE stamps in
 * advance, up to a multiple of that, so that all locks of a member have the same bound.
 *
 *     voting ── crash ──▶ unsure ── CLEAR of each of those, or it is down ──▶ voting
 *                           └── BACK to them: my votes up to this number are forgotten
 *
 * A member that comes back takes all stamps up to the bound for used, and does not know who has its
 * vote. It asks, by BACK. A member that is inside by such a vote answers when it has gone out; all
 * others give the vote up and say CLEAR at once (one that is still on its way is of an epoch of the
 * lease that is over, and is not listened to). Until all have, it votes for nobody. A member that
 * is down has nothing, if it is known to have had nothing at a moment since the crash.
 *
 * Invariants: a vote counts for one ticket, and not after it was yielded (votes are numbered);
 * nobody votes again before the holder has said so, or is down. The fencing number is the stamp of
 * the request, (time, process), which all who voted for it know. A voter votes in the order of the
 * stamps: a request that is older than one that had its vote, and did not yield it, is STALE, and
 * is made anew with a later stamp. The next to be granted shares a voter with the one before, so
 * its number is larger, whatever became of the one before. Does not promise EM3: a majority may
 * answer before an older request has reached it. */

#include "coord/mutex/majority_state.h"
#include "coord/table.h"

enum { RETRY };                                                                /* timers */
enum { REQUEST, GRANT, INQUIRE, YIELD, RELEASE, ABSTAIN, STALE, BACK, CLEAR }; /* messages */
enum { TIME, TICKET, STAMP }; /* fields; a vote's number, as STAMP; a life's, as TICKET */
enum { RESERVE = 65536 };     /* stamps that one write to the disk is for */

static void handle(mare_coord *m, uint32_t from, uint32_t kind, uint64_t ticket, uint64_t number,
                   mare_coord_effects *fx);

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t ticket,
                uint64_t number)
{
    majority *x = m->state;
    if (to == m->setup.self) {
        handle(m, to, kind, ticket, number, fx);
        return;
    }
    mare_coord_message msg = {.kind = kind, .field = {++x->clock, ticket, number}};
    if (to == MARE__EVERYBODY || mare__set_has(m->members, to))
        mare__send(m, fx, to, &msg);
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    if (mare__param(m, REPAIR) && (m->waiting || m->unsure))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* As voter ----------------------------------------------------------------------------------- */

/* The bound is a multiple of RESERVE: so locks of one member, whose clocks go together, come to the
 * same one, and a new lock needs no write of its own. */
static void note_given(majority *x)
{
    const mare__ballot *b = &x->ballot;
    if (b->stamp[b->holder] >= x->reserved)
        x->reserved = (b->stamp[b->holder] / RESERVE + 1) * RESERVE;
    mare__set_add(x->voted, b->holder);
    x->given[VOTE] = b->vote;
    x->given[HOLDER] = b->holder;
    x->given[HELD_TICKET] = b->ticket[b->holder];
    x->given[HELD_STAMP] = b->stamp[b->holder];
    x->given[USED] = x->used;
    x->given[USER] = x->user;
}

/* Gives the vote, if it is free. Otherwise asks for it back if an older request waits; or, if
 * somebody insists, sends the GRANT once more: the RELEASE may have been lost. */
static void serve(mare_coord *m, int insists, mare_coord_effects *fx)
{
    majority *x = m->state;
    mare__ballot *b = &x->ballot;
    if (m->unsure)
        return;
    int given = mare__ballot_next(b, m->setup.capacity) != MARE_COORD_NOBODY;
    if (b->holder == MARE_COORD_NOBODY)
        return;
    if (given)
        note_given(x);
    if (!given && mare__ballot_contested(b, m->setup.capacity))
        say(m, fx, b->holder, INQUIRE, b->ticket[b->holder], b->vote);
    else if (given || insists)
        say(m, fx, b->holder, GRANT, b->ticket[b->holder], b->vote);
}

static int is_stale(const mare_coord *m, uint32_t from, uint64_t stamp)
{
    const majority *x = m->state;
    mare_coord_stamp theirs = {stamp, from}, used = {x->used, x->user};
    return !mare_coord_stamp_before(used, theirs);
}

/* Makes members ask again whose stamp is too old for the vote. This member comes last, because its
 * new request is looked at during this. */
static void turn_away_stale(mare_coord *m, mare_coord_effects *fx)
{
    majority *x = m->state;
    mare__ballot *b = &x->ballot;
    for (uint32_t i = 1; i <= m->setup.capacity; i++) {
        uint32_t who = (m->setup.self + i) % m->setup.capacity;
        uint64_t ticket = b->ticket[who];
        if (!ticket || who == b->holder || !is_stale(m, who, b->stamp[who]))
            continue;
        mare__ballot_turn_away(b, who);
        say(m, fx, who, STALE, ticket, 0);
    }
}

/* The tickets of `from` up to this one are over. If one of them had the vote, its stamp is used. */
static void end_ticket(mare_coord *m, uint32_t from, uint64_t ticket, mare_coord_effects *fx)
{
    majority *x = m->state;
    mare__ballot *b = &x->ballot;
    if (b->holder == from && b->ticket[from] <= ticket && !is_stale(m, from, b->stamp[from])) {
        x->used = b->stamp[from];
        x->user = from;
    }
    mare__ballot_release(b, from, ticket);
    turn_away_stale(m, fx);
}

static void on_request(mare_coord *m, uint32_t from, uint64_t ticket, uint64_t stamp,
                       mare_coord_effects *fx)
{
    majority *x = m->state;
    if (m->setup.self >= m->setup.members)
        return;
    if (x->abstains) {
        say(m, fx, from, ABSTAIN, ticket, 0);
        return;
    }
    if (ticket > x->ballot.ticket[from] && ticket > x->ballot.over[from]) {
        end_ticket(m, from, ticket - 1, fx); /* it asks anew */
        if (is_stale(m, from, stamp)) {
            say(m, fx, from, STALE, ticket, 0);
            serve(m, 0, fx);
            return;
        }
    }
    int news = mare__ballot_ask(&x->ballot, from, ticket, stamp);
    if (news && x->ballot.holder == from)
        say(m, fx, from, GRANT, ticket, x->ballot.vote); /* the first one was lost */
    else if (news)
        serve(m, news == 2, fx);
}

/* As voter that has come back ---------------------------------------------------------------- */

/* What the votes of earlier lives are numbered up to. */
static uint64_t last_vote(const mare_coord *m)
{
    return m->setup.incarnation << 32;
}

/* Tells that this member is not inside by a vote of an earlier life, and will not be. */
static void clear(mare_coord *m, uint32_t member, mare_coord_effects *fx)
{
    majority *x = m->state;
    mare__set_remove(x->asked, member);
    if (!m->unsure || mare__set_count(x->asked, m->setup.capacity))
        return;
    m->unsure = 0;
    serve(m, 0, fx);
}

static void ask_back(mare_coord *m, uint32_t to, mare_coord_effects *fx)
{
    const majority *x = m->state;
    if (m->unsure && mare__set_has(x->asked, to))
        say(m, fx, to, BACK, m->setup.incarnation, last_vote(m));
}

static void ask_all_back(mare_coord *m, mare_coord_effects *fx)
{
    for (uint32_t i = 0; m->unsure && i < m->setup.capacity; i++) {
        if (mare__alive(m, i))
            ask_back(m, i, fx);
    }
}

/* A member that has left holds no vote. Not in START: JOINs come after it. */
static void forget_strangers(mare_coord *m, mare_coord_effects *fx)
{
    for (uint32_t i = 0; m->unsure && i < m->setup.capacity; i++) {
        if (!mare__set_has(m->members, i))
            clear(m, i, fx);
    }
}

/* As requester ------------------------------------------------------------------------------- */

static void on_grant(mare_coord *m, uint32_t from, uint64_t ticket, uint64_t vote,
                     mare_coord_effects *fx)
{
    majority *x = m->state;
    int mine = ticket == x->ticket;
    if (mine && m->waiting && from < m->setup.members) {
        if (vote <= x->yielded[from]) {
            say(m, fx, from, YIELD, ticket, vote);
            return;
        }
        x->vote[from] = vote;
        mare__set_add(x->granted, from);
        if (mare__set_count(x->granted, m->setup.capacity) > m->setup.members / 2)
            mare__grant(m, fx, x->stamp * m->setup.capacity + m->setup.self);
    } else if ((!mine || !m->inside) && mare__param(m, REPAIR)) {
        say(m, fx, from, RELEASE, ticket, 0); /* a vote for what is over: the first was lost */
    }
}

static void ask(mare_coord *m, mare_coord_effects *fx)
{
    majority *x = m->state;
    x->ticket++;
    x->stamp = x->clock + 1; /* the time at which say() sends it */
    mare__set_clear(x->granted, m->setup.capacity);
    say(m, fx, MARE__EVERYBODY, REQUEST, x->ticket, x->stamp);
    say(m, fx, m->setup.self, REQUEST, x->ticket, x->stamp);
    arm(m, fx);
}

/* A member that has forgotten its votes gives none any more. If the others are no majority, nobody
 * will ever enter again. */
static void on_abstain(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    majority *x = m->state;
    if (from < m->setup.members)
        mare__set_add(x->abstained, from);
    uint32_t abstained = mare__set_count(x->abstained, m->setup.capacity);
    if (m->setup.members - abstained > m->setup.members / 2 || x->complained)
        return;
    x->complained = 1;
    mare__no_group(fx, abstained);
}

/* A voter has forgotten its votes up to this number. A member that is inside by one of them does
 * not answer now: it will be asked again. */
static void on_back(mare_coord *m, uint32_t from, uint64_t life, uint64_t vote,
                    mare_coord_effects *fx)
{
    majority *x = m->state;
    if (m->inside && mare__set_has(x->granted, from) && x->vote[from] <= vote)
        return;
    if (x->vote[from] <= vote)
        mare__set_remove(x->granted, from);
    say(m, fx, from, CLEAR, life, 0);
    if (m->waiting && !mare__set_has(x->granted, from))
        say(m, fx, from, REQUEST, x->ticket, x->stamp);
}

static void on_inquire(mare_coord *m, uint32_t from, uint64_t ticket, uint64_t vote,
                       mare_coord_effects *fx)
{
    majority *x = m->state;
    int mine = ticket == x->ticket;
    if (mine && m->waiting && vote >= x->vote[from]) {
        x->yielded[from] = vote > x->yielded[from] ? vote : x->yielded[from];
        mare__set_remove(x->granted, from);
        mare__mark(m, fx, "yields");
        say(m, fx, from, YIELD, ticket, vote);
    } else if ((!mine || (!m->inside && !m->waiting)) && mare__param(m, REPAIR)) {
        say(m, fx, from, RELEASE, ticket, 0);
    }
}

static void handle(mare_coord *m, uint32_t from, uint32_t kind, uint64_t ticket, uint64_t number,
                   mare_coord_effects *fx)
{
    majority *x = m->state;
    if (kind == REQUEST) {
        on_request(m, from, ticket, number, fx);
    } else if (kind == GRANT) {
        on_grant(m, from, ticket, number, fx);
    } else if (kind == INQUIRE) {
        on_inquire(m, from, ticket, number, fx);
    } else if (kind == ABSTAIN) {
        on_abstain(m, from, fx);
    } else if (kind == YIELD) {
        mare__ballot_yield(&x->ballot, from, ticket, number);
        serve(m, 0, fx);
    } else if (kind == STALE) {
        if (ticket == x->ticket && m->waiting)
            ask(m, fx);
    } else if (kind == BACK) {
        on_back(m, from, ticket, number, fx);
    } else if (kind == CLEAR) {
        if (ticket == m->setup.incarnation)
            clear(m, from, fx);
    } else {
        end_ticket(m, from, ticket, fx);
        ask_back(m, from, fx);
        serve(m, 0, fx);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    majority *x = m->state;
    if (msg->field[TIME] >= MARE__CLOCK_LIMIT || msg->field[TICKET] == 0 ||
        msg->field[TICKET] >> 63 || (msg->kind == REQUEST && msg->field[STAMP] > msg->field[TIME]))
        return MARE_COORD_MALFORMED;
    mare_coord_lamport_receive(&x->clock, msg->field[TIME]);
    handle(m, from, msg->kind, msg->field[TICKET], msg->field[STAMP], fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

/* Ends a wait or a stay: the votes go back. */
static void finish(mare_coord *m, mare_coord_effects *fx)
{
    majority *x = m->state;
    m->waiting = m->inside = 0;
    mare__set_clear(x->granted, m->setup.capacity);
    say(m, fx, MARE__EVERYBODY, RELEASE, x->ticket, 0);
    say(m, fx, m->setup.self, RELEASE, x->ticket, 0);
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    if (event->kind != MARE_COORD_ENTER) {
        finish(m, fx);
        return MARE_COORD_OK;
    }
    ask(m, fx);
    return MARE_COORD_OK;
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    majority *x = m->state;
    (void)which;
    for (uint32_t i = 0; mare__param(m, REPAIR) && m->waiting && i < m->setup.members; i++) {
        if (!mare__set_has(x->granted, i))
            say(m, fx, i, REQUEST, x->ticket, x->stamp);
    }
    forget_strangers(m, fx);
    ask_all_back(m, fx);
    arm(m, fx);
}

/* A member that is down holds nothing, if the detector is a lease's. */
static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    majority *x = m->state;
    if (event->kind == MARE_COORD_LEAVE && event->peer != m->setup.self)
        clear(m, event->peer, fx);
    if (event->kind != MARE_COORD_PEER_DOWN || !mare__param(m, LEASE))
        return;
    end_ticket(m, event->peer, x->ballot.ticket[event->peer], fx);
    if (event->number)
        clear(m, event->peer, fx);
    serve(m, 0, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    majority *x = m->state;
    uint64_t none = mare__param(m, LEASE) ? x->none : 0;
    if (m->started && x->ticket > none) /* one that has never asked has nothing to return */
        finish(m, fx);
    if (!m->started) {
        x->abstains = !m->setup.founds;
        x->clock += x->abstains; /* a new life counts as an event */
    }
    ask_all_back(m, fx);
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(majority *x, mare__block *block, const mare_coord_setup *setup)
{
    x->voted = mare__carve_set(block, setup->capacity);
    x->asked = mare__carve_set(block, setup->capacity);
    x->granted = mare__carve_set(block, setup->capacity);
    x->abstained = mare__carve_set(block, setup->capacity);
    x->vote = mare__carve_array(block, setup->capacity, sizeof *x->vote);
    x->yielded = mare__carve_array(block, setup->capacity, sizeof *x->yielded);
    mare__ballot_lay_out(&x->ballot, block, setup->capacity);
}

static size_t size(const mare_coord_setup *setup)
{
    majority counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    majority *x = m->state;
    lay_out(x, &(mare__block){m->state, sizeof *x}, &m->setup);
    x->ticket = x->none = m->setup.incarnation << 32;
    x->ballot.vote = mare__param(m, LEASE) ? last_vote(m) : 0;
    x->clock = (uint64_t)mare__param(m, CLOCK);
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = 2 * setup->capacity + 8;
    *bytes = (2 * setup->capacity + 4) * MARE__MESSAGE_BYTES(3);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const majority *x = m->state;
    view->lamport = x->clock;
    if (m->unsure && !m->waiting && !m->inside)
        view->phase = "unsure";
    view->stuck = (int)x->complained;
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_EM1 | MARE_COORD_EM2 | MARE_COORD_FENCING;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    if (!setup->param[REPAIR])
        return MARE__SLOW;
    return MARE__SLOW | MARE__LOSSY | MARE_COORD_CRASH | MARE_COORD_ALL_CRASH |
           MARE_COORD_ALL_RETURN | (setup->param[LEASE] ? 0 : MARE_COORD_SUSPECTS);
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return 3 * (uint64_t)(setup->members - 1);
}

/* All are asked, one after the other; n/2 answers and one's own vote are more than half. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = setup->members - 1 + setup->members / 2;
}

static const mare_coord_param params[] = {
    {"repair", "0: nothing is lost; 1: repeats requests and grants", 1, 0, 1},
    {"retry_us", "how long to wait before asking again", 50000, 1, INT64_C(1) << 40},
    {"lease", "1: DOWN is only said of members without a lease; their votes are free", 0, 0, 1},
    {"clock", "what the Lamport clock begins with", 0, 0, INT64_C(1) << 46},
    {0},
};

static const mare_coord_form forms[] = {
    {"REQUEST", {"clock", "ticket", "stamp"}, 0},
    {"GRANT", {"clock", "ticket", "vote"}, 0},
    {"INQUIRE", {"clock", "ticket", "vote"}, 0},
    {"YIELD", {"clock", "ticket", "vote"}, 0},
    {"RELEASE", {"clock", "ticket"}, 0},
    {"ABSTAIN", {"clock", "ticket"}, 0},
    {"STALE", {"clock", "ticket"}, 0},
    {"BACK", {"clock", "life", "vote"}, 0},
    {"CLEAR", {"clock", "life"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_majority = {
    .name = "majority",
    .title = "mutual exclusion by permission of a majority",
    .source = "Tanenbaum and Van Steen 6.3.4; Maekawa 1985; Sanders 1987",
    .assumes = "votes survive a crash; crashed members return in the end; no detector",
    .family = MARE_COORD_MUTEX,
    .tag = MARE__TAG_MAJORITY,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "3(n-1)",
    .cost = cost,
    .delay_formula = "n-1+n/2",
    .size = size,
    .room = room,
    .init = init,
    .start = start,
    .receive = receive,
    .timer = timer,
    .request = request,
    .peer = peer,
    .look = look,
    .keep = mare__majority_keep,
    .recall = mare__majority_recall,
    .kept = mare__majority_kept,
};
