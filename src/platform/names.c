// SPDX-License-Identifier: MIT
// Names of hosts by libuv, which asks the system's resolver in a thread of its own.
#include "platform/names.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void on_addresses(uv_getaddrinfo_t *uv, int status, struct addrinfo *list)
{
    struct mare__naming *naming = uv->data;
    naming->status = status;
    if (list && list->ai_canonname)
        snprintf(naming->name, sizeof naming->name, "%s", list->ai_canonname);
    for (struct addrinfo *at = list; at && naming->count < MARE__ADDRESSES_MAX; at = at->ai_next) {
        struct mare__address *address = &naming->addresses[naming->count++];
        memcpy(&address->storage, at->ai_addr, at->ai_addrlen);
        address->length = at->ai_addrlen;
    }
    uv_freeaddrinfo(list);
    naming->done(naming);
}

// The first call starts libuv's threads, which have their name from their maker: so this thread has
// theirs for a moment.
static void lend_name(char own[16])
{
    pthread_getname_np(pthread_self(), own, 16);
    pthread_setname_np(pthread_self(), "mare-names");
}

void mare__naming_forward(struct mare__loop *loop, struct mare__naming *naming, const char *host)
{
    struct addrinfo hints = {
        .ai_family = naming->family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    char own[16];
    naming->uv.forward.data = naming;
    lend_name(own);
    int err = uv_getaddrinfo(&loop->uv, &naming->uv.forward, on_addresses, host, NULL, &hints);
    pthread_setname_np(pthread_self(), own);
    if (err)
        on_addresses(&naming->uv.forward, err, NULL);
}

static void on_name(uv_getnameinfo_t *uv, int status, const char *name, const char *service)
{
    (void)service;
    struct mare__naming *naming = uv->data;
    naming->status = status;
    if (status == 0)
        snprintf(naming->name, sizeof naming->name, "%s", name);
    naming->done(naming);
}

void mare__naming_back(struct mare__loop *loop, struct mare__naming *naming)
{
    char own[16];
    naming->uv.back.data = naming;
    lend_name(own);
    int err = uv_getnameinfo(&loop->uv, &naming->uv.back, on_name,
                             (const struct sockaddr *)&naming->addresses[0].storage,
                             naming->must_exist ? NI_NAMEREQD : 0);
    pthread_setname_np(pthread_self(), own);
    if (err)
        on_name(&naming->uv.back, err, NULL, NULL);
}

const char *mare__naming_error(int status)
{
    switch (status) {
    case UV_EAI_AGAIN:
        return "temporary failure in name resolution";
    case UV_EAI_FAIL:
        return "non-recoverable failure in name resolution";
    case UV_EAI_FAMILY:
        return "ai_family not supported";
    case UV_EAI_MEMORY:
        return "memory allocation failure";
    case UV_EAI_NONAME:
        return "host or service not provided, or not known";
    case UV_EAI_SERVICE:
        return "service not supported for socket type";
    case UV_EAI_ADDRFAMILY:
        return gai_strerror(EAI_ADDRFAMILY);
    case UV_EAI_NODATA:
        return gai_strerror(EAI_NODATA);
    default:
        return uv_strerror(status);
    }
}
