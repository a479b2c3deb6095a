// SPDX-License-Identifier: MIT
// Names of hosts, both ways, looked up by the loop's threads.
#include "platform/names.h"

#include <string.h>

#include "unit.h"

static struct mare__loop loop;
static bool over;

static int setup(void **state)
{
    (void)state;
    over = false;
    return mare__loop_init(&loop) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    mare__loop_fini(&loop);
    return 0;
}

static void on_done(struct mare__naming *naming)
{
    (void)naming;
    over = true;
}

static void await(void)
{
    while (!over)
        mare__loop_wait(&loop, UINT64_MAX);
}

static void a_number_is_its_own_address(void **state)
{
    (void)state;
    static struct mare__naming naming;
    char host[MARE__HOST_MAX];
    naming = (struct mare__naming){.family = AF_UNSPEC, .done = on_done};
    mare__naming_forward(&loop, &naming, "127.0.0.7");
    await();
    assert_int_equal(naming.status, 0);
    assert_int_equal(naming.count, 1);
    mare__address_text(&naming.addresses[0], host);
    assert_string_equal(host, "127.0.0.7");
    assert_string_equal(naming.name, "127.0.0.7");
}

static void a_family_that_does_not_fit(void **state)
{
    (void)state;
    static struct mare__naming naming;
    naming = (struct mare__naming){.family = AF_INET6, .done = on_done};
    mare__naming_forward(&loop, &naming, "127.0.0.7");
    await();
    assert_int_not_equal(naming.status, 0);
    assert_string_equal(mare__naming_error(naming.status),
                        "Address family for hostname not supported");
}

static void an_address_has_a_name_or_its_number(void **state)
{
    (void)state;
    static struct mare__naming naming;
    naming = (struct mare__naming){.must_exist = false, .done = on_done};
    assert_true(mare__address_numeric(&naming.addresses[0], "127.0.0.1", 0));
    mare__naming_back(&loop, &naming);
    await();
    assert_int_equal(naming.status, 0);
    assert_true(strlen(naming.name) > 0); // localhost, or the number
}

UNIT_TESTS(cmocka_unit_test_setup_teardown(a_number_is_its_own_address, setup, teardown),
           cmocka_unit_test_setup_teardown(a_family_that_does_not_fit, setup, teardown),
           cmocka_unit_test_setup_teardown(an_address_has_a_name_or_its_number, setup, teardown))
