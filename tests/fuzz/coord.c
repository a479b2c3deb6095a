// SPDX-License-Identifier: MIT
// Every coordination algorithm of the table, with events in any order. The first byte chooses one
// of two games:
//
//   alone   one machine hears anything at all: noise, strangers, well-formed lies, timers that were
//           never set, requests out of place. It must not crash, must keep to the room that it
//           declared, and its effects must make sense.
//   group   three honest machines whose network the input plays: which message arrives next, which
//           is lost or doubled (as far as the algorithm tolerates it), which timer runs out, who
//           asks; with noise in between. Then no two may be inside, and fencing numbers grow; no
//           epoch has two leaders, and none goes back; what is delivered was multicast, and comes
//           in the order that is promised.
//
// Crashes, partitions, changes of the group and all checkers of the simulator: schedule.c.
#include <mare/coord.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    GROUP = 3,
    FLIGHT_MOST = 64,
    CASTS_MOST = 100, // multicasts of one member
    TERMS_MOST = 256,
    TAIL_MOST = 3 * 8 * (GROUP + 1) + 8, // the longest tail of all: three numbers a member
    NOISE_MOST = 2 + 8 * MARE_COORD_FIELDS + TAIL_MOST,
};

struct input {
    const uint8_t *at, *end;
};

static uint8_t next_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

// A copy of exactly this size, so that AddressSanitizer sees the first byte read too far.
static uint8_t *copy_of(const uint8_t *bytes, uint32_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy)
        abort();
    if (length)
        memcpy(copy, bytes, length);
    return copy;
}

static void must(int holds)
{
    if (!holds)
        abort();
}

struct machine {
    mare_coord *coord;
    mare_coord_effects effects;
    uint64_t now_us, due_us[MARE_COORD_TIMERS]; // 0: not set
    int asked, inside;
};

struct flight {
    uint32_t from, to, length;
    uint8_t *bytes;
};

// What was multicast, by whom and after what; what was delivered where. Its content says which it
// is: the sender and a count from 1.
struct casts {
    uint8_t sent[GROUP], got[GROUP][GROUP];       // got: by receiver and sender, the last one
    uint8_t before[GROUP][CASTS_MOST + 1][GROUP]; // what its sender had got before it
    uint8_t sequence[GROUP * CASTS_MOST][2];      // the one order
    uint32_t length, count[GROUP];                // of it, and of deliveries at each
};

struct terms {
    uint64_t epoch[TERMS_MOST], latest[GROUP];
    uint32_t leader[TERMS_MOST], count;
};

struct group {
    const mare_coord_algorithm *algorithm;
    unsigned tolerates, promises;
    struct machine member[GROUP];
    struct flight flight[FLIGHT_MOST];
    uint32_t flights;
    uint64_t fence;
    struct casts casts;
    struct terms terms;
    int lies; // nothing is carried, and promises are void
};

static void make(struct machine *m, const mare_coord_setup *setup)
{
    size_t bytes = mare_coord_size(setup);
    void *memory = malloc(bytes); // which is where the machine is
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed at the end of the input
    m->coord = mare_coord_init(memory, bytes, setup);
    if (!m->coord)
        abort();
    mare_coord_room(setup, &m->effects.room, &m->effects.bytes_room);
    m->effects.list = malloc(m->effects.room * sizeof *m->effects.list);
    m->effects.bytes = malloc(m->effects.bytes_room + 1u);
    if (!m->effects.list || !m->effects.bytes)
        abort();
    m->now_us = 1000000;
}

static void post(struct group *g, uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    int lossy = (g->tolerates & MARE_COORD_LOSS) != 0;
    if (g->lies || (g->flights == FLIGHT_MOST && lossy))
        return;
    must(g->flights < FLIGHT_MOST);
    struct flight *f = &g->flight[g->flights++];
    *f = (struct flight){from, to, effect->length, copy_of(effect->data, effect->length)};
}

static void note_grant(struct group *g, uint32_t who, uint64_t fence)
{
    struct machine *m = &g->member[who];
    must(m->asked && !m->inside);
    m->asked = 0;
    m->inside = 1;
    if (g->lies)
        return;
    for (uint32_t i = 0; i < GROUP && g->promises & MARE_COORD_EM1; i++)
        must(i == who || !g->member[i].inside);
    if (g->promises & MARE_COORD_FENCING) {
        must(fence > g->fence);
        g->fence = fence;
    }
}

