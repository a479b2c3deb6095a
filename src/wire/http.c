// SPDX-License-Identifier: MIT
// The reader: finds where lines and bodies end, and checks that nothing is larger than it may be.
// http_head.c finds out what a head means. It sees a head only when all of its lines have passed
// here. So a line break that is not CR LF, a folded line, white space before a colon or a control
// character never reaches a parser that might accept it.
//
//              +--> BODY ---------+
//   HEAD ------+--> CHUNKED -> TRAILERS --+--> ENDING --> HEAD, or OVER, or SWITCHED
//              +--> UNTIL_CLOSE --+
//              +------------------+            from anywhere: FAILED
//
// The lines of a head are kept in `text`, those of a trailer are not; both pass through the same
// states. A limit is reached at the same byte, however the bytes were cut: a run of characters is
// measured before anything after it is looked at.
#include "wire/http.h"

#include "base/alloc.h"
#include "wire/http_inner.h"

enum phase { HEAD, BODY, CHUNKED, TRAILERS, UNTIL_CLOSE, ENDING, OVER, SWITCHED, FAILED };

// Where in the lines, or between two chunks. In each of the first six, up to FIELD_VALUE,
// characters of one class follow each other; the first four are those of the first line.
enum state {
    METHOD,
    TARGET,
    VERSION,
    STATUS,
    FIELD_NAME,
    FIELD_VALUE,
    START,    // before a message
    BLANK_CR, // in the one empty line that may stand before a request
    LINE_CR,
    LINE, // after the first line, or a field
    LAST_CR,
    CHUNK, // before a chunk
    CHUNK_SIZE,
    CHUNK_SPACE,
    CHUNK_EXTENSION,
    CHUNK_CR,
    CHUNK_DATA,
    CHUNK_END,
    CHUNK_END_CR,
};

enum {
    METHOD_MOST = 24,  // longer than any known method
    CHUNK_DIGITS = 16, // as many as 64 bits can hold
};

static const char bare_lf[] = "a line ends with LF alone";
static const char bare_cr[] = "a CR without an LF";

static const struct mare__http_limits defaults = {
    .start_line = 8192,
    .field_line = 8192,
    .head = 32768,
    .fields = 100,
    .extensions = 1024,
    .trailers = 4096,
    .body = 1048576,
};

void mare__http_reader_init(struct mare__http_reader *reader, enum mare__http_kind kind)
{
    *reader = (struct mare__http_reader){.limits = defaults, .kind = kind, .state = START};
}

void mare__http_reader_fini(struct mare__http_reader *reader)
{
    mare__bytes_fini(&reader->text);
    mare__free(reader->fields);
    reader->fields = NULL;
    reader->field_capacity = 0;
}

bool mare__http_reader_idle(const struct mare__http_reader *reader)
{
    return reader->phase == OVER || reader->phase == SWITCHED || reader->phase == FAILED ||
           (reader->phase == HEAD && reader->state == START);
}

void mare__http_reader_trim(struct mare__http_reader *reader)
{
    if (!mare__http_reader_idle(reader))
        return;
    reader->head = (struct mare__http_head){0};
    mare__http_reader_fini(reader);
}

void mare__http_reader_expect(struct mare__http_reader *reader, struct mare__span method)
{
    // Methods are told apart by case: RFC 9110 section 9.1.
    reader->answers = MARE__HTTP_ANSWERS_ANY;
    if (method.size == 4 && memcmp(method.at, "HEAD", 4) == 0)
        reader->answers = MARE__HTTP_ANSWERS_HEAD;
    else if (method.size == 7 && memcmp(method.at, "CONNECT", 7) == 0)
        reader->answers = MARE__HTTP_ANSWERS_CONNECT;
}

