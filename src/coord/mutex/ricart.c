/* SPDX-License-Identifier: MIT */

/* Mutual exclusion by permission of all, after Ricart and Agrawala: 2(n−1) messages for an entry.
 *
 *     idle ── enter ──▶ waiting ── permission of every other member ──▶ inside
 *      ▲                                                                   │
 *      └──────────────── exit: answer the deferred requests ◀──────────────┘
 *
 * A member that wants in sends REQUEST with a Lamport stamp to everybody. One that does not compete
 * answers GRANT at once. One that is inside defers its answer to its exit. One that is waiting
 * compares the stamps: the lower is served first, equal times being decided by the process number.
 *
 * Sources: Ricart and Agrawala (1981); Tanenbaum and Van Steen, "Distributed Systems", 6.3.4 and
 * figure 6.15; Coulouris et al., the algorithm using multicast and logical clocks.
 *
 * With `repair` = 0 this is the algorithm of the sources: messages are not lost, nobody crashes.
 * With `repair` = 1:
 *   - Every request is answered, by GRANT or DENY (a GRANT follows later), so that silence means
 *     something; requests are repeated until the GRANT is there. Silence for `patience` attempts is
 *     reported as SUSPECT; to conclude that the silent one is dead is left to the host.
 *   - Members that are down are not waited for.
 *   - One that comes back, or joins, sends HELLO and asks for nothing until all others that are up
 *     have told it their clocks by WELCOME. So its requests are later than every request it may
 *     have forgotten, or never have heard of; without this two could be inside.
 *
 * Invariants: grants follow the total order of stamps, therefore happened-before (EM3); a
 * permission counts only for the ticket (life and count) that it was asked for. The fencing number
 * is the stamp itself: time × capacity + process; whoever lives has granted it, so its clock is
 * past it.
 *
 * Assumes, for EM1: PEER_DOWN is only said of members that are down; of those that are up at any
 * moment, one at least was never down. Any delay, order, loss, repeated delivery.
 *
 * With `lease` = 1 that is not assumed: all can have been away at once (arrival.h). Nobody goes in
 * without the permission of more than half of the founders, besides that of all who are up; so one
 * of any majority knows a clock past every fencing number. What is kept on disk (SAVE) is a bound:
 * no clock was past it; a write is for RESERVE ticks in advance. A member that has forgotten it
 * says CONSENT instead of GRANT, which does not count towards the half. */

#include "coord/mutex/ricart.h"

#include "coord/mutex/arrival.h"
#include "coord/table.h"

enum { REPAIR, RETRY_US, PATIENCE, CLOCK, LEASE };      /* parameters */
enum { RETRY };                                         /* timers */
enum { REQUEST, GRANT, DENY, HELLO, WELCOME, CONSENT }; /* messages */
enum { TIME, TICKET, STAMP, LIFE = 1, READY = 2 };      /* fields */
enum { RESERVE = 65536 }; /* ticks that one write to the disk is for */

typedef struct ricart {
    uint64_t clock;
    uint64_t reserved; /* the clock of a later life begins here */
    uint64_t stamp;    /* of my present request */
    uint64_t ticket;   /* of my last request: incarnation and count */
    uint32_t asked;    /* the request is out; not so while I am still being welcomed */
    mare__arrival arrival;
    mare__set granted;  /* permissions for my ticket … */
    mare__set counted;  /* … of those who have forgotten nothing */
    mare__set deferred; /* who gets an answer at my exit */
    mare__set heard;    /* who has spoken since the last retry */
    uint64_t *wanted;   /* by member: its latest ticket */
    uint32_t *silences; /* by member: attempts without an answer */
} ricart;

/* The clock has moved: keeps the start of a later life's clock ahead of it. */
static void reserve(ricart *r)
{
    if (r->clock >= r->reserved)
        r->reserved = r->clock + RESERVE;
}

static void say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t second,
                uint64_t third)
{
    ricart *r = m->state;
    uint64_t time = mare_coord_lamport_tick(&r->clock);
    reserve(r);
    mare_coord_message msg = {.kind = kind, .field = {time, second, third}};
    if (to == MARE__EVERYBODY)
        mare__broadcast(m, fx, &msg);
    else
        mare__send(m, fx, to, &msg);
}

