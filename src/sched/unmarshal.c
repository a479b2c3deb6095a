// SPDX-License-Identifier: MIT
// A message back into Lua values, on the receiver's own thread and in its own memory. As in
// walk.c there is no recursion: a frame for each container that is being filled, the container
// itself on the Lua stack.
//
// Modules and what they do with values that arrive (`arrive`) are Lua code: it may do anything, and
// in a process that starts it may also wait. So the reader is a machine that runs until it needs a
// call, and goes on after it, in a continuation if the call has yielded:
//
//     step --> a call is needed: function and argument are on top --> called --> step --> ... -->
//     end
//
// Messages that this program made may hold code and references. Those of a peer are read as if an
// enemy had written them: every length, index and count is checked, and bytecode is taken only if
// the link says so (MARE__TRUST_EQUAL); its references were made by the node, not by the bytes.
// A stranger's (mare_message_parse) are plain values alone.
#include <string.h>

#include "base/alloc.h"
#include "sched/code.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/marshal.h"

enum frame_kind { ARRAY, MAP, FUNCTION, TRAVEL, OBJECT };

struct frame {
    uint8_t kind;
    bool mixed;         // ARRAY: a map for the same table follows
    bool has_key;       // MAP: a key waits on the stack for its value
    uint32_t remaining; // elements or pairs
    uint32_t next;      // index of the next element or upvalue
    uint32_t end;       // of the ext that it is in: offset where it must end; or 0
    int index;          // of the container on the stack
};

// What the value is that a call returns.
enum after {
    NO_CALL,
    MODULE_IS_VALUE,    // the value itself
    MODULE_HAS_MEMBER,  // the value is one of its functions, whose name comes next
    MODULE_LETS_ARRIVE, // what comes next is for its `arrive`
    MODULE_HAS_CLASS,   // the name of a metatable comes next, then the table that gets it
    HAS_ARRIVED         // the value is what the frame stands for
};

struct mare__reader {
    lua_State *L;
    const mare_message *message;
    const uint8_t *data, *cursor, *end;
    struct frame *frames, few_frames[MARE__MARSHAL_FRAMES];
    uint32_t depth, room;
    uint32_t left; // values of the message that are still to be read
    uint64_t owed; // elements, keys and values that open tables still lack
    uint32_t numbered;
    uint8_t after;      // enum after
    uint32_t after_end; // of the ext in which the call's value comes
    int scratch;        // stack index of what `frames` points to once there are many
    int numbers;        // stack index of the table of numbered objects, if there are repeats
    int function;       // stack index of the function whose code the message begins with, or 0
    int (*then)(lua_State *L, int count); // or NULL
    mare_message own;                     // of one that outlives its call
};

static _Noreturn void malformed(struct mare__reader *r)
{
    luaL_error(r->L, "malformed message");
    __builtin_unreachable();
}

static struct mare__token next_token(struct mare__reader *r)
{
    struct mare__token token;
    if (!mare__unpack(&r->cursor, r->end, &token))
        malformed(r);
    return token;
}

// A string's bytes; the cursor goes past them.
static const char *next_string(struct mare__reader *r, uint32_t *length)
{
    struct mare__token token = next_token(r);
    if (token.kind != MARE__TOKEN_STRING)
        malformed(r);
    const char *bytes = (const char *)r->cursor;
    r->cursor += token.size;
    *length = token.size;
    return bytes;
}

static void must_end_at(struct mare__reader *r, uint32_t end)
{
    if (r->cursor != r->data + end)
        malformed(r);
}

static struct frame *push_frame(struct mare__reader *r, enum frame_kind kind, uint32_t remaining,
                                uint32_t end)
{
    luaL_checkstack(r->L, 8, "message nested too deep");
    if (r->depth == r->room) {
        struct frame *frames = lua_newuserdatauv(r->L, r->room * 4 * sizeof *frames, 0);
        memcpy(frames, r->frames, r->room * sizeof *frames);
        lua_replace(r->L, r->scratch);
        r->frames = frames;
        r->room *= 4;
    }
    struct frame *frame = &r->frames[r->depth++];
    *frame = (struct frame){.kind = (uint8_t)kind,
                            .remaining = remaining,
                            .next = 1,
                            .end = end,
                            .index = lua_gettop(r->L)};
    return frame;
}

