// SPDX-License-Identifier: MIT
// A log for ShiViz of what programs did, in the form of sim/shiviz.c: a line that says what
// happened, a line with the process and its vector clock. The clocks are computed from nothing but
// the order of each process and the sources.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/trace_read.h"

static void write_what(const struct mare__history *history, const struct mare__happening *event,
                       const uint32_t *host, uint32_t hosts, const char *const *names, FILE *out)
{
    const struct mare__happening *source =
        event->source == MARE__NOWHERE ? NULL : &history->events[event->source];
    fputs(mare_event_name(event->kind), out);
    if (event->channel)
        fprintf(out, " %s channel %" PRIu64, event->kind == MARE_EVENT_BLOCK ? "for" : "over",
                event->channel);
    const char *name = mare__history_channel_name(history, event);
    if (*name)
        fprintf(out, " (%s)", name);
    if (source && host[event->source] < hosts)
        fprintf(out, ", by %s of %s", mare_event_name(source->kind), names[host[event->source]]);
    fputc('\n', out);
}

static void write_clock(const uint32_t *clock, uint32_t own, uint32_t hosts,
                        const char *const *names, FILE *out)
{
    const char *between = "";
    fprintf(out, "%s {", names[own]);
    for (uint32_t i = 0; i < hosts; i++) {
        if (clock[i]) {
            fprintf(out, "%s\"%s\":%" PRIu32, between, names[i], clock[i]);
            between = ", ";
        }
    }
    fputs("}\n", out);
}

bool mare__history_write_shiviz(const struct mare__history *history, const uint32_t *host,
                                uint32_t hosts, const char *const *names, FILE *out)
{
    // Of each host, then of each event that has effects, in their order: `kept` tells where.
    size_t *kept = malloc(history->count * sizeof *kept), count = hosts;
    for (size_t i = 0; kept && i < history->count; i++)
        kept[i] = host[i] < hosts && history->events[i].first != MARE__NOWHERE ? count++ : 0;
    uint32_t *clocks = kept ? calloc(count * hosts, sizeof *clocks) : NULL;
    for (size_t i = 0; clocks && i < history->count; i++) {
        if (host[i] >= hosts)
            continue;
        const struct mare__happening *event = &history->events[i];
        uint32_t *own = clocks + (size_t)host[i] * hosts;
        const uint32_t *theirs = event->source == MARE__NOWHERE || host[event->source] >= hosts
                                     ? NULL
                                     : clocks + kept[event->source] * hosts;
        for (uint32_t j = 0; theirs && j < hosts; j++)
            own[j] = theirs[j] > own[j] ? theirs[j] : own[j];
        own[host[i]]++;
        for (uint32_t j = 0; kept[i] && j < hosts; j++)
            clocks[kept[i] * hosts + j] = own[j];
        write_what(history, event, host, hosts, names, out);
        write_clock(own, host[i], hosts, names, out);
    }
    bool good = clocks != NULL;
    free(kept);
    free(clocks);
    return good;
}
