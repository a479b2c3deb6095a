// SPDX-License-Identifier: MIT
// Modules that the program around the runtime offers to its processes (mare_offer). What was
// offered stays in a list until the runtime ends, so a process may keep pointers into it.
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sched/libraries.h"
#include "sched/marshal.h"
#include "sched/runtime.h"

struct mare__offer {
    struct mare__offer *next;             // constant
    const mare_named_function *functions; // or NULL:
    lua_CFunction open;                   // the module is what this makes
    void *user;
    char name[];
};

static const struct mare__offer *find(const mare_runtime *runtime, const char *name)
{
    // Acquire, with the release in `offer`: what is found is whole.
    const struct mare__offer *offer = atomic_load_explicit(&runtime->offers, memory_order_acquire);
    while (offer && strcmp(offer->name, name) != 0)
        offer = offer->next;
    return offer;
}

bool mare__offer_has(const mare_runtime *runtime, const char *name)
{
    return find(runtime, name) != NULL;
}

static mare_err offer(mare_runtime *runtime, const char *module,
                      const mare_named_function *functions, lua_CFunction open, void *user)
{
    if (!mare__runtime_valid(runtime))
        return MARE_STOPPED;
    struct mare__offer *made = mare__alloc(sizeof *made + strlen(module) + 1);
    if (!made)
        return MARE_NOMEM;
    *made = (struct mare__offer){.functions = functions, .open = open, .user = user};
    strcpy(made->name, module);
    pthread_mutex_lock(&runtime->offer_mutex);
    bool taken = mare__lazy_knows(runtime, module);
    made->next = atomic_load_explicit(&runtime->offers, memory_order_relaxed); // under the mutex
    if (!taken)
        atomic_store_explicit(&runtime->offers, made, memory_order_release); // see `find`
    pthread_mutex_unlock(&runtime->offer_mutex);
    if (taken)
        mare__free(made);
    return taken ? MARE_EXISTS : MARE_OK;
}

mare_err mare_offer(mare_runtime *runtime, const char *module, const mare_named_function *functions,
                    void *user)
{
    return offer(runtime, module, functions, NULL, user);
}

mare_err mare_offer_lua(mare_runtime *runtime, const char *module, int (*open)(lua_State *L))
{
    return offer(runtime, module, NULL, open, NULL);
}

void mare__offers_free(mare_runtime *runtime)
{
    struct mare__offer *offer = atomic_load(&runtime->offers), *next;
    for (; offer; offer = next) {
        next = offer->next;
        mare__free(offer);
    }
}

// nil, a message, a code: the message is what the function left, if that is a string.
static int push_failure(lua_State *L, mare_message *results, mare_err err)
{
    mare_value why;
    lua_pushnil(L);
    if (mare_message_get(results, 0, &why) != MARE_OK || why.type != MARE_STRING)
        lua_pushstring(L, mare_strerror(err));
    else if (mare__unmarshal_own(L, results) > 1)
        lua_settop(L, 2);
    mare__message_clear(results);
    lua_pushstring(L, mare__err_word(err));
    return 3;
}

// Upvalues: the function and the offer.
static int call(lua_State *L)
{
    const mare_named_function *named = lua_touserdata(L, lua_upvalueindex(1));
    const struct mare__offer *offer = lua_touserdata(L, lua_upvalueindex(2));
    struct mare__leaving *leaving = NULL;
    mare_message arguments, results;
    mare__message_init(&arguments);
    mare__message_init(&results);
    if (mare__marshal(L, 1, lua_gettop(L), &arguments, "arg", &leaving) != MARE_OK)
        return lua_error(L);
    mare__leaving_drop(&leaving); // what has one owner stays with it
    mare_err err = named->function(offer->user, &arguments, &results);
    mare__message_clear(&arguments);
    lua_settop(L, 0);
    if (!err && results.open)
        err = MARE_INVALID;
    return err ? push_failure(L, &results, err) : mare__unmarshal_own(L, &results);
}

// name -> module
static int open_functions(lua_State *L)
{
    const struct mare__offer *offer = find(mare__self(L)->shared.runtime, luaL_checkstring(L, 1));
    lua_newtable(L);
    for (const mare_named_function *named = offer->functions; named->name; named++) {
        lua_pushlightuserdata(L, (void *)named);
        lua_pushlightuserdata(L, (void *)offer);
        lua_pushcclosure(L, call, 2);
        lua_setfield(L, -2, named->name);
    }
    return 1;
}

lua_CFunction mare__offer_open(lua_State *L, const char *name)
{
    struct mare__local *self = mare__self(L);
    const struct mare__offer *offer = find(self->shared.runtime, name);
    if (offer && offer->open)
        self->has_c_modules = self->needs_close = true; // it may do anything to the state
    return !offer ? NULL : offer->open ? offer->open : open_functions;
}