// Gives the table or function on top of the stack its number.
static void number(struct mare__reader *r)
{
    if (r->numbers) {
        lua_pushvalue(r->L, -1);
        lua_rawseti(r->L, r->numbers, (lua_Integer)r->numbered);
    }
    r->numbered++;
}

// Pushes the object with a number.
static void push_number(struct mare__reader *r, uint32_t which)
{
    if (!r->numbers || which >= r->numbered)
        malformed(r);
    lua_rawgeti(r->L, r->numbers, (lua_Integer)which);
}

// So many objects are still to come: each takes a byte at least, so memory stays in proportion to
// the bytes however deep tables are in each other.
static void owe(struct mare__reader *r, uint64_t objects)
{
    r->owed += objects;
    if (r->owed > (uint64_t)(r->end - r->cursor))
        malformed(r);
}

static void open_table(struct mare__reader *r, enum frame_kind kind, uint32_t count, bool mixed,
                       uint32_t end)
{
    bool array = kind == ARRAY;
    owe(r, array ? count : 2 * (uint64_t)count);
    lua_createtable(r->L, array ? (int)count : 0, array ? 0 : (int)count);
    number(r);
    push_frame(r, kind, count, end)->mixed = mixed;
}

static void open_function(struct mare__reader *r, uint32_t end)
{
    struct mare__token token = next_token(r);
    const uint8_t *bytes = r->cursor;
    size_t length = token.size;
    r->cursor += token.size;
    if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_HANDLE &&
        token.size == sizeof(struct mare__handle) && r->message->trust == MARE__TRUST_OWN) {
        struct mare__code *code = (struct mare__code *)mare__handle_object(bytes);
        bytes = (const uint8_t *)code->bytes;
        length = code->length;
    } else if (token.kind != MARE__TOKEN_STRING) {
        malformed(r);
    }
    if (r->message->trust > MARE__TRUST_EQUAL)
        luaL_error(r->L, "a function came from a peer that is not trusted with bytecode");
    if (luaL_loadbufferx(r->L, (const char *)bytes, length, "=?", "b") != LUA_OK)
        lua_error(r->L);
    number(r);
    push_frame(r, FUNCTION, 0, end);
}

// An upvalue shared with a function that was read before.
static void join_upvalue(struct mare__reader *r, const uint8_t *payload)
{
    struct frame *frame = r->depth ? &r->frames[r->depth - 1] : NULL;
    if (!frame || frame->kind != FUNCTION)
        malformed(r);
    push_number(r, mare__get32(payload));
    if (!lua_isfunction(r->L, -1) || lua_iscfunction(r->L, -1) ||
        !lua_upvalueid(r->L, -1, payload[4]) ||
        !lua_upvalueid(r->L, frame->index, (int)frame->next))
        malformed(r);
    lua_upvaluejoin(r->L, frame->index, (int)frame->next++, -1, payload[4]);
    lua_pop(r->L, 1);
}

// The name of a module is on top. A peer may name those that this process has loaded, and those of
// ours; it may not choose which files are run here.
static void must_be_at_hand(lua_State *L)
{
    const char *name = lua_tostring(L, -1);
    bool loaded = false;
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) { // or nothing yet is
        lua_pushvalue(L, -2);
        loaded = lua_rawget(L, -2) != LUA_TNIL;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (!loaded && !mare__lazy_has(L, name))
        luaL_error(L, "another node refers to the module '%s', which is not loaded here", name);
}

