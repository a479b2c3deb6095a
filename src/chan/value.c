// SPDX-License-Identifier: MIT
// What C programs build and read: the values of messages, tables among them.
//
// A table that is being built is a header at the end of the message, whose count is filled in when
// it is closed. Meanwhile `count` of the message counts what is in the innermost one; the caller's
// struct mare_table keeps what it counted before, and, in `elements`, how many were open.
//
//     values  [array 2] "a" "b"  [map ?] key value key ...
//                                ^ start             ^ the end of the message
//
// A table that is read is the place of its header and of its parts: `count` elements at `elements`,
// `pairs` pairs at `first_pair`. Nothing is unpacked: what is asked for is looked up in the bytes,
// and what is referred to by its number (MARE__EXT_REPEAT) is counted out from the beginning. The
// bytes may be a peer's, so everything is checked.
#include "base/alloc.h"
#include "chan/message.h"

mare_err mare_message_create(mare_message **out)
{
    *out = mare__alloc(sizeof **out);
    if (!*out)
        return MARE_NOMEM;
    mare__message_init(*out);
    return MARE_OK;
}

void mare_message_destroy(mare_message *message)
{
    if (message) {
        mare__message_clear(message);
        mare__free(message);
    }
}

static bool append_string(mare_message *message, const char *bytes, size_t length)
{
    if (length >= MARE__MESSAGE_MAX)
        return false;
    uint8_t *room = mare__message_room(message, MARE__PACK_MAX + length);
    if (!room)
        return false;
    size_t header = mare__pack_string_header(room, (uint32_t)length);
    memcpy(room + header, bytes, length);
    message->length += (uint32_t)(header + length);
    return true;
}

static bool append_scalar(mare_message *message, const mare_value *value)
{
    uint8_t *room = mare__message_room(message, MARE__PACK_MAX);
    if (!room)
        return false;
    if (value->type == MARE_BOOLEAN)
        message->length += (uint32_t)mare__pack_boolean(room, value->as.boolean);
    else if (value->type == MARE_INTEGER)
        message->length += (uint32_t)mare__pack_integer(room, value->as.integer);
    else if (value->type == MARE_FLOAT)
        message->length += (uint32_t)mare__pack_float(room, value->as.number);
    else
        message->length += (uint32_t)mare__pack_nil(room);
    return true;
}

mare_err mare_message_add(mare_message *message, const mare_value *value)
{
    bool done;
    switch (value->type) {
    case MARE_STRING:
        if (value->as.string.length >= MARE__MESSAGE_MAX - message->length)
            return MARE_TOOBIG;
        done = append_string(message, value->as.string.bytes, value->as.string.length);
        break;
    case MARE_CHANNEL:
        done = mare__message_append_handle(message, (struct mare__object *)value->as.channel);
        break;
    case MARE_PROCESS:
        done = mare__message_append_handle(message, (struct mare__object *)value->as.process);
        break;
    case MARE_TABLE:
    case MARE_OTHER:
        return MARE_INVALID;
    default:
        done = append_scalar(message, value);
    }
    if (!done)
        return MARE_NOMEM;
    message->count++;
    return MARE_OK;
}

mare_err mare_message_add_string(mare_message *message, const char *string)
{
    mare_value value = {.type = MARE_STRING, .as.string = {string, strlen(string)}};
    return mare_message_add(message, &value);
}

mare_err mare_message_add_integer(mare_message *message, int64_t integer)
{
    mare_value value = {.type = MARE_INTEGER, .as.integer = integer};
    return mare_message_add(message, &value);
}

size_t mare_message_count(const mare_message *message)
{
    return message->count;
}

const void *mare_message_bytes(const mare_message *message, size_t *length)
{
    *length = message->length;
    return mare__message_data(message);
}

// ---- Building tables ----------------------------------------------------------------------------

// How many are open, up to 7 and then from 1 again: enough to find out who forgets to close one.
static uint8_t deeper(uint8_t open)
{
    return (uint8_t)(open % 7 + 1);
}

static mare_err open_table(mare_message *message, mare_table *table, bool array)
{
    uint8_t *room = mare__message_room(message, MARE__PACK_TABLE);
    if (!room)
        return message->length > MARE__MESSAGE_MAX - MARE__PACK_TABLE ? MARE_TOOBIG : MARE_NOMEM;
    *table = (mare_table){message, message->length, message->count, message->open, 0, 0};
    if (array)
        mare__pack_array_header(room, 0);
    else
        mare__pack_map_header(room, 0);
    message->length += MARE__PACK_TABLE;
    message->count = 0;
    message->rich = true;
    message->open = deeper(message->open);
    return MARE_OK;
}

