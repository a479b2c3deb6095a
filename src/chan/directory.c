// SPDX-License-Identifier: MIT
// A hash table with chains, under one mutex (not a spinlock, because the table grows under it).
// Programs look up names when they set themselves up, not for every message.
#include "chan/directory.h"

#include <string.h>

#include "base/alloc.h"
#include "platform/platform.h"

struct entry {
    struct entry *next;
    struct mare__object *object;
    uint32_t hash;
    char name[];
};

struct mare__directory {
    pthread_mutex_t mutex; // guards all below
    struct entry **buckets;
    uint32_t size, count; // size: a power of two
};

static uint32_t hash_of(const char *name) // FNV-1a
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static struct entry **locate(struct mare__directory *names, const char *name, uint32_t hash)
{
    struct entry **at = &names->buckets[hash & (names->size - 1)];
    while (*at && ((*at)->hash != hash || strcmp((*at)->name, name) != 0))
        at = &(*at)->next;
    return at;
}

// Doubles the table; when there is no memory it goes on with longer chains.
static void grow(struct mare__directory *names)
{
    uint32_t size = names->size * 2;
    struct entry **buckets = mare__alloc_zero(size * sizeof *buckets);
    if (!buckets)
        return;
    for (uint32_t i = 0; i < names->size; i++)
        for (struct entry *entry = names->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = buckets[entry->hash & (size - 1)];
            buckets[entry->hash & (size - 1)] = entry;
        }
    mare__free(names->buckets);
    names->buckets = buckets;
    names->size = size;
}

struct mare__directory *mare__directory_create(void)
{
    struct mare__directory *names = mare__alloc_zero(sizeof *names);
    if (!names)
        return NULL;
    names->size = 16;
    names->buckets = mare__alloc_zero(names->size * sizeof *names->buckets);
    if (!names->buckets) {
        mare__free(names);
        return NULL;
    }
    pthread_mutex_init(&names->mutex, NULL);
    return names;
}

void mare__directory_destroy(struct mare__directory *names)
{
    for (uint32_t i = 0; i < names->size; i++)
        for (struct entry *entry; (entry = names->buckets[i]) != NULL;) {
            struct mare__object *object = entry->object;
            names->buckets[i] = entry->next; // first: a channel that ends looks for its name
            mare__free(entry);
            mare__unref(object);
        }
    pthread_mutex_destroy(&names->mutex);
    mare__free(names->buckets);
    mare__free(names);
}

mare_err mare__directory_add(struct mare__directory *names, const char *name,
                             struct mare__object *object)
{
    struct entry *entry = mare__alloc(sizeof *entry + strlen(name) + 1);
    if (!entry)
        return MARE_NOMEM;
    strcpy(entry->name, name);
    entry->hash = hash_of(name);
    entry->next = NULL;
    pthread_mutex_lock(&names->mutex);
    if (names->count >= names->size)
        grow(names);
    struct entry **at = locate(names, name, entry->hash);
    bool taken = *at != NULL;
    if (!taken) {
        entry->object = mare__ref(object);
        *at = entry;
        names->count++;
    }
    pthread_mutex_unlock(&names->mutex);
    if (taken)
        mare__free(entry);
    return taken ? MARE_EXISTS : MARE_OK;
}

struct mare__object *mare__directory_find(struct mare__directory *names, const char *name)
{
    pthread_mutex_lock(&names->mutex);
    struct entry *entry = *locate(names, name, hash_of(name));
    struct mare__object *object = entry ? mare__ref(entry->object) : NULL;
    pthread_mutex_unlock(&names->mutex);
    return object;
}

void mare__directory_remove(struct mare__directory *names, const char *name,
                            struct mare__object *object)
{
    pthread_mutex_lock(&names->mutex);
    struct entry **at = locate(names, name, hash_of(name)), *entry = *at;
    bool found = entry && entry->object == object;
    if (found) {
        *at = entry->next;
        names->count--;
    }
    pthread_mutex_unlock(&names->mutex);
    if (found) {
        mare__free(entry);
        mare__unref(object);
    }
}
