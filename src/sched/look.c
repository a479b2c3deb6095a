// SPDX-License-Identifier: MIT
// What can be seen of processes from outside while the program runs; look.h says how that is safe.
// The deadlock report (stuck.c) tells the same.
#include "sched/look.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/socket.h"
#include "sched/handle.h"
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

// Adds the module that was called, if there is room for its name.
static void add_module(char (*at)[PLACE], const char *module)
{
    size_t used = strlen(*at);
    if (*module && used + strlen(module) + sizeof " (in )" <= sizeof *at)
        snprintf(*at + used, sizeof *at - used, " (in %s)", module);
}

// Where a coroutine is: the innermost line in Lua. For a wait inside one of Maré's modules that is
// the program's line, and the module that it called: a process that waits for a lock is at
// "app.lua:5 (in mare.monitor)". After a tail call the line that called is nowhere on the stack.
static void describe_place(lua_State *L, char (*at)[PLACE])
{
    lua_Debug frame;
    char module[LUA_IDSIZE] = "";
    bool tail = false;
    for (int level = 0; L && lua_getstack(L, level, &frame); level++) {
        if (!lua_getinfo(L, "Slt", &frame))
            continue;
        bool in_lua = frame.currentline > 0;
        if (in_lua && strncmp(frame.source, "=mare.", 6) != 0) {
            write_place(at, &frame);
            add_module(at, module);
            return;
        }
        if (in_lua && !*module)
            write_place(at, &frame);
        if (in_lua)
            copy_text(module, sizeof module, frame.short_src);
        tail = tail || frame.istailcall;
    }
    if (!tail)
        return;
    copy_text(*at, sizeof *at, "a tail call");
    add_module(at, module);
}

static bool is_closed(mare_channel *channel)
{
    mare__lock_acquire(&channel->lock);
    bool closed = channel->closed;
    mare__lock_release(&channel->lock);
    return closed;
}

// A row that is being written.
struct row {
    mare_process_info *info;
    mare_channel **socket; // the channel that tells of a descriptor: a reference; or NULL
};

// To ask what a descriptor is takes system calls, and so it is done when no lock is held any more.
// A descriptor is closed after the channel that tells of it: what was found out while the channel
// was open is about this one, and not about another that got its number.
static void describe_descriptor(mare_channel *channel, mare_process_info *info)
{
    _Static_assert(sizeof info->what >= MARE__DESCRIBED, "it takes any text");
    if (is_closed(channel))
        return;
    mare__socket_describe(channel->event.number, channel->event.tells == MARE__TELLS_WRITE,
                          info->what);
    if (is_closed(channel))
        info->what[0] = '\0';
}

static void describe_event(mare_channel *channel, struct row *row)
{
    mare_process_info *info = row->info;
    static const char *const texts[] = {
        [MARE__TELLS_NOTHING] = "",
        [MARE__TELLS_MEMORY] = "for a stream in memory",
        [MARE__TELLS_TIMER] = "for a timer",
        [MARE__TELLS_FILE] = "for a file",
        [MARE__TELLS_RESOLVE] = "for the address of a name",
        [MARE__TELLS_DATABASE] = "for a database",
        [MARE__TELLS_SIGNAL] = "for a signal",
        [MARE__TELLS_FAR] = "to receive from a channel of another node",
    };
    const struct mare__event *event = &channel->event;
    if (event->tells == MARE__TELLS_READ || event->tells == MARE__TELLS_WRITE) {
        if (row->socket)
            *row->socket = mare_chan_ref(channel);
    } else if (event->tells == MARE__TELLS_CHANGE) {
        snprintf(info->what, sizeof info->what, "for a change of %s", event->name);
    } else if (event->tells == MARE__TELLS_PROGRAM) {
        snprintf(info->what, sizeof info->what, "for the end of the program with pid %d",
                 event->number);
    } else {
        copy_text(info->what, sizeof info->what, texts[event->tells]);
    }
}

