// SPDX-License-Identifier: MIT
// One counter for each account, changed by whole allocations, or by an arena some kilobytes at a
// time. A refused request was never added: a large one that fails must not make a small one fail at
// the same time.
#include "base/account.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/object.h"

struct mare__account {
    atomic_uint references;
    size_t limit;
    atomic_size_t used;
};

_Thread_local struct mare__account *mare__paying;

struct mare__account *mare__account_new(size_t limit)
{
    struct mare__account *account = mare__alloc(sizeof *account);
    if (!account)
        return NULL;
    atomic_init(&account->references, 1);
    atomic_init(&account->used, 0);
    account->limit = limit;
    return account;
}

struct mare__account *mare__account_ref(struct mare__account *account)
{
    // Relaxed: the caller holds a reference already.
    atomic_fetch_add_explicit(&account->references, 1, memory_order_relaxed);
    return account;
}

void mare__account_unref(struct mare__account *account)
{
    // Release what was done with it; the last one acquires it all before it frees.
    if (account && atomic_fetch_sub_explicit(&account->references, 1, memory_order_acq_rel) == 1)
        mare__free(account);
}

// The counter is relaxed everywhere: a number, which orders nothing else.

bool mare__account_take(struct mare__account *account, size_t bytes)
{
    size_t used = mare__account_used(account);
    do {
        if (used > account->limit || bytes > account->limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&account->used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void mare__account_owe(struct mare__account *account, size_t bytes)
{
    atomic_fetch_add_explicit(&account->used, bytes, memory_order_relaxed);
}

void mare__account_give(struct mare__account *account, size_t bytes)
{
    atomic_fetch_sub_explicit(&account->used, bytes, memory_order_relaxed);
}

size_t mare__account_left(const struct mare__account *account)
{
    size_t used = mare__account_used(account);
    return used < account->limit ? account->limit - used : 0;
}

size_t mare__account_used(const struct mare__account *account)
{
    return atomic_load_explicit(&account->used, memory_order_relaxed);
}

// ---- Objects ------------------------------------------------------------------------------------

void mare__object_gains(struct mare__object *object, size_t bytes)
{
    uint32_t before = object->weight;
    object->weight = bytes < UINT32_MAX - before ? before + (uint32_t)bytes : UINT32_MAX;
    if (object->account)
        mare__account_owe(object->account, object->weight - before);
}

bool mare__object_charge(struct mare__object *object, struct mare__account *account)
{
    struct mare__account *before = object->account;
    if (before == account)
        return true;
    if (account && !mare__account_take(account, object->weight))
        return false;
    object->account = account ? mare__account_ref(account) : NULL;
    if (before) {
        mare__account_give(before, object->weight);
        mare__account_unref(before);
    }
    return true;
}
