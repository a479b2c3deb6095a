// SPDX-License-Identifier: MIT
// One channel and its parties: the rendezvous, the buffer, closing, messages that stand in line by
// themselves; and everything at random against a model.
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "fake.h"

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

// ---- A rendezvous -------------------------------------------------------------------------------

static void a_waiting_receiver_is_given_the_message(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct fake r, s;
        assert_int_equal(receive(channel, &r), MARE_EMPTY);
        r.spot.index = 7;
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
    int64_t number = 0;
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
    int64_t number = 0;
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

// A spot may still stand in line when a timer or a kill has ended its wait: it counts as absent.
static void who_has_given_up_is_passed_over(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    struct fake r[3], s[3];
    int64_t number = 0;
    for (int i = 0; i < 3; i++)
        receive(channel, &r[i]);
    mare__wait_end(&r[0].wait, MARE_TIMEOUT);
    mare__wait_end(&r[1].wait, MARE_KILLED);
    assert_int_equal(try_send(channel, 5), MARE_OK);
    assert_int_equal(take(&r[2].wait.message), 5);
    assert_true(mare__message_empty(&r[0].wait.message));
    assert_int_equal(r[0].wait.result, MARE_TIMEOUT);
    mare__chan_forget(channel, &r[0].spot); // what its owner does, after it was passed over
    for (int i = 0; i < 3; i++)
        send(channel, &s[i], i);
    mare__wait_end(&s[0].wait, MARE_TIMEOUT);
    assert_int_equal(try_receive(channel, &number), MARE_OK);
    assert_int_equal(number, 1);
    assert_int_equal(take(&s[0].message), 0); // it kept its message
    mare__wait_end(&s[2].wait, MARE_TIMEOUT);
    mare__chan_forget(channel, &s[2].spot); // before anybody passed it over
    assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
    assert_true(mare__list_empty(&channel->senders));
    mare__message_clear(&s[2].message);
    mare_chan_unref(channel);
}

// ---- A buffer -----------------------------------------------------------------------------------

static void a_buffer_holds_its_capacity(void **state)
{
    (void)state;
    static const size_t capacities[] = {1, 2, 7, 8, 9, 16, 33, 1000};
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        mare_channel *channel = mare__chan_new(NULL, capacities[i]);
        int64_t number = -1, sent = 0, received = 0;
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
    int64_t number = 0;
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
    int64_t number = 0;
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

static void a_limit_can_be_lowered_and_raised_again_when_it_is_empty(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 4);
    struct fake s;
    int64_t number = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(try_send(channel, i), MARE_OK);
    assert_true(mare__chan_limit(channel, 2)); // what is there already stays
    assert_int_equal(send(channel, &s, 3), MARE_FULL);
    assert_false(mare__chan_limit(channel, 4));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s.woken, i > 1); // it has room when only one is left
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
    }
    assert_true(mare__chan_limit(channel, 100)); // but not above the capacity
    for (int i = 0; i < 4; i++)
        assert_int_equal(try_send(channel, i), MARE_OK);
    assert_int_equal(try_send(channel, 4), MARE_FULL);
    mare_chan_unref(channel);
}

static void what_is_given_back_is_the_next_to_be_received(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity <= 2; capacity += 2) {
        mare_channel *channel = mare__chan_new(NULL, capacity);
        mare_message message;
        struct fake s;
        int64_t number = 0;
        for (size_t i = 0; i < capacity; i++)
            assert_int_equal(try_send(channel, 2 + (int64_t)i), MARE_OK);
        assert_int_equal(send(channel, &s, 2 + (int64_t)capacity), MARE_FULL);
        for (int i = 0; i < 2; i++) {
            put(&message, i);
            mare__alloc_fail_after(capacity == 0 && i == 0 ? 1 : 0);
            mare_err err = mare__chan_give_back(channel, &message, SIZE_MAX);
            mare__alloc_fail_after(0);
            if (err == MARE_NOMEM)
                err = mare__chan_give_back(channel, &message, SIZE_MAX);
            assert_int_equal(err, MARE_OK);
        }
        assert_true(mare_chan_close(channel) && s.woken); // it is not lost with those who wait
        mare__message_clear(&s.message);
        for (int i = 0; i < 2 + (int)capacity; i++) {
            assert_int_equal(try_receive(channel, &number), MARE_OK);
            assert_int_equal(number, i);
        }
        assert_int_equal(try_receive(channel, &number), MARE_CLOSED);
        mare_chan_unref(channel);
    }
}