static void note_leader(struct group *g, uint32_t who, uint32_t leader, uint64_t epoch)
{
    struct terms *t = &g->terms;
    if (g->lies || !(g->promises & MARE_COORD_ONE_LEADER))
        return;
    must(leader < GROUP && epoch >= t->latest[who]);
    t->latest[who] = epoch;
    for (uint32_t i = 0; i < t->count; i++) {
        must(t->epoch[i] != epoch || t->leader[i] == leader);
        if (t->epoch[i] == epoch)
            return;
    }
    must(t->count < TERMS_MOST);
    t->epoch[t->count] = epoch;
    t->leader[t->count++] = leader;
}

static void note_multicast(struct group *g, uint32_t who)
{
    struct casts *c = &g->casts;
    uint8_t number = ++c->sent[who];
    memcpy(c->before[who][number], c->got[who], GROUP);
}

static void note_delivery(struct group *g, uint32_t who, const mare_coord_effect *effect)
{
    struct casts *c = &g->casts;
    uint32_t from = effect->peer;
    if (g->lies)
        return;
    must(from < GROUP && effect->length == 2 && effect->data[0] == from);
    uint8_t number = effect->data[1];
    must(number >= 1 && number <= c->sent[from]);
    if (g->promises & MARE_COORD_FIFO)
        must(number == c->got[who][from] + 1);
    for (uint32_t k = 0; g->promises & MARE_COORD_CAUSAL && k < GROUP; k++)
        must(k == from || c->before[from][number][k] <= c->got[who][k]);
    if (g->promises & MARE_COORD_TOTAL) {
        uint8_t *place = c->sequence[c->count[who]];
        if (c->count[who] == c->length) {
            memcpy(place, effect->data, 2);
            c->length++;
        }
        must(memcmp(place, effect->data, 2) == 0);
    }
    c->count[who]++;
    c->got[who][from] = number;
}

static void carry_out(struct group *g, uint32_t who, const mare_coord_effect *effect)
{
    struct machine *m = &g->member[who];
    uint32_t capacity = mare_coord_setup_of(m->coord)->capacity;
    switch (effect->kind) {
    case MARE_COORD_SEND:
        must(effect->peer < capacity && effect->peer != who);
        post(g, who, effect->peer, effect);
        break;
    case MARE_COORD_BROADCAST:
        for (uint32_t i = 0; i < capacity; i++) {
            if (i != who && mare_coord_has_member(m->coord, i))
                post(g, who, i, effect);
        }
        break;
    case MARE_COORD_SET_TIMER:
        must(effect->timer < MARE_COORD_TIMERS);
        m->due_us[effect->timer] = m->now_us + effect->number;
        break;
    case MARE_COORD_CANCEL_TIMER:
        must(effect->timer < MARE_COORD_TIMERS);
        m->due_us[effect->timer] = 0;
        break;
    case MARE_COORD_GRANTED:
        note_grant(g, who, effect->number);
        break;
    case MARE_COORD_REVOKED:
        m->asked = m->inside = 0;
        break;
    case MARE_COORD_ELECTED:
        note_leader(g, who, effect->peer, effect->number);
        break;
    case MARE_COORD_DELIVER:
        note_delivery(g, who, effect);
        break;
    default:
        must(effect->kind < MARE_COORD_EFFECT_KINDS);
    }
}

static void step(struct group *g, uint32_t who, mare_coord_event event)
{
    struct machine *m = &g->member[who];
    event.now_us = m->now_us;
    if (event.kind == MARE_COORD_ENTER && !m->asked && !m->inside)
        m->asked = 1; // it may be granted in this step
    else if (event.kind == MARE_COORD_ENTER)
        event.kind = MARE_COORD_ABANDON;
    mare_coord_status status = mare_coord_step(m->coord, &event, &m->effects);
    must(status != MARE_COORD_NOROOM && m->effects.lost == 0);
    must(status == MARE_COORD_OK || m->effects.count == 0);
    if (event.kind == MARE_COORD_ENTER && status != MARE_COORD_OK)
        m->asked = 0;
    if (status == MARE_COORD_OK && event.kind == MARE_COORD_EXIT)
        m->inside = 0;
    if (status == MARE_COORD_OK && event.kind == MARE_COORD_ABANDON)
        m->asked = 0;
    if (status == MARE_COORD_OK && event.kind == MARE_COORD_MULTICAST && !g->lies)
        note_multicast(g, who);
    for (uint32_t i = 0; i < m->effects.count; i++)
        carry_out(g, who, &m->effects.list[i]);
    mare_coord_view view;
    mare_coord_look(m->coord, &view);
    must(view.phase != NULL && !view.inside == !m->inside && !view.waiting == !m->asked);
}

