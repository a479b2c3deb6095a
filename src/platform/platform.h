// SPDX-License-Identifier: MIT
// What the layers above need of the operating system: a clock, threads, a place to sleep, a tick.
// Nothing above this folder reads a clock, makes a thread or asks the system for randomness in
// another way.
#pragma once

#include <mare.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// Where time and chance come from. The live one is mare__platform_live; a simulator supplies its
// own.
struct mare__platform {
    uint64_t (*now_ns)(void *context);
    uint64_t (*random)(void *context);
    void *context;
};

extern const struct mare__platform mare__platform_live;

// The processor time that the calling thread has had.
uint64_t mare__thread_time_ns(void);

// Which operating-system process this is: a fork is another one, without our threads.
long mare__os_process(void);

// The number of processors this program may use, at least 1.
unsigned mare__cpu_count(void);

// A hint to the processor that the caller spins.
static inline void mare__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

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

// Sleeps until woken or until the deadline on the live clock. Returns whether it was woken.
bool mare__park(struct mare__parker *parker, uint64_t deadline);

// May be called from a signal handler.
void mare__unpark(struct mare__parker *parker);

// The thread goes to sleep elsewhere, where the bell (set by it before) wakes it, instead of in
// mare__park. False: it was woken already, and stays. And its return; both by the thread itself.
bool mare__park_elsewhere(struct mare__parker *parker);
void mare__park_return(struct mare__parker *parker);

// ---- Threads ------------------------------------------------------------------------------------
// Starts a thread with a name that debuggers show. Returns 0, or an errno value.
int mare__thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *argument);

// The same for one that nobody joins and that gets no signals: to write to a pipe that nobody reads
// is an error there, and no end of the program.
int mare__thread_start_apart(const char *name, void *(*main)(void *), void *argument);

// The shared object that has this address, if one has, stays loaded for the life of the program.
void mare__library_keep(uintptr_t address);

// Whatever the layer above wants to know of its own threads; NULL on others.
extern _Thread_local void *mare__thread_data __attribute__((tls_model("initial-exec")));

// ---- The tick: a signal on the calling thread, periodically -------------------------------------
struct mare__tick {
    timer_t timer;
    bool made; // the system had a timer for it
    bool running;
    uint64_t period_ns; // while it runs
};

// Creates the calling thread's tick, stopped. `handler(argument)` runs in a signal handler on this
// thread. Returns 0, or an errno value.
int mare__tick_init(struct mare__tick *tick, void (*handler)(void *), void *argument);

// Called by the owner only; they do nothing for a tick that could not be created.
void mare__tick_start(struct mare__tick *tick, uint64_t period_ns);
void mare__tick_set(struct mare__tick *tick, uint64_t period_ns); // from now on, if it runs
void mare__tick_stop(struct mare__tick *tick);
void mare__tick_fini(struct mare__tick *tick);

// ---- Signals that end a program -----------------------------------------------------------------
// Interrupt, terminate and hang-up call `handler` with their number, on any thread. They do not
// interrupt system calls, and are as usual in programs that this one starts.
void mare__signals_take(void (*handler)(int number));
