/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs that somebody knows a secret: HMAC-SHA-256, by OpenSSL. */
#ifndef TR_PROOF_PROOF_H
#define TR_PROOF_PROOF_H

#include "wire/greeting.h"

void tr_proof(struct tr_span secret, struct tr_span message, uint8_t proof[TR_PROOF_SIZE]);

/* SHA-256 of a text. */
void tr_digest(struct tr_span text, uint8_t digest[TR_PROOF_SIZE]);

/* Takes the same time wherever they differ. */
bool tr_proof_equals(const uint8_t a[TR_PROOF_SIZE], const uint8_t b[TR_PROOF_SIZE]);

#endif
