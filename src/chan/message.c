// SPDX-License-Identifier: MIT
// Growing, copying and dropping messages, and taking those that came from elsewhere. What C
// programs build and read is in value.c.
#include "chan/message.h"

#include "base/alloc.h"

// Before the bytes of a message that somebody pays for: from when it is written until it is freed,
// wherever that is. Nobody pays for one that was adopted, which has room for this all the same.
struct payer {
    struct mare__account *account; // a reference, or NULL
    size_t bytes;
};
_Static_assert(sizeof(struct payer) == MARE__MESSAGE_RESERVE, "the room before an adopted message");

static struct payer *payer_of(const mare_message *message)
{
    return message->charged ? (struct payer *)message->as.large - 1 : NULL;
}

static uint8_t *resize_adopted(const mare_message *message, size_t capacity)
{
    struct payer *moved = mare__realloc(payer_of(message), sizeof *moved + capacity);
    return moved ? (uint8_t *)(moved + 1) : NULL;
}

// The same bytes in a block of another size, for which the account has enough left.
static uint8_t *resize_paid(mare_message *message, struct mare__account *account, size_t capacity)
{
    struct payer *payer = payer_of(message);
    size_t before = payer ? payer->bytes : 0, bytes = sizeof *payer + capacity;
    if (!mare__account_take(account, bytes - before))
        return NULL;
    struct payer *moved = mare__realloc(payer, bytes);
    if (!moved) {
        mare__account_give(account, bytes - before);
        return NULL;
    }
    if (!payer)
        mare__account_ref(account);
    *moved = (struct payer){account, bytes};
    message->charged = true;
    return (uint8_t *)(moved + 1);
}

uint8_t *mare__message_room_slow(mare_message *message, size_t size)
{
    if (size > MARE__MESSAGE_MAX - message->length)
        return NULL;
    const struct payer *payer = payer_of(message);
    struct mare__account *account =
        message->capacity ? (payer ? payer->account : NULL) : mare__paying;
    size_t want = message->length + size;
    size_t capacity = message->capacity ? message->capacity : MARE__MESSAGE_FIRST;
    while (capacity < want)
        capacity *= 2;
    uint8_t *block;
    if (!account && payer) {
        block = resize_adopted(message, capacity);
    } else if (!account) {
        block = mare__realloc(message->capacity ? message->as.large : NULL, capacity);
    } else {
        block = resize_paid(message, account, capacity);
        if (!block && want < capacity) // no more than it needs
            block = resize_paid(message, account, capacity = want);
    }
    if (!block)
        return NULL;
    if (!message->capacity)
        memcpy(block, message->as.small, message->length);
    message->as.large = block;
    message->capacity = (uint32_t)capacity;
    return block + message->length;
}

bool mare__message_append(mare_message *message, const void *bytes, size_t size)
{
    uint8_t *room = mare__message_room(message, size);
    if (!room)
        return false;
    memcpy(room, bytes, size);
    message->length += (uint32_t)size;
    return true;
}

bool mare__message_append_handle(mare_message *message, struct mare__object *object)
{
    uint8_t *room = mare__message_room(message, MARE__PACK_EXT + sizeof(struct mare__handle));
    if (!room)
        return false;
    struct mare__handle handle = {message->handles, mare__ref(object)};
    mare__pack_ext_header(room, MARE__EXT_HANDLE, sizeof handle);
    memcpy(room + MARE__PACK_EXT, &handle, sizeof handle);
    message->handles = message->length + MARE__PACK_EXT + 1;
    message->length += MARE__PACK_EXT + (uint32_t)sizeof handle;
    return true;
}

void mare__message_shift_handles(mare_message *message, uint32_t start, uint32_t distance)
{
    uint8_t *data = (uint8_t *)mare__message_data(message);
    uint32_t offset;
    // From the last handle back to the first one that moved. Each begins with the offset (plus 1)
    // of the one before.
    for (uint8_t *entry = (uint8_t *)&message->handles;; entry = data + offset - 1) {
        memcpy(&offset, entry, sizeof offset);
        if (offset <= start)
            return;
        offset += distance;
        memcpy(entry, &offset, sizeof offset);
    }
}

bool mare__message_head(mare_message *message, const char *string)
{
    uint8_t header[MARE__PACK_MAX];
    size_t size = strlen(string), head = mare__pack_string_header(header, (uint32_t)size);
    uint32_t more = (uint32_t)(head + size);
    if (!mare__message_room(message, more))
        return false;
    uint8_t *data = (uint8_t *)mare__message_data(message);
    memmove(data + more, data, message->length);
    memcpy(data, header, head);
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): its length stands before it
    memcpy(data + head, string, size);
    message->length += more;
    message->count++;
    mare__message_shift_handles(message, 0, more);
    return true;
}

