// SPDX-License-Identifier: MIT
// TLS in Lua: contexts, and what a stream has to do with them. Reading and writing are those of any
// stream (net.c). lua/mare/tls.lua makes the module `mare.tls` of this.
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/job.h"
#include "lua/net.h"
#include "lua/secret.h"

static struct mare__tls_context *check_context(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_TLS);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "tls context");
    return (struct mare__tls_context *)ref->object;
}

// ---- Contexts -----------------------------------------------------------------------------------

// A field of the table of options: text, or NULL. It stays in the table, and so valid.
static const char *get_text(lua_State *L, const char *name)
{
    size_t size = 0;
    int type = lua_getfield(L, 1, name);
    const char *text = type == LUA_TSTRING ? lua_tolstring(L, -1, &size) : NULL;
    const struct mare__secret *secret = mare__lua_secret_test(L, -1);
    if (secret && strcmp(name, "key") == 0) {
        if (!strstr(secret->bytes, "-----BEGIN")) // it is no path either: messages have paths
            luaL_error(L, "option 'key': this secret is no private key in PEM form");
        text = secret->bytes;
        size = secret->size;
    }
    if (type != LUA_TNIL && (!text || strlen(text) != size))
        luaL_error(L, "option '%s' must be a string without zero bytes", name);
    lua_pop(L, 1);
    return text;
}

static int get_number(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    int number = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return number;
}

// The keys of the table `psk` of the options, packed for mare__tls_options, to be wiped and freed.
// lua/mare/tls.lua has checked them, but for the sizes of secrets, which TLS checks. NULL: there is
// no such table, or not enough memory.
static char *pack_keys(lua_State *L, size_t *size)
{
    size_t length, key_size;
    char *packed = NULL;
    *size = 0;
    if (lua_getfield(L, 1, "psk") == LUA_TTABLE) {
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING ||
                (lua_type(L, -1) != LUA_TSTRING && !mare__lua_secret_test(L, -1)))
                luaL_error(L, "option 'psk' must be a table of keys by identity");
            mare__lua_secret_bytes(L, -1, &key_size);
            lua_tolstring(L, -2, &length);
            *size += 3 + length + key_size;
        }
        packed = mare__alloc(*size);
        char *at = packed;
        for (lua_pushnil(L); packed && lua_next(L, -2); lua_pop(L, 1)) {
            const char *key = mare__lua_secret_bytes(L, -1, &key_size);
            const char *identity = lua_tolstring(L, -2, &length);
            *at++ = (char)length;
            at = (char *)memcpy(at, identity, length) + length;
            size_t told = key_size < UINT16_MAX ? key_size : UINT16_MAX; // too large all the same
            *at++ = (char)(told >> 8);
            *at++ = (char)told;
            at = mare__secret_copy(at, key, key_size);
        }
    }
    lua_pop(L, 1);
    return packed;
}

static int job_done(lua_State *L, int status, lua_KContext none)
{
    (void)status, (void)none;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__tls_job *tls = (struct mare__tls_job *)ref->object;
    mare_err err = mare__lua_job_outcome(L, &tls->job);
    int results = 1;
    if (err)
        results = mare__lua_fail_job(L, &tls->job, err);
    else if (!tls->context)
        results = mare__lua_fail_tls(L, &tls->error);
    else
        mare__handle_push(L, mare__ref(&tls->context->object));
    mare__handle_forget(L, ref); // it may have a key in it
    return results;
}

// Waits for the job, and returns its context.
static int do_job(lua_State *L, struct mare__tls_job *tls, uint64_t deadline)
{
    if (!tls)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, tls);
    mare__block_check(L, mare__self(L));
    if (!mare__job_start(&tls->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &tls->job, deadline, job_done, 0);
}

