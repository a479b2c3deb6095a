/* SPDX-License-Identifier: MIT */

/* Virtual synchrony: multicast to a group whose members come, go and die, with agreement on who is
 * in it. Members go through the same views (numbered lists of members), and those that go together
 * from one view to the next have delivered the same messages in the first: a crash in the middle of
 * a multicast ends with all survivors having the message, or none. Within a view: FIFO, and as
 * `order` says causal or total besides (views_order.c).
 *
 *     outside ── HELLO ──▶ member ── somebody is gone, or wants in ──▶ flushing ──┐
 *        ▲                   ▲                                                   │
 *        └── left out ───────┴────────────── the next view is installed ◀────────┘
 *
 * The change, led by the lowest member of the view that is not gone:
 *
 *     PROPOSE ──▶ all stop, and answer STATE: what I have, what I accepted of an earlier leader
 *     CUT     ──▶ the next list, and how many messages of each sender belong to the present view;
 *                 who lacks some asks (NEED, COPY), and says READY when it has them all
 *     INSTALL ──▶ deliver the rest up to the cut; the view is over.   WELCOME for the newcomers
 *     ACK     ──▶ to the leader of the new view: I am in it
 *
 * A ballot numbers each attempt. A member follows the highest it has seen; a leader that finds an
 * accepted cut takes it up instead of its own, that of the highest ballot. Nothing is installed
 * before all that are not gone have accepted it.
 *
 * News of a death, and more often of a return, comes late: a group can go on without a member that
 * lives, and even list it in the next view by a plan that it has not accepted. Such a member is
 * out: it lacks what the others delivered, or has delivered what they lack. It is told so, its
 * application too (OUTSIDE), and it comes back as another life. Nobody waits for what nobody will
 * say, because a member that is not in the latest view is called, again and again:
 *   - a new view is acknowledged to its leader, who calls those listed that it has not heard in it
 *     (WELCOME), and those that are up, not in it, and have not asked to be let in (OUT);
 *   - the others call the leader, if they have not heard it in the view: it may be the one that
 *     does not know.
 * A member that is called and is in an earlier view goes on if it has accepted the plan of the
 * next, and out if not. A message is true whenever it arrives: it names views, and the receiver
 * knows which one it is in.
 *
 * Sources: Birman and Joseph (1987); Tanenbaum and Van Steen, "Distributed Systems", 8.4.3 (the
 * flush before a view; the six kinds of multicast by order and atomicity); Birman, Schiper and
 * Stephenson (1991) and Lamport (1978) for the orders; ballots as in Lamport's Paxos (1998), with
 * all that live in place of a majority.
 *
 * Why the views are one sequence: the member that is never down is in every view and never gone. Of
 * each view it has accepted what was installed, so the next leader hears of it. Without such a
 * member two groups could part.
 *
 * Invariants: nothing is delivered between a STATE and the installation; a life (incarnation and
 * starts) that was outside begins anew, so each view lists lives, not just members; numbers of
 * messages and ballots begin anew in each view; a member's multicasts wait until all in the view,
 * even the gone, have the one `window` before, so each holds all that another may lack.
 *
 * Assumes: PEER_DOWN is only said of members that are down; some founder is never down and does
 * not leave. Any delay, order, loss, repeated delivery. A multicast is REFUSED outside, during a
 * change, when it is too long or the window is full (in the total order also when `window` of its
 * own are not delivered here); what was multicast in a view by one that did not survive it may be
 * lost. */

#include "coord/order/views.h"
#include "coord/table.h"

/* Sending and delivering --------------------------------------------------------------------- */

void mare__views_say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind,
                     uint64_t second, uint64_t third, uint32_t arrays)
{
    views *v = m->state;
    mare_coord_message msg = {.kind = kind,
                              .field = {v->view, second, third},
                              .tail = v->scratch,
                              .tail_length = 8 * m->setup.capacity * arrays};
    mare__send(m, fx, to, &msg);
}

