// SPDX-License-Identifier: MIT
// Observers over the loop of the platform. One thread at a time may touch a loop: whoever has the
// turn. While the worker waits in it that is the worker, and what others want of it is put into its
// line of commands.
#include "loop/observer.h"

#include "base/alloc.h"
#include "platform/socket.h"
#include "sched/worker.h"

struct mare__observer {
    struct mare__watcher watcher; // what the worker knows of it
    struct mare__loop loop;
    mare__lock turn;           // to touch the loop; held during a wait, so others only try
    mare__lock lock;           // guards the commands
    struct mare__list sources; // with a command
};

// ---- Sources, on the observer's own thread ------------------------------------------------------

// Tells the channel; false: it has been told already, and nobody has taken note.
static bool tell(mare_channel *channel)
{
    mare_message message;
    mare__message_init(&message);
    return mare__chan_send(channel, &message, NULL) == MARE_OK;
}

// Who is told and comes again finds the bit still there, or else wants it again. So it must be gone
// before he is told, or he would wait for what nobody watches; and who came while it was still
// there is told once more.
static void on_ready(struct mare__poll *poll, unsigned ways)
{
    struct mare__source *source = MARE__ENTRY(poll, struct mare__source, poll);
    unsigned wanted = atomic_load(&source->wanted);
    bool dropped = false;
    for (int way = 0; way < MARE__WAYS; way++) {
        unsigned bit = 1u << way;
        if (!(wanted & ways & bit))
            continue;
        // To be writable is the usual state, to be broken a lasting one: told once, for whoever
        // asked. To be readable, until nobody takes note.
        bool once = way == MARE__TO_WRITE || ways & MARE__BROKEN;
        if (!once && tell(source->ready[way]))
            continue;
        dropped = true;
        atomic_fetch_and(&source->wanted, ~bit);
        tell(source->ready[way]);
    }
    if (dropped)
        mare__poll_want(poll, atomic_load(&source->wanted));
}

static void end(struct mare__source *source)
{
    atomic_fetch_sub(&source->observer->watcher.busy, 1);
    source->closed(source);
}

static void on_closed(struct mare__poll *poll)
{
    end(MARE__ENTRY(poll, struct mare__source, poll));
}

// What is wanted of the source now: to be watched, or to end.
static void obey(struct mare__observer *observer, struct mare__source *source, bool doomed)
{
    if (!doomed && !source->opened)
        source->opened = mare__poll_open(&observer->loop, &source->poll, source->fd);
    if (!doomed) {
        if (source->opened)
            mare__poll_want(&source->poll, atomic_load(&source->wanted));
        else // a descriptor that cannot be watched is always ready
            for (int way = 0; way < MARE__WAYS; way++)
                if (atomic_fetch_and(&source->wanted, ~(1u << way)) & 1u << way)
                    tell(source->ready[way]);
        return;
    }
    if (source->opened)
        mare__poll_close(&source->poll);
    if (!source->lent)
        mare__socket_close(source->fd);
    if (!source->opened)
        end(source);
}

static void obey_all(struct mare__observer *observer)
{
    atomic_store(&observer->watcher.called, false);
    for (;;) {
        mare__lock_acquire(&observer->lock);
        struct mare__list *link = mare__list_first(&observer->sources);
        struct mare__source *source = link ? MARE__ENTRY(link, struct mare__source, command) : NULL;
        bool doomed = source && source->doomed;
        if (source)
            mare__list_remove(link);
        mare__lock_release(&observer->lock);
        if (!source)
            return;
        obey(observer, source, doomed);
    }
}

// ---- Waiting for events -------------------------------------------------------------------------

static void ring(void *argument)
{
    mare__loop_ring(&((struct mare__observer *)argument)->loop);
}

// Waits until something happens, the worker is wanted elsewhere or the time has come; what is ready
// is told. A deadline of 0: only looks.
static void wait_for_events(struct mare__watcher *watcher, uint64_t deadline)
{
    struct mare__observer *observer = MARE__ENTRY(watcher, struct mare__observer, watcher);
    mare__lock_acquire(&observer->turn);
    atomic_store(&watcher->unattended, false);
    if (atomic_load(&watcher->called))
        obey_all(observer);
    if (deadline == 0) {
        mare__loop_look(&observer->loop);
    } else if (mare__park_elsewhere(watcher->parker)) {
        uint64_t now = deadline == MARE_FOREVER ? 0 : mare__now(watcher->runtime);
        mare__loop_wait(&observer->loop, deadline == MARE_FOREVER ? UINT64_MAX
                                         : deadline > now         ? deadline - now
                                                                  : 0);
        mare__park_return(watcher->parker);
        if (atomic_load(&watcher->called))
            obey_all(observer);
    }
    mare__lock_release(&observer->turn);
}

