/* SPDX-License-Identifier: MIT */

/* The core that every algorithm shares: set-up, and the one step.
 *
 *        event ──▶ room? ──▶ sense? ──▶ decode ──▶ handler of the algorithm ──▶ effects
 *                    │         │          │
 *                 NOROOM  STRANGER …  MALFORMED        (nothing has changed)
 *
 * The core keeps these invariants for all algorithms:
 * - Nothing happens before START, or after a member has left.
 * - A message reaches a handler only when it is decoded and comes from another member.
 * - `waiting` and `inside` follow from ENTER, EXIT, ABANDON and the grants.
 * - A wait with a deadline ends by it. For an ENTER with a deadline the core sets a timer of its
 *   own, the last one, which turns into an ABANDON. */

#include "coord/bytes.h"
#include "coord/machine.h"

#include <string.h>

#define DEADLINE_TIMER (MARE_COORD_TIMERS - 1)

/* What is saved: the algorithm's tag, the member and its group, then what the algorithm keeps. The
 * last of the head's numbers says that something was saved at all. */
enum { HEAD_TAG, HEAD_SELF, HEAD_MEMBERS, HEAD_SAVED, HEAD = MARE__SAVED_HEAD };

static uint32_t saved_numbers(const mare_coord_setup *setup)
{
    uint32_t kept = setup->keeps && setup->algorithm->kept ? setup->algorithm->kept(setup) : 0;
    return kept ? HEAD + kept : 0;
}

static uint32_t saved_bytes(const mare_coord_setup *setup)
{
    return 8 * saved_numbers(setup);
}

/* The room for effects that the algorithm's largest step needs, and the core: for the deadline's
 * timer, the news that the deadline has passed, and what is saved. */
static void find_room(const mare_coord_setup *setup, uint64_t *effects, uint32_t *bytes)
{
    uint32_t most;
    setup->algorithm->room(setup, &most, bytes);
    *effects = (uint64_t)most + 2 + (saved_bytes(setup) > 0);
    *bytes = *bytes < UINT32_MAX - saved_bytes(setup) ? *bytes + saved_bytes(setup) : UINT32_MAX;
}

static mare_coord_status check_setup(const mare_coord_setup *s)
{
    uint64_t effects;
    uint32_t bytes;
    if (!s->algorithm || s->members == 0 || s->capacity < s->members ||
        s->capacity > MARE_COORD_MEMBERS_MAX || s->self >= s->capacity)
        return MARE_COORD_REFUSED;
    if (s->incarnation >> 31)
        return MARE_COORD_REFUSED;
    for (int i = 0; i < MARE_COORD_PARAMS && s->algorithm->params[i].name; i++) {
        const mare_coord_param *p = &s->algorithm->params[i];
        if (s->param[i] < p->least || s->param[i] > p->most)
            return MARE_COORD_REFUSED;
    }
    find_room(s, &effects, &bytes);
    return effects < UINT32_MAX && bytes < UINT32_MAX ? MARE_COORD_OK : MARE_COORD_REFUSED;
}

void mare_coord_setup_init(mare_coord_setup *setup, const mare_coord_algorithm *algorithm,
                           uint32_t members)
{
    memset(setup, 0, sizeof *setup);
    setup->algorithm = algorithm;
    setup->members = setup->capacity = members;
    setup->seed = 1;
    for (int i = 0; algorithm && i < MARE_COORD_PARAMS && algorithm->params[i].name; i++)
        setup->param[i] = algorithm->params[i].initial;
}

mare_coord_status mare_coord_setup_set(mare_coord_setup *setup, const char *name, int64_t value)
{
    for (int i = 0; setup->algorithm && i < MARE_COORD_PARAMS; i++) {
        const mare_coord_param *param = &setup->algorithm->params[i];
        if (!param->name)
            break;
        if (!mare__same_word(param->name, name))
            continue;
        if (value < param->least || value > param->most)
            return MARE_COORD_REFUSED;
        setup->param[i] = value;
        return MARE_COORD_OK;
    }
    return MARE_COORD_UNKNOWN;
}

