// SPDX-License-Identifier: MIT
// A pairing heap: an intrusive priority queue that never allocates. Insertion takes constant time,
// removal logarithmic time (amortised). Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap",
// Algorithmica 1 (1986).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mare__heap_entry {
    struct mare__heap_entry *child, *next,
        **place; // place: what points here; NULL when not in a heap
    uint64_t key;
};

struct mare__heap {
    struct mare__heap_entry *root;
};

// The entry with the smallest key, or NULL.
static inline struct mare__heap_entry *mare__heap_min(const struct mare__heap *heap)
{
    return heap->root;
}

static inline bool mare__heap_holds(const struct mare__heap_entry *entry)
{
    return entry->place != NULL;
}

void mare__heap_insert(struct mare__heap *heap, struct mare__heap_entry *entry, uint64_t key);

// Removes an entry that is in the heap.
void mare__heap_remove(struct mare__heap *heap, struct mare__heap_entry *entry);
