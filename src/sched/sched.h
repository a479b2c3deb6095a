// SPDX-License-Identifier: MIT
// The scheduler's own structures: runtime, workers, processes. Shared by the files of this folder
// and by the bindings.
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <mare.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/object.h"
#include "chan/channel.h"
#include "chan/names.h"
#include "chan/wait.h"
#include "mare_limits.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "sched/arena.h"

// ---- Processes ----------------------------------------------------------------------------------
enum mare__status { MARE__IDLE, MARE__READY, MARE__RUNNING, MARE__BLOCKED, MARE__FINISHED };

// Why a process gave up its worker. BY_PROGRAM: the program's own coroutine.yield at its top level.
// SLICE: its time was over, not by its own choice.
enum mare__yield { MARE__YIELD_BY_PROGRAM, MARE__YIELD_TURN, MARE__YIELD_SLICE, MARE__YIELD_WAIT };

// What a process that gave up its worker waits for, beside time.
enum mare__waits {
    MARE__WAITS_NOT,
    MARE__WAITS_TO_SEND,
    MARE__WAITS_TO_RECEIVE,
    MARE__WAITS_IN_SELECT,
    MARE__WAITS_FOR_TIME
};

// A tie between two processes. Each side has one, in the other's name.
struct mare__link {
    struct mare__list link;
    mare_process *other; // a reference
};

struct mare__monitor {
    struct mare__list link;
    mare_channel *channel; // a reference
};

// How a routine sleeps: what it waits for is one channel, or the cases of a select, or only time.
// The message of a process's only routine serves a whole life: before the first run it has the
// function and its arguments, then what is sent or received, in the end the results or the error.
struct mare__sleep {
    uint8_t waits; // enum mare__waits
    bool timed;    // it waits until `deadline`
    uint32_t leaving_case;
    mare_channel *waits_for;
    struct mare__ref_link *leaving; // buffers in the message to be sent: they change hands if it is
    struct mare__node node;
    struct mare__wait wait;
    union {
        uint64_t deadline;
        uint64_t memory; // before the first run: the state's limit, 0 for none
    };
    struct mare__case *cases; // of a select: allocated, followed by room for as many pointers
    uint32_t case_count;
    uint32_t turn; // where the next select begins to look
};

struct mare_process {
    // What a switch touches comes first and lies together: a program of many processes is as fast
    // as these few lines of the cache.
    struct mare__object object;
    mare_runtime *runtime;

    // From here to the lock: touched only by the thread that runs it.
    lua_State *state; // its main thread is the first routine. NULL before the start, after the end
    lua_State *routine;                // the routine that runs, or ran last
    _Atomic(struct mare__pool *) pool; // its routines, if it has ever had more than one
    lua_State *volatile current;       // the coroutine that runs now; the tick looks at it
    struct mare__worker *worker;       // the one it runs on, while it runs
    struct mare__worker *own;          // one that runs nothing else, or NULL
    atomic_ulong slices;               // read by those who list it
    atomic_uchar status;               // enum mare__status; for those who ask
    uint8_t yield;                     // enum mare__yield
    uint16_t unyieldable;              // coroutines resumed from where a yield is impossible
    atomic_bool traced;                // somebody listens to what it does: see trace.h

    // References to channels that it used last, found to be such: they need no second look.
    const struct mare__ref_link *known[2];

    struct mare__parker *host; // not NULL: no process of ours but a thread of a host, asleep here
    struct mare__sleep sleep;  // of the routine that runs, or of the only one

    mare_process *next; // in a run queue
    uint64_t id;
    _Atomic(struct mare__arena *) arena; // read by others, under the lock
    uint64_t libraries;                  // bits of the globals that were supplied: see lazy.c
    const void *globals;                 // address of its globals table while that is lazy
    struct mare__object *pending;        // a reference on its way into a userdata: see handle.c
    struct mare__working *working;       // what else is on its way
    struct mare__numbers {
        int *free; // allocated
        uint32_t free_count, room, highest;
    } numbers;                  // of the objects made here: see handle.c
    uint64_t weight, unweighed; // bytes behind its userdata: all, and not yet told the collector
    uint64_t weight_limit;      // beyond it, everything is collected
    struct mare__list handles;  // of struct mare__ref_link: references held by its userdata
    struct mare__nested {
        lua_State *co, *before; // who runs, and who ran before it
    } * nest;                   // coroutines resumed inside each other
    uint32_t nested, nest_room;
    bool needs_close;          // something in the state has a finalizer
    bool closing;              // the state is: what is made now is not finalized
    bool has_c_modules;        // so the state cannot be recycled
    bool warnings_on, warning; // what warn("@on") set; a warning's first piece was printed
    bool loaded;               // the state came with its function on the stack
    bool is_main;              // has everything from the start, as the stock interpreter
    bool luaproc;              // the global `luaproc` exists in it
    volatile bool winding_up;  // it has ended: handlers of <close> run
    lua_Hook hook;             // the debug library's, which ours calls
    lua_State *volatile armed; // where a count event was asked for on top of the program's hook
    const void *last_body;     // what it spawned last: see code.c