static void what_is_given_back_has_so_many_bytes_at_most(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    mare_message messages[4];
    for (int i = 0; i < 4; i++) {
        mare__message_init(&messages[i]);
        assert_int_equal(mare_message_add_string(&messages[i], i < 3 ? "a long one" : "s"),
                         MARE_OK);
    }
    size_t most = 2 * messages[0].length + messages[3].length;
    assert_int_equal(mare__chan_give_back(channel, &messages[0], most), MARE_OK);
    assert_int_equal(mare__chan_give_back(channel, &messages[1], most), MARE_OK);
    assert_int_equal(mare__chan_give_back(channel, &messages[2], most), MARE_FULL);
    assert_false(mare__message_empty(&messages[2])); // it is still the caller's
    assert_int_equal(mare__chan_give_back(channel, &messages[3], most), MARE_OK);
    assert_int_equal(mare__chan_receive(channel, &messages[0], NULL), MARE_OK);
    assert_int_equal(mare__chan_give_back(channel, &messages[2], most), MARE_OK);
    mare__message_clear(&messages[0]);
    mare_chan_unref(channel);
}

// ---- Close --------------------------------------------------------------------------------------

static void closing_tells_everybody_who_waits(void **state)
{
    (void)state;
    for (int sending = 0; sending < 2; sending++) {
        mare_channel *channel = mare__chan_new(NULL, 0);
        struct fake f[4];
        for (int i = 0; i < 4; i++) {
            assert_int_equal(sending ? send(channel, &f[i], i) : receive(channel, &f[i]),
                             sending ? MARE_FULL : MARE_EMPTY);
            f[i].spot.index = (uint32_t)i;
        }
        mare__wait_end(&f[1].wait, MARE_TIMEOUT); // number 1 has given up
        assert_true(mare_chan_close(channel));
        assert_false(mare_chan_close(channel));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(f[i].wait.result, i == 1 ? MARE_TIMEOUT : MARE_CLOSED);
            assert_int_equal(f[i].wait.fired, i == 1 ? MARE__FIRED_NONE : (unsigned)i);
            assert_int_equal(f[i].woken, 1);
            assert_int_equal(word(&f[i]), MARE__WAIT_ENDED);
            assert_true(mare__list_empty(&f[i].spot.entry));
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
    int64_t number = 0;
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

// ---- Messages that stand in line by themselves --------------------------------------------------

static int ended;

static void count_end(struct mare__object *object)
{
    (void)object;
    ended++;
}

static struct mare__letter *letter_with(int64_t number)
{
    struct mare__letter *letter = mare__alloc_zero(sizeof *letter);
    assert_non_null(letter);
    mare__letter_init(letter);
    put(&letter->wait.message, number);
    return letter;
}

static void a_posted_message_waits_by_itself(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 1);
    struct fake r;
    int64_t number = 0;
    for (int i = 0; i < 4; i++)
        mare__chan_post(channel, letter_with(i));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number, i);
    }
    receive(channel, &r);
    mare__chan_post(channel, letter_with(9)); // to somebody who waits
    assert_int_equal(take(&r.wait.message), 9);
    assert_true(mare_chan_close(channel));
    mare__chan_post(channel, letter_with(10)); // it is freed, as AddressSanitizer sees
    assert_int_equal(try_receive(channel, &number), MARE_CLOSED);
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
            struct mare__letter *letter = letter_with(i);
            assert_true(mare__message_append_handle(&letter->wait.message, &object));
            mare__chan_post(channel, letter);
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