// The worker is away, in a C function.
static void attend(struct mare__watcher *watcher)
{
    struct mare__observer *observer = MARE__ENTRY(watcher, struct mare__observer, watcher);
    if (!mare__lock_try(&observer->turn))
        return;
    if (atomic_load(&watcher->called))
        obey_all(observer);
    mare__loop_look(&observer->loop);
    mare__lock_release(&observer->turn);
}

// ---- From birth to end --------------------------------------------------------------------------

static void destroy(struct mare__watcher *watcher)
{
    struct mare__observer *observer = MARE__ENTRY(watcher, struct mare__observer, watcher);
    obey_all(observer);
    mare__loop_fini(&observer->loop);
    mare__free(observer);
}

static struct mare__observer *create(mare_runtime *runtime)
{
    struct mare__observer *observer = mare__alloc_zero(sizeof *observer);
    if (!observer || !mare__loop_init(&observer->loop)) {
        mare__free(observer);
        return NULL;
    }
    mare__list_init(&observer->sources);
    observer->watcher = (struct mare__watcher){.runtime = runtime,
                                               .wait = wait_for_events,
                                               .attend = attend,
                                               .ring = ring,
                                               .destroy = destroy};
    observer->watcher.ring_argument = observer;
    return observer;
}

// That of the worker, made if there is none. One at a time, so that none is made in vain: it costs
// descriptors.
static struct mare__watcher *watcher_of(struct mare__worker *worker)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct mare__watcher *watcher = atomic_load(&worker->watcher);
    if (watcher)
        return watcher;
    pthread_mutex_lock(&making);
    watcher = atomic_load(&worker->watcher);
    struct mare__observer *observer = watcher ? NULL : create(worker->runtime);
    if (observer)
        watcher = mare__worker_watch(worker, &observer->watcher);
    pthread_mutex_unlock(&making);
    return watcher;
}

// The observer of this worker; for threads that are none, the first worker's. That one never
// leaves, and is made first, so that it is there for those that find no descriptors for their own.
static struct mare__observer *nearest(mare_runtime *runtime)
{
    struct mare__worker *worker = mare__this_worker(), *first = runtime->workers[0];
    if (!worker || worker->runtime != runtime)
        worker = first;
    struct mare__watcher *watcher = atomic_load(&worker->watcher);
    if (!watcher) {
        struct mare__watcher *spare = watcher_of(first);
        watcher = watcher_of(worker);
        if (!watcher)
            watcher = spare;
    }
    return watcher ? MARE__ENTRY(watcher, struct mare__observer, watcher) : NULL;
}

// Whether this thread has the turn now: else it must leave a command.
static bool take_turn(struct mare__observer *observer)
{
    return mare__lock_try(&observer->turn);
}

// The observer's worker shall look: at a command, or because something new is watched.
static void call(struct mare__observer *observer)
{
    struct mare__worker *worker = mare__this_worker();
    if (worker && observer->watcher.parker == &worker->parker)
        return; // it is this one, and will look
    mare__unpark(observer->watcher.parker);
}

// ---- What others want of sources ----------------------------------------------------------------

void mare__source_init(struct mare__source *source, int fd,
                       void (*closed)(struct mare__source *source))
{
    source->poll.ready = on_ready;
    source->poll.closed = on_closed;
    source->fd = fd;
    source->closed = closed;
    mare__list_init(&source->command);
}

// Once it is doomed, nobody but the observer may touch it.
static void command(struct mare__source *source, bool doomed)
{
    struct mare__observer *observer = source->observer;
    bool mine = take_turn(observer);
    mare__lock_acquire(&observer->lock);
    source->doomed = doomed;
    mare__list_remove(&source->command); // of an earlier command
    if (!mine) {
        mare__list_append(&observer->sources, &source->command);
        atomic_store(&observer->watcher.called, true);
    }
    mare__lock_release(&observer->lock);
    if (mine) {
        obey(observer, source, doomed);
        mare__lock_release(&observer->turn);
    }
    call(observer);
}

mare_channel *mare__source_watch(mare_runtime *runtime, struct mare__source *source, int way)
{
    if (!source->ready[way])
        source->ready[way] = mare__chan_new(runtime, 1);
    if (!source->observer && (source->observer = nearest(runtime)) != NULL)
        // From here to its end, so that no moment passes in which the observer seems to have
        // nothing to do: its worker would leave, or a program that waits be taken for stuck.
        atomic_fetch_add(&source->observer->watcher.busy, 1);
    if (!source->ready[way] || !source->observer)
        return NULL;
    unsigned bit = 1u << way;
    if (!(atomic_fetch_or(&source->wanted, bit) & bit))
        command(source, false);
    return source->ready[way];
}

void mare__source_tell(struct mare__source *source, int way)
{
    tell(source->ready[way]);
}

void mare__source_close(struct mare__source *source)
{
    if (atomic_exchange(&source->ends, true))
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (source->ready[way])
            mare_chan_close(source->ready[way]);
    if (source->observer) {
        command(source, true);
        return;
    }
    if (!source->lent)
        mare__socket_close(source->fd);
    source->closed(source);
}
