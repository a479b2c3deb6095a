/* SPDX-License-Identifier: MIT */

/* The runner of golden scripts; script.h describes the language. Messages under way are kept in one
 * list in the order of sending; nothing moves unless a command says so. */

#include "support/script.h"
#include "support/golden.h"

#include <inttypes.h>
#include <mare/coord.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 32
#define UNDER_WAY_MAX 4096
#define DELIVERIES_MAX 100000

typedef struct letter {
    uint32_t from, to, length;
    uint8_t *data;
} letter;

typedef struct script {
    const mare_coord_algorithm *algorithm;
    uint32_t n;
    mare_coord *machine[GROUP_MAX];
    mare_coord_effects effects;
    letter under_way[UNDER_WAY_MAX];
    uint32_t letters;
    int crashed[GROUP_MAX];
    FILE *out;
} script;

/* Effects as text, one a line --------------------------------------------------------------- */

static void post(script *s, uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    if (s->letters == UNDER_WAY_MAX)
        abort();
    letter *fresh = &s->under_way[s->letters++];
    *fresh = (letter){.from = from, .to = to, .length = effect->length};
    fresh->data = malloc(effect->length);
    memcpy(fresh->data, effect->data, effect->length);
}

static void print_effect(script *s, uint32_t who, const mare_coord_effect *effect)
{
    char what[200];
    fprintf(s->out, "p%" PRIu32 " %s", who, mare_coord_effect_name(effect->kind));
    switch (effect->kind) {
    case MARE_COORD_SEND:
        fprintf(s->out, " p%" PRIu32, effect->peer);
        /* fall through */
    case MARE_COORD_BROADCAST:
        mare_coord_describe(s->algorithm, effect->data, effect->length, what, sizeof what);
        fprintf(s->out, " %s", what);
        break;
    case MARE_COORD_SET_TIMER:
    case MARE_COORD_CANCEL_TIMER:
        fprintf(s->out, " %" PRIu32, effect->timer);
        break;
    case MARE_COORD_GRANTED:
    case MARE_COORD_NO_GROUP:
        fprintf(s->out, " %" PRIu64, effect->number);
        break;
    case MARE_COORD_DELIVER:
        fprintf(s->out, " p%" PRIu32 " %.*s", effect->peer, (int)effect->length,
                (const char *)effect->data);
        break;
    case MARE_COORD_ELECTED:
    case MARE_COORD_SUSPECT:
        fprintf(s->out, " p%" PRIu32 " %" PRIu64, effect->peer, effect->number);
        break;
    case MARE_COORD_VIEW:
        fprintf(s->out, " %" PRIu64 ":", effect->number);
        for (uint32_t at = 0, member; at + 4 <= effect->length; at += 4) {
            memcpy(&member, effect->data + at, 4);
            fprintf(s->out, " p%" PRIu32, member);
        }
        break;
    default:
        fprintf(s->out, " %s", effect->text ? effect->text : "");
    }
    fputc('\n', s->out);
}

static void step(script *s, uint32_t who, mare_coord_event event)
{
    mare_coord_status status = mare_coord_step(s->machine[who], &event, &s->effects);
    if (status != MARE_COORD_OK)
        fprintf(s->out, "p%" PRIu32 " %s %s\n", who, mare_coord_event_name(event.kind),
                mare_coord_status_name(status));
    for (uint32_t i = 0; i < s->effects.count; i++) {
        const mare_coord_effect *effect = &s->effects.list[i];
        print_effect(s, who, effect);
        if (effect->kind == MARE_COORD_SEND)
            post(s, who, effect->peer, effect);
        for (uint32_t to = 0; effect->kind == MARE_COORD_BROADCAST && to < s->n; to++) {
            if (to != who && mare_coord_has_member(s->machine[who], to))
                post(s, who, to, effect);
        }
    }
}

/* Commands ----------------------------------------------------------------------------------- */

