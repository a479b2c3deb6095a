/* SPDX-License-Identifier: MIT */
#pragma once

/* Where nodes are: a position from references (as GPS does it), network coordinates with landmarks
 * (GNP) and without (Vivaldi), and what coordinates are good for.
 *
 * A place is a point in a space of up to eight dimensions and a height above it. All lengths are in
 * one unit, for network coordinates milliseconds of round trip: the estimate for two nodes is the
 * distance of their points plus both heights. The height stands for the way from a node to the net
 * itself, which every round trip of the node pays and no position can express.
 *
 * Everything lives in memory of the caller, nothing is allocated, nothing blocks; randomness comes
 * from a seed. Functions may be called from any thread as long as one object is used by one thread
 * at a time. Numbers are IEEE doubles: the same calls give the same bits.
 *
 * Sources: Tanenbaum and Van Steen, "Distributed Systems", sections 6.1.2 and 6.4; Ng and Zhang,
 * "Predicting Internet Network Distance with Coordinates-Based Approaches" (2002); Dabek, Cox,
 * Kaashoek and Morris, "Vivaldi: A Decentralized Network Coordinate System" (2004); Ledlie, Gardner
 * and Seltzer, "Network Coordinates in the Wild" (2007). */

#include <mare/coord.h>

#define MARE_COORD_DIMENSIONS 8 /* of a place, at most */

/* Where a node is, or says it is. Dimensions that a system does not use are 0. */
typedef struct mare_coord_place {
    double x[MARE_COORD_DIMENSIONS];
    double height; /* added to every distance from here; the bias, in a fix from references */
    double error;  /* how wrong estimates from here are, relative: 0.1 is a tenth; 1.5 unknown */
} mare_coord_place;

/* The estimate between two places: the distance of the points plus the two heights. */
MARE_COORD_EXPORT double mare_coord_place_distance(const mare_coord_place *a,
                                                   const mare_coord_place *b);

/* Whether it can be a place: finite numbers, none absurd, height and error not negative. Check what
 * came over a network with this first. The functions below that take places check them themselves,
 * and say what they do with an invalid one. The fix, whose unit may be anything, only checks that
 * the numbers are finite. */
MARE_COORD_EXPORT int mare_coord_place_valid(const mare_coord_place *place);

/* Vivaldi ------------------------------------------------------------------------------------- */

/* A node of a network without landmarks. It measures round trips to others, learns with each where
 * the other is, and moves so that its estimates fit. */
typedef struct mare_coord_vivaldi mare_coord_vivaldi;

/* How a node is made. mare_coord_vivaldi_setup_init() fills in what is usual. */
typedef struct mare_coord_vivaldi_setup {
    uint32_t dimensions; /* 1 to MARE_COORD_DIMENSIONS */
    uint32_t neighbours; /* whose last measurement is remembered, 8 to 1024 */
    uint64_t seed;       /* of the directions taken where all stand on one point */
    double longest;      /* a longer round trip is absurd, in milliseconds */
} mare_coord_vivaldi_setup;

/* The usual: 8 dimensions, 32 neighbours, ten seconds. */
MARE_COORD_EXPORT void mare_coord_vivaldi_setup_init(mare_coord_vivaldi_setup *setup);

/* The bytes of a node with this setup, 0 when the setup makes no sense. */
MARE_COORD_EXPORT size_t mare_coord_vivaldi_size(const mare_coord_vivaldi_setup *setup);

/* Makes a node that knows nothing yet in `memory`, aligned as for a double. NULL when the setup
 * makes no sense or `size` is too small. */
MARE_COORD_EXPORT mare_coord_vivaldi *mare_coord_vivaldi_init(
    void *memory, size_t size, const mare_coord_vivaldi_setup *setup);

/* A round trip to `peer`, which said that it is `there`, took `rtt` milliseconds: moves. REFUSED,
 * with nothing changed, for a round trip that is not a number, not positive or absurd; MALFORMED
 * for a place that cannot be one, or is in a space of more dimensions. */
