// SPDX-License-Identifier: MIT
// `mare trace draw`: the simulator's space-time diagram of a real run, made from what `mare
// --trace` has written. The events are read and put into order; each effect is chained to its
// cause; then those of the window become what the simulator would have seen: a message is sent
// where its cause is, and arrives where its effect is.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/report.h"

enum {
    LINES = 60,     // processes in a drawing
    READABLE = 500, // messages in one, unless a window is given
    CHOSEN = 64,    // processes that can be asked for
};

const char mare__cli_trace_draw_help[] =
    "mare trace draw FILE [options]\n\n"
    "Draws what `mare --trace FILE` has written: a line for each process, an arrow for each\n"
    "message, spawn and end that another process has noticed, and where processes wait.\n\n"
    "  --out DRAWING      a page to move about in (.html), or .svg; FILE.html without it\n"
    "  --from S, --to S   the part of the run to draw, in seconds from its beginning; without\n"
    "                     them the first 500 messages\n"
    "  --process N,N,...  only these processes, by their numbers\n\n"
    "  mare --trace app.trace app.lua\n"
    "  mare trace draw app.trace --to 0.5 --process 1,4,5\n";

struct event {
    uint64_t number, time_ns, process, channel, cause;
    mare_event_kind kind;
    size_t first, next; // its effects: the first, and the next of its own cause; NOWHERE: none
};

#define NOWHERE SIZE_MAX

struct trace {
    const char *path;
    struct event *events;
    size_t count, room;
    uint64_t from_ns, to_ns;
    bool window;
    uint64_t chosen[CHOSEN];
    unsigned choices;
    // Those that are drawn: their numbers and names.
    uint64_t process[LINES];
    char names[LINES][24];
    unsigned lines;
};

// ---- Reading ------------------------------------------------------------------------------------

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_number(const char **at, uint64_t *number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

// Seconds, with up to nine digits after the point.
static bool take_time(const char **at, uint64_t *time_ns)
{
    uint64_t seconds, unit = 1000000000;
    if (!take_number(at, &seconds) || seconds > UINT64_MAX / unit - 1)
        return false;
    *time_ns = seconds * unit;
    if (**at != '.')
        return true;
    for (++*at; **at >= '0' && **at <= '9'; ++*at)
        *time_ns += (uint64_t)(**at - '0') * (unit /= 10);
    return true;
}

static bool take_kind(const char **at, mare_event_kind *kind)
{
    for (int i = 0; i <= MARE_EVENT_END; i++) {
        const char *name = mare_event_name((mare_event_kind)i), *start = *at;
        if (take_word(at, name) && **at == '"') {
            *kind = (mare_event_kind)i;
            return true;
        }
        *at = start;
    }
    return false;
}

static bool read_event(const char *at, struct event *event)
{
    uint64_t other;
    *event = (struct event){.first = NOWHERE, .next = NOWHERE};
    return take_word(&at, "{\"number\":") && take_number(&at, &event->number) &&
           take_word(&at, ",\"time\":") && take_time(&at, &event->time_ns) &&
           take_word(&at, ",\"event\":\"") && take_kind(&at, &event->kind) &&
           take_word(&at, "\",\"process\":") && take_number(&at, &event->process) &&
           (!take_word(&at, ",\"channel\":") || take_number(&at, &event->channel)) &&
           (!take_word(&at, ",\"other\":") || take_number(&at, &other)) &&
           (!take_word(&at, ",\"cause\":") || take_number(&at, &event->cause)) &&
           take_word(&at, "}") && (*at == '\n' || *at == '\0');
}

static bool complain(const char *path, const char *why)
{
    fprintf(stderr, "mare trace draw: %s: %s\n", path, why);
    return false;
}

static bool add(struct trace *trace, const struct event *event)
{
    if (trace->count == trace->room) {
        size_t room = trace->room ? 2 * trace->room : 1024;
        struct event *events = realloc(trace->events, room * sizeof *events);
        if (!events)
            return complain(trace->path, "not enough memory for so many events");
        trace->events = events;
        trace->room = room;
    }
    trace->events[trace->count++] = *event;
    return true;
}

// A program that was killed may have left half a line at the end, which is told and left out.
static bool read_lines(struct trace *trace, FILE *file)
{
    char line[512], why[80];
    struct event event;
    bool good = true;
    for (uint64_t number = 1; good && fgets(line, sizeof line, file); number++) {
        bool whole = strchr(line, '\n') != NULL;
        if (read_event(line, &event) && whole) {
            good = add(trace, &event);
        } else if (!whole && feof(file)) {
            fprintf(stderr, "mare trace draw: %s: line %" PRIu64 ", the last, is cut off\n",
                    trace->path, number);
        } else {
            snprintf(why, sizeof why, "line %" PRIu64 " is no event of a trace", number);
            good = complain(trace->path, why);
        }
    }
    if (good && ferror(file))
        good = complain(trace->path, strerror(errno));
    return good;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct event *)a)->number, y = ((const struct event *)b)->number;
    return (x > y) - (x < y);
}