enum mare__http_event mare__http_fail(struct mare__http_reader *reader, int status,
                                      const char *reason)
{
    bool large = status == 413 || status == 414 || status == 431;
    reader->error.code = status == 503 ? MARE_NOMEM : large ? MARE_TOOBIG : MARE_BADMSG;
    reader->error.status = reader->kind == MARE__HTTP_RESPONSES ? 502 : status;
    reader->error.reason = reason;
    reader->phase = FAILED;
    return MARE__HTTP_ERROR;
}

void mare__http_reader_lose(struct mare__http_reader *reader)
{
    mare__http_fail(reader, 503, mare_strerror(MARE_NOMEM));
}

// ---- Lines --------------------------------------------------------------------------------------

static const uint8_t runs[] = {
    [METHOD] = MARE__HTTP_TOKEN, [TARGET] = MARE__HTTP_TARGET,    [VERSION] = MARE__HTTP_TARGET,
    [STATUS] = MARE__HTTP_VALUE, [FIELD_NAME] = MARE__HTTP_TOKEN, [FIELD_VALUE] = MARE__HTTP_VALUE,
};

// A line has become longer than it may be.
static void fail_line(struct mare__http_reader *reader)
{
    if (reader->state == METHOD) // RFC 9112 section 3
        mare__http_fail(reader, 501, "the method is too long");
    else if (reader->state <= STATUS)
        mare__http_fail(reader, 414, "the first line is too long");
    else
        mare__http_fail(reader, 431, "a header line is too long");
}

// Counts the characters that continue the current run into the line.
static size_t run_of(struct mare__http_reader *reader, const uint8_t *in, size_t size)
{
    if (reader->state > FIELD_VALUE)
        return 0;
    uint8_t class = runs[reader->state];
    size_t count = 0;
    while (count < size && mare__http_classes[in[count]] & class)
        count++;
    uint32_t most = reader->state == METHOD   ? METHOD_MOST
                    : reader->state <= STATUS ? reader->limits.start_line
                                              : reader->limits.field_line;
    reader->line_size += (uint32_t)count;
    if (reader->line_size > most)
        fail_line(reader);
    return count;
}

// Fails, and says why this character is out of place.
static void fail_character(struct mare__http_reader *reader, uint8_t byte)
{
    bool space = byte == ' ' || byte == '\t';
    const char *reason = "a character that has no place in a header's value";
    if (byte == '\n')
        reason = bare_lf;
    else if (reader->state == LINE_CR || reader->state == LAST_CR)
        reason = bare_cr;
    else if (reader->state == TARGET && byte == '\r')
        reason = "a request line without a version";
    else if (reader->state <= STATUS)
        reason = "a character that has no place in the first line";
    else if (reader->state == LINE && space)
        reason = "a folded header line";
    else if (reader->state == FIELD_NAME && space)
        reason = "white space before the colon of a header";
    else if (reader->state == LINE || reader->state == FIELD_NAME)
        reason = "a character that has no place in a header's name";
    mare__http_fail(reader, 400, reason);
}

static void begin_field(struct mare__http_reader *reader)
{
    if (reader->line_count == reader->limits.fields) {
        mare__http_fail(reader, 431, "too many header lines");
        return;
    }
    reader->line_count++;
    reader->line_size = 0;
    reader->state = FIELD_NAME; // its first character is still to be counted
}

// The state after a character that ends a run, or is not in one. True at the end of the last line.
static bool step(struct mare__http_reader *reader, uint8_t byte)
{
    reader->line_size++;
    if (reader->state == METHOD && byte == ' ' && reader->line_size > 1)
        reader->state = TARGET;
    else if (reader->state == TARGET && byte == ' ')
        reader->state = VERSION;
    else if (reader->state == FIELD_NAME && byte == ':')
        reader->state = FIELD_VALUE;
    else if ((reader->state == VERSION || reader->state == STATUS ||
              reader->state == FIELD_VALUE) &&
             byte == '\r')
        reader->state = LINE_CR;
    else if (reader->state == LINE_CR && byte == '\n')
        reader->state = LINE;
    else if (reader->state == LINE && byte == '\r')
        reader->state = LAST_CR;
    else if (reader->state == LAST_CR && byte == '\n')
        return true;
    else
        fail_character(reader, byte);
    return false;
}

