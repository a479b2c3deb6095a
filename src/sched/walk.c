// SPDX-License-Identifier: MIT
// A walk over Lua values that writes them into a message. It does not recurse: a frame for each
// table or function that is being written, the values themselves on the Lua stack, so that the
// depth of a message is bounded by memory and not by a C stack.
//
//     frame TABLE     stack: table, key            the next pair comes from lua_next
//     frame FUNCTION  stack: function              the next upvalue comes from lua_getupvalue
//     frame TRAVEL    stack: original              its substitute was written
//     frame OBJECT    stack: table                 the same, without its metatable
//
// Tables and functions are numbered in the order in which they appear, and a second appearance
// refers to the number, so that shared references and cycles survive. A table's integer keys from 1
// on that come first, in order, are written as an array; what follows makes it a map, or both.
//
// What was seen is remembered by its address, which is quick and right as long as no Lua code runs:
// nothing can be collected then and give its place to another. A __travel or a finalizer is Lua
// code, and may do anything. So where there are finalizers, and from the first __travel on (the
// walk begins again at it), what was seen is remembered, and kept alive, by a Lua table.
#include "sched/walk.h"

#include <string.h>

#include "sched/code.h"
#include "sched/handle.h"
#include "sched/libraries.h"

enum frame_kind { ARRAY, MAP, FUNCTION, TRAVEL, OBJECT };

enum { SHALLOW = 8 }; // bytes may move so often for the tables around them, and not more often

static bool fail(struct mare__walk *w, mare_err err, const char *refusal)
{
    w->err = err;
    w->refusal = refusal;
    return false;
}

static bool out_of_room(struct mare__walk *w)
{
    return fail(w, w->message->length > MARE__MESSAGE_MAX / 2 ? MARE_TOOBIG : MARE_NOMEM, NULL);
}

// ---- Writing ------------------------------------------------------------------------------------

static bool append(struct mare__walk *w, const void *bytes, size_t size)
{
    return mare__message_append(w->message, bytes, size) || out_of_room(w);
}

static uint8_t *at(struct mare__walk *w, uint32_t offset)
{
    return (uint8_t *)mare__message_data(w->message) + offset;
}

static bool write_string(struct mare__walk *w, int index)
{
    size_t length;
    const char *bytes = lua_tolstring(w->L, index, &length);
    if (length > MARE__MESSAGE_MAX - MARE__PACK_MAX)
        return fail(w, MARE_TOOBIG, NULL);
    uint8_t *room = mare__message_room(w->message, MARE__PACK_MAX + length);
    if (!room)
        return out_of_room(w);
    size_t header = mare__pack_string_header(room, (uint32_t)length);
    memcpy(room + header, bytes, length);
    w->message->length += (uint32_t)(header + length);
    return true;
}

static bool write_number(struct mare__walk *w, int index)
{
    uint8_t *room = mare__message_room(w->message, MARE__PACK_MAX);
    if (!room)
        return out_of_room(w);
    size_t size = lua_isinteger(w->L, index) ? mare__pack_integer(room, lua_tointeger(w->L, index))
                                             : mare__pack_float(room, lua_tonumber(w->L, index));
    w->message->length += (uint32_t)size;
    return true;
}

// An ext with up to eight bytes inside.
static bool write_ext(struct mare__walk *w, enum mare__ext kind, const void *payload, uint32_t size)
{
    uint8_t header[MARE__PACK_EXT];
    mare__pack_ext_header(header, (int8_t)kind, size);
    return append(w, header, sizeof header) && append(w, payload, size);
}

static bool write_repeat(struct mare__walk *w, uint32_t number)
{
    uint8_t payload[4];
    mare__put32(payload, number);
    w->message->repeats = true;
    return write_ext(w, MARE__EXT_REPEAT, payload, sizeof payload);
}

