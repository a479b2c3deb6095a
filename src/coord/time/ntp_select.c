/* SPDX-License-Identifier: MIT */

/* What several servers agree on. Each says that the truth lies in an interval, time ± error.
 *
 *     A      ├─────────────┤
 *     B           ├──────────┤              of k intervals at most f are wrong, so at least
 *     C        ├───────┤                    k − f contain the truth: it lies between the first
 *     liar                       ├──┤       point that so many cover and the last such point
 *                 └───┘ all three
 *
 * f counts among the servers that are asked, and k may be fewer: some are silent. A time is given
 * when more than f agree, so that one of them is right. With three servers, of which one may lie,
 * two must agree; where the third is silent, one of the two may still be the liar, and the hull
 * reaches over both.
 *
 * That hull gives the bound. (Marzullo takes the region that *most* intervals cover. It can be
 * narrower, and a liar that overlaps an edge can move it off the truth.) The region of most decides
 * who is believed: a server that does not reach it is an outlier. The others are thinned by the
 * cluster algorithm of RFC 5905, 11.2.2, and combined. */

#include "coord/time/fixed.h"

#include <mare/coord_ntp.h>

#define ENDS (2 * MARE_NTP_SERVERS_MAX)
#define ENOUGH 3u /* NMIN: the cluster algorithm stops there */
#define WEIGHT 1024u

typedef struct edge {
    int64_t at;
    int32_t change; /* +1 an interval begins, −1 it ends */
} edge;

typedef struct region {
    int64_t low, high;
} region;

static int64_t low_of(const mare_ntp_estimate *e)
{
    return e->time_ns - (int64_t)e->error_ns;
}

static int64_t high_of(const mare_ntp_estimate *e)
{
    return e->time_ns + (int64_t)e->error_ns;
}

/* All ends in order; where they meet, beginnings come first, for the ends belong to the interval.
 */
static uint32_t sort_edges(const mare_ntp_estimate *e, uint32_t count, edge *out)
{
    uint32_t edges = 0;
    for (uint32_t i = 0; i < 2 * count; i++) {
        edge next = i % 2 ? (edge){high_of(&e[i / 2]), -1} : (edge){low_of(&e[i / 2]), 1};
        uint32_t at = edges++;
        for (; at > 0 && (out[at - 1].at > next.at ||
                          (out[at - 1].at == next.at && out[at - 1].change < next.change));
             at--)
            out[at] = out[at - 1];
        out[at] = next;
    }
    return edges;
}

/* From the first to the last point that `quorum` intervals cover. 0: there is none. */
static int find_hull(const edge *edges, uint32_t count, uint32_t quorum, region *hull)
{
    uint32_t cover = 0, found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (edges[i].change < 0 && cover == quorum)
            hull->high = edges[i].at; /* the last of these counts */
        cover += (uint32_t)edges[i].change;
        if (edges[i].change > 0 && cover >= quorum && !found) {
            hull->low = edges[i].at;
            found = 1;
        }
    }
    return (int)found;
}

/* The region that the largest number of intervals cover; of several, the narrowest. Returns how
 * many that are. */
static uint32_t find_agreement(const edge *edges, uint32_t count, region *best)
{
    uint32_t cover = 0, most = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        cover += (uint32_t)edges[i].change;
        int64_t width = edges[i + 1].at - edges[i].at;
        if (edges[i].change > 0 && edges[i + 1].change < 0 &&
            (cover > most || (cover == most && width < best->high - best->low))) {
            *best = (region){edges[i].at, edges[i + 1].at};
            most = cover;
        }
    }
    return most;
}

static uint32_t bits(uint32_t set)
{
    uint32_t count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

/* How far server `i` is from the other survivors, on average. */
static uint64_t scatter(const mare_ntp_estimate *e, uint32_t survivors, uint32_t i)
{
    uint64_t sum = 0;
    for (uint32_t j = 0; j < MARE_NTP_SERVERS_MAX; j++) {
        if (survivors >> j & 1)
            sum += mare__size(e[i].time_ns - e[j].time_ns) / MARE_NTP_SERVERS_MAX;
    }
    return sum / bits(survivors) * MARE_NTP_SERVERS_MAX;
}

/* Puts the survivor aside that scatters most, until few are left or the samples of the steadiest
 * one scatter as much themselves. */
static uint32_t cluster(const mare_ntp_estimate *e, uint32_t count, uint32_t survivors)
{
    while (bits(survivors) > ENOUGH) {
        uint64_t most = 0, steadiest = UINT64_MAX;
        uint32_t worst = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (!(survivors >> i & 1))
                continue;
            uint64_t far = scatter(e, survivors, i);
            if (far >= most) {
                most = far;
                worst = i;
            }
            steadiest = e[i].jitter_ns < steadiest ? e[i].jitter_ns : steadiest;
        }
        if (most <= steadiest)
            break;
        survivors &= ~(UINT32_C(1) << worst);
    }
    return survivors;
}

