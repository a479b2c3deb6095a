/* SPDX-License-Identifier: MIT */

/* The table of costs: messages and delays as measured beside what the formulas give.
 *
 *     mutual exclusion  one process that coordinates nothing enters three times; one message at a
 *                       time is on the network, which is how the sources count delays
 *     token ring        everybody always wants in, nobody ever does; the token has just come, has
 *                       just gone on: the ends of both ranges
 *     elections         the lowest calls, the highest calls; superpeers: each node looks up
 *     multicasts        one multicast of one member
 *
 * A measurement is a sum and a count. So it is compared without rounding: it equals a formula if
 * the sum is the formula times the count. A count of 0 means "without end". */

#include "sim/report.h"
#include "sim/script.h"

#include "coord/mutex/voting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 3u
#define HOP_US 1000u /* a message of elections and multicasts */
#define LARGEST 200u
#define WIDE 14
#define NARROW 10

typedef struct counted {
    uint64_t sum, count;
} counted;

typedef struct measured {
    counted messages_least, messages_most, delay_least, delay_most;
} measured;

/* Watching ------------------------------------------------------------------------------------- */

typedef struct watcher {
    mare_sim_observer observer;
    uint64_t sent, grants,
        between;           /* messages, entries, messages from the first entry to the last */
    uint64_t news_us;      /* when somebody was last told of a leader or a multicast */
    uint64_t rings, moves; /* timers that ran out; marks */
} watcher;

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    watcher *w = (watcher *)self;
    w->sent += seen->sight == MARE_SIM_SENT;
    w->rings += seen->sight == MARE_SIM_STEPPED && seen->event->kind == MARE_COORD_TIMER;
    if (seen->sight != MARE_SIM_EFFECT)
        return;
    if (seen->effect->kind == MARE_COORD_GRANTED) {
        w->between += w->grants++ ? w->sent : 0;
        w->sent = 0;
    } else if (seen->effect->kind == MARE_COORD_MARK) {
        w->moves++;
    } else if (seen->effect->kind == MARE_COORD_ELECTED ||
               seen->effect->kind == MARE_COORD_DELIVER) {
        w->news_us = seen->time_us;
    }
}

static void watch(const mare_sim_options *options, watcher *w, mare_sim_outcome *outcome)
{
    *w = (watcher){.observer = {.see = see}};
    mare_sim_observer *observers[] = {&w->observer, NULL};
    mare_sim_run(options, observers, outcome);
}

/* As the sources count: nothing fails, nobody competes. */
static void calm(mare_sim_options *options, const mare_coord_setup *setup, uint32_t n)
{
    mare_sim_options_init(options, setup->algorithm, n);
    memcpy(options->setup.param, setup->param, sizeof setup->param);
    mare_coord_setup_set(&options->setup, "repair", 0);
    mare_coord_setup_set(&options->setup, "rest_us", 0);
    mare_coord_setup_set(&options->setup, "window", 2); /* one multicast: saves much memory */
    options->network = (mare_sim_network){.delay = MARE_SIM_FIXED, .delay_us = 1};
    options->settle_us = 0;
    options->no_vectors = 1;
    options->workload = &mare_sim_workload_script;
}

/* Mutual exclusion ----------------------------------------------------------------------------- */

/* Voting counts replicas, not members: takes n replicas, and one member more. So one member has no
 * replica, and pays for every vote. Returns that member. */
static uint32_t seat_replicas(mare_sim_options *options, uint32_t n)
{
    uint32_t who = 0;
    if (mare_coord_setup_set(&options->setup, "replicas", n) != MARE_COORD_OK)
        return who;
    options->setup.members = options->setup.capacity = n + 1;
    uint8_t *taken = calloc(n + 1, 1);
    for (uint32_t i = 0; taken && i < n; i++)
        taken[mare__voting_home(&options->setup, i)] = 1;
    while (taken && taken[who])
        who++;
    free(taken);
    return who;
}

