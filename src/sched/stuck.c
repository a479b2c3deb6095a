// SPDX-License-Identifier: MIT
// What processes wait for when nothing can move any more: who, at which line, for what.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/look.h"
#include "sched/runtime.h"

enum { LINES = 10 }; // there may be thousands

static void tell(FILE *out, const mare_process_info *row, const mare_process_info *rows,
                 size_t count)
{
    char text[MARE__WAIT_TEXT];
    fputs("mare:   ", out);
    if (row->routine > 1)
        fprintf(out, "routine %llu of ", (unsigned long long)row->routine);
    fprintf(out, "process %llu", (unsigned long long)row->id);
    if (*row->name)
        fprintf(out, " (%s)", row->name);
    fprintf(out, " waits%s%s%s\n", *row->at ? " at " : "", row->at,
            mare__wait_text(row, rows, count, text));
}

char *mare__stuck_text(mare_runtime *runtime)
{
    char *text = NULL;
    size_t length, told = 0, left = 0, count = mare__list_routines(runtime, NULL, 0);
    mare_process_info *rows = mare__alloc(count * sizeof *rows + 1);
    FILE *out = rows ? open_memstream(&text, &length) : NULL;
    if (out) {
        size_t now = mare__list_routines(runtime, rows, count);
        count = now < count ? now : count;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(rows[i].status, "blocked") != 0 || rows[i].background)
                continue;
            if (told < LINES)
                tell(out, &rows[i], rows, count);
            *(told < LINES ? &told : &left) += 1;
        }
        if (left > 0)
            fprintf(out, "mare:   and %zu more\n", left);
        fclose(out);
    }
    mare__free(rows);
    return text;
}

void mare__deadlock_report(mare_runtime *runtime, const char *what, const char *stuck)
{
    unsigned long live = atomic_load(&runtime->live);
    char usual[128];
    snprintf(usual, sizeof usual, "deadlock: %lu %s for something that can no longer happen; ended",
             live, live == 1 ? "process waits" : "processes wait");
    what = what ? what : usual;
    stuck = stuck ? stuck : "";
    size_t room = strlen(what) + strlen(stuck) + 2;
    char *text = mare__alloc(room);
    if (text)
        snprintf(text, room, "%s\n%s", what, stuck);
    if (!text || !mare__log_try(runtime, false, text, NULL))
        fprintf(stderr, "mare: %s\n%s", what, stuck);
    mare__free(text);
}