void mare__views_say_cast(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t of,
                          const mare__cast *cast)
{
    views *v = m->state;
    mare_coord_message msg = {.kind = v->promised ? COPY : CAST,
                              .field = {v->view, cast->seq, of},
                              .tail = mare__casts_bytes(&v->casts, cast),
                              .tail_length = cast->length};
    mare__send(m, fx, to, &msg);
}

void mare__views_say_group(mare_coord *m, mare_coord_effects *fx, const mare__set *but,
                           uint32_t kind, uint64_t second, uint32_t arrays)
{
    views *v = m->state;
    for (uint32_t i = mare__set_next(v->group, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(v->group, i + 1, m->setup.capacity)) {
        if (i != m->setup.self && !mare__set_has(v->gone, i) && !(but && mare__set_has(*but, i)))
            mare__views_say(m, fx, i, kind, second, 0, arrays);
    }
}

/* Views -------------------------------------------------------------------------------------- */

uint32_t mare__views_leader_of(const mare_coord *m)
{
    const views *v = m->state;
    uint32_t i = mare__set_next(v->group, 0, m->setup.capacity);
    while (i != MARE_COORD_NOBODY && mare__set_has(v->gone, i))
        i = mare__set_next(v->group, i + 1, m->setup.capacity);
    return i;
}

void mare__views_enter(mare_coord *m, mare_coord_effects *fx, uint64_t number,
                       const uint64_t *lives)
{
    views *v = m->state;
    uint32_t n = m->setup.capacity, count = 0;
    v->view = number;
    v->promised = v->accepted = v->planned = 0;
    v->stage = FOLLOWING;
    mare__views_copy_array(m, v->lives, lives);
    mare__casts_clear(&v->casts, n);
    mare__views_order_clear(m);
    mare__set_clear(v->group, n);
    mare__set_clear(v->gone, n);
    mare__set_clear(v->here, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!lives[i])
            continue;
        mare__set_add(v->group, i);
        if (i != m->setup.self && (!mare__alive(m, i) || v->wants[i] > lives[i]))
            mare__set_add(v->gone, i);
        if (v->wants[i] <= lives[i])
            v->wants[i] = 0;
        memcpy(v->scratch + 4 * count++, &i, 4);
    }
    mare__view(fx, number, v->scratch, 4 * count);
}

void mare__views_say_here(mare_coord *m, mare_coord_effects *fx)
{
    uint32_t leader = mare__views_leader_of(m);
    if (leader != m->setup.self)
        mare__views_say(m, fx, leader, ACK, 0, 0, 0);
}

void mare__views_leave(mare_coord *m, mare_coord_effects *fx, const char *why)
{
    views *v = m->state;
    if (v->view)
        mare__outside(fx, why);
    v->life++;
    v->view = v->promised = v->accepted = v->planned = 0;
    v->stage = FOLLOWING;
    v->complained = 0;
    mare__set_clear(v->group, m->setup.capacity);
    mare__set_clear(v->here, m->setup.capacity);
    memset(v->wants, 0, m->setup.capacity * sizeof *v->wants);
    mare__broadcast(m, fx, &(mare_coord_message){.kind = HELLO, .field = {v->life}});
}

/* Whether it is for me to tell a member that is up what the view is. The leader sees to it that all
 * who are in the view know it, and that who was left out does, and asks to be let in again. The
 * others see to the leader, which may itself not know. */
static int is_astray(const mare_coord *m, uint32_t i)
{
    const views *v = m->state;
    uint32_t leader = v->view ? mare__views_leader_of(m) : MARE_COORD_NOBODY;
    if (i == m->setup.self || !mare__alive(m, i) || (leader != m->setup.self && leader != i))
        return 0;
    return v->lives[i] ? !mare__set_has(v->here, i) && !mare__set_has(v->gone, i) : !v->wants[i];
}

