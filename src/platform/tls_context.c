// SPDX-License-Identifier: MIT
// The settings of one side of TLS connections. The rules of a context are made once and then only
// read. To change them, for instance to renew a certificate, new rules take their place.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "platform/tls_inner.h"

bool mare__tls_refuse(struct mare__tls_error *error, mare_err code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    ERR_clear_error();
    return false;
}

static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason was given";
}

static void initialize(void)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
}

void mare__tls_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);
    ERR_clear_error();
}

// ---- Reading PEM --------------------------------------------------------------------------------

static bool is_text(const char *source)
{
    return strstr(source, "-----BEGIN") != NULL;
}

// How a message calls it: text may be long, and a key.
static const char *name_of(const char *source)
{
    return is_text(source) ? "the text given" : source;
}

// PEM text, and what of it is still to be read. A file may have a private key in it: so it is read
// into memory of ours, which is wiped.
struct source {
    BIO *bio;
    const char *text;
    char *loaded; // NULL: the text was given
    size_t room;
};

static void close_source(struct source *from)
{
    BIO_free(from->bio);
    if (from->loaded)
        OPENSSL_cleanse(from->loaded, from->room);
    mare__free(from->loaded);
}

static bool make_room(struct source *from)
{
    enum { FIRST = 4096 };
    size_t room = from->room ? 2 * from->room : FIRST;
    char *larger = mare__alloc(room);
    if (!larger)
        return false;
    if (from->loaded) {
        mare__secret_copy(larger, from->loaded, from->room);
        OPENSSL_cleanse(from->loaded, from->room);
        mare__free(from->loaded);
    }
    from->loaded = larger;
    from->room = room;
    return true;
}

// In bytes. Lists of revoked certificates may be long; a device has no end.
enum { LARGEST = 64 << 20 };

// The whole of a file: 0, or an errno value.
static int load(struct source *from, int file)
{
    size_t have = 0;
    for (;;) {
        if (have + 1 >= from->room && !make_room(from))
            return ENOMEM;
        ssize_t more = read(file, from->loaded + have, from->room - have - 1);
        if (more < 0 && errno != EINTR)
            return errno;
        if (more == 0)
            break;
        have += more > 0 ? (size_t)more : 0;
        if (have > LARGEST)
            return EFBIG;
    }
    from->loaded[have] = '\0';
    return 0;
}

static int load_file(struct source *from, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    int err = load(from, file);
    close(file);
    return err;
}

// `what` it is, for the message. False: nothing needs to be closed.
static bool open_source(struct source *from, const char *what, const char *source,
                        struct mare__tls_error *error)
{
    *from = (struct source){.text = source};
    int err = is_text(source) ? 0 : load_file(from, source);
    if (err == 0) {
        from->text = from->loaded ? from->loaded : source;
        from->bio = BIO_new_mem_buf(from->text, -1);
        if (from->bio)
            return true;
    }
    close_source(from);
    if (err == 0 || err == ENOMEM)
        return mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    return mare__tls_refuse(error, err == EACCES ? MARE_DENIED : MARE_IO, "%s: %s: %s", what,
                            source, strerror(err));
}

// Whether reading PEM ended because the text was over, and not because of an error.
static bool at_end(void)
{
    unsigned long err = ERR_peek_last_error();
    bool none = (ERR_GET_LIB(err) == ERR_LIB_PEM && ERR_GET_REASON(err) == PEM_R_NO_START_LINE) ||
                (ERR_GET_LIB(err) == ERR_LIB_OSSL_DECODER && // that of keys, for anything else
                 ERR_GET_REASON(err) == ERR_R_UNSUPPORTED);
    if (none)
        ERR_clear_error();
    return none;
}

// Gives OpenSSL the password that the program gave; without this it would ask at the terminal.
static int give_password(char *room, int size, int writing, void *user)
{
    (void)writing;
    const char *password = user;
    int length = password ? (int)strlen(password) : 0;
    if (length == 0 || length > size)
        return -1;
    memcpy(room, password, (size_t)length);
    return length;
}

// ---- Our own certificate ------------------------------------------------------------------------

static bool use_certificate(SSL_CTX *ssl, const char *source, struct mare__tls_error *error)
{
    struct source from;
    if (!open_source(&from, "certificate", source, error))
        return false;
    X509 *own = PEM_read_bio_X509_AUX(from.bio, NULL, give_password, NULL), *next;
    bool done = own && SSL_CTX_use_certificate(ssl, own) == 1;
    X509_free(own);
    while (done && (next = PEM_read_bio_X509(from.bio, NULL, give_password, NULL)) != NULL)
        if (SSL_CTX_add0_chain_cert(ssl, next) != 1) {
            X509_free(next);
            done = false;
        }
    done = done && at_end();
    if (!done && at_end())
        mare__tls_refuse(error, MARE_BADMSG, "certificate: no certificate in PEM form in %s",
                         name_of(source));
    else if (!done)
        mare__tls_refuse(error, MARE_BADMSG, "certificate: %s: %s", name_of(source), reason());
    close_source(&from);
    return done;
}

