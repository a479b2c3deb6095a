/* SPDX-License-Identifier: MIT */

/* What locks by `majority` keep, as one: the largest of their bounds, and all who have ever had a
 * vote. That is more than each of them needs, and so right for each: after a crash a stamp too many
 * counts as used, or one member too many is asked. */

#include "coord/mutex/majority.h"

#include "coord/bytes.h"
#include "coord/machine.h"

int mare__majority_merge(uint8_t *into, const uint8_t *saved, uint32_t length)
{
    int grows = 0;
    for (uint32_t i = 0; 8 * i < length; i++) {
        uint64_t old = mare__get_number(into + 8 * i, 8);
        uint64_t both = old | mare__get_number(saved + 8 * i, 8); /* a set, or always the same */
        if (i == MARE__SAVED_HEAD + MARE__MAJORITY_BOUND) {
            both = mare__get_number(saved + 8 * i, 8);
            both = both > old ? both : old;
        }
        grows |= both != old;
        mare__put_numbers(into + 8 * i, &both, 1);
    }
    return grows;
}
