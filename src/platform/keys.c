// SPDX-License-Identifier: MIT
// A small certificate authority on OpenSSL. It has no state: the caller keeps, as text, what was
// signed and revoked.
//
//   authority's key --signs--> certificate of a node ----> opens links (TLS 1.3)
//                   --signs--> certificate of a signer --> signs code, opens nothing
//                   --signs--> list of what is revoked
//
// An authority signs no other authority (pathlen 0). Each authority has its own subject. So a
// certificate or list names its signer, even if two authorities have the same group.
#include "platform/keys.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "platform/tls_inner.h"

enum { CLOCKS_DIFFER = 24 * 3600 }; // how long ago what is made begins to be valid

// ---- Text ---------------------------------------------------------------------------------------

static bool refuse(struct mare__tls_error *error, const char *what)
{
    unsigned long err = ERR_peek_error();
    const char *reason = ERR_reason_error_string(err);
    bool memory = ERR_GET_REASON(err) == ERR_R_MALLOC_FAILURE;
    mare__tls_refuse(error, memory ? MARE_NOMEM : MARE_BADMSG, "%s%s%s", what, reason ? ": " : "",
                     reason ? reason : "");
    ERR_clear_error();
    return false;
}

// Without this OpenSSL would ask for a password at the terminal.
static int no_password(char *text, int room, int writes, void *none)
{
    (void)text, (void)room, (void)writes, (void)none;
    return -1;
}

static EVP_PKEY *read_key(const char *text, struct mare__tls_error *error)
{
    EVP_PKEY *key = mare__tls_read_key(text, no_password, NULL);
    if (key && EVP_PKEY_is_a(key, "ED25519"))
        return key;
    if (key)
        mare__tls_refuse(error, MARE_BADMSG, "it is not an Ed25519 key");
    else
        refuse(error, "it is not a private key");
    EVP_PKEY_free(key);
    return NULL;
}

static X509 *read_certificate(const char *text, struct mare__tls_error *error)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    if (!certificate)
        refuse(error, "it is not a certificate");
    return certificate;
}

static X509_CRL *read_list(const char *text, struct mare__tls_error *error)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509_CRL *list = bio ? PEM_read_bio_X509_CRL(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    if (!list)
        refuse(error, "it is not a list of revoked certificates");
    return list;
}

// ---- Keys ---------------------------------------------------------------------------------------

void mare__key_forget(char *key)
{
    if (key)
        OPENSSL_cleanse(key, strlen(key));
    mare__free(key);
}

char *mare__key_make(struct mare__tls_error *error)
{
    mare__tls_begin();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    char *text = key ? mare__tls_write_key(key) : NULL;
    if (!text)
        refuse(error, "cannot make a key");
    EVP_PKEY_free(key);
    return text;
}

bool mare__key_random(void *bytes, size_t size, struct mare__tls_error *error)
{
    mare__tls_begin();
    return RAND_bytes(bytes, (int)size) == 1 || refuse(error, "there is no randomness");
}

bool mare__key_digest(const void *bytes, size_t size, char text[65], struct mare__tls_error *error)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[32];
    mare__tls_begin();
    if (EVP_Digest(bytes, size, digest, NULL, EVP_sha256(), NULL) != 1)
        return refuse(error, "cannot make a digest");
    for (size_t i = 0; i < sizeof digest; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = '\0';
    return true;
}

bool mare__key_sign(const char *key, const void *bytes, size_t size,
                    unsigned char signature[MARE__SIGNATURE_SIZE], struct mare__tls_error *error)
{
    mare__tls_begin();
    EVP_PKEY *own = read_key(key, error);
    if (!own)
        return false;
    size_t room = MARE__SIGNATURE_SIZE;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = (context && EVP_DigestSignInit(context, NULL, NULL, NULL, own) == 1 &&
                 EVP_DigestSign(context, signature, &room, bytes, size) == 1) ||
                refuse(error, "cannot sign");
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(own);
    return done;
}

