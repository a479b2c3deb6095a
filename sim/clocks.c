/* SPDX-License-Identifier: MIT */

/* NTP in virtual time.
 *
 *     references, stratum 1 (some lie) ◀── relays, stratum 2 ◀── leaves, stratum 3
 *
 * Each node has an oscillator, a disciplined clock, and a client for each of its servers. Real
 * packets travel, through the encoder and decoder of the library. All that happens is an entry in
 * one queue, by the true time in nanoseconds; so clocks are read in the order of time. */

#include "sim/clocks.h"
#include "sim/heap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000000)
#define EPOCH_NS (INT64_C(1700000000) * MARE_TIME_SECOND) /* the true time at the beginning */
#define NODES_MAX 24
#define SERVERS_MAX 8
#define POLLS 60
#define WARM_UP 32 /* polls after which every node that can have a time must have one */

enum { DUE_POLL, DUE_QUESTION, DUE_ANSWER, DUE_READ, DUE_TURN, DUE_RISE };

typedef struct parcel {
    uint32_t from, to, length;
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
} parcel;

typedef struct node {
    mare_sim_oscillator oscillator;
    mare_time_clock clock;
    mare_ntp_server server;
    uint32_t servers;
    uint32_t source[SERVERS_MAX];
    mare_ntp_client client[SERVERS_MAX];
    int64_t lie_ns, wrong_ns; /* a reference: how wrong it is; within its bound, or not */
    uint64_t bound_ns;
    int64_t shown_ns;
    uint32_t polls;
    uint32_t peer;    /* which of the servers is followed */
    uint32_t refused; /* how often in a row no server was followed, though they agreed */
    int dead;         /* a reference that answers no more */
} node;

typedef struct world {
    const mare_sim_clocks_options *options;
    mare_sim_clocks_outcome *outcome;
    mare_sim_random random;
    mare_sim_heap heap;
    uint64_t now_ns;
    node node[NODES_MAX];
    uint32_t nodes;
    uint64_t base_ns[NODES_MAX][NODES_MAX]; /* the shortest way from one to the other */
    parcel *parcel;
    uint32_t parcels;
    mare_ntp_key key;
} world;

/* Tools --------------------------------------------------------------------------------------- */

const char *mare_sim_method_name(mare_sim_method method)
{
    static const char *const names[] = {"ntp", "rbs-mean", "rbs-line"};
    return names[method];
}

int64_t mare_sim_either_way(mare_sim_random *random, uint64_t most)
{
    return (int64_t)mare_sim_below(random, 2 * most + 1) - (int64_t)most;
}

int64_t mare_sim_oscillator_read(const mare_sim_oscillator *o, uint64_t true_ns)
{
    __int128 passed = (__int128)(true_ns - o->true_ns);
    return o->local_ns + (int64_t)passed + (int64_t)(passed * o->rate_ppb / 1000000000);
}

void mare_sim_oscillator_turn(mare_sim_oscillator *o, uint64_t true_ns, int64_t rate_ppb)
{
    o->local_ns = mare_sim_oscillator_read(o, true_ns);
    o->true_ns = true_ns;
    o->rate_ppb = rate_ppb;
}

void mare_sim_clocks_violate(mare_sim_clocks_outcome *outcome, const char *what, const char *format,
                             ...)
{
    va_list arguments;
    if (outcome->violation[0])
        return;
    snprintf(outcome->violation, sizeof outcome->violation, "%s", what);
    va_start(arguments, format);
    vsnprintf(outcome->detail, sizeof outcome->detail, format, arguments);
    va_end(arguments);
}

