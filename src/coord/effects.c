/* SPDX-License-Identifier: MIT */

/* Makes effects. Also the small tools of algorithms: sets of members, the block that a machine is
 * carved from, pseudo-random numbers.
 *
 * A message is encoded straight into the caller's byte buffer. The core has checked that there is
 * room for what the algorithm declared. An effect beyond that is dropped as a whole and counted in
 * `lost`. It is never cut in half. */

#include "coord/machine.h"

#include <string.h>

static mare_coord_effect *make(mare_coord_effects *fx, mare_coord_effect_kind kind)
{
    if (fx->count == fx->room) {
        fx->lost++;
        return NULL;
    }
    mare_coord_effect *effect = &fx->list[fx->count++];
    *effect = (mare_coord_effect){.kind = kind, .peer = MARE_COORD_NOBODY};
    return effect;
}

static mare_coord_effect *make_with_message(mare_coord *m, mare_coord_effects *fx,
                                            mare_coord_effect_kind kind,
                                            const mare_coord_message *msg)
{
    uint8_t *out = fx->bytes + fx->bytes_count;
    uint32_t length =
        mare_coord_encode(m->setup.algorithm, msg, out, fx->bytes_room - fx->bytes_count);
    mare_coord_effect *effect = length ? make(fx, kind) : NULL;
    if (!effect) {
        fx->lost += length == 0;
        return NULL;
    }
    effect->data = out;
    effect->length = length;
    fx->bytes_count += length;
    return effect;
}

static void make_with_bytes(mare_coord_effects *fx, mare_coord_effect_kind kind, uint32_t peer,
                            uint64_t number, const uint8_t *data, uint32_t length)
{
    if (fx->bytes_room - fx->bytes_count < length) {
        fx->lost++;
        return;
    }
    mare_coord_effect *effect = make(fx, kind);
    if (!effect)
        return;
    effect->peer = peer;
    effect->number = number;
    effect->data = fx->bytes + fx->bytes_count;
    effect->length = length;
    if (length)
        memcpy(fx->bytes + fx->bytes_count, data, length);
    fx->bytes_count += length;
}

void mare__send(mare_coord *m, mare_coord_effects *fx, uint32_t to, const mare_coord_message *msg)
{
    if (to == MARE__EVERYBODY) {
        mare__broadcast(m, fx, msg);
        return;
    }
    mare_coord_effect *effect = make_with_message(m, fx, MARE_COORD_SEND, msg);
    if (effect)
        effect->peer = to;
}

void mare__send_rest(mare_coord *m, mare_coord_effects *fx, mare__set but,
                     const mare_coord_message *msg)
{
    for (uint32_t i = mare__set_next(m->members, 0, m->setup.capacity); i != MARE_COORD_NOBODY;
         i = mare__set_next(m->members, i + 1, m->setup.capacity)) {
        if (i != m->setup.self && mare__alive(m, i) && !mare__set_has(but, i))
            mare__send(m, fx, i, msg);
    }
}

void mare__broadcast(mare_coord *m, mare_coord_effects *fx, const mare_coord_message *msg)
{
    make_with_message(m, fx, MARE_COORD_BROADCAST, msg);
}

void mare__set_timer(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us)
{
    mare_coord_effect *effect = make(fx, MARE_COORD_SET_TIMER);
    if (effect) {
        effect->timer = timer;
        effect->number = delay_us;
    }
}

void mare__arm(mare_coord *m, mare_coord_effects *fx, uint32_t timer, unsigned delay_us)
{
    uint32_t bit = UINT32_C(1) << timer;
    if (m->armed & bit)
        return;
    m->armed |= bit;
    mare__set_timer(fx, timer, (uint64_t)mare__param(m, delay_us));
}

void mare__arm_anew(mare_coord *m, mare_coord_effects *fx, uint32_t timer, unsigned delay_us)
{
    m->armed &= ~(UINT32_C(1) << timer);
    mare__arm(m, fx, timer, delay_us);
}

void mare__cancel_timer(mare_coord_effects *fx, uint32_t timer)
{
    mare_coord_effect *effect = make(fx, MARE_COORD_CANCEL_TIMER);
    if (effect)
        effect->timer = timer;
}

static void make_news(mare_coord_effects *fx, mare_coord_effect_kind kind, uint32_t peer,
                      uint64_t number, const char *text)
{
    mare_coord_effect *effect = make(fx, kind);
    if (effect) {
        effect->peer = peer;
        effect->number = number;
        effect->text = text;
    }
}

void mare__grant(mare_coord *m, mare_coord_effects *fx, uint64_t fence)
{
    m->waiting = 0;
    m->inside = 1;
    make_news(fx, MARE_COORD_GRANTED, m->setup.self, fence, NULL);
}

