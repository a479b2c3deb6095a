// SPDX-License-Identifier: MIT
// What can be seen of processes from outside while the program runs; look.h says how that is safe.
// The deadlock report (stuck.c) tells the same.
#include "sched/look.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/local.h"
#include "sched/routine.h"
#include "sched/runtime.h"

enum { PLACE = sizeof((mare_process_info *)0)->at };

void mare__look_begin(mare_runtime *runtime)
{
    pthread_mutex_lock(&runtime->look_mutex);
    atomic_store(&runtime->looked_at, true);
    mare__barrier_everywhere();
}

void mare__look_end(mare_runtime *runtime)
{
    // Release: pairs with the acquire in mare__look_out.
    atomic_store_explicit(&runtime->looked_at, false, memory_order_release);
    pthread_mutex_unlock(&runtime->look_mutex);
}

void mare__look_await(mare_runtime *runtime)
{
    pthread_mutex_lock(&runtime->look_mutex);
    pthread_mutex_unlock(&runtime->look_mutex);
}

// ---- A process ----------------------------------------------------------------------------------

static void copy_text(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text ? text : "");
}

// A line of code, the name of its chunk as whole as Lua's own messages have it: the end of a long
// path is what tells files apart.
static void write_place(char (*at)[PLACE], const lua_Debug *frame)
{
    _Static_assert(PLACE >= LUA_IDSIZE + sizeof ":2147483647", "a place holds any line");
    snprintf(*at, sizeof *at, "%s:%d", frame->short_src, frame->currentline);
}

// Where a coroutine is: the line of the innermost function in Lua.
static void describe_place(lua_State *L, char (*at)[PLACE])
{
    lua_Debug frame;
    for (int level = 0; L && lua_getstack(L, level, &frame); level++)
        if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0) {
            write_place(at, &frame);
            return;
        }
}

static void describe_channel(const mare_channel *channel, const char *word, mare_process_info *info)
{
    info->waits = channel->ends ? "join" : channel->id ? word : "event";
    info->waits_for = channel->ends ? channel->ends : channel->id;
    copy_text(info->channel, sizeof info->channel, channel->name);
    copy_text(info->channel_made, sizeof info->channel_made,
              channel->made ? channel->made->text : NULL);
}

static void describe_sleep(const struct mare__sleep *sleep, mare_process_info *info)
{
    // Relaxed: see mare__sleep_commit, which may just find that it need not wait.
    uint8_t waits = __atomic_load_n(&sleep->waits, __ATOMIC_RELAXED);
    if ((waits == MARE__WAITS_TO_SEND || waits == MARE__WAITS_TO_RECEIVE) && sleep->waits_for) {
        describe_channel(sleep->waits_for, waits == MARE__WAITS_TO_SEND ? "send" : "receive", info);
    } else if (waits == MARE__WAITS_IN_SELECT) {
        info->waits = "select";
        info->cases = sleep->case_count;
    } else if (waits == MARE__WAITS_FOR_TIME) {
        info->waits = "time";
    }
}

// Of a process at rest: `routine` is one of several, or NULL.
static void describe_rest(const struct mare__local *process, const struct mare__routine *routine,
                          mare_process_info *info)
{
    const struct mare__nested *nest = routine ? routine->nest : process->nest;
    uint32_t nested = routine ? routine->nested : process->nested;
    lua_State *L = nested > 0 ? nest[nested - 1].co : routine ? routine->thread : process->state;
    describe_place(L, &info->at);
    info->routine = routine ? routine->id : 1;
    describe_sleep(routine ? &routine->sleep : &process->sleep, info);
}

static void describe_process(struct mare__local *process, mare_process_info *info)
{
    mare__lock_acquire(&process->shared.lock); // its state may be going
    struct mare__arena *arena = atomic_load_explicit(&process->arena, memory_order_acquire);
    uint64_t memory = arena ? mare__arena_used(arena) : 0;
    bool background = process->given_up || process->host;
    mare__lock_release(&process->shared.lock);
    *info = (mare_process_info){
        .id = process->shared.id,
        .memory = memory,
        .slices = atomic_load(&process->slices),
        .cpu_ns = atomic_load(&process->cpu_ns),
        .status = mare__local_status(process),
        .background = background,
        .waits = "",
    };
    copy_text(info->name, sizeof info->name, process->shared.name);
}

// Whether nobody touches it until the end of the look. Acquire: what it left is seen.
static bool is_at_rest(const struct mare__local *process)
{
    unsigned status = atomic_load_explicit(&process->status, memory_order_acquire);
    return (status == MARE__BLOCKED || status == MARE__READY) && process->state && !process->host;
}

struct listing {
    mare_process_info *rows;
    size_t room, count;
};

// The next row, of this process; NULL: there is no room.
static mare_process_info *next_row(struct listing *list, struct mare__local *process)
{
    mare_process_info *row = list->count < list->room ? &list->rows[list->count] : NULL;
    list->count++;
    if (row)
        describe_process(process, row);
    return row;
}