void mare_sim_clocks_judge(const mare_sim_clocks_options *options, mare_sim_clocks_outcome *outcome,
                           mare_sim_method method, uint32_t who, int64_t wrong_ns,
                           uint64_t bound_ns)
{
    mare_sim_clocks_score *score = &outcome->score[method];
    uint64_t error_ns = (uint64_t)(wrong_ns < 0 ? -wrong_ns : wrong_ns);
    score->readings++;
    score->error_ns += error_ns;
    score->bound_ns += bound_ns;
    score->error_most_ns = error_ns > score->error_most_ns ? error_ns : score->error_most_ns;
    uint64_t closeness = bound_ns ? error_ns * 1000000 / bound_ns : 0;
    score->closest_ppm = closeness > score->closest_ppm ? closeness : score->closest_ppm;
    if (options->reading)
        options->reading(options->context, method, error_ns, bound_ns);
    bound_ns = (uint64_t)((unsigned __int128)bound_ns * options->bound_percent / 100);
    if (error_ns > bound_ns)
        mare_sim_clocks_violate(outcome, "BOUND",
                                "%s: node %" PRIu32 " is %" PRId64 " ns from the truth, and says "
                                "at most %" PRIu64,
                                mare_sim_method_name(method), who, wrong_ns, bound_ns);
}

static void plan(world *w, uint64_t after_ns, uint32_t kind, uint32_t who, uint32_t index)
{
    mare_sim_due due = {
        .time_us = w->now_ns + after_ns, .kind = kind, .process = who, .index = index};
    mare_sim_heap_push(&w->heap, due); /* here the queue counts nanoseconds */
}

static int64_t local(const world *w, const node *n)
{
    return mare_sim_oscillator_read(&n->oscillator, w->now_ns);
}

static int64_t truth(const world *w)
{
    return EPOCH_NS + (int64_t)w->now_ns;
}

/* The network --------------------------------------------------------------------------------- */

static uint64_t delay(world *w, uint32_t from, uint32_t to)
{
    uint64_t ns = w->base_ns[from][to] + mare_sim_exponential(&w->random, w->options->jitter_ns);
    return mare_sim_chance(&w->random, w->options->spike_ppm) ? 20 * ns : ns;
}

static void post(world *w, uint32_t kind, uint32_t from, uint32_t to, const uint8_t *bytes,
                 uint32_t length)
{
    w->outcome->packets++;
    if (mare_sim_chance(&w->random, w->options->loss_ppm)) {
        w->outcome->lost++;
        return;
    }
    uint32_t copies = 1 + (uint32_t)mare_sim_chance(&w->random, w->options->duplicate_ppm);
    while (copies--) {
        if ((w->parcels & (w->parcels - 1)) == 0)
            w->parcel = mare_sim_realloc(w->parcel, (w->parcels ? 2 * (size_t)w->parcels : 1) *
                                                        sizeof *w->parcel);
        parcel *p = &w->parcel[w->parcels];
        *p = (parcel){.from = from, .to = to, .length = length};
        memcpy(p->bytes, bytes, length);
        plan(w, delay(w, from, to), kind, to, w->parcels++);
    }
}

/* Nodes --------------------------------------------------------------------------------------- */

/* What a node's clock shows; every reading is checked. */
static mare_time_reading read_clock(world *w, uint32_t who)
{
    node *n = &w->node[who];
    if (who < w->options->references)
        return (mare_time_reading){truth(w) + n->wrong_ns + n->lie_ns, n->bound_ns};
    mare_time_reading reading = mare_time_clock_read(&n->clock, local(w, n));
    if (reading.time_ns < n->shown_ns)
        mare_sim_clocks_violate(w->outcome, "BACKWARDS",
                                "the clock of node %" PRIu32 " went back by %" PRId64 " ns", who,
                                n->shown_ns - reading.time_ns);
    n->shown_ns = reading.time_ns;
    if (reading.error_ns != MARE_TIME_UNKNOWN)
        mare_sim_clocks_judge(w->options, w->outcome, MARE_SIM_NTP, who, reading.time_ns - truth(w),
                              reading.error_ns);
    return reading;
}

static void poll(world *w, uint32_t who)
{
    node *n = &w->node[who];
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    if (n->server.stratum < MARE_NTP_UNSYNCHRONISED && !n->client[n->peer].reach)
        n->server.stratum = MARE_NTP_UNSYNCHRONISED; /* silent for long: its stratum counts no
                                                      * more */
    for (uint32_t i = 0; i < n->servers; i++) {
        uint32_t length =
            mare_ntp_client_ask(&n->client[i], local(w, n), mare_sim_draw(&w->random), bytes);
        post(w, DUE_QUESTION, who, n->source[i], bytes, length);
    }
    n->polls++;
    plan(w, w->options->poll_ns / 2 + mare_sim_below(&w->random, w->options->poll_ns), DUE_POLL,
         who, 0);
}

