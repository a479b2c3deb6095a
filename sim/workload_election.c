/* SPDX-License-Identifier: MIT */

/* The workload of elections: now and then a process calls one.
 *
 *     waiting ── wake ──▶ calls ──▶ waiting …      up to `rounds` times, the first `entrants`
 *
 * In the second phase nobody calls any more. There are two exceptions: one process calls if none
 * ever has; and all call where a superpeer is looked up only by a call, because without `repair`
 * nothing happens by itself. Within the bound all members must agree by themselves, and go on
 * agreeing for a while. If an algorithm promises one leader, that means: in each part of the
 * network that hangs together, everybody takes the same process for leader, in the same epoch, and
 * it is the best of those that are up (by the parameter `capacity` where the algorithm has it, then
 * by number). The others choose superpeers: everybody has one, it is up, and it knows. */

#include "sim/workload.h"

#include <inttypes.h>
#include <string.h>

#define POLL_US 20000u
#define STEADY 5u       /* polls in a row that must find agreement */
#define PACE 20u        /* calls are rare: this many times think_us */
#define POLL UINT32_MAX /* the number of a wake that only looks */

typedef struct election {
    uint32_t steady, calls;
    const char *wrong; /* what is missing, when something is */
    uint32_t about;
    uint32_t member[]; /* by process: calls made; in polls: which part of the network */
} election;

static size_t size(const mare_sim_options *options)
{
    return sizeof(election) + 3 * options->setup.capacity * sizeof(uint32_t);
}

static void plan(election *e, mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    uint32_t entrants = options->entrants ? options->entrants : options->setup.capacity;
    if (process >= entrants || (options->rounds && e->member[process] >= options->rounds))
        return;
    mare_sim_wake(
        sim, process,
        mare_sim_exponential(mare_sim_workload_random(sim), PACE * (options->think_us + 1000)), 0);
}

static void begin(void *state, mare_sim *sim)
{
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.members; i++)
        plan(state, sim, i);
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    if (seen->sight == MARE_SIM_RESTARTED || seen->sight == MARE_SIM_JOINED)
        plan(state, sim, seen->process);
}

/* Agreement ------------------------------------------------------------------------------------ */

static int64_t weight_of(const mare_coord *machine)
{
    return mare_sim_param_of(mare_coord_setup_of(machine), "capacity", 0);
}

static int has_one_leader(const mare_coord_setup *setup)
{
    return (setup->algorithm->promises(setup) & MARE_COORD_ONE_LEADER) != 0;
}

static int are_linked(const mare_sim *sim, uint32_t a, uint32_t b)
{
    const mare_sim_hooks *hooks = &mare_sim_options_of(sim)->hooks;
    return !hooks->linked || hooks->linked(hooks->context, a, b);
}

static int complain(election *e, const char *wrong, uint32_t about)
{
    e->wrong = wrong;
    e->about = about;
    return 0;
}

/* Walks the part of the network that `first` belongs to; nonzero when all of it agree. */
static int part_agrees(election *e, mare_sim *sim, uint32_t first, uint32_t *part, uint32_t *queue)
{
    uint32_t capacity = mare_sim_options_of(sim)->setup.capacity, head = 0, tail = 0, best = first;
    mare_coord_view common, view;
    mare_coord_look(mare_sim_machine(sim, first), &common);
    part[first] = first + 1;
    queue[tail++] = first;
    while (head < tail) {
        uint32_t at = queue[head++];
        mare_coord_look(mare_sim_machine(sim, at), &view);
        if (view.leader == MARE_COORD_NOBODY)
            return complain(e, "knows no leader", at);
        if (view.leader != common.leader || view.epoch != common.epoch)
            return complain(e, "has another leader or epoch than others", at);
        int64_t more = weight_of(mare_sim_machine(sim, at));
        more -= weight_of(mare_sim_machine(sim, best));
        best = more > 0 || (more == 0 && at > best) ? at : best;
        for (uint32_t i = 0; i < capacity; i++) {
            if (!part[i] && mare_sim_is_up(sim, i) && are_linked(sim, at, i)) {
                part[i] = first + 1;
                queue[tail++] = i;
            }
        }
    }
    return common.leader == best ? 1 : complain(e, "is the best, but does not lead", best);
}

