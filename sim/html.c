/* SPDX-License-Identifier: MIT */

/* The page around a drawing: what is shown, whether promises were kept, a legend whose entries are
 * switches, the drawing itself to zoom and follow, and the same run as text. One file, nothing is
 * fetched. */

#include "sim/svg.h"

#include <inttypes.h>
#include <stdlib.h>

#define TRACE_MOST 4000u /* records in the text below the drawing */

static void write_head(const mare_sim_drawing *d)
{
    const mare_coord_algorithm *algorithm = d->options->setup.algorithm;
    FILE *out = d->out;
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>",
          out);
    mare__sim_escape(d->show->title ? d->show->title : algorithm->title, out);
    fprintf(out, "</title>\n<style>%s%s</style></head><body>\n<header><h1>", mare__sim_style,
            mare__sim_page_style);
    mare__sim_escape(d->show->title ? d->show->title : algorithm->title, out);
    fputs("</h1>", out);
    if (d->show->real) {
        fprintf(out, "<p>%" PRIu32 " processes · %" PRIu64 " messages · ", d->layout.rows,
                d->outcome->sent);
        mare__sim_write_time(d, d->outcome->time_us);
        fputs("</p>\n", out);
        return;
    }
    fprintf(out, "<p><b>%s</b>, after ", algorithm->name);
    mare__sim_escape(algorithm->source, out);
    fprintf(out, "</p><p>%" PRIu32 " processes · %" PRIu64 " messages, %" PRIu64 " lost · ",
            d->options->setup.members, d->outcome->sent, d->outcome->lost);
    mare__sim_write_time(d, d->outcome->time_us);
    fprintf(out, " of virtual time · seed %" PRIu64 "</p>\n", d->options->seed);
}

static void write_notes(const mare_sim_drawing *d)
{
    const mare_sim_captions *captions = d->layout.recording->captions;
    if (!captions || !captions->notes)
        return;
    fputs("<ol class=\"notes\">", d->out);
    for (size_t i = 0; i < captions->notes; i++) {
        fputs("<li>", d->out);
        mare__sim_escape(captions->note[i].text, d->out);
        fputs("</li>", d->out);
    }
    fputs("</ol>", d->out);
}

static void write_verdict(const mare_sim_drawing *d)
{
    FILE *out = d->out;
    if (d->show->about) {
        fputs("<p class=\"about\">", out);
        mare__sim_escape(d->show->about, out);
        fputs("</p>", out);
    }
    write_notes(d);
    if (d->show->real) {
        fputs("<p>", out);
    } else if (d->outcome->violation[0]) {
        fprintf(out, "<p class=\"verdict bad\">%s is violated: ", d->outcome->violation);
        mare__sim_escape(d->outcome->detail, out);
    } else {
        unsigned kept = mare_sim_kept(d->options, d->outcome);
        fprintf(out, "<p class=\"verdict\">%s", kept ? "Kept: " : "No promise was broken");
        if (kept)
            mare_sim_write_promises(kept, out);
    }
    if (d->layout.cut_before || d->layout.cut_after)
        fprintf(out,
                "</p><p>%" PRIu32 " messages are shown; <code>--from</code> and "
                "<code>--to</code> choose others",
                d->layout.shown);
    fputs("</p></header>\n", out);
}

static int anybody_leads(const mare_sim_recording *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->record[i].sight == MARE_SIM_STEPPED && r->record[i].leader == r->record[i].process)
            return 1;
    }
    return 0;
}

