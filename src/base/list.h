// SPDX-License-Identifier: MIT
// An intrusive doubly linked list with a head node. An unlinked node points to itself, so that
// removing twice is safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mare__list {
    struct mare__list *next, *prev;
};

// The structure that holds `node` as its member.
#define MARE__ENTRY(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void mare__list_init(struct mare__list *list)
{
    list->next = list->prev = list;
}

static inline bool mare__list_empty(const struct mare__list *list)
{
    return list->next == list;
}

static inline void mare__list_append(struct mare__list *list, struct mare__list *node)
{
    node->next = list;
    node->prev = list->prev;
    list->prev->next = node;
    list->prev = node;
}

static inline void mare__list_remove(struct mare__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    mare__list_init(node);
}

static inline struct mare__list *mare__list_first(struct mare__list *list)
{
    return list->next == list ? NULL : list->next;
}
