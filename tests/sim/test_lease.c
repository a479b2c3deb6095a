/* SPDX-License-Identifier: MIT */

/* Suspicion is not death: what a detector that goes by silence does to an algorithm that believes
 * it, and that the lease makes it true. Then the lease composed with each lock, under everything
 * that a seed can draw. */

#include "support/unit.h"

#include "coord/bytes.h"
#include "coord/lease/leased.h"
#include "coord/machine.h"
#include "coord/mutex/majority.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 10, HEARTBEAT_US = 200000, FROZEN_US = 1200000 };

/* Process 0 stands still for 1.2 s, mostly inside; the others are told by silence, after 200 ms. */
static void freeze_one(mare_sim_options *options, const char *name, uint64_t seed)
{
    mare_sim_options_init(options, mare_sim_find(name), 3);
    mare_sim_fault pause = {.kind = MARE_SIM_PAUSE, .at_us = 1000000, .for_us = FROZEN_US};
    options->seed = seed;
    options->detector = MARE_SIM_HASTY;
    options->detect_us = HEARTBEAT_US;
    options->duration_us = 4000000;
    options->settle_us = 0;
    options->think_us = 1000;
    options->hold_us = 20000;
    mare_coord_setup_set(&options->setup, "lease_us", HEARTBEAT_US);
    mare_coord_setup_set(&options->setup, "beat_us", HEARTBEAT_US / 5);
    mare_sim_faults_add(&options->faults, &pause);
}

static unsigned broken_of(const char *name, mare_sim_outcome *out)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mare_sim_options options;
        freeze_one(&options, name, seed);
        mare_sim_run(&options, NULL, out);
        broken += strcmp(out->violation, "EM1") == 0;
        mare_sim_options_fini(&options);
    }
    return broken;
}

static void without_a_lease_a_frozen_member_lets_two_in(void **state)
{
    mare_sim_outcome out;
    (void)state;
    assert_true(broken_of("ricart", &out) > 0);
    assert_true(broken_of("central", &out) > 0);
}

static void with_a_lease_it_does_not(void **state)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    mare_sim_outcome out;
    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(broken_of(table[i]->name, &out), 0);
        assert_string_equal(out.violation, "");
        assert_true(out.grants > 40); /* the others go on without it */
    }
}

/* Messages that take no time leave nothing of the margin but the drift. */
static unsigned broken_with_drift(int64_t allowed_ppm)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        freeze_one(&options, "ricart+lease", seed);
        options.network = (mare_sim_network){.delay_us = 1};
        options.drift_ppm = 100000;
        mare_coord_setup_set(&options.setup, "drift_ppm", allowed_ppm);
        mare_coord_setup_set(&options.setup, "retry_us", 1000);
        broken += !mare_sim_run(&options, NULL, &out);
        mare_sim_options_fini(&options);
    }
    return broken;
}

static void clocks_may_be_as_wrong_as_the_lease_allows(void **state)
{
    (void)state;
    assert_int_equal(broken_with_drift(100000), 0);
    assert_true(broken_with_drift(0) > 0);
}

/* The holder dies inside and never returns: its votes are free when its lease is over. */
static void a_dead_holder_is_outlived(void **state)
{
    (void)state;
    for (int lease = 0; lease <= 1; lease++) {
        uint64_t waited = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_fault dies = {.kind = MARE_SIM_CRASH, .at_us = 1000000};
            freeze_one(&options, lease ? "majority+lease" : "majority", seed);
            options.faults.count = 0;
            options.settle_us = lease ? MARE_SIM_DERIVED : 0;
            mare_sim_faults_add(&options.faults, &dies);
            assert_true(mare_sim_run(&options, NULL, &out));
            waited += out.waiting;
            mare_sim_options_fini(&options);
        }
        assert_int_equal(waited > 0, !lease); /* without a lease, some wait for the dead */
    }
}

static void every_composition_holds_under_every_profile(void **state)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    (void)state;
    for (size_t i = 0; i < count * MARE_SIM_PROFILES; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, table[i % count], 2 + (uint32_t)(seed % 6));
            options.seed = seed;
            options.profile = (mare_sim_profile)(i / count);
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s, %s, seed %u: %s: %s", table[i % count]->name,
                         mare_sim_profile_name(options.profile), (unsigned)seed, out.violation,
                         out.detail);
            mare_sim_options_fini(&options);
        }
    }
}

