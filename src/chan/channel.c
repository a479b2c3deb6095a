// SPDX-License-Identifier: MIT
// A channel is a ring of buffered messages and two lines of waiting spots, under one lock.
//
//      senders  ->  [ ring, up to capacity ]  ->  receivers
//
// Invariants, whenever the lock is free: receivers wait only while the ring is empty and no sender
// waits; senders wait only while the ring is full and no receiver waits. So at most one line is not
// empty. (A spot whose wait has been claimed by another may still stand in line. It counts as
// absent and is skipped.)
//
// The lock is a spinlock. It is never held across a wake: the other end is claimed under it and
// served after it. It is never held across an allocation: a ring that is too small grows between
// two attempts.
#include "chan/channel.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "chan/directory.h"

// After a fork, locks may be held for ever by threads that do not exist here.
static bool is_usable(const mare_channel *channel)
{
    return !channel->all || channel->all->owner == mare__os_process();
}

void mare__chan_list(mare_channel *channel, struct mare__channels *all)
{
    channel->all = all;
    mare__lock_acquire(&all->lock);
    mare__list_append(&all->list, &channel->in_all);
    mare__lock_release(&all->lock);
}

static void unlist(mare_channel *channel)
{
    if (!channel->all)
        return;
    mare__lock_acquire(&channel->all->lock);
    mare__tour_remove(&channel->all->tours, &channel->in_all);
    mare__lock_release(&channel->all->lock);
}

static void empty(mare_channel *channel)
{
    if (!channel->closed)
        mare__chan_close_for(channel, MARE_CLOSED); // posted messages may still stand in line
    while (channel->count > 0) {
        mare_message message = channel->ring[channel->head];
        channel->head = (channel->head + 1) % channel->room;
        channel->count--;
        mare__message_clear(&message);
    }
}

void mare__chan_empty_all(struct mare__channels *all)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(&all->list)) != NULL) {
        mare_channel *channel = MARE__ENTRY(entry, mare_channel, in_all);
        mare__tour_remove(&all->tours, entry);
        mare_chan_ref(channel);
        empty(channel);
        mare_chan_unref(channel);
    }
}

// The channel's maker pays for the ring, because it chose the capacity. The maker is refused more
// than it has left; somebody else who sends is not, and the maker owes it.
static bool pay(const mare_channel *channel, size_t bytes)
{
    struct mare__account *account = channel->object.account;
    if (!account)
        return true;
    if (account == mare__paying)
        return mare__account_take(account, bytes);
    mare__account_owe(account, bytes);
    return true;
}

static void refund(const mare_channel *channel, size_t bytes)
{
    if (channel->object.account)
        mare__account_give(channel->object.account, bytes);
}

void mare__chan_fini(mare_channel *channel)
{
    unlist(channel);
    empty(channel);
    if (channel->ring != channel->own) {
        refund(channel, channel->room * sizeof *channel->ring);
        mare__free(channel->ring);
    }
    mare__free(channel->name);
}

static void destroy(struct mare__object *object)
{
    mare_channel *channel = (mare_channel *)object;
    if (!is_usable(channel))
        return;
    mare__chan_fini(channel);
    mare__free(channel);
}

void mare__chan_init(mare_channel *channel, struct mare_runtime *runtime, size_t capacity,
                     void (*end)(struct mare__object *))
{
    mare__object_init(&channel->object, MARE__KIND_CHANNEL, end);
    channel->object.weight = sizeof *channel;
    mare__list_init(&channel->receivers);
    mare__list_init(&channel->senders);
    atomic_init(&channel->can, capacity > 0 ? MARE__CAN_SEND : 0);
    channel->capacity = capacity;
    channel->runtime = runtime;
}

// A channel in a block with so much of its ring.
static mare_channel *create(struct mare_runtime *runtime, size_t capacity, size_t room)
{
    mare_channel *channel = mare__alloc_zero(sizeof *channel + room * sizeof *channel->own);
    if (!channel)
        return NULL;
    mare__chan_init(channel, runtime, capacity, destroy);
    mare__object_gains(&channel->object, room * sizeof *channel->own);
    channel->ring = channel->own;
    channel->room = room;
    return channel;
}

mare_channel *mare__chan_new(struct mare_runtime *runtime, size_t capacity)
{
    return create(runtime, capacity, capacity == 1);
}

mare_channel *mare__chan_new_event(struct mare_runtime *runtime, size_t capacity,
                                   struct mare__event event)
{
    mare_channel *channel = mare__chan_new(runtime, capacity);
    if (channel)
        channel->event = event;
    return channel;
}