static void clear(script *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        free(s->machine[i]);
    for (uint32_t i = 0; i < s->letters; i++)
        free(s->under_way[i].data);
    free(s->effects.list);
    free(s->effects.bytes);
    FILE *out = s->out;
    memset(s, 0, sizeof *s);
    s->out = out;
}

/* "name=value" for all or "name=v0,v1,v2" for each. */
static int set_param(mare_coord_setup *setup, char *word, uint32_t who)
{
    char *value = strchr(word, '=');
    if (!value)
        return 1;
    size_t length = (size_t)(value - word);
    char name[40] = "";
    memcpy(name, word, length < sizeof name ? length : sizeof name - 1);
    for (value++; who > 0 && strchr(value, ','); who--)
        value = strchr(value, ',') + 1;
    if (strcmp(name, "incarnation") == 0) { /* comes to a group that somebody else founded */
        setup->incarnation = strtoull(value, NULL, 10);
        setup->founds = setup->incarnation == 0;
        return 0;
    }
    return mare_coord_setup_set(setup, name, strtoll(value, NULL, 10)) != MARE_COORD_OK;
}

static int make_group(script *s, char **word, int words)
{
    clear(s);
    s->algorithm = words > 2 ? mare_coord_find(word[1]) : NULL;
    s->n = words > 2 ? (uint32_t)strtoul(word[2], NULL, 10) : 0;
    if (!s->algorithm || s->n == 0 || s->n > GROUP_MAX)
        return 1;
    for (uint32_t i = 0; i < s->n; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, s->algorithm, s->n);
        setup.self = i;
        setup.marks = 1;
        setup.founds = 1;
        for (int w = 3; w < words; w++) {
            if (set_param(&setup, word[w], i))
                return 1;
        }
        size_t size = mare_coord_size(&setup);
        s->machine[i] = mare_coord_init(malloc(size), size, &setup);
        mare_coord_room(&setup, &s->effects.room, &s->effects.bytes_room);
    }
    s->effects.list = malloc(s->effects.room * sizeof *s->effects.list);
    s->effects.bytes = malloc(s->effects.bytes_room);
    for (uint32_t i = 0; i < s->n; i++)
        step(s, i, (mare_coord_event){.kind = MARE_COORD_START});
    return 0;
}

typedef enum fate { ARRIVES, IS_LOST, ARRIVES_AND_STAYS } fate;

static void take_letter(script *s, uint32_t place, fate how)
{
    letter taken = s->under_way[place];
    if (how != ARRIVES_AND_STAYS) {
        s->letters--;
        memmove(&s->under_way[place], &s->under_way[place + 1],
                (s->letters - place) * sizeof *s->under_way);
    }
    if (how != IS_LOST && !s->crashed[taken.to])
        step(s, taken.to,
             (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                .peer = taken.from,
                                .data = taken.data,
                                .length = taken.length});
    if (how != ARRIVES_AND_STAYS)
        free(taken.data);
}

static int take_between(script *s, uint32_t from, uint32_t to, fate how)
{
    for (uint32_t i = 0; i < s->letters; i++) {
        if (s->under_way[i].from == from && s->under_way[i].to == to) {
            take_letter(s, i, how);
            return 0;
        }
    }
    return 1;
}

static void restart(script *s, uint32_t who)
{
    s->crashed[who] = 0;
    step(s, who, (mare_coord_event){.kind = MARE_COORD_START});
}

static void look(script *s, uint32_t who)
{
    mare_coord_view view;
    mare_coord_look(s->machine[who], &view);
    fprintf(s->out, "p%" PRIu32 " %s", who, view.phase);
    if (view.lamport)
        fprintf(s->out, " clock=%" PRIu64, view.lamport);
    for (uint32_t i = 0; view.vector && i < s->n; i++)
        fprintf(s->out, "%s%" PRIu64 "%s", i ? "," : " vector=(", view.vector[i],
                i + 1 == s->n ? ")" : "");
    if (view.leader != MARE_COORD_NOBODY)
        fprintf(s->out, " leader=p%" PRIu32, view.leader);
    fputc('\n', s->out);
}