static bool use_key(SSL_CTX *ssl, const char *source, const char *password,
                    struct mare__tls_error *error)
{
    struct source from;
    if (!open_source(&from, "key", source, error))
        return false;
    EVP_PKEY *key = mare__tls_read_key(from.text, give_password, (void *)password);
    close_source(&from);
    if (!key) {
        if (at_end())
            return mare__tls_refuse(error, MARE_BADMSG, "key: no private key in PEM form in %s",
                                    name_of(source));
        bool locked = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_BAD_PASSWORD_READ;
        return mare__tls_refuse(error, locked ? MARE_DENIED : MARE_BADMSG, "key: %s: %s",
                                name_of(source),
                                locked ? "it is encrypted, and no password was given" : reason());
    }
    bool fits = SSL_CTX_use_PrivateKey(ssl, key) == 1 && SSL_CTX_check_private_key(ssl) == 1;
    EVP_PKEY_free(key);
    return fits || mare__tls_refuse(error, MARE_BADMSG, "key: %s: it is not the certificate's key",
                                    name_of(source));
}

// ---- Whom we trust ------------------------------------------------------------------------------

// If there is any revocation list, each authority of a chain must have one that has not expired.
// Otherwise an attacker who withholds a list could decide whom we believe.
static bool heed_lists(SSL_CTX *ssl)
{
    return X509_STORE_set_flags(SSL_CTX_get_cert_store(ssl),
                                X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) == 1;
}

// A certificate, or a list of those that were revoked, or both.
static bool trust_one(SSL_CTX *ssl, const X509_INFO *one)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    // The names are for clients, which may have several certificates to choose from.
    return (!one->x509 || (X509_STORE_add_cert(store, one->x509) == 1 &&
                           SSL_CTX_add_client_CA(ssl, one->x509) == 1)) &&
           (!one->crl || (X509_STORE_add_crl(store, one->crl) == 1 && heed_lists(ssl)));
}

// All in a file or text: certificates, and lists among them; or `lists` alone.
static bool trust_each(SSL_CTX *ssl, const char *source, bool lists, struct mare__tls_error *error)
{
    const char *option = lists ? "revoked" : "authorities";
    struct source from;
    if (!open_source(&from, option, source, error))
        return false;
    STACK_OF(X509_INFO) *all = PEM_X509_INFO_read_bio(from.bio, NULL, give_password, NULL);
    close_source(&from);
    if (!all)
        return mare__tls_refuse(error, MARE_BADMSG, "%s: %s: %s", option, name_of(source),
                                reason());
    int count = 0;
    bool done = true;
    for (int i = 0; done && i < sk_X509_INFO_num(all); i++) {
        const X509_INFO *one = sk_X509_INFO_value(all, i);
        count += lists ? one->crl != NULL : one->x509 != NULL;
        if (lists && one->x509)
            done = mare__tls_refuse(error, MARE_BADMSG, "revoked: a certificate in %s",
                                    name_of(source));
        else
            done = trust_one(ssl, one) ||
                   mare__tls_refuse(error, MARE_NOMEM, "%s: %s", option, reason());
    }
    sk_X509_INFO_pop_free(all, X509_INFO_free);
    if (done && count == 0)
        done = mare__tls_refuse(error, MARE_BADMSG, "%s: no %s in PEM form in %s", option,
                                lists ? "list" : "certificate", name_of(source));
    return done;
}

// Whether a folder has lists in it, under the names that `openssl rehash` gives them.
static bool has_lists(const char *folder)
{
    DIR *all = opendir(folder);
    const struct dirent *one;
    bool found = false;
    while (all && !found && (one = readdir(all)) != NULL)
        found =
            strspn(one->d_name, "0123456789abcdef") == 8 && strncmp(one->d_name + 8, ".r", 2) == 0;
    if (all)
        closedir(all);
    return found;
}

static bool trust(SSL_CTX *ssl, const char *source, struct mare__tls_error *error)
{
    struct stat about;
    if (is_text(source) || stat(source, &about) != 0 || !S_ISDIR(about.st_mode))
        return trust_each(ssl, source, false, error);
    return (SSL_CTX_load_verify_dir(ssl, source) == 1 && (!has_lists(source) || heed_lists(ssl))) ||
           mare__tls_refuse(error, MARE_IO, "authorities: %s: %s", source, reason());
}

