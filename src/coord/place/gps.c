/* SPDX-License-Identifier: MIT */

/* A position from references, as GPS does it: ranges to known places, all of them too long or too
 * short by the error of the receiver's clock (Tanenbaum and Van Steen, 6.1.2).
 *
 *     range_i = |x - x_i| + bias
 *
 * With m coordinates and the bias there are m + 1 unknowns. Everything is moved to the middle of
 * the references and divided by their extent, so that metres and light-seconds are alike and
 * nothing large is subtracted from something large. The fit begins at several points; if two ends
 * are equally good and apart, the caller's `near` decides, or the fix is ambiguous (two circles
 * meet in two points; references in a plane cannot tell above from below).
 *
 * Dilution of precision is the root of the trace of the inverse normal matrix: how many times
 * larger the error of the result is than that of the ranges. A geometry that is too bad, or
 * singular, has no answer. */

#include "coord/place/fit.h"

#define STEPS 200u
#define MOST_REFERENCES 64u
#define WORST 50.0
#define TOLERANCE 1e-13 /* of the extent */
#define APART 1e-6      /* ends farther from each other than this are two */
#define FITS 1e-18      /* a mean square below this is rounding */

struct gps {
    const mare_coord_fix_setup *setup;
    struct mare__sample sample[MOST_REFERENCES];
    double middle[MARE_COORD_DIMENSIONS], extent, shift; /* shift: taken off every range */
    mare_coord_place near;
    uint32_t steps;
};

struct candidate {
    mare_coord_place at;
    struct mare__fit_end end;
};

const char *mare_coord_fix_end_name(mare_coord_fix_end end)
{
    static const char *const names[] = {"ok",       "too few references", "absurd numbers",
                                        "geometry", "ambiguous",          "lost"};
    return (unsigned)end < sizeof names / sizeof *names ? names[end] : "?";
}

static int finite_number(double x)
{
    return x - x == 0;
}

