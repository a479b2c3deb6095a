// SPDX-License-Identifier: MIT
// An intrusive doubly linked list with a head. An entry that is in no list points to itself, so
// that removing twice is safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mare__list {
    struct mare__list *next, *prev;
};

// The structure that holds `entry` as its member.
#define MARE__ENTRY(entry, type, member) ((type *)((char *)(entry)-offsetof(type, member)))

static inline void mare__list_init(struct mare__list *list)
{
    list->next = list->prev = list;
}

static inline bool mare__list_empty(const struct mare__list *list)
{
    return list->next == list;
}

static inline void mare__list_append(struct mare__list *list, struct mare__list *entry)
{
    entry->next = list;
    entry->prev = list->prev;
    list->prev->next = entry;
    list->prev = entry;
}

static inline void mare__list_remove(struct mare__list *entry)
{
    entry->prev->next = entry->next;
    entry->next->prev = entry->prev;
    mare__list_init(entry);
}

static inline struct mare__list *mare__list_first(struct mare__list *list)
{
    return list->next == list ? NULL : list->next;
}

// Moves all entries to a head that has none.
static inline void mare__list_take(struct mare__list *to, struct mare__list *from)
{
    mare__list_init(to);
    if (mare__list_empty(from))
        return;
    *to = *from;
    to->next->prev = to->prev->next = to;
    mare__list_init(from);
}
