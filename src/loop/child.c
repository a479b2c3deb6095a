// SPDX-License-Identifier: MIT
// Children from start to end. The descriptor of a child, its pidfd, is watched from the start: a
// wait with nobody behind it stands in line there, and its end reaps the child and closes the
// channel that others wait for. So no zombie stays, whatever its owner does.
//
//              owner lets go, or closes it            the grace is over
//     running -------------------------> asked to end -----------------> killed
//        |                                     |                            |
//        +-------------------------------------+----------------------------+--> over: reaped
//
// When the runtime stops, nothing watches any more: what is left is awaited and killed here, one
// after the other, each until its own grace is over.
#include "loop/child.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/timer.h"
#include "sched/worker.h"

static const uint64_t DEFAULT_GRACE = 2000000000u;
static const uint64_t AFTER_KILL =
    1000000000u; // a killed one that does not end hangs in the system

static void release(struct mare__child *child)
{
    if (atomic_fetch_sub(&child->holders, 1) > 1)
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (child->observed.ready[way])
            mare_chan_unref(child->observed.ready[way]);
    mare_chan_unref(child->ended);
    mare__free(child);
}

static void on_closed(struct mare__observed *observed)
{
    release(MARE__ENTRY(observed, struct mare__child, observed));
}

static pid_t group_of(const struct mare__child *child)
{
    return child->group ? child->pid : 0;
}

// ---- The end ------------------------------------------------------------------------------------

// Whether it has ended. The lock keeps its descriptor open for those who send it a signal.
static bool reap(struct mare__child *child)
{
    int code = 0;
    mare__lock_acquire(&child->lock);
    enum mare__child_end how = mare__child_reap(child->observed.fd, group_of(child), &code);
    child->how = how;
    child->code = code;
    child->over = how != MARE__CHILD_RUNS;
    mare__lock_release(&child->lock);
    return how != MARE__CHILD_RUNS;
}

static void stop_timer(struct mare__child *child)
{
    mare__lock_acquire(&child->runtime->timer_lock);
    bool mine = mare__wait_claim(&child->timer);
    mare__lock_release(&child->runtime->timer_lock);
    if (mine) { // else it was not started, or has come, and its wake sees that it is over
        mare__timer_stop(child->runtime, &child->timer);
        release(child);
    }
}

static void end(struct mare__child *child)
{
    stop_timer(child);
    mare__lock_acquire(&child->runtime->linger_lock);
    mare__list_remove(&child->lingers);
    mare__lock_release(&child->runtime->linger_lock);
    mare_chan_close(child->ended);
    mare__observed_close(&child->observed);
}

// Reaps it, or stands in line for its end. Only one who has claimed the wait, or made it, may.
static void watch(struct mare__child *child)
{
    while (!reap(child)) {
        // There is a channel: the first time was before anybody could see the child.
        mare_channel *ready = mare__observed_await(child->runtime, &child->observed, MARE__TO_READ);
        mare__wait_begin(&child->exit);
        mare__message_clear(&child->exit.message);
        if (mare__chan_receive(ready, &child->exit.message, &child->exit_spot) == MARE_EMPTY)
            return; // on_exit comes, or has come
    }
    end(child);
}

static void on_exit_told(struct mare__wait *wait)
{
    watch(MARE__ENTRY(wait, struct mare__child, exit));
}

// ---- Signals ------------------------------------------------------------------------------------

int mare__child_send(struct mare__child *child, int number)
{
    mare__lock_acquire(&child->lock);
    int err =
        child->over ? -ESRCH : mare__child_signal(child->observed.fd, group_of(child), number);
    mare__lock_release(&child->lock);
    return err;
}

static void kill_now(struct mare__child *child)
{
    mare__lock_acquire(&child->lock);
    if (!child->over)
        mare__child_kill(child->observed.fd, group_of(child));
    mare__lock_release(&child->lock);
}

