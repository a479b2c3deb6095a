// SPDX-License-Identifier: MIT
// Connections in memory, under virtual time: reliable and in order within a direction, as TCP is,
// until they are cut. Bytes take their time, the two directions each their own; a pipe holds so
// many and no more; a direction can be stopped, and goes on where it was if it is healed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "sim/random.h"

enum { NET_PIPE = 16384, NET_SEGMENTS = 64 };

// What one end has written and the other has not read.
struct net_pipe {
    uint8_t bytes[NET_PIPE];
    uint32_t head, size, capacity;
    struct {
        uint64_t at; // when it can be read
        uint32_t size;
    } segments[NET_SEGMENTS];
    uint32_t first, count;
    uint64_t last_at;
    bool stopped;     // nothing arrives
    uint64_t end_at;  // the writer has closed, or the connection was cut; UINT64_MAX: neither
    bool reset;       // what was not read is lost
    uint64_t read_at; // something was last read
    uint64_t healed_at;
};

struct net_connection {
    struct net_pipe pipe[2]; // written by end 0, by end 1
    bool open[2];
    uint64_t latency_us;
};

// A connection whose bytes take around `latency_us` in each direction.
void net_connect(struct net_connection *net, uint32_t capacity, uint64_t latency_us,
                 uint64_t now_us);

// Takes as many bytes as there is room for.
size_t net_write(struct net_connection *net, int end, const struct iovec *pieces, int count,
                 uint64_t now_us, mare_sim_random *random);

// Bytes that this end can read now; then they can be taken, a few or all.
uint32_t net_readable(const struct net_connection *net, int end, uint64_t now_us);
void net_read(struct net_connection *net, int end, uint8_t *out, uint32_t size, uint64_t now_us);

// Whether this end would read the end of the connection now.
bool net_at_end(const struct net_connection *net, int end, uint64_t now_us);

// When there is something new to read for this end, or UINT64_MAX.
uint64_t net_next(const struct net_connection *net, int end);

// This end closes: the other reads what was sent, and then the end.
void net_close(struct net_connection *net, int end, uint64_t now_us);

// The connection breaks: both ends notice, each in its time, and what was under way is lost.
void net_cut(struct net_connection *net, uint64_t now_us, mare_sim_random *random);

// What this end writes does not arrive, until it is healed.
void net_stop(struct net_connection *net, int end);
void net_heal(struct net_connection *net, int end, uint64_t now_us);
