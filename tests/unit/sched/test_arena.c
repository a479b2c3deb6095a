// SPDX-License-Identifier: MIT
// The memory of a Lua state: random use against a shadow, limits, failure, and being put back to
// its first day.
#include "sched/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "mare_limits.h"
#include "unit.h"

enum { BLOCKS = 300 };

// What the arena was asked to keep.
struct shadow {
    struct mare__arena *arena;
    struct {
        uint8_t *block;
        size_t size;
        uint8_t fill;
    } blocks[BLOCKS];
    size_t used;
};

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

static bool intact(const struct shadow *s, int i, size_t size)
{
    for (size_t k = 0; k < size; k++)
        if (s->blocks[i].block[k] != s->blocks[i].fill)
            return false;
    return true;
}

// Asks for another size, as Lua does: 0 frees. What was there is checked before and after.
static bool resize(struct shadow *s, int i, size_t size, uint8_t fill)
{
    size_t old = s->blocks[i].size, kept = old < size ? old : size;
    uint8_t *was = s->blocks[i].block;
    assert_true(intact(s, i, old));
    // A new block is announced with the type of the object in place of a size.
    uint8_t *block = mare__arena_alloc(s->arena, was, was ? old : 4 + (size_t)(fill % 5), size);
    if (size > 0 && !block) {
        assert_true(size > old); // shrinking never fails
        assert_true(intact(s, i, old));
        return false;
    }
    s->blocks[i].block = block;
    assert_true(size == 0 || (uintptr_t)block % 8 == 0);
    if (size > 0)
        assert_true(intact(s, i, kept));
    else
        assert_null(block);
    s->blocks[i].size = size;
    s->blocks[i].fill = fill;
    if (size > 0)
        memset(block, fill, size);
    s->used = s->used - old + size;
    assert_int_equal(mare__arena_used(s->arena), s->used);
    return true;
}

static size_t random_size(uint64_t *random)
{
    uint64_t r = unit_random(random);
    return r % 10 == 0 ? (r >> 8) % 20000 : r % 10 < 3 ? (r >> 8) % 600 : 1 + (r >> 8) % 120;
}

static void play(struct shadow *s, uint64_t *random, int steps)
{
    for (int step = 0; step < steps; step++) {
        int i = (int)(unit_random(random) % BLOCKS);
        size_t size = unit_random(random) % 3 ? random_size(random) : 0;
        if (size == 0 && !s->blocks[i].block)
            continue;
        resize(s, i, size, (uint8_t)unit_random(random));
    }
}

static void check_all(const struct shadow *s)
{
    for (int i = 0; i < BLOCKS; i++)
        if (s->blocks[i].block)
            assert_true(intact(s, i, s->blocks[i].size));
}

static void random_use_agrees_with_a_shadow(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 30; round++) {
        struct shadow s = {.arena = mare__arena_create()};
        assert_int_equal(mare__arena_used(s.arena), 0);
        if (round % 2)
            mare__arena_born(s.arena); // at once, or in the middle
        play(&s, &random, 500);
        mare__arena_born(s.arena);
        play(&s, &random, 3000);
        check_all(&s);
        if (round % 3 == 0)
            for (int i = 0; i < BLOCKS; i++)
                if (s.blocks[i].block)
                    resize(&s, i, 0, 0);
        mare__arena_destroy(s.arena); // what is left goes with it
    }
}

static void a_limit_is_kept(void **state)
{
    (void)state;
    struct mare__arena *arena = mare__arena_create();
    struct mare__account *account = mare__account_new(1000), *poor = mare__account_new(10);
    mare__arena_born(arena);
    mare__arena_account(arena, account);
    void *a = mare__arena_alloc(arena, NULL, 0, 600), *b = mare__arena_alloc(arena, NULL, 0, 400);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(mare__arena_alloc(arena, NULL, 0, 1));
    assert_null(mare__arena_alloc(arena, b, 400, 401));
    b = mare__arena_alloc(arena, b, 400, 100); // less is always possible
    assert_non_null(b);
    assert_int_equal(mare__arena_used(arena), 700);
    assert_null(mare__arena_alloc(arena, b, 100, SIZE_MAX - 4096));
    b = mare__arena_alloc(arena, b, 100, 400);
    assert_non_null(b);
    mare__arena_account(arena, poor); // it pays for what comes, not for what there is
    assert_int_equal(mare__account_used(account), 0);
    assert_null(mare__arena_alloc(arena, NULL, 0, 11));
    mare__arena_alloc(arena, b, 400, 0);
    assert_int_equal(mare__arena_used(arena), 600);
    mare__arena_account(arena, NULL);
    assert_non_null(mare__arena_alloc(arena, NULL, 0, 5000));
    mare__arena_destroy(arena);
    mare__account_unref(account);
    mare__account_unref(poor);
}