static void on_grace_over(struct mare__wait *wait)
{
    struct mare__child *child = MARE__ENTRY(wait, struct mare__child, timer);
    if (wait->result == MARE_TIMEOUT) // else the runtime stops, and will see to it
        kill_now(child);
    release(child);
}

static void start_timer(struct mare__child *child)
{
    mare_runtime *runtime = child->runtime;
    atomic_fetch_add(&child->holders, 1);
    mare__lock_acquire(&runtime->timer_lock);
    mare__wait_begin(&child->timer);
    mare__wait_publish(&child->timer);
    mare__timer_start(runtime, &child->timer, child->killed_at);
    mare__lock_release(&runtime->timer_lock);
}

void mare__child_terminate(struct mare__child *child)
{
    bool timed = false;
    mare__lock_acquire(&child->lock);
    if (!child->over && !child->asked && !child->detached) {
        child->asked = true;
        child->killed_at = mare__now(child->runtime) + child->grace;
        timed = child->grace > 0;
        if (timed) {
            mare__child_ask(child->observed.fd, group_of(child));
            start_timer(child);
        } else {
            mare__child_kill(child->observed.fd, group_of(child));
        }
    }
    mare__lock_release(&child->lock);
    if (timed)
        mare__workers_look(child->runtime);
}

enum mare__child_end mare__child_outcome(struct mare__child *child, int *code)
{
    mare__lock_acquire(&child->lock);
    enum mare__child_end how = child->over ? child->how : MARE__CHILD_RUNS;
    *code = child->code;
    mare__lock_release(&child->lock);
    return how;
}

// ---- When the runtime stops ---------------------------------------------------------------------

static void await_end(struct mare__child *child)
{
    int fd = child->observed.fd;
    uint64_t now = mare__now(child->runtime);
    mare__child_terminate(child); // if its owner never let go of it
    if (!child->detached &&
        !mare__child_await(fd, child->killed_at > now ? child->killed_at - now : 0)) {
        kill_now(child);
        mare__child_await(fd, AFTER_KILL);
    }
    if (mare__wait_claim(&child->exit))
        mare__chan_forget(child->observed.ready[MARE__TO_READ], &child->exit_spot);
    reap(child);
    end(child);
}

// No thread but this one is left that could know of them.
static void last_call(mare_runtime *runtime)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(&runtime->lingering)) != NULL)
        await_end(MARE__ENTRY(entry, struct mare__child, lingers));
}

// ---- The start ----------------------------------------------------------------------------------

static void destroy(struct mare__object *object)
{
    struct mare__child *child = (struct mare__child *)object;
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        if (child->pipes[i])
            mare__unref(&child->pipes[i]->object);
    mare__child_terminate(child);
    release(child);
}

static struct mare__child *create(mare_runtime *runtime, const struct mare__spawning *spawning)
{
    struct mare__child *child = mare__alloc_zero(sizeof *child);
    mare_channel *ended = child ? mare__chan_new(runtime, 1) : NULL;
    if (!ended) {
        mare__free(child);
        return NULL;
    }
    mare__object_init(&child->object, MARE__KIND_CHILD, destroy);
    child->object.weight = sizeof *child + 2 * sizeof(mare_channel);
    atomic_init(&child->holders, 1);
    child->runtime = runtime;
    child->ended = ended;
    child->group = spawning->group;
    child->detached = spawning->session;
    child->timeout = MARE_FOREVER;
    child->grace = DEFAULT_GRACE;
    child->exit.wake = on_exit_told;
    child->exit_spot.wait = &child->exit;
    child->timer.wake = on_grace_over;
    mare__message_init(&child->exit.message);
    mare__list_init(&child->exit_spot.entry);
    mare__list_init(&child->lingers);
    return child;
}

