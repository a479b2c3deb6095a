// SPDX-License-Identifier: MIT
// Put before the C library (LD_PRELOAD), makes it three days earlier, so that openssl signs what
// does not hold any more.
#include <time.h>

__attribute__((visibility("default"))) time_t time(time_t *now)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    real.tv_sec -= 3 * 86400;
    if (now)
        *now = real.tv_sec;
    return real.tv_sec;
}
