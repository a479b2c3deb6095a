/* SPDX-License-Identifier: MIT */

/* Virtual synchrony in which one that is outside does not say so: who comes back is never let in.
 */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static void greet_nobody(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg);

#define BROKEN_VIEWS mare_broken_views_shy
#define mare__broadcast greet_nobody
#include "tests/sim/broken_views.h"
#undef mare__broadcast

static void greet_nobody(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg)
{
    if (msg->kind != HELLO)
        mare__broadcast(m, fx, msg);
}