// What is freed is given back to the account, where others may take it, but for a few kilobytes.
static void what_is_freed_is_given_back(void **state)
{
    (void)state;
    enum { LIMIT = 1 << 20, SLACK = 8192 };
    uint64_t random = unit_seed();
    struct mare__account *account = mare__account_new(LIMIT);
    struct shadow s = {.arena = mare__arena_create()};
    resize(&s, 0, 100, 1);
    mare__arena_born(s.arena);
    mare__arena_account(s.arena, account);
    for (int round = 0; round < 50; round++) {
        play(&s, &random, 500);
        assert_in_range(mare__account_used(account), s.used > 100 ? s.used - 100 : 0,
                        s.used + SLACK);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (s.blocks[i].block)
            resize(&s, i, 0, 0);
    assert_in_range(mare__account_used(account), 0, SLACK);
    mare__arena_destroy(s.arena);
    assert_int_equal(mare__account_used(account), 0);
    mare__account_unref(account);
}

static void allocation_fails_at_every_point(void **state)
{
    (void)state;
    mare__alloc_fail_after(1);
    assert_null(mare__arena_create());
    for (long n = 2; n < 200; n++) {
        uint64_t random = (uint64_t)n;
        mare__alloc_fail_after(n);
        struct shadow s = {.arena = mare__arena_create()};
        if (n % 2)
            mare__arena_born(s.arena);
        play(&s, &random, 400); // it checks that failures change nothing
        mare__alloc_fail_after(0);
        check_all(&s);
        play(&s, &random, 400);
        check_all(&s);
        mare__arena_destroy(s.arena);
    }
}

// ---- Back to the first day ----------------------------------------------------------------------

static void reverting_gives_the_same_bytes(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    uint64_t random = unit_seed();
    for (int round = 0; round < 50; round++) {
        struct shadow s = {.arena = mare__arena_create()};
        for (int i = 0; i < 20; i++) // a birth that fits into the first piece
            resize(&s, i, 1 + unit_random(&random) % 100, (uint8_t)unit_random(&random));
        resize(&s, 5, 0, 0); // with a hole in it
        mare__arena_born(s.arena);
        assert_false(mare__arena_remembers(s.arena, MARE__AT_BIRTH));
        assert_true(mare__arena_remember(s.arena, MARE__AT_BIRTH));
        assert_true(mare__arena_remembers(s.arena, MARE__AT_BIRTH));
        struct shadow born = s;
        struct mare__account *account = mare__account_new(3 << 20);
        for (int life = 0; life < 3; life++) {
            mare__arena_account(s.arena, account);
            memset(mare__arena_scratch(s.arena), 0xee, 4 * sizeof(void *));
            play(&s, &random, 1000);
            mare__arena_revert(s.arena, MARE__AT_BIRTH);
            s = born;
            assert_int_equal(mare__arena_used(s.arena), s.used);
            check_all(&s);
        }
        // The limit is gone too.
        assert_int_equal(mare__account_used(account), 0);
        assert_true(resize(&s, 299, 4 << 20, 1));
        mare__arena_destroy(s.arena);
        mare__account_unref(account);
    }
}

// Birth, and a later moment: each is put back as it was, in any order.
static void two_moments_are_remembered(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    uint64_t random = unit_seed();
    for (int round = 0; round < 30; round++) {
        struct shadow s = {.arena = mare__arena_create()}, moments[MARE__MOMENTS];
        for (int i = 0; i < 10; i++)
            resize(&s, i, 1 + unit_random(&random) % 100, (uint8_t)unit_random(&random));
        mare__arena_born(s.arena);
        assert_true(mare__arena_remember(s.arena, MARE__AT_BIRTH));
        moments[MARE__AT_BIRTH] = s;
        assert_false(mare__arena_remembers(s.arena, MARE__AFTER_LOADING));
        for (int life = 0; life < 8; life++) {
            // Who pays when a moment is remembered is gone when it is put back.
            struct mare__account *account = mare__account_new(8 << 20);
            mare__arena_account(s.arena, account);
            for (int i = 5; i < 20; i++) // some of the blocks of birth change, too
                resize(&s, i, 1 + unit_random(&random) % 60, (uint8_t)unit_random(&random));
            if (life % 3 == 0 && mare__arena_remember(s.arena, MARE__AFTER_LOADING))
                moments[MARE__AFTER_LOADING] = s;
            play(&s, &random, 300);
            bool later = mare__arena_remembers(s.arena, MARE__AFTER_LOADING);
            enum mare__moment moment = later && life % 2 ? MARE__AFTER_LOADING : MARE__AT_BIRTH;
            ((void **)mare__arena_scratch(s.arena))[3] = &random;
            mare__arena_revert(s.arena, moment);
            assert_ptr_equal(((void **)mare__arena_scratch(s.arena))[3], &random); // the owner's
            assert_int_equal(mare__account_used(account), 0);
            mare__account_unref(account);
            s = moments[moment];
            assert_int_equal(mare__arena_used(s.arena), s.used);
            check_all(&s);
        }
        mare__arena_destroy(s.arena);
    }
}

// Every life after a revert gets the same addresses in the first piece, so that nothing of the last
// one can be seen.
static void lives_are_alike(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    struct mare__arena *arena = mare__arena_create();
    void *first[10], *inborn = mare__arena_alloc(arena, NULL, 0, 300);
    mare__arena_born(arena);
    assert_true(mare__arena_remember(arena, MARE__AT_BIRTH));
    for (int life = 0; life < 5; life++) {
        for (int i = 0; i < 10; i++) {
            void *block = mare__arena_alloc(arena, NULL, 0, 48);
            if (life == 0)
                first[i] = block;
            else
                assert_ptr_equal(block, first[i]);
        }
        mare__arena_alloc(arena, inborn, 300, 600); // it moves away
        mare__arena_revert(arena, MARE__AT_BIRTH);
    }
    mare__arena_destroy(arena);
}

static void what_lies_outside_cannot_be_remembered(void **state)
{
    (void)state;
    struct mare__arena *arena = mare__arena_create();
    mare__arena_born(arena);
    void *block = mare__arena_alloc(arena, NULL, 0, 5000); // from malloc
    assert_false(mare__arena_remember(arena, MARE__AT_BIRTH));
    assert_false(mare__arena_remembers(arena, MARE__AT_BIRTH));
    mare__arena_alloc(arena, block, 5000, 0);
    mare__alloc_fail_after(1);
    assert_false(mare__arena_remember(arena, MARE__AT_BIRTH)); // no memory for the image
    assert_false(mare__arena_remembers(arena, MARE__AT_BIRTH));
    mare__alloc_fail_after(0);
    mare__arena_destroy(arena);
}

// A birth in which a big block was given back: blocks behind it are part of the memory all the
// same.
static void a_birth_with_a_hole_is_remembered_whole(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    struct mare__arena *arena = mare__arena_create();
    size_t size = 640;
    uint8_t *blocks[64];
    int count = 0;
    void *large = mare__arena_alloc(arena, NULL, 0, 1024);
    // Until less than the large block is left in the first piece.
    size_t room = MARE__ARENA_BASE - ((size_t)((char *)large - (char *)arena) + 1024);
    for (; room >= size; room -= size) {
        blocks[count] = mare__arena_alloc(arena, NULL, 0, size);
        memset(blocks[count++], 0x11, size);
    }
    mare__arena_alloc(arena, large, 1024, 0);
    mare__arena_born(arena);
    if (!mare__arena_remember(arena, MARE__AT_BIRTH)) { // refusing would be right as well
        mare__arena_destroy(arena);
        return;
    }
    for (int i = 0; i < count; i++)
        memset(blocks[i], 0x22, size);
    mare__arena_revert(arena, MARE__AT_BIRTH);
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < size; k++)
            assert_int_equal(blocks[i][k], 0x11);
    mare__arena_destroy(arena);
}

