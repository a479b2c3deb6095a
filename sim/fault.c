/* SPDX-License-Identifier: MIT */

/* Fault schedules: drawing, writing, reading. See fault.h for the model.
 *
 * A drawn schedule keeps to what makes sense: a process has at most one fault of its own at a time,
 * and all but the permanent ones end before the run's first phase does. */

#include "sim/fault.h"

#include "sim/heap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"crash",   "amnesia", "pause", "partition",
                                         "one-way", "leave",   "join",  "burst"};
_Static_assert(sizeof kind_names / sizeof *kind_names == MARE_SIM_FAULT_KINDS, "a name each");

/* In us: twenty-nine thousand years. Two such moments can be added, and one multiplied by ten. */
#define MOMENT_MOST (UINT64_MAX / 20)

static int has_side(mare_sim_fault_kind kind)
{
    return kind == MARE_SIM_PARTITION || kind == MARE_SIM_ONE_WAY;
}

static int on_side(const mare_sim_fault *fault, uint32_t process)
{
    return process < 64 * MARE_SIM_SIDE_WORDS && (fault->side[process / 64] >> (process % 64) & 1);
}

int mare_sim_fault_stops(const mare_sim_fault *fault, uint32_t from, uint32_t to)
{
    int a = on_side(fault, from), b = on_side(fault, to);
    return fault->kind == MARE_SIM_ONE_WAY ? a && !b : a != b;
}

void mare_sim_faults_add(mare_sim_fault_list *list, const mare_sim_fault *fault)
{
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 8;
        list->fault = mare_sim_realloc(list->fault, list->room * sizeof *list->fault);
    }
    list->fault[list->count++] = *fault;
}

void mare_sim_faults_fini(mare_sim_fault_list *list)
{
    free(list->fault);
    *list = (mare_sim_fault_list){0};
}

/* Drawing ------------------------------------------------------------------------------------ */

static const unsigned needs[] = {
    MARE_COORD_CRASH,     MARE_COORD_AMNESIA, MARE_COORD_PAUSE, MARE_COORD_PARTITION,
    MARE_COORD_PARTITION, MARE_COORD_CHURN,   MARE_COORD_CHURN, MARE_COORD_LOSS,
};

static int overlaps(const mare_sim_fault_list *list, const mare_sim_fault *fresh)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const mare_sim_fault *old = &list->fault[i];
        int comparable = !has_side(old->kind) && !has_side(fresh->kind) &&
                         old->kind != MARE_SIM_BURST && fresh->kind != MARE_SIM_BURST;
        int apart = (old->for_us && old->at_us + old->for_us < fresh->at_us) ||
                    (fresh->for_us && fresh->at_us + fresh->for_us < old->at_us);
        if (comparable && old->process == fresh->process && !apart)
            return 1;
    }
    return 0;
}

static int can_last(mare_sim_fault_kind kind, unsigned tolerated)
{
    if (kind == MARE_SIM_CRASH)
        return !(tolerated & MARE_COORD_ALL_RETURN);
    return kind == MARE_SIM_LEAVE || kind == MARE_SIM_JOIN;
}

int mare_sim_faults_add_fair(mare_sim_fault_list *list, const mare_sim_fault *fault,
                             unsigned tolerated, uint32_t processes, uint32_t capacity,
                             uint32_t spared)
{
    if (!(tolerated & needs[fault->kind]) || (!fault->for_us && !can_last(fault->kind, tolerated)))
        return 0;
    if (fault->kind == MARE_SIM_JOIN) {
        if (fault->process < processes || fault->process >= capacity)
            return 0;
    } else if (fault->kind != MARE_SIM_BURST && !has_side(fault->kind)) {
        if (fault->process >= processes ||
            (fault->process == spared && fault->kind != MARE_SIM_PAUSE))
            return 0;
    }
    if (overlaps(list, fault))
        return 0;
    mare_sim_faults_add(list, fault);
    return 1;
}

