/* SPDX-License-Identifier: MIT */

/* Prints a line for each algorithm: a digest of the traces of its first seeds, byte for byte, with
 * everything that the seeds decide. test_compilers.py builds it with several compilers. */

#include "tests/sim/drawn.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEEDS 12u

static uint64_t mix(uint64_t digest, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static uint64_t mix_trace(uint64_t digest, size_t *bytes, const mare_coord_algorithm *algorithm,
                          uint64_t seed)
{
    size_t length;
    char *text = trace_of(algorithm, seed, &length);
    digest = mix(digest, text, length);
    *bytes += length;
    free(text);
    return digest;
}

int main(void)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        uint64_t digest = UINT64_C(0xcbf29ce484222325);
        size_t bytes = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            digest = mix_trace(digest, &bytes, table[a], seed);
        printf("%-16s %016" PRIx64 " of %zu bytes\n", table[a]->name, digest, bytes);
    }
    return 0;
}
