// SPDX-License-Identifier: MIT
// What the bindings of protocols share with that of streams.
#pragma once

#include "loop/stream.h"
#include "lua/binding.h"
#include "wire/http.h"

// The stream at a stack index, or an error that names the argument: of a kind; a stream; a socket
// for datagrams; or any of these and listeners.
struct mare__stream *mare__lua_check_stream(lua_State *L, int index, enum mare__kind kind);
struct mare__stream *mare__lua_stream(lua_State *L, int index);
struct mare__stream *mare__lua_socket(lua_State *L, int index);
struct mare__stream *mare__lua_any_stream(lua_State *L, int index);

// A numeric host, and a port behind it; or a path, and nothing.
void mare__lua_address(lua_State *L, int host, struct mare__address *address);

// Pushes a new one; if it is NULL, `nil, message, "nomem"`.
int mare__lua_push_stream(lua_State *L, struct mare__stream *stream);

// The deadline of a call: from an optional timeout, or the stream's own.
uint64_t mare__lua_stream_deadline(lua_State *L, const struct mare__stream *stream, int index);

// Methods that streams, listeners and sockets share.
int mare__lua_stream_close(lua_State *L);
int mare__lua_stream_leave(lua_State *L);
int mare__lua_stream_timeout(lua_State *L);
int mare__lua_stream_limit(lua_State *L);
int mare__lua_stream_address(lua_State *L);
int mare__lua_stream_peer(lua_State *L);
int mare__lua_stream_option(lua_State *L); // in option.c
int mare__lua_stream_tostring(lua_State *L);

// Waits until the stream is ready to be read or written, then goes on with `then`, which begins
// with mare__lua_outcome. In a host, which has nothing to yield to, it returns MARE__WAITED, or
// what to return to Lua. (To call `then` would leave a frame on the stack for every time that a
// reader must wait.)
enum { MARE__WAITED = -1 };
int mare__lua_wait_stream(lua_State *L, struct mare__stream *stream, int way, uint64_t deadline,
                          lua_KFunction then, lua_KContext context);

// The same, with the deadline at a stack index. If nil is there, makes the deadline now, from the
// timeout at another index.
int mare__lua_wait_first(lua_State *L, struct mare__stream *stream, int way, int deadline,
                         int timeout, lua_KFunction then, lua_KContext context);
mare_err mare__lua_outcome(lua_State *L, struct mare__stream *stream);

// Pushes bytes that were read and are kept nowhere else. An error of memory loses them, and the
// stream cannot be read any more.
void mare__lua_push_read(lua_State *L, struct mare__stream *stream, const char *bytes, size_t size);

// Push `nil, message, code` for an errno value; for one that came from a stream, or from TLS; for
// what a wait for a stream ended with.
int mare__lua_fail_system(lua_State *L, int err);
mare_err mare__lua_code_of(int err);
int mare__lua_fail_io(lua_State *L, const struct mare__stream *stream, int err);
int mare__lua_fail_tls(lua_State *L, const struct mare__tls_error *error);
int mare__lua_fail_stream(lua_State *L, mare_err err);

// Reads the header fields from the table at an index: strings or numbers by name, or lists of them;
// into an array of MARE__LUA_FIELDS_MAX. Converted values stay on the stack, so that the spans stay
// valid.
enum { MARE__LUA_FIELDS_MAX = 128 };
size_t mare__lua_fields(lua_State *L, int table, struct mare__http_field *fields);

// A message with these fields was refused: raises an error that names the wrong field. Returns if
// the fields are all right.
void mare__lua_blame_field(lua_State *L, const struct mare__http_field *fields, size_t count,
                           enum mare__http_kind kind);

// Methods of streams that live in stream.c.
int mare__lua_stream_read(lua_State *L);
int mare__lua_stream_lines(lua_State *L);
int mare__lua_stream_write(lua_State *L);
int mare__lua_stream_writewithin(lua_State *L);

// Methods of streams that live in tls.c.
int mare__lua_stream_tls(lua_State *L);

// Pushes what a certificate says, as a table.
void mare__lua_push_peer(lua_State *L, const struct mare__tls_facts *facts);

// What a session weighs for the collector: OpenSSL's own, without buffers.
enum { MARE__TLS_WEIGHT = 16384 };

// Functions of the module mare._net that live in connect.c and resolve.c.
int mare__lua_net_open(lua_State *L);
int mare__lua_net_bind(lua_State *L);
int mare__lua_net_listen(lua_State *L);
int mare__lua_net_connect(lua_State *L);
int mare__lua_net_pair(lua_State *L);
int mare__lua_net_room(lua_State *L);
int mare__lua_net_left(lua_State *L);
int mare__lua_net_resolve(lua_State *L);

// Looks a name up, then goes on with `then`, which finds the lookup, a job, on top of the stack.
int mare__lua_look_up(lua_State *L, const char *host, uint64_t deadline, lua_KFunction then);

// Pushes the failure of a lookup that found nothing, or nothing useful: `why`, unless the lookup
// knows better.
int mare__lua_fail_lookup(lua_State *L, const char *host, const struct mare__resolving *naming,
                          const char *why);
