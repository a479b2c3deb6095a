// SPDX-License-Identifier: MIT
// The link's machine as a table of functions, so that the world can be run with the real one, with
// one that breaks a rule (tests/link/broken.py makes those), or with one of each.
#pragma once

#include "wire/link.h"

#define LINK_FUNCTIONS(X)                                                                          \
    X(memory_most)                                                                                 \
    X(create)                                                                                      \
    X(destroy)                                                                                     \
    X(tick)                                                                                        \
    X(input)                                                                                       \
    X(target)                                                                                      \
    X(filled)                                                                                      \
    X(next)                                                                                        \
    X(output)                                                                                      \
    X(sent)                                                                                        \
    X(deadline)                                                                                    \
    X(accept)                                                                                      \
    X(refuse)                                                                                      \
    X(judge)                                                                                       \
    X(peer)                                                                                        \
    X(broken)                                                                                      \
    X(redial)                                                                                      \
    X(resume)                                                                                      \
    X(open)                                                                                        \
    X(consumed)                                                                                    \
    X(close)                                                                                       \
    X(send)                                                                                        \
    X(room)                                                                                        \
    X(end)                                                                                         \
    X(bye)                                                                                         \
    X(quit)                                                                                        \
    X(look)

struct link_machine {
    const char *name;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name
#define LINK_FIELD(function) __typeof__(mare__link_##function) *function;
    LINK_FUNCTIONS(LINK_FIELD)
#undef LINK_FIELD
};

extern const struct link_machine link_real;
