/* SPDX-License-Identifier: MIT */

/* Reference broadcast synchronisation: receivers compare when they heard the same thing.
 *
 *     sender ────▶ m1 ──────▶ m2 ──────▶ m3         what the sender did before the message left,
 *     p            T_p,1      T_p,2      T_p,3      and how long it took to get at the network,
 *     q             T_q,1      T_q,2      T_q,3     is the same for both and drops out
 *
 * Where the bounds come from. A pair says T_p,k − T_q,k, which is the offset at that instant but
 * for the difference of the two receptions, at most J.
 *
 * The mean. From t_k to t the offset changes by 2ρ|t − t_k| at most, so the mean is within
 * J + 2ρ × the mean of |t − t_k|.
 *
 * The line. Least squares is linear in the measurements: its value at t is Σ w_k y_k, with
 * w_k = 1/M + (t − t̄)(t_k − t̄)/Sxx. For offsets on a line it is exact, whatever the line. So each
 * measurement is wrong by J, and by the wander × |t − t_k| by which it is off that line, and the
 * result by Σ|w_k| times that at most. Instants are taken relative to their mean and scaled to 28
 * bits; weights have 30 bits of fraction.
 *
 * Sources: Elson, Girod and Estrin (2002); Tanenbaum and Van Steen, "Distributed Systems", 6.1.3.
 */

#include "coord/time/fixed.h"

#include <string.h>

#define LEAST 3u                  /* pairs for a line */
#define SCALED (INT64_C(1) << 28) /* instants, relative to their mean */
#define SPREAD_LEAST 1000000u     /* ns: over less, roundings to a nanosecond tell on the slope */
#define REACH 16                  /* spreads: how far a line is drawn */
#define ONE (INT64_C(1) << 30)    /* a weight of 1 */
#define FAR (UINT64_C(1) << 56)   /* two years: pairs further apart are none */

void mare_rbs_init(mare_rbs *rbs, uint64_t jitter_ns, uint64_t drift_ppb, uint64_t wander_ppb)
{
    memset(rbs, 0, sizeof *rbs);
    rbs->jitter_ns = jitter_ns;
    rbs->drift_ppb = drift_ppb;
    rbs->wander_ppb = wander_ppb;
}

static uint32_t kept(uint32_t count)
{
    return count < MARE_RBS_WINDOW ? count : MARE_RBS_WINDOW;
}

static int has(const uint64_t *numbers, uint32_t count, uint64_t number, uint32_t *at)
{
    for (uint32_t i = 0; i < kept(count); i++) {
        if (numbers[i] == number) {
            *at = i;
            return 1;
        }
    }
    return 0;
}

void mare_rbs_hear(mare_rbs *rbs, uint64_t number, int64_t local_ns)
{
    uint32_t at;
    if (has(rbs->number, rbs->heard, number, &at))
        return; /* a copy that came later says nothing */
    at = rbs->heard++ % MARE_RBS_WINDOW;
    rbs->number[at] = number;
    rbs->heard_ns[at] = local_ns;
}

/* Whether a new pair is so close to the others that sums of 32 fit into 64 bits. Differences are
 * taken modulo 2^64, as what others tell may be anything. */
static int is_near(const mare_rbs *rbs, int64_t mine_ns, int64_t their_ns)
{
    for (uint32_t i = 0; i < kept(rbs->pairs); i++) {
        uint64_t when = (uint64_t)mine_ns - (uint64_t)rbs->mine_ns[i];
        uint64_t change = when - ((uint64_t)their_ns - (uint64_t)rbs->theirs_ns[i]);
        if (mare__size((int64_t)when) > FAR || mare__size((int64_t)change) > FAR)
            return 0;
    }
    return mare__size(mine_ns) <= INT64_MAX / 4 && mare__size(their_ns) <= INT64_MAX / 4;
}

int mare_rbs_match(mare_rbs *rbs, uint64_t number, int64_t their_ns)
{
    uint32_t here, at;
    if (!has(rbs->number, rbs->heard, number, &here) ||
        has(rbs->matched, rbs->pairs, number, &at) || !is_near(rbs, rbs->heard_ns[here], their_ns))
        return 0;
    at = rbs->pairs++ % MARE_RBS_WINDOW;
    rbs->matched[at] = number;
    rbs->mine_ns[at] = rbs->heard_ns[here];
    rbs->theirs_ns[at] = their_ns;
    return 1;
}

/* The pairs, relative to their means: everything after this works with small numbers. */
typedef struct centred {
    uint32_t count;
    int64_t origin_ns, beta_ns; /* the means of instants and offsets */
    int64_t when_ns[MARE_RBS_WINDOW], offset_ns[MARE_RBS_WINDOW];
    uint64_t spread_ns; /* the largest of |when| */
} centred;

