// SPDX-License-Identifier: MIT
// Keys, certificates, lists and signatures in Lua: private keys as secrets, all else as text.
// lua/mare/keys.lua keeps them in files.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/net.h"
#include "lua/secret.h"
#include "platform/keys.h"

enum { HOSTS_MAX = 64, RANDOM_MAX = 256 };

static const char *const uses[] = {"other", "authority", "node", "code", NULL};

static int push_text(lua_State *L, char *text, const struct mare__tls_error *error)
{
    if (!text)
        return mare__lua_fail_tls(L, error);
    lua_pushstring(L, text);
    mare__free(text);
    return 1;
}

static const char *optional_text(lua_State *L, int index)
{
    return lua_isnoneornil(L, index) ? NULL : mare__lua_name(L, index);
}

// The PEM text of a private key at a stack index.
static const char *check_key(lua_State *L, int index)
{
    size_t size;
    const char *key = mare__lua_secret_bytes(L, index, &size);
    luaL_argcheck(L, strlen(key) == size, index, "a key cannot contain zero bytes");
    return key;
}

// key(): a new private one.
static int new_key(lua_State *L)
{
    struct mare__tls_error error;
    char *text = mare__key_make(&error);
    if (!text)
        return mare__lua_fail_tls(L, &error);
    int results = mare__lua_push_secret(L, text, strlen(text));
    mare__key_forget(text);
    return results;
}

// random(size): so many bytes.
static int random_bytes(lua_State *L)
{
    struct mare__tls_error error;
    char bytes[RANDOM_MAX];
    lua_Integer size = luaL_checkinteger(L, 1);
    luaL_argcheck(L, size >= 1 && size <= RANDOM_MAX, 1, "1 to 256 bytes are possible");
    if (!mare__key_random(bytes, (size_t)size, &error))
        return mare__lua_fail_tls(L, &error);
    lua_pushlstring(L, bytes, (size_t)size);
    return 1;
}

// digest(bytes): SHA-256, hexadecimal.
static int digest(lua_State *L)
{
    struct mare__tls_error error;
    char text[65];
    size_t size;
    const char *bytes = mare__lua_secret_bytes(L, 1, &size);
    if (!mare__key_digest(bytes, size, text, &error))
        return mare__lua_fail_tls(L, &error);
    lua_pushstring(L, text);
    return 1;
}

// certificate(use, group or nil, name, seconds, key, issuer or nil, issuer's key or nil, host...)
static int new_certificate(lua_State *L)
{
    struct mare__tls_error error;
    const char *hosts[HOSTS_MAX];
    int count = lua_gettop(L) > 7 ? lua_gettop(L) - 7 : 0;
    lua_Number seconds = luaL_checknumber(L, 4);
    luaL_argcheck(L, fabs(seconds) < 36525 * 86400.0, 4, "more than a hundred years");
    luaL_argcheck(L, count <= HOSTS_MAX, 8, "64 names are enough");
    for (int i = 0; i < count; i++)
        hosts[i] = mare__lua_name(L, i + 8);
    const struct mare__certificate_wish wish = {
        .use = (enum mare__key_use)luaL_checkoption(L, 1, NULL, uses),
        .group = optional_text(L, 2),
        .name = mare__lua_name(L, 3),
        .hosts = hosts,
        .host_count = count,
        .seconds = (int64_t)seconds,
        .key = check_key(L, 5),
        .issuer = optional_text(L, 6),
        .issuer_key = lua_isnoneornil(L, 7) ? NULL : check_key(L, 7),
    };
    luaL_argcheck(L, !wish.issuer == !wish.issuer_key, 7, "a certificate and its key go together");
    return push_text(L, mare__certificate_make(&wish, &error), &error);
}

// look(certificate): what it says, as a table.
static int look(lua_State *L)
{
    struct mare__tls_error error;
    struct mare__certificate_facts facts;
    if (!mare__certificate_look(mare__lua_name(L, 1), &facts, &error))
        return mare__lua_fail_tls(L, &error);
    mare__lua_push_peer(L, &facts.about);
    lua_pushstring(L, uses[facts.use]);
    lua_setfield(L, -2, "use");
    lua_pushstring(L, facts.serial);
    lua_setfield(L, -2, "serial");
    lua_pushinteger(L, facts.begins);
    lua_setfield(L, -2, "begins");
    return 1;
}

static int answer(lua_State *L, bool done, const struct mare__tls_error *error)
{
    if (!done)
        return mare__lua_fail_tls(L, error);
    lua_pushboolean(L, true);
    return 1;
}

// verify(certificate, trusted, use)
static int verify(lua_State *L)
{
    struct mare__tls_error error;
    const char *certificate = mare__lua_name(L, 1), *trusted = mare__lua_name(L, 2);
    enum mare__key_use use = (enum mare__key_use)luaL_checkoption(L, 3, "other", uses);
    return answer(L, mare__certificate_verify(certificate, trusted, use, &error), &error);
}

// list(issuer, issuer's key, list before or nil, revoked certificate or nil)
static int new_list(lua_State *L)
{
    struct mare__tls_error error;
    const char *issuer = mare__lua_name(L, 1), *key = check_key(L, 2);
    return push_text(
        L, mare__list_make(issuer, key, optional_text(L, 3), optional_text(L, 4), &error), &error);
}

// sign(key, bytes)
static int sign(lua_State *L)
{
    struct mare__tls_error error;
    unsigned char signature[MARE__SIGNATURE_SIZE];
    size_t size;
    const char *key = check_key(L, 1), *bytes = luaL_checklstring(L, 2, &size);
    if (!mare__key_sign(key, bytes, size, signature, &error))
        return mare__lua_fail_tls(L, &error);
    lua_pushlstring(L, (const char *)signature, sizeof signature);
    return 1;
}

// check(certificate, bytes, signature)
static int check(lua_State *L)
{
    struct mare__tls_error error;
    size_t size, length;
    const char *certificate = mare__lua_name(L, 1), *bytes = luaL_checklstring(L, 2, &size);
    const char *signature = luaL_checklstring(L, 3, &length);
    luaL_argcheck(L, length == MARE__SIGNATURE_SIZE, 3, "a signature has 64 bytes");
    return answer(
        L, mare__key_check(certificate, bytes, size, (const unsigned char *)signature, &error),
        &error);
}

int mare__lua_open_certificate(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"key", new_key},   {"random", random_bytes},
        {"digest", digest}, {"certificate", new_certificate},
        {"look", look},     {"verify", verify},
        {"list", new_list}, {"sign", sign},
        {"check", check},   {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
