// SPDX-License-Identifier: MIT
// The handshake: who the peer is, which version both speak, what the limits are. And the resumption
// of a session over another transport.
//
//     dials    HELLO  ------------>  accepts          dials    RESUME  ------------>  accepts
//              <------------ WELCOME or REFUSE                 <------------ RESUMED or REFUSE
//
// The side that has sent HELLO or RESUME is silent until the answer has come. The first four
// elements of HELLO, and all of REFUSE, mean the same in every version: so two nodes without a
// common version can still tell each other so.
#include "base/alloc.h"
#include "wire/link_inner.h"

static const struct mare__span magic = {"mare", 4};

static bool same(struct mare__span a, struct mare__span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

// In constant time, so that a peer cannot find out how much of a session it has guessed.
static bool same_session(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0;
    for (unsigned i = 0; i < MARE__LINK_SESSION; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

// ---- What a node says of itself -----------------------------------------------------------------

static void put_self(struct mare__link_writer *writer, const struct mare__link_hello *self,
                     uint64_t stamp)
{
    mare__link_put_number(writer, self->features);
    mare__link_put_array(writer, 5);
    mare__link_put_text(writer, self->name);
    mare__link_put_text(writer, self->group);
    mare__link_put_number(writer, self->incarnation);
    mare__link_put_number(writer, stamp);
    mare__link_put_array(writer, self->address_count);
    for (uint32_t i = 0; i < self->address_count; i++)
        mare__link_put_text(writer, self->addresses[i]);
    mare__link_put_array(writer, 5);
    mare__link_put_number(writer, self->frame);
    mare__link_put_number(writer, self->flows);
    mare__link_put_number(writer, self->silence_us);
    mare__link_put_number(writer, self->control.messages);
    mare__link_put_number(writer, self->control.bytes);
    mare__link_put_bytes(writer, self->extra.at, self->extra.size);
}

static uint32_t get_u32(struct mare__link_reader *reader)
{
    uint64_t number = mare__link_get_number(reader);
    reader->bad |= number > UINT32_MAX;
    return (uint32_t)number;
}

static void get_peer(struct mare__link_reader *reader, struct mare__link_hello *peer)
{
    peer->features = mare__link_get_number(reader);
    struct mare__link_reader who = mare__link_get_array(reader);
    peer->name = mare__link_get_text(&who, MARE__LINK_TEXT_MOST);
    peer->group = mare__link_get_text(&who, MARE__LINK_TEXT_MOST);
    peer->incarnation = mare__link_get_number(&who);
    peer->stamp = mare__link_get_number(&who);
    struct mare__link_reader addresses = mare__link_get_array(&who);
    while (peer->address_count < MARE__LINK_ADDRESSES && addresses.left > 0 && !addresses.bad)
        peer->addresses[peer->address_count++] =
            mare__link_get_text(&addresses, MARE__LINK_TEXT_MOST);
    mare__link_get_array_end(&who, &addresses);
    mare__link_get_array_end(reader, &who);
    struct mare__link_reader limits = mare__link_get_array(reader);
    peer->frame = get_u32(&limits);
    peer->flows = get_u32(&limits);
    peer->silence_us = mare__link_get_number(&limits);
    peer->control.messages = get_u32(&limits);
    peer->control.bytes = mare__link_get_number(&limits);
    mare__link_get_array_end(reader, &limits);
    peer->extra = mare__link_get_text(reader, MARE__LINK_BEAT_MOST);
    reader->bad |= peer->name.size == 0 || peer->frame < MARE__LINK_FRAME_LEAST;
}

// Keeps the frame, because the names are in it. NULL: no memory.
static const uint8_t *keep(struct mare__link *link, const uint8_t *at, size_t size)
{
    uint8_t *copy = mare__link_take(link, size);
    if (!copy)
        return NULL;
    memcpy(copy, at, size);
    link->peer_text = copy;
    link->peer_text_size = (uint32_t)size;
    return copy;
}

// ---- Saying -------------------------------------------------------------------------------------

void mare__link_say_hello(struct mare__link *link)
{
    uint8_t frame[MARE__LINK_PREFIX + MARE__LINK_HELLO_MOST];
    const struct mare__link_hello *self = &link->settings->self;
    struct mare__link_writer writer;
    mare__link_put_begin(&writer, frame, MARE__FRAME_HELLO, 8);
    mare__link_put_text(&writer, magic);
    mare__link_put_number(&writer, self->version_min);
    mare__link_put_number(&writer, self->version_max);
    put_self(&writer, self, link->stamp);
    if (!mare__link_urge(link, frame, mare__link_put_end(&writer, 0)))
        mare__link_over(link, MARE__LINK_CODE_NOMEM, (struct mare__span){0}, false);
}

static bool say_welcome(struct mare__link *link)
{
    uint8_t frame[MARE__LINK_PREFIX + MARE__LINK_HELLO_MOST];
    struct mare__link_writer writer;
    mare__link_put_begin(&writer, frame, MARE__FRAME_WELCOME, 7);
    mare__link_put_number(&writer, link->version);
    mare__link_put_bytes(&writer, link->session, sizeof link->session);
    put_self(&writer, &link->settings->self, link->stamp);
    return mare__link_urge(link, frame, mare__link_put_end(&writer, 0));
}

void mare__link_say_refuse(struct mare__link *link, unsigned code, struct mare__span text)
{
    uint8_t frame[2 * MARE__LINK_CONTROL_HEAD + MARE__LINK_TEXT_MOST];
    const struct mare__link_hello *self = &link->settings->self;
    struct mare__link_writer writer;
    text.size = text.size < MARE__LINK_TEXT_MOST ? text.size : MARE__LINK_TEXT_MOST;
    mare__link_put_begin(&writer, frame, MARE__FRAME_REFUSE, 5);
    mare__link_put_number(&writer, code);
    mare__link_put_text(&writer, text);
    mare__link_put_number(&writer, self->version_min);
    mare__link_put_number(&writer, self->version_max);
    mare__link_urge(link, frame, mare__link_put_end(&writer, 0));
}

void mare__link_accept(struct mare__link *link, const uint8_t session[MARE__LINK_SESSION],
                       uint64_t stamp)
{
    if (link->phase != MARE__LINK_ASKED || link->resume_asked)
        return;
    memcpy(link->session, session, MARE__LINK_SESSION);
    link->stamp = stamp;
    if (mare__link_begin(link) || !say_welcome(link)) {
        mare__link_over(link, MARE__LINK_CODE_NOMEM, (struct mare__span){0}, false);
        return;
    }
    link->news |= MARE__NEWS_UP;
}

void mare__link_refuse(struct mare__link *link, unsigned code, struct mare__span text)
{
    if (link->phase != MARE__LINK_ASKED)
        return;
    mare__link_say_refuse(link, code, text);
    mare__link_over(link, code, text, false);
}

// ---- Hearing ------------------------------------------------------------------------------------

// The highest version that both speak; 0: none.
static uint32_t common_version(const struct mare__link_hello *a, const struct mare__link_hello *b)
{
    uint32_t low = a->version_min > b->version_min ? a->version_min : b->version_min;
    uint32_t high = a->version_max < b->version_max ? a->version_max : b->version_max;
    return low <= high ? high : 0;
}

// Keeps the rest of the frame, and reads it there: the peer's texts point into it. False: no
// memory, and the link has failed.
static bool keep_rest(struct mare__link *link, struct mare__link_reader *reader)
{
    size_t size = (size_t)(reader->end - reader->at);
    reader->at = keep(link, reader->at, size);
    if (!reader->at) {
        mare__link_fail(link, MARE__LINK_CODE_NOMEM);
        return false;
    }
    reader->end = reader->at + size;
    return true;
}

static bool take_hello(struct mare__link *link, struct mare__link_reader *reader,
                       struct mare__link_event *event)
{
    struct mare__link_hello *peer = &link->peer;
    struct mare__span word = mare__link_get_text(reader, MARE__LINK_TEXT_MOST);
    peer->version_min = get_u32(reader);
    peer->version_max = get_u32(reader);
    if (reader->bad || !same(word, magic)) {
        mare__link_fail(link, MARE__LINK_CODE_MAGIC);
        return false;
    }
    link->version = common_version(&link->settings->self, peer);
    if (link->version == 0) {
        mare__link_fail(link, MARE__LINK_CODE_VERSION);
        return false;
    }
    if (!keep_rest(link, reader))
        return false;
    get_peer(reader, peer);
    if (!mare__link_get_end(reader)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    link->phase = MARE__LINK_ASKED;
    event->kind = MARE__LINK_HELLO;
    return true;
}

static bool take_resume(struct mare__link *link, struct mare__link_reader *reader,
                        struct mare__link_event *event)
{
    struct mare__span word = mare__link_get_text(reader, MARE__LINK_TEXT_MOST);
    if (reader->bad || !same(word, magic)) {
        mare__link_fail(link, MARE__LINK_CODE_MAGIC);
        return false;
    }
    link->version = get_u32(reader);
    struct mare__span session = mare__link_get_text(reader, MARE__LINK_SESSION);
    link->attempt = get_u32(reader);
    link->resume_frames = mare__link_get_number(reader);
    if (!mare__link_get_end(reader) || session.size != MARE__LINK_SESSION) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    memcpy(link->session, session.at, MARE__LINK_SESSION);
    link->phase = MARE__LINK_ASKED;
    link->resume_asked = true;
    event->kind = MARE__LINK_RESUME;
    event->data = link->session;
    event->size = MARE__LINK_SESSION;
    return true;
}

static bool take_welcome(struct mare__link *link, struct mare__link_reader *reader,
                         struct mare__link_event *event)
{
    const struct mare__link_hello *self = &link->settings->self;
    if (!keep_rest(link, reader))
        return false;
    link->version = get_u32(reader);
    struct mare__span session = mare__link_get_text(reader, MARE__LINK_SESSION);
    get_peer(reader, &link->peer);
    link->peer.version_min = link->peer.version_max = link->version;
    if (!mare__link_get_end(reader) || session.size != MARE__LINK_SESSION) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (link->version < self->version_min || link->version > self->version_max) {
        mare__link_fail(link, MARE__LINK_CODE_VERSION);
        return false;
    }
    memcpy(link->session, session.at, MARE__LINK_SESSION);
    if (mare__link_begin(link)) {
        mare__link_fail(link, MARE__LINK_CODE_NOMEM);
        return false;
    }
    event->kind = MARE__LINK_UP;
    return true;
}

static bool take_refuse(struct mare__link *link, struct mare__link_reader *reader)
{
    uint32_t code = get_u32(reader);
    struct mare__span text = mare__link_get_text(reader, MARE__LINK_TEXT_MOST);
    uint32_t low = get_u32(reader), high = get_u32(reader);
    if (!mare__link_get_end(reader)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    link->peer.version_min = low;
    link->peer.version_max = high;
    mare__link_over(link, code, text, true);
    return false;
}

static bool take_resumed(struct mare__link *link, struct mare__link_reader *reader,
                         struct mare__link_event *event)
{
    uint64_t frames = mare__link_get_number(reader);
    if (!mare__link_get_end(reader)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (!mare__link_go_on(link, frames)) {
        mare__link_fail(link, MARE__LINK_CODE_COUNT);
        return false;
    }
    event->kind = MARE__LINK_RESUMED;
    return true;
}

bool mare__link_greeted(struct mare__link *link, const uint8_t *at, const uint8_t *end,
                        struct mare__link_event *event)
{
    struct mare__link_reader reader;
    unsigned kind;
    bool dials = link->role == MARE__LINK_DIALS, resuming = link->phase == MARE__LINK_RESUMING;
    if (!mare__link_get_begin(&reader, at, end, &kind))
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
    else if (kind == MARE__FRAME_HELLO && !dials)
        return take_hello(link, &reader, event);
    else if (kind == MARE__FRAME_RESUME && !dials)
        return take_resume(link, &reader, event);
    else if (kind == MARE__FRAME_WELCOME && dials && !resuming)
        return take_welcome(link, &reader, event);
    else if (kind == MARE__FRAME_RESUMED && resuming)
        return take_resumed(link, &reader, event);
    else if (kind == MARE__FRAME_REFUSE && dials)
        return take_refuse(link, &reader);
    else
        mare__link_fail(link, MARE__LINK_CODE_PLACE);
    return false;
}

// ---- Resumption ---------------------------------------------------------------------------------

bool mare__link_go_on(struct mare__link *link, uint64_t frames)
{
    if (!mare__link_acknowledged(link, frames))
        return false;
    mare__link_rewind(link);
    link->phase = MARE__LINK_LIVE;
    link->heard_us = link->confirmed_us = link->ping_us = link->now_us;
    link->suspected = link->suspicion_told = false;
    link->frames_acked = link->frames_in; // RESUME told it to the peer, or RESUMED will
    link->ack_bytes = 0;
    link->ack_due_us = UINT64_MAX;
    link->resumptions++;
    return true;
}

mare_err mare__link_redial(struct mare__link *link)
{
    uint8_t frame[2 * MARE__LINK_CONTROL_HEAD];
    struct mare__link_writer writer;
    if (link->phase != MARE__LINK_PARTED || link->role != MARE__LINK_DIALS)
        return MARE_INVALID;
    mare__link_put_begin(&writer, frame, MARE__FRAME_RESUME, 6);
    mare__link_put_text(&writer, magic);
    mare__link_put_number(&writer, link->version);
    mare__link_put_bytes(&writer, link->session, sizeof link->session);
    mare__link_put_number(&writer, link->attempt + 1);
    mare__link_put_number(&writer, link->frames_in);
    link->attached = true;
    if (!mare__link_urge(link, frame, mare__link_put_end(&writer, 0))) {
        link->attached = false;
        return MARE_NOMEM;
    }
    link->attempt++;
    link->phase = MARE__LINK_RESUMING;
    return MARE_OK;
}

// Whether `link` can go on as `fresh` asks: 0, or why not.
static unsigned check_resume(const struct mare__link *link, const struct mare__link *fresh)
{
    bool live = link->phase == MARE__LINK_LIVE || link->phase == MARE__LINK_PARTED;
    if (!live || link->role != MARE__LINK_ACCEPTS || !same_session(link->session, fresh->session) ||
        !(link->features & MARE__LINK_FEATURE_RESUME))
        return MARE__LINK_CODE_SESSION;
    if (fresh->version != link->version)
        return MARE__LINK_CODE_VERSION;
    if (fresh->in.at < fresh->in.end) // the peer had to wait for the answer first
        return MARE__LINK_CODE_PLACE;
    return fresh->attempt <= link->attempt ? MARE__LINK_CODE_STALE : 0;
}

mare_err mare__link_resume(struct mare__link *link, struct mare__link *fresh)
{
    uint8_t frame[MARE__LINK_CONTROL_HEAD];
    struct mare__link_writer writer;
    if (fresh->phase != MARE__LINK_ASKED || !fresh->resume_asked)
        return MARE_INVALID;
    unsigned wrong = check_resume(link, fresh);
    if (!wrong) {
        mare__link_detach(link);
        link->now_us = fresh->now_us > link->now_us ? fresh->now_us : link->now_us;
        link->attempt = fresh->attempt;
        link->attached = true;
        if (!mare__link_go_on(link, fresh->resume_frames)) {
            link->attached = false;
            wrong = MARE__LINK_CODE_COUNT;
            mare__link_over(link, wrong, (struct mare__span){0}, false);
        }
    }
    if (wrong) {
        mare__link_refuse(fresh, wrong, (struct mare__span){0});
        return MARE_REFUSED;
    }
    mare__link_put_begin(&writer, frame, MARE__FRAME_RESUMED, 2);
    mare__link_put_number(&writer, link->frames_in);
    mare__link_urge(link, frame, mare__link_put_end(&writer, 0)); // it is small: this needs no
                                                                  // memory
    link->transport_in = fresh->transport_in;
    link->bytes_in += fresh->transport_in;
    link->news = (link->news & ~(unsigned)MARE__NEWS_BROKEN) | MARE__NEWS_RESUMED;
    fresh->phase = MARE__LINK_DONE;
    fresh->attached = false;
    return MARE_OK;
}

// ---- Two connections, one link ------------------------------------------------------------------

// Compares the bytes of the names. If one begins with the other, the shorter comes first.
static bool comes_first(struct mare__span a, struct mare__span b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.at, b.at, size) : 0;
    return order ? order < 0 : a.size < b.size;
}

unsigned mare__link_judge(const struct mare__link_settings *settings,
                          const struct mare__link_hello *hello, const struct mare__link *other)
{
    if (same(hello->name, settings->self.name))
        return MARE__LINK_CODE_NAME;
    if (!other || other->phase == MARE__LINK_DONE)
        return MARE__LINK_CODE_BYE;
    if (other->phase == MARE__LINK_GREETING) // both nodes dial each other
        return comes_first(settings->self.name, hello->name) ? MARE__LINK_CODE_DUPLICATE
                                                             : MARE__LINK_CODE_BYE;
    if (hello->incarnation < other->peer.incarnation)
        return MARE__LINK_CODE_STALE;
    if (hello->incarnation > other->peer.incarnation) {
        // A newer incarnation: the node was restarted. But if the link that we have is alive, two
        // nodes have the same name.
        bool alive = other->phase == MARE__LINK_LIVE && !other->suspected;
        return alive ? MARE__LINK_CODE_NAME : MARE__LINK_CODE_BYE;
    }
    // If the peer dialled before it agreed to the link that we have, the new connection is a late
    // duplicate. If it dialled after that, it has lost that link.
    return hello->stamp <= other->peer.stamp ? MARE__LINK_CODE_DUPLICATE : MARE__LINK_CODE_BYE;
}
