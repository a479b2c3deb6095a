// SPDX-License-Identifier: MIT
// Observers, built on the platform's loop. Only one thread at a time may touch a loop: the one that
// has the turn. While a worker waits in its loop, the worker has the turn. Another thread that
// wants something of the loop then puts a command into the observer's line.
#include "loop/observer.h"

#include "base/alloc.h"
#include "platform/socket.h"
#include "sched/worker.h"

struct mare__observer {
    struct mare__lookout lookout;    // the part of it that the worker knows
    const struct mare__loops *loops; // the platform's
    struct mare__loop loop;
    pthread_mutex_t turn;        // held to touch the loop, and during a wait: others only try
    mare__lock lock;             // guards the commands
    struct mare__list commanded; // descriptors with a command
    unsigned looks;              // how often the loop was looked into
    unsigned news, vain;         // of the last look: what it told to who had asked, and what not
    bool waits;                  // this time to wait, for the worker has nothing else to do
};

// ---- Descriptors, on the thread that has the turn -----------------------------------------------

// Puts a message into the channel, unless one is there already that nobody has taken.
static void tell(mare_channel *channel)
{
    mare_message message;
    mare__message_init(&message);
    mare__chan_send(channel, &message, NULL);
}

// The bits in `wanted`. The lower ones say for which ways the descriptor is watched. Those from
// ASKED on say for which ways somebody has asked since the way was last told.
enum { WATCHED = (1 << MARE__WAYS) - 1, ASKED = MARE__WAYS };

// The loop reports a way again and again, until somebody has read, or written. Most often the
// reason is that the routine that was told has not had its turn yet. Then the way stays watched:
// the next wait for it costs no system call.
//
// But each such report in vain costs something: if the worker sleeps in the loop, the report wakes
// it. So the observer stops watching a way after VAIN_MOST reports in vain; one that ended a sleep
// counts as VAIN_WAIT. It stops at once if a way is reported twice in one look: the loop does that
// when it has more to report than it has room for.
enum { VAIN_MOST = 64, VAIN_WAIT = VAIN_MOST / 2 };

// A way was reported that nobody has asked for. Whether to go on watching it.
static bool bears_with(struct mare__observed *observed, int way)
{
    struct mare__observer *observer = observed->observer;
    bool twice = observed->told_in[way] == observer->looks;
    observed->told_in[way] = observer->looks;
    observed->vain[way] += observer->waits ? VAIN_WAIT : 1;
    observer->vain++;
    return !twice && observed->vain[way] < VAIN_MOST;
}

// Tells that a way has opened. False: nobody has asked for it.
static bool tell_way(struct mare__observed *observed, int way)
{
    unsigned asked = 1u << way << ASKED;
    bool was_asked = atomic_fetch_and(&observed->wanted, ~asked) & asked;
    // A routine that was told and did not read has not asked again; but another one may still wait.
    if (!was_asked && !mare__chan_is_awaited(observed->ready[way]))
        return false;
    tell(observed->ready[way]);
    observed->vain[way] = 0;
    observed->observer->news++;
    return true;
}

