// SPDX-License-Identifier: MIT
// What the bindings share: checking arguments and returning failures.
#pragma once

#include "base/error.h"
#include "sched/block.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/marshal.h"
#include "wire/bytes.h"

// Raises failures that no program expects, because a program that ignored them would go wrong:
// nothing can move any more, or the program was interrupted.
void mare__lua_raise_unexpected(lua_State *L, mare_err err);

// Pushes `nil, message, code`; returns 3.
int mare__lua_fail(lua_State *L, mare_err err);

// The same with a message of its own, already pushed.
int mare__lua_fail_with(lua_State *L, mare_err err);

// For the step of a loop that has pushed these results. Of `nil, message, "closed"` it leaves only
// nil, which ends the loop. Any other failure becomes an error. Returns how many results are left.
int mare__lua_step(lua_State *L, int results);

// Raises the message on top of the stack, with the place in the program before it.
int mare__lua_refuse(lua_State *L);

// Raises the error of an allocation that failed.
_Noreturn void mare__lua_no_memory(lua_State *L);

// Pushes bytes as a string. False: there is no memory, and the error is pushed instead. For
// functions that must free something before they raise it.
bool mare__lua_try_push(lua_State *L, const void *bytes, size_t size);

// The same for bytes that are always freed. Raises the error itself.
void mare__lua_push_bytes(lua_State *L, struct mare__bytes *bytes);

// The reference at a stack index, or an error that names the argument.
_Noreturn void mare__lua_no_reference(lua_State *L, int index, const void *ref, const char *what);

// The reference of a kind at a stack index, which may be empty (sent, or finalized); or that error.
struct mare__reference *mare__lua_reference(lua_State *L, int index, enum mare__kind kind);

// The channel at a stack index: the slow path, for a channel that the process has not used lately.
mare_channel *mare__lua_channel_unknown(lua_State *L, int index);

static inline mare_channel *mare__lua_channel(lua_State *L, int index)
{
    const struct mare__local *process = mare__self(L);
    const struct mare__reference *ref = lua_touserdata(L, index);
    bool known = ref && (ref == process->known[0] || ref == process->known[1]);
    if (__builtin_expect(known, 1))
        return (mare_channel *)ref->object;
    return mare__lua_channel_unknown(L, index);
}
mare_process *mare__lua_process(lua_State *L, int index);

// What the argument of a read asks for: 's'ome bytes, a 'n'umber of them, a 'l'ine, an 'L'ine with
// its end, 'a'll.
char mare__lua_kind_of_read(lua_State *L, int index, size_t *number);

// Raises an error unless all options in the table at `index` are among `names`, separated by
// blanks: a misspelt one would have no effect, and nobody would know.
void mare__lua_check_options(lua_State *L, int index, const char *names);

// The error of an option in the table at `index` that has a value which it cannot have.
int mare__lua_option_error(lua_State *L, int index, const char *name, const char *must_be);

// A name: a string argument without zero bytes, which would cut it short.
const char *mare__lua_name(lua_State *L, int index);

// The point in time of an optional timeout: seconds from now, or a deadline.
uint64_t mare__lua_deadline(lua_State *L, int index);

// Opens the module in a state of ours.
int mare__lua_open(lua_State *L);

// As mare_start, on a platform that is not the machine's own.
mare_err mare__start_on(const struct mare__platform *platform, const mare_options *options,
                        mare_runtime **out);
int mare__lua_open_luaproc(lua_State *L);
int mare__lua_open_group(lua_State *L);
int mare__lua_open_node(lua_State *L);
int mare__lua_open_sim(lua_State *L);
int mare__lua_open_place(lua_State *L);
int mare__lua_open_time(lua_State *L);
int mare__lua_open_net(lua_State *L);
int mare__lua_open_http(lua_State *L);
int mare__lua_open_http2(lua_State *L);
int mare__lua_open_json(lua_State *L);
int mare__lua_open_websocket(lua_State *L);
int mare__lua_open_zip(lua_State *L);
int mare__lua_open_secret(lua_State *L);
int mare__lua_open_tls(lua_State *L);
int mare__lua_open_certificate(lua_State *L);
int mare__lua_open_file(lua_State *L);
int mare__lua_open_child(lua_State *L);
int mare__lua_open_signal(lua_State *L);
int mare__lua_open_log(lua_State *L);
int mare__lua_open_terminal(lua_State *L);
int mare__lua_open_source(lua_State *L);
int mare__lua_open_socket(lua_State *L);
int mare__lua_open_sqlite(lua_State *L);
int mare__lua_open_postgres(lua_State *L);