/* Local requests and what the host tells: the word is the event. */
static int run_event(script *s, char **word, uint32_t who, uint32_t second)
{
    for (int kind = MARE_COORD_START; kind < MARE_COORD_EVENT_KINDS; kind++) {
        const char *name = mare_coord_event_name((mare_coord_event_kind)kind);
        const char *tail = strchr(name, '-'); /* "down" is enough for "peer-down" */
        if (strcmp(word[0], name) != 0 && !(tail && strcmp(word[0], tail + 1) == 0))
            continue;
        mare_coord_event event = {
            .kind = (mare_coord_event_kind)kind, .peer = second, .number = second};
        if (kind == MARE_COORD_MULTICAST) {
            event.data = (const uint8_t *)word[2];
            event.length = (uint32_t)strlen(word[2]);
        }
        if (kind == MARE_COORD_ENTER)
            event.number = 0;
        step(s, who, event);
        return 0;
    }
    return 1;
}

/* "links 0-1 1-2 …": only these pairs are neighbours; the others leave each other's view. */
static int set_links(script *s, char **word, int words)
{
    int linked[GROUP_MAX][GROUP_MAX] = {0};
    for (int w = 1; w < words; w++) {
        char *dash = strchr(word[w], '-');
        uint32_t a = (uint32_t)strtoul(word[w], NULL, 10);
        uint32_t b = dash ? (uint32_t)strtoul(dash + 1, NULL, 10) : GROUP_MAX;
        if (a >= s->n || b >= s->n)
            return 1;
        linked[a][b] = linked[b][a] = 1;
    }
    for (uint32_t a = 0; a < s->n; a++) {
        for (uint32_t b = 0; b < s->n; b++) {
            int is = mare_coord_has_member(s->machine[a], b);
            if (a != b && is != linked[a][b])
                step(
                    s, a,
                    (mare_coord_event){.kind = is ? MARE_COORD_LEAVE : MARE_COORD_JOIN, .peer = b});
        }
    }
    return 0;
}

static int run_command(script *s, char *line)
{
    char *word[16] = {0};
    int words = 0;
    for (char *at = strtok(line, " \n"); at && words < 15; at = strtok(NULL, " \n"))
        word[words++] = at;
    if (words == 0 || word[0][0] == '#')
        return 0;
    if (strcmp(word[0], "group") == 0)
        return make_group(s, word, words);
    if (strcmp(word[0], "links") == 0)
        return set_links(s, word, words);
    uint32_t first = words > 1 ? (uint32_t)strtoul(word[1], NULL, 10) : 0;
    uint32_t second = words > 2 ? (uint32_t)strtoul(word[2], NULL, 10) : 0;
    if (first >= s->n)
        return 1;
    if (strcmp(word[0], "deliver") == 0 && words == 1) {
        for (int i = 0; s->letters && i < DELIVERIES_MAX; i++)
            take_letter(s, 0, ARRIVES);
        return s->letters != 0;
    }
    if (strcmp(word[0], "deliver") == 0)
        return take_between(s, first, second, ARRIVES);
    if (strcmp(word[0], "drop") == 0)
        return take_between(s, first, second, IS_LOST);
    if (strcmp(word[0], "repeat") == 0)
        return take_between(s, first, second, ARRIVES_AND_STAYS);
    if (strcmp(word[0], "crash") == 0)
        return s->crashed[first] = 1, 0;
    if (strcmp(word[0], "look") == 0)
        return look(s, first), 0;
    if (strcmp(word[0], "restart") == 0)
        return restart(s, first), 0;
    return run_event(s, word, first, second);
}

static bool run_line(void *context, char *line, FILE *out)
{
    script *s = context;
    s->out = out;
    return run_command(s, line) == 0;
}

int mare_script_run(const char *path)
{
    static const struct golden_language language = {.run = run_line};
    script *s = calloc(1, sizeof *s);
    int wrong = golden_run(path, &language, s, false);
    clear(s);
    free(s);
    return wrong;
}
