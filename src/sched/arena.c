// SPDX-License-Identifier: MIT
// Layout: the first chunk holds this header, then the blocks of the state's birth, then the first
// blocks of its life.
//
//     base                                                  base + MARE__ARENA_BASE
//     | header | lua_State, string table, names, stack ... | bump -> free ........ |
//
// Blocks of up to SMALL bytes are rounded up to the size of a class and belong to the free list of
// their size from then on. Larger ones come from malloc and stand in a list, except at birth, when
// they are carved too: a state's own structures then lie together in one piece, which is what
// mare__arena_remember copies. Lua says the size of each block it returns, so that blocks need no
// headers.
//
// A chunk that is full is followed by one of about a sixteenth of all that there is: most processes
// need a little more than the first, and a million of them must not pay for much more. What is left
// of the old one becomes a free block.
#include "sched/arena.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "mare_limits.h"
#include "sched/handle.h"

enum { GRAIN = 8, SMALL = 256, CLASSES = 17 };

struct free_block {
    struct free_block *next;
};

struct chunk {
    struct chunk *next;
    size_t unused; // keeps the blocks aligned
};

struct large {
    struct mare__list entry;
    char bytes[];
};

struct mare__arena {
    char *bump, *end; // free bytes of the newest chunk
    struct free_block *free[CLASSES];
    struct chunk *chunks;
    struct mare__list large;
    atomic_size_t used;            // written by whoever runs the process, read by whoever lists it
    size_t allowed;                // bytes in use beyond which more must be paid for
    struct mare__account *account; // who pays, or NULL
    size_t paid;                   // what was taken from it
    struct mare__local *user;      // whose state lives in it, or NULL
    uint32_t next_chunk;           // its size
    bool born;
    struct memory *memory; // NULL: no moment is remembered, which is so of all but a few
};

// Outside the arena, for it is no part of what is put back.
struct memory {
    struct image {
        void *bytes; // what to put back, or NULL
        size_t size, room;
    } images[MARE__MOMENTS];
    void *scratch[4]; // the owner's
};

struct mare__arena *mare__arena_create(void)
{
    struct mare__arena *arena = mare__alloc(MARE__ARENA_BASE);
    if (!arena)
        return NULL;
    memset(arena, 0, sizeof *arena);
    mare__list_init(&arena->large);
    arena->bump = (char *)arena + (sizeof *arena + GRAIN - 1) / GRAIN * GRAIN;
    arena->end = (char *)arena + MARE__ARENA_BASE;
    arena->next_chunk = MARE__ARENA_CHUNK;
    arena->allowed = SIZE_MAX;
    return arena;
}

static void free_rest(struct mare__arena *arena)
{
    for (struct chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        mare__free(chunk);
    }
    struct mare__list *entry;
    while ((entry = mare__list_first(&arena->large)) != NULL) {
        mare__list_remove(entry);
        mare__free(MARE__ENTRY(entry, struct large, entry));
    }
}

void mare__arena_destroy(struct mare__arena *arena)
{
    mare__arena_account(arena, NULL);
    free_rest(arena);
    for (int moment = 0; arena->memory && moment < MARE__MOMENTS; moment++)
        mare__free(arena->memory->images[moment].bytes);
    mare__free(arena->memory);
    mare__free(arena);
}

// Sizes of blocks grow by 8 up to 64, by 16 up to 128, by 32 up to 256.
static size_t class_of(size_t size)
{
    return size <= 64    ? (size + 7) / 8
           : size <= 128 ? 8 + (size - 64 + 15) / 16
                         : 12 + (size - 128 + 31) / 32;
}

static size_t size_of_class(size_t class)
{
    return class <= 8 ? class * 8 : class <= 12 ? 64 + (class - 8) * 16 : 128 + (class - 12) * 32;
}

// The end of a chunk that is too short for what is wanted serves a smaller block.
static void keep_rest(struct mare__arena *arena)
{
    size_t rest = (size_t)(arena->end - arena->bump);
    if (rest < GRAIN || MARE__ARENA_PLAIN)
        return;
    size_t class = rest < SMALL ? class_of(rest) : CLASSES - 1;
    if (size_of_class(class) > rest)
        class --;
    struct free_block *block = (struct free_block *)arena->bump;
    block->next = arena->free[class];
    arena->free[class] = block;
}

