// SPDX-License-Identifier: MIT
// The life of a link: how it begins and ends, what it does as time passes, and in which order the
// host is told what has happened.
//
// Time. Two moments count: when the last byte came (`heard`), and when the last sign came that the
// peer hears us (`confirmed`). Such a sign is an acknowledgement, an answer to a ping, or the
// number of bytes that the peer says it has received. The link is silent since the older of the
// two:
//
//     0        1/4            1/2                          1 x silence_us
//     |---------|--------------|----------------------------|
//            PING (again)   SUSPECTED                     OVER
//
// A heartbeat gives both ends such a sign, so only one of them pings, in turn. Each pings once in a
// silence at least, whatever comes: that measures the round trip. The silence goes on when the
// transport is gone; a resumption ends it. See wire/link_inner.h for the other files.
#include "base/alloc.h"
#include "wire/link_inner.h"

// ---- Settings and words -------------------------------------------------------------------------

void mare__link_settings_init(struct mare__link_settings *settings)
{
    *settings = (struct mare__link_settings){
        .self = {.version_min = MARE__LINK_VERSION,
                 .version_max = MARE__LINK_VERSION,
                 .features = MARE__LINK_FEATURE_RESUME,
                 .frame = MARE__LINK_FRAME,
                 .flows = 4096,
                 .silence_us = 3000000,
                 .control = {256, 1 << 20}},
        .receive = 16 << 20,
        .send = 8 << 20,
        .unacknowledged = 4096,
        .handshake_us = 5000000,
    };
}

static bool settings_valid(const struct mare__link_settings *settings)
{
    const struct mare__link_hello *self = &settings->self;
    for (uint32_t i = 0; i < self->address_count && i < MARE__LINK_ADDRESSES; i++) {
        if (self->addresses[i].size > MARE__LINK_TEXT_MOST)
            return false;
    }
    return self->name.size > 0 && self->name.size <= MARE__LINK_TEXT_MOST &&
           self->group.size <= MARE__LINK_TEXT_MOST && self->extra.size <= MARE__LINK_BEAT_MOST &&
           self->address_count <= MARE__LINK_ADDRESSES && self->version_min > 0 &&
           self->version_min <= self->version_max && self->frame >= MARE__LINK_FRAME_LEAST &&
           self->frame <= MARE__LINK_FRAME_MOST && self->silence_us >= MARE__LINK_SILENCE_LEAST &&
           self->control.messages > 0 && self->control.bytes > 0 &&
           self->control.bytes <= settings->receive && settings->send >= MARE__LINK_NODE &&
           settings->unacknowledged >= 2 * MARE__LINK_ACK_FRAMES &&
           settings->unacknowledged <= 1u << 24 && self->flows <= 1u << 24;
}

size_t mare__link_memory_most(const struct mare__link_settings *settings)
{
    // Handshake and heartbeats: the peer's hello, a frame that is gathered, and one that grows
    // while it waits to be sent.
    size_t frames = 4 * (size_t)(MARE__LINK_PREFIX + MARE__LINK_HELLO_MOST);
    return sizeof(struct mare__link) + frames + mare__link_log_most(settings) +
           mare__link_flows_most(settings) + settings->send + settings->receive;
}

static const struct {
    unsigned number;
    const char *word, *text;
} codes[] = {
#define CODE_ROW(symbol, number, word, sentence) {number, word, sentence},
    MARE__LINK_CODES(CODE_ROW)
#undef CODE_ROW
        {0, "unknown", "a reason that is not known"},
};

enum { CODES = sizeof codes / sizeof *codes };

static size_t code_index(unsigned code)
{
    size_t i = 0;
    while (i < CODES - 1 && codes[i].number != code)
        i++;
    return i;
}

const char *mare__link_code_word(unsigned code)
{
    return codes[code_index(code)].word;
}

const char *mare__link_code_text(unsigned code)
{
    return codes[code_index(code)].text;
}

