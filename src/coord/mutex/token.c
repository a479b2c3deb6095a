/* SPDX-License-Identifier: MIT */

/* Mutual exclusion by a token that goes round a logical ring: 1 … ∞ messages for an entry, delay of
 * 0 … n−1 messages.
 *
 *          ┌──▶ 0 ──▶ 1 ──▶ 2 ──┐        who has the token and wants in is inside; at its exit, or
 *          └─── 5 ◀── 4 ◀── 3 ◀─┘        at once if it does not want in, the token goes on
 *
 * Source: Tanenbaum and Van Steen, "Distributed Systems", 6.3.5 and figure 6.16; Coulouris et al.,
 * the ring-based algorithm. Process 0 has the token first. Nobody enters twice on one visit of it.
 *
 * With `repair` = 0 this is the algorithm of the sources: nothing is lost, nobody crashes. With
 * `repair` = 1, what they name as its weak points is mended:
 *   - A lost message. TOKEN is acknowledged, and repeated until it is. Each hop has a number, by
 *     which a second copy is known.
 *   - A dead member is skipped: the token goes to the next that is up.
 *   - A lost token. That it has not been seen for long says nothing, for somebody may be using it;
 *     so it is never guessed. When a member goes down or leaves, the highest one left opens a new
 *     epoch; so does a member that has sent the token to a dead one and had no answer, and one that
 *     comes back or joins, as soon as it knows the present epoch. In a new epoch every member that
 *     is up drops what token it has and reports whether it is inside; when all have, the one that
 *     opened the epoch makes one token, for the member that is inside or for itself. An epoch names
 *     who opened it, epoch mod capacity, so it has one token at most; an older one is worth nothing
 *     to anybody, for all have moved on before the new one was made.
 *   - One that returns asks all others that are up for their epoch, and takes no token before they
 *     have told it: an old message must not be taken for the present.
 *
 * Invariants: at most one token of an epoch; a token is taken only in the epoch of the receiver and
 * if its hop is later than any seen; fencing numbers are (epoch, entries in it), so they grow when
 * the token is made anew too.
 *
 * Assumes, for EM1: PEER_DOWN is only said of members that are down; of those that are up at any
 * moment, one at least was never down. Any delay, order, loss, repeated delivery. Does not promise
 * EM3: the token comes by in the order of the ring, not of the requests.
 *
 * With `lease` = 1 no member need have been there always (arrival.h): a token is made only with the
 * reports of more than half of the founders who have forgotten nothing, and the epoch is kept on
 * disk (SAVE) before it is reported to. So one of any majority knows the latest epoch. */

#include "coord/election/epoch.h"
#include "coord/mutex/arrival.h"
#include "coord/table.h"

enum { REPAIR, RETRY_US, REST_US, LEASE };          /* parameters */
enum { RETRY, REST };                               /* timers */
enum { TOKEN, ACK, REGENERATE, REPORT, ASK, TOLD }; /* messages */
enum { EPOCH, HOP, ENTRIES };                       /* fields of a TOKEN */
enum { FORGOT = 2 };                                /* added to INSIDE: has forgotten its epoch */
enum { INSIDE = 1, LIFE = 1, KNOWS = 2 };           /* … of REPORT, ASK and TOLD */

/* Enough for 2^31 / capacity new tokens. After those, messages are refused, and nobody enters any
 * more: fencing numbers have no room for a larger epoch, so the group must be founded anew. */
#define EPOCH_LIMIT (UINT64_C(1) << 31)
#define HOP_LIMIT (UINT64_C(1) << 60)
#define ENTRIES_LIMIT UINT32_MAX

typedef struct token {
    uint64_t epoch;
    uint64_t hop;          /* the largest seen in this epoch */
    uint64_t entries;      /* grants in this epoch, when I last saw the token */
    uint32_t has;          /* the token is here … */
    uint32_t used;         /* … and this visit has been made use of */
    uint32_t passed_to;    /* who has not acknowledged it yet, or NOBODY */
    uint32_t collecting;   /* I have opened the epoch and wait for reports */
    uint32_t insider;      /* who has reported to be inside, or NOBODY */
    mare__set answered;    /* who has reported … */
    mare__set counted;     /* … and has forgotten nothing */
    mare__arrival arrival; /* until it is ready, `epoch` means nothing */
} token;

