// SPDX-License-Identifier: MIT
// What a runtime takes from its platform beside time and threads: loops, names and files. Here none
// of them is the machine's.
#include <errno.h>
#include <netdb.h>

#include "base/alloc.h"
#include "loop/observer.h"
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
    bool closing;
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
    if (poll && outside->closing) {
        outside->poll = NULL;
        poll->closed(poll);
    } else if (poll && (outside->wanted & outside->ready)) {
        poll->ready(poll, outside->ready);
    }
}

static void fini(struct mare__loop *loop)
{
    look(loop); // what was closed is told before the end
    assert_null(of(loop)->poll);
}

static void wait(struct mare__loop *loop, uint64_t ns)
{
    (void)loop, (void)ns;
    fail_msg("nobody waits in a loop here: runners rest");
}

static void ring(struct mare__loop *loop)
{
    (void)loop;
}

static bool open_poll(struct mare__loop *loop, struct mare__poll *poll, int fd)
{
    struct outside *outside = of(loop);
    poll->other = outside;
    outside->poll = poll;
    outside->fd = fd;
    return true;
}

static void want(struct mare__poll *poll, unsigned ways)
{
    ((struct outside *)poll->other)->wanted = ways;
}

static bool close_poll(struct mare__poll *poll)
{
    ((struct outside *)poll->other)->closing = true;
    return true;
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

static mare_runtime *begin(struct outside *outside)
{
    *outside = (struct outside){.fd = -1};
    world_init(&outside->world, 1);
    outside->world.platform.context = outside;
    outside->world.platform.files = &disk;
    outside->world.platform.names = &harbour;
    outside->world.platform.loops = &loops;
    return world_runtime(&outside->world, 2);
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

static void what_is_watched_is_watched_by_the_platform(void **state)
{
    (void)state;
    enum { NO_DESCRIPTOR = 1 << 20 };
    struct outside outside;
    mare_runtime *runtime = begin(&outside);
    struct mare__observed observed = {.lent = true}; // nothing closes it in the system
    mare__observed_init(&observed, NO_DESCRIPTOR, on_closed);
    mare_channel *channel = mare__observed_await(runtime, &observed, MARE__TO_READ);
    assert_non_null(channel);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_the_platform),
        cmocka_unit_test(names_are_those_of_the_platform),
        cmocka_unit_test(what_is_watched_is_watched_by_the_platform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
