// SPDX-License-Identifier: MIT
// A platform without threads, with a clock of its own. Whoever waits drives it: while the test
// thread sleeps, one runner after the other, of all runtimes of this world, does a piece of its
// work. Which one comes next is drawn from the seed. When all rest, the clock goes on to the next
// time that somebody waits for. Nothing else moves it but work: a piece takes a microsecond, and so
// do a hundred instructions of Lua.
#pragma once

#include <errno.h>

#include "lua/binding.h"
#include "platform/file.h"
#include "platform/loop.h"
#include "platform/resolve.h"
#include "platform/wall.h"
#include "runtime.h"

enum { WORLD_RUNNERS = 32, WORLD_PIECE_NS = 1000, WORLD_COUNT = 100 };

struct world_place {
    struct mare__runner *runner; // NULL: free
    uint64_t until_ns;           // it rests until then; 0: it goes on
    bool is_busy;                // it is in the middle of a piece
};

struct world {
    struct mare__platform platform;
    uint64_t now_ns, seed;
    unsigned long pieces; // that were done
    struct world_place places[WORLD_RUNNERS];
};

static uint64_t world_now_ns(void *context)
{
    return ((struct world *)context)->now_ns;
}

static uint64_t world_random(void *context)
{
    return unit_random(&((struct world *)context)->seed);
}

static void world_read_wall(void *context, struct mare__wall *wall)
{
    int64_t now_ns = (int64_t)world_now_ns(context);
    *wall = (struct mare__wall){.local_ns = now_ns, .utc_ns = now_ns};
}

static bool world_is_due(const struct world *world, struct world_place *place)
{
    if (!place->runner || place->is_busy)
        return false;
    if (place->until_ns > world->now_ns && mare__parker_woken(place->runner->parker))
        place->until_ns = 0;
    return place->until_ns <= world->now_ns;
}

static void world_advance(struct world *world, struct world_place *place)
{
    struct mare__runner *runner = place->runner;
    uint64_t until_ns = 0;
    place->is_busy = true;
    enum mare__progress progress = runner->advance(runner->argument, &until_ns);
    place->is_busy = false;
    place->until_ns = progress == MARE__RESTS ? until_ns : 0;
    if (progress == MARE__IS_OVER)
        place->runner = NULL;
    world->now_ns += WORLD_PIECE_NS;
    world->pieces++;
}

// Does one piece of work; or, when all rest, lets time pass to the next one's, or to the deadline.
static void world_step(struct world *world, uint64_t deadline)
{
    struct world_place *due[WORLD_RUNNERS];
    uint64_t next_ns = deadline;
    size_t count = 0;
    for (struct world_place *at = world->places; at < world->places + WORLD_RUNNERS; at++) {
        if (world_is_due(world, at))
            due[count++] = at;
        else if (at->runner && !at->is_busy && at->until_ns < next_ns)
            next_ns = at->until_ns;
    }
    if (count > 0)
        world_advance(world, due[world_random(world) % count]);
    else if (next_ns == MARE_FOREVER)
        fail_msg("all rest for ever");
    else
        world->now_ns = next_ns;
}

static bool world_park(void *context, struct mare__parker *parker, uint64_t deadline)
{
    struct world *world = context;
    for (;;) {
        if (mare__parker_woken(parker))
            return true;
        if (world->now_ns >= deadline)
            return false;
        world_step(world, deadline);
    }
}

static struct world_place *world_place_of(struct world *world, const struct mare__runner *runner)
{
    for (int i = 0; i < WORLD_RUNNERS; i++)
        if (world->places[i].runner == runner)
            return &world->places[i];
    return NULL;
}

static int world_start(void *context, struct mare__runner *runner)
{
    struct world_place *place = world_place_of(context, NULL);
    if (!place || !runner->advance)
        return EAGAIN;
    *place = (struct world_place){.runner = runner};
    return 0;
}

static void world_join(void *context, struct mare__runner *runner)
{
    while (world_place_of(context, runner))
        world_step(context, MARE_FOREVER);
}

static int world_start_apart(void *context, const char *name, void *(*main)(void *), void *argument)
{
    (void)context, (void)name, (void)main, (void)argument;
    return ENOTSUP; // there are no threads here
}

static int world_tick_init(void *context, struct mare__tick *tick, void (*handler)(void *),
                           void *argument)
{
    (void)context, (void)handler, (void)argument;
    *tick = (struct mare__tick){.made = true};
    return 0;
}

static void world_tick_set(void *context, struct mare__tick *tick, uint64_t period_ns)
{
    tick->period_ns = period_ns;
    tick->next_ns = world_now_ns(context) + period_ns;
}

static void world_tick_fini(void *context, struct mare__tick *tick)
{
    (void)context;
    *tick = (struct mare__tick){0};
}

static bool world_counted(void *context, struct mare__tick *tick)
{
    struct world *world = context;
    world->now_ns += WORLD_PIECE_NS;
    if (tick->period_ns == 0 || world->now_ns < tick->next_ns)
        return false;
    tick->next_ns = world->now_ns + tick->period_ns;
    return true;
}

static inline void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){.now_ns = 1000000000, .seed = seed};
    world->platform = (struct mare__platform){.context = world,
                                              .now_ns = world_now_ns,
                                              .random = world_random,
                                              .read_wall = world_read_wall,
                                              .thread_time_ns = world_now_ns,
                                              .cpu_time_ns = world_now_ns,
                                              .park = world_park,
                                              .loops = &mare__loops_live,
                                              .names = &mare__names_live,
                                              .files = &mare__files_live,
                                              .start = world_start,
                                              .join = world_join,
                                              .start_apart = world_start_apart,
                                              .tick_init = world_tick_init,
                                              .tick_set = world_tick_set,
                                              .tick_fini = world_tick_fini,
                                              .instructions = WORLD_COUNT,
                                              .counted = world_counted};
}

static inline mare_runtime *world_runtime(struct world *world, unsigned workers)
{
    mare_options options = {.workers = workers};
    mare_runtime *runtime = NULL;
    assert_int_equal(mare__start_on(&world->platform, &options, &runtime), MARE_OK);
    return runtime;
}
