// SPDX-License-Identifier: MIT
// What the files of HTTP/2 share with each other and with nobody else.
#pragma once

#include <nghttp2/nghttp2.h>

#include "wire/http2.h"
#include "wire/http_inner.h"

// Looks at the frames in some bytes, before nghttp2 does. False: the peer has gone too far, and
// mare__http2_refuse was called.
bool mare__http2_guard(struct mare__http2 *http2, const uint8_t *bytes, size_t size, uint64_t now);
void mare__http2_guard_init(struct mare__http2 *http2, uint64_t now);

// Charges the peer for a stream that ended before its time, and rewards honest work.
void mare__http2_guard_reset(struct mare__http2 *http2);
void mare__http2_guard_finished(struct mare__http2 *http2);
void mare__http2_guard_sent(struct mare__http2 *http2, size_t size);

// Keeps a field of a head that comes: false: not enough memory.
bool mare__http2_keep_field(struct mare__http2 *http2, struct mare__http2_stream *stream,
                            struct mare__span name, struct mare__span value);

// nghttp2 asks for bytes of a stream here.
ssize_t mare__http2_supply(nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                           uint32_t *flags, nghttp2_data_source *source, void *user);

struct mare__http2_stream *mare__http2_stream_new(struct mare__http2 *http2, int32_t id);
void mare__http2_stream_free(struct mare__http2 *http2, struct mare__http2_stream *stream);
