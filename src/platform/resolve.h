// SPDX-License-Identifier: MIT
// Looks up names of hosts and services, and the reverse, for a runtime's platform. These functions
// block for as long as it takes, so call them on threads that may block. The live ones ask the
// system.
#pragma once

#include "platform/socket.h"

enum { MARE__ADDRESSES_MAX = 16, MARE__NAME_MAX = 1025 };

struct mare__resolving {
    int family;     // to addresses: AF_UNSPEC, AF_INET or AF_INET6
    bool canonical; // to addresses: the host's proper name is wanted too, and addresses of families
                    // that this machine has no other address of
    bool must_exist;            // to a name: a number is none
    bool is_service, datagrams; // to a port, of a service of that name, and to its name: instead
    int port;                   // of a host; -1: there is none
    int err;                    // what kept the resolver from looking, an errno value, or 0
    int status;                 // 0, or for mare__resolve_error
    struct mare__address addresses[MARE__ADDRESSES_MAX]; // to a name: of the first
    int count;
    char name[MARE__NAME_MAX];
};

// The context is that of the platform.
struct mare__names {
    // The addresses of a name, and the name of an address.
    void (*find_addresses)(void *context, struct mare__resolving *naming, const char *host);
    void (*find_name)(void *context, struct mare__resolving *naming);

    // The number of a service, by number or name ("http"), or -1; the name of a number.
    int (*service_number)(void *context, const char *name, bool datagrams);
    void (*service_name)(void *context, int number, char name[MARE__HOST_MAX]);
};

extern const struct mare__names mare__names_live;

const char *mare__resolve_error(int status);
const char *mare__resolve_words(int status); // in those of LuaSocket
