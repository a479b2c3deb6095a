/* SPDX-License-Identifier: MIT */

/* A place by nonlinear least squares: Gauss-Newton steps with Levenberg's and Marquardt's damping.
 *
 * There are at most nine unknowns, so that a step is a 9 x 9 system on the stack. A step that makes
 * the sum worse is taken back and tried shorter; one that makes it better lets the next be longer.
 * With `robust`, a residual beyond that fraction of what was measured gets the weight that makes
 * its pull constant (Huber), recomputed at each step. Units are the caller's, who scales them when
 * the numbers are large: see gps.c. */

#include "coord/place/fit.h"

#define DAMP_FIRST 1e-3
#define DAMP_LEAST 1e-12
#define DAMP_MOST 1e8

struct system {
    double matrix[MARE__FIT_UNKNOWNS][MARE__FIT_UNKNOWNS];
    double right[MARE__FIT_UNKNOWNS];
};

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

int mare__solve(double matrix[][MARE__FIT_UNKNOWNS], double *right, uint32_t n, double least)
{
    for (uint32_t j = 0; j < n; j++) {
        double pivot = matrix[j][j];
        for (uint32_t k = 0; k < j; k++)
            pivot -= matrix[j][k] * matrix[j][k];
        if (!(pivot > least * matrix[j][j]))
            return 0;
        matrix[j][j] = mare__square_root(pivot);
        for (uint32_t i = j + 1; i < n; i++) {
            double sum = matrix[i][j];
            for (uint32_t k = 0; k < j; k++)
                sum -= matrix[i][k] * matrix[j][k];
            matrix[i][j] = sum / matrix[j][j];
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            right[i] -= matrix[i][k] * right[k];
        right[i] /= matrix[i][i];
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++)
            right[i] -= matrix[k][i] * right[k];
        right[i] /= matrix[i][i];
    }
    return 1;
}

/* The residual of a sample, and its weight with the robust part. */
static double residual(const struct mare__fit *fit, const struct mare__sample *s,
                       const mare_coord_place *place, double distance, double *weight)
{
    double wrong = distance + place->height + s->height - s->measured;
    double relative = magnitude(wrong) / s->measured;
    *weight = s->weight;
    if (fit->robust > 0 && relative > fit->robust)
        *weight *= fit->robust / relative;
    return wrong;
}

/* What is minimised. Huber's loss, not the reweighted squares, so that steps can be compared. */
static double cost_of(const struct mare__fit *fit, const mare_coord_place *place)
{
    double sum = 0, weight;
    for (uint32_t i = 0; i < fit->count; i++) {
        const struct mare__sample *s = &fit->sample[i];
        double distance = mare__distance(place->x, s->x, fit->dimensions);
        double wrong = residual(fit, s, place, distance, &weight);
        double edge = fit->robust * s->measured;
        sum += weight == s->weight ? weight * wrong * wrong
                                   : s->weight * edge * (2 * magnitude(wrong) - edge);
    }
    for (uint32_t i = 0; i < fit->dimensions; i++)
        sum += fit->hold * (place->x[i] - fit->at.x[i]) * (place->x[i] - fit->at.x[i]);
    return sum +
           fit->hold_height * (place->height - fit->at.height) * (place->height - fit->at.height);
}

static void add_sample(struct system *system, const struct mare__fit *fit,
                       const struct mare__sample *s, const mare_coord_place *place)
{
    double along[MARE__FIT_UNKNOWNS], weight;
    uint32_t n = fit->dimensions;
    double distance = mare__distance(place->x, s->x, n);
    double wrong = residual(fit, s, place, distance, &weight);
    for (uint32_t i = 0; i < n; i++)
        along[i] = distance > 0 ? (place->x[i] - s->x[i]) / distance : 0;
    if (fit->with_height)
        along[n++] = 1;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j <= i; j++)
            system->matrix[i][j] += weight * along[i] * along[j];
        system->right[i] -= weight * along[i] * wrong;
    }
}

static void build(struct system *system, const struct mare__fit *fit, const mare_coord_place *place)
{
    *system = (struct system){0};
    for (uint32_t i = 0; i < fit->count; i++)
        add_sample(system, fit, &fit->sample[i], place);
}

static void hold(struct system *system, const struct mare__fit *fit, const mare_coord_place *place)
{
    uint32_t n = fit->dimensions;
    for (uint32_t i = 0; i < n; i++) {
        system->matrix[i][i] += fit->hold;
        system->right[i] -= fit->hold * (place->x[i] - fit->at.x[i]);
    }
    if (fit->with_height) {
        system->matrix[n][n] += fit->hold_height;
        system->right[n] -= fit->hold_height * (place->height - fit->at.height);
    }
}

/* One damped step from `place`. Returns its length, or -1 when the system cannot be solved. */
static double step(const struct mare__fit *fit, const struct system *at, double damp,
                   mare_coord_place *place)
{
    struct system system = *at;
    uint32_t n = fit->dimensions + (fit->with_height ? 1 : 0);
    double length = 0, largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = system.matrix[i][i] > largest ? system.matrix[i][i] : largest;
    for (uint32_t i = 0; i < n; i++)
        system.matrix[i][i] += damp * (system.matrix[i][i] + 1e-9 * largest);
    if (!mare__solve(system.matrix, system.right, n, 1e-15))
        return -1;
    for (uint32_t i = 0; i < fit->dimensions; i++) {
        place->x[i] += system.right[i];
        length += system.right[i] * system.right[i];
    }
    if (fit->with_height) {
        double before = place->height;
        place->height += system.right[n - 1];
        if (place->height < fit->least)
            place->height = fit->least;
        length += (place->height - before) * (place->height - before);
    }
    return mare__square_root(length);
}

/* Whether a step that was hardly damped, and so went where the minimum should be, found nothing
 * there: it was short, or the sum is what it was. Where measurements do not fit, the sum is flat
 * to working precision long before steps are short to working precision. */
static int has_settled(const struct mare__fit *fit, double length, double damp, double before,
                       double after)
{
    return length >= 0 && damp <= DAMP_FIRST &&
           (length <= fit->tolerance || magnitude(after - before) <= fit->gain * before);
}

void mare__fit_run(const struct mare__fit *fit, mare_coord_place *place, struct mare__fit_end *end)
{
    struct system system;
    double damp = DAMP_FIRST, cost = cost_of(fit, place);
    *end = (struct mare__fit_end){0};
    build(&system, fit, place);
    while (end->steps < fit->steps && !end->settled && damp < DAMP_MOST) {
        struct system held = system;
        mare_coord_place next = *place;
        hold(&held, fit, place);
        double length = step(fit, &held, damp, &next);
        double after = length < 0 ? cost : cost_of(fit, &next);
        end->steps++;
        end->settled = has_settled(fit, length, damp, cost, after);
        if (length < 0 || !(after <= cost)) {
            damp *= 10;
            continue;
        }
        damp = damp / 10 > DAMP_LEAST ? damp / 10 : DAMP_LEAST;
        *place = next;
        cost = after;
        build(&system, fit, place);
    }
    end->cost = cost;
    for (uint32_t i = 0; i < MARE__FIT_UNKNOWNS; i++) {
        for (uint32_t j = 0; j < MARE__FIT_UNKNOWNS; j++)
            end->normal[i][j] = j <= i ? system.matrix[i][j] : system.matrix[j][i];
    }
}
