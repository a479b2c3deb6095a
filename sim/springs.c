/* SPDX-License-Identifier: MIT */

/* Vivaldi with springs alone: see springs.h. Milliseconds throughout; the original has seconds. */

#include "sim/springs.h"

#include "coord/place/fit.h"

#define UNKNOWN 1.5
#define ERROR_PART 0.25
#define SPRING 0.25
#define HEIGHT_LEAST 0.01
#define LEAST 1e-3 /* a length below this is none, nor is a round trip */
#define SUM_LEAST 1e-6
#define GRAVITY 150000.0

void mare__springs_init(struct mare__springs *node)
{
    *node = (struct mare__springs){.here = {.height = HEIGHT_LEAST, .error = UNKNOWN}};
}

static double estimate(const struct mare__springs *a, const struct mare__springs *b)
{
    double distance = mare_coord_place_distance(&a->here, &b->here);
    double adjusted = distance + a->adjustment + b->adjustment;
    return adjusted > 0 ? adjusted : distance;
}

static void push(struct mare__springs *node, const mare_coord_place *from, double force,
                 uint32_t dimensions, mare_sim_random *random)
{
    double way[MARE_COORD_DIMENSIONS];
    double length = mare__distance(node->here.x, from->x, dimensions), scale = length;
    for (uint32_t i = 0; i < dimensions; i++)
        way[i] = node->here.x[i] - from->x[i];
    if (length <= LEAST) { /* on one point: any direction */
        double sum = 0;
        for (uint32_t i = 0; i < dimensions; i++) {
            way[i] = mare__place_uniform(&random->state);
            sum += way[i] * way[i];
        }
        scale = mare__square_root(sum);
    }
    for (uint32_t i = 0; i < dimensions; i++)
        node->here.x[i] += force * way[i] / scale;
    if (length > LEAST)
        node->here.height += (node->here.height + from->height) * force / length;
    if (node->here.height < HEIGHT_LEAST)
        node->here.height = HEIGHT_LEAST;
}

/* The middle one of the last three; of two the larger. */
static double filtered(struct mare__springs_filter *filter, double rtt)
{
    filter->rtt[filter->count++ % MARE__SPRINGS_FILTER] = rtt;
    double a = filter->rtt[0], b = filter->rtt[1], c = filter->rtt[2];
    double low = a < b ? a : b, high = a < b ? b : a;
    if (filter->count < MARE__SPRINGS_FILTER)
        return filter->count == 1 ? rtt : high;
    return c < low ? low : c > high ? high : c;
}

static void adjust(struct mare__springs *node, const struct mare__springs *there, double rtt)
{
    double sum = 0;
    node->window[node->next++ % MARE__SPRINGS_WINDOW] =
        rtt - mare_coord_place_distance(&node->here, &there->here);
    for (uint32_t i = 0; i < MARE__SPRINGS_WINDOW; i++)
        sum += node->window[i];
    node->adjustment = sum / (2 * MARE__SPRINGS_WINDOW);
}

void mare__springs_update(struct mare__springs *node, const struct mare__springs *there,
                          struct mare__springs_filter *filter, double rtt, uint32_t dimensions,
                          mare_sim_random *random)
{
    struct mare__springs origin;
    mare__springs_init(&origin);
    rtt = filtered(filter, rtt);
    rtt = rtt > LEAST ? rtt : LEAST;
    double missing = rtt - estimate(node, there), wrong = missing / rtt;
    double mine = node->here.error, sum = mine + there->here.error;
    double weight = mine / (sum > SUM_LEAST ? sum : SUM_LEAST);
    wrong = wrong < 0 ? -wrong : wrong;
    node->here.error += ERROR_PART * weight * (wrong - mine);
    node->here.error = node->here.error < UNKNOWN ? node->here.error : UNKNOWN;
    push(node, &there->here, SPRING * weight * missing, dimensions, random);
    adjust(node, there, rtt);
    /* In seconds the force is (distance / 150)^2, here a thousand times that of milliseconds. */
    double far = estimate(&origin, node) / GRAVITY;
    push(node, &origin.here, -1000 * far * far, dimensions, random);
}