// An ext around the strings on top of the stack, which are popped.
static bool write_names(struct mare__walk *w, enum mare__ext kind, int count)
{
    uint32_t start = w->message->length;
    uint8_t header[MARE__PACK_EXT] = {0};
    bool done = append(w, header, sizeof header);
    for (int i = count; i > 0 && done; i--)
        done = write_string(w, -i);
    if (done)
        mare__pack_ext_header(at(w, start), (int8_t)kind,
                              w->message->length - start - MARE__PACK_EXT);
    lua_pop(w->L, count);
    return done;
}

static int write_chunk(lua_State *L, const void *bytes, size_t size, void *ud)
{
    (void)L;
    return !append(ud, bytes, size);
}

// ---- Frames -------------------------------------------------------------------------------------

// A new frame for the object on top of the stack, with a header of the given size to be filled in
// later.
static struct mare__walk_frame *push_frame(struct mare__walk *w, enum frame_kind kind,
                                           size_t header)
{
    uint8_t zeros[MARE__PACK_EXT] = {0};
    if (!lua_checkstack(w->L, 8)) {
        fail(w, MARE_TOOBIG, NULL);
        return NULL;
    }
    if (w->depth == w->room) {
        struct mare__walk_frame *frames = lua_newuserdatauv(w->L, w->room * 4 * sizeof *frames, 0);
        memcpy(frames, w->frames, w->room * sizeof *frames);
        lua_replace(w->L, w->scratch);
        w->frames = frames;
        w->room *= 4;
    }
    struct mare__walk_frame *frame = &w->frames[w->depth++];
    *frame = (struct mare__walk_frame){
        .kind = (uint8_t)kind, .start = w->message->length, .index = lua_gettop(w->L)};
    return append(w, zeros, header) ? frame : NULL;
}

// Functions have names in their library; only those can travel.
static bool begin_c_function(struct mare__walk *w)
{
    if (!mare__lazy_name_of(w->L, -1))
        return fail(w, MARE_BADMSG, "a C function that is not part of a library");
    bool done = write_names(w, MARE__EXT_MEMBER, 2);
    lua_pop(w->L, 1);
    return done;
}

static bool begin_function(struct mare__walk *w)
{
    lua_State *L = w->L;
    if (lua_iscfunction(L, -1))
        return begin_c_function(w);
    struct mare__seen seen;
    if (mare__seen_find(&w->seen, NULL, &seen)) {
        lua_pop(L, 1);
        return write_repeat(w, seen.number);
    }
    uint32_t number = w->numbered++;
    mare__seen_add(&w->seen, NULL, number, 0);
    struct mare__walk_frame *frame = push_frame(w, FUNCTION, MARE__PACK_EXT);
    if (!frame)
        return false;
    frame->number = number;
    if (w->code && w->depth == 1) { // the body of a spawn
        bool done = mare__message_append_handle(w->message, &w->code->object);
        return done || out_of_room(w);
    }
    uint32_t code = w->message->length;
    uint8_t header[5] = {0xc6}; // bin with four bytes of length
    if (!append(w, header, sizeof header))
        return false;
    if (lua_dump(L, write_chunk, w, 0) != 0)
        return w->err ? false : fail(w, MARE_NOMEM, NULL);
    mare__put32(at(w, code + 1), w->message->length - code - (uint32_t)sizeof header);
    return true;
}

// Beside the number of a value that travels as another one, until that one is written.
enum { IN_ITSELF = 1 };

