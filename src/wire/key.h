/* SPDX-License-Identifier: Apache-2.0 */
/* A record's key and order, as the log and the frames between nodes write them. */
#ifndef TR_WIRE_KEY_H
#define TR_WIRE_KEY_H

#include "base/bytes.h"
#include "base/record.h"

#define TR_KEY_ORDER_MAX (8 + 8 + 2 + 4 * TR_VARINT_MAX)

static inline void tr_put_key_order(struct tr_writer *out, const struct tr_head *head)
{
    tr_put_number(out, head->key.id, 8);
    tr_put_varint(out, head->key.part);
    tr_put_number(out, head->order.version, 8);
    tr_put_number(out, head->order.version_node, 2);
    tr_put_varint(out, head->order.sequence);
    tr_put_varint(out, head->order.attempt);
    tr_put_varint(out, head->order.moves);
}

static inline void tr_get_key_order(struct tr_reader *in, struct tr_head *head)
{
    head->key.id = tr_get_number(in, 8);
    head->key.part = tr_get_varint(in);
    head->order.version = tr_get_number(in, 8);
    head->order.version_node = (uint16_t)tr_get_number(in, 2);
    head->order.sequence = tr_get_varint(in);
    uint64_t attempt = tr_get_varint(in);
    uint64_t moves = tr_get_varint(in);
    in->is_short |= attempt > TR_ATTEMPT_MAX || moves > UINT32_MAX;
    head->order.attempt = (uint32_t)attempt;
    head->order.moves = (uint32_t)moves;
}

#endif