static struct event *find(const struct trace *trace, uint64_t number)
{
    struct event key = {.number = number};
    return trace->count ? bsearch(&key, trace->events, trace->count, sizeof key, by_number) : NULL;
}

// Puts the events into the order of their numbers, and chains effects to causes. Times do not go
// back: two workers may have looked at the clock in the other order.
static bool link_up(struct trace *trace)
{
    if (trace->count == 0)
        return complain(trace->path, "there is no event in it");
    qsort(trace->events, trace->count, sizeof *trace->events, by_number);
    for (size_t i = 0; i < trace->count; i++) {
        struct event *event = &trace->events[i];
        if (i > 0 && event->number == event[-1].number)
            return complain(trace->path, "two events have the same number: it is of two runs");
        if (i > 0 && event->time_ns < event[-1].time_ns)
            event->time_ns = event[-1].time_ns;
        struct event *cause = event->cause ? find(trace, event->cause) : NULL;
        if (!cause || cause >= event)
            continue;
        event->next = cause->first;
        cause->first = i;
    }
    return true;
}

static bool read_trace(struct trace *trace)
{
    FILE *file = fopen(trace->path, "r");
    if (!file)
        return complain(trace->path, strerror(errno));
    bool good = read_lines(trace, file);
    fclose(file);
    return good && link_up(trace);
}

// ---- What is drawn ------------------------------------------------------------------------------

static bool is_wanted(const struct trace *trace, const struct event *event)
{
    bool chosen = trace->choices == 0;
    for (unsigned i = 0; i < trace->choices && !chosen; i++)
        chosen = trace->chosen[i] == event->process;
    return chosen && event->time_ns >= trace->from_ns && event->time_ns <= trace->to_ns;
}

static void choose_window(struct trace *trace)
{
    unsigned messages = 0;
    for (size_t i = 0; !trace->window && i < trace->count; i++) {
        const struct event *event = &trace->events[i];
        messages += event->cause != 0 && is_wanted(trace, event);
        if (messages > READABLE) {
            trace->to_ns = event->time_ns;
            fprintf(stderr,
                    "mare trace draw: only the first %d messages, to %.6f s; --from and --to "
                    "choose others\n",
                    READABLE, (double)trace->to_ns / 1e9);
            return;
        }
    }
}

static uint32_t line_of(const struct trace *trace, uint64_t process)
{
    for (unsigned i = 0; i < trace->lines; i++)
        if (trace->process[i] == process)
            return i;
    return MARE_COORD_NOBODY;
}

