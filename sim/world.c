/* SPDX-License-Identifier: MIT */

/* The engine: takes the next thing due, steps a machine with it, carries out the effects, shows
 * everybody what happened.
 *
 *     heap ──▶ due ──▶ mare_coord_step ──▶ effects ──▶ network, timers (back into the heap)
 *                            │                │
 *                            └── observations ┴──▶ checkers, workload, outcome, observers
 *
 * One seed decides everything: time is virtual, ties in the heap are broken by the order of
 * planning, random numbers are integers from streams of the seed, and nothing depends on
 * addresses. */

#include "sim/world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Observation -------------------------------------------------------------------------------- */

static void count_effect(mare_sim *sim, const mare_sim_observation *seen)
{
    mare_sim_outcome *out = sim->outcome;
    switch (seen->effect->kind) {
    case MARE_COORD_GRANTED: {
        uint64_t wait_us = sim->now_us - sim->asked_us[seen->process];
        out->grants++;
        out->wait_us += wait_us;
        out->wait_most_us = wait_us > out->wait_most_us ? wait_us : out->wait_most_us;
        break;
    }
    case MARE_COORD_REVOKED:
        out->revoked++;
        break;
    case MARE_COORD_DELIVER:
        out->deliveries++;
        break;
    case MARE_COORD_ELECTED:
        out->elections++;
        break;
    default:
        break;
    }
}

void mare__sim_see(mare_sim *sim, mare_sim_observation *seen)
{
    seen->time_us = sim->now_us;
    if (seen->sight == MARE_SIM_EFFECT)
        count_effect(sim, seen);
    for (uint32_t i = 0; i < sim->checkers; i++)
        sim->checker[i]->see(sim->checker_state[i], sim, seen);
    if (sim->workload && sim->workload->see && !sim->over)
        sim->workload->see(sim->workload_state, sim, seen);
    for (mare_sim_observer *const *o = sim->observers; o && *o; o++)
        (*o)->see(*o, seen);
}

void mare__sim_see_plain(mare_sim *sim, mare_sim_sight sight, uint32_t who, uint64_t number)
{
    mare_sim_observation seen = {
        .sight = sight, .process = who, .peer = MARE_COORD_NOBODY, .number = number};
    if (who != MARE_COORD_NOBODY) {
        seen.machine = sim->process[who].machine;
        seen.vector = sim->process[who].vector;
    }
    mare__sim_see(sim, &seen);
}

void mare_sim_violate(mare_sim *sim, const char *promise, const char *format, ...)
{
    assert(mare_sim_is_promise(promise));
    if (sim->over)
        return;
    sim->over = 1;
    va_list arguments;
    va_start(arguments, format);
    snprintf(sim->outcome->violation, sizeof sim->outcome->violation, "%s", promise);
    vsnprintf(sim->outcome->detail, sizeof sim->outcome->detail, format, arguments);
    va_end(arguments);
}

static const char *const sight_names[] = {"stepped",   "sent",   "lost",    "effect",   "crashed",
                                          "restarted", "paused", "resumed", "joined",   "departed",
                                          "cut",       "healed", "settles", "violated", "ended"};
_Static_assert(sizeof sight_names / sizeof *sight_names == MARE_SIM_SIGHTS, "a name each");

const char *mare_sim_sight_name(mare_sim_sight sight)
{
    return sight_names[sight];
}

/* Steps -------------------------------------------------------------------------------------- */

uint64_t mare_sim_local(const mare_sim *sim, uint32_t who)
{
    const process *p = &sim->process[who];
    int64_t drift = (int64_t)(sim->now_us / 1000) * p->drift_ppm / 1000;
    /* A second of offset keeps it positive. */
    return sim->now_us + (uint64_t)(drift + 1000000) + p->offset_us;
}

static void set_timer(mare_sim *sim, uint32_t who, const mare_coord_effect *effect)
{
    process *p = &sim->process[who];
    int64_t correction = (int64_t)(effect->number / 1000) * p->drift_ppm / 1000;
    mare_sim_due due = {.kind = DUE_TIMER, .process = who, .index = effect->timer};
    due.time_us = sim->now_us + effect->number - (uint64_t)correction;
    due.serial = ++p->timer_serial[effect->timer];
    mare_sim_heap_push(&sim->heap, due);
}

