// SPDX-License-Identifier: MIT
// JSON made from values of Lua. The text grows in a userdata, at one place of the stack, which is
// replaced when it must be larger. So an error anywhere leaves it to the collector. Each table that
// is being written has its key and its value above it on the stack. The error for a value that
// cannot be written tells the way to it from these.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "lua/json.h"
#include "wire/utf8.h"

enum { VALUE = 1, OPTIONS, OUT, NULL_VALUE, MARK, FIRST };

enum { ROOM = 512, PATH_MOST = 12 };

struct encoder {
    lua_State *L;
    char *at;
    size_t size, capacity;
    struct mare__lua_json_limits limits;
    int indent; // blanks for each level; -1: none, and no lines
    int depth;
    bool sorted;
    int tables[MARE__JSON_DEPTH_MOST]; // where they are on the stack; the key is above each
};

static void put_value(struct encoder *e);

// ---- What cannot be written ---------------------------------------------------------------------

static bool is_name(const char *text, size_t size)
{
    if (size == 0 || size > 40 || isdigit((uint8_t)*text))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!isalnum((uint8_t)text[i]) && text[i] != '_')
            return false;
    return true;
}

static void add_step(luaL_Buffer *path, lua_State *L, int key)
{
    size_t size;
    if (lua_type(L, key) == LUA_TSTRING) {
        const char *name = lua_tolstring(L, key, &size);
        if (is_name(name, size)) {
            luaL_addchar(path, '.');
            luaL_addlstring(path, name, size);
            return;
        }
        luaL_addstring(path, "[\"");
        for (size_t i = 0; i < size && i < 40; i++)
            luaL_addchar(path, isprint((uint8_t)name[i]) ? name[i] : '?');
        luaL_addstring(path, size > 40 ? "…\"]" : "\"]");
        return;
    }
    char number[MARE__JSON_NUMBER + 2];
    size = mare__json_put_integer(number, lua_tointeger(L, key));
    luaL_addchar(path, '[');
    luaL_addlstring(path, number, size);
    luaL_addchar(path, ']');
}

// Raises an error that tells the way to the value, and what it is.
static int refuse(struct encoder *e, const char *what)
{
    luaL_Buffer path;
    lua_State *L = e->L;
    luaL_checkstack(L, 10, NULL);
    luaL_buffinit(L, &path);
    luaL_addstring(&path, "value");
    for (int i = 0; i < e->depth; i++) {
        if (e->depth > PATH_MOST && i == PATH_MOST / 2) {
            luaL_addstring(&path, " … ");
            i = e->depth - PATH_MOST / 2;
        }
        add_step(&path, L, e->tables[i] + 1);
    }
    luaL_addstring(&path, ": ");
    luaL_addstring(&path, what);
    luaL_pushresult(&path);
    return luaL_argerror(L, VALUE, lua_tostring(L, -1));
}

// ---- Bytes --------------------------------------------------------------------------------------

static void grow(struct encoder *e, size_t more)
{
    size_t capacity = e->capacity * 2;
    while (capacity < e->size + more)
        capacity *= 2;
    char *at = lua_newuserdatauv(e->L, capacity, 0);
    memcpy(at, e->at, e->size);
    lua_replace(e->L, OUT);
    e->at = at;
    e->capacity = capacity;
}

// Makes room. Refuses what is too large before it asks for memory.
static inline char *reserve(struct encoder *e, size_t more)
{
    if (more > e->capacity - e->size) {
        if (e->size > (size_t)e->limits.size)
            refuse(e, "the text has become too large");
        grow(e, more);
    }
    return e->at + e->size;
}

static inline void put(struct encoder *e, const char *bytes, size_t size)
{
    memcpy(reserve(e, size), bytes, size);
    e->size += size;
}

static inline void put_byte(struct encoder *e, char byte)
{
    *reserve(e, 1) = byte;
    e->size++;
}

static void put_line(struct encoder *e)
{
    if (e->indent < 0)
        return;
    size_t blanks = (size_t)e->indent * (size_t)e->depth;
    put_byte(e, '\n');
    memset(reserve(e, blanks), ' ', blanks);
    e->size += blanks;
}

// ---- Texts and numbers --------------------------------------------------------------------------

