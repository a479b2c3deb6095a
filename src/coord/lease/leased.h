/* SPDX-License-Identifier: MIT */
#pragma once

/* An algorithm under a lease, as one algorithm: "ricart+lease". It is what a member of a group with
 * one lock runs, and what the simulator sweeps. */

#include "coord/lease/tenants.h"

typedef struct mare__leased {
    mare_coord_algorithm shell; /* first: a set-up points to it */
    const mare_coord_algorithm *inner;
} mare__leased;

extern const mare__leased mare_coord_central_lease, mare_coord_ricart_lease, mare_coord_token_lease,
    mare_coord_majority_lease, mare_coord_voting_lease;

/* The composition of this name, or NULL when there is none. */
const mare_coord_algorithm *mare__leased_find(const char *name);
/* All of them; `count` gets how many. */
const mare_coord_algorithm *const *mare__leased_table(size_t *count);

/* The handlers and texts that all compositions share; a `const mare__leased` is made of them. */
unsigned mare__leased_promises(const mare_coord_setup *setup);
unsigned mare__leased_tolerates(const mare_coord_setup *setup);
uint64_t mare__leased_messages(const mare_coord_setup *setup);
size_t mare__leased_size(const mare_coord_setup *setup);
void mare__leased_room(const mare_coord_setup *setup, uint32_t *effects, uint32_t *bytes);
void mare__leased_init(mare_coord *m);
void mare__leased_start(mare_coord *m, mare_coord_effects *fx);
mare_coord_status mare__leased_receive(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                                       mare_coord_effects *fx);
void mare__leased_timer(mare_coord *m, uint32_t which, mare_coord_effects *fx);
mare_coord_status mare__leased_request(mare_coord *m, const mare_coord_event *event,
                                       mare_coord_effects *fx);
void mare__leased_peer(mare_coord *m, const mare_coord_event *event, mare_coord_effects *fx);
void mare__leased_look(const mare_coord *m, mare_coord_view *view);
uint32_t mare__leased_kept(const mare_coord_setup *setup);
void mare__leased_keep(const mare_coord *m, uint64_t *out);
mare_coord_status mare__leased_recall(mare_coord *m, const uint64_t *in);
extern const mare_coord_param mare__leased_params[];
extern const mare_coord_form mare__leased_forms[];