/* Answers at once: a server's time to answer counts as a part of the way back. */
static void answer(world *w, const parcel *question)
{
    uint32_t who = question->to;
    uint8_t out[MARE_NTP_PACKET_BYTES];
    if (w->node[who].dead)
        return;
    mare_time_reading now = read_clock(w, who);
    uint32_t length =
        mare_ntp_serve(&w->node[who].server, question->bytes, question->length, now, now, out);
    if (length)
        post(w, DUE_ANSWER, who, question->from, out, length);
}

static void check_filter(world *w, uint32_t who, const mare_ntp_client *client,
                         const mare_ntp_estimate *estimate)
{
    int64_t now_ns = local(w, &w->node[who]);
    for (uint32_t i = 0; i < client->count; i++) {
        const mare_ntp_sample *s = &client->sample[i];
        mare_time_clock aged; /* a sample, as a clock of its own: so it ages as clocks do */
        mare_time_clock_init(&aged, client->setup.drift_ppb, 0);
        mare_time_clock_set(&aged, s->local_ns, s->local_ns + s->offset_ns, s->error_ns);
        uint64_t error_ns = mare_time_clock_target(&aged, now_ns).error_ns;
        /* The server's own bound changes from sample to sample; the filter goes by δ and age. */
        uint64_t own = (uint64_t)s->delay_ns + (error_ns - s->error_ns);
        if (own + 2 <
            (uint64_t)estimate->delay_ns + (estimate->age_ns / S) * client->setup.drift_ppb)
            mare_sim_clocks_violate(w->outcome, "FILTER",
                                    "node %" PRIu32 " uses a sample with a delay of %" PRId64
                                    " ns and has one of %" PRId64,
                                    who, estimate->delay_ns, s->delay_ns);
    }
}

static int follows(uint32_t own, uint32_t now, uint32_t theirs)
{
    (void)own;
    return mare_ntp_follows(now, theirs);
}

/* The stratum of a node, from the present one of the server that it follows, if any. */
static uint32_t stratum_now(const node *n, const mare_ntp_choice *choice, const uint32_t *index,
                            const mare_ntp_estimate *estimate, uint32_t count)
{
    for (uint32_t i = 0; i < count && n->server.stratum < MARE_NTP_UNSYNCHRONISED; i++) {
        if (index[i] == n->peer && choice->survivors >> i & 1)
            return estimate[i].stratum + 1;
    }
    return MARE_NTP_UNSYNCHRONISED;
}

static void refuse(world *w, uint32_t who)
{
    if (++w->node[who].refused > WARM_UP)
        mare_sim_clocks_violate(w->outcome, "STUCK",
                                "node %" PRIu32 " of stratum %" PRIu32
                                " follows nobody, though its servers agree",
                                who, w->node[who].server.stratum);
}

/* Collects what the servers say now, checks whether they agree, and decides whether to follow. */
static void discipline(world *w, uint32_t who)
{
    node *n = &w->node[who];
    mare_ntp_estimate estimate[SERVERS_MAX];
    mare_ntp_choice choice;
    int64_t now_ns = local(w, n);
    uint32_t count = 0, index[SERVERS_MAX] = {0};
    for (uint32_t i = 0; i < n->servers; i++) {
        if (!n->client[i].reach || !w->options->best(&n->client[i], now_ns, &estimate[count]))
            continue;
        check_filter(w, who, &n->client[i], &estimate[count]);
        index[count++] = i;
    }
    /* A majority of those that were asked: otherwise a liar that answers first would be the
     * majority. */
    if (!mare_ntp_select(estimate, count, (n->servers - 1) / 2, &choice))
        return;
    w->outcome->outliers += choice.outliers != 0;
    if (!w->options->follows(n->server.stratum, stratum_now(n, &choice, index, estimate, count),
                             choice.estimate.stratum)) {
        refuse(w, who);
        return;
    }
    n->refused = 0;
    n->peer = index[choice.peer];
    n->server.stratum = choice.estimate.stratum + 1;
    n->server.root_delay_ns = choice.estimate.root_delay_ns;
    if (n->clock.set)
        read_clock(w, who); /* a correction falls between two readings */
    w->options->set(&n->clock, now_ns, choice.estimate.time_ns, choice.estimate.error_ns);
    read_clock(w, who);
}

