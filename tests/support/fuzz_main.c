// SPDX-License-Identifier: MIT
// Stands in for libFuzzer in the ordinary suite: gives a fuzz target the files of its corpus (the
// folder named on the command line) and then inputs made from a seed, so that the target keeps
// working between the days somebody fuzzes. Reports in TAP.
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANDOM_INPUTS = 2000, LARGEST_INPUT = 512, LARGEST_FILE = 1 << 20 };

// Half of the inputs are noise, half a corpus file with a few bytes changed, which gets further.
static void try_random(const uint8_t *sample, size_t sample_size)
{
    uint64_t random = unit_seed();
    for (int i = 0; i < RANDOM_INPUTS; i++) {
        size_t size = unit_random(&random) % LARGEST_INPUT;
        if (sample_size > 0 && i % 2 == 0)
            size = sample_size;
        // Of exactly this size, so that AddressSanitizer sees the first byte read too far.
        uint8_t *data = malloc(size ? size : 1);
        if (!data)
            abort();
        if (sample_size > 0 && i % 2 == 0) {
            memcpy(data, sample, size);
            for (int changes = 0; changes < 4; changes++)
                data[unit_random(&random) % size] = (uint8_t)unit_random(&random);
        } else {
            for (size_t at = 0; at < size; at++)
                data[at] = (uint8_t)unit_random(&random);
        }
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
}

static size_t read_file(const char *folder, const char *name, uint8_t *into)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t size = fread(into, 1, LARGEST_FILE, file);
    fclose(file);
    return size;
}

int main(int argc, char **argv)
{
    uint8_t *sample = malloc(LARGEST_FILE);
    size_t size = 0;
    int count = 0;
    if (!sample)
        abort();
    DIR *corpus = argc > 1 ? opendir(argv[1]) : NULL; // a target without a corpus is fine
    for (struct dirent *entry; corpus && (entry = readdir(corpus));) {
        if (entry->d_name[0] == '.')
            continue;
        size = read_file(argv[1], entry->d_name, sample);
        LLVMFuzzerTestOneInput(sample, size);
        printf("ok %d - %s\n", ++count, entry->d_name);
        fflush(stdout);
    }
    if (corpus)
        closedir(corpus);
    try_random(sample, size);
    printf("ok %d - %d random inputs\n", ++count, RANDOM_INPUTS);
    printf("1..%d\n", count);
    free(sample);
    return 0;
}