static void measure_entries(const mare_coord_setup *setup, uint32_t n, measured *m)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    mare_sim_script_row row[ENTRIES];
    mare_sim_script script = {.row = row, .count = ENTRIES};
    calm(&options, setup, n);
    uint32_t who = seat_replicas(&options, n);
    for (uint32_t i = 0; i < ENTRIES; i++)
        row[i] = (mare_sim_script_row){
            .at_us = (uint64_t)i * 10 * (n + 10), .process = who, .kind = MARE_COORD_ENTER};
    options.network.bus = 1;
    options.workload_context = &script;
    mare_sim_run(&options, NULL, &outcome);
    m->messages_least = m->messages_most = (counted){outcome.sent, outcome.grants};
    m->delay_least = m->delay_most = (counted){outcome.wait_us, outcome.grants};
}

/* How long process 0 waits when it asks at this time; a message takes 1. */
static counted wait_from(const mare_coord_setup *setup, uint32_t n, uint64_t at_us)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    mare_sim_script_row row = {.at_us = at_us, .kind = MARE_COORD_ENTER, .hold_us = MARE_SIM_STAYS};
    mare_sim_script script = {.row = &row, .count = 1};
    calm(&options, setup, n);
    options.workload_context = &script;
    options.duration_us = 3 * (uint64_t)n;
    mare_sim_run(&options, NULL, &outcome);
    return (counted){outcome.wait_us, outcome.grants};
}

/* What goes round: the token comes back to process 0 at time n, and has got to the next one, with
 * the whole round before it, at time 1. */
static void measure_round(const mare_coord_setup *setup, uint32_t n, measured *m)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    watcher w;
    mare_sim_script nothing = {0};
    calm(&options, setup, n);
    options.workload = NULL; /* everybody, again and again */
    options.think_us = options.hold_us = 0;
    options.duration_us = 4 * (uint64_t)n;
    options.network.delay_us = 1;
    watch(&options, &w, &outcome);
    m->messages_least = (counted){w.between, w.grants - 1};
    options.workload = &mare_sim_workload_script;
    options.workload_context = &nothing;
    watch(&options, &w, &outcome);
    m->messages_most = (counted){w.sent, w.grants}; /* so many messages, and no entry */
    m->delay_least = wait_from(setup, n, n);
    m->delay_most = wait_from(setup, n, 1);
}

/* Elections and multicasts --------------------------------------------------------------------- */

static int above(counted a, counted b)
{
    return a.sum * b.count > b.sum * a.count;
}

static void widen(counted *least, counted *most, counted seen, int first)
{
    *least = first || above(*least, seen) ? seen : *least;
    *most = first || above(seen, *most) ? seen : *most;
}

/* One request of one member, and nothing else. Adds its cost to the range. */
static void measure_one(const mare_coord_setup *setup, uint32_t n, uint32_t who, int first,
                        measured *m)
{
    static const uint8_t word[] = "hello";
    int election = setup->algorithm->family == MARE_COORD_ELECTION;
    mare_sim_script_row row = {.at_us = HOP_US,
                               .process = who,
                               .kind = election ? MARE_COORD_ELECT : MARE_COORD_MULTICAST,
                               .data = election ? NULL : word,
                               .length = election ? 0 : sizeof word - 1};
    mare_sim_script script = {.row = &row, .count = 1};
    mare_sim_options options;
    mare_sim_outcome outcome;
    watcher w;
    calm(&options, setup, n);
    options.network.delay_us = HOP_US;
    options.duration_us = UINT64_C(60000000);
    options.workload_context = &script;
    watch(&options, &w, &outcome);
    widen(&m->messages_least, &m->messages_most, (counted){outcome.sent, 1}, first);
    widen(&m->delay_least, &m->delay_most, (counted){w.news_us - row.at_us, HOP_US}, first);
}

/* Gossip without end: the messages of all members in one period. A member that moves a token sends
 * one more. */
static void measure_gossip(const mare_coord_setup *setup, uint32_t n, measured *m)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    watcher w;
    mare_sim_script nothing = {0};
    calm(&options, setup, n);
    options.network.delay_us = HOP_US;
    options.setup.marks = 1;
    options.workload_context = &nothing;
    watch(&options, &w, &outcome);
    m->messages_least = m->messages_most = (counted){(w.sent - w.moves) * n, w.rings};
}

