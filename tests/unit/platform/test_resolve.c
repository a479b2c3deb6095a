// SPDX-License-Identifier: MIT
// Names of hosts, both ways.
#include "platform/resolve.h"

#include <string.h>

#include "unit.h"

static void names_are_resolved_or_not(void **state)
{
    (void)state;
    struct mare__resolving naming = {.family = AF_UNSPEC};
    char host[MARE__HOST_MAX], long_name[2000];
    mare__names_live.find_addresses(NULL, &naming, "localhost");
    assert_int_equal(naming.status, 0);
    assert_true(naming.count >= 1);
    mare__address_text(&naming.addresses[0], host);
    assert_true(strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    const char *impossible[] = {"a..b", "", long_name};
    for (int i = 0; i < 3; i++) {
        naming = (struct mare__resolving){.family = AF_UNSPEC};
        mare__names_live.find_addresses(NULL, &naming, impossible[i]);
        assert_int_not_equal(naming.status, 0);
        assert_int_equal(naming.count, 0);
        assert_true(strlen(mare__resolve_error(naming.status)) > 0);
    }
}

static void a_number_is_its_own_address(void **state)
{
    (void)state;
    struct mare__resolving naming = {.family = AF_UNSPEC, .canonical = true};
    char host[MARE__HOST_MAX];
    mare__names_live.find_addresses(NULL, &naming, "127.0.0.7");
    assert_int_equal(naming.status, 0);
    assert_int_equal(naming.count, 1);
    mare__address_text(&naming.addresses[0], host);
    assert_string_equal(host, "127.0.0.7");
    assert_string_equal(naming.name, "127.0.0.7");
}

static void a_family_that_does_not_fit(void **state)
{
    (void)state;
    struct mare__resolving naming = {.family = AF_INET6, .canonical = true};
    mare__names_live.find_addresses(NULL, &naming, "127.0.0.7");
    assert_int_not_equal(naming.status, 0);
    assert_string_equal(mare__resolve_error(naming.status),
                        "Address family for hostname not supported");
}

static void an_address_has_a_name_or_its_number(void **state)
{
    (void)state;
    struct mare__resolving naming = {.must_exist = false};
    assert_true(mare__address_numeric(&naming.addresses[0], "127.0.0.1", 0));
    mare__names_live.find_name(NULL, &naming);
    assert_int_equal(naming.status, 0);
    assert_true(strlen(naming.name) > 0); // localhost, or the number
}

UNIT_TESTS(cmocka_unit_test(names_are_resolved_or_not),
           cmocka_unit_test(a_number_is_its_own_address),
           cmocka_unit_test(a_family_that_does_not_fit),
           cmocka_unit_test(an_address_has_a_name_or_its_number))
