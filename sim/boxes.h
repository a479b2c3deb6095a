/* SPDX-License-Identifier: MIT */
#pragma once

/* The boxes of what is written in a drawing, so that no text lies on another. A box has a middle,
 * half a width, half a height, and the direction of its text: names of messages run along arrows.
 * Widths are those of a wide font, so that a narrower one leaves room and none runs over. */

#include <stddef.h>

typedef struct mare_sim_box {
    double x, y;   /* the middle */
    double ux, uy; /* the direction of the text, of length 1 */
    double half_width, half_height;
} mare_sim_box;

typedef struct mare_sim_boxes {
    mare_sim_box *box;
    size_t count, room;
} mare_sim_boxes;

/* How wide a text is, in UTF-8, at a font size. */
double mare_sim_text_width(const char *text, double size, int bold);

/* The box of a level text: where it begins, and the line that it stands on. */
mare_sim_box mare_sim_box_of(double left, double base, double width, double size);

/* Whether a box lies on one that is taken. */
int mare_sim_boxes_hit(const mare_sim_boxes *boxes, const mare_sim_box *box);
void mare_sim_boxes_take(mare_sim_boxes *boxes, const mare_sim_box *box);
void mare_sim_boxes_fini(mare_sim_boxes *boxes);
