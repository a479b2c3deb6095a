// SPDX-License-Identifier: MIT
// The memory of one Lua state. Small blocks are carved from a few chunks and recycled by size;
// everything goes back at once when the process ends. An arena can remember the bytes of a new
// state, and restore them later. Then the state is as new: nothing of what happened in between is
// left, because nothing else holds it.
#pragma once

#include <mare.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/account.h"

struct mare__arena;
struct mare__local;

// A new arena with no limit, or NULL.
struct mare__arena *mare__arena_create(void);

// Frees everything that was allocated from it, and itself.
void mare__arena_destroy(struct mare__arena *arena);

// The allocator to give to lua_newstate, with the arena as its first argument.
void *mare__arena_alloc(void *arena, void *block, size_t old_size, size_t new_size);

// Ends the birth: from now on blocks that are not small come from malloc.
void mare__arena_born(struct mare__arena *arena);

// Two moments can be remembered: birth, and the moment when the code of its first function had been
// loaded, so that the next process with the same code need not load it.
enum mare__moment { MARE__AT_BIRTH, MARE__AFTER_LOADING, MARE__MOMENTS };

// Remembers the bytes as they are now. False when it cannot: no memory, or blocks lie outside.
bool mare__arena_remember(struct mare__arena *arena, enum mare__moment moment);

// Whether a moment is remembered.
bool mare__arena_remembers(const struct mare__arena *arena, enum mare__moment moment);

// Puts the bytes of a remembered moment back and frees all that came after.
void mare__arena_revert(struct mare__arena *arena, enum mare__moment moment);

// Room for four pointers that the owner may use between two lives. Only when birth is remembered.
void *mare__arena_scratch(struct mare__arena *arena);

// The process whose state lives in it is told when an allocation fails (mare__handles_refused),
// until the bytes of a remembered moment are put back. NULL: it tells nobody.
void mare__arena_use(struct mare__arena *arena, struct mare__local *user);

// An account (which outlives the arena) pays for allocations beyond what is in use now; with NULL
// nobody does. An allocation for which the account has not enough left fails.
void mare__arena_account(struct mare__arena *arena, struct mare__account *account);

// Bytes in use. Any thread may ask while the arena exists.
size_t mare__arena_used(const struct mare__arena *arena);
