// SPDX-License-Identifier: MIT
// The scheduler's own structures: runtime, workers, processes. Shared by the files of this folder
// and by the bindings. What there is to do with them is in the headers of the files that do it.
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <mare.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/index.h"
#include "base/list.h"
#include "base/object.h"
#include "chan/channel.h"
#include "chan/directory.h"
#include "chan/wait.h"
#include "mare_limits.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "sched/arena.h"
#include "sched/vigil.h"

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
    MARE__WAITS_FOR_TIME,
    MARE__WAITS_FOR_A_TURN // only a task: see task.h
};

// A tie between two processes: each has an end of it in its index, under the other's number.
struct mare__tie {
    struct mare__tie_end {
        struct mare__index_entry entry;
        mare_process *other; // a reference
    } ends[2];
    struct mare__account *payer; // a reference, or NULL
};

struct mare__monitor {
    struct mare__letter letter; // what it will be told
    struct mare__list entry;
    mare_channel *channel;       // a reference
    struct mare__account *payer; // a reference, or NULL
};

// How a routine sleeps: what it waits for is one channel, or the cases of a select, or only time.
// The message of a process's only routine serves a whole life: before the first run it has the
// function and its arguments, then what is sent or received, in the end the results or the error.
struct mare__sleep {
    uint8_t waits; // enum mare__waits
    bool timed;    // it waits until `deadline`
    mare_channel *waits_for;
    struct mare__leaving *leaving; // what changes hands if what it waits to send is sent, or NULL
    struct mare__spot spot;
    struct mare__wait wait;
    uint64_t deadline;
    struct mare__case *cases; // of a select: allocated, followed by room for as many pointers
    uint32_t case_count;
    uint32_t turn; // where the next select begins to look
};

// What can be done to a process that runs on another node: see src/node. Any thread; no lock is
// held.
struct mare__abroad {
    bool (*kill)(mare_process *process, const char *reason);
    void (*tied)(mare_process *process); // one of this node is linked to it now, or is no more
};

// A process as others know it: who it is, whether and how it has ended, and who wants to know. That
// is all there is of one that runs elsewhere.
struct mare_process {
    struct mare__object object;
    uint64_t id;
    char *name; // constant from the launch on; or NULL

    mare__lock lock;            // guards what follows
    atomic_bool finished;       // read by anybody
    bool observed;              // somebody knows, or will be told, how it ends
    uint32_t awaiters;          // who joins it, or has it in a select
    mare_err how;               // MARE_OK, MARE_DIED, MARE_KILLED; set before `finished`
    char *kill_reason;          // or NULL
    const mare_message *result; // once it has finished: what it returned, or the error
    mare_channel *ended;        // closed when it ends; made when somebody wants to know
    struct mare__index ties;    // of struct mare__tie_end
    struct mare__list monitors;

    const struct mare__abroad *abroad; // constant; NULL: it runs here
    mare_runtime *runtime;             // constant; the last, next to what a switch touches
};

// A process that runs here: what others know of it, and what only its runner touches.
struct mare__local {
    mare_process shared;

    // What a switch touches comes first and lies together: a program of many processes is as fast
    // as these few lines of the cache. Touched only by the thread that runs it, but for what is
    // said to be read by others.
    lua_State *state; // its main thread is the first routine. NULL before the start, after the end
    lua_State *routine;                // the routine that runs, or ran last
    _Atomic(struct mare__pool *) pool; // its routines, if it has ever had more than one
    lua_State *volatile current;       // the coroutine that runs now; the tick looks at it
    struct mare__worker *worker;       // the one it runs on, while it runs
    struct mare__worker *own;          // one that runs nothing else, or NULL
    struct mare__account *account;     // its limit of memory, or NULL; constant from the launch on
    atomic_ulong slices;               // read by those who list it
    atomic_uchar status;               // enum mare__status; for those who ask
    uint8_t yield;                     // enum mare__yield
    uint16_t unyieldable;              // coroutines resumed from where a yield is impossible
    atomic_bool traced;                // somebody listens to what it does: see trace.h
    bool has_waited;                   // in the turns of used_ns
    bool is_read; // what it starts with is on the stack, and no function runs: see local.c
    bool hooked;  // the program has set a hook, in some coroutine: see hook.c

    // References to channels that it used last, found to be such: they need no second look.
    const struct mare__reference *known[2];

    struct mare__parker *host; // not NULL: no process of ours but a thread of a host, asleep here
    struct mare__sleep sleep;  // of the routine that runs, or of the only one

