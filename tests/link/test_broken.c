// SPDX-License-Identifier: MIT
// What is broken is caught: for every rule of the link there is a machine that breaks it
// (tests/link/broken.py makes them), and a promise of the world or a golden script that finds it
// out. That is how we know that the other tests can fail. The arguments are the golden scripts.
#include <inttypes.h>
#include <string.h>

#include "support/unit.h"
#include "tests/link/broken.h"
#include "tests/link/ledger.h"
#include "tests/link/script.h"
#include "tests/link/world.h"

enum { SEEDS = 400, NEWER_SEEDS = 60 };

static char **scripts;

static const char *script_of(const struct link_rule *rule)
{
    for (char **path = scripts; *path; path++) {
        const char *slash = strrchr(*path, '/');
        if (strcmp(slash ? slash + 1 : *path, rule->caught) == 0)
            return *path;
    }
    return NULL;
}

static bool is_promise(const char *word)
{
    for (size_t i = 0; ledger_promises[i]; i++) {
        if (strcmp(ledger_promises[i], word) == 0)
            return true;
    }
    return false;
}

// A run in which every node breaks the rule of now, or, `mixed`, the first alone.
static bool run(uint64_t seed, bool mixed, struct world_outcome *outcome)
{
    struct world_options options;
    world_options_init(&options, seed);
    for (int i = 0; i < WORLD_NODES; i++)
        options.machines[i] = i > 0 && mixed ? &link_real : &link_broken_machine;
    return world_run(&options, outcome);
}

static bool seed_finds(const struct link_rule *rule)
{
    struct world_outcome outcome;
    const char *last = "nothing";
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (run(seed, false, &outcome))
            continue;
        last = outcome.violation;
        if (strcmp(last, rule->caught) == 0) {
            print_message("# %-16s breaks %-10s with seed %" PRIu64 "\n", rule->name, last, seed);
            return true;
        }
    }
    print_error("%s: no seed finds that %s; found is %s\n", rule->name, rule->does, last);
    return false;
}

static bool script_finds(const struct link_rule *rule)
{
    const char *path = script_of(rule);
    bool found = path && link_script_run(path, &link_broken_machine, true) != 0;
    if (!found)
        print_error("%s: %s does not find that %s\n", rule->name, rule->caught, rule->does);
    return found;
}

static void every_broken_rule_is_caught(void **state)
{
    unsigned missed = 0;
    (void)state;
    for (link_broken = 1; link_rules[link_broken - 1].name; link_broken++) {
        const struct link_rule *rule = &link_rules[link_broken - 1];
        if (rule->caught[0])
            missed += !(is_promise(rule->caught) ? seed_finds(rule) : script_finds(rule));
    }
    assert_int_equal(missed, 0);
}

// The copy of the machine keeps every promise while no rule is broken: it is the rule that is
// caught, and not the copy.
static void the_copy_is_not_caught(void **state)
{
    struct world_outcome outcome;
    (void)state;
    link_broken = 0;
    for (char **path = scripts; *path; path++)
        assert_int_equal(link_script_run(*path, &link_broken_machine, false), 0);
    for (uint64_t seed = 1; seed <= NEWER_SEEDS; seed++) {
        if (!run(seed, false, &outcome))
            fail_msg("seed %" PRIu64 ": %s, %s", seed, outcome.violation, outcome.detail);
    }
}

// A node of a later version sends frames that this one does not know, and may skip.
static void a_newer_node_is_understood(void **state)
{
    struct world_outcome outcome;
    (void)state;
    for (link_broken = 1; link_rules[link_broken - 1].caught[0]; link_broken++)
        assert_non_null(link_rules[link_broken].name);
    for (uint64_t seed = 1; seed <= NEWER_SEEDS; seed++) {
        if (!run(seed, true, &outcome))
            fail_msg("seed %" PRIu64 ": %s, %s", seed, outcome.violation, outcome.detail);
    }
}

static void nothing_that_is_promised_lacks_a_rule(void **state)
{
    (void)state;
    for (size_t p = 0; ledger_promises[p]; p++) {
        unsigned found = 0;
        for (size_t i = 0; link_rules[i].name; i++)
            found += strcmp(link_rules[i].caught, ledger_promises[p]) == 0;
        if (!found)
            fail_msg("no rule is broken that %s finds", ledger_promises[p]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_rule_is_caught),
        cmocka_unit_test(the_copy_is_not_caught),
        cmocka_unit_test(a_newer_node_is_understood),
        cmocka_unit_test(nothing_that_is_promised_lacks_a_rule),
    };
    (void)argc;
    scripts = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