// context(options [, timeout]): see lua/mare/tls.lua, which has checked `verify`, `oldest`,
// `newest` and `protocols`.
static int new_context(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    uint64_t deadline = mare__lua_deadline(L, 2);
    lua_getfield(L, 1, "protocols");
    lua_getfield(L, 1, "staple");
    struct mare__tls_options options = {
        .certificate = get_text(L, "certificate"),
        .key = get_text(L, "key"),
        .password = get_text(L, "password"),
        .authorities = get_text(L, "authorities"),
        .ciphers = get_text(L, "ciphers"),
        .suites = get_text(L, "suites"),
        .revoked = get_text(L, "revoked"),
        .resumes = get_number(L, "resumes") != 0,
        .verify = (enum mare__tls_verify)get_number(L, "verify"),
        .ocsp = (enum mare__tls_ocsp)get_number(L, "ocsp"),
        .oldest = get_number(L, "oldest"),
        .newest = get_number(L, "newest"),
    };
    options.protocols = lua_tolstring(L, -2, &options.protocols_size);
    options.staple = lua_tolstring(L, -1, &options.staple_size);
    char *keys = pack_keys(L, &options.keys_size);
    if (!keys && options.keys_size > 0)
        return mare__lua_fail(L, MARE_NOMEM);
    options.keys = keys;
    struct mare__tls_job *job = mare__tls_job_make(mare__self(L)->shared.runtime, &options);
    if (keys)
        explicit_bzero(keys, options.keys_size);
    mare__free(keys);
    return do_job(L, job, deadline);
}

// trust(context [, timeout]): what clients made with it have to read is read.
static int trust_system(lua_State *L)
{
    struct mare__tls_context *context = check_context(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    lua_settop(L, 1);
    if (!mare__tls_context_owes(context))
        return 1;
    return do_job(L, mare__tls_job_trust(mare__self(L)->shared.runtime, context), deadline);
}

// name(context, name, other): for one that is new.
static int name_context(lua_State *L)
{
    struct mare__tls_context *context = check_context(L, 1);
    if (!mare__tls_context_name(context, mare__lua_name(L, 2), check_context(L, 3)))
        return mare__lua_fail(L, MARE_NOMEM);
    lua_settop(L, 1);
    return 1;
}

// c:replace(other)
static int context_replace(lua_State *L)
{
    mare__tls_context_replace(check_context(L, 1), check_context(L, 2));
    lua_settop(L, 1);
    return 1;
}

// c:staple(response [, timeout])
static int context_staple(lua_State *L)
{
    size_t size;
    struct mare__tls_context *context = check_context(L, 1);
    const char *source = luaL_checklstring(L, 2, &size);
    uint64_t deadline = mare__lua_deadline(L, 3);
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    return do_job(L, mare__tls_job_staple(runtime, context, source, size), deadline);
}

const luaL_Reg mare__tls_methods[] = {
    {"replace", context_replace}, {"staple", context_staple}, {NULL, NULL}};

// ---- Streams ------------------------------------------------------------------------------------

static uint64_t handshake_time(lua_State *L, int index)
{
    lua_Number seconds = luaL_checknumber(L, index);
    luaL_argcheck(L, seconds > 0, index, "the time for a handshake is positive");
    return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : MARE_FOREVER;
}

// secure(stream, context, seconds, server [, name]): its bytes go through TLS from now on.
static int secure_stream(lua_State *L)
{
    struct mare__tls_error error;
    struct mare__stream *stream = mare__lua_stream(L, 1);
    struct mare__tls_context *context = check_context(L, 2);
    uint64_t time = handshake_time(L, 3);
    const char *name = lua_isnoneornil(L, 5) ? NULL : mare__lua_name(L, 5);
    luaL_argcheck(L, stream->object.waiters == 0, 1, "a routine waits for the stream");
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    luaL_argcheck(L, stream->transport->ops->plain, 1, "it is over TLS already");
    if (!mare__stream_secure(stream, context, lua_toboolean(L, 4), name, time, &error))
        return mare__lua_fail_tls(L, &error);
    mare__object_gains(&stream->object, MARE__TLS_WEIGHT);
    mare__self(L)->weight += MARE__TLS_WEIGHT;
    lua_settop(L, 1);
    return 1;
}

// offer(stream): HTTP/2 and HTTP/1.1, by ALPN, in the handshake that is still to come.
static int offer_http2(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    if (!mare__stream_closed(stream))
        mare__tls_offer_http2(stream->transport);
    return 0;
}

// listen(listener, context, seconds): what it accepts is over TLS.
static int secure_listener(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_LISTENER);
    if (!ref || mare__handle_moved(ref))
        return luaL_typeerror(L, 1, "listener");
    struct mare__stream *listener = (struct mare__stream *)ref->object;
    struct mare__tls_context *context = check_context(L, 2);
    listener->handshake_ns = handshake_time(L, 3);
    if (!mare__tls_context_serves(context)) { // rather than refuse one connection after the other
        lua_pushstring(L, mare__tls_no_server);
        return mare__lua_fail_with(L, MARE_INVALID);
    }
    struct mare__tls_context *before = listener->context;
    listener->context = mare__ref(&context->object);
    if (before)
        mare__unref(&before->object);
    lua_settop(L, 1);
    return 1;
}

