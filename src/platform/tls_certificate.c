// SPDX-License-Identifier: MIT
// Certificates and sessions as text, and self-signed certificates.
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "platform/socket.h"
#include "platform/tls_inner.h"

// ---- Reading ------------------------------------------------------------------------------------

bool mare__tls_is_number(const char *host)
{
    struct mare__address address;
    return mare__address_numeric(&address, host, 0);
}

// Makes text printable: a certificate may contain any bytes.
static void put_text(char *out, size_t room, const char *bytes, size_t size)
{
    size_t length = size < room ? size : room - 1;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : '?');
    out[length] = '\0';
}

void mare__tls_name_text(const X509_NAME *name, char *text, size_t room)
{
    char *bytes = NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    text[0] = '\0';
    if (bio && X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB) >= 0) {
        long size = BIO_get_mem_data(bio, &bytes);
        put_text(text, room, bytes, size > 0 ? (size_t)size : 0);
    }
    BIO_free(bio);
}

// One name; false: it is of a kind that is not shown.
static bool alternative_text(const GENERAL_NAME *name, char *text, size_t room)
{
    int kind;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &kind);
    if (kind == GEN_DNS || kind == GEN_EMAIL || kind == GEN_URI) {
        put_text(text, room, (const char *)ASN1_STRING_get0_data(value),
                 (size_t)ASN1_STRING_length(value));
        return true;
    }
    if (kind != GEN_IPADD)
        return false;
    int length = ASN1_STRING_length(value);
    int family = length == 4 ? AF_INET : AF_INET6;
    return (length == 4 || length == 16) &&
           inet_ntop(family, ASN1_STRING_get0_data(value), text, (socklen_t)room) != NULL;
}

size_t mare__tls_names(X509 *certificate, char *names, size_t room)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t size = 0;
    for (int i = 0; all && i < sk_GENERAL_NAME_num(all); i++) {
        char text[256];
        if (!alternative_text(sk_GENERAL_NAME_value(all, i), text, sizeof text) ||
            strlen(text) + 1 > room - size)
            continue;
        strcpy(names + size, text);
        size += strlen(text) + 1;
    }
    GENERAL_NAMES_free(all);
    return size;
}

void mare__tls_look_at_certificate(X509 *certificate, struct mare__tls_facts *facts)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    struct tm expires = {0};
    facts->has_peer = true;
    mare__tls_name_text(X509_get_subject_name(certificate), facts->subject, sizeof facts->subject);
    mare__tls_name_text(X509_get_issuer_name(certificate), facts->issuer, sizeof facts->issuer);
    facts->names_size = mare__tls_names(certificate, facts->names, sizeof facts->names);
    if (X509_digest(certificate, EVP_sha256(), digest, &size) == 1)
        for (unsigned i = 0; i < size && i < 32; i++)
            snprintf(facts->fingerprint + 2 * i, 3, "%02x", digest[i]);
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &expires) == 1)
        facts->expires = timegm(&expires);
}

// All of it as text, if there is room.
static void write_text(X509 *certificate, char *text, size_t room)
{
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio && PEM_write_bio_X509(bio, certificate) == 1 && BIO_pending(bio) < (int)room)
        text[BIO_read(bio, text, (int)room - 1)] = 0;
    BIO_free(bio);
}

void mare__tls_look_at(SSL *ssl, struct mare__tls_facts *facts)
{
    const unsigned char *protocol;
    const unsigned char *response = NULL;
    unsigned size;
    ERR_clear_error();
    facts->stapled = SSL_get_tlsext_status_ocsp_resp(ssl, &response) > 0 && response;
    facts->version = SSL_get_version(ssl);
    facts->cipher = SSL_get_cipher_name(ssl);
    facts->server_name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    SSL_get0_alpn_selected(ssl, &protocol, &size);
    if (size > 0 && size < sizeof facts->protocol)
        memcpy(facts->protocol, protocol, size);
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    facts->verified = certificate && SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE &&
                      SSL_get_verify_result(ssl) == X509_V_OK;
    if (certificate) {
        mare__tls_look_at_certificate(certificate, facts);
        write_text(certificate, facts->certificate, sizeof facts->certificate);
    }
    if (mare__tls_key_identity(ssl, facts->identity))
        facts->verified = true;
    else
        facts->resumed = SSL_session_reused(ssl);
    ERR_clear_error();
}