// Puts a string; false, and nothing useful: it is not UTF-8.
static bool put_string(struct encoder *e, const char *text, size_t size)
{
    bool beyond = false;
    size_t at = 0;
    if (size > (size_t)e->limits.size)
        refuse(e, "the text has become too large");
    char *to = reserve(e, size + 2);
    *to++ = '"';
    e->size++;
    for (;;) {
        size_t plain = mare__json_plain(text + at, size - at, &beyond);
        memcpy(to, text + at, plain);
        e->size += plain;
        at += plain;
        if (at == size)
            break;
        to = reserve(e, size - at + 1 + MARE__JSON_ESCAPE);
        size_t escaped = mare__json_put_escape(to, text[at++]);
        e->size += escaped;
        to += escaped;
    }
    put_byte(e, '"');
    struct mare__utf8 state = {0};
    return !beyond || (mare__utf8_check(&state, text, size) && mare__utf8_complete(&state));
}

static void put_number(struct encoder *e)
{
    lua_State *L = e->L;
    char *to = reserve(e, MARE__JSON_NUMBER);
    if (lua_isinteger(L, -1)) {
        e->size += mare__json_put_integer(to, lua_tointeger(L, -1));
        return;
    }
    double value = lua_tonumber(L, -1);
    if (!isfinite(value))
        refuse(e, isnan(value) ? "JSON has no NaN" : "JSON has no infinite numbers");
    e->size += mare__json_put_float(to, value);
}

// ---- Tables -------------------------------------------------------------------------------------

// The key below the value on top of the stack, a colon, and the value, which is popped.
static void put_pair(struct encoder *e, bool first)
{
    lua_State *L = e->L;
    size_t size;
    if (!first)
        put_byte(e, ',');
    put_line(e);
    const char *key = lua_tolstring(L, -2, &size);
    if (!put_string(e, key, size))
        refuse(e, "a key that is not UTF-8");
    put(e, ": ", e->indent < 0 ? 1 : 2);
    put_value(e);
    lua_pop(L, 1);
}

static int refuse_key(struct encoder *e, int key)
{
    lua_State *L = e->L;
    const char *kind = luaL_typename(L, key);
    bool number = lua_type(L, key) == LUA_TNUMBER;
    const char *shown = number ? luaL_tolstring(L, key, NULL) : NULL;
    const char *what;
    if (number)
        what = lua_pushfstring(L, "the key %s is a number, not a string", shown);
    else if (lua_type(L, key) == LUA_TSTRING)
        what = lua_pushfstring(L, "a list has the key '%s'", lua_tostring(L, key));
    else
        what = lua_pushfstring(L, "a key is a %s, not a string", kind);
    e->depth--; // the error is about the table itself
    return refuse(e, what);
}

static int compare_keys(const void *a, const void *b)
{
    const struct mare__span *one = a, *other = b;
    size_t least = one->size < other->size ? one->size : other->size;
    int order = memcmp(one->at, other->at, least);
    return order ? order : (one->size > other->size) - (one->size < other->size);
}

// Pushes a list of the table's keys. Returns how many there are.
static size_t push_keys(struct encoder *e, int table)
{
    lua_State *L = e->L;
    lua_Integer count = 0;
    lua_newtable(L);
    int list = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            refuse_key(e, lua_gettop(L));
        lua_pushvalue(L, -1);
        lua_rawseti(L, list, ++count);
    }
    return (size_t)count;
}

// The pairs of the table, in the order of the bytes of their keys. A finalizer may change the table
// meanwhile, so the list keeps the keys.
static void put_sorted(struct encoder *e, int table)
{
    lua_State *L = e->L;
    lua_pushnil(L); // where keys are, for the way to a value
    size_t count = push_keys(e, table);
    struct mare__span *keys = lua_newuserdatauv(L, (count + 1) * sizeof *keys, 0);
    for (size_t at = 0; at < count; at++, lua_pop(L, 1)) {
        lua_rawgeti(L, -2, (lua_Integer)at + 1);
        keys[at].at = lua_tolstring(L, -1, &keys[at].size);
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t at = 0; at < count; at++) {
        lua_pushlstring(L, keys[at].at, keys[at].size);
        lua_copy(L, -1, table + 1);
        lua_pushvalue(L, -1);
        lua_rawget(L, table);
        put_pair(e, at == 0);
        lua_pop(L, 1);
    }
    lua_pop(L, 3);
}

// The pairs of a table, of which the first is on the stack.
static void put_object(struct encoder *e, int table)
{
    lua_State *L = e->L;
    put_byte(e, '{');
    if (e->sorted) {
        lua_settop(L, table);
        put_sorted(e, table);
    } else {
        bool first = true;
        do {
            if (lua_type(L, -2) != LUA_TSTRING)
                refuse_key(e, table + 1);
            put_pair(e, first);
            first = false;
        } while (lua_next(L, table));
    }
    e->depth--;
    put_line(e);
    put_byte(e, '}');
}

