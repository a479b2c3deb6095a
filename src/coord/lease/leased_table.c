/* SPDX-License-Identifier: MIT */

/* The compositions: mutual exclusion that listens to DOWN, under a lease that makes it true. They
 * are not in the table of table.c, for a host composes what it runs itself (tenants.h); here they
 * are for the simulator, and for a C program that has one machine. */

#include "coord/lease/leased.h"

#include "coord/machine.h"
#include "coord/table.h"

#define SHELL(algorithm)                                                                           \
    {                                                                                              \
        .name = algorithm "+lease", .title = algorithm " under a lease that a majority renews",    \
        .source = "Gray and Cheriton 1989, and as " algorithm,                                     \
        .assumes = "clocks run right within drift_ppm", .family = MARE_COORD_MUTEX,                \
        .tag = MARE__TAG_LEASED, .params = mare__leased_params, .forms = mare__leased_forms,       \
        .promises = mare__leased_promises, .tolerates = mare__leased_tolerates,                    \
        .messages = mare__leased_messages, .formula = "as " algorithm ", and 2n(n-1) a beat",      \
        .size = mare__leased_size, .room = mare__leased_room, .init = mare__leased_init,           \
        .start = mare__leased_start, .receive = mare__leased_receive, .timer = mare__leased_timer, \
        .request = mare__leased_request, .peer = mare__leased_peer, .look = mare__leased_look,     \
        .kept = mare__leased_kept, .keep = mare__leased_keep, .recall = mare__leased_recall        \
    }

const mare__leased mare_coord_central_lease = {SHELL("central"), &mare_coord_central};
const mare__leased mare_coord_ricart_lease = {SHELL("ricart"), &mare_coord_ricart};
const mare__leased mare_coord_token_lease = {SHELL("token"), &mare_coord_token};
const mare__leased mare_coord_majority_lease = {SHELL("majority"), &mare_coord_majority};
const mare__leased mare_coord_voting_lease = {SHELL("voting"), &mare_coord_voting};

static const mare_coord_algorithm *const table[] = {
    &mare_coord_central_lease.shell,  &mare_coord_ricart_lease.shell, &mare_coord_token_lease.shell,
    &mare_coord_majority_lease.shell, &mare_coord_voting_lease.shell,
};

const mare_coord_algorithm *const *mare__leased_table(size_t *count)
{
    *count = sizeof table / sizeof *table;
    return table;
}

const mare_coord_algorithm *mare__leased_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (mare__same_word(table[i]->name, name))
            return table[i];
    }
    return NULL;
}