mare_channel *mare__chan_new_whole(struct mare_runtime *runtime, size_t capacity)
{
    return create(runtime, capacity, capacity);
}

mare_channel *mare_chan_ref(mare_channel *channel)
{
    return mare__ref(&channel->object);
}

void mare_chan_unref(mare_channel *channel)
{
    mare__unref(&channel->object);
}

// Takes the first in line whose wait can be claimed.
static inline struct mare__spot *claim_first(struct mare__list *line)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(line)) != NULL) {
        struct mare__spot *spot = MARE__ENTRY(entry, struct mare__spot, entry);
        mare__list_remove(entry);
        if (mare__wait_claim(spot->wait))
            return spot;
    }
    return NULL;
}

// How many messages it buffers.
static inline size_t limit_of(const mare_channel *channel)
{
    return channel->capacity - channel->less;
}

// Tells those who look without the lock what may be possible, and gives that back.
static inline void unlock_with(mare_channel *channel, unsigned char can)
{
    // Relaxed: a hint; the lock is taken before anybody acts on it.
    atomic_store_explicit(&channel->can, can, memory_order_relaxed);
    mare__lock_release(&channel->lock);
}

static inline void unlock(mare_channel *channel)
{
    unsigned char can = 0;
    if (channel->closed || channel->count < limit_of(channel) ||
        !mare__list_empty(&channel->receivers))
        can |= MARE__CAN_SEND;
    if (channel->closed || channel->count > 0 || !mare__list_empty(&channel->senders))
        can |= MARE__CAN_RECEIVE;
    unlock_with(channel, can);
}

static void ring_push(mare_channel *channel, mare_message *message)
{
    mare__message_move(&channel->ring[(channel->head + channel->count) % channel->room], message);
    channel->count++;
}

static void ring_pop(mare_channel *channel, mare_message *message)
{
    mare__message_move(message, &channel->ring[channel->head]);
    channel->head = channel->head + 1 == channel->room ? 0 : channel->head + 1;
    channel->count--;
}

// Doubles the room, up to what can be used, and to `least` at least. It asks for memory, so no lock
// may be held. False: there is no memory. True: the caller tries again, because another
// thread may have changed the ring meanwhile.
static __attribute__((noinline)) bool grow(mare_channel *channel, size_t least)
{
    mare__lock_acquire(&channel->lock);
    size_t before = channel->room, paid = channel->ring == channel->own ? 0 : before;
    mare__lock_release(&channel->lock);
    size_t room = before ? before * 2 : MARE__RING_FIRST;
    if (room > channel->capacity)
        room = channel->capacity;
    if (room < least)
        room = least;
    // Since the caller looked, others have given back so many that the ring is beyond the capacity.
    if (before > 0 && room <= before)
        return true;
    mare_message *ring;
    size_t more = (room - paid) * sizeof *ring;
    if (room > SIZE_MAX / sizeof *ring || !pay(channel, more))
        return false;
    ring = mare__alloc(room * sizeof *ring);
    if (!ring) {
        refund(channel, more);
        return false;
    }
    mare__lock_acquire(&channel->lock);
    if (channel->room == before) { // else another was quicker
        for (size_t i = 0; before > 0 && i < channel->count; i++)
            mare__message_move(&ring[i], &channel->ring[(channel->head + i) % before]);
        mare_message *old = channel->ring;
        channel->ring = ring;
        channel->room = room;
        channel->head = 0;
        ring = old;
        more = 0;
    }
    mare__lock_release(&channel->lock);
    refund(channel, more);
    if (ring != channel->own)
        mare__free(ring);
    return true;
}

// A claimed peer is served once the lock is free.
static void serve(struct mare__spot *peer)
{
    peer->wait->fired = peer->index;
    peer->wait->wake(peer->wait);
}

static void give(struct mare__spot *receiver, mare_message *message)
{
    mare__message_move(&receiver->wait->message, message);
    serve(receiver);
}

// The outcomes under the lock: done (perhaps with a peer to serve), failed, or nothing possible
// now. MARE_NOMEM: the ring is too small, so that it must grow first.
static inline mare_err put(mare_channel *channel, mare_message *message)
{
    if (channel->closed)
        return (mare_err)channel->closed;
    if (channel->count >= limit_of(channel))
        return MARE_FULL;
    if (channel->count == channel->room)
        return MARE_NOMEM;
    ring_push(channel, message);
    channel->sent++;
    return MARE_OK;
}

static inline mare_err try_send(mare_channel *channel, mare_message *message,
                                struct mare__spot **receiver)
{
    *receiver = claim_first(&channel->receivers); // none if it is closed
    if (!*receiver)
        return put(channel, message);
    channel->sent++;
    return MARE_OK;
}

