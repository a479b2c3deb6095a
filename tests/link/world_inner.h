// SPDX-License-Identifier: MIT
// What the files of the world share: world.c (time, faults, the end), host.c (links of a node),
// work.c (what is sent over them).
#pragma once

#include "tests/link/ledger.h"
#include "tests/link/net.h"
#include "tests/link/world.h"

enum { PARTIES = 64, NETS = 96, PIECES = 8 };

enum stage {
    FREE,
    FRESH,   // accepted a connection, and does not know whose
    CURRENT, // a node's link with another, or its dialling of it
    LEAVING, // over: what is left is sent, then it closes
};

// A link in the hands of a host.
struct party {
    struct world *world;
    struct node *node;
    struct mare__link *link;
    enum stage stage;
    int peer; // a number of a node; -1: not known
    struct net_connection *net;
    int end; // of the connection
    struct ledger_session *session;
    int role; // in the session: 0 has dialled
    bool up, over, suspected;
    uint64_t write_at, work_at, redial_at, leave_at;
    uint64_t up_at; // since when the transport is used
    uint32_t late;  // how often its host came late: silence is judged later then
};

struct node {
    struct world *world;
    int number;
    char name[4];
    const struct link_machine *machine;
    struct mare__link_settings settings;
    uint64_t stamp;
    bool dead;
    uint64_t frozen_until; // or dead until
    uint64_t woke_at;      // from that
    struct party *current[WORLD_NODES];
    uint64_t dial_at[WORLD_NODES];
};

struct world {
    const struct world_options *options;
    uint64_t now_us, calm_at, end_at;
    bool calm;
    mare_sim_random net_random, fault_random, work_random, host_random;
    int node_count;
    struct node nodes[WORLD_NODES];
    struct party parties[PARTIES];
    struct net_connection *nets[NETS];
    bool net_used[NETS];
    uint32_t capacity;
    uint64_t latency_us, work_us, fault_us, fault_at;
    unsigned faults; // which kinds, bits of enum fault
    bool faulted;    // there was one that can cost a link
    uint32_t message_most;
    struct ledger ledger;
    void **blocks; // all that were lent
    size_t block_count, block_room;
    uint64_t steps;
};

void world_trace(const struct world *world, const struct party *party, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// host.c: a node dials another; a party's turn; when it next has something to do.
void host_dial(struct node *node, int peer);
void host_serve(struct party *party);
uint64_t host_due(const struct party *party);
void host_drop(struct party *party); // and its link, without a word

// work.c: what the application at this end does now and then, and what it is told.
void work_begin(struct party *party);
void work_act(struct party *party);
void work_told(struct party *party, const struct mare__link_event *event);
void work_release(void *context, void *owner);