static uint32_t next_astray(const mare_coord *m, uint32_t i)
{
    while (i < m->setup.capacity && !is_astray(m, i))
        i++;
    return i < m->setup.capacity ? i : MARE_COORD_NOBODY;
}

/* Tells a member what the view is, with it or without it. */
static void say_where(mare_coord *m, mare_coord_effects *fx, uint32_t to)
{
    const views *v = m->state;
    if (v->lives[to]) {
        mare__views_put_array(m, 0, v->lives);
        mare__views_say(m, fx, to, WELCOME, v->installed, 0, 1);
    } else {
        mare__views_say(m, fx, to, OUT, 0, 0, 0);
    }
}

static void arm(mare_coord *m, mare_coord_effects *fx)
{
    const views *v = m->state;
    if (!v->view || v->promised || mare__casts_owed(m, &v->casts, v->group) ||
        mare__views_waits(m) || next_astray(m, 0) != MARE_COORD_NOBODY)
        mare__arm(m, fx, RETRY, RETRY_US);
}

/* Other messages ----------------------------------------------------------------------------- */

static void on_hello(mare_coord *m, uint32_t from, uint64_t life, mare_coord_effects *fx)
{
    views *v = m->state;
    if (!v->view)
        mare__views_say(m, fx, from, OUT, 0, 0, 0); /* here you learn nothing */
    if (!v->view || life < v->lives[from] || life < v->wants[from])
        return;
    if (life == v->lives[from]) {
        say_where(m, fx, from);
        return;
    }
    if (v->lives[from])
        mare__set_add(v->gone, from); /* the life that was in the view is over */
    v->wants[from] = life;
    mare__views_consider(m, fx);
}

/* This is the view. A member in an earlier one learns that it is over. */
static void on_welcome(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                       mare_coord_effects *fx)
{
    views *v = m->state;
    uint64_t view = msg->field[VIEW];
    if (v->view && view == v->view) {
        mare__views_say(m, fx, from, ACK, v->casts.taken[from], 0, 0);
    } else if (v->view && view == v->view + 1) {
        mare__views_end(m, fx, msg->field[SECOND]);
    } else if (v->view && view > v->view) {
        mare__views_leave(m, fx, "left out");
    } else if (!v->view && mare__views_get_number(m, msg, 0, m->setup.self) == v->life) {
        mare__views_get_array(m, msg, 0, v->next);
        v->installed = msg->field[SECOND]; /* who has missed it may have nobody else to tell it */
        mare__views_enter(m, fx, view, v->next);
        mare__views_say_here(m, fx);
        mare__views_consider(m, fx);
    }
    if (v->view == view)
        mare__set_add(v->here, from);
}

static void in_view(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    views *v = m->state;
    int is_settling = v->promised != 0; /* what belongs to this view */
    mare__set_add(v->here, from);
    if (msg->kind == CAST && !is_settling && msg->field[THIRD] == from)
        mare__views_on_cast(m, from, msg, fx);
    else if (msg->kind == ACK)
        mare__casts_confirm(&v->casts, from, msg->field[SECOND]);
    else if (msg->kind == SEEN || msg->kind == TOLD)
        mare__views_on_seen(m, from, msg, fx);
    else if (msg->kind == ASK && !is_settling)
        mare__views_on_ask(m, from, fx);
    else
        mare__views_change(m, from, msg, fx);
    if (msg->kind == INSTALL && v->view == msg->field[VIEW] + 1)
        mare__set_add(v->here, from); /* who says so has gone on to the next */
}