// Bytes from the newest chunk, or from a new one.
static void *carve(struct mare__arena *arena, size_t size)
{
    if ((size_t)(arena->end - arena->bump) < size) {
        struct chunk *chunk = mare__alloc(arena->next_chunk);
        if (!chunk)
            return NULL;
        keep_rest(arena);
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->bump = (char *)(chunk + 1);
        arena->end = (char *)chunk + arena->next_chunk;
        if (arena->next_chunk < MARE__ARENA_CHUNK_MAX)
            arena->next_chunk += (arena->next_chunk / 256 + 1) * 16;
    }
    void *block = arena->bump;
    arena->bump += size;
    return block;
}

static bool is_small(size_t size)
{
    return size <= SMALL && !MARE__ARENA_PLAIN;
}

// Whether a block that is not small was carved from the first chunk at birth.
static bool is_inborn(const struct mare__arena *arena, const void *block)
{
    uintptr_t at = (uintptr_t)block, base = (uintptr_t)arena;
    return at >= base && at < base + MARE__ARENA_BASE;
}

static void *take(struct mare__arena *arena, size_t size)
{
    if (is_small(size)) {
        size_t class = class_of(size);
        struct free_block *block = arena->free[class];
        if (block) {
            arena->free[class] = block->next;
            return block;
        }
        return carve(arena, size_of_class(class));
    }
    size_t rounded = (size + GRAIN - 1) / GRAIN * GRAIN;
    if (!arena->born && !arena->chunks && !MARE__ARENA_PLAIN &&
        (size_t)(arena->end - arena->bump) >= rounded)
        return carve(arena, rounded);
    struct large *large = mare__alloc(sizeof *large + size);
    if (!large)
        return NULL;
    mare__list_append(&arena->large, &large->entry);
    return large->bytes;
}

static void give_back(struct mare__arena *arena, void *block, size_t size)
{
    if (is_small(size)) {
        struct free_block *free = block;
        free->next = arena->free[class_of(size)];
        arena->free[class_of(size)] = free;
    } else if (is_inborn(arena, block)) {
        // The old stack, when it has grown: carve from it if that is more than what is left.
        size_t rounded = (size + GRAIN - 1) / GRAIN * GRAIN;
        if (arena->born && rounded > (size_t)(arena->end - arena->bump)) {
            arena->bump = block;
            arena->end = arena->bump + rounded;
        }
    } else {
        struct large *large = MARE__ENTRY(block, struct large, bytes);
        mare__list_remove(&large->entry);
        mare__free(large);
    }
}

// Grows or shrinks a block from malloc in place if the system can.
static void *resize_large(struct mare__arena *arena, void *block, size_t size)
{
    struct large *large = MARE__ENTRY(block, struct large, bytes);
    mare__list_remove(&large->entry);
    struct large *moved = mare__realloc(large, sizeof *large + size);
    mare__list_append(&arena->large, moved ? &moved->entry : &large->entry);
    return moved ? moved->bytes : NULL;
}

static void *resize(struct mare__arena *arena, void *block, size_t old_size, size_t new_size)
{
    bool small = is_small(old_size);
    if (small && is_small(new_size) && class_of(old_size) == class_of(new_size))
        return block;
    if (!small && !is_small(new_size) && !is_inborn(arena, block)) {
        void *moved = resize_large(arena, block, new_size);
        // Lua counts on shrinking never to fail.
        return moved || new_size > old_size ? moved : block;
    }
    void *moved = take(arena, new_size);
    if (!moved)
        return new_size <= old_size ? block : NULL;
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    give_back(arena, block, old_size);
    return moved;
}

// Relaxed, and no read-modify-write: there is one writer at a time, and a reader only wants a
// recent figure.
static size_t used(const struct mare__arena *arena)
{
    return atomic_load_explicit(&arena->used, memory_order_relaxed);
}

static void set_used(struct mare__arena *arena, size_t bytes)
{
    atomic_store_explicit(&arena->used, bytes, memory_order_relaxed);
}