/* A few of the founders vote about the lease; all of them vote about the lock. */
static void few_keepers_of_the_lease_are_enough(void **state)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    (void)state;
    for (size_t i = 0; i < count * MARE_SIM_PROFILES; i++) {
        uint64_t grants = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, table[i % count], 4 + (uint32_t)(seed % 4));
            mare_coord_setup_set(&options.setup, "keepers", 1 + (int64_t)(seed % 3));
            options.seed = seed;
            options.profile = (mare_sim_profile)(i / count);
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s, %s, seed %u: %s: %s", table[i % count]->name,
                         mare_sim_profile_name(options.profile), (unsigned)seed, out.violation,
                         out.detail);
            grants += out.grants;
            mare_sim_options_fini(&options);
        }
        assert_true(grants > 0);
    }
}

/* Without a lease a request is refused at once. Who thinks for no time used to do nothing but ask:
 * hundreds of thousands of requests within a second, until the steps of the run were used up. */
static void who_is_refused_does_not_ask_all_the_time(void **state)
{
    enum { STEPS = 500000, ALL = MARE_SIM_PROFILES };
    static const struct {
        uint64_t seed;
        uint32_t members, first, end; /* … the profiles in which it ran away */
    } found[] = {{5663, 6, 0, ALL}, {5678, 5, MARE_SIM_CLUSTERED, MARE_SIM_CLUSTERED + 1}};
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    (void)state;
    for (size_t i = 0; i < count * 2; i++) {
        for (uint32_t profile = found[i % 2].first; profile < found[i % 2].end; profile++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, table[i / 2], found[i % 2].members);
            options.seed = found[i % 2].seed;
            options.profile = (mare_sim_profile)profile;
            options.steps_most = STEPS;
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s, %s, seed %u: %s: %s", table[i / 2]->name,
                         mare_sim_profile_name(options.profile), (unsigned)options.seed,
                         out.violation, out.detail);
            assert_true(out.requests < STEPS / 10);
            mare_sim_options_fini(&options);
        }
    }
}

/* A host forgets a lock that nobody wants, and begins it again behind numbers that are right for
 * all of its locks (mare__majority_forget). Here a machine is forgotten whenever it may be. What it
 * has on the disk is the host's, not its own: it lies behind the state. */
typedef struct on_disk {
    uint64_t bound, voted[4];
} on_disk;

static int forgets_used, forgets_ticket;

static size_t forgetful_size(const mare_coord_setup *setup)
{
    return mare_coord_majority.size(setup) + sizeof(on_disk);
}

static on_disk *disk_of(const mare_coord *m)
{
    return (on_disk *)(void *)((uint8_t *)m->state + mare_coord_majority.size(&m->setup));
}

static void forgetful_keep(const mare_coord *m, uint64_t *out)
{
    on_disk *disk = disk_of(m);
    mare_coord_majority.keep(m, out);
    disk->bound = out[MARE__MAJORITY_BOUND] > disk->bound ? out[MARE__MAJORITY_BOUND] : disk->bound;
    out[MARE__MAJORITY_BOUND] = disk->bound;
    for (uint32_t i = 0; i < MARE__SET_WORDS(m->setup.capacity); i++)
        out[MARE__MAJORITY_VOTED + i] = disk->voted[i] |= out[MARE__MAJORITY_VOTED + i];
}

static void forget(mare_coord *m)
{
    mare__majority_past past = {0};
    uint64_t kept[MARE__MAJORITY_VOTED + 4];
    uint32_t abstains;
    if (!mare__majority_forget(m, &past))
        return;
    forgetful_keep(m, kept);
    abstains = (uint32_t)kept[MARE__MAJORITY_ABSTAINS];
    if (abstains)
        return; /* found out again from the disk, which is not this test's concern */
    if (mare__random(m) % 4 == 0) { /* other locks have come further */
        past.ticket += 3;
        past.vote += 3;
        past.used = past.clock;
        past.user = m->setup.capacity - 1;
    }
    past.used = forgets_used ? 0 : past.used;
    past.ticket = forgets_ticket ? m->setup.incarnation << 32 : past.ticket;
    memset(m->state, 0, mare_coord_majority.size(&m->setup));
    mare_coord_majority.init(m);
    mare__majority_follow(m, &past);
}

