// SPDX-License-Identifier: MIT
// What can be watched: counters, and pictures of the channels (of processes: look.c). A channel's
// is taken under the lock of the list, so it copies and calls nobody; and others get the lock after
// a few channels.
#include <string.h>

#include "sched/local.h"
#include "sched/runtime.h"

void mare_get_stats(mare_runtime *runtime, mare_stats *out)
{
    *out = (mare_stats){.spawned = atomic_load(&runtime->spawned_outside),
                        .live = atomic_load(&runtime->live),
                        .timers = atomic_load(&runtime->timer_count),
                        .workers = atomic_load(&runtime->worker_count)};
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++) {
        struct mare__counters *c = &runtime->workers[i]->counters;
        out->spawned += atomic_load(&c->spawned);
        out->switches += atomic_load(&c->switches);
        out->preemptions += atomic_load(&c->preemptions);
        out->steals += atomic_load(&c->steals);
        out->recycled += atomic_load(&c->recycled);
        out->sent += atomic_load(&c->sent);
        out->received += atomic_load(&c->received);
    }
}

static void copy_name(char (*to)[64], const char *name)
{
    **to = '\0';
    if (name)
        strncat(*to, name, sizeof *to - 1);
}

static size_t length_of(const struct mare__list *list)
{
    size_t length = 0;
    for (const struct mare__list *l = list->next; l != list; l = l->next)
        length++;
    return length;
}

static void describe_channel(mare_channel *channel, mare_chan_info *info)
{
    mare__lock_acquire(&channel->lock);
    *info = (mare_chan_info){.id = channel->id,
                             .capacity = channel->capacity,
                             .buffered = channel->count,
                             .senders = length_of(&channel->senders),
                             .receivers = length_of(&channel->receivers),
                             .sent = channel->sent,
                             .closed = channel->closed};
    mare__lock_release(&channel->lock);
    copy_name(&info->name, channel->name);
}

size_t mare_list_channels(mare_runtime *runtime, mare_chan_info *rows, size_t room)
{
    if (!mare__runtime_valid(runtime))
        return 0;
    enum { AT_ONCE = 16 };
    struct mare__channels *all = &runtime->channels;
    struct mare__tour tour;
    struct mare__list *l;
    size_t count = 0;
    mare__lock_acquire(&all->lock);
    mare__tour_begin(&tour, &all->tours, &all->list);
    while ((l = mare__tour_next(&tour, &all->list)) != NULL) {
        if (count < room)
            describe_channel(MARE__ENTRY(l, mare_channel, in_all), &rows[count]);
        if (++count % AT_ONCE == 0) {
            mare__lock_release(&all->lock);
            mare__lock_acquire(&all->lock);
        }
    }
    mare__tour_end(&tour);
    mare__lock_release(&all->lock);
    return count;
}
