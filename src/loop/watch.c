// SPDX-License-Identifier: MIT
// A watcher knows the path of each number that inotify gave it. When a new folder appears in a
// folder that is watched recursively, a walk starts: it watches the new folder and notes what is in
// it. Those files may have come before the watch, so that inotify says nothing of them. The watcher
// reports them as created. What comes during the walk may be reported twice.
//
//     descriptor ──▶ bytes ──▶ event ──▶ told
//                                └─ a folder came: walk (a job) ──▶ watched, found ──▶ told
//
// A record of a walk: an int (the number by which a folder is watched, or -1), a char ('d' for a
// folder, 'f' for anything else), then the path with a zero at its end.
#include "loop/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/file.h"
#include "platform/socket.h"

enum { FOUND_MAX = 65536, RECORD_HEAD = sizeof(int) + 1 };

// ---- Walks, on a thread of the pool -------------------------------------------------------------

static int add_record(struct mare__walk *walk, int number, char what, const char *base,
                      const char *name)
{
    size_t size = RECORD_HEAD + strlen(base) + strlen(name) + 2;
    while (walk->room - walk->size < size) {
        size_t room = walk->room ? walk->room * 2 : 1024;
        char *records = mare__realloc(walk->records, room);
        if (!records)
            return -ENOMEM;
        walk->records = records;
        walk->room = room;
    }
    char *at = walk->records + walk->size;
    memcpy(at, &number, sizeof number);
    at[sizeof number] = what;
    walk->size +=
        RECORD_HEAD + (size_t)sprintf(at + RECORD_HEAD, *name ? "%s/%s" : "%s%s", base, name) + 1;
    return 0;
}

static int watch_folder(struct mare__walk *walk, const char *path, bool is_root)
{
    if (walk->count == walk->limit) {
        walk->is_overflown = true;
        return 0;
    }
    int number = mare__watch_add(walk->fd, path, !is_root);
    if (number < 0 && !is_root) // a folder in it is gone again, or may not be read
        return number == -ENOSPC || number == -ENOMEM ? number : 0;
    walk->count++;
    return number < 0 ? number : add_record(walk, number, 'd', path, "");
}

// Notes what is in a folder: the folders to watch, and what to tell.
static int look_into(struct mare__walk *walk, const char *path)
{
    const struct mare__platform *platform = mare__jobs_platform(walk->job.jobs);
    struct mare__folder *folder;
    const char *name, *kind;
    int err = platform->files->open_folder(platform->context, path, &folder);
    if (err)
        return 0;
    while (!err && platform->files->next_entry(platform->context, folder, &name, &kind) == 1) {
        bool is_folder = strcmp(kind, "folder") == 0;
        if (walk->tells && walk->found++ == FOUND_MAX)
            walk->is_overflown = true;
        if (walk->tells && walk->found <= FOUND_MAX)
            err = add_record(walk, -1, is_folder ? 'd' : 'f', path, name);
        if (!err && is_folder && walk->recursive) {
            char *inner = mare__alloc(strlen(path) + strlen(name) + 2);
            if (!inner)
                err = -ENOMEM;
            else
                sprintf(inner, "%s/%s", path, name), err = watch_folder(walk, inner, false);
            mare__free(inner);
        }
        if (!err && mare__job_is_lost(&walk->job))
            err = -ECANCELED;
    }
    platform->files->close_folder(platform->context, folder);
    return err;
}

// Looks into every folder that the walk watches, one after the other. The records it adds on the
// way are also the list of those still to do.
static int walk_through(struct mare__walk *walk)
{
    int err = walk->fd < 0 ? walk->fd : watch_folder(walk, walk->path, !walk->tells);
    for (size_t at = 0; !err && walk->recursive && at < walk->size;) {
        int number;
        memcpy(&number, walk->records + at, sizeof number);
        size_t length = strlen(walk->records + at + RECORD_HEAD) + 1;
        if (number >= 0) {
            char *path = mare__alloc(length); // a copy: the records move as they grow
            if (!path)
                return -ENOMEM;
            memcpy(path, walk->records + at + RECORD_HEAD, length);
            err = look_into(walk, path);
            mare__free(path);
        }
        at += RECORD_HEAD + length;
    }
    return err;
}

static void run(struct mare__job *job)
{
    struct mare__walk *walk = (struct mare__walk *)job;
    if (!walk->tells)
        walk->fd = mare__watch_open();
    walk->result = walk_through(walk);
    if (walk->result == 0 && !walk->tells && walk->is_overflown)
        walk->result = -EFBIG;
}