// A big block of the birth that is given back later serves small ones. From then on the end of what
// is in use is not where blocks are carved, so that no moment can be remembered.
static void nothing_is_remembered_while_an_old_stack_is_carved(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    struct mare__arena *arena = mare__arena_create();
    void *large = mare__arena_alloc(arena, NULL, 0, 1024);
    size_t room = MARE__ARENA_BASE - ((size_t)((char *)large - (char *)arena) + 1024);
    mare__arena_born(arena);
    assert_true(mare__arena_remember(arena, MARE__AT_BIRTH));
    for (; room >= 1024; room -= 128)
        assert_non_null(mare__arena_alloc(arena, NULL, 0, 128));
    assert_true(mare__arena_remember(arena, MARE__AFTER_LOADING));
    mare__arena_alloc(arena, large, 1024, 0);
    assert_ptr_equal(mare__arena_alloc(arena, NULL, 0, 128), large);
    assert_false(mare__arena_remember(arena, MARE__AFTER_LOADING));
    mare__arena_destroy(arena);
}

// What is left of a chunk when a block does not fit serves a smaller one.
static void the_rest_of_a_chunk_is_used(void **state)
{
    (void)state;
    if (MARE__ARENA_PLAIN)
        skip();
    struct mare__arena *arena = mare__arena_create();
    char *at = mare__arena_alloc(arena, NULL, 0, 256), *last = at;
    mare__arena_born(arena);
    for (; (size_t)(at - (char *)arena) < MARE__ARENA_BASE && at >= (char *)arena;
         at = mare__arena_alloc(arena, NULL, 0, 256))
        last = at;
    size_t rest = MARE__ARENA_BASE - ((size_t)(last - (char *)arena) + 256);
    size_t size = rest <= 64 ? rest : rest <= 128 ? rest / 16 * 16 : rest / 32 * 32;
    char *small = mare__arena_alloc(arena, NULL, 0, size);
    assert_true(rest > 0 && rest < 256);
    assert_ptr_equal(small, last + 256);
    mare__arena_destroy(arena);
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(random_use_agrees_with_a_shadow), CASE(a_limit_is_kept),
           CASE(what_is_freed_is_given_back), CASE(allocation_fails_at_every_point),
           CASE(reverting_gives_the_same_bytes), CASE(lives_are_alike),
           CASE(two_moments_are_remembered), CASE(what_lies_outside_cannot_be_remembered),
           CASE(a_birth_with_a_hole_is_remembered_whole),
           CASE(nothing_is_remembered_while_an_old_stack_is_carved),
           CASE(the_rest_of_a_chunk_is_used))
