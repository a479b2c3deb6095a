// SPDX-License-Identifier: MIT
// The command line: one function for each command, and what they share.
#pragma once

#include <mare.h>
#include <stdbool.h>
#include <stdio.h>

struct mare_coord_algorithm;

#define MARE_VERSION "0.1.0"

// What the program's exit codes mean.
enum { EXIT_DIED = 1, EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

// What a program is made from.
enum source { SOURCE_FILE, SOURCE_CODE, SOURCE_STDIN };

// Runs a program to its end; `argv[0]` is the file (or the code), the rest are its arguments.
// Returns the exit code.
int mare__cli_run(enum source source, int argc, char **argv);

// Before that: all the arguments of `mare`, for arg[-1] and below; and `-l NAME`, a module that the
// program finds as a global. False: there are too many.
void mare__cli_given(char **argv);
bool mare__cli_library(const char *name);

// Runs a command that is written in Lua: the module returns a function, which gets the arguments.
// argv[0] is the command's own name. Returns the exit code.
int mare__cli_run_module(const char *module, int argc, char **argv);

// Reads, evaluates and prints until the end of input; after a program and its arguments, if there
// are any.
int mare__cli_repl(int argc, char **argv);

// A runtime for the command line: it takes signals, and it ends in order. NULL after saying why
// not.
struct mare_runtime *mare__cli_start(void);

// From now on an interrupt raises an error in this process; NULL: it ends the program again.
void mare__cli_interrupts_go_to(mare_process *repl);

// Waits for the end of the main process and of all others, stops the runtime and returns the exit
// code.
int mare__cli_finish(struct mare_runtime *runtime);

// `mare --lenient`: from now on the exit code says nothing of processes that died unnoticed, or
// that waited for ever.
void mare__cli_be_lenient(void);

// Closes a file that was written, and says on standard error if something of it is missing: "mare:
// PATH: not all of WHAT could be written: the reason".
bool mare__cli_close_written(FILE *file, const char *path, const char *what);

// `mare --trace FILE`: opens the file, and says why not; from the start of a runtime its events go
// there; closes it, and says whether all is in it. The others do nothing when none was opened.
bool mare__cli_trace_open(const char *path);
void mare__cli_trace_begin(mare_runtime *runtime);
bool mare__cli_trace_close(void);
extern const char mare__cli_trace_help[];

// `mare trace draw FILE`: a drawing of what such a file tells.
int mare__cli_trace(int argc, char **argv);
extern const char mare__cli_trace_draw_help[];

// `mare --profile FILE`: the same for a profile, which is written at the end.
bool mare__cli_profile_open(const char *path);
void mare__cli_profile_begin(mare_runtime *runtime);
void mare__cli_profile_take(mare_runtime *runtime); // what was measured, before the runtime goes
bool mare__cli_profile_close(void);
extern const char mare__cli_profile_help[];

// `mare --inspect PATH`: where the next program lets others look into it; when it has a runtime.
// False: it cannot, and has said why.
void mare__cli_inspect(const char *path);
bool mare__cli_inspect_begin(mare_runtime *runtime);
extern const char mare__cli_inspect_help[];

// Looking into another: `mare top …`.
int mare__cli_top(int argc, char **argv);
extern const char mare__cli_top_help[];

// How many edits make one word of the other, and how many a misspelt word may have.
unsigned mare__cli_edits(const char *a, const char *b);
unsigned mare__cli_edits_most(const char *word);

// Says "mare COMMAND: WHAT 'WORD'", which word of the command's help was perhaps meant, and where
// there is more. Returns the exit code.
int mare__cli_refuse(const char *command, const char *help, const char *what, const char *word);

// The simulator: `mare sim …`, and what `mare help sim` says.
int mare__cli_sim(int argc, char **argv);
extern const char mare__cli_sim_help[];

// Of it: all that there is, all tables of costs, one algorithm, and whether a name is a figure.
int mare__cli_sim_list(bool json);
int mare__cli_sim_names(void); // one a line
void mare__cli_sim_describe(const struct mare_coord_algorithm *algorithm);
int mare__cli_sim_tables(bool json);
bool mare__cli_sim_is_figure(const char *name);
const char *mare__cli_sim_nearest(const char *name); // what was meant, perhaps; or NULL

// Network coordinates: `mare place …`.
int mare__cli_place(int argc, char **argv);
extern const char mare__cli_place_help[];

// Time: `mare clock …`, over the network and in virtual time.
int mare__cli_clock(int argc, char **argv);
extern const char mare__cli_clock_help[];

// Programs that are nodes: `mare node …`.
int mare__cli_group(int argc, char **argv);
extern const char mare__cli_group_help[];
int mare__cli_node(int argc, char **argv);
extern const char mare__cli_node_help[];

// The remote scheduling service: `mare serve …`, `mare submit …`, `mare jobs …`.
int mare__cli_serve(int argc, char **argv);
extern const char mare__cli_serve_help[];
int mare__cli_submit(int argc, char **argv);
extern const char mare__cli_submit_help[];
int mare__cli_jobs(int argc, char **argv);
extern const char mare__cli_jobs_help[];

// Lines for a node that runs: `mare attach …`.
int mare__cli_attach(int argc, char **argv);
extern const char mare__cli_attach_help[];

// Keys and certificates of nodes: `mare keys …`.
int mare__cli_keys(int argc, char **argv);
extern const char mare__cli_keys_help[];

// Tests of programs: `mare test …`.
int mare__cli_test(int argc, char **argv);
extern const char mare__cli_test_help[];
