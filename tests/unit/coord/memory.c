/* SPDX-License-Identifier: MIT */

/* Prints the table of memory of docs/reference/coord.md, row by row: what a machine, its list of
 * effects and the messages in them take in groups of 5, 16 and 100, as each algorithm is set up
 * unless told otherwise. memory.sh compares. */

#include <mare/coord.h>

#include <inttypes.h>
#include <stdio.h>

/* The largest over the members: some have more to do than others. */
static size_t largest(mare_coord_setup setup)
{
    size_t most = 0;
    for (setup.self = 0; setup.self < setup.members; setup.self++) {
        size_t size = mare_coord_size(&setup);
        most = size > most ? size : most;
    }
    return most;
}

int main(void)
{
    static const uint32_t groups[] = {5, 16, 100};
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    if (sizeof(void *) != 8)
        return 77; /* the documentation gives the figures of 64-bit machines */
    for (size_t a = 0; a < count; a++) {
        printf("| `%s` |", table[a]->name);
        for (int g = 0; g < 3; g++) {
            mare_coord_setup setup;
            uint32_t effects, bytes;
            mare_coord_setup_init(&setup, table[a], groups[g]);
            mare_coord_room(&setup, &effects, &bytes);
            printf(" %zu + %zu + %" PRIu32 " |", largest(setup),
                   effects * sizeof(mare_coord_effect), bytes);
        }
        printf("\n");
    }
    return 0;
}