static int one_leader(election *e, mare_sim *sim)
{
    uint32_t capacity = mare_sim_options_of(sim)->setup.capacity;
    uint32_t *part = e->member + capacity, *queue = part + capacity;
    memset(part, 0, capacity * sizeof *part);
    for (uint32_t i = 0; i < capacity; i++) {
        if (!part[i] && mare_sim_is_up(sim, i) && !part_agrees(e, sim, i, part, queue))
            return 0;
    }
    return 1;
}

static int all_served(election *e, mare_sim *sim)
{
    mare_coord_view view, above;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (!mare_sim_is_up(sim, i))
            continue;
        mare_coord_look(mare_sim_machine(sim, i), &view);
        if (view.leader == MARE_COORD_NOBODY || !mare_sim_is_up(sim, view.leader))
            return complain(e, "has no superpeer that is up", i);
        mare_coord_look(mare_sim_machine(sim, view.leader), &above);
        if (above.leader != view.leader)
            return complain(e, "is a superpeer and does not know", view.leader);
    }
    return 1;
}

static int agreed(election *e, mare_sim *sim)
{
    return has_one_leader(&mare_sim_options_of(sim)->setup) ? one_leader(e, sim)
                                                            : all_served(e, sim);
}

/* Wakes ---------------------------------------------------------------------------------------- */

static void wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    election *e = state;
    if (number == POLL) {
        e->steady = agreed(e, sim) ? e->steady + 1 : 0;
        mare_sim_wake(sim, process, POLL_US, POLL);
        return;
    }
    if (mare_sim_settling(sim) && number == 0)
        return;
    e->calls++;
    e->member[process]++;
    mare_sim_request(sim, process, MARE_COORD_ELECT, 0, NULL, 0);
    if (!mare_sim_settling(sim))
        plan(e, sim, process);
}

static void settle(void *state, mare_sim *sim)
{
    const mare_coord_setup *setup = &mare_sim_options_of(sim)->setup;
    uint32_t capacity = setup->capacity, up = 0;
    const election *e = state;
    int each_for_itself = !has_one_leader(setup) && !mare_sim_param_of(setup, "repair", 1);
    for (uint32_t i = 0; i < capacity; i++) {
        up += (uint32_t)mare_sim_is_up(sim, i);
        if (each_for_itself && mare_sim_is_up(sim, i))
            mare_sim_wake(sim, i, 0, 1);
    }
    uint64_t chosen = up ? mare_sim_below(mare_sim_workload_random(sim), up) : 0;
    for (uint32_t i = 0; i < capacity; i++) {
        if (mare_sim_is_up(sim, i) && chosen-- == 0) {
            if (!e->calls)
                mare_sim_wake(sim, i, 0, 1);
            mare_sim_wake(sim, i, POLL_US, POLL);
        }
    }
}

static int settled(void *state, mare_sim *sim)
{
    const election *e = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (mare_sim_is_up(sim, i))
            return e->steady >= STEADY;
    }
    return 1; /* nobody is left */
}

static void overdue(void *state, mare_sim *sim)
{
    const election *e = state;
    mare_sim_violate(sim, "AGREEMENT", "p%" PRIu32 " %s", e->about,
                     e->wrong ? e->wrong : "was never asked");
}

const mare_sim_workload mare_sim_workload_election = {
    .name = "election",
    .family = MARE_COORD_ELECTION,
    .size = size,
    .begin = begin,
    .see = see,
    .wake = wake,
    .settle = settle,
    .settled = settled,
    .overdue = overdue,
};