static void take(world *w, const parcel *p)
{
    node *n = &w->node[p->to];
    for (uint32_t i = 0; i < n->servers; i++) {
        if (n->source[i] != p->from)
            continue;
        mare_ntp_verdict verdict =
            mare_ntp_client_take(&n->client[i], local(w, n), p->bytes, p->length);
        w->outcome->verdicts[verdict]++;
        if (verdict == MARE_NTP_TAKEN)
            discipline(w, p->to);
    }
}

static void turn(world *w, uint32_t who)
{
    node *n = &w->node[who];
    mare_sim_oscillator_turn(&n->oscillator, w->now_ns,
                             mare_sim_either_way(&w->random, w->options->drift_ppb));
    plan(w, S / 10 + mare_sim_below(&w->random, 20 * S), DUE_TURN, who, 0);
}

/* The world ------------------------------------------------------------------------------------ */

static void make_reference(world *w, uint32_t who)
{
    node *n = &w->node[who];
    n->bound_ns = mare_sim_below(&w->random, 2000000);
    n->wrong_ns = mare_sim_either_way(&w->random, n->bound_ns);
    if (who < w->options->liars) /* from just outside the bound to a minute */
        n->lie_ns = mare_sim_either_way(&w->random, UINT64_C(1) << mare_sim_below(&w->random, 36));
    n->server = (mare_ntp_server){.stratum = 1, .precision = -30};
    if (w->options->restless)
        plan(w, mare_sim_below(&w->random, w->options->duration_ns / 2), DUE_RISE, who, 0);
}

/* A reference loses its source, and its stratum rises. If one more than a majority is asked, the
 * first one that does not lie may fall silent instead. */
static void rise(world *w, uint32_t who)
{
    if (w->options->references % 2 == 0 && who == w->options->liars)
        w->node[who].dead = 1;
    else
        w->node[who].server.stratum = 1 + (uint32_t)mare_sim_below(&w->random, 8);
}

/* A node listens to `servers` of those from `first` on; liars are the first of the references, so
 * a node that listens to all of them hears fewer liars than others. */
static void make_node(world *w, uint32_t who, uint32_t first, uint32_t servers)
{
    node *n = &w->node[who];
    n->oscillator = (mare_sim_oscillator){
        .true_ns = 0, .local_ns = mare_sim_either_way(&w->random, UINT64_C(1) << 60)};
    n->server = (mare_ntp_server){.stratum = MARE_NTP_UNSYNCHRONISED, .precision = -30};
    n->shown_ns = INT64_MIN;
    n->servers = servers;
    mare_time_clock_init(&n->clock, w->options->drift_ppb, w->options->slew_ppb);
    for (uint32_t i = 0; i < servers; i++) {
        mare_ntp_setup setup = {.drift_ppb = w->options->drift_ppb,
                                .precision_ns = 2,
                                .near_ns = EPOCH_NS,
                                .key = w->options->keys ? &w->key : NULL};
        n->source[i] = first + i;
        mare_ntp_client_init(&n->client[i], &setup);
    }
    plan(w, mare_sim_below(&w->random, w->options->poll_ns), DUE_POLL, who, 0);
    plan(w, mare_sim_below(&w->random, w->options->poll_ns), DUE_READ, who, 0);
    turn(w, who);
}

static void populate(world *w)
{
    const mare_sim_clocks_options *o = w->options;
    w->nodes = o->references + o->relays + o->leaves;
    for (uint32_t a = 0; a < w->nodes; a++) {
        for (uint32_t b = 0; b < w->nodes; b++)
            w->base_ns[a][b] = mare_sim_below(&w->random, o->delay_ns + 1);
    }
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (i < o->references)
            make_reference(w, i);
        else if (i < o->references + o->relays)
            make_node(w, i, 0, o->references);
        else
            make_node(w, i, o->references, o->relays);
        w->node[i].server.keys = o->keys ? &w->key : NULL;
        w->node[i].server.key_count = o->keys ? 1 : 0;
        w->node[i].server.authenticated_only = o->keys ? 1 : 0;
    }
}