    struct mare__local *next; // in a line of the ready
    // Of the turns in a row that it did not end by waiting: their length, counted in ticks, and the
    // number of the last; and what of its slices it did not get, or had too much: see ready.c.
    uint32_t used_ns, used_until;
    int32_t owed_ns;
    // Under the lock of the shared half.
    bool reporting; // it died, and its error will be printed unless somebody looks
    bool given_up;  // nobody waits for its end: it was killed on a thread of its own, which may not
                    // come back from C; or it is there for others (a node's keeper)
    bool keeps;     // it stands in the list of keepers; written once, before it has finished
    bool closing;   // the state is: what is made now is not finalized
    _Atomic(struct mare__arena *) arena; // read by others, under the lock
    uint64_t libraries;                  // bits of the globals that were supplied: see lazy.c
    const void *globals;                 // address of its globals table while that is lazy
    struct mare__object *pending;        // a reference on its way into a userdata: see handle.c
    struct mare__pass *passing;          // what is given to C functions: see struct mare__pass
    struct mare__pending *more_pending;  // and more of them
    struct mare__numbers {
        int *free; // allocated
        uint32_t free_count, room, highest;
    } numbers;                  // of the objects made here: see handle.c
    uint64_t weight, unweighed; // bytes behind its userdata: all, and not yet told the collector
    uint64_t weight_limit;      // beyond it, everything is collected
    struct mare__list handles;  // of struct mare__reference: references held by its userdata; in a
                                // host, of struct mare__ref_outside
    struct mare__nested {
        lua_State *co, *before; // who runs, and who ran before it
    } * nest;                   // coroutines resumed inside each other
    uint32_t nested, nest_room;
    bool needs_close;               // something in the state has a finalizer
    bool finalizes;                 // one that is Lua code
    bool has_c_modules;             // so the state cannot be recycled
    bool warnings_on;               // what warn("@on") set
    uint8_t warning;                // so many pieces of a warning have come
    bool warning_tells;             // it begins as one about a finalizer does
    bool loaded;                    // the state came with its function on the stack
    bool begun;                     // what it starts with is being read, or was
    bool is_main;                   // has everything from the start, as the stock interpreter
    bool luaproc;                   // the global `luaproc` exists in it
    bool gathers;                   // the first worker watches for it: see observer.c
    volatile bool winding_up;       // it has ended: handlers of <close> run
    volatile uint8_t throws;        // errors raised in it because it was killed
    volatile bool hooking;          // a hook is being set: the tick leaves it alone
    volatile bool only_sampled;     // the tick asked only for a look at where it is: see profile.h
    bool modules_are_own;           // `modules` is what it hands on itself; see package.c
    lua_State *volatile armed;      // where the tick asked for the worker
    volatile uint64_t unarmed_ns;   // processor time that it has before the tick asks again
    volatile uint64_t unsampled_ns; // processor time since the last look
    const void *last_body;          // what it spawned last: see code.c
    struct mare__reader *start;     // of what it starts with, until that was read
    struct mare__modules *modules;  // what it inherits: a reference, or NULL; see package.c
    uintptr_t modules_print;        // of what it would hand on when it last looked

    atomic_ullong cpu_ns; // processor time, by samples: its worker adds to it with each tick

    struct mare__list in_all; // the runtime's list of live processes or of keepers, under its lock
};

// The whole of a process, of which it is known that it runs here.
static inline struct mare__local *mare__local_of(mare_process *process)
{
    return MARE__ENTRY(process, struct mare__local, shared);
}

// A pointer that a C function gets as its argument from lua_pcall. A program can find such a
// function, with debug.getinfo, and call it with anything: so the pointer is good for one call, as
// long as the lua_pcall lasts.
struct mare__pass {
    struct mare__pass *next;
    const void *what; // NULL: it has arrived
};

#define MARE__REF_MAGIC UINT64_C(0x6d61726520526566)

// A reference on its way into a userdata while another is: see handle.c.
struct mare__pending {
    struct mare__pending *next;
    struct mare__object *object;
};

// In a host debug.setmetatable is the original, and can take the finalizer from a userdata, whose
// memory then goes without a word. So there what stands in the list is outside of it.
struct mare__ref_outside {
    struct mare__list entry;
    struct mare__object *object; // as that of the userdata, but still there when that has gone
};