static inline mare_err try_receive(mare_channel *channel, mare_message *message,
                                   struct mare__spot **sender)
{
    if (channel->count > 0) {
        ring_pop(channel, message);
        if (channel->count < limit_of(channel))
            *sender = claim_first(&channel->senders);
        if (*sender) { // there is room for its message now
            ring_push(channel, (*sender)->message);
            channel->sent++;
        }
        return MARE_OK;
    }
    *sender = claim_first(&channel->senders);
    if (*sender) {
        mare__message_move(message, (*sender)->message);
        channel->sent++;
        return MARE_OK;
    }
    return channel->closed ? (mare_err)channel->closed : MARE_EMPTY;
}

// Puts a spot into a line and publishes its wait, or says why that was cancelled.
static inline mare_err stand_in_line(struct mare__list *line, struct mare__spot *spot,
                                     mare_err meanwhile)
{
    mare__list_append(line, &spot->entry);
    if (mare__wait_publish(spot->wait))
        return meanwhile;
    mare__list_remove(&spot->entry);
    return spot->wait->result;
}

// No receiver is in line. Gives the lock back. Apart from what most messages need.
static __attribute__((noinline)) mare_err send_to_nobody(mare_channel *channel,
                                                         mare_message *message,
                                                         struct mare__spot *spot)
{
    mare_err err = put(channel, message);
    if (err == MARE_FULL && spot) {
        spot->message = message;
        err = stand_in_line(&channel->senders, spot, MARE_FULL);
        if (err == MARE_FULL) {
            unlock_with(channel, MARE__CAN_RECEIVE); // from it
            return err;
        }
    }
    unlock(channel);
    return err == MARE_NOMEM && grow(channel, 0) ? mare__chan_send(channel, message, spot) : err;
}

mare_err mare__chan_send(mare_channel *channel, mare_message *message, struct mare__spot *spot)
{
    mare__lock_acquire(&channel->lock);
    struct mare__spot *receiver = claim_first(&channel->receivers); // none if it is closed
    if (!receiver)
        return send_to_nobody(channel, message, spot);
    channel->sent++;
    // It waited, so there is nothing to receive; as `unlock` would find out, on the way that most
    // messages take.
    bool more = channel->capacity > 0 || !mare__list_empty(&channel->receivers);
    unlock_with(channel, more ? MARE__CAN_SEND : 0);
    give(receiver, message);
    return MARE_OK;
}

// There may be something to receive, or nobody waits. Gives the lock back. Apart from what most
// messages need.
static __attribute__((noinline)) mare_err receive_at_once(mare_channel *channel,
                                                          mare_message *message,
                                                          struct mare__spot *spot)
{
    struct mare__spot *sender = NULL;
    mare_err err = try_receive(channel, message, &sender);
    if (err == MARE_EMPTY && spot)
        err = stand_in_line(&channel->receivers, spot, MARE_EMPTY);
    unlock(channel);
    if (sender)
        serve(sender);
    return err;
}

mare_err mare__chan_receive(mare_channel *channel, mare_message *message, struct mare__spot *spot)
{
    mare__lock_acquire(&channel->lock);
    bool nothing = channel->count == 0 && mare__list_empty(&channel->senders) && !channel->closed;
    if (!nothing || !spot)
        return receive_at_once(channel, message, spot);
    mare_err err = stand_in_line(&channel->receivers, spot, MARE_EMPTY);
    if (err == MARE_EMPTY)
        unlock_with(channel, MARE__CAN_SEND); // to it: as above
    else
        unlock(channel);
    return err;
}

// The wait of a claimed peer, which the caller wakes.
static struct mare__wait *met_with(struct mare__spot *peer)
{
    if (!peer)
        return NULL;
    peer->wait->fired = peer->index;
    return peer->wait;
}

mare_err mare__chan_send_quietly(mare_channel *channel, mare_message *message,
                                 struct mare__spot *spot, struct mare__wait **met)
{
    struct mare__spot *receiver = NULL;
    mare__lock_acquire(&channel->lock);
    mare_err err = try_send(channel, message, &receiver);
    if (err == MARE_FULL && spot) {
        spot->message = message;
        err = stand_in_line(&channel->senders, spot, MARE_FULL);
    }
    unlock(channel);
    if (receiver)
        mare__message_move(&receiver->wait->message, message);
    *met = met_with(receiver);
    return err;
}

