/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two nodes prove to each other who they are, before frames travel between them.
 *
 *   dialler   CALL: version, from, to, nonce
 *   acceptor  REPLY: version, nonce, proof; or REFUSAL: why
 *   dialler   PROOF
 *
 * A proof is an HMAC with the cluster's secret over tr_greeting_oath(): it holds for this dialler,
 * this acceptor and these two nonces, so neither can be played again. docs/protocol.md is the
 * normative text.
 */
#ifndef TR_WIRE_GREETING_H
#define TR_WIRE_GREETING_H

#include "base/bytes.h"

#define TR_NONCE_SIZE    32
#define TR_PROOF_SIZE    32
#define TR_GREETING_MAX  640 /* bytes of any of them */
#define TR_OATH_MAX      640
#define TR_REFUSAL_MAX   200
#define TR_GREETING_NAME 255 /* bytes of an address */

enum tr_greeting_kind {
    TR_GREETING_CALL = 1,
    TR_GREETING_REPLY = 2,
    TR_GREETING_PROOF = 3,
    TR_GREETING_REFUSAL = 4,
};

struct tr_greeting {
    enum tr_greeting_kind kind;
    uint64_t version; /* of CALL: the highest that the dialler speaks; of REPLY: the one to speak */
    struct tr_span from;
    struct tr_span to;
    uint8_t nonce[TR_NONCE_SIZE];
    uint8_t proof[TR_PROOF_SIZE];
    struct tr_span reason;
};

void tr_greeting_put(struct tr_writer *writer, const struct tr_greeting *greeting);

/* False: it is none. What it points to is in the reader's bytes. */
bool tr_greeting_get(struct tr_reader *reader, struct tr_greeting *greeting);

enum tr_greeting_role { TR_DIALLER = 1, TR_ACCEPTOR = 2 };

/* What both know by then, and what a proof of either is made over. */
struct tr_oath {
    uint64_t version;
    struct tr_span dialler;
    struct tr_span acceptor;
    uint8_t dialler_nonce[TR_NONCE_SIZE];
    uint8_t acceptor_nonce[TR_NONCE_SIZE];
};

void tr_greeting_oath(struct tr_writer *writer, enum tr_greeting_role role,
                      const struct tr_oath *oath);

/* What one who sets the nodes of a cluster proves: that the secret, the node that is told, its
 * challenge and the text belong together. */
void tr_greeting_apply_oath(struct tr_writer *writer, struct tr_span address, uint64_t challenge,
                            struct tr_span text);

#endif
