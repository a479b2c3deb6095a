// SPDX-License-Identifier: MIT
// Names of hosts, by the system's own calls.
#include "platform/names.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

void mare__naming_forward(struct mare__naming *naming, const char *host)
{
    struct addrinfo hints = {
        .ai_family = naming->family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    struct addrinfo *list = NULL;
    naming->status = getaddrinfo(host, NULL, &hints, &list);
    if (list && list->ai_canonname)
        snprintf(naming->name, sizeof naming->name, "%s", list->ai_canonname);
    for (struct addrinfo *at = list; at && naming->count < MARE__ADDRESSES_MAX; at = at->ai_next) {
        struct mare__address *address = &naming->addresses[naming->count++];
        memcpy(&address->storage, at->ai_addr, at->ai_addrlen);
        address->length = at->ai_addrlen;
    }
    if (list)
        freeaddrinfo(list);
}

void mare__naming_back(struct mare__naming *naming)
{
    const struct mare__address *address = &naming->addresses[0];
    naming->status =
        getnameinfo((const struct sockaddr *)&address->storage, address->length, naming->name,
                    sizeof naming->name, NULL, 0, naming->must_exist ? NI_NAMEREQD : 0);
}

const char *mare__naming_error(int status)
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
        return gai_strerror(status);
    }
}