mare_err mare_message_open_table(mare_message *message, mare_table *table)
{
    return open_table(message, table, false);
}

mare_err mare_message_open_array(mare_message *message, mare_table *array)
{
    return open_table(message, array, true);
}

// Whether each of so many values has a key before it that can be one.
static bool has_keys(const uint8_t *at, const uint8_t *end, uint32_t count)
{
    struct mare__token token;
    for (uint32_t i = 0; i < count; i += 2) {
        const uint8_t *key = at;
        if (!mare__unpack(&key, end, &token) || token.kind == MARE__TOKEN_NIL ||
            (token.kind == MARE__TOKEN_FLOAT && token.as.number != token.as.number))
            return false;
        for (int part = 0; part < 2; part++) // the key and its value
            if (!mare__unpack_skip(&at, end, true))
                return false;
    }
    return true;
}

mare_err mare_message_close_table(mare_table *table)
{
    mare_message *message = (mare_message *)table->message;
    if (message->open != deeper((uint8_t)table->elements))
        return MARE_INVALID;
    uint8_t *header = (uint8_t *)mare__message_data(message) + table->start;
    const uint8_t *end = mare__message_data(message) + message->length;
    uint32_t count = message->count;
    bool array = *header == MARE__PACK_ARRAY_BYTE;
    message->open = (uint8_t)table->elements & 7;
    if (!array && (count % 2 != 0 || !has_keys(header + MARE__PACK_TABLE, end, count))) {
        bool repeats = message->repeats; // of values before it
        mare__message_truncate(message, table->start, table->count);
        message->repeats = repeats;
        return MARE_INVALID;
    }
    if (array)
        mare__pack_array_header(header, count);
    else
        mare__pack_map_header(header, count / 2);
    message->count = table->count + 1;
    return MARE_OK;
}

// ---- Reading ------------------------------------------------------------------------------------

static const uint8_t *end_of(const mare_message *message)
{
    return mare__message_data(message) + message->length;
}

static bool skip(const uint8_t **at, const uint8_t *end, uint32_t objects)
{
    for (; objects > 0; objects--)
        if (!mare__unpack_skip(at, end, true))
            return false;
    return true;
}

// The table whose header is at `at`. False: there is none.
static bool find_table(const mare_message *message, const uint8_t *at, mare_table *table)
{
    const uint8_t *data = mare__message_data(message), *end = end_of(message);
    struct mare__token token;
    *table = (mare_table){.message = message, .start = (uint32_t)(at - data)};
    if (!mare__unpack(&at, end, &token))
        return false;
    bool mixed = token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_MIXED;
    if (mixed && (!mare__unpack(&at, end, &token) || token.kind != MARE__TOKEN_ARRAY))
        return false;
    if (token.kind == MARE__TOKEN_ARRAY) {
        table->elements = (uint32_t)(at - data);
        table->count = token.size;
        if (!mixed)
            return true;
        if (!skip(&at, end, token.size) || !mare__unpack(&at, end, &token))
            return false;
    }
    table->first_pair = (uint32_t)(at - data);
    table->pairs = token.size;
    return token.kind == MARE__TOKEN_MAP;
}

// The maps of mixed tables that are still to come while numbers are counted out: they belong to a
// table that has its number already. The innermost, which comes first, is the last.
struct tails {
    const uint8_t **at;
    size_t count, room;
};

static bool tails_add(struct tails *tails, const uint8_t *at)
{
    if (tails->count == tails->room) {
        size_t room = tails->room ? tails->room * 2 : 16;
        const uint8_t **more = mare__realloc(tails->at, room * sizeof *more);
        if (!more)
            return false;
        tails->at = more;
        tails->room = room;
    }
    tails->at[tails->count++] = at;
    return true;
}

