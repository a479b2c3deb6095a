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

/* Whether it can be a place: finite numbers, none absurd, height and error not negative. What came
 * over a network is to be asked this first; the functions below ask it themselves. */
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
 * for a place that cannot be one. */
MARE_COORD_EXPORT mare_coord_status mare_coord_vivaldi_update(mare_coord_vivaldi *node,
                                                              uint64_t peer,
                                                              const mare_coord_place *there,
                                                              double rtt);

/* `peer` is gone: what was remembered of it no longer counts. */
MARE_COORD_EXPORT void mare_coord_vivaldi_forget(mare_coord_vivaldi *node, uint64_t peer);

/* Whom to measure next, of `count` known peers: an index. Every other time any of them, else one of
 * the remembered that are near, for a node must know its surroundings and the far away alike. */
MARE_COORD_EXPORT uint32_t mare_coord_vivaldi_choose(mare_coord_vivaldi *node,
                                                     const uint64_t *peers, uint32_t count);

/* Where the node is; valid until the node is touched again. */
MARE_COORD_EXPORT const mare_coord_place *mare_coord_vivaldi_here(const mare_coord_vivaldi *node);
