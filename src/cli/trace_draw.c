// SPDX-License-Identifier: MIT
// `mare trace draw`: the simulator's space-time diagram of a real run, made from what `mare
// --trace` has written, of one program or of several nodes (trace_read.c). The events of the window
// become what the simulator would have seen: a message is sent where its source is, and arrives
// where its effect is.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_read.h"
#include "sim/report.h"
#include "wire/utf8.h"

enum {
    LINES = 60,     // processes in a drawing
    READABLE = 500, // messages in one, unless a window is given
    CHOSEN = 64,    // processes that can be asked for
    LABEL = 48,     // bytes of what a process is called in a drawing
    CHANNELS = 40,  // named channels that are told apart
    SHORT = 15,     // bytes of a name that are shown
};

const char mare__cli_trace_draw_help[] =
    "mare trace draw FILE... [options]\n\n"
    "Draws what `mare --trace FILE` has written: a line for each process, an arrow for each\n"
    "message, spawn and end that another process has noticed, and where processes wait. The files\n"
    "of several nodes are drawn together, with the messages between them.\n\n"
    "  --out DRAWING      a page to move about in (.html), or .svg; FILE.html without it\n"
    "  --shiviz LOG       a log for ShiViz instead, with vector clocks\n"
    "  --from S, --to S   the part of the run to draw, in seconds from its beginning; without\n"
    "                     them the first 500 messages\n"
    "  --process P,P,...  only these processes, by their numbers or names; of one of several\n"
    "                     nodes: NODE/P\n\n"
    "  mare --trace app.trace app.lua\n"
    "  mare trace draw app.trace --to 0.5 --process 1,4,till\n"
    "  mare trace draw ebb.trace flow.trace --process ebb/1,flow/1\n";

// Kinds of arrows. FORMS: how many there are before those of named channels.
enum { SPAWN, MESSAGE, END, FORMS };

struct trace {
    struct mare__history history;
    const char *paths[MARE__HISTORY_FILES];
    unsigned files;
    uint64_t from_ns, to_ns;
    bool window;
    char *chosen[CHOSEN]; // as they were given
    bool found[CHOSEN];   // whether there are such processes
    unsigned choices;
    // The processes that these are.
    struct one {
        unsigned file;
        uint64_t process;
    } wanted[CHOSEN];
    unsigned wants;
    // Those that are drawn, and what they are called.
    struct one line[LINES];
    char names[LINES][LABEL];
    unsigned lines;
    // The kinds of arrows: these, then the messages of each channel that has a name.
    mare_coord_form forms[FORMS + CHANNELS + 1];
    char channel_names[CHANNELS][SHORT + 1];
    unsigned channels;
};

// ---- What is drawn ------------------------------------------------------------------------------

static const char *text_of(const struct trace *trace, size_t text)
{
    return text ? trace->history.texts + text : "";
}

static bool is_one(const struct one *one, const struct mare__happening *event)
{
    return one->file == event->file && one->process == event->process;
}

// Whether this event of a process shows that it was meant by "4", "till", "ebb/4" or "ebb/till".
static bool is_meant(const struct trace *trace, const struct mare__happening *event,
                     const char *word)
{
    const char *node = text_of(trace, trace->history.node[event->file]);
    size_t length = strlen(node);
    char number[24];
    if (length && strncmp(word, node, length) == 0 && word[length] == '/')
        word += length + 1;
    snprintf(number, sizeof number, "%" PRIu64, event->process);
    return strcmp(word, number) == 0 || (event->kind == MARE_EVENT_START && event->text &&
                                         strcmp(word, text_of(trace, event->text)) == 0);
}

static bool is_known(const struct trace *trace, const struct mare__happening *event)
{
    for (unsigned i = 0; i < trace->wants; i++)
        if (is_one(&trace->wanted[i], event))
            return true;
    return false;
}

// A name that is nobody's is most likely misspelt.
static bool all_found(const struct trace *trace)
{
    char why[128];
    for (unsigned i = 0; i < trace->choices; i++)
        if (!trace->found[i]) {
            snprintf(why, sizeof why, "no process is called '%.80s'%s", trace->chosen[i],
                     strcmp(trace->chosen[i], "main") == 0 ? " (the main script is 1)" : "");
            return mare__history_complain(trace->paths[0], why);
        }
    return true;
}

