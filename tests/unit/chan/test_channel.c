// SPDX-License-Identifier: MIT
// Channels and waits on one thread: the parties are fakes whose waking is counted, so that every
// order of events can be played.
#include "chan/channel.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "unit.h"

// Somebody who waits.
struct fake {
    struct mare__wait wait;
    struct mare__node node;
    mare_message message; // to send
    int woken;
};

static void wake(struct mare__wait *wait)
{
    MARE__ENTRY(wait, struct fake, wait)->woken++;
}

static void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->wait.wake = wake;
    fake->node.wait = &fake->wait;
    mare__list_init(&fake->node.link);
    mare__wait_begin(&fake->wait);
}

static unsigned word(struct fake *fake)
{
    return atomic_load(&fake->wait.word);
}

static void put(mare_message *message, int64_t number)
{
    mare__message_init(message);
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
}

// The number in a message, which is cleared.
static int64_t take(mare_message *message)
{
    mare_value value;
    assert_int_equal(mare_message_count(message), 1);
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    mare__message_clear(message);
    return value.as.integer;
}

static mare_err send(mare_channel *channel, struct fake *fake, int64_t number)
{
    fake_init(fake);
    put(&fake->message, number);
    return mare__chan_send(channel, &fake->message, &fake->node);
}

static mare_err receive(mare_channel *channel, struct fake *fake)
{
    fake_init(fake);
    return mare__chan_receive(channel, &fake->wait.message, &fake->node);
}

static mare_err try_send(mare_channel *channel, int64_t number)
{
    mare_message message;
    put(&message, number);
    mare_err err = mare__chan_send(channel, &message, NULL);
    mare__message_clear(&message);
    return err;
}

static mare_err try_receive(mare_channel *channel, int64_t *number)
{
    mare_message message;
    mare__message_init(&message);
    mare_err err = mare__chan_receive(channel, &message, NULL);
    if (!err)
        *number = take(&message);
    return err;
}

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

// ---- The wait by itself ------------------------------------------------------------------------------------------------

static void a_published_wait_is_claimed_once(void **state)
{
    (void)state;
    struct fake f;
    fake_init(&f);
    assert_int_equal(word(&f), MARE__WAIT_IDLE);
    assert_false(mare__wait_claim(&f.wait)); // not before it is published
    assert_false(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_true(mare__wait_publish(&f.wait));
    assert_int_equal(word(&f), MARE__WAIT_WAITING);
    assert_int_equal(f.wait.fired, MARE__FIRED_NONE);
    assert_int_equal(f.wait.result, MARE_OK);
    assert_true(mare__wait_claim(&f.wait));
    assert_int_equal(word(&f), MARE__WAIT_ENDED);
    assert_false(mare__wait_claim(&f.wait));
    assert_false(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_int_equal(f.woken, 0); // that is the claimant's affair
    mare__wait_begin(&f.wait);
    assert_int_equal(word(&f), MARE__WAIT_IDLE);
    assert_true(mare__wait_publish(&f.wait)); // and again
    assert_true(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_TIMEOUT);
    assert_int_equal(f.wait.fired, MARE__FIRED_NONE);
}

static void a_cancelled_owner_waits_no_more(void **state)
{
    (void)state;
    struct fake f;
    fake_init(&f);
    assert_true(mare__wait_publish(&f.wait));
    mare__wait_cancel(&f.wait);
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_KILLED);
    mare__wait_cancel(&f.wait); // once is enough
    assert_int_equal(f.woken, 1);
    fake_init(&f);
    mare__wait_cancel(&f.wait); // while it runs
    assert_int_equal(f.woken, 0);
    for (int i = 0; i < 2; i++) {
        mare__wait_begin(&f.wait);
        assert_false(mare__wait_publish(&f.wait));
        assert_int_equal(f.wait.result, MARE_KILLED);
        assert_int_equal(f.woken, 0); // it is awake
        assert_false(mare__wait_claim(&f.wait));
    }
}

// ---- A rendezvous ------------------------------------------------------------------------------------------------------

static void a_waiting_receiver_is_given_the_message(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct fake r, s;
        assert_int_equal(receive(channel, &r), MARE_EMPTY);
        r.node.index = 7;
        assert_int_equal(send(channel, &s, 42), MARE_OK);
        assert_true(mare__message_empty(&s.message));
        assert_int_equal(r.woken, 1);
        assert_int_equal(word(&r), MARE__WAIT_ENDED);
        assert_int_equal(r.wait.result, MARE_OK);
        assert_int_equal(r.wait.fired, 7);
        assert_int_equal(take(&r.wait.message), 42);
        assert_true(mare__list_empty(&channel->receivers) && mare__list_empty(&channel->senders));
    }
    assert_int_equal(channel->sent, 2);
    mare_chan_unref(channel);
}

