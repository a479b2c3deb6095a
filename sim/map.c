/* SPDX-License-Identifier: MIT */

/* The map: nodes at the first two dimensions of their places, drawn larger the longer their way to
 * the net is. */

#include "sim/place.h"

#include <stdlib.h>

#define WIDTH 900.0
#define HEIGHT 640.0
#define MARGIN 56.0 /* also above, for the title */

static const char style[] =
    "text{font:12px system-ui,\"DejaVu Sans\",sans-serif;fill:#57606a}"
    ".page{fill:#fff}.title{font-size:17px;font-weight:600;fill:#1f2328}"
    ".node{fill:#0969da;fill-opacity:.45}.replica{fill:#bc4c00}"
    ".ring{fill:none;stroke:#bc4c00;stroke-width:1.5}"
    ".grid{stroke:#d8dee4}.scale{stroke:#57606a;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}.page{fill:#0d1117}"
    ".title{fill:#f0f6fc}.node{fill:#58a6ff}.replica{fill:#f0883e}.ring{stroke:#f0883e}"
    ".grid{stroke:#2a313c}.scale{stroke:#9198a1}}";

struct frame {
    double low[2], high[2], unit; /* unit: how long a millisecond is drawn */
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle 98 % decide the scale: a place far out is drawn at the edge. */
static int frame_of(const mare_sim_placed *placed, struct frame *frame)
{
    double *sorted = calloc(placed->n, sizeof *sorted);
    if (!sorted)
        return 0;
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < placed->n; i++)
            sorted[i] = placed->place[i].x[k];
        qsort(sorted, placed->n, sizeof *sorted, by_size);
        frame->low[k] = sorted[placed->n / 100];
        frame->high[k] = sorted[placed->n - 1 - placed->n / 100];
    }
    free(sorted);
    double wide = frame->high[0] - frame->low[0], high = frame->high[1] - frame->low[1];
    double x = (WIDTH - 2 * MARGIN) / (wide > 1e-6 ? wide : 1e-6);
    double y = (HEIGHT - 2.5 * MARGIN) / (high > 1e-6 ? high : 1e-6);
    frame->unit = x < y ? x : y;
    return 1;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double along(const struct frame *frame, const mare_coord_place *place, int k)
{
    double side = k == 0 ? WIDTH : HEIGHT, middle = (frame->low[k] + frame->high[k]) / 2;
    double from = side / 2 + (k == 0 ? 0 : MARGIN / 4);
    return clamp(from + (place->x[k] - middle) * frame->unit, MARGIN / 4, side - MARGIN / 4);
}

/* 1, 2 or 5 times a power of ten, some hundred pixels long. */
static double round_length(double unit)
{
    static const double steps[] = {2, 2.5, 2};
    double length = 1e-6;
    for (int i = 0; length * unit < 80 && i < 60; i++)
        length *= steps[i % 3];
    return length;
}

static void write_scale(const struct frame *frame, FILE *out)
{
    double length = round_length(frame->unit), y = HEIGHT - 22;
    fprintf(out,
            "<line class=\"scale\" x1=\"%.0f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>"
            "<text x=\"%.1f\" y=\"%.0f\">%g ms</text>\n",
            MARGIN, MARGIN + length * frame->unit, y, y, MARGIN + length * frame->unit + 8, y + 4,
            length);
}

static void write_node(const struct frame *frame, const mare_sim_placed *placed, uint32_t i,
                       int replica, FILE *out)
{
    const mare_coord_place *place = &placed->place[i];
    double x = along(frame, place, 0), y = along(frame, place, 1);
    double radius = clamp(2.5 + place->height * frame->unit / 8, 2.5, 8);
    if (replica)
        fprintf(out, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", x, y,
                radius + 5);
    fprintf(out,
            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>node %u, height "
            "%.1f ms, error %.2f</title></circle>\n",
            replica ? "replica" : "node", x, y, radius, i, place->height, place->error);
    if (replica || placed->n <= 40)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%u</text>\n", x + radius + 4, y - radius, i);
}

int mare_sim_map_write(const mare_sim_placed *placed, const uint32_t *replica, uint32_t replicas,
                       FILE *out)
{
    struct frame frame;
    if (!frame_of(placed, &frame))
        return 0;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\">\n<style>%s</style>\n<rect class=\"page\" width=\"100%%\" "
            "height=\"100%%\"/>\n<text class=\"title\" x=\"%.0f\" y=\"34\">%u nodes by round "
            "trip</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, style, MARGIN, placed->n);
    for (uint32_t i = 0; i < placed->n; i++)
        write_node(&frame, placed, i, 0, out);
    for (uint32_t k = 0; k < replicas; k++) /* on top of the others */
        write_node(&frame, placed, replica[k], 1, out);
    write_scale(&frame, out);
    fprintf(out,
            "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">larger: longer way to the net%s"
            "</text>\n</svg>\n",
            WIDTH - MARGIN, HEIGHT - 18, replicas ? "; ringed: replicas" : "");
    return !ferror(out);
}
