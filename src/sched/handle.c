// SPDX-License-Identifier: MIT
// References to channels, processes and buffers as Lua userdata. In one state there is one userdata
// for one object (tables with weak values find it), so that references can be compared and used as
// keys. They stand in a list of their process, so that a state can be dropped without running
// finalizers; in a host, where a program can take the finalizers away, something outside of the
// userdata does this instead.
#include "sched/handle.h"
#include "base/alloc.h"
#include "sched/leaving.h"
#include "sched/libraries.h"
#include "sched/marshal.h"

// In the registry are the tables of userdata, by number for objects that this state made, by
// address for those that came in messages; the first channels that came, which most often are all
// and need no table; and the metatables by kind.
enum {
    MADE_HERE = MARE__REGISTRY_HANDLES,
    CAME_HERE,
    CAME_FIRST,
    CAME_FIRST_END = CAME_FIRST + 3, // with the metatable of channels, four: a table's next size
    CLASSES = CAME_FIRST_END         // + kind
};

// The table on top of the stack becomes the registry's, unless a finalizer has run while it was
// made, and has made one too: then that one takes its place.
static void keep_table(lua_State *L, int key)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) {
        lua_remove(L, -2);
        return;
    }
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, key);
}

void mare__weak_table(lua_State *L, int key, const char *mode)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    keep_table(L, key);
}

// Pushes one of the tables of userdata.
static void push_table(lua_State *L, int key)
{
    mare__weak_table(L, key, "v");
}

// Numbers in the table of objects made here. One is free again when its userdata has been
// finalized, not when it was collected.
static int take_number(struct mare__local *process)
{
    struct mare__numbers *numbers = &process->numbers;
    return numbers->free_count ? numbers->free[--numbers->free_count] : (int)++numbers->highest;
}

static void give_number(struct mare__local *process, int number)
{
    struct mare__numbers *numbers = &process->numbers;
    if (numbers->free_count == numbers->room) {
        uint32_t room = numbers->room ? 2 * numbers->room : 16;
        int *free = mare__realloc(numbers->free, room * sizeof *free);
        if (!free)
            return; // one number less
        numbers->free = free;
        numbers->room = room;
    }
    numbers->free[numbers->free_count++] = number;
}

static void let_go(struct mare__local *process, struct mare__reference *ref)
{
    process->known[0] = process->known[1] = NULL; // its place may be another's next
    process->weight -= ref->object->weight;
    mare__unref(ref->object);
    ref->object = NULL;
    if (process->host && ref->outside)
        ref->outside->object = NULL;
}

// Takes the reference out of the list of its process.
static void leave_list(const struct mare__local *process, struct mare__reference *ref)
{
    if (!process->host) {
        mare__list_remove(&ref->entry); // alone if it was never filled, or finalized before
    } else if (ref->outside) {
        mare__list_remove(&ref->outside->entry);
        mare__free(ref->outside);
        ref->outside = NULL;
    }
}

static void finalize(struct mare__local *process, struct mare__reference *ref)
{
    if (ref->away) // nobody refers to it but the message
        mare__leaving_remove(ref);
    leave_list(process, ref);
    if (ref->object)
        let_go(process, ref);
    if (ref->index)
        give_number(process, ref->index);
    ref->index = 0;
}

static int handle_gc(lua_State *L)
{
    struct mare__reference *ref = mare__handle_test(L, 1);
    if (ref)
        finalize(mare__self(L), ref);
    return 0;
}

// A foreign state's extra space is not ours to rely on: coroutines that existed before have garbage
// there. So in a host each function is wrapped, and the wrapper writes it first. Its first upvalue
// is a userdata that begins with the process, or NULL after the end.
static int call_in_host(lua_State *L)
{
    struct mare__local *process = *(struct mare__local **)lua_touserdata(L, lua_upvalueindex(1));
    lua_CFunction function = lua_tocfunction(L, lua_upvalueindex(2));
    if (!process) // a finalizer that runs after ours
        return function == handle_gc ? 0 : luaL_error(L, "the runtime has ended");
    *(struct mare__local **)lua_getextraspace(L) = process;
    return function(L);
}

void mare__function_push(lua_State *L, lua_CFunction function)
{
    struct mare__local *process = mare__self(L);
    if (process->host) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_HOST);
        lua_pushcfunction(L, function);
        lua_pushcclosure(L, call_in_host, 2);
    } else {
        lua_pushcfunction(L, function);
    }
}

