// SPDX-License-Identifier: MIT
// Runs a program: its main script is the first process; when that has ended the others are waited
// for. An interrupt kills every process in order (their closing handlers run); a second one ends
// the program at once.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "loop/log.h"
#include "platform/terminal.h"
#include "sched/foreign.h"
#include "sched/local.h"
#include "sched/marshal.h"
#include "sched/process.h"
#include "sched/routine.h"
#include "sched/runtime.h"

enum { LIBRARIES_MAX = 32 };

// ---- Signals ------------------------------------------------------------------------------------

// A handler may do little: it notes the signal and wakes a thread that does the rest.
static struct {
    atomic_int number;            // of the signal; 0: none, or it was dealt with
    _Atomic(mare_process *) repl; // an interrupt ends what it evaluates, not the program
    struct mare__parker parker;
    pthread_mutex_t mutex;
    mare_runtime *runtime; // under the mutex: NULL once it is being stopped
    pthread_t thread;
    bool started;
    atomic_int exits;      // the program's own wish to end, a code plus 1; 0: none
    atomic_bool lingers;   // processes have ended, and programs that they started are awaited
    atomic_bool stopped;   // the runtime
    atomic_bool over;      // and what was printed has been written
    atomic_bool unnoticed; // somebody died, and nobody took note
    bool lenient;          // nor does the exit code
    atomic_bool flushed;   // in the last attempt, if there was one
} interrupt = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int number)
{
    if (interrupt.number && !interrupt.repl) { // for the second time
        mare__terminal_restore();
        _exit(EXIT_SIGNAL + number);
    }
    interrupt.number = number;
    mare__unpark(&interrupt.parker);
}

// Waits up to a second for a flag. The second is counted in naps: on a busy machine, where this
// thread gets the processor late, the others get more time, too. While child programs are asked to
// end, which has a limit of its own, no time is counted.
static bool within_a_second(atomic_bool *awaited)
{
    for (int naps = 0; naps < 100 && !atomic_load(awaited);)
        naps += !mare__park(&interrupt.parker, mare__platform_live.now_ns(NULL) + 10000000u) &&
                !atomic_load(&interrupt.lingers);
    return atomic_load(awaited);
}

static void *flush(void *unused)
{
    (void)unused;
    fflush(stdout);
    atomic_store(&interrupt.flushed, true);
    mare__unpark(&interrupt.parker);
    return NULL;
}

// A process inside a C function that does not come back cannot be ended in order. That may be one
// that prints what nobody reads, and holds standard output: so another thread tries to flush it.
static void end_within_a_second(int code, atomic_bool *in_order)
{
    int nobody = -1;
    pthread_mutex_lock(&interrupt.mutex);
    if (interrupt.runtime) {
        atomic_compare_exchange_strong(&interrupt.runtime->exit_code, &nobody, code);
        mare__runtime_changed(interrupt.runtime);
    }
    pthread_mutex_unlock(&interrupt.mutex);
    if (within_a_second(in_order))
        return;
    if (mare__thread_start_apart("mare-flush", flush, NULL) == 0)
        within_a_second(&interrupt.flushed);
    mare__terminal_restore();
    _exit(code);
}

// Whether the signal was an interrupt, and the REPL's.
static bool interrupt_repl(void)
{
    int number = SIGINT; // another, that ends the program, may take its place at any time
    pthread_mutex_lock(&interrupt.mutex);
    mare_process *repl = interrupt.repl;
    bool taken = repl && atomic_compare_exchange_strong(&interrupt.number, &number, 0);
    if (taken)
        mare__local_interrupt(mare__local_of(repl));
    pthread_mutex_unlock(&interrupt.mutex);
    return taken;
}

static void *watch(void *unused)
{
    (void)unused;
    while (!atomic_load(&interrupt.over)) {
        if (atomic_load(&interrupt.exits) && !atomic_load(&interrupt.stopped))
            end_within_a_second(interrupt.exits - 1, &interrupt.stopped);
        else if (!interrupt_repl() && interrupt.number)
            end_within_a_second(EXIT_SIGNAL + interrupt.number, &interrupt.over);
        else
            mare__park(&interrupt.parker, MARE_FOREVER);
    }
    return NULL;
}

static void take_signals(mare_runtime *runtime)
{
    interrupt.runtime = runtime;
    interrupt.started = mare__thread_start(&interrupt.thread, "mare-signals", watch, NULL) == 0;
    if (interrupt.started)
        mare__signals_take(on_signal);
}

