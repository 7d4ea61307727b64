/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/tls.h"

#include "shell/say.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct tr_tls_context {
    SSL_CTX *ssl;
};

struct tr_tls {
    SSL *ssl;
    BIO *from_wire;
    BIO *to_wire;
    bool is_broken;
    char fault[256];
};

struct tr_tls_context *tr_tls_context_new(const char *ca_file)
{
    struct tr_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    context->ssl = SSL_CTX_new(TLS_client_method());
    if (context->ssl == NULL) {
        free(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
    bool is_loaded = ca_file[0] != '\0'
                         ? SSL_CTX_load_verify_locations(context->ssl, ca_file, NULL) == 1
                         : SSL_CTX_set_default_verify_paths(context->ssl) == 1;
    if (!is_loaded) {
        tr_say(TR_ERROR, "[callback] ca-file %s cannot be read as certificates", ca_file);
        tr_tls_context_free(context);
        return NULL;
    }
    return context;
}

void tr_tls_context_free(struct tr_tls_context *context)
{
    if (context != NULL)
        SSL_CTX_free(context->ssl);
    free(context);
}

/* ---- of nodes ---- */

/* `hint` says in words what OpenSSL says in its own. */
static struct tr_tls_context *refuse(struct tr_tls_context *context, const char *key,
                                     const char *file, const char *hint)
{
    char why[256];
    unsigned long code = ERR_get_error();
    bool is_other =
        ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH;
    ERR_error_string_n(code, why, sizeof why);
    ERR_clear_error();
    if (is_other)
        tr_say(TR_ERROR, "[tls] %s %s cannot be used: it does not belong to the certificate", key,
               file);
    else
        tr_say(TR_ERROR, "[tls] %s %s cannot be used: it %s (%s)", key, file, hint, why);
    tr_tls_context_free(context);
    return NULL;
}

static struct tr_tls_context *make(const struct tr_tls_files *files, const SSL_METHOD *method)
{
    struct tr_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    context->ssl = SSL_CTX_new(method);
    if (context->ssl == NULL) {
        free(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                          SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_chain_file(context->ssl, files->cert) != 1)
        return refuse(context, "cert", files->cert, "is no certificate in PEM, or cannot be read");
    if (SSL_CTX_use_PrivateKey_file(context->ssl, files->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context->ssl) != 1)
        return refuse(context, "key", files->key, "is no private key in PEM, or cannot be read");
    if (files->ca[0] != '\0' && SSL_CTX_load_verify_locations(context->ssl, files->ca, NULL) != 1)
        return refuse(context, "client-ca", files->ca,
                      "has no certificates in PEM, or cannot be read");
    return context;
}

struct tr_tls_context *tr_tls_context_server(const struct tr_tls_files *files)
{
    static const unsigned char name[] = "trystd";
    struct tr_tls_context *context = make(files, TLS_server_method());
    if (context == NULL)
        return NULL;
    SSL_CTX_set_session_id_context(context->ssl, name, sizeof name - 1);
    if (files->ca[0] == '\0')
        return context;
    /* Clients need not show one; other nodes do, and that is asked for when they have said who they
     * are. One that is shown must be good. */
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_client_CA_list(context->ssl, SSL_load_client_CA_file(files->ca));
    return context;
}

struct tr_tls_context *tr_tls_context_client(const struct tr_tls_files *files)
{
    struct tr_tls_context *context = make(files, TLS_client_method());
    if (context == NULL)
        return NULL;
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    if (files->ca[0] == '\0' && SSL_CTX_set_default_verify_paths(context->ssl) != 1)
        return refuse(context, "client-ca", "of the system", "cannot be read");
    return context;
}

uint64_t tr_tls_context_expires_s(const struct tr_tls_context *context)
{
    struct tm parts;
    const ASN1_TIME *end = X509_get0_notAfter(SSL_CTX_get0_certificate(context->ssl));
    return ASN1_TIME_to_tm(end, &parts) == 1 ? (uint64_t)timegm(&parts) : 0;
}

/* As a peer would that has the same authority, of the one who answers or of the one who dials. */
static long judge(const struct tr_tls_context *context, int purpose)
{
    STACK_OF(X509) *chain = NULL;
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    if (check == NULL)
        return X509_V_ERR_OUT_OF_MEM;
    SSL_CTX_get0_chain_certs(context->ssl, &chain);
    bool is_good = X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context->ssl),
                                       SSL_CTX_get0_certificate(context->ssl), chain) == 1 &&
                   X509_STORE_CTX_set_purpose(check, purpose) == 1 && X509_verify_cert(check) == 1;
    long verdict = is_good ? X509_V_OK : X509_STORE_CTX_get_error(check);
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return verdict;
}

const char *tr_tls_context_doubt(const struct tr_tls_context *context)
{
    long verdict = judge(context, X509_PURPOSE_SSL_SERVER);
    if (verdict == X509_V_OK)
        verdict = judge(context, X509_PURPOSE_SSL_CLIENT);
    return verdict == X509_V_OK ? NULL : X509_verify_cert_error_string(verdict);
}

/* ---- connections ---- */

static bool expect_host(struct tr_tls *tls, const char *host)
{
    unsigned char address[16];
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    if (is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), host) == 1;
    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(tls->ssl, host) == 1 && SSL_set_tlsext_host_name(tls->ssl, host) == 1;
}

