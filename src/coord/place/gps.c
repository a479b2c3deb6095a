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
 * With exactly as many references as unknowns there are two solutions, or none, and no beginning
 * is sure to lead to both. So they are computed (Bancroft 1985): the squares of the equations less
 * that of the first are linear, which leaves a line, and the first one a quadratic equation on it.
 * A solution of the squares in which a distance would be negative is none.
 *
 * Dilution of precision is the root of the trace of the inverse normal matrix: how many times
 * larger the error of the result is than that of the ranges. A geometry that is too bad, or
 * singular, has no answer. */

#include "coord/place/fit.h"

#define STEPS 200u
#define MOST_REFERENCES 64u
#define WORST 50.0
#define TOLERANCE 1e-13 /* of the extent, and of the range where that is longer */
#define GAIN 1e-12      /* a step that changes the sum by less than this part of it is the last */
#define FLAT 1e-12      /* what is left of a row, of its largest, when it says nothing new */
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

/* The longest range as scaled: what is computed from it is rounded in proportion. */
static double longest(const struct gps *gps)
{
    double most = 1;
    for (uint32_t i = 0; i < gps->setup->count; i++)
        most = larger(most, larger(gps->sample[i].measured, -gps->sample[i].measured));
    return most;
}

/* Improves the candidate from where it is. */
static void solve(struct gps *gps, struct candidate *candidate)
{
    struct mare__fit fit = {.sample = gps->sample,
                            .count = gps->setup->count,
                            .dimensions = gps->setup->dimensions,
                            .with_height = gps->setup->bias,
                            .least = -1e300,
                            .steps = STEPS,
                            .tolerance = TOLERANCE * longest(gps),
                            .gain = GAIN};
    mare__fit_run(&fit, &candidate->at, &candidate->end);
    gps->steps += candidate->end.steps;
}

/* Beginnings: the caller's point or the middle, then to and fro along each axis. */
static void solve_from(struct gps *gps, uint32_t start, struct candidate *candidate)
{
    candidate->at = gps->near;
    if (start > 0)
        candidate->at.x[(start - 1) / 2] += start % 2 ? 1.5 : -1.5;
    for (uint32_t k = 0; k < gps->setup->dimensions; k++) /* off every plane of symmetry */
        candidate->at.x[k] += 1e-3 * (k + 1);
    candidate->at.height = gps->setup->bias ? bias_at(gps, candidate->at.x) : 0;
    solve(gps, candidate);
}

/* As many references as unknowns ----------------------------------------------------------------
 */

/* Unknowns are counted from the first reference: x - x_0, and the bias less the first range. */
struct line {
    double at[MARE__FIT_UNKNOWNS], along[MARE__FIT_UNKNOWNS];
};

static uint32_t unknowns_of(const struct gps *gps)
{
    return gps->setup->dimensions + (gps->setup->bias ? 1 : 0);
}

static double range_of(const struct gps *gps, uint32_t i)
{
    return gps->sample[i].measured - gps->sample[i].height;
}

/* Row i of the linear equations, the right side behind the unknowns: the square of range i + 1 less
 * that of range 0. */
static void write_row(const struct gps *gps, uint32_t i, double *row)
{
    uint32_t n = gps->setup->dimensions;
    double first = range_of(gps, 0), range = range_of(gps, i + 1), square = 0;
    for (uint32_t k = 0; k < n; k++) {
        row[k] = gps->sample[i + 1].x[k] - gps->sample[0].x[k];
        square += row[k] * row[k];
    }
    if (gps->setup->bias) {
        row[n++] = first - range;
        square -= (first - range) * (first - range);
    } else {
        square += (first - range) * (first + range);
    }
    row[n] = square / 2;
}

/* The largest number left in columns without a pivot, of the rows from `first` on. */
static double find_pivot(double rows[][MARE__FIT_UNKNOWNS + 1], uint32_t first, uint32_t n,
                         const int *taken, uint32_t *row, uint32_t *column)
{
    double most = 0;
    for (uint32_t i = first; i + 1 < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            double size = larger(rows[i][k], -rows[i][k]);
            if (!taken[k] && size > most) {
                most = size;
                *row = i;
                *column = k;
            }
        }
    }
    return most;
}

/* Row `from` leaves column `column` of all others empty. */
static void eliminate(double rows[][MARE__FIT_UNKNOWNS + 1], uint32_t from, uint32_t column,
                      uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++) {
        double times = rows[i][column] / rows[from][column];
        for (uint32_t k = 0; i != from && k <= n; k++)
            rows[i][k] -= times * rows[from][k];
    }
}

