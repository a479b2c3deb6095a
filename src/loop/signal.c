// SPDX-License-Identifier: MIT
// Watches for signals. The handler (src/platform/signal.c) makes a descriptor readable; a wait with
// nobody behind it stands in line for that, and its end turns what has come into messages:
//
//     handler --> eventfd --> observer --> [wait] --> channel of the watch --> whoever waits there
//
// Who closes a watch, and who is just being told, may be two threads: the second then finds it
// closed under the lock, and leaves it alone.
#include "loop/signal.h"

#include <errno.h>

#include "base/alloc.h"
#include "platform/signal.h"

static void release(struct mare__signals *signals)
{
    if (atomic_fetch_sub(&signals->holders, 1) > 1)
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (signals->observed.ready[way])
            mare_chan_unref(signals->observed.ready[way]);
    mare_chan_unref(signals->come);
    mare__free(signals);
}

static void on_closed(struct mare__observed *observed)
{
    release(MARE__ENTRY(observed, struct mare__signals, observed));
}

// One that is in the channel already stands for this one too, as in the system itself.
static void tell(struct mare__signals *signals, int number)
{
    mare_message message;
    uint64_t bit = UINT64_C(1) << number;
    if (atomic_fetch_or(&signals->queued, bit) & bit)
        return;
    mare__message_init(&message);
    if (mare_message_add_integer(&message, number) != MARE_OK ||
        mare__chan_send(signals->come, &message, NULL) != MARE_OK)
        atomic_fetch_and(&signals->queued, ~bit); // no memory: it is lost, but not the next
    mare__message_clear(&message);
}

// Tells what has come, and stands in line for more. Only one who has claimed the wait, or made it,
// may.
static void watch(struct mare__signals *signals)
{
    mare_err err = MARE_OK;
    while (err == MARE_OK) {
        mare__lock_acquire(&signals->lock);
        bool closed = signals->closed;
        for (int number; !closed && (number = mare__signal_take(signals->observed.fd)) > 0;)
            tell(signals, number);
        if (!closed) {
            // There is a channel: the first time was before anybody could see the watch.
            mare_channel *ready =
                mare__observed_await(signals->runtime, &signals->observed, MARE__TO_READ);
            mare__wait_begin(&signals->wait);
            mare__message_clear(&signals->wait.message);
            err = mare__chan_receive(ready, &signals->wait.message, &signals->spot);
        }
        mare__lock_release(&signals->lock);
        if (closed) {
            release(signals);
            return;
        }
    }
}

static void on_told(struct mare__wait *wait)
{
    watch(MARE__ENTRY(wait, struct mare__signals, wait));
}

bool mare__signals_close(struct mare__signals *signals)
{
    mare__lock_acquire(&signals->lock);
    bool closed = signals->closed;
    signals->closed = true;
    mare__lock_release(&signals->lock);
    if (closed)
        return false;
    if (mare__wait_claim(&signals->wait)) { // else somebody is being told, and will see
        mare__chan_forget(signals->observed.ready[MARE__TO_READ], &signals->spot);
        release(signals);
    }
    mare__signal_forget(signals->observed.fd);
    mare_chan_close(signals->come);
    mare__observed_close(&signals->observed);
    return true;
}

static void destroy(struct mare__object *object)
{
    struct mare__signals *signals = (struct mare__signals *)object;
    mare__signals_close(signals);
    release(signals);
}

int mare__signals_taken(struct mare__signals *signals, mare_message *message)
{
    mare_value value = {.type = MARE_NIL};
    mare_message_get(message, 0, &value);
    mare__message_clear(message);
    if (value.type != MARE_INTEGER)
        return 0;
    atomic_fetch_and(&signals->queued, ~(UINT64_C(1) << value.as.integer));
    return (int)value.as.integer;
}

int mare__signals_open(mare_runtime *runtime, uint64_t set, struct mare__signals **out)
{
    enum { DIFFERENT = 64 }; // signals: there is always room
    struct mare__signals *signals = mare__alloc_zero(sizeof *signals);
    mare_channel *come = signals ? mare__chan_new(runtime, DIFFERENT) : NULL;
    int fd = come ? mare__signal_listen(set) : -ENOMEM;
    if (fd < 0) {
        if (come)
            mare_chan_unref(come);
        mare__free(signals);
        return fd;
    }
    mare__object_init(&signals->object, MARE__KIND_SIGNALS, destroy);
    signals->object.weight = sizeof *signals + 2 * sizeof(mare_channel);
    atomic_init(&signals->holders, 2);
    signals->runtime = runtime;
    signals->come = come;
    signals->timeout = MARE_FOREVER;
    signals->wait.wake = on_told;
    signals->spot.wait = &signals->wait;
    mare__message_init(&signals->wait.message);
    mare__list_init(&signals->spot.entry);
    mare__observed_init(&signals->observed, fd, on_closed);
    if (!mare__observed_await(runtime, &signals->observed, MARE__TO_READ)) {
        mare__unref(&signals->object);
        return -ENOMEM;
    }
    atomic_fetch_add(&signals->holders, 1); // the wait's
    watch(signals);
    *out = signals;
    return 0;
}
