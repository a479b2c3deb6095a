/* SPDX-License-Identifier: MIT */

/* The layout of a drawing: which part of the run, which lines, and the bent scale of time. */

#include "sim/layout.h"

#include "sim/boxes.h"
#include "sim/heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define READABLE 500u /* messages in one drawing, unless a window was given */
#define LEAST_STEP 17.0
#define MORE_STEP 44.0
#define PLEASANT 980.0 /* the width to which a short run is stretched */
#define STRETCH_MOST 6.5
#define NAME_STEP 7 /* a letter of a name */
#define NAME_MOST 9 /* letters of one that is short */
#define BETWEEN 6.0 /* two texts on the same line */
#define LANE_LEAST 60.0
#define LANE_MOST 74.0
#define BOTTOM 16.0
#define PLEASANT_HEIGHT 664.0 /* what fits on a screen without scrolling */

static int is_message(const mare_sim_record *record)
{
    return record->sight == MARE_SIM_SENT;
}

/* Picks the first or last so many messages, if there are too many to read. Leaves out the moment
 * that makes them too many, unless it is the only one. */
static void choose_window(mare_sim_layout *layout, const mare_sim_show *show, int from_the_end)
{
    const mare_sim_recording *r = layout->recording;
    uint32_t seen = 0;
    layout->from_us = show->from_us;
    layout->to_us = show->to_us ? show->to_us : UINT64_MAX;
    if (show->from_us || show->to_us)
        return;
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[from_the_end ? r->count - 1 - i : i];
        seen += (uint32_t)is_message(record);
        if (seen <= READABLE)
            continue;
        if (from_the_end)
            layout->from_us = record->time_us + (record->time_us < r->record[r->count - 1].time_us);
        else
            layout->to_us = record->time_us - (record->time_us > r->record[0].time_us);
        return;
    }
}

/* A start, or a timer that ran out without effect, not even on a clock: it gets no place. */
static int is_quiet(const mare_sim_layout *layout, const mare_sim_record *record)
{
    const mare_sim_recording *r = layout->recording;
    if (record->unborn)
        return 1;
    if (record->sight != MARE_SIM_STEPPED ||
        (record->event != MARE_COORD_START && record->event != MARE_COORD_TIMER))
        return 0;
    if (record->event == MARE_COORD_TIMER && record->ticked)
        return 0;
    const mare_sim_record *next = record + 1;
    return next == r->record + r->count || next->process != record->process ||
           (next->sight != MARE_SIM_SENT && next->sight != MARE_SIM_EFFECT);
}

int mare_sim_layout_has(const mare_sim_layout *layout, const mare_sim_record *record)
{
    if (is_quiet(layout, record))
        return 0;
    return record->time_us >= layout->from_us && record->time_us <= layout->to_us &&
           record->sight != MARE_SIM_ENDED;
}

static int compare_gaps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t middle_gap(const mare_sim_layout *layout)
{
    if (layout->moments < 2)
        return 1;
    uint64_t *gap = mare_sim_realloc(NULL, layout->moments * sizeof *gap);
    for (size_t i = 0; i + 1 < layout->moments; i++)
        gap[i] = layout->time_us[i + 1] - layout->time_us[i];
    qsort(gap, layout->moments - 1, sizeof *gap, compare_gaps);
    uint64_t middle = gap[(layout->moments - 1) / 2];
    free(gap);
    return middle ? middle : 1;
}

/* Clocks ------------------------------------------------------------------------------------- */

int mare_sim_layout_clock(const mare_sim_layout *layout, const mare_sim_record *record,
                          mare_sim_shown_clock *shown)
{
    const mare_sim_recording *r = layout->recording;
    int vector = record->clock != MARE_SIM_NONE;
    if (record->sight != MARE_SIM_STEPPED || !mare_sim_layout_has(layout, record) ||
        (!record->lamport && !vector) || (vector && r->capacity > MARE_SIM_VECTOR_MOST))
        return 0;
    for (const mare_sim_record *next = record + 1;
         next < r->record + r->count && next->time_us == record->time_us; next++) {
        if (next->sight == MARE_SIM_STEPPED && next->process == record->process)
            return 0;
    }
    const uint8_t *now = vector ? r->bytes + record->clock : (const uint8_t *)&record->lamport;
    size_t size = (vector ? r->capacity : 1) * sizeof(uint64_t);
    if (shown->bytes && memcmp(shown->bytes, now, size) == 0)
        return 0;
    shown->bytes = now;
    return 1;
}

double mare_sim_layout_clock_width(const mare_sim_layout *layout, const mare_sim_record *record)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        abort();
    if (record->clock != MARE_SIM_NONE)
        mare_sim_write_vector(layout->recording, record->clock, memory);
    else
        fprintf(memory, "%" PRIu64, record->lamport);
    fclose(memory);
    double width = mare_sim_text_width(text, MARE_SIM_CLOCK_SIZE, 0);
    free(text);
    return width;
}

