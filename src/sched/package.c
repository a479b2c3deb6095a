// SPDX-License-Identifier: MIT
// require and package: as the originals, and besides:
// - a module may wait while it loads;
// - C modules are noted, because a state with one is not recycled;
// - LuaSocket's modules in C are replaced by ours, which hold back no worker;
// - a process has the package.path, package.cpath and package.preload of the process that made it.
//
// A process inherits a struct mare__modules, which does not change once it is made and is shared by
// all who have it; NULL stands for what every state is born with. A process makes a new one when it
// spawns and has changed something since the last time. Most have changed nothing, or have not even
// opened the library, and hand on what they got.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/marshal.h"

// ---- What is inherited --------------------------------------------------------------------------

// A loader of package.preload, copied.
struct preloaded {
    struct mare__object object;
    mare_message loader; // or empty:
    char *why;           // it could not be copied
    char name[];
};

struct mare__modules {
    struct mare__object object;
    char *path, *cpath; // NULL: it was no string
    uint32_t replaced;  // bits of those that are replaced still
    uint32_t count;
    struct preloaded *preloaded[]; // references; in the order of the names, once it is made
};

static void preloaded_destroy(struct mare__object *object)
{
    struct preloaded *preloaded = (struct preloaded *)object;
    mare__message_clear(&preloaded->loader);
    mare__free(preloaded->why);
    mare__free(preloaded);
}

static void modules_destroy(struct mare__object *object)
{
    struct mare__modules *modules = (struct mare__modules *)object;
    for (uint32_t i = 0; i < modules->count; i++)
        mare__unref(&modules->preloaded[i]->object);
    mare__free(modules->path);
    mare__free(modules->cpath);
    mare__free(modules);
}

void mare__modules_unref(struct mare__modules *modules)
{
    if (modules)
        mare__unref(&modules->object);
}

static struct mare__modules *modules_ref(struct mare__modules *modules)
{
    return modules ? mare__ref(&modules->object) : NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct preloaded *const *)a)->name, (*(struct preloaded *const *)b)->name);
}

static void sort_preloaded(struct mare__modules *modules)
{
    qsort(modules->preloaded, modules->count, sizeof(struct preloaded *), compare_names);
}

