// SPDX-License-Identifier: MIT
// The options of sockets, by name: those of streams, listeners and datagrams, in Maré's words and
// in LuaSocket's. Functions return 0, or an errno value, negated.
#pragma once

#include "platform/socket.h"

enum mare__option_kind {
    MARE__OPTION_FLAG,
    MARE__OPTION_NUMBER,
    MARE__OPTION_BYTES,
    MARE__OPTION_HOPS,
    MARE__OPTION_LINGER,    // a flag and seconds
    MARE__OPTION_INTERFACE, // its name, its number or, with IPv4, its address
    MARE__OPTION_ERROR      // what became of the socket, an errno value; it is forgotten then
};

struct mare__option {
    const char *name;
    enum mare__option_kind kind;
    int level, number; // the system's name for it
    int of_six;        // the number with IPv6, if that has a name of its own; else 0
};

struct mare__option_value {
    int number; // or whether it is on
    int seconds;
    char interface[MARE__HOST_MAX];
};

// NULL: there is none of that name.
const struct mare__option *mare__option_find(const char *name);
int mare__option_set(int fd, const struct mare__option *option,
                     const struct mare__option_value *value);
int mare__option_get(int fd, const struct mare__option *option, struct mare__option_value *value);

// Turns on an option that exists and is a flag.
int mare__option_turn_on(int fd, const char *name);
