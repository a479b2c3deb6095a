/* SPDX-License-Identifier: MIT */

/* Vector clocks, sparse: pairs of member and count, sorted by member, absent ones being zero.
 *
 * Invariants: members ascend strictly. An entry with `left` set is a tombstone. A merge does not
 * change it, and comparisons skip it. So a stamp from before a departure cannot undo the departure.
 * Two clocks compare as in the dense form, over the members that neither side has buried.
 *
 * Source: as vector.c; this is another representation of the same clocks. Nothing is assumed about
 * the network. A member that has left may come back, and then counts from zero. It is joined only
 * when no stamp from before its departure can arrive any more. */

#include "coord/bytes.h"

#include <mare/coord_clock.h>

#include <string.h>

#define PAIR_BYTES 12u

/* Where `member` is, or where it would be inserted. */
static uint32_t place_of(const mare_coord_sparse *clock, uint32_t member)
{
    uint32_t low = 0, high = clock->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (clock->entry[middle].member < member)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mare_coord_sparse_entry *find(const mare_coord_sparse *clock, uint32_t member)
{
    uint32_t place = place_of(clock, member);
    if (place < clock->count && clock->entry[place].member == member)
        return &clock->entry[place];
    return NULL;
}

static mare_coord_sparse_entry *find_or_insert(mare_coord_sparse *clock, uint32_t member)
{
    mare_coord_sparse_entry *entry = find(clock, member);
    if (entry || clock->count == clock->room)
        return entry;
    uint32_t place = place_of(clock, member);
    entry = &clock->entry[place];
    memmove(entry + 1, entry, (clock->count - place) * sizeof *entry);
    *entry = (mare_coord_sparse_entry){.member = member};
    clock->count++;
    return entry;
}

uint64_t mare_coord_sparse_get(const mare_coord_sparse *clock, uint32_t member)
{
    const mare_coord_sparse_entry *entry = find(clock, member);
    return entry ? entry->count : 0;
}

int mare_coord_sparse_tick(mare_coord_sparse *clock, uint32_t self)
{
    mare_coord_sparse_entry *entry = find_or_insert(clock, self);
    if (!entry)
        return -1;
    entry->count++;
    return 0;
}

int mare_coord_sparse_merge(mare_coord_sparse *clock, const mare_coord_sparse *stamp)
{
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < stamp->count; i++)
        fresh += !stamp->entry[i].left && !find(clock, stamp->entry[i].member);
    if (fresh > clock->room - clock->count)
        return -1;
    for (uint32_t i = 0; i < stamp->count; i++) {
        if (stamp->entry[i].left)
            continue;
        mare_coord_sparse_entry *entry = find_or_insert(clock, stamp->entry[i].member);
        if (!entry->left && entry->count < stamp->entry[i].count)
            entry->count = stamp->entry[i].count;
    }
    return 0;
}

int mare_coord_sparse_leave(mare_coord_sparse *clock, uint32_t member)
{
    mare_coord_sparse_entry *entry = find_or_insert(clock, member);
    if (!entry)
        return -1;
    entry->left = 1;
    return 0;
}

int mare_coord_sparse_join(mare_coord_sparse *clock, uint32_t member)
{
    mare_coord_sparse_entry *entry = find_or_insert(clock, member);
    if (!entry)
        return -1;
    entry->left = 0;
    entry->count = 0;
    return 0;
}

void mare_coord_sparse_compact(mare_coord_sparse *clock)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < clock->count; i++) {
        if (!clock->entry[i].left)
            clock->entry[kept++] = clock->entry[i];
    }
    clock->count = kept;
}

mare_coord_order mare_coord_sparse_compare(const mare_coord_sparse *a, const mare_coord_sparse *b)
{
    int less = 0, more = 0;
    uint32_t i = 0, j = 0;
    while (i < a->count || j < b->count) {
        int has_a = i < a->count && (j == b->count || a->entry[i].member <= b->entry[j].member);
        int has_b = j < b->count && (i == a->count || b->entry[j].member <= a->entry[i].member);
        uint64_t left = has_a ? a->entry[i].count : 0, right = has_b ? b->entry[j].count : 0;
        int buried = (has_a && a->entry[i].left) || (has_b && b->entry[j].left);
        less |= !buried && left < right;
        more |= !buried && left > right;
        i += (uint32_t)has_a;
        j += (uint32_t)has_b;
    }
    if (less && more)
        return MARE_COORD_CONCURRENT;
    return less ? MARE_COORD_BEFORE : more ? MARE_COORD_AFTER : MARE_COORD_EQUAL;
}

size_t mare_coord_sparse_encode(const mare_coord_sparse *clock, uint8_t *out, size_t room)
{
    size_t used = 0;
    for (uint32_t i = 0; i < clock->count; i++) {
        const mare_coord_sparse_entry *entry = &clock->entry[i];
        if (entry->left)
            continue;
        if (room - used < PAIR_BYTES)
            return 0;
        mare__put_number(out + used, entry->member, 4);
        mare__put_number(out + used + 4, entry->count, 8);
        used += PAIR_BYTES;
    }
    return used;
}

int mare_coord_sparse_decode(mare_coord_sparse *clock, const uint8_t *bytes, size_t length)
{
    clock->count = 0;
    if (length % PAIR_BYTES != 0 || length / PAIR_BYTES > clock->room)
        return -1;
    for (size_t at = 0; at < length; at += PAIR_BYTES) {
        mare_coord_sparse_entry entry = {.member = (uint32_t)mare__get_number(bytes + at, 4),
                                         .count = mare__get_number(bytes + at + 4, 8)};
        if (clock->count && clock->entry[clock->count - 1].member >= entry.member) {
            clock->count = 0;
            return -1;
        }
        clock->entry[clock->count++] = entry;
    }
    return 0;
}
