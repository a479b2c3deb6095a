// SPDX-License-Identifier: MIT
// The scheduler for C programs: steps, loops and their ends, objects, and sources that come and go
// meanwhile.
#include <mare/events.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime.h"

static const mare_source_kind told = {.name = "told"};

// What handlers do here, and note.
struct log {
    mare_runtime *runtime;
    mare_scheduler *scheduler;
    int64_t seen[4096];
    int count;
    uint64_t id; // of a source, for the handler that removes it
    mare_source *source;
};

static struct log *open_log(void)
{
    struct log *log = calloc(1, sizeof *log);
    assert_non_null(log);
    log->runtime = run_start(1);
    assert_int_equal(mare_scheduler_create(log->runtime, &log->scheduler), MARE_OK);
    return log;
}

static void close_log(struct log *log)
{
    mare_scheduler_destroy(log->scheduler);
    mare_stop(log->runtime);
    free(log);
}

static mare_source *make_source(struct log *log, size_t room)
{
    mare_source *source = NULL;
    assert_int_equal(mare_source_create(log->runtime, &told, NULL, -1, room, &source), MARE_OK);
    return source;
}

static void tell(mare_source *source, int64_t number)
{
    mare_message *event = run_message();
    assert_int_equal(mare_message_add_integer(event, number), MARE_OK);
    assert_int_equal(mare_source_tell(source, event), MARE_OK);
    mare_message_destroy(event);
}

static int64_t number_of(const mare_message *event)
{
    mare_value value = {.type = MARE_NIL};
    mare_message_get(event, 0, &value);
    return value.type == MARE_INTEGER ? value.as.integer : -1;
}

static void note(void *user, mare_message *event)
{
    struct log *log = user;
    log->seen[log->count++] = number_of(event);
}

static void note_and_stop(void *user, mare_message *event)
{
    note(user, event);
    mare_scheduler_stop(((struct log *)user)->scheduler);
}

static void note_and_remove(void *user, mare_message *event)
{
    struct log *log = user;
    note(user, event);
    assert_true(mare_scheduler_remove_source(log->scheduler, log->id));
    assert_false(mare_scheduler_remove_source(log->scheduler, log->id));
}

static void assert_seen(const struct log *log, int count, const int64_t *numbers)
{
    assert_int_equal(log->count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(log->seen[i], numbers[i]);
}

// ---- Steps and loops ----------------------------------------------------------------------------

static void a_step_handles_one_event_at_the_most(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0);
    assert_int_equal(mare_scheduler_step(log->scheduler, MARE_FOREVER), MARE_EMPTY);
    assert_int_equal(mare_scheduler_register_source(log->scheduler, source, note, log, &log->id),
                     MARE_OK);
    assert_int_equal(mare_scheduler_step(log->scheduler, 0), MARE_TIMEOUT);
    tell(source, 1);
    tell(source, 2);
    assert_int_equal(mare_scheduler_step(log->scheduler, MARE_FOREVER), MARE_OK);
    assert_seen(log, 1, (int64_t[]){1});
    assert_int_equal(mare_scheduler_step(log->scheduler, 0), MARE_OK);
    assert_seen(log, 2, (int64_t[]){1, 2});
    assert_int_equal(mare_scheduler_step(log->scheduler, 0), MARE_TIMEOUT);
    mare_source_unref(source);
    close_log(log);
}

static void a_loop_ends_with_its_last_source(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *sources[2];
    for (int i = 0; i < 2; i++) {
        sources[i] = make_source(log, 0);
        mare_scheduler_register_source(log->scheduler, sources[i], note, log, NULL);
        tell(sources[i], i + 1);
        tell(sources[i], i + 3);
        mare_source_close(sources[i]);
    }
    mare_scheduler_loop(log->scheduler);
    assert_seen(log, 4, (int64_t[]){1, 2, 3, 4}); // in turn
    assert_int_equal(mare_scheduler_step(log->scheduler, MARE_FOREVER), MARE_EMPTY);
    for (int i = 0; i < 2; i++)
        mare_source_unref(sources[i]);
    close_log(log);
}

