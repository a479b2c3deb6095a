/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala with the time of the request alone as fencing number: two requests of one
 * time, one served after the other, get the same. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void grant_by_time(mare_coord *m, mare_coord_effects *fx, uint64_t fence)
{
    mare__grant(m, fx, fence / m->setup.capacity);
}

#define mare_coord_ricart mare_broken_ricart_fence
#define mare__ricart_forget mare_broken_ricart_fence_forget
#define mare__ricart_follow mare_broken_ricart_fence_follow
#define mare__grant grant_by_time
#include "coord/mutex/ricart.c"
