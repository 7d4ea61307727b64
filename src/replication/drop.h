/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropping what belongs elsewhere, or was replaced, and hearing that others have.
 *
 * A drop names an order: what is at it, or below, goes; what is higher stays, and the other node is
 * shown it. To take back is to drop one write alone, whatever is older.
 *
 * Owns:    nothing; what was dropped is remembered in dropped.
 */
#ifndef TR_REPLICATION_DROP_H
#define TR_REPLICATION_DROP_H

#include "replication/replication.h"

/* Another node wants it dropped here, for one of its operations if that is not 0. */
void tr_drop_asked(struct tr_replication *replication, uint16_t peer, const struct tr_head *named,
                   uint64_t operation);
void tr_drop_take_back(struct tr_replication *replication, const struct tr_head *named);

/* `peer` does not have this order of a record. `is_wanted`: it lacks the record and asks for a
 * copy. Else it has dropped it; `is_asked`: because an operation of this node asked for that. */
void tr_drop_heard(struct tr_replication *replication, uint16_t peer, const struct tr_head *named,
                   bool is_asked, bool is_wanted);

/* Answers a node that has sent a copy: a higher state of that record was dropped here. */
void tr_drop_pass_on(struct tr_replication *replication, uint16_t peer, const struct tr_head *head,
                     const struct tr_order *dropped);

#endif