/* Whether this member waits for answers that it may have to ask for again. */
static int is_asking(const mare_coord *m)
{
    const ricart *r = m->state;
    return mare__param(m, REPAIR) && (m->waiting || !r->arrival.ready);
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    if (is_asking(m))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* Enters if no permission is missing. The algorithm of the sources does not know of deaths. */
static void try_enter(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    mare__set excused = mare__param(m, REPAIR) ? m->down : r->granted;
    if (m->waiting && r->asked &&
        mare__set_covered(m->members, r->granted, excused, m->setup.capacity) &&
        mare__arrival_enough(m, &r->arrival, r->counted))
        mare__grant(m, fx, r->stamp * m->setup.capacity + m->setup.self);
}

static void ask(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    mare__set_clear(r->granted, m->setup.capacity);
    mare__set_add(r->granted, m->setup.self);
    mare__set_clear(r->counted, m->setup.capacity);
    if (!r->arrival.forgot)
        mare__set_add(r->counted, m->setup.self);
    r->asked = 1;
    r->stamp = r->clock + 1; /* the time at which say() sends it */
    say(m, fx, MARE__EVERYBODY, REQUEST, r->ticket, r->stamp);
    try_enter(m, fx);
}

/* The answer of this member to a request that it lets pass. */
static uint32_t permission(const ricart *r)
{
    return r->arrival.quorum && r->arrival.forgot ? CONSENT : GRANT;
}

/* Ends a wait or a stay: deferred requests get their answers. */
static void answer_deferred(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    r->asked = 0;
    for (uint32_t i = mare__set_next(r->deferred, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(r->deferred, i + 1, m->setup.capacity)) {
        if (mare__alive(m, i))
            say(m, fx, i, permission(r), r->wanted[i], 0);
    }
    mare__set_clear(r->deferred, m->setup.capacity);
}

static void try_ready(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (!mare__arrival_try(m, &r->arrival, fx))
        return;
    mare__mark(m, fx, "welcomed");
    if (m->waiting)
        ask(m, fx);
}

static void on_request(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                       mare_coord_effects *fx)
{
    ricart *r = m->state;
    mare_coord_stamp theirs = {msg->field[STAMP], from}, mine = {r->stamp, m->setup.self};
    if (msg->field[TICKET] < r->wanted[from])
        return; /* an old copy: it has gone on to another request since */
    r->wanted[from] = msg->field[TICKET];
    if (m->inside || (r->asked && mare_coord_stamp_before(mine, theirs))) {
        mare__set_add(r->deferred, from);
        mare__mark(m, fx, "defers");
        if (mare__param(m, REPAIR))
            say(m, fx, from, DENY, msg->field[TICKET], 0);
    } else {
        say(m, fx, from, permission(r), msg->field[TICKET], 0);
    }
}

static void on_grant(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                     mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (r->asked && m->waiting && msg->field[TICKET] == r->ticket) {
        mare__set_add(r->granted, from);
        if (msg->kind == GRANT)
            mare__set_add(r->counted, from);
        try_enter(m, fx);
    }
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (msg->field[TIME] >= MARE__CLOCK_LIMIT ||
        (msg->kind == REQUEST && msg->field[STAMP] > msg->field[TIME]))
        return MARE_COORD_MALFORMED; /* no honest clock gets there: do not follow it */
    mare_coord_lamport_receive(&r->clock, msg->field[TIME]);
    reserve(r);
    mare__set_add(r->heard, from);
    r->silences[from] = 0;
    if (msg->kind == REQUEST) {
        on_request(m, from, msg, fx);
    } else if (msg->kind == GRANT || msg->kind == CONSENT) {
        on_grant(m, from, msg, fx);
    } else if (msg->kind == HELLO) {
        mare__set_remove(r->deferred, from); /* what it had asked for died with its last life */
        say(m, fx, from, WELCOME, msg->field[LIFE], mare__arrival_answer(&r->arrival));
    } else if (msg->kind == WELCOME &&
               mare__arrival_told(&r->arrival, from, msg->field[LIFE], msg->field[READY])) {
        try_ready(m, fx);
    }
    arm(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (event->kind == MARE_COORD_ENTER) {
        r->ticket++;
        if (r->arrival.ready)
            ask(m, fx);
        if (is_asking(m))
            mare__arm_anew(m, fx, RETRY, RETRY_US);
    } else {
        answer_deferred(m, fx);
    }
    return MARE_COORD_OK;
}

/* Asks `i` once more; a silence that lasts is reported. */
static void ask_again(mare_coord *m, uint32_t i, mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (!mare__set_has(r->heard, i))
        r->silences[i]++;
    if (mare__param(m, PATIENCE) && r->silences[i] == (uint64_t)mare__param(m, PATIENCE))
        mare__suspect(fx, i, r->silences[i]);
    if (r->arrival.ready)
        say(m, fx, i, REQUEST, r->ticket, r->stamp);
    else
        say(m, fx, i, HELLO, r->arrival.life, 0);
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    ricart *r = m->state;
    mare__set answered = r->arrival.ready ? r->granted : r->arrival.told;
    (void)which;
    if (!is_asking(m))
        return;
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        if (i != m->setup.self && mare__alive(m, i) && !mare__set_has(answered, i))
            ask_again(m, i, fx);
    }
    mare__set_clear(r->heard, m->setup.capacity);
    arm(m, fx);
}

static void ask_for_clocks(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    say(m, fx, MARE__EVERYBODY, HELLO, r->arrival.life, 0);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    ricart *r = m->state;
    uint32_t other = event->peer;
    if (other == m->setup.self || !mare__param(m, REPAIR))
        return;
    mare__set_remove(r->granted, other);
    mare__set_remove(r->counted, other);
    if (!mare__alive(m, other)) {
        mare__set_remove(r->deferred, other);
        if (mare__arrival_misses(m, &r->arrival, other))
            ask_for_clocks(m, fx);
        try_ready(m, fx);
        try_enter(m, fx);
    } else if (r->asked && m->waiting) {
        say(m, fx, other, REQUEST, r->ticket, r->stamp);
    }
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    ricart *r = m->state;
    if (!mare__arrival_start(m, &r->arrival))
        return;
    answer_deferred(m, fx);
    ask_for_clocks(m, fx);
    try_ready(m, fx);
    arm(m, fx);
}

/* Keeping ------------------------------------------------------------------------------------ */

static uint32_t kept(const mare_coord_setup *setup)
{
    return setup->param[LEASE] ? MARE__ARRIVAL_KEPT : 0;
}

static void keep(const mare_coord *m, uint64_t *out)
{
    const ricart *r = m->state;
    mare__arrival_keep(&r->arrival, r->reserved, out);
}

static mare_coord_status recall(mare_coord *m, const uint64_t *in)
{
    ricart *r = m->state;
    mare_coord_status status =
        mare__arrival_recall(&r->arrival, MARE__CLOCK_LIMIT, in, &r->reserved);
    r->clock = r->reserved;
    return status;
}

/* Forgetting --------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

int mare__ricart_forget(const mare_coord *m, mare__ricart_past *past)
{
    const ricart *r = m->state;
    if (m->waiting || m->inside || mare__set_count(r->deferred, m->setup.capacity))
        return 0;
    past->clock = later(past->clock, r->clock);
    past->ticket = later(past->ticket, r->ticket);
    past->life = later(past->life, r->arrival.life);
    return 1;
}

/* Its next request is later than all that it has granted, and no answer to an earlier one counts.
 * An old copy of a request is answered anew: whoever sent it has another ticket since. */
void mare__ricart_follow(mare_coord *m, const mare__ricart_past *past, uint64_t reserved)
{
    ricart *r = m->state;
    r->clock = later(r->clock, past->clock);
    r->ticket = later(r->ticket, past->ticket);
    r->arrival.life = later(r->arrival.life, past->life);
    r->reserved = later(r->reserved, reserved);
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(ricart *r, mare__block *block, const mare_coord_setup *setup)
{
    r->granted = mare__carve_set(block, setup->capacity);
    r->counted = mare__carve_set(block, setup->capacity);
    r->deferred = mare__carve_set(block, setup->capacity);
    r->heard = mare__carve_set(block, setup->capacity);
    r->wanted = mare__carve_array(block, setup->capacity, sizeof *r->wanted);
    r->silences = mare__carve_array(block, setup->capacity, sizeof *r->silences);
    mare__arrival_lay_out(&r->arrival, block, setup);
}

static size_t size(const mare_coord_setup *setup)
{
    ricart counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    ricart *r = m->state;
    lay_out(r, &(mare__block){m->state, sizeof *r}, &m->setup);
    r->clock = (uint64_t)mare__param(m, CLOCK);
    r->ticket = m->setup.incarnation << 32;
    r->arrival.quorum = mare__param(m, LEASE) != 0;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = 2 * setup->capacity + 8;
    *bytes = (setup->capacity + 4) * MARE__MESSAGE_BYTES(3);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const ricart *r = m->state;
    if (!r->arrival.ready)
        view->phase = "greeting";
    view->lamport = r->clock;
    view->asked = view->waiting && r->asked;
    view->stuck = mare__arrival_is_stuck(&r->arrival);
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_EM1 | MARE_COORD_EM2 | MARE_COORD_EM3 | MARE_COORD_FENCING;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    unsigned mortal = setup->param[LEASE] ? MARE__RECALLING : MARE__MORTAL;
    return setup->param[REPAIR] ? MARE__SLOW | MARE__LOSSY | mortal : MARE__SLOW;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    return 2 * (uint64_t)(setup->members - 1);
}

/* All are asked and all answer, one after the other. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->delay_least = cost->delay_most = 2 * (uint64_t)(setup->members - 1);
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: always answers, repeats, leaves out the dead", 1, 0, 1},
    {"retry_us", "how long to wait before asking again", 50000, 1, INT64_C(1) << 40},
    {"patience", "unanswered attempts before a member is suspected; 0: never", 0, 0, 1000},
    {"clock", "where the Lamport clock starts", 0, 0, INT64_C(1) << 32},
    {"lease", "1: DOWN is only said of members without a lease; all may have been away", 0, 0, 1},
    {0},
};

static const mare_coord_form forms[] = {
    {"REQUEST", {"clock", "ticket", "stamp"}, 0},
    {"GRANT", {"clock", "ticket"}, 0},
    {"DENY", {"clock", "ticket"}, 0},
    {"HELLO", {"clock", "life"}, 0},
    {"WELCOME", {"clock", "life", "ready"}, 0},
    {"CONSENT", {"clock", "ticket"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_ricart = {
    .name = "ricart",
    .title = "mutual exclusion by permission of all (Ricart and Agrawala)",
    .source = "Ricart and Agrawala 1981; Tanenbaum and Van Steen 6.3.4",
    .assumes = "DOWN is only said of the dead; some member is never down",
    .family = MARE_COORD_MUTEX,
    .tag = MARE__TAG_RICART,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "2(n-1)",
    .cost = cost,
    .delay_formula = "2(n-1)",
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
