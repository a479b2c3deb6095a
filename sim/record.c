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

static void keep_view(mare_sim_record *record, const mare_coord *machine)
{
    mare_coord_view view;
    mare_coord_look(machine, &view);
    record->phase = view.phase;
    record->lamport = view.lamport;
    record->epoch = view.epoch;
    record->leader = view.leader;
    record->inside = view.inside;
    record->waiting = view.waiting;
}

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    mare_sim_recording *r = (mare_sim_recording *)self;
    if (r->count == r->room) {
        r->room = r->room ? r->room * 2 : 256;
        r->record = mare_sim_realloc(r->record, r->room * sizeof *r->record);
    }
    mare_sim_record *record = &r->record[r->count++];
    *record = (mare_sim_record){.sight = seen->sight,
                                .process = seen->process,
                                .peer = seen->peer,
                                .time_us = seen->time_us,
                                .message = seen->message,
                                .number = seen->number,
                                .event = seen->event ? seen->event->kind : MARE_COORD_EVENT_KINDS,
                                .status = seen->status,
                                .effect = seen->effect ? seen->effect->kind
                                                       : MARE_COORD_EFFECT_KINDS,
                                .leader = MARE_COORD_NOBODY,
                                .length = seen->effect ? seen->effect->length : seen->length};
    record->data = keep(r, seen->effect ? seen->effect->data : seen->data, record->length);
    record->text = keep(r, seen->text, seen->text ? strlen(seen->text) + 1 : 0);
    int stepped = seen->sight == MARE_SIM_STEPPED;
    record->vector = keep(r, stepped ? seen->vector : NULL, r->capacity * sizeof *seen->vector);
    if (seen->machine)
        keep_view(record, seen->machine);
}

void mare_sim_recording_init(mare_sim_recording *recording, const mare_coord_algorithm *algorithm,
                             uint32_t capacity)
{
    *recording = (mare_sim_recording){
        .observer = {.see = see}, .algorithm = algorithm, .capacity = capacity};
}

void mare_sim_recording_fini(mare_sim_recording *recording)
{
    free(recording->record);
    free(recording->bytes);
    *recording = (mare_sim_recording){0};
}

/* Text --------------------------------------------------------------------------------------- */

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
        fprintf(out, "<- p%" PRIu32 "  #%" PRIu64 " %s", record->peer, record->message, what);
    } else {
        fputs(mare_coord_event_name(record->event), out);
        if (record->event >= MARE_COORD_PEER_DOWN)
            fprintf(out, " p%" PRIu32, record->peer);
    }
    if (record->status != MARE_COORD_OK)
        fprintf(out, "  (%s)", mare_coord_status_name(record->status));
    if (record->phase)
        fprintf(out, "  [%s", record->phase);
    if (record->lamport)
        fprintf(out, " %" PRIu64, record->lamport);
    fputs(record->phase ? "]" : "", out);
}

static void write_effect(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    fputs(mare_coord_effect_name(record->effect), out);
    if (record->effect == MARE_COORD_ELECTED || record->effect == MARE_COORD_SUSPECT ||
        record->effect == MARE_COORD_DELIVER)
        fprintf(out, " p%" PRIu32, record->peer);
    if (record->number)
        fprintf(out, " %" PRIu64, record->number);
    if (record->text != MARE_SIM_NONE)
        fprintf(out, " %s", (const char *)r->bytes + record->text);
}

static void write_line(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    char what[200];
    fprintf(out, "%9" PRIu64 "  ", record->time_us);
    if (record->process == MARE_COORD_NOBODY)
        fputs("--   ", out);
    else
        fprintf(out, "p%-3" PRIu32 " ", record->process);
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
        fprintf(out, "%s p%" PRIu32 "  #%" PRIu64 " %s",
                record->sight == MARE_SIM_SENT ? "->" : "lost from", record->peer,
                record->message, what);
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

void mare_sim_recording_write_text(const mare_sim_recording *recording, FILE *out)
{
    for (size_t i = 0; i < recording->count; i++)
        write_line(recording, &recording->record[i], out);
}
