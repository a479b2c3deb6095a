// SPDX-License-Identifier: MIT
// A program that spawns one function many times would dump it as many times. When a function is
// spawned for the second time in a row, its bytecode becomes an object that messages refer to; a
// table with weak keys finds it from the function. (Functions that are made anew for every spawn
// are other values each time, and gain nothing from being remembered.)
#include <string.h>

#include "base/alloc.h"
#include "sched/code.h"
#include "sched/handle.h"

static void destroy(struct mare__object *object)
{
    mare__free(object);
}

static int measure(lua_State *L, const void *bytes, size_t size, void *ud)
{
    (void)L, (void)bytes;
    ((struct mare__code *)ud)->length += size;
    return 0;
}

static int copy(lua_State *L, const void *bytes, size_t size, void *ud)
{
    (void)L;
    struct mare__code *code = ud;
    memcpy(code->bytes + code->length, bytes, size);
    code->length += size;
    return 0;
}

struct mare__code *mare__code_of(lua_State *L, int index)
{
    mare_process *process = mare__self(L);
    const void *body = lua_topointer(L, index);
    if (lua_iscfunction(L, index) || process->last_body != body) {
        process->last_body = body;
        return NULL;
    }
    mare__weak_table(L, MARE__REGISTRY_CODE, "k");
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) == LUA_TUSERDATA) {
        struct mare__reference *ref = lua_touserdata(L, -1);
        lua_pop(L, 2);
        return (struct mare__code *)ref->object;
    }
    lua_pop(L, 1);
    struct mare__code size = {.length = 0}, *code;
    lua_pushvalue(L, index);
    lua_dump(L, measure, &size, 0);
    code = mare__alloc(sizeof *code + size.length);
    if (code) {
        mare__object_init(&code->object, MARE__KIND_CODE, destroy);
        code->length = 0;
        lua_dump(L, copy, code, 0);
        mare__object_gains(&code->object, sizeof *code + code->length);
        mare__handle_push_new(L, code);
        lua_rawset(L, -3);
    }
    lua_pop(L, code ? 1 : 2);
    return code;
}
