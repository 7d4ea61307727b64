/* SPDX-License-Identifier: Apache-2.0 */
#include "proof/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

void tr_proof(struct tr_span secret, struct tr_span message, uint8_t proof[TR_PROOF_SIZE])
{
    unsigned size = TR_PROOF_SIZE;
    const void *key = secret.text != NULL ? secret.text : "";
    if (HMAC(EVP_sha256(), key, (int)secret.size, (const uint8_t *)message.text, message.size,
             proof, &size) == NULL)
        abort();
}

void tr_digest(struct tr_span text, uint8_t digest[TR_PROOF_SIZE])
{
    if (EVP_Digest(text.text, text.size, digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
}

bool tr_proof_equals(const uint8_t a[TR_PROOF_SIZE], const uint8_t b[TR_PROOF_SIZE])
{
    return CRYPTO_memcmp(a, b, TR_PROOF_SIZE) == 0;
}
