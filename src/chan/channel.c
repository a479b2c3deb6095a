// SPDX-License-Identifier: MIT
// A channel is a ring of buffered messages and two lines of waiting spots, under one lock.
//
//      senders  ->  [ ring, up to capacity ]  ->  receivers
//
// Invariants, whenever the lock is free: receivers wait only while the ring is empty and no sender
// waits; senders wait only while the ring is full and no receiver waits. So at most one line is not
// empty. (A spot whose wait has been claimed by another may still stand in line; it counts as
// absent and is skipped by whoever meets it.)
//
// The lock is never held across a wake: the other end is claimed under it, and served after it.
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
    mare__list_remove(&channel->in_all);
    mare__lock_release(&channel->all->lock);
}

static void empty(mare_channel *channel)
{
    if (!channel->closed)
        mare_chan_close(channel); // posted messages may still stand in line
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
        mare__list_remove(entry);
        mare_chan_ref(channel);
        empty(channel);
        mare_chan_unref(channel);
    }
}

void mare__chan_fini(mare_channel *channel)
{
    unlist(channel);
    empty(channel);
    if (channel->object.account)
        mare__account_give(channel->object.account, channel->room * sizeof *channel->ring);
    mare__free(channel->ring);
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
    mare__list_init(&channel->in_all);
    atomic_init(&channel->can, capacity > 0 ? MARE__CAN_SEND : 0);
    channel->capacity = capacity;
    channel->runtime = runtime;
}

mare_channel *mare__chan_new(struct mare_runtime *runtime, size_t capacity)
{
    mare_channel *channel = mare__alloc_zero(sizeof *channel);
    if (channel)
        mare__chan_init(channel, runtime, capacity, destroy);
    return channel;
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

// Tells those who look without the lock what may be possible, and gives that back.
static inline void unlock_with(mare_channel *channel, unsigned char can)
{
    // Relaxed: a hint; who acts on it takes the lock.
    atomic_store_explicit(&channel->can, can, memory_order_relaxed);
    mare__lock_release(&channel->lock);
}

static inline void unlock(mare_channel *channel)
{
    unsigned char can = 0;
    if (channel->closed || channel->count < channel->capacity ||
        !mare__list_empty(&channel->receivers))
        can |= MARE__CAN_SEND;
    if (channel->closed || channel->count > 0 || !mare__list_empty(&channel->senders))
        can |= MARE__CAN_RECEIVE;
    unlock_with(channel, can);
}

// The ring is its maker's to pay for, who chose its capacity. The maker is refused more than it has
// left; somebody else who sends is not, and the maker owes it.
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

static bool ring_grow(mare_channel *channel)
{
    size_t room = channel->room ? channel->room * 2 : MARE__RING_FIRST;
    if (room > channel->capacity)
        room = channel->capacity;
    if (room > SIZE_MAX / sizeof(mare_message))
        return false;
    size_t more = (room - channel->room) * sizeof(mare_message);
    if (!pay(channel, more))
        return false;
    mare_message *ring = mare__alloc(room * sizeof *ring);
    if (!ring) {
        if (channel->object.account)
            mare__account_give(channel->object.account, more);
        return false;
    }
    for (size_t i = 0; i < channel->count; i++)
        mare__message_move(&ring[i], &channel->ring[(channel->head + i) % channel->room]);
    mare__free(channel->ring);
    channel->ring = ring;
    channel->room = room;
    channel->head = 0;
    return true;
}

static bool ring_push(mare_channel *channel, mare_message *message)
{
    if (channel->count == channel->room && !ring_grow(channel))
        return false;
    mare__message_move(&channel->ring[(channel->head + channel->count) % channel->room], message);
    channel->count++;
    return true;
}

static void ring_pop(mare_channel *channel, mare_message *message)
{
    mare__message_move(message, &channel->ring[channel->head]);
    channel->head = channel->head + 1 == channel->room ? 0 : channel->head + 1;
    channel->count--;
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

// The three outcomes under the lock: done (perhaps with a peer to serve), failed, or nothing
// possible now.
static inline mare_err try_send(mare_channel *channel, mare_message *message,
                                struct mare__spot **receiver)
{
    if (channel->closed)
        return MARE_CLOSED;
    *receiver = claim_first(&channel->receivers);
    if (!*receiver) {
        if (channel->count == channel->capacity)
            return MARE_FULL;
        if (!ring_push(channel, message))
            return MARE_NOMEM;
    }
    channel->sent++;
    return MARE_OK;
}

static inline mare_err try_receive(mare_channel *channel, mare_message *message,
                                   struct mare__spot **sender)
{
    if (channel->count > 0) {
        ring_pop(channel, message);
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
    return channel->closed ? MARE_CLOSED : MARE_EMPTY;
}

// Puts a spot into a line and publishes its wait, or says why that was cancelled.
static mare_err stand_in_line(struct mare__list *line, struct mare__spot *spot, mare_err meanwhile)
{
    mare__list_append(line, &spot->entry);
    if (mare__wait_publish(spot->wait))
        return meanwhile;
    mare__list_remove(&spot->entry);
    return spot->wait->result;
}

mare_err mare__chan_send(mare_channel *channel, mare_message *message, struct mare__spot *spot)
{
    struct mare__spot *receiver = NULL;
    mare__lock_acquire(&channel->lock);
    mare_err err = try_send(channel, message, &receiver);
    if (err == MARE_FULL && spot) {
        spot->message = message;
        err = stand_in_line(&channel->senders, spot, MARE_FULL);
    }
    if (!receiver) {
        unlock(channel);
        return err;
    }
    // It waited, so there is nothing to receive; as `unlock` would find out, on the way that most
    // messages take.
    bool more = channel->capacity > 0 || !mare__list_empty(&channel->receivers);
    unlock_with(channel, more ? MARE__CAN_SEND : 0);
    give(receiver, message);
    return err;
}

mare_err mare__chan_receive(mare_channel *channel, mare_message *message, struct mare__spot *spot)
{
    struct mare__spot *sender = NULL;
    mare__lock_acquire(&channel->lock);
    mare_err err = try_receive(channel, message, &sender);
    if (err == MARE_EMPTY && spot) {
        err = stand_in_line(&channel->receivers, spot, MARE_EMPTY);
        if (err == MARE_EMPTY) {
            unlock_with(channel, MARE__CAN_SEND); // to it: as above
            return err;
        }
    }
    unlock(channel);
    if (sender)
        serve(sender);
    return err;
}

void mare__chan_forget(mare_channel *channel, struct mare__spot *spot)
{
    mare__lock_acquire(&channel->lock);
    mare__list_remove(&spot->entry);
    unlock(channel);
}

bool mare_chan_close(mare_channel *channel)
{
    struct mare__list closing, *entry;
    struct mare__spot *spot;
    if (!is_usable(channel))
        return false;
    mare__list_init(&closing);
    mare__lock_acquire(&channel->lock);
    bool first = !channel->closed;
    channel->closed = true;
    while ((spot = claim_first(&channel->receivers)) || (spot = claim_first(&channel->senders)))
        mare__list_append(&closing, &spot->entry);
    unlock(channel);
    while ((entry = mare__list_first(&closing)) != NULL) {
        spot = MARE__ENTRY(entry, struct mare__spot, entry);
        mare__list_remove(entry); // before the wake: the owner may use the spot again at once
        spot->wait->result = MARE_CLOSED;
        serve(spot);
    }
    if (first && channel->name)
        mare__directory_remove(channel->all->names, channel->name, &channel->object);
    return first;
}

// A message that stands in line by itself.
struct orphan {
    struct mare__wait wait;
    struct mare__spot spot;
};

static void orphan_wake(struct mare__wait *wait)
{
    mare__message_clear(&wait->message); // not empty when the channel was closed
    mare__free(wait);
}

bool mare__chan_post(mare_channel *channel, mare_message *message)
{
    mare_err err = mare__chan_send(channel, message, NULL);
    if (err != MARE_FULL) {
        mare__message_clear(message);
        return err == MARE_OK;
    }
    struct orphan *orphan = mare__alloc_zero(sizeof *orphan);
    if (!orphan) {
        mare__message_clear(message);
        return false;
    }
    orphan->wait.wake = orphan_wake;
    mare__list_init(&orphan->spot.entry);
    orphan->spot.wait = &orphan->wait;
    mare__message_move(&orphan->wait.message, message);
    err = mare__chan_send(channel, &orphan->wait.message, &orphan->spot);
    if (err != MARE_FULL)
        orphan_wake(&orphan->wait);
    return err == MARE_OK || err == MARE_FULL;
}

// ---- Several at once ----------------------------------------------------------------------------

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (mare_channel *const *)a,
              y = (uintptr_t) * (mare_channel *const *)b;
    return x < y ? -1 : x > y;
}

// Locks every channel once, in the order of addresses, so that two selects cannot wait for each
// other.
static uint32_t lock_all(struct mare__case *cases, uint32_t count, mare_channel **order)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = cases[i].channel;
    qsort(order, count, sizeof *order, by_address);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < count; i++)
        if (distinct == 0 || order[i] != order[distinct - 1])
            order[distinct++] = order[i];
    for (uint32_t i = 0; i < distinct; i++)
        mare__lock_acquire(&order[i]->lock);
    return distinct;
}

