// SPDX-License-Identifier: MIT
// Reads traces. The number of an event is Lamport's clock, over all nodes that are traced: so the
// order of the numbers agrees with happened-before. But it hides the time in which two nodes do not
// talk. So this file takes events by their times, as far as no effect comes before its cause. A
// node says when it started, and its times count from there. If messages prove that its clock is
// wrong, this file corrects it as far as they prove it.
//
//     send #12 of ebb ──(12)──▶ arrive #40, from ebb: 12 ──▶ receive #41, cause: 40     of flow
//            └────────────────── the source ───────────────────┘
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_read.h"
#include "wire/utf8.h"

enum { LINE = 1024 }; // bytes: a name has 63, each of which may be six here

#define BACKWARD (UINT64_C(1) << 62) // ns: no clocks differ by more

bool mare__history_complain(const char *path, const char *why)
{
    fprintf(stderr, "mare trace draw: %s: %s\n", path, why);
    return false;
}

// ---- A line -------------------------------------------------------------------------------------

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

bool mare__history_number(const char **at, uint64_t *number)
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
bool mare__history_time(const char **at, uint64_t *time_ns)
{
    uint64_t seconds, unit = 1000000000;
    if (!mare__history_number(at, &seconds) || seconds > BACKWARD / unit)
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
    for (int i = 0; i <= MARE_EVENT_ARRIVE; i++) {
        const char *name = mare_event_name((mare_event_kind)i), *start = *at;
        if (take_word(at, name) && **at == '"') {
            *kind = (mare_event_kind)i;
            return true;
        }
        *at = start;
    }
    return false;
}

// The rest of a JSON string, behind its first quote. Spaces, and letters that mean something in a
// drawing or a log, become '_'; so do all bytes beyond ASCII if they are not UTF-8.
static bool take_text(const char **at, char *text)
{
    struct mare__utf8 state = {0};
    char *first = text;
    while (**at && **at != '"') {
        unsigned letter = (unsigned char)*(*at)++;
        if (letter == '\\' && **at == 'u') {
            letter = 0;
            *at += strnlen(*at, 5);
        } else if (letter == '\\' && **at) {
            letter = (unsigned char)*(*at)++;
        }
        *text++ = (char)(letter <= ' ' || strchr("<>&\"'", (int)letter) ? '_' : letter);
    }
    *text = '\0';
    bool sound = mare__utf8_check(&state, first, strlen(first)) && mare__utf8_complete(&state);
    for (; *first && !sound; first++)
        if ((unsigned char)*first >= 0x80)
            *first = '_';
    return take_word(at, "\"");
}

static bool read_event(const char *at, struct mare__happening *event, char *text)
{
    uint64_t other;
    *event = (struct mare__happening){
        .source = MARE__NOWHERE, .first = MARE__NOWHERE, .next = MARE__NOWHERE};
    *text = '\0';
    return take_word(&at, "{\"number\":") && mare__history_number(&at, &event->number) &&
           take_word(&at, ",\"time\":") && mare__history_time(&at, &event->time_ns) &&
           take_word(&at, ",\"event\":\"") && take_kind(&at, &event->kind) &&
           take_word(&at, "\",\"process\":") && mare__history_number(&at, &event->process) &&
           (!take_word(&at, ",\"channel\":") || mare__history_number(&at, &event->channel)) &&
           (!take_word(&at, ",\"other\":") || mare__history_number(&at, &other)) &&
           (!take_word(&at, ",\"life\":") || mare__history_number(&at, &event->life)) &&
           (!take_word(&at, ",\"cause\":") || mare__history_number(&at, &event->cause)) &&
           (!(take_word(&at, ",\"name\":\"") || take_word(&at, ",\"node\":\"") ||
              take_word(&at, ",\"channel_name\":\"")) ||
            take_text(&at, text)) &&
           take_word(&at, "}") && (*at == '\n' || *at == '\0');
}

// ---- A file -------------------------------------------------------------------------------------

// Room for `more` behind `size` of what is grown by doubling. False: there is no memory.
static bool grow(void **memory, size_t *room, size_t size, size_t more, size_t item)
{
    if (size + more <= *room)
        return true;
    size_t wanted = *room ? 2 * *room : 1024;
    void *larger = realloc(*memory, wanted * item);
    if (!larger)
        return false;
    *memory = larger;
    *room = wanted;
    return true;
}

