// SPDX-License-Identifier: MIT
// Names of hosts, both ways, by the system's resolver. The functions wait for as long as that
// takes: they are for threads that may.
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

// The addresses of a name, and the name of an address.
void mare__resolve_addresses(struct mare__resolving *naming, const char *host);
void mare__resolve_name(struct mare__resolving *naming);

// The number of a service, by number or name ("http"), or -1; the name of a number.
int mare__service_number(const char *name, bool datagrams);
void mare__service_name(int number, char name[MARE__HOST_MAX]);

const char *mare__resolve_error(int status);
const char *mare__resolve_words(int status); // in those of LuaSocket