// Runs one of the embedded Lua modules, and pushes what it returns, as the first `require` of it
// would. Works also where no file of it exists, and where the program may not require it.
void mare__lua_push_embedded(lua_State *L, const char *name);

// Calls a function of the module `mare.node` with all that is on the stack, for requests about
// other nodes. Returns how many results there are.
int mare__lua_node(lua_State *L, const char *function);

// Pushes `nil, message, code` for a wait for a source that ended with `err`. If the source has
// ended, says why.
int mare__lua_fail_source(lua_State *L, struct mare__object *object, mare_err err);

// Returns what join returns for a process that has finished.
int mare__lua_push_end(lua_State *L, mare_process *process);

// The same for a child: "exit", code; or "signal", number.
int mare__lua_push_child_end(lua_State *L, struct mare__object *child);

// The name of the signal that the process has received, or why there is none.
int mare__lua_push_signal(lua_State *L, struct mare__object *signals, mare_err err,
                          mare_message *message);

// Pushes the values of a message from another node. If they cannot be read here, pushes `nil,
// message, "badmsg"`: what others send must not make a receiver fail. Returns how many values.
int mare__lua_push_foreign(lua_State *L, mare_message *message);

// Whether a message can go to a channel of another node. If not, it is cleared, what would have
// left with it stays here, and `nil, message, code` is pushed.
bool mare__lua_can_leave(lua_State *L, mare_channel *channel, mare_message *message,
                         struct mare__leaving **leaving);

extern const luaL_Reg mare__channel_methods[], mare__channel_metamethods[];
extern const luaL_Reg mare__process_methods[], mare__process_metamethods[];
extern const luaL_Reg mare__buffer_methods[], mare__buffer_metamethods[];
extern const luaL_Reg mare__stream_methods[], mare__listener_methods[], mare__stream_metamethods[];
extern const luaL_Reg mare__udp_methods[], mare__udp_metamethods[];
extern const luaL_Reg mare__tls_methods[];
extern const luaL_Reg mare__secret_metamethods[];
extern const luaL_Reg mare__file_methods[], mare__folder_methods[], mare__file_metamethods[];
extern const luaL_Reg mare__watch_methods[], mare__watch_metamethods[];
extern const luaL_Reg mare__timer_methods[], mare__timer_metamethods[];
extern const luaL_Reg mare__child_metamethods[], mare__signals_methods[],
    mare__signals_metamethods[];
extern const luaL_Reg mare__source_methods[], mare__source_metamethods[];
extern const luaL_Reg mare__session_methods[];

// What a select receives from: see struct mare__class.
mare_err mare__stream_await(struct mare__object *object, mare_channel **channel);
mare_err mare__child_await_end(struct mare__object *object, mare_channel **channel);
mare_err mare__signals_await(struct mare__object *object, mare_channel **channel);
mare_err mare__watch_await(struct mare__object *object, mare_channel **channel);
mare_err mare__timer_await(struct mare__object *object, mare_channel **channel);
mare_err mare__source_events(struct mare__object *object, mare_channel **channel);

// Functions of the module `mare` that live in other files.
int mare__lua_spawn(lua_State *L);
int mare__lua_channel_new(lua_State *L);
int mare__lua_box_new(lua_State *L); // of src/node, but made as others are
int mare__lua_select(lua_State *L);
int mare__lua_buffer_new(lua_State *L);
int mare__lua_wait(lua_State *L);
int mare__lua_go(lua_State *L);
int mare__lua_heir(lua_State *L);
int mare__lua_appoint(lua_State *L);
int mare__lua_needs_routines(lua_State *L);
int mare__lua_routine(lua_State *L);
int mare__lua_timer(lua_State *L);

// Opens a module in the state of a host, such as the stock interpreter; the first one starts the
// runtime.
int mare__lua_host_open(lua_State *L, lua_CFunction open);
