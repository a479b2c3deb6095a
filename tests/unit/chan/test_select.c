// SPDX-License-Identifier: MIT
// Several channels at once.
#include "base/alloc.h"
#include "fake.h"

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

// ---- Several at once ----------------------------------------------------------------------------

enum { MANY = 5 };

struct several {
    mare_channel *channels[MANY];
    struct mare__case cases[MANY];
    mare_channel *order[MANY];
    struct fake self;
    uint32_t fired;
    mare_message message;
};

static void several_init(struct several *s, size_t capacity)
{
    memset(s, 0, sizeof *s);
    fake_init(&s->self);
    for (int i = 0; i < MANY; i++) {
        s->channels[i] = mare__chan_new(NULL, capacity);
        s->cases[i].channel = s->channels[i];
        mare__list_init(&s->cases[i].spot.entry);
    }
}

static mare_err several_select(struct several *s, uint32_t start, bool wait)
{
    mare__message_init(&s->message);
    mare_err err = mare__chan_select(s->cases, MANY, start, wait ? &s->self.wait : NULL,
                                     &s->message, &s->fired, s->order);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(atomic_load(&s->channels[i]->lock.held), 0); // every lock was given back
    return err;
}

static void several_end(struct several *s)
{
    for (uint32_t i = 0; i < MANY; i++) {
        mare__chan_forget(s->cases[i].channel, &s->cases[i].spot);
        mare__message_clear(&s->cases[i].message);
    }
    for (int i = 0; i < MANY; i++)
        mare_chan_unref(s->channels[i]);
}

static void select_looks_from_its_start(void **state)
{
    (void)state;
    struct several s;
    several_init(&s, 4);
    assert_int_equal(several_select(&s, 0, false), MARE_EMPTY);
    for (uint32_t start = 0; start < MANY; start++) {
        for (int i = 1; i < MANY; i += 2)
            assert_int_equal(try_send(s.channels[i], i), MARE_OK);
        for (uint32_t expected = start;; expected = (expected + 1) % MANY)
            if (expected % 2) {
                assert_int_equal(several_select(&s, start, true), MARE_OK);
                assert_int_equal(s.fired, expected);
                assert_int_equal(take(&s.message), expected);
                break;
            }
        assert_int_equal(word(&s.self), MARE__WAIT_IDLE); // it never stood in line
        int64_t number;
        for (int i = 0; i < MANY; i++)
            while (try_receive(s.channels[i], &number) == MARE_OK)
                ;
    }
    several_end(&s);
}

static void select_sends_to_who_waits(void **state)
{
    (void)state;
    struct several s;
    struct fake r;
    several_init(&s, 0);
    for (int i = 0; i < MANY; i++) {
        s.cases[i].send = i % 2;
        if (i % 2)
            put(&s.cases[i].message, i);
    }
    receive(s.channels[3], &r);
    assert_int_equal(several_select(&s, 4, true), MARE_OK);
    assert_int_equal(s.fired, 3);
    assert_int_equal(take(&r.wait.message), 3);
    assert_int_equal(r.woken, 1);
    assert_true(mare__message_empty(&s.cases[3].message));
    assert_false(mare__message_empty(&s.cases[1].message)); // the others keep theirs
    several_end(&s);
}

static void select_takes_from_who_waits(void **state)
{
    (void)state;
    struct several s;
    struct fake sender;
    several_init(&s, 0);
    send(s.channels[2], &sender, 22);
    assert_int_equal(several_select(&s, 3, true), MARE_OK);
    assert_int_equal(s.fired, 2);
    assert_int_equal(take(&s.message), 22);
    assert_int_equal(sender.woken, 1);
    several_end(&s);
}