// What `require` returns for the name that comes next, after a call if it is not at hand. Returns
// whether it is on top.
static bool ask_module(struct mare__reader *r, enum after after, uint32_t end)
{
    lua_State *L = r->L;
    uint32_t length;
    const char *name = next_string(r, &length);
    if (length == 2 && memcmp(name, LUA_GNAME, 2) == 0) {
        lua_pushglobaltable(L);
        return true;
    }
    lua_pushcfunction(L, mare__self(L)->host ? mare__host_require : mare__require);
    lua_pushlstring(L, name, length);
    if (r->message->trust > MARE__TRUST_EQUAL)
        must_be_at_hand(L);
    r->after = (uint8_t)after;
    r->after_end = end;
    return false;
}

// A module is on top: puts the member in its place.
static void take_member(struct mare__reader *r, uint32_t end)
{
    uint32_t length;
    const char *name = next_string(r, &length);
    must_end_at(r, end);
    lua_pushlstring(r->L, name, length);
    lua_gettable(r->L, -2);
    lua_remove(r->L, -2);
}

// A module is on top. What stands for a value is numbered before what it is made of.
static void open_travel(struct mare__reader *r, uint32_t end)
{
    push_frame(r, TRAVEL, 1, end)->next = r->numbered++;
}

// A module is on top: the metatable takes its place, and the table comes next.
static void open_object(struct mare__reader *r, uint32_t end)
{
    uint32_t length;
    const char *name = next_string(r, &length), *stop = name + length;
    while (name < stop && lua_istable(r->L, -1)) {
        const char *zero = memchr(name, 0, (size_t)(stop - name)), *part = zero ? zero : stop;
        lua_pushlstring(r->L, name, (size_t)(part - name));
        lua_rawget(r->L, -2);
        lua_remove(r->L, -2);
        name = part + (zero != NULL);
    }
    if (!lua_istable(r->L, -1))
        luaL_error(r->L, "an object arrived whose class is not in the module of that name");
    push_frame(r, OBJECT, 1, end);
}

static void push_handle(struct mare__reader *r, struct mare__object *object)
{
    lua_State *L = r->L;
    if (object->kind == MARE__KIND_CODE) { // only at a process's start, which has the function
        if (!r->function)
            malformed(r);
        lua_pushvalue(L, r->function);
        number(r);
        return;
    }
    mare__ref(object);
    if (mare__kind_is_owned(object->kind))
        mare__handle_push_owned(L, object);
    else
        mare__handle_push(L, object);
}

static void must_have(struct mare__reader *r, const struct mare__token *token, size_t size)
{
    if (token->size != size)
        malformed(r);
    r->cursor += size;
}

// Reads an ext. True when a value was pushed; false when a container was opened, or a call is
// needed.
static bool read_ext(struct mare__reader *r, const struct mare__token *token)
{
    const uint8_t *payload = r->cursor;
    uint32_t end = (uint32_t)(payload - r->data) + token->size;
    if (r->message->trust == MARE__TRUST_STRANGER)
        malformed(r);
    switch (token->ext) {
    case MARE__EXT_REPEAT:
        must_have(r, token, 4);
        push_number(r, mare__get32(payload));
        return true;
    case MARE__EXT_GLOBALS:
        must_have(r, token, 0);
        lua_pushglobaltable(r->L);
        return true;
    case MARE__EXT_MODULE:
        if (!ask_module(r, MODULE_IS_VALUE, end))
            return false;
        must_end_at(r, end);
        return true;
    case MARE__EXT_MEMBER:
        if (!ask_module(r, MODULE_HAS_MEMBER, end))
            return false;
        take_member(r, end);
        return true;
    case MARE__EXT_MIXED: {
        struct mare__token array = next_token(r);
        if (array.kind != MARE__TOKEN_ARRAY)
            malformed(r);
        open_table(r, ARRAY, array.size, true, end);
        return false;
    }
    case MARE__EXT_FUNCTION:
        open_function(r, end);
        return false;
    case MARE__EXT_SHARED:
        must_have(r, token, 5);
        join_upvalue(r, payload);
        return false;
    case MARE__EXT_TRAVEL:
        if (ask_module(r, MODULE_LETS_ARRIVE, end))
            open_travel(r, end);
        return false;
    case MARE__EXT_OBJECT:
        if (ask_module(r, MODULE_HAS_CLASS, end))
            open_object(r, end);
        return false;
    case MARE__EXT_HANDLE:
        must_have(r, token, sizeof(struct mare__handle));
        push_handle(r, mare__handle_object(payload));
        return true;
    default:
        malformed(r);
    }
}

