// SPDX-License-Identifier: MIT
// What the bindings of HTTP share: the reader, functions in Lua that live in http_serve.c,
// http_write.c and base64.c, and what HTTP/2 has in common with HTTP/1.1.
#pragma once

#include "lua/net.h"

// ---- The reader ---------------------------------------------------------------------------------
// A userdata. Its first value is the string of the methods that it knows, its second the request
// that the program handles.
struct mare__lua_reader {
    struct mare__http_reader http;
    bool awaits;       // it waits for a head
    bool lost;         // there was no memory for something that was read: nothing can follow it
    bool inside;       // a function of the program is handling a request
    uint32_t requests; // requests that mare__lua_http_serve has answered
    uint64_t turn;     // how often `inside` was set
    uint64_t ends;     // messages that have ended
};

// The places of the arguments, and of two values of a wait: its deadline or nil, and whether the
// message has begun.
enum { MARE__READER = 1, MARE__READ_FROM, MARE__PATIENCE, MARE__HURRY, MARE__UNTIL, MARE__BEGUN };

enum mare__reading { MARE__READ_HEAD, MARE__READ_BODY, MARE__READ_TO_SERVE };

struct mare__lua_reader *mare__lua_reader(lua_State *L);

// Begins to read. Pushes the results and returns how many; one if it went well. If a read of the
// server has to wait, it goes on in mare__lua_http_serve_on.
int mare__lua_http_read(lua_State *L, enum mare__reading what);
int mare__lua_http_serve_on(lua_State *L, int results);
int mare__lua_http_serve(lua_State *L);
int mare__lua_http_new_clock(lua_State *L);

// The program begins, or ends, to handle the request at the index.
void mare__lua_http_enter(lua_State *L, struct mare__lua_reader *reader, int index);
void mare__lua_http_leave(lua_State *L, struct mare__lua_reader *reader);

// ---- Heads and bodies ---------------------------------------------------------------------------

// Names in Lua.
enum mare__http_key {
    MARE__KEY_METHOD,
    MARE__KEY_TARGET,
    MARE__KEY_FORM,
    MARE__KEY_PATH,
    MARE__KEY_QUERY,
    MARE__KEY_HOST,
    MARE__KEY_EXPECTS,
    MARE__KEY_STATUS,
    MARE__KEY_REASON,
    MARE__KEY_INTERIM,
    MARE__KEY_MINOR,
    MARE__KEY_KEEP_ALIVE,
    MARE__KEY_UPGRADE,
    MARE__KEY_HAS_BODY,
    MARE__KEY_LENGTH,
    MARE__KEY_HEADERS,
    MARE__KEY_STREAM,
    MARE__KEY_PEER,
    MARE__KEY_TAKEN,
    MARE__KEY_GONE,
    MARE__KEY_LOOKING,
    MARE__KEY_ENDING,
    MARE__KEYS
};

// Pushes a head as a table; returns 1. `own`: the function that runs has the names, in the order of
// mare__http_key, as its first values.
int mare__lua_http_push_head(lua_State *L, const struct mare__http_head *head,
                             enum mare__http_kind kind, bool own);

// Sets the limits that the table at index 2 has, if there is one.
void mare__lua_http_limits(lua_State *L, struct mare__http_limits *limits);

// Called before a text of that size is written: what the system may keep of it.
void mare__lua_http_prepare(struct mare__stream *stream, size_t size);

int mare__lua_http_response(lua_State *L);
int mare__lua_http_request(lua_State *L);
int mare__lua_http_write(lua_State *L);
int mare__lua_http_begin(lua_State *L);
int mare__lua_http_send_file(lua_State *L);
int mare__lua_encode64(lua_State *L);
int mare__lua_decode64(lua_State *L);
