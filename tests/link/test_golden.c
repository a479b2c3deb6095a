// SPDX-License-Identifier: MIT
// The golden scripts of tests/golden/link, which are the arguments.
#include "support/golden.h"
#include "tests/link/script.h"

static void run_script(void **state)
{
    assert_int_equal(link_script_run(*state, &link_real, false), 0);
}

int main(int argc, char **argv)
{
    return golden_main(argc, argv, run_script);
}
