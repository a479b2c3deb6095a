/* SPDX-License-Identifier: MIT */

/* Vector clocks, dense: one number for each slot of the group.
 *
 * Invariants (Tanenbaum and Van Steen, 6.2.2): VC_i[i] is the number of events at i so far. VC_i[j]
 * = k means that i knows of k events at j. Numbers never fall, except when a change of the
 * membership resets the slot. Nothing is assumed about the network: the clocks are as good as the
 * stamps that arrive. */

#include <mare/coord_clock.h>

void mare_coord_vector_tick(uint64_t *clock, uint32_t self)
{
    clock[self]++;
}

void mare_coord_vector_merge(uint64_t *clock, const uint64_t *stamp, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        clock[i] = clock[i] < stamp[i] ? stamp[i] : clock[i];
}

void mare_coord_vector_receive(uint64_t *clock, const uint64_t *stamp, uint32_t count,
                               uint32_t self)
{
    mare_coord_vector_merge(clock, stamp, count);
    clock[self]++;
}

/* From "somewhere smaller" and "somewhere larger" to the relation. */
static mare_coord_order order_of(int less, int more)
{
    if (less && more)
        return MARE_COORD_CONCURRENT;
    return less ? MARE_COORD_BEFORE : more ? MARE_COORD_AFTER : MARE_COORD_EQUAL;
}

mare_coord_order mare_coord_vector_compare(const uint64_t *a, const uint64_t *b, uint32_t count)
{
    int less = 0, more = 0;
    for (uint32_t i = 0; i < count; i++) {
        less |= a[i] < b[i];
        more |= a[i] > b[i];
    }
    return order_of(less, more);
}

int mare_coord_vector_deliverable(const uint64_t *clock, const uint64_t *stamp, uint32_t count,
                                  uint32_t from)
{
    if (from >= count || clock[from] == UINT64_MAX || stamp[from] != clock[from] + 1)
        return 0;
    for (uint32_t k = 0; k < count; k++) {
        if (k != from && stamp[k] > clock[k])
            return 0;
    }
    return 1;
}

void mare_coord_vector_reset_slot(uint64_t *clock, uint32_t slot)
{
    clock[slot] = 0;
}