// By halves: an application in one file may have thousands.
static struct preloaded *find_preloaded(const struct mare__modules *modules, const char *name)
{
    uint32_t first = 0, end = modules ? modules->count : 0;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        int order = strcmp(name, modules->preloaded[middle]->name);
        if (order == 0)
            return modules->preloaded[middle];
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

// ---- require ------------------------------------------------------------------------------------

enum { NAME = 1, LOADED, PACKAGE, SEARCHERS, REASONS };

// The loader has run: its result is on top, the loader's data below it.
static int required(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    const char *name = lua_tostring(L, NAME);
    if (!lua_isnil(L, -1))
        lua_setfield(L, LOADED, name);
    else
        lua_pop(L, 1);
    if (lua_getfield(L, LOADED, name) == LUA_TNIL) {
        lua_pushboolean(L, 1);
        lua_copy(L, -1, -2);
        lua_setfield(L, LOADED, name);
    }
    lua_rotate(L, -2, 1); // module, loader's data
    return 2;
}

// Modules that hold back a worker while they wait, and those of ours that do not. They are in
// package.preload, where a program can remove them to have the originals.
static const struct {
    const char *name, *ours;
} replaced[] = {{"socket.core", "mare.luasocket.core"}, {"socket.unix", "mare.luasocket.unix"}};

enum { REPLACED = sizeof replaced / sizeof *replaced };

// The loader of one that is replaced; its name is an upvalue.
static int load_ours(lua_State *L)
{
    const char *name = lua_tostring(L, lua_upvalueindex(1));
    return mare__lazy_require(L, name) ? 1 : luaL_error(L, "module '%s' is not there", name);
}

static void push_ours(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    lua_pushcclosure(L, load_ours, 1);
}

static uintptr_t fingerprint(lua_State *L);

// Whether modules are still looked for where this process has inherited it, from another.
static bool looks_as_inherited(lua_State *L, const struct mare__local *self)
{
    if (self->is_main || self->host || self->modules_are_own)
        return false;
    lua_pushvalue(L, PACKAGE);
    bool same = fingerprint(L) == self->modules_print;
    lua_pop(L, 1);
    return same;
}

// No searcher has found it. The reasons of all are on the stack; what a process could not inherit
// is one more.
static _Noreturn void not_found(lua_State *L, const char *name)
{
    const struct mare__local *self = mare__self(L);
    const struct preloaded *found = find_preloaded(self->modules, name);
    const char *reasons = lua_tostring(L, REASONS);
    if (found && found->why && !self->modules_are_own)
        reasons = lua_pushfstring(L,
                                  "%s\n\tthe loader in package.preload of the process that started "
                                  "this one was not copied: %s",
                                  reasons, found->why);
    else if (looks_as_inherited(L, self))
        reasons = lua_pushfstring(L,
                                  "%s\n\t(a process has the package.path, package.cpath and "
                                  "package.preload of the one that started it, as they were then)",
                                  reasons);
    luaL_error(L, "module '%s' not found:%s", name, reasons);
    abort();
}

// Pushes the loader that a searcher found and its data; raises an error with the reasons of all if
// none did.
static void find_loader(lua_State *L, const char *name)
{
    if (lua_getfield(L, PACKAGE, "searchers") != LUA_TTABLE)
        luaL_error(L, "'package.searchers' must be a table");
    lua_pushliteral(L, "");
    for (int i = 1;; i++) {
        if (lua_rawgeti(L, SEARCHERS, i) == LUA_TNIL) {
            if (strcmp(name, "socket") != 0)
                not_found(L, name);
            push_ours(L, "mare.luasocket.socket"); // LuaSocket is not installed
            lua_pushliteral(L, ":mare:");
            return;
        }
        lua_pushstring(L, name);
        lua_call(L, 1, 2);
        if (lua_isfunction(L, -2))
            return;
        if (lua_isstring(L, -2)) {
            lua_pop(L, 1);
            lua_pushfstring(L, "%s\n\t%s", lua_tostring(L, REASONS), lua_tostring(L, -1));
            lua_replace(L, REASONS);
        }
        lua_settop(L, REASONS);
    }
}

int mare__require(lua_State *L)
{
    const char *name = luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, LOADED, name);
    if (lua_toboolean(L, -1))
        return 1;
    lua_settop(L, LOADED);
    if (mare__lazy_require(L, name))
        return 1;
    mare__lazy_finish(L);
    mare__lazy_require(L, LUA_LOADLIBNAME);
    find_loader(L, name);
    lua_rotate(L, -2, 1); // data, loader
    lua_pushvalue(L, NAME);
    lua_pushvalue(L, -3);
    lua_callk(L, 2, 1, 0, required);
    return required(L, LUA_OK, 0);
}