static bool choose_lines(struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        const struct event *event = &trace->events[i];
        if (!is_wanted(trace, event) || line_of(trace, event->process) != MARE_COORD_NOBODY)
            continue;
        if (trace->lines == LINES)
            return complain(trace->path, "more than 60 processes do something in that time; choose "
                                         "some by --process, or less by --from and --to");
        if (event->process)
            snprintf(trace->names[trace->lines], sizeof *trace->names, "%" PRIu64, event->process);
        else
            snprintf(trace->names[trace->lines], sizeof *trace->names, "outside");
        trace->process[trace->lines++] = event->process;
    }
    return trace->lines > 0 || complain(trace->path, "no event is in that part of it");
}

// ---- As the simulator would have seen it --------------------------------------------------------

enum { SPAWN, MESSAGE, END };

static const mare_coord_form forms[] = {
    {.name = "spawn"}, {.name = "message", .field = {"channel"}}, {.name = "end"}, {.name = NULL}};

static const mare_coord_algorithm run = {
    .name = "run", .title = "A run", .source = "", .family = MARE_COORD_MUTEX, .forms = forms};

static void see(mare_sim_recording *recording, mare_sim_observation *seen)
{
    recording->observer.see(&recording->observer, seen);
}

static void step(mare_sim_recording *recording, const struct event *event, uint32_t line,
                 mare_coord_event_kind kind, bool waits)
{
    mare_coord_event about = {.kind = kind};
    mare_sim_observation seen = {.sight = MARE_SIM_STEPPED,
                                 .process = line,
                                 .peer = MARE_COORD_NOBODY,
                                 .time_us = event->time_ns,
                                 .event = &about};
    see(recording, &seen);
    recording->record[recording->count - 1].waiting = waits;
}

// The message between two events, sent or arriving.
static void pass(const struct trace *trace, mare_sim_recording *recording,
                 const struct event *cause, const struct event *effect, bool arrives)
{
    mare_coord_event arrival = {.kind = MARE_COORD_MESSAGE};
    uint32_t from = line_of(trace, cause->process), to = line_of(trace, effect->process);
    uint8_t data[2 + 8] = {0, cause->kind == MARE_EVENT_SPAWN  ? SPAWN
                              : cause->kind == MARE_EVENT_SEND ? MESSAGE
                                                               : END};
    for (int i = 0; i < 8; i++)
        data[2 + i] = (uint8_t)(effect->channel >> (8 * i));
    mare_sim_observation seen = {.sight = arrives ? MARE_SIM_STEPPED : MARE_SIM_SENT,
                                 .process = arrives ? to : from,
                                 .peer = arrives ? from : to,
                                 .time_us = arrives ? effect->time_ns : cause->time_ns,
                                 .message = (uint64_t)(effect - trace->events) + 1,
                                 .event = arrives ? &arrival : NULL,
                                 .data = data,
                                 .length = data[1] == MESSAGE ? sizeof data : 2};
    see(recording, &seen);
}

static void show_event(const struct trace *trace, mare_sim_recording *recording,
                       const struct event *event, mare_sim_outcome *outcome)
{
    uint32_t line = line_of(trace, event->process);
    const struct event *cause = event->cause ? find(trace, event->cause) : NULL;
    if (!recording->born[line])
        step(recording, event, line, MARE_COORD_START, false);
    if (cause && is_wanted(trace, cause) && cause < event)
        pass(trace, recording, cause, event, true);
    else if (event->kind == MARE_EVENT_BLOCK || event->kind == MARE_EVENT_WAKE)
        step(recording, event, line, MARE_COORD_TIMER, event->kind == MARE_EVENT_BLOCK);
    for (size_t i = event->first; i != NOWHERE; i = trace->events[i].next) {
        if (!is_wanted(trace, &trace->events[i]))
            continue;
        pass(trace, recording, event, &trace->events[i], false);
        outcome->sent++;
        outcome->by_kind[event->kind == MARE_EVENT_SPAWN  ? SPAWN
                         : event->kind == MARE_EVENT_SEND ? MESSAGE
                                                          : END]++;
    }
    if (event->kind == MARE_EVENT_END) {
        mare_sim_observation seen = {
            .sight = MARE_SIM_DEPARTED, .process = line, .time_us = event->time_ns};
        see(recording, &seen);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), more = strlen(end);
    return length > more && strcmp(text + length - more, end) == 0;
}