/* What the total order alone has. */
static int is_malformed_ack(const mare_coord *m, const mare_coord_message *msg)
{
    const views *v = m->state;
    uint32_t tail = msg->kind == TOLD ? 8 * m->setup.capacity : 0;
    if (mare__param(m, ORDER) != TOTAL || msg->tail_length != tail)
        return 1;
    if (msg->kind == ASK)
        return 0;
    uint64_t of_mine = 0;
    if (msg->kind == TOLD)
        of_mine = mare__views_get_number(m, msg, 0, m->setup.self);
    else if (msg->field[OF] == m->setup.self)
        of_mine = msg->field[UPTO];
    return msg->field[CLOCK] >= MARE__CLOCK_LIMIT ||
           (msg->kind == SEEN && msg->field[OF] >= m->setup.capacity) ||
           (msg->field[VIEW] == v->view && of_mine > mare__casts_sent(m, &v->casts));
}

static int is_malformed(const mare_coord *m, const mare_coord_message *msg)
{
    static const uint8_t arrays[] = {
        [WELCOME] = 1, [STATE] = TAIL_ARRAYS, [CUT] = 2, [NEED] = 1, [INSTALL] = 0};
    const views *v = m->state;
    if (msg->kind == CAST || msg->kind == COPY)
        return msg->field[SECOND] == 0 || msg->field[SECOND] >> 40 ||
               msg->field[THIRD] >= m->setup.capacity ||
               !mare__views_is_wrapped(m, (uint32_t)msg->field[THIRD], msg->tail, msg->tail_length);
    if (msg->kind >= SEEN)
        return is_malformed_ack(m, msg);
    if (msg->kind == ACK && msg->field[VIEW] == v->view)
        return msg->field[SECOND] > mare__casts_sent(m, &v->casts);
    return msg->tail_length != 8 * m->setup.capacity * arrays[msg->kind] ||
           (msg->field[SECOND] >> 56 && msg->kind != HELLO) || msg->field[THIRD] >> 56;
}

/* For one that is outside: so is `from`. If all are that are up, nobody can let anybody in. */
static void on_outsider(mare_coord *m, uint32_t from, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t n = m->setup.capacity;
    mare__set_add(v->here, from);
    mare__set_add(v->here, m->setup.self);
    if (v->complained || !mare__set_covered(m->members, v->here, m->down, n))
        return;
    v->complained = 1;
    mare__no_group(fx, mare__set_count(v->here, n) - 1);
}

/* What belongs to a view, for one that is in one. What is of an earlier or a later one is nothing
 * to go by: who is not where it should be is called. */
static void of_view(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    const views *v = m->state;
    if (msg->kind == OUT && msg->field[VIEW] > v->view)
        mare__views_leave(m, fx, "left out");
    else if (msg->kind != OUT && msg->field[VIEW] == v->view && v->lives[from])
        in_view(m, from, msg, fx);
}