MARE_COORD_EXPORT mare_coord_status mare_coord_vivaldi_update(mare_coord_vivaldi *node,
                                                              uint64_t peer,
                                                              const mare_coord_place *there,
                                                              double rtt);

/* `peer` is gone: what was remembered of it no longer counts. */
MARE_COORD_EXPORT void mare_coord_vivaldi_forget(mare_coord_vivaldi *node, uint64_t peer);

/* Which of `count` known peers to measure next: an index. Every other time it is any of them, else
 * a near one that is remembered, because a node must know its surroundings and far places alike. */
MARE_COORD_EXPORT uint32_t mare_coord_vivaldi_choose(mare_coord_vivaldi *node,
                                                     const uint64_t *peers, uint32_t count);

/* Where the node is; valid until the node is touched again. */
MARE_COORD_EXPORT const mare_coord_place *mare_coord_vivaldi_here(const mare_coord_vivaldi *node);

/* Landmarks (GNP) ----------------------------------------------------------------------------- */

/* How places are computed from landmarks. mare_coord_gnp_setup_init() fills in what is usual. */
typedef struct mare_coord_gnp_setup {
    uint32_t dimensions; /* m, 1 to MARE_COORD_DIMENSIONS */
    uint32_t landmarks;  /* L, more than m */
    uint32_t starts;     /* from how many random beginnings; the best end counts */
    uint64_t seed;       /* of the beginnings */
    int height;          /* nonzero: places have heights too */
    double robust;       /* relative errors beyond this count by their size, not its square; 0: all
                            by their squares, as in the paper */
} mare_coord_gnp_setup;

/* The usual for so many landmarks: up to 7 dimensions, no heights, squares. */
MARE_COORD_EXPORT void mare_coord_gnp_setup_init(mare_coord_gnp_setup *setup, uint32_t landmarks);

/* The bytes that the two functions below need to work in, 0 when the setup makes no sense. */
MARE_COORD_EXPORT size_t mare_coord_gnp_size(const mare_coord_gnp_setup *setup);

/* The landmarks' own places from the round trips between them, `rtt[i * landmarks + j]`: minimises
 * the sum over pairs of ((d - d̂) / d)². A pair measured in one direction, or in both (the mean
 * counts), is enough; zero and less mean "not measured". `sum` is the sum that remains. NOROOM for
 * too little memory; REFUSED, with `places` undefined, for a setup without sense or a landmark with
 * fewer measurements than there are dimensions. */
MARE_COORD_EXPORT mare_coord_status mare_coord_gnp_landmarks(const mare_coord_gnp_setup *setup,
                                                             const double *rtt, void *memory,
                                                             size_t size, mare_coord_place *places,
                                                             double *sum);

/* The place of a node that measured `rtt[i]` to each landmark, by the same sum over landmarks.
 * NOROOM as above; REFUSED for a setup without sense, no more measurements than there are
 * dimensions, or a measured landmark at what cannot be a place. The error of a place is the root of
 * the mean square of its relative errors. */
MARE_COORD_EXPORT mare_coord_status mare_coord_gnp_place(const mare_coord_gnp_setup *setup,
                                                         const mare_coord_place *landmark,
                                                         const double *rtt, void *memory,
                                                         size_t size, mare_coord_place *place,
                                                         double *sum);

/* Landmarks that are spread: each in turn is the node that brings all nodes nearest to one. `rtt`
 * is n x n; `chosen` gets `count` indices, `count` at most n; `scratch` has room for n numbers. */
MARE_COORD_EXPORT void mare_coord_gnp_spread(const double *rtt, uint32_t n, uint32_t count,
                                             double *scratch, uint32_t *chosen);

/* A fix from references (GPS) ------------------------------------------------------------------ */

/* How a fix ended. Only OK comes with a position. */
typedef enum mare_coord_fix_end {
    MARE_COORD_FIX_OK,
    MARE_COORD_FIX_FEW,       /* fewer references than unknowns */
    MARE_COORD_FIX_ABSURD,    /* a number is not finite, or the setup makes no sense */
    MARE_COORD_FIX_GEOMETRY,  /* the references stand so that an error would grow beyond `worst` */
    MARE_COORD_FIX_AMBIGUOUS, /* two positions fit equally well, and nothing says which */
    MARE_COORD_FIX_LOST,      /* no position was found in the steps that there are */
} mare_coord_fix_end;