// A value whose metatable says how it travels: the substitute takes its place.
static bool begin_travel(struct mare__walk *w)
{
    lua_State *L = w->L;
    w->begins_again = !w->seen.anchors;
    if (w->begins_again || !push_frame(w, TRAVEL, MARE__PACK_EXT))
        return false;
    w->frames[w->depth - 1].number = w->numbered;
    mare__seen_add(&w->seen, NULL, w->numbered++, IN_ITSELF);
    luaL_getmetafield(L, -1, "__travel");
    lua_pushvalue(L, -2);
    w->depth--; // what is wrong with it is said of the value, not of what is in it
    if (lua_pcall(L, 1, 2, 0) != LUA_OK)
        return fail(w, MARE_BADMSG,
                    lua_pushfstring(L, "__travel failed: %s", luaL_tolstring(L, -1, NULL)));
    if (lua_type(L, -2) != LUA_TSTRING)
        return fail(w, MARE_BADMSG, "__travel does not return the name of a module");
    w->depth++;
    if (!write_string(w, -2))
        return false;
    lua_remove(L, -2);
    return true; // the substitute is on top; the frame writes it
}

// Writes the number of a value that was met before. One that travels as another is not there
// before that one is.
static bool repeat(struct mare__walk *w, const struct mare__seen *seen)
{
    if (seen->extra == IN_ITSELF)
        return fail(w, MARE_BADMSG, "a value inside of what its own __travel returned");
    lua_pop(w->L, 1);
    return write_repeat(w, seen->number);
}

// A table whose metatable a module has, whose name and place in it are on top of the stack.
static bool begin_object(struct mare__walk *w)
{
    lua_State *L = w->L;
    struct mare__walk_frame *frame = push_frame(w, OBJECT, MARE__PACK_EXT);
    if (!frame)
        return false;
    frame->index -= 2;
    bool done = write_string(w, -2) && write_string(w, -1);
    lua_pop(L, 2);
    lua_pushvalue(L, -1); // the frame writes it
    w->bare = true;
    return done;
}

static bool has_travel(lua_State *L)
{
    if (luaL_getmetafield(L, -1, "__travel") == LUA_TNIL)
        return false;
    lua_pop(L, 1);
    return true;
}

// An object of a class that is nowhere to be found, by the name of its type if it has one. That
// stays on the stack.
static const char *refusal_of_object(lua_State *L)
{
    bool named = luaL_getmetafield(L, -1, "__name") == LUA_TSTRING;
    return lua_pushfstring(
        L, "a table%s%s%s with a metatable that is in no loaded module and has no __travel",
        named ? " (" : "", named ? lua_tostring(L, -1) : "", named ? ")" : "");
}

static bool begin_table(struct mare__walk *w)
{
    lua_State *L = w->L;
    struct mare__seen seen;
    int top = lua_gettop(L);
    if (mare__seen_find(&w->seen, NULL, &seen))
        return repeat(w, &seen);
    if (lua_topointer(L, -1) == w->globals) {
        lua_pop(L, 1);
        return write_ext(w, MARE__EXT_GLOBALS, "", 0);
    }
    // A module is known by its name. It is looked for where modules are found: among arguments and
    // upvalues.
    bool meta = lua_getmetatable(L, -1) && !w->bare;
    lua_settop(L, top);
    w->bare = false;
    struct mare__walk_frame *parent = w->depth ? &w->frames[w->depth - 1] : NULL;
    if ((meta || !parent || parent->kind == FUNCTION) && mare__lazy_module_of(L, -1)) {
        bool done = write_names(w, MARE__EXT_MODULE, 1);
        lua_pop(L, 1);
        return done;
    }
    if (meta && has_travel(L))
        return begin_travel(w);
    if (meta && mare__class_of(L))
        return begin_object(w);
    if (meta)
        return fail(w, MARE_BADMSG, refusal_of_object(L));
    mare__seen_add(&w->seen, NULL, w->numbered++, 0);
    if (!push_frame(w, ARRAY, MARE__PACK_TABLE))
        return false;
    lua_pushnil(L);
    return true;
}

