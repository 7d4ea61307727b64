/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS, by OpenSSL, on bytes: it knows no sockets. Of callbacks this is the client's side; of
 * clients and links to other nodes both.
 */
#ifndef TR_SHELL_TLS_H
#define TR_SHELL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_tls_context;
struct tr_tls;

enum tr_tls_state { TR_TLS_SHAKING, TR_TLS_READY, TR_TLS_FAILED };

/* Checks receivers against `ca_file`, or the system's certificates if that is empty. NULL: it has
 * said why. */
struct tr_tls_context *tr_tls_context_new(const char *ca_file);
void tr_tls_context_free(struct tr_tls_context *context);

/* What a node shows, and by whose certificates it checks those that others show. */
struct tr_tls_files {
    const char *cert;
    const char *key;
    const char *ca; /* empty: others are checked by the system's, and clients not asked for one */
};

/* The contexts of a node: as a server, and as a client of other nodes. NULL: it has said why. They
 * may go while connections made of them go on. */
struct tr_tls_context *tr_tls_context_server(const struct tr_tls_files *files);
struct tr_tls_context *tr_tls_context_client(const struct tr_tls_files *files);

/* Of the certificate that such a context shows: when it ends, since 1970; whether it bears this
 * name or address; and why whoever has the same `ca` would refuse it. NULL: nobody would. */
uint64_t tr_tls_context_expires_s(const struct tr_tls_context *context);
bool tr_tls_context_bears(const struct tr_tls_context *context, const char *host);
const char *tr_tls_context_doubt(const struct tr_tls_context *context);

/* A connection that somebody else begins. NULL: no memory. */
struct tr_tls *tr_tls_accept(struct tr_tls_context *context);

/* Whether the other end has shown a certificate, which was checked and bears this name or
 * address. */
bool tr_tls_bears(const struct tr_tls *tls, const char *host);

/* Nothing more will be written; the other end is told. And whether the other end has said so. */
void tr_tls_end(struct tr_tls *tls);
bool tr_tls_is_ended(const struct tr_tls *tls);

/* A connection to `host`, whose certificate must bear that name or address. */
struct tr_tls *tr_tls_new(struct tr_tls_context *context, const char *host);
void tr_tls_free(struct tr_tls *tls);

/* Takes bytes off the wire, or none to begin with, and goes on with the handshake. */
enum tr_tls_state tr_tls_input(struct tr_tls *tls, const char *bytes, size_t size);

/* Bytes for the wire; 0: none now. */
size_t tr_tls_output(struct tr_tls *tls, char *bytes, size_t cap);

/* Once it is ready. */
bool tr_tls_write(struct tr_tls *tls, const char *bytes, size_t size);
/* 0: there is no more for now, or, once tr_tls_is_broken(), ever. */
size_t tr_tls_read(struct tr_tls *tls, char *bytes, size_t cap);
bool tr_tls_is_broken(const struct tr_tls *tls);

const char *tr_tls_fault(const struct tr_tls *tls);
long tr_tls_verdict(const struct tr_tls *tls); /* on the certificate, by OpenSSL's numbers */

#endif