static void carry_out(mare_sim *sim, uint32_t who, const mare_coord_effect *effect)
{
    process *p = &sim->process[who];
    switch (effect->kind) {
    case MARE_COORD_SAVE:
        p->saved = mare_sim_realloc(p->saved, effect->length);
        memcpy(p->saved, effect->data, effect->length);
        p->saved_length = effect->length;
        break;
    case MARE_COORD_SEND:
        mare__sim_send(sim, who, effect->peer, effect->data, effect->length);
        break;
    case MARE_COORD_BROADCAST:
        for (uint32_t i = 0; i < sim->capacity; i++) {
            if (i != who && mare_coord_has_member(p->machine, i))
                mare__sim_send(sim, who, i, effect->data, effect->length);
        }
        break;
    case MARE_COORD_SET_TIMER:
        set_timer(sim, who, effect);
        break;
    case MARE_COORD_CANCEL_TIMER:
        p->timer_serial[effect->timer]++;
        break;
    default: {
        mare_sim_observation seen = {.sight = MARE_SIM_EFFECT,
                                     .process = who,
                                     .peer = effect->peer,
                                     .number = effect->number,
                                     .effect = effect,
                                     .text = effect->text,
                                     .machine = p->machine,
                                     .vector = p->vector};
        mare__sim_see(sim, &seen);
    }
    }
}

/* Happened-before: the receiver learns what the message knew, and this step is an event of its own.
 * A message that the machine refused does not count as received. */
static void note_causality(mare_sim *sim, process *p, uint32_t who, const message *arrived)
{
    if (!p->vector)
        return;
    for (uint32_t i = 0; arrived && i < sim->capacity; i++)
        p->vector[i] = p->vector[i] < arrived->vector[i] ? arrived->vector[i] : p->vector[i];
    p->vector[who]++;
}

mare_coord_status mare__sim_step(mare_sim *sim, uint32_t who, mare_coord_event event,
                                 const message *arrived)
{
    process *p = &sim->process[who];
    if (sim->over)
        return MARE_COORD_REFUSED;
    event.now_us = mare_sim_local(sim, who);
    if (event.kind == MARE_COORD_ENTER) {
        sim->asked_us[who] = sim->now_us;
        event.number += event.number ? event.now_us : 0;
    }
    sim->outcome->steps++;
    mare_sim_observation seen = {.sight = MARE_SIM_STEPPED,
                                 .process = who,
                                 .peer = event.peer,
                                 .message = arrived ? arrived->number : 0,
                                 .event = &event,
                                 .data = event.data,
                                 .length = event.length,
                                 .machine = p->machine,
                                 .vector = p->vector};
    seen.status = mare_coord_step(p->machine, &event, &sim->effects);
    note_causality(sim, p, who, seen.status == MARE_COORD_OK ? arrived : NULL);
    sim->outcome->requests += event.kind == MARE_COORD_ENTER && seen.status == MARE_COORD_OK;
    mare__sim_see(sim, &seen);
    if (sim->effects.lost)
        mare_sim_violate(sim, "ROOM", "p%u made more effects than it declared", who);
    for (uint32_t i = 0; i < sim->effects.count && !sim->over; i++)
        carry_out(sim, who, &sim->effects.list[i]);
    return seen.status;
}

static void arrive(mare_sim *sim, uint32_t slot)
{
    message *arrived = &sim->message[slot];
    uint32_t who = arrived->to;
    if (sim->process[who].presence != UP) {
        mare__sim_lose(sim, arrived, "nobody there");
    } else {
        mare_coord_event event = {.kind = MARE_COORD_MESSAGE,
                                  .peer = arrived->from,
                                  .data = arrived->data,
                                  .length = arrived->length};
        message copy = *arrived; /* the step may make new slots, and move them all */
        sim->outcome->delivered++;
        mare__sim_step(sim, who, event, &copy);
    }
    mare__sim_message_free(sim, slot);
}

/* Events that are due at a paused process wait until it resumes. Returns nonzero when the event
 * waits. */
static int put_off(mare_sim *sim, const mare_sim_due *due)
{
    if (due->kind >= DUE_FAULT || sim->process[due->process].presence != PAUSED)
        return 0;
    mare_sim_due later = *due;
    later.time_us = sim->process[due->process].resume_us;
    if (later.time_us < sim->now_us)
        later.time_us = sim->now_us;
    mare_sim_heap_push(&sim->heap, later);
    return 1;
}

static void settle(mare_sim *sim)
{
    sim->settling = 1;
    mare__sim_see_plain(sim, MARE_SIM_SETTLES, MARE_COORD_NOBODY, 0);
    mare__sim_mend_all(sim);
    if (sim->workload)
        sim->workload->settle(sim->workload_state, sim);
}