static int makes_sense(const mare_coord_fix_setup *setup)
{
    if (setup->dimensions < 1 || setup->dimensions > MARE_COORD_DIMENSIONS ||
        setup->count > MOST_REFERENCES || !(setup->worst >= 0))
        return 0;
    for (uint32_t k = 0; setup->near && k < setup->dimensions; k++) {
        if (!finite_number(setup->near->x[k]))
            return 0;
    }
    for (uint32_t i = 0; i < setup->count; i++) {
        int good = finite_number(setup->range[i]) && finite_number(setup->reference[i].height);
        for (uint32_t k = 0; k < setup->dimensions; k++)
            good &= finite_number(setup->reference[i].x[k]);
        if (!good || (!setup->bias && setup->range[i] < 0))
            return 0;
    }
    return 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The middle of the references and the farthest from it; 0 when all stand on one point. */
static void measure(struct gps *gps)
{
    const mare_coord_fix_setup *setup = gps->setup;
    for (uint32_t i = 0; i < setup->count; i++) {
        for (uint32_t k = 0; k < setup->dimensions; k++)
            gps->middle[k] += setup->reference[i].x[k] / setup->count;
        gps->shift += setup->bias ? setup->range[i] / setup->count : 0;
    }
    for (uint32_t i = 0; i < setup->count; i++)
        gps->extent = larger(gps->extent,
                             mare__distance(setup->reference[i].x, gps->middle, setup->dimensions));
}

static void scale(struct gps *gps)
{
    const mare_coord_fix_setup *setup = gps->setup;
    for (uint32_t i = 0; i < setup->count; i++) {
        struct mare__sample *s = &gps->sample[i];
        *s = (struct mare__sample){.weight = 1};
        for (uint32_t k = 0; k < setup->dimensions; k++)
            s->x[k] = (setup->reference[i].x[k] - gps->middle[k]) / gps->extent;
        s->height = setup->reference[i].height / gps->extent;
        s->measured = (setup->range[i] - gps->shift) / gps->extent;
    }
    for (uint32_t k = 0; setup->near && k < setup->dimensions; k++)
        gps->near.x[k] = (setup->near->x[k] - gps->middle[k]) / gps->extent;
}

/* The bias that fits best where one begins. */
static double bias_at(const struct gps *gps, const double *x)
{
    double sum = 0;
    for (uint32_t i = 0; i < gps->setup->count; i++) {
        const struct mare__sample *s = &gps->sample[i];
        sum += s->measured - s->height - mare__distance(x, s->x, gps->setup->dimensions);
    }
    return sum / gps->setup->count;
}

/* Beginnings: the caller's point or the middle, then to and fro along each axis. */
static void solve_from(struct gps *gps, uint32_t start, struct candidate *candidate)
{
    struct mare__fit fit = {.sample = gps->sample,
                            .count = gps->setup->count,
                            .dimensions = gps->setup->dimensions,
                            .with_height = gps->setup->bias,
                            .least = -1e300,
                            .steps = STEPS,
                            .tolerance = TOLERANCE};
    candidate->at = gps->near;
    if (start > 0)
        candidate->at.x[(start - 1) / 2] += start % 2 ? 1.5 : -1.5;
    for (uint32_t k = 0; k < fit.dimensions; k++) /* off every plane of symmetry */
        candidate->at.x[k] += 1e-3 * (k + 1);
    candidate->at.height = gps->setup->bias ? bias_at(gps, candidate->at.x) : 0;
    mare__fit_run(&fit, &candidate->at, &candidate->end);
    gps->steps += candidate->end.steps;
}

/* The variance of each unknown for ranges with variance 1, added up in `position` and `bias`.
 * Returns 0 when the matrix has no inverse. */
static int dilute(const struct gps *gps, const struct candidate *candidate, double *position,
                  double *bias)
{
    uint32_t n = gps->setup->dimensions + (gps->setup->bias ? 1 : 0);
    *position = *bias = 0;
    for (uint32_t i = 0; i < n; i++) {
        double matrix[MARE__FIT_UNKNOWNS][MARE__FIT_UNKNOWNS], column[MARE__FIT_UNKNOWNS] = {0};
        for (uint32_t j = 0; j < n; j++) {
            for (uint32_t k = 0; k < n; k++)
                matrix[j][k] = candidate->end.normal[j][k];
        }
        column[i] = 1;
        if (!mare__solve(matrix, column, n, 1e-14))
            return 0;
        *(i < gps->setup->dimensions ? position : bias) += column[i];
    }
    return 1;
}

static double mean_square(const struct gps *gps, const struct candidate *candidate)
{
    return candidate->end.cost / gps->setup->count;
}

static int clearly_better(const struct gps *gps, const struct candidate *a,
                          const struct candidate *b)
{
    if (a->end.settled != b->end.settled)
        return a->end.settled;
    return mean_square(gps, a) * (1 + 1e-6) + FITS < mean_square(gps, b);
}

/* The best end in `best`. Of equals, with `near`, the nearest to it. */
static mare_coord_fix_end search(struct gps *gps, struct candidate *best)
{
    int twice = 0;
    uint32_t n = gps->setup->dimensions;
    solve_from(gps, 0, best);
    for (uint32_t start = 1; start <= 2 * n; start++) {
        struct candidate next;
        solve_from(gps, start, &next);
        int better = clearly_better(gps, &next, best);
        int equal = !better && !clearly_better(gps, best, &next) &&
                    mare__distance(next.at.x, best->at.x, n) > APART;
        int nearer = gps->setup->near && mare__distance(next.at.x, gps->near.x, n) <
                                             mare__distance(best->at.x, gps->near.x, n);
        twice = better ? 0 : twice || equal;
        if (better || (equal && nearer))
            *best = next;
    }
    if (!best->end.settled)
        return MARE_COORD_FIX_LOST;
    return twice && !gps->setup->near ? MARE_COORD_FIX_AMBIGUOUS : MARE_COORD_FIX_OK;
}

static void report(const struct gps *gps, const struct candidate *best, mare_coord_fix *fix)
{
    const mare_coord_fix_setup *setup = gps->setup;
    uint32_t unknowns = setup->dimensions + (setup->bias ? 1 : 0);
    for (uint32_t k = 0; k < setup->dimensions; k++)
        fix->at.x[k] = best->at.x[k] * gps->extent + gps->middle[k];
    fix->at.height = setup->bias ? best->at.height * gps->extent + gps->shift : 0;
    fix->residual =
        setup->count > unknowns
            ? mare__square_root(best->end.cost / (setup->count - unknowns)) * gps->extent
            : 0;
}

mare_coord_fix_end mare_coord_fix_solve(const mare_coord_fix_setup *setup, mare_coord_fix *fix)
{
    struct gps gps = {.setup = setup};
    struct candidate best;
    double position, bias;
    *fix = (mare_coord_fix){.dilution = __builtin_inf()};
    if (!makes_sense(setup))
        return MARE_COORD_FIX_ABSURD;
    if (setup->count < setup->dimensions + (setup->bias ? 1u : 0u))
        return MARE_COORD_FIX_FEW;
    measure(&gps);
    if (!(gps.extent > 0) || !finite_number(gps.extent))
        return MARE_COORD_FIX_GEOMETRY;
    scale(&gps);
    mare_coord_fix_end end = search(&gps, &best);
    fix->steps = gps.steps;
    int regular = dilute(&gps, &best, &position, &bias);
    if (regular) {
        fix->dilution = mare__square_root(position + bias);
        fix->position_dilution = mare__square_root(position);
        fix->bias_dilution = mare__square_root(bias);
    }
    if (!regular || fix->dilution > (setup->worst > 0 ? setup->worst : WORST))
        return MARE_COORD_FIX_GEOMETRY;
    if (end == MARE_COORD_FIX_OK)
        report(&gps, &best, fix);
    return end;
}
