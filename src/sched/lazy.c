// SPDX-License-Identifier: MIT
// Libraries on first use. A state is born with an empty table of globals whose metatable supplies
// what is named:
//
//     print         one function of the base library, whose address a template state told
//     string        the whole library, through its luaopen function
//     ("x"):rep(3)  the same, through the metatable of strings; so does arithmetic on strings
//
// Each name is supplied once: a program that sets `os = nil` has no `os` after that. Some
// operations could tell the difference: pairs or next over _G, a metatable for _G, rawget,
// `package`, `debug`. They first make everything real and remove the metatable; from then on the
// table is as ordinary as in the stock interpreter.
#include <string.h>

#include "base/alloc.h"
#include "sched/handle.h"
#include "sched/libraries.h"

struct library {
    const char *name;
    lua_CFunction open;
};

static const struct library libraries[] = {
    {LUA_STRLIBNAME, luaopen_string},   {LUA_TABLIBNAME, luaopen_table},
    {LUA_MATHLIBNAME, luaopen_math},    {LUA_COLIBNAME, luaopen_coroutine},
    {LUA_IOLIBNAME, luaopen_io},        {LUA_OSLIBNAME, luaopen_os},
    {LUA_UTF8LIBNAME, luaopen_utf8},    {LUA_DBLIBNAME, luaopen_debug},
    {LUA_LOADLIBNAME, luaopen_package},
};

enum { LIBRARY_COUNT = sizeof libraries / sizeof *libraries, BASE_MAX = 32 };

struct mare__harvest {
    luaL_Reg base[BASE_MAX]; // the base library's functions, ours in place of some
    unsigned count;
    lua_CFunction originals[MARE__ORIGINALS];
    size_t countdown; // where a lua_State has what it has left to count: see mare__countdown
};

// ---- What the base library consists of ----------------------------------------------------------

static void no_hook(lua_State *L, lua_Debug *event)
{
    (void)L, (void)event;
}

// Finds where a lua_State has its countdown: it is what changes while a few instructions run.
static size_t find_countdown(lua_State *L)
{
    enum { MARK = 0x6d617265, FIELDS = 64, FEW = 100 };
    size_t found = 0;
    const int *fields = (const int *)L; // of the main coroutine: much more follows it
    lua_sethook(L, no_hook, LUA_MASKCOUNT, MARK);
    luaL_loadstring(L, "local a = 1");
    lua_call(L, 0, 0);
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i] < MARK && fields[i] > MARK - FEW)
            found = i * sizeof *fields;
    lua_sethook(L, NULL, 0, 0);
    return found;
}

static int harvest(lua_State *L)
{
    struct mare__harvest *harvest = lua_touserdata(L, 1);
    // Ordered by how often programs name them.
    static const char *const names[] = {
        "print",        "pairs",        "ipairs",   "type",           "tostring", "tonumber",
        "error",        "assert",       "pcall",    "select",         "next",     "xpcall",
        "setmetatable", "getmetatable", "rawget",   "rawset",         "rawlen",   "load",
        "rawequal",     "dofile",       "loadfile", "collectgarbage", "warn"};
    luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lua_getfield(L, -1, names[i]);
        lua_CFunction function = lua_tocfunction(L, -1);
        lua_pop(L, 1);
        if (!function)
            return luaL_error(L, "the base library has no '%s'", names[i]);
        for (const luaL_Reg *own = mare__base_overrides; own->name; own++)
            if (strcmp(own->name, names[i]) == 0)
                function = own->func;
        harvest->base[harvest->count++] = (luaL_Reg){names[i], function};
    }
    static const char *const debug[] = {"getlocal", "setlocal", "setupvalue", "getuservalue",
                                        "setuservalue"};
    luaL_requiref(L, LUA_DBLIBNAME, luaopen_debug, 0);
    for (int i = MARE__GETLOCAL; i <= MARE__SETUSERVALUE; i++) {
        lua_getfield(L, -1, debug[i]);
        harvest->originals[i] = lua_tocfunction(L, -1);
        lua_pop(L, 1);
    }
    luaL_requiref(L, LUA_LOADLIBNAME, luaopen_package, 0);
    lua_getfield(L, -1, "loadlib");
    harvest->originals[MARE__LOADLIB] = lua_tocfunction(L, -1);
    lua_getfield(L, -2, "searchers");
    for (int i = MARE__SEARCH_C; i <= MARE__SEARCH_C_ROOT; i++) {
        lua_rawgeti(L, -1, 3 + i - MARE__SEARCH_C);
        harvest->originals[i] = lua_tocfunction(L, -1);
        lua_pop(L, 1);
    }
    luaL_requiref(L, LUA_OSLIBNAME, luaopen_os, 0);
    lua_getfield(L, -1, "time");
    harvest->originals[MARE__TIME] = lua_tocfunction(L, -1);
    lua_getfield(L, -2, "date");
    harvest->originals[MARE__DATE] = lua_tocfunction(L, -1);
    harvest->countdown = find_countdown(L);
    return harvest->countdown ? 0 : luaL_error(L, "no Lua 5.4");
}

