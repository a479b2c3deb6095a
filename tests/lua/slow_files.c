// SPDX-License-Identifier: MIT
// Put before the C library (LD_PRELOAD), makes the file system hang, as with a disk that does not
// answer, for paths in which "hangs" occurs, as long as the file that MARE_HANGS names is there;
// and the list of services for names like that.
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

typedef int opener(const char *, int, ...);
typedef int spawner(pid_t *, const char *, const posix_spawn_file_actions_t *,
                    const posix_spawnattr_t *, char *const[], char *const[]);

static void hang(const char *path)
{
    const char *while_there = getenv("MARE_HANGS");
    while (path && while_there && strstr(path, "hangs") && access(while_there, F_OK) == 0)
        usleep(1000);
}

static int open_late(const char *name, const char *path, int flags, mode_t permissions)
{
    hang(path);
    return ((opener *)dlsym(RTLD_NEXT, name))(path, flags, permissions);
}

typedef FILE *stream_opener(const char *, const char *);
typedef int finder(const char *, const char *, struct servent *, char *, size_t, struct servent **);

PUBLIC FILE *fopen(const char *path, const char *mode)
{
    hang(path);
    return ((stream_opener *)dlsym(RTLD_NEXT, "fopen"))(path, mode);
}

PUBLIC FILE *fopen64(const char *path, const char *mode)
{
    hang(path);
    return ((stream_opener *)dlsym(RTLD_NEXT, "fopen64"))(path, mode);
}

PUBLIC int getservbyname_r(const char *name, const char *protocol, struct servent *entry,
                           char *room, size_t size, struct servent **found)
{
    hang(name);
    return ((finder *)dlsym(RTLD_NEXT, "getservbyname_r"))(name, protocol, entry, room, size,
                                                           found);
}

// The headers may have it that one is the name of the other.
#undef open
#undef open64
PUBLIC int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t permissions = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_late("open", path, flags, permissions);
}

PUBLIC int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t permissions = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_late("open64", path, flags, permissions);
}

PUBLIC int posix_spawnp(pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[],
                        char *const environment[])
{
    hang(program);
    return ((spawner *)dlsym(RTLD_NEXT, "posix_spawnp"))(pid, program, actions, attributes,
                                                         arguments, environment);
}
