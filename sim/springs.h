/* SPDX-License-Identifier: MIT */
#pragma once

/* The algorithm that ours is compared with: Vivaldi as it is in use elsewhere. Springs with an
 * adaptive step and a height (Dabek et al. 2004, figure 3 and section 5.4), an adjustment term for
 * what no place can express (Lee et al., "On Suitability of Euclidean Embedding for Host-Based
 * Network Coordinate Systems", 2010), and gravity towards the origin and a median over a peer's
 * last round trips (Ledlie et al. 2007). The constants are those of the coordinate package of
 * hashicorp/serf. */

#include <mare/coord_place.h>

#include "sim/random.h"

enum { MARE__SPRINGS_WINDOW = 20, MARE__SPRINGS_FILTER = 3 };

struct mare__springs {
    mare_coord_place here;
    double adjustment; /* added to every estimate, may be negative */
    double window[MARE__SPRINGS_WINDOW];
    uint32_t next;
};

/* The last round trips to one peer. */
struct mare__springs_filter {
    double rtt[MARE__SPRINGS_FILTER];
    uint32_t count;
};

/* A node that knows nothing. */
void mare__springs_init(struct mare__springs *node);

/* A round trip to `there` took `rtt` milliseconds. */
void mare__springs_update(struct mare__springs *node, const struct mare__springs *there,
                          struct mare__springs_filter *filter, double rtt, uint32_t dimensions,
                          mare_sim_random *random);