static void a_loop_can_be_stopped_inside_a_handler(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0);
    mare_scheduler_register_source(log->scheduler, source, note_and_stop, log, NULL);
    for (int i = 1; i <= 3; i++)
        tell(source, i);
    for (int i = 1; i <= 3; i++) {
        mare_scheduler_loop(log->scheduler);
        assert_int_equal(log->count, i);
    }
    // A stop that came before does not end a wait that begins now.
    assert_int_equal(mare_scheduler_step(log->scheduler, 0), MARE_TIMEOUT);
    mare_source_unref(source);
    close_log(log);
}

struct stopper {
    mare_scheduler *scheduler;
    atomic_bool done;
};

// Again and again, for the wait that it shall end may not have begun.
static void *stop_often(void *argument)
{
    struct stopper *stopper = argument;
    while (!atomic_load(&stopper->done)) {
        usleep(1000);
        mare_scheduler_stop(stopper->scheduler);
    }
    return NULL;
}

static void another_thread_can_end_a_wait(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_scheduler *scheduler = log->scheduler;
    mare_source *source = make_source(log, 0);
    mare_scheduler_register_source(scheduler, source, note, log, NULL);
    struct stopper stopper = {.scheduler = scheduler};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_often, &stopper), 0);
    mare_scheduler_loop(scheduler);
    assert_int_equal(mare_scheduler_step(scheduler, MARE_FOREVER), MARE_CANCELLED);
    assert_int_equal(mare_scheduler_wait_for_events(scheduler, MARE_FOREVER, NULL, 0), 0);
    assert_null(mare_scheduler_get_ready_object(scheduler, MARE_FOREVER));
    atomic_store(&stopper.done, true);
    pthread_join(thread, NULL);
    mare_source_unref(source);
    close_log(log);
}

// ---- Sources that go ----------------------------------------------------------------------------

static void a_source_removed_by_its_own_handler_is_silent(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0);
    mare_scheduler_register_source(log->scheduler, source, note_and_remove, log, &log->id);
    tell(source, 1);
    tell(source, 2);
    mare_scheduler_loop(log->scheduler);
    assert_seen(log, 1, (int64_t[]){1});
    mare_scheduler_register_source(log->scheduler, source, note_and_remove, log, &log->id);
    mare_scheduler_loop(log->scheduler); // what was not taken is another's
    assert_seen(log, 2, (int64_t[]){1, 2});
    mare_source_unref(source);
    close_log(log);
}

static void an_event_that_is_ready_is_handled_though_its_source_is_removed(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0);
    uint64_t idle;
    mare_scheduler_register_source(log->scheduler, source, note, log, &log->id);
    tell(source, 1);
    tell(source, 2);
    assert_true(mare_scheduler_remove_source(log->scheduler, log->id));
    mare_scheduler_loop(log->scheduler);
    assert_seen(log, 1, (int64_t[]){1});
    assert_false(mare_scheduler_remove_source(log->scheduler, log->id));
    mare_source *other = make_source(log, 0);
    mare_scheduler_register_source(log->scheduler, other, note, log, &idle);
    assert_true(mare_scheduler_remove_source(log->scheduler, idle)); // while it waits
    assert_int_equal(mare_scheduler_step(log->scheduler, MARE_FOREVER), MARE_EMPTY);
    mare_source_unref(other);
    mare_source_unref(source);
    close_log(log);
}

static void a_scheduler_keeps_its_sources_and_gives_them_back(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0), *same = source;
    mare_scheduler_register_source(log->scheduler, source, note, log, NULL);
    mare_source_ref(same);
    mare_source_unref(source);
    tell(same, 7);
    mare_scheduler_destroy(log->scheduler); // with an event that is ready
    assert_int_equal(mare_source_outcome(same), MARE_OK);
    mare_source_unref(same);
    assert_int_equal(mare_scheduler_create(log->runtime, &log->scheduler), MARE_OK);
    close_log(log);
}

// ---- Objects ------------------------------------------------------------------------------------