static mare_coord_status forgetful_receive(mare_coord *m, uint32_t from,
                                           const mare_coord_message *msg, mare_coord_effects *fx)
{
    mare_coord_status status = mare_coord_majority.receive(m, from, msg, fx);
    forget(m);
    return status;
}

static mare_coord_status forgetful_request(mare_coord *m, const mare_coord_event *event,
                                           mare_coord_effects *fx)
{
    mare_coord_status status = mare_coord_majority.request(m, event, fx);
    if (event->kind != MARE_COORD_ENTER)
        forget(m);
    return status;
}

static void forgetful_peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx)
{
    mare_coord_majority.peer(m, event, fx);
    forget(m);
}

/* How many runs of all profiles break a promise; the last one in `out`. */
static unsigned broken_by_forgetting(uint64_t seeds, mare_sim_outcome *last)
{
    mare_coord_algorithm inner = mare_coord_majority;
    mare__leased forgetful = mare_coord_majority_lease;
    unsigned broken = 0;
    inner.size = forgetful_size;
    inner.keep = forgetful_keep;
    inner.receive = forgetful_receive;
    inner.request = forgetful_request;
    inner.peer = forgetful_peer;
    forgetful.inner = &inner;
    for (uint64_t i = 0; i < seeds * MARE_SIM_PROFILES; i++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, &forgetful.shell, 2 + (uint32_t)(i % 6));
        options.seed = i / MARE_SIM_PROFILES + 1;
        options.profile = (mare_sim_profile)(i % MARE_SIM_PROFILES);
        mare_sim_vary(&options);
        if (!mare_sim_run(&options, NULL, &out)) {
            broken++;
            *last = out;
        }
        mare_sim_options_fini(&options);
    }
    return broken;
}

static void a_lock_that_nobody_wants_can_be_forgotten(void **state)
{
    mare_sim_outcome out = {0};
    (void)state;
    if (broken_by_forgetting(10 * SEEDS, &out))
        fail_msg("%s: %s", out.violation, out.detail);
    forgets_used = 1;
    assert_true(broken_by_forgetting(10 * SEEDS, &out) > 0);
    assert_string_equal(out.violation, "FENCING");
    forgets_used = 0;
    forgets_ticket = 1;
    assert_true(broken_by_forgetting(10 * SEEDS, &out) > 0);
    forgets_ticket = 0;
}

/* A group of two: neither goes on alone. */
static void half_of_a_group_is_not_enough(void **state)
{
    mare_sim_options options;
    mare_sim_outcome out;
    (void)state;
    mare_sim_options_init(&options, mare_sim_find("majority+lease"), 2);
    mare_sim_fault cut = {.kind = MARE_SIM_PARTITION, .at_us = 0, .side = {1}};
    mare_sim_faults_add(&options.faults, &cut);
    options.settle_us = 0;
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.grants, 0);
    mare_sim_options_fini(&options);
}

/* Two members step each other with what they send, some of it changed: whatever arrives, a step
 * makes no more effects than were declared, and touches no memory but its own (a sanitizer looks).
 */
static void exchange_garbage(int64_t keepers)
{
    enum { ROUNDS = 20000, ROOM = 4096 };
    mare_sim_random random = mare_sim_stream(7, 0);
    mare_coord_setup setup;
    mare_coord *machine[2];
    mare_coord_effects fx = {0};
    uint8_t bytes[2][ROOM];
    uint32_t length[2] = {0};
    uint64_t now_us = 1;
    mare_coord_setup_init(&setup, mare_sim_find("majority+lease"), 3);
    mare_coord_setup_set(&setup, "keepers", keepers);
    setup.founds = setup.keeps = 1;
    mare_coord_room(&setup, &fx.room, &fx.bytes_room);
    fx.list = calloc(fx.room, sizeof *fx.list);
    fx.bytes = malloc(fx.bytes_room);
    for (setup.self = 0; setup.self < 2; setup.self++) {
        size_t size = mare_coord_size(&setup);
        machine[setup.self] = mare_coord_init(malloc(size), size, &setup);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t who = (uint32_t)mare_sim_below(&random, 2);
        mare_coord_event event = {.kind = MARE_COORD_MESSAGE, .peer = !who, .now_us = now_us};
        event.data = bytes[who];
        event.length = length[who];
        if (i < 2 || mare_sim_below(&random, 4) == 0)
            event.kind = i < 2 ? MARE_COORD_START
                               : (mare_coord_event_kind)mare_sim_below(&random, MARE_COORD_LEAVE);
        who = i < 2 ? i : who;
        event.number = mare_sim_below(&random, MARE_COORD_TIMERS + 1);
        if (length[who] && mare_sim_below(&random, 3) == 0)
            bytes[who][mare_sim_below(&random, length[who])] ^= 1u << mare_sim_below(&random, 8);
        mare_coord_step(machine[who], &event, &fx);
        assert_int_equal(fx.lost, 0);
        for (uint32_t j = 0; j < fx.count; j++) {
            const mare_coord_effect *effect = &fx.list[j];
            if ((effect->kind == MARE_COORD_SEND || effect->kind == MARE_COORD_BROADCAST) &&
                effect->length <= ROOM) {
                memcpy(bytes[!who], effect->data, effect->length);
                length[!who] = effect->length;
            }
        }
        now_us += mare_sim_below(&random, 5000);
    }
    free(machine[0]);
    free(machine[1]);
    free(fx.list);
    free(fx.bytes);
}

