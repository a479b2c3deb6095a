// SPDX-License-Identifier: MIT
// Children by posix_spawn, which tells exactly why a program cannot be executed, and pidfds.
#include "platform/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

// If the parent of this program ignores the end of children, the system forgets ours at once, and
// would never tell how they ended.
static void want_to_know(void)
{
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
        action = (struct sigaction){.sa_handler = SIG_DFL};
        sigemptyset(&action.sa_mask);
        sigaction(SIGCHLD, &action, NULL);
    }
}

static int set_attributes(posix_spawnattr_t *attributes, const struct mare__spawning *spawning)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (spawning->session)
        flags |= POSIX_SPAWN_SETSID; // which is a group of its own as well
    else if (spawning->group)
        flags |= POSIX_SPAWN_SETPGROUP;
    int err = posix_spawnattr_setsigmask(attributes, &none);
    err = err ? err : posix_spawnattr_setsigdefault(attributes, &all);
    err = err ? err : posix_spawnattr_setpgroup(attributes, 0);
    return err ? err : posix_spawnattr_setflags(attributes, (short)flags);
}

// A descriptor that is to become 0, 1 or 2 must not be one of these itself: it would be
// overwritten.
static int set_descriptors(posix_spawn_file_actions_t *actions,
                           const struct mare__spawning *spawning)
{
    int err = 0;
    for (int i = 0; i < MARE__CHILD_STREAMS && !err; i++)
        if (spawning->fd[i] >= 0)
            err = posix_spawn_file_actions_adddup2(actions, spawning->fd[i], i);
    if (!err)
        err = posix_spawn_file_actions_addclosefrom_np(actions, MARE__CHILD_STREAMS);
    if (!err && spawning->folder)
        err = posix_spawn_file_actions_addchdir_np(actions, spawning->folder);
    return err;
}

int mare__child_spawn(const struct mare__spawning *spawning, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    want_to_know();
    int err = posix_spawnattr_init(&attributes);
    if (err)
        return -err;
    err = posix_spawn_file_actions_init(&actions);
    if (!err) {
        err = set_attributes(&attributes, spawning);
        err = err ? err : set_descriptors(&actions, spawning);
        if (!err)
            err = posix_spawnp(pid, spawning->arguments[0], &actions, &attributes,
                               spawning->arguments,
                               spawning->environment ? spawning->environment : environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return -err;
}

int mare__child_open(pid_t pid)
{
    int fd = pidfd_open(pid, 0), err = errno;
    if (fd >= 0)
        return fd;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -err;
}

enum mare__child_end mare__child_reap(int fd, pid_t group, int *code)
{
    siginfo_t info = {0};
    int r;
    // As long as it has not been reaped, its number is nobody else's, nor that of its group.
    do
        r = waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return MARE__CHILD_LOST;
    if (info.si_pid == 0)
        return MARE__CHILD_RUNS;
    if (group > 0)
        kill(-group, SIGKILL);
    waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG);
    *code = info.si_status;
    return info.si_code == CLD_EXITED ? MARE__CHILD_EXITED : MARE__CHILD_SIGNALLED;
}

int mare__child_signal(int fd, pid_t group, int number)
{
    int r = group > 0 ? kill(-group, number) : pidfd_send_signal(fd, number, NULL, 0);
    return r == 0 ? 0 : -errno;
}

void mare__child_ask(int fd, pid_t group)
{
    mare__child_signal(fd, group, SIGTERM);
    mare__child_signal(fd, group, SIGCONT);
}

void mare__child_kill(int fd, pid_t group)
{
    mare__child_signal(fd, group, SIGKILL);
}

bool mare__child_await(int fd, uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t start = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, passed = 0;
    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        uint64_t left = ns > passed ? ns - passed : 0;
        struct timespec limit = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        if (ppoll(&one, 1, &limit, NULL) > 0)
            return true;
        if (left == 0)
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - start;
    }
}

int mare__child_execute(const char *command)
{
    char *arguments[] = {"/bin/sh", "-c", (char *)command, NULL};
    struct mare__spawning spawning = {.arguments = arguments, .fd = {-1, -1, -1}};
    pid_t pid = -1;
    int status, err = mare__child_spawn(&spawning, &pid);
    if (err) {
        errno = -err;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

// ---- Descriptors --------------------------------------------------------------------------------

// Moves a descriptor out of the way of 0, 1 and 2, if one of those was free.
static int out_of_the_way(int fd)
{
    if (fd < 0)
        return -errno;
    if (fd >= MARE__CHILD_STREAMS)
        return fd;
    int other = mare__descriptor_copy(fd);
    close(fd);
    return other;
}

int mare__pipe(bool child_reads, int *here, int *there)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    *there = out_of_the_way(ends[!child_reads]);
    *here = out_of_the_way(ends[child_reads]);
    int err = *there < 0 ? *there : *here < 0 ? *here : 0;
    if (!err && fcntl(*here, F_SETFL, O_NONBLOCK) != 0)
        err = -errno;
    if (err && *here >= 0)
        close(*here);
    if (err && *there >= 0)
        close(*there);
    return err;
}

int mare__open_for_child(const char *path, enum mare__open_as how)
{
    static const int flags[] = {[MARE__OPEN_READ] = O_RDONLY,
                                [MARE__OPEN_WRITE] = O_WRONLY | O_CREAT | O_TRUNC,
                                [MARE__OPEN_APPEND] = O_WRONLY | O_CREAT | O_APPEND};
    int fd = out_of_the_way(open(path, flags[how] | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    if (fd >= 0)
        mare__descriptor_waits(fd, true);
    return fd;
}

int mare__descriptor_copy(int fd)
{
    int other = fcntl(fd, F_DUPFD_CLOEXEC, MARE__CHILD_STREAMS);
    return other < 0 ? -errno : other;
}

void mare__descriptor_waits(int fd, bool waits)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

char **mare__environment(void)
{
    return environ;
}

bool mare__is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && access(path, X_OK) == 0;
}

bool mare__is_file(const char *folder, const char *path)
{
    int at = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
    bool is = (at >= 0 || at == AT_FDCWD) && faccessat(at, path, F_OK, 0) == 0;
    if (at >= 0)
        close(at);
    return is;
}
