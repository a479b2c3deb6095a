// SPDX-License-Identifier: MIT
// A certificate authority: makes keys, signs certificates, keeps revocation lists, and signs code.
// All keys are Ed25519; everything is PEM text. Nothing here touches a file or waits, and any
// thread may call it. A failure returns false or NULL, and `error` says why. The caller frees
// returned text, and wipes that of a key.
#pragma once

#include "platform/tls.h"

// A new private key.
char *mare__key_make(struct mare__tls_error *error);

// Wipes and frees a text that contains a key. NULL is allowed.
void mare__key_forget(char *key);

// What a certificate may be used for: signing certificates, links between nodes, signing code.
enum mare__key_use { MARE__FOR_OTHER, MARE__FOR_AUTHORITY, MARE__FOR_NODE, MARE__FOR_CODE };

struct mare__certificate_wish {
    enum mare__key_use use;
    const char *group, *name; // of the subject; no group: NULL
    const char *const *hosts; // its alternative names, or numbers
    int host_count;
    int64_t seconds;        // from now; never beyond its issuer's. Negative: it has expired
    const char *key;        // its private key
    const char *issuer;     // the authority's certificate; NULL: it signs itself
    const char *issuer_key; // and its private key
};

char *mare__certificate_make(const struct mare__certificate_wish *wish,
                             struct mare__tls_error *error);

// What a certificate says of itself. Of `about`: subject, issuer, names, expires, fingerprint.
struct mare__certificate_facts {
    struct mare__tls_facts about;
    enum mare__key_use use;
    int64_t begins;
    char serial[64]; // hexadecimal
};

bool mare__certificate_look(const char *certificate, struct mare__certificate_facts *facts,
                            struct mare__tls_error *error);

// Verifies a certificate for a use (MARE__FOR_OTHER: any), today, by the authorities in `trusted`
// and their revocation lists, if there are any.
bool mare__certificate_verify(const char *certificate, const char *trusted, enum mare__key_use use,
                              struct mare__tls_error *error);

// The list of an authority with one more certificate on it, which it must have signed. `list`: the
// one before, or NULL; `revoked`: NULL for none. It is valid for as long as the authority is.
char *mare__list_make(const char *issuer, const char *issuer_key, const char *list,
                      const char *revoked, struct mare__tls_error *error);

// The signature of some bytes, and whether the owner of a certificate has made it.
enum { MARE__SIGNATURE_SIZE = 64 };
bool mare__key_sign(const char *key, const void *bytes, size_t size,
                    unsigned char signature[MARE__SIGNATURE_SIZE], struct mare__tls_error *error);
bool mare__key_check(const char *certificate, const void *bytes, size_t size,
                     const unsigned char signature[MARE__SIGNATURE_SIZE],
                     struct mare__tls_error *error);

// Bytes that nobody can guess, and the SHA-256 of some, in hexadecimal.
bool mare__key_random(void *bytes, size_t size, struct mare__tls_error *error);
bool mare__key_digest(const void *bytes, size_t size, char text[65], struct mare__tls_error *error);
