// SPDX-License-Identifier: MIT
// Finds the functions of SQLite in its shared library. The first caller loads it, the others wait
// for that. Afterwards nothing changes.
#include "platform/sqlite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static struct mare__sqlite_library library;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256]; // empty: it is there

static void load(void)
{
    void *handle = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof failure, "SQLite cannot be loaded: %s", dlerror());
        return;
    }
#define FIND(name)                                                                                 \
    *(void **)&library.name = dlsym(handle, "sqlite3_" #name);                                     \
    if (!library.name)                                                                             \
        snprintf(failure, sizeof failure, "this SQLite is too old: it has no sqlite3_" #name);
    MARE__SQLITE_FUNCTIONS(FIND)
#undef FIND
    if (!failure[0] && !library.threadsafe())
        snprintf(failure, sizeof failure, "this SQLite was built for a single thread");
}

const struct mare__sqlite_library *mare__sqlite_library(const char **why)
{
    pthread_once(&once, load);
    *why = failure;
    return failure[0] ? NULL : &library;
}
