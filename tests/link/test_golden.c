// SPDX-License-Identifier: MIT
// The golden scripts of tests/golden/link, which are the arguments.
#include <string.h>

#include "support/unit.h"
#include "tests/link/script.h"

static void run_script(void **state)
{
    assert_int_equal(link_script_run(*state, &link_real, false), 0);
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
    return _cmocka_run_group_tests("golden", tests, count, NULL, NULL) ? 1 : 0;
}
