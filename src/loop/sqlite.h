// SPDX-License-Identifier: MIT
// Databases of SQLite, used by threads of the pool: each call is a job. A connection does one job
// at a time, and belongs to the process that opened it.
#pragma once

#include "loop/job.h"
#include "wire/bytes.h"

// A value on its way: integers and floats as they are in memory, text, bytes, nothing.
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

// Appends one. MARE_NOMEM: nothing has changed.
mare_err mare__sqlite_put(struct mare__bytes *bytes, enum mare__sqlite_tag tag, const void *data,
                          size_t size);

// The value at *at, which moves on to the next one.
struct mare__sqlite_value mare__sqlite_take(const char **at);

struct mare__connection; // one with a database: held by the program and by jobs
struct mare__cursor;     // a statement with more rows to come: likewise

struct mare__sqlite_job {
    struct mare__job job;
    void (*act)(struct mare__sqlite_job *job); // on a thread of the pool, alone with the connection
    struct mare__connection *connection;       // a reference, from the opening on
    struct mare__cursor *cursor;               // to read from, or made: a reference; NULL: none

    // What it is given.
    struct mare__bytes text;   // a path or SQL, with a zero at the end
    size_t offset;             // of the statement in it: if it fails, of the one that did
    struct mare__bytes values; // of the parameters, each after its name if they are `named`
    int count;                 // of values
    int flags;                 // of the opening
    int limit;                 // of the opening: bytes of a value, or of SQL
    unsigned most;             // rows at once; 0: they are not wanted
    bool named;
    bool inside;    // a transaction, which must still be open
    bool is_script; // there may be several statements

    // What comes of it.
    struct mare__bytes names; // of the columns, as values
    struct mare__bytes rows;  // values
    int columns;
    unsigned found;            // rows
    int64_t changes, last_row; // of a statement that is over
    int code;                  // 0, SQLite's, or SQLITE_MISUSE for ours, with `err`
    mare_err err;              // what it is for us, if SQLite has no word for it
    bool was_busy;             // another connection was in the way: it may be tried again
    char message[512];
};

// A job for a connection, which may be NULL for one that opens; the caller fills in more. NULL: not
// enough memory.
struct mare__sqlite_job *mare__sqlite_job_new(mare_runtime *runtime,
                                              void (*act)(struct mare__sqlite_job *job),
                                              struct mare__connection *connection);

// For a job that shall go on with the rows of another.
void mare__sqlite_follow(struct mare__sqlite_job *job, const struct mare__sqlite_job *first);

void mare__sqlite_open(struct mare__sqlite_job *job);  // text, flags, limit; connection
void mare__sqlite_run(struct mare__sqlite_job *job);   // text, offset, values, most, ...
void mare__sqlite_more(struct mare__sqlite_job *job);  // cursor, most
void mare__sqlite_close(struct mare__sqlite_job *job); // also those of other jobs find it closed