static void end(struct mare__job *job)
{
    struct mare__walk *walk = (struct mare__walk *)job;
    if (walk->fd >= 0)
        mare__socket_close(walk->fd);
    mare__free(walk->records);
    mare__free(walk);
}

struct mare__walk *mare__walk_new(mare_runtime *runtime, const char *path, bool recursive,
                                  size_t limit, const struct mare__watch *watch)
{
    struct mare__walk *walk = mare__alloc_zero(sizeof *walk + strlen(path) + 1);
    if (!walk || !mare__job_init(&walk->job, runtime, MARE__LANE_FILES, run, end)) {
        mare__free(walk);
        return NULL;
    }
    walk->fd = watch ? mare__watch_share(watch->observed.fd) : -1;
    walk->recursive = recursive;
    walk->tells = watch != NULL;
    walk->limit = limit;
    walk->result = -ECANCELED; // until the job has begun
    strcpy(walk->path, path);
    return walk;
}

// ---- What is watched ----------------------------------------------------------------------------

static struct mare__watched *find(const struct mare__watch *watch, int number)
{
    struct mare__index_entry *entry = mare__index_find(&watch->watched, (uint64_t)number);
    return entry ? MARE__ENTRY(entry, struct mare__watched, entry) : NULL;
}

static bool add(struct mare__watch *watch, int number, const char *path)
{
    char *copy = mare__alloc(strlen(path) + 1);
    struct mare__watched *known = find(watch, number), *made = NULL;
    if (copy && !known)
        known = made = mare__alloc_zero(sizeof *made);
    if (!copy || !known) {
        mare__free(copy);
        return false;
    }
    if (made) {
        made->number = number;
        mare__index_add(&watch->watched, &made->entry, (uint64_t)number);
        mare__list_append(&watch->all, &made->in_all);
        watch->count++;
    }
    mare__free(known->path);
    known->path = strcpy(copy, path);
    return true;
}

static void forget(struct mare__watch *watch, struct mare__watched *known)
{
    mare__index_remove(&known->entry);
    mare__list_remove(&known->in_all);
    watch->count--;
    mare__free(known->path);
    mare__free(known);
}

// Whether a path is that of a folder, or lies in it.
static bool is_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

// A folder was renamed; or, if `to` is NULL, is gone.
static bool move(struct mare__watch *watch, const char *from, const char *to)
{
    for (struct mare__list *at = watch->all.next; at != &watch->all; at = at->next) {
        struct mare__watched *known = MARE__ENTRY(at, struct mare__watched, in_all);
        char *path = known->path;
        if (!is_in(path, from))
            continue;
        if (!to) { // forgotten later, when inotify says that the watch has ended
            mare__watch_remove(watch->observed.fd, known->number);
            continue;
        }
        char *now = mare__alloc(strlen(to) + strlen(path) - strlen(from) + 1);
        if (!now)
            return false;
        strcat(strcpy(now, to), path + strlen(from));
        mare__free(path);
        known->path = now;
    }
    return true;
}

// ---- From birth to end --------------------------------------------------------------------------

static void release(struct mare__watch *watch)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&watch->holders, 1, memory_order_acq_rel) > 1)
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (watch->observed.ready[way])
            mare_chan_unref(watch->observed.ready[way]);
    for (struct mare__list *at; (at = mare__list_first(&watch->all)) != NULL;)
        forget(watch, MARE__ENTRY(at, struct mare__watched, in_all));
    mare__free(watch->bytes);
    mare__free(watch->found);
    mare__free(watch->old);
    mare__free(watch);
}

static void on_closed(struct mare__observed *observed)
{
    release(MARE__ENTRY(observed, struct mare__watch, observed));
}

static void destroy(struct mare__object *object)
{
    struct mare__watch *watch = (struct mare__watch *)object;
    if (watch->walk)
        mare__unref(&watch->walk->job.object);
    watch->walk = NULL;
    mare__observed_close(&watch->observed);
    release(watch);
}

// Takes over the folders that a walk has watched, and what it has to tell.
static bool adopt(struct mare__watch *watch, struct mare__walk *walk)
{
    for (size_t at = 0; at < walk->size;) {
        int number;
        const char *path = walk->records + at + RECORD_HEAD;
        memcpy(&number, walk->records + at, sizeof number);
        if (number >= 0 && !add(watch, number, path))
            return false;
        at += RECORD_HEAD + strlen(path) + 1;
    }
    watch->is_overflown |= walk->is_overflown;
    if (!walk->tells)
        return true;
    mare__free(watch->found); // all of it was told: only then does a walk begin
    watch->found = walk->records;
    watch->found_at = 0;
    watch->found_end = walk->size;
    walk->records = NULL;
    return true;
}