// Reads one token. True when a whole value was pushed; false when a container was opened, or a call
// is needed.
static bool read_value(struct mare__reader *r)
{
    lua_State *L = r->L;
    struct mare__token token = next_token(r);
    switch (token.kind) {
    case MARE__TOKEN_NIL:
        lua_pushnil(L);
        return true;
    case MARE__TOKEN_BOOLEAN:
        lua_pushboolean(L, token.as.boolean);
        return true;
    case MARE__TOKEN_INTEGER:
        lua_pushinteger(L, token.as.integer);
        return true;
    case MARE__TOKEN_UNSIGNED: // another program's: too large for an integer
        lua_pushnumber(L, (lua_Number)(uint64_t)token.as.integer);
        return true;
    case MARE__TOKEN_FLOAT:
        lua_pushnumber(L, token.as.number);
        return true;
    case MARE__TOKEN_STRING:
        lua_pushlstring(L, (const char *)r->cursor, token.size);
        r->cursor += token.size;
        return true;
    case MARE__TOKEN_ARRAY:
        open_table(r, ARRAY, token.size, false, 0);
        return false;
    case MARE__TOKEN_MAP:
        open_table(r, MAP, token.size, false, 0);
        return false;
    default:
        return read_ext(r, &token);
    }
}

static void put_in_map(struct mare__reader *r, struct frame *frame)
{
    lua_State *L = r->L;
    if (frame->has_key) {
        lua_rawset(L, frame->index);
        frame->remaining--;
    } else if (lua_isnil(L, -1) ||
               (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1))) {
        malformed(r);
    }
    frame->has_key = !frame->has_key;
}

// Puts the value on top of the stack where it belongs: into the innermost container, or, at the
// top, it is one of the message's.
static void put(struct mare__reader *r)
{
    lua_State *L = r->L;
    if (r->depth == 0) {
        r->left--;
        return;
    }
    struct frame *frame = &r->frames[r->depth - 1];
    switch (frame->kind) {
    case ARRAY:
        lua_rawseti(L, frame->index, (lua_Integer)frame->next++);
        frame->remaining--;
        break;
    case MAP:
        put_in_map(r, frame);
        break;
    case FUNCTION:
        if (!lua_setupvalue(L, frame->index, (int)frame->next++))
            malformed(r);
        break;
    case OBJECT: // metatable, table -> table
        if (!lua_istable(L, -1) || mare__is_globals(L, -1))
            malformed(r);
        lua_pushvalue(L, frame->index);
        mare__metatable_set(L);
        lua_replace(L, frame->index);
        frame->remaining--;
        break;
    default: // TRAVEL: module, value -> module.arrive(value)
        if (lua_getfield(L, frame->index, "arrive") != LUA_TFUNCTION)
            luaL_error(L, "a value arrived whose module has no function 'arrive'");
        lua_insert(L, -2);
        r->after = HAS_ARRIVED;
    }
}

// Whether the innermost container is complete; it is then the value on top of the stack.
static bool complete(struct mare__reader *r)
{
    struct frame *frame = &r->frames[r->depth - 1];
    if (frame->kind == FUNCTION) {
        if (r->cursor < r->data + frame->end)
            return false;
    } else if (frame->remaining > 0) {
        return false;
    } else if (frame->mixed) {
        struct mare__token map = next_token(r);
        if (map.kind != MARE__TOKEN_MAP)
            malformed(r);
        owe(r, 2 * (uint64_t)map.size);
        frame->kind = MAP;
        frame->mixed = false;
        frame->remaining = map.size;
        if (map.size > 0)
            return false;
    }
    if (frame->end)
        must_end_at(r, frame->end);
    return true;
}