static void tell(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind, uint64_t second,
                 uint64_t third)
{
    token *t = m->state;
    mare_coord_message msg = {.kind = kind, .field = {t->epoch, second, third}};
    mare__send(m, fx, to, &msg);
}

/* Starts the retry timer if a lost message could hold up something that this member waits for. */
static void arm(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    int needed = !t->arrival.ready || t->collecting || t->passed_to != MARE_COORD_NOBODY;
    if (needed && mare__param(m, REPAIR))
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* The token ---------------------------------------------------------------------------------- */

/* As the sources have it the next member has its turn, dead or alive. */
static uint32_t next_in_ring(const mare_coord *m)
{
    uint32_t next = mare__set_next(m->members, m->setup.self + 1, m->setup.capacity);
    if (mare__param(m, REPAIR))
        return mare__successor(m);
    return next != MARE_COORD_NOBODY ? next : mare__set_next(m->members, 0, m->setup.capacity);
}

static void pass(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    uint32_t next = next_in_ring(m);
    if (next == m->setup.self) {
        t->used = 0; /* alone on the ring: the token has gone round */
        return;
    }
    t->has = 0;
    t->hop++;
    if (mare__param(m, REPAIR))
        t->passed_to = next;
    tell(m, fx, next, TOKEN, t->hop, t->entries);
}

static void open_epoch(mare_coord *m, mare_coord_effects *fx);

/* The token is here: go in, let it rest, or pass it on. */
static void use_token(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    if (!t->has || m->inside)
        return;
    if (m->waiting && !t->used && t->entries == ENTRIES_LIMIT) {
        open_epoch(m, fx); /* a fresh epoch, with numbers to spare */
    } else if (m->waiting && !t->used) {
        t->used = 1;
        t->entries++;
        mare__grant(m, fx, t->epoch << 32 | t->entries);
    } else if (mare__param(m, REST_US) && !t->used) {
        mare__set_timer(fx, REST, (uint64_t)mare__param(m, REST_US));
    } else {
        pass(m, fx);
    }
}

static void take(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    t->has = 1;
    t->used = 0;
    t->passed_to = MARE_COORD_NOBODY;
    use_token(m, fx);
}

static void on_token(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                     mare_coord_effects *fx)
{
    token *t = m->state;
    uint64_t hop = msg->field[HOP];
    if (mare__param(m, REPAIR))
        tell(m, fx, from, ACK, hop, 0);
    if (hop <= t->hop)
        return; /* a second copy */
    t->hop = hop;
    t->entries = msg->field[ENTRIES];
    take(m, fx);
}

/* Epochs ------------------------------------------------------------------------------------- */

/* Obeys a new epoch: a token of an older one is void. */
static void adopt(token *t, uint64_t epoch)
{
    t->epoch = epoch;
    t->hop = t->entries = 0;
    t->has = t->collecting = 0;
    t->passed_to = t->insider = MARE_COORD_NOBODY;
}

/* Makes the token of the epoch when everybody has reported. */
static void finish_epoch(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    if (!t->collecting || !mare__set_covered(m->members, t->answered, m->down, m->setup.capacity) ||
        !mare__arrival_enough(m, &t->arrival, t->counted))
        return;
    t->collecting = 0;
    mare__mark(m, fx, "makes a token");
    t->hop = 1;
    if (t->insider == MARE_COORD_NOBODY || t->insider == m->setup.self) {
        take(m, fx);
    } else {
        t->passed_to = t->insider;
        tell(m, fx, t->insider, TOKEN, t->hop, 0);
    }
}

static void open_epoch(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    adopt(t, mare__epoch_above(t->epoch, m->setup.self, m->setup.capacity));
    t->collecting = 1;
    t->insider = m->inside ? m->setup.self : MARE_COORD_NOBODY;
    mare__set_clear(t->answered, m->setup.capacity);
    mare__set_add(t->answered, m->setup.self);
    mare__set_clear(t->counted, m->setup.capacity);
    if (!t->arrival.forgot)
        mare__set_add(t->counted, m->setup.self);
    tell(m, fx, MARE__EVERYBODY, REGENERATE, 0, 0);
    finish_epoch(m, fx);
}

static void on_report(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                      mare_coord_effects *fx)
{
    token *t = m->state;
    if (!t->collecting || mare__set_has(t->answered, from))
        return;
    mare__set_add(t->answered, from);
    if (msg->field[INSIDE] < FORGOT)
        mare__set_add(t->counted, from);
    if (msg->field[INSIDE] % FORGOT)
        t->insider = from;
    finish_epoch(m, fx);
}

/* Knows the epoch once everybody that is up has told theirs; opens a new one, for the token may
 * have been lost with its last life. */
static void try_learn(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    if (mare__arrival_try(m, &t->arrival, fx))
        open_epoch(m, fx);
}

static void on_told(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    token *t = m->state;
    if (!mare__arrival_told(&t->arrival, from, msg->field[LIFE], msg->field[KNOWS]))
        return;
    if (msg->field[KNOWS] && t->epoch < msg->field[EPOCH])
        t->epoch = msg->field[EPOCH];
    try_learn(m, fx);
}

/* A larger epoch is obeyed; but if who opened it is gone, or was I in a life that is over, nobody
 * will make its token. */
static void follow(mare_coord *m, uint64_t epoch, mare_coord_effects *fx)
{
    token *t = m->state;
    uint32_t opener = (uint32_t)(epoch % m->setup.capacity);
    adopt(t, epoch);
    if (opener == m->setup.self || (!mare__alive(m, opener) && mare__is_highest(m)))
        open_epoch(m, fx);
}

/* What one under a lease adds to its report, when its word is not to count. */
static uint64_t forgot(const token *t)
{
    return t->arrival.quorum && t->arrival.forgot ? FORGOT : 0;
}

/* The handlers ------------------------------------------------------------------------------- */

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    token *t = m->state;
    uint64_t epoch = msg->field[EPOCH];
    if (epoch >= EPOCH_LIMIT || (msg->kind == TOKEN && (msg->field[HOP] >= HOP_LIMIT ||
                                                        msg->field[ENTRIES] > ENTRIES_LIMIT)))
        return MARE_COORD_MALFORMED;
    int ready = t->arrival.ready != 0;
    if (msg->kind == ASK || (ready && epoch < t->epoch)) {
        tell(m, fx, from, TOLD, msg->kind == ASK ? msg->field[LIFE] : 0,
             mare__arrival_answer(&t->arrival));
        return MARE_COORD_OK;
    }
    if (!ready || (msg->kind == TOLD && msg->field[KNOWS] != MARE__ARRIVAL_READY)) {
        if (msg->kind == TOLD)
            on_told(m, from, msg, fx);
        arm(m, fx);
        return MARE_COORD_OK;
    }
    if (epoch > t->epoch)
        follow(m, epoch, fx);
    if (epoch < t->epoch)
        ; /* it made me open a later one */
    else if (msg->kind == TOKEN)
        on_token(m, from, msg, fx);
    else if (msg->kind == ACK && from == t->passed_to && msg->field[HOP] == t->hop)
        t->passed_to = MARE_COORD_NOBODY;
    else if (msg->kind == REPORT)
        on_report(m, from, msg, fx);
    else if (msg->kind == REGENERATE && from == epoch % m->setup.capacity)
        tell(m, fx, from, REPORT, m->inside + forgot(t), 0);
    arm(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    if (event->kind == MARE_COORD_EXIT)
        m->inside = 0;
    if (event->kind != MARE_COORD_ABANDON)
        use_token(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void ask_again(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    if (!t->arrival.ready)
        tell(m, fx, MARE__EVERYBODY, ASK, t->arrival.life, 0);
    else if (t->collecting)
        mare__send_rest(m, fx, t->answered,
                        &(mare_coord_message){.kind = REGENERATE, .field = {t->epoch}});
    else if (t->passed_to != MARE_COORD_NOBODY && mare__alive(m, t->passed_to))
        tell(m, fx, t->passed_to, TOKEN, t->hop, t->entries);
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    token *t = m->state;
    if (which == REST && t->has && !m->inside)
        pass(m, fx);
    if (which == RETRY && mare__param(m, REPAIR))
        ask_again(m, fx);
    arm(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    token *t = m->state;
    if (event->peer == m->setup.self || !mare__param(m, REPAIR))
        return;
    if (mare__alive(m, event->peer)) {
        use_token(m, fx); /* one that was alone has somebody to pass it to */
    } else {
        if (t->insider == event->peer)
            t->insider = MARE_COORD_NOBODY;
        if (t->arrival.ready && (mare__is_highest(m) || t->passed_to == event->peer))
            open_epoch(m, fx); /* the token may have been with it, or on its way there */
        finish_epoch(m, fx);
        try_learn(m, fx);
    }
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    token *t = m->state;
    if (mare__arrival_start(m, &t->arrival)) { /* others may have gone on without me */
        adopt(t, t->epoch);
        tell(m, fx, MARE__EVERYBODY, ASK, t->arrival.life, 0);
        try_learn(m, fx);
    } else if (m->setup.self == 0) {
        take(m, fx);
    }
    arm(m, fx);
}

/* Keeping ------------------------------------------------------------------------------------ */

static uint32_t kept(const mare_coord_setup *setup)
{
    return setup->param[LEASE] ? MARE__ARRIVAL_KEPT : 0;
}

static void keep(const mare_coord *m, uint64_t *out)
{
    const token *t = m->state;
    mare__arrival_keep(&t->arrival, t->epoch, out);
}

static mare_coord_status recall(mare_coord *m, const uint64_t *in)
{
    token *t = m->state;
    return mare__arrival_recall(&t->arrival, EPOCH_LIMIT, in, &t->epoch);
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(token *t, mare__block *block, const mare_coord_setup *setup)
{
    t->answered = mare__carve_set(block, setup->capacity);
    t->counted = mare__carve_set(block, setup->capacity);
    mare__arrival_lay_out(&t->arrival, block, setup);
}

static size_t size(const mare_coord_setup *setup)
{
    token counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    token *t = m->state;
    lay_out(t, &(mare__block){m->state, sizeof *t}, &m->setup);
    t->passed_to = t->insider = MARE_COORD_NOBODY;
    t->arrival.quorum = mare__param(m, LEASE) != 0;
}

static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    *effects = setup->capacity + 8;
    *bytes = (setup->capacity + 4) * MARE__MESSAGE_BYTES(3);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const token *t = m->state;
    if (t->has && !m->inside)
        view->phase = "holding";
    view->epoch = t->epoch;
    view->stuck = mare__arrival_is_stuck(&t->arrival);
}

static unsigned promises(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE_COORD_EM1 | MARE_COORD_EM2 | MARE_COORD_FENCING;
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    unsigned mortal = setup->param[LEASE] ? MARE__RECALLING : MARE__MORTAL;
    return setup->param[REPAIR] ? MARE__SLOW | MARE__LOSSY | mortal : MARE__SLOW;
}

/* When everybody always wants in. */
static uint64_t messages(const mare_coord_setup *setup)
{
    (void)setup;
    return 1;
}

/* One message an entry when everybody always wants in; nobody does, and they have no end. The token
 * has just come, or has just gone on to the next. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    cost->messages_most = UINT64_MAX;
    cost->delay_least = 0;
    cost->delay_most = setup->members - 1;
}

static const mare_coord_param params[] = {
    {"repair", "0: as in the sources; 1: acknowledges, skips the dead, makes a lost token anew", 1,
     0, 1},
    {"retry_us", "how long to wait before asking again", 50000, 1, INT64_C(1) << 40},
    {"rest_us", "how long the token rests with one that does not want it; 0: as in the sources",
     1000, 0, INT64_C(1) << 40},
    {"lease", "1: DOWN is only said of members without a lease; all may have been away", 0, 0, 1},
    {0},
};

static const mare_coord_form forms[] = {
    {"TOKEN", {"epoch", "hop", "entries"}, 0},
    {"ACK", {"epoch", "hop"}, 0},
    {"REGENERATE", {"epoch"}, 0},
    {"REPORT", {"epoch", "inside"}, 0},
    {"ASK", {"epoch", "life"}, 0},
    {"TOLD", {"epoch", "life", "knows"}, 0},
    {0},
};

const mare_coord_algorithm mare_coord_token = {
    .name = "token",
    .title = "mutual exclusion by a token on a ring",
    .source = "Tanenbaum and Van Steen 6.3.5; Coulouris et al., ring-based algorithm",
    .assumes = "DOWN is only said of the dead; some member is never down",
    .family = MARE_COORD_MUTEX,
    .tag = MARE__TAG_TOKEN,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "1 ... ∞",
    .cost = cost,
    .delay_formula = "0 ... n-1",
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