// False when the wait was cancelled, so that it stands nowhere.
static bool stand_in_lines(struct mare__case *cases, uint32_t count, struct mare__wait *wait)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mare__case *c = &cases[i];
        c->spot = (struct mare__spot){.wait = wait, .message = &c->message, .index = i};
        mare__list_append(c->send ? &c->channel->senders : &c->channel->receivers, &c->spot.entry);
    }
    if (mare__wait_publish(wait))
        return true;
    for (uint32_t i = 0; i < count; i++)
        mare__list_remove(&cases[i].spot.entry);
    return false;
}

mare_err mare__chan_select(struct mare__case *cases, uint32_t count, uint32_t start,
                           struct mare__wait *wait, mare_message *message, uint32_t *fired,
                           mare_channel **order)
{
    struct mare__spot *peer = NULL;
    struct mare__case *c = NULL;
    mare_err err = MARE_EMPTY;
    uint32_t distinct = lock_all(cases, count, order);
    for (uint32_t i = 0; i < count && err == MARE_EMPTY; i++) {
        *fired = (start + i) % count;
        c = &cases[*fired];
        err = c->send ? try_send(c->channel, &c->message, &peer)
                      : try_receive(c->channel, message, &peer);
        if (err == MARE_FULL)
            err = MARE_EMPTY;
    }
    if (err == MARE_EMPTY && wait && !stand_in_lines(cases, count, wait)) {
        err = wait->result;
        *fired = MARE__FIRED_NONE;
    }
    for (uint32_t i = 0; i < distinct; i++)
        unlock(order[i]);
    if (peer && c->send)
        give(peer, &c->message);
    else if (peer)
        serve(peer);
    return err;
}
