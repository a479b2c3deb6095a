// SPDX-License-Identifier: MIT
// What a runtime takes from its platform beside time and threads: loops, names and files. Here none
// of them is the machine's.
#include <errno.h>
#include <netdb.h>

#include "base/alloc.h"
#include "loop/observer.h"
#include "sched/worker.h"
#include "world.h"

enum { DISK_ROOM = 8 };

struct outside {
    struct world world; // the context of all
    char path[32], bytes[DISK_ROOM];
    size_t size;
    struct mare__loop *loop; // the last that was made
    struct mare__poll *poll; // what it watches
    int fd;
    unsigned wanted, ready;
    int wants;     // how often it was told what is wanted
    int tells;     // how often it tells of the same in one look
    bool may_wait; // else nobody waits in a loop here: runners rest
    bool closing;
    int looks;
    struct mare__observed *crowd; // descriptors that stay ready, beside that of `poll`
    int crowd_size;
};

// ---- A disk with one file -----------------------------------------------------------------------

static int store(void *context, const char *path, const char *bytes, size_t size,
                 const struct mare__store *how)
{
    (void)how;
    struct outside *outside = context;
    if (size > DISK_ROOM)
        return -ENOSPC;
    snprintf(outside->path, sizeof outside->path, "%s", path);
    memcpy(outside->bytes, bytes, size);
    outside->size = size;
    return 0;
}

static int load(void *context, const char *path, size_t limit, char **bytes, size_t *size)
{
    const struct outside *outside = context;
    if (strcmp(path, outside->path) != 0)
        return -ENOENT;
    assert_true(outside->size <= limit);
    *bytes = mare__alloc(DISK_ROOM);
    assert_non_null(*bytes);
    memcpy(*bytes, outside->bytes, outside->size);
    *size = outside->size;
    return 0;
}

static const struct mare__files disk = {.store = store, .load = load};

// ---- One host -----------------------------------------------------------------------------------

static void find_addresses(void *context, struct mare__resolving *naming, const char *host)
{
    (void)context;
    bool known = strcmp(host, "harbour.test") == 0;
    naming->status = known ? 0 : EAI_NONAME;
    naming->count = known;
    if (known)
        assert_true(mare__address_numeric(&naming->addresses[0], "192.0.2.7", 0));
}

static const struct mare__names harbour = {.find_addresses = find_addresses};

// ---- A loop that watches what does not exist ----------------------------------------------------

static struct outside *of(const struct mare__loop *loop)
{
    return loop->other;
}

static bool init(void *context, struct mare__loop *loop)
{
    struct outside *outside = context;
    loop->other = outside;
    outside->loop = loop;
    return true;
}

static void look(struct mare__loop *loop)
{
    struct outside *outside = of(loop);
    struct mare__poll *poll = outside->poll;
    outside->looks++;
    for (int i = 0; i < outside->crowd_size; i++)
        if (atomic_load(&outside->crowd[i].wanted) & MARE__READABLE)
            outside->crowd[i].poll.ready(&outside->crowd[i].poll, MARE__READABLE);
    if (poll && outside->closing) {
        outside->poll = NULL;
        poll->closed(poll);
        return;
    }
    for (int i = 0; poll && i < outside->tells && (outside->wanted & outside->ready); i++)
        poll->ready(poll, outside->ready);
}

static void fini(struct mare__loop *loop)
{
    look(loop); // what was closed is told before the end
    assert_null(of(loop)->poll);
}

static void wait(struct mare__loop *loop, uint64_t ns)
{
    (void)ns;
    assert_true(of(loop)->may_wait);
    look(loop);
}

static void ring(struct mare__loop *loop)
{
    (void)loop;
}

static bool is_of_crowd(const struct outside *outside, const struct mare__poll *poll)
{
    for (int i = 0; i < outside->crowd_size; i++)
        if (poll == &outside->crowd[i].poll)
            return true;
    return false;
}

static bool open_poll(struct mare__loop *loop, struct mare__poll *poll, int fd)
{
    struct outside *outside = of(loop);
    poll->other = outside;
    if (is_of_crowd(outside, poll))
        return true;
    outside->poll = poll;
    outside->fd = fd;
    return true;
}

static void want(struct mare__poll *poll, unsigned ways)
{
    struct outside *outside = poll->other;
    if (is_of_crowd(outside, poll))
        return;
    outside->wanted = ways;
    outside->wants++;
}

static void close_poll(struct mare__poll *poll)
{
    struct outside *outside = poll->other;
    if (is_of_crowd(outside, poll))
        poll->closed(poll);
    else
        outside->closing = true;
}

static const struct mare__loops loops = {.init = init,
                                         .fini = fini,
                                         .look = look,
                                         .wait = wait,
                                         .ring = ring,
                                         .open = open_poll,
                                         .want = want,
                                         .close = close_poll};

// ---- Cases --------------------------------------------------------------------------------------

static mare_runtime *begin_with(struct outside *outside, unsigned workers)
{
    *outside = (struct outside){.fd = -1, .tells = 1};
    world_init(&outside->world, 1);
    outside->world.platform.context = outside;
    outside->world.platform.files = &disk;
    outside->world.platform.names = &harbour;
    outside->world.platform.loops = &loops;
    return world_runtime(&outside->world, workers);
}