struct mare__watch *mare__watch_new(mare_runtime *runtime, struct mare__walk *walk)
{
    struct mare__watch *watch = mare__alloc_zero(sizeof *watch + strlen(walk->path) + 1);
    if (!watch)
        return NULL;
    mare__object_init(&watch->object, MARE__KIND_WATCH, destroy);
    watch->object.weight = sizeof *watch + sizeof(mare_channel);
    atomic_init(&watch->holders, 2);
    mare__list_init(&watch->all);
    mare__observed_init(&watch->observed, walk->fd, on_closed);
    watch->observed.file = watch->path;
    walk->fd = -1;
    watch->runtime = runtime;
    watch->timeout = MARE_FOREVER;
    watch->recursive = walk->recursive;
    watch->limit = walk->limit;
    strcpy(watch->path, walk->path);
    memcpy(&watch->root, walk->records, sizeof watch->root);
    if (adopt(watch, walk))
        return watch;
    mare__unref(&watch->object);
    return NULL;
}

// ---- What is told -------------------------------------------------------------------------------

static bool begin_walk(struct mare__watch *watch, const char *path)
{
    size_t left = watch->limit > watch->count ? watch->limit - watch->count : 0;
    struct mare__walk *walk = mare__walk_new(watch->runtime, path, true, left, watch);
    if (!walk)
        return false;
    if (!mare__job_start(&walk->job)) {
        mare__unref(&walk->job.object);
        return false;
    }
    watch->walk = walk;
    return true;
}

static int settle(struct mare__watch *watch)
{
    struct mare__walk *walk = watch->walk;
    if (!walk)
        return 0;
    if (!mare__job_is_over(&walk->job))
        return -EINPROGRESS;
    watch->walk = NULL;
    int err = walk->result;
    if (err == -ECANCELED) { // its waiter left before it began: start it again
        if (!begin_walk(watch, walk->path))
            err = -ENOMEM;
        else
            err = -EINPROGRESS;
    } else if (!adopt(watch, walk)) {
        err = -ENOMEM;
    } else if (err) {
        watch->is_overflown = true; // the system allows no more watches
        err = 0;
    }
    mare__unref(&walk->job.object);
    return err;
}

// Tells what a walk has found.
static bool tell_found(struct mare__watch *watch, struct mare__watch_told *told)
{
    while (watch->found_at < watch->found_end) {
        const char *record = watch->found + watch->found_at;
        int number;
        memcpy(&number, record, sizeof number);
        watch->found_at += RECORD_HEAD + strlen(record + RECORD_HEAD) + 1;
        if (number >= 0)
            continue;
        *told = (struct mare__watch_told){.kind = "created",
                                          .base = record + RECORD_HEAD,
                                          .name = "",
                                          .folder = record[sizeof number] == 'd'};
        return true;
    }
    return false;
}

// The path of a name in a folder, allocated.
static char *join(const char *base, const char *name)
{
    char *path = mare__alloc(strlen(base) + strlen(name) + 2);
    if (path)
        sprintf(path, *name ? "%s/%s" : "%s%s", base, name);
    return path;
}

// Reads more, behind what was not told yet.
static int read_more(struct mare__watch *watch)
{
    char bytes[MARE__WATCH_ROOM];
    size_t have = watch->end - watch->at;
    ssize_t got = mare__watch_read(watch->observed.fd, bytes);
    if (got <= 0)
        return got == 0 ? -EAGAIN : (int)got;
    char *all = mare__alloc(have + (size_t)got);
    if (!all)
        return -ENOMEM;
    if (have > 0)
        memcpy(all, watch->bytes + watch->at, have);
    memcpy(all + have, bytes, (size_t)got);
    mare__free(watch->bytes);
    watch->bytes = all;
    watch->at = 0;
    watch->end = have + (size_t)got;
    return 0;
}

// A name left a folder. Takes the next event if that tells where the same file came to.
static bool takes_other_half(struct mare__watch *watch, unsigned cookie,
                             struct mare__watch_event *other)
{
    if (watch->at == watch->end)
        return false;
    size_t next = mare__watch_event(watch->bytes, watch->at, other);
    if (other->kind != MARE__WATCH_CAME || other->cookie != cookie || !find(watch, other->number))
        return false;
    watch->at = next;
    return true;
}

