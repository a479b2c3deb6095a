/* SPDX-License-Identifier: MIT */
#pragma once

/* The algorithms of the library and the first byte of their messages. Tags are part of what travels
 * between nodes: never reuse one. */

#include <mare/coord.h>

enum {
    MARE__TAG_CENTRAL = 1,
    MARE__TAG_RICART = 2,
};

extern const mare_coord_algorithm mare__central; /* mutex/central.c */
extern const mare_coord_algorithm mare__ricart;  /* mutex/ricart.c */