/* Shapes that are the same in all drawings, as svg.c draws them. */
static void write_shapes(const mare_sim_drawing *d)
{
    static const char *const shapes[][3] = {
        {"asks",
         "<path style=\"fill:var(--waits);stroke:var(--ink)\""
         " d=\"M9 .5l5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>",
         "a request"},
        {"got", "<circle style=\"fill:var(--ink)\" cx=\"9\" cy=\"6\" r=\"3.6\"/>",
         "a message arrives"},
        {"timer",
         "<circle style=\"fill:var(--paper);stroke:var(--soft)\" cx=\"9\" cy=\"6\" r=\"3\"/>",
         "a timer, or news"},
        {"lost",
         "<path style=\"stroke:var(--k0)\" stroke-dasharray=\"3 3\" d=\"M0 6H10\"/>"
         "<path style=\"stroke:var(--bad)\" stroke-width=\"2\" d=\"M9 1.5l9 9m0 -9l-9 9\"/>",
         "lost"},
        {"way", "<path style=\"stroke:var(--k0)\" stroke-dasharray=\"4 4\" d=\"M0 6H18\"/>",
         "not taken, or on its way"},
    };
    size_t first = d->show->real ? 1 : 0, end = d->show->real ? 2 : sizeof shapes / sizeof *shapes;
    for (size_t i = first; i < end; i++)
        fprintf(d->out,
                "<span><svg class=\"shape %s\" width=\"20\" height=\"12\">%s</svg> %s</span>",
                shapes[i][0], shapes[i][1], shapes[i][2]);
}

static void write_legend(const mare_sim_drawing *d)
{
    const mare_coord_form *forms = d->options->setup.algorithm->forms;
    FILE *out = d->out;
    fputs("<div class=\"bar\"><button id=\"out\" title=\"smaller: -\">−</button>"
          "<button id=\"in\" title=\"larger: +\">+</button>"
          "<button id=\"fit\" title=\"all of it: 0\">fit</button>"
          "<button id=\"theme\">light / dark</button>",
          out);
    for (unsigned i = 0; forms[i].name; i++) {
        if (d->outcome->by_kind[i])
            fprintf(out,
                    "<button data-f=\"%u\" title=\"show or hide\"><i class=\"key\" "
                    "style=\"background:var(--k%u)\"></i>%s</button>",
                    i, i % MARE_SIM_COLOURS, forms[i].name);
    }
    if (d->options->setup.algorithm->family == MARE_COORD_MUTEX)
        fputs("<span><i class=\"key\" style=\"background:var(--waits)\"></i>waits</span>", out);
    if (d->options->setup.algorithm->family == MARE_COORD_MUTEX && !d->show->real)
        fputs("<span><i class=\"key box\" style=\"background:var(--insidebg);"
              "border:1px solid var(--inside)\"></i>inside, with its fencing number</span>",
              out);
    if (d->options->setup.algorithm->family == MARE_COORD_ORDER)
        fputs("<span><i class=\"key\" style=\"width:8px;height:8px;background:var(--inside)\"></i>"
              "delivers</span>",
              out);
    if (anybody_leads(d->layout.recording))
        fputs("<span><i class=\"key\" style=\"background:var(--leads)\"></i>★ leads</span>", out);
    write_shapes(d);
    fputs("<span style=\"color:var(--soft)\">hover: follow a message · click a dot: all that "
          "happened before it · escape: all again · ctrl-wheel: zoom · drag: move</span></div>\n",
          out);
}

static void write_trace(const mare_sim_drawing *d)
{
    char *text = NULL;
    size_t length = 0;
    if (d->show->real || d->layout.recording->count > TRACE_MOST)
        return;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return;
    mare_sim_recording_write_text(d->layout.recording, memory);
    fclose(memory);
    fputs("<details><summary>The same run as text</summary><pre>", d->out);
    mare__sim_escape(text, d->out);
    fputs("</pre></details>\n", d->out);
    free(text);
}

void mare_sim_write_html(const mare_sim_recording *recording, const mare_sim_options *options,
                         const mare_sim_show *show, const mare_sim_outcome *outcome, FILE *out)
{
    mare_sim_drawing d = {
        .options = options, .show = show, .outcome = outcome, .page = 1, .out = out};
    mare_sim_layout_init(&d.layout, recording, show, outcome->violation[0] != '\0');
    write_head(&d);
    write_verdict(&d);
    write_legend(&d);
    fputs("<div class=\"scroll\">", out);
    mare__sim_draw(&d);
    fputs("</div>\n", out);
    write_trace(&d);
    fprintf(out, "<div id=\"tip\"></div>\n<script>\n%s\n</script></body></html>\n",
            mare__sim_page_script);
    mare_sim_layout_fini(&d.layout);
}