static bool find_wanted(struct trace *trace)
{
    for (size_t i = 0; trace->choices > 0 && i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
        bool meant = false;
        for (unsigned j = 0; j < trace->choices; j++)
            if (is_meant(trace, event, trace->chosen[j]))
                trace->found[j] = meant = true;
        if (!meant || is_known(trace, event))
            continue;
        if (trace->wants == CHOSEN)
            return mare__history_complain(trace->paths[0],
                                          "--process chooses more than 64 processes");
        trace->wanted[trace->wants++] = (struct one){event->file, event->process};
    }
    return all_found(trace);
}

static bool is_wanted(const struct trace *trace, const struct mare__happening *event)
{
    return !mare__history_is_aside(event) && (trace->choices == 0 || is_known(trace, event)) &&
           event->time_ns >= trace->from_ns && event->time_ns <= trace->to_ns;
}

static void choose_window(struct trace *trace)
{
    unsigned messages = 0;
    for (size_t i = 0; !trace->window && i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
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

static uint32_t line_of(const struct trace *trace, const struct mare__happening *event)
{
    for (unsigned i = 0; i < trace->lines; i++)
        if (is_one(&trace->line[i], event))
            return i;
    return MARE_COORD_NOBODY;
}

// "4", "4:till", and of several nodes "ebb/4:till".
static void name_line(struct trace *trace, const struct mare__happening *event)
{
    char *name = trace->names[trace->lines];
    const char *node = text_of(trace, trace->history.node[event->file]);
    int length = 0;
    if (trace->files > 1 && *node)
        length = snprintf(name, LABEL, "%.*s/", (int)mare__utf8_fit(node, 20), node);
    else if (trace->files > 1)
        length = snprintf(name, LABEL, "%u/", event->file + 1);
    if (event->process)
        snprintf(name + length, LABEL - (size_t)length, "%" PRIu64, event->process);
    else
        snprintf(name + length, LABEL - (size_t)length, "outside");
    trace->line[trace->lines++] = (struct one){event->file, event->process};
}

static void add_names(struct trace *trace)
{
    for (size_t i = 0; i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
        uint32_t line = event->kind == MARE_EVENT_START && event->text ? line_of(trace, event)
                                                                       : MARE_COORD_NOBODY;
        if (line == MARE_COORD_NOBODY)
            continue;
        size_t length = strlen(trace->names[line]);
        const char *name = text_of(trace, event->text);
        snprintf(trace->names[line] + length, LABEL - length, ":%.*s",
                 (int)mare__utf8_fit(name, SHORT), name);
    }
}

static bool choose_lines(struct trace *trace)
{
    for (size_t i = 0; i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
        if (!is_wanted(trace, event) || line_of(trace, event) != MARE_COORD_NOBODY)
            continue;
        if (trace->lines == LINES)
            return mare__history_complain(trace->paths[0],
                                          "more than 60 processes do something in that time; "
                                          "choose some by --process, or less by --from and --to");
        name_line(trace, event);
    }
    add_names(trace);
    return trace->lines > 0 ||
           mare__history_complain(trace->paths[0], "no event is in that part of it");
}

// ---- As the simulator would have seen it --------------------------------------------------------

static const mare_coord_form forms[FORMS] = {
    {.name = "spawn"}, {.name = "message", .field = {"channel"}}, {.name = "end"}};

static void see(mare_sim_recording *recording, mare_sim_observation *seen)
{
    recording->observer.see(&recording->observer, seen);
}

static void step(mare_sim_recording *recording, const struct mare__happening *event, uint32_t line,
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

// The kind of the messages of a channel that has a name; MESSAGE where there are too many of these.
static unsigned kind_of_channel(struct trace *trace, const char *name)
{
    char shown[SHORT + 1];
    unsigned i = 0;
    snprintf(shown, sizeof shown, "%.*s", (int)mare__utf8_fit(name, SHORT), name);
    while (i < trace->channels && strcmp(trace->channel_names[i], shown) != 0)
        i++;
    if (i == CHANNELS)
        return MESSAGE;
    if (i == trace->channels) {
        trace->forms[FORMS + i] = forms[MESSAGE];
        trace->forms[FORMS + i].name = strcpy(trace->channel_names[i], shown);
        trace->channels++;
    }
    return FORMS + i;
}

// Of what has come from outside, only the effect is known. A channel of another node has its name
// only there, where messages are received.
static unsigned kind_of(struct trace *trace, const struct mare__happening *cause,
                        const struct mare__happening *effect)
{
    if (cause->kind == MARE_EVENT_SPAWN)
        return SPAWN;
    if (cause->kind != MARE_EVENT_SEND && !effect->channel)
        return END;
    const char *name = mare__history_channel_name(&trace->history, effect);
    if (!*name)
        name = mare__history_channel_name(&trace->history, cause);
    return *name ? kind_of_channel(trace, name) : MESSAGE;
}

// The message between two events, sent or arriving.
static void pass(struct trace *trace, mare_sim_recording *recording,
                 const struct mare__happening *cause, const struct mare__happening *effect,
                 bool arrives)
{
    mare_coord_event arrival = {.kind = MARE_COORD_MESSAGE};
    uint32_t from = line_of(trace, cause), to = line_of(trace, effect);
    unsigned kind = kind_of(trace, cause, effect);
    uint8_t data[2 + 8] = {0, (uint8_t)kind};
    for (int i = 0; i < 8; i++)
        data[2 + i] = (uint8_t)(effect->channel >> (8 * i));
    mare_sim_observation seen = {.sight = arrives ? MARE_SIM_STEPPED : MARE_SIM_SENT,
                                 .process = arrives ? to : from,
                                 .peer = arrives ? from : to,
                                 .time_us = arrives ? effect->time_ns : cause->time_ns,
                                 .message = (uint64_t)(effect - trace->history.events) + 1,
                                 .event = arrives ? &arrival : NULL,
                                 .data = data,
                                 .length = kind == SPAWN || kind == END ? 2 : sizeof data};
    see(recording, &seen);
}

static void show_event(struct trace *trace, mare_sim_recording *recording,
                       const struct mare__happening *event, mare_sim_outcome *outcome)
{
    uint32_t line = line_of(trace, event);
    const struct mare__happening *events = trace->history.events, *cause = NULL;
    if (event->source != MARE__NOWHERE)
        cause = &events[event->source];
    if (!recording->born[line])
        step(recording, event, line, MARE_COORD_START, false);
    if (cause && is_wanted(trace, cause))
        pass(trace, recording, cause, event, true);
    else if (event->kind == MARE_EVENT_BLOCK || event->kind == MARE_EVENT_WAKE)
        step(recording, event, line, MARE_COORD_TIMER, event->kind == MARE_EVENT_BLOCK);
    for (size_t i = event->first; i != MARE__NOWHERE; i = events[i].next) {
        if (!is_wanted(trace, &events[i]))
            continue;
        pass(trace, recording, event, &events[i], false);
        outcome->sent++;
        outcome->by_kind[kind_of(trace, event, &events[i])]++;
    }
    if (event->kind == MARE_EVENT_END) {
        mare_sim_observation seen = {
            .sight = MARE_SIM_DEPARTED, .process = line, .time_us = event->time_ns};
        see(recording, &seen);
    }
}

static void record_all(struct trace *trace, mare_sim_recording *recording,
                       mare_sim_outcome *outcome)
{
    for (size_t i = 0; i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
        if (!is_wanted(trace, event))
            continue;
        show_event(trace, recording, event, outcome);
        outcome->time_us = event->time_ns - trace->from_ns;
    }
}

static void write_page(struct trace *trace, const char *const *names, bool svg, FILE *file)
{
    mare_sim_captions captions = {.name = names};
    mare_sim_show show = {
        .title = trace->paths[0], .real = 1, .captions = &captions, .to_us = UINT64_MAX};
    mare_coord_algorithm run = {.name = "run",
                                .title = "A run",
                                .source = "",
                                .family = MARE_COORD_MUTEX,
                                .forms = trace->forms};
    mare_sim_options options = {.setup = {.algorithm = &run, .members = trace->lines}};
    mare_sim_outcome outcome = {0};
    mare_sim_recording recording;
    memcpy(trace->forms, forms, sizeof forms);
    mare_sim_recording_init(&recording, &run, trace->lines);
    recording.captions = &captions;
    record_all(trace, &recording, &outcome);
    if (svg)
        mare_sim_write_svg(&recording, &options, &show, &outcome, file);
    else
        mare_sim_write_html(&recording, &options, &show, &outcome, file);
    mare_sim_recording_fini(&recording);
}

static bool write_log(const struct trace *trace, const char *const *names, FILE *file)
{
    uint32_t *host = malloc(trace->history.count * sizeof *host);
    for (size_t i = 0; host && i < trace->history.count; i++) {
        const struct mare__happening *event = &trace->history.events[i];
        host[i] = is_wanted(trace, event) ? line_of(trace, event) : MARE_COORD_NOBODY;
    }
    bool good =
        host && mare__history_write_shiviz(&trace->history, host, trace->lines, names, file);
    free(host);
    return good;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), more = strlen(end);
    return length > more && strcmp(text + length - more, end) == 0;
}

static bool write_drawing(struct trace *trace, const char *out, bool shiviz)
{
    const char *names[LINES];
    bool bad = false;
    for (unsigned i = 0; i < trace->lines; i++)
        names[i] = trace->names[i];
    FILE *file = fopen(out, "w");
    if (!file)
        return mare__history_complain(out, strerror(errno));
    if (shiviz)
        bad = !write_log(trace, names, file);
    else
        write_page(trace, names, ends_with(out, ".svg"), file);
    if (!mare__cli_close_written(file, out, "the drawing"))
        return false;
    return !bad || mare__history_complain(out, "not enough memory to write it");
}

// ---- The command --------------------------------------------------------------------------------

// Cuts the list into its words, where it stands.
static bool read_processes(struct trace *trace, char *at)
{
    while (at) {
        char *end = strchr(at, ',');
        if (end)
            *end++ = '\0';
        if (!*at || trace->choices == CHOSEN)
            return false;
        trace->chosen[trace->choices++] = at;
        at = end;
    }
    return true;
}

static bool is_option(const char *name)
{
    static const char *const names[] = {"--from", "--to", "--process", "--out", "--shiviz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool read_option(struct trace *trace, const char *name, char *value, const char **out,
                        bool *shiviz)
{
    const char *at = value;
    bool from = strcmp(name, "--from") == 0;
    if (from || strcmp(name, "--to") == 0) {
        trace->window = true;
        return mare__history_time(&at, from ? &trace->from_ns : &trace->to_ns) && *at == '\0';
    }
    if (strcmp(name, "--process") == 0)
        return read_processes(trace, value);
    *out = value;
    *shiviz = strcmp(name, "--shiviz") == 0;
    return *shiviz || ends_with(value, ".html") || ends_with(value, ".svg");
}

// Returns the exit code of a command that was called in a wrong way, or 0.
static int read_words(struct trace *trace, int argc, char **argv, const char **out, bool *shiviz)
{
    for (int i = 2; i < argc; i++) {
        bool known = is_option(argv[i]);
        if (!known && argv[i][0] == '-' && argv[i][1])
            return mare__cli_refuse("trace", mare__cli_trace_draw_help, "there is no option",
                                    argv[i]);
        if (!known && trace->files == MARE__HISTORY_FILES)
            return mare__cli_refuse("trace", mare__cli_trace_draw_help,
                                    "there are more than 60 files:", argv[i]);
        if (!known) {
            trace->paths[trace->files++] = argv[i];
            continue;
        }
        if (++i == argc)
            return mare__cli_refuse("trace", mare__cli_trace_draw_help, "there is no value for",
                                    argv[i - 1]);
        if (read_option(trace, argv[i - 1], argv[i], out, shiviz))
            continue;
        fprintf(stderr, "mare trace: %s cannot be '%s'; 'mare help trace' tells more\n",
                argv[i - 1], argv[i]);
        return EXIT_USAGE;
    }
    return 0;
}

int mare__cli_trace(int argc, char **argv)
{
    struct trace trace = {.to_ns = UINT64_MAX};
    const char *out = NULL;
    bool shiviz = false;
    char path[4352];
    int refused = argc > 2 && strcmp(argv[1], "draw") == 0
                      ? read_words(&trace, argc, argv, &out, &shiviz)
                      : 0;
    if (refused)
        return refused;
    if (trace.files == 0) {
        fputs("mare: trace draws what --trace has written: mare trace draw FILE\n", stderr);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof path, "%s.html", trace.paths[0]);
    out = out ? out : path;
    bool good = mare__history_read(&trace.history, trace.paths, trace.files) && find_wanted(&trace);
    if (good) {
        choose_window(&trace);
        good = choose_lines(&trace) && write_drawing(&trace, out, shiviz);
    }
    if (good)
        printf("%s: %u processes\n", out, trace.lines);
    mare__history_free(&trace.history);
    return good ? 0 : EXIT_DIED;
}