// Neither where there is no room, nor where there would be if the ring could grow; and what stands
// in line all the same comes in its order, and is met by those who send when there is memory again.
static void posting_needs_no_memory(void **state)
{
    (void)state;
    static const size_t capacities[] = {0, 1, 5, 1000};
    enum { LETTERS = 12 };
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
        mare_channel *channel = mare__chan_new(NULL, capacities[c]);
        struct mare__letter *letters[LETTERS];
        int64_t number = 0;
        for (int i = 0; i < LETTERS; i++)
            letters[i] = letter_with(i);
        mare__alloc_fail_after(1);
        for (int i = 0; i < LETTERS; i++)
            mare__chan_post(channel, letters[i]);
        mare__alloc_fail_after(0);
        for (int i = 0; i < LETTERS; i++) {
            assert_int_equal(try_receive(channel, &number), MARE_OK);
            assert_int_equal(number, i);
        }
        assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
        assert_int_equal(try_send(channel, 1), capacities[c] > 0 ? MARE_OK : MARE_FULL);
        mare_chan_unref(channel);
    }
}

// ---- Room ---------------------------------------------------------------------------------------

static void whole_channels_and_those_with_one_place_need_no_memory(void **state)
{
    (void)state;
    static const size_t capacities[] = {1, 2, 7, 64};
    mare_message messages[64];
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
        size_t capacity = capacities[c];
        mare_channel *channel =
            capacity == 1 ? mare__chan_new(NULL, 1) : mare__chan_new_whole(NULL, capacity);
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < capacity; i++)
                put(&messages[i], (int64_t)i);
            mare__alloc_fail_after(1);
            for (size_t i = 0; i < capacity; i++)
                assert_int_equal(mare__chan_send(channel, &messages[i], NULL), MARE_OK);
            assert_int_equal(mare__chan_send(channel, &messages[0], NULL), MARE_FULL);
            for (size_t i = 0; i < capacity; i++) {
                int64_t number = 0;
                assert_int_equal(try_receive(channel, &number), MARE_OK);
                assert_int_equal(number, i);
            }
            mare__alloc_fail_after(0);
        }
        mare_chan_unref(channel);
    }
}

// While one sender asks for memory others send, and ask too: nothing is lost, and what each sent
// comes in its order.
enum { SENDERS = 4, EACH = 5000 };

struct sender {
    mare_channel *channel;
    int64_t first;
    bool failed;
};

static void *send_each(void *argument)
{
    struct sender *sender = argument;
    mare_message message;
    mare__message_init(&message);
    for (int64_t i = 0; i < EACH && !sender->failed; i++)
        sender->failed = mare_message_add_integer(&message, sender->first + i) != MARE_OK ||
                         mare__chan_send(sender->channel, &message, NULL) != MARE_OK;
    return NULL;
}

static void a_ring_grows_under_several_senders(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, SENDERS * EACH);
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    int64_t number = 0, next[SENDERS] = {0};
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){channel, (int64_t)i * EACH, false};
        assert_int_equal(pthread_create(&threads[i], NULL, send_each, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(senders[i].failed);
    }
    assert_int_equal(try_send(channel, 0), MARE_FULL);
    for (int i = 0; i < SENDERS * EACH; i++) {
        assert_int_equal(try_receive(channel, &number), MARE_OK);
        assert_int_equal(number % EACH, next[number / EACH]++);
    }
    assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
    mare_chan_unref(channel);
}

// Several threads give back to a channel of no capacity, whose ring each of them may be growing.
enum { ROUNDS = 2000, GIVEN = 5 };

struct giver {
    mare_channel **channel;
    pthread_barrier_t *round;
    bool failed;
};

static void *give_back_each(void *argument)
{
    struct giver *giver = argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(giver->round);
        for (int64_t n = 0; n < GIVEN; n++) {
            mare_message message;
            put(&message, n);
            giver->failed |= mare__chan_give_back(*giver->channel, &message, SIZE_MAX) != MARE_OK;
        }
        pthread_barrier_wait(giver->round);
    }
    return NULL;
}