    mare__lock lock; // guards all below
    bool finished;
    bool observed;       // somebody knows, or will be told, how it ends
    bool reporting;      // it died, and its error will be printed unless somebody looks
    bool keeps;          // it stands in the list of keepers
    uint32_t watchers;   // who joins it, or has it in a select
    mare_err how;        // MARE_OK, MARE_DIED, MARE_KILLED; set before `finished`
    mare_channel *ended; // closed when it ends; made when somebody wants to know
    struct mare__list links, monitors;
    char *kill_reason;
    char *name;
    struct mare__list in_all; // the runtime's list of live processes or of keepers, under its lock
};

#define MARE__REF_MAGIC UINT64_C(0x6d61726520526566)

// Something on its way in or out of the state while Lua code may run: a finalizer or a __travel may
// use channels meanwhile, and an error may end it all. What is left over goes with the process.
struct mare__working {
    struct mare__working *next;
    struct mare__object *object; // a reference, or NULL
    mare_message message;
};

// A reference that a userdata holds, found again without running finalizers when the state goes.
struct mare__ref_link {
    uint64_t magic;              // MARE__REF_MAGIC + kind: tells a reference from other userdata
    struct mare__object *object; // NULL: given away
    struct mare__list link;
    struct mare__ref_link *next_leaving;
    uint32_t leaving_case : 31; // of a select
    uint32_t away : 1; // a buffer in the message that a routine waits to send: another's already
    int index;         // in the table of objects made here, or 0
};

// What a worker keeps for reuse.
enum mare__spares { MARE__SPARE_PROCESS, MARE__SPARE_CHANNEL, MARE__SPARES };

// ---- Workers ------------------------------------------------------------------------------------
// What a worker waits in when there is something to watch, instead of only sleeping; supplied by
// the layer above (src/loop).
struct mare__watcher {
    mare_runtime *runtime;
    struct mare__parker *parker; // of the thread that waits in it
    struct mare__parker idle;    // in its place when there is no such thread any more
    atomic_uint busy;            // things that it watches
    atomic_bool called;          // somebody wants something of it
    atomic_bool unattended;      // its worker has been away for long, in a C function
    void (*wait)(struct mare__watcher *watcher, uint64_t deadline); // 0: only looks
    void (*attend)(struct mare__watcher *watcher); // looks in its place, if it is still away
    void (*ring)(void *argument);                  // ends a wait; any thread
    void *ring_argument;
    void (*destroy)(struct mare__watcher *watcher);
    struct mare__watcher *next; // of all in the runtime
};

struct mare__worker {
    mare_runtime *runtime;
    unsigned index;
    pthread_t thread;
    struct mare__parker parker;
    struct mare__tick tick;

    // For the signal handler on this same thread.
    mare_process *volatile running;
    volatile unsigned age;        // ticks since it was given the worker
    volatile sig_atomic_t ticked; // a tick came: look at the timers

    _Atomic(mare_process *) slot; // the oldest ready process, while the queue is empty
    atomic_bool slot_shared;      // it has waited for a tick: others may take it
    volatile sig_atomic_t taking; // the owner is about to take it: the tick must not share it now
    mare__lock lock;              // guards the queue, and `alive`
    mare_process *head, *tail;
    atomic_uint length;
    bool alive;   // the thread has not decided to leave
    bool started; // there is a thread to join; under the runtime's worker_lock
    atomic_bool quit;

    // Blocks of ended processes and of the channels that told of their end, for the next ones.
    struct mare__spare {
        struct mare__spare *next;
    } * spares[MARE__SPARES];
    unsigned spare_count[MARE__SPARES];

    struct mare__list idle; // in the runtime's list, under idle_lock
    bool is_idle;

    struct mare__watcher *_Atomic watcher; // or NULL
    unsigned runs;                         // since it last looked there

    struct mare__counters {
        atomic_ulong switches, preemptions, steals, sent, received, recycled, spawned;
    } counters;
};

// ---- The runtime --------------------------------------------------------------------------------
enum { MARE__WORKERS_MAX = 1024 };

