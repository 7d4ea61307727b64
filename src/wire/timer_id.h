/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a timer's id: 16 hex digits, `-`, the replication factor, and, when tryst gives it
 * out, `-` and 16 hex digits that encode the replicas. Whatever follows the factor is a help, not a
 * need, and is ignored when it cannot be read.
 */
#ifndef TR_WIRE_TIMER_ID_H
#define TR_WIRE_TIMER_ID_H

#include "base/bytes.h"
#include "base/record.h"

struct tr_timer_text {
    tr_timer_id id;
    uint32_t factor;   /* 0: not given */
    uint64_t replicas; /* a Bloom filter of their addresses; 0: not given */
};

#define TR_TIMER_TEXT_MAX 40

/* False if it is no id. A factor above TR_FACTOR_MAX is none. */
bool tr_timer_text_parse(struct tr_span text, struct tr_timer_text *out);

void tr_put_timer_text(struct tr_writer *writer, const struct tr_timer_text *text);

/* The bits of one address in the filter of replicas. */
uint64_t tr_replica_bits(struct tr_span address);

#endif