static void garbage_harms_nobody(void **state)
{
    (void)state;
    exchange_garbage(0);
    exchange_garbage(1); /* the second has no vote about the lease */
}

/* What a voter has saved is taken back by the same member of the same group, and by nobody else. */
static void what_was_saved_is_of_one_member(void **state)
{
    mare_coord_setup setup;
    mare_coord_effects fx = {0};
    uint64_t memory[1024];
    uint8_t saved[200];
    (void)state;
    mare_coord_setup_init(&setup, &mare_coord_majority, 3);
    setup.founds = setup.keeps = 1;
    mare_coord_room(&setup, &fx.room, &fx.bytes_room);
    fx.list = calloc(fx.room, sizeof *fx.list);
    fx.bytes = malloc(fx.bytes_room);
    mare_coord *m = mare_coord_init(memory, sizeof memory, &setup);
    mare_coord_event event = {.kind = MARE_COORD_START};
    assert_int_equal(mare_coord_step(m, &event, &fx), MARE_COORD_OK);
    event.kind = MARE_COORD_ENTER;
    assert_int_equal(mare_coord_step(m, &event, &fx), MARE_COORD_OK);
    assert_int_equal(fx.list[0].kind, MARE_COORD_SAVE); /* before it asks the others */
    assert_int_equal(fx.list[1].kind, MARE_COORD_BROADCAST);
    uint32_t length = fx.list[0].length;
    assert_true(length < sizeof saved);
    memcpy(saved, fx.list[0].data, length);
    assert_int_equal(mare_coord_load(m, saved, length), MARE_COORD_REFUSED);
    setup.founds = 0;
    setup.incarnation = 1;
    for (setup.self = 0; setup.self < 2; setup.self++) {
        m = mare_coord_init(memory, sizeof memory, &setup);
        assert_int_equal(mare_coord_load(m, saved, length - 1), MARE_COORD_MALFORMED);
        assert_int_equal(mare_coord_load(m, saved, length),
                         setup.self == 0 ? MARE_COORD_OK : MARE_COORD_MALFORMED);
    }
    mare_coord_setup_init(&setup, &mare_coord_ricart, 3);
    setup.founds = setup.keeps = 1;
    m = mare_coord_init(memory, sizeof memory, &setup);
    assert_int_equal(mare_coord_load(m, saved, length), MARE_COORD_UNKNOWN);
    free(fx.list);
    free(fx.bytes);
}

/* A voter under a lease, of three, that steps by hand. */
typedef struct voter {
    uint64_t memory[1024];
    mare_coord *machine;
    mare_coord_effects fx;
    uint8_t saved[200];
    uint32_t length, saves;
} voter;

static void make_voter(voter *v, uint64_t incarnation)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, &mare_coord_majority, 3);
    mare_coord_setup_set(&setup, "lease", 1);
    setup.founds = incarnation == 0;
    setup.incarnation = incarnation;
    setup.keeps = 1;
    mare_coord_room(&setup, &v->fx.room, &v->fx.bytes_room);
    v->fx.list = calloc(v->fx.room, sizeof *v->fx.list);
    v->fx.bytes = malloc(v->fx.bytes_room);
    v->machine = mare_coord_init(v->memory, sizeof v->memory, &setup);
}

static void free_voter(voter *v)
{
    free(v->fx.list);
    free(v->fx.bytes);
}