static void set_text(lua_State *L, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

void mare__lua_push_peer(lua_State *L, const struct mare__tls_facts *facts)
{
    lua_createtable(L, 0, 5);
    set_text(L, "subject", facts->subject);
    set_text(L, "issuer", facts->issuer);
    set_text(L, "fingerprint", facts->fingerprint);
    lua_pushinteger(L, facts->expires);
    lua_setfield(L, -2, "expires");
    lua_newtable(L);
    size_t at = 0;
    for (lua_Integer i = 1; at < facts->names_size; i++) {
        lua_pushstring(L, facts->names + at);
        lua_rawseti(L, -2, i);
        at += strlen(facts->names + at) + 1;
    }
    lua_setfield(L, -2, "names");
}

// s:tls(): what was agreed on; nil for a stream that is not over TLS.
int mare__lua_stream_tls(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    struct mare__tls_facts facts;
    if (!mare__stream_facts(stream, &facts)) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 6);
    set_text(L, "version", facts.version);
    set_text(L, "cipher", facts.cipher);
    set_text(L, "name", facts.server_name);
    set_text(L, "protocol", facts.protocol);
    set_text(L, "identity", facts.identity);
    lua_pushboolean(L, facts.verified);
    lua_setfield(L, -2, "verified");
    lua_pushboolean(L, facts.resumed);
    lua_setfield(L, -2, "resumed");
    lua_pushboolean(L, facts.stapled);
    lua_setfield(L, -2, "stapled");
    if (facts.has_peer) {
        mare__lua_push_peer(L, &facts);
        set_text(L, "certificate", facts.certificate);
        lua_setfield(L, -2, "peer");
    }
    return 1;
}

// ---- Certificates -------------------------------------------------------------------------------

enum { NAMES_MAX = 64 };

// selfsigned(days, name...): a certificate and its key.
static int new_selfsigned(lua_State *L)
{
    struct mare__tls_error error;
    const char *names[NAMES_MAX];
    char *certificate, *key;
    int count = lua_gettop(L) - 1;
    lua_Number days = luaL_checknumber(L, 1);
    luaL_argcheck(L, fabs(days) < 36525, 1, "more than a hundred years");
    luaL_argcheck(L, count >= 1 && count <= NAMES_MAX, 2, "between 1 and 64 names are possible");
    for (int i = 0; i < count; i++)
        names[i] = mare__lua_name(L, i + 2);
    if (!mare__tls_selfsigned(names, count, (int64_t)(days * 86400), &certificate, &key, &error))
        return mare__lua_fail_tls(L, &error);
    lua_pushstring(L, certificate);
    lua_pushstring(L, key);
    mare__free(certificate);
    mare__free(key);
    return 2;
}

int mare__lua_open_tls(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"context", new_context},       {"name", name_context},
        {"trust", trust_system},        {"secure", secure_stream},
        {"listen", secure_listener},    {"offer", offer_http2},
        {"selfsigned", new_selfsigned}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
