/* SPDX-License-Identifier: MIT */

/* An algorithm under a lease, as one algorithm.
 *
 *     ┌─ machine ────────────────────────────────────────────┐
 *     │  lease ── LEASED, UNLEASED, DOWN, UP ──▶ inner       │      LEASE +tail    of the lease
 *     │    ▲            (tenants.c)               ▲          │      UNDER +tail    of the inner
 * one, └────┼──────────────────────────────────────┼──────────┘                     with the epoch
 *          └ LEASE, timers 5 and 6                └ UNDER, requests, timers 0 to 4
 *
 * The host's own detector is not listened to. The two machines and their buffers lie in this one's
 * memory; `waiting` and `inside` are told twice, to the inner machine and to this one. */

#include "coord/lease/leased.h"

#include "coord/machine.h"
#include "coord/table.h"

enum { LEASE, UNDER };      /* messages */
enum { LEASE_TIMERS = 5 };  /* those of the lease, from here on */
enum { KEEPERS = 4 };       /* of the parameters */
enum { EFFECTS_MORE = 24 }; /* of a suspension, and the news of the lease */

typedef struct leased {
    mare__tenants tenants;
    mare__tenant tenant;
    mare_coord_effects lease_effects, effects;
    mare_coord_effects *out; /* of the step under way */
    mare_coord *self;
} leased;

/* The set-up of one of the two: its own parameters, where the shell has one of the same name. */
static mare_coord_setup part_of(const mare_coord_setup *outer,
                                const mare_coord_algorithm *algorithm)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, algorithm, outer->members);
    setup.self = outer->self;
    setup.capacity = outer->capacity;
    setup.marks = outer->marks;
    setup.founds = outer->founds;
    setup.incarnation = outer->incarnation;
    setup.seed = outer->seed;
    setup.context = outer->context;
    for (int i = 0; i < MARE_COORD_PARAMS && mare__leased_params[i].name; i++)
        mare_coord_setup_set(&setup, mare__leased_params[i].name, outer->param[i]);
    return setup;
}

/* That of the lease: with `keepers`, the other founders have no vote in it. So they found nothing
 * there, and their lives are counted from 1. */
static mare_coord_setup lease_of(const mare_coord_setup *outer)
{
    mare_coord_setup setup = part_of(outer, &mare__lease);
    uint32_t keepers = (uint32_t)outer->param[KEEPERS];
    if (keepers == 0 || keepers >= setup.members)
        return setup;
    if (setup.self >= keepers && setup.self < setup.members) {
        setup.founds = 0;
        setup.incarnation++;
    }
    setup.members = keepers;
    return setup;
}

static mare_coord_setup inner_of(const mare_coord_setup *outer)
{
    mare_coord_setup setup =
        part_of(outer, ((const mare__leased *)(const void *)outer->algorithm)->inner);
    mare_coord_setup_set(&setup, "lease", 1);
    return setup;
}

/* Carrying out ------------------------------------------------------------------------------- */

static void wrap(leased *x, int inner, const mare_coord_effect *effect)
{
    uint64_t epoch = mare__lease_epoch(x->tenants.lease, NULL);
    mare_coord_message msg = {.kind = inner ? UNDER : LEASE,
                              .field = {inner ? epoch : 0},
                              .tail = effect->data,
                              .tail_length = effect->length};
    mare__send(x->self, x->out, effect->kind == MARE_COORD_SEND ? effect->peer : MARE__EVERYBODY,
               &msg);
}

static void tell(leased *x, const mare_coord_effect *effect)
{
    mare_coord *m = x->self;
    if (effect->kind == MARE_COORD_GRANTED)
        mare__grant(m, x->out, effect->number);
    else if (effect->kind != MARE_COORD_REVOKED)
        mare__pass_on(x->out, effect);
    else if (m->waiting || m->inside)
        mare__revoke(m, x->out, effect->text);
}

static void carry(void *context, mare__tenant *tenant, const mare_coord_effect *effect)
{
    leased *x = context;
    uint32_t timer = effect->timer + (tenant ? 0 : LEASE_TIMERS);
    if (effect->kind == MARE_COORD_SEND || effect->kind == MARE_COORD_BROADCAST)
        wrap(x, tenant != NULL, effect);
    else if (effect->kind == MARE_COORD_SET_TIMER)
        mare__set_timer(x->out, timer, effect->number);
    else if (effect->kind != MARE_COORD_CANCEL_TIMER)
        tell(x, effect);
    else if (tenant && timer < LEASE_TIMERS)
        mare__cancel_timer(x->out, timer);
}

