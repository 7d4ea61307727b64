/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Catching up: a node that starts, whose loop stood still or whose log was full, hears what it
 * missed before it acts on any record.
 *
 * The node waits until every other node has heard that it catches up and has said that nothing is
 * pending for it; silent nodes are given up after a while. Then it announces a time from which it
 * pops, and starts when all have heard that. Every node counts it last for pops due before then.
 *
 * Owns:    whether this node serves, and whether it pops.
 */
#ifndef TR_REPLICATION_CATCHUP_H
#define TR_REPLICATION_CATCHUP_H

#include "replication/replication.h"

void tr_catchup_begin(struct tr_replication *replication);
void tr_catchup_run(struct tr_replication *replication);
void tr_catchup_end(struct tr_replication *replication); /* it has heard all there is to hear */
tr_mono_ms tr_catchup_wake_at(const struct tr_replication *replication);

/* At the beginning of a step: that its loop stood still. */
void tr_catchup_notice(struct tr_replication *replication, struct tr_effects *out);

/* That its log is full, or has room again. */
void tr_catchup_mind_log(struct tr_replication *replication);

/* Something that `peer` sent could not be stored, and will be sent again: while this node catches
 * up, it waits for that. `pass_up` is for a record: if a lower state of it is held here, the nodes
 * that have the record pop it meanwhile. */
void tr_catchup_miss(struct tr_replication *replication, uint16_t peer);
void tr_catchup_pass_up(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *head);

#endif
