// SPDX-License-Identifier: MIT
// `mare --trace FILE`: what processes do, one JSON object a line.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/report.h"
#include "wire/utf8.h"

const char mare__cli_trace_help[] =
    "mare --trace FILE app.lua [args]\n\n"
    "Runs a program (also -e CODE, or -) and writes to FILE, one JSON object a line, what its\n"
    "processes do: spawn, start, send, receive, block, wake, end. A receive names the send that\n"
    "caused it, so that it can be told what happened before what: docs/reference/cli.md.\n"
    "If several nodes are traced, `mare trace draw` takes all their files.\n";

static struct {
    const char *path;
    FILE *file; // NULL: nothing is traced
    uint64_t begin_ns;
} trace;

// As much of a name as fits into 63 bytes. Bytes that are not UTF-8 become question marks, because
// no JSON reader would take them.
static void write_name(const char *name)
{
    char text[64];
    struct mare__utf8 state = {0};
    snprintf(text, sizeof text, "%.*s", (int)mare__utf8_fit(name, sizeof text - 1), name);
    bool sound = mare__utf8_check(&state, text, strlen(text)) && mare__utf8_complete(&state);
    for (char *at = text; *at && !sound; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    mare_sim_write_quoted(text, trace.file);
}

static void write_event(void *unused, const mare_event *event)
{
    (void)unused;
    fprintf(trace.file,
            "{\"number\":%" PRIu64 ",\"time\":%.9f,\"event\":\"%s\",\"process\":%" PRIu64,
            event->number, (double)(event->time_ns - trace.begin_ns) / 1e9,
            mare_event_name(event->kind), event->process);
    const struct {
        const char *name;
        uint64_t value;
    } rest[] = {{"channel", event->channel},
                {event->kind == MARE_EVENT_SPAWN ? "other" : "life", event->other},
                {"cause", event->cause}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].value)
            fprintf(trace.file, ",\"%s\":%" PRIu64, rest[i].name, rest[i].value);
    if (event->name) {
        bool node = event->kind == MARE_EVENT_NODE || event->kind == MARE_EVENT_ARRIVE;
        fprintf(trace.file, ",\"%s\":",
                event->kind == MARE_EVENT_START ? "name"
                : node                          ? "node"
                                                : "channel_name");
        write_name(event->name);
    }
    fputs("}\n", trace.file);
}

// The C library forgets why a write failed, but its last one fails for the same reason.
bool mare__cli_close_written(FILE *file, const char *path, const char *what)
{
    bool bad = ferror(file) != 0;
    errno = 0;
    bad |= fclose(file) != 0;
    if (bad)
        fprintf(stderr, "mare: %s: not all of %s could be written%s%s\n", path, what,
                errno ? ": " : "", errno ? strerror(errno) : "");
    return !bad;
}

bool mare__cli_trace_open(const char *path)
{
    trace.path = path;
    trace.file = fopen(path, "w");
    if (!trace.file)
        fprintf(stderr, "mare: %s: %s\n", path, strerror(errno));
    return trace.file != NULL;
}

void mare__cli_trace_begin(mare_runtime *runtime)
{
    trace.begin_ns = mare_now_ns(runtime);
    if (trace.file)
        mare_trace(runtime, write_event, NULL);
}

bool mare__cli_trace_close(void)
{
    if (!trace.file)
        return true;
    bool good = mare__cli_close_written(trace.file, trace.path, "the trace");
    trace.file = NULL;
    return good;
}
