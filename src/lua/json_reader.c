// SPDX-License-Identifier: MIT
// Values of JSON out of bytes that come in parts: one after the other, or each member of one large
// array or object. Only bytes that were not taken yet are kept. A value is decoded when all of it
// is here.
//
//     bytes:  | taken | the value that has begun ── scanned ──▶ | not looked at |
#include "base/alloc.h"
#include "lua/json.h"

static const char metatable[] = "mare.json.reader";

// What comes next. Outside of a document that is taken apart it is always VALUE.
enum expects { OUTSIDE, FIRST_VALUE, VALUE, FIRST_KEY, KEY, COLON, AFTER };

struct reader {
    struct mare__bytes bytes;
    size_t taken, scanned;
    size_t line, column; // of the first byte that is not taken
    struct mare__lua_json_limits limits;
    struct mare__json_split split;
    enum expects expects;
    bool each, object; // members are wanted; the document is an object
    bool begun, ended, failed;
};

static struct reader *check(lua_State *L)
{
    return luaL_checkudata(L, 1, metatable);
}

static void take(struct reader *r, size_t count)
{
    for (size_t end = r->taken + count; r->taken < end; r->taken++) {
        r->column++;
        if (r->bytes.at[r->taken] == '\n') {
            r->line++;
            r->column = 1;
        }
    }
}

// reader:feed(bytes): true
static int feed(lua_State *L)
{
    struct reader *r = check(L);
    size_t size;
    const char *bytes = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, !r->ended, 1, "nothing can follow the end");
    if (r->taken > 0) {
        size_t left = r->bytes.size - r->taken;
        memmove(r->bytes.at, r->bytes.at + r->taken, left);
        r->bytes.size = left;
        r->scanned -= r->taken;
        r->taken = 0;
    }
    if (mare__bytes_add(&r->bytes, bytes, size))
        return mare__lua_fail(L, MARE_NOMEM);
    lua_pushboolean(L, 1);
    return 1;
}

// reader:finish(): says that nothing follows.
static int finish(lua_State *L)
{
    check(L)->ended = true;
    return 0;
}

static int fail(lua_State *L, struct reader *r, const char *wrong)
{
    r->failed = true;
    return mare__lua_json_blame(L, "", NULL, r->line, r->column, wrong);
}

// Skips blanks. False: there is nothing else.
static bool skip_blanks(struct reader *r)
{
    size_t at = r->taken;
    while (at < r->bytes.size && mare__json_blank(r->bytes.at[at]))
        at++;
    take(r, at - r->taken);
    return r->taken < r->bytes.size;
}

// Nothing can be returned now: more bytes are needed, or the text has ended, properly or not.
static int give_nothing(lua_State *L, struct reader *r)
{
    if (r->ended && (r->begun || r->expects != OUTSIDE))
        return fail(L, r, "it ends before it is complete");
    lua_pushnil(L);
    return 1;
}

// Pushes the next value or key if all of it is here: 1. Else 0; or 3: nil, message, code.
static int give_value(lua_State *L, struct reader *r)
{
    bool over;
    if (!r->begun)
        r->scanned = r->taken;
    r->begun = true;
    r->scanned +=
        mare__json_split(&r->split, r->bytes.at + r->scanned, r->bytes.size - r->scanned, &over);
    size_t size = r->scanned - r->taken;
    if (size > (size_t)r->limits.size) {
        r->failed = true;
        lua_pushfstring(L, "line %I: a value has more than %I bytes", (lua_Integer)r->line,
                        r->limits.size);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    if (!over && !(r->ended && mare__json_split_end(&r->split)))
        return 0;
    struct mare__span text = {r->bytes.at + r->taken, size};
    int results = mare__lua_json_decode(L, text, &r->limits, r->line, r->column);
    r->failed = results > 1;
    if (!r->failed)
        take(r, size);
    r->begun = false;
    r->split = (struct mare__json_split){0};
    return results;
}

// Begins to take a document apart, at its first byte.
static bool begin(struct reader *r, char byte)
{
    if (byte != '[' && byte != '{')
        return false;
    r->object = byte == '{';
    r->expects = r->object ? FIRST_KEY : FIRST_VALUE;
    take(r, 1);
    return true;
}

// Skips what stands between members. True: a value or key is next; false: look again.
static bool pass(struct reader *r, char byte, const char **wrong)
{
    char closing = r->object ? '}' : ']';
    switch (r->expects) {
    case OUTSIDE:
        if (!begin(r, byte))
            *wrong = "an array or an object expected";
        return false;
    case COLON:
    case AFTER:
        if (byte == (r->expects == COLON ? ':' : ',')) {
            r->expects = r->expects == COLON || !r->object ? VALUE : KEY;
            take(r, 1);
        } else if (r->expects == AFTER && byte == closing) {
            r->expects = OUTSIDE;
            take(r, 1);
        } else {
            *wrong = r->expects == COLON ? "':' expected"
                     : r->object         ? "',' or '}' expected"
                                         : "',' or ']' expected";
        }
        return false;
    case FIRST_VALUE:
    case FIRST_KEY:
        if (byte == closing && !r->begun) {
            r->expects = OUTSIDE;
            take(r, 1);
            return false;
        }
        break;
    default:
        break;
    }
    if ((r->expects == KEY || r->expects == FIRST_KEY) && byte != '"')
        *wrong = "a key in quotes expected";
    return true;
}

// The next member. If its value is not here yet, its key is kept in the reader.
static int next_member(lua_State *L, struct reader *r)
{
    while (skip_blanks(r)) {
        const char *wrong = NULL;
        bool there = pass(r, r->bytes.at[r->taken], &wrong);
        if (wrong)
            return fail(L, r, wrong);
        if (!there)
            continue;
        int results = give_value(L, r);
        if (results != 1)
            return results ? results : give_nothing(L, r);
        if (r->expects == KEY || r->expects == FIRST_KEY) {
            lua_setiuservalue(L, 1, 1);
            r->expects = COLON;
            continue;
        }
        r->expects = AFTER;
        if (!r->object)
            return 1;
        lua_getiuservalue(L, 1, 1);
        return 2;
    }
    return give_nothing(L, r);
}

// reader:next(): the next value, and the key of a member; nil, if more must be fed or it is over;
// or nil, message, code.
static int next(lua_State *L)
{
    struct reader *r = check(L);
    lua_settop(L, 1);
    luaL_argcheck(L, !r->failed, 1, "the text was not JSON, and nothing can be read after it");
    if (r->each)
        return next_member(L, r);
    if (!skip_blanks(r))
        return give_nothing(L, r);
    int results = give_value(L, r);
    return results ? results : give_nothing(L, r);
}

static int reader_gc(lua_State *L)
{
    mare__bytes_fini(&check(L)->bytes);
    return 0;
}

// reader([options])
int mare__lua_json_reader(lua_State *L)
{
    static const luaL_Reg private_methods[] = {
        {"feed", feed}, {"finish", finish}, {"next", next}, {NULL, NULL}};
    lua_settop(L, 1);
    struct mare__lua_json_limits limits = mare__lua_json_limits(L, 1, "depth size each");
    bool each = false;
    if (!lua_isnil(L, 1)) {
        if (lua_getfield(L, 1, "each") != LUA_TNIL && !lua_isboolean(L, -1))
            mare__lua_option_error(L, 1, "each", "true or false");
        each = lua_toboolean(L, -1);
    }
    struct reader *r = lua_newuserdatauv(L, sizeof *r, 1);
    *r = (struct reader){.line = 1, .column = 1, .limits = limits, .each = each};
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, reader_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
}
