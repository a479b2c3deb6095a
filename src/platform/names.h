// SPDX-License-Identifier: MIT
// Names of hosts, both ways, by the system's resolver. Each call waits for as long as that takes:
// for threads that may.
#pragma once

#include "platform/socket.h"

struct mare__naming {
    int family;                                          // forward: AF_UNSPEC, AF_INET or AF_INET6
    bool must_exist;                                     // back: a number is no name
    int status;                                          // 0, or for mare__naming_error
    struct mare__address addresses[MARE__ADDRESSES_MAX]; // back: of the first
    int count;
    char name[1025]; // back; forward, the canonical one
};

void mare__naming_forward(struct mare__naming *naming, const char *host);
void mare__naming_back(struct mare__naming *naming);

// In the words of LuaSocket.
const char *mare__naming_error(int status);
