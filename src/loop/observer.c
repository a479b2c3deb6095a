// SPDX-License-Identifier: MIT
// Observers over the loop of the platform. One thread at a time may touch a loop: whoever has the
// turn. While the worker waits in it that is the worker, and what others want of it is put into its
// line of commands.
#include "loop/observer.h"

#include "base/alloc.h"
#include "platform/socket.h"
#include "sched/worker.h"

struct mare__observer {
    struct mare__lookout lookout;    // what the worker knows of it
    const struct mare__loops *loops; // the platform's
    struct mare__loop loop;
    pthread_mutex_t turn;        // to touch the loop; held during a wait, so others only try
    mare__lock lock;             // guards the commands
    struct mare__list commanded; // with a command
};

// ---- Descriptors, on the thread that has the turn -----------------------------------------------

// Tells the channel; false: it has been told already, and nobody has taken note.
static bool tell(mare_channel *channel)
{
    mare_message message;
    mare__message_init(&message);
    return mare__chan_send(channel, &message, NULL) == MARE_OK;
}

// The loop says that a descriptor can be read or written. Two threads meet here:
//
//     this one, which has the turn:         the owner, on any other:
//       1. clear the bit in `wanted`          a. take the message out of the channel
//       2. send to the channel                b. mare__observed_await: set the bit, and only if it
//       3. watch what is still wanted            was clear, leave a command to watch it again
//                                             c. wait for a message
//
// The bit must be cleared before the message is sent: else the owner could come to b while the bit
// is still set, leave no command, and wait for something that 3 stops watching. If the channel was
// full, the owner may have come to b and c after that and before 1, and found the bit set: the
// message of 2 is for that case.
static void on_ready(struct mare__poll *poll, unsigned ways)
{
    struct mare__observed *observed = MARE__ENTRY(poll, struct mare__observed, poll);
    unsigned wanted = atomic_load(&observed->wanted);
    bool dropped = false;
    for (int way = 0; way < MARE__WAYS; way++) {
        unsigned bit = 1u << way;
        if (!(wanted & ways & bit))
            continue;
        // Can be written to: the usual state. Broken: for ever. Both are told once for each time
        // that the owner asks. Can be read from: stays watched until a message is left unread.
        bool once = way == MARE__TO_WRITE || ways & MARE__BROKEN;
        if (!once && tell(observed->ready[way]))
            continue;
        dropped = true;
        atomic_fetch_and(&observed->wanted, ~bit);
        tell(observed->ready[way]);
    }
    if (dropped)
        observed->observer->loops->want(poll, atomic_load(&observed->wanted));
}

// Of a connection that is watched for changes nothing is ever stopped, or begun again: a bit in
// `wanted` says that the last who tried was told "not now", and that nothing has changed since. It
// is set before that call (mare__observed_expect), so a change that comes meanwhile clears it, and
// leaves a message; and who comes to b and finds it clear has the system look. Changes are told
// whether or not the bit is set, for it may have been cleared by one routine while another waits.
//
// Other bits: KNOWN, for a way, there is a channel for it; EDGES, it is watched like this; ODD, the
// system must be asked each time, for it will say no more of what has changed already.
enum { KNOWN = MARE__WAYS, EDGES = 1 << 2 * MARE__WAYS, ODD = EDGES << 1 };

static void on_change(struct mare__poll *poll, unsigned ways)
{
    struct mare__observed *observed = MARE__ENTRY(poll, struct mare__observed, poll);
    unsigned wanted =
        ways & MARE__ODD ? atomic_fetch_or(&observed->wanted, ODD) : atomic_load(&observed->wanted);
    for (int way = 0; way < MARE__WAYS; way++) {
        unsigned bit = 1u << way;
        if (!(ways & bit) || !(wanted & bit << KNOWN))
            continue;
        atomic_fetch_and(&observed->wanted, ~bit);
        tell(observed->ready[way]);
    }
}

void mare__observed_expect(struct mare__observed *observed, int way)
{
    unsigned bit = 1u << way,
             wanted = atomic_load_explicit(&observed->wanted, memory_order_relaxed);
    // Relaxed: who misses that it is watched by now asks once too often.
    if (wanted & EDGES && wanted & bit << KNOWN && !(wanted & bit))
        atomic_fetch_or(&observed->wanted, bit);
}

void mare__observed_unexpect(struct mare__observed *observed, int way)
{
    unsigned bit = 1u << way,
             wanted = atomic_load_explicit(&observed->wanted, memory_order_relaxed);
    if (wanted & EDGES && wanted & bit)
        atomic_fetch_and(&observed->wanted, ~bit);
}