static void draw_one(mare_sim_fault_list *list, mare_sim_random *random, unsigned tolerated,
                     uint32_t processes, uint32_t capacity, uint64_t duration_us, uint32_t spared)
{
    mare_sim_fault fault = {0};
    fault.kind = (mare_sim_fault_kind)mare_sim_below(random, MARE_SIM_FAULT_KINDS);
    fault.at_us = mare_sim_below(random, duration_us * 3 / 4 + 1);
    fault.for_us = 1 + mare_sim_below(random, duration_us / 8 + 1);
    fault.process = (uint32_t)mare_sim_below(random, processes);
    for (uint32_t i = 0; i < MARE_SIM_SIDE_WORDS; i++)
        fault.side[i] = mare_sim_draw(random);
    int for_ever = mare_sim_chance(random, 125000);
    if (!(tolerated & needs[fault.kind]))
        return;
    if (fault.kind == MARE_SIM_JOIN) {
        if (capacity == processes)
            return;
        fault.process = processes + (uint32_t)mare_sim_below(random, capacity - processes);
    } else if (fault.kind == MARE_SIM_BURST) {
        fault.process = 20 + (uint32_t)mare_sim_below(random, 80);
    } else if (has_side(fault.kind)) {
        fault.process = 0;
        for (uint32_t i = processes; i < 64 * MARE_SIM_SIDE_WORDS; i++)
            fault.side[i / 64] &= ~(UINT64_C(1) << (i % 64));
    }
    if (for_ever && can_last(fault.kind, tolerated))
        fault.for_us = 0;
    if (!has_side(fault.kind))
        memset(fault.side, 0, sizeof fault.side);
    mare_sim_faults_add_fair(list, &fault, tolerated, processes, capacity, spared);
}

uint32_t mare_sim_faults_draw(mare_sim_fault_list *list, mare_sim_random *random,
                              unsigned tolerated, uint32_t processes, uint32_t capacity,
                              uint64_t duration_us)
{
    uint32_t spared = (uint32_t)mare_sim_below(random, processes);
    uint64_t tries = mare_sim_below(random, 24);
    if (tolerated & MARE_COORD_ALL_CRASH)
        spared = MARE_COORD_NOBODY;
    for (uint64_t i = 0; i < tries; i++)
        draw_one(list, random, tolerated, processes, capacity, duration_us, spared);
    return spared;
}

/* Writing and reading ------------------------------------------------------------------------ */

static size_t write_side(const mare_sim_fault *fault, char *out, size_t room)
{
    size_t length = 0;
    for (uint32_t i = 0; i < 64 * MARE_SIM_SIDE_WORDS; i++) {
        if (on_side(fault, i))
            length += (size_t)snprintf(out ? out + length : NULL, out ? room - length : 0,
                                       length ? ".%" PRIu32 : "%" PRIu32, i);
        if (out && length >= room)
            return length;
    }
    return length;
}

size_t mare_sim_faults_write(const mare_sim_fault_list *list, char *out, size_t room)
{
    size_t length = 0;
    if (room)
        out[0] = '\0';
    for (uint32_t i = 0; i < list->count; i++) {
        const mare_sim_fault *fault = &list->fault[i];
        char what[64 * MARE_SIM_SIDE_WORDS * 4 + 1] = "", row[sizeof what + 80];
        if (has_side(fault->kind))
            write_side(fault, what, sizeof what);
        else
            snprintf(what, sizeof what, "%" PRIu32, fault->process);
        int n = snprintf(row, sizeof row, "%s%s:%s@%" PRIu64 "+%" PRIu64, i ? "," : "",
                         kind_names[fault->kind], what, fault->at_us, fault->for_us);
        if (length + (size_t)n < room)
            memcpy(out + length, row, (size_t)n + 1);
        length += (size_t)n;
    }
    return length;
}