// Calls `visit` with every object the message refers to.
static void each_handle(const mare_message *message, void (*visit)(struct mare__object *))
{
    const uint8_t *data = mare__message_data(message);
    for (uint32_t at = message->handles; at != 0;) {
        struct mare__handle handle;
        memcpy(&handle, data + at - 1, sizeof handle);
        at = handle.previous;
        if (handle.object)
            visit(handle.object);
    }
}

void mare__message_disown(mare_message *message, struct mare__object *keeper)
{
    const uint8_t *data = mare__message_data(message);
    for (uint32_t at = message->handles; at != 0;) {
        struct mare__handle handle;
        memcpy(&handle, data + at - 1, sizeof handle);
        at = handle.previous;
        if (handle.object == keeper)
            mare__unref(keeper);
    }
}

// Puts `to` in the place of each reference to `from`, and says how many there were.
static size_t put(mare_message *message, const struct mare__object *from, struct mare__object *to)
{
    uint8_t *data = (uint8_t *)mare__message_data(message);
    size_t count = 0;
    for (uint32_t at = message->handles; at != 0;) {
        struct mare__handle handle;
        uint8_t *place = data + at - 1;
        memcpy(&handle, place, sizeof handle);
        at = handle.previous;
        if (handle.object == from) {
            handle.object = to;
            memcpy(place, &handle, sizeof handle);
            count++;
        }
    }
    return count;
}

void mare__message_forget(mare_message *message, const struct mare__object *keeper)
{
    put(message, keeper, NULL);
}

void mare__message_replace(mare_message *message, struct mare__object *from,
                           struct mare__object *to)
{
    for (size_t count = put(message, from, to); count > 0; count--) {
        mare__ref(to);
        mare__unref(from);
    }
}

static void take(struct mare__object *object)
{
    mare__ref(object);
}

bool mare__message_copy(mare_message *to, const mare_message *from)
{
    mare__message_init(to);
    if (!mare__message_append(to, mare__message_data(from), from->length))
        return false;
    to->count = from->count;
    to->handles = from->handles;
    to->rich = from->rich;
    to->repeats = from->repeats;
    to->trust = from->trust;
    each_handle(to, take);
    return true;
}

bool mare__message_join(mare_message *to, const mare_message *from)
{
    uint32_t base = to->length;
    if (!mare__message_append(to, mare__message_data(from), from->length))
        return false;
    uint8_t *data = (uint8_t *)mare__message_data(to);
    uint32_t last = to->handles, at = from->handles ? from->handles + base : 0, next;
    if (at)
        to->handles = at;
    for (; at;
         at = next) { // the chain moves along, and its end is tied to the chain that was there
        struct mare__handle handle;
        memcpy(&handle, data + at - 1, sizeof handle);
        next = handle.previous ? handle.previous + base : 0;
        handle.previous = next ? next : last;
        memcpy(data + at - 1, &handle, sizeof handle);
        mare__ref(handle.object);
    }
    to->count += from->count;
    to->rich |= from->rich;
    to->repeats |= from->repeats;
    return true;
}

void mare__message_truncate(mare_message *message, uint32_t length, uint32_t count)
{
    const uint8_t *data = mare__message_data(message);
    while (message->handles > length) {
        struct mare__handle handle;
        memcpy(&handle, data + message->handles - 1, sizeof handle);
        message->handles = handle.previous;
        mare__unref(handle.object);
    }
    message->length = length;
    message->count = count;
    message->repeats = false;
}

void mare__message_clear_slow(mare_message *message)
{
    each_handle(message, mare__unref);
    struct payer *payer = payer_of(message);
    if (payer) {
        if (payer->account) {
            mare__account_give(payer->account, payer->bytes);
            mare__account_unref(payer->account);
        }
        mare__free(payer);
    } else if (message->capacity) {
        mare__free(message->as.large);
    }
    mare__message_init(message);
}

bool mare__message_check(const mare_message *message, bool (*accepts)(const struct mare__object *))
{
    const uint8_t *data = mare__message_data(message);
    for (uint32_t at = message->handles; at != 0;) {
        struct mare__handle handle;
        memcpy(&handle, data + at - 1, sizeof handle);
        at = handle.previous;
        if (!accepts(handle.object))
            return false;
    }
    return true;
}

mare_err mare__message_dissolve(mare_message *message,
                                bool (*write)(void *context, struct mare__object *object,
                                              uint8_t payload[sizeof(struct mare__handle)]),
                                void *context)
{
    uint8_t *data = (uint8_t *)mare__message_data(message);
    while (message->handles) {
        struct mare__handle handle;
        uint8_t payload[sizeof handle];
        memcpy(&handle, data + message->handles - 1, sizeof handle);
        if (!write(context, handle.object, payload))
            return MARE_BADMSG;
        memcpy(data + message->handles - 1, payload, sizeof payload);
        message->handles = handle.previous;
        mare__unref(handle.object);
    }
    return MARE_OK;
}

