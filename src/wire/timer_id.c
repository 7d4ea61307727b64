/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/timer_id.h"

#include "base/assert.h"
#include "base/hash.h"
#include "wire/hex.h"
#include "wire/text.h"

static bool read_hex16(struct tr_span text, uint64_t *value)
{
    return text.size >= 16 && tr_hex_number((struct tr_span){text.text, 16}, value);
}

bool tr_timer_text_parse(struct tr_span text, struct tr_timer_text *out)
{
    *out = (struct tr_timer_text){0};
    if (!read_hex16(text, &out->id) || text.size < 18 || text.text[16] != '-')
        return false;
    size_t at = 17;
    for (; at < text.size && text.text[at] >= '0' && text.text[at] <= '9'; at++) {
        out->factor = out->factor * 10 + (uint32_t)(text.text[at] - '0');
        if (out->factor > TR_FACTOR_MAX)
            return false;
    }
    if (at == 17)
        return false;
    if (at < text.size && text.text[at] == '-')
        read_hex16(tr_span_from(text, at + 1), &out->replicas);
    return true;
}

void tr_put_timer_text(struct tr_writer *writer, const struct tr_timer_text *text)
{
    TR_ASSERT(text->factor <= TR_FACTOR_MAX);
    tr_put_hex(writer, text->id, 16);
    tr_put_bytes(writer, "-", 1);
    tr_put_decimal(writer, text->factor);
    tr_put_bytes(writer, "-", 1);
    tr_put_hex(writer, text->replicas, 16);
}

uint64_t tr_replica_bits(struct tr_span address)
{
    uint64_t bits = 0;
    for (uint32_t seed = 0; seed < 3; seed++) {
        uint64_t halves[2];
        tr_hash_murmur3_128(address.text, address.size, seed, halves);
        bits |= (uint64_t)1 << halves[0] % 64 | (uint64_t)1 << halves[1] % 64;
    }
    TR_ASSERT(bits != 0);
    return bits;
}