/* The memory of a machine, in one place: counts when the block has no base. */
static mare_coord *lay_out(mare__block *block, const mare_coord_setup *setup)
{
    mare_coord *m = mare__carve(block, sizeof *m);
    mare__set members = mare__carve_set(block, setup->capacity);
    mare__set down = mare__carve_set(block, setup->capacity);
    void *state = mare__carve(block, setup->algorithm->size(setup));
    uint64_t *kept = mare__carve(block, (size_t)2 * saved_bytes(setup));
    if (m) {
        m->kept = kept;
        m->members = members;
        m->down = down;
        m->state = state;
    }
    return m;
}

size_t mare_coord_size(const mare_coord_setup *setup)
{
    mare__block block = {0};
    if (check_setup(setup) != MARE_COORD_OK)
        return 0;
    lay_out(&block, setup);
    return block.used < SIZE_MAX ? block.used : 0;
}

void mare_coord_room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    uint64_t most;
    *effects = *bytes = 0;
    if (check_setup(setup) != MARE_COORD_OK)
        return;
    find_room(setup, &most, bytes);
    *effects = (uint32_t)most;
}

void mare_coord_cost_of(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    const mare_coord_algorithm *algorithm = setup->algorithm;
    *cost =
        (mare_coord_cost){.formula = algorithm->formula, .delay_formula = algorithm->delay_formula};
    cost->messages_least = cost->messages_most = algorithm->messages(setup);
    if (algorithm->cost)
        algorithm->cost(setup, cost);
}

/* A START must be that of a founder, or bring a number of its own. */
static int is_born(const mare_coord_setup *setup)
{
    return setup->founds ? setup->self < setup->members : setup->incarnation > 0;
}

mare_coord *mare_coord_init(void *memory, size_t size, const mare_coord_setup *setup)
{
    size_t need = mare_coord_size(setup);
    if (need == 0 || !is_born(setup) || size < need || !memory ||
        (uintptr_t)memory % _Alignof(mare_coord))
        return NULL;
    memset(memory, 0, need);
    mare__block block = {.base = memory};
    mare_coord *m = lay_out(&block, setup);
    m->setup = *setup;
    m->random = setup->seed;
    for (uint32_t i = 0; i < setup->members; i++)
        mare__set_add(m->members, i);
    mare__set_add(m->members, setup->self);
    setup->algorithm->init(m);
    return m;
}

static int is_member(const mare_coord *m)
{
    return mare__set_has(m->members, m->setup.self);
}

/* Membership and liveness of a peer, kept for all algorithms before they hear of the change. */
static mare_coord_status note_peer(mare_coord *m, const mare_coord_event *event)
{
    uint32_t peer = event->peer;
    if (peer >= m->setup.capacity)
        return MARE_COORD_STRANGER;
    int member = mare__set_has(m->members, peer);
    if (event->kind == MARE_COORD_JOIN) {
        if (member || peer == m->setup.self)
            return MARE_COORD_REFUSED; /* a member that has left can only return as another
                                        * machine */
        mare__set_add(m->members, peer);
        return MARE_COORD_OK;
    }
    if (!member)
        return MARE_COORD_STRANGER;
    if (event->kind == MARE_COORD_LEAVE) {
        mare__set_remove(m->members, peer);
        mare__set_remove(m->down, peer);
    } else if (peer == m->setup.self) {
        return MARE_COORD_REFUSED; /* nobody is told of its own death */
    } else if (event->kind == MARE_COORD_PEER_DOWN) {
        mare__set_add(m->down, peer);
    } else {
        mare__set_remove(m->down, peer);
    }
    return MARE_COORD_OK;
}

static mare_coord_status take_message(mare_coord *m, const mare_coord_event *event,
                                      mare_coord_effects *fx)
{
    mare_coord_message message;
    if (event->peer >= m->setup.capacity || event->peer == m->setup.self ||
        !mare__set_has(m->members, event->peer))
        return MARE_COORD_STRANGER;
    if (mare__set_has(m->down, event->peer))
        return MARE_COORD_REFUSED;
    mare_coord_status status =
        mare_coord_decode(m->setup.algorithm, event->data, event->length, &message);
    if (status != MARE_COORD_OK)
        return status;
    return m->setup.algorithm->receive(m, event->peer, &message, fx);
}