// The loop says that a descriptor can be read or written. If nobody has asked for a way, the
// observer may stop watching it. Two threads meet here, without a lock:
//
//     this one, which has the turn:         the owner, on any other:
//       1. clear the bit in `wanted`          a. take the message out of the channel
//       2. send to the channel                b. mare__observed_await: set the bit, and only if it
//       3. watch what is still wanted            was clear, leave a command to watch it again
//                                             c. wait for a message
//
// What the orders b-1 and 1-b mean:
//   b before 1: the owner finds the bit set, and leaves no command. It waits in c, and 2 wakes it.
//   1 before b: the owner finds the bit clear. Its command makes this thread watch the way again.
// With 2 before 1 there would be a third order, 2-a-b-1: the owner finds the bit set, leaves no
// command, and waits for what 3 then stops watching.
static void on_ready(struct mare__poll *poll, unsigned ways)
{
    struct mare__observed *observed = MARE__ENTRY(poll, struct mare__observed, poll);
    unsigned wanted = atomic_load(&observed->wanted);
    bool dropped = false;
    for (int way = 0; way < MARE__WAYS; way++) {
        unsigned bit = 1u << way;
        if (!(wanted & ways & bit) ||
            (!(ways & MARE__BROKEN) && (tell_way(observed, way) || bears_with(observed, way))))
            continue;
        dropped = true;
        atomic_fetch_and(&observed->wanted, ~bit);
        tell(observed->ready[way]);
    }
    if (dropped)
        observed->observer->loops->want(poll, atomic_load(&observed->wanted) & WATCHED);
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

// Carries out a command: watches the descriptor, or closes it (`doomed`).
static void obey(struct mare__observer *observer, struct mare__observed *observed, bool doomed)
{
    if (!doomed && !observed->opened)
        observed->opened = observer->loops->open(&observer->loop, &observed->poll, observed->fd);
    if (!doomed) {
        if (observed->opened)
            observer->loops->want(&observed->poll, atomic_load(&observed->wanted) & WATCHED);
        else // a descriptor that cannot be watched is always ready
            for (int way = 0; way < MARE__WAYS; way++)
                if (atomic_fetch_and(&observed->wanted, ~(1u << way)) & 1u << way)
                    tell(observed->ready[way]);
        return;
    }
    if (observed->opened)
        observer->loops->close(&observed->poll);
    if (!observed->lent)
        mare__socket_close(observed->fd);
    if (!observed->opened)
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

// A look that reports mostly what was told before shows how many routines still wait for their
// turn, and costs something for each of them. So a busy worker leaves out one look for every CROWD
// such reports: about the number of routines that it serves from one tick to the next. When it has
// served them all, it looks at once. The price: a new event is seen up to SPARED_MOST ticks later
// (20 ms), also when it is for another process.
enum { CROWD = 128, SPARED_MOST = 8 };

static unsigned spared_after(const struct mare__observer *observer)
{
    unsigned crowds = observer->vain > observer->news ? observer->vain / CROWD : 0;
    return crowds < SPARED_MOST ? crowds : SPARED_MOST;
}

static void look(struct mare__observer *observer)
{
    observer->looks++;
    observer->news = observer->vain = 0;
    observer->loops->look(&observer->loop);
}

// Waits until something happens, another worker needs this one, or the time has come; tells what is
// ready. With a deadline of 0 it only looks.
static void wait_for_events(struct mare__lookout *lookout, uint64_t deadline)
{
    struct mare__observer *observer = MARE__ENTRY(lookout, struct mare__observer, lookout);
    pthread_mutex_lock(&observer->turn);
    atomic_store(&lookout->unattended, false);
    if (atomic_load(&lookout->called)) {
        obey_all(observer);
        deadline = 0; // that made tasks of this worker ready: nobody else would wake it
    }
    if (deadline == 0) {
        look(observer);
        lookout->spared = spared_after(observer);
    } else if (mare__park_elsewhere(lookout->parker)) {
        uint64_t now = deadline == MARE_FOREVER ? 0 : mare__now(lookout->runtime);
        observer->looks++;
        observer->waits = true;
        observer->loops->wait(&observer->loop, deadline == MARE_FOREVER ? UINT64_MAX
                                               : deadline > now         ? deadline - now
                                                                        : 0);
        observer->waits = false;
        mare__park_return(lookout->parker);
        if (atomic_load(&lookout->called))
            obey_all(observer);
    }
    pthread_mutex_unlock(&observer->turn);
}

// Looks into the loop for a worker that is busy in a C function. On another thread.
static void attend(struct mare__lookout *lookout)
{
    struct mare__observer *observer = MARE__ENTRY(lookout, struct mare__observer, lookout);
    if (pthread_mutex_trylock(&observer->turn) != 0)
        return;
    if (atomic_load(&lookout->called))
        obey_all(observer);
    look(observer);
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

// Returns the worker's lookout, and makes it at the first call. Only one thread makes one at a
// time: a second one would cost descriptors in vain.
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
//
// A process that `gathers` has all its descriptors watched by the first worker: the keeper of a
// node does, for its links. Who serves calls often asks others over other links before it answers.
// If two workers watched these links, each such call would go from worker to worker and back, and
// both would keep vigils for it.
static struct mare__observer *nearest(mare_runtime *runtime)
{
    struct mare__worker *worker = mare__this_worker(), *first = runtime->workers[0];
    if (!worker || worker->runtime != runtime || (worker->running && worker->running->gathers))
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

// Makes the observer's worker look: at a command, or because something new is watched.
static void call(struct mare__observer *observer)
{
    struct mare__worker *worker = mare__this_worker();
    if (worker && observer->lookout.parker == &worker->parker)
        return; // this thread is that worker, and looks by itself
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

// Watches a descriptor, or closes it (`doomed`): now if the turn is free, else by a command. After
// a doomed command only the observer may touch it.
static void command(struct mare__observed *observed, bool doomed)
{
    struct mare__observer *observer = observed->observer;
    bool mine = take_turn(observer);
    mare__lock_acquire(&observer->lock);
    observed->doomed = doomed;
    mare__list_remove(&observed->command); // it may be there from an earlier command
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

// What `mare.processes` and the like show of a process that waits for this.
static struct mare__event event_of(const struct mare__observed *observed, int way)
{
    return (struct mare__event){.tells = observed->file          ? MARE__TELLS_CHANGE
                                         : way == MARE__TO_WRITE ? MARE__TELLS_WRITE
                                                                 : MARE__TELLS_READ,
                                .number = observed->fd,
                                .name = observed->file};
}

mare_channel *mare__observed_await(mare_runtime *runtime, struct mare__observed *observed, int way)
{
    if (!observed->ready[way])
        observed->ready[way] = mare__chan_new_event(runtime, 1, event_of(observed, way));
    if (!observed->observer && (observed->observer = nearest(runtime)) != NULL)
        // Counted from here until the descriptor ends. Without a gap: an observer that seems to
        // have nothing to do loses its worker, or a program that waits is taken for stuck.
        atomic_fetch_add(&observed->observer->lookout.busy, 1);
    if (!observed->ready[way] || !observed->observer)
        return NULL;
    unsigned bit = 1u << way;
    if (!(atomic_fetch_or(&observed->wanted, bit | bit << ASKED) & bit))
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