static void end(struct mare__observed *observed)
{
    atomic_fetch_sub(&observed->observer->lookout.busy, 1);
    observed->closed(observed);
}

static void on_closed(struct mare__poll *poll)
{
    end(MARE__ENTRY(poll, struct mare__observed, poll));
}

// What is wanted of the descriptor now: to be watched, or to end.
static void obey(struct mare__observer *observer, struct mare__observed *observed, bool doomed)
{
    if (!doomed && !observed->opened && observed->edges &&
        observer->loops->open_edges(&observer->loop, &observed->poll, observed->fd)) {
        observed->opened = true;
        observed->poll.ready = on_change;
        atomic_fetch_or(&observed->wanted, EDGES);
    }
    if (!doomed && !observed->opened)
        observed->opened = observer->loops->open(&observer->loop, &observed->poll, observed->fd);
    if (!doomed) {
        if (observed->opened)
            observer->loops->want(&observed->poll, atomic_load(&observed->wanted));
        else // a descriptor that cannot be watched is always ready
            for (int way = 0; way < MARE__WAYS; way++)
                if (atomic_fetch_and(&observed->wanted, ~(1u << way)) & 1u << way)
                    tell(observed->ready[way]);
        return;
    }
    bool later = observed->opened && observer->loops->close(&observed->poll);
    if (!observed->lent)
        mare__socket_close(observed->fd);
    if (!later)
        end(observed);
}

static void obey_all(struct mare__observer *observer)
{
    atomic_store(&observer->lookout.called, false);
    for (;;) {
        mare__lock_acquire(&observer->lock);
        struct mare__list *entry = mare__list_first(&observer->commanded);
        struct mare__observed *observed =
            entry ? MARE__ENTRY(entry, struct mare__observed, command) : NULL;
        bool doomed = observed && observed->doomed;
        if (observed)
            mare__list_remove(entry);
        mare__lock_release(&observer->lock);
        if (!observed)
            return;
        obey(observer, observed, doomed);
    }
}

// ---- Waiting for events -------------------------------------------------------------------------

static void ring(void *argument)
{
    struct mare__observer *observer = argument;
    observer->loops->ring(&observer->loop);
}

// Waits until something happens, the worker is wanted elsewhere or the time has come; what is ready
// is told. A deadline of 0: only looks.
static void wait_for_events(struct mare__lookout *lookout, uint64_t deadline)
{
    struct mare__observer *observer = MARE__ENTRY(lookout, struct mare__observer, lookout);
    pthread_mutex_lock(&observer->turn);
    atomic_store(&lookout->unattended, false);
    if (atomic_load(&lookout->called)) {
        obey_all(observer);
        deadline = 0; // what that made ready is this worker's, and nobody would wake it
    }
    if (deadline == 0) {
        observer->loops->look(&observer->loop);
    } else if (mare__park_elsewhere(lookout->parker)) {
        uint64_t now = deadline == MARE_FOREVER ? 0 : mare__now(lookout->runtime);
        observer->loops->wait(&observer->loop, deadline == MARE_FOREVER ? UINT64_MAX
                                               : deadline > now         ? deadline - now
                                                                        : 0);
        mare__park_return(lookout->parker);
        if (atomic_load(&lookout->called))
            obey_all(observer);
    }
    pthread_mutex_unlock(&observer->turn);
}

// The worker is away, in a C function.
static void attend(struct mare__lookout *lookout)
{
    struct mare__observer *observer = MARE__ENTRY(lookout, struct mare__observer, lookout);
    if (pthread_mutex_trylock(&observer->turn) != 0)
        return;
    if (atomic_load(&lookout->called))
        obey_all(observer);
    observer->loops->look(&observer->loop);
    pthread_mutex_unlock(&observer->turn);
}

// ---- From birth to end --------------------------------------------------------------------------

static void destroy(struct mare__lookout *lookout)
{
    struct mare__observer *observer = MARE__ENTRY(lookout, struct mare__observer, lookout);
    obey_all(observer);
    observer->loops->fini(&observer->loop);
    pthread_mutex_destroy(&observer->turn);
    mare__free(observer);
}

static struct mare__observer *create(mare_runtime *runtime)
{
    struct mare__observer *observer = mare__alloc_zero(sizeof *observer);
    const struct mare__platform *platform = &runtime->platform;
    if (!observer || !platform->loops->init(platform->context, &observer->loop)) {
        mare__free(observer);
        return NULL;
    }
    observer->loops = platform->loops;
    pthread_mutex_init(&observer->turn, NULL);
    mare__list_init(&observer->commanded);
    observer->lookout = (struct mare__lookout){.runtime = runtime,
                                               .wait = wait_for_events,
                                               .attend = attend,
                                               .ring = ring,
                                               .destroy = destroy};
    observer->lookout.ring_argument = observer;
    return observer;
}

