/* SPDX-License-Identifier: MIT */

/* What the locks of one algorithm keep, as one; bounds.h says why that can be. */

#include "coord/lease/bounds.h"

#include "coord/bytes.h"
#include "coord/machine.h"

#include <string.h>

uint32_t mare__bounds_begin(const mare_coord_setup *setup, uint8_t *out, uint32_t room)
{
    uint32_t length = 8 * (MARE__SAVED_HEAD + setup->algorithm->kept(setup));
    uint64_t head[MARE__SAVED_HEAD] = {setup->algorithm->tag, setup->self, setup->members, 1};
    if (length > room)
        return 0;
    memset(out, 0, length);
    mare__put_numbers(out, head, MARE__SAVED_HEAD);
    return length;
}

int mare__bounds_merge(uint8_t *into, const uint8_t *saved, uint32_t length)
{
    int grows = 0;
    for (uint32_t at = 0; at + 8 <= length; at += 8) {
        uint64_t number = mare__get_number(saved + at, 8);
        if (number > mare__get_number(into + at, 8)) {
            mare__put_numbers(into + at, &number, 1);
            grows = 1;
        }
    }
    return grows;
}

int mare__bounds_fit(const uint8_t *begun, const uint8_t *saved, uint32_t length)
{
    const uint32_t head = 8 * MARE__SAVED_HEAD;
    return length > head && memcmp(begun, saved, head) == 0;
}
