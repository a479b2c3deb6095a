// SPDX-License-Identifier: MIT
// A list of places, and a way from each reference to its last place, so that adding, finding and
// removing one costs the same however many leave.
#include "sched/leaving.h"

#include "base/alloc.h"
#include "sched/handle.h"

static bool grow(struct mare__leaving *leaving)
{
    uint32_t room = leaving->room ? 2 * leaving->room : 4;
    struct mare__leave *places = mare__realloc(leaving->places, room * sizeof *places);
    if (!places)
        return false;
    leaving->places = places;
    leaving->room = room;
    return true;
}

bool mare__leaving_add(struct mare__leaving **leaving, struct mare__reference *ref, uint32_t which)
{
    struct mare__leaving *list = *leaving;
    if (!list) {
        list = *leaving = mare__alloc_zero(sizeof *list);
        if (!list)
            return false;
    }
    uint32_t before = ref->away ? ref->leaving : 0; // the caller has seen that it is in no other
    if (before && list->places[before - 1].which == which)
        return true; // twice in one message
    if (list->count == list->room && !grow(list))
        return false;
    list->places[list->count++] = (struct mare__leave){ref, which, before};
    ref->away = list;
    ref->leaving = list->count;
    return true;
}

static void stays(struct mare__reference *ref)
{
    ref->away = NULL;
    ref->leaving = 0;
    if (ref->object)
        atomic_store(&ref->object->taken, true);
}

void mare__leaving_undo(struct mare__leaving *leaving, uint32_t which)
{
    for (; leaving && leaving->count && leaving->places[leaving->count - 1].which == which;
         leaving->count--) {
        struct mare__leave *place = &leaving->places[leaving->count - 1];
        if (!place->ref)
            continue;
        place->ref->leaving = place->before;
        if (!place->before)
            stays(place->ref);
    }
}

void mare__leaving_remove(struct mare__reference *ref)
{
    for (uint32_t at = ref->leaving; at;) {
        struct mare__leave *place = &ref->away->places[at - 1];
        place->ref = NULL;
        at = place->before;
    }
    ref->away = NULL;
    ref->leaving = 0;
}

void mare__leaving_end(lua_State *L, struct mare__leaving **leaving, uint32_t which, bool sent)
{
    struct mare__leaving *list = *leaving;
    // First those that leave: a reference may stand in places of other cases too.
    for (uint32_t i = 0; sent && list && i < list->count; i++) {
        struct mare__leave *place = &list->places[i];
        struct mare__reference *ref = place->which == which ? place->ref : NULL;
        if (!ref)
            continue;
        mare__leaving_remove(ref);
        mare__handle_give(L, ref);
    }
    mare__leaving_drop(leaving);
}

void mare__leaving_drop(struct mare__leaving **leaving)
{
    struct mare__leaving *list = *leaving;
    *leaving = NULL;
    if (!list)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->places[i].ref)
            stays(list->places[i].ref);
    mare__free(list->places);
    mare__free(list);
}
