/* SPDX-License-Identifier: Apache-2.0 */
#include "proof/webhook.h"

#include "proof/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "whsec_"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct tr_span trim(struct tr_span line)
{
    const char *comment = memchr(line.text, '#', line.size);
    if (comment != NULL)
        line.size = (size_t)(comment - line.text);
    while (line.size > 0 && is_blank(line.text[line.size - 1]))
        line.size--;
    while (line.size > 0 && is_blank(line.text[0]))
        line = tr_span_from(line, 1);
    return line;
}

static const char *parse_key(struct tr_span text, struct tr_webhook_key *key)
{
    uint8_t bytes[TR_WEBHOOK_KEY_MOST + 4];
    if (!tr_span_starts(text, TR_SPAN(PREFIX)))
        return "has a line that does not begin with whsec_";
    text = tr_span_from(text, sizeof PREFIX - 1);
    if (text.size % 4 != 0 || text.size == 0 ||
        text.size > (size_t)(TR_WEBHOOK_KEY_MOST + 2) / 3 * 4)
        return "has a secret that is not 24 to 64 bytes in base64";
    int size = EVP_DecodeBlock(bytes, (const uint8_t *)text.text, (int)text.size);
    for (size_t i = text.size; size > 0 && i > 0 && text.text[i - 1] == '='; i--)
        size--; /* padding counts as zeros there */
    if (size < TR_WEBHOOK_KEY_LEAST || size > TR_WEBHOOK_KEY_MOST)
        return "has a secret that is not 24 to 64 bytes in base64";
    key->size = (size_t)size;
    memcpy(key->bytes, bytes, key->size);
    return NULL;
}

const char *tr_webhook_parse(struct tr_span text, struct tr_webhook_keys *keys)
{
    keys->count = 0;
    while (text.size > 0) {
        const char *end = memchr(text.text, '\n', text.size);
        size_t size = end != NULL ? (size_t)(end - text.text) : text.size;
        struct tr_span line = trim((struct tr_span){text.text, size});
        text = tr_span_from(text, end != NULL ? size + 1 : size);
        if (line.size == 0)
            continue;
        if (keys->count == TR_WEBHOOK_KEYS)
            return "has more than 4 secrets";
        const char *fault = parse_key(line, &keys->keys[keys->count]);
        if (fault != NULL)
            return fault;
        keys->count++;
    }
    return keys->count > 0 ? NULL : "has no secret, a line that begins with whsec_";
}

/* `v1,` and the signature. The pieces are signed one after another, without a copy of the body. */
static void sign_with(const struct tr_webhook_key *key, struct tr_span id, uint64_t at_s,
                      struct tr_span body, char out[TR_WEBHOOK_SIGNATURE])
{
    static const char version[] = {'v', '1', ','};
    char head[256];
    uint8_t digest[TR_PROOF_SIZE];
    size_t size = sizeof digest;
    int length =
        snprintf(head, sizeof head, "%.*s.%llu.", (int)id.size, id.text, (unsigned long long)at_s);
    EVP_PKEY *secret = EVP_PKEY_new_mac_key(EVP_PKEY_HMAC, NULL, key->bytes, (int)key->size);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_signed = secret != NULL && context != NULL && length > 0 &&
                     EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, secret) == 1 &&
                     EVP_DigestSignUpdate(context, head, (size_t)length) == 1 &&
                     EVP_DigestSignUpdate(context, body.text, body.size) == 1 &&
                     EVP_DigestSignFinal(context, digest, &size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(secret);
    if (!is_signed)
        abort();
    memcpy(out, version, sizeof version);
    EVP_EncodeBlock((uint8_t *)out + sizeof version, digest, (int)size);
}

void tr_webhook_sign(const struct tr_webhook_keys *keys, struct tr_span id, uint64_t at_s,
                     struct tr_span body, struct tr_writer *out)
{
    TR_ASSERT(keys->count > 0 && keys->count <= TR_WEBHOOK_KEYS);
    for (uint32_t i = 0; i < keys->count; i++) {
        char signature[TR_WEBHOOK_SIGNATURE];
        sign_with(&keys->keys[i], id, at_s, body, signature);
        if (i > 0)
            tr_put_bytes(out, " ", 1);
        tr_put_bytes(out, signature, TR_WEBHOOK_SIGNATURE - 1);
    }
}

bool tr_webhook_verify(const struct tr_webhook_keys *keys, struct tr_span id, uint64_t at_s,
                       struct tr_span body, struct tr_span signatures)
{
    bool is_good = false;
    for (uint32_t i = 0; i < keys->count; i++) {
        char wanted[TR_WEBHOOK_SIGNATURE];
        sign_with(&keys->keys[i], id, at_s, body, wanted);
        for (struct tr_span rest = signatures; rest.size > 0;) {
            const char *space = memchr(rest.text, ' ', rest.size);
            size_t size = space != NULL ? (size_t)(space - rest.text) : rest.size;
            is_good |= size == TR_WEBHOOK_SIGNATURE - 1 &&
                       CRYPTO_memcmp(rest.text, wanted, TR_WEBHOOK_SIGNATURE - 1) == 0;
            rest = tr_span_from(rest, space != NULL ? size + 1 : size);
        }
    }
    return is_good;
}
