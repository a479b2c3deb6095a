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

// ---- Going through a list in parts --------------------------------------------------------------
// A list that others change between two steps: new entries come to its end, any may be removed. So
// a long list need not stay locked from its first entry to its last. What goes through it stands
// in a list of those that do, and whoever removes an entry moves those away that stand at it. Each
// entry that is there from beginning to end is met once. The list's lock guards all of this.
//
//     head <-> a <-> b <-> c      at = b: c is next. b is removed: at = a, and c is next still.
struct mare__tour {
    struct mare__list among;
    struct mare__list *at; // the last that was met; first, the head
};

static inline void mare__tour_begin(struct mare__tour *tour, struct mare__list *tours,
                                    struct mare__list *head)
{
    tour->at = head;
    mare__list_append(tours, &tour->among);
}

static inline void mare__tour_end(struct mare__tour *tour)
{
    mare__list_remove(&tour->among);
}

// The next entry, or NULL. After NULL it may be asked again: others may have come.
static inline struct mare__list *mare__tour_next(struct mare__tour *tour,
                                                 const struct mare__list *head)
{
    if (tour->at->next == head)
        return NULL;
    return tour->at = tour->at->next;
}

// Removes an entry of a list that has tours.
static inline void mare__tour_remove(struct mare__list *tours, struct mare__list *entry)
{
    for (struct mare__list *c = tours->next; c != tours; c = c->next) {
        struct mare__tour *tour = MARE__ENTRY(c, struct mare__tour, among);
        if (tour->at == entry)
            tour->at = entry->prev;
    }
    mare__list_remove(entry);
}
