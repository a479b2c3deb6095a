// SPDX-License-Identifier: MIT
// A channel is a ring of buffered messages and two lines of waiting nodes, under one lock.
//
//      senders  ->  [ ring, up to capacity ]  ->  receivers
//
// Invariants, whenever the lock is free: receivers wait only while the ring is empty and no sender waits; senders wait
// only while the ring is full and no receiver waits. So at most one line is not empty. (A node whose wait has been
// claimed by another may still stand in line; it counts as absent and is skipped by whoever meets it.)
//
// The lock is never held across a wake: the other end is claimed under it, and served after it.
#include "chan/channel.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "chan/names.h"

static void destroy(struct mare__object *object)
{
    mare_channel *channel = (mare_channel *)object;
    mare_chan_close(channel); // posted messages may still stand in line
    while (channel->count > 0) {
        mare__message_clear(&channel->ring[channel->head]);
        channel->head = (channel->head + 1) % channel->room;
        channel->count--;
    }
    mare__free(channel->ring);
    mare__free(channel->name);
    mare__free(channel);
}

mare_channel *mare__chan_new(struct mare_runtime *runtime, size_t capacity)
{
    mare_channel *channel = mare__alloc_zero(sizeof *channel);
    if (!channel)
        return NULL;
    mare__object_init(&channel->object, MARE__KIND_CHANNEL, destroy);
    mare__list_init(&channel->receivers);
    mare__list_init(&channel->senders);
    channel->capacity = capacity;
    channel->runtime = runtime;
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
static struct mare__node *claim_first(struct mare__list *line, enum mare__claim *claim)
{
    struct mare__list *link;
    while ((link = mare__list_first(line)) != NULL) {
        struct mare__node *node = MARE__ENTRY(link, struct mare__node, link);
        mare__list_remove(link);
        *claim = mare__wait_claim(node->wait);
        if (*claim != MARE__CLAIM_NO)
            return node;
    }
    return NULL;
}

static bool ring_grow(mare_channel *channel)
{
    size_t room = channel->room ? channel->room * 2 : MARE__RING_FIRST;
    if (room > channel->capacity)
        room = channel->capacity;
    if (room > SIZE_MAX / sizeof(mare_message))
        return false;
    mare_message *ring = mare__alloc(room * sizeof *ring);
    if (!ring)
        return false;
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

// A claimed peer still to be served once the lock is free.
struct peer {
    struct mare__node *node;
    enum mare__claim claim;
};

static void serve(struct peer peer)
{
    struct mare__wait *wait = peer.node->wait;
    wait->fired = peer.node->index;
    mare__wait_finish(wait, peer.claim);
}

static void give(struct peer receiver, mare_message *message)
{
    mare__message_move(&receiver.node->wait->message, message);
    serve(receiver);
}

// The three outcomes under the lock: done (perhaps with a peer to serve), failed, or nothing possible now.
static mare_err try_send(mare_channel *channel, mare_message *message, struct peer *receiver)
{
    if (channel->closed)
        return MARE_CLOSED;
    receiver->node = claim_first(&channel->receivers, &receiver->claim);
    if (!receiver->node) {
        if (channel->count == channel->capacity)
            return MARE_FULL;
        if (!ring_push(channel, message))
            return MARE_NOMEM;
    }
    channel->sent++;
    return MARE_OK;
}

static mare_err try_receive(mare_channel *channel, mare_message *message, struct peer *sender)
{
    sender->node = NULL;
    if (channel->count > 0) {
        ring_pop(channel, message);
        sender->node = claim_first(&channel->senders, &sender->claim);
        if (sender->node) { // there is room for its message now
            ring_push(channel, sender->node->message);
            channel->sent++;
        }
        return MARE_OK;
    }
    sender->node = claim_first(&channel->senders, &sender->claim);
    if (sender->node) {
        mare__message_move(message, sender->node->message);
        channel->sent++;
        return MARE_OK;
    }
    return channel->closed ? MARE_CLOSED : MARE_EMPTY;
}

mare_err mare__chan_send(mare_channel *channel, mare_message *message, struct mare__node *node)
{
    struct peer receiver = {0};
    mare__lock_acquire(&channel->lock);
    mare_err err = try_send(channel, message, &receiver);
    if (err == MARE_FULL && node) {
        node->message = message;
        mare__wait_begin(node->wait);
        mare__list_append(&channel->senders, &node->link);
    }
    mare__lock_release(&channel->lock);
    if (receiver.node)
        give(receiver, message);
    return err;
}

mare_err mare__chan_receive(mare_channel *channel, mare_message *message, struct mare__node *node)
{
    struct peer sender = {0};
    mare__lock_acquire(&channel->lock);
    mare_err err = try_receive(channel, message, &sender);
    if (err == MARE_EMPTY && node) {
        mare__wait_begin(node->wait);
        mare__list_append(&channel->receivers, &node->link);
    }
    mare__lock_release(&channel->lock);
    if (sender.node)
        serve(sender);
    return err;
}

void mare__chan_forget(mare_channel *channel, struct mare__node *node)
{
    mare__lock_acquire(&channel->lock);
    mare__list_remove(&node->link);
    mare__lock_release(&channel->lock);
}

bool mare_chan_close(mare_channel *channel)
{
    struct mare__list closing;
    mare__list_init(&closing);
    mare__lock_acquire(&channel->lock);
    bool first = !channel->closed;
    channel->closed = true;
    // Those who wait are claimed here, under the lock, and told after it. An early claim is remembered in `index`'s
    // place: a closed wait has no use for it.
    struct peer peer;
    while ((peer.node = claim_first(&channel->receivers, &peer.claim)) != NULL ||
           (peer.node = claim_first(&channel->senders, &peer.claim)) != NULL) {
        peer.node->wait->result = MARE_CLOSED;
        peer.node->wait->fired = peer.node->index;
        peer.node->index = peer.claim;
        mare__list_append(&closing, &peer.node->link);
    }
    mare__lock_release(&channel->lock);
    struct mare__list *link;
    while ((link = mare__list_first(&closing)) != NULL) {
        struct mare__node *node = MARE__ENTRY(link, struct mare__node, link);
        mare__list_remove(link); // before the wake: the owner may reuse the node at once
        mare__wait_finish(node->wait, (enum mare__claim)node->index);
    }
    if (first && channel->name)
        mare__names_remove(channel->names, channel->name, &channel->object);
    return first;
}

// A message that stands in line by itself.
struct orphan {
    struct mare__wait wait;
    struct mare__node node;
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
    mare__list_init(&orphan->node.link);
    orphan->node.wait = &orphan->wait;
    mare__message_move(&orphan->wait.message, message);
    err = mare__chan_send(channel, &orphan->wait.message, &orphan->node);
    if (err != MARE_FULL || !mare__wait_parked(&orphan->wait))
        orphan_wake(&orphan->wait);
    return err == MARE_OK || err == MARE_FULL;
}

// ---- Several at once -------------------------------------------------------------------------------------------------

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (mare_channel *const *)a, y = (uintptr_t) * (mare_channel *const *)b;
    return x < y ? -1 : x > y;
}

// Locks every channel once, in the order of addresses, so that two selects cannot wait for each other.
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

static void stand_in_lines(struct mare__case *cases, uint32_t count, struct mare__wait *wait)
{
    mare__wait_begin(wait);
    for (uint32_t i = 0; i < count; i++) {
        struct mare__case *c = &cases[i];
        c->node = (struct mare__node){.wait = wait, .message = &c->message, .index = i};
        mare__list_append(c->send ? &c->channel->senders : &c->channel->receivers, &c->node.link);
    }
}

mare_err mare__chan_select(struct mare__case *cases, uint32_t count, uint32_t start, struct mare__wait *wait,
                           mare_message *message, uint32_t *fired, mare_channel **order)
{
    struct peer peer = {0};
    mare_err err = MARE_EMPTY;
    uint32_t distinct = lock_all(cases, count, order);
    struct mare__case *c = NULL;
    for (uint32_t i = 0; i < count; i++) {
        *fired = (start + i) % count;
        c = &cases[*fired];
        err = c->send ? try_send(c->channel, &c->message, &peer) : try_receive(c->channel, message, &peer);
        if (err != MARE_EMPTY && err != MARE_FULL)
            break;
        err = MARE_EMPTY;
    }
    if (err == MARE_EMPTY && wait)
        stand_in_lines(cases, count, wait);
    for (uint32_t i = 0; i < distinct; i++)
        mare__lock_release(&order[i]->lock);
    if (peer.node && c->send)
        give(peer, &c->message);
    else if (peer.node)
        serve(peer);
    return err;
}
