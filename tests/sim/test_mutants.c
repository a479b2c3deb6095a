/* SPDX-License-Identifier: MIT */

/* A rule that an algorithm's comment states is there for a reason: without it, some seed breaks a
 * promise. The rules and their mutants are in tests/sim/mutants, mutate.py makes one algorithm of
 * all the mutants of an algorithm, and each is tried from the seed on that is written down with it:
 * so the test is quick, and goes on to other seeds when runs have changed.
 *
 * MARE_MUTANTS=NAME[:NUMBER[:SEEDS[:PROFILE]]] tries the mutants of one algorithm, or one of them,
 * with every profile or one, and so many seeds of it (3,000), and says what each breaks: for who
 * writes them. */

#include "support/unit.h"
#include "tests/sim/mutants.h"

#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 1000   /* tried for each */
#define STEPS 500000 /* of a run: some mutants have no end */

int mare_mutant;

/* clang-format off */
#define TABLES(X)                                                                                  \
    X(central) X(central_lease) X(ricart) X(ricart_arrival) X(ricart_lease) X(majority)            \
    X(majority_lease) X(token) X(token_lease) X(voting) X(voting_lease)                            \
    X(bully) X(ring) X(wireless) X(superpeer_dht) X(superpeer_tokens)                              \
    X(fifo) X(causal) X(total) X(views) X(berkeley)
/* clang-format on */

#define DECLARE(name) extern const mare_mutant_row mare_mutants_##name[];
TABLES(DECLARE)

static const mare_mutant_row *const tables[] = {
#define ROW(name) mare_mutants_##name,
    TABLES(ROW)};

enum { COUNT = sizeof tables / sizeof *tables };

/* "repair=0 window=2" */
static void set_params(mare_coord_setup *setup, const char *settings)
{
    while (*settings) {
        char name[40] = "";
        size_t length = strcspn(settings, "=");
        char *end;
        memcpy(name, settings, length);
        assert_int_equal(
            mare_coord_setup_set(setup, name, strtoll(settings + length + 1, &end, 10)),
            MARE_COORD_OK);
        settings = end + (*end == ' ');
    }
}

static void prepare(mare_sim_options *options, const mare_mutant_row *row, mare_sim_profile profile,
                    uint64_t seed)
{
    mare_sim_options_init(options, row->algorithm, 3 + (uint32_t)(seed % 4));
    set_params(&options->setup, row->settings);
    options->seed = seed;
    options->profile = profile;
    options->steps_most = STEPS;
    mare_sim_vary(options);
}

static void run(const mare_sim_options *options, int mutant, mare_sim_outcome *out)
{
    mare_mutant = mutant;
    mare_sim_run(options, NULL, out);
    mare_mutant = 0;
}

/* Runs a mutant, and what it is a mutant of: the rule is what makes the difference. */
static int is_caught(const mare_mutant_row *row, mare_sim_profile profile, uint64_t seed)
{
    mare_sim_options options;
    mare_sim_outcome out;
    prepare(&options, row, profile, seed);
    run(&options, row->number, &out);
    int caught = strcmp(out.violation, row->promise) == 0;
    if (caught) {
        run(&options, 0, &out);
        assert_string_equal(out.violation, "");
    }
    mare_sim_options_fini(&options);
    return caught;
}

/* The seed that catches a mutant, or 0: the one that is written down, or one not far behind it. */
static uint64_t find_seed(const mare_mutant_row *row)
{
    mare_sim_profile profile = mare_sim_profile_find(row->profile);
    assert_true(profile < MARE_SIM_PROFILES);
    for (uint64_t seed = row->seed; seed < row->seed + SEEDS; seed++) {
        if (is_caught(row, profile, seed))
            return seed;
    }
    return 0;
}

static void every_mutant_is_caught(void **state)
{
    int missed = 0;
    (void)state;
    for (size_t t = 0; t < COUNT; t++) {
        for (const mare_mutant_row *row = tables[t]; row->algorithm; row++) {
            if (!row->promise[0])
                continue; /* unnoticed, as it says */
            uint64_t seed = find_seed(row);
            missed += seed == 0;
            if (seed != row->seed)
                print_message("# %s %d: seed %u in place of %s %s %u: %s\n", row->algorithm->name,
                              row->number, (unsigned)seed, row->promise, row->profile,
                              (unsigned)row->seed, row->rule);
        }
    }
    if (missed)
        fail_msg("%d rules can be broken without anything being noticed (seed 0)", missed);
}

static void no_algorithm_lacks_mutants(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *all = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        size_t t = 0;
        while (t < COUNT && strcmp(tables[t]->algorithm->name, all[a]->name) != 0)
            t++;
        if (t == COUNT)
            fail_msg("no rule of %s is broken", all[a]->name);
    }
}

/* What a mutant breaks with the seeds of a profile: the first, and how many do, up to three. */
static void search(const mare_mutant_row *row, mare_sim_profile profile, uint64_t seeds)
{
    uint64_t first = 0, found = 0;
    mare_sim_outcome out, seen = {0};
    for (uint64_t seed = 1; seed <= seeds && found < 3; seed++) {
        mare_sim_options options;
        prepare(&options, row, profile, seed);
        run(&options, row->number, &out);
        if (out.violation[0]) {
            mare_sim_outcome whole;
            run(&options, 0, &whole);
            if (whole.violation[0])
                print_message("    %s %s %u also without it: %s\n", whole.violation,
                              mare_sim_profile_name(profile), (unsigned)seed, whole.detail);
            else if (!found++) {
                first = seed;
                seen = out;
            }
        }
        mare_sim_options_fini(&options);
    }
    if (found)
        print_message("    breaks %s %s %u   (%u found: %s)\n", seen.violation,
                      mare_sim_profile_name(profile), (unsigned)first, (unsigned)found,
                      seen.detail);
}

/* "views", "views:3", "views:3:20000" or "views:3:20000:clustered"; the mutant 0 is all of them. */
static void search_all(const char *wanted)
{
    char part[4][40] = {{0}};
    for (int i = 0; i < 4 && *wanted; i++) {
        size_t length = strcspn(wanted, ":");
        snprintf(part[i], sizeof part[i], "%.*s", (int)length, wanted);
        wanted += length + (wanted[length] == ':');
    }
    const char *name = part[0], *profile = part[3];
    long number = strtol(part[1], NULL, 10);
    uint64_t seeds = part[2][0] ? strtoull(part[2], NULL, 10) : 3000;
    for (size_t t = 0; t < COUNT; t++) {
        for (const mare_mutant_row *row = tables[t]; row->algorithm; row++) {
            if (strcmp(row->algorithm->name, name) != 0 || (number && number != row->number))
                continue;
            print_message("%d: %s\n", row->number, row->rule);
            for (int p = 0; p < MARE_SIM_PROFILES; p++) {
                if (!profile[0] || strcmp(mare_sim_profile_name((mare_sim_profile)p), profile) == 0)
                    search(row, (mare_sim_profile)p, seeds);
            }
        }
    }
}

int main(void)
{
    const char *wanted = getenv("MARE_MUTANTS");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mutant_is_caught),
                                       cmocka_unit_test(no_algorithm_lacks_mutants)};
    if (!wanted)
        return cmocka_run_group_tests(tests, NULL, NULL);
    search_all(wanted);
    return 0;
}
