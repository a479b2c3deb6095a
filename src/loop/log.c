// SPDX-License-Identifier: MIT
// The line of a log and the thread that empties it.
//
//     put ──▶ [line, at most `room`] ──▶ thread: mare__sink_write ──▶ standard error, or a file
//               └── full: lost, counted
//
// The thread is made with the first line and lasts as long as the runtime. When the runtime ends,
// it waits a second for the lines that are left. A thread that is stuck is left behind, with all
// that it holds. So the runtime and the thread both hold the structure, and the last one frees it.
#include "loop/log.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/sink.h"
#include "platform/wall.h"
#include "sched/marshal.h"
#include "wire/utf8.h"

#define ROOM 10000
#define PATIENCE_NS UINT64_C(1000000000)

struct line {
    struct line *next;
    struct mare__sink *sink; // not a line: an order to write the next ones there; or NULL
    unsigned long says;      // how many losses this line tells of
    size_t length;
    char bytes[];
};

// The settings that all processes see. Constant once they are published.
struct settings {
    struct mare__object object;
    mare_message message;
};

struct mare__log {
    atomic_uint holders;
    atomic_ulong version;
    struct mare__platform platform;
    mare__lock lock; // guards what follows
    struct line *first, **last;
    size_t waiting, room;
    unsigned long written, lost, unsaid;
    char why[MARE__LOG_WHY];
    bool started, over, busy;
    bool json;
    struct settings *settings; // a reference, or NULL
    mare_channel *channel;     // a reference, or NULL
    bool awaited;              // somebody waits on `emptied` for the line to be empty
    struct mare__parker emptied, parker;
};

static void line_free(struct line *line)
{
    if (line->sink)
        mare__sink_close(line->sink);
    mare__free(line->sink);
    mare__free(line);
}

// Counts a lost line, under the lock. A line that reports losses is not a record of the program: it
// is not counted itself, and the next report includes its losses again.
static void count_lost(struct mare__log *log, unsigned long says)
{
    log->lost += says == 0;
    log->unsaid += says ? says : 1;
}

// Keeps the reason of the last loss. Under the lock.
static void keep_reason(struct mare__log *log, const char *why)
{
    snprintf(log->why, sizeof log->why, "%.*s", (int)mare__utf8_fit(why, sizeof log->why - 1), why);
}

static void unref(struct mare__log *log)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&log->holders, 1, memory_order_acq_rel) > 1)
        return;
    for (struct line *line = log->first, *next; line; line = next) {
        next = line->next;
        line_free(line);
    }
    mare__free(log);
}

// ---- The thread ---------------------------------------------------------------------------------

// Takes the first line. NULL: there is none; `*over` says whether the runtime has ended, too.
static struct line *take(struct mare__log *log, bool *over)
{
    mare__lock_acquire(&log->lock);
    struct line *line = log->first;
    *over = log->over;
    log->busy = line != NULL;
    if (line) {
        log->first = line->next;
        if (!log->first)
            log->last = &log->first;
    }
    bool tells = !line && log->awaited;
    mare__lock_release(&log->lock);
    if (tells)
        mare__unpark(&log->emptied);
    return line;
}

// Tells of a trouble with the file on standard error: nobody would read of it in a file that cannot
// be written.
static void tell_failure(const struct mare__sink *sink, const char *trouble, int err,
                         const char *outcome)
{
    struct mare__sink out = {.fd = -1};
    char text[768];
    int size = snprintf(text, sizeof text, "mare: the log %.400s cannot be %s: %s (%s)\n",
                        sink->path, trouble, strerror(err), outcome);
    mare__sink_write(&out, text, (size_t)size);
}

// What was told of the file already.
struct told {
    bool failing; // the last write failed
    bool stays;   // it could not be put aside
};

static void tell_news(const struct mare__sink *sink, int err, struct told *told)
{
    if (err && !told->failing && sink->path)
        tell_failure(sink, "written", err, "what is logged meanwhile is lost, and counted");
    if (sink->stays && !told->stays)
        tell_failure(sink, "rotated", sink->stays, "the same file grows on");
    *told = (struct told){.failing = err, .stays = sink->stays};
}

static void *serve(void *argument)
{
    struct mare__log *log = argument;
    struct mare__sink sink = {.fd = -1};
    struct told told = {0};
    for (bool over = false;;) {
        struct line *line = take(log, &over);
        if (!line && over)
            break;
        if (!line) {
            log->platform.park(log->platform.context, &log->parker, MARE_FOREVER);
            continue;
        }
        bool redirects = line->sink != NULL;
        if (redirects) {
            mare__sink_close(&sink);
            sink = *line->sink;
            line->sink->path = NULL; // the path belongs to the order's receiver now
        }
        int err = redirects ? 0 : mare__sink_write(&sink, line->bytes, line->length);
        tell_news(&sink, err, &told);
        mare__lock_acquire(&log->lock);
        log->waiting--;
        log->written += !err && !redirects;
        if (err) {
            count_lost(log, line->says);
            keep_reason(log, strerror(err));
        }
        mare__lock_release(&log->lock);
        line_free(line);
    }
    mare__sink_close(&sink);
    unref(log);
    return NULL;
}