static const char *refusal_of_moved(const struct mare__reference *ref)
{
    switch (ref->magic - MARE__REF_MAGIC) {
    case MARE__KIND_STREAM:
        return "a stream that was sent before";
    case MARE__KIND_LISTENER:
        return "a listener that was sent before";
    case MARE__KIND_UDP:
        return "a socket that was sent before";
    case MARE__KIND_FILE:
    case MARE__KIND_FOLDER:
    case MARE__KIND_WATCH:
        return "a file, folder or watcher that was sent before";
    case MARE__KIND_CHILD:
        return "a child that was sent before";
    case MARE__KIND_SIGNALS:
        return "a watch for signals that was sent before";
    case MARE__KIND_SECRET:
        return "a secret that was closed";
    default:
        return "a buffer that was sent before";
    }
}

// A userdata that cannot travel, by the name of its type if it has one. That stays on the stack.
static const char *refusal_of_userdata(lua_State *L)
{
    if (luaL_testudata(L, -1, LUA_FILEHANDLE))
        return "a file";
    if (luaL_getmetafield(L, -1, "__name") != LUA_TSTRING)
        return "a userdata";
    return lua_pushfstring(L, "a userdata (%s)", lua_tostring(L, -1));
}

static bool begin_userdata(struct mare__walk *w)
{
    lua_State *L = w->L;
    struct mare__reference *ref = mare__handle_test(L, -1);
    if (ref) {
        bool again = ref->away && ref->away == *w->how->leaving;
        if (mare__handle_moved(ref) && !again)
            return fail(w, MARE_BADMSG, refusal_of_moved(ref));
        bool owned = mare__kind_is_owned(ref->object->kind);
        if (owned && ref->object->waiters > 0)
            return fail(w, MARE_BADMSG,
                        "a stream, listener, socket or file that a routine waits for");
        if (!mare__message_append_handle(w->message, ref->object) ||
            (owned && !mare__leaving_add(w->how->leaving, ref, w->how->which)))
            return out_of_room(w);
        if (owned)
            atomic_store(&ref->object->taken, false);
        lua_pop(L, 1);
        return true;
    }
    struct mare__seen seen;
    if (has_travel(L))
        return mare__seen_find(&w->seen, NULL, &seen) ? repeat(w, &seen) : begin_travel(w);
    return fail(w, MARE_BADMSG, refusal_of_userdata(L));
}

// Writes the value on top of the stack and pops it, or begins a frame that will.
static bool begin(struct mare__walk *w)
{
    lua_State *L = w->L;
    uint8_t byte;
    bool done;
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        mare__pack_nil(&byte);
        done = append(w, &byte, 1);
        break;
    case LUA_TBOOLEAN:
        mare__pack_boolean(&byte, lua_toboolean(L, -1));
        done = append(w, &byte, 1);
        break;
    case LUA_TNUMBER:
        done = write_number(w, -1);
        break;
    case LUA_TSTRING:
        done = write_string(w, -1);
        break;
    case LUA_TTABLE:
        return begin_table(w);
    case LUA_TFUNCTION:
        return begin_function(w);
    case LUA_TUSERDATA:
        return begin_userdata(w);
    case LUA_TTHREAD:
        return fail(w, MARE_BADMSG, "a coroutine");
    default:
        return fail(w, MARE_BADMSG, "a light userdata");
    }
    lua_pop(L, 1);
    return done;
}

// What was written of an array becomes the beginning of a mixed table.
static bool become_mixed(struct mare__walk *w, struct mare__walk_frame *frame)
{
    uint8_t zeros[MARE__PACK_EXT] = {0};
    uint32_t length = w->message->length - frame->start;
    if (!append(w, zeros, sizeof zeros))
        return false;
    uint8_t *start = at(w, frame->start);
    memmove(start + MARE__PACK_EXT, start, length);
    // The handles that moved are found through offsets.
    mare__message_shift_handles(w->message, frame->start, MARE__PACK_EXT);
    frame->mixed = true;
    return true;
}

