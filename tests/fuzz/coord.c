// SPDX-License-Identifier: MIT
// Every coordination algorithm of the table, with events in any order. The first byte chooses one
// of two games:
//
//   alone   one machine hears anything at all: noise, strangers, well-formed lies, timers that were
//           never set, requests out of place. It must not crash, must keep to the room that it
//           declared, and its effects must make sense.
//   group   three honest machines whose network the input plays: which message arrives next, which
//           is lost or doubled (as far as the algorithm tolerates it), which timer runs out, who
//           asks; with noise in between. Then no two may be inside, and fencing numbers grow.
#include <mare/coord.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GROUP = 3, FLIGHT_MOST = 64, TAIL_MOST = 24 };

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

struct group {
    const mare_coord_algorithm *algorithm;
    unsigned tolerates, promises;
    struct machine member[GROUP];
    struct flight flight[FLIGHT_MOST];
    uint32_t flights;
    uint64_t fence;
    int lies; // nothing is carried, and promises are void
};

static void make(struct machine *m, const mare_coord_setup *setup)
{
    size_t bytes = mare_coord_size(setup);
    void *memory = malloc(bytes);                     // which is where the machine is
    m->coord = mare_coord_init(memory, bytes, setup); // NOLINT(clang-analyzer-unix.Malloc)
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
    for (uint32_t i = 0; i < m->effects.count; i++)
        carry_out(g, who, &m->effects.list[i]);
    mare_coord_view view;
    mare_coord_look(m->coord, &view);
    must(view.phase != NULL && !view.inside == !m->inside && !view.waiting == !m->asked);
}

// Bytes that are no message, or, for one that may be lied to, a message with any numbers in it.
static uint32_t make_noise(const struct group *g, struct input *in, uint8_t *out)
{
    uint32_t kinds = 0, length = next_byte(in) % (2 + 8 * MARE_COORD_FIELDS + TAIL_MOST);
    while (g->algorithm->forms[kinds].name)
        kinds++;
    if (!g->lies) {
        for (uint32_t i = 0; i < length; i++)
            out[i] = next_byte(in);
        if (length)
            out[0] = 0; // nobody's tag
        return length;
    }
    mare_coord_message message = {.kind = length % (kinds + 1)};
    for (int i = 0; i < MARE_COORD_FIELDS; i++) {
        uint8_t byte = next_byte(in);
        message.field[i] = byte < 200 ? byte : UINT64_MAX >> (byte - 200);
    }
    uint8_t tail[TAIL_MOST];
    for (uint32_t i = 0; i < TAIL_MOST; i++)
        tail[i] = next_byte(in);
    message.tail = tail;
    int has_tail = message.kind < kinds && g->algorithm->forms[message.kind].has_tail;
    message.tail_length = has_tail ? length % TAIL_MOST : 0;
    return mare_coord_encode(g->algorithm, &message, out, 2 + 8 * MARE_COORD_FIELDS + TAIL_MOST);
}

static void send_noise(struct group *g, struct input *in, uint32_t who)
{
    uint8_t bytes[2 + 8 * MARE_COORD_FIELDS + TAIL_MOST + 1];
    mare_coord_event event = {.kind = MARE_COORD_MESSAGE, .peer = next_byte(in) % (GROUP + 2)};
    event.length = make_noise(g, in, bytes);
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
                step(g, who,
                     (mare_coord_event){.kind = MARE_COORD_MULTICAST, .data = &what, .length = 1});
            break;
        default:
            deliver(g, which, what / 8);
        }
    }
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
    mare_coord_setup_set(&setup, "repair", next_byte(&in) & 1);
    setup.capacity = g.lies ? GROUP + 1 : GROUP;
    setup.marks = 1;
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