// Bytes that are no message: of nobody's tag, or of a kind that does not exist.
static uint32_t make_garbage(const struct group *g, struct input *in, uint32_t kinds, uint8_t *out)
{
    uint8_t first = next_byte(in);
    uint32_t length = first % NOISE_MOST;
    for (uint32_t i = 0; i < length; i++)
        out[i] = next_byte(in);
    if (length)
        out[0] = first & 1 ? g->algorithm->tag : 0;
    if (length > 1 && first & 1)
        out[1] = (uint8_t)(kinds + out[1] % (256 - kinds));
    return length;
}

// A message with any numbers in it, and a tail of any length, or of one that is likely to be right.
static uint32_t make_lie(const struct group *g, struct input *in, uint32_t kinds, uint8_t *out)
{
    mare_coord_message message = {.kind = next_byte(in) % (kinds + 1)};
    uint8_t tail[TAIL_MOST], length = next_byte(in);
    for (int i = 0; i < MARE_COORD_FIELDS; i++) {
        uint8_t byte = next_byte(in);
        message.field[i] = byte < 192 ? byte : UINT64_MAX >> (byte - 192);
    }
    for (uint32_t i = 0; i < TAIL_MOST; i++) // mostly small numbers of eight bytes each
        tail[i] = i % 8 == 0 || length & 1 ? next_byte(in) : 0;
    message.tail = tail;
    if (message.kind < kinds && g->algorithm->forms[message.kind].has_tail)
        message.tail_length =
            length & 2 ? length % TAIL_MOST : length / 4 % 4 * 8 * (GROUP + 1) + length / 16 % 8;
    return mare_coord_encode(g->algorithm, &message, out, NOISE_MOST);
}

static void send_noise(struct group *g, struct input *in, uint32_t who)
{
    uint8_t bytes[NOISE_MOST];
    uint32_t kinds = 0;
    mare_coord_event event = {.kind = MARE_COORD_MESSAGE, .peer = next_byte(in) % (GROUP + 2)};
    while (g->algorithm->forms[kinds].name)
        kinds++;
    event.length = g->lies ? make_lie(g, in, kinds, bytes) : make_garbage(g, in, kinds, bytes);
    uint8_t *exact = copy_of(bytes, event.length);
    event.data = exact;
    step(g, who, event);
    free(exact);
}

// ---- Alone -------------------------------------------------------------------------------------

static void play_alone(struct group *g, struct input *in)
{
    while (in->at < in->end) {
        uint8_t kind = next_byte(in) % (MARE_COORD_EVENT_KINDS + 4);
        mare_coord_event event = {.kind = (mare_coord_event_kind)kind};
        g->member[0].now_us += next_byte(in);
        if (kind == MARE_COORD_MESSAGE || kind > MARE_COORD_EVENT_KINDS) {
            send_noise(g, in, 0);
            continue;
        }
        event.peer = next_byte(in) % (GROUP + 2);
        event.number = next_byte(in);
        event.data = in->at;
        event.length = kind == MARE_COORD_MULTICAST && in->at < in->end ? 1 : 0;
        step(g, 0, event);
    }
}

// ---- The group ---------------------------------------------------------------------------------

static void take_out(struct group *g, uint32_t index)
{
    free(g->flight[index].bytes);
    memmove(&g->flight[index], &g->flight[index + 1], (--g->flights - index) * sizeof *g->flight);
}