struct mare__harvest *mare__harvest_create(void)
{
    struct mare__harvest *made = mare__alloc_zero(sizeof *made);
    lua_State *L = made ? luaL_newstate() : NULL;
    bool done = false;
    if (L) {
        lua_pushcfunction(L, harvest);
        lua_pushlightuserdata(L, made);
        done = lua_pcall(L, 1, 0, 0) == LUA_OK;
        lua_close(L);
    }
    if (done)
        return made;
    mare__free(made);
    return NULL;
}

lua_CFunction mare__original(const mare_runtime *runtime, enum mare__original which)
{
    return runtime->harvest->originals[which];
}

int *mare__countdown(const mare_runtime *runtime, lua_State *L)
{
    return (int *)((char *)L + runtime->harvest->countdown);
}

void mare__harvest_destroy(struct mare__harvest *harvest)
{
    mare__free(harvest);
}

// ---- Supplying ----------------------------------------------------------------------------------

// Bits of process->libraries: first the libraries, then these, then the base functions.
enum { BIT_ENVIRONMENT = LIBRARY_COUNT, BIT_VERSION, BIT_REQUIRE, BIT_LUAPROC, BIT_BASE };

// The bit of a global that can be supplied, or -1.
static int bit_of(const struct mare__local *process, const char *name)
{
    const struct mare__harvest *harvest = process->shared.runtime->harvest;
    for (unsigned i = 0; i < harvest->count; i++)
        if (strcmp(name, harvest->base[i].name) == 0)
            return (int)(BIT_BASE + i);
    for (int i = 0; i < LIBRARY_COUNT; i++)
        if (strcmp(name, libraries[i].name) == 0)
            return i;
    return strcmp(name, LUA_GNAME) == 0                       ? BIT_ENVIRONMENT
           : strcmp(name, "_VERSION") == 0                    ? BIT_VERSION
           : strcmp(name, "require") == 0                     ? BIT_REQUIRE
           : process->luaproc && strcmp(name, "luaproc") == 0 ? BIT_LUAPROC
                                                              : -1;
}

// What Maré does differently, in a library on top of the stack that was just opened.
static void patch(lua_State *L, lua_CFunction open)
{
    if (open == luaopen_coroutine)
        mare__coroutine_patch(L);
    else if (open == luaopen_os)
        luaL_setfuncs(L, mare__os_overrides, 0);
    else if (open == luaopen_math)
        mare__math_seed(L);
    else if (open == luaopen_debug)
        luaL_setfuncs(L, mare__debug_overrides, 0);
    else if (open == luaopen_package)
        mare__package_patch(L);
    if (open == luaopen_io || open == luaopen_debug || open == luaopen_package)
        mare__self(L)->needs_close = true; // files, metatables set behind our back, shared objects
}