// A reference that a userdata holds, found again without running finalizers when the state goes.
struct mare__reference {
    uint64_t magic;              // MARE__REF_MAGIC + kind: tells a reference from other userdata
    struct mare__object *object; // NULL: given away
    union {
        struct mare__list entry;
        struct mare__ref_outside *outside; // in a host; NULL: finalized
    };
    struct mare__leaving *away; // it is in a message that is being made or waits to be sent
    uint32_t leaving;           // there: its last place, plus 1
    int index;                  // in the table of objects made here, or 0
};

// What a worker keeps for reuse.
enum mare__spares { MARE__SPARE_PROCESS, MARE__SPARE_CHANNEL, MARE__SPARES };

// ---- Workers ------------------------------------------------------------------------------------
// Ready processes, first come first served; under the lock that is beside it.
struct mare__line {
    struct mare__local *head, *tail;
    atomic_uint length; // read without the lock, as a hint
};

// What a worker waits in when there is something to watch, instead of only sleeping; supplied by
// the layer above (src/loop).
struct mare__lookout {
    mare_runtime *runtime;
    struct mare__parker *parker; // of the thread that waits in it
    struct mare__parker idle;    // in its place when there is no such thread any more
    atomic_uint busy;            // things that it watches
    atomic_bool called;          // somebody wants something of it
    atomic_bool unattended;      // its worker has been away for long, in a C function
    unsigned spared;             // looks that its worker, being busy, is to leave out
    void (*wait)(struct mare__lookout *lookout, uint64_t deadline); // 0: only looks
    void (*attend)(struct mare__lookout *lookout); // looks in its place, if it is still away
    void (*ring)(void *argument);                  // ends a wait; any thread
    void *ring_argument;
    void (*destroy)(struct mare__lookout *lookout);
    struct mare__lookout *next; // of all in the runtime
};

// A line of tasks that are ready: see task.h.
struct mare__tasks {
    mare__lock lock; // guards all below
    struct mare__task *head, *tail;
    atomic_uint length; // read without the lock, too
    atomic_bool late;   // they have waited for a tick: others may take them
};

struct mare__worker {
    mare_runtime *runtime;
    unsigned index;
    struct mare__runner runner;
    struct mare__parker parker;
    struct mare__tick tick;

    // For the signal handler on this same thread.
    struct mare__local *volatile running;
    volatile uint64_t age_ns;     // time since it was given the worker, counted in ticks
    volatile uint64_t burnt_ns;   // of that, what counts as used: see grow_older in preempt.c
    volatile uint64_t burnt_till; // the thread's processor time at the last tick
    unsigned long ticked_turn;    // and the number of its turn: see below
    // Of a turn: its age when Lua code was last seen to run in it; what it had used half the time
    // later that it may be without; its call in C at the last tick, if it was long without; whether
    // it was reported. See stuck_in_c.c.
    volatile uint64_t heard_ns, heard_burnt_ns;
    const void *volatile silent_call;
    volatile bool told;
    volatile sig_atomic_t ticked; // a tick came: look at the timers

    _Atomic(struct mare__local *) slot; // the oldest ready process, while the queue is empty
    atomic_bool slot_shared;            // it has waited for a tick: others may take it
    volatile sig_atomic_t taking; // the owner is about to take it: the tick must not share it now
    mare__lock lock;              // guards the queue, and `alive`
    struct mare__line queue;      // who has waited, behind the slot
    // Whose turn it is, its own lines' or the common ones': see ready.c. Turns are numbered by
    // counters.switches.
    bool common_first; // until the next tick the common lines come before its own
    bool wary;         // the last new process that it tried did nothing but compute
    struct mare__vigil vigil;
    bool spent_turn;              // whoever had the last turn of the common lines was spent
    bool fresh_ticked;            // whoever had it was fresh, and a tick came in it
    volatile unsigned ticks_left; // of that turn
    unsigned long common_turn;    // its number
    unsigned long begun_after;    // the number of the turn before the one that began
    uint64_t begun_ns;            // at this processor time of the thread
    unsigned long spawning_turn;  // the last one in which a process was made
    unsigned spawned;             // how many in it
    atomic_uint wakers;           // of one that runs a single process: who is just waking it
    struct mare__tasks tasks;     // made ready on this thread
    bool alive;                   // the thread has not decided to leave
    bool started;                 // there is a runner to join; under the runtime's worker_mutex
    bool serves, rests;           // for a runner that advances in pieces: it has begun; it is idle
    atomic_bool quit;

    // Blocks of ended processes and of the channels that told of their end, for the next ones.
    struct mare__spare {
        struct mare__spare *next;
    } * spares[MARE__SPARES];
    unsigned spare_count[MARE__SPARES];