// Passes over lines, up to and with the empty line: then it returns true. `most`: the most bytes of
// all lines together.
static bool pass_lines(struct mare__http_reader *reader, uint32_t most, const uint8_t *in,
                       size_t size, size_t *used)
{
    bool last = false;
    size_t at = 0;
    while (at < size && !last && reader->phase != FAILED) {
        if (reader->left == most) {
            if (reader->state <= STATUS)
                mare__http_fail(reader, 414, "the first line is too long");
            else
                mare__http_fail(reader, 431, "the headers are too large");
            break;
        }
        if (reader->state == LINE && mare__http_classes[in[at]] & MARE__HTTP_TOKEN) {
            begin_field(reader);
            continue;
        }
        uint64_t room = most - reader->left;
        size_t count = run_of(reader, in + at, room < size - at ? (size_t)room : size - at);
        if (count == 0 && reader->phase != FAILED) {
            last = step(reader, in[at]);
            count = 1;
        }
        at += count;
        reader->left += count;
    }
    *used = at;
    return last;
}

// ---- Heads --------------------------------------------------------------------------------------

// Forgets the message before, and passes over one empty line, which RFC 9112 section 2.2 lets stand
// before a request. True when a message begins.
static bool begin_message(struct mare__http_reader *reader, const uint8_t *in, size_t size,
                          size_t *used)
{
    reader->text.size = 0;
    reader->head = (struct mare__http_head){0};
    for (*used = 0; *used < size; ++*used) {
        uint8_t byte = in[*used];
        if (reader->state == BLANK_CR && byte == '\n') {
            reader->blank_line = true;
            reader->state = START;
        } else if (reader->state == BLANK_CR) {
            mare__http_fail(reader, 400, bare_cr);
            return false;
        } else if (byte == '\r' && reader->kind == MARE__HTTP_REQUESTS && !reader->blank_line) {
            reader->state = BLANK_CR;
        } else {
            reader->state = reader->kind == MARE__HTTP_REQUESTS ? METHOD : STATUS;
            reader->blank_line = false;
            reader->line_size = reader->line_count = 0;
            reader->left = 0;
            return true;
        }
    }
    return false;
}

static enum mare__http_event begin_body(struct mare__http_reader *reader)
{
    static const uint8_t phases[] = {
        [MARE__HTTP_BODY_NONE] = ENDING,
        [MARE__HTTP_BODY_LENGTH] = BODY,
        [MARE__HTTP_BODY_CHUNKED] = CHUNKED,
        [MARE__HTTP_BODY_UNTIL_CLOSE] = UNTIL_CLOSE,
    };
    reader->phase = phases[reader->head.body];
    reader->state = CHUNK;
    reader->left = reader->head.length;
    reader->received = 0;
    reader->extension_size = 0;
    reader->body_limit = reader->limits.body;
    return MARE__HTTP_HEAD;
}

static enum mare__http_event read_head(struct mare__http_reader *reader, const uint8_t *in,
                                       size_t size, size_t *used)
{
    size_t blank = 0, count = 0;
    bool inside = reader->state != START && reader->state != BLANK_CR;
    bool whole = false;
    if (inside || begin_message(reader, in, size, &blank)) {
        uint32_t most = reader->limits.head;
        whole = pass_lines(reader, most < MARE__HTTP_HEAD_MOST ? most : MARE__HTTP_HEAD_MOST,
                           in + blank, size - blank, &count);
    }
    *used = blank + count;
    if (reader->phase == FAILED)
        return MARE__HTTP_ERROR;
    if (mare__bytes_add(&reader->text, in + blank, count)) {
        mare__http_reader_lose(reader);
        return MARE__HTTP_ERROR;
    }
    if (!whole)
        return MARE__HTTP_MORE;
    return mare__http_understand(reader) ? begin_body(reader) : MARE__HTTP_ERROR;
}