// Returns the word for a wait at a channel: the end of a process and an event are waited for there,
// too.
static const char *describe_channel(mare_channel *channel, const char *word, struct row *row)
{
    mare_process_info *info = row->info;
    info->waits_for = channel->ends ? channel->ends : channel->id;
    if (!channel->id && !channel->ends)
        describe_event(channel, row);
    copy_text(info->channel, sizeof info->channel, channel->name);
    copy_text(info->channel_made, sizeof info->channel_made,
              channel->made ? channel->made->text : NULL);
    return channel->ends ? "join" : channel->id ? word : "event";
}

// What a local variable has that is on top of the stack: the process that was called, the name of
// its function, or what must happen before the request can be sent.
static void describe_local(lua_State *L, const char *local, mare_process_info *info)
{
    const struct mare__reference *ref;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(local, "fname") == 0)
        copy_text(info->what, sizeof info->what, text);
    if (strcmp(local, "awaits") == 0)
        info->waits = strcmp(text, "room") == 0 ? "room" : "serve";
    if (strcmp(local, "callee") != 0 || !(ref = mare__handle_of(L, -1, MARE__KIND_PROCESS)) ||
        !ref->object)
        return;
    const mare_process *callee = (const mare_process *)ref->object;
    info->waits_for = callee->id;
    copy_text(info->channel, sizeof info->channel, callee->name);
}

// The process and the function that lua/mare/rpc.lua waits for: it has them in local variables.
// They are only looked at, so that nothing is allocated; one place on a stack is always free.
static bool describe_call(lua_State *L, mare_process_info *info)
{
    lua_Debug frame;
    int level = 0;
    while (L && lua_getstack(L, level, &frame) && lua_getinfo(L, "Sl", &frame) &&
           frame.currentline <= 0)
        level++;
    if (!L || !lua_getstack(L, level, &frame) || !lua_getinfo(L, "S", &frame) ||
        strcmp(frame.source, "=mare.rpc") != 0)
        return false;
    const char *local;
    info->waits = "call";
    for (int i = 1; (local = lua_getlocal(L, &frame, i)) != NULL; i++) {
        describe_local(L, local, info);
        lua_pop(L, 1);
    }
    return info->waits_for != 0;
}

static void describe_select(lua_State *L, const struct mare__sleep *sleep, struct row *row)
{
    mare_process_info *info = row->info;
    if (describe_call(L, info))
        return;
    const struct mare__case *first = sleep->cases;
    info->waits = "select";
    info->cases = sleep->case_count;
    if (first && sleep->case_count > 0 && (!first->about || !first->channel->id))
        info->first = describe_channel(first->channel, first->send ? "send" : "receive", row);
}

static void describe_sleep(lua_State *L, const struct mare__sleep *sleep, struct row *row)
{
    mare_process_info *info = row->info;
    // Relaxed: see mare__sleep_commit, which may just find that it need not wait.
    uint8_t waits = __atomic_load_n(&sleep->waits, __ATOMIC_RELAXED);
    if ((waits == MARE__WAITS_TO_SEND || waits == MARE__WAITS_TO_RECEIVE) && sleep->waits_for) {
        info->waits = describe_channel(sleep->waits_for,
                                       waits == MARE__WAITS_TO_SEND ? "send" : "receive", row);
    } else if (waits == MARE__WAITS_IN_SELECT) {
        describe_select(L, sleep, row);
    } else if (waits == MARE__WAITS_FOR_TIME) {
        info->waits = "time";
    }
}

// For a process at rest: `routine` is one of several, or NULL.
static void describe_rest(const struct mare__local *process, const struct mare__routine *routine,
                          struct row *row)
{
    const struct mare__nested *nest = routine ? routine->nest : process->nest;
    uint32_t nested = routine ? routine->nested : process->nested;
    lua_State *L = nested > 0 ? nest[nested - 1].co : routine ? routine->thread : process->state;
    describe_place(L, &row->info->at);
    row->info->routine = routine ? routine->id : 1;
    describe_sleep(L, routine ? &routine->sleep : &process->sleep, row);
}