/* Whether a request fits the moment. */
static mare_coord_status check_request(const mare_coord *m, const mare_coord_event *event)
{
    mare_coord_family family = m->setup.algorithm->family;
    int fits = 0;
    switch (event->kind) {
    case MARE_COORD_ENTER:
        fits = family == MARE_COORD_MUTEX && !m->waiting && !m->inside;
        break;
    case MARE_COORD_EXIT:
        fits = m->inside != 0;
        break;
    case MARE_COORD_ABANDON:
        fits = m->waiting != 0;
        break;
    case MARE_COORD_ELECT:
        fits = family == MARE_COORD_ELECTION;
        break;
    default:
        fits = family == MARE_COORD_ORDER;
    }
    return fits ? MARE_COORD_OK : MARE_COORD_REFUSED;
}

static mare_coord_status take_request(mare_coord *m, const mare_coord_event *event,
                                      mare_coord_effects *fx)
{
    mare_coord_status status = check_request(m, event);
    if (status != MARE_COORD_OK)
        return status;
    if (event->kind == MARE_COORD_ENTER)
        m->waiting = 1;
    status = m->setup.algorithm->request(m, event, fx);
    if (event->kind == MARE_COORD_ENTER && status != MARE_COORD_OK)
        m->waiting = 0;
    if (event->kind == MARE_COORD_ENTER)
        m->limited = m->waiting && event->number;
    if (event->kind == MARE_COORD_ENTER && m->limited)
        mare__set_timer(fx, DEADLINE_TIMER,
                        event->number > m->now_us ? event->number - m->now_us : 0);
    if (event->kind == MARE_COORD_EXIT)
        m->inside = 0;
    if (event->kind == MARE_COORD_ABANDON)
        m->waiting = 0;
    return status;
}

static mare_coord_status take_timer(mare_coord *m, const mare_coord_event *event,
                                    mare_coord_effects *fx)
{
    if (event->number >= MARE_COORD_TIMERS)
        return MARE_COORD_UNKNOWN;
    m->armed &= ~(UINT32_C(1) << event->number);
    if (event->number != DEADLINE_TIMER) {
        if (m->setup.algorithm->timer)
            m->setup.algorithm->timer(m, (uint32_t)event->number, fx);
        return MARE_COORD_OK;
    }
    if (!m->waiting || !m->limited)
        return MARE_COORD_OK; /* the deadline of an earlier wait, which was granted or given up */
    mare_coord_event abandon = {.kind = MARE_COORD_ABANDON, .now_us = event->now_us};
    mare_coord_status status = take_request(m, &abandon, fx);
    if (status == MARE_COORD_OK)
        mare__revoke(m, fx, "deadline");
    return status;
}

static mare_coord_status dispatch(mare_coord *m, const mare_coord_event *event,
                                  mare_coord_effects *fx)
{
    mare_coord_status status;
    switch (event->kind) {
    case MARE_COORD_START:
        m->armed = 0;
        mare__set_clear(m->down, m->setup.capacity); /* members that were down may be back */
        if (m->waiting || m->inside)
            mare__revoke(m, fx, "restarted");
        if (m->setup.algorithm->start)
            m->setup.algorithm->start(m, fx);
        m->started = 1;
        return MARE_COORD_OK;
    case MARE_COORD_MESSAGE:
        return take_message(m, event, fx);
    case MARE_COORD_TIMER:
        return take_timer(m, event, fx);
    case MARE_COORD_ENTER:
    case MARE_COORD_EXIT:
    case MARE_COORD_ABANDON:
    case MARE_COORD_ELECT:
    case MARE_COORD_MULTICAST:
        return take_request(m, event, fx);
    case MARE_COORD_PEER_DOWN:
    case MARE_COORD_PEER_UP:
    case MARE_COORD_JOIN:
    case MARE_COORD_LEAVE:
        status = note_peer(m, event);
        if (status == MARE_COORD_OK && m->setup.algorithm->peer)
            m->setup.algorithm->peer(m, event, fx);
        if (!is_member(m) && (m->waiting || m->inside))
            mare__revoke(m, fx, "left the group");
        return status;
    default:
        return MARE_COORD_UNKNOWN;
    }
}