// ---- Bodies -------------------------------------------------------------------------------------

static enum mare__http_event fail_body(struct mare__http_reader *reader)
{
    return mare__http_fail(reader, 413, "the body is too large");
}

// Whether the body may have so many more bytes.
static bool may_have(const struct mare__http_reader *reader, uint64_t more)
{
    return reader->received <= reader->body_limit && more <= reader->body_limit - reader->received;
}

static enum mare__http_event give(struct mare__http_reader *reader, const uint8_t *in, size_t size)
{
    reader->slice = (struct mare__span){(const char *)in, size};
    reader->received += size;
    return MARE__HTTP_BODY;
}

static enum mare__http_event end_message(struct mare__http_reader *reader)
{
    const struct mare__http_head *head = &reader->head;
    bool tunnel = reader->answers == MARE__HTTP_ANSWERS_CONNECT && head->status / 100 == 2;
    if (head->status == 101 || tunnel)
        reader->phase = SWITCHED;
    else
        reader->phase = head->keep_alive || head->interim ? HEAD : OVER;
    reader->state = START;
    if (!head->interim)
        reader->answers = MARE__HTTP_ANSWERS_ANY;
    return MARE__HTTP_END;
}

static enum mare__http_event read_length(struct mare__http_reader *reader, const uint8_t *in,
                                         size_t size, size_t *used)
{
    if (!may_have(reader, reader->left)) // refused before one byte of it was read
        return fail_body(reader);
    if (reader->left == 0)
        return end_message(reader);
    if (size == 0)
        return MARE__HTTP_MORE;
    *used = size < reader->left ? size : (size_t)reader->left;
    reader->left -= *used;
    return give(reader, in, *used);
}

static enum mare__http_event read_until_close(struct mare__http_reader *reader, const uint8_t *in,
                                              size_t size, size_t *used)
{
    if (size == 0)
        return MARE__HTTP_MORE;
    if (!may_have(reader, 1))
        return fail_body(reader);
    uint64_t room = reader->body_limit - reader->received;
    *used = size < room ? size : (size_t)room;
    return give(reader, in, *used);
}

static unsigned digit(uint8_t byte)
{
    return byte <= '9' ? byte - '0' : (byte | 0x20) - 'a' + 10;
}

// The line before a chunk has ended.
static void begin_chunk(struct mare__http_reader *reader)
{
    if (!may_have(reader, reader->left)) {
        fail_body(reader);
    } else if (reader->left > 0) {
        reader->state = CHUNK_DATA;
    } else {
        reader->phase = TRAILERS;
        reader->state = LINE;
        reader->line_count = 0;
    }
}

static void extend_chunk_line(struct mare__http_reader *reader, uint8_t state)
{
    if (reader->extension_size == reader->limits.extensions)
        mare__http_fail(reader, 413, "the chunk extensions are too large");
    reader->extension_size++;
    reader->state = state;
}

static void add_digit(struct mare__http_reader *reader, uint8_t byte)
{
    if (reader->state == CHUNK)
        reader->left = reader->line_size = 0;
    if (reader->line_size++ == CHUNK_DIGITS)
        mare__http_fail(reader, 400, "a chunk's size has too many digits");
    reader->left = reader->left << 4 | digit(byte);
    reader->state = CHUNK_SIZE;
}

// A character of the line before a chunk, or of the line break after it.
//
//     chunk = size *( white ";" extension ) CR LF data CR LF
static void step_chunk(struct mare__http_reader *reader, uint8_t byte)
{
    uint8_t state = reader->state;
    bool after_size = state == CHUNK_SIZE || state == CHUNK_SPACE;
    if ((state == CHUNK || state == CHUNK_SIZE) && mare__http_classes[byte] & MARE__HTTP_HEX)
        add_digit(reader, byte);
    else if (after_size && (byte == ' ' || byte == '\t'))
        extend_chunk_line(reader, CHUNK_SPACE);
    else if ((after_size && byte == ';') ||
             (state == CHUNK_EXTENSION && mare__http_classes[byte] & MARE__HTTP_VALUE))
        extend_chunk_line(reader, CHUNK_EXTENSION);
    else if ((state == CHUNK_SIZE || state == CHUNK_EXTENSION) && byte == '\r')
        reader->state = CHUNK_CR;
    else if (state == CHUNK_CR && byte == '\n')
        begin_chunk(reader);
    else if (state == CHUNK_END && byte == '\r')
        reader->state = CHUNK_END_CR;
    else if (state == CHUNK_END_CR && byte == '\n')
        reader->state = CHUNK;
    else
        mare__http_fail(reader, 400, "chunks that are not as they should be");
}