// Looks into every ext too: whether all of it is MessagePack with nothing in it that a peer cannot
// make. `*repeats` tells whether something is referred to again, `*handles` how many references
// there are.
static bool is_acceptable(const uint8_t *at, const uint8_t *end, bool *repeats, uint32_t *handles)
{
    struct mare__token token;
    while (at < end) {
        if (!mare__unpack(&at, end, &token))
            return false;
        if (token.kind == MARE__TOKEN_STRING) {
            at += token.size;
        } else if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_HANDLE) {
            if (token.size != sizeof(struct mare__handle))
                return false;
            at += token.size;
            ++*handles;
        } else if (token.kind == MARE__TOKEN_EXT) {
            if (token.ext < MARE__EXT_REPEAT || token.ext > MARE__EXT_OBJECT)
                return false;
            *repeats |= token.ext == MARE__EXT_REPEAT || token.ext == MARE__EXT_SHARED;
            if (mare__token_is_raw(&token)) // others have MessagePack inside, which comes next
                at += token.size;
        }
    }
    return true;
}

// How many objects there are; false when they are no whole ones.
static bool count_objects(const uint8_t *at, const uint8_t *end, bool ext, uint32_t *count)
{
    for (*count = 0; at < end; ++*count)
        if (!mare__unpack_skip(&at, end, ext))
            return false;
    return true;
}

// Puts objects in the place of the payloads of references, in bytes that were found acceptable.
static bool resolve_all(mare_message *message, mare__resolve *resolve, void *context)
{
    uint8_t *data = (uint8_t *)mare__message_data(message);
    const uint8_t *at = data, *end = at + message->length;
    struct mare__token token;
    while (at < end && mare__unpack(&at, end, &token)) {
        if (token.kind == MARE__TOKEN_EXT && token.ext == MARE__EXT_HANDLE) {
            struct mare__handle handle = {message->handles, resolve(context, at)};
            if (!handle.object)
                return false;
            memcpy(data + (at - data), &handle, sizeof handle);
            message->handles = (uint32_t)(at - data) + 1;
            at += token.size;
        } else if (mare__token_is_raw(&token)) {
            at += token.size;
        }
    }
    return true;
}

// What was found in bytes that a peer has sent.
struct finding {
    uint32_t count, handles;
    bool repeats;
};

static mare_err examine(const uint8_t *at, size_t length, bool resolves, struct finding *finding)
{
    const uint8_t *end = at + length;
    *finding = (struct finding){0};
    if (length > MARE__MESSAGE_MAX)
        return MARE_TOOBIG;
    if (!count_objects(at, end, true, &finding->count) ||
        !is_acceptable(at, end, &finding->repeats, &finding->handles) ||
        (finding->handles > 0 && !resolves))
        return MARE_BADMSG;
    return MARE_OK;
}

// Makes a message of bytes that were examined and are its own now.
static mare_err complete(mare_message *message, const struct finding *finding,
                         enum mare__trust trust, mare__resolve *resolve, void *context)
{
    message->count = finding->count;
    message->rich = true;
    message->repeats = finding->repeats;
    message->trust = (uint8_t)trust;
    if (finding->handles == 0 || resolve_all(message, resolve, context))
        return MARE_OK;
    mare__message_clear(message);
    return MARE_BADMSG;
}

mare_err mare__message_accept_with(mare_message *to, const void *bytes, size_t length,
                                   enum mare__trust trust, mare__resolve *resolve, void *context)
{
    struct finding finding;
    mare_err err = examine(bytes, length, resolve != NULL, &finding);
    if (err)
        return err;
    if (!mare__message_append(to, bytes, length))
        return MARE_NOMEM;
    return complete(to, &finding, trust, resolve, context);
}

mare_err mare__message_adopt_with(mare_message *to, void **block, size_t length,
                                  enum mare__trust trust, mare__resolve *resolve, void *context)
{
    struct finding finding;
    struct payer *before = *block;
    mare_err err = examine((uint8_t *)(before + 1), length, resolve != NULL, &finding);
    if (err)
        return err;
    *before = (struct payer){NULL, sizeof *before + length};
    *block = NULL;
    mare__message_init(to);
    to->as.large = (uint8_t *)(before + 1);
    to->length = to->capacity = (uint32_t)length;
    to->charged = true;
    return complete(to, &finding, trust, resolve, context);
}

mare_err mare__message_accept(mare_message *to, const void *bytes, size_t length,
                              enum mare__trust trust)
{
    return mare__message_accept_with(to, bytes, length, trust, NULL, NULL);
}

mare_err mare_message_parse(const void *bytes, size_t length, mare_message **out)
{
    uint32_t count;
    if (!count_objects(bytes, (const uint8_t *)bytes + length, false, &count))
        return MARE_BADMSG;
    if (length > MARE__MESSAGE_MAX)
        return MARE_TOOBIG;
    mare_err err = mare_message_create(out);
    if (err)
        return err;
    (*out)->trust = MARE__TRUST_STRANGER;
    (*out)->rich = true;
    (*out)->count = count;
    if (mare__message_append(*out, bytes, length))
        return MARE_OK;
    mare_message_destroy(*out);
    return MARE_NOMEM;
}