static bool add(struct mare__history *history, unsigned file, struct mare__happening *event,
                const char *text)
{
    void *events = history->events, *texts = history->texts;
    size_t length = strlen(text) + 1;
    bool whole = grow(&events, &history->room, history->count, 1, sizeof *history->events);
    history->events = events;
    whole = whole && grow(&texts, &history->texts_room, history->texts_size, length, 1);
    history->texts = texts;
    if (!whole)
        return mare__history_complain(history->paths[file], "not enough memory for its events");
    event->file = file;
    if (history->texts_size == 0) // so that 0 is none
        history->texts[history->texts_size++] = '\0';
    if (*text) {
        event->text = history->texts_size;
        memcpy(history->texts + event->text, text, length);
        history->texts_size += length;
    }
    if (event->kind == MARE_EVENT_NODE && !history->node[file])
        history->node[file] = event->text;
    history->events[history->count++] = *event;
    return true;
}

// A program that was killed may have left half a line at the end, which is told and left out.
static bool read_lines(struct mare__history *history, unsigned file, FILE *in)
{
    char line[LINE], text[LINE], why[80];
    const char *path = history->paths[file];
    struct mare__happening event;
    bool good = true;
    for (uint64_t number = 1; good && fgets(line, sizeof line, in); number++) {
        bool whole = strchr(line, '\n') != NULL;
        if (read_event(line, &event, text) && whole) {
            good = add(history, file, &event, text);
        } else if (!whole && feof(in)) {
            fprintf(stderr, "mare trace draw: %s: line %" PRIu64 ", the last, is cut off\n", path,
                    number);
        } else {
            snprintf(why, sizeof why, "line %" PRIu64 " is not an event of a trace", number);
            good = mare__history_complain(path, why);
        }
    }
    if (good && ferror(in))
        good = mare__history_complain(path, strerror(errno));
    return good;
}

static bool read_file(struct mare__history *history, unsigned file)
{
    size_t before = history->count;
    FILE *in = fopen(history->paths[file], "r");
    if (!in)
        return mare__history_complain(history->paths[file], strerror(errno));
    bool good = read_lines(history, file, in);
    fclose(in);
    return good && (history->count > before ||
                    mare__history_complain(history->paths[file], "there is no event in it"));
}

// ---- What caused what ---------------------------------------------------------------------------

static int by_number(const void *a, const void *b)
{
    const struct mare__happening *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static size_t find(const struct mare__history *history, unsigned file, uint64_t number)
{
    struct mare__happening key = {.number = number, .file = file}, *found;
    found = bsearch(&key, history->events, history->count, sizeof key, by_number);
    return found ? (size_t)(found - history->events) : MARE__NOWHERE;
}

// The nodes that the programs were, one after the other perhaps.
struct nodes {
    const struct mare__happening *event[2 * MARE__HISTORY_FILES];
    unsigned count;
};

static struct nodes find_nodes(const struct mare__history *history)
{
    struct nodes nodes = {.count = 0};
    for (size_t i = 0; i < history->count && nodes.count < 2 * MARE__HISTORY_FILES; i++)
        if (history->events[i].kind == MARE_EVENT_NODE)
            nodes.event[nodes.count++] = &history->events[i];
    return nodes;
}

// The file of the node from which something has arrived, or `files`.
static unsigned file_of(const struct mare__history *history, const struct nodes *nodes,
                        const struct mare__happening *arrival)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct mare__happening *node = nodes->event[i];
        if (node->life == arrival->life &&
            strcmp(history->texts + node->text, history->texts + arrival->text) == 0)
            return node->file;
    }
    return history->files;
}

static void find_sources(struct mare__history *history)
{
    struct nodes nodes = find_nodes(history);
    for (size_t i = 0; i < history->count; i++) {
        struct mare__happening *event = &history->events[i];
        bool arrives = event->kind == MARE_EVENT_ARRIVE;
        if (event->cause)
            event->source = find(history, arrives ? file_of(history, &nodes, event) : event->file,
                                 event->cause);
        if (event->source != MARE__NOWHERE &&
            history->events[event->source].number >= event->number)
            event->source = MARE__NOWHERE; // a cause is earlier, by anybody's clock
    }
    for (size_t i = 0; i < history->count; i++) {
        size_t *source = &history->events[i].source;
        while (*source != MARE__NOWHERE && mare__history_is_aside(&history->events[*source]))
            *source = history->events[*source].source;
    }
}

const char *mare__history_channel_name(const struct mare__history *history,
                                       const struct mare__happening *event)
{
    bool has = event->channel && event->text && event->kind != MARE_EVENT_ARRIVE;
    return has ? history->texts + event->text : "";
}

bool mare__history_is_aside(const struct mare__happening *event)
{
    return event->kind == MARE_EVENT_NODE ||
           (event->kind == MARE_EVENT_ARRIVE && event->source != MARE__NOWHERE);
}

// ---- One order ----------------------------------------------------------------------------------