static enum mare__http_event read_chunked(struct mare__http_reader *reader, const uint8_t *in,
                                          size_t size, size_t *used)
{
    while (*used < size && reader->phase == CHUNKED && reader->state != CHUNK_DATA)
        step_chunk(reader, in[(*used)++]);
    if (reader->phase == FAILED)
        return MARE__HTTP_ERROR;
    if (reader->phase == TRAILERS) {
        reader->left = 0; // from here it counts the bytes of extensions
        return MARE__HTTP_MORE;
    }
    if (*used == size)
        return MARE__HTTP_MORE;
    size_t count = size - *used < reader->left ? size - *used : (size_t)reader->left;
    const uint8_t *data = in + *used;
    *used += count;
    reader->left -= count;
    if (reader->left == 0)
        reader->state = CHUNK_END;
    return give(reader, data, count);
}

// RFC 9110 section 6.5.1 allows trailers to be thrown away. Even so they must be well formed.
static enum mare__http_event read_trailers(struct mare__http_reader *reader, const uint8_t *in,
                                           size_t size, size_t *used)
{
    bool whole = pass_lines(reader, reader->limits.trailers, in, size, used);
    if (reader->phase == FAILED)
        return MARE__HTTP_ERROR;
    return whole ? end_message(reader) : MARE__HTTP_MORE;
}

// ---- Reading ------------------------------------------------------------------------------------

static enum mare__http_event read_phase(struct mare__http_reader *reader, const uint8_t *in,
                                        size_t size, size_t *used)
{
    switch ((enum phase)reader->phase) {
    case HEAD:
        return read_head(reader, in, size, used);
    case BODY:
        return read_length(reader, in, size, used);
    case CHUNKED:
        return read_chunked(reader, in, size, used);
    case TRAILERS:
        return read_trailers(reader, in, size, used);
    case UNTIL_CLOSE:
        return read_until_close(reader, in, size, used);
    case ENDING:
        return end_message(reader);
    case OVER:
        *used = size;
        return MARE__HTTP_MORE;
    case SWITCHED:
        return MARE__HTTP_MORE;
    case FAILED:
        break;
    }
    return MARE__HTTP_ERROR;
}

enum mare__http_event mare__http_read(struct mare__http_reader *reader, const void *bytes,
                                      size_t size, size_t *used)
{
    const uint8_t *in = bytes ? bytes : (const uint8_t *)"";
    enum mare__http_event event;
    size_t count;
    *used = 0;
    do { // the last chunk may have ended, and trailers follow
        count = 0;
        event = read_phase(reader, in + *used, size - *used, &count);
        *used += count;
    } while (event == MARE__HTTP_MORE && count > 0 && *used < size);
    return event;
}

enum mare__http_event mare__http_read_end(struct mare__http_reader *reader)
{
    bool between = reader->phase == HEAD && (reader->state == START || reader->state == BLANK_CR);
    if (reader->phase == FAILED)
        return MARE__HTTP_ERROR;
    if (reader->phase == OVER || reader->phase == SWITCHED || between)
        return MARE__HTTP_MORE;
    if (reader->phase == UNTIL_CLOSE || reader->phase == ENDING ||
        (reader->phase == BODY && reader->left == 0))
        return end_message(reader);
    return mare__http_fail(reader, 400, "the message was cut short");
}