// The members of a list whose table does not iterate in order.
static void put_list(struct encoder *e, int table)
{
    lua_State *L = e->L;
    lua_Integer most = 0, count = 0;
    lua_settop(L, table);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1)
            refuse_key(e, table + 1);
        lua_Integer index = lua_tointeger(L, -2);
        most = index > most ? index : most;
        count++;
    }
    lua_pushnil(L);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_pushinteger(L, i);
        lua_replace(L, table + 1);
        if (lua_rawgeti(L, table, i) == LUA_TNIL)
            refuse(e, "nil in the middle of a list (use json.null)");
        if (i > 1)
            put_byte(e, ',');
        put_line(e);
        put_value(e);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

// The members of a table whose first key is an integer and on the stack with its value. As long as
// they come in order, this one pass shows that it is a list; if not, it begins again.
static void put_array(struct encoder *e, int table)
{
    lua_State *L = e->L;
    size_t begin = e->size;
    lua_Integer expected = 1;
    put_byte(e, '[');
    do {
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) != expected) {
            e->size = begin + 1;
            put_list(e, table);
            break;
        }
        if (expected++ > 1)
            put_byte(e, ',');
        put_line(e);
        put_value(e);
        lua_pop(L, 1);
    } while (lua_next(L, table));
    e->depth--;
    put_line(e);
    put_byte(e, ']');
}

static void put_table(struct encoder *e)
{
    lua_State *L = e->L;
    int table = lua_gettop(L);
    if (e->depth == e->limits.depth)
        refuse(e, "tables are nested too deep (or one is in itself)");
    luaL_checkstack(L, 12, "too many tables in each other");
    bool marked = lua_getmetatable(L, table);
    if (marked) {
        marked = lua_rawequal(L, -1, MARK);
        lua_pop(L, 1);
    }
    lua_pushnil(L);
    if (!lua_next(L, table)) {
        put(e, marked ? "[]" : "{}", 2);
        return;
    }
    e->tables[e->depth++] = table;
    if (lua_type(L, -2) == LUA_TNUMBER || marked)
        put_array(e, table);
    else
        put_object(e, table);
}

static void put_value(struct encoder *e)
{
    lua_State *L = e->L;
    size_t size;
    const char *text;
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        refuse(e, "nil (use json.null)");
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1))
            put(e, "true", 4);
        else
            put(e, "false", 5);
        break;
    case LUA_TNUMBER:
        put_number(e);
        break;
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &size);
        if (!put_string(e, text, size))
            refuse(e, "a string that is not UTF-8");
        break;
    case LUA_TTABLE:
        put_table(e);
        break;
    default:
        if (lua_rawequal(L, -1, NULL_VALUE))
            put(e, "null", 4);
        else
            refuse(e, lua_pushfstring(L, "a %s cannot be JSON", luaL_typename(L, -1)));
    }
}

// ---- The function -------------------------------------------------------------------------------

static void get_options(lua_State *L, struct encoder *e)
{
    e->indent = -1;
    e->limits = mare__lua_json_limits(L, OPTIONS, "depth size indent sorted");
    if (lua_isnil(L, OPTIONS))
        return;
    if (lua_getfield(L, OPTIONS, "indent") != LUA_TNIL) {
        int is_integer;
        lua_Integer indent = lua_tointegerx(L, -1, &is_integer);
        if (lua_type(L, -1) != LUA_TNUMBER || !is_integer || indent < 0 || indent > 16)
            mare__lua_option_error(L, OPTIONS, "indent", "an integer from 0 to 16");
        e->indent = (int)indent;
    }
    if (lua_getfield(L, OPTIONS, "sorted") != LUA_TNIL && !lua_isboolean(L, -1))
        mare__lua_option_error(L, OPTIONS, "sorted", "true or false");
    e->sorted = lua_toboolean(L, -1);
    lua_pop(L, 2);
}

// encode(value [, options])
int mare__lua_json_encode(lua_State *L)
{
    struct encoder e;
    luaL_checkany(L, VALUE);
    lua_settop(L, OPTIONS);
    e.L = L;
    e.size = 0;
    e.capacity = ROOM;
    e.depth = 0;
    e.sorted = false;
    get_options(L, &e);
    e.at = lua_newuserdatauv(L, ROOM, 0);
    mare__lua_json_push_null(L);
    mare__lua_json_push_mark(L);
    lua_pushvalue(L, VALUE);
    put_value(&e);
    if (e.size > (size_t)e.limits.size)
        refuse(&e, "the text has become too large");
    lua_pushlstring(L, e.at, e.size);
    return 1;
}
