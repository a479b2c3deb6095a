// SPDX-License-Identifier: MIT
#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

_Noreturn void unit_skip_all(const char *reason)
{
    printf("# skipped: %s\n", reason);
    fflush(stdout);
    _Exit(77);
}

uint64_t unit_seed(void)
{
    uint64_t seed = 0;
    const char *given = getenv("MARE_SEED");
    if (given)
        seed = strtoull(given, NULL, 0);
    else if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        abort();
    printf("# replay with: MARE_SEED=0x%" PRIx64 " %s\n", seed, program_invocation_name);
    fflush(stdout);
    return seed;
}

uint64_t unit_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

unsigned unit_slow(void)
{
    const char *factor = getenv("MARE_TEST_SLOW");
    return factor ? (unsigned)strtoul(factor, NULL, 10) : 1;
}
