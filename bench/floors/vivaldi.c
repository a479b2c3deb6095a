// SPDX-License-Identifier: MIT
// A million updates of Vivaldi: 500 nodes with 8 dimensions, 2,000 cycles from nothing, on a made
// matrix. The seconds are processor time, the search for a node's first place included.
#include <stdio.h>
#include <time.h>

#include "sim/place.h"

int main(void)
{
    mare_sim_matrix matrix;
    mare_sim_placed placed;
    mare_sim_vivaldi run = {.dimensions = 8, .cycles = 2000, .seed = 1};
    if (!mare_sim_matrix_make(&matrix, MARE_SIM_MADE, 500, 1))
        return 1;
    clock_t begin = clock();
    if (!mare_sim_vivaldi_run(&run, &matrix, &placed))
        return 1;
    printf("seconds %.4f\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    mare_sim_placed_fini(&placed);
    mare_sim_matrix_fini(&matrix);
    return 0;
}
