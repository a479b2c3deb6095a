/* SPDX-License-Identifier: MIT */

/* The words of a drawing: what happened beside its dot, what a message is called along its arrow.
 *
 *      above left  │  above right       A word stands in one of four places about its event: where
 *     ─────────────●──────────────      no arrow of that moment leaves or arrives, and where the
 *      below left  │  below right       fewest others stand already.
 *
 * Names of messages come after, somewhere on the first half of the arrow if there is room, else
 * further on. What is taken is a list of points, one each few pixels of what is written; a drawing
 * with names has at most a hundred messages, so that each can be compared with all. */

#include "sim/heap.h"
#include "sim/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 9.0         /* pixels: closer points cover each other */
#define LETTER 5.6       /* width of one, on average */
#define NAME_LETTER 6.2  /* … in capitals */
#define BLOCKED 100u     /* an arrow through a word is worse than any number of neighbours */
#define PLACES_OF_NAME 9 /* along an arrow */

enum { BELOW_RIGHT, BELOW_LEFT, ABOVE_RIGHT, ABOVE_LEFT, PLACES };

typedef struct point {
    double x, y;
} point;

struct mare_sim_words {
    point *point;
    size_t points, room;
    uint8_t *place; /* by record */
};

/* Places that are taken ---------------------------------------------------------------------- */

static void take(struct mare_sim_words *words, double x, double y)
{
    if (words->points == words->room) {
        words->room = words->room ? 2 * words->room : 256;
        words->point = mare_sim_realloc(words->point, words->room * sizeof *words->point);
    }
    words->point[words->points++] = (point){x, y};
}

static unsigned others_at(const struct mare_sim_words *words, double x, double y)
{
    unsigned others = 0;
    for (size_t i = 0; i < words->points; i++)
        others += fabs(words->point[i].x - x) < NEAR && fabs(words->point[i].y - y) < NEAR;
    return others;
}

/* A line of text from x, y on, into the direction of dx, dy (of length 1). Returns what stands in
 * its way; takes the place only if told to. */
static unsigned pass(struct mare_sim_words *words, point from, point towards, double width,
                     int takes)
{
    unsigned others = 0;
    for (unsigned step = 0; step * (NEAR - 1) <= width; step++) {
        double at = step * (NEAR - 1);
        others += others_at(words, from.x + at * towards.x, from.y + at * towards.y);
        if (takes)
            take(words, from.x + at * towards.x, from.y + at * towards.y);
    }
    return others;
}

double mare__sim_place_name(const mare_sim_drawing *d, double x1, double y1, double x2, double y2,
                            const char *name)
{
    static const double parts[PLACES_OF_NAME] = {0.34, 0.42, 0.26, 0.5, 0.58,
                                                 0.66, 0.74, 0.82, 0.88};
    double length = hypot(x2 - x1, y2 - y1), width = NAME_LETTER * (double)strlen(name);
    if (length < 1)
        return parts[0];
    point towards = {(x2 - x1) / length, (y2 - y1) / length};
    double best = parts[0];
    unsigned least = UINT32_MAX;
    for (int again = 0; again < 2; again++) { /* to look, then to take */
        for (int i = 0; i < PLACES_OF_NAME; i++) {
            double middle = parts[i] * length;
            point from = {x1 + (middle - width / 2) * towards.x + 7 * towards.y,
                          y1 + (middle - width / 2) * towards.y - 7 * towards.x};
            if (again && parts[i] != best)
                continue;
            unsigned others = pass(d->words, from, towards, width, again);
            if (!again && others < least) {
                least = others;
                best = parts[i];
            }
        }
    }
    return best;
}

/* What is written ---------------------------------------------------------------------------- */

/* How many of the same kind came before it at this process and moment: words go below each other.
 */
static int rank_of(const mare_sim_recording *r, const mare_sim_record *record)
{
    int rank = 0;
    for (const mare_sim_record *i = record; i-- > r->record && i->time_us == record->time_us;)
        rank += i->process == record->process && i->sight == MARE_SIM_EFFECT &&
                i->effect == record->effect;
    return rank;
}