// ---- Its life -----------------------------------------------------------------------------------

static void settings_destroy(struct mare__object *object)
{
    struct settings *settings = (struct settings *)object;
    mare__message_clear(&settings->message);
    mare__free(settings);
}

// Called when the runtime ends.
static void stop(struct mare__log *log)
{
    uint64_t deadline = log->platform.now_ns(log->platform.context) + PATIENCE_NS;
    mare__lock_acquire(&log->lock);
    struct settings *settings = log->settings;
    mare_channel *channel = log->channel;
    log->settings = NULL;
    log->channel = NULL;
    log->over = true;
    log->awaited = true;
    for (bool woken = true; woken && log->started && (log->first || log->busy);) {
        mare__lock_release(&log->lock);
        mare__unpark(&log->parker);
        woken = log->platform.park(log->platform.context, &log->emptied, deadline);
        mare__lock_acquire(&log->lock);
    }
    log->awaited = false;
    mare__lock_release(&log->lock);
    mare__unpark(&log->parker);
    if (settings)
        mare__unref(&settings->object);
    if (channel)
        mare_chan_unref(channel);
    unref(log);
}

static bool note(mare_runtime *runtime, bool warning, const char *message, const char *traceback);

struct mare__log *mare__log_of(mare_runtime *runtime)
{
    struct mare__log *log = atomic_load(&runtime->log), *none = NULL;
    if (log)
        return log;
    log = mare__alloc_zero(sizeof *log);
    if (!log)
        return NULL;
    atomic_init(&log->holders, 1);
    log->platform = runtime->platform;
    log->last = &log->first;
    log->room = ROOM;
    atomic_store(&runtime->log_stop, stop);
    atomic_store(&runtime->log_note, note);
    if (atomic_compare_exchange_strong(&runtime->log, &none, log))
        return log;
    unref(log); // another thread has just made one
    return none;
}

// ---- Lines --------------------------------------------------------------------------------------

// Counts a line in, and starts the thread with the first one. False: no room; with `must` there
// always is.
static bool admit(struct mare__log *log, bool must)
{
    mare__lock_acquire(&log->lock);
    bool room = (log->waiting < log->room || must) && !log->over, starts = room && !log->started;
    log->started |= starts;
    log->waiting += room;
    mare__lock_release(&log->lock);
    if (!starts)
        return room;
    atomic_fetch_add(&log->holders, 1);
    if (log->platform.start_apart(log->platform.context, "mare-log", serve, log) == 0)
        return true;
    atomic_fetch_sub(&log->holders, 1);
    mare__lock_acquire(&log->lock);
    log->started = false;
    log->waiting--;
    mare__lock_release(&log->lock);
    return false;
}

static void append(struct mare__log *log, struct line *line)
{
    mare__lock_acquire(&log->lock);
    *log->last = line;
    log->last = &line->next;
    mare__lock_release(&log->lock);
    mare__unpark(&log->parker);
}

bool mare__log_put(struct mare__log *log, const char *bytes, size_t length, unsigned long says)
{
    struct line *line = mare__alloc(sizeof *line + length);
    if (!line || !admit(log, false)) {
        mare__free(line);
        mare__log_lose(log, says, NULL);
        return false;
    }
    line->next = NULL;
    line->sink = NULL;
    line->says = says;
    line->length = length;
    memcpy(line->bytes, bytes, length);
    append(log, line);
    return true;
}

void mare__log_lose(struct mare__log *log, unsigned long says, const char *why)
{
    mare__lock_acquire(&log->lock);
    count_lost(log, says);
    if (why)
        keep_reason(log, why);
    mare__lock_release(&log->lock);
}

// The number of bytes of the UTF-8 character at `text`; 0: there is no valid one.
static size_t character(const char *text)
{
    struct mare__utf8 state = {0};
    for (size_t size = 1; mare__utf8_check(&state, text + size - 1, 1); size++)
        if (mare__utf8_complete(&state))
            return size;
    return 0;
}

// Appends text as a JSON string, or on one line. Bytes that are not UTF-8 are replaced in JSON.
static void add_text(mare_message *line, const char *text, bool json)
{
    for (size_t size; *text; text += size ? size : 1) {
        char escaped[8];
        unsigned char c = (unsigned char)*text;
        size = json && c >= 0x80 ? character(text) : 1;
        if (c == '\n' || c == '\t')
            snprintf(escaped, sizeof escaped, "\\%c", c == '\n' ? 'n' : 't');
        else if (c < ' ')
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else if (size == 0)
            snprintf(escaped, sizeof escaped, "\\ufffd");
        else
            snprintf(escaped, sizeof escaped, "%s%.*s", json && strchr("\"\\", c) ? "\\" : "",
                     (int)size, text);
        mare__message_append(line, escaped, strlen(escaped));
    }
}