// The system's are more than a hundred, and a server has no use for them: the first client waits
// for them. A list that is missing there is missing when a certificate is verified.
void mare__tls_rules_trust_system(struct mare__tls_rules *rules)
{
    if (!atomic_load(&rules->owes_system))
        return;
    pthread_mutex_lock(&rules->mutex);
    if (atomic_load(&rules->owes_system))
        SSL_CTX_set_default_verify_paths(rules->ssl);
    atomic_store(&rules->owes_system, false);
    pthread_mutex_unlock(&rules->mutex);
    ERR_clear_error();
}

// ---- The rest -----------------------------------------------------------------------------------

// ALPN of a server: the first of our protocols that the client offers; if there is none, the
// handshake fails. A context without protocols leaves it to the session (mare__tls_offer_http2).
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size,
                           const unsigned char *offered, unsigned offered_size, void *user)
{
    const struct mare__tls_rules *rules = user;
    unsigned char *chosen;
    if (rules->protocols_size == 0) {
        if (!mare__tls_offers_http2(ssl) ||
            SSL_select_next_proto(&chosen, size, mare__tls_http2, sizeof mare__tls_http2, offered,
                                  offered_size) != OPENSSL_NPN_NEGOTIATED)
            return SSL_TLSEXT_ERR_NOACK;
        *out = chosen;
        return SSL_TLSEXT_ERR_OK;
    }
    if (SSL_select_next_proto(&chosen, size, rules->protocols, rules->protocols_size, offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool allow(struct mare__tls_rules *rules, const struct mare__tls_options *options,
                  struct mare__tls_error *error)
{
    SSL_CTX *ssl = rules->ssl;
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    // Each connection has a whole handshake, unless it is wanted otherwise: see docs/decisions/213.
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 0);
    if (options->resumes && !mare__tls_resume(rules, mare__tls_on_session))
        return mare__tls_refuse(error, MARE_IO, "resume: %s", reason());
    // A write is tried again with bytes that may have moved; what is idle has no buffers.
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ssl, 1); // one call to the system for what it has, and not two a record
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_VERSION + options->oldest) != 1 ||
        SSL_CTX_set_max_proto_version(ssl, TLS1_VERSION + options->newest) != 1)
        return mare__tls_refuse(error, MARE_INVALID, "versions: %s", reason());
    // Of TLS 1.2, what is as good as 1.3: keys that nobody can find out later (RFC 9325, 4.2).
    const char *ciphers = options->ciphers ? options->ciphers : "ECDHE+AESGCM:ECDHE+CHACHA20";
    if (SSL_CTX_set_cipher_list(ssl, ciphers) != 1)
        return mare__tls_refuse(error, MARE_INVALID, "ciphers: '%s': %s", ciphers, reason());
    if (options->suites && SSL_CTX_set_ciphersuites(ssl, options->suites) != 1)
        return mare__tls_refuse(error, MARE_INVALID, "suites: '%s': %s", options->suites, reason());
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, rules);
    if (options->protocols_size == 0)
        return true;
    rules->protocols = mare__alloc(options->protocols_size);
    if (!rules->protocols)
        return mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    memcpy(rules->protocols, options->protocols, options->protocols_size);
    rules->protocols_size = (unsigned)options->protocols_size;
    return SSL_CTX_set_alpn_protos(ssl, rules->protocols, rules->protocols_size) == 0 ||
           mare__tls_refuse(error, MARE_INVALID, "protocols: %s", reason());
}

static bool fill(struct mare__tls_rules *rules, const struct mare__tls_options *options,
                 struct mare__tls_error *error)
{
    const char *key = options->key ? options->key : options->certificate;
    rules->verify = options->verify;
    rules->ocsp = options->ocsp;
    SSL_CTX_set_tlsext_status_cb(rules->ssl, mare__tls_on_status);
    SSL_CTX_set_tlsext_status_arg(rules->ssl, rules);
    atomic_init(&rules->owes_system, !options->authorities && !options->keys);
    return allow(rules, options, error) &&
           (!options->keys || mare__tls_use_keys(rules, options, error)) &&
           (!options->certificate || (use_certificate(rules->ssl, options->certificate, error) &&
                                      use_key(rules->ssl, key, options->password, error))) &&
           (!options->staple ||
            mare__tls_use_staple(rules, options->staple, options->staple_size, error)) &&
           (!options->authorities || trust(rules->ssl, options->authorities, error)) &&
           (!options->revoked || trust_each(rules->ssl, options->revoked, true, error));
}

// ---- Several names ------------------------------------------------------------------------------

struct mare__tls_named {
    struct mare__tls_named *next;
    struct mare__tls_rules *rules;
    char name[];
};

static bool is_named(const char *pattern, const char *name)
{
    const char *rest = strchr(name, '.');
    if (pattern[0] != '*')
        return strcasecmp(pattern, name) == 0;
    return rest && rest > name && strcasecmp(pattern + 1, rest) == 0;
}