static void describe_process(struct mare__local *process, unsigned status, mare_process_info *info)
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
        .status = mare__status_word(process, status),
        .background = background,
        .waits = "",
        .first = "",
    };
    copy_text(info->name, sizeof info->name, process->shared.name);
}

// Whether nobody touches it until the end of the look.
static bool is_at_rest(const struct mare__local *process, unsigned status)
{
    return (status == MARE__BLOCKED || status == MARE__READY) && process->state && !process->host;
}

struct listing {
    mare_process_info *rows;
    mare_channel **sockets; // one for each row; or NULL: not enough memory
    size_t room, count;
};

// The next row, of this process; false: there is no room.
static bool next_row(struct listing *list, struct mare__local *process, unsigned status,
                     struct row *row)
{
    size_t at = list->count++;
    if (at >= list->room)
        return false;
    *row = (struct row){&list->rows[at], list->sockets ? &list->sockets[at] : NULL};
    describe_process(process, status, row->info);
    return true;
}

// When everybody may go on.
static void describe_sockets(struct listing *list)
{
    for (size_t i = 0; list->sockets && i < list->count && i < list->room; i++)
        if (list->sockets[i]) {
            describe_descriptor(list->sockets[i], &list->rows[i]);
            mare_chan_unref(list->sockets[i]);
        }
    mare__free(list->sockets);
}

static void list_process(struct listing *list, struct mare__local *process, bool all)
{
    mare__takes_long(); // it walks the stacks of all its routines
    // Read once: a row that says "blocked" also says what for. Acquire: what it left is seen.
    unsigned status = atomic_load_explicit(&process->status, memory_order_acquire);
    bool rests = is_at_rest(process, status);
    struct mare__pool *pool = rests ? atomic_load(&process->pool) : NULL;
    struct mare__list *first = pool ? pool->all.next : NULL;
    struct row row;
    unsigned routines = 0;
    bool listed = false;
    for (struct mare__list *r = first; pool && r != &pool->all; r = r->next)
        routines++;
    if (!pool || !all || first == &pool->all)
        listed = next_row(list, process, status, &row);
    if (listed && rests)
        describe_rest(process, pool ? &pool->main : NULL, &row);
    if (listed)
        row.info->routines = pool ? routines : 1;
    for (struct mare__list *r = first; pool && all && r != &pool->all; r = r->next)
        if (next_row(list, process, status, &row)) {
            describe_rest(process, MARE__ENTRY(r, struct mare__routine, in_all), &row);
            row.info->routines = routines;
        }
}