bool mare__key_check(const char *certificate, const void *bytes, size_t size,
                     const unsigned char signature[MARE__SIGNATURE_SIZE],
                     struct mare__tls_error *error)
{
    mare__tls_begin();
    X509 *own = read_certificate(certificate, error);
    EVP_PKEY *key = own ? X509_get0_pubkey(own) : NULL;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = false;
    if (own && (!key || !EVP_PKEY_is_a(key, "ED25519")))
        mare__tls_refuse(error, MARE_BADMSG, "its key is not an Ed25519 key");
    else if (own && (!context || EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) != 1))
        refuse(error, "cannot check a signature");
    else if (own)
        done = EVP_DigestVerify(context, signature, MARE__SIGNATURE_SIZE, bytes, size) == 1 ||
               mare__tls_refuse(error, MARE_DENIED, "the signature is not of this text");
    ERR_clear_error();
    EVP_MD_CTX_free(context);
    X509_free(own);
    return done;
}

// ---- Certificates -------------------------------------------------------------------------------

static bool add_use(X509 *certificate, X509 *issuer, enum mare__key_use use)
{
    bool signs = use == MARE__FOR_AUTHORITY;
    return mare__tls_add_extension(certificate, issuer, NID_basic_constraints,
                                   signs ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
           mare__tls_add_extension(certificate, issuer, NID_key_usage,
                                   signs ? "critical,keyCertSign,cRLSign"
                                         : "critical,digitalSignature") &&
           (signs || mare__tls_add_extension(certificate, issuer, NID_ext_key_usage,
                                             use == MARE__FOR_CODE ? "critical,codeSigning"
                                                                   : "serverAuth,clientAuth"));
}

static bool add_word(X509_NAME *subject, const char *kind, const char *word)
{
    return !word || X509_NAME_add_entry_by_txt(subject, kind, MBSTRING_UTF8,
                                               (const unsigned char *)word, -1, -1, 0) == 1;
}

// Sets the times of validity, which ends no later than that of the issuer.
static bool set_times(X509 *certificate, const X509 *issuer, int64_t seconds)
{
    time_t now = time(NULL), until = now + (time_t)seconds;
    time_t from = (seconds > 0 ? now : until) - CLOCKS_DIFFER;
    if (issuer != certificate && X509_cmp_time(X509_get0_notAfter(issuer), &until) < 0)
        return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != NULL &&
               X509_set1_notAfter(certificate, X509_get0_notAfter(issuer)) == 1;
    return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), until) != NULL;
}

static bool fill(X509 *certificate, EVP_PKEY *key, X509 *issuer,
                 const struct mare__certificate_wish *wish)
{
    uint64_t serial;
    X509_NAME *subject = X509_get_subject_name(certificate);
    return RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           X509_set_version(certificate, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1) == 1 &&
           set_times(certificate, issuer, wish->seconds) &&
           X509_set_pubkey(certificate, key) == 1 && add_word(subject, "O", wish->group) &&
           add_word(subject, "CN", wish->name) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
           (wish->host_count == 0 ||
            mare__tls_add_names(certificate, wish->hosts, wish->host_count)) &&
           add_use(certificate, issuer, wish->use) &&
           mare__tls_add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
           mare__tls_add_extension(certificate, issuer, NID_authority_key_identifier, "keyid");
}

static char *write_certificate(X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    if (bio && PEM_write_bio_X509(bio, certificate) == 1)
        text = mare__tls_text_of(bio);
    BIO_free(bio);
    return text;
}

static const char wrong_key[] = "the key of the authority is not that of its certificate";

char *mare__certificate_make(const struct mare__certificate_wish *wish,
                             struct mare__tls_error *error)
{
    mare__tls_begin();
    char *text = NULL;
    X509 *made = X509_new(), *issuer = made;
    EVP_PKEY *key = read_key(wish->key, error), *signs = key;
    if (wish->issuer && key) {
        issuer = read_certificate(wish->issuer, error);
        signs = issuer ? read_key(wish->issuer_key, error) : NULL;
    }
    if (made && issuer && signs) {
        if (issuer != made && X509_check_private_key(issuer, signs) != 1)
            refuse(error, wrong_key);
        else if (!fill(made, key, issuer, wish) || X509_sign(made, signs, NULL) <= 0 ||
                 !(text = write_certificate(made)))
            refuse(error, "cannot make the certificate");
    } else if (!made) {
        refuse(error, "cannot make the certificate");
    }
    if (issuer != made)
        X509_free(issuer);
    if (signs != key)
        EVP_PKEY_free(signs);
    X509_free(made);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return text;
}

