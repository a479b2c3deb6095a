// SPDX-License-Identifier: MIT
// Every entry is itself a place in the tree. From the root one goes on to the child that the next
// two bits of the path say, until the number is found or there is no child. Paths are the numbers
// with their bits well mixed, one path for each number: so the tree is shallow whatever the numbers
// are, and two different numbers part after 32 steps at the latest.
#include "base/index.h"

enum { WAYS = 4, WAY_BITS = 2 };

// The finalizer of MurmurHash3, each step of which can be undone: no two numbers give the same.
static uint64_t path_of(uint64_t number)
{
    number ^= number >> 33;
    number *= UINT64_C(0xff51afd7ed558ccd);
    number ^= number >> 33;
    number *= UINT64_C(0xc4ceb9fe1a85ec53);
    return number ^ number >> 33;
}

struct mare__index_entry *mare__index_find(const struct mare__index *index, uint64_t number)
{
    const uint64_t path = path_of(number);
    struct mare__index_entry *entry = index->root;
    for (uint64_t rest = path; entry && entry->path != path; rest >>= WAY_BITS)
        entry = entry->child[rest % WAYS];
    return entry;
}

static void put(struct mare__index_entry **place, struct mare__index_entry *entry)
{
    *place = entry;
    if (entry)
        entry->place = place;
}

void mare__index_add(struct mare__index *index, struct mare__index_entry *entry, uint64_t number)
{
    struct mare__index_entry **place = &index->root;
    *entry = (struct mare__index_entry){.path = path_of(number)};
    for (uint64_t rest = entry->path; *place; rest >>= WAY_BITS)
        place = &(*place)->child[rest % WAYS];
    put(place, entry);
}

// A child, or NULL: it is the last of its branch.
static struct mare__index_entry *any_child(const struct mare__index_entry *entry)
{
    for (int i = 0; i < WAYS; i++)
        if (entry->child[i])
            return entry->child[i];
    return NULL;
}

// Whatever is under an entry would be found in its place as well. So the last of a branch of it
// comes there, and nothing else moves.
void mare__index_remove(struct mare__index_entry *entry)
{
    struct mare__index_entry *last = entry, *next;
    while ((next = any_child(last)) != NULL)
        last = next;
    *last->place = NULL;
    if (last == entry)
        return;
    for (int i = 0; i < WAYS; i++)
        put(&last->child[i], entry->child[i]);
    put(entry->place, last);
}
