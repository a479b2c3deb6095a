/* SPDX-License-Identifier: MIT */

/* Boxes of text. Two of them do not touch if a line can be drawn between them; for boxes it is
 * enough to look along the sides of both (the separating axis theorem). */

#include "sim/boxes.h"

#include "sim/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define APART 1.0  /* pixels between two texts, at least */
#define ABOVE 0.76 /* of the font size: how high letters are … */
#define BELOW 0.08 /* … and how deep */

/* Parts of the font size. DejaVu Sans is as wide as fonts for screens are. */
static double letter_width(unsigned char c)
{
    if (strchr("ijlI.,:;'|!()[] ", c))
        return 0.39;
    if (strchr("mwMW%@", c))
        return 0.98;
    return c >= 'A' && c <= 'Z' ? 0.71 : 0.635;
}

double mare_sim_text_width(const char *text, double size, int bold)
{
    double width = 0;
    for (; *text; text++) {
        if (((unsigned char)*text & 0xC0) != 0x80) /* not inside a character */
            width += (unsigned char)*text < 0x80 ? letter_width((unsigned char)*text) : 0.8;
    }
    return width * size * (bold ? 1.13 : 1);
}

mare_sim_box mare_sim_box_of(double left, double base, double width, double size)
{
    return (mare_sim_box){.x = left + width / 2,
                          .y = base - (ABOVE - BELOW) * size / 2,
                          .ux = 1,
                          .half_width = width / 2,
                          .half_height = (ABOVE + BELOW) * size / 2};
}

/* How far a box reaches from its middle in a direction of length 1. */
static double reach(const mare_sim_box *box, double dx, double dy)
{
    return box->half_width * fabs(box->ux * dx + box->uy * dy) +
           box->half_height * fabs(box->ux * dy - box->uy * dx);
}

static int apart_along(const mare_sim_box *a, const mare_sim_box *b, double dx, double dy)
{
    double between = fabs((b->x - a->x) * dx + (b->y - a->y) * dy);
    return between >= reach(a, dx, dy) + reach(b, dx, dy) + APART;
}

int mare_sim_boxes_hit(const mare_sim_boxes *boxes, const mare_sim_box *box)
{
    for (size_t i = 0; i < boxes->count; i++) {
        const mare_sim_box *other = &boxes->box[i];
        if (!apart_along(box, other, 1, 0) && !apart_along(box, other, 0, 1) &&
            !apart_along(box, other, box->ux, box->uy) &&
            !apart_along(box, other, -box->uy, box->ux) &&
            !apart_along(box, other, other->ux, other->uy) &&
            !apart_along(box, other, -other->uy, other->ux))
            return 1;
    }
    return 0;
}

void mare_sim_boxes_take(mare_sim_boxes *boxes, const mare_sim_box *box)
{
    if (boxes->count == boxes->room) {
        boxes->room = boxes->room ? 2 * boxes->room : 64;
        boxes->box = mare_sim_realloc(boxes->box, boxes->room * sizeof *boxes->box);
    }
    boxes->box[boxes->count++] = *box;
}

void mare_sim_boxes_fini(mare_sim_boxes *boxes)
{
    free(boxes->box);
    *boxes = (mare_sim_boxes){0};
}