static void centre(const mare_rbs *rbs, centred *c)
{
    int64_t first_ns = rbs->mine_ns[0], first_offset = first_ns - rbs->theirs_ns[0];
    int64_t when = 0, offset = 0;
    c->count = kept(rbs->pairs);
    for (uint32_t i = 0; i < c->count; i++) {
        c->when_ns[i] = rbs->mine_ns[i] - first_ns;
        c->offset_ns[i] = rbs->mine_ns[i] - rbs->theirs_ns[i] - first_offset;
        when += c->when_ns[i];
        offset += c->offset_ns[i];
    }
    when /= (int64_t)c->count;
    offset /= (int64_t)c->count;
    c->origin_ns = first_ns + when;
    c->beta_ns = first_offset + offset;
    c->spread_ns = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        c->when_ns[i] -= when;
        c->offset_ns[i] -= offset;
        if (mare__size(c->when_ns[i]) > c->spread_ns)
            c->spread_ns = mare__size(c->when_ns[i]);
    }
}

/* J in nanoseconds of our clock, and a nanosecond for roundings. */
static uint64_t jitter_of(const mare_rbs *rbs)
{
    return rbs->jitter_ns + mare__drift_bound(rbs->jitter_ns, 2 * rbs->drift_ppb) + 1;
}

int mare_rbs_mean(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset)
{
    centred c;
    uint64_t away = 0;
    if (rbs->pairs == 0)
        return 0;
    centre(rbs, &c);
    for (uint32_t i = 0; i < c.count; i++)
        away += mare__size(local_ns - c.origin_ns - c.when_ns[i]) / c.count + 1;
    *offset =
        (mare_rbs_offset){.offset_ns = c.beta_ns,
                          .error_ns = jitter_of(rbs) + mare__drift_bound(away, 2 * rbs->drift_ppb),
                          .beta_ns = c.beta_ns,
                          .origin_ns = c.origin_ns,
                          .pairs = c.count};
    return 1;
}

/* Scales the instants to fit, and sums their squares. */
static uint64_t scale(const centred *c, int64_t *x, unsigned *shift)
{
    uint64_t squares = 0;
    *shift = 0;
    while (c->spread_ns >> *shift >= (uint64_t)SCALED)
        ++*shift;
    for (uint32_t i = 0; i < c->count; i++) {
        x[i] = c->when_ns[i] / (INT64_C(1) << *shift);
        squares += (uint64_t)(x[i] * x[i]);
    }
    return squares;
}

/* (t − t̄)(t_k − t̄)/Sxx for a scaled t − t̄: the part of a weight that the slope brings. */
static int64_t lever(int64_t dx, int64_t x, uint64_t squares)
{
    return mare__mul_div(dx * x, ONE, squares);
}

int mare_rbs_line(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset)
{
    centred c;
    int64_t x[MARE_RBS_WINDOW], rise = 0, alpha = 0;
    unsigned shift;
    if (rbs->pairs < LEAST)
        return 0;
    centre(rbs, &c);
    int64_t away_ns = local_ns - c.origin_ns;
    uint64_t squares = scale(&c, x, &shift);
    if (c.spread_ns < SPREAD_LEAST || mare__size(away_ns) / REACH > c.spread_ns)
        return 0;
    int64_t dx = away_ns / (INT64_C(1) << shift);
    uint64_t error = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        int64_t weight = lever(dx, x[i], squares);
        rise += mare__mul_div(weight, c.offset_ns[i], (uint64_t)ONE);
        alpha += mare__mul_div(lever(SCALED, x[i], squares), c.offset_ns[i], (uint64_t)ONE);
        uint64_t off =
            jitter_of(rbs) + mare__drift_bound(mare__size(away_ns - c.when_ns[i]), rbs->wander_ppb);
        weight += ONE / (int64_t)c.count;
        error +=
            (uint64_t)mare__mul_div((int64_t)mare__size(weight) + 2, (int64_t)off, (uint64_t)ONE) +
            1 + (mare__size(c.offset_ns[i]) >> 29); /* roundings of weight and product */
    }
    /* What scaling cut off the instants, in t itself and in Sxx, times the steepest slope. */
    uint64_t cut_ns = shift ? (UINT64_C(2) << shift) + (mare__size(away_ns) >> 20) : 0;
    uint64_t coarse = mare__drift_bound(cut_ns, 2 * rbs->drift_ppb);
    *offset = (mare_rbs_offset){
        .offset_ns = c.beta_ns + rise,
        .error_ns = error + coarse,
        .alpha_ppb = mare__mul_div(alpha, MARE_TIME_SECOND, (uint64_t)SCALED << shift),
        .beta_ns = c.beta_ns,
        .origin_ns = c.origin_ns,
        .pairs = c.count};
    return 1;
}