static void measure(const mare_coord_setup *setup, const mare_coord_cost *cost, uint32_t n,
                    measured *m)
{
    const mare_coord_algorithm *algorithm = setup->algorithm;
    *m = (measured){0};
    if (algorithm->family == MARE_COORD_MUTEX && cost->messages_most == UINT64_MAX) {
        measure_round(setup, n, m);
    } else if (algorithm->family == MARE_COORD_MUTEX) {
        measure_entries(setup, n, m);
    } else if (cost->is_period) {
        measure_gossip(setup, n, m);
    } else if (cost->is_bound) {
        for (uint32_t i = 0; i < n; i++)
            measure_one(setup, n, i, i == 0, m);
    } else {
        measure_one(setup, n, 0, 1, m);
        if (algorithm->family == MARE_COORD_ELECTION)
            measure_one(setup, n, n - 1, 0, m);
    }
}

/* Comparing ------------------------------------------------------------------------------------ */

static int equals(counted a, uint64_t formula)
{
    return formula == UINT64_MAX ? a.count == 0 : a.count && a.sum == a.count * formula;
}

/* Where the formula is a bound: whether the range lies within it. Otherwise: whether its ends are
 * equal. */
static int agrees(counted least, counted most, uint64_t low, uint64_t high, int is_bound)
{
    if (is_bound)
        return least.count && most.count && least.sum >= low * least.count &&
               most.sum <= high * most.count;
    return equals(least, low) && equals(most, high);
}

/* Writing -------------------------------------------------------------------------------------- */

/* Pads on the left; the characters of a column are not all of one byte. */
static void write_cell(const char *text, int width, FILE *out)
{
    for (const char *c = text; *c; c++)
        width -= (*c & 0xc0) != 0x80;
    fprintf(out, "%*s%s", width > 0 ? width : 0, "", text);
}

static void print_counted(char *out, size_t room, counted a)
{
    if (a.count == 0)
        snprintf(out, room, "∞");
    else if (a.sum % a.count == 0)
        snprintf(out, room, "%" PRIu64, a.sum / a.count);
    else
        snprintf(out, room, "%.2f", (double)a.sum / (double)a.count);
}

static void write_range(counted least, counted most, int width, FILE *out)
{
    char low[32], high[32], both[80];
    print_counted(low, sizeof low, least);
    print_counted(high, sizeof high, most);
    if (strcmp(low, high) == 0)
        snprintf(both, sizeof both, "%s", low);
    else
        snprintf(both, sizeof both, "%s … %s", low, high);
    write_cell(both, width, out);
}

static counted formula_of(uint64_t value)
{
    return (counted){value, value != UINT64_MAX};
}

static void write_json_number(const char *name, counted a, FILE *out)
{
    fprintf(out, ",\"%s\":", name);
    if (a.count == 0)
        fputs("null", out);
    else
        fprintf(out, "%.12g", (double)a.sum / (double)a.count);
}

typedef struct line {
    uint32_t n;
    mare_coord_cost cost;
    measured found;
    int delay; /* has one */
    int messages_agree, delay_agrees;
} line;

static void write_json_line(const line *l, FILE *out)
{
    fprintf(out, "{\"n\":%" PRIu32, l->n);
    write_json_number("messages_least", l->found.messages_least, out);
    write_json_number("messages_most", l->found.messages_most, out);
    write_json_number("formula_least", formula_of(l->cost.messages_least), out);
    write_json_number("formula_most", formula_of(l->cost.messages_most), out);
    if (l->delay) {
        write_json_number("delay_least", l->found.delay_least, out);
        write_json_number("delay_most", l->found.delay_most, out);
        write_json_number("delay_formula_least", formula_of(l->cost.delay_least), out);
        write_json_number("delay_formula_most", formula_of(l->cost.delay_most), out);
    }
    fprintf(out, ",\"agrees\":%s}", l->messages_agree && l->delay_agrees ? "true" : "false");
}

/* Columns are as wide as their heads. */
static int width_of(const char *head, int least)
{
    int width = 1;
    for (const char *c = head; *c; c++)
        width += (*c & 0xc0) != 0x80;
    return width > least ? width : least;
}