// The array is over and pairs follow, or none after all.
static bool become_map(struct mare__walk *w, struct mare__walk_frame *frame)
{
    uint8_t zeros[MARE__PACK_TABLE] = {0};
    frame->kind = MAP;
    if (frame->count == 0)
        return true;
    if ((!frame->mixed && !become_mixed(w, frame)) || !append(w, zeros, sizeof zeros))
        return false;
    mare__pack_array_header(at(w, frame->start) + MARE__PACK_EXT, frame->count);
    frame->inner = w->message->length - MARE__PACK_TABLE;
    frame->count = 0;
    return true;
}

// A table is written as an array until a key comes that is not the next index: then what was
// written moves, to make room for the head of a mixed one. Before a large value of an array is
// written, this looks whether such a key will come (the pair is on top of the stack). Else that
// value would move, and with tables in each other once more for each table around it.
static bool look_ahead(struct mare__walk *w, struct mare__walk_frame *frame)
{
    lua_State *L = w->L;
    lua_Integer last = (lua_Integer)frame->count + 1;
    frame->looked = true;
    lua_pushvalue(L, -2);
    while (lua_next(L, frame->index)) {
        bool in_order = lua_isinteger(L, -2) && lua_tointeger(L, -2) == ++last;
        lua_pop(L, in_order ? 1 : 2);
        if (!in_order)
            return become_mixed(w, frame);
    }
    return true;
}

static bool is_plain(lua_State *L, int index)
{
    int type = lua_type(L, index);
    return type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
}

// One step of a table: its next pair, or its end.
static bool step_table(struct mare__walk *w, struct mare__walk_frame *frame)
{
    lua_State *L = w->L;
    if (frame->value_next) { // stack: table, key, value
        frame->value_next = false;
        return begin(w);
    }
    if (!lua_next(L, frame->index)) {
        if (frame->mixed && frame->kind == ARRAY && !become_map(w, frame))
            return false; // a __travel has taken the pairs away
        uint8_t *start = at(w, frame->start);
        if (frame->mixed) {
            mare__pack_map_header(at(w, frame->inner), frame->count);
            mare__pack_ext_header(start, MARE__EXT_MIXED,
                                  w->message->length - frame->start - MARE__PACK_EXT);
        } else if (frame->kind == ARRAY) {
            mare__pack_array_header(start, frame->count);
        } else {
            mare__pack_map_header(start, frame->count);
        }
        lua_pop(L, 1);
        w->depth--;
        return true;
    }
    if (frame->kind == ARRAY) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) == (lua_Integer)frame->count + 1) {
            if (w->depth > SHALLOW && !frame->looked && !is_plain(L, -1) && !look_ahead(w, frame))
                return false;
            frame->count++;
            return begin(w);
        }
        if (!become_map(w, frame))
            return false;
    }
    frame->count++;
    if (is_plain(L, -2)) {
        lua_pushvalue(L, -2);
        if (!begin(w))
            return false;
        return begin(w);
    }
    frame->value_next = true;
    lua_pushvalue(L, -2);
    return begin(w);
}

static bool step_function(struct mare__walk *w, struct mare__walk_frame *frame)
{
    lua_State *L = w->L;
    int number = (int)frame->count + 1;
    if (!lua_getupvalue(L, frame->index, number)) {
        mare__pack_ext_header(at(w, frame->start), MARE__EXT_FUNCTION,
                              w->message->length - frame->start - MARE__PACK_EXT);
        lua_pop(L, 1);
        w->depth--;
        return true;
    }
    frame->count++;
    void *id = lua_upvalueid(L, frame->index, number);
    struct mare__seen seen;
    if (mare__seen_find(&w->seen, id, &seen)) {
        uint8_t payload[5];
        mare__put32(payload, seen.number);
        payload[4] = (uint8_t)seen.extra;
        w->message->repeats = true;
        lua_pop(L, 1);
        return write_ext(w, MARE__EXT_SHARED, payload, sizeof payload);
    }
    mare__seen_add(&w->seen, id, frame->number, (uint32_t)number);
    return begin(w);
}

