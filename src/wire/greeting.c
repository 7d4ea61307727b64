/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/greeting.h"

#include "base/assert.h"

void tr_greeting_put(struct tr_writer *out, const struct tr_greeting *greeting)
{
    tr_put_number(out, (uint64_t)greeting->kind, 1);
    switch (greeting->kind) {
    case TR_GREETING_CALL:
        tr_put_varint(out, greeting->version);
        tr_put_span(out, greeting->from);
        tr_put_span(out, greeting->to);
        tr_put_bytes(out, greeting->nonce, TR_NONCE_SIZE);
        return;
    case TR_GREETING_REPLY:
        tr_put_varint(out, greeting->version);
        tr_put_bytes(out, greeting->nonce, TR_NONCE_SIZE);
        tr_put_bytes(out, greeting->proof, TR_PROOF_SIZE);
        return;
    case TR_GREETING_PROOF:
        tr_put_bytes(out, greeting->proof, TR_PROOF_SIZE);
        return;
    case TR_GREETING_REFUSAL:
        tr_put_span(out, greeting->reason);
        return;
    }
    TR_UNREACHABLE("no such greeting");
}

static void get_bytes(struct tr_reader *in, uint8_t *to, size_t size)
{
    const uint8_t *bytes = tr_get_bytes(in, size);
    if (bytes != NULL)
        memcpy(to, bytes, size);
}

/* It is logged, whoever said it: nothing but what can be seen. */
static struct tr_span get_text(struct tr_reader *in, size_t most)
{
    TR_ASSERT(most <= TR_GREETING_NAME);
    struct tr_span text = tr_get_span(in);
    in->is_short |= text.size == 0 || text.size > most;
    for (size_t i = 0; i < text.size && !in->is_short; i++)
        in->is_short |= text.text[i] < ' ' || text.text[i] > '~';
    return text;
}

bool tr_greeting_get(struct tr_reader *in, struct tr_greeting *greeting)
{
    uint64_t kind = tr_get_number(in, 1);
    if (in->is_short || kind < TR_GREETING_CALL || kind > TR_GREETING_REFUSAL)
        return false;
    greeting->kind = (enum tr_greeting_kind)kind;
    switch (greeting->kind) {
    case TR_GREETING_CALL:
        greeting->version = tr_get_varint(in);
        greeting->from = get_text(in, TR_GREETING_NAME);
        greeting->to = get_text(in, TR_GREETING_NAME);
        get_bytes(in, greeting->nonce, TR_NONCE_SIZE);
        break;
    case TR_GREETING_REPLY:
        greeting->version = tr_get_varint(in);
        get_bytes(in, greeting->nonce, TR_NONCE_SIZE);
        get_bytes(in, greeting->proof, TR_PROOF_SIZE);
        break;
    case TR_GREETING_PROOF:
        get_bytes(in, greeting->proof, TR_PROOF_SIZE);
        break;
    case TR_GREETING_REFUSAL:
        greeting->reason = get_text(in, TR_REFUSAL_MAX);
        break;
    }
    return !in->is_short && in->at == in->end;
}

void tr_greeting_oath(struct tr_writer *out, enum tr_greeting_role role, const struct tr_oath *oath)
{
    tr_put_span(out, TR_SPAN("tryst-peer"));
    tr_put_number(out, (uint64_t)role, 1);
    tr_put_varint(out, oath->version);
    tr_put_span(out, oath->dialler);
    tr_put_span(out, oath->acceptor);
    tr_put_bytes(out, oath->dialler_nonce, TR_NONCE_SIZE);
    tr_put_bytes(out, oath->acceptor_nonce, TR_NONCE_SIZE);
}

void tr_greeting_apply_oath(struct tr_writer *out, struct tr_span address, uint64_t challenge,
                            struct tr_span text)
{
    tr_put_span(out, TR_SPAN("tryst-apply"));
    tr_put_span(out, address);
    tr_put_number(out, challenge, 8);
    tr_put_span(out, text);
}
