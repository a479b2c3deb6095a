// SPDX-License-Identifier: MIT
// How often a large message is copied. The blocks and copies of our code and of Lua's, which is
// linked in, are counted, by the linker's --wrap, while a message crosses from one process to
// another, be it on a rendezvous or in a buffer, be the receiver there first or the sender. What
// the design allows (docs/architecture.md, docs/decisions/010): a string is copied into the message
// and out of it, into a block of the receiver's; a buffer is not copied at all.
#include <malloc.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "runtime.h"

enum { MIB = 1 << 20, LEAST = MIB }; // what counts as large

static atomic_bool counts;
static atomic_ulong births; // large blocks that are new
static atomic_ulong copied; // bytes, by large copies

// The linker's: what is called in the place of a function, and the function itself.
void *__wrap_mare__alloc(size_t size);
void *__real_mare__alloc(size_t size);
void *__wrap_mare__realloc(void *block, size_t size);
void *__real_mare__realloc(void *block, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__real_memcpy(void *to, const void *from, size_t size);

static void note_block(size_t size)
{
    if (size >= LEAST && atomic_load(&counts))
        atomic_fetch_add(&births, 1);
}

void *__wrap_mare__alloc(size_t size)
{
    note_block(size);
    return __real_mare__alloc(size);
}

// A large block that grows is no new one: the C library moves it without copying.
void *__wrap_mare__realloc(void *block, size_t size)
{
    if (!block || malloc_usable_size(block) < LEAST)
        note_block(size);
    return __real_mare__realloc(block, size);
}

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    if (size >= LEAST && atomic_load(&counts))
        atomic_fetch_add(&copied, size);
    return __real_memcpy(to, from, size);
}

// Whether copies are seen: a sanitizer has its own memcpy.
static bool sees_copies(void)
{
    char *from = calloc(1, LEAST), *to = malloc(LEAST);
    volatile size_t size = LEAST; // so that it is a call
    assert_true(from && to);
    atomic_store(&copied, 0);
    atomic_store(&counts, true);
    memcpy(to, from, size);
    atomic_store(&counts, false);
    free(from);
    free(to);
    return atomic_load(&copied) == LEAST;
}

// Arguments: the channel, two to talk to this program, who is to be there first, and what makes the
// message. A message is made before the counting begins, and looked at when it is over.
static const char program[] =
    "local data, mark, go, first, make = ...\n"
    "local mare = require 'mare'\n"
    "local made, send, receive, got = mare.channel(), mare.channel(), mare.channel(),\n"
    "    mare.channel()\n"
    "local sender = mare.spawn(function()\n"
    "    local value = load(make)()\n"
    "    made:send(true)\n"
    "    send:receive()\n"
    "    data:send(value)\n"
    "end)\n"
    "local receiver = mare.spawn(function()\n"
    "    receive:receive()\n"
    "    local value = data:receive()\n"
    "    local size = type(value) ~= 'table' and #value or 0\n"
    "    for _, part in ipairs(type(value) == 'table' and value or {}) do size = size + #part end\n"
    "    got:send(size)\n"
    "end)\n"
    "local function let(process, channel)\n"
    "    channel:send(true)\n"
    "    repeat\n"
    "        mare.yield()\n"
    "        local status = process:status()\n"
    "    until status == 'blocked' or status == 'finished'\n"
    "end\n"
    "made:receive()\n"
    "mark:send(0)\n"
    "go:receive()\n"
    "if first == 'sender' then let(sender, send) receive:send(true)\n"
    "else let(receiver, receive) send:send(true) end\n"
    "mark:send(got:receive())\n"
    "return true\n";

static void add_string(mare_message *message, const char *text)
{
    mare_value value = {.type = MARE_STRING, .as.string = {text, strlen(text)}};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
}

// Lets what `make` makes, 16 MiB of it, cross, and counts.
static void cross(size_t capacity, const char *first, const char *make)
{
    mare_runtime *runtime = run_start(2);
    mare_channel *data = run_channel(runtime, capacity), *mark = run_channel(runtime, 0),
                 *go = run_channel(runtime, 0);
    mare_message *arguments = run_message(), *result = NULL;
    run_add_channel(arguments, data);
    run_add_channel(arguments, mark);
    run_add_channel(arguments, go);
    add_string(arguments, first);
    add_string(arguments, make);
    mare_process *process = run_spawn(runtime, program, arguments);
    assert_int_equal(run_receive_integer(runtime, mark), 0);
    atomic_store(&births, 0);
    atomic_store(&copied, 0);
    atomic_store(&counts, true);
    run_send_integer(runtime, go, 1);
    int64_t size = run_receive_integer(runtime, mark);
    atomic_store(&counts, false);
    assert_int_equal(size, 16 * MIB);
    assert_int_equal(run_join(runtime, process, &result), MARE_OK);
    mare_message_destroy(result);
    mare_message_destroy(arguments);
    mare_chan_unref(data);
    mare_chan_unref(mark);
    mare_chan_unref(go);
    mare_stop(runtime);
}

// In each of the ways there are.
static void crosses(const char *make, unsigned long blocks, unsigned long bytes)
{
    bool sees = sees_copies();
    for (int way = 0; way < 4; way++) {
        cross(way & 1, way & 2 ? "sender" : "receiver", make);
        if (atomic_load(&births) != blocks)
            fail_msg("way %d: %lu large blocks, not %lu", way, atomic_load(&births), blocks);
        if (sees && atomic_load(&copied) != bytes)
            fail_msg("way %d: %lu bytes were copied, not %lu", way, atomic_load(&copied), bytes);
    }
}

// The message's, and that of the receiver's string.
static void a_string_is_written_once_and_read_once(void **state)
{
    (void)state;
    crosses("return ('x'):rep(16 << 20)", 2, 2 * 16 * MIB);
}

// The message's, which grows, and those of the receiver's strings.
static void so_is_a_table(void **state)
{
    (void)state;
    crosses("local t = {} for i = 1, 16 do t[i] = string.char(96 + i):rep(1 << 20) end return t",
            1 + 16, 2 * 16 * MIB);
}

static void a_buffer_is_not_copied(void **state)
{
    (void)state;
    crosses("return require 'mare'.buffer(16 << 20)", 0, 0);
}

UNIT_TESTS(cmocka_unit_test(a_string_is_written_once_and_read_once),
           cmocka_unit_test(so_is_a_table), cmocka_unit_test(a_buffer_is_not_copied))
