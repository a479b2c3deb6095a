// SPDX-License-Identifier: MIT
// For tests of channels on one thread: parties that wait without a thread of their own, so that
// every order of events can be played. How often each was woken is counted.
#pragma once

#include "chan/channel.h"
#include "unit.h"

// Somebody who waits.
struct fake {
    struct mare__wait wait;
    struct mare__spot spot;
    mare_message message; // to send
    int woken;
};

static inline void wake(struct mare__wait *wait)
{
    MARE__ENTRY(wait, struct fake, wait)->woken++;
}

static inline void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->wait.wake = wake;
    fake->spot.wait = &fake->wait;
    mare__list_init(&fake->spot.entry);
    mare__wait_begin(&fake->wait);
}

static inline unsigned word(struct fake *fake)
{
    return atomic_load(&fake->wait.word);
}

static inline void put(mare_message *message, int64_t number)
{
    mare__message_init(message);
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
}

// The number in a message, which is cleared.
static inline int64_t take(mare_message *message)
{
    mare_value value;
    assert_int_equal(mare_message_count(message), 1);
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    mare__message_clear(message);
    return value.as.integer;
}

static inline mare_err send(mare_channel *channel, struct fake *fake, int64_t number)
{
    fake_init(fake);
    put(&fake->message, number);
    return mare__chan_send(channel, &fake->message, &fake->spot);
}

static inline mare_err receive(mare_channel *channel, struct fake *fake)
{
    fake_init(fake);
    return mare__chan_receive(channel, &fake->wait.message, &fake->spot);
}

static inline mare_err try_send(mare_channel *channel, int64_t number)
{
    mare_message message;
    put(&message, number);
    mare_err err = mare__chan_send(channel, &message, NULL);
    mare__message_clear(&message);
    return err;
}

static inline mare_err try_receive(mare_channel *channel, int64_t *number)
{
    mare_message message;
    mare__message_init(&message);
    mare_err err = mare__chan_receive(channel, &message, NULL);
    if (!err)
        *number = take(&message);
    return err;
}
