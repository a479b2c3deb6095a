// SPDX-License-Identifier: MIT
// The runner of the link's golden scripts; script.h describes the language. What an end sends is
// cut into frames and waits in a pipe of its own until a command delivers it.
#include "tests/link/script.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "support/golden.h"
#include "tests/link/tap.h"

enum { NODES = 8, ENDS = 32, WORDS = 24, PIPE = 1 << 20, PIECES = 16 };

struct node {
    char name[16];
    char group[64], beat[64];
    struct mare__link_settings settings;
    uint64_t stamp;
};

// One end of a connection, and the link over it, which may move to another connection.
struct end {
    char name[24];
    struct node *node;
    struct mare__link *link;
    struct end *peer;            // where its bytes go; NULL: nowhere
    bool lost;                   // on the way
    uint8_t *pipe;               // what it has sent and the peer has not received
    size_t pipe_size, pipe_seen; // seen: printed
    size_t room;                 // what fits into it
};

struct script {
    struct node nodes[NODES];
    struct end ends[ENDS];
    int node_count, end_count, connections;
    uint64_t now_us;
    bool bytes; // frames are shown byte by byte too
    const struct link_machine *machine;
    FILE *out;
};

// ---- Output and events as text ------------------------------------------------------------------

static const char *phase_name(enum mare__link_phase phase)
{
    static const char *const names[] = {"greeting", "asked", "live", "parted", "resuming", "done"};
    return names[phase];
}

static void print_text(FILE *out, struct mare__span text)
{
    fprintf(out, "%.*s", (int)text.size, text.at);
}

static void print_data(struct script *s, const struct mare__link_event *event)
{
    bool shown = event->size <= 60;
    for (size_t i = 0; i < event->size && shown; i++)
        shown = event->data[i] >= ' ' && event->data[i] <= '~';
    if (shown)
        fprintf(s->out, " '%.*s'", (int)event->size, (const char *)event->data);
    else
        fprintf(s->out, " <%zu bytes>", event->size);
}

static void print_event(struct script *s, const struct end *end,
                        const struct mare__link_event *event)
{
    const struct mare__link_hello *peer = s->machine->peer(end->link);
    struct mare__link_view view;
    s->machine->look(end->link, &view);
    fprintf(s->out, "%s: %s", end->name, mare__link_event_name(event->kind));
    switch (event->kind) {
    case MARE__LINK_HELLO:
    case MARE__LINK_UP:
        fputc(' ', s->out);
        print_text(s->out, peer->name);
        fprintf(s->out, ", version %" PRIu32, view.version);
        break;
    case MARE__LINK_OPENED:
    case MARE__LINK_ROOM:
        fprintf(s->out, " %" PRIu64 ": %" PRIu64 " messages, %" PRIu64 " bytes", event->flow,
                event->messages, event->bytes);
        break;
    case MARE__LINK_CLOSED:
        fprintf(s->out, " %" PRIu64 ", %" PRIu64 " dropped", event->flow, event->messages);
        break;
    case MARE__LINK_MESSAGE:
        fprintf(s->out, " %" PRIu64, event->flow);
        print_data(s, event);
        mare__free(event->block);
        break;
    case MARE__LINK_ENDED:
        fprintf(s->out, " %" PRIu64, event->flow);
        break;
    case MARE__LINK_GUEST:
    case MARE__LINK_BEAT:
        print_data(s, event);
        if (event->kind == MARE__LINK_BEAT && event->rtt_us)
            fprintf(s->out, " after %" PRIu64 " us", event->rtt_us);
        break;
    case MARE__LINK_SUSPECTED:
        fprintf(s->out, " (%s)", mare__link_code_word(event->code));
        break;
    case MARE__LINK_BROKEN:
        fprintf(s->out, "%s", event->dial ? ", to dial again" : "");
        break;
    case MARE__LINK_OVER:
        fprintf(s->out, " %s%s, '", mare__link_code_word(event->code),
                event->by_peer ? " by the peer" : "");
        print_text(s->out, event->text);
        fprintf(s->out, "'");
        if (event->messages)
            fprintf(s->out, ", %" PRIu64 " messages", event->messages);
        if (event->code == MARE__LINK_CODE_VERSION && event->by_peer)
            fprintf(s->out, ", it speaks %" PRIu32 " to %" PRIu32, peer->version_min,
                    peer->version_max);
        break;
    default:
        break;
    }
    fputc('\n', s->out);
}