static void a_waiting_sender_is_relieved_of_its_message(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct fake r, s;
        assert_int_equal(send(channel, &s, 43), MARE_FULL);
        assert_int_equal(receive(channel, &r), MARE_OK);
        assert_int_equal(take(&r.wait.message), 43);
        assert_true(mare__message_empty(&s.message));
        assert_int_equal(s.woken, 1);
        assert_int_equal(s.wait.result, MARE_OK);
        assert_int_equal(s.wait.fired, 0);
    }
    mare_chan_unref(channel);
}

static void those_who_do_not_wait_leave_no_trace(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    int64_t number;
    mare_message message;
    put(&message, 1);
    assert_int_equal(mare__chan_send(channel, &message, NULL), MARE_FULL);
    assert_int_equal(take(&message), 1); // it is as it was
    assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
    assert_true(mare__list_empty(&channel->receivers) && mare__list_empty(&channel->senders));
    mare_chan_unref(channel);
}

static void the_first_in_line_is_served_first(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    struct fake r[3], s[3];
    int64_t number;
    for (int i = 0; i < 3; i++)
        receive(channel, &r[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_send(channel, i), MARE_OK);
        assert_int_equal(take(&r[i].wait.message), i);
    }
    for (int i = 0; i < 3; i++)
        send(channel, &s[i], i);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
        assert_int_equal(s[i].woken, 1);
    }
    mare_chan_unref(channel);
}

// A node may still stand in line when a timer or a kill has ended its wait: it counts as absent.
static void who_has_given_up_is_passed_over(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    struct fake r[3], s[3];
    int64_t number;
    for (int i = 0; i < 3; i++)
        receive(channel, &r[i]);
    mare__wait_end(&r[0].wait, MARE_TIMEOUT);
    mare__wait_end(&r[1].wait, MARE_KILLED);
    assert_int_equal(try_send(channel, 5), MARE_OK);
    assert_int_equal(take(&r[2].wait.message), 5);
    assert_true(mare__message_empty(&r[0].wait.message));
    assert_int_equal(r[0].wait.result, MARE_TIMEOUT);
    mare__chan_forget(channel, &r[0].node); // what its owner does, after it was passed over
    for (int i = 0; i < 3; i++)
        send(channel, &s[i], i);
    mare__wait_end(&s[0].wait, MARE_TIMEOUT);
    assert_int_equal(try_receive(channel, &number), MARE_OK);
    assert_int_equal(number, 1);
    assert_int_equal(take(&s[0].message), 0); // it kept its message
    mare__wait_end(&s[2].wait, MARE_TIMEOUT);
    mare__chan_forget(channel, &s[2].node); // before anybody passed it over
    assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
    assert_true(mare__list_empty(&channel->senders));
    mare__message_clear(&s[2].message);
    mare_chan_unref(channel);
}

// ---- A buffer ----------------------------------------------------------------------------------------------------------

static void a_buffer_holds_its_capacity(void **state)
{
    (void)state;
    static const size_t capacities[] = {1, 2, 7, 8, 9, 16, 33, 1000};
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        mare_channel *channel = mare__chan_new(NULL, capacities[i]);
        int64_t number, sent = 0, received = 0;
        for (int round = 0; round < 3; round++) { // the ring goes around
            for (size_t k = 0; k < capacities[i]; k++)
                assert_int_equal(try_send(channel, sent++), MARE_OK);
            assert_int_equal(try_send(channel, -1), MARE_FULL);
            assert_int_equal(channel->count, capacities[i]);
            for (size_t k = 0; k < capacities[i] / 2 + 1; k++) {
                assert_int_equal(try_receive(channel, &number), MARE_OK);
                assert_int_equal(number, received++);
                assert_int_equal(try_send(channel, sent++), MARE_OK);
            }
            while (received < sent) {
                assert_int_equal(try_receive(channel, &number), MARE_OK);
                assert_int_equal(number, received++);
            }
            assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
        }
        mare_chan_unref(channel);
    }
}