// Whether what begins at `here` has a number of its own; goes on to what comes next.
static mare_err count_one(const mare_message *message, const uint8_t **at, struct tails *tails,
                          bool *counts)
{
    const uint8_t *here = *at, *end = end_of(message);
    struct mare__token token;
    if (!mare__unpack(at, end, &token))
        return MARE_BADMSG;
    bool ext = token.kind == MARE__TOKEN_EXT;
    bool tail = tails->count > 0 && tails->at[tails->count - 1] == here;
    tails->count -= tail;
    *counts = !tail && (token.kind == MARE__TOKEN_ARRAY || token.kind == MARE__TOKEN_MAP ||
                        (ext && (token.ext == MARE__EXT_MIXED || token.ext == MARE__EXT_FUNCTION ||
                                 token.ext == MARE__EXT_TRAVEL)));
    if (mare__token_is_raw(&token))
        *at += token.size;
    if (!ext || token.ext != MARE__EXT_MIXED)
        return MARE_OK;
    struct mare__token array;
    if (!mare__unpack(at, end, &array) || array.kind != MARE__TOKEN_ARRAY)
        return MARE_BADMSG;
    const uint8_t *map = *at;
    if (!skip(&map, end, array.size))
        return MARE_BADMSG;
    return tails_add(tails, map) ? MARE_OK : MARE_NOMEM;
}

// Where the table, function or other with a number is.
static mare_err find_number(const mare_message *message, uint32_t number, const uint8_t **found)
{
    const uint8_t *at = mare__message_data(message), *end = end_of(message);
    struct tails tails = {0};
    mare_err err = MARE_OK;
    bool counts = false;
    for (*found = at; !err; *found = at) {
        err = at < end ? count_one(message, &at, &tails, &counts) : MARE_BADMSG;
        if (!err && counts && number-- == 0)
            break;
    }
    mare__free(tails.at);
    return err;
}

// What a value that is no plain one is.
static mare_err read_rich(const mare_message *message, const uint8_t *here, mare_value *out)
{
    struct mare__token token;
    mare_table table;
    const uint8_t *end = end_of(message), *at = here;
    if (!mare__unpack(&at, end, &token))
        return MARE_BADMSG;
    if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_REPEAT && token.size == 4) {
        mare_err err = find_number(message, mare__get32(at), &here);
        if (err)
            return err;
    } else if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_OBJECT) {
        if (!skip(&at, end, 2)) // the module and the place of its class
            return MARE_BADMSG;
        here = at;
    }
    if (find_table(message, here, &table)) {
        out->type = MARE_TABLE;
        out->as.table = table;
    }
    return MARE_OK;
}

static mare_err read_reference(const uint8_t *payload, mare_value *out)
{
    struct mare__object *object = mare__handle_object(payload);
    if (object->kind == MARE__KIND_CHANNEL) {
        out->type = MARE_CHANNEL;
        out->as.channel = (mare_channel *)object;
    } else if (object->kind == MARE__KIND_PROCESS) {
        out->type = MARE_PROCESS;
        out->as.process = (mare_process *)object;
    }
    return MARE_OK;
}

// Reads the value at `here`.
static mare_err read_value(const mare_message *message, const uint8_t *here, mare_value *out)
{
    struct mare__token token;
    const uint8_t *at = here;
    if (!mare__unpack(&at, end_of(message), &token))
        return MARE_BADMSG;
    out->type = MARE_OTHER;
    switch (token.kind) {
    case MARE__TOKEN_NIL:
        out->type = MARE_NIL;
        break;
    case MARE__TOKEN_BOOLEAN:
        out->type = MARE_BOOLEAN;
        out->as.boolean = token.as.boolean;
        break;
    case MARE__TOKEN_INTEGER:
        out->type = MARE_INTEGER;
        out->as.integer = token.as.integer;
        break;
    case MARE__TOKEN_FLOAT:
        out->type = MARE_FLOAT;
        out->as.number = token.as.number;
        break;
    case MARE__TOKEN_STRING:
        out->type = MARE_STRING;
        out->as.string.bytes = (const char *)at;
        out->as.string.length = token.size;
        break;
    case MARE__TOKEN_UNSIGNED: // another program's, too large for an integer
        out->type = MARE_FLOAT;
        out->as.number = (double)(uint64_t)token.as.integer;
        break;
    default:
        if (message->trust == MARE__TRUST_STRANGER && token.kind == MARE__TOKEN_EXT)
            break;
        if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_HANDLE)
            return read_reference(at, out);
        return read_rich(message, here, out);
    }
    return MARE_OK;
}

