/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala that says everything so often that one step makes more effects than it
 * declared. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void shout(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg)
{
    for (uint32_t i = 0; i < 3 * m->setup.capacity + 10; i++)
        mare__broadcast(m, fx, msg);
}

#define mare_coord_ricart mare_broken_ricart_room
#define mare__ricart_forget mare_broken_ricart_room_forget
#define mare__ricart_follow mare_broken_ricart_room_follow
#define mare__broadcast shout
#include "coord/mutex/ricart.c"