static void add(mare_message *line, const char *text)
{
    mare__message_append(line, text, strlen(text));
}

// Logs a message of the runtime's own, if the program has set up its log. False: it has not, or its
// log is a Lua function, which cannot be called from here.
static bool note(mare_runtime *runtime, bool warning, const char *message, const char *traceback)
{
    struct mare__log *log = atomic_load(&runtime->log);
    struct mare__wall wall;
    char time[MARE__WALL_TEXT];
    mare_message line; // used as a buffer that grows
    if (!log)          // another thread is just making it
        return false;
    mare__lock_acquire(&log->lock);
    bool json = log->json, elsewhere = log->channel != NULL || !log->settings;
    mare__lock_release(&log->lock);
    if (elsewhere)
        return false;
    runtime->platform.read_wall(runtime->platform.context, &wall);
    mare__wall_text(wall.utc_ns, time);
    mare__message_init(&line);
    add(&line, json ? "{\"time\":\"" : "");
    add(&line, time);
    add(&line, json ? "\",\"level\":\"" : " ");
    add(&line, warning ? "warn" : "error");
    add(&line, json ? "\",\"module\":\"mare\",\"message\":\"" : " mare: ");
    add_text(&line, message, json);
    if (traceback) {
        add(&line, json ? "\",\"traceback\":\"" : " traceback=\"");
        add_text(&line, traceback, true);
    }
    add(&line, json ? "\"}\n" : traceback ? "\"\n" : "\n");
    bool done = mare__log_put(log, (const char *)mare__message_data(&line), line.length, 0);
    mare__message_clear(&line);
    return done;
}

bool mare__log_direct(struct mare__log *log, const char *path, uint64_t limit, unsigned keep,
                      size_t room, bool json)
{
    struct line *line = mare__alloc_zero(sizeof *line);
    struct mare__sink *sink = mare__alloc_zero(sizeof *sink);
    char *copy = path ? mare__alloc(strlen(path) + 1) : NULL;
    if (!line || !sink || (path && !copy) || !admit(log, true)) {
        mare__free(line);
        mare__free(sink);
        mare__free(copy);
        return false;
    }
    if (copy)
        strcpy(copy, path);
    *sink = (struct mare__sink){.path = copy, .limit = limit, .keep = keep, .fd = -1};
    line->sink = sink;
    mare__lock_acquire(&log->lock);
    log->room = room;
    log->json = json;
    mare__lock_release(&log->lock);
    append(log, line);
    return true;
}

// ---- Settings -----------------------------------------------------------------------------------

void mare__log_set(struct mare__log *log, mare_message *message, mare_channel *channel)
{
    struct settings *made = mare__alloc_zero(sizeof *made);
    if (!made) {
        mare__message_clear(message);
        if (channel)
            mare_chan_unref(channel);
        return;
    }
    mare__object_init(&made->object, MARE__KIND_INTERNAL, settings_destroy);
    mare__message_move(&made->message, message);
    mare__lock_acquire(&log->lock);
    struct settings *former = log->settings;
    mare_channel *before = log->channel;
    log->settings = made;
    log->channel = channel;
    mare__lock_release(&log->lock);
    atomic_fetch_add(&log->version, 1);
    if (former)
        mare__unref(&former->object);
    if (before) {
        mare_chan_close(before); // ends the receiver of the old channel
        mare_chan_unref(before);
    }
}

unsigned long mare__log_version(const struct mare__log *log)
{
    return atomic_load(&log->version);
}

int mare__log_push(lua_State *L, struct mare__log *log)
{
    mare__lock_acquire(&log->lock);
    struct settings *settings = log->settings ? mare__ref(&log->settings->object) : NULL;
    mare__lock_release(&log->lock);
    if (!settings)
        return 0;
    mare_message message; // a copy, so that an error leaves nothing behind
    bool done = mare__message_copy(&message, &settings->message);
    mare__unref(&settings->object);
    return done ? mare__unmarshal_own(L, &message) : 0;
}

void mare__log_count(struct mare__log *log, bool says, struct mare__log_counts *counts)
{
    mare__lock_acquire(&log->lock);
    *counts = (struct mare__log_counts){log->waiting, log->written, log->lost, log->unsaid, ""};
    strcpy(counts->why, log->why);
    if (says)
        log->unsaid = 0;
    mare__lock_release(&log->lock);
}

bool mare__log_end(mare_runtime *runtime)
{
    struct mare__log *log = atomic_load(&runtime->log);
    if (!log)
        return false;
    mare__lock_acquire(&log->lock);
    mare_channel *channel = log->channel;
    log->channel = NULL;
    mare__lock_release(&log->lock);
    if (!channel)
        return false;
    mare_chan_close(channel);
    mare_chan_unref(channel);
    return true;
}
