/* SPDX-License-Identifier: MIT */
#pragma once

/* The queue of planned events, by virtual time. Events of the same time happen in the order in
 * which they were planned. */

#include <stddef.h>
#include <stdint.h>

typedef struct mare_sim_due {
    uint64_t time_us;
    uint64_t order; /* given by the queue */
    uint32_t kind;
    uint32_t process;
    uint32_t index;  /* of a message, a timer, a peer or a fault, as the kind says */
    uint32_t serial; /* whether the event still counts */
} mare_sim_due;

typedef struct mare_sim_heap {
    mare_sim_due *item;
    size_t count, room;
    uint64_t planned;
} mare_sim_heap;

void mare_sim_heap_push(mare_sim_heap *heap, mare_sim_due due);

/* Takes the earliest event. Returns 0 when there is none. */
int mare_sim_heap_pop(mare_sim_heap *heap, mare_sim_due *due);

void mare_sim_heap_fini(mare_sim_heap *heap);

/* realloc that ends the program when memory runs out: a simulation has nothing better to do. */
void *mare_sim_realloc(void *memory, size_t bytes);