static leased *begin(mare_coord *m, mare_coord_effects *fx)
{
    leased *x = m->state;
    x->out = fx;
    return x;
}

/* A request that finds the lease gone is refused; but the step has told the lease's end. */
static mare_coord_status heed(mare_coord_status status, const mare_coord_effects *fx)
{
    return fx->count ? MARE_COORD_OK : status;
}

/* Events ------------------------------------------------------------------------------------- */

void mare__leased_start(mare_coord *m, mare_coord_effects *fx)
{
    leased *x = begin(m, fx);
    mare_coord_event event = {.kind = MARE_COORD_START, .now_us = m->now_us};
    for (uint32_t i = 0; i < m->setup.capacity; i++) { /* the group as it was told before */
        int is = mare__set_has(m->members, i);
        mare_coord_event news = {
            .kind = is ? MARE_COORD_JOIN : MARE_COORD_LEAVE, .peer = i, .now_us = m->now_us};
        if (!x->tenants.lease->started && is != mare_coord_has_member(x->tenants.lease, i))
            mare_coord_step(x->tenants.lease, &news, &x->lease_effects);
    }
    mare__tenants_step_lease(&x->tenants, &event);
}

mare_coord_status mare__leased_receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                       mare_coord_effects *fx)
{
    leased *x = begin(m, fx);
    mare_coord_event event = {.kind = MARE_COORD_MESSAGE,
                              .peer = from,
                              .now_us = m->now_us,
                              .data = msg->tail,
                              .length = msg->tail_length};
    return heed(msg->kind == LEASE
                    ? mare__tenants_step_lease(&x->tenants, &event)
                    : mare__tenants_step(&x->tenants, &x->tenant, &event, msg->field[0]),
                fx);
}

void mare__leased_timer(mare_coord *m, uint32_t which, mare_coord_effects *fx)
{
    leased *x = begin(m, fx);
    mare_coord_event event = {.kind = MARE_COORD_TIMER, .now_us = m->now_us, .number = which};
    if (which < LEASE_TIMERS) {
        mare__tenants_step(&x->tenants, &x->tenant, &event, 0);
        return;
    }
    event.number = which - LEASE_TIMERS;
    mare__tenants_step_lease(&x->tenants, &event);
}

/* The deadline of a wait is kept by this machine's core, not by the inner one's. */
mare_coord_status mare__leased_request(mare_coord *m, const mare_coord_event *event,
                                       mare_coord_effects *fx)
{
    leased *x = begin(m, fx);
    mare_coord_event inner = *event;
    inner.number = event->kind == MARE_COORD_ENTER ? 0 : event->number;
    mare_coord_status status = mare__tenants_step(&x->tenants, &x->tenant, &inner, 0);
    if (status != MARE_COORD_OK && fx->count && m->waiting)
        mare__revoke(m, fx, "noquorum");
    return heed(status, fx);
}

void mare__leased_peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    leased *x = begin(m, fx);
    if (event->kind == MARE_COORD_JOIN || event->kind == MARE_COORD_LEAVE)
        mare__tenants_step_lease(&x->tenants, event);
    else
        mare__set_remove(m->down, event->peer); /* the lease says who is down */
}

uint32_t mare__leased_kept(const mare_coord_setup *setup)
{
    mare_coord_setup inner = inner_of(setup);
    return inner.algorithm->kept ? inner.algorithm->kept(&inner) : 0;
}

void mare__leased_keep(const mare_coord *m, uint64_t *out)
{
    const leased *x = m->state;
    x->tenant.machine->setup.algorithm->keep(x->tenant.machine, out);
}

/* The lease itself begins anew, with the incarnation. */
mare_coord_status mare__leased_recall(mare_coord *m, const uint64_t *in)
{
    leased *x = m->state;
    mare_coord *inner = x->tenant.machine;
    mare_coord_status status = inner->setup.algorithm->recall(inner, in);
    inner->started = status == MARE_COORD_OK;
    return status;
}

void mare__leased_look(const mare_coord *m, mare_coord_view *view)
{
    const leased *x = m->state;
    mare_coord_view lease;
    mare_coord_look(x->tenant.machine, view);
    mare_coord_look(x->tenants.lease, &lease);
    view->until_us = lease.until_us;
    if (!x->tenant.acts)
        view->phase = "suspended";
}

/* Set-up ------------------------------------------------------------------------------------- */

static void lay_out_effects(mare_coord_effects *fx, mare__block *block,
                            const mare_coord_setup *setup)
{
    mare_coord_room(setup, &fx->room, &fx->bytes_room);
    fx->list = mare__carve_array(block, fx->room, sizeof *fx->list);
    fx->bytes = mare__carve(block, fx->bytes_room);
}

