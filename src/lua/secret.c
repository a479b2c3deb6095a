// SPDX-License-Identifier: MIT
// Secrets in Lua: private keys and keys that two sides share, as objects that Lua code passes on
// and cannot look into. lua/mare/_keystore.lua and keys.lua use this.
#include "lua/secret.h"

#include <errno.h>
#include <string.h>

#include "loop/secret.h"
#include "lua/file.h"
#include "lua/net.h"
#include "platform/keys.h"
#include "wire/psk.h"

// ---- Arguments ----------------------------------------------------------------------------------

struct mare__secret *mare__lua_secret_test(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_SECRET);
    return ref ? (struct mare__secret *)ref->object : NULL;
}

static struct mare__secret *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_SECRET);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "secret");
    return (struct mare__secret *)ref->object;
}

const char *mare__lua_secret_bytes(lua_State *L, int index, size_t *size)
{
    const struct mare__secret *secret = mare__lua_secret_test(L, index);
    if (!secret)
        return luaL_checklstring(L, index, size);
    *size = secret->size;
    return secret->bytes;
}

int mare__lua_push_secret(lua_State *L, const void *bytes, size_t size)
{
    struct mare__secret *secret = mare__secret_new(size);
    if (!secret)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__secret_copy(secret->bytes, bytes, size);
    mare__handle_push_new(L, secret);
    return 1;
}

// ---- Files --------------------------------------------------------------------------------------

static int push_outcome(lua_State *L, struct mare__secret_job *job)
{
    if (job->result == -EPERM && job->info.kind) {
        lua_pushboolean(L, false);
        lua_pushstring(L, job->info.kind);
        lua_pushinteger(L, job->info.permissions);
        return 3;
    }
    if (job->result < 0)
        return mare__lua_fail_file(L, job->path, -job->result);
    if (job->writes)
        lua_pushboolean(L, true);
    else
        mare__handle_push(L, mare__ref(&job->secret->object));
    return 1;
}

static int job_done(lua_State *L, int status, lua_KContext none)
{
    (void)status, (void)none;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__secret_job *job = (struct mare__secret_job *)ref->object;
    mare_err err = mare__lua_job_outcome(L, &job->job);
    int results = err ? mare__lua_fail_job(L, &job->job, err) : push_outcome(L, job);
    mare__handle_forget(L, ref);
    return results;
}

static int do_job(lua_State *L, struct mare__secret_job *job)
{
    if (!job)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, job);
    mare__block_check(L, mare__self(L));
    if (!mare__job_start(&job->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &job->job, MARE_FOREVER, job_done, 0);
}

// read(path, denied): a secret; or false, kind, permissions, if it is no file, or has one of these
static int secret_read(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    unsigned denied = (unsigned)luaL_checkinteger(L, 2);
    return do_job(L, mare__secret_job_read(mare__self(L)->shared.runtime, path, denied));
}

// write(path, secret): into a new file, for its owner alone
static int secret_write(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    struct mare__secret *secret = check(L, 2);
    return do_job(L, mare__secret_job_write(mare__self(L)->shared.runtime, path, secret));
}

// ---- What is in them ----------------------------------------------------------------------------

// is_pem(secret): whether it is a text with something in PEM form
static int secret_is_pem(lua_State *L)
{
    const struct mare__secret *secret = check(L, 1);
    lua_pushboolean(L, strlen(secret->bytes) == secret->size &&
                           strstr(secret->bytes, "-----BEGIN") != NULL);
    return 1;
}

// same(a, b): in a time that says nothing of where they differ
static int secret_same(lua_State *L)
{
    size_t size, other_size;
    const char *a = mare__lua_secret_bytes(L, 1, &size);
    const char *b = mare__lua_secret_bytes(L, 2, &other_size);
    lua_pushboolean(L, mare__secret_equal(a, size, b, other_size));
    return 1;
}

// psk(secret): the keys in it, secrets by identity; or nil and the number of the line that is none
static int secret_psk(lua_State *L)
{
    const struct mare__secret *secret = check(L, 1);
    struct mare__psk line;
    size_t at = 0;
    int found;
    lua_newtable(L);
    for (lua_Integer number = 1;
         (found = mare__psk_next(secret->bytes, secret->size, &at, &line)) != 0; number++) {
        if (found < 0) {
            lua_pushnil(L);
            lua_pushinteger(L, number);
            return 2;
        }
        struct mare__secret *key = mare__secret_new(line.size);
        if (!key)
            return mare__lua_fail(L, MARE_NOMEM);
        mare__psk_key(&line, key->bytes);
        mare__handle_push_new(L, key);
        lua_pushlstring(L, line.identity, line.identity_size);
        lua_insert(L, -2);
        lua_rawset(L, -3);
    }
    return 1;
}

// make(identity, size): a new key of so many bytes, and the line for it
static int secret_make(lua_State *L)
{
    struct mare__tls_error error;
    const char *identity = mare__lua_name(L, 1);
    lua_Integer size = luaL_checkinteger(L, 2);
    luaL_argcheck(L, size >= MARE__PSK_KEY_MIN && size <= MARE__PSK_KEY_MAX, 2, "too few or many");
    struct mare__secret *key = mare__secret_new((size_t)size);
    if (!key)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, key);
    if (!mare__key_random(key->bytes, key->size, &error))
        return mare__lua_fail_tls(L, &error);
    struct mare__secret *line = mare__secret_new(strlen(identity) + 2 + 2 * key->size);
    if (!line)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, line);
    mare__psk_write(line->bytes, identity, key->bytes, key->size);
    line->bytes[line->size - 1] = '\n';
    return 2;
}

// forget(secret or context), and at the end of a variable with <close>: what is left of it is an
// empty reference. What nobody else refers to is wiped now, and not when it is collected.
static int secret_forget(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_SECRET);
    if (!ref)
        ref = mare__handle_of(L, 1, MARE__KIND_TLS);
    if (ref)
        mare__handle_forget(L, ref);
    return 0;
}

const luaL_Reg mare__secret_metamethods[] = {{"__close", secret_forget}, {NULL, NULL}};

int mare__lua_open_secret(lua_State *L)
{
    static const luaL_Reg private_functions[] = {{"read", secret_read},     {"write", secret_write},
                                                 {"is_pem", secret_is_pem}, {"same", secret_same},
                                                 {"psk", secret_psk},       {"make", secret_make},
                                                 {"forget", secret_forget}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