// To make a userdata may fail for want of memory, and then an error leaves the function that makes
// it. So the reference that it is to hold is noted in the process meanwhile, and if it comes to
// nothing, the end of the process gives it back. There is one place for that. While a userdata is
// made a finalizer may run and make another one: that needs one more place each. Returns the place,
// for `kept`.
static struct mare__pending *keep(lua_State *L, struct mare__local *process,
                                  struct mare__object *object)
{
    if (!process->pending) {
        process->pending = object;
        return NULL;
    }
    struct mare__pending *more = mare__alloc(sizeof *more);
    if (!more) {
        mare__unref(object);
        luaL_error(L, "not enough memory");
        return NULL; // not reached
    }
    *more = (struct mare__pending){process->more_pending, object};
    process->more_pending = more;
    return more;
}

// Up to this one, and with NULL all: above it may lie what errors have left.
static void drop_pending(struct mare__local *process, const struct mare__pending *last)
{
    for (bool over = false; process->more_pending && !over;) {
        struct mare__pending *top = process->more_pending;
        process->more_pending = top->next;
        if (top->object)
            mare__unref(top->object);
        over = top == last;
        mare__free(top);
    }
}

// Ends what `keep` began: a userdata holds the reference now, or, with `drop`, it is given back.
static void kept(struct mare__local *process, struct mare__pending *more, bool drop)
{
    struct mare__object *object = more ? more->object : process->pending;
    if (more) {
        more->object = NULL;
        drop_pending(process, more);
    } else {
        process->pending = NULL;
    }
    if (drop)
        mare__unref(object);
}

static void drop_reference(struct mare__reference *ref)
{
    if (ref->object)
        mare__unref(ref->object);
    ref->object = NULL;
}

// Its userdata may be gone, and is not looked at any more: see call_in_host.
static void drop_outside(struct mare__ref_outside *outside)
{
    if (outside->object)
        mare__unref(outside->object);
    mare__free(outside);
}

void mare__handles_drop(struct mare__local *process)
{
    struct mare__list *entry;
    drop_pending(process, NULL); // what errors have left; it may refer to the process itself
    if (process->pending)
        mare__unref(process->pending);
    process->pending = NULL;
    process->known[0] = process->known[1] = NULL;
    while ((entry = mare__list_first(&process->handles)) != NULL) {
        mare__list_remove(entry);
        if (process->host)
            drop_outside(MARE__ENTRY(entry, struct mare__ref_outside, entry));
        else
            drop_reference(MARE__ENTRY(entry, struct mare__reference, entry));
    }
    mare__free(process->numbers.free);
    process->numbers = (struct mare__numbers){0};
    process->weight = process->unweighed = 0;
}

// Pushes the metatable of a kind, making it on first use.
static void push_metatable(lua_State *L, struct mare__local *process, int kind)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, CLASSES + kind) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    const struct mare__class *class = &process->shared.runtime->classes[kind];
    lua_createtable(L, 0, 8);
    for (const luaL_Reg *m = class->metamethods; m->name; m++) {
        mare__function_push(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    mare__function_push(L, handle_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushstring(L, class->name);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__metatable"); // the finalizer is not the program's to remove
    lua_setfield(L, -2, "__name");
    if (class->methods) { // else it has an __index of its own
        mare__lazy_methods(L, class->methods);
        lua_setfield(L, -2, "__index");
    }
    keep_table(L, CLASSES + kind); // one only: mare__handle_methods knows its methods by it
}

// Pushes the userdata that stands for an object in one of the tables, if there is one.
static bool push_from(lua_State *L, int table, const struct mare__object *object)
{
    bool found = false;
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, table) == LUA_TTABLE) {
        int type = table == MADE_HERE ? lua_rawgeti(L, -1, object->home_index)
                                      : lua_rawgetp(L, -1, object);
        // The place may be another's by now, if the first userdata was collected.
        found = type == LUA_TUSERDATA &&
                ((struct mare__reference *)lua_touserdata(L, -1))->object == object;
        lua_remove(L, -2);
    }
    if (!found)
        lua_pop(L, 1);
    return found;
}

const luaL_Reg *mare__handle_methods(lua_State *L, int index)
{
    const luaL_Reg *methods = NULL;
    int top = lua_gettop(L);
    for (int kind = MARE__KIND_CHANNEL; kind <= MARE__KIND_CODE && !methods; kind++) {
        if (lua_rawgeti(L, LUA_REGISTRYINDEX, CLASSES + kind) == LUA_TTABLE) {
            lua_getfield(L, -1, "__index");
            if (lua_rawequal(L, -1, index))
                methods = mare__self(L)->shared.runtime->classes[kind].methods;
        }
        lua_settop(L, top);
    }
    return methods;
}

// Pushes the userdata of an object that was among the first to come, if it is.
static bool push_first(lua_State *L, const struct mare__object *object)
{
    for (int key = CAME_FIRST; key < CAME_FIRST_END; key++) {
        if (lua_rawgeti(L, LUA_REGISTRYINDEX, key) == LUA_TUSERDATA &&
            ((struct mare__reference *)lua_touserdata(L, -1))->object == object)
            return true;
        lua_pop(L, 1);
    }
    return false;
}

