/* SPDX-License-Identifier: MIT */

/* The words of a drawing: what happened beside its dot, what a message is called along its arrow.
 * No text lies on another.
 *
 *      above left  │  above right       A word stands in one of four places about its event, on the
 *     ─────────────●──────────────      first or second line: where no other stands, and, if that
 *      below left  │  below right       can be, where no arrow of that moment leaves or arrives.
 *
 * Texts that have a place of their own (clocks, views, deliveries, stays, crashes) come first, and
 * the layout has made room for them. Other words come next, then names of messages, somewhere along
 * the arrow. For what finds no place the hint of its event, or of its arrow, has to do. */

#include "sim/boxes.h"
#include "sim/heap.h"
#include "sim/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CROSSED 10u /* cost of an arrow through a word; the second line costs 1 */

enum { BELOW_RIGHT, BELOW_LEFT, ABOVE_RIGHT, ABOVE_LEFT, PLACES };
#define WORD_LINES 2u
#define NOWHERE UINT8_MAX

struct mare_sim_words {
    mare_sim_boxes taken;
    uint8_t *place; /* by record: PLACES * line + place, or NOWHERE */
};

int mare__sim_take_text(const mare_sim_drawing *d, double left, double base, const char *text,
                        double size, int bold)
{
    double width = mare_sim_text_width(text, size, bold);
    mare_sim_box box = mare_sim_box_of(left, base, width, size);
    if (left + width > d->layout.width || mare_sim_boxes_hit(&d->words->taken, &box))
        return 0;
    mare_sim_boxes_take(&d->words->taken, &box);
    return 1;
}

int mare__sim_place_name(const mare_sim_drawing *d, double x1, double y1, double x2, double y2,
                         const char *name, double *part, double *above)
{
    static const double parts[] = {0.34, 0.42, 0.26, 0.5, 0.58, 0.66, 0.18, 0.74, 0.82, 0.88};
    static const double sides[] = {-4, 11}; /* of the line: above, below */
    double length = hypot(x2 - x1, y2 - y1);
    if (length < 1)
        return 0;
    mare_sim_box box =
        mare_sim_box_of(0, 0, mare_sim_text_width(name, MARE_SIM_NAME_SIZE, 0), MARE_SIM_NAME_SIZE);
    double up = box.y;
    box.ux = (x2 - x1) / length;
    box.uy = (y2 - y1) / length;
    for (size_t side = 0; side < sizeof sides / sizeof *sides; side++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            double away = up + sides[side];
            box.x = x1 + parts[i] * (x2 - x1) - away * box.uy;
            box.y = y1 + parts[i] * (y2 - y1) + away * box.ux;
            if (box.x - box.half_width < d->layout.left ||
                mare_sim_boxes_hit(&d->words->taken, &box))
                continue;
            mare_sim_boxes_take(&d->words->taken, &box);
            *part = parts[i];
            *above = sides[side];
            return 1;
        }
    }
    return 0;
}

/* What is written ---------------------------------------------------------------------------- */

static int is_same_kind(const mare_sim_record *a, const mare_sim_record *b)
{
    return a->process == b->process && a->sight == MARE_SIM_EFFECT && a->effect == b->effect;
}

uint32_t mare__sim_rank_of(const mare_sim_recording *r, const mare_sim_record *record)
{
    uint32_t rank = 0;
    for (const mare_sim_record *i = record; i-- > r->record && i->time_us == record->time_us;)
        rank += (uint32_t)is_same_kind(i, record);
    return rank;
}

/* How many come after it. */
static uint32_t more_after(const mare_sim_recording *r, const mare_sim_record *record)
{
    uint32_t more = 0;
    for (const mare_sim_record *i = record + 1;
         i < r->record + r->count && i->time_us == record->time_us; i++)
        more += (uint32_t)is_same_kind(i, record);
    return more;
}

