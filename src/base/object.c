// SPDX-License-Identifier: MIT
// The end of objects. What an object refers to may end with it, and what that refers to after it:
// channels with channels in their buffers, results with the processes before them, as long as
// memory lasts. So a destroy never runs inside another one. It leaves what it sets free to the
// outermost call of the thread, which takes one after the other from a list. That list needs no
// memory, no lock and no other thread:
//
//     mare__unref --> [list] --> destroy --+
//                       ^--- mare__unref --+
//
// A child made by fork goes on in the same call on the same thread, with the same list.
#include "base/object.h"

#include <stddef.h>

#include "base/account.h"

static _Thread_local struct {
    struct mare__object *first; // the last to be set free
    bool is_emptied;            // by a call further up the stack
} ended __attribute__((tls_model("initial-exec")));

void mare__object_end(struct mare__object *object)
{
    if (ended.is_emptied) {
        object->next = ended.first;
        ended.first = object;
        return;
    }
    ended.is_emptied = true;
    while (object) {
        struct mare__account *payer = object->account;
        uint32_t weight = object->weight;
        object->destroy(object); // which may give back more
        if (payer) {
            mare__account_give(payer, weight);
            mare__account_unref(payer);
        }
        object = ended.first;
        if (object)
            ended.first = object->next;
    }
    ended.is_emptied = false;
}
