/* SPDX-License-Identifier: MIT */

/* The golden scripts of tests/golden/coord: worked examples of the sources, effect by effect. The
 * scripts to run are the arguments. */

#include "support/golden.h"
#include "support/script.h"

static void run_script(void **state)
{
    assert_int_equal(mare_script_run(*state), 0);
}

int main(int argc, char **argv)
{
    return golden_main(argc, argv, run_script);
}