// That of the worker, made if there is none. One at a time, so that none is made in vain: it costs
// descriptors.
static struct mare__lookout *lookout_of(struct mare__worker *worker)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct mare__lookout *lookout = atomic_load(&worker->lookout);
    if (lookout)
        return lookout;
    pthread_mutex_lock(&making);
    lookout = atomic_load(&worker->lookout);
    struct mare__observer *observer = lookout ? NULL : create(worker->runtime);
    if (observer)
        lookout = mare__worker_give_lookout(worker, &observer->lookout);
    pthread_mutex_unlock(&making);
    return lookout;
}

// The observer of this worker; for threads that are none, the first worker's. That one never
// leaves, and is made first, so that it is there for those that find no descriptors for their own.
static struct mare__observer *nearest(mare_runtime *runtime)
{
    struct mare__worker *worker = mare__this_worker(), *first = runtime->workers[0];
    if (!worker || worker->runtime != runtime)
        worker = first;
    struct mare__lookout *lookout = atomic_load(&worker->lookout);
    if (!lookout) {
        struct mare__lookout *spare = lookout_of(first);
        lookout = lookout_of(worker);
        if (!lookout)
            lookout = spare;
    }
    return lookout ? MARE__ENTRY(lookout, struct mare__observer, lookout) : NULL;
}

// Whether this thread has the turn now: else it must leave a command.
static bool take_turn(struct mare__observer *observer)
{
    return pthread_mutex_trylock(&observer->turn) == 0;
}

// The observer's worker shall look: at a command, or because something new is watched.
static void call(struct mare__observer *observer)
{
    struct mare__worker *worker = mare__this_worker();
    if (worker && observer->lookout.parker == &worker->parker)
        return; // it is this one, and will look
    mare__unpark(observer->lookout.parker);
}

// ---- What others want of descriptors -----------------------------------------------------------

void mare__observed_init(struct mare__observed *observed, int fd,
                         void (*closed)(struct mare__observed *observed))
{
    observed->poll.ready = on_ready;
    observed->poll.closed = on_closed;
    observed->fd = fd;
    observed->closed = closed;
    mare__list_init(&observed->command);
}

// Once it is doomed, nobody but the observer may touch it.
static void command(struct mare__observed *observed, bool doomed)
{
    struct mare__observer *observer = observed->observer;
    bool mine = take_turn(observer);
    mare__lock_acquire(&observer->lock);
    observed->doomed = doomed;
    mare__list_remove(&observed->command); // of an earlier command
    if (!mine) {
        mare__list_append(&observer->commanded, &observed->command);
        atomic_store(&observer->lookout.called, true);
    }
    mare__lock_release(&observer->lock);
    if (mine) {
        obey(observer, observed, doomed);
        pthread_mutex_unlock(&observer->turn);
    }
    call(observer);
}

mare_channel *mare__observed_await(mare_runtime *runtime, struct mare__observed *observed, int way)
{
    if (!observed->ready[way])
        observed->ready[way] = mare__chan_new(runtime, 1);
    if (!observed->observer && (observed->observer = nearest(runtime)) != NULL)
        // From here to its end, so that no moment passes in which the observer seems to have
        // nothing to do: its worker would leave, or a program that waits be taken for stuck.
        atomic_fetch_add(&observed->observer->lookout.busy, 1);
    if (!observed->ready[way] || !observed->observer)
        return NULL;
    unsigned bit = 1u << way, known = bit << KNOWN;
    unsigned before = atomic_load(&observed->wanted);
    if ((before & (bit | known)) != (bit | known))
        before = atomic_fetch_or(&observed->wanted, bit | known);
    if (!(before & bit) || before & ODD)
        command(observed, false);
    return observed->ready[way];
}

void mare__observed_tell(struct mare__observed *observed, int way)
{
    tell(observed->ready[way]);
}

void mare__observed_close(struct mare__observed *observed)
{
    if (atomic_exchange(&observed->ends, true))
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (observed->ready[way])
            mare_chan_close(observed->ready[way]);
    if (observed->observer) {
        command(observed, true);
        return;
    }
    if (!observed->lent)
        mare__socket_close(observed->fd);
    observed->closed(observed);
}