static void deliver(struct group *g, uint32_t index, uint8_t fate)
{
    if (!g->flights)
        return;
    index %= g->flights;
    for (uint32_t i = 0; !(g->tolerates & MARE_COORD_REORDER) && i < index; i++) {
        if (g->flight[i].from == g->flight[index].from && g->flight[i].to == g->flight[index].to)
            index = i; // the oldest between these two
    }
    struct flight f = g->flight[index];
    mare_coord_event event = {MARE_COORD_MESSAGE, f.from, 0, 0, f.bytes, f.length};
    int lost = fate % 4 == 1 && g->tolerates & MARE_COORD_LOSS;
    int twice = fate % 4 == 2 && g->tolerates & MARE_COORD_DUPLICATION;
    uint8_t *copy = copy_of(f.bytes, f.length);
    event.data = copy;
    if (!twice)
        take_out(g, index); // before the step, which may need the place
    if (!lost)
        step(g, f.to, event);
    free(copy);
}

static void run_out(struct group *g, uint32_t who, uint32_t timer)
{
    struct machine *m = &g->member[who];
    timer %= MARE_COORD_TIMERS;
    if (!m->due_us[timer])
        return;
    m->now_us = m->due_us[timer] > m->now_us ? m->due_us[timer] : m->now_us;
    m->due_us[timer] = 0;
    step(g, who, (mare_coord_event){.kind = MARE_COORD_TIMER, .number = timer});
}

static void multicast(struct group *g, uint32_t who)
{
    uint8_t data[2] = {(uint8_t)who, (uint8_t)(g->casts.sent[who] + 1)};
    if (g->casts.sent[who] < CASTS_MOST)
        step(g, who, (mare_coord_event){.kind = MARE_COORD_MULTICAST, .data = data, .length = 2});
}

static void play_group(struct group *g, struct input *in)
{
    for (uint32_t i = 0; i < GROUP; i++)
        step(g, i, (mare_coord_event){.kind = MARE_COORD_START});
    while (in->at < in->end && g->flights + 4 * GROUP < FLIGHT_MOST) {
        uint8_t what = next_byte(in), which = next_byte(in);
        uint32_t who = which % GROUP;
        switch (what % 8) {
        case 0:
            step(g, who,
                 (mare_coord_event){.kind = g->algorithm->family == MARE_COORD_ELECTION
                                                ? MARE_COORD_ELECT
                                                : MARE_COORD_ENTER});
            break;
        case 1:
            step(g, who, (mare_coord_event){.kind = MARE_COORD_EXIT});
            break;
        case 2:
            run_out(g, who, which / GROUP);
            break;
        case 3:
            if (what & 8)
                send_noise(g, in, who);
            else
                multicast(g, who);
            break;
        default:
            deliver(g, which, what / 8);
        }
    }
}

// Settings that an algorithm does not have are left alone.
static void choose_settings(mare_coord_setup *setup, uint8_t bits)
{
    mare_coord_setup_set(setup, "repair", bits & 1);
    mare_coord_setup_set(setup, "acks", !(bits & 2));
    mare_coord_setup_set(setup, "queue", !(bits & 4));
    mare_coord_setup_set(setup, "single", !(bits & 8));
    mare_coord_setup_set(setup, "majority", bits >> 4 & 1);
    mare_coord_setup_set(setup, "order", bits % 3);
    if (bits & 32)
        mare_coord_setup_set(setup, "window", 2);
    if (bits & 64)
        mare_coord_setup_set(setup, "rest_us", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct group g = {.algorithm = NULL};
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    uint8_t first = next_byte(&in);
    g.lies = first & 1;
    g.algorithm = table[first / 2 % count];
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, g.algorithm, GROUP);
    choose_settings(&setup, next_byte(&in));
    setup.capacity = g.lies ? GROUP + 1 : GROUP;
    setup.marks = 1;
    setup.founds = 1;
    g.tolerates = g.algorithm->tolerates(&setup);
    g.promises = g.algorithm->promises(&setup);
    for (uint32_t i = 0; i < GROUP; i++) {
        setup.self = i;
        make(&g.member[i], &setup);
    }
    if (g.lies)
        play_alone(&g, &in);
    else
        play_group(&g, &in);
    while (g.flights)
        take_out(&g, 0);
    for (uint32_t i = 0; i < GROUP; i++) {
        free(g.member[i].coord);
        free(g.member[i].effects.list);
        free(g.member[i].effects.bytes);
    }
    return 0;
}