static void objects_run_once_when_they_are_made_ready(void **state)
{
    (void)state;
    struct log *log = open_log();
    uint64_t first, second, never;
    mare_message *parameters = run_message();
    mare_message_add_integer(parameters, 5);
    assert_int_equal(mare_scheduler_create_object(log->scheduler, note, log, parameters, &first),
                     MARE_OK);
    assert_int_equal(mare_message_count(parameters), 0);
    mare_scheduler_create_object(log->scheduler, note, log, NULL, &second);
    mare_scheduler_create_object(log->scheduler, note, log, NULL, &never);
    assert_true(first != second && second != never);
    assert_int_equal(mare_scheduler_step(log->scheduler, 0), MARE_EMPTY);
    assert_true(mare_scheduler_make_ready(log->scheduler, second));
    assert_true(mare_scheduler_make_ready(log->scheduler, first));
    assert_false(mare_scheduler_make_ready(log->scheduler, first)); // it stands there
    uint64_t ids[1];
    assert_int_equal(mare_scheduler_wait_for_events(log->scheduler, MARE_FOREVER, ids, 1), 2);
    assert_int_equal(ids[0], second);
    mare_object *object = mare_scheduler_get_ready_object(log->scheduler, MARE_FOREVER);
    assert_int_equal(mare_object_id(object), second);
    assert_int_equal(log->count, 0);
    mare_object_run(object);
    assert_seen(log, 1, (int64_t[]){-1});
    mare_scheduler_loop(log->scheduler);
    assert_seen(log, 2, (int64_t[]){-1, 5});
    assert_false(mare_scheduler_make_ready(log->scheduler, first)); // it has run
    assert_false(mare_scheduler_remove_source(log->scheduler, never));
    assert_null(mare_scheduler_get_ready_object(log->scheduler, MARE_FOREVER));
    mare_message_destroy(parameters);
    close_log(log);
}

static void the_observer_names_the_sources_that_are_ready(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *sources[3];
    uint64_t ids[3], ready[3] = {0};
    for (int i = 0; i < 3; i++) {
        sources[i] = make_source(log, 0);
        mare_scheduler_register_source(log->scheduler, sources[i], note, log, &ids[i]);
    }
    assert_int_equal(mare_scheduler_wait_for_events(log->scheduler, 0, ready, 3), 0);
    tell(sources[2], 1);
    tell(sources[0], 2);
    tell(sources[2], 3); // stays in line
    assert_int_equal(mare_scheduler_wait_for_events(log->scheduler, MARE_FOREVER, ready, 3), 2);
    assert_true(ready[0] == ids[2] && ready[1] == ids[0]);
    assert_false(mare_scheduler_make_ready(log->scheduler, ids[1])); // that is for events
    for (int i = 0; i < 3; i++)
        mare_source_unref(sources[i]);
    close_log(log);
}

// ---- Many ---------------------------------------------------------------------------------------

enum { SOURCES = 2000, EVENTS = 3, THREADS = 3 };

struct crowd {
    struct log *log;
    mare_source *sources[SOURCES];
    atomic_int handled;
};

static void *tell_all(void *argument)
{
    struct crowd *crowd = argument;
    mare_message *event = run_message();
    for (int round = 0; round < EVENTS; round++)
        for (int i = 0; i < SOURCES; i++) {
            mare_message_add_integer(event, i);
            if (mare_source_tell_until(crowd->sources[i], event, MARE_FOREVER) != MARE_OK)
                abort();
        }
    mare_message_destroy(event);
    return NULL;
}

static void count_one(void *user, mare_message *event)
{
    struct crowd *crowd = user;
    assert_true(number_of(event) >= 0);
    if (atomic_fetch_add(&crowd->handled, 1) + 1 == SOURCES * EVENTS * THREADS)
        mare_scheduler_stop(crowd->log->scheduler);
}

