/* SPDX-License-Identifier: MIT */

/* A four-way heap of 32-byte items: shallower than a binary one, and the four children that are
 * compared lie in two cache lines. Order is total (time, then plan number), so that what comes out
 * does not depend on how the heap happens to be laid out. */

#include "sim/heap.h"

#include <stdio.h>
#include <stdlib.h>

void *mare_sim_realloc(void *memory, size_t bytes)
{
    void *bigger = realloc(memory, bytes ? bytes : 1);
    if (!bigger) {
        fprintf(stderr, "mare sim: out of memory\n");
        abort();
    }
    return bigger;
}

static int earlier(const mare_sim_due *a, const mare_sim_due *b)
{
    return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

void mare_sim_heap_push(mare_sim_heap *heap, mare_sim_due due)
{
    if (heap->count == heap->room) {
        heap->room = heap->room ? heap->room * 2 : 256;
        heap->item = mare_sim_realloc(heap->item, heap->room * sizeof *heap->item);
    }
    due.order = heap->planned++;
    size_t at = heap->count++;
    while (at > 0) {
        size_t parent = (at - 1) / 4;
        if (!earlier(&due, &heap->item[parent]))
            break;
        heap->item[at] = heap->item[parent];
        at = parent;
    }
    heap->item[at] = due;
}

int mare_sim_heap_pop(mare_sim_heap *heap, mare_sim_due *due)
{
    if (heap->count == 0)
        return 0;
    *due = heap->item[0];
    mare_sim_due last = heap->item[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 4 + 1, best = child;
        if (child >= heap->count)
            break;
        size_t end = child + 4 < heap->count ? child + 4 : heap->count;
        for (child++; child < end; child++) {
            if (earlier(&heap->item[child], &heap->item[best]))
                best = child;
        }
        if (!earlier(&heap->item[best], &last))
            break;
        heap->item[at] = heap->item[best];
        at = best;
    }
    heap->item[at] = last;
    return 1;
}

void mare_sim_heap_fini(mare_sim_heap *heap)
{
    free(heap->item);
    *heap = (mare_sim_heap){0};
}
