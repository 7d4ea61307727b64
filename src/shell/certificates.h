/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this node shows of itself by TLS, and by what it checks others: the files of `[tls]`.
 *
 * A certificate that others will refuse does not keep a node from starting: one that is left alone
 * still pops its timers. But it is said, before the others say it; and a reload, which has a better
 * one, does not take it.
 *
 * Owns: the contexts of which connections are made.
 */
#ifndef TR_SHELL_CERTIFICATES_H
#define TR_SHELL_CERTIFICATES_H

#include "shell/config.h"
#include "shell/tls.h"

struct tr_certificates {
    struct tr_tls_context *server; /* NULL: there is no TLS */
    struct tr_tls_context *client; /* to other nodes */
    uint64_t expires_s;            /* since 1970; 0: there is none */
    uint64_t said_days;            /* that were left when its end was last told of */
};

/* Returns how many faults there were, each of which was said; then there is nothing to free. A
 * certificate that has expired, or bears another address, is a fault unless `is_start`. */
unsigned tr_certificates_load(struct tr_certificates *certificates, const struct tr_config *config,
                              bool is_start);

/* Connections that were made of them go on. */
void tr_certificates_free(struct tr_certificates *certificates);

/* Says that they end soon, once a day, and once that they have ended. */
void tr_certificates_watch(struct tr_certificates *certificates, uint64_t now_s);

#endif
