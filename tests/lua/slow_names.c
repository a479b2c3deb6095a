// SPDX-License-Identifier: MIT
// Put before the C library (LD_PRELOAD), makes the resolver hang, as with a name server that does
// not answer, for names that begin with "slow".
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **list)
{
    if (host && strncmp(host, "slow", 4) == 0) {
        sleep(600);
        return EAI_AGAIN;
    }
    return ((resolver *)dlsym(RTLD_NEXT, "getaddrinfo"))(host, service, hints, list);
}
