// SPDX-License-Identifier: MIT
// PostgreSQL's library (libpq), loaded when a program first connects: programs that never do need
// not have it, and pay nothing for it.
#pragma once

#include <libpq-fe.h>

#define MARE__POSTGRES_FUNCTIONS(X)                                                                \
    X(PQcancel)                                                                                    \
    X(PQclear)                                                                                     \
    X(PQcmdTuples)                                                                                 \
    X(PQconnectPoll)                                                                               \
    X(PQconnectStartParams)                                                                        \
    X(PQconninfoFree)                                                                              \
    X(PQconninfoParse)                                                                             \
    X(PQconsumeInput)                                                                              \
    X(PQerrorMessage)                                                                              \
    X(PQfinish)                                                                                    \
    X(PQflush)                                                                                     \
    X(PQfname)                                                                                     \
    X(PQfreeCancel)                                                                                \
    X(PQfreemem)                                                                                   \
    X(PQftype)                                                                                     \
    X(PQgetCancel)                                                                                 \
    X(PQgetCopyData)                                                                               \
    X(PQgetisnull)                                                                                 \
    X(PQgetlength)                                                                                 \
    X(PQgetResult)                                                                                 \
    X(PQgetvalue)                                                                                  \
    X(PQisBusy)                                                                                    \
    X(PQnfields)                                                                                   \
    X(PQnotifies)                                                                                  \
    X(PQntuples)                                                                                   \
    X(PQputCopyData)                                                                               \
    X(PQputCopyEnd)                                                                                \
    X(PQresultErrorField)                                                                          \
    X(PQresultErrorMessage)                                                                        \
    X(PQresultStatus)                                                                              \
    X(PQsendPrepare)                                                                               \
    X(PQsendQuery)                                                                                 \
    X(PQsendQueryParams)                                                                           \
    X(PQsendQueryPrepared)                                                                         \
    X(PQsetnonblocking)                                                                            \
    X(PQsetSingleRowMode)                                                                          \
    X(PQsocket)                                                                                    \
    X(PQstatus)                                                                                    \
    X(PQtransactionStatus)                                                                         \
    X(PQsetNoticeProcessor)

struct mare__postgres_library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name
#define MARE__POSTGRES_MEMBER(name) __typeof__(&name) name;
    MARE__POSTGRES_FUNCTIONS(MARE__POSTGRES_MEMBER)
#undef MARE__POSTGRES_MEMBER
};

// The library, or NULL and why there is none. Any thread that may block: it reads files the first
// time. It is never unloaded.
const struct mare__postgres_library *mare__postgres_library(const char **why);
