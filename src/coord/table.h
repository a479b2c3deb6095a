/* SPDX-License-Identifier: MIT */
#pragma once

/* The algorithms of the library and the first byte of their messages. Tags are part of what travels
 * between nodes: never reuse one. */

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
};

extern const mare_coord_algorithm mare__central;  /* mutex/central.c */
extern const mare_coord_algorithm mare__voting;   /* mutex/voting.c */
extern const mare_coord_algorithm mare__ricart;   /* mutex/ricart.c */
extern const mare_coord_algorithm mare__majority; /* mutex/majority.c */
extern const mare_coord_algorithm mare__token;    /* mutex/token.c */
extern const mare_coord_algorithm mare__bully;   /* election/bully.c */
extern const mare_coord_algorithm mare__ring;    /* election/ring.c */
extern const mare_coord_algorithm mare__wireless; /* election/wireless.c */
extern const mare_coord_algorithm mare__superpeer_dht; /* election/superpeer_dht.c */
extern const mare_coord_algorithm mare__superpeer_tokens; /* election/superpeer_tokens.c */
extern const mare_coord_algorithm mare__fifo;    /* order/fifo.c */
extern const mare_coord_algorithm mare__causal;  /* order/causal.c */
extern const mare_coord_algorithm mare__total;   /* order/total.c */
extern const mare_coord_algorithm mare__views;   /* order/views.c */
extern const mare_coord_algorithm mare__berkeley; /* time/berkeley.c */