static enum mare__key_use use_of(X509 *certificate)
{
    const uint32_t links = XKU_SSL_SERVER | XKU_SSL_CLIENT;
    uint32_t uses = X509_get_extended_key_usage(certificate);
    if (X509_check_ca(certificate) == 1)
        return MARE__FOR_AUTHORITY;
    if (uses == XKU_CODE_SIGN)
        return MARE__FOR_CODE;
    return uses != UINT32_MAX && (uses & links) == links ? MARE__FOR_NODE : MARE__FOR_OTHER;
}

static bool write_serial(const X509 *certificate, char *text, size_t room)
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *digits = number ? BN_bn2hex(number) : NULL;
    bool fits = digits && strlen(digits) < room;
    if (fits)
        strcpy(text, digits);
    OPENSSL_free(digits);
    BN_free(number);
    return fits;
}

bool mare__certificate_look(const char *certificate, struct mare__certificate_facts *facts,
                            struct mare__tls_error *error)
{
    mare__tls_begin();
    struct tm begins = {0};
    memset(facts, 0, sizeof *facts);
    X509 *own = read_certificate(certificate, error);
    if (!own)
        return false;
    mare__tls_look_at_certificate(own, &facts->about);
    facts->use = use_of(own);
    bool done = (write_serial(own, facts->serial, sizeof facts->serial) &&
                 ASN1_TIME_to_tm(X509_get0_notBefore(own), &begins) == 1) ||
                refuse(error, "the certificate's contents make no sense");
    facts->begins = timegm(&begins);
    X509_free(own);
    ERR_clear_error();
    return done;
}

// ---- Whom to believe ----------------------------------------------------------------------------

// Trusts all authorities in a text. If it has revocation lists, they are checked.
static bool trust(X509_STORE *store, const char *trusted)
{
    BIO *bio = BIO_new_mem_buf(trusted, -1);
    STACK_OF(X509_INFO) *all = bio ? PEM_X509_INFO_read_bio(bio, NULL, no_password, NULL) : NULL;
    bool done = all != NULL;
    for (int i = 0; done && i < sk_X509_INFO_num(all); i++) {
        const X509_INFO *one = sk_X509_INFO_value(all, i);
        if (one->x509)
            done = X509_STORE_add_cert(store, one->x509) == 1;
        if (done && one->crl)
            done =
                X509_STORE_add_crl(store, one->crl) == 1 &&
                X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1;
    }
    sk_X509_INFO_pop_free(all, X509_INFO_free);
    BIO_free(bio);
    return done;
}

