// SPDX-License-Identifier: MIT
// What `mare --trace` has written: the history of one program, or of several that are nodes.
#pragma once

#include "cli/cli.h"

enum { MARE__HISTORY_FILES = 60 };

#define MARE__NOWHERE SIZE_MAX

struct mare__happening {
    uint64_t number, time_ns, process, channel, life, cause;
    mare_event_kind kind;
    unsigned file;
    size_t text;        // the name of process, node or channel, in the texts; 0: it has none
    size_t source;      // the event that caused it; MARE__NOWHERE: none that is here
    size_t first, next; // its effects: the first, and the next of its own source
};

struct mare__history {
    const char *const *paths;
    unsigned files;
    struct mare__happening *events; // in an order that agrees with happened-before
    size_t count, room;
    char *texts;
    size_t texts_size, texts_room;
    size_t node[MARE__HISTORY_FILES]; // the name of each file's node, in the texts; or 0
};

// Reads the files, puts all events into one order in which times do not go back, and links each
// effect to its cause: if a message came from a node whose file is given, that is its `send` there.
// False: it has printed why not. In both cases the caller frees the history.
bool mare__history_read(struct mare__history *history, const char *const *paths, unsigned files);
void mare__history_free(struct mare__history *history);

// The name of the channel that the event is about; "": it has none, or there is no channel.
const char *mare__history_channel_name(const struct mare__history *history,
                                       const struct mare__happening *event);

// Whether the event is only a step on a message's way, or no step at all: not to be drawn.
bool mare__history_is_aside(const struct mare__happening *event);

// Says "mare trace draw: PATH: WHY". Returns false.
bool mare__history_complain(const char *path, const char *why);

// "17", or 0.000000001 for a nanosecond. False: it is neither.
bool mare__history_number(const char **at, uint64_t *number);
bool mare__history_time(const char **at, uint64_t *time_ns);

// Writes a log for ShiViz of the events for which `host` gives a number below `hosts`; their names
// are in `names`. False: there is no memory for the clocks.
bool mare__history_write_shiviz(const struct mare__history *history, const uint32_t *host,
                                uint32_t hosts, const char *const *names, FILE *out);
