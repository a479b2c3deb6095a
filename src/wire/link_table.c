// SPDX-License-Identifier: MIT
// The flows of a link by their numbers: a hash table whose multiplier is secret.
#include <assert.h>

#include "wire/link_inner.h"

static struct mare__link_entry **bucket_of(const struct mare__link *link,
                                           const struct mare__link_table *table, uint64_t number)
{
    // Dietzfelbinger et al., "A reliable randomized algorithm for the closest-pair problem" (1997):
    // the high bits of a product with a random odd number.
    uint64_t product = number * (link->settings->secret | 1);
    return &table->buckets[table->bits ? product >> (64 - table->bits) : 0];
}

struct mare__link_entry *mare__link_table_find(const struct mare__link *link,
                                               const struct mare__link_table *table,
                                               uint64_t number)
{
    if (!table->buckets)
        return NULL;
    struct mare__link_entry *entry = *bucket_of(link, table, number);
    while (entry && entry->number != number)
        entry = entry->next;
    return entry;
}

static void chain(const struct mare__link *link, struct mare__link_table *table,
                  struct mare__link_entry *entry)
{
    struct mare__link_entry **bucket = bucket_of(link, table, entry->number);
    entry->next = *bucket;
    *bucket = entry;
}

// Doubles the buckets. Without memory the chains get longer, unless there was no table at all.
static void grow(struct mare__link *link, struct mare__link_table *table)
{
    struct mare__link_table old = *table;
    assert(old.bits < 31); // nobody has so many flows
    uint32_t bits = old.buckets ? old.bits + 1 : 0;
    size_t size = sizeof *old.buckets << bits;
    struct mare__link_entry **buckets = mare__link_take(link, size);
    if (!buckets)
        return;
    memset(buckets, 0, size);
    *table = (struct mare__link_table){buckets, old.count, bits};
    for (uint32_t i = 0; old.buckets && i < 1u << old.bits; i++) {
        for (struct mare__link_entry *entry = old.buckets[i], *next; entry; entry = next) {
            next = entry->next;
            chain(link, table, entry);
        }
    }
    if (old.buckets)
        mare__link_give(link, old.buckets, sizeof *old.buckets << old.bits);
}

bool mare__link_table_add(struct mare__link *link, struct mare__link_table *table,
                          struct mare__link_entry *entry)
{
    if (!table->buckets || table->count >= 1u << table->bits)
        grow(link, table);
    if (!table->buckets)
        return false;
    chain(link, table, entry);
    table->count++;
    return true;
}

void mare__link_table_remove(struct mare__link *link, struct mare__link_table *table,
                             struct mare__link_entry *entry)
{
    struct mare__link_entry **place = bucket_of(link, table, entry->number);
    while (*place != entry)
        place = &(*place)->next;
    *place = entry->next;
    table->count--;
}

void mare__link_table_fini(struct mare__link *link, struct mare__link_table *table)
{
    if (table->buckets)
        mare__link_give(link, table->buckets, sizeof *table->buckets << table->bits);
    *table = (struct mare__link_table){0};
}

size_t mare__link_table_most(uint32_t flows)
{
    size_t buckets = 1;
    while (buckets < flows)
        buckets *= 2;
    return buckets / 2 * 3 * sizeof(struct mare__link_entry *);
}