    struct mare__list idle; // in the runtime's list, under idle_lock
    bool is_idle;
    volatile sig_atomic_t resting;  // a tick that comes now stops itself
    volatile unsigned missed_ticks; // that did, since the last one that did not
    unsigned short_rests;           // in a row

    struct mare__lookout *_Atomic lookout; // or NULL
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
    mare_err (*await)(struct mare__object *object, mare_channel **channel);
};

struct mare__harvest; // what the standard libraries are made of: see lazy.c
struct mare__jobs;    // threads for what blocks: see src/loop/job.h
struct mare__log;     // see src/loop/log.h

struct mare_runtime {
    struct mare__platform platform;
    lua_CFunction (*module)(
        const char *name); // what opens a module that needs no file; NULL when there is none
    const struct mare__class *classes; // by enum mare__kind
    struct mare__harvest *harvest;
    struct mare__directory *names;
    atomic_bool looked_at;      // somebody looks at processes that are at rest: see look.h
    pthread_mutex_t look_mutex; // and holds this meanwhile
    uint64_t stuck_ns;          // after so long in a C function a process is reported; 0: never
    struct mare__profile *_Atomic profile; // where samples go, or NULL: see profile.h
    struct mare__sites {                   // where channels were made: see look.c
        mare__lock lock;                   // guards all below
        struct mare__site *lists[64];
        unsigned count;
    } sites;
    _Atomic(struct mare__offer *) offers; // modules of the program around it: see offer.c
    pthread_mutex_t offer_mutex;          // one offer at a time

    struct mare__trace { // see trace.h
        atomic_bool on;
        pthread_mutex_t mutex; // guards all below, and is held while a listener is told
        mare_listener *listener;
        void *user;
        uint64_t last; // number of an event
    } trace;

    pthread_mutex_t worker_mutex; // one change of the number of workers at a time
    struct mare__worker *_Atomic workers[MARE__WORKERS_MAX];
    atomic_uint worker_count; // wanted; those with a higher index are leaving
    atomic_uint worker_alive; // threads that have not left yet
    // Looks after the lookouts of workers that are stuck in C functions; from the first lookout on.
    struct {
        struct mare__runner runner;
        struct mare__parker parker;
        atomic_bool started, quit;
    } attendant;
    // Of processes with a worker of their own, and of sources; and those that do not sleep, or of
    // which an event may come, and jobs that somebody waits for.
    atomic_uint own_threads, own_busy;
    struct mare__lookout *lookouts;  // all there were, under worker_mutex; the end frees them
    struct mare__jobs *_Atomic jobs; // made when first needed
    void (*_Atomic jobs_stop)(struct mare__jobs *jobs); // how they end; set before
    // The log, how it ends, and what takes a message of the runtime's own: false, it does not. See
    // src/loop/log.h.
    struct mare__log *_Atomic log; // made when first needed
    void (*_Atomic log_stop)(struct mare__log *log);
    bool (*_Atomic log_note)(mare_runtime *runtime, bool warning, const char *message,
                             const char *traceback);

    mare__lock inbox_lock;
    struct mare__line inbox; // processes whose wait was ended by a thread that is no worker

    // Lines for all workers, so that everybody in them has the same share: see ready.c.
    struct mare__common {
        mare__lock lock;
        struct mare__line spent; // those that have used up a slice
        // Those that have not run, while there is a crowd of them: the first few that were made in
        // a turn of their maker's, and the others.
        struct mare__line few, fresh;
        bool few_last;        // whether the last of these two was of the first
        unsigned fresh_turns; // in which a tick came, since the last one of the spent
    } common;
    struct mare__tasks tasks; // ready ones that come from no worker

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
    struct mare__list visits;           // tours of those who go through them: see runtime.h
    struct mare__list keepers;          // ended ones whose results hold references
    atomic_ulong live, spawned_outside; // by threads that are not workers
    atomic_ulong given_up;              // of the live ones
    atomic_ullong next_id, next_channel;
    char node_name[64]; // or "": see src/node; with its life under process_lock
    uint64_t node_life;

    // What outlives its processes, until the layer above sees to it at the end of all.
    mare__lock linger_lock;
    struct mare__list lingering;
    _Atomic(void (*)(mare_runtime *runtime)) last_call; // NULL: there never was any
    atomic_bool *in_last_call;                          // is to say so meanwhile; or NULL