/* What a fix is made from: `count` references at known places (their heights are added to the
 * ranges: their own clock errors, if known), and the range measured to each, in any one unit. */
typedef struct mare_coord_fix_setup {
    uint32_t dimensions; /* 1 to MARE_COORD_DIMENSIONS */
    uint32_t count;      /* at most 64 */
    int bias;            /* the receiver's clock is off: one unknown more, in every range */
    double worst;        /* the largest dilution of precision that is good enough; 0: 50 */
    const mare_coord_place *reference;
    const double *range;
    const mare_coord_place *near; /* of several positions the one nearest to this, or NULL */
} mare_coord_fix_setup;

/* A position. */
typedef struct mare_coord_fix {
    mare_coord_place at; /* the height is the bias: range = distance + bias; the error unused */
    double dilution;     /* by which errors of the ranges grow into those of position and bias */
    double position_dilution;
    double bias_dilution;
    double residual; /* root of the mean square of what does not fit; 0 without redundancy */
    uint32_t steps;
} mare_coord_fix;

/* Solves for the position, by least squares when there are more references than unknowns. `fix` is
 * written on OK; on GEOMETRY its `dilution` says how bad (infinite when there is no solution). */
MARE_COORD_EXPORT mare_coord_fix_end mare_coord_fix_solve(const mare_coord_fix_setup *setup,
                                                          mare_coord_fix *fix);

/* How a fix ended, in words. */
MARE_COORD_EXPORT const char *mare_coord_fix_end_name(mare_coord_fix_end end);

/* Uses ---------------------------------------------------------------------------------------- */

/* Finds the nearest site from the places alone, without a measurement. Returns an index, or NOBODY
 * if there are no sites. The distance from a place to itself is 0, here and below: the heights are
 * for the way to others. A site that is not a valid place is skipped; NOBODY if `from` is not
 * valid. */
MARE_COORD_EXPORT uint32_t mare_coord_nearest(const mare_coord_place *from,
                                              const mare_coord_place *sites, uint32_t count);

/* Where to put K replicas. */
typedef struct mare_coord_replicas {
    uint32_t count;      /* K, from 1 to the number of sites */
    uint32_t clients;    /* how many */
    uint32_t sites;      /* how many places a replica can be at */
    const double *share; /* how much each client counts, or NULL: all alike */
    const mare_coord_place *client;
    const mare_coord_place *site;
    /* The cost between a client and a site, instead of their places; NULL: their estimate. */
    double (*cost)(void *context, uint32_t client, uint32_t site);
    void *context;
} mare_coord_replicas;

/* The bytes that the choice below needs to work in. */
MARE_COORD_EXPORT size_t mare_coord_replicas_size(const mare_coord_replicas *wanted);

/* Chooses sites so that the mean cost from clients to their nearest replica is small: greedily,
 * then exchanging one for another while that helps (at most `count` times the number of sites). No
 * single exchange improves the result. `chosen` gets `count` indices, `mean` the mean cost. REFUSED
 * for a count that makes no sense, no clients, or what cannot be a place; NOROOM for too little
 * memory. */
MARE_COORD_EXPORT mare_coord_status mare_coord_replicas_choose(const mare_coord_replicas *wanted,
                                                               void *memory, size_t size,
                                                               uint32_t *chosen, double *mean);

/* Position-based routing: the neighbour to pass a message on to, the one nearest to `target`, if it
 * is nearer than `here`; NOBODY when none is: a dead end. Since every step comes nearer, a message
 * never goes round in circles; and a neighbour that is the target is always the nearest. */
MARE_COORD_EXPORT uint32_t mare_coord_next_hop(const mare_coord_place *here,
                                               const mare_coord_place *target,
                                               const mare_coord_place *neighbours, uint32_t count);