bool mare__certificate_verify(const char *certificate, const char *trusted, enum mare__key_use use,
                              struct mare__tls_error *error)
{
    mare__tls_begin();
    X509 *own = read_certificate(certificate, error);
    if (!own)
        return false;
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    bool done = false;
    if (!store || !context || !trust(store, trusted) ||
        X509_STORE_CTX_init(context, store, own, NULL) != 1)
        refuse(error, "cannot read the trusted certificates");
    else if (X509_verify_cert(context) != 1)
        mare__tls_refuse(error, MARE_DENIED, "%s",
                         X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
    else if (use != MARE__FOR_OTHER && use_of(own) != use)
        mare__tls_refuse(error, MARE_DENIED, "the certificate is for another use");
    else
        done = true;
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    X509_free(own);
    ERR_clear_error();
    return done;
}

// ---- Lists --------------------------------------------------------------------------------------

static bool add_revoked(X509_CRL *list, X509 *revoked)
{
    X509_REVOKED *entry = X509_REVOKED_new(), *before;
    ASN1_TIME *now = ASN1_TIME_set(NULL, time(NULL));
    bool there = X509_CRL_get0_by_cert(list, &before, revoked) != 0;
    bool done = entry && now &&
                X509_REVOKED_set_serialNumber(
                    entry, (ASN1_INTEGER *)X509_get0_serialNumber(revoked)) == 1 &&
                X509_REVOKED_set_revocationDate(entry, now) == 1 &&
                (there || X509_CRL_add0_revoked(list, entry) == 1);
    if (there || !done)
        X509_REVOKED_free(entry);
    ASN1_TIME_free(now);
    return done;
}

// RFC 5280 section 5.2.3: each list of an authority has a larger number than the one before.
static bool count_up(X509_CRL *list)
{
    ASN1_INTEGER *number = X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL);
    uint64_t last = 0;
    bool done = !number || ASN1_INTEGER_get_uint64(&last, number) == 1;
    ASN1_INTEGER_free(number);
    number = ASN1_INTEGER_new();
    done = done && number && ASN1_INTEGER_set_uint64(number, last + 1) == 1 &&
           X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;
    ASN1_INTEGER_free(number);
    return done;
}

static bool begin_list(X509_CRL *list, X509 *issuer)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, NULL, NULL, list, 0);
    X509_EXTENSION *whose =
        X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid:always");
    bool done = whose && X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
                X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer)) == 1 &&
                X509_CRL_add_ext(list, whose, -1) == 1;
    X509_EXTENSION_free(whose);
    return done;
}

static bool finish_list(X509_CRL *list, X509 *issuer, EVP_PKEY *signs)
{
    ASN1_TIME *from = ASN1_TIME_set(NULL, time(NULL) - CLOCKS_DIFFER);
    bool done = from && count_up(list) && X509_CRL_set1_lastUpdate(list, from) == 1 &&
                X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(issuer)) == 1 &&
                X509_CRL_sort(list) == 1 && X509_CRL_sign(list, signs, NULL) > 0;
    ASN1_TIME_free(from);
    return done;
}

// The earlier list, which the authority must have signed; an empty list if there is none.
static X509_CRL *list_before(const char *text, X509 *issuer, struct mare__tls_error *error)
{
    X509_CRL *list = text ? read_list(text, error) : X509_CRL_new();
    if (!list) {
        if (!text)
            refuse(error, "cannot make the list");
        return NULL;
    }
    if (text ? X509_CRL_verify(list, X509_get0_pubkey(issuer)) == 1 : begin_list(list, issuer))
        return list;
    refuse(error, text ? "the list is not the authority's" : "cannot make the list");
    X509_CRL_free(list);
    return NULL;
}

static char *write_list(X509_CRL *list)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    if (bio && PEM_write_bio_X509_CRL(bio, list) == 1)
        text = mare__tls_text_of(bio);
    BIO_free(bio);
    return text;
}

char *mare__list_make(const char *issuer, const char *issuer_key, const char *list,
                      const char *revoked, struct mare__tls_error *error)
{
    mare__tls_begin();
    char *text = NULL;
    X509 *authority = read_certificate(issuer, error), *gone = NULL;
    EVP_PKEY *signs = authority ? read_key(issuer_key, error) : NULL;
    X509_CRL *made = signs ? list_before(list, authority, error) : NULL;
    if (made && revoked)
        gone = read_certificate(revoked, error);
    if (made && (gone || !revoked)) {
        if (X509_check_private_key(authority, signs) != 1)
            refuse(error, wrong_key);
        else if (gone && X509_verify(gone, X509_get0_pubkey(authority)) != 1)
            refuse(error, "the authority has not signed the certificate");
        else if ((gone && !add_revoked(made, gone)) || !finish_list(made, authority, signs) ||
                 !(text = write_list(made)))
            refuse(error, "cannot make the list");
    }
    X509_free(gone);
    X509_CRL_free(made);
    EVP_PKEY_free(signs);
    X509_free(authority);
    ERR_clear_error();
    return text;
}