// ---- Rounds -------------------------------------------------------------------------------------

static void collect_output(struct script *s, struct end *end)
{
    struct iovec pieces[PIECES];
    int count;
    while ((count = s->machine->output(end->link, pieces, PIECES)) > 0) {
        size_t sent = 0;
        for (int i = 0; i < count; i++) {
            size_t left = end->room - end->pipe_size;
            size_t size = pieces[i].iov_len < left ? pieces[i].iov_len : left;
            memcpy(end->pipe + end->pipe_size, pieces[i].iov_base, size);
            end->pipe_size += size;
            sent += size;
        }
        if (sent == 0)
            break;
        s->machine->sent(end->link, sent);
    }
    size_t length;
    while ((length = tap_frame(end->pipe + end->pipe_seen, end->pipe_size - end->pipe_seen)) > 0) {
        fprintf(s->out, "%s > ", end->name);
        tap_describe(s->out, end->pipe + end->pipe_seen, length);
        fprintf(s->out, "%s\n", end->peer && !end->lost ? "" : "   (lost)");
        if (s->bytes)
            tap_bytes(s->out, end->pipe + end->pipe_seen, length);
        end->pipe_seen += length;
    }
    if (!end->peer || end->lost)
        end->pipe_size = end->pipe_seen = 0;
}

// The host's round: time, perhaps bytes, events, output.
static void pump(struct script *s, struct end *end, const uint8_t *bytes, size_t size)
{
    struct mare__link_event event;
    s->machine->tick(end->link, s->now_us);
    if (size)
        s->machine->input(end->link, bytes, size);
    while (s->machine->next(end->link, &event))
        print_event(s, end, &event);
    collect_output(s, end);
}

static bool deliver_frame(struct script *s, struct end *from)
{
    size_t length = tap_frame(from->pipe, from->pipe_size);
    if (length == 0 || !from->peer)
        return false;
    uint8_t *frame = malloc(length);
    memcpy(frame, from->pipe, length);
    from->pipe_size -= length;
    from->pipe_seen -= length;
    memmove(from->pipe, from->pipe + length, from->pipe_size);
    collect_output(s, from); // there is room again
    pump(s, from->peer, frame, length);
    free(frame);
    return true;
}

static void deliver_all(struct script *s)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < s->end_count; i++)
            moved |= deliver_frame(s, &s->ends[i]);
    }
}

static void wait_until(struct script *s, uint64_t until)
{
    for (;;) {
        deliver_all(s);
        struct end *next = NULL;
        uint64_t at = until;
        for (int i = 0; i < s->end_count; i++) {
            uint64_t due = s->machine->deadline(s->ends[i].link);
            if (due <= at && (!next || due < at)) {
                next = &s->ends[i];
                at = due;
            }
        }
        s->now_us = at > s->now_us ? at : s->now_us;
        if (!next)
            break;
        pump(s, next, NULL, 0);
    }
}

// ---- Commands -----------------------------------------------------------------------------------

static void clear(struct script *s)
{
    for (int i = 0; i < s->end_count; i++) {
        s->machine->destroy(s->ends[i].link);
        free(s->ends[i].pipe);
    }
    memset(s, 0, sizeof *s);
}

static struct node *find_node(struct script *s, const char *name)
{
    for (int i = 0; name && i < s->node_count; i++) {
        if (strcmp(s->nodes[i].name, name) == 0)
            return &s->nodes[i];
    }
    return NULL;
}

static struct end *find_end(struct script *s, const char *name)
{
    for (int i = 0; name && i < s->end_count; i++) {
        if (strcmp(s->ends[i].name, name) == 0)
            return &s->ends[i];
    }
    return NULL;
}

static uint64_t number(const char *word)
{
    return word ? strtoull(word, NULL, 0) : 0;
}

static uint64_t duration_us(const char *word)
{
    char *unit = NULL;
    uint64_t value = word ? strtoull(word, &unit, 10) : 0;
    return value * (unit && strcmp(unit, "s") == 0 ? 1000000 : 1000);
}

static unsigned code_of(const char *word)
{
    unsigned code = 0;
    while (word && code < 100 && strcmp(mare__link_code_word(code), word) != 0)
        code++;
    return code;
}

