// SPDX-License-Identifier: MIT
// Names of hosts by getaddrinfo and getnameinfo, of services by the list that the system has.
#include "platform/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDED = 4 }; // descriptors, of the resolver: a file, or a socket for each of three servers

// The resolver keeps sockets and memory for the thread's next question, and gives them back when
// the thread has ended: too late, if that is while the program ends.
static void forget_servers(void)
{
    if (!(_res.options & RES_INIT))
        return; // its descriptors are zeros, not -1
    res_nclose(&_res);
    _res.options = 0; // so that the next question begins anew
}

static void find_addresses(void *context, struct mare__resolving *naming, const char *host)
{
    (void)context;
    struct addrinfo hints = {.ai_family = naming->family,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = naming->canonical ? AI_CANONNAME : AI_ADDRCONFIG},
                    *list = NULL;
    naming->status = getaddrinfo(host, NULL, &hints, &list);
    // Without descriptors it finds neither its files nor its servers, and says of a host that is
    // there that it is unknown.
    if (naming->status && !mare__descriptors_left(NEEDED))
        naming->err = EMFILE;
    if (list && list->ai_canonname)
        snprintf(naming->name, sizeof naming->name, "%s", list->ai_canonname);
    for (struct addrinfo *at = list; at && naming->count < MARE__ADDRESSES_MAX; at = at->ai_next) {
        struct mare__address *address = &naming->addresses[naming->count++];
        memcpy(&address->storage, at->ai_addr, at->ai_addrlen);
        address->length = at->ai_addrlen;
    }
    if (list)
        freeaddrinfo(list);
    forget_servers();
}

static void find_name(void *context, struct mare__resolving *naming)
{
    (void)context;
    const struct mare__address *address = &naming->addresses[0];
    naming->status =
        getnameinfo((const struct sockaddr *)&address->storage, address->length, naming->name,
                    sizeof naming->name, NULL, 0, naming->must_exist ? NI_NAMEREQD : 0);
    forget_servers();
}

const char *mare__resolve_error(int status)
{
    return gai_strerror(status);
}

const char *mare__resolve_words(int status)
{
    switch (status) {
    case EAI_AGAIN:
        return "temporary failure in name resolution";
    case EAI_FAIL:
        return "non-recoverable failure in name resolution";
    case EAI_FAMILY:
        return "ai_family not supported";
    case EAI_MEMORY:
        return "memory allocation failure";
    case EAI_NONAME:
        return "host or service not provided, or not known";
    case EAI_SERVICE:
        return "service not supported for socket type";
    default:
        return mare__resolve_error(status);
    }
}

// ---- Services -----------------------------------------------------------------------------------

enum { SERVICE_ROOM = 1024 };

static int service_number(void *context, const char *name, bool datagrams)
{
    (void)context;
    char *end, room[SERVICE_ROOM];
    long number = strtol(name, &end, 10);
    if (*name && !*end)
        return number >= 0 && number <= 65535 ? (int)number : -1;
    struct servent entry, *found = NULL;
    getservbyname_r(name, datagrams ? "udp" : "tcp", &entry, room, sizeof room, &found);
    return found ? ntohs((uint16_t)found->s_port) : -1;
}

static void service_name(void *context, int number, char name[MARE__HOST_MAX])
{
    (void)context;
    char room[SERVICE_ROOM];
    struct servent entry, *found = NULL;
    getservbyport_r(htons((uint16_t)number), "tcp", &entry, room, sizeof room, &found);
    if (found)
        snprintf(name, MARE__HOST_MAX, "%s", found->s_name);
    else
        snprintf(name, MARE__HOST_MAX, "%d", number);
}

const struct mare__names mare__names_live = {.find_addresses = find_addresses,
                                             .find_name = find_name,
                                             .service_number = service_number,
                                             .service_name = service_name};