static bool push_existing(lua_State *L, const struct mare__local *process,
                          const struct mare__object *object)
{
    return (object->home == process->shared.id && push_from(L, MADE_HERE, object)) ||
           push_first(L, object) || push_from(L, CAME_HERE, object);
}

// A place for the first channels, or CAME_FIRST_END when they have come.
static int free_place(lua_State *L)
{
    int key = CAME_FIRST;
    for (; key < CAME_FIRST_END; key++) {
        bool free = lua_rawgeti(L, LUA_REGISTRYINDEX, key) == LUA_TNIL;
        lua_pop(L, 1);
        if (free)
            break;
    }
    return key;
}

// Registers the userdata on top of the stack, so that the object finds it when it comes again.
// False: a finalizer has run while it was made, and has received the object too. That userdata is
// on top of the stack then.
static bool enter(lua_State *L, const struct mare__local *process,
                  const struct mare__object *object)
{
    int first = object->kind == MARE__KIND_CHANNEL ? free_place(L) : CAME_FIRST_END;
    if (first == CAME_FIRST_END)
        push_table(L, CAME_HERE); // from here on no finalizer runs
    else
        lua_pushnil(L);
    if (push_existing(L, process, object)) {
        lua_remove(L, -2);
        return false;
    }
    lua_pushvalue(L, -2);
    if (first < CAME_FIRST_END) // it stays for the life of the process, which costs little
        lua_rawseti(L, LUA_REGISTRYINDEX, first);
    else
        lua_rawsetp(L, -2, object);
    lua_pop(L, 1);
    return true;
}

static void make_outside(lua_State *L, struct mare__local *process, struct mare__reference *ref)
{
    struct mare__ref_outside *outside = mare__alloc_zero(sizeof *outside);
    if (!outside) {
        luaL_error(L, "not enough memory");
        return;
    }
    mare__list_append(&process->handles, &outside->entry);
    ref->outside = outside;
}

// Pushes a new userdata for a kind of object, empty.
static struct mare__reference *push_userdata(lua_State *L, struct mare__local *process, int kind)
{
    if (process->closing)
        luaL_error(L, "no reference can be made any more: the process has ended");
    push_metatable(L, process, kind);
    struct mare__reference *ref = lua_newuserdatauv(L, sizeof *ref, 0);
    *ref = (struct mare__reference){.magic = MARE__REF_MAGIC + (uint64_t)kind};
    if (process->host)
        make_outside(L, process, ref);
    else
        mare__list_init(&ref->entry);
    lua_rotate(L, -2, 1);
    lua_setmetatable(L, -2);
    return ref;
}

// The last step, which cannot fail: from here on the userdata holds the reference.
static void fill(struct mare__local *process, struct mare__reference *ref,
                 struct mare__object *object, struct mare__pending *more)
{
    ref->object = object;
    process->weight += object->weight;
    process->unweighed += object->weight;
    if (process->host)
        ref->outside->object = object;
    else
        mare__list_append(&process->handles, &ref->entry);
    kept(process, more, false);
}

