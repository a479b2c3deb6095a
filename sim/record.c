/* SPDX-License-Identifier: MIT */

/* Keeping what was seen, and writing it as text. Records are flat and refer to one block of bytes
 * by offset, so that both can grow by realloc. */

#include "sim/record.h"

#include "sim/heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static size_t keep(mare_sim_recording *r, const void *bytes, size_t length)
{
    size_t at = (r->bytes_count + 7) / 8 * 8;
    if (!bytes)
        return MARE_SIM_NONE;
    if (r->bytes_room < at + length) {
        r->bytes_room = (at + length) * 2 + 1024;
        r->bytes = mare_sim_realloc(r->bytes, r->bytes_room);
    }
    memset(r->bytes + r->bytes_count, 0, at - r->bytes_count);
    memcpy(r->bytes + at, bytes, length);
    r->bytes_count = at + length;
    return at;
}

#define NOTE_COLUMNS 92u
#define DATA_MOST 40u   /* the longest delivery that is shown in words */
#define VECTOR_MOST 16u /* members of a group whose vector clocks are worth reading */

static void keep_view(mare_sim_recording *r, mare_sim_record *record, const mare_coord *machine)
{
    mare_coord_view view;
    int stepped = record->sight == MARE_SIM_STEPPED;
    mare_coord_look(machine, &view);
    if (stepped && r->capacity <= VECTOR_MOST)
        record->clock = keep(r, view.vector, r->capacity * sizeof *view.vector);
    if (stepped && r->lamport) {
        record->ticked = r->lamport[record->process] != view.lamport;
        r->lamport[record->process] = view.lamport;
    }
    record->phase = view.phase;
    record->lamport = view.lamport;
    record->epoch = view.epoch;
    record->leader = view.leader;
    record->inside = view.inside;
    record->waiting = view.waiting;
}

/* A machine is told who is in its group before it starts. */
static void note_birth(mare_sim_recording *r, mare_sim_record *record)
{
    if (record->process == MARE_COORD_NOBODY || !r->born)
        return;
    uint8_t *born = &r->born[record->process];
    if (record->sight == MARE_SIM_CRASHED || record->sight == MARE_SIM_DEPARTED)
        *born = 0;
    if (record->sight != MARE_SIM_STEPPED)
        return;
    *born |= record->event == MARE_COORD_START;
    record->unborn = !*born;
}

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    mare_sim_recording *r = (mare_sim_recording *)self;
    if (r->count == r->room) {
        r->room = r->room ? r->room * 2 : 256;
        r->record = mare_sim_realloc(r->record, r->room * sizeof *r->record);
    }
    mare_sim_record *record = &r->record[r->count++];
    *record =
        (mare_sim_record){.sight = seen->sight,
                          .process = seen->process,
                          .peer = seen->peer,
                          .time_us = seen->time_us,
                          .message = seen->message,
                          .number = seen->number,
                          .event = seen->event ? seen->event->kind : MARE_COORD_EVENT_KINDS,
                          .status = seen->status,
                          .effect = seen->effect ? seen->effect->kind : MARE_COORD_EFFECT_KINDS,
                          .leader = MARE_COORD_NOBODY,
                          .clock = MARE_SIM_NONE,
                          .length = seen->effect ? seen->effect->length : seen->length};
    record->data = keep(r, seen->effect ? seen->effect->data : seen->data, record->length);
    record->text = keep(r, seen->text, seen->text ? strlen(seen->text) + 1 : 0);
    int stepped = seen->sight == MARE_SIM_STEPPED;
    note_birth(r, record);
    record->vector = keep(r, stepped ? seen->vector : NULL, r->capacity * sizeof *seen->vector);
    if (seen->machine)
        keep_view(r, record, seen->machine);
}

void mare_sim_recording_init(mare_sim_recording *recording, const mare_coord_algorithm *algorithm,
                             uint32_t capacity)
{
    *recording = (mare_sim_recording){
        .observer = {.see = see}, .algorithm = algorithm, .capacity = capacity};
    recording->lamport = calloc(capacity, sizeof *recording->lamport);
    recording->born = calloc(capacity, sizeof *recording->born);
}

void mare_sim_recording_fini(mare_sim_recording *recording)
{
    free(recording->record);
    free(recording->bytes);
    free(recording->lamport);
    free(recording->born);
    *recording = (mare_sim_recording){0};
}

/* Text --------------------------------------------------------------------------------------- */

mare_sim_label mare_sim_name(const mare_sim_recording *recording, uint32_t process)
{
    mare_sim_label label;
    const mare_sim_captions *captions = recording->captions;
    const char *name = captions && captions->name && process < recording->capacity
                           ? captions->name[process]
                           : NULL;
    if (name)
        snprintf(label.text, sizeof label.text, "%s", name);
    else
        snprintf(label.text, sizeof label.text, "p%" PRIu32, process);
    return label;
}

void mare_sim_write_vector(const mare_sim_recording *recording, size_t clock, FILE *out)
{
    const uint64_t *vector = (const uint64_t *)(const void *)(recording->bytes + clock);
    for (uint32_t i = 0; i < recording->capacity; i++)
        fprintf(out, "%c%" PRIu64, i ? ',' : '(', vector[i]);
    fputc(')', out);
}

