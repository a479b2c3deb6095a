// SPDX-License-Identifier: MIT
// A session, and what nghttp2 reports about it. The callbacks only note what has happened, in the
// streams and as events. So no code of the user runs inside nghttp2.
//
// nghttp2 has a stream from its first HEADERS to `on_close`. The user has it from HEAD, or from
// mare__http2_ask, to mare__http2_forget. It is freed when neither has it.
#include "wire/http2_inner.h"

#include <stdio.h>

#include "base/alloc.h"

enum {
    OUT_ROOM = 65536, // room for all bytes made at once, so that the buffer does not grow
    FRAME_MOST = 9 + 16384,
    OUT_IDLE = 4096, // and the room that is kept while there is nothing to send
    SPARES_MOST = 16,
    SPARE_HEAD_MOST = 1024,
    INTERIMS_MOST = 100,
};

// ---- Streams ------------------------------------------------------------------------------------

struct mare__http2_stream *mare__http2_stream_new(struct mare__http2 *http2, int32_t id)
{
    struct mare__http2_stream *stream = http2->spare;
    if (stream) {
        struct mare__bytes head = stream->head;
        http2->spare = stream->next;
        http2->spares--;
        *stream = (struct mare__http2_stream){.head = head};
    } else if (!(stream = mare__alloc_zero(sizeof *stream))) {
        return NULL;
    }
    stream->id = id;
    stream->next = http2->streams;
    stream->place = &http2->streams;
    if (stream->next)
        stream->next->place = &stream->next;
    http2->streams = stream;
    mare__index_add(&http2->index, &stream->entry, (uint64_t)id);
    http2->open++;
    return stream;
}

void mare__http2_stream_free(struct mare__http2 *http2, struct mare__http2_stream *stream)
{
    *stream->place = stream->next;
    if (stream->next)
        stream->next->place = stream->place;
    mare__index_remove(&stream->entry);
    mare__bytes_fini(&stream->body);
    mare__bytes_fini(&stream->cookies);
    stream->head.size = 0;
    if (http2->spares < SPARES_MOST && stream->head.capacity <= SPARE_HEAD_MOST) {
        http2->spares++;
        stream->next = http2->spare;
        http2->spare = stream;
        return;
    }
    mare__bytes_fini(&stream->head);
    mare__free(stream);
}

struct mare__http2_stream *mare__http2_find(struct mare__http2 *http2, int32_t id)
{
    struct mare__index_entry *entry = mare__index_find(&http2->index, (uint64_t)id);
    if (!entry)
        return NULL;
    struct mare__http2_stream *stream =
        (struct mare__http2_stream *)((char *)entry - offsetof(struct mare__http2_stream, entry));
    return stream->forgotten ? NULL : stream;
}

struct mare__span mare__http2_body(const struct mare__http2_stream *stream)
{
    return (struct mare__span){stream->body.at ? stream->body.at + stream->taken : "",
                               stream->body.size - stream->taken};
}

void mare__http2_body_used(struct mare__http2 *http2, struct mare__http2_stream *stream,
                           size_t size)
{
    stream->taken += size;
    if (stream->taken == stream->body.size)
        stream->taken = stream->body.size = 0;
    if (size == 0 || http2->over)
        return;
    if (http2->settings.server)
        nghttp2_session_consume(http2->session, stream->id, size);
    else
        nghttp2_session_consume_stream(http2->session, stream->id, size);
}

void mare__http2_reset(struct mare__http2 *http2, struct mare__http2_stream *stream, uint32_t error)
{
    if (!stream->closed)
        nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, stream->id, error);
    stream->left = 0;
    stream->last = false; // a body that was cut off must not look whole
}

void mare__http2_ignore(struct mare__http2 *http2, struct mare__http2_stream *stream)
{
    mare__http2_body_used(http2, stream, stream->body.size - stream->taken);
    mare__bytes_fini(&stream->body);
    stream->ignored = true;
}

void mare__http2_forget(struct mare__http2 *http2, struct mare__http2_stream *stream)
{
    mare__http2_ignore(http2, stream);
    mare__http2_reset(http2, stream, NGHTTP2_CANCEL);
    stream->forgotten = true;
    if (stream->closed)
        mare__http2_stream_free(http2, stream);
}

