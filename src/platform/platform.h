// SPDX-License-Identifier: MIT
// What the layers above need of the operating system: a clock, threads, a place to sleep, a tick.
// Nothing above this folder reads a clock, makes a thread, sleeps or asks for randomness in another
// way; and what a runtime needs of that it takes from the platform that it was given.
#pragma once

#include <mare.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct mare__files;
struct mare__loops;
struct mare__names;
struct mare__parker;
struct mare__runner;
struct mare__tick;
struct mare__wall;

// ---- The platform of a runtime ------------------------------------------------------------------
// The live one is mare__platform_live: the machine's clocks, threads and timers. Another one may
// have a clock of its own and no threads at all: it calls its runners a piece at a time, in an
// order that it chooses, and cuts processes off after so many instructions (tests/support/world.c).
struct mare__platform {
    void *context; // what all of the following are given

    uint64_t (*now_ns)(void *context); // never goes back
    uint64_t (*random)(void *context);
    void (*read_wall)(void *context, struct mare__wall *wall); // the time of day: see wall.h
    uint64_t (*thread_time_ns)(void *context); // that the calling thread has had of a processor
    uint64_t (*cpu_time_ns)(void *context);    // that the whole program has had: os.clock

    // Sleeps until woken or until the deadline. Returns whether it was woken: see mare__park.
    bool (*park)(void *context, struct mare__parker *parker, uint64_t deadline);

    // Loops to wait in for descriptors, names of hosts and services, files: see loop.h, resolve.h
    // and file.h.
    const struct mare__loops *loops;
    const struct mare__names *names;
    const struct mare__files *files;

    // Starts a runner, which stays where it is until it is over, and waits until it is. Starts a
    // thread that nobody waits for: see mare__thread_start_apart. They return 0 or an errno value;
    // ENOTSUP: there are no such threads, and who has a job for one does it at once.
    int (*start)(void *context, struct mare__runner *runner);
    void (*join)(void *context, struct mare__runner *runner);
    int (*start_apart)(void *context, const char *name, void *(*main)(void *), void *argument);

    // The tick of the runner that calls: see below. A period of 0 stops it.
    int (*tick_init)(void *context, struct mare__tick *tick, void (*handler)(void *),
                     void *argument);
    void (*tick_set)(void *context, struct mare__tick *tick, uint64_t period_ns);
    void (*tick_fini)(void *context, struct mare__tick *tick);

    // How many instructions of Lua pass before `counted` is told so, for the runner with that tick.
    // True: the tick is due. 0: ticks come by themselves.
    int instructions;
    bool (*counted)(void *context, struct mare__tick *tick);
};

extern const struct mare__platform mare__platform_live;

// Which operating-system process this is: a fork is another one, without our threads.
long mare__os_process(void);

// The number of processors this program may use, at least 1.
unsigned mare__cpu_count(void);

// Writes to standard error, past all buffers; also in a signal handler.
void mare__say(const char *text, size_t length);

// A hint to the processor that the caller spins.
static inline void mare__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Lets other threads have the processor, if any want it.
void mare__yield_thread(void);

// ---- A barrier that only one side pays for ------------------------------------------------------
// Two threads that each write one thing and then read the other's: one side, which runs often,
// calls mare__barrier_here between the two, at no cost; the other, which runs rarely, calls
// mare__barrier_everywhere, which makes every running thread of the process pass a barrier. Where
// the system has no such call both are ordinary fences.
extern bool mare__barrier_is_asymmetric;

// Called once before the others.
void mare__barrier_init(void);
void mare__barrier_everywhere(void);

static inline void mare__barrier_here(void)
{
    if (mare__barrier_is_asymmetric)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

// ---- A place for one thread to sleep ------------------------------------------------------------
// A wake that comes before the sleep is kept: the sleep then returns at once. Any thread may wake;
// one thread sleeps.
struct mare__parker {
    atomic_uint word;
    void (*bell)(void *argument); // wakes its thread where it sleeps, if not here
    void *bell_argument;
};

// Sleeps until woken or until the deadline on the live clock. Returns whether it was woken. (In a
// runtime, its platform is asked instead.)
bool mare__park(struct mare__parker *parker, uint64_t deadline);

// May be called from a signal handler.
void mare__unpark(struct mare__parker *parker);

// Takes a stored wake, if there is one, without sleeping.
bool mare__parker_woken(struct mare__parker *parker);

// The thread goes to sleep elsewhere, where the bell (set by it before) wakes it, instead of in
// mare__park. False: it was woken already, and stays. And its return; both by the thread itself.
bool mare__park_elsewhere(struct mare__parker *parker);
void mare__park_return(struct mare__parker *parker);

// ---- Runners ------------------------------------------------------------------------------------
// What is done by a thread of its own, or, on a platform without threads, a piece at a time.
enum mare__progress { MARE__GOES_ON, MARE__RESTS, MARE__IS_OVER };

struct mare__runner {
    char name[16];
    void (*serve)(void *argument); // all of it: returns when it is over
    // A piece of it. After MARE__RESTS it need not be called before *until_ns, or its parker was
    // woken. NULL: it cannot be done in pieces.
    enum mare__progress (*advance)(void *argument, uint64_t *until_ns);
    void *argument;
    struct mare__parker *parker;
    bool is_detached; // nobody waits for it, and its memory may go with its last piece
    pthread_t thread; // the live platform's
};

// ---- Threads ------------------------------------------------------------------------------------
// Starts a thread with a name that debuggers show. Returns 0, or an errno value.
int mare__thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *argument);

// The same for one that nobody joins and that gets no signals: to write to a pipe that nobody reads
// is an error there, and no end of the program.
int mare__thread_start_apart(const char *name, void *(*main)(void *), void *argument);

// The shared object that has this address, if one has, stays loaded for the life of the program.
void mare__library_keep(uintptr_t address);

// A pointer that the layer above keeps for its own threads; NULL on others.
extern _Thread_local void *mare__thread_data __attribute__((tls_model("initial-exec")));

// ---- The tick -----------------------------------------------------------------------------------
// Periodically, on the thread of a runner: live, a signal, in whose handler `handler` runs.
struct mare__tick {
    bool made;          // there is one: else it can be set, but never comes
    uint64_t period_ns; // 0: stopped
    uint64_t left_ns;   // to the next one, when it was stopped; or 0
    timer_t timer;      // the live platform's
    uint64_t next_ns;   // another's
};

// ---- Signals that end a program -----------------------------------------------------------------
// Interrupt, terminate and hang-up call `handler` with their number, on any thread. They do not
// interrupt system calls, and are as usual in programs that this one starts.
void mare__signals_take(void (*handler)(int number));
