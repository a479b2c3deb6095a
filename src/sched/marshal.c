// SPDX-License-Identifier: MIT
// Lua values into a message: plain ones at once, all others by a walk (walk.c).
//
// All of the walk runs in a call of its own, protected: an error, which can only be a lack of
// memory or of stack, passes through the caller only after it has given back what it had prepared.
#include "sched/marshal.h"

#include <string.h>

#include "sched/code.h"
#include "sched/libraries.h"
#include "sched/walk.h"

// What to write, and how it went.
struct writing {
    mare_message *message;
    const struct mare__marshalling *how;
    int written; // values that the message has already
    mare_err err;
};

// Writes plain values for as long as they come, which is mostly all there is. Returns how many.
static int write_plain(lua_State *L, int first, int count, mare_message *message)
{
    for (int i = 0; i < count; i++) {
        int index = first + i, type = lua_type(L, index);
        size_t length = 0, used = 0;
        const char *bytes = type == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;
        if (length > MARE__MESSAGE_MAX / 2)
            return i;
        uint8_t *room = mare__message_room(message, MARE__PACK_MAX + length);
        if (!room)
            return i;
        if (bytes) {
            used = mare__pack_string_header(room, (uint32_t)length);
            memcpy(room + used, bytes, length);
        } else if (type == LUA_TNUMBER) {
            used = lua_isinteger(L, index) ? mare__pack_integer(room, lua_tointeger(L, index))
                                           : mare__pack_float(room, lua_tonumber(L, index));
        } else if (type == LUA_TBOOLEAN) {
            used = mare__pack_boolean(room, lua_toboolean(L, index));
        } else if (type == LUA_TNIL) {
            used = mare__pack_nil(room);
        } else {
            return i;
        }
        message->length += (uint32_t)(used + length);
        message->count++;
    }
    return count;
}

// What the values can make run while they are written: see walk.c.
static bool has_callbacks(const struct mare__local *process)
{
    return process->host || process->finalizes || process->has_c_modules;
}

// job (light userdata), values -> nothing, or a message about the one that cannot travel
static int write_values(lua_State *L)
{
    struct writing *job = mare__passed(L, 1);
    int count = lua_gettop(L) - 1;
    mare_message *message = job->message;
    uint32_t length = message->length, values = message->count, which = job->how->which;
    struct mare__walk w;
    luaL_checkstack(L, 12, "too many values");
    message->rich = true;
    mare__walk_init(&w, L, message, job->how, has_callbacks(mare__self(L)));
    bool done = mare__walk(&w, job->written, count);
    if (!done && w.begins_again) {
        mare__message_truncate(message, length, values);
        mare__leaving_undo(*job->how->leaving, which);
        lua_settop(L, count + 1);
        mare__walk_init(&w, L, message, job->how, true);
        done = mare__walk(&w, job->written, count);
    }
    job->err = w.err;
    if (done)
        return 0;
    if (job->how->refused)
        *job->how->refused = luaL_typename(L, -1);
    lua_checkstack(L, 8);
    mare__walk_push_refusal(&w);
    return 1;
}

// Writes the values from the stack index `first` on, of which so many are written already.
static mare_err write_all(lua_State *L, int first, int written, int count, mare_message *message,
                          const struct mare__marshalling *how)
{
    struct writing job = {message, how, written, MARE_OK};
    int left = count - written;
    if (!lua_checkstack(L, left + 12)) {
        mare__message_clear(message);
        mare__leaving_drop(how->leaving);
        return luaL_error(L, "stack overflow (too many values)");
    }
    struct mare__pass pass;
    lua_pushcfunction(L, write_values);
    mare__pass_push(L, &pass, &job);
    for (int i = 0; i < left; i++)
        lua_pushvalue(L, first + written + i);
    int top = lua_gettop(L) - left - 2, status = lua_pcall(L, left + 1, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    if (status == LUA_OK && lua_gettop(L) == top)
        return MARE_OK;
    mare__message_clear(message);
    mare__leaving_drop(how->leaving);
    if (status != LUA_OK)
        lua_error(L);
    return job.err;
}

// Whether what has failed is worth another try: the process's limit was reached, and with the
// garbage gone there may be enough.
static bool may_succeed_now(lua_State *L, mare_err err)
{
    if (err != MARE_NOMEM || !mare__self(L)->account)
        return false;
    lua_pop(L, 1); // what is to be said of it
    lua_gc(L, LUA_GCCOLLECT);
    return true;
}

static mare_err try_values(lua_State *L, int first, int count, mare_message *message,
                           const struct mare__marshalling *how)
{
    int written = write_plain(L, first, count, message);
    return written == count ? MARE_OK : write_all(L, first, written, count, message, how);
}

mare_err mare__marshal_as(lua_State *L, int first, int count, mare_message *message,
                          const struct mare__marshalling *how)
{
    mare_err err = try_values(L, first, count, message, how);
    return may_succeed_now(L, err) ? try_values(L, first, count, message, how) : err;
}

mare_err mare__marshal(lua_State *L, int first, int count, mare_message *message, const char *what,
                       struct mare__leaving **leaving)
{
    struct mare__marshalling how = {.what = what, .leaving = leaving};
    return mare__marshal_as(L, first, count, message, &how);
}

// Whether the function at an index has no upvalue but the globals, as lua_load gives them.
static bool is_plain_body(lua_State *L, int index)
{
    int top = lua_gettop(L);
    bool plain = !lua_getupvalue(L, index, 1);
    if (!plain) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
        plain = lua_rawequal(L, -1, -2) && !lua_getupvalue(L, index, 2);
    }
    lua_settop(L, top);
    return plain;
}

static mare_err try_body(lua_State *L, int first, int count, mare_message *message,
                         struct mare__leaving **leaving, const char **refused)
{
    struct mare__marshalling how = {
        .what = "arg", .before = first - 1, .refused = refused, .leaving = leaving};
    how.code = mare__code_of(L, first);
    if (!how.code || !is_plain_body(L, first))
        return write_all(L, first, 0, count, message, &how);
    bool done = mare__message_append_handle(message, &how.code->object);
    how.code = NULL;
    if (!done)
        return write_all(L, first, 0, count, message, &how); // which says what is wrong
    message->count++;
    how.numbered = 1;
    int written = write_plain(L, first + 1, count - 1, message);
    return written == count - 1 ? MARE_OK : write_all(L, first, written + 1, count, message, &how);
}

mare_err mare__marshal_body(lua_State *L, int first, int count, mare_message *message,
                            struct mare__leaving **leaving, const char **refused)
{
    mare_err err = try_body(L, first, count, message, leaving, refused);
    return may_succeed_now(L, err) ? try_body(L, first, count, message, leaving, refused) : err;
}