void mare__revoke(mare_coord *m, mare_coord_effects *fx, const char *why)
{
    m->waiting = m->inside = 0;
    make_news(fx, MARE_COORD_REVOKED, m->setup.self, 0, why);
}

void mare__elected(mare_coord_effects *fx, uint32_t leader, uint64_t epoch)
{
    make_news(fx, MARE_COORD_ELECTED, leader, epoch, NULL);
}

void mare__outside(mare_coord_effects *fx, const char *why)
{
    make_news(fx, MARE_COORD_OUTSIDE, MARE_COORD_NOBODY, 0, why);
}

void mare__no_group(mare_coord_effects *fx, uint32_t answered)
{
    make_news(fx, MARE_COORD_NO_GROUP, MARE_COORD_NOBODY, answered, NULL);
}

void mare__peer_news(mare_coord_effects *fx, mare_coord_effect_kind kind, uint32_t peer,
                     uint64_t epoch)
{
    make_news(fx, kind, peer, epoch, NULL);
}

uint8_t *mare__scratch(mare_coord_effects *fx, uint32_t bytes)
{
    return fx->bytes_room - fx->bytes_count < bytes ? NULL : fx->bytes + fx->bytes_room - bytes;
}

void mare__suspect(mare_coord_effects *fx, uint32_t peer, uint64_t attempts)
{
    make_news(fx, MARE_COORD_SUSPECT, peer, attempts, NULL);
}

void mare__pass_on(mare_coord_effects *fx, const mare_coord_effect *effect)
{
    uint32_t before = fx->count;
    make_with_bytes(fx, effect->kind, effect->peer, effect->number, effect->data, effect->length);
    if (fx->count > before)
        fx->list[before].text = effect->text;
}

void mare__mark(mare_coord *m, mare_coord_effects *fx, const char *text)
{
    if (m->setup.marks)
        make_news(fx, MARE_COORD_MARK, MARE_COORD_NOBODY, 0, text);
}

void mare__deliver(mare_coord_effects *fx, uint32_t from, uint64_t number, const uint8_t *data,
                   uint32_t length)
{
    make_with_bytes(fx, MARE_COORD_DELIVER, from, number, data, length);
}

void mare__view(mare_coord_effects *fx, uint64_t number, const uint8_t *data, uint32_t length)
{
    make_with_bytes(fx, MARE_COORD_VIEW, MARE_COORD_NOBODY, number, data, length);
}

void mare__set_clear(mare__set set, uint32_t capacity)
{
    memset(set.word, 0, mare__set_bytes(capacity));
}

uint32_t mare__set_count(mare__set set, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < (capacity + 63) / 64; i++) {
        for (uint64_t word = set.word[i]; word; word &= word - 1)
            count++; /* the builtin would call into the compiler's library */
    }
    return count;
}

int mare__set_covered(mare__set set, mare__set a, mare__set b, uint32_t capacity)
{
    for (uint32_t i = 0; i < (capacity + 63) / 64; i++) {
        if (set.word[i] & ~(a.word[i] | b.word[i]))
            return 0;
    }
    return 1;
}

uint32_t mare__set_next(mare__set set, uint32_t from, uint32_t capacity)
{
    if (from >= capacity)
        return MARE_COORD_NOBODY;
    uint64_t word = set.word[from / 64] >> (from % 64);
    if (word)
        return from + (uint32_t)__builtin_ctzll(word);
    for (uint32_t i = from / 64 + 1; i < (capacity + 63) / 64; i++) {
        if (set.word[i])
            return i * 64 + (uint32_t)__builtin_ctzll(set.word[i]);
    }
    return MARE_COORD_NOBODY;
}

int mare__is_highest(const mare_coord *m)
{
    for (uint32_t i = m->setup.self + 1; i < m->setup.capacity; i++) {
        if (mare__alive(m, i))
            return 0;
    }
    return 1;
}

uint32_t mare__successor(const mare_coord *m)
{
    for (uint32_t step = 1; step < m->setup.capacity; step++) {
        uint32_t next = (m->setup.self + step) % m->setup.capacity;
        if (mare__alive(m, next))
            return next;
    }
    return m->setup.self;
}

void *mare__carve_array(mare__block *block, size_t count, size_t each)
{
    uint8_t *place = block->base ? block->base + block->used : NULL;
    size_t left = block->used < SIZE_MAX - 7 ? SIZE_MAX - 7 - block->used : 0;
    if (each && count > left / each)
        block->used = SIZE_MAX;
    else
        block->used += (count * each + 7) / 8 * 8;
    return place;
}

void *mare__carve(mare__block *block, size_t bytes)
{
    return mare__carve_array(block, bytes, 1);
}

mare__set mare__carve_set(mare__block *block, uint32_t capacity)
{
    return (mare__set){mare__carve(block, mare__set_bytes(capacity))};
}

uint64_t mare__random(mare_coord *m)
{
    uint64_t z = (m->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
