// SPDX-License-Identifier: MIT
// SQLite's library, loaded when a program first opens a database: programs that never do need not
// have it, and pay nothing for it.
#pragma once

#include <sqlite3.h>

#define MARE__SQLITE_FUNCTIONS(X)                                                                  \
    X(bind_blob64)                                                                                 \
    X(bind_double)                                                                                 \
    X(bind_int64)                                                                                  \
    X(bind_null)                                                                                   \
    X(bind_parameter_count)                                                                        \
    X(bind_parameter_index)                                                                        \
    X(bind_parameter_name)                                                                         \
    X(bind_text64)                                                                                 \
    X(busy_handler)                                                                                \
    X(clear_bindings)                                                                              \
    X(close)                                                                                       \
    X(column_blob)                                                                                 \
    X(column_bytes)                                                                                \
    X(column_count)                                                                                \
    X(column_double)                                                                               \
    X(column_int64)                                                                                \
    X(column_name)                                                                                 \
    X(column_text)                                                                                 \
    X(column_type)                                                                                 \
    X(errmsg)                                                                                      \
    X(errstr)                                                                                      \
    X(extended_errcode)                                                                            \
    X(extended_result_codes)                                                                       \
    X(finalize)                                                                                    \
    X(get_autocommit)                                                                              \
    X(last_insert_rowid)                                                                           \
    X(limit)                                                                                       \
    X(next_stmt)                                                                                   \
    X(open_v2)                                                                                     \
    X(prepare_v3)                                                                                  \
    X(progress_handler)                                                                            \
    X(reset)                                                                                       \
    X(step)                                                                                        \
    X(threadsafe)                                                                                  \
    X(total_changes64)

struct mare__sqlite_library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name
#define MARE__SQLITE_MEMBER(name) __typeof__(&sqlite3_##name) name;
    MARE__SQLITE_FUNCTIONS(MARE__SQLITE_MEMBER)
#undef MARE__SQLITE_MEMBER
};

// The library, or NULL and why there is none. Any thread that may block: it reads a file the first
// time. It is never unloaded.
const struct mare__sqlite_library *mare__sqlite_library(const char **why);