/* Its words if it has any, and if not whose it is. */
static void name_delivery(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                          size_t room)
{
    const uint8_t *data = record->data == MARE_SIM_NONE ? NULL : r->bytes + record->data;
    uint32_t length = record->length < 24 ? record->length : 24, words = 0;
    while (words < length && data && data[words] >= 32 && data[words] <= 126)
        words++;
    if (words && words == length)
        snprintf(text, room, "%.*s", (int)length, (const char *)data);
    else
        snprintf(text, room, "of %s", mare_sim_name(r, record->peer).text);
}

/* "view 3: p2 p3"; many members are cut short. */
static void name_view(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                      size_t room)
{
    int length = snprintf(text, room, "view %" PRIu64 ":", record->number);
    for (uint32_t i = 0; i + 4 <= record->length; i += 4) {
        uint32_t member;
        memcpy(&member, r->bytes + record->data + i, sizeof member);
        if ((size_t)length + 20 > room) {
            snprintf(text + length, room - (size_t)length, " …");
            return;
        }
        length +=
            snprintf(text + length, room - (size_t)length, " %s", mare_sim_name(r, member).text);
    }
}

/* The words of a record, or none. */
static void words_of(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                     size_t room)
{
    text[0] = '\0';
    switch (record->effect) {
    case MARE_COORD_ELECTED:
        snprintf(text, room, "%s leads · %" PRIu64, mare_sim_name(r, record->peer).text,
                 record->number);
        break;
    case MARE_COORD_DELIVER:
        name_delivery(r, record, text, room);
        break;
    case MARE_COORD_VIEW:
        name_view(r, record, text, room);
        break;
    case MARE_COORD_OUTSIDE:
    case MARE_COORD_REVOKED:
    case MARE_COORD_MARK:
        snprintf(text, room, "%s",
                 record->text == MARE_SIM_NONE ? "" : (const char *)r->bytes + record->text);
        break;
    case MARE_COORD_NO_GROUP:
        snprintf(text, room, "nobody remembers the group");
        break;
    case MARE_COORD_SUSPECT:
        snprintf(text, room, "suspects %s", mare_sim_name(r, record->peer).text);
        break;
    default:
        break;
    }
}

/* Where it is written ------------------------------------------------------------------------ */

/* Arrows that leave or reach this process at this moment, as a bit for each place they cross. */
static unsigned crossed(const mare_sim_drawing *d, const mare_sim_record *record)
{
    const mare_sim_recording *r = d->layout.recording;
    const mare_sim_record *first = record, *end = r->record + r->count;
    unsigned places = 0;
    while (first > r->record && first[-1].time_us == record->time_us)
        first--;
    for (const mare_sim_record *i = first; i < end && i->time_us == record->time_us; i++) {
        int leaves = i->sight == MARE_SIM_SENT;
        int arrives = i->sight == MARE_SIM_STEPPED && i->event == MARE_COORD_MESSAGE;
        if (i->process != record->process || (!leaves && !arrives))
            continue;
        int below = d->layout.row[i->peer] > d->layout.row[i->process];
        places |= 1u << (leaves ? (below ? BELOW_RIGHT : ABOVE_RIGHT)
                                : (below ? BELOW_LEFT : ABOVE_LEFT));
    }
    return places;
}

/* The beginning of the text, or its end for what stands on the left. */
static point spot(const mare_sim_drawing *d, const mare_sim_record *record, unsigned place)
{
    double x = mare_sim_layout_x(&d->layout, record->time_us);
    double y = mare_sim_layout_y(&d->layout, record->process);
    double line = 11 * rank_of(d->layout.recording, record);
    double below = record->effect == MARE_COORD_MARK ? 38 : 27;
    if (record->effect == MARE_COORD_VIEW)
        return (point){x + 2, y - 21 + line};
    return (point){place == BELOW_LEFT || place == ABOVE_LEFT ? x - 5 : x + 2,
                   place < ABOVE_RIGHT ? y + below + line : y - 20 - line};
}

static unsigned try_place(const mare_sim_drawing *d, const mare_sim_record *record,
                          const char *text, unsigned place, int takes)
{
    point at = spot(d, record, place);
    int left = place == BELOW_LEFT || place == ABOVE_LEFT;
    double width = LETTER * (double)strlen(text);
    unsigned hidden = left && at.x - width < MARE_SIM_LEFT; /* by the names of the processes */
    return hidden * BLOCKED +
           pass(d->words, (point){at.x, at.y - 4}, (point){left ? -1 : 1, 0}, width, takes);
}

