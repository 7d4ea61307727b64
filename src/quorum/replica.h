/* SPDX-License-Identifier: Apache-2.0 */
/* What other nodes ask of this one about keys, and what they answer. */
#ifndef TR_QUORUM_REPLICA_H
#define TR_QUORUM_REPLICA_H

#include "quorum/quorum.h"

/* Operations of an answer that is for no client: an exchange, or a stray on offer. */
#define TR_FOR_EXCHANGE ((uint64_t)1 << 60)
#define TR_FOR_STRAY    ((uint64_t)1 << 62)
#define TR_FOR_SCAN     ((uint64_t)1 << 61)

/* A frame of the kind KEYS, from behind its head on. */
void tr_replica_keys(struct tr_quorum *quorum, uint16_t peer, struct tr_reader *in,
                     struct tr_effects *out);

/* In each step: what came while the log had no room. */
void tr_replica_run(struct tr_quorum *quorum, struct tr_effects *out);

#endif