/* What must be kept goes first, unless it is what was kept last. Room for it was left at the front,
 * in the list and among the bytes. */
static void save(mare_coord *m, mare_coord_effects *fx, int happened)
{
    uint32_t numbers = saved_numbers(&m->setup);
    uint64_t *fresh = m->kept + numbers;
    fresh[HEAD_TAG] = m->setup.algorithm->tag;
    fresh[HEAD_SELF] = m->setup.self;
    fresh[HEAD_MEMBERS] = m->setup.members;
    fresh[HEAD_SAVED] = 1;
    m->setup.algorithm->keep(m, fresh + HEAD);
    int differs = happened && m->started && memcmp(fresh, m->kept, numbers * sizeof *fresh) != 0;
    if (!differs) {
        fx->count--;
        memmove(fx->list, fx->list + 1, fx->count * sizeof *fx->list);
        return;
    }
    memcpy(m->kept, fresh, numbers * sizeof *fresh);
    mare__put_numbers(fx->bytes, fresh, numbers);
    fx->list[0] = (mare_coord_effect){.kind = MARE_COORD_SAVE,
                                      .peer = MARE_COORD_NOBODY,
                                      .data = fx->bytes,
                                      .length = saved_bytes(&m->setup)};
}

mare_coord_status mare_coord_load(mare_coord *m, const uint8_t *bytes, uint32_t length)
{
    uint32_t numbers = saved_numbers(&m->setup);
    if (!numbers)
        return MARE_COORD_UNKNOWN;
    if (m->started)
        return MARE_COORD_REFUSED;
    if (!bytes || length != saved_bytes(&m->setup))
        return MARE_COORD_MALFORMED;
    mare__get_numbers(m->kept, bytes, numbers);
    if (m->kept[HEAD_TAG] != m->setup.algorithm->tag || m->kept[HEAD_SELF] != m->setup.self ||
        m->kept[HEAD_MEMBERS] != m->setup.members ||
        m->setup.algorithm->recall(m, m->kept + HEAD) != MARE_COORD_OK)
        return MARE_COORD_MALFORMED;
    m->started = 1;
    return MARE_COORD_OK;
}

mare_coord_status mare_coord_step(mare_coord *m, const mare_coord_event *event,
                                  mare_coord_effects *fx)
{
    uint64_t effects;
    uint32_t bytes;
    fx->count = fx->bytes_count = fx->lost = 0;
    find_room(&m->setup, &effects, &bytes);
    if (fx->room < effects || fx->bytes_room < bytes)
        return MARE_COORD_NOROOM;
    int membership = event->kind == MARE_COORD_JOIN || event->kind == MARE_COORD_LEAVE;
    if (!m->started && event->kind != MARE_COORD_START && !membership)
        return MARE_COORD_REFUSED;
    if (!is_member(m))
        return MARE_COORD_REFUSED; /* it has left */
    if (event->length && !event->data)
        return MARE_COORD_MALFORMED;
    m->now_us = event->now_us;
    if (!m->started && membership) /* membership before START: the group that this member comes
                                    * to */
        return note_peer(m, event);
    if (!saved_numbers(&m->setup))
        return dispatch(m, event, fx);
    fx->count = 1;
    fx->bytes_count = saved_bytes(&m->setup);
    mare_coord_status status = dispatch(m, event, fx);
    save(m, fx, status == MARE_COORD_OK);
    return status;
}

void mare_coord_look(const mare_coord *m, mare_coord_view *view)
{
    memset(view, 0, sizeof *view);
    view->phase = m->inside ? "inside" : m->waiting ? "waiting" : "idle";
    view->leader = MARE_COORD_NOBODY;
    view->inside = (int)m->inside;
    view->waiting = view->asked = (int)m->waiting;
    if (m->setup.algorithm->look)
        m->setup.algorithm->look(m, view);
}

int mare_coord_has_member(const mare_coord *m, uint32_t member)
{
    return member < m->setup.capacity && mare__set_has(m->members, member);
}

const mare_coord_setup *mare_coord_setup_of(const mare_coord *m)
{
    return &m->setup;
}