void mare__cli_interrupts_go_to(mare_process *repl)
{
    int number = SIGINT;
    pthread_mutex_lock(&interrupt.mutex); // nobody is still about to interrupt the former one
    if (interrupt.repl) // what has come until now was meant for it, and not to end the program
        atomic_compare_exchange_strong(&interrupt.number, &number, 0);
    interrupt.repl = repl;
    pthread_mutex_unlock(&interrupt.mutex);
}

// Stops the runtime; from here on signals do not touch it. Then writes what was printed, which may
// take as long as the reader takes, unless a signal comes. Then ends the thread that watches for
// signals. Returns why the output could not be written, or 0.
static int stop(mare_runtime *runtime)
{
    pthread_mutex_lock(&interrupt.mutex);
    interrupt.runtime = NULL;
    pthread_mutex_unlock(&interrupt.mutex);
    mare_stop(runtime);
    atomic_store(&interrupt.stopped, true);
    int lost = fflush(stdout) != 0 ? errno : 0;
    if (!interrupt.started)
        return lost;
    atomic_store(&interrupt.over, true);
    mare__unpark(&interrupt.parker);
    pthread_join(interrupt.thread, NULL);
    return lost;
}

// ---- Start and end ------------------------------------------------------------------------------

void mare__cli_be_lenient(void)
{
    interrupt.lenient = true;
}

// How long a process may stay in a C function before it is reported.
static uint64_t stuck_ns(void)
{
    enum { DEFAULT_S = 3, MOST_S = 1000000 };
    const char *chosen = getenv("MARE_STUCK");
    double seconds = chosen ? strtod(chosen, NULL) : DEFAULT_S;
    return seconds > 0 && seconds < MOST_S ? (uint64_t)(seconds * 1e9) : 0;
}

mare_runtime *mare__cli_start(void)
{
    mare_runtime *runtime;
    mare_err err = mare_start(NULL, &runtime);
    if (err) {
        fprintf(stderr, "mare: cannot start: %s\n", mare_strerror(err));
        return NULL;
    }
    runtime->exits_in_order = true;
    runtime->in_last_call = &interrupt.lingers;
    runtime->unnoticed = &interrupt.unnoticed;
    runtime->stuck_ns = stuck_ns();
    mare__cli_trace_begin(runtime);
    mare__cli_profile_begin(runtime);
    take_signals(runtime);
    return runtime;
}

// The code of a program that has not chosen one. `stuck`: processes waited for what cannot come.
static int code_of(mare_process *main, bool stuck)
{
    bool ended = !mare_process_alive(main);
    if (ended && main->how == MARE_KILLED)
        fprintf(stderr, "mare: the main process was killed%s%s\n", main->kill_reason ? ": " : "",
                main->kill_reason ? main->kill_reason : "");
    bool failed = ended && (main->how == MARE_DIED || main->how == MARE_KILLED);
    return failed || (stuck && !interrupt.lenient) ? EXIT_DIED : EXIT_SUCCESS;
}

int mare__cli_finish(mare_runtime *runtime)
{
    mare_process *main = runtime->main;
    mare_err err = mare__runtime_await(runtime, true, MARE_FOREVER);
    if (err == MARE_DEADLOCK && mare__log_end(runtime)) // which some may have waited for
        err = mare__runtime_await(runtime, true, MARE_FOREVER);
    char *stuck = err == MARE_DEADLOCK ? mare__stuck_text(runtime) : NULL;
    if (err == MARE_DEADLOCK && mare__wait_end(mare__main_wait(mare__local_of(main)),
                                               MARE_DEADLOCK)) // an error where it waits
        err = mare__runtime_await(runtime, true, MARE_FOREVER);
    int code = atomic_load(&runtime->exit_code);
    if (err == MARE_DEADLOCK && mare_process_alive(main)) { // it caught that, and waits again
        mare__deadlock_report(runtime, mare_strerror(MARE_DEADLOCK), stuck);
        code = EXIT_DIED;
    } else if (err == MARE_DEADLOCK) {
        mare__deadlock_report(runtime, NULL, stuck);
    } else if (stuck && main->how == MARE_DIED) {
        fputs(stuck, stderr);
    }
    free(stuck);
    bool chosen = code >= 0; // by the program, or a signal
    if (!chosen)
        code = code_of(main, err == MARE_DEADLOCK);
    if (err == MARE_STOPPED) {
        atomic_store(&interrupt.exits, code + 1);
        mare__unpark(&interrupt.parker);
    }
    mare_process_unref(main);
    mare__cli_profile_take(runtime);
    int lost = atomic_load(&runtime->print_error), late = stop(runtime);
    if (late)
        lost = late;
    if (!chosen && atomic_load(&interrupt.unnoticed) && !interrupt.lenient)
        code = EXIT_DIED;
    bool noted = mare__cli_trace_close();
    noted &= mare__cli_profile_close();
    if (!noted && code == EXIT_SUCCESS)
        code = EXIT_DIED;
    if (lost && code == EXIT_SUCCESS) {
        fprintf(stderr, "mare: standard output: %s\n", strerror(lost));
        code = EXIT_DIED;
    }
    return code;
}