// It has been started, and is not known to anybody.
static int open_source(struct mare__child *child, int fd)
{
    mare_runtime *runtime = child->runtime;
    int code;
    mare__observed_init(&child->observed, fd, on_closed);
    atomic_fetch_add(&child->holders, 1);
    if (!mare__observed_await(runtime, &child->observed, MARE__TO_READ)) {
        mare__child_kill(fd, group_of(child));
        mare__child_await(fd, AFTER_KILL);
        mare__child_reap(fd, group_of(child), &code);
        mare__observed_close(&child->observed);
        return -ENOMEM;
    }
    mare__lock_acquire(&runtime->linger_lock);
    mare__list_append(&runtime->lingering, &child->lingers);
    mare__lock_release(&runtime->linger_lock);
    atomic_store(&runtime->last_call, last_call);
    return 0;
}

static int open_pipes(struct mare__launch *launch)
{
    struct mare__child *child = launch->child;
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        int here;
        if (launch->streams[i].use != MARE__CHILD_PIPE)
            continue;
        int err = mare__pipe(i == 0, &here, &launch->spawning.fd[i]);
        if (err) {
            launch->spawning.fd[i] = -1;
            return err;
        }
        child->pipes[i] = mare__stream_new(child->runtime, here, MARE__KIND_STREAM);
        if (!child->pipes[i])
            return -ENOMEM;
    }
    return 0;
}

// One that was never started: nobody watches it.
static void discard(struct mare__child *child)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        if (child->pipes[i])
            mare__unref(&child->pipes[i]->object);
    release(child);
}

// ---- Launches -----------------------------------------------------------------------------------

static void close_given(int fd)
{
    if (fd >= MARE__CHILD_STREAMS)
        mare__socket_close(fd);
}

static void close_all_given(struct mare__launch *launch)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        close_given(launch->spawning.fd[i]);
        launch->spawning.fd[i] = -1;
    }
}

static int open_paths(struct mare__launch *launch)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        const struct mare__child_stream *stream = &launch->streams[i];
        if (stream->use != MARE__CHILD_PATH)
            continue;
        int fd = mare__open_for_child(stream->path, stream->how);
        if (fd < 0) {
            launch->fault = MARE__LAUNCH_NO_STREAM;
            launch->stream = i;
            return fd;
        }
        launch->spawning.fd[i] = fd;
    }
    return 0;
}

// What it is that does not exist, or may not be used.
static enum mare__launch_fault fault_of(const struct mare__spawning *spawning, int err)
{
    const char *program = spawning->arguments[0], *folder = spawning->folder;
    if (folder && err != -EMFILE && err != -ENFILE && !mare__is_folder(folder))
        return MARE__LAUNCH_NO_FOLDER;
    if (err != -ENOENT)
        return MARE__LAUNCH_FAILED;
    return strchr(program, '/') && mare__is_file(folder, program) ? MARE__LAUNCH_NO_INTERPRETER
                                                                  : MARE__LAUNCH_NO_PROGRAM;
}

static void run(struct mare__job *job)
{
    struct mare__launch *launch = (struct mare__launch *)job;
    int err = open_paths(launch);
    if (!err && mare__job_is_lost(job))
        err = -ECANCELED;
    if (!err) {
        err = mare__child_spawn(&launch->spawning, &launch->pid);
        if (err)
            launch->fault = fault_of(&launch->spawning, err);
    }
    if (!err) {
        launch->fd = mare__child_open(launch->pid);
        err = launch->fd < 0 ? launch->fd : 0;
    }
    close_all_given(launch);
    launch->err = err;
}

// A killed one, which nobody knows of.
static void bury(void *argument)
{
    struct mare__launch *launch = argument;
    int code;
    mare__child_await(launch->fd, AFTER_KILL);
    mare__child_reap(launch->fd, launch->spawning.group ? launch->pid : 0, &code);
    mare__socket_close(launch->fd);
    mare__free(launch);
}

