/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/callback/tls.h"

#include "shell/say.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct tr_tls_context {
    SSL_CTX *ssl;
};

struct tr_tls {
    SSL *ssl;
    BIO *from_wire;
    BIO *to_wire;
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
    SSL_CTX_free(context->ssl);
    free(context);
}

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

struct tr_tls *tr_tls_new(struct tr_tls_context *context, const char *host)
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
    SSL_set_connect_state(tls->ssl);
    if (!expect_host(tls, host)) {
        tr_tls_free(tls);
        return NULL;
    }
    return tls;
}

void tr_tls_free(struct tr_tls *tls)
{
    SSL_free(tls->ssl); /* and both BIOs */
    free(tls);
}

static void keep_fault(struct tr_tls *tls)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_get_error();
    if (verdict != X509_V_OK)
        snprintf(tls->fault, sizeof tls->fault, "%s", X509_verify_cert_error_string(verdict));
    else
        ERR_error_string_n(code, tls->fault, sizeof tls->fault);
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
    if (got <= 0)
        ERR_clear_error();
    return got > 0 ? (size_t)got : 0;
}

const char *tr_tls_fault(const struct tr_tls *tls)
{
    return tls->fault;
}

long tr_tls_verdict(const struct tr_tls *tls)
{
    return SSL_get_verify_result(tls->ssl);
}