// ---- The main process ---------------------------------------------------------------------------

struct program {
    enum source source;
    int argc, before; // arguments from argv[0] on, and how many come before it
    char **argv;
    struct mare__local *process;
};

// What the command line has, before the program.
static struct {
    char **argv;
    const char *names[LIBRARIES_MAX]; // of modules, for -l
    int libraries;
} given;

void mare__cli_given(char **argv)
{
    given.argv = argv;
}

bool mare__cli_library(const char *name)
{
    if (given.libraries == LIBRARIES_MAX)
        return false;
    given.names[given.libraries++] = name;
    return true;
}

// Replaces the program on top of the stack by one that requires the modules of -l first.
static void require_first(lua_State *L)
{
    static const char code[] = "local names, main = ...\n"
                               "return function(...)\n"
                               "    for _, name in ipairs(names) do\n"
                               "        local global, module = name:match '^([^=]*)=(.*)$'\n"
                               "        _G[global or name] = require(module or name)\n"
                               "    end\n"
                               "    return main(...)\n"
                               "end\n";
    if (luaL_loadbuffer(L, code, sizeof code - 1, "=mare -l") != LUA_OK)
        lua_error(L);
    lua_createtable(L, given.libraries, 0);
    for (int i = 0; i < given.libraries; i++) {
        lua_pushstring(L, given.names[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_rotate(L, -3, -1); // the program comes last
    lua_call(L, 2, 1);
}

// In a state that is thrown away: the program and the table of its arguments, marshalled.
static int prepare(lua_State *L)
{
    struct program *program = lua_touserdata(L, 1);
    lua_settop(L, 0);
    const char *name = program->argv[0];
    int status = program->source == SOURCE_CODE
                     ? luaL_loadbuffer(L, name, strlen(name), "=(command line)")
                     : luaL_loadfile(L, program->source == SOURCE_FILE ? name : NULL);
    if (status != LUA_OK)
        return lua_error(L);
    if (given.libraries > 0)
        require_first(L);
    lua_createtable(L, program->argc, 1);
    for (int i = -program->before; i < 0; i++) { // as in the stock interpreter
        lua_pushstring(L, program->argv[i]);
        lua_rawseti(L, -2, i);
    }
    for (int i = 0; i < program->argc; i++) {
        lua_pushstring(L, i == 0 && program->source != SOURCE_FILE ? "-" : program->argv[i]);
        lua_rawseti(L, -2, i);
    }
    struct mare__leaving *leaving = NULL; // nothing does
    mare_message *message = &program->process->sleep.wait.message;
    if (mare__marshal(L, 1, 2, message, "program", &leaving) != MARE_OK)
        return lua_error(L);
    return 0;
}

int mare__cli_run(enum source source, int argc, char **argv)
{
    mare_runtime *runtime = mare__cli_start();
    struct mare__local *main = runtime ? mare__local_new(runtime) : NULL;
    if (!main)
        return EXIT_DIED;
    int before = given.argv && argv >= given.argv ? (int)(argv - given.argv) : 0;
    struct program program = {source, argc, before, argv, main};
    char *error = NULL;
    mare_err err = mare__compile(main, prepare, &program, &error);
    if (err) {
        fprintf(stderr, "mare: %s\n", error ? error : mare_strerror(err));
        free(error);
        mare_process_unref(&main->shared);
        stop(runtime);
        return EXIT_DIED;
    }
    if (!mare__cli_inspect_begin(runtime)) {
        mare_process_unref(&main->shared);
        stop(runtime);
        return EXIT_DIED;
    }
    main->is_main = true;
    main->shared.observed = true; // by mare__cli_finish
    runtime->main = &main->shared;
    mare__local_launch(main);
    return mare__cli_finish(runtime);
}

int mare__cli_run_module(const char *module, int argc, char **argv)
{
    char code[64];
    snprintf(code, sizeof code, "require '%s'(...)", module);
    argv[0] = code;
    return mare__cli_run(SOURCE_CODE, argc, argv);
}