static void step_voter(voter *v, mare_coord_event event)
{
    assert_int_equal(mare_coord_step(v->machine, &event, &v->fx), MARE_COORD_OK);
    for (uint32_t i = 0; i < v->fx.count; i++) {
        if (v->fx.list[i].kind != MARE_COORD_SAVE)
            continue;
        v->saves++;
        v->length = v->fx.list[i].length;
        assert_true(i == 0 && v->length <= sizeof v->saved);
        memcpy(v->saved, v->fx.list[i].data, v->length);
    }
}

/* Somebody else asks for the vote, or gives it back. */
static void hear(voter *v, uint32_t kind, uint64_t count)
{
    uint8_t bytes[64];
    mare_coord_message msg = {.kind = kind, .field = {10 * count, count, 10 * count}};
    uint32_t length = mare_coord_encode(&mare_coord_majority, &msg, bytes, sizeof bytes);
    assert_true(length > 0);
    step_voter(v, (mare_coord_event){
                      .kind = MARE_COORD_MESSAGE, .peer = 1, .data = bytes, .length = length});
}

static void a_thousand_votes_are_one_write(void **state)
{
    enum { REQUEST = 0, RELEASE = 4 };
    voter v = {0};
    (void)state;
    make_voter(&v, 0);
    step_voter(&v, (mare_coord_event){.kind = MARE_COORD_START});
    v.saves = 0; /* that it has begun */
    for (uint64_t i = 1; i <= 1000; i++) {
        hear(&v, REQUEST, i);
        assert_true(v.fx.count > 0); /* it has the vote */
        hear(&v, RELEASE, i);
    }
    assert_int_equal(v.saves, 1);
    free_voter(&v);
}

/* Each lock of a member begins with a later stamp than the one before. What the second keeps is on
 * the disk already, but for the one that is beyond the bound. */
static void locks_share_a_write(void **state)
{
    enum { REQUEST = 0, FAR = 10000 };
    static const uint64_t counts[] = {1, 2, 3, 500, FAR};
    uint8_t kept[200] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        voter v = {0};
        make_voter(&v, 0);
        step_voter(&v, (mare_coord_event){.kind = MARE_COORD_START});
        hear(&v, REQUEST, counts[i]);
        assert_int_equal(mare__majority_merge(kept, v.saved, v.length) != 0,
                         i == 0 || counts[i] == FAR);
        free_voter(&v);
    }
}

static const char *phase_of(const voter *v)
{
    mare_coord_view view;
    mare_coord_look(v->machine, &view);
    return view.phase;
}

/* One that is down may still be inside by a vote of the life before, if what is over is only an
 * epoch that this life has heard of. */
static void who_comes_back_is_unsure_until_it_knows(void **state)
{
    enum { REQUEST = 0 };
    voter v = {0}, again = {0};
    (void)state;
    make_voter(&v, 0);
    step_voter(&v, (mare_coord_event){.kind = MARE_COORD_START});
    hear(&v, REQUEST, 1);
    make_voter(&again, 1);
    assert_int_equal(mare_coord_load(again.machine, v.saved, v.length), MARE_COORD_OK);
    step_voter(&again, (mare_coord_event){.kind = MARE_COORD_START});
    assert_string_equal(phase_of(&again), "unsure");
    for (uint64_t silent = 0; silent <= 1; silent++) {
        mare_coord_event down = {.kind = MARE_COORD_PEER_DOWN, .peer = 1, .number = silent};
        step_voter(&again, down);
        assert_string_equal(phase_of(&again), silent ? "idle" : "unsure");
    }
    free_voter(&v);
    free_voter(&again);
}

/* The lease of a member that has come back, with a tenant that votes. */
typedef struct home {
    mare__tenants tenants;
    mare__tenant tenant;
    mare_coord_effects fx;
    uint64_t memory[1024];
} home;

static void ignore(void *context, mare__tenant *tenant, const mare_coord_effect *effect)
{
    (void)context, (void)tenant, (void)effect;
}

static void make_home(home *h, voter *v)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, &mare__lease, 3);
    mare_coord_setup_set(&setup, "lease_us", 100000);
    setup.incarnation = 1;
    mare_coord_room(&setup, &h->fx.room, &h->fx.bytes_room);
    h->fx.list = calloc(h->fx.room, sizeof *h->fx.list);
    h->fx.bytes = malloc(h->fx.bytes_room);
    h->tenant.machine = v->machine;
    h->tenants = (mare__tenants){.lease = mare_coord_init(h->memory, sizeof h->memory, &setup),
                                 .first = &h->tenant,
                                 .lease_effects = &h->fx,
                                 .effects = &v->fx,
                                 .carry = ignore};
}