// Tells the collector of the memory behind userdata, which it does not see: it would take its time
// with a hundred bytes that hold a megabyte. A generational one does not look at what has grown
// old, so when there is much more than after the last time, everything is collected.
static void weigh(lua_State *L, struct mare__local *process)
{
    enum { STEP = 4096, LEAST = 1 << 20 };
    if (process->unweighed < STEP)
        return;
    int kilobytes = (int)(process->unweighed / 1024);
    process->unweighed = 0;
    if (!lua_gc(L, LUA_GCISRUNNING))
        return;
    if (process->weight <= process->weight_limit || process->weight < LEAST) {
        lua_gc(L, LUA_GCSTEP, kilobytes);
    } else {
        lua_gc(L, LUA_GCCOLLECT);
        uint64_t heap = (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024;
        process->weight_limit = 2 * process->weight + heap;
    }
}

bool mare__handle_affords(lua_State *L, size_t bytes)
{
    struct mare__account *account = mare__self(L)->account;
    if (!account || bytes <= mare__account_left(account))
        return true;
    lua_gc(L, LUA_GCCOLLECT); // what is garbage has not been given back yet
    return bytes <= mare__account_left(account);
}

// Makes an object that is kept meanwhile the process's to pay for.
static void charge(lua_State *L, struct mare__local *process, struct mare__object *object,
                   struct mare__pending *more)
{
    if (mare__object_charge(object, process->account) ||
        (mare__handle_affords(L, object->weight) && mare__object_charge(object, process->account)))
        return;
    kept(process, more, true);
    lua_pushliteral(L, "not enough memory"); // as Lua says it
    lua_error(L);
}

// Whether its userdata is still found by its object. What is about to be finalized is not: Lua
// takes it out of weak tables before.
static bool is_entered(lua_State *L, const struct mare__reference *ref)
{
    int top = lua_gettop(L);
    bool found = ref->object &&
                 (ref->index ? push_from(L, MADE_HERE, ref->object)
                             : push_first(L, ref->object) || push_from(L, CAME_HERE, ref->object));
    found = found && lua_touserdata(L, -1) == ref;
    lua_settop(L, top);
    return found;
}

void mare__handles_salvage(struct mare__local *process)
{
    if (process->closing) { // nothing was freed yet, but everything will be
        mare__handles_drop(process);
        return;
    }
    struct mare__list *next;
    for (struct mare__list *at = process->handles.next; at != &process->handles; at = next) {
        struct mare__reference *ref = MARE__ENTRY(at, struct mare__reference, entry);
        next = at->next;
        if (!is_entered(process->state, ref))
            finalize(process, ref);
    }
}

// Before it makes room for the call, Lua has pushed the finalizer and the userdata. Which coroutine
// that is cannot be asked of Lua: it is one of these.
void mare__handles_refused(struct mare__local *process)
{
    lua_State *const running[] = {process->current, process->routine, process->state};
    for (size_t i = 0; i < sizeof running / sizeof *running; i++) {
        lua_State *L = running[i];
        if (!L || lua_gettop(L) < 2 || lua_tocfunction(L, -2) != handle_gc)
            continue;
        struct mare__reference *ref = mare__handle_test(L, -1);
        if (ref)
            finalize(process, ref);
    }
}

void mare__handle_push(lua_State *L, void *object)
{
    struct mare__local *process = mare__self(L);
    struct mare__pending *more = keep(L, process, object);
    if (push_existing(L, process, object)) {
        kept(process, more, true);
        return;
    }
    struct mare__reference *ref = push_userdata(L, process, ((struct mare__object *)object)->kind);
    if (!enter(L, process, object)) {
        lua_remove(L, -2); // ours stays empty
        kept(process, more, true);
        return;
    }
    fill(process, ref, object, more);
    weigh(L, process);
}

void mare__handle_push_new(lua_State *L, void *made)
{
    struct mare__local *process = mare__self(L);
    struct mare__object *object = made;
    struct mare__pending *more = keep(L, process, object);
    if (__builtin_expect(process->account != NULL, 0))
        charge(L, process, object, more);
    struct mare__reference *ref = push_userdata(L, process, object->kind);
    push_table(L, MADE_HERE);
    ref->index = take_number(process);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, ref->index);
    lua_pop(L, 1);
    object->home = process->shared.id;
    object->home_index = ref->index;
    fill(process, ref, object, more);
    weigh(L, process);
}

void mare__handle_push_owned(lua_State *L, void *object)
{
    struct mare__local *process = mare__self(L);
    struct mare__object *buffer = object;
    struct mare__pending *more = keep(L, process, buffer);
    bool again = push_existing(L, process, buffer); // for the second time in one message
    struct mare__reference *ref = again ? lua_touserdata(L, -1) : NULL;
    if (again && ref->away) { // no: a routine that waits to send it does not know yet that it did
        mare__leaving_remove(ref);
        let_go(process, ref);
        lua_pop(L, 1);
        again = false;
    }
    if (again) {
        kept(process, more, true);
    } else if (!atomic_exchange(&buffer->taken, true)) {
        if (__builtin_expect(buffer->account != process->account, 0))
            charge(L, process, buffer, more);
        kept(process, more, false);
        mare__handle_push(L, object);
    } else { // somebody who got the same message had it first: as one that was sent away
        push_userdata(L, process, buffer->kind);
        kept(process, more, true);
    }
}

void mare__handle_give(lua_State *L, struct mare__reference *ref)
{
    if (!ref->object)
        return;
    if (!ref->index) { // another object may get its address
        push_table(L, CAME_HERE);
        lua_pushnil(L);
        lua_rawsetp(L, -2, ref->object);
        lua_pop(L, 1);
    }
    let_go(mare__self(L), ref);
}

void mare__handle_forget(lua_State *L, struct mare__reference *ref)
{
    if (ref->object)
        let_go(mare__self(L), ref);
}

struct mare__reference *mare__handle_test(lua_State *L, int index)
{
    struct mare__reference *ref = NULL;
    for (int kind = MARE__KIND_CHANNEL; kind <= MARE__KIND_CODE && !ref; kind++)
        ref = mare__handle_of(L, index, (enum mare__kind)kind);
    return ref;
}