// By how much the clock of each file is ahead of that of the first: all times are since when a
// program began, and the life of a node tells when that was.
static void compare_clocks(const struct mare__history *history, uint64_t *ahead)
{
    uint64_t begun[MARE__HISTORY_FILES] = {0}, earliest = UINT64_MAX;
    for (size_t i = 0; i < history->count; i++) {
        const struct mare__happening *event = &history->events[i];
        if (event->kind == MARE_EVENT_NODE && !begun[event->file] && event->life > event->time_ns)
            begun[event->file] = event->life - event->time_ns;
    }
    for (unsigned i = 0; i < history->files; i++)
        if (begun[i] && begun[i] < earliest)
            earliest = begun[i];
    for (unsigned i = 0; i < history->files; i++)
        ahead[i] = begun[i] && begun[i] - earliest < BACKWARD ? begun[i] - earliest : 0;
}

// A message does not arrive before it was sent: where it seems to, the clock of the receiver is
// behind.
static void correct_clocks(const struct mare__history *history, uint64_t *ahead)
{
    bool changed = history->files > 1;
    for (unsigned round = 0; changed && round < history->files; round++) {
        changed = false;
        for (size_t i = 0; i < history->count; i++) {
            const struct mare__happening *event = &history->events[i], *source;
            if (event->source == MARE__NOWHERE)
                continue;
            source = &history->events[event->source];
            uint64_t sent = source->time_ns + ahead[source->file],
                     got = event->time_ns + ahead[event->file];
            if (source->file != event->file && got < sent && sent - got < BACKWARD) {
                ahead[event->file] += sent - got;
                changed = true;
            }
        }
    }
}

// The file whose next event comes first: of those whose source was taken, the earliest. There is
// one: the event of the lowest number.
static unsigned next_file(const struct mare__history *history, const size_t *next,
                          const size_t *end)
{
    unsigned best = history->files;
    for (unsigned i = 0; i < history->files; i++) {
        if (next[i] == end[i])
            continue;
        const struct mare__happening *event = &history->events[next[i]];
        size_t source = event->source;
        if (source != MARE__NOWHERE && source >= next[history->events[source].file])
            continue;
        if (best == history->files || event->time_ns < history->events[next[best]].time_ns)
            best = i;
    }
    return best;
}

// Takes the events in their order: `place` tells where each goes, `sorted` has room for them.
static void take_in_order(struct mare__history *history, size_t *place,
                          struct mare__happening *sorted)
{
    size_t next[MARE__HISTORY_FILES] = {0}, end[MARE__HISTORY_FILES] = {0};
    for (size_t i = history->count; i-- > 0;) {
        next[history->events[i].file] = i;
        if (!end[history->events[i].file])
            end[history->events[i].file] = i + 1;
    }
    uint64_t time_ns = 0;
    for (size_t count = 0; count < history->count; count++) {
        size_t i = next[next_file(history, next, end)]++;
        place[i] = count;
        sorted[count] = history->events[i];
        time_ns = sorted[count].time_ns > time_ns ? sorted[count].time_ns : time_ns;
        sorted[count].time_ns = time_ns; // two workers may have looked at the clock the other way
    }
}

static bool merge(struct mare__history *history)
{
    uint64_t ahead[MARE__HISTORY_FILES];
    size_t *place = malloc(history->count * sizeof *place);
    struct mare__happening *sorted = malloc(history->count * sizeof *sorted);
    if (!place || !sorted) {
        free(place);
        free(sorted);
        return mare__history_complain(history->paths[0], "not enough memory for all events");
    }
    compare_clocks(history, ahead);
    correct_clocks(history, ahead);
    for (size_t i = 0; i < history->count; i++)
        history->events[i].time_ns += ahead[history->events[i].file];
    take_in_order(history, place, sorted);
    for (size_t i = 0; i < history->count; i++)
        if (sorted[i].source != MARE__NOWHERE)
            sorted[i].source = place[sorted[i].source];
    free(place);
    free(history->events);
    history->events = sorted;
    history->room = history->count;
    return true;
}

static void chain_effects(struct mare__history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        struct mare__happening *event = &history->events[i];
        if (event->source == MARE__NOWHERE || mare__history_is_aside(event))
            continue;
        event->next = history->events[event->source].first;
        history->events[event->source].first = i;
    }
}

bool mare__history_read(struct mare__history *history, const char *const *paths, unsigned files)
{
    *history = (struct mare__history){.paths = paths, .files = files};
    for (unsigned i = 0; i < files; i++)
        if (!read_file(history, i))
            return false;
    qsort(history->events, history->count, sizeof *history->events, by_number);
    for (size_t i = 1; i < history->count; i++)
        if (by_number(&history->events[i - 1], &history->events[i]) == 0)
            return mare__history_complain(paths[history->events[i].file],
                                          "two events have the same number: it is of two runs");
    find_sources(history);
    if (!merge(history))
        return false;
    chain_effects(history);
    return true;
}

void mare__history_free(struct mare__history *history)
{
    free(history->events);
    free(history->texts);
}