int mare__host_require(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

// Where C modules are loaded, by the original. The state has one from then on.
static int load_c(lua_State *L, enum mare__original which)
{
    int results = mare__original(mare__self(L)->shared.runtime, which)(L);
    if (lua_isfunction(L, -results))
        mare__self(L)->has_c_modules = true;
    return results;
}

static int package_loadlib(lua_State *L)
{
    mare__self(L)->has_c_modules = true; // also if it is only linked
    return load_c(L, MARE__LOADLIB);
}

static int search_c(lua_State *L)
{
    return load_c(L, MARE__SEARCH_C);
}

static int search_c_root(lua_State *L)
{
    return load_c(L, MARE__SEARCH_C_ROOT);
}

// ---- Inheriting ---------------------------------------------------------------------------------

static int all_results(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    return lua_gettop(L);
}

// loader (light userdata) -> the function
static int read_loader(lua_State *L)
{
    const struct preloaded *found = mare__passed(L, 1);
    return mare__unmarshal(L, &found->loader);
}

// Pushes a loader that was copied. An `arrive` may run meanwhile, and may spawn: then the process
// may have other modules, and has given back these.
static void push_loader(lua_State *L, struct preloaded *found)
{
    struct mare__pass pass;
    mare__ref(&found->object);
    lua_pushcfunction(L, read_loader);
    mare__pass_push(L, &pass, found);
    int status = lua_pcall(L, 1, 1, 0);
    mare__pass_end(L, &pass);
    mare__unref(&found->object);
    if (status != LUA_OK)
        lua_error(L);
}

// A loader that was copied: makes it, and calls it in its own place. name, data -> its results.
static int load_inherited(lua_State *L)
{
    const char *name = luaL_checkstring(L, lua_upvalueindex(1));
    struct preloaded *found = find_preloaded(mare__self(L)->modules, name);
    if (!found || found->why)
        return luaL_error(L, "the loader of module '%s' was not copied", name);
    int arguments = lua_gettop(L);
    push_loader(L, found);
    lua_insert(L, 1);
    lua_callk(L, arguments, LUA_MULTRET, 0, all_results);
    return all_results(L, LUA_OK, 0);
}

// The library on top of the stack gets what the process has inherited.
static void apply(lua_State *L, const struct mare__modules *modules)
{
    if (modules->path) {
        lua_pushstring(L, modules->path);
        lua_setfield(L, -2, "path");
    }
    if (modules->cpath) {
        lua_pushstring(L, modules->cpath);
        lua_setfield(L, -2, "cpath");
    }
    lua_getfield(L, -1, "preload");
    for (size_t i = 0; i < REPLACED; i++)
        if (!(modules->replaced >> i & 1)) {
            lua_pushnil(L);
            lua_setfield(L, -2, replaced[i].name);
        }
    for (uint32_t i = 0; i < modules->count; i++) {
        if (modules->preloaded[i]->why)
            continue;
        lua_pushstring(L, modules->preloaded[i]->name);
        lua_pushvalue(L, -1);
        lua_pushcclosure(L, load_inherited, 1);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}

// For the path, cpath and preload on top of the stack, which are popped: a number that changes when
// one of the paths or loaders does. Every spawn asks, so nothing is compared but addresses. What
// they belong to is kept (see remember), so that nothing new can have the same one.
static uintptr_t pop_print(lua_State *L)
{
    uintptr_t print = (uintptr_t)lua_topointer(L, -3) * 31 + (uintptr_t)lua_topointer(L, -2);
    uintptr_t count = 0;
    if (lua_istable(L, -1))
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) // in any order
            print += ((uintptr_t)lua_topointer(L, -2) * 31 + (uintptr_t)lua_topointer(L, -1)) * 31 +
                     ++count;
    lua_pop(L, 3);
    return print;
}

// Of the library on top of the stack.
static uintptr_t fingerprint(lua_State *L)
{
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    lua_getfield(L, -3, "preload");
    return pop_print(L);
}

// What a library hands on, in a table.
enum { PATH = 1, CPATH, PRELOAD };

// Pushes that of the library on top of the stack, as it is now: what runs later, while the loaders
// are copied, may change the library.
static void push_handed_on(lua_State *L)
{
    lua_createtable(L, PRELOAD, 0);
    lua_newtable(L);
    lua_getfield(L, -3, "path");
    lua_rawseti(L, -3, PATH);
    lua_getfield(L, -3, "cpath");
    lua_rawseti(L, -3, CPATH);
    if (lua_getfield(L, -3, "preload") == LUA_TTABLE)
        for (lua_pushnil(L); lua_next(L, -2);) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, -5);
        }
    lua_pop(L, 1);
    lua_rawseti(L, -2, PRELOAD);
}

// Notes that this was handed on, and pops it.
static void remember(lua_State *L)
{
    lua_rawgeti(L, -1, PATH);
    lua_rawgeti(L, -2, CPATH);
    lua_rawgeti(L, -3, PRELOAD);
    mare__self(L)->modules_print = pop_print(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_PRELOAD);
}

void mare__package_patch(lua_State *L)
{
    const struct mare__modules *modules = mare__self(L)->modules;
    lua_pushcfunction(L, package_loadlib);
    lua_setfield(L, -2, "loadlib");
    lua_getfield(L, -1, "searchers");
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, search_c, 1); // they have the library as their upvalue
    lua_rawseti(L, -2, 3);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, search_c_root, 1);
    lua_rawseti(L, -2, 4);
    lua_pop(L, 1);
    lua_getfield(L, -1, "preload");
    for (size_t i = 0; i < REPLACED; i++) {
        push_ours(L, replaced[i].ours);
        lua_setfield(L, -2, replaced[i].name);
    }
    lua_pop(L, 1);
    if (modules)
        apply(L, modules);
    push_handed_on(L);
    remember(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_PACKAGE);
}

// ---- Handing on ---------------------------------------------------------------------------------

// Pushes the library if the state has it open.
static bool push_package(lua_State *L)
{
    if (!mare__self(L)->host)
        return lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_PACKAGE) == LUA_TTABLE ||
               (lua_pop(L, 1), false);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    lua_remove(L, -2);
    return lua_istable(L, -1) || (lua_pop(L, 1), false);
}