/* Views stand above the line, deliveries and stays below it, where one looks for them. */
static int has_its_place(const mare_sim_record *record)
{
    return record->effect == MARE_COORD_VIEW || record->effect == MARE_COORD_DELIVER ||
           record->effect == MARE_COORD_GRANTED;
}

static void place_one(const mare_sim_drawing *d, size_t index)
{
    const mare_sim_record *record = &d->layout.recording->record[index];
    char text[80];
    words_of(d->layout.recording, record, text, sizeof text);
    if (record->effect == MARE_COORD_GRANTED) /* spans.c writes it */
        snprintf(text, sizeof text, "inside · %" PRIu64, record->number);
    if (!text[0])
        return;
    int fixed = has_its_place(record);
    unsigned arrows = crossed(d, record), best = BELOW_RIGHT, least = UINT32_MAX;
    for (unsigned place = 0; place < PLACES && !fixed; place++) {
        unsigned cost = try_place(d, record, text, place, 0);
        cost += arrows >> place & 1 ? BLOCKED : 0;
        if (cost < least) {
            least = cost;
            best = place;
        }
    }
    try_place(d, record, text, best, 1);
    d->words->place[index] = (uint8_t)best;
}

/* Clocks stand above the line, in the middle: svg.c writes them. */
static void take_clock(const mare_sim_drawing *d, const mare_sim_record *record)
{
    int vector = record->clock != MARE_SIM_NONE;
    if (record->sight != MARE_SIM_STEPPED || !mare_sim_layout_has(&d->layout, record) ||
        (!record->lamport && !vector) ||
        (vector && d->layout.recording->capacity > MARE_SIM_VECTOR_MOST))
        return;
    double half = vector ? LETTER * (double)d->layout.recording->capacity : LETTER / 2;
    double x = mare_sim_layout_x(&d->layout, record->time_us);
    double y = mare_sim_layout_y(&d->layout, record->process);
    pass(d->words, (point){x - half, y - 14}, (point){1, 0}, 2 * half, 1);
}

void mare__sim_place_words(mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    d->words = mare_sim_realloc(NULL, sizeof *d->words);
    *d->words = (struct mare_sim_words){.place = mare_sim_realloc(NULL, r->count + 1)};
    memset(d->words->place, BELOW_RIGHT, r->count + 1);
    for (size_t i = 0; r->captions && i < r->captions->notes; i++)
        take(d->words, mare_sim_layout_x(&d->layout, r->captions->note[i].at_us), MARE_SIM_TOP);
    for (size_t i = 0; i < r->count; i++)
        take_clock(d, &r->record[i]);
    for (int fixed = 1; fixed >= 0; fixed--) { /* others make way for those that cannot */
        for (size_t i = 0; i < r->count; i++) {
            const mare_sim_record *record = &r->record[i];
            if (mare_sim_layout_has(&d->layout, record) && record->sight == MARE_SIM_EFFECT &&
                has_its_place(record) == fixed)
                place_one(d, i);
        }
    }
}

void mare__sim_forget_words(mare_sim_drawing *d)
{
    free(d->words->point);
    free(d->words->place);
    free(d->words);
    d->words = NULL;
}

void mare__sim_draw_words(const mare_sim_drawing *d, size_t index)
{
    const mare_sim_record *record = &d->layout.recording->record[index];
    char text[80];
    words_of(d->layout.recording, record, text, sizeof text);
    if (!text[0])
        return;
    unsigned place = d->words->place[index];
    point at = spot(d, record, place);
    if (record->effect == MARE_COORD_DELIVER)
        fprintf(d->out, "<rect class=\"deliver\" x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\"/>",
                at.x - 5.5, at.y - 15);
    fprintf(d->out, "<text class=\"w %s%s\" x=\"%.1f\" y=\"%.1f\">",
            mare_coord_effect_name(record->effect),
            place == BELOW_LEFT || place == ABOVE_LEFT ? " left" : "", at.x, at.y);
    mare__sim_escape(text, d->out);
    fputs("</text>", d->out);
}