mare_err mare_message_get(const mare_message *message, size_t index, mare_value *out)
{
    const uint8_t *at = mare__message_data(message);
    if (index >= message->count)
        return MARE_INVALID;
    return skip(&at, end_of(message), (uint32_t)index) ? read_value(message, at, out) : MARE_BADMSG;
}

// ---- Reading tables -----------------------------------------------------------------------------

size_t mare_table_length(const mare_table *table)
{
    return table->count;
}

bool mare_table_same(const mare_table *a, const mare_table *b)
{
    return a->message == b->message && a->start == b->start;
}

// Whether they are the same key.
static bool equal(const mare_value *a, const mare_value *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case MARE_BOOLEAN:
        return a->as.boolean == b->as.boolean;
    case MARE_INTEGER:
        return a->as.integer == b->as.integer;
    case MARE_FLOAT:
        return a->as.number == b->as.number;
    case MARE_STRING:
        return a->as.string.length == b->as.string.length &&
               memcmp(a->as.string.bytes, b->as.string.bytes, a->as.string.length) == 0;
    case MARE_CHANNEL:
        return a->as.channel == b->as.channel;
    case MARE_PROCESS:
        return a->as.process == b->as.process;
    case MARE_TABLE:
        return mare_table_same(&a->as.table, &b->as.table);
    default:
        return false;
    }
}

// Lua has no float key that is a whole number.
static mare_value normal(const mare_value *key)
{
    bool whole = key->type == MARE_FLOAT && key->as.number >= -0x1p63 && key->as.number < 0x1p63 &&
                 (double)(int64_t)key->as.number == key->as.number;
    return whole ? (mare_value){.type = MARE_INTEGER, .as.integer = (int64_t)key->as.number} : *key;
}

// Reads the value at *at and goes past it.
static mare_err read_next(const mare_message *message, const uint8_t **at, mare_value *out)
{
    mare_err err = read_value(message, *at, out);
    return err || skip(at, end_of(message), 1) ? err : MARE_BADMSG;
}

mare_err mare_table_get(const mare_table *table, const mare_value *key, mare_value *out)
{
    mare_value wanted = normal(key), found;
    const mare_message *message = table->message;
    const uint8_t *data = mare__message_data(message), *end = end_of(message), *value = NULL;
    mare_err err = MARE_OK;
    if (wanted.type == MARE_INTEGER && wanted.as.integer >= 1 &&
        wanted.as.integer <= table->count) {
        value = data + table->elements;
        if (!skip(&value, end, (uint32_t)wanted.as.integer - 1))
            return MARE_BADMSG;
    }
    const uint8_t *at = data + table->first_pair;
    for (uint32_t i = 0; i < table->pairs && !err; i++) {
        err = read_next(message, &at, &found);
        if (err)
            break;
        found = normal(&found);
        if (equal(&found, &wanted))
            value = at; // of several, which only a stranger writes, Lua takes the last
        if (!skip(&at, end, 1))
            err = MARE_BADMSG;
    }
    out->type = MARE_NIL;
    return err || !value ? err : read_value(message, value, out);
}

mare_err mare_table_get_field(const mare_table *table, const char *name, mare_value *out)
{
    mare_value key = {.type = MARE_STRING, .as.string = {name, strlen(name)}};
    return mare_table_get(table, &key, out);
}

mare_err mare_table_get_element(const mare_table *table, int64_t index, mare_value *out)
{
    mare_value key = {.type = MARE_INTEGER, .as.integer = index};
    return mare_table_get(table, &key, out);
}

// A position: how many were read, and where the next is.
mare_err mare_table_next(const mare_table *table, uint64_t *position, mare_value *key,
                         mare_value *value)
{
    const mare_message *message = table->message;
    const uint8_t *data = mare__message_data(message);
    uint32_t read = (uint32_t)(*position >> 32), place = (uint32_t)*position;
    mare_err err = MARE_OK;
    if (read >= (uint64_t)table->count + table->pairs)
        return MARE_EMPTY;
    if (read == table->count)
        place = table->first_pair;
    else if (read == 0)
        place = table->elements;
    const uint8_t *at = data + place;
    if (read < table->count)
        *key = (mare_value){.type = MARE_INTEGER, .as.integer = (int64_t)read + 1};
    else
        err = read_next(message, &at, key);
    if (!err)
        err = read_next(message, &at, value);
    *position = (uint64_t)(read + 1) << 32 | (uint32_t)(at - data);
    return err;
}
