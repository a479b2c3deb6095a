// SPDX-License-Identifier: MIT
// The handshake of RFC 6455 section 4.
#include "base/alloc.h"
#include "wire/base64.h"
#include "wire/http_inner.h"
#include "wire/sha1.h"
#include "wire/websocket.h"

// ---- Keys ---------------------------------------------------------------------------------------

void mare__ws_make_key(const uint8_t random[16], char key[MARE__WS_KEY + 1])
{
    mare__base64_encode(random, 16, key);
}

void mare__ws_make_accept(struct mare__span key, char accept[MARE__WS_ACCEPT + 1])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // section 1.3
    char text[MARE__WS_KEY + sizeof guid];
    uint8_t digest[MARE__SHA1_DIGEST];
    size_t size = key.size < MARE__WS_KEY ? key.size : MARE__WS_KEY;
    if (size)
        memcpy(text, key.at, size);
    memcpy(text + size, guid, sizeof guid);
    mare__sha1(text, size + sizeof guid - 1, digest);
    mare__base64_encode(digest, sizeof digest, accept);
}

// Whether a key is 16 bytes in Base64: 22 digits, of the last of which two bits count, and "==".
static bool key_valid(struct mare__span key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (key.size != MARE__WS_KEY || key.at[22] != '=' || key.at[23] != '=')
        return false;
    for (unsigned i = 0; i < 22; i++)
        if (!memchr(digits, key.at[i], sizeof digits - 1))
            return false;
    return true;
}

static bool equals(struct mare__span text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

// How often a field is there; the value of the last.
static unsigned count_of(const struct mare__http_head *head, const char *name,
                         struct mare__span *value)
{
    unsigned count = 0;
    for (size_t i = 0; i < head->count; i++)
        if (mare__http_same(head->fields[i].name, name)) {
            *value = head->fields[i].value;
            count++;
        }
    return count;
}

// ---- Checks -------------------------------------------------------------------------------------

int mare__ws_check_request(const struct mare__http_head *head, struct mare__span *key)
{
    struct mare__span version;
    if (!head->upgrade.size || !mare__http_has_token(head, "upgrade", "websocket"))
        return 426;
    if (!equals(head->method, "GET"))
        return 405;
    if (head->body != MARE__HTTP_BODY_NONE)
        return 400;
    unsigned versions = count_of(head, "sec-websocket-version", &version);
    if (versions != 1)
        return 400;
    if (!equals(version, "13")) // section 4.4
        return 426;
    if (count_of(head, "sec-websocket-key", key) != 1 || !key_valid(*key))
        return 400;
    return 0;
}

// Whether the one protocol is among those that were offered.
static bool was_offered(struct mare__span protocol, struct mare__span protocols)
{
    struct mare__span offer;
    while (mare__http_next_element(&protocols, &offer))
        if (offer.size > 0 && offer.size == protocol.size &&
            memcmp(offer.at, protocol.at, offer.size) == 0)
            return true;
    return false;
}

// The six points of section 4.1, "once the client's opening handshake has been sent".
const char *mare__ws_check_response(const struct mare__http_head *head, const char *key,
                                    struct mare__span protocols)
{
    char expected[MARE__WS_ACCEPT + 1];
    struct mare__span upgrade, accept, other;
    if (head->status != 101)
        return "the server did not switch protocols";
    if (count_of(head, "upgrade", &upgrade) != 1 || !mare__http_same(upgrade, "websocket"))
        return "the server did not switch to websocket";
    if (!mare__http_has_token(head, "connection", "upgrade"))
        return "the server did not upgrade the connection";
    mare__ws_make_accept(mare__span_of(key), expected);
    if (count_of(head, "sec-websocket-accept", &accept) != 1 || !equals(accept, expected))
        return "the server's answer does not fit the key";
    if (count_of(head, "sec-websocket-extensions", &other) > 0)
        return "the server wants an extension that was not offered";
    unsigned chosen = count_of(head, "sec-websocket-protocol", &other);
    if (chosen > 1 || (chosen == 1 && !was_offered(other, protocols)))
        return "the server wants a protocol that was not offered";
    return NULL;
}

// ---- Writers ------------------------------------------------------------------------------------

enum { OWN_FIELDS = 3 };

// The caller's fields and ours, in one array that the caller of this frees.
static mare_err join(const struct mare__http_field *fields, size_t count,
                     const struct mare__http_field *own, size_t own_count,
                     struct mare__http_field **out)
{
    if (count > SIZE_MAX / sizeof **out - OWN_FIELDS)
        return MARE_NOMEM;
    *out = mare__alloc((count + own_count) * sizeof **out);
    if (!*out)
        return MARE_NOMEM;
    memcpy(*out, own, own_count * sizeof *own);
    if (count)
        memcpy(*out + own_count, fields, count * sizeof *fields);
    return MARE_OK;
}

mare_err mare__ws_put_request(struct mare__bytes *out, const struct mare__http_request *request,
                              const char *key, struct mare__span protocols)
{
    const struct mare__http_field own[OWN_FIELDS] = {
        {mare__span_of("Sec-WebSocket-Key"), mare__span_of(key)},
        {mare__span_of("Sec-WebSocket-Version"), mare__span_of("13")},
        {mare__span_of("Sec-WebSocket-Protocol"), protocols},
    };
    struct mare__http_request whole = {.method = mare__span_of("GET"),
                                       .target = request->target,
                                       .host = request->host,
                                       .upgrade = mare__span_of("websocket"),
                                       .keep_alive = true};
    size_t own_count = protocols.size ? OWN_FIELDS : OWN_FIELDS - 1;
    struct mare__http_field *fields;
    mare_err err = join(request->fields, request->count, own, own_count, &fields);
    if (err)
        return err;
    whole.fields = fields;
    whole.count = request->count + own_count;
    err = mare__http_put_request(out, &whole);
    mare__free(fields);
    return err;
}

mare_err mare__ws_put_response(struct mare__bytes *out, const struct mare__http_response *response,
                               struct mare__span key, struct mare__span protocol)
{
    char accept[MARE__WS_ACCEPT + 1];
    mare__ws_make_accept(key, accept);
    const struct mare__http_field own[OWN_FIELDS] = {
        {mare__span_of("Sec-WebSocket-Accept"), mare__span_of(accept)},
        {mare__span_of("Sec-WebSocket-Protocol"), protocol},
    };
    struct mare__http_response whole = {.status = 101,
                                        .date = response->date,
                                        .upgrade = mare__span_of("websocket"),
                                        .minor = 1,
                                        .keep_alive = true};
    size_t own_count = protocol.size ? 2 : 1;
    struct mare__http_field *fields;
    mare_err err = join(response->fields, response->count, own, own_count, &fields);
    if (err)
        return err;
    whole.fields = fields;
    whole.count = response->count + own_count;
    err = mare__http_put_response(out, &whole);
    mare__free(fields);
    return err;
}