/* Texts with a place of their own ------------------------------------------------------------- */

enum { CLOCKS, VIEWS, BELOW, LINES }; /* lines of text at a process */

typedef struct texts {
    mare_sim_shown_clock shown;
    double end[LINES]; /* of what is written, or 0 */
} texts;

/* Whether a record writes a text whose place is fixed: its line, and its ends as seen from the
 * record's moment. */
static int fixed_text(const mare_sim_layout *layout, const mare_sim_record *record, texts *at,
                      int *line, double *from, double *to)
{
    char text[80];
    if (!mare_sim_layout_has(layout, record) || record->process == MARE_COORD_NOBODY)
        return 0;
    if (mare_sim_layout_clock(layout, record, &at->shown)) {
        *line = CLOCKS;
        *to = mare_sim_layout_clock_width(layout, record) / 2;
        *from = -*to;
        return 1;
    }
    if (record->sight == MARE_SIM_CRASHED || record->sight == MARE_SIM_DEPARTED) {
        *line = CLOCKS;
        *from = -6; /* the cross */
        *to = 10 + mare_sim_text_width("crashed", MARE_SIM_LABEL_SIZE, 1);
        return 1;
    }
    if (record->sight != MARE_SIM_EFFECT || !mare__sim_has_its_place(layout->recording, record))
        return 0;
    mare__sim_words_of(layout->recording, record, text, sizeof text);
    *line = record->effect == MARE_COORD_VIEW ? VIEWS : BELOW;
    *from = -8; /* the square of a delivery */
    *to = 2 + mare_sim_text_width(text, MARE_SIM_LABEL_SIZE, record->effect == MARE_COORD_GRANTED);
    return text[0] != '\0';
}

/* How far to the right a moment must be, so that none of its texts lies on the one before it in the
 * same line. `at` is the first record of the moment. Returns the first record after it, and in
 * `*right` how far the texts reach. */
static size_t place_texts(const mare_sim_layout *layout, size_t at, double *x, double *right,
                          texts *of)
{
    const mare_sim_recording *r = layout->recording;
    uint64_t now_us = r->record[at].time_us;
    size_t end = at;
    for (int again = 0; again < 2; again++) { /* first to look, then to take the places */
        for (end = at; end < r->count && r->record[end].time_us == now_us; end++) {
            const mare_sim_record *record = &r->record[end];
            if (record->process == MARE_COORD_NOBODY)
                continue;
            texts *mine = &of[record->process], seen = *mine;
            int line = 0;
            double from = 0, to = 0;
            if (!fixed_text(layout, record, &seen, &line, &from, &to))
                continue;
            double least = mine->end[line] > 0 ? mine->end[line] + BETWEEN - from : 0;
            if (!again) {
                *x = *x > least ? *x : least;
                continue;
            }
            double reached = *x + to;
            mine->shown = seen.shown;
            mine->end[line] = mine->end[line] > reached ? mine->end[line] : reached;
            *right = *right > to ? *right : to;
        }
    }
    return end;
}

/* A short run is stretched, so that its arrows have room for their names. */
static void place_on_scale(mare_sim_layout *layout)
{
    const mare_sim_recording *r = layout->recording;
    double middle = (double)middle_gap(layout), x = 0, first = layout->left + 30;
    texts *of = mare_sim_realloc(NULL, r->capacity * sizeof *of);
    double *right = mare_sim_realloc(NULL, (layout->moments + 1) * sizeof *right);
    size_t at = 0;
    memset(of, 0, r->capacity * sizeof *of);
    for (size_t i = 0; i < layout->moments; i++) {
        double gap = i ? (double)(layout->time_us[i] - layout->time_us[i - 1]) : 0;
        x += i ? LEAST_STEP + MORE_STEP * gap / (gap + middle) : 0;
        while (r->record[at].time_us < layout->time_us[i])
            at++;
        right[i] = 0;
        at = place_texts(layout, at, &x, &right[i], of);
        layout->x[i] = x;
    }
    free(of);
    double stretch = x > 0 ? PLEASANT / x : 1;
    stretch = stretch < 1 ? 1 : stretch > STRETCH_MOST ? STRETCH_MOST : stretch;
    int room = 90 + NAME_STEP * (mare_sim_name_width(layout->recording) - 4); /* for "p6 leads" */
    layout->width = first + stretch * x + room;
    for (size_t i = 0; i < layout->moments; i++) {
        layout->x[i] = first + stretch * layout->x[i];
        double end = layout->x[i] + right[i] + BETWEEN;
        layout->width = layout->width > end ? layout->width : end;
    }
    free(right);
}

