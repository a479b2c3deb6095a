// SPDX-License-Identifier: MIT
// References to channels, processes and buffers as Lua userdata. In one state there is one userdata for one object (a
// table with weak values finds it), so that references can be compared and used as keys. They stand in a list of their
// process, so that a state can be dropped without running finalizers.
#include "sched/sched.h"

// Their addresses are keys of the registry: of the table of userdata, and of the metatables by kind.
static const char registered, class_keys[5];

static int handle_gc(lua_State *L)
{
    struct mare__ref_link *ref = lua_touserdata(L, 1);
    mare__list_remove(&ref->link);
    if (ref->object)
        mare__unref(ref->object);
    ref->object = NULL;
    return 0;
}

// A foreign state's extra space is not ours to rely on: coroutines that existed before have garbage there. So in a host
// each function is wrapped, and the wrapper writes it first.
static int call_in_host(lua_State *L)
{
    *(mare_process **)lua_getextraspace(L) = lua_touserdata(L, lua_upvalueindex(1));
    return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

void mare__function_push(lua_State *L, lua_CFunction function)
{
    mare_process *process = mare__self(L);
    if (process->host) {
        lua_pushlightuserdata(L, process);
        lua_pushcfunction(L, function);
        lua_pushcclosure(L, call_in_host, 2);
    } else {
        lua_pushcfunction(L, function);
    }
}

void mare__handles_drop(mare_process *process)
{
    struct mare__list *link;
    while ((link = mare__list_first(&process->handles)) != NULL) {
        struct mare__ref_link *ref = MARE__ENTRY(link, struct mare__ref_link, link);
        mare__list_remove(link);
        if (ref->object)
            mare__unref(ref->object);
        ref->object = NULL;
    }
}

// Pushes the metatable of a kind, making it on first use.
static void push_metatable(lua_State *L, mare_process *process, int kind)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &class_keys[kind]) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    const struct mare__class *class = &process->runtime->classes[kind];
    lua_createtable(L, 0, 8);
    for (const luaL_Reg *m = class->metamethods; m->name; m++) {
        mare__function_push(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    lua_pushcfunction(L, handle_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushstring(L, class->name);
    lua_setfield(L, -2, "__name");
    mare__lazy_table(L, class->methods, false);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &class_keys[kind]);
}

static void push_registered(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &registered) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &registered);
}

// Pushes the userdata that stands for an object already, if there is one.
static bool push_existing(lua_State *L, const struct mare__object *object)
{
    bool found = false;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &registered) == LUA_TTABLE) {
        found = lua_rawgetp(L, -1, object) == LUA_TUSERDATA;
        lua_remove(L, -2);
    }
    if (!found)
        lua_pop(L, 1);
    return found;
}

void mare__handle_push(lua_State *L, void *object)
{
    mare_process *process = mare__self(L);
    struct mare__object *o = object;
    if (push_existing(L, o)) {
        mare__unref(o);
        return;
    }
    // First of all, so that an error cannot lose the reference: a userdata that holds it.
    struct mare__ref_link *ref = lua_newuserdatauv(L, sizeof *ref, 0);
    *ref = (struct mare__ref_link){.magic = MARE__REF_MAGIC + o->kind, .object = o};
    mare__list_append(&process->handles, &ref->link);
    push_metatable(L, process, o->kind);
    lua_setmetatable(L, -2);
    push_registered(L);
    lua_pushvalue(L, -2);
    lua_rawsetp(L, -2, o);
    lua_pop(L, 1);
}

void mare__handle_leaves(lua_State *L, struct mare__ref_link *ref)
{
    mare_process *process = mare__self(L);
    ref->next_leaving = process->leaving;
    ref->leaving_case = process->leaving_case;
    process->leaving = ref;
}

void mare__handles_left(lua_State *L, uint32_t which, bool sent)
{
    mare_process *process = mare__self(L);
    for (struct mare__ref_link *ref = process->leaving; ref; ref = ref->next_leaving) {
        if (!sent || ref->leaving_case != which || !ref->object)
            continue;
        push_registered(L);
        lua_pushnil(L);
        lua_rawsetp(L, -2, ref->object);
        lua_pop(L, 1);
        mare__unref(ref->object);
        ref->object = NULL;
    }
    process->leaving = NULL;
    process->leaving_case = 0;
}

struct mare__ref_link *mare__handle_test(lua_State *L, int index)
{
    struct mare__ref_link *ref = NULL;
    for (int kind = MARE__KIND_CHANNEL; kind <= MARE__KIND_BUFFER && !ref; kind++)
        ref = mare__handle_of(L, index, (enum mare__kind)kind);
    return ref;
}