static size_t beat(void *context, const struct mare__link *link, uint8_t *out)
{
    const struct node *node = context;
    (void)link;
    memcpy(out, node->beat, strlen(node->beat));
    return strlen(node->beat);
}

static bool set(struct node *node, char *word)
{
    struct mare__link_settings *settings = &node->settings;
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(word, "frame") == 0)
        settings->self.frame = (uint32_t)number(value);
    else if (strcmp(word, "flows") == 0)
        settings->self.flows = (uint32_t)number(value);
    else if (strcmp(word, "send") == 0)
        settings->send = number(value);
    else if (strcmp(word, "receive") == 0)
        settings->receive = number(value);
    else if (strcmp(word, "control") == 0)
        settings->self.control.bytes = number(value);
    else if (strcmp(word, "silence") == 0)
        settings->self.silence_us = duration_us(value);
    else if (strcmp(word, "features") == 0)
        settings->self.features = number(value);
    else if (strcmp(word, "incarnation") == 0)
        settings->self.incarnation = number(value);
    else if (strcmp(word, "versions") == 0) {
        settings->self.version_min = (uint32_t)number(value);
        settings->self.version_max = (uint32_t)number(strchr(value, '-') + 1);
    } else if (strcmp(word, "group") == 0) {
        snprintf(node->group, sizeof node->group, "%s", value);
        settings->self.group = mare__span_of(node->group);
    } else if (strcmp(word, "beat") == 0) {
        snprintf(node->beat, sizeof node->beat, "%s", value);
        settings->beat = beat;
    } else {
        return false;
    }
    return true;
}

static bool make_node(struct script *s, char **word, int words)
{
    struct node *node = find_node(s, word[1]); // again: started anew
    if (!node)
        node = &s->nodes[s->node_count++];
    memset(node, 0, sizeof *node);
    snprintf(node->name, sizeof node->name, "%s", word[1]);
    mare__link_settings_init(&node->settings);
    node->settings.self.name = mare__span_of(node->name);
    node->settings.self.incarnation = 1;
    node->settings.secret = 0x9e3779b97f4a7c15;
    node->settings.context = node;
    for (int i = 2; i < words; i++) {
        if (!set(node, word[i]))
            return false;
    }
    return true;
}

static struct end *make_end(struct script *s, struct node *node, enum mare__link_role role,
                            int connection)
{
    struct end *end = &s->ends[s->end_count++];
    snprintf(end->name, sizeof end->name, "%s%d", node->name, connection);
    end->node = node;
    end->pipe = malloc(PIPE);
    end->room = PIPE;
    end->link = s->machine->create(&node->settings, role,
                                   role == MARE__LINK_DIALS ? ++node->stamp : 0, s->now_us);
    if (!end->link || !end->pipe)
        abort();
    return end;
}

static void join(struct end *a, struct end *b)
{
    a->peer = b;
    b->peer = a;
    a->pipe_size = a->pipe_seen = b->pipe_size = b->pipe_seen = 0;
    a->lost = b->lost = false;
}

static void dial(struct script *s, struct node *from, struct node *to)
{
    int connection = ++s->connections;
    struct end *a = make_end(s, from, MARE__LINK_DIALS, connection);
    struct end *b = make_end(s, to, MARE__LINK_ACCEPTS, connection);
    join(a, b);
    pump(s, a, NULL, 0);
}

static void accept(struct script *s, struct end *end)
{
    uint8_t session[MARE__LINK_SESSION];
    memset(session, 's', sizeof session);
    s->machine->tick(end->link, s->now_us);
    s->machine->accept(end->link, session, ++end->node->stamp);
}

// A link that is up, without a word about the handshake.
static void link_up(struct script *s, struct node *from, struct node *to)
{
    FILE *out = s->out;
    s->out = fopen("/dev/null", "w");
    dial(s, from, to);
    struct end *a = &s->ends[s->end_count - 2], *b = &s->ends[s->end_count - 1];
    deliver_frame(s, a);
    accept(s, b);
    pump(s, b, NULL, 0);
    deliver_frame(s, b);
    fclose(s->out);
    s->out = out;
}

