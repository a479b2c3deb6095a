// SPDX-License-Identifier: MIT
// A message back into Lua values, on the receiver's own thread and in its own memory. As in
// marshal.c there is no recursion: a frame for each container that is being filled, the container
// itself on the Lua stack.
//
// Messages of our own making may hold code and references. Foreign ones (mare_message_parse) may
// not, and are taken for hostile: every count is checked against the bytes that are there.
#include <string.h>

#include "base/alloc.h"
#include "sched/code.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/marshal.h"

enum frame_kind { ARRAY, MAP, FUNCTION, TRAVEL };

struct frame {
    uint8_t kind;
    bool mixed;         // ARRAY: a map for the same table follows
    bool has_key;       // MAP: a key waits on the stack for its value
    uint32_t remaining; // elements or pairs
    uint32_t next;      // index of the next element or upvalue
    uint32_t end;       // FUNCTION, TRAVEL: offset where it ends
    int index;          // of the container on the stack
};

struct reader {
    lua_State *L;
    const mare_message *message;
    const uint8_t *data, *cursor, *end;
    struct frame *frames, few_frames[MARE__MARSHAL_FRAMES];
    uint32_t depth, room;
    uint32_t numbered;
    int scratch; // stack index of what `frames` points to once there are many
    int numbers; // stack index of the table of numbered objects, if there are repeats
};

static _Noreturn void malformed(struct reader *r)
{
    luaL_error(r->L, "malformed message");
    __builtin_unreachable();
}

static struct mare__token next_token(struct reader *r)
{
    struct mare__token token;
    if (!mare__unpack(&r->cursor, r->end, &token))
        malformed(r);
    return token;
}

static struct frame *push_frame(struct reader *r, enum frame_kind kind, uint32_t remaining)
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
    *frame = (struct frame){
        .kind = (uint8_t)kind, .remaining = remaining, .next = 1, .index = lua_gettop(r->L)};
    return frame;
}

// Gives the table or function on top of the stack its number.
static void number(struct reader *r)
{
    if (r->numbers) {
        lua_pushvalue(r->L, -1);
        lua_rawseti(r->L, r->numbers, (lua_Integer)r->numbered);
    }
    r->numbered++;
}

// Pushes the object with a number.
static void push_number(struct reader *r, uint32_t which)
{
    if (!r->numbers || which >= r->numbered)
        malformed(r);
    lua_rawgeti(r->L, r->numbers, (lua_Integer)which);
}

static void open_table(struct reader *r, enum frame_kind kind, uint32_t count, bool mixed)
{
    bool array = kind == ARRAY;
    lua_createtable(r->L, array ? (int)count : 0, array ? 0 : (int)count);
    number(r);
    push_frame(r, kind, count)->mixed = mixed;
}

static void open_function(struct reader *r, uint32_t end)
{
    struct mare__token token = next_token(r);
    const char *bytes = (const char *)r->cursor;
    size_t length = token.size;
    r->cursor += token.size;
    if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_HANDLE) {
        struct mare__code *code = (struct mare__code *)mare__handle_object((const uint8_t *)bytes);
        bytes = code->bytes;
        length = code->length;
    } else if (token.kind != MARE__TOKEN_STRING) {
        malformed(r);
    }
    if (luaL_loadbufferx(r->L, bytes, length, "=?", "b") != LUA_OK)
        lua_error(r->L);
    number(r);
    push_frame(r, FUNCTION, 0)->end = end;
}

// An upvalue shared with a function that was read before.
static bool join_upvalue(struct reader *r, const uint8_t *payload)
{
    struct frame *frame = r->depth ? &r->frames[r->depth - 1] : NULL;
    if (!frame || frame->kind != FUNCTION)
        malformed(r);
    push_number(r, mare__get32(payload));
    if (!lua_isfunction(r->L, -1) || !lua_upvalueid(r->L, -1, payload[4]) ||
        !lua_upvalueid(r->L, frame->index, (int)frame->next))
        malformed(r);
    lua_upvaluejoin(r->L, frame->index, (int)frame->next++, -1, payload[4]);
    lua_pop(r->L, 1);
    return false;
}

// Pushes require(name), for the string in the message.
static void push_module(struct reader *r, const char *name, uint32_t length)
{
    lua_State *L = r->L;
    if (length == 2 && memcmp(name, LUA_GNAME, 2) == 0) {
        lua_pushglobaltable(L);
        return;
    }
    lua_pushcfunction(L, mare__self(L)->host ? mare__host_require : mare__require);
    lua_pushlstring(L, name, length);
    lua_call(L, 1, 1);
}

static void push_member(struct reader *r)
{
    struct mare__token module = next_token(r);
    const char *module_name = (const char *)r->cursor;
    r->cursor += module.size;
    struct mare__token member = next_token(r);
    if (module.kind != MARE__TOKEN_STRING || member.kind != MARE__TOKEN_STRING)
        malformed(r);
    push_module(r, module_name, module.size);
    lua_pushlstring(r->L, (const char *)r->cursor, member.size);
    r->cursor += member.size;
    lua_gettable(r->L, -2);
    lua_remove(r->L, -2);
}

static void push_handle(struct reader *r, struct mare__object *object)
{
    lua_State *L = r->L;
    if (object->kind ==
        MARE__KIND_CODE) { // only at a process's start, which has the function ready
        lua_pushvalue(L, 2);
        number(r);
        return;
    }
    mare__ref(object);
    if (mare__kind_is_owned(object->kind))
        mare__handle_push_owned(L, object);
    else
        mare__handle_push(L, object);
}