static void happen(mare_sim *sim, const mare_sim_due *due)
{
    if (due->kind == DUE_SETTLE) {
        settle(sim);
        return;
    }
    if (due->kind == DUE_FAULT) {
        mare__sim_begin_fault(sim, due->index);
        return;
    }
    if (due->kind == DUE_MEND) {
        if (!sim->settling) /* who has joined by then stays */
            mare__sim_end_fault(sim, due->index);
        return;
    }
    if (due->kind == DUE_MESSAGE) {
        arrive(sim, due->index);
        return;
    }
    process *p = &sim->process[due->process];
    mare_coord_event event = {.number = due->index, .peer = due->index};
    if (p->presence != UP)
        return;
    if (due->kind == DUE_TIMER && due->serial == p->timer_serial[due->index]) {
        event.kind = MARE_COORD_TIMER;
        mare__sim_step(sim, due->process, event, NULL);
    } else if (due->kind == DUE_WAKE && due->serial == p->life) {
        sim->workload->wake(sim->workload_state, sim, due->process, due->index);
    } else if (due->kind == DUE_LOOK) {
        mare__sim_look(sim, due->process, due->index);
    } else if (due->kind == DUE_NEWS && due->serial >> 8 == p->life) {
        p->news--;
        mare__sim_tell_news(sim, due->process, (mare_coord_event_kind)(due->serial & 0xff),
                            due->index);
    }
}

/* The run ------------------------------------------------------------------------------------ */

/* At the end of a run without second phase. If nothing is due any more, those who wait will wait
 * for ever. If something is due, nobody can say; then the outcome tells how many wait. */
static void look_for_waiting(mare_sim *sim, int more)
{
    const mare_coord_setup *setup = &sim->options->setup;
    for (uint32_t i = 0; i < sim->capacity && !sim->over; i++) {
        mare_coord_view view = {0};
        if (mare_sim_is_up(sim, i))
            mare_coord_look(sim->process[i].machine, &view);
        sim->outcome->waiting += view.waiting != 0;
        if (view.waiting && !more && setup->algorithm->promises(setup) & MARE_COORD_EM2)
            mare_sim_violate(sim, "EM2",
                             "p%" PRIu32 " asked at %" PRIu64
                             " us and is not served, and nothing more will happen",
                             i, sim->asked_us[i]);
    }
}

/* An algorithm that sends ever more messages must not use up the machine. */
static void check_budget(mare_sim *sim, uint64_t steps_most)
{
    uint64_t bytes = sim->message_bytes + sim->heap.room * sizeof(mare_sim_due);
    if (sim->outcome->steps > steps_most)
        mare_sim_violate(sim, "BUDGET", "%" PRIu64 " steps by %" PRIu64 " us: a runaway",
                         sim->outcome->steps, sim->now_us);
    else if (bytes > sim->options->bytes_most)
        mare_sim_violate(sim, "BUDGET",
                         "%" PRIu32 " messages are under way at %" PRIu64 " us: a runaway",
                         sim->messages, sim->now_us);
}

static void run(mare_sim *sim)
{
    const mare_sim_options *options = sim->options;
    uint64_t settle_us =
        options->settle_us == MARE_SIM_DERIVED ? mare_sim_bound(options) : options->settle_us;
    uint64_t end_us = options->duration_us + settle_us;
    uint64_t steps_most = options->steps_most ? options->steps_most : mare_sim_budget(options);
    mare_sim_due due;
    int more = 0;
    while (!sim->over && (more = mare_sim_heap_pop(&sim->heap, &due)) && due.time_us <= end_us) {
        if (due.time_us > sim->now_us)
            sim->now_us = due.time_us;
        if (!put_off(sim, &due))
            happen(sim, &due);
        check_budget(sim, steps_most);
        if (sim->settling && due.kind == DUE_WAKE &&
            sim->workload->settled(sim->workload_state, sim))
            return;
    }
    if (!sim->over && sim->settling && sim->workload &&
        !sim->workload->settled(sim->workload_state, sim))
        sim->workload->overdue(sim->workload_state, sim);
    if (!sim->over && !sim->settling)
        look_for_waiting(sim, more);
}

/* The second phase is planned like any event. It was planned first, so it comes before all else of
 * its moment. */
static void plan_settling(mare_sim *sim)
{
    mare_sim_due due = {.time_us = sim->options->duration_us, .kind = DUE_SETTLE};
    if (sim->options->settle_us)
        mare_sim_heap_push(&sim->heap, due);
}

static void begin(mare_sim *sim)
{
    const mare_coord_setup *setup = &sim->options->setup;
    unsigned promises = setup->algorithm->promises(setup);
    uint32_t count = 0;
    for (uint32_t i = 0; mare_sim_checkers[i]; i++) {
        const mare_sim_checker *checker = mare_sim_checkers[i];
        if (checker->promises && !(checker->promises & promises))
            continue;
        assert(count < MARE_SIM_CHECKERS_MAX);
        void *state = calloc(1, checker->size(sim->options) + 1);
        sim->checker_state[count] = state;
        sim->checker[count] = checker;
        sim->checkers = ++count;
        if (checker->begin)
            checker->begin(state, sim);
    }
    sim->workload = sim->options->workload;
    if (!sim->workload)
        sim->workload = mare_sim_workload_find(NULL, setup->algorithm->family);
    if (sim->workload)
        sim->workload_state = calloc(1, sim->workload->size(sim->options) + 1);
    plan_settling(sim);
    for (uint32_t i = 0; i < sim->options->faults.count; i++) {
        mare_sim_due due = {
            .time_us = sim->options->faults.fault[i].at_us, .kind = DUE_FAULT, .index = i};
        mare_sim_heap_push(&sim->heap, due);
    }
    mare__sim_populate(sim);
    if (sim->workload)
        sim->workload->begin(sim->workload_state, sim);
}