static void place_moments(mare_sim_layout *layout)
{
    const mare_sim_recording *r = layout->recording;
    layout->time_us = mare_sim_realloc(NULL, (r->count + 1) * sizeof *layout->time_us);
    layout->x = mare_sim_realloc(NULL, (r->count + 1) * sizeof *layout->x);
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[i];
        layout->cut_before |= record->time_us < layout->from_us;
        layout->cut_after |= record->time_us > layout->to_us;
        if (!mare_sim_layout_has(layout, record))
            continue;
        layout->shown += (uint32_t)is_message(record);
        if (!layout->moments || layout->time_us[layout->moments - 1] != record->time_us)
            layout->time_us[layout->moments++] = record->time_us;
    }
    place_on_scale(layout);
}

/* Deliveries of one moment are drawn below each other: finds the most for each process. */
static void count_stacks(const mare_sim_layout *layout, uint32_t *stack)
{
    const mare_sim_recording *r = layout->recording;
    memset(stack, 0, r->capacity * sizeof *stack);
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[i];
        if (record->sight != MARE_SIM_EFFECT || record->effect != MARE_COORD_DELIVER ||
            !mare_sim_layout_has(layout, record))
            continue;
        uint32_t rank = mare__sim_rank_of(r, record);
        rank = rank < MARE_SIM_STACK_MOST ? rank : MARE_SIM_STACK_MOST - 1;
        if (rank > stack[record->process])
            stack[record->process] = rank;
    }
}

/* Rows are lower if there are many, and higher where deliveries are stacked. */
static void place_rows(mare_sim_layout *layout)
{
    const mare_sim_recording *r = layout->recording;
    layout->row = mare_sim_realloc(NULL, r->capacity * sizeof *layout->row);
    layout->middle = mare_sim_realloc(NULL, r->capacity * sizeof *layout->middle);
    uint32_t *stack = mare_sim_realloc(NULL, r->capacity * sizeof *stack);
    memset(layout->row, 0, r->capacity * sizeof *layout->row);
    for (size_t i = 0; i < r->count; i++) {
        if (r->record[i].process != MARE_COORD_NOBODY)
            layout->row[r->record[i].process] = 1;
    }
    for (uint32_t i = 0; i < r->capacity; i++)
        layout->row[i] = layout->row[i] ? layout->rows++ : MARE_COORD_NOBODY;
    count_stacks(layout, stack);
    double room = (PLEASANT_HEIGHT - MARE_SIM_TOP - BOTTOM) / (layout->rows ? layout->rows : 1);
    layout->lane = room < LANE_LEAST ? LANE_LEAST : room > LANE_MOST ? LANE_MOST : room;
    double y = MARE_SIM_TOP;
    for (uint32_t i = 0; i < r->capacity; i++) {
        if (layout->row[i] == MARE_COORD_NOBODY)
            continue;
        layout->middle[layout->row[i]] = y + layout->lane / 2;
        y += layout->lane + MARE_SIM_STACK_STEP * stack[i];
    }
    layout->height = y + BOTTOM;
    free(stack);
}

static void find_sendings(mare_sim_layout *layout)
{
    const mare_sim_recording *r = layout->recording;
    for (size_t i = 0; i < r->count; i++) {
        if (r->record[i].message > layout->messages)
            layout->messages = r->record[i].message;
    }
    layout->sent = mare_sim_realloc(NULL, (layout->messages + 1) * sizeof *layout->sent);
    for (uint64_t i = 0; i <= layout->messages; i++)
        layout->sent[i] = MARE_SIM_NONE;
    for (size_t i = 0; i < r->count; i++) {
        if (is_message(&r->record[i]))
            layout->sent[r->record[i].message] = i;
    }
}

void mare_sim_layout_init(mare_sim_layout *layout, const mare_sim_recording *recording,
                          const mare_sim_show *show, int from_the_end)
{
    int width = mare_sim_name_width(recording);
    *layout = (mare_sim_layout){.recording = recording, .left = MARE_SIM_LEFT};
    if (width > NAME_MOST)
        layout->left += NAME_STEP * (width - NAME_MOST + 3);
    choose_window(layout, show, from_the_end);
    place_moments(layout);
    place_rows(layout);
    find_sendings(layout);
}

void mare_sim_layout_fini(mare_sim_layout *layout)
{
    free(layout->time_us);
    free(layout->x);
    free(layout->row);
    free(layout->middle);
    free(layout->sent);
}

/* By bisection. A moment outside the window is at its edge. */
double mare_sim_layout_x(const mare_sim_layout *layout, uint64_t time_us)
{
    size_t low = 0, high = layout->moments;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (layout->time_us[middle] <= time_us)
            low = middle;
        else
            high = middle;
    }
    if (!layout->moments || time_us < layout->time_us[0])
        return layout->left;
    if (time_us > layout->time_us[low])
        return layout->x[low] + 24;
    return layout->x[low];
}

double mare_sim_layout_y(const mare_sim_layout *layout, uint32_t process)
{
    return layout->middle[layout->row[process]];
}