// A folder was renamed, or left, or came.
static int follow(struct mare__watch *watch, const struct mare__watch_told *told, bool came)
{
    if (!watch->recursive || !told->folder)
        return 0;
    char *path = join(told->base, told->name);
    char *from = told->from_base ? join(told->from_base, told->from_name) : NULL;
    bool fine = path && (from || !told->from_base);
    if (fine && from)
        fine = move(watch, from, path);
    else if (fine && came)
        fine = begin_walk(watch, path);
    else if (fine)
        move(watch, path, NULL);
    mare__free(from);
    mare__free(path);
    return fine ? 0 : -ENOMEM;
}

// Something happened to the watched path itself. What happens in a folder is told by its own event.
static bool tell_self(struct mare__watch *watch, const struct mare__watch_event *event,
                      struct mare__watch_told *told)
{
    static const char *const kinds[] = {[MARE__WATCH_CHANGED] = "changed",
                                        [MARE__WATCH_WRITTEN] = "written",
                                        [MARE__WATCH_REMOVED] = "removed",
                                        [MARE__WATCH_LEFT] = "removed"};
    bool root = event->number == watch->root;
    if (event->kind == MARE__WATCH_OVERFLOW)
        watch->is_overflown = true;
    struct mare__watched *known = find(watch, event->number);
    if (event->kind == MARE__WATCH_ENDED) {
        if (known)
            forget(watch, known);
        watch->has_ended |= root;
        return false;
    }
    if (!root || !known || event->kind >= sizeof kinds / sizeof *kinds || !kinds[event->kind])
        return false;
    if (event->kind == MARE__WATCH_LEFT) // the path leads to something else now, so watching ends
        mare__watch_remove(watch->observed.fd, watch->root);
    *told = (struct mare__watch_told){
        .kind = kinds[event->kind], .base = known->path, .name = "", .folder = event->folder};
    return true;
}

// 1: an event was told; 0: there was nothing to tell of it.
static int tell_event(struct mare__watch *watch, struct mare__watch_event *event,
                      struct mare__watch_told *told)
{
    static const char *const kinds[] = {"created", "changed", "written",
                                        "removed", "removed", "created"};
    const struct mare__watched *known = find(watch, event->number);
    if (event->self || event->kind >= MARE__WATCH_ENDED)
        return tell_self(watch, event, told);
    if (!known)
        return 0;
    struct mare__watch_event other;
    *told = (struct mare__watch_told){.kind = kinds[event->kind],
                                      .base = known->path,
                                      .name = event->name,
                                      .folder = event->folder};
    bool came = event->kind == MARE__WATCH_CREATED || event->kind == MARE__WATCH_CAME;
    if (event->kind == MARE__WATCH_LEFT && takes_other_half(watch, event->cookie, &other)) {
        told->kind = "renamed";
        told->from_base = told->base;
        told->from_name = told->name;
        told->base = find(watch, other.number)->path;
        told->name = other.name;
    }
    int err = came || event->kind == MARE__WATCH_LEFT ? follow(watch, told, came) : 0;
    return err ? err : 1;
}

int mare__watch_next(struct mare__watch *watch, struct mare__watch_told *told)
{
    struct mare__watch_event event;
    for (;;) {
        int err = settle(watch);
        if (err)
            return err == -EINPROGRESS ? 0 : err;
        if (tell_found(watch, told))
            return 1;
        if (watch->is_overflown) {
            watch->is_overflown = false;
            *told = (struct mare__watch_told){.kind = "overflow", .base = watch->path, .name = ""};
            return 1;
        }
        if (watch->at == watch->end) {
            if (watch->has_ended)
                return -ENODATA;
            err = read_more(watch);
            if (err)
                return err == -EAGAIN ? 0 : err;
        }
        watch->at = mare__watch_event(watch->bytes, watch->at, &event);
        if (event.kind == MARE__WATCH_LEFT && watch->at == watch->end) {
            // The other half of a rename may come with the next read. The old name is kept because
            // these bytes go.
            mare__free(watch->old);
            watch->old = join(event.name, "");
            if (!watch->old)
                return -ENOMEM;
            event.name = watch->old;
            read_more(watch);
        }
        int told_of = tell_event(watch, &event, told);
        if (told_of)
            return told_of;
    }
}
