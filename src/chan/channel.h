// SPDX-License-Identifier: MIT
// Channels: where processes meet. This file knows messages and waits; it knows nothing of Lua or of
// workers.
#pragma once

#include "base/list.h"
#include "base/object.h"
#include "chan/message.h"
#include "chan/wait.h"
#include "platform/lock.h"

struct mare__directory;

// What may be possible without waiting, for those who look without the lock.
enum { MARE__CAN_SEND = 1, MARE__CAN_RECEIVE = 2 };

// All channels of a runtime: a channel whose buffer holds a reference to itself, or to another that
// holds one to it, is freed by nobody until the runtime stops and empties them.
struct mare__channels {
    mare__lock lock;
    struct mare__list list, tours;
    struct mare__directory *names; // where their names are registered
    long owner;                    // the operating-system process that they belong to
};

// What a channel of another node has beside its line of messages to be sent there: see src/node.
struct mare__far {
    mare_channel *in; // where what was asked for from there arrives; a reference
    // Somebody waits in `in` now, or does not wait any more. No lock is held.
    void (*ask)(struct mare__far *far);
    // The program closes the channel.
    void (*close)(struct mare__far *far);
    // Whether a message can go there: MARE_OK, MARE_TOOBIG, or MARE_BADMSG and what stands in the
    // way. The channel may take fewer messages from now on, if this one is large.
    mare_err (*check)(const struct mare__far *far, const mare_message *message, const char **why);
    void (*hold)(struct mare__far *far);
    void (*release)(struct mare__far *far);
};

// What a wait at a channel of the runtime's own is for, told to those who look at processes
// (sched/look.h).
enum mare__tells {
    MARE__TELLS_NOTHING,
    MARE__TELLS_READ, // the descriptor `number` can be read, or written
    MARE__TELLS_WRITE,
    MARE__TELLS_MEMORY, // the same of a stream in memory
    MARE__TELLS_TIMER,
    MARE__TELLS_FILE, // a thread apart has done what it was asked for
    MARE__TELLS_RESOLVE,
    MARE__TELLS_DATABASE,
    MARE__TELLS_CHANGE,  // something has happened to the file `name`
    MARE__TELLS_PROGRAM, // the program with the process id `number` has ended
    MARE__TELLS_SIGNAL,
    MARE__TELLS_FAR, // a message of a channel of another node has come
};

struct mare__event {
    enum mare__tells tells;
    int number;       // or 0
    const char *name; // or NULL; lives as long as somebody waits
};

struct mare_channel {
    struct mare__object object;
    mare__lock lock;        // guards all below
    atomic_uchar can;       // MARE__CAN_SEND, MARE__CAN_RECEIVE: a hint, read without the lock
    uint8_t closed;         // 0, or why nothing can be sent any more: MARE_CLOSED, MARE_NONODE
    bool box;               // constant; see mare__chan_create_box
    uint16_t less;          // by so many than its capacity it buffers now: see mare__chan_limit
    struct mare__far *far;  // constant; NULL: the channel is at home here
    size_t count, capacity; // buffered messages; how many there can be, which is constant
    struct mare__list receivers,
        senders; // of struct mare__spot; at most one of the two is not empty
    uint64_t sent;
    // Above is what every message touches, in few lines of the cache.
    mare_message *ring; // the buffer; grows up to capacity
    size_t room, head;
    uint64_t back, back_until; // given back: how many; until so many have left, these are the first
    uint64_t id;               // 0: it is the runtime's own
    struct mare_runtime *runtime; // for foreign threads that wait; NULL in unit tests
    struct mare__channels *all;   // where it is listed, or NULL: that of a process's end
    union {
        struct mare__list in_all;
        struct mare__event event; // of one that has no number and is not listed; constant
    };
    char *name;                    // or NULL; constant after creation
    uint64_t ends;                 // the process whose end it tells, or 0
    const struct mare__site *made; // where in a program, or NULL: see sched/look.h
    mare_message own[];            // a ring that needs no block of its own, or nothing
};

// The channel to receive from in place of this one.
static inline mare_channel *mare__chan_in(mare_channel *channel)
{
    return __builtin_expect(channel->far != NULL, 0) ? channel->far->in : channel;
}

// Closes it with the caller's reason, which those who wait get: MARE_CLOSED or another. False: it
// was closed before.
bool mare__chan_close_for(mare_channel *channel, mare_err why);

// From now on it buffers so many at most, and not more than its capacity, which is 65,535 or less.
// False: that is more than before, and it is not empty; somebody could stand in line to send where
// there is room.
bool mare__chan_limit(mare_channel *channel, size_t limit);

// A message that was received, and that nobody wants: it is the next to be received again, but for
// others that were given back before it. So it may be there beyond the capacity, and when the
// channel is closed. MARE_FULL: MARE__CHAN_BACK are there already, or with it they would have more
// than `most` bytes. MARE_NOMEM. Then it is still the caller's.
mare_err mare__chan_give_back(mare_channel *channel, mare_message *message, size_t most);

