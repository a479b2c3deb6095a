// SPDX-License-Identifier: MIT
// In builds for ThreadSanitizer only: functions of libc in the place of which it needs others.
//
// Debian's Lua is hardened, so that it jumps by __longjmp_chk, which ThreadSanitizer does not know:
// it does not see that functions were left, and its own stack of calls grows with every yield and
// error until it overflows. It knows longjmp.
//
// It keeps a signal until the thread does something that it knows, unless the thread is waiting in
// a function that it knows. mare__park waits in a system call of its own: a signal that the system
// gave to a parked thread would be kept for as long as nobody wakes that thread. So the call
// returns now and then, as if it had been interrupted, and mare__park goes around.
//
// libuv closes descriptors by a system call, too. ThreadSanitizer would not see it, and would
// report a race when the next thread gets the same number.
//
// A program that ends by _exit leaves its threads as they are. ThreadSanitizer would report a
// thread that has ended, and would have been joined later, as leaked.
#undef _FORTIFY_SOURCE // which would make of longjmp what this replaces
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000L
#define PARKED_NS 10000000L // at a stretch

_Noreturn void __longjmp_chk(jmp_buf buffer, int value);

_Noreturn void __longjmp_chk(jmp_buf buffer, int value)
{
    longjmp(buffer, value);
}

static long (*libc_syscall)(long number, ...);

// Before there are threads and signal handlers that make system calls.
__attribute__((constructor)) static void find_libc_syscall(void)
{
    *(void **)&libc_syscall = dlsym(RTLD_NEXT, "syscall");
}

static struct timespec soon(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += PARKED_NS;
    at.tv_sec += at.tv_nsec / NS_PER_S;
    at.tv_nsec %= NS_PER_S;
    return at;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

// For libuv too, which is a library of its own.
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) // as libc does, which does not know either how many there are
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!libc_syscall)
        find_libc_syscall();
    if (number == SYS_close)
        return close((int)a[0]);
    if (number != SYS_futex || (int)a[1] != FUTEX_WAIT_BITSET_PRIVATE)
        return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    const struct timespec *limit = (const struct timespec *)a[3];
    struct timespec at = soon();
    bool early = !limit || is_before(&at, limit);
    long r = libc_syscall(number, a[0], a[1], a[2], early ? (long)&at : a[3], a[4], a[5]);
    if (r < 0 && errno == ETIMEDOUT && early)
        errno = EINTR;
    return r;
}

_Noreturn void _exit(int code)
{
    for (;;)
        syscall(SYS_exit_group, (long)code);
}