static uint32_t choose_peer(const mare_ntp_estimate *e, uint32_t count, uint32_t survivors)
{
    uint32_t peer = count;
    for (uint32_t i = 0; i < count; i++) {
        if ((survivors >> i & 1) &&
            (peer == count || e[i].stratum < e[peer].stratum ||
             (e[i].stratum == e[peer].stratum && e[i].error_ns < e[peer].error_ns)))
            peer = i;
    }
    return peer;
}

/* The mean of the survivors, each with a weight that falls with its error. */
static int64_t combine(const mare_ntp_estimate *e, uint32_t count, uint32_t survivors,
                       uint32_t peer)
{
    uint64_t least = UINT64_MAX;
    int64_t sum = 0, weights = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((survivors >> i & 1) && e[i].error_ns < least)
            least = e[i].error_ns;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!(survivors >> i & 1))
            continue;
        int64_t weight = (int64_t)((least | 1) * WEIGHT / (e[i].error_ns | 1));
        sum += weight * (e[i].time_ns - e[peer].time_ns);
        weights += weight;
    }
    return e[peer].time_ns + (weights ? sum / weights : 0);
}

/* A server that knows nothing takes no part, and does not count when a majority is sought. */
static uint32_t gather(const mare_ntp_estimate *from, uint32_t count, mare_ntp_estimate *to,
                       uint32_t *index)
{
    uint32_t fit = 0;
    for (uint32_t i = 0; i < count && i < MARE_NTP_SERVERS_MAX; i++) {
        if (from[i].error_ns < 16 * MARE__PPB && from[i].stratum < MARE_NTP_UNSYNCHRONISED) {
            index[fit] = i;
            to[fit++] = from[i];
        }
    }
    return fit;
}

static uint32_t spread_out(uint32_t set, const uint32_t *index)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < MARE_NTP_SERVERS_MAX; i++) {
        if (set >> i & 1)
            out |= UINT32_C(1) << index[i];
    }
    return out;
}

int mare_ntp_select(const mare_ntp_estimate *estimates, uint32_t count, uint32_t liars,
                    mare_ntp_choice *choice)
{
    mare_ntp_estimate e[MARE_NTP_SERVERS_MAX];
    uint32_t index[MARE_NTP_SERVERS_MAX] = {0}, agree = 0;
    edge edges[ENDS] = {{0, 0}};
    region hull = {0, 0}, agreed = {0, 0};
    uint32_t fit = gather(estimates, count, e, index);
    uint32_t ends = sort_edges(e, fit, edges);
    if (find_agreement(edges, ends, &agreed) <= liars ||
        !find_hull(edges, ends, fit - liars, &hull))
        return 0;
    for (uint32_t i = 0; i < fit; i++) {
        if (low_of(&e[i]) <= agreed.low && high_of(&e[i]) >= agreed.high)
            agree |= UINT32_C(1) << i;
    }
    uint32_t survivors = cluster(e, fit, agree), peer = choose_peer(e, fit, survivors);
    int64_t time_ns = combine(e, fit, survivors, peer);
    time_ns = time_ns < hull.low ? hull.low : time_ns > hull.high ? hull.high : time_ns;
    uint64_t below = (uint64_t)(time_ns - hull.low), above = (uint64_t)(hull.high - time_ns);
    uint32_t all = fit == 32 ? UINT32_MAX : (UINT32_C(1) << fit) - 1;
    *choice = (mare_ntp_choice){.estimate = e[peer],
                                .peer = index[peer],
                                .survivors = spread_out(survivors, index),
                                .outliers = spread_out(all & ~agree, index)};
    choice->estimate.time_ns = time_ns;
    choice->estimate.error_ns = below > above ? below : above;
    return 1;
}
