/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala whose clock does not survive a crash, though its other memory does: it begins
 * anew when the process greets the others again. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static void greet_anew(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg);

#define mare_coord_ricart mare_broken_ricart_restart
#define mare__ricart_forget mare_broken_ricart_restart_forget
#define mare__ricart_follow mare_broken_ricart_restart_follow
#define mare__broadcast greet_anew
#include "coord/mutex/ricart.c"
#undef mare__broadcast

static void greet_anew(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg)
{
    ricart *r = m->state;
    if (msg->kind == HELLO)
        r->clock = 0;
    mare__broadcast(m, fx, msg);
}
