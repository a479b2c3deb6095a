// SPDX-License-Identifier: MIT
// Names of hosts, addresses and services in Lua: for mare.net, and for LuaSocket, which knows more
// about them and has its own words.
#include <errno.h>
#include <string.h>

#include "lua/job.h"
#include "lua/socket.h"

int mare__lua_look_up(lua_State *L, const char *host, uint64_t deadline, lua_KFunction then)
{
    struct mare__local *self = mare__self(L);
    mare__block_check(L, self);
    struct mare__lookup *lookup = mare__lookup_new(self->shared.runtime, host);
    if (!lookup)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, lookup);
    if (!mare__job_start(&lookup->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &lookup->job, deadline, then, 0);
}

int mare__lua_fail_lookup(lua_State *L, const char *host, const struct mare__resolving *naming,
                          const char *why)
{
    if (naming->err)
        why = strerror(naming->err);
    else if (naming->status)
        why = mare__resolve_error(naming->status);
    lua_pushfstring(L, "cannot resolve '%s': %s", host, why);
    return mare__lua_fail_with(L, naming->err ? mare__lua_code_of(naming->err) : MARE_NONAME);
}

static int resolve_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    mare_err err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
    const struct mare__resolving *lookup = &((struct mare__lookup *)ref->object)->naming;
    if (err)
        return mare__lua_fail_job(L, (struct mare__job *)ref->object, err);
    if (lookup->status)
        return mare__lua_fail_lookup(L, lua_tostring(L, 1), lookup, "");
    lua_createtable(L, lookup->count, 0);
    for (int i = 0; i < lookup->count; i++) {
        char host[MARE__HOST_MAX];
        mare__address_text(&lookup->addresses[i], host);
        lua_pushstring(L, host);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

// resolve(host[, timeout]): a list of numeric addresses.
int mare__lua_net_resolve(lua_State *L)
{
    struct mare__address numeric;
    const char *host = mare__lua_name(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (mare__address_numeric(&numeric, host, 0)) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, 1);
        lua_rawseti(L, -2, 1);
        return 1;
    }
    return mare__lua_look_up(L, host, deadline, resolve_done);
}

// ---- LuaSocket ----------------------------------------------------------------------------------

static const char unknown[] = "host or service not provided, or not known";

static const char *family_of(const struct mare__address *address)
{
    return address->storage.ss_family == AF_INET6 ? "inet6" : "inet";
}

static int inquiry_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    const struct mare__lookup *lookup = (struct mare__lookup *)ref->object;
    const struct mare__resolving *naming = &lookup->naming;
    mare_err err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
    if (err)
        return mare__lua_socket_waited(L, err);
    if (naming->status)
        return mare__lua_socket_fail_words(L, mare__resolve_words(naming->status));
    if (!*lookup->host) {
        lua_pushstring(L, naming->name);
        return 1;
    }
    lua_createtable(L, naming->count, 0);
    for (int i = 0; i < naming->count; i++) {
        char host[MARE__HOST_MAX];
        mare__address_text(&naming->addresses[i], host);
        lua_createtable(L, 0, 2);
        lua_pushstring(L, host);
        lua_setfield(L, -2, "addr");
        lua_pushstring(L, family_of(&naming->addresses[i]));
        lua_setfield(L, -2, "family");
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushstring(L, naming->name);
    return 2;
}

static int inquire(lua_State *L, struct mare__lookup *lookup, uint64_t deadline, lua_KFunction then)
{
    if (!lookup)
        return mare__lua_socket_waited(L, MARE_NOMEM);
    mare__handle_push_new(L, lookup);
    if (!mare__job_start(&lookup->job))
        return mare__lua_socket_waited(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &lookup->job, deadline, then, 0);
}

// find(host, family or nil [, deadline]): a list of {addr =, family =}, and the canonical name
int mare__lua_socket_find(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    const char *host = luaL_checkstring(L, 1), *family = luaL_optstring(L, 2, "");
    uint64_t deadline = mare__lua_deadline(L, 3);
    if (!*host)
        return mare__lua_socket_fail_words(L, unknown);
    mare__block_check(L, self);
    struct mare__lookup *lookup = mare__lookup_new(self->shared.runtime, host);
    if (lookup) {
        lookup->naming.canonical = true;
        lookup->naming.family = strcmp(family, "inet") == 0    ? AF_INET
                                : strcmp(family, "inet6") == 0 ? AF_INET6
                                                               : AF_UNSPEC;
    }
    return inquire(L, lookup, deadline, inquiry_done);
}

// nameof(address, whether it must have one [, deadline])
int mare__lua_socket_nameof(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    struct mare__address address;
    uint64_t deadline = mare__lua_deadline(L, 3);
    if (!mare__address_numeric(&address, luaL_checkstring(L, 1), 0))
        return mare__lua_socket_fail_words(L, unknown);
    mare__block_check(L, self);
    struct mare__lookup *lookup = mare__lookup_new(self->shared.runtime, "");
    if (lookup) {
        lookup->naming.addresses[0] = address;
        lookup->naming.must_exist = lua_toboolean(L, 2);
    }
    return inquire(L, lookup, deadline, inquiry_done);
}

// numeric(host): its family, or nothing if it is a name
int mare__lua_socket_numeric(lua_State *L)
{
    struct mare__address address;
    if (!mare__address_numeric(&address, luaL_checkstring(L, 1), 0))
        return 0;
    lua_pushstring(L, family_of(&address));
    return 1;
}

static int service_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    const struct mare__lookup *lookup = (struct mare__lookup *)ref->object;
    mare_err err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
    if (err)
        return mare__lua_socket_waited(L, err);
    if (!*lookup->host)
        lua_pushstring(L, lookup->naming.name);
    else if (lookup->naming.port >= 0)
        lua_pushinteger(L, lookup->naming.port);
    else
        lua_pushnil(L);
    return 1;
}

// The system's list of services may lie on a disk, or with a server that is asked.
static int ask_service(lua_State *L, const char *name, bool datagrams, int port, uint64_t deadline)
{
    struct mare__local *self = mare__self(L);
    mare__block_check(L, self);
    struct mare__lookup *lookup = mare__lookup_new(self->shared.runtime, name);
    if (lookup) {
        lookup->naming.is_service = true;
        lookup->naming.datagrams = datagrams;
        lookup->naming.port = port;
    }
    return inquire(L, lookup, deadline, service_done);
}

// service(name or number [, of datagrams [, deadline]]): its number; or nil, if there is none, and
// why if that is not known
int mare__lua_socket_service(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 3);
    if (*name && !name[strspn(name, "0123456789")]) {
        const struct mare__platform *platform = &mare__self(L)->shared.runtime->platform;
        int number = platform->names->service_number(platform->context, name, false);
        if (number >= 0)
            lua_pushinteger(L, number);
        return number >= 0;
    }
    return *name ? ask_service(L, name, lua_toboolean(L, 2), -1, deadline) : 0;
}

// servicename(number)
int mare__lua_socket_servicename(lua_State *L)
{
    return ask_service(L, "", false, (int)luaL_checkinteger(L, 1), MARE_FOREVER);
}

int mare__lua_socket_hostname(lua_State *L)
{
    char name[MARE__HOST_MAX];
    int err = mare__host_name(name);
    if (err)
        return mare__lua_socket_fail_words(L, strerror(-err));
    lua_pushstring(L, name);
    return 1;
}
