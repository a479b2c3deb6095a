// SPDX-License-Identifier: MIT
// A pairing heap: an intrusive priority queue that never allocates. Insertion takes constant time,
// removal logarithmic time (amortised). Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap",
// Algorithmica 1 (1986).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mare__heap_node {
    struct mare__heap_node *child, *next, **link; // link: what points here; NULL when not in a heap
    uint64_t key;
};

struct mare__heap {
    struct mare__heap_node *root;
};

// The node with the smallest key, or NULL.
static inline struct mare__heap_node *mare__heap_min(const struct mare__heap *heap)
{
    return heap->root;
}

static inline bool mare__heap_holds(const struct mare__heap_node *node)
{
    return node->link != NULL;
}

void mare__heap_insert(struct mare__heap *heap, struct mare__heap_node *node, uint64_t key);

// Removes a node that is in the heap.
void mare__heap_remove(struct mare__heap *heap, struct mare__heap_node *node);
