// SPDX-License-Identifier: MIT
// What an authority signs, and what it does not; and that memory may end anywhere.
#include "platform/keys.h"

#include <string.h>

#include "base/alloc.h"
#include "unit.h"

enum { DAY = 24 * 3600 };

struct pair {
    char *key, *certificate;
};

static void drop(struct pair *pair)
{
    mare__key_forget(pair->key);
    mare__free(pair->certificate);
}

// A key and a certificate of that use; `issuer`: NULL, it signs itself.
static bool make(struct pair *pair, enum mare__key_use use, const struct pair *issuer,
                 struct mare__tls_error *error)
{
    const char *hosts[] = {"ebb", "127.0.0.1"};
    *pair = (struct pair){.key = mare__key_make(error)};
    const struct mare__certificate_wish wish = {
        .use = use,
        .group = issuer ? NULL : "tides",
        .name = "ebb",
        .hosts = hosts,
        .host_count = 2,
        .seconds = DAY,
        .key = pair->key,
        .issuer = issuer ? issuer->certificate : NULL,
        .issuer_key = issuer ? issuer->key : NULL,
    };
    if (pair->key)
        pair->certificate = mare__certificate_make(&wish, error);
    if (pair->certificate)
        return true;
    mare__key_forget(pair->key);
    *pair = (struct pair){0};
    return false;
}

static void says_what_it_is_for(void **state)
{
    (void)state;
    struct mare__tls_error error;
    struct mare__certificate_facts facts;
    struct pair authority, other;
    assert_true(make(&authority, MARE__FOR_AUTHORITY, NULL, &error));
    assert_true(mare__certificate_look(authority.certificate, &facts, &error));
    assert_int_equal(facts.use, MARE__FOR_AUTHORITY);
    for (int use = MARE__FOR_NODE; use <= MARE__FOR_CODE; use++) {
        assert_true(make(&other, (enum mare__key_use)use, &authority, &error));
        assert_true(mare__certificate_look(other.certificate, &facts, &error));
        assert_int_equal(facts.use, use);
        assert_string_equal(facts.about.subject, "CN = ebb");
        assert_string_equal(facts.about.issuer, "O = tides, CN = ebb");
        assert_memory_equal(facts.about.names,
                            "ebb\0"
                            "127.0.0.1",
                            14);
        for (int wanted = MARE__FOR_OTHER; wanted <= MARE__FOR_CODE; wanted++)
            assert_int_equal(mare__certificate_verify(other.certificate, authority.certificate,
                                                      (enum mare__key_use)wanted, &error),
                             wanted == MARE__FOR_OTHER || wanted == use);
        drop(&other);
    }
    drop(&authority);
}

static void signs_only_with_its_own_key(void **state)
{
    (void)state;
    struct mare__tls_error error;
    struct pair authority, stranger, node;
    assert_true(make(&authority, MARE__FOR_AUTHORITY, NULL, &error));
    assert_true(make(&stranger, MARE__FOR_AUTHORITY, NULL, &error));
    assert_true(make(&node, MARE__FOR_NODE, &stranger, &error));
    const struct pair mixed = {.key = stranger.key, .certificate = authority.certificate};
    struct pair none;
    assert_false(make(&none, MARE__FOR_NODE, &mixed, &error));
    assert_int_equal(error.code, MARE_BADMSG);
    assert_null(mare__list_make(mixed.certificate, mixed.key, NULL, NULL, &error));
    // Nor does it revoke what another has signed, or go on with another's list.
    assert_null(
        mare__list_make(authority.certificate, authority.key, NULL, node.certificate, &error));
    char *list = mare__list_make(stranger.certificate, stranger.key, NULL, NULL, &error);
    assert_non_null(list);
    assert_null(mare__list_make(authority.certificate, authority.key, list, NULL, &error));
    mare__free(list);
    drop(&node);
    drop(&stranger);
    drop(&authority);
}

static void a_signature_is_of_all_bytes_and_of_one_key(void **state)
{
    (void)state;
    struct mare__tls_error error;
    struct pair one, other;
    unsigned char signature[MARE__SIGNATURE_SIZE];
    char text[] = "print 'high tide'";
    assert_true(make(&one, MARE__FOR_AUTHORITY, NULL, &error));
    assert_true(make(&other, MARE__FOR_AUTHORITY, NULL, &error));
    assert_true(mare__key_sign(one.key, text, sizeof text, signature, &error));
    assert_true(mare__key_check(one.certificate, text, sizeof text, signature, &error));
    assert_false(mare__key_check(other.certificate, text, sizeof text, signature, &error));
    assert_int_equal(error.code, MARE_DENIED);
    assert_false(mare__key_check(one.certificate, text, sizeof text - 1, signature, &error));
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] ^= 1;
        assert_false(mare__key_check(one.certificate, text, sizeof text, signature, &error));
        text[i] ^= 1;
    }
    for (size_t i = 0; i < sizeof signature; i++) {
        signature[i] ^= 1;
        assert_false(mare__key_check(one.certificate, text, sizeof text, signature, &error));
        signature[i] ^= 1;
    }
    drop(&other);
    drop(&one);
}

// Everything once, with the n-th allocation failing: whether that was too late to matter.
static bool live(long n)
{
    struct mare__tls_error error = {.code = MARE_OK};
    struct pair authority = {0}, node = {0};
    char *list = NULL, *both = NULL;
    mare__alloc_fail_after(n);
    bool done =
        make(&authority, MARE__FOR_AUTHORITY, NULL, &error) &&
        make(&node, MARE__FOR_NODE, &authority, &error) &&
        (list = mare__list_make(authority.certificate, authority.key, NULL, NULL, &error)) &&
        (both =
             mare__list_make(authority.certificate, authority.key, list, node.certificate, &error));
    mare__alloc_fail_after(0);
    assert_true(done || error.code != MARE_OK);
    drop(&authority);
    drop(&node);
    mare__free(list);
    mare__free(both);
    return done;
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    long n = 1;
    while (!live(n))
        n++;
    assert_true(n > 6);
}

UNIT_TESTS(cmocka_unit_test(says_what_it_is_for), cmocka_unit_test(signs_only_with_its_own_key),
           cmocka_unit_test(a_signature_is_of_all_bytes_and_of_one_key),
           cmocka_unit_test(memory_may_end_anywhere))
