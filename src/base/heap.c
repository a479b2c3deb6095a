// SPDX-License-Identifier: MIT
// Each node keeps its first child, its next sibling and the address of the pointer that leads to
// it, which makes removal from the middle a matter of one store. Merging is iterative: a million
// siblings need no deep stack.
#include "base/heap.h"

#include <stddef.h>

static void attach(struct mare__heap_node **link, struct mare__heap_node *node)
{
    *link = node;
    if (node)
        node->link = link;
}

static struct mare__heap_node *meld(struct mare__heap_node *a, struct mare__heap_node *b)
{
    if (b->key < a->key) {
        struct mare__heap_node *swap = a;
        a = b;
        b = swap;
    }
    attach(&b->next, a->child);
    attach(&a->child, b);
    a->next = NULL;
    return a;
}

// Pairs neighbours from left to right, then melds the pairs from right to left.
static struct mare__heap_node *meld_siblings(struct mare__heap_node *node)
{
    struct mare__heap_node *pairs = NULL;
    while (node) {
        struct mare__heap_node *a = node, *b = a->next;
        node = b ? b->next : NULL;
        if (b)
            a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct mare__heap_node *root = NULL;
    while (pairs) {
        struct mare__heap_node *rest = pairs->next;
        pairs->next = NULL;
        root = root ? meld(root, pairs) : pairs;
        pairs = rest;
    }
    return root;
}

void mare__heap_insert(struct mare__heap *heap, struct mare__heap_node *node, uint64_t key)
{
    node->key = key;
    node->child = node->next = NULL;
    attach(&heap->root, heap->root ? meld(heap->root, node) : node);
}

void mare__heap_remove(struct mare__heap *heap, struct mare__heap_node *node)
{
    if (heap->root == node) {
        attach(&heap->root, meld_siblings(node->child));
    } else {
        attach(node->link, node->next);
        struct mare__heap_node *rest = meld_siblings(node->child);
        if (rest)
            attach(&heap->root, meld(heap->root, rest));
    }
    node->link = NULL;
    node->child = node->next = NULL;
}
