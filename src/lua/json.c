// SPDX-License-Identifier: MIT
// Lua values made from JSON, and what stands for things that Lua does not have: null, and the empty
// array. The members of an array or object wait on the stack until it is over, so that the table is
// made in the right size. If it is long, only the first BATCH wait.
//
//     … | place of the table | member | member | …     arrays
//     … | place of the table | key | value | key | …   objects
#include "lua/json.h"

static const char null_name[] = "mare.json.null", mark_name[] = "mare.json.array";

enum { DEPTH = 128, SIZE = 16 << 20, SIZE_MOST = 1 << 30 };

// ---- What Lua has not ---------------------------------------------------------------------------

static int null_to_string(lua_State *L)
{
    lua_pushliteral(L, "null");
    return 1;
}

// Null arrives as the null of the receiving state.
static int null_travels(lua_State *L)
{
    lua_pushliteral(L, "mare.json");
    lua_pushnil(L);
    return 2;
}

void mare__lua_json_push_null(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, null_name) == LUA_TUSERDATA)
        return;
    lua_pop(L, 1);
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 3);
    lua_pushliteral(L, "null");
    lua_setfield(L, -2, "__name");
    lua_pushcfunction(L, null_to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, null_travels);
    lua_setfield(L, -2, "__travel");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, null_name);
}

// It arrives as a list of the same members, marked.
static int array_travels(lua_State *L)
{
    lua_Integer count = luaL_len(L, 1);
    lua_pushliteral(L, "mare.json");
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawseti(L, -2, i);
    }
    return 2;
}

void mare__lua_json_push_mark(lua_State *L)
{
    if (luaL_newmetatable(L, mark_name)) {
        lua_pushcfunction(L, array_travels);
        lua_setfield(L, -2, "__travel");
    }
}

// array([table]): the table, marked.
static int mark_array(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    mare__lua_json_push_mark(L);
    if (lua_getmetatable(L, 1)) {
        luaL_argcheck(L, lua_rawequal(L, -1, -2), 1, "the table has another metatable");
        lua_pop(L, 1);
    }
    lua_setmetatable(L, 1);
    return 1;
}

// ---- Options ------------------------------------------------------------------------------------

static void get_limit(lua_State *L, int index, const char *name, const char *must_be,
                      lua_Integer most, lua_Integer *value)
{
    if (lua_getfield(L, index, name) != LUA_TNIL) {
        int is_integer;
        *value = lua_tointegerx(L, -1, &is_integer);
        if (lua_type(L, -1) != LUA_TNUMBER || !is_integer || *value < 1 || *value > most)
            mare__lua_option_error(L, index, name, must_be);
    }
    lua_pop(L, 1);
}

struct mare__lua_json_limits mare__lua_json_limits(lua_State *L, int index, const char *names)
{
    struct mare__lua_json_limits limits = {DEPTH, SIZE};
    if (lua_isnoneornil(L, index))
        return limits;
    mare__lua_check_options(L, index, names);
    get_limit(L, index, "depth", "an integer from 1 to 1000", MARE__JSON_DEPTH_MOST, &limits.depth);
    get_limit(L, index, "size", "an integer from 1 to 2^30", SIZE_MOST, &limits.size);
    return limits;
}

// ---- Decoding -----------------------------------------------------------------------------------

// Members of one table that wait on the stack.
enum { BATCH = 64 };

// An array or object that is open: the stack's index of its place, and how many members of an array
// the table has already; the table is made with the first of them, or at the end.
struct open {
    int place;
    lua_Integer count;
    bool made;
};

// Names of members that were met lately. In a long text the same names come again and again, and
// this saves Lua's search among all its strings. KEYS of them lie on the stack from `keys_at` on.
enum { KEYS = 64, KEY_MOST = 32, LONG_TEXT = 2048 };

struct decoder {
    lua_State *L;
    struct mare__json json;
    struct open *inner;
    int room;    // how far the stack may be used
    int keys_at; // 0: the text is short
    struct mare__span keys[KEYS];
    struct open open[MARE__JSON_DEPTH_MOST];
};

static void push_text(struct decoder *d)
{
    const struct mare__json *json = &d->json;
    if (!json->escaped) {
        lua_pushlstring(d->L, json->text.at, json->text.size);
        return;
    }
    luaL_Buffer buffer;
    char *to = luaL_buffinitsize(d->L, &buffer, json->text.size);
    luaL_pushresultsize(&buffer, mare__json_unescape(to, json->text));
}

static void push_key(struct decoder *d)
{
    lua_State *L = d->L;
    struct mare__span text = d->json.text;
    if (!d->keys_at || d->json.escaped || text.size == 0 || text.size > KEY_MOST) {
        push_text(d);
        return;
    }
    unsigned first = (uint8_t)text.at[0], last = (uint8_t)text.at[text.size - 1];
    unsigned at = (unsigned)(first * 31 + last * 7 + text.size) % KEYS;
    struct mare__span *known = &d->keys[at];
    if (known->size == text.size && memcmp(known->at, text.at, text.size) == 0) {
        lua_pushvalue(L, d->keys_at + (int)at);
        return;
    }
    lua_pushlstring(L, text.at, text.size);
    lua_copy(L, -1, d->keys_at + (int)at);
    *known = text;
}

static void make_table(struct decoder *d, struct open *open, int array, int hash)
{
    lua_createtable(d->L, array, hash);
    lua_replace(d->L, open->place);
    open->made = true;
}

// Moves the members that wait into the table.
static void settle_array(struct decoder *d, struct open *open)
{
    lua_State *L = d->L;
    int waiting = lua_gettop(L) - open->place;
    if (!open->made)
        make_table(d, open, waiting, 0);
    for (int i = waiting; i >= 1; i--)
        lua_rawseti(L, open->place, open->count + i);
    open->count += waiting;
}