static void cut(struct script *s, struct end *end)
{
    if (end->peer)
        end->peer->peer = NULL;
    end->peer = NULL;
    s->machine->tick(end->link, s->now_us);
    s->machine->broken(end->link);
    pump(s, end, NULL, 0);
}

static void redial(struct script *s, struct end *end, struct node *to)
{
    struct end *fresh = make_end(s, to, MARE__LINK_ACCEPTS, ++s->connections);
    join(end, fresh);
    if (s->machine->redial(end->link))
        fprintf(s->out, "%s cannot\n", end->name);
    pump(s, end, NULL, 0);
}

// `fresh` is a connection that a RESUME came over; the link of `end` takes it.
static void resume(struct script *s, struct end *end, struct end *fresh)
{
    struct end *other = fresh->peer;
    s->machine->tick(end->link, s->now_us);
    mare_err err = s->machine->resume(end->link, fresh->link);
    if (!err) {
        join(end, other);
        fresh->peer = NULL;
    }
    pump(s, end, NULL, 0);
    if (err)
        pump(s, fresh, NULL, 0);
}

static void send(struct script *s, struct end *end, uint64_t flow, const char *text)
{
    const char *star = text ? strchr(text, '*') : NULL;
    size_t size = star ? (size_t)number(star + 1) : text ? strlen(text) : 0;
    char *bytes = malloc(size + 1);
    if (star)
        memset(bytes, text[0], size);
    else if (text)
        memcpy(bytes, text, size);
    struct mare__link_part part = {bytes, size, NULL};
    mare_err err = s->machine->send(end->link, flow, &part, 1);
    if (err)
        fprintf(s->out, "%s send %" PRIu64 ": %s\n", end->name, flow, mare__err_word(err));
    free(bytes);
}

static void raw(struct script *s, struct end *end, char **word, int words)
{
    uint8_t bytes[4096];
    size_t size = 0;
    for (int i = 2; i < words; i++) {
        for (const char *at = word[i]; at[0] && at[1]; at += 2) {
            char pair[3] = {at[0], at[1], 0};
            bytes[size++] = (uint8_t)strtoul(pair, NULL, 16);
        }
    }
    pump(s, end, bytes, size);
}

static void look(struct script *s, const struct end *end)
{
    struct mare__link_view view;
    s->machine->look(end->link, &view);
    fprintf(s->out,
            "%s %s, %" PRIu64 " frames in, %" PRIu64 " out of which %" PRIu64
            " acknowledged, frame %" PRIu32 ", silence %" PRIu64 " ms\n",
            end->name, phase_name(view.phase), view.frames_in, view.frames_out,
            view.frames_acknowledged, view.frame, view.silence_us / 1000);
}

static void open_flow(struct script *s, struct end *end, char **word, int words)
{
    struct mare__link_window window = {(uint32_t)number(word[3]), number(word[4])};
    mare_err err = s->machine->open(end->link, number(word[2]), window, words > 5, NULL);
    if (err)
        fprintf(s->out, "%s open %s: %s\n", end->name, word[2], mare__err_word(err));
}

static struct mare__span rest(char **word, int words, int from)
{
    static char text[300];
    text[0] = '\0';
    for (int i = from; i < words; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > from ? " " : "",
                 word[i]);
    return mare__span_of(text);
}

// Commands after which nothing is sent yet, so that several can follow each other.
static const char *const patient[] = {"send", "open", "close", "end", "consume", "bye"};

static bool is_patient(const char *line)
{
    for (size_t i = 0; i < sizeof patient / sizeof *patient; i++) {
        if (strncmp(line, patient[i], strlen(patient[i])) == 0)
            return true;
    }
    return false;
}