static size_t list(mare_runtime *runtime, mare_process_info *rows, size_t room, bool all)
{
    if (!mare__runtime_valid(runtime))
        return 0;
    struct listing listing = {.rows = rows, .room = room};
    if (room > 0)
        listing.sockets = mare__alloc_zero(room * sizeof(mare_channel *));
    struct mare__visit visit;
    struct mare__local *process;
    mare__look_begin(runtime);
    mare__visit_begin(&visit, runtime);
    while ((process = mare__visit_next(&visit)) != NULL) {
        list_process(&listing, process, all);
        mare_process_unref(&process->shared);
    }
    mare__visit_end(&visit);
    mare__look_end(runtime);
    describe_sockets(&listing);
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

// A wait that belongs to a call: " for the answer of process 3 (till) to 'pay'". Returns its
// length.
static int write_call(const mare_process_info *row, const char *waits, char *text, size_t room)
{
    bool serve = strcmp(waits, "serve") == 0, answer = strcmp(waits, "call") == 0;
    if (!serve && !answer && strcmp(waits, "room") != 0)
        return 0;
    return snprintf(text, room, " for %sprocess %llu%s%s%s %s '%s'",
                    serve    ? ""
                    : answer ? "the answer of "
                             : "room in the inbox of ",
                    (unsigned long long)row->waits_for, *row->channel ? " (" : "", row->channel,
                    *row->channel ? ")" : "",
                    serve    ? "to serve its function"
                    : answer ? "to"
                             : "for a call of",
                    row->what);
}

// A wait for one thing: " to send to channel 3 (jobs)". Returns its length.
static int write_wait(const mare_process_info *row, const char *waits,
                      const mare_process_info *rows, size_t count, char *text, size_t room)
{
    if (strcmp(waits, "event") == 0 && *row->what)
        return snprintf(text, room, " %s", row->what);
    int length = write_call(row, waits, text, room);
    if (length > 0)
        return length;
    bool joins = strcmp(waits, "join") == 0, sends = strcmp(waits, "send") == 0;
    if (!joins && !sends && strcmp(waits, "receive") != 0)
        return 0;
    const char *name = joins ? name_of(row->waits_for, rows, count) : row->channel;
    return snprintf(text, room, " %s %llu%s%s%s%s%s",
                    joins   ? "for the end of process"
                    : sends ? "to send to channel"
                            : "to receive from channel",
                    (unsigned long long)row->waits_for, *name ? " (" : "", name, *name ? ")" : "",
                    !*name && *row->channel_made ? ", made at " : "",
                    !*name ? row->channel_made : "");
}

const char *mare__wait_text(const mare_process_info *row, const mare_process_info *rows,
                            size_t count, char text[MARE__WAIT_TEXT])
{
    text[0] = '\0';
    if (write_wait(row, row->waits, rows, count, text, MARE__WAIT_TEXT) > 0)
        return text;
    if (strcmp(row->waits, "select") == 0) {
        char first[MARE__WAIT_TEXT - 64] = "";
        write_wait(row, row->first, rows, count, first, sizeof first);
        snprintf(text, MARE__WAIT_TEXT, " in a select of %u case%s%s%s", row->cases,
                 row->cases == 1 ? "" : "s",
                 !*first           ? ""
                 : row->cases == 1 ? ":"
                                   : ", the first:",
                 first);
    } else if (strcmp(row->waits, "event") == 0) {
        strcpy(text, " for a socket, a file, a timer or a program");
    } else if (strcmp(row->waits, "time") == 0) {
        strcpy(text, " for its time to come");
    }
    return text;
}

// ---- Where channels were made -------------------------------------------------------------------

// A table of lists, by the text's hash. Lines of a program are few; one that makes its code as it
// runs has more, and they are not all kept.
enum { SITES_MAX = 4096, LEVELS = 8 };

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u; // FNV-1a
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static struct mare__site **list_of(struct mare__sites *sites, const char *text)
{
    return &sites->lists[hash(text) % (sizeof sites->lists / sizeof *sites->lists)];
}

// Finds the site of a text. If there is none, `made` becomes it.
static struct mare__site *find_site(struct mare__sites *sites, const char *text,
                                    struct mare__site *made)
{
    struct mare__site **list = list_of(sites, text);
    mare__lock_acquire(&sites->lock);
    struct mare__site *site = *list;
    while (site && strcmp(site->text, text) != 0)
        site = site->next;
    if (!site && made && sites->count < SITES_MAX) {
        made->next = *list;
        *list = site = made;
        sites->count++;
    }
    mare__lock_release(&sites->lock);
    return site;
}

static const struct mare__site *keep_site(struct mare__sites *sites, const char *text)
{
    struct mare__site *site = find_site(sites, text, NULL);
    if (site)
        return site;
    struct mare__site *made = mare__alloc(sizeof *made + strlen(text) + 1);
    if (!made)
        return NULL;
    strcpy(made->text, text);
    site = find_site(sites, text, made); // another thread may have made it meanwhile
    if (site != made)
        mare__free(made);
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
        return keep_site(&runtime->sites, text);
    }
    return NULL;
}

void mare__sites_free(mare_runtime *runtime)
{
    struct mare__sites *sites = &runtime->sites;
    for (size_t i = 0; i < sizeof sites->lists / sizeof *sites->lists; i++)
        for (struct mare__site *site; (site = sites->lists[i]) != NULL;) {
            sites->lists[i] = site->next;
            mare__free(site);
        }
}