// Reads until a call is needed: true, and the function and its argument are on top. False: all of
// it was read.
static bool step(struct mare__reader *r)
{
    while (r->left > 0 && !r->after) {
        if (r->depth > 0) {
            if (complete(r)) {
                r->depth--;
                put(r);
                continue;
            }
            r->owed -= r->frames[r->depth - 1].kind <= MAP;
        }
        if (read_value(r))
            put(r);
    }
    return r->after != NO_CALL;
}

// The call that was needed has returned the value on top.
static void called(struct mare__reader *r)
{
    enum after after = (enum after)r->after;
    r->after = NO_CALL;
    if (after == HAS_ARRIVED) {
        struct frame *frame = &r->frames[r->depth - 1];
        if (r->numbers) {
            lua_pushvalue(r->L, -1);
            lua_rawseti(r->L, r->numbers, (lua_Integer)frame->next);
        }
        lua_replace(r->L, frame->index);
        frame->remaining--;
    } else if (after == MODULE_LETS_ARRIVE) {
        open_travel(r, r->after_end);
    } else if (after == MODULE_HAS_CLASS) {
        open_object(r, r->after_end);
    } else {
        if (after == MODULE_HAS_MEMBER)
            take_member(r, r->after_end);
        else
            must_end_at(r, r->after_end);
        put(r);
    }
}

static void init(struct mare__reader *r, lua_State *L, const mare_message *message)
{
    r->L = L;
    r->message = message;
    r->data = r->cursor = mare__message_data(message);
    r->end = r->data + message->length;
    r->frames = r->few_frames;
    r->room = MARE__MARSHAL_FRAMES;
    r->depth = r->numbered = 0;
    r->left = message->count;
    r->owed = 0;
    r->after = NO_CALL;
    r->function = 0;
    r->numbers = 0;
    luaL_checkstack(L, (int)message->count + 12, "too many values in a message");
    if (!message->rich)
        return;
    lua_pushnil(L);
    r->scratch = lua_gettop(L);
    if (message->repeats) {
        lua_newtable(L);
        r->numbers = lua_gettop(L);
    }
}

static int finish(struct mare__reader *r)
{
    if (r->numbers)
        lua_remove(r->L, r->numbers);
    if (r->message->rich)
        lua_remove(r->L, r->scratch);
    return (int)r->message->count;
}

int mare__unmarshal(lua_State *L, const mare_message *message)
{
    struct mare__reader r;
    init(&r, L, message);
    while (step(&r)) {
        lua_call(L, 1, 1);
        called(&r);
    }
    return finish(&r);
}

// message (light userdata) -> its values
static int read_protected(lua_State *L)
{
    return mare__unmarshal(L, mare__passed(L, 1));
}

int mare__unmarshal_own(lua_State *L, mare_message *message)
{
    mare_message mine;
    mare__message_move(&mine, message);
    if (mine.capacity == 0 && mine.handles == 0) // nothing that an error could lose
        return mare__unmarshal(L, &mine);
    int top = lua_gettop(L);
    struct mare__pass pass;
    lua_pushcfunction(L, read_protected);
    mare__pass_push(L, &pass, &mine);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    mare__message_clear(&mine);
    return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

// ---- What a process starts with -----------------------------------------------------------------

struct mare__reader *mare__reader_new(mare_message *message)
{
    struct mare__reader *r = mare__alloc(sizeof *r);
    if (r)
        mare__message_move(&r->own, message);
    return r;
}

void mare__reader_free(struct mare__reader *r)
{
    if (!r)
        return;
    mare__message_clear(&r->own);
    mare__free(r);
}

static int read_on(lua_State *L, int status, lua_KContext context)
{
    struct mare__reader *r = (struct mare__reader *)context;
    if (status == LUA_YIELD)
        called(r);
    while (step(r)) {
        lua_callk(L, 1, 1, context, read_on);
        called(r);
    }
    return r->then(L, finish(r));
}

int mare__unmarshal_then(lua_State *L, struct mare__reader *r, int function,
                         int (*then)(lua_State *L, int count))
{
    init(r, L, &r->own);
    r->function = function;
    r->then = then;
    return read_on(L, LUA_OK, (lua_KContext)r);
}
