// SPDX-License-Identifier: MIT
// Secrets: made once, then only read by all who refer to them, and wiped with the last of those.
#include "base/secret.h"

#include <string.h>

#include "base/alloc.h"

static void destroy(struct mare__object *object)
{
    struct mare__secret *secret = (struct mare__secret *)object;
    explicit_bzero(secret->bytes, secret->size);
    mare__free(secret);
}

struct mare__secret *mare__secret_new(size_t size)
{
    struct mare__secret *secret = mare__alloc_zero(sizeof *secret + size + 1);
    if (!secret)
        return NULL;
    mare__object_init(&secret->object, MARE__KIND_SECRET, destroy);
    secret->object.weight = (uint32_t)(sizeof *secret + size);
    secret->size = size;
    return secret;
}

void *mare__secret_copy(void *to, const void *from, size_t size)
{
    volatile char *at = to; // volatile: or the compiler would make it a call of memcpy
    const char *bytes = from;
    for (size_t i = 0; i < size; i++)
        at[i] = bytes[i];
    return (char *)to + size;
}

bool mare__secret_equal(const void *a, size_t a_size, const void *b, size_t b_size)
{
    const unsigned char *x = a, *y = b;
    volatile unsigned char difference = a_size != b_size; // volatile: no compiler may end the loop
    for (size_t i = 0; i < a_size && i < b_size; i++)
        difference = (unsigned char)(difference | (x[i] ^ y[i]));
    return difference == 0;
}