static char *copy_string(lua_State *L, const char *string)
{
    char *copy = mare__alloc(strlen(string) + 1);
    if (!copy) {
        luaL_error(L, "not enough memory");
        return NULL; // it does not return
    }
    return strcpy(copy, string);
}

static char *copy_field(lua_State *L, int field)
{
    lua_rawgeti(L, 1, field);
    char *copy = lua_type(L, -1) == LUA_TSTRING ? copy_string(L, lua_tostring(L, -1)) : NULL;
    lua_pop(L, 1);
    return copy;
}

// The value on top of the stack, copied, or why it is not. What belongs to one owner would leave
// its own, and references could lead back to whom they are inherited from.
static void copy_loader(lua_State *L, struct preloaded *preloaded)
{
    struct mare__leaving *leaving = NULL;
    int top = lua_gettop(L);
    mare_err err = mare__marshal(L, top, 1, &preloaded->loader, "loader", &leaving);
    bool refers = !err && preloaded->loader.handles != 0;
    if (refers)
        mare__message_clear(&preloaded->loader);
    mare__leaving_drop(&leaving);
    const char *why = err      ? lua_tostring(L, -1)
                      : refers ? "it refers to channels or other objects"
                               : NULL;
    if (why)
        preloaded->why = copy_string(L, why);
    lua_settop(L, top);
}

// The copy of an entry of package.preload, the name and the value on top of the stack.
static struct preloaded *copy_preloaded(lua_State *L)
{
    const char *name = lua_tostring(L, -2);
    struct preloaded *before = find_preloaded(mare__self(L)->modules, name);
    if (before && lua_tocfunction(L, -1) == load_inherited)
        return mare__ref(&before->object);
    struct preloaded *made = mare__alloc_zero(sizeof *made + strlen(name) + 1);
    if (!made) {
        luaL_error(L, "not enough memory");
        return NULL; // never
    }
    mare__object_init(&made->object, MARE__KIND_INTERNAL, preloaded_destroy);
    strcpy(made->name, name);
    mare__message_init(&made->loader);
    struct mare__modules *modules = lua_touserdata(L, 2);
    modules->preloaded[modules->count++] = made; // where an error finds it
    copy_loader(L, made);
    return NULL;
}

// what is handed on, modules (light userdata, with room for the entries) -> nothing; fills them.
static int fill_modules(lua_State *L)
{
    struct mare__modules *modules = mare__passed(L, 2);
    modules->path = copy_field(L, PATH);
    modules->cpath = copy_field(L, CPATH);
    lua_rawgeti(L, 1, PRELOAD);
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            continue;
        size_t which = REPLACED;
        if (lua_tocfunction(L, -1) == load_ours)
            for (which = 0; which < REPLACED; which++)
                if (strcmp(lua_tostring(L, -2), replaced[which].name) == 0)
                    break;
        if (which < REPLACED) {
            modules->replaced |= 1u << which;
            continue;
        }
        struct preloaded *shared = copy_preloaded(L);
        if (shared)
            modules->preloaded[modules->count++] = shared;
    }
    return 0;
}

// The library is on top of the stack: makes what it hands on anew.
static void remake(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    size_t room = 0;
    push_handed_on(L);
    lua_rawgeti(L, -1, PRELOAD);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        room++;
    lua_pop(L, 1);
    struct mare__modules *modules = mare__alloc_zero(sizeof *modules + room * sizeof(void *));
    if (!modules) {
        luaL_error(L, "not enough memory");
        return; // it does not return
    }
    mare__object_init(&modules->object, MARE__KIND_INTERNAL, modules_destroy);
    struct mare__pass pass;
    struct mare__account *payer = mare__paying;
    mare__paying = NULL; // it is everybody's who inherits it
    lua_pushcfunction(L, fill_modules);
    lua_pushvalue(L, -2);
    mare__pass_push(L, &pass, modules);
    int status = lua_pcall(L, 2, 0, 0);
    mare__pass_end(L, &pass);
    mare__paying = payer;
    if (status != LUA_OK) {
        mare__modules_unref(modules);
        lua_error(L);
    }
    sort_preloaded(modules);
    mare__modules_unref(self->modules);
    self->modules = modules;
    self->modules_are_own = true;
    remember(L);
}

void mare__modules_inherit(lua_State *L, struct mare__local *process)
{
    struct mare__local *self = mare__self(L);
    if (push_package(L)) {
        if (fingerprint(L) != self->modules_print)
            remake(L);
        lua_pop(L, 1);
    }
    process->modules = modules_ref(self->modules);
}
