// SPDX-License-Identifier: MIT
// The floor of a parked process's memory: the resident bytes of a bare lua_newstate over malloc.
// Many states are made and kept, and the growth of the resident set is divided among them, so that
// what malloc adds is counted and what a byte counter inside the allocator would miss is not.
//
//     bytes         resident bytes of one state: the row's measure
//     asked_bytes   what Lua asked the allocator for
//
//     parked [states]
#include <lua.h>
#include <unistd.h>

#include "floor.h"

static size_t asked;

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size)
{
    (void)ud;
    asked += new_size - (block != NULL ? old_size : 0);
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

static double resident_bytes(void)
{
    long total, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%ld %ld", &total, &resident) != 2) {
        floor_fail("cannot read /proc/self/statm");
    }
    fclose(statm);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    long states = floor_count(argc, argv, 1, 200000);
    lua_State **kept = malloc((size_t)states * sizeof *kept);
    if (kept == NULL) {
        floor_fail("no memory");
    }
    for (long i = 0; i < states; i++) {
        kept[i] = NULL; // The pages of the list itself are resident before the first reading.
    }
    resident_bytes();
    double before = resident_bytes();
    for (long i = 0; i < states; i++) {
        kept[i] = lua_newstate(allocate, NULL);
        if (kept[i] == NULL) {
            floor_fail("no memory");
        }
    }
    floor_report("bytes", (resident_bytes() - before) / (double)states);
    floor_report("asked_bytes", (double)asked / (double)states);
    // The states are left to the end of the program: closing them is not what is measured.
    return 0;
}