// Reads an ext. True when a value was pushed, false when a container was opened.
static bool read_ext(struct reader *r, const struct mare__token *token)
{
    const uint8_t *payload = r->cursor;
    uint32_t end = (uint32_t)(payload - r->data) + token->size;
    if (r->message->foreign)
        malformed(r);
    switch (token->ext) {
    case MARE__EXT_REPEAT:
        r->cursor += token->size;
        push_number(r, mare__get32(payload));
        return true;
    case MARE__EXT_GLOBALS:
        lua_pushglobaltable(r->L);
        return true;
    case MARE__EXT_MODULE: {
        struct mare__token name = next_token(r);
        payload = r->cursor;
        r->cursor += name.size;
        push_module(r, (const char *)payload, name.size);
        return true;
    }
    case MARE__EXT_MEMBER:
        push_member(r);
        return true;
    case MARE__EXT_MIXED: {
        struct mare__token array = next_token(r);
        if (array.kind != MARE__TOKEN_ARRAY)
            malformed(r);
        open_table(r, ARRAY, array.size, true);
        return false;
    }
    case MARE__EXT_FUNCTION:
        open_function(r, end);
        return false;
    case MARE__EXT_SHARED:
        r->cursor += token->size;
        return join_upvalue(r, payload);
    case MARE__EXT_TRAVEL: {
        struct mare__token name = next_token(r);
        payload = r->cursor;
        r->cursor += name.size;
        push_module(r, (const char *)payload, name.size);
        push_frame(r, TRAVEL, 1);
        return false;
    }
    case MARE__EXT_HANDLE:
        r->cursor += token->size;
        push_handle(r, mare__handle_object(payload));
        return true;
    default:
        malformed(r);
    }
}

// Reads one token. True when a whole value was pushed, false when a container was opened.
static bool read_value(struct reader *r)
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
        open_table(r, ARRAY, token.size, false);
        return false;
    case MARE__TOKEN_MAP:
        open_table(r, MAP, token.size, false);
        return false;
    default:
        return read_ext(r, &token);
    }
}

// Puts the value on top of the stack into the innermost container.
static void put(struct reader *r)
{
    lua_State *L = r->L;
    struct frame *frame = &r->frames[r->depth - 1];
    switch (frame->kind) {
    case ARRAY:
        lua_rawseti(L, frame->index, (lua_Integer)frame->next++);
        frame->remaining--;
        break;
    case MAP:
        if (!frame->has_key) {
            if (lua_isnil(L, -1) ||
                (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1)))
                malformed(r);
            frame->has_key = true;
        } else {
            lua_rawset(L, frame->index);
            frame->has_key = false;
            frame->remaining--;
        }
        break;
    case FUNCTION:
        if (!lua_setupvalue(L, frame->index, (int)frame->next++))
            malformed(r);
        break;
    default: // TRAVEL: module, value -> module.arrive(value)
        if (lua_getfield(L, frame->index, "arrive") != LUA_TFUNCTION)
            luaL_error(L, "a value arrived whose module has no function 'arrive'");
        lua_insert(L, -2);
        lua_call(L, 1, 1);
        lua_replace(L, frame->index);
        frame->remaining--;
    }
}

// Whether the innermost container is complete; it is then the value on top of the stack.
static bool complete(struct reader *r)
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
        frame->kind = MAP;
        frame->mixed = false;
        frame->remaining = map.size;
        return map.size == 0;
    }
    return true;
}

static void read_containers(struct reader *r)
{
    while (r->depth > 0) {
        if (complete(r)) {
            r->depth--;
            if (r->depth > 0)
                put(r);
        } else if (read_value(r)) {
            put(r);
        }
    }
}

int mare__unmarshal(lua_State *L, const mare_message *message)
{
    struct reader r;
    int count = (int)message->count;
    luaL_checkstack(L, count + 8, "too many values in a message");
    r.L = L;
    r.message = message;
    r.data = r.cursor = mare__message_data(message);
    r.end = r.data + message->length;
    r.frames = r.few_frames;
    r.room = MARE__MARSHAL_FRAMES;
    r.depth = r.numbered = 0;
    r.numbers = 0;
    if (!message->rich) {
        for (int i = 0; i < count; i++)
            read_value(&r);
        return count;
    }
    lua_pushnil(L);
    r.scratch = lua_gettop(L);
    if (message->repeats) {
        lua_newtable(L);
        r.numbers = lua_gettop(L);
    }
    for (int i = 0; i < count; i++)
        if (!read_value(&r))
            read_containers(&r);
    if (r.numbers)
        lua_remove(L, r.numbers);
    lua_remove(L, r.scratch);
    return count;
}

struct mare__working *mare__working_try(mare_process *process)
{
    struct mare__working *working = mare__alloc_zero(sizeof *working);
    if (working) {
        working->next = process->working;
        process->working = working;
    }
    return working;
}

struct mare__working *mare__working_push(lua_State *L)
{
    struct mare__working *working = mare__working_try(mare__self(L));
    if (!working)
        luaL_error(L, "not enough memory");
    return working;
}

void mare__working_pop(mare_process *process, struct mare__working *working)
{
    // Above it may lie what errors have left.
    while (process->working) {
        struct mare__working *top = process->working;
        process->working = top->next;
        mare__message_clear(&top->message);
        if (top->object)
            mare__unref(top->object);
        bool last = top == working;
        mare__free(top);
        if (last)
            return;
    }
}

int mare__unmarshal_own(lua_State *L, mare_message *message)
{
    if (message->capacity == 0 && message->handles == 0) { // nothing that an error could lose
        mare_message copy;
        mare__message_move(&copy, message);
        return mare__unmarshal(L, &copy);
    }
    struct mare__working *working = mare__working_push(L);
    mare__message_move(&working->message, message);
    int count = mare__unmarshal(L, &working->message);
    mare__working_pop(mare__self(L), working);
    return count;
}
