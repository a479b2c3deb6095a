// SPDX-License-Identifier: MIT
// Checks arguments and reports failures, for all bindings in the same words.
#include "lua/binding.h"
#include "sched/routine.h"

#include <math.h>
#include <string.h>

int mare__lua_refuse(lua_State *L)
{
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

int mare__lua_fail_with(lua_State *L, mare_err err)
{
    lua_pushnil(L);
    lua_insert(L, -2);
    lua_pushstring(L, mare__err_word(err));
    return 3;
}

int mare__lua_step(lua_State *L, int results)
{
    if (results != 3)
        return results;
    if (strcmp(lua_tostring(L, -1), "closed") != 0)
        return luaL_error(L, "%s", lua_tostring(L, -2));
    lua_pushnil(L);
    return 1;
}

// Pushes the innermost line of the program, as luaL_where does; lines of our own modules do not
// count.
static void push_where(lua_State *L)
{
    lua_Debug frame;
    for (int level = 1; lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline > 0 && strncmp(frame.source, "=mare.", 6) != 0) {
            lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
            return;
        }
    }
    luaL_where(L, 1);
}

void mare__lua_raise_unexpected(lua_State *L, mare_err err)
{
    if (err == MARE_DEADLOCK) {
        push_where(L);
        lua_pushfstring(L, "%sdeadlock: %s", lua_tostring(L, -1), mare_strerror(err));
        lua_error(L);
    }
    if (err == MARE_CANCELLED && mare__routine_is_main(mare__self(L)))
        luaL_error(L, "interrupted!");
}

int mare__lua_fail(lua_State *L, mare_err err)
{
    mare__lua_raise_unexpected(L, err);
    if (err == MARE_NOMEM && mare__self(L)->account) // the process's limit: report it as Lua's lack
                                                     // of memory
        mare__lua_no_memory(L);
    lua_pushstring(L, mare_strerror(err));
    return mare__lua_fail_with(L, err);
}

_Noreturn void mare__lua_no_memory(lua_State *L)
{
    lua_pushliteral(L, "not enough memory"); // as Lua says it, which keeps this string for it
    lua_error(L);
    __builtin_unreachable();
}

static int push_span(lua_State *L)
{
    const struct mare__span *span = mare__passed(L, 1);
    lua_pushlstring(L, span->at, span->size);
    return 1;
}

bool mare__lua_try_push(lua_State *L, const void *bytes, size_t size)
{
    const struct mare__span span = {size ? bytes : "", size};
    struct mare__pass pass;
    lua_pushcfunction(L, push_span);
    mare__pass_push(L, &pass, &span);
    int status = lua_pcall(L, 1, 1, 0);
    mare__pass_end(L, &pass);
    return status == LUA_OK;
}

void mare__lua_push_bytes(lua_State *L, struct mare__bytes *bytes)
{
    bool pushed = mare__lua_try_push(L, bytes->at, bytes->size);
    mare__bytes_fini(bytes);
    if (!pushed)
        lua_error(L);
}

// Raises an error for a value that is no usable reference: it is something else, or its finalizer
// has run.
_Noreturn void mare__lua_no_reference(lua_State *L, int index, const void *ref, const char *what)
{
    if (!ref)
        luaL_typeerror(L, index, what);
    luaL_argerror(L, index, "the reference was finalized");
    __builtin_unreachable();
}

struct mare__reference *mare__lua_reference(lua_State *L, int index, enum mare__kind kind)
{
    struct mare__reference *ref = mare__handle_of(L, index, kind);
    if (!ref)
        mare__lua_no_reference(L, index, ref, mare__self(L)->shared.runtime->classes[kind].name);
    return ref;
}

static bool is_among(const char *word, const char *names)
{
    size_t length = strlen(word);
    for (const char *name = names; *name; name += strspn(name, " ")) {
        size_t size = strcspn(name, " ");
        if (size == length && memcmp(name, word, size) == 0)
            return true;
        name += size;
    }
    return false;
}

void mare__lua_check_options(lua_State *L, int index, const char *names)
{
    luaL_checktype(L, index, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        bool named = lua_type(L, -2) == LUA_TSTRING;
        if (named && is_among(lua_tostring(L, -2), names))
            continue;
        const char *option = luaL_tolstring(L, -2, NULL);
        luaL_argerror(L, index, lua_pushfstring(L, "unknown option '%s'", option));
    }
}

int mare__lua_option_error(lua_State *L, int index, const char *name, const char *must_be)
{
    return luaL_argerror(L, index, lua_pushfstring(L, "option '%s' must be %s", name, must_be));
}

mare_channel *mare__lua_channel_unknown(lua_State *L, int index)
{
    struct mare__local *process = mare__self(L);
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_CHANNEL);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "channel");
    if (!process->host) { // a host may collect it silently, and reuse its memory
        process->known[0] = process->known[1];
        process->known[1] = ref;
    }
    return (mare_channel *)ref->object;
}

mare_process *mare__lua_process(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_PROCESS);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "process");
    return (mare_process *)ref->object;
}

const char *mare__lua_name(lua_State *L, int index)
{
    size_t length;
    const char *name = luaL_checklstring(L, index, &length);
    luaL_argcheck(L, strlen(name) == length, index, "a name cannot contain zero bytes");
    return name;
}

uint64_t mare__lua_deadline(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return MARE_FOREVER;
    uint64_t *deadline = luaL_testudata(L, index, "mare.deadline");
    if (deadline)
        return *deadline;
    if (lua_type(L, index) != LUA_TNUMBER)
        luaL_typeerror(L, index, "number of seconds or deadline");
    double seconds = lua_tonumber(L, index);
    luaL_argcheck(L, !isnan(seconds), index, "a timeout cannot be NaN");
    if (seconds <= 0)
        return 0;
    uint64_t now = mare__now(mare__self(L)->shared.runtime);
    return seconds > 1e9 ? MARE_FOREVER : now + (uint64_t)(seconds * 1e9);
}

char mare__lua_kind_of_read(lua_State *L, int index, size_t *number)
{
    *number = 0;
    if (lua_isnoneornil(L, index))
        return 's';
    if (lua_type(L, index) == LUA_TNUMBER) {
        luaL_argcheck(L, luaL_checkinteger(L, index) > 0, index, "a number of bytes is positive");
        *number = (size_t)lua_tointeger(L, index);
        return 'n';
    }
    const char *what = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    if (strcmp(what, "l") != 0 && strcmp(what, "L") != 0 && strcmp(what, "a") != 0)
        luaL_argerror(L, index, "expected a number of bytes, \"l\", \"L\" or \"a\"");
    return *what;
}