static struct tr_tls *make_tls(struct tr_tls_context *context)
{
    struct tr_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return NULL;
    tls->ssl = SSL_new(context->ssl);
    tls->from_wire = BIO_new(BIO_s_mem());
    tls->to_wire = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->from_wire == NULL || tls->to_wire == NULL) {
        BIO_free(tls->from_wire);
        BIO_free(tls->to_wire);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->from_wire, tls->to_wire);
    return tls;
}

struct tr_tls *tr_tls_new(struct tr_tls_context *context, const char *host)
{
    struct tr_tls *tls = make_tls(context);
    if (tls == NULL)
        return NULL;
    SSL_set_connect_state(tls->ssl);
    if (!expect_host(tls, host)) {
        tr_tls_free(tls);
        return NULL;
    }
    return tls;
}

struct tr_tls *tr_tls_accept(struct tr_tls_context *context)
{
    struct tr_tls *tls = make_tls(context);
    if (tls != NULL)
        SSL_set_accept_state(tls->ssl);
    return tls;
}

static bool bears(X509 *certificate, const char *host)
{
    unsigned char address[16];
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    return is_address ? X509_check_ip_asc(certificate, host, 0) == 1
                      : X509_check_host(certificate, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
                                        NULL) == 1;
}

bool tr_tls_bears(const struct tr_tls *tls, const char *host)
{
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    return certificate != NULL && SSL_get_verify_result(tls->ssl) == X509_V_OK &&
           bears(certificate, host);
}

bool tr_tls_context_bears(const struct tr_tls_context *context, const char *host)
{
    return bears(SSL_CTX_get0_certificate(context->ssl), host);
}

void tr_tls_end(struct tr_tls *tls)
{
    if (SSL_is_init_finished(tls->ssl) && SSL_shutdown(tls->ssl) < 0)
        ERR_clear_error();
}

bool tr_tls_is_ended(const struct tr_tls *tls)
{
    return (SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

void tr_tls_free(struct tr_tls *tls)
{
    SSL_free(tls->ssl); /* and both BIOs */
    free(tls);
}

/* In words, where there are any. */
static const char *reason_of(unsigned long code)
{
    const char *reason = ERR_reason_error_string(code);
    bool is_plain = reason != NULL && (strcmp(reason, "wrong version number") == 0 ||
                                       strcmp(reason, "http request") == 0);
    return is_plain         ? "the other end does not speak TLS"
           : reason != NULL ? reason
                            : "the other end broke off";
}

static void keep_fault(struct tr_tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_get_error();
    if (verdict != X509_V_OK)
        snprintf(tls->fault, sizeof tls->fault, "%s", X509_verify_cert_error_string(verdict));
    else
        snprintf(tls->fault, sizeof tls->fault, "%s", reason_of(code));
    ERR_clear_error();
}

enum tr_tls_state tr_tls_input(struct tr_tls *tls, const char *bytes, size_t size)
{
    if (size > 0 && (size > INT_MAX || BIO_write(tls->from_wire, bytes, (int)size) != (int)size))
        return TR_TLS_FAILED;
    if (SSL_is_init_finished(tls->ssl))
        return TR_TLS_READY;
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1)
        return TR_TLS_READY;
    int why = SSL_get_error(tls->ssl, result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return TR_TLS_SHAKING;
    keep_fault(tls);
    return TR_TLS_FAILED;
}

size_t tr_tls_output(struct tr_tls *tls, char *bytes, size_t cap)
{
    int got = BIO_read(tls->to_wire, bytes, (int)cap);
    return got > 0 ? (size_t)got : 0;
}

bool tr_tls_write(struct tr_tls *tls, const char *bytes, size_t size)
{
    while (size > 0) {
        int written = SSL_write(tls->ssl, bytes, size > INT_MAX ? INT_MAX : (int)size);
        if (written <= 0)
            return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

size_t tr_tls_read(struct tr_tls *tls, char *bytes, size_t cap)
{
    int got = SSL_read(tls->ssl, bytes, (int)cap);
    int why = got > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, got);
    bool is_fine = why == SSL_ERROR_NONE || why == SSL_ERROR_WANT_READ ||
                   why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_ZERO_RETURN;
    if (!is_fine) {
        tls->is_broken = true;
        keep_fault(tls);
    }
    ERR_clear_error();
    return got > 0 ? (size_t)got : 0;
}

bool tr_tls_is_broken(const struct tr_tls *tls)
{
    return tls->is_broken;
}

const char *tr_tls_fault(const struct tr_tls *tls)
{
    return tls->fault;
}

long tr_tls_verdict(const struct tr_tls *tls)
{
    return SSL_get_verify_result(tls->ssl);
}
