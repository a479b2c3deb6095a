// SPDX-License-Identifier: MIT
// Terminals. Every end of the program puts back what was changed: exit, the signals that end it,
// and src/cli/run.c where it ends without either.
#include "platform/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

// ---- Input --------------------------------------------------------------------------------------

// A description of its own for what standard input is. That of a file has a place in it, which
// others share, and needs no other: it never waits. A socket is asked not to wait each time.
int mare__terminal_input(void)
{
    struct stat info;
    if (fstat(STDIN_FILENO, &info) != 0)
        return -errno;
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    bool own = S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode);
    int fd = own ? open("/proc/self/fd/0", flags) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int err = errno;                      // which isatty sets, too
    if (fd < 0 && isatty(STDIN_FILENO)) { // another user's: but the one that controls us is ours
        fd = open("/dev/tty", flags);
        err = errno;
    }
    return fd < 0 ? -err : fd;
}

bool mare__terminal_is(int fd)
{
    return isatty(fd) == 1;
}

int mare__terminal_size(int fd, int *columns, int *rows)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0)
        return -errno;
    *columns = size.ws_col;
    *rows = size.ws_row;
    return 0;
}

// ---- Modes --------------------------------------------------------------------------------------

// Static, as there is one terminal.
static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER; // one at a time
static struct termios usual;                                // set before `changed`, then constant
static bool known;                                          // that is
static atomic_bool changed;

static const int fatal[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGABRT, SIGBUS,  SIGFPE,  SIGSEGV,
                            SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS};
enum { FATAL = sizeof fatal / sizeof *fatal };

void mare__terminal_restore(void)
{
    int saved = errno;
    // Only from the foreground: elsewhere it is another's by now.
    if (atomic_exchange(&changed, false) && tcgetpgrp(STDIN_FILENO) == getpgrp())
        tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    errno = saved;
}

// The signal ends the program as soon as the handler returns: it was for one time.
static void on_fatal(int number)
{
    mare__terminal_restore();
    raise(number);
}

// What a fatal signal shall do that does this now: if it would end the program at once, it comes
// here first, while the terminal is in a mode of ours; and no more.
static struct sigaction guarded(struct sigaction now, bool begin)
{
    if (begin && now.sa_handler == SIG_DFL)
        now = (struct sigaction){.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND};
    else if (!begin && now.sa_handler == on_fatal)
        now = (struct sigaction){.sa_handler = SIG_DFL};
    else
        return now;
    sigemptyset(&now.sa_mask);
    return now;
}

static void guard(bool begin)
{
    for (int i = 0; i < FATAL; i++) {
        struct sigaction now, then;
        if (sigaction(fatal[i], NULL, &now) != 0)
            continue;
        then = guarded(now, begin);
        if (then.sa_handler != now.sa_handler)
            sigaction(fatal[i], &then, NULL);
    }
}

void mare__terminal_give_back(int number, const struct sigaction *before)
{
    struct sigaction action = *before;
    pthread_mutex_lock(&changes); // so that no change of the mode misses it
    for (int i = 0; i < FATAL; i++)
        if (fatal[i] == number)
            action = guarded(action, atomic_load(&changed));
    sigaction(number, &action, NULL);
    pthread_mutex_unlock(&changes);
}

static int change(enum mare__terminal_mode mode)
{
    struct termios wanted;
    if (!known) {
        if (tcgetattr(STDIN_FILENO, &usual) != 0)
            return -errno;
        known = true;
        atexit(mare__terminal_restore);
    }
    wanted = usual;
    if (mode == MARE__TERMINAL_QUIET)
        wanted.c_lflag &= ~(tcflag_t)ECHO;
    if (mode == MARE__TERMINAL_RAW) {
        wanted.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
        wanted.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
        wanted.c_cflag |= CS8;
        wanted.c_cc[VMIN] = 1;
        wanted.c_cc[VTIME] = 0;
    }
    guard(mode != MARE__TERMINAL_USUAL);
    atomic_store(&changed, mode != MARE__TERMINAL_USUAL); // before it is, so that no end misses it
    return tcsetattr(STDIN_FILENO, TCSANOW, &wanted) == 0 ? 0 : -errno;
}

int mare__terminal_set(enum mare__terminal_mode mode)
{
    pthread_mutex_lock(&changes);
    int err = mode == MARE__TERMINAL_USUAL && !atomic_load(&changed) ? 0 : change(mode);
    pthread_mutex_unlock(&changes);
    return err;
}