// Several threads tell, through lines that hold one event: nothing is lost, nothing comes twice.
static void thousands_of_sources_told_by_several_threads(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t threads[THREADS];
    crowd.log = open_log();
    for (int i = 0; i < SOURCES; i++) {
        crowd.sources[i] = make_source(crowd.log, 1);
        assert_int_equal(mare_scheduler_register_source(crowd.log->scheduler, crowd.sources[i],
                                                        count_one, &crowd, NULL),
                         MARE_OK);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tell_all, &crowd), 0);
    mare_scheduler_loop(crowd.log->scheduler);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.handled), SOURCES * EVENTS * THREADS);
    for (int i = 0; i < SOURCES; i++)
        mare_source_unref(crowd.sources[i]);
    close_log(crowd.log);
}

static void *tell_until_closed(void *source)
{
    mare_message *event = run_message();
    mare_message_add_integer(event, 1);
    while (mare_source_tell_until(source, event, MARE_FOREVER) == MARE_OK)
        mare_message_add_integer(event, 1);
    mare_message_destroy(event);
    return NULL;
}

static void ignore(void *user, mare_message *event)
{
    (void)user, (void)event;
}

// Events come while the source is removed, and while the scheduler is destroyed.
static void sources_go_while_events_come(void **state)
{
    (void)state;
    struct log *log = open_log();
    for (int round = 0; round < 200; round++) {
        mare_scheduler *scheduler;
        pthread_t thread;
        uint64_t id;
        mare_source *source = make_source(log, 1);
        assert_int_equal(mare_scheduler_create(log->runtime, &scheduler), MARE_OK);
        assert_int_equal(pthread_create(&thread, NULL, tell_until_closed, source), 0);
        mare_scheduler_register_source(scheduler, source, ignore, NULL, &id);
        for (int i = 0; i < round % 4; i++)
            assert_int_equal(mare_scheduler_step(scheduler, MARE_FOREVER), MARE_OK);
        if (round % 2)
            assert_true(mare_scheduler_remove_source(scheduler, id));
        mare_scheduler_destroy(scheduler);
        mare_source_close(source);
        pthread_join(thread, NULL);
        mare_source_unref(source);
    }
    close_log(log);
}

static void send(mare_channel *channel, int64_t number)
{
    mare_message *message = run_message();
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
    assert_int_equal(mare_chan_send(channel, message), MARE_OK);
    mare_message_destroy(message);
}

static void note_the_end(void *user, mare_message *event)
{
    struct log *log = user;
    log->seen[log->count++] = event ? number_of(event) : -7;
}

static mare_err step_now(struct log *log)
{
    return mare_scheduler_step(log->scheduler, 0);
}

static void the_messages_of_a_channel_are_handled_and_so_is_its_end(void **state)
{
    struct log *log = open_log();
    mare_channel *channel, *other;
    uint64_t id;
    (void)state;
    assert_int_equal(mare_chan_create(log->runtime, 4, NULL, &channel), MARE_OK);
    assert_int_equal(mare_chan_create(log->runtime, 4, NULL, &other), MARE_OK);
    send(channel, 1); // before anybody handles it
    assert_int_equal(
        mare_scheduler_register_channel(log->scheduler, channel, note_the_end, log, &id), MARE_OK);
    send(channel, 2);
    mare_chan_close(channel);
    mare_scheduler_loop(log->scheduler); // until nothing is left to wait for
    assert_seen(log, 3, (int64_t[]){1, 2, -7});
    assert_false(mare_scheduler_remove_source(log->scheduler, id));
    assert_int_equal(mare_scheduler_register_channel(log->scheduler, other, note_the_end, log, &id),
                     MARE_OK);
    assert_true(mare_scheduler_remove_source(log->scheduler, id));
    mare_chan_close(other); // of this end nobody wants to know
    assert_int_equal(mare_scheduler_step(log->scheduler, run_soon(log->runtime)), MARE_EMPTY);
    assert_int_equal(log->count, 3);
    mare_chan_unref(channel);
    mare_chan_unref(other);
    close_log(log);
}

static bool can_be_read(int descriptor, int timeout_ms)
{
    struct pollfd look = {.fd = descriptor, .events = POLLIN};
    return poll(&look, 1, timeout_ms) == 1 && look.revents == POLLIN;
}

