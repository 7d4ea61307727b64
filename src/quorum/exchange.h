/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges: two nodes compare the pairs that both are to hold, and each gets what it lacks.
 *
 * The one with the lower address asks, range by range, in the order of the keys' hashes: it sends a
 * sum over what it has there, and the other says that it has the same, or what it has. What one has
 * and the other lacks, or has an older version of, is sent. When all ranges are through and all
 * that was sent has been stored, both know that up to the beginning of the exchange they have the
 * same.
 *
 * They exchange when a link comes up, when the roster changes, when a third one is lost that was
 * writing, and every `exchange_ms`.
 */
#ifndef TR_QUORUM_EXCHANGE_H
#define TR_QUORUM_EXCHANGE_H

#include "quorum/quorum.h"

/* In each step, for each node that has greeted. */
void tr_exchange_run(struct tr_quorum *quorum, uint16_t peer);
bool tr_exchange_wants_tick(const struct tr_quorum *quorum, uint16_t peer);

/* RANGE, TELL, WANT or DONE. */
void tr_exchange_heard(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry);
/* Of a pair that was sent or wanted. False: the log has no room for it now. */
bool tr_exchange_answered(struct tr_quorum *quorum, uint16_t peer, struct tr_key_entry *entry);

void tr_exchange_link_lost(struct tr_quorum *quorum, uint16_t peer);
/* Something could not be sent to a node, or stored there. */
void tr_exchange_missed(struct tr_quorum *quorum, uint16_t peer);
/* This node has less than it had. */
void tr_exchange_all_anew(struct tr_quorum *quorum);

/* Whether all nodes of the roster have been exchanged with under it. */
bool tr_exchange_is_through(const struct tr_quorum *quorum);

/* Whether all who are to hold the pair have known of it since it was written at `at_ms`. */
bool tr_exchange_is_known(const struct tr_quorum *quorum, struct tr_span key, tr_mono_ms at_ms);

#endif