int mare__sim_has_its_place(const mare_sim_recording *r, const mare_sim_record *record)
{
    return record->effect == MARE_COORD_DELIVER || record->effect == MARE_COORD_GRANTED ||
           (record->effect == MARE_COORD_VIEW && mare__sim_rank_of(r, record) == 0);
}

/* The words of a delivery, if it has any; otherwise its sender. In a high stack the last one says
 * how many more there are. */
static void name_delivery(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                          size_t room)
{
    uint32_t rank = mare__sim_rank_of(r, record), more = more_after(r, record);
    if (rank >= MARE_SIM_STACK_MOST)
        return;
    if (rank == MARE_SIM_STACK_MOST - 1 && more) {
        snprintf(text, room, "… and %" PRIu32 " more", more + 1);
        return;
    }
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

void mare__sim_words_of(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                        size_t room)
{
    text[0] = '\0';
    switch (record->effect) {
    case MARE_COORD_ELECTED:
        snprintf(text, room, "%s leads · %" PRIu64, mare_sim_name(r, record->peer).text,
                 record->number);
        break;
    case MARE_COORD_GRANTED: /* spans.c writes it */
        snprintf(text, room, "inside · %" PRIu64, record->number);
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

typedef struct point {
    double x, y;
} point;

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

static int is_left(unsigned place)
{
    return place % PLACES == BELOW_LEFT || place % PLACES == ABOVE_LEFT;
}

/* The beginning of the text, or its end for what stands on the left. */
static point spot(const mare_sim_drawing *d, const mare_sim_record *record, unsigned place)
{
    double x = mare_sim_layout_x(&d->layout, record->time_us);
    double y = mare_sim_layout_y(&d->layout, record->process);
    unsigned line = place / PLACES;
    if (record->effect == MARE_COORD_DELIVER)
        line = mare__sim_rank_of(d->layout.recording, record);
    double away = MARE_SIM_STACK_STEP * line;
    if (record->effect == MARE_COORD_VIEW && mare__sim_has_its_place(d->layout.recording, record))
        return (point){x + 2, y - 21};
    return (point){is_left(place) ? x - 5 : x + 2,
                   place % PLACES < ABOVE_RIGHT ? y + 27 + away : y - 20 - away};
}

static mare_sim_box box_of(const mare_sim_drawing *d, const mare_sim_record *record,
                           const char *text, unsigned place)
{
    int bold = record->effect == MARE_COORD_ELECTED || record->effect == MARE_COORD_GRANTED;
    double width = mare_sim_text_width(text, MARE_SIM_WORD_SIZE, bold);
    point at = spot(d, record, place);
    return mare_sim_box_of(is_left(place) ? at.x - width : at.x, at.y, width, MARE_SIM_WORD_SIZE);
}

/* Inside the picture, and nearer to its own line than to its neighbour's. */
static int is_within(const mare_sim_drawing *d, const mare_sim_record *record,
                     const mare_sim_box *box)
{
    const mare_sim_layout *l = &d->layout;
    return box->x - box->half_width >= l->left && box->x + box->half_width <= l->width &&
           box->y - box->half_height >= MARE_SIM_TOP && box->y + box->half_height <= l->height &&
           fabs(box->y - mare_sim_layout_y(l, record->process)) <= l->lane / 2 + 4;
}

static void place_one(const mare_sim_drawing *d, size_t index)
{
    const mare_sim_record *record = &d->layout.recording->record[index];
    char text[80];
    mare__sim_words_of(d->layout.recording, record, text, sizeof text);
    if (!text[0])
        return;
    unsigned arrows = crossed(d, record), best = NOWHERE, least = UINT32_MAX;
    if (mare__sim_has_its_place(d->layout.recording, record))
        best = BELOW_RIGHT;
    for (unsigned place = 0; place < PLACES * WORD_LINES && best != BELOW_RIGHT; place++) {
        mare_sim_box box = box_of(d, record, text, place);
        unsigned cost = (arrows >> place % PLACES & 1 ? CROSSED : 0) + place / PLACES;
        if (cost >= least || !is_within(d, record, &box) ||
            mare_sim_boxes_hit(&d->words->taken, &box))
            continue;
        least = cost;
        best = place;
    }
    d->words->place[index] = (uint8_t)best;
    if (best == NOWHERE)
        return;
    mare_sim_box box = box_of(d, record, text, best);
    mare_sim_boxes_take(&d->words->taken, &box);
}

/* What svg.c and spans.c write without asking: clocks, and who crashed. */
static void take_others(const mare_sim_drawing *d, const mare_sim_record *record,
                        mare_sim_shown_clock *shown)
{
    if (record->process == MARE_COORD_NOBODY || !mare_sim_layout_has(&d->layout, record))
        return;
    double x = mare_sim_layout_x(&d->layout, record->time_us);
    double y = mare_sim_layout_y(&d->layout, record->process);
    mare_sim_box box = mare_sim_box_of(x, y, 0, MARE_SIM_CLOCK_SIZE);
    if (mare_sim_layout_clock(&d->layout, record, &shown[record->process])) {
        double width = mare_sim_layout_clock_width(&d->layout, record);
        box = mare_sim_box_of(x - width / 2, y - 11, width, MARE_SIM_CLOCK_SIZE);
    } else if (record->sight == MARE_SIM_CRASHED || record->sight == MARE_SIM_DEPARTED) {
        box = mare_sim_box_of(x + 10, y - 8, mare_sim_text_width("crashed", MARE_SIM_LABEL_SIZE, 1),
                              MARE_SIM_LABEL_SIZE);
    } else {
        return;
    }
    mare_sim_boxes_take(&d->words->taken, &box);
}

void mare__sim_begin_words(mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    d->words = mare_sim_realloc(NULL, sizeof *d->words);
    *d->words = (struct mare_sim_words){.place = mare_sim_realloc(NULL, r->count + 1)};
    memset(d->words->place, NOWHERE, r->count + 1);
}

void mare__sim_place_words(mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    mare_sim_shown_clock *shown = mare_sim_realloc(NULL, (r->capacity + 1) * sizeof *shown);
    memset(shown, 0, (r->capacity + 1) * sizeof *shown);
    for (size_t i = 0; i < r->count; i++)
        take_others(d, &r->record[i], shown);
    for (int fixed = 1; fixed >= 0; fixed--) { /* others make way for those that cannot */
        for (size_t i = 0; i < r->count; i++) {
            const mare_sim_record *record = &r->record[i];
            if (mare_sim_layout_has(&d->layout, record) && record->sight == MARE_SIM_EFFECT &&
                mare__sim_has_its_place(r, record) == fixed)
                place_one(d, i);
        }
    }
    free(shown);
}

void mare__sim_forget_words(mare_sim_drawing *d)
{
    mare_sim_boxes_fini(&d->words->taken);
    free(d->words->place);
    free(d->words);
    d->words = NULL;
}

void mare__sim_draw_words(const mare_sim_drawing *d, size_t index)
{
    const mare_sim_record *record = &d->layout.recording->record[index];
    char text[80];
    unsigned place = d->words->place[index];
    mare__sim_words_of(d->layout.recording, record, text, sizeof text);
    if (!text[0] || place == NOWHERE || record->effect == MARE_COORD_GRANTED)
        return;
    point at = spot(d, record, place);
    if (record->effect == MARE_COORD_DELIVER)
        fprintf(d->out, "<rect class=\"deliver\" x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\"/>",
                at.x - 9, at.y - 7);
    fprintf(d->out, "<text class=\"w %s%s\" x=\"%.1f\" y=\"%.1f\">",
            mare_coord_effect_name(record->effect), is_left(place) ? " left" : "", at.x, at.y);
    mare__sim_escape(text, d->out);
    fputs("</text>", d->out);
}
