// SPDX-License-Identifier: MIT
// What a process takes that is blocked in a receive: its structure and its state, which fit into
// one block each. The C library counts the bytes of all blocks in use, so that a field or a block
// more of each process shows here, and not only in the benchmark (rows `parked` and `million`).
#include <malloc.h>
#include <stdio.h>

#include "mare_limits.h"
#include "runtime.h"

enum { PROCESSES = 2000 };

// Bytes in use, or 0 when the allocator is not the C library's.
static size_t bytes_in_use(void)
{
    return mallinfo2().uordblks;
}

static bool is_counted(void)
{
    size_t before = bytes_in_use();
    void *volatile block = malloc(100000);
    bool counted = bytes_in_use() >= before + 100000;
    free(block);
    return counted;
}

// Bytes of each of many processes that the program makes and leaves behind, parked.
static size_t bytes_of_each(const char *make)
{
    char code[1024];
    snprintf(code, sizeof code,
             "local m, n = require 'mare', ... local all = {} %s "
             "for i = 1, n do while all[i]:status() ~= 'blocked' do m.sleep(0.001) end end "
             "return true",
             make);
    mare_runtime *runtime = run_start(1);
    size_t before = 0, each[2];
    for (int round = 0; round < 2; round++) { // in the first one much is made once
        mare_message *arguments = run_message();
        mare_message_add_integer(arguments, PROCESSES);
        before = bytes_in_use();
        run_true(runtime, code, arguments);
        each[round] = (bytes_in_use() - before) / PROCESSES;
        mare_message_destroy(arguments);
    }
    mare_stop(runtime);
    return each[1];
}

static void at_most(const char *make, size_t most)
{
    if (!is_counted() || MARE__ARENA_PLAIN || MARE__ARENA_BASE < 5000)
        skip(); // a sanitizer's allocator, or a build with other sizes
    size_t bytes = bytes_of_each(make);
    printf("# %zu bytes each\n", bytes);
    if (bytes > most)
        fail_msg("a parked process takes %zu bytes, more than %zu", bytes, most);
    assert_true(bytes > 5000); // they were there
}

// The row `parked`: 7,665 bytes once, and three in a hundred more.
static void a_parked_process_fits_into_two_blocks(void **state)
{
    (void)state;
    at_most("local gate = m.channel() "
            "for i = 1, n do all[i] = m.spawn(function(c) c:receive() end, gate) end",
            7895);
}

// The row `million`: 8 GiB, less what the program that made them keeps of each.
static void one_with_two_channels_takes_a_little_more(void **state)
{
    (void)state;
    at_most("local answers = m.channel() "
            "local function serve(requests, answers) "
            "    while true do answers:send(requests:receive() + 1) end "
            "end "
            "for i = 1, n do all[i] = m.spawn(serve, m.channel(), answers) end",
            8450);
}

UNIT_TESTS(cmocka_unit_test(a_parked_process_fits_into_two_blocks),
           cmocka_unit_test(one_with_two_channels_takes_a_little_more))
