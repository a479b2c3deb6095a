// SPDX-License-Identifier: MIT
// Private keys as PEM text. OpenSSL's decoder frees what it has decoded without wiping it. So the
// keys that `mare keys` makes, Ed25519 keys, are decoded and written here: they are always the same
// sixteen bytes of DER before the key itself (RFC 8410 section 7). All others are left to OpenSSL.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/tls_inner.h"

static const char begin[] = "-----BEGIN PRIVATE KEY-----\n", end[] = "\n-----END PRIVATE KEY-----";

enum { KEY = 32, HEAD = 16, DER = HEAD + KEY, LETTERS = DER / 3 * 4 };

// Version 0, the algorithm Ed25519, and a string that has a string with the key.
static const unsigned char head[HEAD] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                         0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

// The letters of the only thing in the text; NULL: it is not of this form.
static const char *letters_in(const char *text)
{
    const char *letters = strstr(text, begin);
    if (!letters)
        return NULL;
    letters += sizeof begin - 1;
    return strcspn(letters, "\n") == LETTERS && strncmp(letters + LETTERS, end, sizeof end - 1) == 0
               ? letters
               : NULL;
}

static EVP_PKEY *decode(const char *text)
{
    unsigned char der[DER];
    const char *letters = letters_in(text);
    EVP_PKEY *key = NULL;
    if (letters && EVP_DecodeBlock(der, (const unsigned char *)letters, LETTERS) == DER &&
        memcmp(der, head, HEAD) == 0)
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, der + HEAD, KEY);
    OPENSSL_cleanse(der, sizeof der);
    return key;
}

EVP_PKEY *mare__tls_read_key(const char *text, pem_password_cb *password, void *user)
{
    EVP_PKEY *key = decode(text);
    if (key)
        return key;
    ERR_clear_error();
    BIO *bio = BIO_new_mem_buf(text, -1);
    key = bio ? PEM_read_bio_PrivateKey(bio, NULL, password, user) : NULL;
    BIO_free(bio);
    return key;
}

char *mare__tls_write_key(const EVP_PKEY *key)
{
    unsigned char der[DER];
    size_t size = KEY;
    char *text = NULL;
    memcpy(der, head, HEAD);
    if (EVP_PKEY_get_raw_private_key(key, der + HEAD, &size) == 1 && size == KEY)
        text = mare__alloc(sizeof begin + LETTERS + sizeof end + 1);
    if (text) {
        char *at = strcpy(text, begin) + sizeof begin - 1;
        at += EVP_EncodeBlock((unsigned char *)at, der, DER);
        strcpy(strcpy(at, end) + sizeof end - 1, "\n");
    }
    OPENSSL_cleanse(der, sizeof der);
    return text;
}