/* The line on which the linear equations hold. Returns 0 when they leave more than a line. */
static int find_line(const struct gps *gps, struct line *line)
{
    double rows[MARE__FIT_UNKNOWNS][MARE__FIT_UNKNOWNS + 1], largest = 0;
    uint32_t n = unknowns_of(gps), pivot[MARE__FIT_UNKNOWNS] = {0}, row = 0, left = 0;
    int taken[MARE__FIT_UNKNOWNS] = {0};
    for (uint32_t i = 0; i + 1 < n; i++)
        write_row(gps, i, rows[i]);
    for (uint32_t i = 0; i + 1 < n; i++) {
        double most = find_pivot(rows, i, n, taken, &row, &pivot[i]);
        largest = larger(largest, most);
        if (!(most > FLAT * largest))
            return 0;
        for (uint32_t k = 0; k <= n; k++) {
            double swapped = rows[i][k];
            rows[i][k] = rows[row][k];
            rows[row][k] = swapped;
        }
        taken[pivot[i]] = 1;
        eliminate(rows, i, pivot[i], n);
    }
    while (taken[left])
        left++;
    *line = (struct line){.at = {0}};
    line->along[left] = 1;
    for (uint32_t i = 0; i + 1 < n; i++) {
        line->at[pivot[i]] = rows[i][n] / rows[i][pivot[i]];
        line->along[pivot[i]] = -rows[i][left] / rows[i][pivot[i]];
    }
    return 1;
}

/* What the first equation is made of: distances squared less the bias squared. */
static double product(const struct gps *gps, const double *a, const double *b)
{
    double sum = 0;
    for (uint32_t k = 0; k < gps->setup->dimensions; k++)
        sum += a[k] * b[k];
    return gps->setup->bias ? sum - a[gps->setup->dimensions] * b[gps->setup->dimensions] : sum;
}

/* The point at `t` of the line. Returns whether no distance to it is negative. */
static int point_of(const struct gps *gps, const struct line *line, double t, mare_coord_place *at)
{
    uint32_t n = gps->setup->dimensions;
    *at = (mare_coord_place){0};
    for (uint32_t k = 0; k < n; k++)
        at->x[k] = gps->sample[0].x[k] + line->at[k] + t * line->along[k];
    if (gps->setup->bias)
        at->height = range_of(gps, 0) + line->at[n] + t * line->along[n];
    int good = finite_number(at->height);
    for (uint32_t k = 0; k < n; k++)
        good &= finite_number(at->x[k]);
    for (uint32_t i = 0; i < gps->setup->count; i++)
        good &= range_of(gps, i) - at->height >= -1e-9 * longest(gps);
    return good;
}

/* The positions at which all ranges are met exactly. Returns how many there are, at most two. */
static uint32_t find_roots(const struct gps *gps, struct candidate *root)
{
    struct line line;
    uint32_t count = 0;
    if (gps->setup->count != unknowns_of(gps) || !find_line(gps, &line))
        return 0;
    double first = gps->setup->bias ? 0 : range_of(gps, 0);
    double a = product(gps, line.along, line.along), b = product(gps, line.along, line.at);
    double c = product(gps, line.at, line.at) - first * first;
    double square = b * b - a * c, rounding = 1e-14 * (b * b + larger(a * c, -a * c));
    if (!(square >= -rounding))
        return 0;
    double z = mare__square_root(larger(square, 0)); /* without subtracting what is alike */
    z = b < 0 ? z - b : -z - b;
    count += point_of(gps, &line, z / a, &root[0].at) ? 1 : 0;
    count += point_of(gps, &line, c / z, &root[count].at) ? 1 : 0;
    return count;
}

/* Which of the exact positions is meant. */
static mare_coord_fix_end choose_root(struct gps *gps, struct candidate *root, uint32_t roots,
                                      struct candidate *best)
{
    uint32_t n = gps->setup->dimensions;
    for (uint32_t i = 0; i < roots; i++)
        solve(gps, &root[i]);
    *best = root[0];
    if (roots == 2 && mare__distance(root[0].at.x, root[1].at.x, n) > APART) {
        if (!gps->setup->near)
            return MARE_COORD_FIX_AMBIGUOUS;
        if (mare__distance(root[1].at.x, gps->near.x, n) <
            mare__distance(root[0].at.x, gps->near.x, n))
            *best = root[1];
    }
    return best->end.settled ? MARE_COORD_FIX_OK : MARE_COORD_FIX_LOST;
}

/* Any number of references ----------------------------------------------------------------------
 */

/* The variance of each unknown for ranges with variance 1, added up in `position` and `bias`.
 * Returns 0 when the matrix has no inverse. */
static int dilute(const struct gps *gps, const struct candidate *candidate, double *position,
                  double *bias)
{
    uint32_t n = unknowns_of(gps);
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
    struct candidate root[2];
    int twice = 0;
    uint32_t n = gps->setup->dimensions, roots = find_roots(gps, root);
    if (roots > 0)
        return choose_root(gps, root, roots, best);
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
    uint32_t unknowns = unknowns_of(gps);
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