// One step of whatever is innermost.
static bool step(struct mare__walk *w)
{
    struct mare__walk_frame *frame = &w->frames[w->depth - 1];
    if (frame->kind == FUNCTION)
        return step_function(w, frame);
    if (frame->kind != TRAVEL && frame->kind != OBJECT)
        return step_table(w, frame);
    if (frame->count++ == 0)
        return begin(w);
    if (frame->kind == TRAVEL)
        mare__seen_add(&w->seen, NULL, frame->number, 0);
    mare__pack_ext_header(at(w, frame->start),
                          frame->kind == OBJECT ? MARE__EXT_OBJECT : MARE__EXT_TRAVEL,
                          w->message->length - frame->start - MARE__PACK_EXT);
    lua_pop(w->L, 1);
    w->depth--;
    return true;
}

// ---- Refusals -----------------------------------------------------------------------------------

// Where the writer stands: "arg 2, field 'log', upvalue 'file'".
static void push_path(struct mare__walk *w)
{
    lua_State *L = w->L;
    lua_pushfstring(L, "%s %d", w->how->what, w->current + w->how->before);
    for (uint32_t i = 0; i < w->depth; i++) {
        struct mare__walk_frame *frame = &w->frames[i];
        int key = frame->index + 1;
        if (w->depth > 16 && i == 8) {
            i = w->depth - 8;
            frame = &w->frames[i];
            key = frame->index + 1;
            lua_pushliteral(L, ", ...");
            lua_concat(L, 2);
        }
        if (frame->kind == FUNCTION) {
            const char *name = lua_getupvalue(L, frame->index, (int)frame->count);
            if (name)
                lua_pop(L, 1);
            lua_pushfstring(L, ", upvalue '%s'", name && *name ? name : "?");
        } else if (frame->kind == OBJECT) {
            lua_pushliteral(L, "");
        } else if (frame->kind == TRAVEL) {
            lua_pushliteral(L, ", what __travel returned");
        } else if (lua_type(L, key) == LUA_TSTRING) {
            lua_pushfstring(L, ", field '%s'", lua_tostring(L, key));
        } else if (lua_isinteger(L, key)) {
            lua_pushfstring(L, ", index %I", lua_tointeger(L, key));
        } else {
            lua_pushfstring(L, ", %s key", luaL_typename(L, key));
        }
        lua_concat(L, 2);
    }
}

void mare__walk_push_refusal(struct mare__walk *w)
{
    lua_State *L = w->L;
    if (w->err == MARE_BADMSG) {
        push_path(w);
        bool sentence = strncmp(w->refusal, "__travel", 8) == 0; // it says what happened
        lua_pushfstring(L, sentence ? "%s: its %s" : "%s: %s cannot travel", lua_tostring(L, -1),
                        w->refusal);
    } else {
        lua_pushstring(L, mare_strerror(w->err));
    }
}

// ---- The whole ----------------------------------------------------------------------------------

void mare__walk_init(struct mare__walk *w, lua_State *L, mare_message *message,
                     const struct mare__marshalling *how, bool anchors)
{
    w->L = L;
    w->message = message;
    w->how = how;
    w->begins_again = w->bare = false;
    w->frames = w->few_frames;
    w->room = MARE__MARSHAL_FRAMES;
    w->depth = 0;
    w->numbered = how->numbered;
    w->err = MARE_OK;
    w->code = how->code;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    w->globals = lua_topointer(L, -1);
    w->scratch = lua_gettop(L); // they stay elsewhere
    mare__seen_init(&w->seen, L, anchors);
}

bool mare__walk(struct mare__walk *w, int written, int count)
{
    bool done = true;
    for (int i = 1; i <= count && done; i++) {
        w->current = written + i;
        lua_pushvalue(w->L, i + 1);
        done = begin(w);
        while (done && w->depth > 0)
            done = step(w);
        w->message->count += done;
        w->code = NULL;
    }
    return done;
}
