// SPDX-License-Identifier: MIT
// Names of hosts, both ways, looked up by the threads of the loop.
#pragma once

#include "platform/loop.h"

struct mare__naming {
    union {
        uv_getaddrinfo_t forward;
        uv_getnameinfo_t back;
    } uv;
    int family;                                          // forward: AF_UNSPEC, AF_INET or AF_INET6
    bool must_exist;                                     // back: a number is no name
    int status;                                          // 0, or for mare__naming_error
    struct mare__address addresses[MARE__ADDRESSES_MAX]; // back: of the first
    int count;
    char name[1025]; // back; forward, the canonical one
    void (*done)(struct mare__naming *naming);
};

// `done` is called, perhaps at once.
void mare__naming_forward(struct mare__loop *loop, struct mare__naming *naming, const char *host);
void mare__naming_back(struct mare__loop *loop, struct mare__naming *naming);

// In the words of LuaSocket.
const char *mare__naming_error(int status);
