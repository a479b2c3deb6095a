// SPDX-License-Identifier: MIT
// Children from start to end. A child's descriptor, its pidfd, is watched from the start. A task
// waits for it, reaps the child, and closes the channel that others wait for. So no zombie stays,
// whatever the owner does. Once there is a grace, the task also waits for its end.
//
//              owner lets go, or closes it            the grace is over
//     running -------------------------> asked to end -----------------> killed
//        |                                     |                            |
//        +-------------------------------------+----------------------------+--> over: reaped
//
// When the runtime stops, nothing is watched any more. What is left is waited for and killed here,
// one child after the other, each after its own grace.
#include "loop/child.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/runtime.h"

static const uint64_t DEFAULT_GRACE = 2000000000u;
static const uint64_t AFTER_KILL =
    1000000000u; // a killed child that takes longer hangs in the system

static void destroy_task(struct mare__object *object)
{
    struct mare__child *child = MARE__ENTRY(object, struct mare__child, task.object);
    for (int way = 0; way < MARE__WAYS; way++)
        if (child->observed.ready[way])
            mare_chan_unref(child->observed.ready[way]);
    mare_chan_unref(child->ended);
    pthread_mutex_destroy(&child->mutex);
    mare__free(child);
}

static void on_closed(struct mare__observed *observed)
{
    mare__task_release(&MARE__ENTRY(observed, struct mare__child, observed)->task);
}

static pid_t group_of(const struct mare__child *child)
{
    return child->group ? child->pid : 0;
}

// ---- The end ------------------------------------------------------------------------------------

// Whether the child has ended; if so, reaps it.
static bool reap(struct mare__child *child)
{
    int code = 0;
    pthread_mutex_lock(&child->mutex);
    enum mare__child_end how = mare__child_reap(child->observed.fd, group_of(child), &code);
    child->how = how;
    child->code = code;
    child->over = how != MARE__CHILD_RUNS;
    pthread_mutex_unlock(&child->mutex);
    return how != MARE__CHILD_RUNS;
}

static void end(struct mare__child *child)
{
    mare_runtime *runtime = child->task.runtime;
    mare__lock_acquire(&runtime->linger_lock);
    mare__list_remove(&child->lingers);
    mare__lock_release(&runtime->linger_lock);
    mare_chan_close(child->ended);
    mare__observed_close(&child->observed);
}

static void kill_now(struct mare__child *child)
{
    pthread_mutex_lock(&child->mutex);
    if (!child->over)
        mare__child_kill(child->observed.fd, group_of(child));
    child->killed = true;
    pthread_mutex_unlock(&child->mutex);
}

// When the child must be killed. MARE_FOREVER: never, or it was killed already.
static uint64_t grace_end(struct mare__child *child)
{
    pthread_mutex_lock(&child->mutex);
    uint64_t at = child->asked && !child->killed ? child->killed_at : MARE_FOREVER;
    pthread_mutex_unlock(&child->mutex);
    return at;
}

// Runs when the child may have ended, was asked to end, or its grace is over. The channel to wait
// in exists: the first wait made it, before anybody could see the child.
static bool look_after(struct mare__task *task)
{
    struct mare__child *child = MARE__ENTRY(task, struct mare__child, task);
    mare_err why = task->wait.result;
    mare__message_clear(&task->wait.message);
    if (why != MARE_OK && why != MARE_TIMEOUT && why != MARE_CANCELLED)
        return false; // the runtime stops, and last_call does the rest
    if (reap(child)) {
        end(child);
        return false;
    }
    if (why == MARE_TIMEOUT)
        kill_now(child);
    return mare__task_receive(task,
                              mare__observed_await(task->runtime, &child->observed, MARE__TO_READ),
                              grace_end(child));
}

// ---- Signals ------------------------------------------------------------------------------------