// Opens a library, without making it a global, and pushes it.
static void open_library(lua_State *L, int index)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, libraries[index].name) != LUA_TTABLE) {
        lua_CFunction open = libraries[index].open;
        lua_pop(L, 1);
        lua_pushglobaltable(L);
        lua_pushliteral(L, "require"); // which luaopen_package sets
        lua_rawget(L, -2);
        lua_pushcfunction(L, open);
        lua_pushstring(L, libraries[index].name);
        lua_call(L, 1, 1);
        patch(L, open);
        lua_insert(L, -3); // loaded, library, globals, the old require
        lua_pushliteral(L, "require");
        lua_insert(L, -2);
        lua_rawset(L, -3);
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, libraries[index].name);
    }
    lua_remove(L, -2);
}

// Pushes what belongs to a bit.
static void supply(lua_State *L, int bit)
{
    struct mare__local *process = mare__self(L);
    uint64_t before = process->libraries;
    if (bit < LIBRARY_COUNT)
        open_library(L, bit);
    else if (bit == BIT_ENVIRONMENT)
        lua_pushglobaltable(L);
    else if (bit == BIT_VERSION)
        lua_pushliteral(L, LUA_VERSION);
    else if (bit == BIT_REQUIRE)
        lua_pushcfunction(L, mare__require);
    else if (bit == BIT_LUAPROC)
        mare__lazy_require(L, "luaproc");
    else
        lua_pushcfunction(L, process->shared.runtime->harvest->base[bit - BIT_BASE].func);
    process->libraries =
        before | UINT64_C(1) << bit; // only now: opening may have failed, or set globals itself
}

static bool supplied(const struct mare__local *process, int bit)
{
    return (process->libraries >> bit & 1) != 0;
}

void mare__lazy_finish(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    if (!process->globals)
        return;
    process->globals = NULL;
    lua_pushglobaltable(L);
    int bits = (int)(BIT_BASE + process->shared.runtime->harvest->count);
    for (int bit = 0; bit < bits; bit++) {
        if (supplied(process, bit) || (bit == BIT_LUAPROC && !process->luaproc))
            continue;
        const char *name = bit < LIBRARY_COUNT      ? libraries[bit].name
                           : bit == BIT_ENVIRONMENT ? LUA_GNAME
                           : bit == BIT_VERSION     ? "_VERSION"
                           : bit == BIT_REQUIRE     ? "require"
                           : bit == BIT_LUAPROC
                               ? "luaproc"
                               : process->shared.runtime->harvest->base[bit - BIT_BASE].name;
        lua_pushstring(L, name);
        supply(L, bit);
        lua_rawset(L, -3);
    }
    for (int i = 0; i < LIBRARY_COUNT; i++) { // set to nil as globals they are still loaded
        open_library(L, i);
        lua_pop(L, 1);
    }
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, LUA_GNAME);
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

// The bit of the string at an index of the stack, if it is one that has not been supplied; else -1.
static int wanted(lua_State *L, int index)
{
    struct mare__local *process = mare__self(L);
    if (!process->globals || lua_type(L, index) != LUA_TSTRING)
        return -1;
    const char *name = lua_tostring(L, index);
    int bit = strlen(name) == lua_rawlen(L, index) ? bit_of(process, name) : -1;
    return bit >= 0 && !supplied(process, bit) ? bit : -1;
}

// The value of a member that the table at index 1 of the stack takes from a list.
static int supply_member(lua_State *L, const luaL_Reg *members)
{
    luaL_checktype(L, 1, LUA_TTABLE); // a program may call what calls this
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strlen(name) != lua_rawlen(L, 2))
        return 0; // a zero byte in it
    for (; members->name; members++)
        if (strcmp(members->name, name) == 0) {
            lua_pushcfunction(L, members->func);
            lua_pushvalue(L, 2);
            lua_pushvalue(L, -2);
            lua_rawset(L, 1);
            return 1;
        }
    return 0;
}