static void write_text_line(const line *l, FILE *out)
{
    const char *sign = l->cost.is_bound ? "≤" : "=";
    fprintf(out, "%5" PRIu32 " ", l->n);
    write_range(l->found.messages_least, l->found.messages_most, WIDE, out);
    fprintf(out, " %s", l->messages_agree ? sign : "≠");
    write_range(formula_of(l->cost.messages_least), formula_of(l->cost.messages_most),
                width_of(l->cost.formula, WIDE), out);
    if (l->delay) {
        write_range(l->found.delay_least, l->found.delay_most, WIDE, out);
        fprintf(out, " %s", l->delay_agrees ? sign : "≠");
        write_range(formula_of(l->cost.delay_least), formula_of(l->cost.delay_most),
                    width_of(l->cost.delay_formula, NARROW), out);
    }
    fputc('\n', out);
}

/* What is counted: "of an election". */
static const char *unit_of(const mare_coord_algorithm *algorithm, const mare_coord_cost *cost)
{
    if (algorithm->family == MARE_COORD_MUTEX)
        return "an entry and exit, and message times before the entry";
    if (algorithm->family == MARE_COORD_ORDER)
        return "a multicast, and message times until all have it";
    if (cost->is_period)
        return "a period";
    return cost->is_bound ? "a lookup, and message times until its end"
                          : "an election, and message times until all know";
}

static void write_head(const mare_coord_algorithm *algorithm, const mare_coord_cost *cost,
                       FILE *out)
{
    fprintf(out, "%s: messages of %s\n    n ", algorithm->name, unit_of(algorithm, cost));
    write_cell("messages", WIDE, out);
    fputs("  ", out);
    write_cell(cost->formula, width_of(cost->formula, WIDE), out);
    if (cost->delay_formula) {
        write_cell("delay", WIDE, out);
        fputs("  ", out);
        write_cell(cost->delay_formula, width_of(cost->delay_formula, NARROW), out);
    }
    fputc('\n', out);
}

static void write_json_head(const mare_coord_algorithm *algorithm, const mare_coord_cost *cost,
                            FILE *out)
{
    fputs("{\"algorithm\":", out);
    mare_sim_write_quoted(algorithm->name, out);
    fputs(",\"formula\":", out);
    mare_sim_write_quoted(cost->formula, out);
    fputs(",\"delay_formula\":", out);
    mare_sim_write_quoted(cost->delay_formula ? cost->delay_formula : "", out);
    fputs(",\"rows\":[", out);
}

static int write_line(const mare_coord_setup *setup, uint32_t n, int as_json, FILE *out)
{
    mare_sim_options options;
    line l = {.n = n, .delay_agrees = 1};
    calm(&options, setup, n);
    seat_replicas(&options, n);
    mare_coord_cost_of(&options.setup, &l.cost);
    l.delay = l.cost.delay_formula != NULL;
    measure(setup, &l.cost, n, &l.found);
    l.messages_agree = agrees(l.found.messages_least, l.found.messages_most, l.cost.messages_least,
                              l.cost.messages_most, l.cost.is_bound);
    if (l.delay)
        l.delay_agrees = agrees(l.found.delay_least, l.found.delay_most, l.cost.delay_least,
                                l.cost.delay_most, l.cost.is_bound);
    if (as_json)
        write_json_line(&l, out);
    else
        write_text_line(&l, out);
    return !l.messages_agree || !l.delay_agrees;
}

int mare_sim_write_table(const mare_coord_setup *setup, uint32_t n, int as_json, FILE *out)
{
    int wrong = 0;
    mare_sim_options options;
    mare_coord_cost cost;
    calm(&options, setup, n ? n : 2);
    mare_coord_cost_of(&options.setup, &cost);
    if (as_json)
        write_json_head(setup->algorithm, &cost, out);
    else
        write_head(setup->algorithm, &cost, out);
    if (n && setup->algorithm->cost)
        wrong = write_line(setup, n, as_json, out);
    for (uint32_t i = 2; !n && setup->algorithm->cost && i <= LARGEST; i += i < 10    ? 1
                                                                            : i < 100 ? 10
                                                                                      : 50) {
        fputs(as_json && i > 2 ? "," : "", out);
        wrong |= write_line(setup, i, as_json, out);
    }
    fputs(as_json ? "]}\n" : "", out);
    return wrong;
}
