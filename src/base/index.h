// SPDX-License-Identifier: MIT
// An intrusive index by numbers: finds, adds and removes without memory of its own and without ever
// having to be rearranged, so that a spinlock may be held meanwhile. Each takes as many steps as a
// quarter-way search among the entries (eight for 100,000), never more than 32. A digital search
// tree: Coffman and Eve, "File structures using hashing functions", CACM 13 (1970).
#pragma once

#include <stddef.h>
#include <stdint.h>

struct mare__index_entry {
    struct mare__index_entry *child[4], **place; // place: what points here
    uint64_t path;                               // two bits for each step from the root
};

struct mare__index {
    struct mare__index_entry *root;
};

// Any entry, or NULL.
static inline struct mare__index_entry *mare__index_any(const struct mare__index *index)
{
    return index->root;
}

// The entry with the number, or NULL.
struct mare__index_entry *mare__index_find(const struct mare__index *index, uint64_t number);

// Adds an entry under a number that none has.
void mare__index_add(struct mare__index *index, struct mare__index_entry *entry, uint64_t number);

// Removes an entry that is there.
void mare__index_remove(struct mare__index_entry *entry);
