/* SPDX-License-Identifier: MIT */

/* GNP: global network positioning with landmarks.
 *
 * Landmarks measure each other, and one computes places for all of them that minimise the sum of
 * squared relative errors (Ng and Zhang 2002; Tanenbaum and Van Steen, 6.4). Every other node
 * measures its round trips to the landmarks and minimises the same sum over them for itself.
 *
 * The second problem has m unknowns and is one fit (fit.c). The first has L m, and is solved by
 * rounds: each landmark in turn is fitted to the others where they are, which lowers the whole sum
 * every time, until a round gains next to nothing. There are many hollows to end in, the worse the
 * more triangles are broken, hence several beginnings; the best end is kept.
 *
 *     begin at random --> round, round, ... --> sum   \
 *     begin at random --> round, round, ... --> sum    >  least sum
 *     ...                                             /
 *
 * All is scaled by the mean round trip, so that the tolerances mean the same for a rack and for a
 * planet. */

#include "coord/place/fit.h"

#include <string.h>

#define STARTS 12u
#define PRESSES 60u /* rounds from the space with room to spare to the one that is wanted */
#define PRESS 0.9   /* what is left of the other dimensions after each */
#define ROUNDS 1000u
#define GAIN 1e-8 /* a round that lowers the sum by less than this part of it is the last */
#define FIT_STEPS 8u
#define PLACE_STEPS 60u
#define HEIGHT_LEAST 0.0

struct work {
    const mare_coord_gnp_setup *setup;
    struct mare__sample *sample; /* of one node towards the landmarks */
    mare_coord_place *best;
    uint64_t random;
    double scale; /* the mean round trip */
};

void mare_coord_gnp_setup_init(mare_coord_gnp_setup *setup, uint32_t landmarks)
{
    uint32_t most = landmarks > 1 ? landmarks - 1 : 1;
    *setup = (mare_coord_gnp_setup){
        .dimensions = most < 7 ? most : 7, .landmarks = landmarks, .starts = STARTS};
}

size_t mare_coord_gnp_size(const mare_coord_gnp_setup *setup)
{
    if (setup->dimensions < 1 || setup->dimensions > MARE_COORD_DIMENSIONS ||
        setup->landmarks <= setup->dimensions || setup->landmarks > 65536 || setup->starts < 1 ||
        !(setup->robust >= 0))
        return 0;
    return setup->landmarks * (sizeof(struct mare__sample) + sizeof(mare_coord_place));
}

static mare_coord_status begin(struct work *work, const mare_coord_gnp_setup *setup, void *memory,
                               size_t size)
{
    size_t wanted = mare_coord_gnp_size(setup);
    if (wanted == 0)
        return MARE_COORD_REFUSED;
    if (size < wanted)
        return MARE_COORD_NOROOM;
    *work = (struct work){.setup = setup, .sample = memory, .random = setup->seed};
    work->best = (mare_coord_place *)(work->sample + setup->landmarks);
    return MARE_COORD_OK;
}

static int measured(double rtt)
{
    return rtt > 0 && rtt < 1e12;
}

/* Both directions of a pair, as one number; 0 when there is none. */
static double pair(const double *rtt, uint32_t n, uint32_t i, uint32_t j)
{
    double a = rtt[(size_t)i * n + j], b = rtt[(size_t)j * n + i];
    if (measured(a) && measured(b))
        return (a + b) / 2;
    return measured(a) ? a : measured(b) ? b : 0;
}

/* The mean round trip, or 0 if some landmark has not measured enough. */
static double scale_of(const mare_coord_gnp_setup *setup, const double *rtt)
{
    double sum = 0, pairs = 0;
    for (uint32_t i = 0; i < setup->landmarks; i++) {
        uint32_t own = 0;
        for (uint32_t j = 0; j < setup->landmarks; j++) {
            double d = i == j ? 0 : pair(rtt, setup->landmarks, i, j);
            own += d > 0;
            sum += d;
            pairs += d > 0;
        }
        if (own < setup->dimensions)
            return 0;
    }
    return pairs > 0 ? sum / pairs : 0;
}

static void add_sample(struct work *work, uint32_t *count, const mare_coord_place *at, double rtt)
{
    struct mare__sample *s = &work->sample[(*count)++];
    memcpy(s->x, at->x, sizeof s->x);
    s->height = work->setup->height ? at->height : 0;
    s->measured = rtt;
    s->weight = 1 / (rtt * rtt);
}