static mare_runtime *begin(struct outside *outside)
{
    return begin_with(outside, 2);
}

static void files_are_those_of_the_platform(void **state)
{
    (void)state;
    struct outside outside;
    mare_runtime *runtime = begin(&outside);
    run_true(runtime,
             "local file = require 'mare.file'\n"
             "assert(file.write('/nowhere/tide', 'ebb'))\n"
             "assert(file.read '/nowhere/tide' == 'ebb')\n"
             "assert(select(3, file.read '/nowhere/else') == 'noname')\n"
             "local ok, message = file.write('/nowhere/tide', 'much too much')\n"
             "assert(not ok and message:find 'No space left')\n"
             "return file.read '/nowhere/tide' == 'ebb'",
             NULL);
    assert_string_equal(outside.path, "/nowhere/tide");
    assert_memory_equal(outside.bytes, "ebb", 3);
    mare_stop(runtime);
}

static void names_are_those_of_the_platform(void **state)
{
    (void)state;
    struct outside outside;
    mare_runtime *runtime = begin(&outside);
    run_true(runtime,
             "local net = require 'mare.net'\n"
             "local list = assert(net.resolve 'harbour.test')\n"
             "assert(#list == 1 and list[1] == '192.0.2.7')\n"
             "return select(3, net.resolve 'localhost') == 'noname'",
             NULL);
    mare_stop(runtime);
}

static void on_closed(struct mare__observed *observed)
{
    observed->fd = -1;
}

enum { NO_DESCRIPTOR = 1 << 20 };

static mare_channel *watch(mare_runtime *runtime, struct mare__observed *observed)
{
    mare_channel *channel = mare__observed_await(runtime, observed, MARE__TO_READ);
    assert_non_null(channel);
    return channel;
}

static void what_is_watched_is_watched_by_the_platform(void **state)
{
    (void)state;
    struct outside outside;
    mare_runtime *runtime = begin(&outside);
    struct mare__observed observed = {.lent = true}; // nothing closes it in the system
    mare__observed_init(&observed, NO_DESCRIPTOR, on_closed);
    mare_channel *channel = watch(runtime, &observed);
    mare_message *message = NULL;
    uint64_t soon = mare_deadline_ms(runtime, 10);
    assert_int_equal(mare_chan_receive_until(channel, &message, soon), MARE_TIMEOUT);
    assert_int_equal(outside.fd, NO_DESCRIPTOR);
    assert_int_equal(outside.wanted, MARE__READABLE);
    outside.ready = MARE__READABLE;
    for (int i = 0; i < WORLD_RUNNERS; i++)
        outside.world.places[i].until_ns = 0; // and the platform rouses who rests
    assert_int_equal(mare_chan_receive_until(channel, &message, MARE_FOREVER), MARE_OK);
    mare_message_destroy(message);
    mare__observed_close(&observed);
    mare_stop(runtime);
    assert_int_equal(observed.fd, -1);
    mare_chan_unref(channel);
}

// ---- What lasts ---------------------------------------------------------------------------------

struct lasting {
    struct outside outside;
    mare_runtime *runtime;
    struct mare__observed observed;
    mare_channel *channel;
};

// A descriptor that can be read, and stays so.
static void begin_lasting(struct lasting *lasting)
{
    lasting->runtime = begin(&lasting->outside);
    lasting->observed = (struct mare__observed){.lent = true};
    mare__observed_init(&lasting->observed, NO_DESCRIPTOR, on_closed);
    lasting->channel = watch(lasting->runtime, &lasting->observed);
    lasting->outside.ready = MARE__READABLE;
    assert_int_equal(lasting->outside.wants, 1);
}

static void end_lasting(struct lasting *lasting)
{
    mare__observed_close(&lasting->observed);
    mare_stop(lasting->runtime);
    mare_chan_unref(lasting->channel);
}

// The worker looks so often, or waits.
static void look_in(struct lasting *lasting, int times, uint64_t deadline)
{
    struct mare__lookout *lookout = atomic_load(&lasting->runtime->workers[0]->lookout);
    lasting->outside.may_wait = deadline > 0;
    for (int i = 0; i < times; i++)
        lookout->wait(lookout, deadline);
    lasting->outside.may_wait = false;
}

static bool is_told(struct lasting *lasting)
{
    mare_message *message = NULL;
    mare_err err = mare_chan_try_receive(lasting->channel, &message);
    if (err == MARE_OK)
        mare_message_destroy(message);
    return err == MARE_OK;
}

static void what_was_told_stays_watched_and_is_told_once(void **state)
{
    (void)state;
    struct lasting lasting;
    begin_lasting(&lasting);
    for (int i = 0; i < 10; i++) {
        look_in(&lasting, 5, 0);
        assert_true(is_told(&lasting));
        assert_false(is_told(&lasting));
        look_in(&lasting, 5, 0);
        assert_false(is_told(&lasting)); // until one asks again
        watch(lasting.runtime, &lasting.observed);
    }
    assert_int_equal(lasting.outside.wants, 1);
    end_lasting(&lasting);
}