static void lay_out_parts(leased *x, mare__block *block, const mare_coord_setup *setup,
                          void **lease, void **inner)
{
    mare_coord_setup lease_setup = lease_of(setup), inner_setup = inner_of(setup);
    *lease = mare__carve(block, mare_coord_size(&lease_setup));
    *inner = mare__carve(block, mare_coord_size(&inner_setup));
    lay_out_effects(&x->lease_effects, block, &lease_setup);
    lay_out_effects(&x->effects, block, &inner_setup);
}

size_t mare__leased_size(const mare_coord_setup *setup)
{
    leased counted;
    void *lease, *inner;
    mare__block block = {.used = sizeof counted};
    lay_out_parts(&counted, &block, setup, &lease, &inner);
    return block.used;
}

void mare__leased_init(mare_coord *m)
{
    leased *x = m->state;
    void *lease, *inner;
    mare_coord_setup lease_setup = lease_of(&m->setup);
    mare_coord_setup inner_setup = inner_of(&m->setup);
    lay_out_parts(x, &(mare__block){m->state, sizeof *x}, &m->setup, &lease, &inner);
    x->self = m;
    x->tenant.machine = mare_coord_init(inner, SIZE_MAX, &inner_setup);
    x->tenants = (mare__tenants){.lease = mare_coord_init(lease, SIZE_MAX, &lease_setup),
                                 .first = &x->tenant,
                                 .lease_effects = &x->lease_effects,
                                 .effects = &x->effects,
                                 .carry = carry,
                                 .context = x};
}

/* At most: a step of the lease, and of the inner machine a start and news of everybody. */
void mare__leased_room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    mare_coord_setup lease_setup = lease_of(setup), inner_setup = inner_of(setup);
    uint32_t lease_effects, lease_bytes, inner_effects, inner_bytes;
    mare_coord_room(&lease_setup, &lease_effects, &lease_bytes);
    mare_coord_room(&inner_setup, &inner_effects, &inner_bytes);
    uint64_t steps = 2 * (uint64_t)setup->capacity + 3;
    uint64_t most = lease_effects + steps * inner_effects + EFFECTS_MORE;
    mare__declare(most, lease_bytes + steps * inner_bytes + most * MARE__MESSAGE_BYTES(1), effects,
                  bytes);
}

/* EM2 needs an algorithm that goes on after all have been away at once. EM3 cannot be promised: the
 * messages of the lease tell of what happened before, and carry no clock of the inner machine's. */
unsigned mare__leased_promises(const mare_coord_setup *setup)
{
    mare_coord_setup inner = inner_of(setup);
    unsigned promises = inner.algorithm->promises(&inner) & ~(unsigned)MARE_COORD_EM3;
    unsigned served = inner.algorithm->tolerates(&inner) & MARE_COORD_ALL_CRASH;
    return served ? promises : promises & ~(unsigned)MARE_COORD_EM2;
}

/* A lost lease is a crash with memory, whatever lost it; and a detector of the host's is ignored.
 * Where one must always have been there, nobody may take along what only it knows: so there the
 * group is a fixed one. */
unsigned mare__leased_tolerates(const mare_coord_setup *setup)
{
    mare_coord_setup inner = inner_of(setup);
    unsigned tolerates = inner.algorithm->tolerates(&inner);
    unsigned lacks = tolerates & MARE_COORD_ALL_CRASH ? 0 : MARE_COORD_CHURN;
    return (MARE__SLOW | MARE__LOSSY | MARE_COORD_CRASH | MARE_COORD_SUSPECTS | tolerates) & ~lacks;
}

uint64_t mare__leased_messages(const mare_coord_setup *setup)
{
    mare_coord_setup inner = inner_of(setup);
    return inner.algorithm->messages(&inner);
}

const mare_coord_param mare__leased_params[] = {
    {"lease_us", "how long a promise lasts", 60000, 100, INT64_C(1) << 40},
    {"beat_us", "how often it is asked for", 12000, 10, INT64_C(1) << 40},
    {"drift_ppm", "how wrong a clock may run", 1000, 0, 400000},
    {"retry_us", "how long to wait before asking again", 50000, 1, INT64_C(1) << 40},
    {"keepers", "how many members vote about the lease; 0: all", 0, 0, UINT32_MAX},
    {0},
};

const mare_coord_form mare__leased_forms[] = {
    {"LEASE", {0}, 1},
    {"UNDER", {"epoch"}, 1},
    {0},
};
