/* SPDX-License-Identifier: MIT */

/* The golden scripts of tests/golden/coord: worked examples of the sources, effect by effect. The
 * scripts to run are the arguments. */

#include "support/script.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

static void run_script(void **state)
{
    assert_int_equal(mare_script_run(*state), 0);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[64] = {0};
    size_t count = 0;
    for (int i = 1; i < argc && count < 64; i++) {
        const char *slash = strrchr(argv[i], '/');
        tests[count++] = (struct CMUnitTest){
            .name = slash ? slash + 1 : argv[i], .test_func = run_script, .initial_state = argv[i]};
    }
    return _cmocka_run_group_tests("golden", tests, count, NULL, NULL);
}