// For the globals, and for tables of methods, which have the same metatable.
static int globals_index(lua_State *L)
{
    lua_settop(L, 2);
    if (lua_topointer(L, 1) != mare__self(L)->globals) {
        const luaL_Reg *methods = mare__handle_methods(L, 1);
        return methods ? supply_member(L, methods) : 0;
    }
    int bit = wanted(L, 2);
    if (bit < 0)
        return 0;
    if (strcmp(lua_tostring(L, 2), LUA_LOADLIBNAME) == 0 ||
        strcmp(lua_tostring(L, 2), LUA_DBLIBNAME) == 0) {
        mare__lazy_finish(L); // package.loaded shows every library; debug sees through all of this
        lua_rawget(L, 1);
        return 1;
    }
    supply(L, bit);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

static int globals_newindex(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 3);
    int bit = wanted(L, 2);
    if (bit >= 0)
        mare__self(L)->libraries |= UINT64_C(1) << bit; // the program's own from now on
    lua_rawset(L, 1);
    return 0;
}

static int globals_pairs(lua_State *L)
{
    lua_settop(L, 1);
    mare__lazy_finish(L);
    lua_pushcfunction(L, mare__next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

// ---- Strings ------------------------------------------------------------------------------------

static int string_index(lua_State *L)
{
    lua_settop(L, 2);
    open_library(L, 0); // which replaces this metatable
    lua_insert(L, 2);
    lua_gettable(L, 2);
    return 1;
}

// Arithmetic on strings is the work of metamethods of the real library: they run in this one's
// place, so that what they say of errors is the same.
static int arithmetic(lua_State *L, const char *event)
{
    mare__lazy_string(L);
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_getfield(L, -1, event);
    lua_CFunction real = lua_tocfunction(L, -1);
    lua_settop(L, 2);
    return real(L);
}

#define STRING_ARITHMETIC(name)                                                                    \
    static int string_##name(lua_State *L)                                                         \
    {                                                                                              \
        return arithmetic(L, "__" #name);                                                          \
    }
STRING_ARITHMETIC(add)
STRING_ARITHMETIC(sub)
STRING_ARITHMETIC(mul)
STRING_ARITHMETIC(mod)
STRING_ARITHMETIC(pow)
STRING_ARITHMETIC(div)
STRING_ARITHMETIC(idiv)
STRING_ARITHMETIC(unm)

// ---- Birth --------------------------------------------------------------------------------------

void mare__lazy_install(lua_State *L)
{
    static const luaL_Reg for_globals[] = {{"__index", globals_index},
                                           {"__newindex", globals_newindex},
                                           {"__pairs", globals_pairs},
                                           {NULL, NULL}};
    static const luaL_Reg for_strings[] = {{"__index", string_index}, {"__add", string_add},
                                           {"__sub", string_sub},     {"__mul", string_mul},
                                           {"__mod", string_mod},     {"__pow", string_pow},
                                           {"__div", string_div},     {"__idiv", string_idiv},
                                           {"__unm", string_unm},     {NULL, NULL}};
    lua_pushglobaltable(L);
    luaL_newlibtable(L, for_globals);
    luaL_setfuncs(L, for_globals, 0);
    lua_setmetatable(L, -2);
    lua_pushliteral(L, "");
    luaL_newlibtable(L, for_strings);
    luaL_setfuncs(L, for_strings, 0);
    lua_setmetatable(L, -2);
    lua_pop(L, 2);
}

// ---- Lazy tables of functions -------------------------------------------------------------------

static int table_index(lua_State *L)
{
    lua_settop(L, 2);
    return supply_member(L, lua_touserdata(L, lua_upvalueindex(1)));
}

// Makes all members real, so that they can be listed.
static int table_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_setfuncs(L, lua_touserdata(L, lua_upvalueindex(1)), 0);
    lua_pushcfunction(L, mare__next);
    lua_insert(L, 1);
    lua_pushnil(L);
    return 3;
}

// In a host's state, which is not ours to make small, fills the new table on top of the stack.
static bool filled_in_host(lua_State *L, const luaL_Reg *members)
{
    if (!mare__self(L)->host)
        return false;
    for (; members->name; members++) {
        mare__function_push(L, members->func);
        lua_setfield(L, -2, members->name);
    }
    return true;
}

void mare__lazy_table(lua_State *L, const luaL_Reg *members)
{
    lua_newtable(L);
    if (filled_in_host(L, members))
        return;
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, (void *)members);
    lua_pushcclosure(L, table_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushlightuserdata(L, (void *)members);
    lua_pushcclosure(L, table_pairs, 1);
    lua_setfield(L, -2, "__pairs");
    lua_setmetatable(L, -2);
}

void mare__lazy_methods(lua_State *L, const luaL_Reg *methods)
{
    lua_newtable(L);
    if (filled_in_host(L, methods))
        return;
    if (mare__self(L)->globals) { // its metatable can serve both, which saves every process one
        lua_pushglobaltable(L);
        lua_getmetatable(L, -1);
        lua_remove(L, -2);
    } else {
        lua_createtable(L, 0, 1);
        lua_pushcfunction(L, globals_index);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}

bool mare__lazy_knows(const mare_runtime *runtime, const char *name)
{
    for (int i = 0; i < LIBRARY_COUNT; i++)
        if (strcmp(libraries[i].name, name) == 0)
            return true;
    return (runtime->module && runtime->module(name)) || mare__offer_has(runtime, name);
}

bool mare__lazy_has(lua_State *L, const char *name)
{
    return mare__lazy_knows(mare__self(L)->shared.runtime, name);
}

bool mare__lazy_require(lua_State *L, const char *name)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    if (strcmp(name, LUA_DBLIBNAME) == 0 || strcmp(name, LUA_LOADLIBNAME) == 0)
        mare__lazy_finish(L); // they see through all of this
    for (int i = 0; i < LIBRARY_COUNT; i++)
        if (strcmp(libraries[i].name, name) == 0) {
            open_library(L, i);
            return true;
        }
    lua_CFunction open = runtime->module ? runtime->module(name) : NULL;
    if (!open)
        open = mare__offer_open(L, name);
    if (open)
        luaL_requiref(L, name, open, 0);
    return open != NULL;
}

// Looks through a table of functions (below the function sought, at `index`) for its name. Pushes
// it if found.
static bool name_in(lua_State *L, int index)
{
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_rawequal(L, -1, index)) {
            lua_pop(L, 1);
            return true;
        }
    return false;
}

bool mare__lazy_name_of(lua_State *L, int index)
{
    const struct mare__harvest *harvest = mare__self(L)->shared.runtime->harvest;
    index = lua_absindex(L, index);
    for (unsigned i = 0; i < harvest->count; i++)
        if (lua_tocfunction(L, index) == harvest->base[i].func) {
            lua_pushliteral(L, LUA_GNAME);
            lua_pushstring(L, harvest->base[i].name);
            return true;
        }
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_istable(L, -1) && name_in(L, index)) {
            lua_remove(L, -2); // the module's table
            lua_remove(L, -3); // the table of modules
            return true;
        }
    lua_pop(L, 1);
    return false;
}

bool mare__lazy_module_of(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    int loaded = lua_gettop(L);
    bool found = false;
    lua_pushnil(L); // the name
    for (lua_pushnil(L); lua_next(L, loaded); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_rawequal(L, -1, index))
            continue;
        // Under several names ("socket", "socket.core") it is the whole of which others are parts.
        if (!found || lua_rawlen(L, -2) < lua_rawlen(L, loaded + 1))
            lua_copy(L, -2, loaded + 1);
        found = true;
    }
    lua_remove(L, loaded);
    if (!found)
        lua_pop(L, 1);
    return found;
}

void mare__lazy_string(lua_State *L)
{
    open_library(L, 0);
    lua_pop(L, 1);
}