/* A message of the lease, with member 1 in its list if it is named: in this epoch. */
static void hear_lease(home *h, uint64_t now_us, uint32_t from, mare_coord_message msg,
                       uint64_t silent)
{
    uint8_t bytes[64], list[16];
    mare__put_numbers(list, (uint64_t[]){1, silent}, 2);
    msg.tail = list;
    msg.tail_length = silent ? sizeof list : 0;
    uint32_t length = mare_coord_encode(&mare__lease, &msg, bytes, sizeof bytes);
    assert_true(length > 0);
    mare_coord_event event = {.kind = MARE_COORD_MESSAGE,
                              .peer = from,
                              .now_us = now_us,
                              .data = bytes,
                              .length = length};
    assert_int_equal(mare__tenants_step_lease(&h->tenants, &event), MARE_COORD_OK);
}

/* A beat, which member 2 answers. */
static void renew(home *h, uint64_t now_us, uint64_t silent)
{
    enum { ANSWER = 1, PROMISE = 1 };
    uint64_t epoch = (UINT64_C(1) << 32) + 1;
    mare_coord_event beat = {
        .kind = MARE_COORD_TIMER, .number = MARE__LEASE_BEAT, .now_us = now_us};
    assert_int_equal(mare__tenants_step_lease(&h->tenants, &beat), MARE_COORD_OK);
    hear_lease(h, now_us, 2,
               (mare_coord_message){.kind = ANSWER, .field = {epoch, now_us, PROMISE}}, silent);
}

/* The same through the lease: that an epoch of member 1 is over says nothing of an earlier one;
 * that more than half find it silent does. */
static void a_tenant_is_told_since_when_one_is_down(void **state)
{
    enum { REQUEST = 0, RENEW = 0 };
    voter v = {0}, again = {0};
    home h = {0};
    (void)state;
    make_voter(&v, 0);
    step_voter(&v, (mare_coord_event){.kind = MARE_COORD_START});
    hear(&v, REQUEST, 1);
    make_voter(&again, 1);
    assert_int_equal(mare_coord_load(again.machine, v.saved, v.length), MARE_COORD_OK);
    make_home(&h, &again);
    mare_coord_event start = {.kind = MARE_COORD_START, .now_us = 1};
    assert_int_equal(mare__tenants_step_lease(&h.tenants, &start), MARE_COORD_OK);
    hear_lease(&h, 2, 1, (mare_coord_message){.kind = RENEW, .field = {5, 1, 1}}, 0);
    renew(&h, 3, 0);
    assert_true(h.tenant.acts);
    hear_lease(&h, 4, 1, (mare_coord_message){.kind = RENEW, .field = {6, 1, 0}}, 0);
    assert_true(mare__lease_is_down(h.tenants.lease, 1));
    assert_string_equal(phase_of(&again), "unsure");
    renew(&h, 50000, 0);
    renew(&h, 100010, 6);
    assert_string_equal(phase_of(&again), "idle");
    free(h.fx.list);
    free(h.fx.bytes);
    free_voter(&v);
    free_voter(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_lease_a_frozen_member_lets_two_in),
        cmocka_unit_test(with_a_lease_it_does_not),
        cmocka_unit_test(clocks_may_be_as_wrong_as_the_lease_allows),
        cmocka_unit_test(a_dead_holder_is_outlived),
        cmocka_unit_test(every_composition_holds_under_every_profile),
        cmocka_unit_test(few_keepers_of_the_lease_are_enough),
        cmocka_unit_test(who_is_refused_does_not_ask_all_the_time),
        cmocka_unit_test(a_lock_that_nobody_wants_can_be_forgotten),
        cmocka_unit_test(half_of_a_group_is_not_enough),
        cmocka_unit_test(garbage_harms_nobody),
        cmocka_unit_test(what_was_saved_is_of_one_member),
        cmocka_unit_test(a_thousand_votes_are_one_write),
        cmocka_unit_test(locks_share_a_write),
        cmocka_unit_test(who_comes_back_is_unsure_until_it_knows),
        cmocka_unit_test(a_tenant_is_told_since_when_one_is_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
