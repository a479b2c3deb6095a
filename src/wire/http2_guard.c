// SPDX-License-Identifier: MIT
// Keeps a peer from asking too much. nghttp2 checks that frames stand only where RFC 9113 allows
// them. This file counts frames before nghttp2 gets them, because many allowed frames cost this
// side work and carry nothing:
//
//   a head in many CONTINUATION frames        a fixed number is allowed
//   streams begun and reset at once           the purse `resets`: each costs one. A stream that is
//   (CVE-2023-44487), or made to be reset     answered brings one back, and so does time
//   SETTINGS, PING, PRIORITY, WINDOW_UPDATE,  the purse `controls`: each costs one. Requests, sent
//   unknown frames, empty DATA                bytes and time bring some back
//
// DATA with a few bytes costs nothing, because many honest peers send small pieces. Only short DATA
// that is padded costs: it may have no content.
//
// A purse never holds more than at the beginning, so that a peer cannot save up for an attack.
#include "wire/http2_inner.h"

enum {
    CONTROLS_MOST = 2000,
    CONTROLS_PER_SECOND = 100,
    CONTROLS_PER_REQUEST = 2,
    CONTROL_BYTES = 1024, // bytes sent for each that is given back
    RESETS_MOST = 200,
    RESETS_PER_SECOND = 20,
    CONTINUATIONS_MOST = 8,
    PADDING_MOST = 256, // a DATA frame up to this size may be all padding
    PREFACE = 24,
    HEADER = 9,
};

void mare__http2_guard_init(struct mare__http2 *http2, uint64_t now)
{
    http2->preface_left = http2->settings.server ? PREFACE : 0;
    http2->controls = (struct mare__http2_purse){CONTROLS_MOST, now};
    http2->resets = (struct mare__http2_purse){RESETS_MOST, now};
}

static void earn(struct mare__http2_purse *purse, double coins, double most)
{
    purse->coins += coins;
    if (purse->coins > most)
        purse->coins = most;
}

static void age(struct mare__http2_purse *purse, uint64_t now, double per_second, double most)
{
    if (now > purse->since)
        earn(purse, (double)(now - purse->since) / 1e9 * per_second, most);
    purse->since = now;
}

static bool pay(struct mare__http2 *http2, struct mare__http2_purse *purse, double coins,
                const char *reason)
{
    purse->coins -= coins;
    if (purse->coins >= 0)
        return true;
    mare__http2_refuse(http2, NGHTTP2_ENHANCE_YOUR_CALM, reason);
    return false;
}

void mare__http2_guard_reset(struct mare__http2 *http2)
{
    pay(http2, &http2->resets, 1, "too many streams that were reset");
}

void mare__http2_guard_finished(struct mare__http2 *http2)
{
    earn(&http2->resets, 1, RESETS_MOST);
}

void mare__http2_guard_sent(struct mare__http2 *http2, size_t size)
{
    earn(&http2->controls, (double)size / CONTROL_BYTES, CONTROLS_MOST);
}

static bool pay_control(struct mare__http2 *http2, double coins)
{
    return pay(http2, &http2->controls, coins, "too many frames that ask for nothing");
}

// Judges a frame, once its header is here.
static bool look(struct mare__http2 *http2)
{
    const uint8_t *header = http2->header;
    uint8_t type = header[3], flags = header[4];
    http2->payload_left = (uint32_t)header[0] << 16 | (uint32_t)header[1] << 8 | header[2];
    switch (type) {
    case NGHTTP2_DATA:
        return http2->payload_left > (flags & NGHTTP2_FLAG_PADDED ? PADDING_MOST : 0) ||
               (flags & NGHTTP2_FLAG_END_STREAM) || pay_control(http2, 1);
    case NGHTTP2_HEADERS:
        http2->in_head = !(flags & NGHTTP2_FLAG_END_HEADERS);
        http2->continuations = 0;
        earn(&http2->controls, CONTROLS_PER_REQUEST, CONTROLS_MOST);
        return true;
    case NGHTTP2_CONTINUATION:
        http2->in_head = http2->in_head && !(flags & NGHTTP2_FLAG_END_HEADERS);
        if (++http2->continuations <= CONTINUATIONS_MOST)
            return true;
        mare__http2_refuse(http2, NGHTTP2_ENHANCE_YOUR_CALM, "too many CONTINUATION frames");
        return false;
    case NGHTTP2_RST_STREAM:
        mare__http2_guard_reset(http2);
        return !http2->over && pay_control(http2, 1);
    case NGHTTP2_SETTINGS: // each setting in it is 6 bytes
        return pay_control(http2, 1 + (double)http2->payload_left / 6);
    default:
        return pay_control(http2, 1);
    }
}

bool mare__http2_guard(struct mare__http2 *http2, const uint8_t *bytes, size_t size, uint64_t now)
{
    age(&http2->controls, now, CONTROLS_PER_SECOND, CONTROLS_MOST);
    age(&http2->resets, now, RESETS_PER_SECOND, RESETS_MOST);
    size_t at = size < http2->preface_left ? size : http2->preface_left;
    http2->preface_left -= (uint8_t)at;
    while (at < size) {
        if (http2->payload_left > 0) {
            size_t part = size - at < http2->payload_left ? size - at : http2->payload_left;
            http2->payload_left -= (uint32_t)part;
            at += part;
            continue;
        }
        http2->header[http2->header_size++] = bytes[at++];
        if (http2->header_size < HEADER)
            continue;
        http2->header_size = 0;
        if (!look(http2))
            return false;
    }
    return true;
}

bool mare__http2_begun(const struct mare__http2 *http2)
{
    bool in_data = http2->payload_left > 0 && http2->header[3] == NGHTTP2_DATA;
    return http2->preface_left > 0 || http2->header_size > 0 || http2->in_head ||
           (http2->payload_left > 0 && !in_data);
}