static void end_launch(struct mare__job *job)
{
    struct mare__launch *launch = (struct mare__launch *)job;
    close_all_given(launch);
    if (launch->child)
        discard(launch->child);
    if (launch->fd < 0) {
        mare__free(launch);
        return;
    }
    mare__child_kill(launch->fd, launch->spawning.group ? launch->pid : 0);
    mare__jobs_post(job->jobs, bury, launch); // to wait for it may block, and this may be a worker
}

// ---- With copies of what it is told -------------------------------------------------------------

static size_t count_of(char *const *strings)
{
    size_t count = 0;
    while (strings && strings[count])
        count++;
    return count;
}

static size_t size_of(char *const *strings)
{
    size_t size = 0;
    for (size_t i = 0; strings && strings[i]; i++)
        size += strlen(strings[i]) + 1;
    return size;
}

static const char *copy(const char *string, char **room)
{
    size_t size = string ? strlen(string) + 1 : 0;
    char *at = *room;
    *room += size;
    return string ? memcpy(at, string, size) : NULL;
}

// A list with its NULL; what follows it is the rest of the room.
static char **copy_list(char *const *strings, char ***list, char **room)
{
    char **at = *list;
    if (!strings)
        return NULL;
    for (; *strings; strings++)
        *(*list)++ = (char *)copy(*strings, room);
    *(*list)++ = NULL;
    return at;
}

static struct mare__launch *allocate(const struct mare__spawning *spawning,
                                     const struct mare__child_stream streams[MARE__CHILD_STREAMS])
{
    size_t lists = count_of(spawning->arguments) + count_of(spawning->environment) + 2;
    size_t text = size_of(spawning->arguments) + size_of(spawning->environment) +
                  (spawning->folder ? strlen(spawning->folder) + 1 : 0);
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        text += streams[i].use == MARE__CHILD_PATH ? strlen(streams[i].path) + 1 : 0;
    struct mare__launch *launch =
        mare__alloc_zero(sizeof *launch + lists * sizeof *launch->strings + text);
    if (!launch)
        return NULL;
    char **list = launch->strings, *room = (char *)(launch->strings + lists);
    launch->fd = -1;
    launch->spawning = *spawning;
    launch->spawning.arguments = copy_list(spawning->arguments, &list, &room);
    launch->spawning.environment = copy_list(spawning->environment, &list, &room);
    launch->spawning.folder = copy(spawning->folder, &room);
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        launch->streams[i] = streams[i];
        launch->streams[i].path =
            streams[i].use == MARE__CHILD_PATH ? copy(streams[i].path, &room) : NULL;
        launch->spawning.fd[i] = streams[i].use == MARE__CHILD_GIVEN ? streams[i].fd : -1;
    }
    return launch;
}

int mare__launch_new(mare_runtime *runtime, const struct mare__spawning *spawning,
                     const struct mare__child_stream streams[MARE__CHILD_STREAMS],
                     struct mare__launch **out)
{
    struct mare__launch *launch = allocate(spawning, streams);
    if (!launch || !mare__job_init(&launch->job, runtime, MARE__LANE_FILES, run, end_launch)) {
        mare__free(launch);
        for (int i = 0; i < MARE__CHILD_STREAMS; i++)
            if (streams[i].use == MARE__CHILD_GIVEN)
                close_given(streams[i].fd);
        return -ENOMEM;
    }
    launch->job.holds_up = true;
    launch->child = create(runtime, spawning);
    int err = launch->child ? open_pipes(launch) : -ENOMEM;
    if (err)
        mare__unref(&launch->job.object);
    else
        *out = launch;
    return err;
}

int mare__launch_take(struct mare__launch *launch, struct mare__child **out)
{
    struct mare__child *child = launch->child;
    if (launch->err)
        return launch->err;
    child->pid = launch->pid;
    int err = open_source(child, launch->fd);
    launch->fd = -1;
    launch->child = NULL;
    if (err) {
        discard(child);
        return err;
    }
    watch(child);
    *out = child;
    return 0;
}