// ---- Making -------------------------------------------------------------------------------------

static GENERAL_NAME *alternative(const char *text)
{
    bool number = mare__tls_is_number(text);
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = number ? a2i_IPADDRESS(text) : ASN1_IA5STRING_new();
    if (!name || !value || (!number && !ASN1_STRING_set(value, text, -1))) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, number ? GEN_IPADD : GEN_DNS, value);
    return name;
}

bool mare__tls_add_names(X509 *certificate, const char *const *names, int count)
{
    GENERAL_NAMES *all = GENERAL_NAMES_new();
    bool done = all != NULL;
    for (int i = 0; done && i < count; i++) {
        GENERAL_NAME *name = alternative(names[i]);
        done = name && sk_GENERAL_NAME_push(all, name) > 0;
        if (!done)
            GENERAL_NAME_free(name);
    }
    done = done && X509_add1_ext_i2d(certificate, NID_subject_alt_name, all, 0, 0) == 1;
    GENERAL_NAMES_free(all);
    return done;
}

bool mare__tls_add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    bool done = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

static bool fill(X509 *certificate, EVP_PKEY *key, const char *const *names, int count,
                 int64_t seconds)
{
    const long day = 24 * 3600;
    uint64_t serial;
    long begins = seconds > 0 ? -day : (long)seconds - day; // clocks differ
    X509_NAME *subject = X509_get_subject_name(certificate);
    return RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           X509_set_version(certificate, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), begins) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), (long)seconds) != NULL &&
           X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)names[0],
                                      -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, subject) == 1 &&
           mare__tls_add_names(certificate, names, count) &&
           mare__tls_add_extension(certificate, NULL, NID_basic_constraints, "critical,CA:FALSE") &&
           mare__tls_add_extension(certificate, NULL, NID_key_usage, "critical,digitalSignature") &&
           mare__tls_add_extension(certificate, NULL, NID_ext_key_usage, "serverAuth,clientAuth") &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

char *mare__tls_text_of(BIO *bio)
{
    char *bytes = NULL;
    long size = BIO_get_mem_data(bio, &bytes);
    char *text = size > 0 ? mare__alloc((size_t)size + 1) : NULL;
    if (text) {
        memcpy(text, bytes, (size_t)size);
        text[size] = '\0';
    }
    return text;
}

bool mare__tls_selfsigned(const char *const *names, int count, int64_t seconds, char **certificate,
                          char **key, struct mare__tls_error *error)
{
    mare__tls_begin();
    EVP_PKEY *made = EVP_EC_gen("P-256");
    X509 *signed_one = X509_new();
    BIO *one = BIO_new(BIO_s_mem()), *other = BIO_new(BIO_s_mem());
    *certificate = *key = NULL;
    if (made && signed_one && one && other && fill(signed_one, made, names, count, seconds) &&
        PEM_write_bio_X509(one, signed_one) == 1 &&
        PEM_write_bio_PrivateKey(other, made, NULL, NULL, 0, NULL, NULL) == 1) {
        *certificate = mare__tls_text_of(one);
        *key = mare__tls_text_of(other);
    }
    bool done = *certificate && *key;
    if (!done) {
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        mare__free(*certificate);
        mare__free(*key);
        mare__tls_refuse(error, MARE_INVALID, "cannot make the certificate: %s",
                         reason ? reason : "not enough memory");
    }
    BIO_free(one);
    BIO_free(other);
    X509_free(signed_one);
    EVP_PKEY_free(made);
    return done;
}
