// SPDX-License-Identifier: MIT
// Programs that this one starts. Each is known by a descriptor of its own (a pidfd), which is
// readable once it has ended and never stands for another. Functions return 0 or a descriptor;
// failures are errno values, negated.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { MARE__CHILD_STREAMS = 3 }; // standard input, output and error

struct mare__spawning {
    char **arguments;            // the first is the program, looked for in PATH if it has no slash
    char **environment;          // NULL: this program's own
    const char *folder;          // to be in; NULL: this program's own
    int fd[MARE__CHILD_STREAMS]; // what the child gets as 0, 1 and 2; -1: what this program has
    bool group;                  // it leads a process group of its own
    bool session;                // and a session: no terminal, and not a child's fate
};

// Starts a program. It gets no other descriptors of this one, and begins with no signal blocked or
// ignored. If it cannot be executed, returns that error, and has started nothing.
int mare__child_spawn(const struct mare__spawning *spawning, pid_t *pid);

// A descriptor for a child that nobody has waited for yet. If the system has none left, the child
// is killed.
int mare__child_open(pid_t pid);

// How a child ended. LOST: other code of this program has waited for it, so we cannot know.
enum mare__child_end {
    MARE__CHILD_RUNS,
    MARE__CHILD_EXITED,
    MARE__CHILD_SIGNALLED,
    MARE__CHILD_LOST
};

// Whether it has ended, and with which code or signal. Then it is reaped; with `group`, what is
// left of its process group is killed.
enum mare__child_end mare__child_reap(int fd, pid_t group, int *code);

// Sends a signal to the child, or, if `group` is not 0, to all in its process group; asks it to end
// (and lets it go on to do so, if it was stopped); ends it.
int mare__child_signal(int fd, pid_t group, int number);
void mare__child_ask(int fd, pid_t group);
void mare__child_kill(int fd, pid_t group);

// Waits, in this thread, until it has ended; false: not within so many nanoseconds.
bool mare__child_await(int fd, uint64_t ns);

// Like system(), but does not change what signals do: that would affect all threads. Blocks this
// thread. -1 and errno if nothing could be started.
int mare__child_execute(const char *command);

// ---- What it reads from and writes to -----------------------------------------------------------
// A pipe; the end that stays here never blocks.
int mare__pipe(bool child_reads, int *here, int *there);

// A file for a child, which opening does not wait for (as a named pipe would).
enum mare__open_as { MARE__OPEN_READ, MARE__OPEN_WRITE, MARE__OPEN_APPEND };
int mare__open_for_child(const char *path, enum mare__open_as how);

// A duplicate of a descriptor, which children do not inherit.
int mare__descriptor_copy(int fd);

// Sets whether reads and writes block: a child expects that, this program does not.
void mare__descriptor_waits(int fd, bool waits);

// This program's environment; whether a path is a folder that can be entered; whether there is
// something of that name, as seen from a folder (NULL: this program's).
char **mare__environment(void);
bool mare__is_folder(const char *path);
bool mare__is_file(const char *folder, const char *path);