enum { MARE__CHAN_BACK = 64 };

// How many stand in line to receive, which takes a walk; and whether any do.
size_t mare__chan_receivers(mare_channel *channel);
bool mare__chan_is_awaited(mare_channel *channel);

// Whether something may be possible now. A hint: false when it is not or has just become so.
static inline bool mare__can(const mare_channel *channel, unsigned char what)
{
    return atomic_load_explicit(&channel->can, memory_order_relaxed) & what;
}

// A new channel with one reference, or NULL. The second one has all its room from the start, so
// that to send to it never fails for want of memory; and so has the first if the capacity is 1.
mare_channel *mare__chan_new(struct mare_runtime *runtime, size_t capacity);
mare_channel *mare__chan_new_whole(struct mare_runtime *runtime, size_t capacity);

// The same in a block of zeros; `destroy` calls mare__chan_fini and frees the block.
void mare__chan_init(mare_channel *channel, struct mare_runtime *runtime, size_t capacity,
                     void (*destroy)(struct mare__object *));
void mare__chan_fini(mare_channel *channel);

// The same as mare__chan_new, for an event.
mare_channel *mare__chan_new_event(struct mare_runtime *runtime, size_t capacity,
                                   struct mare__event event);

// Lists a new channel.
void mare__chan_list(mare_channel *channel, struct mare__channels *all);

// Empties every listed channel, which ends those that only each other's messages refer to. No other
// thread may use any.
void mare__chan_empty_all(struct mare__channels *all);

// Sends, or stands in line. MARE_OK: the message has left and is empty. MARE_FULL: `spot` (if not
// NULL) stands in line, its wait is published, and its owner may be running already. MARE_CLOSED,
// MARE_NOMEM; MARE_KILLED, MARE_CANCELLED: it was cancelled.
mare_err mare__chan_send(mare_channel *channel, mare_message *message, struct mare__spot *spot);

// Receives into `message` (empty), or stands in line. MARE_OK, MARE_EMPTY: as MARE_FULL above,
// MARE_CLOSED, MARE_KILLED.
mare_err mare__chan_receive(mare_channel *channel, mare_message *message, struct mare__spot *spot);

// Takes a spot out of line if it still stands there. The owner calls it when its wait ended another
// way.
void mare__chan_forget(mare_channel *channel, struct mare__spot *spot);

// The same for a caller that holds a spinlock: it wakes nobody. `*met` is whom it met, or NULL,
// and the caller calls its wake when the lock is free. No memory is asked for: so the room of the
// channel must be whole, which it is once the plain one has said MARE_FULL.
mare_err mare__chan_send_quietly(mare_channel *channel, mare_message *message,
                                 struct mare__spot *spot, struct mare__wait **met);
mare_err mare__chan_receive_quietly(mare_channel *channel, mare_message *message,
                                    struct mare__spot *spot, struct mare__wait **met);

// A message that stands in line by itself, if it must: made in time, it is sent when there is no
// memory, too.
struct mare__letter {
    struct mare__wait wait; // wait.message is what is sent
    struct mare__spot spot;
};

// In a block of zeros, of which it is the first member.
void mare__letter_init(struct mare__letter *letter);

// Sends it, without waiting and without fail unless the channel is closed. Takes the block over,
// and frees it when the message has been taken, or never will be.
void mare__chan_post(mare_channel *channel, struct mare__letter *letter);

// ---- Several at once ----------------------------------------------------------------------------
struct mare__case {
    mare_channel *channel; // a reference
    struct mare__object
        *about; // what the channel tells of: a reference, not looked at here; or NULL
    bool send;
    mare_message message; // to send
    struct mare__spot spot;
};

// Cases, and their channels in the order in which they are locked.
struct mare__choice {
    struct mare__case *cases;
    uint32_t count, distinct;
    uint32_t turn; // the case to look at first
    mare_channel **order;
};

// `order` has room for `count` pointers and is used for as long as the choice.
void mare__choice_init(struct mare__choice *choice, struct mare__case *cases, uint32_t count,
                       mare_channel **order);

// Performs the first case, looking from its turn on, that can go at once; its index is `*fired`.
// When none can, stands in line in every one (if `wait` is not NULL) and returns MARE_EMPTY, or
// MARE_KILLED or MARE_CANCELLED, *fired being MARE__FIRED_NONE, when that was cancelled. Otherwise
// returns what the operation returned; `message` has what was received.
mare_err mare__chan_choose(const struct mare__choice *choice, struct mare__wait *wait,
                           mare_message *message, uint32_t *fired);

// The same under a spinlock, after the plain one has said MARE_EMPTY: see mare__chan_send_quietly.
mare_err mare__chan_choose_quietly(const struct mare__choice *choice, struct mare__wait *wait,
                                   mare_message *message, uint32_t *fired, struct mare__wait **met);

// All in one: makes the choice and chooses.
mare_err mare__chan_select(struct mare__case *cases, uint32_t count, uint32_t start,
                           struct mare__wait *wait, mare_message *message, uint32_t *fired,
                           mare_channel **order);