// How references of a kind behave in Lua.
struct mare__class {
    const char *name;
    const luaL_Reg *methods, *metamethods;
    // What a select that has one among its cases receives from (kept alive by the object), or
    // MARE_CLOSED: it need not wait; MARE_NOMEM. NULL: it cannot be a case.
    mare_err (*watch)(struct mare__object *object, mare_channel **channel);
};

struct mare__harvest; // what the standard libraries are made of: see lazy.c
struct mare__jobs;    // threads for what blocks: see src/loop/job.h

struct mare_runtime {
    struct mare__platform platform;
    lua_CFunction (*module)(
        const char *name); // what opens a module that needs no file; NULL when there is none
    const struct mare__class *classes; // by enum mare__kind
    struct mare__harvest *harvest;
    struct mare__names *names;

    struct mare__trace { // see trace.h
        atomic_bool on;
        pthread_mutex_t mutex; // guards all below, and is held while a listener is told
        mare_listener *listener;
        void *user;
        uint64_t last; // number of an event
    } trace;

    mare__lock worker_lock; // one change of the number of workers at a time
    struct mare__worker *_Atomic workers[MARE__WORKERS_MAX];
    atomic_uint worker_count; // wanted; those with a higher index are leaving
    atomic_uint worker_alive; // threads that have not left yet
    // Looks after the watchers of workers that are stuck in C functions; from the first watcher on.
    struct {
        pthread_t thread;
        struct mare__parker parker;
        atomic_bool started, quit;
    } attendant;
    // Of processes with a worker of their own, and of sources; and those that do not sleep, or of
    // which an event may come, and jobs that somebody waits for.
    atomic_uint own_threads, own_busy;
    struct mare__watcher *watchers;  // all there were, under worker_lock; the end frees them
    struct mare__jobs *_Atomic jobs; // made when first needed
    void (*_Atomic jobs_stop)(struct mare__jobs *jobs); // how they end; set before

    mare__lock inbox_lock; // ready processes that come from no worker
    mare_process *inbox_head, *inbox_tail;
    atomic_uint inbox_length;

    mare__lock idle_lock;
    struct mare__list idle;
    atomic_uint idle_count;

    mare__lock timer_lock;
    struct mare__heap timers;
    atomic_ullong next_deadline; // of the earliest timer, or MARE_FOREVER
    atomic_ulong timer_count;

    mare__lock recycle_lock;
    struct mare__recycled *recycled;
    unsigned recycled_count;
    atomic_uint recycle_limit; // states kept at the most
    atomic_uint images;        // states with a remembered image, kept or in use

    // Sources of kinds written in C: see loop/source.c, which fills it.
    struct {
        mare__lock lock;
        struct mare__list all;
        struct mare__poller *poller;         // or NULL
        void (*stop)(mare_runtime *runtime); // closes them all; NULL: there was none
    } sources;

    struct mare__channels channels;
    mare__lock process_lock;
    struct mare__list processes;        // live ones
    struct mare__list keepers;          // ended ones whose results hold references
    atomic_ulong live, spawned_outside; // by threads that are not workers
    atomic_ullong next_id, next_channel;

    // What outlives its processes, until the layer above sees to it at the end of all.
    mare__lock linger_lock;
    struct mare__list lingering;
    _Atomic(void (*)(mare_runtime *runtime)) last_call; // NULL: there never was any
    atomic_bool *in_last_call;                          // is to say so meanwhile; or NULL

    // Those who wait for the end: of all processes, or for nothing being able to move.
    pthread_mutex_t end_mutex;
    pthread_cond_t end_signal;
    bool stuck;          // under end_mutex: all asleep, no timer, nothing ready
    atomic_uint waiters; // threads in mare__runtime_await
    atomic_bool stopping;
    atomic_int exit_code;   // -1: nobody asked to exit
    atomic_int print_error; // an errno: what was printed is lost
    bool exits_in_order;    // somebody awaits the end and looks at exit_code
    mare_process *main;     // whose end ends the program, or NULL
    bool gc_stress;
    uint64_t seed; // of the random numbers of processes
    long owner;    // the operating-system process that started it
};

// ---- Small accessors ----------------------------------------------------------------------------
// The process that a Lua state or one of its coroutines belongs to. (NULL in a coroutine in which a
// routine is at rest: nothing runs there that could ask.)
static inline mare_process *mare__self(lua_State *L)
{
    return *(mare_process **)lua_getextraspace(L);
}

static inline uint64_t mare__now(const mare_runtime *runtime)
{
    return runtime->platform.now_ns(runtime->platform.context);
}

static inline bool mare__killed(const mare_process *process)
{
    // Relaxed: see mare__wait_publish.
    return atomic_load_explicit(&process->sleep.wait.note, memory_order_relaxed) == MARE_KILLED;
}

