/* SPDX-License-Identifier: MIT */
#pragma once

/* The first byte of each algorithm's messages. Tags are part of what travels between nodes: never
 * reuse one. */

#include <mare/coord.h>

enum {
    MARE__TAG_CENTRAL = 1,
    MARE__TAG_RICART = 2,
    MARE__TAG_VOTING = 3,
    MARE__TAG_TOKEN = 4,
    MARE__TAG_MAJORITY = 5,
    MARE__TAG_BULLY = 16,
    MARE__TAG_RING = 17,
    MARE__TAG_WIRELESS = 18,
    MARE__TAG_SUPERPEER_DHT = 19,
    MARE__TAG_SUPERPEER_TOKENS = 20,
    MARE__TAG_FIFO = 32,
    MARE__TAG_CAUSAL = 33,
    MARE__TAG_TOTAL = 34,
    MARE__TAG_VIEWS = 35,
    MARE__TAG_BERKELEY = 48,
    MARE__TAG_LEASE = 64,
    MARE__TAG_LEASED = 65,
};