static void describe(const mare_sim_recording *r, const mare_sim_record *record, char *out,
                     size_t room)
{
    mare_coord_describe(r->algorithm, r->bytes + record->data, record->length, out, room);
}

static void write_step(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    char what[200];
    if (record->event == MARE_COORD_MESSAGE) {
        describe(r, record, what, sizeof what);
        fprintf(out, "<- %s  #%" PRIu64 " %s", mare_sim_name(r, record->peer).text, record->message,
                what);
    } else {
        fputs(mare_coord_event_name(record->event), out);
        if (record->event >= MARE_COORD_PEER_DOWN)
            fprintf(out, " %s", mare_sim_name(r, record->peer).text);
    }
    if (record->status != MARE_COORD_OK)
        fprintf(out, "  (%s)", mare_coord_status_name(record->status));
    if (record->phase)
        fprintf(out, "  [%s", record->phase);
    if (record->lamport)
        fprintf(out, " %" PRIu64, record->lamport);
    if (record->clock != MARE_SIM_NONE) {
        fputc(' ', out);
        mare_sim_write_vector(r, record->clock, out);
    }
    fputs(record->phase ? "]" : "", out);
}

/* What was delivered: its words, or how long it is. */
static void write_data(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    const uint8_t *data = record->data == MARE_SIM_NONE ? NULL : r->bytes + record->data;
    int words = data && record->length <= DATA_MOST;
    for (uint32_t i = 0; words && i < record->length; i++)
        words = data[i] >= ' ' && data[i] <= '~';
    if (words)
        fprintf(out, " \"%.*s\"", (int)record->length, (const char *)data);
    else
        fprintf(out, " +%" PRIu32, record->length);
}

/* Who is in a view. */
static void write_members(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    for (uint32_t i = 0; i + 4 <= record->length; i += 4) {
        uint32_t member;
        memcpy(&member, r->bytes + record->data + i, sizeof member);
        fprintf(out, "%s %s", i ? "" : ":", mare_sim_name(r, member).text);
    }
}

static void write_effect(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    fputs(mare_coord_effect_name(record->effect), out);
    if (record->effect == MARE_COORD_ELECTED || record->effect == MARE_COORD_SUSPECT ||
        record->effect == MARE_COORD_DELIVER)
        fprintf(out, " %s", mare_sim_name(r, record->peer).text);
    if (record->number)
        fprintf(out, " %" PRIu64, record->number);
    if (record->effect == MARE_COORD_DELIVER)
        write_data(r, record, out);
    if (record->effect == MARE_COORD_VIEW)
        write_members(r, record, out);
    if (record->text != MARE_SIM_NONE)
        fprintf(out, " %s", (const char *)r->bytes + record->text);
}

int mare_sim_name_width(const mare_sim_recording *r)
{
    size_t width = 4;
    for (uint32_t i = 0; r->captions && r->captions->name && i < r->capacity; i++) {
        size_t length = strlen(mare_sim_name(r, i).text);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void write_line(const mare_sim_recording *r, const mare_sim_record *record, int width,
                       FILE *out)
{
    char what[200];
    fprintf(out, "%9" PRIu64 "  ", record->time_us);
    if (record->process == MARE_COORD_NOBODY)
        fprintf(out, "%-*s ", width, "--");
    else
        fprintf(out, "%-*s ", width, mare_sim_name(r, record->process).text);
    switch (record->sight) {
    case MARE_SIM_STEPPED:
        write_step(r, record, out);
        break;
    case MARE_SIM_EFFECT:
        write_effect(r, record, out);
        break;
    case MARE_SIM_SENT:
    case MARE_SIM_LOST:
        describe(r, record, what, sizeof what);
        fprintf(out, "%s %s  #%" PRIu64 " %s", record->sight == MARE_SIM_SENT ? "->" : "lost from",
                mare_sim_name(r, record->peer).text, record->message, what);
        if (record->text != MARE_SIM_NONE)
            fprintf(out, "  (%s)", (const char *)r->bytes + record->text);
        break;
    default:
        fputs(mare_sim_sight_name(record->sight), out);
        if (record->text != MARE_SIM_NONE)
            fprintf(out, " %s", (const char *)r->bytes + record->text);
    }
    fputc('\n', out);
}

/* A remark, after an empty line, in lines that begin with "# " and are broken between words. */
static void write_note(const char *text, FILE *out)
{
    size_t column = 0;
    fputs("\n#", out);
    while (*text) {
        size_t length = strcspn(text, " \n");
        if (column + length > NOTE_COLUMNS) {
            fputs("\n#", out);
            column = 0;
        }
        fprintf(out, " %.*s", (int)length, text);
        column += length + 1;
        text += length;
        if (*text == '\n') {
            fputs("\n#", out);
            column = 0;
        }
        text += *text != '\0';
    }
    fputc('\n', out);
}

void mare_sim_recording_write_text(const mare_sim_recording *recording, FILE *out)
{
    const mare_sim_captions *captions = recording->captions;
    size_t note = 0;
    int width = mare_sim_name_width(recording);
    for (size_t i = 0; i < recording->count; i++) {
        const mare_sim_record *record = &recording->record[i];
        while (captions && note < captions->notes && captions->note[note].at_us <= record->time_us)
            write_note(captions->note[note++].text, out);
        if (!record->unborn)
            write_line(recording, record, width, out);
    }
}