/* Reads digits; nonzero when there were none, or too many for any moment of a run. */
static int read_number(const char **at, uint64_t *number)
{
    const char *begin = *at;
    for (*number = 0; **at >= '0' && **at <= '9' && *number <= MOMENT_MOST; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at == begin || *number > MOMENT_MOST;
}

static int read_what(const char **at, mare_sim_fault *fault)
{
    uint64_t number;
    do {
        if (has_side(fault->kind) && **at == '@')
            return 0; /* an empty side */
        if (read_number(at, &number) || number > UINT32_MAX)
            return 1;
        if (!has_side(fault->kind))
            fault->process = (uint32_t)number;
        else if (number < 64 * MARE_SIM_SIDE_WORDS)
            fault->side[number / 64] |= UINT64_C(1) << (number % 64);
        else
            return 1;
    } while (has_side(fault->kind) && **at == '.' && ++*at);
    return 0;
}

static int read_fault(const char **at, mare_sim_fault *fault)
{
    size_t word = strcspn(*at, ":");
    memset(fault, 0, sizeof *fault);
    int kind = 0;
    while (kind < MARE_SIM_FAULT_KINDS &&
           (strlen(kind_names[kind]) != word || strncmp(kind_names[kind], *at, word) != 0))
        kind++;
    if (kind == MARE_SIM_FAULT_KINDS || (*at)[word] != ':')
        return 1;
    fault->kind = (mare_sim_fault_kind)kind;
    *at += word + 1;
    if (read_what(at, fault) || **at != '@')
        return 1;
    ++*at;
    if (read_number(at, &fault->at_us) || **at != '+')
        return 1;
    ++*at;
    return read_number(at, &fault->for_us);
}

size_t mare_sim_faults_read(mare_sim_fault_list *list, const char *text)
{
    const char *at = text;
    list->count = 0;
    while (*at) {
        mare_sim_fault fault;
        if (read_fault(&at, &fault) || (*at && *at != ','))
            return (size_t)(at - text) + 1;
        mare_sim_faults_add(list, &fault);
        at += *at == ',';
    }
    return 0;
}

/* What cannot be ----------------------------------------------------------------------------- */

static int refuse(const mare_sim_fault *fault, char *why, size_t room, const char *who,
                  uint64_t least, uint64_t most)
{
    if (least > most)
        snprintf(why, room, "'%s' at %" PRIu64 " us: there is no %s", kind_names[fault->kind],
                 fault->at_us, who);
    else
        snprintf(why, room, "'%s' at %" PRIu64 " us: %s is %" PRIu64 " to %" PRIu64,
                 kind_names[fault->kind], fault->at_us, who, least, most);
    return 1;
}

static int refuse_one(const mare_sim_fault *fault, uint32_t processes, uint32_t capacity, char *why,
                      size_t room)
{
    if (fault->kind == MARE_SIM_BURST && (fault->process < 1 || fault->process > 100))
        return refuse(fault, why, room, "the per cent lost", 1, 100);
    if (fault->kind == MARE_SIM_BURST)
        return 0;
    for (uint32_t i = capacity; has_side(fault->kind) && i < 64 * MARE_SIM_SIDE_WORDS; i++)
        if (on_side(fault, i))
            return refuse(fault, why, room, "a process", 0, capacity - 1);
    if (has_side(fault->kind))
        return 0;
    if (fault->kind == MARE_SIM_JOIN && (fault->process < processes || fault->process >= capacity))
        return refuse(fault, why, room, "one who is not a member", processes,
                      (uint64_t)capacity - 1);
    if (fault->process >= capacity)
        return refuse(fault, why, room, "a process", 0, capacity - 1);
    return 0;
}

int mare_sim_faults_refuse(const mare_sim_fault_list *list, uint32_t processes, uint32_t capacity,
                           uint64_t duration_us, char *why, size_t room)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const mare_sim_fault *fault = &list->fault[i];
        if (refuse_one(fault, processes, capacity, why, room))
            return 1;
        if (fault->at_us >= duration_us) {
            snprintf(why, room,
                     "'%s' at %" PRIu64 " us: nothing fails from %" PRIu64
                     " us on, where the run's phase with faults ends",
                     kind_names[fault->kind], fault->at_us, duration_us);
            return 1;
        }
    }
    return 0;
}
