/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Which connections speak TLS: a command has a few at once. */
#define SECURED_MAX 512

static struct secured {
    int file;
    SSL *ssl; /* NULL: the place is free */
} secured[SECURED_MAX];

static SSL_CTX *context;
static char fault[256];

static SSL *find(int file)
{
    for (size_t i = 0; i < SECURED_MAX; i++) {
        if (secured[i].ssl != NULL && secured[i].file == file)
            return secured[i].ssl;
    }
    return NULL;
}

static void keep_fault(const SSL *ssl)
{
    long verdict = ssl == NULL ? X509_V_OK : SSL_get_verify_result(ssl);
    unsigned long code = ERR_get_error();
    if (verdict != X509_V_OK)
        snprintf(fault, sizeof fault, "%s", X509_verify_cert_error_string(verdict));
    else if (code != 0)
        ERR_error_string_n(code, fault, sizeof fault);
    else
        snprintf(fault, sizeof fault, "the other end broke off");
    ERR_clear_error();
}

static bool open_context(const char *ca_file)
{
    if (context != NULL)
        return true;
    signal(SIGPIPE, SIG_IGN); /* a broken connection is an error like others */
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL)
        abort();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
    if (SSL_CTX_load_verify_locations(context, ca_file, NULL) == 1)
        return true;
    snprintf(fault, sizeof fault, "--ca %s cannot be read as certificates", ca_file);
    SSL_CTX_free(context);
    context = NULL;
    ERR_clear_error();
    return false;
}

static bool expect(SSL *ssl, const char *host)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

bool tr_secure_begin(int file, const char *host, const char *ca_file, const char **why)
{
    size_t place = 0;
    *why = fault;
    while (place < SECURED_MAX && secured[place].ssl != NULL)
        place++;
    if (!open_context(ca_file))
        return false;
    SSL *ssl = place < SECURED_MAX ? SSL_new(context) : NULL;
    if (ssl == NULL)
        abort();
    if (SSL_set_fd(ssl, file) != 1 || !expect(ssl, host) || SSL_connect(ssl) != 1) {
        keep_fault(ssl);
        SSL_free(ssl);
        return false;
    }
    secured[place] = (struct secured){file, ssl};
    return true;
}

ssize_t tr_secure_send(int file, const void *bytes, size_t size)
{
    SSL *ssl = find(file);
    if (ssl == NULL)
        return send(file, bytes, size, MSG_NOSIGNAL);
    int sent = SSL_write(ssl, bytes, size > INT_MAX ? INT_MAX : (int)size);
    if (sent <= 0)
        keep_fault(ssl);
    return sent > 0 ? sent : -1;
}

ssize_t tr_secure_receive(int file, void *bytes, size_t size)
{
    SSL *ssl = find(file);
    if (ssl == NULL)
        return recv(file, bytes, size, 0);
    int got = SSL_read(ssl, bytes, size > INT_MAX ? INT_MAX : (int)size);
    bool is_end = got <= 0 && SSL_get_error(ssl, got) == SSL_ERROR_ZERO_RETURN;
    if (got <= 0)
        ERR_clear_error();
    return got > 0 ? got : is_end ? 0 : -1;
}

void tr_secure_close(int file)
{
    for (size_t i = 0; i < SECURED_MAX; i++) {
        if (secured[i].ssl == NULL || secured[i].file != file)
            continue;
        SSL_shutdown(secured[i].ssl);
        SSL_free(secured[i].ssl);
        secured[i].ssl = NULL;
    }
    close(file);
}