static const struct mare__tls_rules *find_named(const struct mare__tls_rules *rules,
                                                const char *name)
{
    const struct mare__tls_rules *found = NULL;
    for (const struct mare__tls_named *one = rules->named; one; one = one->next)
        if (is_named(one->name, name) &&
            (!found || one->name[0] != '*')) // a whole name comes first
            found = one->rules;
    return found;
}

// A client that asks for no name, or for one that we do not know, gets what others get.
static int choose_named(SSL *ssl, int *alert, void *user)
{
    (void)alert;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct mare__tls_rules *found = name ? find_named(user, name) : NULL;
    if (found)
        SSL_set_SSL_CTX(ssl, found->ssl);
    return SSL_TLSEXT_ERR_OK;
}

bool mare__tls_context_name(struct mare__tls_context *context, const char *name,
                            struct mare__tls_context *other)
{
    struct mare__tls_rules *rules = context->rules;
    struct mare__tls_named *named = mare__alloc(sizeof *named + strlen(name) + 1);
    if (!named)
        return false;
    strcpy(named->name, name);
    named->rules = mare__tls_rules_take(other);
    named->next = rules->named;
    rules->named = named;
    SSL_CTX_set_tlsext_servername_callback(rules->ssl, choose_named);
    SSL_CTX_set_tlsext_servername_arg(rules->ssl, rules);
    return true;
}

// ---- From birth to end --------------------------------------------------------------------------

bool mare__tls_context_serves(struct mare__tls_context *context)
{
    struct mare__tls_rules *rules = mare__tls_rules_take(context);
    bool serves = rules->keys || SSL_CTX_get0_privatekey(rules->ssl) != NULL;
    mare__tls_rules_drop(rules);
    return serves;
}

bool mare__tls_context_owes(struct mare__tls_context *context)
{
    struct mare__tls_rules *rules = mare__tls_rules_take(context);
    bool owes = rules->verify != MARE__TLS_NOBODY && atomic_load(&rules->owes_system);
    mare__tls_rules_drop(rules);
    return owes;
}

void mare__tls_context_trust(struct mare__tls_context *context)
{
    struct mare__tls_rules *rules = mare__tls_rules_take(context);
    mare__tls_rules_trust_system(rules);
    mare__tls_rules_drop(rules);
}

struct mare__tls_rules *mare__tls_rules_take(struct mare__tls_context *context)
{
    mare__lock_acquire(&context->lock);
    struct mare__tls_rules *rules = context->rules;
    atomic_fetch_add(&rules->references, 1);
    mare__lock_release(&context->lock);
    return rules;
}

void mare__tls_rules_drop(struct mare__tls_rules *rules)
{
    if (atomic_fetch_sub(&rules->references, 1) > 1)
        return;
    for (struct mare__tls_named *named; (named = rules->named) != NULL;) {
        rules->named = named->next;
        mare__tls_rules_drop(named->rules);
        mare__free(named);
    }
    mare__tls_forget_sessions(rules);
    SSL_CTX_free(rules->ssl);
    pthread_mutex_destroy(&rules->mutex);
    mare__free(rules->protocols);
    mare__free(rules->staple);
    mare__tls_forget_keys(rules);
    mare__free(rules);
}

static void destroy(struct mare__object *object)
{
    struct mare__tls_context *context = (struct mare__tls_context *)object;
    mare__tls_rules_drop(context->rules);
    mare__free(context);
}

struct mare__tls_context *mare__tls_context_new(const struct mare__tls_options *options,
                                                struct mare__tls_error *error)
{
    mare__tls_begin();
    struct mare__tls_context *context = mare__alloc_zero(sizeof *context);
    struct mare__tls_rules *rules = context ? mare__alloc_zero(sizeof *rules) : NULL;
    if (rules)
        rules->ssl = SSL_CTX_new(TLS_method());
    if (!rules || !rules->ssl) {
        mare__free(rules);
        mare__free(context);
        mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
        return NULL;
    }
    atomic_init(&rules->references, 1);
    pthread_mutex_init(&rules->mutex, NULL);
    mare__object_init(&context->object, MARE__KIND_TLS, destroy);
    context->object.weight = 65536; // about that, without the system's authorities
    context->rules = rules;
    if (fill(rules, options, error))
        return context;
    mare__unref(&context->object);
    return NULL;
}

void mare__tls_leave_thread(void)
{
    OPENSSL_thread_stop();
}

void mare__tls_context_replace(struct mare__tls_context *context, struct mare__tls_context *other)
{
    struct mare__tls_rules *rules = mare__tls_rules_take(other);
    mare__lock_acquire(&context->lock);
    struct mare__tls_rules *before = context->rules;
    context->rules = rules;
    mare__lock_release(&context->lock);
    mare__tls_rules_drop(before);
}
