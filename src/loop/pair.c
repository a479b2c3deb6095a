// SPDX-License-Identifier: MIT
// Pairs in memory. A pair is two rings of bytes, one for each way:
//
//      end 0  --- write -->  ring 0  --- read -->  end 1
//      end 1  --- write -->  ring 1  --- read -->  end 0
//
// Threads: each end has one owner, and the two may run at once. Only the writing end touches the
// free part of a ring, and only the reading end the used part, so bytes are copied without the
// lock. The lock guards `first`, `count` and everything else that both ends use. Release the lock
// before a message is sent to a channel.
//
// `awaits` counts the waits for a way that is not open. When the other end opens the way, it sends
// one message for each of them: several may wait, and a select may take a message and not use it.
#include "loop/pair.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/lock.h"

struct ring {
    char *bytes;
    size_t room, first, count;
    bool shut;    // its writer has said that it sends no more
    bool dropped; // its reader has closed: bytes written are thrown away
};

struct end {
    struct mare__transport transport;
    struct pair *pair;
    mare_channel *ready[MARE__WAYS]; // made by the owner's first wait
    unsigned awaits[MARE__WAYS];     // how many waits were not told yet
    bool closed;
};

struct pair {
    mare__lock lock;  // guards all that follows, but the bytes and `runtime`
    unsigned holders; // ends that still have an owner
    mare_runtime *runtime;
    struct ring rings[2];
    struct end ends[2];
};

static struct end *of(struct mare__transport *transport)
{
    return (struct end *)transport;
}

static int side_of(const struct end *end)
{
    return end == &end->pair->ends[1];
}

static struct ring *written_by(struct end *end)
{
    return &end->pair->rings[side_of(end)];
}

static struct ring *read_by(struct end *end)
{
    return &end->pair->rings[!side_of(end)];
}

static struct end *peer_of(struct end *end)
{
    return &end->pair->ends[!side_of(end)];
}

// ---- Telling ------------------------------------------------------------------------------------

// Whom to tell once the lock is released: the channel of a way, and how many wait for it.
struct news {
    mare_channel *channel;
    unsigned count;
};

// Under the lock. The channel is freed with the pair, and so not before both ends are released.
static struct news news_for(struct end *end, int way)
{
    struct news news = {end->ready[way], end->awaits[way]};
    end->awaits[way] = 0;
    return news;
}

// Without the lock.
static void tell(struct news news)
{
    mare_message message;
    mare__message_init(&message);
    while (news.count-- > 0 && mare__chan_send(news.channel, &message, NULL) == MARE_OK)
        ;
}

// ---- Bytes --------------------------------------------------------------------------------------

// Copies out of the ring from its first byte on.
static void copy_out(const struct ring *ring, size_t first, char *bytes, size_t size)
{
    size_t part = ring->room - first < size ? ring->room - first : size;
    memcpy(bytes, ring->bytes + first, part);
    memcpy(bytes + part, ring->bytes, size - part);
}

static void copy_in(struct ring *ring, size_t at, const char *bytes, size_t size)
{
    at %= ring->room;
    size_t part = ring->room - at < size ? ring->room - at : size;
    memcpy(ring->bytes + at, bytes, part);
    memcpy(ring->bytes, bytes + part, size - part);
}

static ssize_t read_some(struct mare__transport *transport, void *bytes, size_t size)
{
    struct end *self = of(transport);
    struct ring *ring = read_by(self);
    mare__lock_acquire(&self->pair->lock);
    size_t first = ring->first, count = ring->count;
    bool shut = ring->shut;
    mare__lock_release(&self->pair->lock);
    if (count == 0)
        return shut ? 0 : -EAGAIN;
    if (count > size)
        count = size;
    copy_out(ring, first, bytes, count);
    mare__lock_acquire(&self->pair->lock);
    ring->first = (first + count) % ring->room;
    ring->count -= count;
    struct news news = news_for(peer_of(self), MARE__TO_WRITE);
    mare__lock_release(&self->pair->lock);
    tell(news);
    return (ssize_t)count;
}

static ssize_t write_some(struct mare__transport *transport, struct iovec *pieces, int count)
{
    struct end *self = of(transport);
    struct ring *ring = written_by(self);
    mare__lock_acquire(&self->pair->lock);
    size_t end = ring->first + ring->count, free = ring->room - ring->count, taken = 0;
    bool over = ring->shut || ring->dropped;
    mare__lock_release(&self->pair->lock);
    if (over)
        return -EPIPE;
    for (int i = 0; i < count && taken < free; i++) {
        size_t left = free - taken, size = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        copy_in(ring, end + taken, pieces[i].iov_base, size);
        taken += size;
    }
    if (taken == 0)
        return free == 0 ? -EAGAIN : 0;
    mare__lock_acquire(&self->pair->lock);
    ring->count += taken;
    struct news news = news_for(peer_of(self), MARE__TO_READ);
    mare__lock_release(&self->pair->lock);
    tell(news);
    return (ssize_t)taken;
}

