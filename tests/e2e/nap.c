// SPDX-License-Identifier: MIT
// Put before the C library (LD_PRELOAD), makes a program believe that the machine was suspended:
// from the moment that the file named by MARE_NAP_FILE exists, the clocks that go on during a
// suspend are an hour further than those that stand still.
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
    const char *file = getenv("MARE_NAP_FILE");
    int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (!failed && (id == CLOCK_BOOTTIME || id == CLOCK_REALTIME) && file &&
        access(file, F_OK) == 0)
        t->tv_sec += 3600;
    return failed;
}