int mare__child_send(struct mare__child *child, int number)
{
    pthread_mutex_lock(&child->mutex);
    int err =
        child->over ? -ESRCH : mare__child_signal(child->observed.fd, group_of(child), number);
    pthread_mutex_unlock(&child->mutex);
    return err;
}

void mare__child_terminate(struct mare__child *child)
{
    pthread_mutex_lock(&child->mutex);
    bool asks = !child->over && !child->asked && !child->detached;
    if (asks) {
        child->asked = true;
        child->killed = child->grace == 0;
        child->killed_at = mare__now(child->task.runtime) + child->grace;
        if (child->killed)
            mare__child_kill(child->observed.fd, group_of(child));
        else
            mare__child_ask(child->observed.fd, group_of(child));
    }
    pthread_mutex_unlock(&child->mutex);
    if (asks)
        mare__task_nudge(&child->task); // so that the task notes the new deadline
}

enum mare__child_end mare__child_outcome(struct mare__child *child, int *code)
{
    pthread_mutex_lock(&child->mutex);
    enum mare__child_end how = child->over ? child->how : MARE__CHILD_RUNS;
    *code = child->code;
    pthread_mutex_unlock(&child->mutex);
    return how;
}

// ---- When the runtime stops ---------------------------------------------------------------------

static void await_end(struct mare__child *child)
{
    int fd = child->observed.fd;
    uint64_t now = mare__now(child->task.runtime);
    mare__task_cancel(&child->task);
    mare__child_terminate(child); // in case its owner never let go of it
    if (!child->detached &&
        !mare__child_await(fd, child->killed_at > now ? child->killed_at - now : 0)) {
        kill_now(child);
        mare__child_await(fd, AFTER_KILL);
    }
    reap(child);
    end(child);
}

// Ends the children that are left. No other thread knows of them any more.
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
    if (!mare__runtime_valid(child->task.runtime))
        return; // after a fork: the threads are in the other process
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        if (child->pipes[i])
            mare__unref(&child->pipes[i]->object);
    mare__child_terminate(child);
    mare__task_release(&child->task);
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
    mare__task_init(&child->task, runtime, look_after, destroy_task);
    pthread_mutex_init(&child->mutex, NULL);
    child->ended = ended;
    child->group = spawning->group;
    child->detached = spawning->session;
    child->timeout = MARE_FOREVER;
    child->grace = DEFAULT_GRACE;
    mare__list_init(&child->lingers);
    return child;
}

// The child was started, and nobody knows of it yet.
static int begin_watching(struct mare__child *child, int fd)
{
    mare_runtime *runtime = child->task.runtime;
    int code;
    mare__observed_init(&child->observed, fd, on_closed);
    mare__task_hold(&child->task);
    mare_channel *ready = mare__observed_await(runtime, &child->observed, MARE__TO_READ);
    if (!ready) {
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
    mare__task_receive(&child->task, ready, MARE_FOREVER);
    mare__task_start(&child->task);
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
        child->pipes[i] = mare__stream_new(child->task.runtime, here, MARE__KIND_STREAM);
        if (!child->pipes[i])
            return -ENOMEM;
    }
    return 0;
}

// Frees a child that was never started: nobody watches it.
static void discard(struct mare__child *child)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        if (child->pipes[i])
            mare__unref(&child->pipes[i]->object);
    mare__task_release(&child->task);
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

// Which of the names in the request does not exist, or may not be used.
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

// Waits for a killed child that nobody knows of.
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
    mare__jobs_post(job->jobs, MARE__LANE_FILES, bury,
                    launch); // waiting may block, and this may be a worker
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

// Copies a list, with its NULL. `room` moves on behind the copied strings.
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
    child->ended->event =
        (struct mare__event){.tells = MARE__TELLS_PROGRAM, .number = (int)launch->pid};
    int err = begin_watching(child, launch->fd);
    launch->fd = -1;
    launch->child = NULL;
    if (err) {
        discard(child);
        return err;
    }
    *out = child;
    return 0;
}
