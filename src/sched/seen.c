// SPDX-License-Identifier: MIT
// A few entries are searched one by one; more become a hash table that is at most half full, in a
// userdata on the stack. With anchors it is a table of Lua, with the values themselves as keys.
#include "sched/seen.h"

#include <string.h>

void mare__seen_init(struct mare__seen_set *set, lua_State *L, bool anchors)
{
    set->L = L;
    set->anchors = anchors;
    set->entries = set->few;
    set->count = set->room = 0;
    if (anchors)
        lua_newtable(L);
    else
        lua_pushnil(L);
    set->slot = lua_gettop(L);
}

// ---- By address ---------------------------------------------------------------------------------

static uint32_t place_of(const struct mare__seen_set *set, const void *pointer)
{
    uint64_t hash = (uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t mask = set->room - 1, at = (uint32_t)(hash >> 32) & mask;
    while (set->entries[at].pointer && set->entries[at].pointer != pointer)
        at = (at + 1) & mask;
    return at;
}

static bool find_address(const struct mare__seen_set *set, const void *pointer,
                         struct mare__seen *found)
{
    if (set->entries != set->few) {
        *found = set->entries[place_of(set, pointer)];
        return found->pointer != NULL;
    }
    for (uint32_t i = 0; i < set->count; i++)
        if (set->entries[i].pointer == pointer) {
            *found = set->entries[i];
            return true;
        }
    return false;
}

static void grow(struct mare__seen_set *set)
{
    struct mare__seen *old = set->entries;
    bool few = old == set->few;
    uint32_t old_room = few ? set->count : set->room;
    set->room = few ? 64 : set->room * 4;
    set->entries = lua_newuserdatauv(set->L, set->room * sizeof *set->entries, 0);
    memset(set->entries, 0, set->room * sizeof *set->entries);
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].pointer)
            set->entries[place_of(set, old[i].pointer)] = old[i];
    lua_replace(set->L, set->slot);
}

static void add_address(struct mare__seen_set *set, const void *pointer, uint32_t number,
                        uint32_t extra)
{
    bool few = set->entries == set->few;
    if (few ? set->count == MARE__MARSHAL_SEEN : set->count * 2 >= set->room)
        grow(set);
    uint32_t at = set->entries == set->few ? set->count : place_of(set, pointer);
    set->entries[at] = (struct mare__seen){pointer, number, extra};
    set->count++;
}

// ---- By a table ---------------------------------------------------------------------------------

static void push_key(struct mare__seen_set *set, const void *upvalue)
{
    if (upvalue)
        lua_pushlightuserdata(set->L, (void *)upvalue);
    else
        lua_pushvalue(set->L, -1);
}

static bool find_anchor(struct mare__seen_set *set, const void *upvalue, struct mare__seen *found)
{
    push_key(set, upvalue);
    bool is = lua_rawget(set->L, set->slot) == LUA_TNUMBER;
    uint64_t both = (uint64_t)lua_tointeger(set->L, -1);
    lua_pop(set->L, 1);
    *found = (struct mare__seen){NULL, (uint32_t)(both >> 8), (uint32_t)(both & 0xff)};
    return is;
}

static void add_anchor(struct mare__seen_set *set, const void *upvalue, uint32_t number,
                       uint32_t extra)
{
    push_key(set, upvalue);
    lua_pushinteger(set->L, (lua_Integer)number << 8 | extra);
    lua_rawset(set->L, set->slot);
}

// ---- Either -------------------------------------------------------------------------------------

bool mare__seen_find(struct mare__seen_set *set, const void *upvalue, struct mare__seen *found)
{
    if (set->anchors)
        return find_anchor(set, upvalue, found);
    return find_address(set, upvalue ? upvalue : lua_topointer(set->L, -1), found);
}

void mare__seen_add(struct mare__seen_set *set, const void *upvalue, uint32_t number,
                    uint32_t extra)
{
    if (set->anchors)
        add_anchor(set, upvalue, number, extra);
    else
        add_address(set, upvalue ? upvalue : lua_topointer(set->L, -1), number, extra);
}