size_t mare__http2_sweep(struct mare__http2 *http2, size_t least)
{
    size_t count = 0;
    for (struct mare__http2_stream *stream = http2->streams; stream; stream = stream->next) {
        size_t due = stream->left_then < least ? stream->left_then : least;
        if (stream->closed || stream->left == 0) {
            stream->swept = false;
        } else if (stream->swept && stream->moved < due) {
            mare__http2_reset(http2, stream, NGHTTP2_CANCEL);
            count++;
        } else {
            stream->swept = true;
            stream->moved = 0;
            stream->left_then = stream->left;
        }
    }
    return count;
}

// ---- Events -------------------------------------------------------------------------------------

// False: not enough memory.
static bool tell(struct mare__http2 *http2, enum mare__http2_kind kind, int32_t stream,
                 uint32_t error)
{
    struct mare__http2_event event = {kind, stream, error};
    if (http2->event > 0 && http2->event == http2->events.size)
        http2->event = http2->events.size = 0;
    return mare__bytes_add(&http2->events, &event, sizeof event) == 0;
}

bool mare__http2_next(struct mare__http2 *http2, struct mare__http2_event *event)
{
    if (http2->event == http2->events.size)
        return false;
    memcpy(event, http2->events.at + http2->event, sizeof *event);
    http2->event += sizeof *event;
    struct mare__http2_stream *stream = mare__http2_find(http2, event->stream);
    if (stream && event->kind == MARE__HTTP2_BODY)
        stream->body_told = false;
    return true;
}

// Tells of a body, unless such an event is waiting already.
static bool tell_body(struct mare__http2 *http2, struct mare__http2_stream *stream)
{
    if (stream->body_told || !stream->head_told || stream->ignored)
        return true;
    stream->body_told = tell(http2, MARE__HTTP2_BODY, stream->id, 0);
    return stream->body_told;
}

// ---- What nghttp2 tells -------------------------------------------------------------------------

static int on_begin_head(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct mare__http2 *http2 = user;
    int32_t id = frame->hd.stream_id;
    struct mare__http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    http2->block = 0;
    if (stream) {
        if (!stream->head_told) // else an interim answer came before
            stream->head.size = stream->count = 0;
        return 0;
    }
    if (!http2->settings.server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    stream = mare__http2_stream_new(http2, id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, id, stream);
    return 0;
}

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                    void *user)
{
    (void)flags;
    struct mare__http2 *http2 = user;
    struct mare__http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    // What the head takes when decompressed (section 10.5.1): a few bytes can mean very many.
    // Beyond the limit it is an attack, which mare__http2_receive ends.
    http2->block += name_size + value_size + 32;
    if (!stream || stream->head_told || stream->forgotten)
        return 0; // trailers, or a stream that nobody wants
    return mare__http2_keep_field(http2, stream, (struct mare__span){(const char *)name, name_size},
                                  (struct mare__span){(const char *)value, value_size})
               ? 0
               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static bool is_interim(const struct mare__http2_stream *stream)
{
    // nghttp2 makes sure that ":status" comes first, with three digits
    size_t at = 2 * sizeof(uint32_t) + sizeof ":status" - 1;
    return stream->head.size > at && stream->head.at[at] == '1';
}

static int on_head(struct mare__http2 *http2, struct mare__http2_stream *stream)
{
    if (!http2->settings.server && is_interim(stream))
        return ++stream->interims > INTERIMS_MOST ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
    stream->head_told = true;
    stream->answered = stream->answered || !http2->settings.server;
    return tell(http2, MARE__HTTP2_HEAD, stream->id, 0) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct mare__http2 *http2 = user;
    struct mare__http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool content = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        http2->going = true;
        return tell(http2, MARE__HTTP2_GOODBYE, 0, frame->goaway.error_code)
                   ? 0
                   : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (!stream || !content)
        return 0;
    stream->ended = stream->ended || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->head_told) {
        stream->bodiless = stream->ended;
        return on_head(http2, stream);
    }
    return !stream->ended || tell_body(http2, stream) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t size, void *user)
{
    (void)flags;
    struct mare__http2 *http2 = user;
    struct mare__http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (!stream || stream->ignored) {
        nghttp2_session_consume(session, id, size);
        return 0;
    }
    // Unread bytes at a server count against the whole connection, because anybody may send them. A
    // client has asked for its answers, and one that it does not read must not hold up the others.
    if (!http2->settings.server)
        nghttp2_session_consume_connection(session, size);
    return mare__bytes_add(&stream->body, bytes, size) == 0 && tell_body(http2, stream)
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct mare__http2 *http2 = user;
    struct mare__http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (!stream)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    stream->closed = true;
    stream->error = error;
    stream->left = 0;
    http2->open--;
    if (error == NGHTTP2_NO_ERROR)
        mare__http2_guard_finished(http2);
    bool is_known = !stream->forgotten && (stream->head_told || !http2->settings.server);
    if (!is_known)
        mare__http2_stream_free(http2, stream);
    return !is_known || tell(http2, MARE__HTTP2_CLOSED, id, error) ? 0
                                                                   : NGHTTP2_ERR_CALLBACK_FAILURE;
}

