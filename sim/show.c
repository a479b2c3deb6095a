/* SPDX-License-Identifier: MIT */

/* One run, shown in all the ways that were asked for: it is recorded once, then written. */

#include "sim/report.h"

#include <errno.h>
#include <string.h>

typedef struct seen_run {
    const mare_sim_recording *recording;
    const mare_sim_options *options;
    const mare_sim_show *show;
    const mare_sim_outcome *outcome;
} seen_run;

static void draw(const seen_run *run, FILE *out)
{
    size_t length = strlen(run->show->draw);
    if (length > 4 && strcmp(run->show->draw + length - 4, ".svg") == 0)
        mare_sim_write_svg(run->recording, run->options, run->show, run->outcome, out);
    else
        mare_sim_write_html(run->recording, run->options, run->show, run->outcome, out);
}

static void log_for_shiviz(const seen_run *run, FILE *out)
{
    mare_sim_write_shiviz(run->recording, out);
}

static int write_file(const seen_run *run, const char *path,
                      void (*write)(const seen_run *run, FILE *out))
{
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!path)
        return 0;
    int failed = !file;
    if (file) {
        write(run, file);
        failed = ferror(file);
        failed |= fclose(file) != 0;
    }
    if (failed)
        fprintf(stderr, "mare sim: cannot write '%s': %s\n", path, strerror(errno));
    return failed;
}

int mare_sim_show_run(const mare_sim_options *options, const mare_sim_show *show, FILE *out,
                      mare_sim_outcome *outcome)
{
    mare_sim_options copy = *options;
    mare_sim_recording recording;
    int record = show->trace || show->draw || show->shiviz;
    copy.setup.marks = (uint32_t)record;
    mare_sim_recording_init(&recording, options->setup.algorithm, options->setup.capacity);
    recording.captions = show->captions;
    mare_sim_observer *observers[] = {record ? &recording.observer : NULL, NULL};
    int good = mare_sim_run(&copy, observers, outcome);
    if (show->trace) {
        mare_sim_recording_write_text(&recording, out);
        fputc('\n', out);
    }
    if (show->json)
        mare_sim_write_json(options, outcome, out);
    else
        mare_sim_write_summary(options, outcome, out);
    seen_run run = {&recording, options, show, outcome};
    int failed = write_file(&run, show->draw, draw);
    failed |= write_file(&run, show->shiviz, log_for_shiviz);
    mare_sim_recording_fini(&recording);
    return failed ? 2 : !good;
}