static bool write_drawing(const struct trace *trace, const char *out)
{
    const char *names[LINES];
    for (unsigned i = 0; i < trace->lines; i++)
        names[i] = trace->names[i];
    mare_sim_captions captions = {.name = names};
    mare_sim_show show = {.title = trace->path, .real = 1, .captions = &captions};
    mare_sim_options options = {.setup = {.algorithm = &run, .members = trace->lines}};
    mare_sim_outcome outcome = {0};
    mare_sim_recording recording;
    FILE *file = fopen(out, "w");
    if (!file)
        return complain(out, strerror(errno));
    mare_sim_recording_init(&recording, &run, trace->lines);
    recording.captions = &captions;
    for (size_t i = 0; i < trace->count; i++) {
        const struct event *event = &trace->events[i];
        if (!is_wanted(trace, event))
            continue;
        show_event(trace, &recording, event, &outcome);
        outcome.time_us = event->time_ns - trace->from_ns;
    }
    show.to_us = UINT64_MAX; // the window has been chosen
    if (ends_with(out, ".svg"))
        mare_sim_write_svg(&recording, &options, &show, &outcome, file);
    else
        mare_sim_write_html(&recording, &options, &show, &outcome, file);
    mare_sim_recording_fini(&recording);
    bool bad = ferror(file) != 0;
    bad |= fclose(file) != 0;
    return !bad || complain(out, "not all of it could be written");
}

// ---- The command --------------------------------------------------------------------------------

static bool read_processes(struct trace *trace, const char *at)
{
    do {
        if (trace->choices == CHOSEN || !take_number(&at, &trace->chosen[trace->choices++]))
            return false;
    } while (take_word(&at, ","));
    return *at == '\0';
}

static bool is_option(const char *name)
{
    static const char *const names[] = {"--from", "--to", "--process", "--out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool read_option(struct trace *trace, const char *name, const char *value, const char **out)
{
    const char *at = value;
    bool from = strcmp(name, "--from") == 0;
    if (from || strcmp(name, "--to") == 0) {
        trace->window = true;
        return take_time(&at, from ? &trace->from_ns : &trace->to_ns) && *at == '\0';
    }
    if (strcmp(name, "--process") == 0)
        return read_processes(trace, value);
    *out = value;
    return strcmp(name, "--out") == 0 && (ends_with(value, ".html") || ends_with(value, ".svg"));
}

int mare__cli_trace(int argc, char **argv)
{
    struct trace trace = {.path = argc > 2 ? argv[2] : NULL, .to_ns = UINT64_MAX};
    const char *out = NULL;
    char path[4352];
    if (argc < 3 || strcmp(argv[1], "draw") != 0) {
        fputs("mare: trace draws what --trace has written: mare trace draw FILE\n", stderr);
        return EXIT_USAGE;
    }
    for (int i = 3; i < argc; i += 2) {
        if (i + 1 < argc && read_option(&trace, argv[i], argv[i + 1], &out))
            continue;
        bool known = is_option(argv[i]);
        if (!known || i + 1 == argc)
            return mare__cli_refuse("trace", mare__cli_trace_draw_help,
                                    known ? "there is no value for" : "there is no option",
                                    argv[i]);
        fprintf(stderr, "mare trace: %s cannot be '%s'; 'mare help trace' tells more\n", argv[i],
                argv[i + 1]);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof path, "%s.html", trace.path);
    out = out ? out : path;
    bool good = read_trace(&trace);
    if (good) {
        choose_window(&trace);
        good = choose_lines(&trace) && write_drawing(&trace, out);
    }
    if (good)
        printf("%s: %u processes\n", out, trace.lines);
    free(trace.events);
    return good ? 0 : EXIT_DIED;
}