// ---- Who pays -----------------------------------------------------------------------------------

// Taken from the account at a time, so that it is seldom asked.
enum { PORTION = 4096 };

// Allows so many bytes in use. What is missing is charged to the account.
static bool pay(struct mare__arena *arena, size_t use)
{
    size_t missing = use - arena->allowed, more = missing < PORTION ? PORTION : missing;
    if (!mare__account_take(arena->account, more)) {
        more = missing;
        if (!mare__account_take(arena->account, more))
            return false;
    }
    arena->paid += more;
    arena->allowed += more;
    return true;
}

// Gives back what is much more than what is in use.
static void repay(struct mare__arena *arena)
{
    size_t spare = arena->allowed - used(arena);
    if (spare < 2 * PORTION || arena->paid < PORTION)
        return;
    size_t back = spare - PORTION < arena->paid ? spare - PORTION : arena->paid;
    arena->paid -= back;
    arena->allowed -= back;
    mare__account_give(arena->account, back);
}

static void forget_account(struct mare__arena *arena)
{
    arena->account = NULL;
    arena->paid = 0;
    arena->allowed = SIZE_MAX;
}

static void *refuse(struct mare__arena *arena)
{
    if (arena->user)
        mare__handles_refused(arena->user);
    return NULL;
}

void *mare__arena_alloc(void *ud, void *block, size_t old_size, size_t new_size)
{
    struct mare__arena *arena = ud;
    if (!block)
        old_size = 0; // then it is a type tag
    if (new_size == 0) {
        if (block)
            give_back(arena, block, old_size);
        set_used(arena, used(arena) - old_size);
        if (arena->account)
            repay(arena);
        return NULL;
    }
    if (new_size > old_size) {
        size_t use = used(arena) - old_size + new_size;
        if ((use > arena->allowed && !pay(arena, use)) || mare__alloc_must_fail())
            return refuse(arena);
    }
    void *result = block ? resize(arena, block, old_size, new_size) : take(arena, new_size);
    if (!result)
        return refuse(arena);
    set_used(arena, used(arena) - old_size + new_size);
    if (new_size < old_size && arena->account)
        repay(arena);
    return result;
}

void mare__arena_born(struct mare__arena *arena)
{
    arena->born = true;
}

bool mare__arena_remember(struct mare__arena *arena, enum mare__moment moment)
{
    if (arena->chunks || !mare__list_empty(&arena->large) ||
        arena->end != (char *)arena + MARE__ARENA_BASE) // it carves from an old stack
        return false;
    if (!arena->memory)
        arena->memory = mare__alloc_zero(sizeof *arena->memory);
    if (!arena->memory)
        return false;
    struct image *image = &arena->memory->images[moment];
    size_t size = (size_t)(arena->bump - (char *)arena);
    if (size > image->room) {
        void *bytes = mare__realloc(image->bytes, size);
        if (!bytes)
            return false;
        image->bytes = bytes;
        image->room = size;
    }
    image->size = size;
    memcpy(image->bytes, arena, size);
    return true;
}

bool mare__arena_remembers(const struct mare__arena *arena, enum mare__moment moment)
{
    return arena->memory && arena->memory->images[moment].size != 0;
}

void mare__arena_revert(struct mare__arena *arena, enum mare__moment moment)
{
    const struct image *image = &arena->memory->images[moment];
    mare__arena_account(arena, NULL);
    free_rest(arena);
    memcpy(arena, image->bytes, image->size);
    forget_account(arena); // of whoever ran when it was remembered
    arena->user = NULL;
}

void mare__arena_use(struct mare__arena *arena, struct mare__local *user)
{
    arena->user = user;
}

void *mare__arena_scratch(struct mare__arena *arena)
{
    return arena->memory->scratch;
}

void mare__arena_account(struct mare__arena *arena, struct mare__account *account)
{
    if (arena->account)
        mare__account_give(arena->account, arena->paid);
    forget_account(arena);
    if (!account)
        return;
    arena->account = account;
    arena->allowed = used(arena);
}

size_t mare__arena_used(const struct mare__arena *arena)
{
    return used(arena);
}
