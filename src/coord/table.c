/* SPDX-License-Identifier: MIT */

/* The table of algorithms. To add one: write its file, declare it in coord.h, list it here, name
 * the file in meson.build. Command lines, the simulator, the documentation's table and the fuzzers
 * follow. Nothing else in the library refers to the table, so that a program which names the one
 * algorithm that it uses is not given the others. */

#include "coord/machine.h"

static const mare_coord_algorithm *const table[] = {
    &mare_coord_central,          /* mutex/central.c */
    &mare_coord_voting,           /* mutex/voting.c */
    &mare_coord_ricart,           /* mutex/ricart.c */
    &mare_coord_majority,         /* mutex/majority.c */
    &mare_coord_token,            /* mutex/token.c */
    &mare_coord_bully,            /* election/bully.c */
    &mare_coord_ring,             /* election/ring.c */
    &mare_coord_wireless,         /* election/wireless.c */
    &mare_coord_superpeer_dht,    /* election/superpeer_dht.c */
    &mare_coord_superpeer_tokens, /* election/superpeer_tokens.c */
    &mare_coord_fifo,             /* order/fifo.c */
    &mare_coord_causal,           /* order/causal.c */
    &mare_coord_total,            /* order/total.c */
    &mare_coord_views,            /* order/views.c */
    &mare_coord_berkeley,         /* time/berkeley.c */
};

const mare_coord_algorithm *const *mare_coord_table(size_t *count)
{
    *count = sizeof table / sizeof *table;
    return table;
}

const mare_coord_algorithm *mare_coord_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (mare__same_word(table[i]->name, name))
            return table[i];
    }
    return NULL;
}