static void waiting_senders_move_up(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 2);
    struct fake s[3];
    int64_t number;
    assert_int_equal(try_send(channel, 0), MARE_OK);
    assert_int_equal(try_send(channel, 1), MARE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(send(channel, &s[i], 2 + i), MARE_FULL);
    mare__wait_end(&s[1].wait, MARE_TIMEOUT);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i < 3 ? i : 4);
    }
    assert_int_equal(s[0].woken, 1);
    assert_int_equal(s[2].woken, 1);
    assert_int_equal(take(&s[1].message), 3);
    assert_int_equal(channel->sent, 4);
    assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
    mare_chan_unref(channel);
}

static void a_ring_that_cannot_grow_refuses(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, SIZE_MAX);
    mare_message messages[MARE__RING_FIRST + 1];
    int64_t number;
    for (int i = 0; i <= MARE__RING_FIRST; i++)
        put(&messages[i], i);
    mare__alloc_fail_after(2); // the first ring, but not the second
    for (int i = 0; i < MARE__RING_FIRST; i++)
        assert_int_equal(mare__chan_send(channel, &messages[i], NULL), MARE_OK);
    assert_int_equal(mare__chan_send(channel, &messages[MARE__RING_FIRST], NULL), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_int_equal(take(&messages[MARE__RING_FIRST]), MARE__RING_FIRST); // it is as it was
    for (int i = 0; i < MARE__RING_FIRST; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(try_send(channel, 9), MARE_OK);
    mare_chan_unref(channel); // with a message inside
}

// ---- Close -------------------------------------------------------------------------------------------------------------

static void closing_tells_everybody_who_waits(void **state)
{
    (void)state;
    for (int sending = 0; sending < 2; sending++) {
        mare_channel *channel = mare__chan_new(NULL, 0);
        struct fake f[4];
        for (int i = 0; i < 4; i++) {
            assert_int_equal(sending ? send(channel, &f[i], i) : receive(channel, &f[i]),
                             sending ? MARE_FULL : MARE_EMPTY);
            f[i].node.index = (uint32_t)i;
        }
        mare__wait_end(&f[1].wait, MARE_TIMEOUT); // number 1 has given up
        assert_true(mare_chan_close(channel));
        assert_false(mare_chan_close(channel));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(f[i].wait.result, i == 1 ? MARE_TIMEOUT : MARE_CLOSED);
            assert_int_equal(f[i].wait.fired, i == 1 ? MARE__FIRED_NONE : (unsigned)i);
            assert_int_equal(f[i].woken, 1);
            assert_int_equal(word(&f[i]), MARE__WAIT_ENDED);
            assert_true(mare__list_empty(&f[i].node.link));
            if (sending)
                assert_int_equal(take(&f[i].message), i); // each kept its message
        }
        mare_chan_unref(channel);
    }
}

static void what_was_buffered_can_still_be_received(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 2);
    struct fake late, r;
    int64_t number;
    assert_int_equal(try_send(channel, 1), MARE_OK);
    assert_int_equal(try_send(channel, 2), MARE_OK);
    assert_int_equal(send(channel, &late, 3), MARE_FULL);
    assert_true(mare_chan_close(channel));
    assert_int_equal(late.wait.result, MARE_CLOSED);
    assert_int_equal(take(&late.message), 3);
    assert_int_equal(try_send(channel, 4), MARE_CLOSED);
    assert_int_equal(send(channel, &late, 4), MARE_CLOSED);
    assert_int_equal(word(&late), MARE__WAIT_IDLE); // no wait has begun
    mare__message_clear(&late.message);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(try_receive(channel, &number), MARE_CLOSED);
    assert_int_equal(receive(channel, &r), MARE_CLOSED);
    assert_true(mare__list_empty(&channel->receivers));
    mare_chan_unref(channel);
}

// ---- Messages that stand in line by themselves -------------------------------------------------------------------------

static int ended;

static void count_end(struct mare__object *object)
{
    (void)object;
    ended++;
}

static void a_posted_message_waits_by_itself(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 1);
    struct fake r;
    mare_message message;
    int64_t number;
    for (int i = 0; i < 4; i++) {
        put(&message, i);
        assert_true(mare__chan_post(channel, &message));
        assert_true(mare__message_empty(&message));
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
    }
    receive(channel, &r);
    put(&message, 9); // to somebody who waits
    assert_true(mare__chan_post(channel, &message));
    assert_int_equal(take(&r.wait.message), 9);
    assert_true(mare_chan_close(channel));
    put(&message, 10);
    assert_false(mare__chan_post(channel, &message));
    assert_true(mare__message_empty(&message)); // its contents are taken all the same
    mare_chan_unref(channel);
}

