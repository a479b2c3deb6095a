/* SPDX-License-Identifier: MIT */

/* A host forgets a lock that nobody wants, and begins it again behind numbers that are right for
 * all of its locks. Here machines of `ricart` and `central` are forgotten again and again, in every
 * profile of faults; majority's are in test_lease.c. What is the host's, or on its disk, lies
 * behind the state. */

#include "support/unit.h"

#include "coord/lease/leased.h"
#include "coord/machine.h"
#include "coord/mutex/arrival.h"
#include "coord/mutex/central.h"
#include "coord/mutex/ricart.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 60 };

typedef struct on_host {
    uint64_t known, lost; /* on the disk when this life began … */
    uint64_t loaded;      /* … if there was something … */
    uint64_t bound;       /* … and now */
    uint64_t leases, founds;
} on_host;

/* What is planted: a number that is not taken over. */
static enum { NOTHING, NO_CLOCK, NO_TICKET, NO_GRANTS, NO_EPOCH } planted;

static const mare_coord_algorithm *plain; /* the algorithm, as it is */

static size_t forgetful_size(const mare_coord_setup *setup)
{
    return plain->size(setup) + sizeof(on_host);
}

static void forgetful_room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes)
{
    plain->room(setup, effects, bytes);
    *effects *= 2; /* a step and a start */
    *bytes *= 2;
}

static on_host *host_of(const mare_coord *m)
{
    return (on_host *)(void *)((uint8_t *)m->state + plain->size(&m->setup));
}

static void forgetful_keep(const mare_coord *m, uint64_t *out)
{
    on_host *host = host_of(m);
    plain->keep(m, out);
    if (out[MARE__ARRIVAL_LATEST] < host->bound)
        out[MARE__ARRIVAL_LATEST] = host->bound;
    host->bound = out[MARE__ARRIVAL_LATEST];
}

static mare_coord_status forgetful_recall(mare_coord *m, const uint64_t *in)
{
    on_host *host = host_of(m);
    host->known = host->bound = in[MARE__ARRIVAL_LATEST];
    host->lost = in[MARE__ARRIVAL_LOST];
    host->loaded = 1;
    return plain->recall(m, in);
}

static void forgetful_start(mare_coord *m, mare_coord_effects *fx)
{
    on_host *host = host_of(m);
    host->founds = mare__founds(m) != 0;
    host->leases++;
    plain->start(m, fx);
}

/* The machine is a new one, and has loaded what a host has; or begins as a founder's. */
static void make_anew(mare_coord *m, int founds)
{
    const on_host *host = host_of(m);
    uint64_t in[MARE__ARRIVAL_KEPT] = {
        [MARE__ARRIVAL_LATEST] = host->known, [MARE__ARRIVAL_LOST] = host->lost};
    memset(m->state, 0, plain->size(&m->setup));
    plain->init(m);
    if (!founds && (host->loaded || m->setup.founds))
        assert_int_equal(plain->recall(m, in), MARE_COORD_OK);
    m->started = !founds;
}

/* Of ricart: one that was ready begins as a founder's, or as one that has come back, by chance. In
 * the same lease both are right. */
static void forget_ricart(mare_coord *m, mare_coord_effects *fx)
{
    mare__ricart_past past = {0};
    mare_coord_view view = {0};
    plain->look(m, &view);
    if (mare__random(m) % 4 || !mare__ricart_forget(m, &past))
        return;
    past.clock = planted == NO_CLOCK ? 0 : past.clock;
    past.ticket = planted == NO_TICKET ? 0 : past.ticket;
    make_anew(m, !view.phase && m->setup.founds && !host_of(m)->loaded && mare__random(m) % 2);
    mare__ricart_follow(m, &past, host_of(m)->bound);
    plain->start(m, fx);
    m->started = 1;
}

/* Of central: in the first lease of a founder, and as long as the first epoch lasts, it begins as a
 * founder's; else as one that has come back. */
static void forget_central(mare_coord *m, mare_coord_effects *fx)
{
    mare__central_past past = {0};
    const on_host *host = host_of(m);
    if (mare__random(m) % 4 || !mare__central_forget(m, host->leases, &past))
        return;
    past.grants = planted == NO_GRANTS ? 0 : past.grants;
    past.epoch = planted == NO_EPOCH ? 0 : past.epoch;
    past.ticket = planted == NO_TICKET ? 0 : past.ticket;
    make_anew(m, host->founds && host->leases == 1 && past.epoch <= m->setup.members - 1);
    mare__central_follow(m, host->leases, &past);
    plain->start(m, fx);
    m->started = 1;
}

/* What is said only after a machine was begun anew makes none begin anew: they would never rest. */
static mare_coord_status receive_ricart(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                        mare_coord_effects *fx)
{
    enum { REQUEST };
    mare_coord_status status = plain->receive(m, from, msg, fx);
    if (msg->kind == REQUEST && status == MARE_COORD_OK)
        forget_ricart(m, fx);
    return status;
}

static mare_coord_status receive_central(mare_coord *m, uint32_t from,
                                         const mare_coord_message *msg, mare_coord_effects *fx)
{
    enum { REQUEST, GRANT, RELEASE, TAKEOVER };
    mare_coord_status status = plain->receive(m, from, msg, fx);
    if (msg->kind <= TAKEOVER && status == MARE_COORD_OK)
        forget_central(m, fx);
    return status;
}

/* How many runs of all profiles break a promise; the last one in `out`. */
static unsigned broken_by_forgetting(const mare_coord_algorithm *algorithm, mare_sim_outcome *last)
{
    int by_ricart = algorithm == &mare_coord_ricart;
    mare_coord_algorithm inner = *algorithm;
    mare__leased forgetful = by_ricart ? mare_coord_ricart_lease : mare_coord_central_lease;
    unsigned broken = 0;
    plain = algorithm;
    inner.size = forgetful_size;
    inner.room = forgetful_room;
    inner.keep = forgetful_keep;
    inner.recall = forgetful_recall;
    inner.start = forgetful_start;
    inner.receive = by_ricart ? receive_ricart : receive_central;
    forgetful.inner = &inner;
    for (uint64_t i = 0; i < (uint64_t)SEEDS * MARE_SIM_PROFILES; i++) {
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

static void can_be_forgotten(const mare_coord_algorithm *algorithm)
{
    mare_sim_outcome out = {0};
    planted = NOTHING;
    if (broken_by_forgetting(algorithm, &out))
        fail_msg("%s: %s", out.violation, out.detail);
}

static void a_lock_by_ricart_can_be_forgotten(void **state)
{
    (void)state;
    can_be_forgotten(&mare_coord_ricart);
}

static void a_lock_by_central_can_be_forgotten(void **state)
{
    (void)state;
    can_be_forgotten(&mare_coord_central);
}

static void what_is_not_taken_over_is_noticed(void **state)
{
    mare_sim_outcome out = {0};
    (void)state;
    for (planted = NO_CLOCK; planted <= NO_TICKET; planted++)
        assert_true(broken_by_forgetting(&mare_coord_ricart, &out) > 0);
    for (planted = NO_GRANTS; planted <= NO_EPOCH; planted++) {
        assert_true(broken_by_forgetting(&mare_coord_central, &out) > 0);
        assert_string_equal(out.violation, "FENCING");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_by_ricart_can_be_forgotten),
        cmocka_unit_test(a_lock_by_central_can_be_forgotten),
        cmocka_unit_test(what_is_not_taken_over_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