mare_err mare__chan_receive_quietly(mare_channel *channel, mare_message *message,
                                    struct mare__spot *spot, struct mare__wait **met)
{
    struct mare__spot *sender = NULL;
    mare__lock_acquire(&channel->lock);
    mare_err err = try_receive(channel, message, &sender);
    if (err == MARE_EMPTY && spot)
        err = stand_in_line(&channel->receivers, spot, MARE_EMPTY);
    unlock(channel);
    *met = met_with(sender);
    return err;
}

void mare__chan_forget(mare_channel *channel, struct mare__spot *spot)
{
    mare__lock_acquire(&channel->lock);
    mare__list_remove(&spot->entry);
    unlock(channel);
}

// How many of the first in the ring were given back.
static size_t back_in(const mare_channel *channel)
{
    uint64_t left = channel->sent + channel->back - channel->count;
    return channel->back_until > left ? (size_t)(channel->back_until - left) : 0;
}

// Whether one of so many bytes may be added to them.
static bool may_go_back(const mare_channel *channel, size_t bytes, size_t most)
{
    size_t before = back_in(channel);
    for (size_t i = 0; i < before && bytes <= most; i++)
        bytes += channel->ring[(channel->head + i) % channel->room].length;
    return before < MARE__CHAN_BACK && bytes <= most;
}

// There is room for it in the ring.
static void put_back(mare_channel *channel, mare_message *message)
{
    size_t before = back_in(channel);
    size_t head = channel->head = (channel->head + channel->room - 1) % channel->room;
    for (size_t i = 0; i < before; i++, head = (head + 1) % channel->room)
        mare__message_move(&channel->ring[head], &channel->ring[(head + 1) % channel->room]);
    mare__message_move(&channel->ring[head], message);
    channel->count++;
    channel->back++;
    channel->back_until = channel->sent + channel->back - channel->count + before + 1;
}

mare_err mare__chan_give_back(mare_channel *channel, mare_message *message, size_t most)
{
    for (;;) {
        mare__lock_acquire(&channel->lock);
        struct mare__spot *receiver = claim_first(&channel->receivers);
        size_t least = channel->count + 1;
        bool full = !receiver && !may_go_back(channel, message->length, most);
        bool fits = receiver || (channel->count < channel->room && !full);
        if (receiver)
            channel->back++;
        else if (fits)
            put_back(channel, message);
        unlock(channel);
        if (receiver)
            give(receiver, message);
        if (fits || full)
            return fits ? MARE_OK : MARE_FULL;
        if (!grow(channel, least))
            return MARE_NOMEM;
    }
}

bool mare__chan_limit(mare_channel *channel, size_t limit)
{
    mare__lock_acquire(&channel->lock);
    bool can = limit <= limit_of(channel) || channel->count == 0;
    if (can)
        channel->less = (uint16_t)(limit < channel->capacity ? channel->capacity - limit : 0);
    unlock(channel);
    return can;
}

size_t mare__chan_receivers(mare_channel *channel)
{
    size_t count = 0;
    mare__lock_acquire(&channel->lock);
    for (struct mare__list *at = channel->receivers.next; at != &channel->receivers; at = at->next)
        count++;
    mare__lock_release(&channel->lock);
    return count;
}

bool mare__chan_is_awaited(mare_channel *channel)
{
    mare__lock_acquire(&channel->lock);
    bool awaited = !mare__list_empty(&channel->receivers);
    mare__lock_release(&channel->lock);
    return awaited;
}

bool mare_chan_close(mare_channel *channel)
{
    if (!is_usable(channel))
        return false;
    bool first = mare__chan_close_for(channel, MARE_CLOSED);
    if (first && channel->far)
        channel->far->close(channel->far);
    return first;
}

bool mare__chan_close_for(mare_channel *channel, mare_err why)
{
    struct mare__list closing, *entry;
    struct mare__spot *spot;
    mare__list_init(&closing);
    mare__lock_acquire(&channel->lock);
    bool first = !channel->closed;
    if (first)
        channel->closed = (uint8_t)why;
    while ((spot = claim_first(&channel->receivers)) || (spot = claim_first(&channel->senders)))
        mare__list_append(&closing, &spot->entry);
    unlock(channel);
    while ((entry = mare__list_first(&closing)) != NULL) {
        spot = MARE__ENTRY(entry, struct mare__spot, entry);
        mare__list_remove(entry); // before the wake: the owner may use the spot again at once
        spot->wait->result = why;
        serve(spot);
    }
    if (first && channel->name && channel->all) // one that could not be paid for is in no list
        mare__directory_remove(channel->all->names, channel->name, &channel->object);
    return first;
}

// ---- Letters ------------------------------------------------------------------------------------

