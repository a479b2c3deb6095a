// SPDX-License-Identifier: MIT
// Finds the functions of libpq in its shared library, as sqlite.c does.
#include "platform/postgres.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static struct mare__postgres_library library;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256]; // empty: it is there

static void load(void)
{
    void *handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof failure, "libpq cannot be loaded: %s", dlerror());
        return;
    }
#define FIND(name)                                                                                 \
    *(void **)&library.name = dlsym(handle, #name);                                                \
    if (!library.name)                                                                             \
        snprintf(failure, sizeof failure, "this libpq is too old: it has no " #name);
    MARE__POSTGRES_FUNCTIONS(FIND)
#undef FIND
}

const struct mare__postgres_library *mare__postgres_library(const char **why)
{
    pthread_once(&once, load);
    *why = failure;
    return failure[0] ? NULL : &library;
}
