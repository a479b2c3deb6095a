// SPDX-License-Identifier: MIT
// Turns OpenSSL's errors into a code for programs and a message for people.
#include "platform/tls_inner.h"

const char mare__tls_no_server[] = "a server needs a certificate, or pre-shared keys";
const char mare__tls_no_key[] = "the peer does not have the key";

// Alerts by which a peer says that it does not like our certificate, or that there is none.
static bool is_about_certificate(int alert)
{
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
           alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
           alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_BAD_CERTIFICATE_STATUS_RESPONSE;
}

// The same of our pre-shared key; others than OpenSSL use other ones.
static bool is_about_key(int alert)
{
    return alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_HANDSHAKE_FAILURE ||
           alert == SSL_AD_DECRYPT_ERROR || alert == SSL_AD_UNKNOWN_PSK_IDENTITY;
}

static void explain_alert(struct mare__tls_error *error, int alert, bool shows_key)
{
    bool key = shows_key && is_about_key(alert);
    mare_err code = key || is_about_certificate(alert) ? MARE_DENIED : MARE_REFUSED;
    mare__tls_refuse(error, code, "the peer refused%s: %s", key ? " the key" : "",
                     SSL_alert_desc_string_long(alert));
}

static const char versions[] = "there is no version of TLS that both sides allow";
static const char no_tls[] = "the peer does not speak TLS";

void mare__tls_explain(const struct mare__tls_rules *rules, bool ready,
                       const struct mare__tls_error *refusal, struct mare__tls_error *error)
{
    unsigned long err = ERR_peek_error();
    int reason = ERR_GET_REASON(err);
    const char *text = ERR_reason_error_string(err);
    if (rules->keys && (err == 0 || reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)) {
        mare__tls_refuse(error, MARE_DENIED, "%s", mare__tls_no_key); // and so a certificate is due
        return;
    }
    if (ERR_GET_LIB(err) != ERR_LIB_SSL) {
        mare__tls_refuse(error, MARE_IO, "%s", text ? text : "OpenSSL failed");
        return;
    }
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_INVALID_STATUS_RESPONSE: // that is, our own verdict on it
        if (refusal)
            *error = *refusal;
        else
            mare__tls_refuse(error, MARE_DENIED, "the peer's certificate is not valid");
        return;
    case SSL_R_BINDER_DOES_NOT_VERIFY: // what shows that the peer has the key
        mare__tls_refuse(error, MARE_DENIED, "%s", mare__tls_no_key);
        return;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        mare__tls_refuse(error, MARE_DENIED, "the peer has given no certificate");
        return;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        if (ready)
            mare__tls_refuse(error, MARE_IO, "the stream was cut off: TLS did not end it");
        else
            mare__tls_refuse(error, MARE_CLOSED, "the peer left during the handshake");
        return;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        mare__tls_refuse(error, MARE_REFUSED, "%s", versions);
        return;
    case SSL_R_NO_SHARED_CIPHER:
        mare__tls_refuse(error, MARE_REFUSED, "there is no cipher that both sides allow");
        return;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_UNKNOWN_PROTOCOL:
        mare__tls_refuse(error, MARE_BADMSG, "%s", no_tls);
        return;
    default:
        if (reason >= SSL_AD_REASON_OFFSET)
            explain_alert(error, reason - SSL_AD_REASON_OFFSET, rules->keys && !ready);
        else
            mare__tls_refuse(error, MARE_BADMSG, "TLS: %s", text ? text : "an error without name");
    }
}