// Commands about one end. False: there is no such command.
static bool command_end(struct script *s, struct end *end, char **word, int words)
{
    const char *verb = word[0];
    uint64_t flow = number(word[2]);
    if (strcmp(verb, "accept") == 0)
        accept(s, end);
    else if (strcmp(verb, "refuse") == 0)
        s->machine->refuse(end->link, code_of(word[2]), rest(word, words, 3));
    else if (strcmp(verb, "quit") == 0)
        s->machine->quit(end->link, code_of(word[2]), rest(word, words, 3));
    else if (strcmp(verb, "bye") == 0)
        s->machine->bye(end->link, MARE__LINK_CODE_BYE, rest(word, words, 2));
    else if (strcmp(verb, "send") == 0)
        send(s, end, flow, word[3]);
    else if (strcmp(verb, "open") == 0)
        open_flow(s, end, word, words);
    else if (strcmp(verb, "close") == 0)
        s->machine->close(end->link, flow);
    else if (strcmp(verb, "end") == 0)
        s->machine->end(end->link, flow);
    else if (strcmp(verb, "consume") == 0)
        s->machine->consumed(end->link, flow, (uint32_t)number(word[3]), number(word[4]));
    else if (strcmp(verb, "lose") == 0 || strcmp(verb, "heal") == 0)
        end->lost = verb[0] == 'l';
    else if (strcmp(verb, "narrow") == 0)
        end->room = number(word[2]);
    else if (strcmp(verb, "look") == 0)
        look(s, end);
    else
        return false;
    return true;
}

static bool command_more(struct script *s, struct end *end, char **word, int words)
{
    const char *verb = word[0];
    struct end *second = find_end(s, word[2]);
    if (strcmp(verb, "raw") == 0)
        raw(s, end, word, words);
    else if (strcmp(verb, "judge") == 0)
        fprintf(s->out, "%s: %s\n", end->name,
                mare__link_code_word(s->machine->judge(&end->node->settings,
                                                       s->machine->peer(end->link),
                                                       second ? second->link : NULL)));
    else if (strcmp(verb, "redial") == 0 && find_node(s, word[2]))
        redial(s, end, find_node(s, word[2]));
    else if (strcmp(verb, "resume") == 0 && second)
        resume(s, end, second);
    else if (strcmp(verb, "cut") == 0) {
        cut(s, end);
        if (second)
            cut(s, second);
    } else if (strcmp(verb, "deliver") == 0) {
        for (uint64_t n = words > 2 ? number(word[2]) : 1; n > 0; n--)
            deliver_frame(s, end);
    } else {
        return false;
    }
    return true;
}

static bool run_command(struct script *s, char *line)
{
    char *word[WORDS + 1] = {0};
    int words = 0;
    for (char *at = strtok(line, " \n"); at && words < WORDS; at = strtok(NULL, " \n"))
        word[words++] = at;
    if (words == 0 || word[0][0] == '#')
        return true;
    if (strcmp(word[0], "node") == 0)
        return words > 1 && make_node(s, word, words);
    if (strcmp(word[0], "dial") == 0 && find_node(s, word[1]) && find_node(s, word[2]))
        return dial(s, find_node(s, word[1]), find_node(s, word[2])), true;
    if (strcmp(word[0], "link") == 0 && find_node(s, word[1]) && find_node(s, word[2]))
        return link_up(s, find_node(s, word[1]), find_node(s, word[2])), true;
    if (strcmp(word[0], "wait") == 0)
        return wait_until(s, s->now_us + duration_us(word[1])), true;
    if (strcmp(word[0], "sleep") == 0)
        return s->now_us += duration_us(word[1]), true;
    if (strcmp(word[0], "bytes") == 0)
        return s->bytes = true;
    if (strcmp(word[0], "deliver") == 0 && words == 1)
        return deliver_all(s), true;
    struct end *end = find_end(s, word[1]);
    if (!end)
        return false;
    if (!command_end(s, end, word, words))
        return command_more(s, end, word, words);
    if (!is_patient(word[0]))
        pump(s, end, NULL, 0);
    return true;
}

// What was sent and not yet offered: at the end of a block, or before anything arrives.
static void flush(struct script *s)
{
    for (int i = 0; i < s->end_count; i++)
        pump(s, &s->ends[i], NULL, 0);
}

// ---- The whole ----------------------------------------------------------------------------------

static bool run_line(void *context, char *line, FILE *out)
{
    struct script *s = context;
    s->out = out;
    if (!is_patient(line))
        flush(s);
    return run_command(s, line);
}

static void finish_block(void *context, FILE *out)
{
    struct script *s = context;
    s->out = out;
    flush(s);
}

int link_script_run(const char *path, const struct link_machine *machine, bool quiet)
{
    static const struct golden_language language = {.run = run_line, .finish = finish_block};
    struct script *s = calloc(1, sizeof *s);
    s->now_us = 1000000;
    s->machine = machine;
    int wrong = golden_run(path, &language, s, quiet);
    clear(s);
    free(s);
    return wrong;
}