    // Those who wait for the end: of all processes, or for nothing being able to move.
    pthread_mutex_t end_mutex;
    struct mare__list end_waiters; // under it: see runtime.c
    atomic_uint waiters;           // threads in mare__runtime_await
    atomic_bool stopping;
    atomic_int exit_code;   // -1: nobody asked to exit
    atomic_int print_error; // an errno: what was printed is lost
    atomic_bool *unnoticed; // is told that somebody died and nobody took note; or NULL
    bool exits_in_order;    // somebody awaits the end and looks at exit_code
    mare_process *main;     // whose end ends the program, or NULL
    bool gc_stress;
    bool busy_waits; // its workers may keep vigils
    uint64_t seed;   // of the random numbers of processes
    long owner;      // the operating-system process that started it
};

// ---- Small accessors ----------------------------------------------------------------------------
// The process that a Lua state or one of its coroutines belongs to. (NULL in a coroutine in which a
// routine is at rest: nothing runs there that could ask.)
static inline struct mare__local *mare__self(lua_State *L)
{
    return *(struct mare__local **)lua_getextraspace(L);
}

// Pushes a pointer for a C function that lua_pcall will call; to be ended when that has returned.
static inline void mare__pass_push(lua_State *L, struct mare__pass *pass, const void *what)
{
    struct mare__local *process = mare__self(L);
    *pass = (struct mare__pass){process->passing, what};
    process->passing = pass;
    lua_pushlightuserdata(L, (void *)what);
}

static inline void mare__pass_end(lua_State *L, const struct mare__pass *pass)
{
    mare__self(L)->passing = pass->next;
}

// The pointer that the function was given, at a stack index; an error if it was not.
static inline void *mare__passed(lua_State *L, int index)
{
    struct mare__pass *pass = mare__self(L)->passing;
    void *what = lua_touserdata(L, index);
    if (!what || !lua_islightuserdata(L, index) || !pass || pass->what != what) {
        luaL_error(L, "this function is not for programs");
        return NULL; // never
    }
    pass->what = NULL;
    return what;
}

static inline uint64_t mare__now(const mare_runtime *runtime)
{
    return runtime->platform.now_ns(runtime->platform.context);
}

// As mare__park, by the runtime's own clock.
static inline bool mare__runtime_park(const mare_runtime *runtime, struct mare__parker *parker,
                                      uint64_t deadline)
{
    return runtime->platform.park(runtime->platform.context, parker, deadline);
}

// The processor time that the calling thread has had.
static inline uint64_t mare__thread_time_ns(const mare_runtime *runtime)
{
    return runtime->platform.thread_time_ns(runtime->platform.context);
}

// Somebody has died, and nobody has taken note but the person who reads standard error.
static inline void mare__unnoticed(const mare_runtime *runtime)
{
    if (runtime->unnoticed)
        atomic_store(runtime->unnoticed, true);
}

// Gives a message of the runtime to the program's log. False: no log takes it, so the caller writes
// it to standard error. Not for signal handlers.
static inline bool mare__log_try(mare_runtime *runtime, bool warning, const char *message,
                                 const char *traceback)
{
    bool (*note)(mare_runtime *, bool, const char *, const char *) =
        atomic_load(&runtime->log_note);
    return note && note(runtime, warning, message, traceback);
}

static inline bool mare__killed(const struct mare__local *process)
{
    // Relaxed: see mare__wait_publish.
    return atomic_load_explicit(&process->sleep.wait.note, memory_order_relaxed) == MARE_KILLED;
}

// Whether somebody listens to what it does. A process has a flag of its own, where a switch looks
// anyway.
static inline bool mare__traced(const struct mare__local *process)
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

// ---- What the registry has of ours --------------------------------------------------------------
// Integer keys, because they are found quicker than addresses; luaL_ref counts up from 1 and does
// not come this far.
enum {
    MARE__REGISTRY_FIRST = 0x6d617265,
    MARE__REGISTRY_CODE = MARE__REGISTRY_FIRST,
    MARE__REGISTRY_HOOKS,
    MARE__REGISTRY_SEEN, // what a program sees of it: see debug.c
    MARE__REGISTRY_HOST,
    MARE__REGISTRY_ROUTINES,
    MARE__REGISTRY_PACKAGE, // the library, and what it had: see package.c
    MARE__REGISTRY_PRELOAD,
    MARE__REGISTRY_CLASSES, // metatables, and which module has them: see class.c
    MARE__REGISTRY_PIPES,   // of children: see lua/child.c
    MARE__REGISTRY_HANDLES, // and those after it: see handle.c
    MARE__REGISTRY_END = MARE__REGISTRY_HANDLES + 32
};