static void a_descriptor_can_be_read_while_a_handler_is_ready(void **state)
{
    enum { LONG_MS = 60000 };
    struct log *log = open_log();
    mare_channel *channel;
    int descriptor, again;
    (void)state;
    assert_int_equal(mare_chan_create(log->runtime, 4, NULL, &channel), MARE_OK);
    assert_int_equal(
        mare_scheduler_register_channel(log->scheduler, channel, note_the_end, log, NULL), MARE_OK);
    assert_int_equal(mare_scheduler_descriptor(log->scheduler, &descriptor), MARE_OK);
    assert_int_equal(mare_scheduler_descriptor(log->scheduler, &again), MARE_OK);
    assert_int_equal(again, descriptor);
    assert_false(can_be_read(descriptor, 0));
    for (int i = 0; i < 3; i++) {
        send(channel, i);
        assert_true(can_be_read(descriptor, LONG_MS));
        assert_true(can_be_read(descriptor, 0)); // until it is handled
        assert_int_equal(step_now(log), MARE_OK);
        assert_false(can_be_read(descriptor, 0));
        assert_int_equal(step_now(log), MARE_TIMEOUT);
    }
    mare_chan_close(channel);
    assert_true(can_be_read(descriptor, LONG_MS));
    assert_int_equal(step_now(log), MARE_OK);
    assert_seen(log, 4, (int64_t[]){0, 1, 2, -7});
    mare_chan_unref(channel);
    close_log(log);
}

static void a_descriptor_that_comes_late_knows_what_is_ready(void **state)
{
    struct log *log = open_log();
    uint64_t id;
    int descriptor;
    (void)state;
    assert_int_equal(mare_scheduler_create_object(log->scheduler, note_the_end, log, NULL, &id),
                     MARE_OK);
    assert_true(mare_scheduler_make_ready(log->scheduler, id));
    assert_int_equal(mare_scheduler_descriptor(log->scheduler, &descriptor), MARE_OK);
    assert_true(can_be_read(descriptor, 0));
    assert_int_equal(step_now(log), MARE_OK);
    assert_false(can_be_read(descriptor, 0));
    close_log(log);
}

static void without_memory_nothing_is_registered(void **state)
{
    (void)state;
    struct log *log = open_log();
    mare_source *source = make_source(log, 0);
    mare_scheduler *scheduler = NULL;
    uint64_t id;
    mare__alloc_fail_after(1);
    assert_int_equal(mare_scheduler_register_source(log->scheduler, source, note, log, &id),
                     MARE_NOMEM);
    assert_int_equal(mare_scheduler_create_object(log->scheduler, note, log, NULL, &id),
                     MARE_NOMEM);
    assert_int_equal(mare_scheduler_create(log->runtime, &scheduler), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_null(scheduler);
    assert_int_equal(mare_scheduler_step(log->scheduler, MARE_FOREVER), MARE_EMPTY);
    mare_source_unref(source);
    close_log(log);
}

UNIT_TESTS(cmocka_unit_test(a_step_handles_one_event_at_the_most),
           cmocka_unit_test(a_loop_ends_with_its_last_source),
           cmocka_unit_test(a_loop_can_be_stopped_inside_a_handler),
           cmocka_unit_test(another_thread_can_end_a_wait),
           cmocka_unit_test(a_source_removed_by_its_own_handler_is_silent),
           cmocka_unit_test(an_event_that_is_ready_is_handled_though_its_source_is_removed),
           cmocka_unit_test(a_scheduler_keeps_its_sources_and_gives_them_back),
           cmocka_unit_test(objects_run_once_when_they_are_made_ready),
           cmocka_unit_test(the_observer_names_the_sources_that_are_ready),
           cmocka_unit_test(thousands_of_sources_told_by_several_threads),
           cmocka_unit_test(sources_go_while_events_come),
           cmocka_unit_test(the_messages_of_a_channel_are_handled_and_so_is_its_end),
           cmocka_unit_test(a_descriptor_can_be_read_while_a_handler_is_ready),
           cmocka_unit_test(a_descriptor_that_comes_late_knows_what_is_ready),
           cmocka_unit_test(without_memory_nothing_is_registered))