static void select_waits_in_every_line_and_is_served_once(void **state)
{
    (void)state;
    for (uint32_t winner = 0; winner < MANY; winner++) {
        struct several s;
        several_init(&s, 0);
        for (int i = 0; i < MANY; i++) {
            s.cases[i].send = i == 4;
            if (i == 4)
                put(&s.cases[i].message, 44);
        }
        assert_int_equal(several_select(&s, 0, true), MARE_EMPTY);
        for (int i = 0; i < MANY; i++)
            assert_false(
                mare__list_empty(i == 4 ? &s.channels[i]->senders : &s.channels[i]->receivers));
        int64_t number = 0;
        for (uint32_t k = 0; k < MANY; k++) { // all try; the first has it
            uint32_t i = (winner + k) % MANY;
            mare_err err =
                i == 4 ? try_receive(s.channels[i], &number) : try_send(s.channels[i], i);
            assert_int_equal(err, k == 0 ? MARE_OK : i == 4 ? MARE_EMPTY : MARE_FULL);
        }
        assert_int_equal(s.self.wait.fired, winner);
        assert_int_equal(s.self.wait.result, MARE_OK);
        assert_int_equal(s.self.woken, 1);
        if (winner == 4)
            assert_int_equal(number, 44);
        else
            assert_int_equal(take(&s.self.wait.message), winner);
        assert_int_equal(mare__message_empty(&s.cases[4].message), winner == 4);
        several_end(&s);
    }
}

static void select_is_told_of_a_close(void **state)
{
    (void)state;
    struct several s;
    several_init(&s, 0);
    assert_int_equal(several_select(&s, 0, true), MARE_EMPTY);
    mare_chan_close(s.channels[3]);
    assert_int_equal(s.self.woken, 1);
    assert_int_equal(s.self.wait.fired, 3);
    assert_int_equal(s.self.wait.result, MARE_CLOSED);
    mare_chan_close(s.channels[1]); // too late for this wait
    assert_int_equal(s.self.woken, 1);
    assert_int_equal(s.self.wait.fired, 3);
    for (uint32_t i = 0; i < MANY; i++)
        mare__chan_forget(s.channels[i], &s.cases[i].spot);
    assert_int_equal(several_select(&s, 2, true),
                     MARE_CLOSED); // and at once when it was closed before
    assert_int_equal(s.fired, 3);
    several_end(&s);
}

// The same channel in several cases, also for both directions: it is locked once, and one case is
// served.
static void select_may_name_a_channel_twice(void **state)
{
    (void)state;
    struct several s;
    int64_t number;
    several_init(&s, 0);
    for (int i = 0; i < MANY; i++) {
        s.cases[i].channel = s.channels[0];
        s.cases[i].send = i == 2;
    }
    put(&s.cases[2].message, 2);
    assert_int_equal(several_select(&s, 0, true), MARE_EMPTY); // it does not deal with itself
    assert_int_equal(try_receive(s.channels[0], &number), MARE_OK);
    assert_int_equal(number, 2);
    assert_int_equal(s.self.wait.fired, 2);
    assert_int_equal(try_send(s.channels[0], 1), MARE_FULL); // the other cases are claimed with it
    several_end(&s);
}

static void select_without_memory_says_so(void **state)
{
    (void)state;
    struct several s;
    several_init(&s, 2); // one place would need no memory
    s.cases[2].send = true;
    put(&s.cases[2].message, 2);
    mare__alloc_fail_after(1);
    assert_int_equal(several_select(&s, 0, true), MARE_NOMEM);
    assert_int_equal(s.fired, 2);
    assert_int_equal(take(&s.cases[2].message), 2);
    several_end(&s);
}

// Who is not to wait any more stands in no line.
static void the_cancelled_do_not_stand_in_line(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    struct fake f;
    fake_init(&f);
    mare__wait_cancel(&f.wait);
    put(&f.message, 1);
    assert_int_equal(mare__chan_send(channel, &f.message, &f.spot), MARE_KILLED);
    assert_int_equal(take(&f.message), 1);
    assert_int_equal(mare__chan_receive(channel, &f.message, &f.spot), MARE_KILLED);
    assert_true(mare__list_empty(&channel->senders) && mare__list_empty(&channel->receivers));
    mare_chan_unref(channel);
    struct several s;
    several_init(&s, 0);
    mare__wait_cancel(&s.self.wait);
    assert_int_equal(several_select(&s, 0, true), MARE_KILLED);
    for (int i = 0; i < MANY; i++)
        assert_true(mare__list_empty(&s.channels[i]->receivers));
    several_end(&s);
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(select_looks_from_its_start), CASE(select_sends_to_who_waits),
           CASE(select_takes_from_who_waits), CASE(select_waits_in_every_line_and_is_served_once),
           CASE(select_is_told_of_a_close), CASE(select_may_name_a_channel_twice),
           CASE(select_without_memory_says_so), CASE(the_cancelled_do_not_stand_in_line))
