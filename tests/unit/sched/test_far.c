// SPDX-License-Identifier: MIT
// A channel of another node, as the scheduler sees it, when memory is short. Here the test is the
// other node: it answers when it is asked, and takes no buffers.
#include <sched.h>

#include "base/alloc.h"
#include "chan/channel.h"
#include "runtime.h"
#include "sched/process.h"

struct elsewhere {
    struct mare__far far;
    mare_channel *face;    // what a program has
    mare_channel *gate;    // before which it waits
    mare_message *message; // what comes when somebody waits, once
};

static struct elsewhere *elsewhere_of(const struct mare__far *far)
{
    return (struct elsewhere *)far;
}

// The message is there already: an answer asks for no memory.
static void answer(struct mare__far *far)
{
    mare__chan_send(far->in, elsewhere_of(far)->message, NULL);
}

static void close_it(struct mare__far *far)
{
    mare_chan_close(far->in);
}

// There is no memory left from here on.
static mare_err refuse(const struct mare__far *far, const mare_message *message, const char **why)
{
    (void)far, (void)message;
    mare__alloc_fail_after(1);
    *why = "it cannot leave";
    return MARE_BADMSG;
}

// The test holds it.
static void let_be(struct mare__far *far)
{
    (void)far;
}

static void elsewhere_init(struct elsewhere *e, mare_runtime *runtime)
{
    e->face = run_channel(runtime, 1);
    e->gate = run_channel(runtime, 0);
    e->message = run_message();
    assert_int_equal(mare_message_add_integer(e->message, 1), MARE_OK);
    e->far = (struct mare__far){.in = run_channel(runtime, 1),
                                .ask = answer,
                                .close = close_it,
                                .check = refuse,
                                .hold = let_be,
                                .release = let_be};
    e->face->far = e->far.in->far = &e->far;
}

static void elsewhere_fini(struct elsewhere *e)
{
    e->face->far = e->far.in->far = NULL;
    mare_chan_unref(e->face);
    mare_chan_unref(e->far.in);
    mare_chan_unref(e->gate);
    mare_message_destroy(e->message);
}

static mare_process *spawn_with(mare_runtime *runtime, const struct elsewhere *e, const char *code)
{
    mare_message *arguments = run_message();
    run_add_channel(arguments, e->face);
    run_add_channel(arguments, e->gate);
    mare_process *process = run_spawn(runtime, code, arguments);
    mare_message_destroy(arguments);
    return process;
}

// Lets it go on, waits for its end as long as memory is short, and then sees how that was. It must
// have returned true; if an allocation has failed, it may have died instead. Returns whether one
// has.
static bool failed_until_its_end(mare_runtime *runtime, const struct elsewhere *e,
                                 mare_process *process, bool may_die)
{
    mare_chan_close(e->gate);
    mare_message *result = NULL;
    mare_value value = {.type = MARE_NIL};
    uint64_t deadline = run_soon(runtime);
    while (strcmp(mare__process_status(process), "finished") != 0) {
        assert_true(mare_now_ns(runtime) < deadline);
        sched_yield();
    }
    bool failed = mare__alloc_has_failed();
    mare__alloc_fail_after(0);
    mare_err err = run_join(runtime, process, &result);
    if (err != MARE_DIED || !failed || !may_die) {
        assert_int_equal(err, MARE_OK);
        assert_int_equal(mare_message_get(result, 0, &value), MARE_OK);
        assert_true(value.type == MARE_BOOLEAN && value.as.boolean);
    }
    mare_message_destroy(result);
    return failed;
}

// Its n-th allocation fails, for each n. It ends for want of memory, or it has asked, and got the
// answer; it does not wait for ever.
static void a_select_asks_there_or_does_not_wait(void **state)
{
    (void)state;
    static const char code[] = "local m, far, gate = require 'mare', ... gate:receive() "
                               "local which, x = m.select {far} "
                               "return assert(which == 1 and x == 1)";
    long n = 0;
    for (bool failed = true; failed;) {
        mare_runtime *runtime = run_start(1);
        struct elsewhere e;
        elsewhere_init(&e, runtime);
        mare_process *process = spawn_with(runtime, &e, code);
        while (strcmp(mare__process_status(process), "blocked") != 0)
            sched_yield();
        mare__alloc_fail_once(++n);
        failed = failed_until_its_end(runtime, &e, process, true);
        elsewhere_fini(&e);
        mare_stop(runtime);
    }
    assert_true(n > 1);
}

// For want of memory the reason cannot be said.
static void a_buffer_that_cannot_go_there_stays_the_senders(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct elsewhere e;
    elsewhere_init(&e, runtime);
    mare_process *process = spawn_with(runtime, &e,
                                       "local far, b = ..., require 'mare'.buffer 'mine' "
                                       "local send, moved = far.send, b.moved "
                                       "return not pcall(send, far, b) and not moved(b)");
    failed_until_its_end(runtime, &e, process, false);
    elsewhere_fini(&e);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(a_select_asks_there_or_does_not_wait),
           cmocka_unit_test(a_buffer_that_cannot_go_there_stays_the_senders))
