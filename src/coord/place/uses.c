/* SPDX-License-Identifier: MIT */

/* What places are good for (Tanenbaum and Van Steen, 6.4): the nearest replica, where to put
 * replicas, and routing by position.
 *
 * Replicas are the k-median problem: greedy, then exchanges. For each client the nearest and the
 * second nearest chosen site are kept, so that an exchange is judged in one pass over the clients:
 * a client that loses its replica goes to the second or to the new one. A local optimum of single
 * exchanges is within five times of the best (Arya et al. 2001), and in practice close to it. */

#include "coord/place/fit.h"

struct client {
    double first, second; /* the cost to the nearest and the second nearest replica */
    uint32_t nearest;     /* which of the chosen */
};

struct search {
    const mare_coord_replicas *wanted;
    struct client *client;
    uint32_t *chosen;
    uint32_t count; /* chosen so far */
};

#define FAR 1e300

static int same_place(const mare_coord_place *a, const mare_coord_place *b)
{
    int same = a->height == b->height;
    for (uint32_t i = 0; i < MARE_COORD_DIMENSIONS; i++)
        same &= a->x[i] == b->x[i];
    return same;
}

/* The estimate, but nothing from a place to itself: who is there need not go to the net and back,
 * which the two heights stand for. */
static double way(const mare_coord_place *a, const mare_coord_place *b)
{
    return same_place(a, b) ? 0 : mare_coord_place_distance(a, b);
}

uint32_t mare_coord_nearest(const mare_coord_place *from, const mare_coord_place *sites,
                            uint32_t count)
{
    uint32_t best = MARE_COORD_NOBODY;
    double least = 0;
    if (!mare_coord_place_valid(from))
        return MARE_COORD_NOBODY;
    for (uint32_t i = 0; i < count; i++) {
        if (!mare_coord_place_valid(&sites[i]))
            continue;
        double distance = way(from, &sites[i]);
        if (best == MARE_COORD_NOBODY || distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

uint32_t mare_coord_next_hop(const mare_coord_place *here, const mare_coord_place *target,
                             const mare_coord_place *neighbours, uint32_t count)
{
    uint32_t best = mare_coord_nearest(target, neighbours, count);
    if (best == MARE_COORD_NOBODY || !mare_coord_place_valid(here) ||
        !(way(&neighbours[best], target) < way(here, target)))
        return MARE_COORD_NOBODY;
    return best;
}

/* Replicas ------------------------------------------------------------------------------------- */

size_t mare_coord_replicas_size(const mare_coord_replicas *wanted)
{
    return wanted->clients * sizeof(struct client);
}

static double cost(const mare_coord_replicas *wanted, uint32_t client, uint32_t site)
{
    if (wanted->cost)
        return wanted->cost(wanted->context, client, site);
    return way(&wanted->client[client], &wanted->site[site]);
}

static int all_valid(const mare_coord_place *places, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && mare_coord_place_valid(&places[i]))
        i++;
    return i == count;
}

static double share(const mare_coord_replicas *wanted, uint32_t client)
{
    return wanted->share ? wanted->share[client] : 1;
}

/* Finds the nearest two of each client again. Returns the sum of costs. */
static double assign(struct search *search)
{
    double sum = 0;
    for (uint32_t c = 0; c < search->wanted->clients; c++) {
        struct client *client = &search->client[c];
        *client = (struct client){.first = FAR, .second = FAR};
        for (uint32_t k = 0; k < search->count; k++) {
            double to = cost(search->wanted, c, search->chosen[k]);
            if (to < client->first) {
                client->second = client->first;
                client->first = to;
                client->nearest = k;
            } else if (to < client->second) {
                client->second = to;
            }
        }
        sum += share(search->wanted, c) * client->first;
    }
    return sum;
}

/* The sum of costs if `site` joins, and the chosen `out` (or none: NOBODY) goes. */
static double sum_with(const struct search *search, uint32_t site, uint32_t out)
{
    double sum = 0;
    for (uint32_t c = 0; c < search->wanted->clients; c++) {
        const struct client *client = &search->client[c];
        double stays = client->nearest == out ? client->second : client->first;
        double to = cost(search->wanted, c, site);
        sum += share(search->wanted, c) * (to < stays ? to : stays);
    }
    return sum;
}

static int is_chosen(const struct search *search, uint32_t site)
{
    for (uint32_t k = 0; k < search->count; k++) {
        if (search->chosen[k] == site)
            return 1;
    }
    return 0;
}

static double add_best(struct search *search)
{
    double least = 0;
    uint32_t best = MARE_COORD_NOBODY;
    for (uint32_t site = 0; site < search->wanted->sites; site++) {
        double sum = is_chosen(search, site) ? 0 : sum_with(search, site, MARE_COORD_NOBODY);
        if (!is_chosen(search, site) && (best == MARE_COORD_NOBODY || sum < least)) {
            least = sum;
            best = site;
        }
    }
    search->chosen[search->count++] = best;
    return assign(search);
}

/* The best single exchange, carried out if it helps. Returns the sum after it. */
static double exchange(struct search *search, double sum)
{
    double least = sum * (1 - 1e-12);
    uint32_t in = MARE_COORD_NOBODY, out = 0;
    for (uint32_t site = 0; site < search->wanted->sites; site++) {
        for (uint32_t k = 0; k < search->count && !is_chosen(search, site); k++) {
            double with = sum_with(search, site, k);
            if (with < least) {
                least = with;
                in = site;
                out = k;
            }
        }
    }
    if (in == MARE_COORD_NOBODY)
        return sum;
    search->chosen[out] = in;
    return assign(search);
}

mare_coord_status mare_coord_replicas_choose(const mare_coord_replicas *wanted, void *memory,
                                             size_t size, uint32_t *chosen, double *mean)
{
    struct search search = {.wanted = wanted, .client = memory, .chosen = chosen};
    double all = 0, sum = 0;
    if (wanted->count < 1 || wanted->count > wanted->sites || wanted->clients < 1)
        return MARE_COORD_REFUSED;
    if (!wanted->cost &&
        (!all_valid(wanted->client, wanted->clients) || !all_valid(wanted->site, wanted->sites)))
        return MARE_COORD_REFUSED;
    if (size < mare_coord_replicas_size(wanted))
        return MARE_COORD_NOROOM;
    for (uint32_t c = 0; c < wanted->clients; c++)
        all += share(wanted, c);
    if (!(all > 0))
        return MARE_COORD_REFUSED;
    assign(&search);
    while (search.count < wanted->count)
        sum = add_best(&search);
    for (uint64_t left = (uint64_t)wanted->count * wanted->sites; left > 0; left--) {
        double next = exchange(&search, sum);
        if (!(next < sum))
            break;
        sum = next;
    }
    *mean = sum / all;
    return MARE_COORD_OK;
}