static mare_coord_status receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                 mare_coord_effects *fx)
{
    views *v = m->state;
    if (is_malformed(m, msg))
        return MARE_COORD_MALFORMED;
    mare__views_tell_time(m, msg);
    if (msg->kind == HELLO)
        on_hello(m, from, msg->field[LIFE], fx);
    else if (msg->kind == WELCOME)
        on_welcome(m, from, msg, fx);
    else if (v->view)
        of_view(m, from, msg, fx);
    else if (msg->kind == OUT && msg->field[VIEW] == 0)
        on_outsider(m, from, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static mare_coord_status request(mare_coord *m, const mare_coord_event *event,
                                 mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t self = m->setup.self, window = (uint32_t)mare__param(m, WINDOW);
    uint64_t seq = mare__casts_sent(m, &v->casts) + 1;
    if (!v->view || v->promised || event->length > (uint64_t)mare__param(m, BYTES) ||
        mare__casts_owed(m, &v->casts, v->group) >= window || seq > v->casts.taken[self] + window)
        return MARE_COORD_REFUSED;
    uint32_t length = mare__views_wrap(m, event->data, event->length);
    mare__casts_put(&v->casts, self, seq, v->clock, v->wrapped, length);
    mare__views_say_cast(m, fx, MARE__EVERYBODY, self, mare__casts_at(&v->casts, self, seq));
    mare__views_cast_own(m, fx);
    arm(m, fx);
    return MARE_COORD_OK;
}

static void send_mine(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare__cast *cast)
{
    mare__views_say_cast(m, fx, to, m->setup.self, cast);
}

static void send_again(mare_coord *m, mare_coord_effects *fx)
{
    const views *v = m->state;
    for (uint32_t i = mare__set_next(v->group, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(v->group, i + 1, m->setup.capacity)) {
        if (!mare__set_has(v->gone, i))
            mare__casts_repeat(m, fx, &v->casts, i, send_mine);
    }
}

static void timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    const views *v = m->state;
    (void)which;
    for (uint32_t i = next_astray(m, 0); i != MARE_COORD_NOBODY; i = next_astray(m, i + 1))
        say_where(m, fx, i);
    if (!v->view) {
        mare__broadcast(m, fx, &(mare_coord_message){.kind = HELLO, .field = {v->life}});
    } else if (!v->promised) {
        send_again(m, fx);
        mare__views_ask(m, fx);
    } else {
        mare__views_retry(m, fx);
    }
    arm(m, fx);
}

static void peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t other = event->peer;
    if (other == m->setup.self && event->kind == MARE_COORD_LEAVE) {
        v->view = v->promised = 0;
        return;
    }
    if (event->kind == MARE_COORD_PEER_DOWN || event->kind == MARE_COORD_LEAVE) {
        v->wants[other] = 0;
        if (v->view && v->lives[other])
            mare__set_add(v->gone, other);
    } else if (event->kind == MARE_COORD_PEER_UP && mare__set_has(v->gone, other) &&
               v->wants[other] <= v->lives[other]) {
        mare__set_remove(v->gone, other); /* may be the life in the view; if not, it says HELLO */
        if (v->stage != FOLLOWING)
            mare__views_lead(m, fx); /* it has not been asked */
    }
    mare__views_consider(m, fx);
    arm(m, fx);
}

static void start(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    if (!mare__founds(m)) {
        mare__views_leave(m, fx, "restarted");
    } else {
        v->life = 1;
        for (uint32_t i = 0; i < m->setup.members; i++)
            v->next[i] = 1;
        mare__views_enter(m, fx, 1, v->next);
        for (uint32_t i = 0; i < m->setup.members; i++)
            mare__set_add(v->here, i); /* that is what it is to found a group */
    }
    arm(m, fx);
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out(views *v, mare__block *block, const mare_coord_setup *setup)
{
    uint32_t n = setup->capacity;
    mare__set *const sets[] = {&v->group, &v->gone, &v->here, &v->answered};
    uint64_t **const arrays[] = {&v->lives,     &v->wants,    &v->next, &v->cut,
                                 &v->plan_next, &v->plan_cut, &v->most, &v->holder};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        *sets[i] = mare__carve_set(block, n);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = mare__carve_array(block, n, sizeof **arrays[i]);
    v->scratch = mare__carve_array(block, n, (size_t)TAIL_ARRAYS * 8);
    mare__casts_lay_out(&v->casts, block, n, mare__views_places(setup),
                        mare__views_place_bytes(setup));
    mare__views_order_lay_out(v, block, setup);
}

static size_t size(const mare_coord_setup *setup)
{
    views counted;
    mare__block block = {.used = sizeof counted};
    lay_out(&counted, &block, setup);
    return block.used;
}

static void init(mare_coord *m)
{
    views *v = m->state;
    lay_out(v, &(mare__block){m->state, sizeof *v}, &m->setup);
    v->life = m->setup.incarnation << 32;
}

/* The largest steps: a view ends with all its messages, and the next change begins at once (twice,
 * for one that is alone); nobody has answered; somebody needs everything. */
static void room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t n = setup->capacity, places = n * (uint64_t)mare__views_places(setup);
    uint64_t casts = places * (MARE__MESSAGE_BYTES(3) + (uint64_t)mare__views_place_bytes(setup));
    uint64_t others = (8 * n + 8) * (MARE__MESSAGE_BYTES(3) + TAIL_ARRAYS * 8 * n);
    mare__declare(places + 12 * n + 12, casts + others, effects, bytes);
}

static void look(const mare_coord *m, mare_coord_view *view)
{
    const views *v = m->state;
    view->phase = !v->view ? "outside" : v->promised ? "flushing" : "member";
    view->epoch = v->view;
    view->leader = v->view ? mare__views_leader_of(m) : MARE_COORD_NOBODY;
    view->vector = mare__param(m, ORDER) == CAUSAL ? v->casts.taken : NULL;
    view->lamport = v->clock;
    view->stuck = !v->view && v->complained;
}

static unsigned promises(const mare_coord_setup *setup)
{
    unsigned more[] = {[OF_SENDERS] = 0,
                       [CAUSAL] = MARE_COORD_CAUSAL,
                       [TOTAL] = MARE_COORD_CAUSAL | MARE_COORD_TOTAL};
    return MARE_COORD_FIFO | MARE_COORD_ATOMIC | more[setup->param[ORDER]];
}

static unsigned tolerates(const mare_coord_setup *setup)
{
    (void)setup;
    return MARE__SLOW | MARE__LOSSY | MARE__MORTAL;
}

static uint64_t messages(const mare_coord_setup *setup)
{
    uint64_t each = setup->param[ORDER] == TOTAL ? setup->members : 2;
    return each * (setup->members - 1);
}

/* Delivered when it arrives; in the total order, when all have told all that it has. */
static void cost(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    int total = setup->param[ORDER] == TOTAL;
    cost->delay_least = cost->delay_most = total ? 2 : 1;
    cost->formula = total ? "n(n-1)" : "2(n-1)";
    cost->delay_formula = total ? "2" : "1";
}

static const mare_coord_param params[] = {
    {"window", "multicasts of a member that may be under way", 16, 1, 1024},
    {"bytes", "the longest multicast", 64, 0, 65536},
    {"retry_us", "how long to wait before sending again", 50000, 1, INT64_C(1) << 40},
    {"order", "within a view, 0: of each sender; 1: causal; 2: total", OF_SENDERS, 0, TOTAL},
    {0},
};

static const mare_coord_form forms[] = {
    {"CAST", {"view", "seq", "of"}, 1},
    {"ACK", {"view", "upto"}, 0},
    {"HELLO", {"life"}, 0},
    {"WELCOME", {"view", "ballot"}, 1},
    {"OUT", {"view"}, 0},
    {"PROPOSE", {"view", "ballot"}, 0},
    {"STATE", {"view", "ballot", "accepted"}, 1},
    {"CUT", {"view", "ballot"}, 1},
    {"NEED", {"view"}, 1},
    {"COPY", {"view", "seq", "of"}, 1},
    {"READY", {"view", "ballot"}, 0},
    {"INSTALL", {"view", "ballot"}, 0},
    {"SEEN", {"view", "clock", "sent", "of", "upto"}, 0},
    {"ASK", {"view"}, 0},
    {"TOLD", {"view", "clock", "sent"}, 1},
    {0},
};

const mare_coord_algorithm mare_coord_views = {
    .name = "views",
    .title = "virtual synchrony: agreed views, and the same deliveries in each",
    .source = "Birman and Joseph 1987; Tanenbaum and Van Steen 8.4.3",
    .assumes = "DOWN is only said of the dead; some founder is never down",
    .family = MARE_COORD_ORDER,
    .tag = MARE__TAG_VIEWS,
    .params = params,
    .forms = forms,
    .promises = promises,
    .tolerates = tolerates,
    .messages = messages,
    .formula = "2(n-1)",
    .cost = cost,
    .delay_formula = "1",
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