const char *mare__link_event_name(enum mare__link_event_kind kind)
{
    static const char *const names[] = {
        "hello", "resume", "guest",     "up",      "opened", "room",    "closed", "message",
        "ended", "beat",   "suspected", "trusted", "broken", "resumed", "over",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

// ---- Memory -------------------------------------------------------------------------------------

void *mare__link_take(struct mare__link *link, size_t size)
{
    void *block = mare__alloc(size ? size : 1);
    if (block)
        link->memory += size;
    return block;
}

void mare__link_give(struct mare__link *link, void *block, size_t size)
{
    if (!block)
        return;
    link->memory -= size;
    mare__free(block);
}

// ---- Beginning and end --------------------------------------------------------------------------

struct mare__link *mare__link_create(const struct mare__link_settings *settings,
                                     enum mare__link_role role, uint64_t stamp, uint64_t now_us)
{
    struct mare__link *link = settings_valid(settings) ? mare__alloc_zero(sizeof *link) : NULL;
    if (!link)
        return NULL;
    link->memory = sizeof *link;
    link->settings = settings;
    link->role = role;
    link->stamp = stamp;
    link->attached = true;
    link->now_us = link->born_us = now_us;
    link->ack_due_us = UINT64_MAX;
    mare__list_init(&link->ready);
    mare__list_init(&link->due_out);
    mare__list_init(&link->due_in);
    mare__list_init(&link->starved);
    if (role == MARE__LINK_DIALS)
        mare__link_say_hello(link);
    return link;
}

void mare__link_destroy(struct mare__link *link)
{
    if (!link)
        return;
    mare__link_in_reset(link);
    mare__link_flows_fini(link);
    mare__link_log_fini(link);
    mare__link_urgent_fini(link);
    mare__link_give(link, link->peer_text, link->peer_text_size);
    mare__free(link);
}

mare_err mare__link_begin(struct mare__link *link)
{
    const struct mare__link_hello *self = &link->settings->self, *peer = &link->peer;
    link->frame = self->frame < peer->frame ? self->frame : peer->frame;
    link->features = self->features & peer->features;
    link->silence_us = self->silence_us < peer->silence_us ? self->silence_us : peer->silence_us;
    if (link->silence_us < MARE__LINK_SILENCE_LEAST)
        link->silence_us = MARE__LINK_SILENCE_LEAST;
    mare_err err = mare__link_open_control(link);
    if (err)
        return err;
    link->phase = MARE__LINK_LIVE;
    link->heard_us = link->confirmed_us = link->ping_us = link->now_us;
    link->ping_sampled = true; // no sample can come
    return MARE_OK;
}

void mare__link_detach(struct mare__link *link)
{
    mare__link_in_reset(link);
    mare__link_urgent_fini(link);
    link->attached = false;
    link->transport_in = link->transport_heard = 0;
    link->ping_due = link->pong_due = false;
    link->ping_sampled = true;
    link->log.part = 0;
}

static void keep_text(struct mare__link *link, struct mare__span text)
{
    link->text_size =
        (uint8_t)(text.size < MARE__LINK_TEXT_MOST ? text.size : MARE__LINK_TEXT_MOST);
    if (link->text_size)
        memmove(link->text, text.at, link->text_size);
}

void mare__link_over(struct mare__link *link, unsigned code, struct mare__span text, bool by_peer)
{
    if (link->phase == MARE__LINK_DONE)
        return;
    keep_text(link, text.size ? text : mare__span_of(mare__link_code_text(code)));
    link->phase = MARE__LINK_DONE;
    link->code = code;
    link->by_peer = by_peer;
    link->news |= MARE__NEWS_OVER;
}

static void say_quit(struct mare__link *link, unsigned code, struct mare__span text)
{
    uint8_t frame[2 * MARE__LINK_CONTROL_HEAD + MARE__LINK_TEXT_MOST];
    struct mare__link_writer writer;
    text.size = text.size < MARE__LINK_TEXT_MOST ? text.size : MARE__LINK_TEXT_MOST;
    mare__link_put_begin(&writer, frame, MARE__FRAME_QUIT, 4);
    mare__link_put_number(&writer, code);
    mare__link_put_text(&writer, text);
    mare__link_put_number(&writer, link->frames_in);
    mare__link_urge(link, frame, mare__link_put_end(&writer, 0));
}

// A peer that has asked to be let in is refused; any other peer is sent QUIT. But after a RESUME,
// this end must send nothing until the answer: the peer's link would start to read in the middle of
// it.
static void end_now(struct mare__link *link, unsigned code, struct mare__span text)
{
    if (link->attached && link->phase <= MARE__LINK_ASKED && link->role == MARE__LINK_ACCEPTS)
        mare__link_say_refuse(link, code, text);
    else if (link->attached && link->phase != MARE__LINK_RESUMING)
        say_quit(link, code, text);
    mare__link_over(link, code, text, false);
}

void mare__link_fail(struct mare__link *link, unsigned code)
{
    bool stranger = link->phase == MARE__LINK_GREETING && code >= MARE__LINK_CODE_FRAME &&
                    code <= MARE__LINK_CODE_TOOBIG;
    end_now(link, stranger ? MARE__LINK_CODE_MAGIC : code, (struct mare__span){0});
}

void mare__link_quit(struct mare__link *link, unsigned code, struct mare__span text)
{
    if (link->phase != MARE__LINK_DONE)
        end_now(link, code, text);
}

void mare__link_bye(struct mare__link *link, unsigned code, struct mare__span text)
{
    if (link->phase < MARE__LINK_LIVE) {
        mare__link_quit(link, code, text);
    } else if (link->phase != MARE__LINK_DONE && !link->leaving) {
        link->leaving = true;
        link->code = code;
        keep_text(link, text);
    }
}

void mare__link_broken(struct mare__link *link)
{
    bool up = link->phase == MARE__LINK_LIVE || link->phase == MARE__LINK_RESUMING;
    if (!link->attached)
        return;
    mare__link_detach(link);
    if (up && link->peer_left) {
        mare__link_over(link, link->code, (struct mare__span){link->text, link->text_size}, false);
    } else if (!up || !(link->features & MARE__LINK_FEATURE_RESUME)) {
        mare__link_over(link, MARE__LINK_CODE_BROKEN, (struct mare__span){0}, false);
    } else {
        link->phase = MARE__LINK_PARTED;
        link->news |= MARE__NEWS_BROKEN;
    }
}

// ---- Signs of life ------------------------------------------------------------------------------

bool mare__link_confirm(struct mare__link *link, uint64_t frames, uint64_t bytes)
{
    bool news = frames > link->log.first || bytes > link->transport_heard;
    if (!mare__link_acknowledged(link, frames)) {
        mare__link_fail(link, MARE__LINK_CODE_COUNT);
        return false;
    }
    if (bytes > link->transport_heard)
        link->transport_heard = bytes;
    if (news)
        link->confirmed_us = link->now_us;
    // All that was accepted has been sent and has arrived.
    if (link->bye_committed && link->log.first == link->log.next)
        mare__link_over(link, link->code, (struct mare__span){link->text, link->text_size}, false);
    return true;
}

static bool take_beat(struct mare__link *link, unsigned kind, struct mare__link_reader *reader,
                      struct mare__link_event *event)
{
    uint64_t id = mare__link_get_number(reader), frames = mare__link_get_number(reader);
    uint64_t bytes = mare__link_get_number(reader);
    struct mare__span payload = mare__link_get_text(reader, MARE__LINK_BEAT_MOST);
    if (!mare__link_get_end(reader)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    event->kind = MARE__LINK_BEAT;
    event->data = (const uint8_t *)payload.at;
    event->size = payload.size;
    event->rtt_us = 0;
    if (kind == MARE__FRAME_PING) {
        link->pong_due = true;
        link->pong_id = id;
    } else if (id == link->ping_id && !link->ping_sampled) {
        link->ping_sampled = true;
        link->confirmed_us = link->now_us;
        event->rtt_us = link->now_us > link->ping_us ? link->now_us - link->ping_us : 1;
    }
    return mare__link_confirm(link, frames, bytes) && link->phase == MARE__LINK_LIVE &&
           (event->size > 0 || event->rtt_us > 0);
}

// The peer says goodbye. BYE comes after everything that it has sent, so that is acknowledged at
// once. If this end has said goodbye too, it stays until its own BYE is acknowledged.
static void part_ways(struct mare__link *link, unsigned kind, unsigned code, struct mare__span text)
{
    if (kind == MARE__FRAME_BYE)
        mare__link_say_ack(link);
    if (kind == MARE__FRAME_BYE && link->leaving)
        link->peer_left = true;
    else
        mare__link_over(link, code, text, true);
}

bool mare__link_life_frame(struct mare__link *link, unsigned kind, struct mare__link_reader *reader,
                           struct mare__link_event *event)
{
    if (kind == MARE__FRAME_PING || kind == MARE__FRAME_PONG)
        return take_beat(link, kind, reader, event);
    struct mare__span text = {0};
    uint64_t code = 0, frames = link->log.first;
    if (kind != MARE__FRAME_ACK) {
        code = mare__link_get_number(reader);
        text = mare__link_get_text(reader, MARE__LINK_TEXT_MOST);
    }
    if (kind != MARE__FRAME_BYE) // QUIT may come late, and again: it is not counted
        frames = mare__link_get_number(reader);
    if (!mare__link_get_end(reader) || code > UINT32_MAX)
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
    else if (mare__link_confirm(link, frames, 0) && kind != MARE__FRAME_ACK)
        part_ways(link, kind, (unsigned)code, text);
    return false;
}

// ---- Time ---------------------------------------------------------------------------------------

static uint64_t beat_us(const struct mare__link *link)
{
    return link->silence_us / 4;
}

// When the silence of the link began.
static uint64_t silent_since(const struct mare__link *link)
{
    return link->heard_us < link->confirmed_us ? link->heard_us : link->confirmed_us;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t idle_at(const struct mare__link *link)
{
    uint64_t since = silent_since(link);
    return (since > link->ping_us ? since : link->ping_us) + beat_us(link);
}

// A link that is never idle is measured all the same, and so is one whose peer always pings first.
static uint64_t ping_at(const struct mare__link *link)
{
    return least(idle_at(link), link->ping_us + link->silence_us);
}

uint64_t mare__link_deadline(const struct mare__link *link)
{
    uint64_t since = silent_since(link), at;
    if (link->news)
        return link->now_us;
    switch (link->phase) {
    case MARE__LINK_GREETING:
    case MARE__LINK_ASKED:
        return link->born_us + link->settings->handshake_us;
    case MARE__LINK_LIVE:
        at = since + link->silence_us;
        if (link->ack_due_us > link->now_us) // else the acknowledgement waits for output, not for
                                             // time
            at = least(at, link->ack_due_us);
        if (!link->suspected)
            at = least(at, since + link->silence_us / 2);
        if (!link->ping_due)
            at = least(at, ping_at(link));
        return link->starving ? least(at, link->now_us + MARE__LINK_RETRY_US) : at;
    case MARE__LINK_PARTED:
    case MARE__LINK_RESUMING:
        return since + link->silence_us;
    default:
        return UINT64_MAX;
    }
}

void mare__link_tick(struct mare__link *link, uint64_t now_us)
{
    uint64_t due = mare__link_deadline(link);
    if (now_us <= link->now_us)
        return;
    due = due > link->now_us ? due : link->now_us;
    if (now_us > due) {
        // This side was not running and could not listen: that time is not the peer's silence.
        uint64_t late = now_us - due;
        link->born_us += late;
        link->heard_us += late;
        link->confirmed_us += late;
        link->ping_sampled |= late > 1000; // a late sample would measure our own sleep
    }
    link->now_us = now_us;
}

static void look_at_clock(struct mare__link *link)
{
    uint64_t now = link->now_us, silent = now - silent_since(link);
    bool deaf = link->confirmed_us < link->heard_us;
    if (link->phase <= MARE__LINK_ASKED) {
        if (now - link->born_us >= link->settings->handshake_us)
            mare__link_fail(link, MARE__LINK_CODE_HANDSHAKE);
    } else if (link->phase == MARE__LINK_LIVE) {
        if (silent >= link->silence_us)
            mare__link_fail(link, deaf ? MARE__LINK_CODE_UNHEARD : MARE__LINK_CODE_SILENT);
        link->suspected = silent >= link->silence_us / 2;
        if (now >= ping_at(link) && !link->ping_due) {
            link->ping_due = true;
            if (now >= idle_at(link))
                mare__link_trim(link);
        }
    } else if (link->phase != MARE__LINK_DONE && silent >= link->silence_us) {
        mare__link_over(link, MARE__LINK_CODE_BROKEN, (struct mare__span){0}, false);
    }
}

// ---- Events -------------------------------------------------------------------------------------

static bool tell_news(struct mare__link *link, struct mare__link_event *event)
{
    unsigned which = link->news & -link->news;
    link->news &= ~which;
    switch (which) {
    case MARE__NEWS_UP:
        event->kind = MARE__LINK_UP;
        break;
    case MARE__NEWS_RESUMED:
        event->kind = MARE__LINK_RESUMED;
        break;
    case MARE__NEWS_BROKEN:
        event->kind = MARE__LINK_BROKEN;
        event->dial = link->role == MARE__LINK_DIALS;
        break;
    default:
        event->kind = MARE__LINK_OVER;
        event->code = link->code;
        event->by_peer = link->by_peer;
        event->text = (struct mare__span){link->text, link->text_size};
        event->messages = link->unacknowledged;
    }
    return true;
}

static bool tell_suspicion(struct mare__link *link, struct mare__link_event *event)
{
    bool deaf = link->confirmed_us < link->heard_us;
    link->suspicion_told = link->suspected;
    event->kind = link->suspected ? MARE__LINK_SUSPECTED : MARE__LINK_TRUSTED;
    event->code = deaf ? MARE__LINK_CODE_UNHEARD : MARE__LINK_CODE_SILENT;
    return true;
}

bool mare__link_next(struct mare__link *link, struct mare__link_event *event)
{
    for (;;) {
        if (link->news)
            return tell_news(link, event);
        if (!mare__list_empty(&link->starved) && link->phase != MARE__LINK_DONE &&
            mare__link_fed(link, event))
            return true;
        if (mare__link_take_in(link, event))
            return true;
        if (!link->news)
            look_at_clock(link);
        if (link->phase == MARE__LINK_LIVE && link->suspected != link->suspicion_told)
            return tell_suspicion(link, event);
        if (!link->news)
            return false;
    }
}

const struct mare__link_hello *mare__link_peer(const struct mare__link *link)
{
    return &link->peer;
}

void mare__link_look(const struct mare__link *link, struct mare__link_view *view)
{
    *view = (struct mare__link_view){
        .phase = link->phase,
        .role = link->role,
        .suspected = link->suspected,
        .leaving = link->leaving,
        .version = link->version,
        .frame = link->frame,
        .features = link->features,
        .silence_us = link->silence_us,
        .heard_us = link->heard_us,
        .bytes_in = link->bytes_in,
        .bytes_out = link->bytes_out,
        .messages_in = link->messages_in,
        .messages_out = link->messages_out,
        .frames_in = link->frames_in,
        .frames_out = link->log.cursor,
        .frames_acknowledged = link->log.first,
        .resumptions = link->resumptions,
        .flows_in = link->inflows.count,
        .flows_out = link->outflows.count,
        .held = link->held,
        .memory = link->memory,
    };
    memcpy(view->session, link->session, sizeof view->session);
}