static int shut_down(struct mare__transport *transport)
{
    struct end *self = of(transport);
    mare__lock_acquire(&self->pair->lock);
    written_by(self)->shut = true;
    struct news news = news_for(peer_of(self), MARE__TO_READ);
    mare__lock_release(&self->pair->lock);
    tell(news);
    return 0;
}

// ---- Waiting ------------------------------------------------------------------------------------

// Whether a call that way would move bytes, or say that there will be none. Under the lock.
static bool would_go(struct end *self, int way)
{
    const struct ring *in = read_by(self), *out = written_by(self);
    return way == MARE__TO_READ ? in->count > 0 || in->shut
                                : out->count < out->room || out->shut || out->dropped;
}

static mare_channel *await(struct mare__transport *transport, int way)
{
    struct end *self = of(transport);
    if (!self->ready[way]) {
        mare_channel *made = mare__chan_new_event(
            self->pair->runtime, 1, (struct mare__event){.tells = MARE__TELLS_MEMORY});
        if (!made)
            return NULL;
        mare__lock_acquire(&self->pair->lock);
        self->ready[way] = made;
        mare__lock_release(&self->pair->lock);
    }
    struct news news = {0};
    mare__lock_acquire(&self->pair->lock);
    self->awaits[way]++;
    if (would_go(self, way))
        news = news_for(self, way);
    mare__lock_release(&self->pair->lock);
    tell(news);
    return self->ready[way];
}

static bool is_open(struct mare__transport *transport, int way)
{
    struct end *self = of(transport);
    mare__lock_acquire(&self->pair->lock);
    bool open = would_go(self, way);
    mare__lock_release(&self->pair->lock);
    return open;
}

// ---- The end ------------------------------------------------------------------------------------

static void close_it(struct mare__transport *transport, bool cut)
{
    (void)cut;
    struct end *self = of(transport);
    mare__lock_acquire(&self->pair->lock);
    bool again = self->closed;
    self->closed = true;
    written_by(self)->shut = true;
    read_by(self)->dropped = true;
    struct news readers = news_for(peer_of(self), MARE__TO_READ);
    struct news writers = news_for(peer_of(self), MARE__TO_WRITE);
    mare__lock_release(&self->pair->lock);
    tell(readers);
    tell(writers);
    for (int way = 0; !again && way < MARE__WAYS; way++)
        if (self->ready[way])
            mare_chan_close(self->ready[way]);
}

static void destroy(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        for (int way = 0; way < MARE__WAYS; way++)
            if (pair->ends[i].ready[way])
                mare_chan_unref(pair->ends[i].ready[way]);
        mare__free(pair->rings[i].bytes);
    }
    mare__free(pair);
}

static void release(struct mare__transport *transport)
{
    struct pair *pair = of(transport)->pair;
    close_it(transport, false);
    mare__lock_acquire(&pair->lock);
    unsigned left = --pair->holders;
    mare__lock_release(&pair->lock);
    if (left == 0)
        destroy(pair);
}

static int no_descriptor(const struct mare__transport *transport)
{
    (void)transport;
    return -1;
}

static const struct mare__transport_ops ops = {
    .read = read_some,
    .write = write_some,
    .flush = mare__transport_no_flush,
    .shutdown = shut_down,
    .waits = mare__transport_no_waits,
    .await = await,
    .is_open = is_open,
    .close = close_it,
    .release = release,
    .descriptor = no_descriptor,
    .failure = mare__transport_no_failure,
    .facts = mare__transport_no_facts,
    .plain = true,
};

struct mare__transport *mare__pair_new(mare_runtime *runtime, size_t room)
{
    struct pair *pair = mare__alloc_zero(sizeof *pair);
    if (!pair)
        return NULL;
    pair->runtime = runtime;
    pair->holders = 1;
    for (int i = 0; i < 2; i++) {
        pair->rings[i].bytes = mare__alloc(room);
        pair->rings[i].room = room;
        pair->ends[i].transport.ops = &ops;
        pair->ends[i].pair = pair;
    }
    if (pair->rings[0].bytes && pair->rings[1].bytes)
        return &pair->ends[0].transport;
    destroy(pair);
    return NULL;
}

struct mare__transport *mare__pair_other(struct mare__transport *end)
{
    struct end *other = peer_of(of(end));
    other->pair->holders++;
    return &other->transport;
}
