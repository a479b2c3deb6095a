// SPDX-License-Identifier: MIT
// A message: a tuple of values as MessagePack, small ones inside the structure, so that an integer
// or a short string crosses without an allocation. References to channels, processes and buffers
// are ext objects that hold a pointer; the message owns a reference to each, and finds them again
// through a chain of offsets when it is dropped.
#pragma once

#include <mare.h>
#include <string.h>

#include "base/object.h"
#include "mare_limits.h"
#include "wire/pack.h"

// The ext kinds. All but the references are well-formed MessagePack inside, so that a stranger can
// skip or show them.
enum mare__ext {
    MARE__EXT_REPEAT =
        1, // u32: the table, function or EXT_TRAVEL with that number, from 0 in order of appearance
    MARE__EXT_GLOBALS,  // empty: the receiver's table of globals
    MARE__EXT_MODULE,   // the bytes of a name: what `require` returns for it
    MARE__EXT_MEMBER,   // two strings: a library and one of its functions
    MARE__EXT_MIXED,    // an array, then a map: a table with both parts
    MARE__EXT_FUNCTION, // bytecode (bin), then its upvalues
    MARE__EXT_SHARED,   // u32, u8: an upvalue shared with that function's upvalue of that number
    MARE__EXT_TRAVEL,   // a module's name and a value: what its `arrive` makes of it
    MARE__EXT_HANDLE,   // struct mare__handle inside a node; between nodes see src/node/message.c
    MARE__EXT_OBJECT,   // a module's name, where in it the metatable is, a table that gets it
};

// Whether the bytes behind a token are no objects.
static inline bool mare__token_is_raw(const struct mare__token *token)
{
    return token->kind == MARE__TOKEN_STRING ||
           (token->kind == MARE__TOKEN_EXT &&
            (token->ext == MARE__EXT_REPEAT || token->ext == MARE__EXT_SHARED ||
             token->ext == MARE__EXT_MODULE || token->ext == MARE__EXT_HANDLE));
}

// The payload of MARE__EXT_HANDLE.
struct mare__handle {
    uint32_t previous; // offset of the previous handle's payload plus 1; 0 when none
    struct mare__object *object;
} __attribute__((packed));

enum { MARE__MESSAGE_MAX = 1 << 30 };
enum { MARE__MESSAGE_RESERVE = 16 }; // bytes before those that a message can adopt

// Who wrote the bytes of a message, and so what may stand in them.
enum mare__trust {
    MARE__TRUST_OWN,     // this program: everything
    MARE__TRUST_EQUAL,   // a peer that is trusted with bytecode
    MARE__TRUST_PEER,    // a peer: all but bytecode. What it refers to was put in by the node
    MARE__TRUST_STRANGER // anybody: plain values
};

struct mare_message {
    uint32_t length;
    uint32_t capacity; // 0: the bytes are in `small`
    uint32_t count;    // values
    uint32_t handles;  // offset of the last handle's payload plus 1; 0 when none
    bool rich;         // there are tables, functions or others beyond plain values and references
    bool repeats; // some value is referred to again: the reader must number tables and functions
    uint8_t trust : 4;   // enum mare__trust
    uint8_t charged : 1; // it is said before `large` who pays for it: see message.c
    uint8_t open : 3;    // not 0: a table is being built at its end, see value.c
    uint8_t stamp_high;  // 40 bits: the number of the event that sent it (see sched/trace.h), or 0
    uint32_t stamp_low;
    union {
        uint8_t small[MARE__MESSAGE_SMALL];
        uint8_t *large;
    } as;
};

static inline void mare__message_init(mare_message *message)
{
    // Not the bytes: a message is made for every send.
    memset(message, 0, offsetof(mare_message, as));
}

static inline void mare__message_stamp(mare_message *message, uint64_t number)
{
    message->stamp_high = (uint8_t)(number >> 32);
    message->stamp_low = (uint32_t)number;
}

static inline uint64_t mare__message_stamp_of(const mare_message *message)
{
    return (uint64_t)message->stamp_high << 32 | message->stamp_low;
}

static inline const uint8_t *mare__message_data(const mare_message *message)
{
    return message->capacity ? message->as.large : message->as.small;
}

static inline bool mare__message_empty(const mare_message *message)
{
    return message->length == 0;
}