static void posted_messages_end_with_the_channel(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        struct mare__object object;
        mare__object_init(&object, MARE__KIND_BUFFER, count_end);
        mare_channel *channel = mare__chan_new(NULL, 2);
        for (int i = 0; i < 5; i++) {
            mare_message message;
            put(&message, i);
            assert_true(mare__message_append_handle(&message, &object));
            assert_true(mare__chan_post(channel, &message));
        }
        assert_int_equal(atomic_load(&object.references), 6);
        if (closed) {
            mare_chan_close(channel);
            assert_int_equal(atomic_load(&object.references), 3); // those in the buffer stay
        }
        mare_chan_unref(channel);
        assert_int_equal(atomic_load(&object.references), 1);
    }
    assert_int_equal(ended, 0);
}

static void posting_without_memory_says_so(void **state)
{
    (void)state;
    struct mare__object object;
    mare__object_init(&object, MARE__KIND_BUFFER, count_end);
    mare_channel *channel = mare__chan_new(NULL, 0);
    mare_message message;
    mare__message_init(&message);
    assert_true(mare__message_append_handle(&message, &object));
    mare__alloc_fail_after(1);
    assert_false(mare__chan_post(channel, &message));
    assert_true(mare__message_empty(&message));
    assert_int_equal(atomic_load(&object.references), 1);
    assert_true(mare__list_empty(&channel->senders));
    mare_chan_unref(channel);
}

// ---- Several at once ---------------------------------------------------------------------------------------------------

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
        mare__list_init(&s->cases[i].node.link);
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
        mare__chan_forget(s->cases[i].channel, &s->cases[i].node);
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
        mare__chan_forget(s.channels[i], &s.cases[i].node);
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
    several_init(&s, 1);
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
    assert_int_equal(mare__chan_send(channel, &f.message, &f.node), MARE_KILLED);
    assert_int_equal(take(&f.message), 1);
    assert_int_equal(mare__chan_receive(channel, &f.message, &f.node), MARE_KILLED);
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

// ---- Everything at random, against a model -----------------------------------------------------------------------------

enum { FAKES = 24 };

struct model {
    mare_channel *channel;
    size_t capacity;
    bool closed;
    struct fake fakes[FAKES];
    enum { FREE, SENDS, RECEIVES } role[FAKES];
    int64_t number[FAKES];                                              // what it sends
    int senders[FAKES], sender_count, receivers[FAKES], receiver_count; // who waits, in order
    int64_t buffer[64];
    size_t buffered;
    int64_t next;
};

static void drop_first(int *line, int *count)
{
    memmove(line, line + 1, (size_t)-- * count * sizeof *line);
}

static void model_send(struct model *m, int who, bool wait)
{
    struct fake *f = &m->fakes[who];
    int64_t number = m->next++;
    fake_init(f);
    put(&f->message, number);
    mare_err err = mare__chan_send(m->channel, &f->message, wait ? &f->node : NULL);
    if (m->closed) {
        assert_int_equal(err, MARE_CLOSED);
        mare__message_clear(&f->message);
    } else if (m->receiver_count > 0) {
        assert_int_equal(err, MARE_OK);
        struct fake *r = &m->fakes[m->receivers[0]];
        assert_int_equal(take(&r->wait.message), number);
        assert_int_equal(r->woken, 1);
        m->role[m->receivers[0]] = FREE;
        drop_first(m->receivers, &m->receiver_count);
    } else if (m->buffered < m->capacity) {
        assert_int_equal(err, MARE_OK);
        m->buffer[m->buffered++] = number;
    } else {
        assert_int_equal(err, MARE_FULL);
        if (wait) {
            m->role[who] = SENDS;
            m->number[who] = number;
            m->senders[m->sender_count++] = who;
        } else {
            mare__message_clear(&f->message);
        }
    }
}