static void letter_end(struct mare__wait *wait)
{
    mare__message_clear(&wait->message); // not empty when the channel was closed
    mare__free(wait);
}

void mare__letter_init(struct mare__letter *letter)
{
    letter->wait.wake = letter_end;
    letter->spot.wait = &letter->wait;
    mare__list_init(&letter->spot.entry);
}

void mare__chan_post(mare_channel *channel, struct mare__letter *letter)
{
    mare_message *message = &letter->wait.message;
    struct mare__spot *receiver = NULL;
    mare_err err = mare__chan_send(channel, message, NULL); // the ring grows, if it can
    if (err == MARE_FULL || err == MARE_NOMEM) {
        mare__lock_acquire(&channel->lock);
        err = try_send(channel, message, &receiver);
        // A ring that cannot grow is as good as full: a receiver finds those in line, too.
        if (err == MARE_FULL || err == MARE_NOMEM) {
            letter->spot.message = message;
            err = stand_in_line(&channel->senders, &letter->spot, MARE_FULL);
        }
        unlock(channel);
        if (receiver)
            give(receiver, message);
    }
    if (err != MARE_FULL) // sent; or closed
        letter->wait.wake(&letter->wait);
}

// ---- Several at once ----------------------------------------------------------------------------

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (mare_channel *const *)a,
              y = (uintptr_t) * (mare_channel *const *)b;
    return x < y ? -1 : x > y;
}

void mare__choice_init(struct mare__choice *choice, struct mare__case *cases, uint32_t count,
                       mare_channel **order)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = cases[i].channel;
    qsort(order, count, sizeof *order, by_address);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < count; i++)
        if (distinct == 0 || order[i] != order[distinct - 1])
            order[distinct++] = order[i];
    *choice = (struct mare__choice){cases, count, distinct, 0, order};
}

// False when the wait was cancelled, so that it stands nowhere.
static bool stand_in_lines(const struct mare__choice *choice, struct mare__wait *wait)
{
    for (uint32_t i = 0; i < choice->count; i++) {
        struct mare__case *c = &choice->cases[i];
        c->spot = (struct mare__spot){.wait = wait, .message = &c->message, .index = i};
        mare__list_append(c->send ? &c->channel->senders : &c->channel->receivers, &c->spot.entry);
    }
    if (mare__wait_publish(wait))
        return true;
    for (uint32_t i = 0; i < choice->count; i++)
        mare__list_remove(&choice->cases[i].spot.entry);
    return false;
}

mare_err mare__chan_choose_quietly(const struct mare__choice *choice, struct mare__wait *wait,
                                   mare_message *message, uint32_t *fired, struct mare__wait **met)
{
    struct mare__spot *peer = NULL;
    struct mare__case *c = NULL;
    mare_err err = MARE_EMPTY;
    // Every channel once, in the order of addresses, so that two selects cannot wait for each
    // other.
    for (uint32_t i = 0; i < choice->distinct; i++)
        mare__lock_acquire(&choice->order[i]->lock);
    for (uint32_t i = 0; i < choice->count && err == MARE_EMPTY; i++) {
        *fired = (choice->turn + i) % choice->count;
        c = &choice->cases[*fired];
        err = c->send ? try_send(c->channel, &c->message, &peer)
                      : try_receive(c->channel, message, &peer);
        if (err == MARE_FULL)
            err = MARE_EMPTY;
    }
    if (err == MARE_EMPTY && wait && !stand_in_lines(choice, wait)) {
        err = wait->result;
        *fired = MARE__FIRED_NONE;
    }
    for (uint32_t i = 0; i < choice->distinct; i++)
        unlock(choice->order[i]);
    if (peer && c->send)
        mare__message_move(&peer->wait->message, &c->message);
    *met = met_with(peer);
    return err;
}

mare_err mare__chan_choose(const struct mare__choice *choice, struct mare__wait *wait,
                           mare_message *message, uint32_t *fired)
{
    struct mare__wait *met;
    mare_err err;
    do
        err = mare__chan_choose_quietly(choice, wait, message, fired, &met);
    while (err == MARE_NOMEM && grow(choice->cases[*fired].channel, 0));
    if (met)
        met->wake(met);
    return err;
}

mare_err mare__chan_select(struct mare__case *cases, uint32_t count, uint32_t start,
                           struct mare__wait *wait, mare_message *message, uint32_t *fired,
                           mare_channel **order)
{
    struct mare__choice choice;
    mare__choice_init(&choice, cases, count, order);
    choice.turn = start;
    return mare__chan_choose(&choice, wait, message, fired);
}
