// SPDX-License-Identifier: MIT
// Databases of SQLite. Each call is a job on a thread of the pool. A connection does one job at a
// time, and belongs to the process that opened it.
#pragma once

#include "loop/job.h"
#include "wire/bytes.h"

// The kinds of a value in a message: integers and floats as they are in memory, text, bytes,
// nothing.
enum mare__sqlite_tag {
    MARE__SQLITE_NULL = 'n',
    MARE__SQLITE_INTEGER = 'i',
    MARE__SQLITE_FLOAT = 'f',
    MARE__SQLITE_TEXT = 't',
    MARE__SQLITE_BLOB = 'b'
};

struct mare__sqlite_value {
    enum mare__sqlite_tag tag;
    const char *at;
    size_t size;
};

// Appends a value. MARE_NOMEM: nothing has changed.
mare_err mare__sqlite_put(struct mare__bytes *bytes, enum mare__sqlite_tag tag, const void *data,
                          size_t size);

// Reads the value at *at, and moves *at to the next one.
struct mare__sqlite_value mare__sqlite_take(const char **at);

struct mare__connection; // one with a database: held by the program and by jobs
struct mare__cursor;     // a statement with more rows to come: held by jobs

struct mare__sqlite_job {
    struct mare__job job;
    void (*act)(struct mare__sqlite_job *job); // the work; on a thread of the pool, alone with the
                                               // connection
    struct mare__connection *connection;       // a reference, once it is open
    struct mare__cursor *cursor;               // to read from, or newly made: a reference; NULL:
                                               // none

    // What the caller fills in.
    struct mare__bytes text;   // a path or SQL, with a zero at the end
    size_t offset;             // where the statement in it begins; then of the one that failed
    struct mare__bytes values; // of the parameters; if `named`, each follows its name
    int count;                 // of values
    int flags;                 // for opening
    int limit;                 // for opening: the most bytes of a value, or of SQL
    unsigned most;             // rows in a batch; 0: no rows are wanted
    bool named;
    bool inside;    // only inside a transaction, which must still be open
    bool is_script; // the text may have several statements

    // The results.
    struct mare__bytes names; // of the columns, as values
    struct mare__bytes rows;  // values
    int columns;
    unsigned found;            // how many rows
    int64_t changes, last_row; // of a statement that has ended
    int code;                  // 0, a code of SQLite, or SQLITE_MISUSE for our own, with `err`
    mare_err err;              // our own code, where SQLite has none
    bool was_busy;             // another connection was in the way: it may be tried again
    char message[512];
};

// A job for a connection; NULL for the job that opens one. The caller fills in the rest. NULL: not
// enough memory.
struct mare__sqlite_job *mare__sqlite_job_new(mare_runtime *runtime,
                                              void (*act)(struct mare__sqlite_job *job),
                                              struct mare__connection *connection);

// Makes a job go on with the rows of an earlier one.
void mare__sqlite_follow(struct mare__sqlite_job *job, const struct mare__sqlite_job *first);

// The owner wants no more rows. The statement is reset before any job that starts later, even if
// another thread still holds it. Any thread; does not block.
void mare__sqlite_discard(struct mare__sqlite_job *job);

void mare__sqlite_open(struct mare__sqlite_job *job);  // text, flags, limit; connection
void mare__sqlite_run(struct mare__sqlite_job *job);   // text, offset, values, most, ...
void mare__sqlite_more(struct mare__sqlite_job *job);  // cursor, most
void mare__sqlite_close(struct mare__sqlite_job *job); // closes it for all its jobs