// Whether somebody listens to what it does. A process has a flag of its own, where a switch looks
// anyway.
static inline bool mare__traced(const mare_process *process)
{
    // Relaxed: who has just begun to listen may miss what happens at the same time.
    return __builtin_expect(atomic_load_explicit(&process->traced, memory_order_relaxed), 0);
}

// The worker that the calling thread is, or NULL.
static inline struct mare__worker *mare__this_worker(void)
{
    return mare__thread_data;
}

// One more, where only this worker counts and others may read.
static inline void mare__count(atomic_ulong *counter)
{
    // Relaxed, and no read-modify-write: a statistic with one writer.
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

// ---- worker.c -----------------------------------------------------------------------------------
// What the thread of a worker does, and the one of a process that has one for itself.
void mare__worker_serve(struct mare__worker *worker);
void mare__worker_serve_own(struct mare__worker *own);

// Makes a process ready; it will run. Any thread.
void mare__ready(mare_process *process);

// A timer was started, perhaps by a thread that will not look at it: a worker does.
void mare__workers_look(mare_runtime *runtime);

// Whether every worker sleeps, no timer is pending, nothing is watched and nothing is ready.
bool mare__workers_stuck(mare_runtime *runtime);

// In a count hook: yields, if that is possible here.
void mare__give_way(lua_State *L);
void mare__give_way_hook(lua_State *L, lua_Debug *event);

// ---- crew.c -------------------------------------------------------------------------------------
// A block of zeros of a kind's size, or NULL; and its return. Any thread; workers keep some.
void *mare__spare_take(enum mare__spares kind, size_t size);
void mare__spare_give(enum mare__spares kind, void *block);

// Starts or ends workers until there are `count`.
mare_err mare__workers_set(mare_runtime *runtime, unsigned count);

// Ends them all and waits for that.
void mare__workers_stop(mare_runtime *runtime);

// Gives a new process a worker of its own, which runs it and nothing else, so that it may block in
// C functions for as long as it likes. False: no memory, or no thread.
bool mare__worker_own(mare_process *process);

// Gives a worker something to wait in, if it has nothing yet; returns what it has. Any thread.
struct mare__watcher *mare__worker_watch(struct mare__worker *worker,
                                         struct mare__watcher *watcher);

// ---- timer.c ------------------------------------------------------------------------------------
// Ends the wait with MARE_TIMEOUT at the deadline, if it has not ended by then. The caller holds
// the runtime's timer_lock.
void mare__timer_start(mare_runtime *runtime, struct mare__wait *wait, uint64_t deadline);

// Forgets it; takes the lock. Must be called before the wait is used again.
void mare__timer_stop(mare_runtime *runtime, struct mare__wait *wait);

// Ends the waits whose time has come. `now` of MARE_FOREVER ends them all, with MARE_STOPPED.
void mare__timer_expire(mare_runtime *runtime, uint64_t now);

// ---- alarm.c ------------------------------------------------------------------------------------
// A timer that sends an empty message to its channel at a time, and then, if the period is not 0,
// after every period; a message that was not taken yet stands for those that follow. NULL: no
// memory.
struct mare__object *mare__alarm_new(mare_runtime *runtime, uint64_t at, uint64_t period);

// The channel, made on first use; NULL: no memory. By its owner.
mare_channel *mare__alarm_channel(struct mare__object *object);

// Whether it has come and does not come again; what it told is in its channel, or was taken.
bool mare__alarm_over(struct mare__object *object);

// It will not come any more. False: it was over already.
bool mare__alarm_cancel(struct mare__object *object);

// ---- process.c ----------------------------------------------------------------------------------
// A new process with one reference for the caller, not yet ready; NULL when there is no memory.
mare_process *mare__process_new(mare_runtime *runtime);

// Makes a new process run; the runtime holds a reference from here to its end.
void mare__process_launch(mare_process *process);

// Builds the state before the first run. False when it cannot; the process has then ended.
bool mare__process_start(mare_process *process, int *arguments);

// The state has stopped with this status of lua_resume and that many results: ends the process.
void mare__process_finish(mare_process *process, int status, int results);

// A channel that is closed when the process ends and lives as long as it: MARE_OK; or MARE_CLOSED
// if it has ended, MARE_NOMEM. With `observe`, its error will not be printed.
mare_err mare__process_watch(mare_process *process, bool observe, mare_channel **ended);

// One who observed does not wait any more and has not learned how it ended.
void mare__process_unwatch(mare_process *process);

// Ends it with a reason (copied; may be NULL). False if it had finished.
bool mare__process_kill(mare_process *process, const char *reason);

// Raises an error in its main routine, wherever that is: in a computation, or in a wait.
void mare__process_interrupt(mare_process *process);

// Forgets such an interruption. False if there was none, or it has had its effect.
bool mare__process_heed(mare_process *process);

// Ties two processes; if one has ended badly already, the other is killed. False when there is no
// memory.
bool mare__process_link(mare_process *a, mare_process *b);
void mare__process_unlink(mare_process *a, mare_process *b);

// Sends `p, how, error, traceback` to the channel when it ends. False when there is no memory.
bool mare__process_monitor(mare_process *process, mare_channel *channel);

// A copy of the traceback (to free) outside Lua, for the stack that it tells of will be gone; or
// NULL.
char *mare__traceback(lua_State *L);

// Forgets what the results of ended processes refer to; at the runtime's end.
void mare__process_release_kept(mare_runtime *runtime);

// What it does, in a word. A process that has given up its worker but stands in no line yet runs.
const char *mare__process_status(const mare_process *process);

// Somebody has taken note of how it ended, so that its error need not be printed.
void mare__process_observed(mare_process *process);

// ---- unmarshal.c: what is on its way -----------------------------------------------------------
// A new entry of process->working, or NULL; the same, or an error; and its end.
struct mare__working *mare__working_try(mare_process *process);
struct mare__working *mare__working_push(lua_State *L);
void mare__working_pop(mare_process *process, struct mare__working *working);

// ---- code.c -------------------------------------------------------------------------------------
// The bytecode of a function, dumped once while the same function is spawned again.
struct mare__code {
    struct mare__object object;
    size_t length;
    char bytes[];
};

// The code of the Lua function at a stack index, if it was spawned before; else NULL. The state
// keeps it as long as the function lives.
struct mare__code *mare__code_of(lua_State *L, int index);

// ---- state.c ------------------------------------------------------------------------------------
// Gives the process a new or a recycled Lua state. False when there is no memory. If the state has
// `code` (may be NULL) loaded, process->loaded is set and the function is on its stack.
bool mare__state_open(mare_process *process, const struct mare__code *code);

// The function of that code, and nothing else, is on the stack of a new state: worth remembering.
void mare__state_loaded(mare_process *process, struct mare__code *code);

// Runs the finalizers and gives the state back.
void mare__state_close(mare_process *process);

// The process has ended, and what runs from here on are its handlers of <close>: they cannot give
// way, but in one that was killed each that does not end is cut off after about a second.
enum { MARE__WIND_UP_TICKS = 1000000000 / MARE__TICK_NS };
void mare__wind_up(mare_process *process, bool begins);

// Closes pending <close> variables of every coroutine on the way to where the process stands.
void mare__state_unwind(mare_process *process);

// The same for one routine, the one that runs.
void mare__routine_close(mare_process *process, lua_State *routine);

// Frees the states kept for reuse beyond `limit`.
void mare__state_trim(mare_runtime *runtime, unsigned limit);

// ---- lazy.c -------------------------------------------------------------------------------------
// Learns what the standard libraries consist of. NULL when there is no memory.
struct mare__harvest *mare__harvest_create(void);
void mare__harvest_destroy(struct mare__harvest *harvest);

// At a state's birth: globals and strings that open libraries when they are named. Called in
// protected mode.
void mare__lazy_install(lua_State *L);

// Opens all that has not been opened and makes the globals an ordinary table.
void mare__lazy_finish(lua_State *L);

// Pushes a table that takes its members from a list (static) when they are named, and has them all
// when it is iterated over.
void mare__lazy_table(lua_State *L, const luaL_Reg *members);

// Pushes one that takes the methods of references of a kind when they are named: those of which
// mare__handle_methods tells.
void mare__lazy_methods(lua_State *L, const luaL_Reg *methods);

// Pushes what require(name) returns for a standard library or one of the runtime's own modules, and
// returns true; or pushes nothing.
bool mare__lazy_require(lua_State *L, const char *name);

// Pushes "library", "function" for a C function that is part of a standard library or module that
// is loaded, and returns true; or pushes nothing. The function is at `index`.
bool mare__lazy_name_of(lua_State *L, int index);

// Pushes the name of the module whose table is at `index` and returns true; or pushes nothing.
bool mare__lazy_module_of(lua_State *L, int index);

// Opens the string library, so that the metatable of strings is the real one.
void mare__lazy_string(lua_State *L);

// ---- stdlib.c -----------------------------------------------------------------------------------
// What Maré does in place of functions of the standard libraries.
void mare__math_seed(lua_State *L);
extern const luaL_Reg mare__base_overrides[], mare__os_overrides[];
int mare__next(lua_State *L);
int mare__require(lua_State *L);

// The host's own require, for a state that is not ours.
int mare__host_require(lua_State *L);

// Change the library on top of the stack.
void mare__package_patch(lua_State *L);
void mare__debug_patch(lua_State *L);

// Sees to it that the process gives way at its next instruction. From a signal handler.
void mare__hook_arm(mare_process *process);

// os.exit([code]): ends the program, in order if somebody awaits its end; in a program that is not
// ours (a host, a C program), as exit does.
int mare__exit(lua_State *L);

// ---- coroutine.c --------------------------------------------------------------------------------
// Replaces resume, wrap, status and close in the coroutine library on top of the stack.
void mare__coroutine_patch(lua_State *L);

// Closes a coroutine: its handlers of <close> run on it, so the tick must find it there.
int mare__thread_close(mare_process *process, lua_State *co);

// ---- What the registry has of ours --------------------------------------------------------------
// Integer keys, because they are found quicker than addresses; luaL_ref counts up from 1 and does
// not come this far.
enum {
    MARE__REGISTRY_CODE = 0x6d617265,
    MARE__REGISTRY_HOOKS,
    MARE__REGISTRY_HOST,
    MARE__REGISTRY_ROUTINES,
    MARE__REGISTRY_PIPES,  // of children: see lua/child.c
    MARE__REGISTRY_HANDLES // and those after it: see handle.c
};

// ---- handle.c -----------------------------------------------------------------------------------
// Pushes a C function of the bindings; in a host's state, wrapped so that it finds its process.
void mare__function_push(lua_State *L, lua_CFunction function);

// Pushes a weak table of the registry, making it on first use.
void mare__weak_table(lua_State *L, int key, const char *mode);

// Gives back every reference that the process's userdata hold.
void mare__handles_drop(mare_process *process);

// Pushes a reference to an object (a channel, a process, a buffer), taking over the caller's.
void mare__handle_push(lua_State *L, void *object);

// The same for one that has one owner at a time and came in a message: if somebody has taken it
// from there already, what is pushed is empty.
void mare__handle_push_owned(lua_State *L, void *object);

// The same for one that was made just now and that nobody else has seen.
void mare__handle_push_new(lua_State *L, void *object);

// A buffer is in the message to be sent.
void mare__handle_leaves(lua_State *L, struct mare__ref_link *ref);

// It waits to be sent: until it is, or not, nobody here uses its buffers.
void mare__handles_wait(mare_process *process);

// Whether a buffer is not this process's any more, or may be another's at any moment.
static inline bool mare__handle_moved(const struct mare__ref_link *ref)
{
    return !ref->object || ref->away;
}

// The message was sent, or not: its buffers are the receiver's, or still ours. Of several, only
// those of one case.
void mare__handles_left(lua_State *L, uint32_t which, bool sent);

// Gives back at once what only this reference refers to; it is empty from here on.
void mare__handle_forget(lua_State *L, struct mare__ref_link *ref);

// The methods that the table at a stack index is to supply, or NULL if it is something else.
const luaL_Reg *mare__handle_methods(lua_State *L, int index);

// What is behind a reference at a stack index, or NULL if it is something else.
struct mare__ref_link *mare__handle_test(lua_State *L, int index);

// The same for one kind.
static inline struct mare__ref_link *mare__handle_of(lua_State *L, int index, enum mare__kind kind)
{
    struct mare__ref_link *ref = lua_touserdata(L, index);
    bool is = ref && lua_rawlen(L, index) == sizeof *ref && ref->magic == MARE__REF_MAGIC + kind;
    return is ? ref : NULL;
}

// ---- block.c ------------------------------------------------------------------------------------
// Whether the calling routine can wait here.
static inline bool mare__block_possible(lua_State *L, const mare_process *process)
{
    return process->host || (L == process->current && !process->unyieldable && lua_isyieldable(L));
}

// Raises an error that says why it cannot.
void mare__block_refuse(lua_State *L, const mare_process *process);

// Raises it if it cannot.
static inline void mare__block_check(lua_State *L, const mare_process *process)
{
    if (!mare__block_possible(L, process))
        mare__block_refuse(L, process);
}

// Of the next: when it has a deadline, is traced, or has no worker to yield to.
int mare__block_otherwise(lua_State *L, mare_process *process, uint64_t deadline,
                          lua_KFunction then, lua_KContext context);

// Puts the calling routine to sleep until it has sent or received what is in process->sleep.wait,
// its select has fired, or the deadline has passed. Then `then` runs, which first calls
// mare__block_clean and finds the outcome in process->sleep.wait. To be used as `return
// mare__block(...)`.
static inline int mare__block(lua_State *L, mare_process *process, enum mare__waits waits,
                              mare_channel *channel, uint64_t deadline, lua_KFunction then,
                              lua_KContext context)
{
    process->sleep.waits = (uint8_t)waits;
    process->sleep.waits_for = channel;
    if (deadline != MARE_FOREVER || process->host || mare__traced(process))
        return mare__block_otherwise(L, process, deadline, then, context);
    process->sleep.timed = false; // so the deadline is not looked at: a line of the cache less
    process->yield = MARE__YIELD_WAIT;
    return lua_yieldk(L, 0, context, then);
}

// The state is at rest: begins the wait. True: it waits, and must not be touched any more, for
// another thread may have it already. False: it need not wait.
bool mare__sleep_commit(mare_process *process, struct mare__sleep *sleep);

// Leaves every line and stops the timer.
void mare__sleep_clean(mare_process *process, struct mare__sleep *sleep);

// The same; most waits have no timer, stood in one line and were taken out of it.
static inline void mare__sleep_over(mare_process *process, struct mare__sleep *sleep)
{
    if (sleep->timed || sleep->wait.fired == MARE__FIRED_NONE ||
        sleep->waits == MARE__WAITS_IN_SELECT)
        mare__sleep_clean(process, sleep);
    sleep->waits = MARE__WAITS_NOT;
}

// Frees the cases of a select, with what they hold.
void mare__sleep_drop_cases(struct mare__sleep *sleep);

// The same for the routine that runs.
static inline void mare__block_clean(mare_process *process)
{
    mare__sleep_over(process, &process->sleep);
}

static inline void mare__block_drop_cases(mare_process *process)
{
    mare__sleep_drop_cases(&process->sleep);
}

// ---- routine.c ----------------------------------------------------------------------------------
// One of several routines of a process. It is a userdata of the state, kept in the registry as long
// as it lives. While it runs, what it has here is in the process.
struct mare__routine {
    mare_process *process;
    struct mare__list in_all;
    struct mare__routine *next; // in the line of the ready
    uint64_t id;
    lua_State *thread, *current;
    struct mare__nested *nest;
    uint32_t nested, nest_room, unyieldable;
    uint8_t stage;       // enum mare__stage
    bool queued;         // under the pool's lock: it stands in the line
    bool noted;          // somebody knows how it ended
    bool detached;       // the process does not wait for its end
    int values;          // on the thread's stack: arguments before the first run, then results
    mare_channel *ended; // closed when it ends, or NULL; its userdata is the routine's user value
    struct mare__sleep sleep;
};

enum mare__stage { MARE__ROUTINE_LIVES, MARE__ROUTINE_DONE, MARE__ROUTINE_FAILED };

// The routines of a process, once it has more than one.
struct mare__pool {
    mare__lock lock; // guards the line of the ready, and `parked`
    struct mare__routine *head, *tail;
    bool parked; // none is ready, and the process stands in no queue: who wakes one wakes it

    // Touched only by the thread that runs the process.
    struct mare__list all;
    struct mare__routine *running;
    uint64_t last_id;
    unsigned alive; // and not detached
    struct mare__routine main;
};

// Makes the userdata on top of the stack (zeros) a new routine that runs what is on the thread's
// stack: a function and its arguments. Raises an error when there is no memory.
void mare__routine_start(lua_State *L, struct mare__routine *routine, lua_State *thread);

// Ends what a routine of this process waits for, or will wait for next, with MARE_CANCELLED.
void mare__routine_cancel(struct mare__routine *routine);

// The process does not wait for its end any more. False: it has ended, or nothing else is left.
bool mare__routine_detach(struct mare__routine *routine);

// Whether the routine that runs is the main one, which others can interrupt but not cancel.
bool mare__routine_is_main(const mare_process *process);

// Somebody knows how it ended.
void mare__routine_note(struct mare__routine *routine);

// Whether a coroutine is a routine, or one that a routine at rest is in: nobody may resume it.
bool mare__routine_holds(const mare_process *process, lua_State *co);

// A buffer that is away was collected, or received here: the routine that waits to send it forgets
// it.
void mare__routine_unleave(mare_process *process, struct mare__ref_link *ref);

// Whether the process waits, all of it. Any thread.
bool mare__at_rest(const mare_process *process);

// Which routine shall run next, with how many arguments: it is the one that runs. False: none, the
// process is at rest and must not be touched any more. True also if the process was killed.
bool mare__pool_next(mare_process *process, int *arguments);

// The running routine gave up the worker with this status of lua_resume, and that many results.
// False: the process shall end, with *status and *results.
bool mare__pool_back(mare_process *process, int *status, int *results);

// The process shall look around: it is to be killed.
void mare__pool_wake(mare_process *process);

// The main routine's wait, which others may end.
struct mare__wait *mare__main_wait(mare_process *process);

// The process ends: no routine waits any more; and they are closed, but for the main one.
void mare__pool_calm(mare_process *process);
void mare__pool_unwind(mare_process *process);

// ---- marshal.c, unmarshal.c ---------------------------------------------------------------------
// Appends `count` values from stack index `first` on to a message. On failure pushes an error
// message that says which value cannot travel and where it sits, leaves the message cleared, and
// returns the code. `what` names the values: "arg", "result".
mare_err mare__marshal(lua_State *L, int first, int count, mare_message *message, const char *what);

// How to marshal, beyond what is usual.
struct mare__marshalling {
    const char *what;        // what refusals call the values: "arg"
    int before;              // how many arguments of the call come before the first value
    uint32_t numbered;       // functions that the message has already
    struct mare__code *code; // of the first value, or NULL
    const char **refused;    // if not NULL: gets the type of what was refused
};

mare_err mare__marshal_as(lua_State *L, int first, int count, mare_message *message,
                          const struct mare__marshalling *how);

// The same for what a new process starts with: the first value is a function.
mare_err mare__marshal_body(lua_State *L, int first, int count, mare_message *message,
                            const char **refused);

// The same; most messages are one integer.
static inline mare_err mare__marshal_quickly(lua_State *L, int first, int count,
                                             mare_message *message, const char *what)
{
    bool quick = count == 1 && lua_isinteger(L, first) && MARE__MESSAGE_SMALL >= MARE__PACK_MAX;
    if (__builtin_expect(!quick, 0))
        return mare__marshal(L, first, count, message, what);
    message->length = MARE__PACK_WIDE;
    message->count = 1;
    mare__pack_wide(message->as.small, lua_tointegerx(L, first, NULL));
    return MARE_OK;
}

// Pushes the values of a message; raises an error when it is malformed or memory runs out. Returns
// their number. The message stays the caller's.
int mare__unmarshal(lua_State *L, const mare_message *message);

// The same for a message of the process's own, which is left empty: the bytes are read from a place
// where nobody else gets at them, for Lua code may run meanwhile.
int mare__unmarshal_own(lua_State *L, mare_message *message);

// The same; most messages are one integer.
static inline int mare__unmarshal_quickly(lua_State *L, mare_message *message)
{
    bool quick = message->count == 1 && message->capacity == 0 &&
                 mare__is_wide(message->as.small, message->length);
    if (__builtin_expect(!quick, 0))
        return mare__unmarshal_own(L, message);
    lua_pushinteger(L, mare__unpack_wide(message->as.small));
    mare__message_init(message);
    return 1;
}

// ---- foreign.c ----------------------------------------------------------------------------------
// A new channel, registered if it has a name.
mare_err mare__chan_create(mare_runtime *runtime, size_t capacity, const char *name,
                           mare_channel **out);

// Something that stands for a Lua state which is not ours, so that it can use the bindings: its
// thread sleeps in `parker`.
mare_process *mare__host_open(mare_runtime *runtime, struct mare__parker *parker);
void mare__host_wake(struct mare__wait *wait);

// Runs a C function with a light userdata in a state that is thrown away, to marshal what a new
// process starts with. On failure `*error` (if not NULL) is a string to free: MARE_SYNTAX,
// MARE_NOMEM.
mare_err mare__compile(mare_process *process, lua_CFunction function, void *argument, char **error);

// ---- runtime.c ----------------------------------------------------------------------------------
// Starts a runtime whose processes know the given modules and classes (which must be static).
mare_err mare__runtime_start(const mare_options *options, lua_CFunction (*module)(const char *name),
                             const struct mare__class *classes, mare_runtime **out);

// Waits until no process is left or, if `or_stuck`, until nothing can move any more
// (MARE_DEADLOCK), or somebody asked to exit (MARE_STOPPED), or the deadline. Not for workers.
mare_err mare__runtime_await(mare_runtime *runtime, bool or_stuck, uint64_t deadline);

// Wakes those in mare__runtime_await, so that they look again.
void mare__runtime_changed(mare_runtime *runtime);

// Kills every process.
void mare__runtime_kill_all(mare_runtime *runtime, const char *reason);

// False in a process forked from the one that started the runtime.
bool mare__runtime_valid(const mare_runtime *runtime);