static double fit(struct work *work, uint32_t count, uint32_t dimensions, uint32_t steps,
                  mare_coord_place *place)
{
    struct mare__fit_end end;
    struct mare__fit fit = {.sample = work->sample,
                            .count = count,
                            .dimensions = dimensions,
                            .with_height = work->setup->height,
                            .least = HEIGHT_LEAST,
                            .robust = work->setup->robust,
                            .steps = steps,
                            .tolerance = 1e-10};
    mare__fit_run(&fit, place, &end);
    return end.cost;
}

/* Landmarks ------------------------------------------------------------------------------------ */

/* Each landmark in turn. Returns the sum, in which every pair has been counted twice. */
static double one_round(struct work *work, const double *rtt, uint32_t dimensions,
                        mare_coord_place *places)
{
    double sum = 0;
    uint32_t n = work->setup->landmarks;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < n; j++) {
            double d = i == j ? 0 : pair(rtt, n, i, j);
            if (d > 0)
                add_sample(work, &count, &places[j], d / work->scale);
        }
        sum += fit(work, count, dimensions, FIT_STEPS, &places[i]);
    }
    return sum / 2;
}

/* In a space with room to spare hardly any hollow is in the way: begins there, and presses the
 * dimensions that are not wanted flat. */
static void unfold(struct work *work, const double *rtt, mare_coord_place *places)
{
    uint32_t n = work->setup->landmarks, wanted = work->setup->dimensions;
    for (uint32_t i = 0; i < n; i++) {
        places[i] = (mare_coord_place){0};
        for (uint32_t k = 0; k < MARE_COORD_DIMENSIONS; k++)
            places[i].x[k] = mare__place_uniform(&work->random);
    }
    for (uint32_t round = 0; round < PRESSES; round++) {
        one_round(work, rtt, MARE_COORD_DIMENSIONS, places);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = wanted; k < MARE_COORD_DIMENSIONS; k++)
                places[i].x[k] *= round + 1 < PRESSES ? PRESS : 0;
        }
    }
}

static double one_start(struct work *work, const double *rtt, mare_coord_place *places)
{
    unfold(work, rtt, places);
    double sum = one_round(work, rtt, work->setup->dimensions, places);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double next = one_round(work, rtt, work->setup->dimensions, places);
        int done = sum - next <= GAIN * sum && next <= sum;
        sum = next;
        if (done)
            break;
    }
    return sum;
}

static double square(double x)
{
    return x * x;
}

/* Back to milliseconds; the error of each is the root of its mean squared relative error. */
static double finish(struct work *work, const double *rtt, mare_coord_place *places)
{
    double all = 0;
    uint32_t n = work->setup->landmarks;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < work->setup->dimensions; k++)
            places[i].x[k] *= work->scale;
        places[i].height *= work->scale;
    }
    for (uint32_t i = 0; i < n; i++) {
        double own = 0, pairs = 0;
        for (uint32_t j = 0; j < n; j++) {
            double d = i == j ? 0 : pair(rtt, n, i, j);
            if (d > 0) {
                own += square(mare_coord_place_distance(&places[i], &places[j]) / d - 1);
                pairs++;
            }
        }
        places[i].error = mare__square_root(own / pairs);
        all += own / 2;
    }
    return all;
}

mare_coord_status mare_coord_gnp_landmarks(const mare_coord_gnp_setup *setup, const double *rtt,
                                           void *memory, size_t size, mare_coord_place *places,
                                           double *sum)
{
    struct work work;
    mare_coord_status status = begin(&work, setup, memory, size);
    if (status != MARE_COORD_OK)
        return status;
    work.scale = scale_of(setup, rtt);
    if (!(work.scale > 0))
        return MARE_COORD_REFUSED;
    double least = 0;
    for (uint32_t start = 0; start < setup->starts; start++) {
        double got = one_start(&work, rtt, places);
        if (start == 0 || got < least) {
            least = got;
            memcpy(work.best, places, setup->landmarks * sizeof *places);
        }
    }
    memcpy(places, work.best, setup->landmarks * sizeof *places);
    *sum = finish(&work, rtt, places);
    return MARE_COORD_OK;
}

/* Another node --------------------------------------------------------------------------------- */

