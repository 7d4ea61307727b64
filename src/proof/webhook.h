/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of callbacks, as Standard Webhooks 1.0.0 has them: HMAC-SHA-256 over the id, the time
 * and the body, once with each secret, so that a new one can be given to receivers before the old
 * one is taken back.
 */
#ifndef TR_PROOF_WEBHOOK_H
#define TR_PROOF_WEBHOOK_H

#include "base/bytes.h"

#define TR_WEBHOOK_KEYS      4
#define TR_WEBHOOK_KEY_LEAST 24 /* bytes of a key */
#define TR_WEBHOOK_KEY_MOST  64
#define TR_WEBHOOK_SIGNATURE 48 /* characters of a signature, and the space behind it */

struct tr_webhook_key {
    uint8_t bytes[TR_WEBHOOK_KEY_MOST];
    size_t size;
};

struct tr_webhook_keys {
    uint32_t count;
    struct tr_webhook_key keys[TR_WEBHOOK_KEYS];
};

/* Lines of `whsec_` and base64; empty lines and comments after # are none. NULL: they are; else
 * what is wrong, as the end of a sentence. */
const char *tr_webhook_parse(struct tr_span text, struct tr_webhook_keys *keys);

/* The value of webhook-signature, TR_WEBHOOK_SIGNATURE characters a key at most. */
void tr_webhook_sign(const struct tr_webhook_keys *keys, struct tr_span id, uint64_t at_s,
                     struct tr_span body, struct tr_writer *out);

/* Whether any of the signatures in a header is of any of the keys. */
bool tr_webhook_verify(const struct tr_webhook_keys *keys, struct tr_span id, uint64_t at_s,
                       struct tr_span body, struct tr_span signatures);

#endif