static void happen(world *w, const mare_sim_due *due)
{
    parcel p;
    switch (due->kind) {
    case DUE_POLL:
        poll(w, due->process);
        break;
    case DUE_QUESTION:
        p = w->parcel[due->index]; /* a copy: answering makes new ones */
        answer(w, &p);
        break;
    case DUE_ANSWER:
        p = w->parcel[due->index];
        take(w, &p);
        break;
    case DUE_TURN:
        turn(w, due->process);
        break;
    case DUE_RISE:
        rise(w, due->process);
        break;
    default:
        read_clock(w, due->process);
        plan(w, mare_sim_below(&w->random, w->options->poll_ns), DUE_READ, due->process, 0);
    }
}

/* With a majority of good servers, few losses and enough time, every node has a time. */
static void check_synchronised(world *w)
{
    for (uint32_t i = w->options->references; i < w->nodes; i++) {
        if (w->options->loss_ppm < 100000 && w->node[i].polls > WARM_UP && !w->node[i].clock.set)
            mare_sim_clocks_violate(w->outcome, "SYNC", "node %" PRIu32 " has no time", i);
    }
}

int mare_sim_clocks_run(const mare_sim_clocks_options *options, mare_sim_clocks_outcome *outcome)
{
    mare_sim_due due;
    world *w = calloc(1, sizeof *w);
    memset(outcome, 0, sizeof *outcome);
    w->options = options;
    w->outcome = outcome;
    w->random = mare_sim_stream(options->seed, 40);
    w->key = (mare_ntp_key){.id = 1, .secret = "virtual secrets"};
    populate(w);
    while (!outcome->violation[0] && mare_sim_heap_pop(&w->heap, &due) &&
           due.time_us < options->duration_ns) {
        w->now_ns = due.time_us;
        happen(w, &due);
    }
    check_synchronised(w);
    mare_sim_heap_fini(&w->heap);
    free(w->parcel);
    free(w);
    mare__sim_clocks_rbs(options, outcome);
    return outcome->violation[0] == '\0';
}

void mare_sim_clocks_vary(mare_sim_clocks_options *o, uint64_t seed)
{
    mare_sim_random random = mare_sim_stream(seed, 41);
    *o = (mare_sim_clocks_options){
        .seed = seed,
        .drift_ppb = mare_sim_below(&random, 2) ? mare_sim_below(&random, 500000) : 15000,
        .wander_ppb = mare_sim_below(&random, 2) * mare_sim_below(&random, 5000),
        .poll_ns = S << mare_sim_below(&random, 5),
        .slew_ppb = UINT64_C(500000) << mare_sim_below(&random, 8),
        .delay_ns = UINT64_C(1000) << mare_sim_below(&random, 17),
        .jitter_ns = UINT64_C(100) << mare_sim_below(&random, 18),
        .loss_ppm = (uint32_t)(mare_sim_below(&random, 2) * mare_sim_below(&random, 300000)),
        .duplicate_ppm = (uint32_t)mare_sim_below(&random, 200000),
        .spike_ppm = (uint32_t)mare_sim_below(&random, 50000),
        .references = 1 + (uint32_t)mare_sim_below(&random, 7),
        .relays = 1 + (uint32_t)mare_sim_below(&random, 4),
        .leaves = (uint32_t)mare_sim_below(&random, 3),
        .keys = (int)mare_sim_below(&random, 2),
        .best = mare_ntp_client_best,
        .follows = follows,
        .set = mare_time_clock_set,
        .mean = mare_rbs_mean,
        .line = mare_rbs_line,
        .bound_percent = 100,
    };
    o->duration_ns = POLLS * o->poll_ns;
    o->liars = (uint32_t)mare_sim_below(&random, (o->references - 1) / 2 + 1);
    o->restless = (int)mare_sim_below(&random, 2);
}