// Moves the contents; `from` is left empty, whatever `to` had is forgotten (it must be empty).
static inline void mare__message_move(mare_message *to, mare_message *from)
{
    memcpy(to, from, sizeof *from); // a known size: four or eight moves, and no call
    mare__message_init(from);
}

// Room for `size` more bytes at the end, or NULL (MARE_NOMEM, MARE_TOOBIG). The caller adds to
// `length` what it used.
uint8_t *mare__message_room_slow(mare_message *message, size_t size);

static inline uint8_t *mare__message_room(mare_message *message, size_t size)
{
    size_t have = message->capacity ? message->capacity : sizeof message->as.small;
    if (have - message->length >= size)
        return (message->capacity ? message->as.large : message->as.small) + message->length;
    return mare__message_room_slow(message, size);
}

// Appends bytes. False when there is no memory or it grows too big.
bool mare__message_append(mare_message *message, const void *bytes, size_t size);

// Appends a reference to an object, taking one.
bool mare__message_append_handle(mare_message *message, struct mare__object *object);

// The bytes from `start` on have been moved up by `distance`: so have the handles among them.
void mare__message_shift_handles(mare_message *message, uint32_t start, uint32_t distance);

// The object in a handle's payload.
static inline struct mare__object *mare__handle_object(const uint8_t *payload)
{
    struct mare__handle handle;
    memcpy(&handle, payload, sizeof handle);
    return handle.object;
}

// Puts a string before the values that a message has. False when there is no memory.
bool mare__message_head(mare_message *message, const char *string);

// Copies a message; `to` must be empty. False when there is no memory.
bool mare__message_copy(mare_message *to, const mare_message *from);

// Takes back what was appended since it had this length and this many values.
void mare__message_truncate(mare_message *message, uint32_t length, uint32_t count);

// Appends the values of another message of our own making to one that holds plain values and
// references only, so that tables keep their numbers. False when there is no memory.
bool mare__message_join(mare_message *to, const mare_message *from);

// The bytes that a peer has sent as a message, with the ext kinds above but for references to
// objects, which it cannot make: MARE_BADMSG. What else is wrong in them the reader finds out. `to`
// must be empty. MARE_TOOBIG, MARE_NOMEM.
mare_err mare__message_accept(mare_message *to, const void *bytes, size_t length,
                              enum mare__trust trust);

// The same with references, which are not pointers there: `resolve` makes of the payload of each a
// reference to an object, or NULL, and then the message is refused.
typedef struct mare__object *mare__resolve(void *context, const uint8_t payload[]);
mare_err mare__message_accept_with(mare_message *to, const void *bytes, size_t length,
                                   enum mare__trust trust, mare__resolve *resolve, void *context);

// The same without a copy, of bytes that are not none and begin MARE__MESSAGE_RESERVE bytes after
// the start of a block of mare__alloc. If it becomes the message's, `*block` is NULL then.
mare_err mare__message_adopt_with(mare_message *to, void **block, size_t length,
                                  enum mare__trust trust, mare__resolve *resolve, void *context);

// The other way round: `write` makes of each reference a payload of the same size, and fails for
// those that must not leave. Then the message has no references any more. MARE_BADMSG: it was
// refused, and stays as it was but for what `write` noted.
mare_err mare__message_dissolve(mare_message *message,
                                bool (*write)(void *context, struct mare__object *object,
                                              uint8_t payload[sizeof(struct mare__handle)]),
                                void *context);

// Calls `visit` for every object that the message refers to, until one is refused. False: one was.
bool mare__message_check(const mare_message *message, bool (*accepts)(const struct mare__object *));

// Puts another object in the place of one, wherever the message refers to it.
void mare__message_replace(mare_message *message, struct mare__object *from,
                           struct mare__object *to);

// A message that an object keeps and that refers to the object itself would keep it for ever: such
// references are made not to count (disown), and must be forgotten before the message is cleared.
void mare__message_disown(mare_message *message, struct mare__object *keeper);
void mare__message_forget(mare_message *message, const struct mare__object *keeper);

// Gives back what the message holds and leaves it empty.
void mare__message_clear_slow(mare_message *message);

static inline void mare__message_clear(mare_message *message)
{
    if (message->capacity || message->handles)
        mare__message_clear_slow(message);
    else
        mare__message_init(message);
}