static void list_process(struct listing *list, struct mare__local *process, bool all)
{
    bool rests = is_at_rest(process);
    struct mare__pool *pool = rests ? atomic_load(&process->pool) : NULL;
    struct mare__list *first = pool ? pool->all.next : NULL;
    mare_process_info *row = NULL;
    unsigned routines = 0;
    if (!pool || !all || first == &pool->all)
        row = next_row(list, process);
    if (row && rests)
        describe_rest(process, pool ? &pool->main : NULL, row);
    for (struct mare__list *r = first; pool && r != &pool->all; r = r->next)
        routines++;
    if (row)
        row->routines = pool ? routines : 1;
    for (struct mare__list *r = first; pool && all && r != &pool->all; r = r->next) {
        row = next_row(list, process);
        if (row) {
            describe_rest(process, MARE__ENTRY(r, struct mare__routine, in_all), row);
            row->routines = routines;
        }
    }
}

static size_t list(mare_runtime *runtime, mare_process_info *rows, size_t room, bool all)
{
    if (!mare__runtime_valid(runtime))
        return 0;
    struct listing listing = {rows, room, 0};
    mare__look_begin(runtime);
    mare__lock_acquire(&runtime->process_lock);
    for (struct mare__list *l = runtime->processes.next; l != &runtime->processes; l = l->next)
        list_process(&listing, MARE__ENTRY(l, struct mare__local, in_all), all);
    mare__lock_release(&runtime->process_lock);
    mare__look_end(runtime);
    return listing.count;
}

size_t mare_list_processes(mare_runtime *runtime, mare_process_info *rows, size_t room)
{
    return list(runtime, rows, room, false);
}

size_t mare__list_routines(mare_runtime *runtime, mare_process_info *rows, size_t room)
{
    return list(runtime, rows, room, true);
}

// ---- In words -----------------------------------------------------------------------------------

// The name of a process, or "". Rows are in the order in which processes were made, but for some
// that were made at the same time.
static const char *name_of(uint64_t id, const mare_process_info *rows, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].id == id)
            return rows[middle].name;
        if (rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = 0; i < count; i++)
        if (rows[i].id == id)
            return rows[i].name;
    return "";
}

const char *mare__wait_text(const mare_process_info *row, const mare_process_info *rows,
                            size_t count, char text[MARE__WAIT_TEXT])
{
    bool joins = strcmp(row->waits, "join") == 0, sends = strcmp(row->waits, "send") == 0;
    const char *name = joins ? name_of(row->waits_for, rows, count) : row->channel;
    text[0] = '\0';
    if (joins || sends || strcmp(row->waits, "receive") == 0)
        snprintf(text, MARE__WAIT_TEXT, " %s %llu%s%s%s%s%s",
                 joins   ? "for the end of process"
                 : sends ? "to send to channel"
                         : "to receive from channel",
                 (unsigned long long)row->waits_for, *name ? " (" : "", name, *name ? ")" : "",
                 !*name && *row->channel_made ? ", made at " : "", !*name ? row->channel_made : "");
    else if (strcmp(row->waits, "select") == 0)
        snprintf(text, MARE__WAIT_TEXT, " in a select of %u cases", row->cases);
    else if (strcmp(row->waits, "event") == 0)
        strcpy(text, " for a socket, a file, a timer or a program");
    else if (strcmp(row->waits, "time") == 0)
        strcpy(text, " for its time to come");
    return text;
}

// ---- Where channels were made -------------------------------------------------------------------

// A table of lists, by the text's hash. Lines of a program are few; one that makes its code as it
// runs has more, and they are not all kept.
enum { LISTS = 64, SITES_MAX = 4096, LEVELS = 8 };

struct mare__sites {
    struct mare__site *lists[LISTS];
    unsigned count;
};

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u; // FNV-1a
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static struct mare__site *find_site(const struct mare__sites *sites, const char *text)
{
    struct mare__site *site = sites->lists[hash(text) % LISTS];
    while (site && strcmp(site->text, text) != 0)
        site = site->next;
    return site;
}

static const struct mare__site *keep_site(mare_runtime *runtime, const char *text)
{
    if (!runtime->sites)
        runtime->sites = mare__alloc_zero(sizeof *runtime->sites);
    struct mare__sites *sites = runtime->sites;
    struct mare__site *site = sites ? find_site(sites, text) : NULL;
    if (site || !sites || sites->count == SITES_MAX)
        return site;
    site = mare__alloc(sizeof *site + strlen(text) + 1);
    if (!site)
        return NULL;
    strcpy(site->text, text);
    site->next = sites->lists[hash(text) % LISTS];
    sites->lists[hash(text) % LISTS] = site;
    sites->count++;
    return site;
}

const struct mare__site *mare__site_of(mare_runtime *runtime, lua_State *L)
{
    lua_Debug frame;
    char text[PLACE];
    for (int level = 1; level < LEVELS && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline <= 0 || strncmp(frame.source, "=mare.", 6) == 0)
            continue;
        write_place(&text, &frame);
        mare__lock_acquire(&runtime->site_lock);
        const struct mare__site *site = keep_site(runtime, text);
        mare__lock_release(&runtime->site_lock);
        return site;
    }
    return NULL;
}

void mare__sites_free(mare_runtime *runtime)
{
    for (unsigned i = 0; runtime->sites && i < LISTS; i++)
        for (struct mare__site *site; (site = runtime->sites->lists[i]) != NULL;) {
            runtime->sites->lists[i] = site->next;
            mare__free(site);
        }
    mare__free(runtime->sites);
}