static void a_ring_grows_under_several_who_give_back(void **state)
{
    (void)state;
    mare_channel *channel = NULL;
    pthread_barrier_t round;
    pthread_t threads[SENDERS];
    struct giver givers[SENDERS];
    pthread_barrier_init(&round, NULL, SENDERS + 1);
    for (int i = 0; i < SENDERS; i++) {
        givers[i] = (struct giver){&channel, &round, false};
        assert_int_equal(pthread_create(&threads[i], NULL, give_back_each, &givers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        int64_t number = 0, sum = 0;
        channel = mare__chan_new(NULL, 0);
        pthread_barrier_wait(&round);
        pthread_barrier_wait(&round);
        for (int n = 0; n < SENDERS * GIVEN; n++) {
            assert_int_equal(try_receive(channel, &number), MARE_OK);
            sum += number;
        }
        assert_int_equal(sum, SENDERS * GIVEN * (GIVEN - 1) / 2);
        assert_int_equal(try_receive(channel, &number), MARE_EMPTY);
        mare_chan_unref(channel);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(givers[i].failed);
    }
    pthread_barrier_destroy(&round);
}

// ---- Without a wake -----------------------------------------------------------------------------

static void quiet_ones_leave_the_wake_to_the_caller(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    struct fake r, s, other;
    struct mare__wait *met = NULL;
    assert_int_equal(receive(channel, &r), MARE_EMPTY);
    fake_init(&s);
    put(&s.message, 7);
    assert_int_equal(mare__chan_send_quietly(channel, &s.message, &s.spot, &met), MARE_OK);
    assert_ptr_equal(met, &r.wait);
    assert_int_equal(r.woken, 0);
    assert_int_equal(r.wait.fired, r.spot.index);
    assert_int_equal(take(&r.wait.message), 7);

    put(&s.message, 8);
    assert_int_equal(mare__chan_send_quietly(channel, &s.message, &s.spot, &met), MARE_FULL);
    assert_null(met);
    fake_init(&other);
    assert_int_equal(mare__chan_receive_quietly(channel, &other.wait.message, &other.spot, &met),
                     MARE_OK);
    assert_ptr_equal(met, &s.wait);
    assert_int_equal(s.woken, 0);
    assert_int_equal(take(&other.wait.message), 8);

    assert_int_equal(mare__chan_receive_quietly(channel, &other.wait.message, &other.spot, &met),
                     MARE_EMPTY);
    assert_null(met);
    assert_int_equal(try_send(channel, 9), MARE_OK);
    assert_int_equal(other.woken, 1);
    assert_int_equal(take(&other.wait.message), 9);
    mare_chan_unref(channel);
}

// ---- Everything at random, against a model ------------------------------------------------------

enum { FAKES = 24 };

struct model {
    mare_channel *channel;
    size_t capacity, limit;
    bool closed;
    struct fake fakes[FAKES];
    enum { FREE, SENDS, RECEIVES } role[FAKES];
    int64_t number[FAKES];                                              // what it sends
    int senders[FAKES], sender_count, receivers[FAKES], receiver_count; // who waits, in order
    int64_t buffer[96];
    size_t buffered, back; // the first of them were given back
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
    mare_err err = mare__chan_send(m->channel, &f->message, wait ? &f->spot : NULL);
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
    } else if (m->buffered < m->limit) {
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
    mare_err err = mare__chan_receive(m->channel, &f->wait.message, wait ? &f->spot : NULL);
    if (m->buffered == 0 && m->sender_count == 0) {
        assert_int_equal(err, m->closed ? MARE_CLOSED : MARE_EMPTY);
        if (wait && !m->closed) {
            m->role[who] = RECEIVES;
            m->receivers[m->receiver_count++] = who;
        }
        return;
    }
    assert_int_equal(err, MARE_OK);
    if (m->sender_count > 0 && (m->buffered == 0 || m->buffered - 1 < m->limit)) {
        int sender = m->senders[0];
        drop_first(m->senders, &m->sender_count);
        assert_int_equal(m->fakes[sender].woken, 1);
        m->role[sender] = FREE;
        m->buffer[m->buffered++] = m->number[sender];
    }
    assert_int_equal(take(&f->wait.message), m->buffer[0]);
    memmove(m->buffer, m->buffer + 1, --m->buffered * sizeof *m->buffer);
    m->back -= m->back > 0;
}

static void model_give_back(struct model *m)
{
    int64_t number = m->next++;
    mare_message message;
    put(&message, number);
    mare_err err = mare__chan_give_back(m->channel, &message, SIZE_MAX);
    if (m->receiver_count > 0) {
        assert_int_equal(err, MARE_OK);
        struct fake *r = &m->fakes[m->receivers[0]];
        assert_int_equal(take(&r->wait.message), number);
        m->role[m->receivers[0]] = FREE;
        drop_first(m->receivers, &m->receiver_count);
    } else if (m->back == MARE__CHAN_BACK) {
        assert_int_equal(err, MARE_FULL);
        mare__message_clear(&message);
    } else {
        assert_int_equal(err, MARE_OK);
        memmove(m->buffer + m->back + 1, m->buffer + m->back,
                (m->buffered++ - m->back) * sizeof *m->buffer);
        m->buffer[m->back++] = number;
    }
}

static void model_give_up(struct model *m, int who)
{
    struct fake *f = &m->fakes[who];
    int *line = m->role[who] == SENDS ? m->senders : m->receivers;
    int *count = m->role[who] == SENDS ? &m->sender_count : &m->receiver_count;
    assert_true(mare__wait_end(&f->wait, MARE_TIMEOUT));
    mare__chan_forget(m->channel, &f->spot);
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

static void model_limit(struct model *m, size_t limit)
{
    bool can = limit <= m->limit || m->buffered == 0;
    assert_int_equal(mare__chan_limit(m->channel, limit), can);
    if (can)
        m->limit = limit < m->capacity ? limit : m->capacity;
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 300; round++) {
        struct model *m = calloc(1, sizeof *m);
        m->capacity = m->limit = unit_random(&random) % 12;
        m->channel = mare__chan_new(NULL, m->capacity);
        unsigned bias = 1 + unit_random(&random) % 9; // of ten, how many send
        bool gives = unit_random(&random) % 3 == 0;
        for (int step = 0; step < 300; step++) {
            int who = (int)(unit_random(&random) % FAKES);
            uint64_t r = unit_random(&random);
            if (r % 1000 < 2)
                model_close(m);
            else if (r % 1000 < 52 && m->capacity > 0)
                model_limit(m, 1 + unit_random(&random) % 12);
            else if (gives && r % 1000 > 600)
                model_give_back(m);
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
                             m->closed || m->buffered < m->limit || m->receiver_count > 0);
            assert_int_equal(mare__can(m->channel, MARE__CAN_RECEIVE),
                             m->closed || m->buffered > 0 || m->sender_count > 0);
        }
        model_close(m);
        mare_chan_unref(m->channel);
        free(m);
    }
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(a_waiting_receiver_is_given_the_message),
           CASE(a_waiting_sender_is_relieved_of_its_message),
           CASE(those_who_do_not_wait_leave_no_trace), CASE(the_first_in_line_is_served_first),
           CASE(who_has_given_up_is_passed_over), CASE(a_buffer_holds_its_capacity),
           CASE(waiting_senders_move_up), CASE(a_ring_that_cannot_grow_refuses),
           CASE(a_limit_can_be_lowered_and_raised_again_when_it_is_empty),
           CASE(what_is_given_back_is_the_next_to_be_received),
           CASE(what_is_given_back_has_so_many_bytes_at_most),
           CASE(closing_tells_everybody_who_waits), CASE(what_was_buffered_can_still_be_received),
           CASE(a_posted_message_waits_by_itself), CASE(posted_messages_end_with_the_channel),
           CASE(posting_needs_no_memory),
           CASE(whole_channels_and_those_with_one_place_need_no_memory),
           CASE(a_ring_grows_under_several_senders), CASE(a_ring_grows_under_several_who_give_back),
           CASE(quiet_ones_leave_the_wake_to_the_caller),
           CASE(random_operations_agree_with_a_model))