static int woken;

static void on_woken(struct mare__wait *wait)
{
    (void)wait;
    woken++;
}

// The first is told, and neither reads nor asks again.
static void another_who_waits_is_told_too(void **state)
{
    (void)state;
    struct lasting lasting;
    struct mare__wait waits[2] = {{.wake = on_woken}, {.wake = on_woken}};
    struct mare__spot spots[2];
    begin_lasting(&lasting);
    for (int i = 0; i < 2; i++) {
        watch(lasting.runtime, &lasting.observed);
        spots[i] = (struct mare__spot){.wait = &waits[i]};
        mare__list_init(&spots[i].entry);
        mare__wait_begin(&waits[i]);
        assert_int_equal(mare__chan_receive(lasting.channel, &waits[i].message, &spots[i]),
                         MARE_EMPTY);
    }
    woken = 0;
    look_in(&lasting, 1, 0);
    assert_int_equal(woken, 1);
    look_in(&lasting, 1, 0);
    assert_int_equal(woken, 2);
    end_lasting(&lasting);
}

// Not watched any more, so that nobody is told for ever; but who asks just now must not wait for
// it.
static void assert_dropped(struct lasting *lasting)
{
    assert_int_equal(lasting->outside.wants, 2);
    assert_int_equal(lasting->outside.wanted, 0);
    assert_true(is_told(lasting));
    watch(lasting->runtime, &lasting->observed);
    assert_int_equal(lasting->outside.wanted, MARE__READABLE);
    look_in(lasting, 1, 0);
    assert_true(is_told(lasting));
}

static void what_is_told_in_vain_too_often_is_not_watched(void **state)
{
    (void)state;
    struct lasting lasting;
    begin_lasting(&lasting);
    look_in(&lasting, 1, 0);
    assert_true(is_told(&lasting));
    for (int i = 0; i < 1000 && lasting.outside.wants == 1; i++)
        look_in(&lasting, 1, 0);
    assert_dropped(&lasting);
    end_lasting(&lasting);
}

static void who_waits_is_not_woken_in_vain_for_ever(void **state)
{
    (void)state;
    struct lasting lasting;
    begin_lasting(&lasting);
    look_in(&lasting, 1, 0);
    assert_true(is_told(&lasting));
    for (int i = 0; i < 4 && lasting.outside.wants == 1; i++) // one may have been rung before
        look_in(&lasting, 1, MARE_FOREVER);
    assert_dropped(&lasting);
    end_lasting(&lasting);
}

static void who_looks_is_not_told_the_same_for_ever(void **state)
{
    (void)state;
    struct lasting lasting;
    begin_lasting(&lasting);
    lasting.outside.tells = 3; // of which the first is news
    look_in(&lasting, 1, 0);
    lasting.outside.tells = 1;
    assert_dropped(&lasting);
    end_lasting(&lasting);
}

// ---- A crowd ------------------------------------------------------------------------------------

enum { CROWD = 600 };

// How often a worker looks that is never without work, while so many that it was told of have not
// had their turn.
static int looks_beside(int size)
{
    static const char code[] = "for i = 1, 5000 do require 'mare'.yield() end return true";
    static struct mare__observed crowd[CROWD];
    struct outside outside;
    mare_runtime *runtime = begin_with(&outside, 1);
    for (int i = 0; i < size; i++) {
        crowd[i] = (struct mare__observed){.lent = true};
        mare__observed_init(&crowd[i], NO_DESCRIPTOR + i, on_closed);
    }
    outside.crowd = crowd;
    outside.crowd_size = size;
    outside.may_wait = true;
    for (int i = 0; i < size; i++)
        watch(runtime, &crowd[i]);
    int before = outside.looks;
    run_true(runtime, code, NULL);
    int looks = outside.looks - before;
    for (int i = 0; i < size; i++)
        mare__observed_close(&crowd[i]);
    outside.crowd_size = 0;
    mare_stop(runtime);
    for (int i = 0; i < size; i++)
        mare_chan_unref(crowd[i].ready[MARE__TO_READ]);
    return looks;
}

// Each look would cost something for each of them, and bring nothing that comes before them.
static void a_busy_worker_seldom_looks_at_those_who_stand_in_line(void **state)
{
    (void)state;
    int beside_one = looks_beside(1), beside_many = looks_beside(CROWD);
    assert_true(beside_many * 4 < beside_one);
    assert_true(beside_many * 8 > beside_one); // but it does, for there may be others
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_the_platform),
        cmocka_unit_test(names_are_those_of_the_platform),
        cmocka_unit_test(what_is_watched_is_watched_by_the_platform),
        cmocka_unit_test(what_was_told_stays_watched_and_is_told_once),
        cmocka_unit_test(another_who_waits_is_told_too),
        cmocka_unit_test(what_is_told_in_vain_too_often_is_not_watched),
        cmocka_unit_test(who_waits_is_not_woken_in_vain_for_ever),
        cmocka_unit_test(who_looks_is_not_told_the_same_for_ever),
        cmocka_unit_test(a_busy_worker_seldom_looks_at_those_who_stand_in_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