static void model_receive(struct model *m, int who, bool wait)
{
    struct fake *f = &m->fakes[who];
    fake_init(f);
    mare_err err = mare__chan_receive(m->channel, &f->wait.message, wait ? &f->node : NULL);
    if (m->buffered == 0 && m->sender_count == 0) {
        assert_int_equal(err, m->closed ? MARE_CLOSED : MARE_EMPTY);
        if (wait && !m->closed) {
            m->role[who] = RECEIVES;
            m->receivers[m->receiver_count++] = who;
        }
        return;
    }
    assert_int_equal(err, MARE_OK);
    if (m->sender_count > 0) {
        int sender = m->senders[0];
        drop_first(m->senders, &m->sender_count);
        assert_int_equal(m->fakes[sender].woken, 1);
        m->role[sender] = FREE;
        m->buffer[m->buffered++] = m->number[sender];
    }
    assert_int_equal(take(&f->wait.message), m->buffer[0]);
    memmove(m->buffer, m->buffer + 1, --m->buffered * sizeof *m->buffer);
}

static void model_give_up(struct model *m, int who)
{
    struct fake *f = &m->fakes[who];
    int *line = m->role[who] == SENDS ? m->senders : m->receivers;
    int *count = m->role[who] == SENDS ? &m->sender_count : &m->receiver_count;
    assert_true(mare__wait_end(&f->wait, MARE_TIMEOUT));
    mare__chan_forget(m->channel, &f->node);
    mare__message_clear(&f->message);
    for (int i = 0; i < *count; i++)
        if (line[i] == who) {
            memmove(line + i, line + i + 1, (size_t)(--*count - i) * sizeof *line);
            break;
        }
    m->role[who] = FREE;
}

static void model_close(struct model *m)
{
    assert_int_equal(mare_chan_close(m->channel), !m->closed);
    m->closed = true;
    for (int i = 0; i < FAKES; i++)
        if (m->role[i] != FREE) {
            assert_int_equal(m->fakes[i].woken, 1);
            assert_int_equal(m->fakes[i].wait.result, MARE_CLOSED);
            mare__message_clear(&m->fakes[i].message);
            m->role[i] = FREE;
        }
    m->sender_count = m->receiver_count = 0;
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 300; round++) {
        struct model *m = calloc(1, sizeof *m);
        m->capacity = unit_random(&random) % 12;
        m->channel = mare__chan_new(NULL, m->capacity);
        unsigned bias = 1 + unit_random(&random) % 9; // of ten, how many send
        for (int step = 0; step < 300; step++) {
            int who = (int)(unit_random(&random) % FAKES);
            uint64_t r = unit_random(&random);
            if (r % 1000 < 2)
                model_close(m);
            else if (m->role[who] != FREE) {
                if (r % 4 == 0)
                    model_give_up(m, who);
            } else if (r % 10 < bias)
                model_send(m, who, r & 1024);
            else
                model_receive(m, who, r & 1024);
            assert_int_equal(m->channel->count, m->buffered);
            assert_int_equal(mare__list_empty(&m->channel->senders), m->sender_count == 0);
            assert_int_equal(mare__list_empty(&m->channel->receivers), m->receiver_count == 0);
            // The hint for those who look without the lock says what is possible now.
            assert_int_equal(mare__can(m->channel, MARE__CAN_SEND),
                             m->closed || m->buffered < m->capacity || m->receiver_count > 0);
            assert_int_equal(mare__can(m->channel, MARE__CAN_RECEIVE),
                             m->closed || m->buffered > 0 || m->sender_count > 0);
        }
        model_close(m);
        mare_chan_unref(m->channel);
        free(m);
    }
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(a_published_wait_is_claimed_once), CASE(a_cancelled_owner_waits_no_more),
           CASE(a_waiting_receiver_is_given_the_message),
           CASE(a_waiting_sender_is_relieved_of_its_message),
           CASE(those_who_do_not_wait_leave_no_trace), CASE(the_first_in_line_is_served_first),
           CASE(who_has_given_up_is_passed_over), CASE(a_buffer_holds_its_capacity),
           CASE(waiting_senders_move_up), CASE(a_ring_that_cannot_grow_refuses),
           CASE(closing_tells_everybody_who_waits), CASE(what_was_buffered_can_still_be_received),
           CASE(a_posted_message_waits_by_itself), CASE(posted_messages_end_with_the_channel),
           CASE(posting_without_memory_says_so), CASE(select_looks_from_its_start),
           CASE(select_sends_to_who_waits), CASE(select_takes_from_who_waits),
           CASE(select_waits_in_every_line_and_is_served_once), CASE(select_is_told_of_a_close),
           CASE(select_may_name_a_channel_twice), CASE(select_without_memory_says_so),
           CASE(the_cancelled_do_not_stand_in_line), CASE(random_operations_agree_with_a_model))