// If the peer broke a rule and we end the session for it, that counts as if the peer had ended it.
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct mare__http2 *http2 = user;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        http2->failed = http2->failed || frame->goaway.error_code != NGHTTP2_NO_ERROR;
    if (frame->hd.type != NGHTTP2_RST_STREAM)
        return 0;
    switch (frame->rst_stream.error_code) {
    case NGHTTP2_NO_ERROR:
    case NGHTTP2_INTERNAL_ERROR:
    case NGHTTP2_CANCEL:
        return 0;
    default:
        mare__http2_guard_reset(http2);
        return 0;
    }
}

// Notes the last invalid frame: if the session ends, that is why.
static int on_invalid(nghttp2_session *session, const nghttp2_frame *frame, int code, void *user)
{
    (void)session, (void)frame;
    struct mare__http2 *http2 = user;
    if (!http2->over)
        snprintf(http2->reason, sizeof http2->reason, "%s", nghttp2_strerror(code));
    return 0;
}

ssize_t mare__http2_supply(nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session, (void)id;
    struct mare__http2 *http2 = user;
    struct mare__http2_stream *stream = source->ptr;
    size_t part = stream->left < size ? stream->left : size;
    if (part == 0 && !stream->last)
        return NGHTTP2_ERR_DEFERRED;
    if (part > 0)
        memcpy(room, stream->out, part);
    stream->out += part;
    stream->left -= part;
    stream->moved += part;
    if (stream->left > 0)
        return (ssize_t)part;
    stream->swept = false;
    if (stream->last)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    // If both sides have ended the stream, CLOSED comes next, and says as much.
    bool closes = stream->last && stream->ended;
    if (!stream->forgotten && !closes && !tell(http2, MARE__HTTP2_DRAINED, stream->id, 0))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return (ssize_t)part;
}

// ---- A session ----------------------------------------------------------------------------------

static void *allocate(size_t size, void *user)
{
    (void)user;
    return mare__alloc(size);
}

static void *allocate_zero(size_t count, size_t size, void *user)
{
    (void)user;
    return mare__alloc_zero(count * size);
}

static void *reallocate(void *block, size_t size, void *user)
{
    (void)user;
    return mare__realloc(block, size);
}

static void free_block(void *block, void *user)
{
    (void)user;
    mare__free(block);
}

static bool make_session(struct mare__http2 *http2)
{
    nghttp2_mem memory = {NULL, allocate, free_block, allocate_zero, reallocate};
    nghttp2_session_callbacks *told = NULL;
    nghttp2_option *option = NULL;
    int err = NGHTTP2_ERR_NOMEM;
    if (nghttp2_session_callbacks_new(&told) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(told, on_begin_head);
        nghttp2_session_callbacks_set_on_header_callback(told, on_field);
        nghttp2_session_callbacks_set_on_frame_recv_callback(told, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(told, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(told, on_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(told, on_sent);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(told, on_invalid);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        err = http2->settings.server
                  ? nghttp2_session_server_new3(&http2->session, told, http2, option, &memory)
                  : nghttp2_session_client_new3(&http2->session, told, http2, option, &memory);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(told);
    return err == 0;
}

mare_err mare__http2_init(struct mare__http2 *http2, const struct mare__http2_settings *settings,
                          uint64_t now)
{
    *http2 = (struct mare__http2){.settings = *settings};
    mare__http2_guard_init(http2, now);
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->limits.head},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings->streams},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, // for a client
    };
    if (make_session(http2) &&
        nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, entries,
                                settings->server ? 3 : 4) == 0 &&
        nghttp2_session_set_local_window_size(http2->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)settings->session_window) == 0)
        return MARE_OK;
    mare__http2_fini(http2);
    return MARE_NOMEM;
}