/* The beginnings of a node: at the nearest landmark, then at others, then anywhere. */
static void begin_at(struct work *work, uint32_t start, uint32_t count, uint32_t nearest,
                     mare_coord_place *place)
{
    const struct mare__sample *from = &work->sample[start == 0 ? nearest : (start - 1) % count];
    *place = (mare_coord_place){0};
    for (uint32_t k = 0; k < work->setup->dimensions; k++)
        place->x[k] = from->x[k] + 0.1 * from->measured * mare__place_uniform(&work->random);
}

/* Whether every landmark that was measured is at a place that can be one. */
static int landmarks_valid(const mare_coord_gnp_setup *setup, const mare_coord_place *landmark,
                           const double *rtt)
{
    uint32_t i = 0;
    while (i < setup->landmarks && (!measured(rtt[i]) || mare_coord_place_valid(&landmark[i])))
        i++;
    return i == setup->landmarks;
}

static uint32_t gather(struct work *work, const mare_coord_place *landmark, const double *rtt,
                       uint32_t *nearest)
{
    uint32_t count = 0;
    double sum = 0, known = 0;
    for (uint32_t i = 0; i < work->setup->landmarks; i++) {
        sum += measured(rtt[i]) ? rtt[i] : 0;
        known += measured(rtt[i]);
    }
    work->scale = known > 0 ? sum / known : 1;
    *nearest = 0;
    for (uint32_t i = 0; i < work->setup->landmarks; i++) {
        mare_coord_place at = landmark[i];
        if (!measured(rtt[i]))
            continue;
        for (uint32_t k = 0; k < MARE_COORD_DIMENSIONS; k++)
            at.x[k] /= work->scale;
        at.height /= work->scale;
        add_sample(work, &count, &at, rtt[i] / work->scale);
        if (work->sample[count - 1].measured < work->sample[*nearest].measured)
            *nearest = count - 1;
    }
    return count;
}

mare_coord_status mare_coord_gnp_place(const mare_coord_gnp_setup *setup,
                                       const mare_coord_place *landmark, const double *rtt,
                                       void *memory, size_t size, mare_coord_place *place,
                                       double *sum)
{
    struct work work;
    mare_coord_status status = begin(&work, setup, memory, size);
    if (status != MARE_COORD_OK)
        return status;
    if (!landmarks_valid(setup, landmark, rtt))
        return MARE_COORD_REFUSED;
    uint32_t nearest, count = gather(&work, landmark, rtt, &nearest);
    if (count <= setup->dimensions)
        return MARE_COORD_REFUSED;
    for (uint32_t start = 0; start < setup->starts; start++) {
        mare_coord_place end;
        begin_at(&work, start, count, nearest, &end);
        double got = fit(&work, count, setup->dimensions, PLACE_STEPS, &end);
        if (start == 0 || got < *sum) {
            *sum = got;
            *place = end;
        }
    }
    for (uint32_t k = 0; k < setup->dimensions; k++)
        place->x[k] *= work.scale;
    place->height *= work.scale;
    place->error = mare__square_root(*sum / count);
    return MARE_COORD_OK;
}

/* Choice --------------------------------------------------------------------------------------- */

/* What a node at this distance from its nearest landmark costs. The fourth root: how many times
 * farther counts, not how many milliseconds, so that no landmark is spent on who is far from all.
 */
static double cost_of(double distance)
{
    return mare__square_root(mare__square_root(distance));
}

static double nearer(const double *rtt, uint32_t n, uint32_t node, uint32_t candidate, double cost)
{
    double d = node == candidate ? 0 : pair(rtt, n, node, candidate);
    if (node != candidate && d <= 0)
        return cost;
    d = cost_of(d);
    return d < cost ? d : cost;
}

void mare_coord_gnp_spread(const double *rtt, uint32_t n, uint32_t count, double *scratch,
                           uint32_t *chosen)
{
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = 1e6;
    for (uint32_t k = 0; k < count; k++) {
        double least = 0;
        for (uint32_t candidate = 0; candidate < n; candidate++) {
            double sum = 0;
            for (uint32_t i = 0; i < n; i++)
                sum += nearer(rtt, n, i, candidate, scratch[i]);
            if (candidate == 0 || sum < least) {
                least = sum;
                chosen[k] = candidate;
            }
        }
        for (uint32_t i = 0; i < n; i++)
            scratch[i] = nearer(rtt, n, i, chosen[k], scratch[i]);
    }
}
