// SPDX-License-Identifier: MIT
#include "tests/link/net.h"

#include <string.h>

void net_connect(struct net_connection *net, uint32_t capacity, uint64_t latency_us,
                 uint64_t now_us)
{
    net->latency_us = latency_us;
    for (int i = 0; i < 2; i++) {
        struct net_pipe *pipe = &net->pipe[i];
        pipe->head = pipe->size = pipe->first = pipe->count = 0;
        pipe->capacity = capacity < NET_PIPE ? capacity : NET_PIPE;
        pipe->stopped = pipe->reset = false;
        pipe->end_at = UINT64_MAX;
        pipe->last_at = pipe->read_at = pipe->healed_at = now_us;
        net->open[i] = true;
    }
}

static uint64_t arrival(struct net_connection *net, struct net_pipe *pipe, uint64_t now_us,
                        mare_sim_random *random)
{
    uint64_t at = now_us + net->latency_us / 2 + mare_sim_below(random, net->latency_us + 1);
    pipe->last_at = at > pipe->last_at ? at : pipe->last_at;
    return pipe->last_at;
}

static void put(struct net_pipe *pipe, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t done = 0; done < size;) {
        uint32_t at = (pipe->head + pipe->size) % NET_PIPE;
        uint32_t some = size - done < NET_PIPE - at ? size - done : NET_PIPE - at;
        memcpy(pipe->bytes + at, bytes + done, some);
        pipe->size += some;
        done += some;
    }
}

size_t net_write(struct net_connection *net, int end, const struct iovec *pieces, int count,
                 uint64_t now_us, mare_sim_random *random)
{
    struct net_pipe *pipe = &net->pipe[end];
    uint32_t before = pipe->size;
    if (pipe->end_at <= now_us) // it was cut, though this end has not noticed: swallowed
        return count ? pieces[0].iov_len : 0;
    if (pipe->count == NET_SEGMENTS)
        return 0;
    for (int i = 0; i < count && pipe->size < pipe->capacity; i++) {
        size_t room = pipe->capacity - pipe->size;
        put(pipe, pieces[i].iov_base,
            (uint32_t)(pieces[i].iov_len < room ? pieces[i].iov_len : room));
    }
    uint32_t size = pipe->size - before;
    if (size) {
        uint32_t at = (pipe->first + pipe->count++) % NET_SEGMENTS;
        pipe->segments[at].at = arrival(net, pipe, now_us, random);
        pipe->segments[at].size = size;
    }
    return size;
}

uint32_t net_readable(const struct net_connection *net, int end, uint64_t now_us)
{
    const struct net_pipe *pipe = &net->pipe[1 - end];
    uint32_t size = 0;
    if (pipe->stopped || (pipe->reset && pipe->end_at <= now_us))
        return 0;
    for (uint32_t i = 0; i < pipe->count; i++) {
        uint32_t at = (pipe->first + i) % NET_SEGMENTS;
        if (pipe->segments[at].at <= now_us)
            size += pipe->segments[at].size;
    }
    return size;
}

void net_read(struct net_connection *net, int end, uint8_t *out, uint32_t size, uint64_t now_us)
{
    struct net_pipe *pipe = &net->pipe[1 - end];
    pipe->read_at = now_us;
    for (uint32_t i = 0; i < size; i++)
        out[i] = pipe->bytes[(pipe->head + i) % NET_PIPE];
    pipe->head = (pipe->head + size) % NET_PIPE;
    pipe->size -= size;
    while (size > 0) {
        uint32_t *left = &pipe->segments[pipe->first].size;
        uint32_t some = *left < size ? *left : size;
        *left -= some;
        size -= some;
        if (*left == 0) {
            pipe->first = (pipe->first + 1) % NET_SEGMENTS;
            pipe->count--;
        }
    }
}

bool net_at_end(const struct net_connection *net, int end, uint64_t now_us)
{
    const struct net_pipe *pipe = &net->pipe[1 - end];
    return !pipe->stopped && pipe->end_at <= now_us && (pipe->reset || pipe->count == 0);
}

uint64_t net_next(const struct net_connection *net, int end)
{
    const struct net_pipe *pipe = &net->pipe[1 - end];
    if (pipe->stopped)
        return UINT64_MAX;
    uint64_t at = pipe->count ? pipe->segments[pipe->first].at : UINT64_MAX;
    return pipe->end_at < at ? pipe->end_at : at;
}

void net_close(struct net_connection *net, int end, uint64_t now_us)
{
    struct net_pipe *pipe = &net->pipe[end];
    uint64_t at = now_us + net->latency_us;
    net->open[end] = false;
    at = at > pipe->last_at ? at : pipe->last_at;
    pipe->end_at = at < pipe->end_at ? at : pipe->end_at;
}

void net_cut(struct net_connection *net, uint64_t now_us, mare_sim_random *random)
{
    for (int i = 0; i < 2; i++) {
        uint64_t at = now_us + mare_sim_below(random, 4 * net->latency_us + 1);
        net->pipe[i].reset = true;
        net->pipe[i].end_at = at < net->pipe[i].end_at ? at : net->pipe[i].end_at;
    }
}

void net_stop(struct net_connection *net, int end)
{
    net->pipe[end].stopped = true;
}

void net_heal(struct net_connection *net, int end, uint64_t now_us)
{
    struct net_pipe *pipe = &net->pipe[end];
    pipe->stopped = false;
    pipe->healed_at = now_us;
    for (uint32_t i = 0; i < pipe->count; i++) {
        uint32_t at = (pipe->first + i) % NET_SEGMENTS;
        if (pipe->segments[at].at < now_us)
            pipe->segments[at].at = now_us;
    }
}
