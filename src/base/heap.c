// SPDX-License-Identifier: MIT
// Each entry keeps its first child, its next sibling and the address of the pointer that leads to
// it, which makes removal from the middle a matter of one store. Merging is iterative: a million
// siblings need no deep stack.
#include "base/heap.h"

#include <stddef.h>

static void attach(struct mare__heap_entry **place, struct mare__heap_entry *entry)
{
    *place = entry;
    if (entry)
        entry->place = place;
}

static struct mare__heap_entry *meld(struct mare__heap_entry *a, struct mare__heap_entry *b)
{
    if (b->key < a->key) {
        struct mare__heap_entry *swap = a;
        a = b;
        b = swap;
    }
    attach(&b->next, a->child);
    attach(&a->child, b);
    a->next = NULL;
    return a;
}

// Pairs neighbours from left to right, then melds the pairs from right to left.
static struct mare__heap_entry *meld_siblings(struct mare__heap_entry *entry)
{
    struct mare__heap_entry *pairs = NULL;
    while (entry) {
        struct mare__heap_entry *a = entry, *b = a->next;
        entry = b ? b->next : NULL;
        if (b)
            a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct mare__heap_entry *root = NULL;
    while (pairs) {
        struct mare__heap_entry *rest = pairs->next;
        pairs->next = NULL;
        root = root ? meld(root, pairs) : pairs;
        pairs = rest;
    }
    return root;
}

void mare__heap_insert(struct mare__heap *heap, struct mare__heap_entry *entry, uint64_t key)
{
    entry->key = key;
    entry->child = entry->next = NULL;
    attach(&heap->root, heap->root ? meld(heap->root, entry) : entry);
}

void mare__heap_remove(struct mare__heap *heap, struct mare__heap_entry *entry)
{
    if (heap->root == entry) {
        attach(&heap->root, meld_siblings(entry->child));
    } else {
        attach(entry->place, entry->next);
        struct mare__heap_entry *rest = meld_siblings(entry->child);
        if (rest)
            attach(&heap->root, meld(heap->root, rest));
    }
    entry->place = NULL;
    entry->child = entry->next = NULL;
}