void mare__http2_fini(struct mare__http2 *http2)
{
    nghttp2_session_del(http2->session);
    http2->session = NULL;
    while (http2->streams) {
        http2->spares = SPARES_MOST; // so many that it is not kept
        mare__http2_stream_free(http2, http2->streams);
    }
    while (http2->spare) {
        struct mare__http2_stream *stream = http2->spare;
        http2->spare = stream->next;
        mare__bytes_fini(&stream->head);
        mare__free(stream);
    }
    mare__bytes_fini(&http2->out);
    mare__bytes_fini(&http2->events);
    mare__bytes_fini(&http2->names);
    mare__free(http2->fields);
    mare__free(http2->pairs);
    http2->fields = http2->pairs = NULL;
    http2->event = 0;
    http2->over = true;
}

void mare__http2_refuse(struct mare__http2 *http2, uint32_t error, const char *reason)
{
    if (http2->over)
        return;
    http2->over = true;
    snprintf(http2->reason, sizeof http2->reason, "%s", reason);
    nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(http2->session), error,
                          (const uint8_t *)reason, strlen(reason));
}

mare_err mare__http2_goodbye(struct mare__http2 *http2, bool last)
{
    if (http2->over)
        return MARE_CLOSED;
    int err = last ? nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                                           nghttp2_session_get_last_proc_stream_id(http2->session),
                                           NGHTTP2_NO_ERROR, NULL, 0)
                   : nghttp2_submit_shutdown_notice(http2->session);
    return err ? MARE_NOMEM : MARE_OK;
}

bool mare__http2_receive(struct mare__http2 *http2, const void *bytes, size_t size, uint64_t now)
{
    if (http2->over || !mare__http2_guard(http2, bytes, size, now))
        return false;
    // A head may be this large before it counts as an attack. Between the limit and this it gets a
    // 431.
    size_t block_most = 4 * (size_t)http2->settings.limits.head + MARE__HTTP_HEAD_MOST;
    ssize_t used = nghttp2_session_mem_recv(http2->session, bytes, size);
    if (used < 0) {
        // nghttp2 sends no GOAWAY itself for a wrong preface, and for errors after which it cannot
        // go on.
        uint32_t error = used == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                         : used == NGHTTP2_ERR_FLOODED        ? NGHTTP2_ENHANCE_YOUR_CALM
                                                              : NGHTTP2_INTERNAL_ERROR;
        mare__http2_refuse(http2, error, nghttp2_strerror((int)used));
    } else if (http2->block > block_most) {
        mare__http2_refuse(http2, NGHTTP2_ENHANCE_YOUR_CALM, "a head that unfolds without end");
    } else if (!nghttp2_session_want_read(http2->session)) {
        http2->over = true;
    }
    return !http2->over;
}

mare_err mare__http2_take(struct mare__http2 *http2, struct mare__span *bytes)
{
    struct mare__bytes *out = &http2->out;
    if (http2->sent == out->size)
        http2->sent = out->size = 0;
    while (out->size <= OUT_ROOM - FRAME_MOST) {
        const uint8_t *more;
        ssize_t size = nghttp2_session_mem_send(http2->session, &more);
        if (size == 0)
            break;
        if (size < 0 || mare__bytes_add(out, more, (size_t)size))
            return MARE_NOMEM;
        mare__http2_guard_sent(http2, (size_t)size);
    }
    if (out->size == 0 && out->capacity > OUT_IDLE)
        mare__bytes_fini(out);
    *bytes = (struct mare__span){out->at ? out->at + http2->sent : "", out->size - http2->sent};
    return MARE_OK;
}

void mare__http2_used(struct mare__http2 *http2, size_t size)
{
    http2->sent += size;
}

bool mare__http2_wants_write(const struct mare__http2 *http2)
{
    return http2->sent < http2->out.size || nghttp2_session_want_write(http2->session);
}
