/* SPDX-License-Identifier: MIT */

/* The table of algorithms. To add one: write its file, declare and list it here, name the file in
 * meson.build. Command lines, the simulator, the documentation's table and the fuzzers follow. */

#include "coord/table.h"

static const mare_coord_algorithm *const table[] = {
    &mare__central,
    &mare__voting,
    &mare__ricart,
    &mare__majority,
    &mare__token,
    &mare__bully,
    &mare__ring,
    &mare__wireless,
    &mare__superpeer_dht,
    &mare__superpeer_tokens,
    &mare__fifo,
    &mare__causal,
    &mare__total,
    &mare__views,
    &mare__berkeley,
};

const mare_coord_algorithm *const *mare_coord_table(size_t *count)
{
    *count = sizeof table / sizeof *table;
    return table;
}