static void settle_object(struct decoder *d, struct open *open)
{
    lua_State *L = d->L;
    int waiting = lua_gettop(L) - open->place;
    if (!open->made)
        make_table(d, open, 0, waiting / 2);
    for (int i = 1; i < waiting; i += 2) { // in order: of two equal names the last counts
        lua_pushvalue(L, open->place + i);
        lua_pushvalue(L, open->place + i + 1);
        lua_rawset(L, open->place);
    }
    lua_settop(L, open->place);
}

// A member was pushed: empties the stack if too much is on it.
static inline void settle_batch(struct decoder *d, bool object)
{
    struct open *open = d->inner;
    if (!open || lua_gettop(d->L) - open->place < (open->made && !object ? 1 : 2 * BATCH))
        return;
    if (object)
        settle_object(d, open);
    else
        settle_array(d, open);
}

static void begin_table(struct decoder *d)
{
    lua_State *L = d->L;
    d->inner = &d->open[d->json.depth - 1];
    lua_pushnil(L);
    *d->inner = (struct open){lua_gettop(L), 0, false};
}

static void end_table(struct decoder *d, bool object)
{
    struct open *open = d->inner;
    if (object)
        settle_object(d, open);
    else
        settle_array(d, open);
    if (!object && open->count == 0) {
        mare__lua_json_push_mark(d->L);
        lua_setmetatable(d->L, -2);
    }
    d->inner = d->json.depth ? open - 1 : NULL;
}

static inline bool is_in_object(const struct decoder *d)
{
    uint32_t inner = d->json.depth - 1;
    return d->json.depth && (d->json.objects[inner / 8] >> inner % 8 & 1);
}

// Pushes what an event says. False: it is the last.
static bool push_event(struct decoder *d, enum mare__json_event event)
{
    lua_State *L = d->L;
    switch (event) {
    case MARE__JSON_NULL:
        mare__lua_json_push_null(L);
        break;
    case MARE__JSON_FALSE:
    case MARE__JSON_TRUE:
        lua_pushboolean(L, event == MARE__JSON_TRUE);
        break;
    case MARE__JSON_INTEGER:
        lua_pushinteger(L, d->json.integer);
        break;
    case MARE__JSON_FLOAT:
        lua_pushnumber(L, d->json.number);
        break;
    case MARE__JSON_STRING:
        push_text(d);
        break;
    case MARE__JSON_KEY:
        push_key(d);
        return true;
    case MARE__JSON_ARRAY:
    case MARE__JSON_OBJECT:
        begin_table(d);
        return true;
    case MARE__JSON_ARRAY_END:
    case MARE__JSON_OBJECT_END:
        end_table(d, event == MARE__JSON_OBJECT_END);
        break;
    default:
        return false;
    }
    settle_batch(d, is_in_object(d));
    return true;
}

int mare__lua_json_blame(lua_State *L, const char *bytes, const char *at, size_t line,
                         size_t column, const char *wrong)
{
    for (const char *byte = bytes; at && byte < at; byte++) {
        column++;
        if (*byte == '\n') {
            line++;
            column = 1;
        }
    }
    lua_pushfstring(L, "line %I, column %I: %s", (lua_Integer)line, (lua_Integer)column, wrong);
    return mare__lua_fail_with(L, MARE_BADMSG);
}

int mare__lua_json_decode(lua_State *L, struct mare__span text,
                          const struct mare__lua_json_limits *limits, size_t line, size_t column)
{
    struct decoder d; // filled in as far as it is used
    enum mare__json_event event;
    d.L = L;
    d.inner = NULL;
    d.room = 0;
    d.keys_at = 0;
    if (text.size >= LONG_TEXT) {
        luaL_checkstack(L, KEYS, "too many values");
        d.keys_at = lua_gettop(L) + 1;
        lua_settop(L, d.keys_at + KEYS - 1);
        memset(d.keys, 0, sizeof d.keys);
    }
    mare__json_init(&d.json, text.at, text.size, (uint32_t)limits->depth);
    do {
        if (lua_gettop(L) + 8 > d.room) {
            luaL_checkstack(L, 64, "too many values");
            d.room = lua_gettop(L) + 64;
        }
        event = mare__json_next(&d.json);
    } while (push_event(&d, event));
    if (event == MARE__JSON_DONE)
        return 1;
    return mare__lua_json_blame(L, text.at, d.json.at, line, column, d.json.wrong);
}

// decode(text [, options])
static int decode(lua_State *L)
{
    struct mare__span text;
    text.at = luaL_checklstring(L, 1, &text.size);
    struct mare__lua_json_limits limits = mare__lua_json_limits(L, 2, "depth size");
    if (text.size > (size_t)limits.size) {
        lua_pushfstring(L, "the text has more than %I bytes", limits.size);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    return mare__lua_json_decode(L, text, &limits, 1, 1);
}

// arrive(value): the value after a message: null for nil; else a marked array.
static int arrive(lua_State *L)
{
    if (!lua_isnoneornil(L, 1))
        return mark_array(L);
    mare__lua_json_push_null(L);
    return 1;
}

int mare__lua_open_json(lua_State *L)
{
    static const luaL_Reg functions[] = {{"array", mark_array},
                                         {"arrive", arrive},
                                         {"decode", decode},
                                         {"encode", mare__lua_json_encode},
                                         {"reader", mare__lua_json_reader},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    mare__lua_json_push_null(L);
    lua_setfield(L, -2, "null");
    mare__lua_push_embedded(L, "mare._json");
    lua_setfield(L, -2, "values");
    return 1;
}