static void finish(mare_sim *sim)
{
    for (uint32_t i = 0; i < sim->checkers; i++) {
        if (sim->checker[i]->end && !sim->over)
            sim->checker[i]->end(sim->checker_state[i], sim);
    }
    sim->outcome->time_us = sim->now_us;
    sim->workload = NULL;
    mare_sim_observation seen = {.sight = MARE_SIM_VIOLATED,
                                 .process = MARE_COORD_NOBODY,
                                 .peer = MARE_COORD_NOBODY,
                                 .text = sim->outcome->violation};
    if (sim->outcome->violation[0])
        mare__sim_see(sim, &seen);
    mare__sim_see_plain(sim, MARE_SIM_ENDED, MARE_COORD_NOBODY, 0);
}

static void clean_up(mare_sim *sim)
{
    mare__sim_depopulate(sim);
    for (uint32_t i = 0; i < sim->checkers; i++)
        free(sim->checker_state[i]);
    for (uint32_t i = 0; i < sim->messages; i++) {
        free(sim->message[i].data);
        free(sim->message[i].vector);
    }
    free(sim->message);
    free(sim->last_arrival);
    free(sim->workload_state);
    free(sim->fault_active);
    free(sim->asked_us);
    free(sim->effects.list);
    free(sim->effects.bytes);
    mare_sim_heap_fini(&sim->heap);
}

int mare_sim_run(const mare_sim_options *options, mare_sim_observer *const *observers,
                 mare_sim_outcome *outcome)
{
    mare_sim sim = {.options = options,
                    .observers = observers,
                    .outcome = outcome,
                    .capacity = options->setup.capacity,
                    .free_message = UINT32_MAX,
                    .network_random = mare_sim_stream(options->seed, 1),
                    .workload_random = mare_sim_stream(options->seed, 2),
                    .life_random = mare_sim_stream(options->seed, 3)};
    memset(outcome, 0, sizeof *outcome);
    if (mare_sim_options_refuse(options, outcome->detail, sizeof outcome->detail)) {
        snprintf(outcome->violation, sizeof outcome->violation, "SET-UP");
        return 0;
    }
    mare_coord_room(&options->setup, &sim.effects.room, &sim.effects.bytes_room);
    sim.effects.list = mare_sim_realloc(NULL, sim.effects.room * sizeof *sim.effects.list);
    sim.effects.bytes = mare_sim_realloc(NULL, sim.effects.bytes_room);
    sim.process = calloc(sim.capacity, sizeof *sim.process);
    sim.asked_us = calloc(sim.capacity, sizeof *sim.asked_us);
    sim.fault_active = calloc(options->faults.count + 1, 1);
    begin(&sim);
    run(&sim);
    finish(&sim);
    clean_up(&sim);
    return outcome->violation[0] == '\0';
}

/* For workloads, checkers and observers ------------------------------------------------------- */

const mare_sim_options *mare_sim_options_of(const mare_sim *sim)
{
    return sim->options;
}

uint64_t mare_sim_now(const mare_sim *sim)
{
    return sim->now_us;
}

const mare_coord *mare_sim_machine(const mare_sim *sim, uint32_t who)
{
    return sim->process[who].machine;
}

int mare_sim_is_up(const mare_sim *sim, uint32_t who)
{
    return sim->process[who].presence >= UP;
}

int mare_sim_settling(const mare_sim *sim)
{
    return sim->settling;
}

mare_sim_random *mare_sim_workload_random(mare_sim *sim)
{
    return &sim->workload_random;
}

void mare_sim_wake(mare_sim *sim, uint32_t who, uint64_t after_us, uint32_t number)
{
    mare_sim_due due = {
        .time_us = sim->now_us + after_us, .kind = DUE_WAKE, .process = who, .index = number};
    due.serial = sim->process[who].life;
    mare_sim_heap_push(&sim->heap, due);
}

mare_coord_status mare_sim_request(mare_sim *sim, uint32_t who, mare_coord_event_kind kind,
                                   uint64_t number, const uint8_t *data, uint32_t length)
{
    mare_coord_event event = {.kind = kind, .number = number, .data = data, .length = length};
    return mare__sim_step(sim, who, event, NULL);
}
