/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the keys of all nodes, in the order of their hashes, which is the same on all of them.
 *
 * Every node that is there is asked for its keys from a place on. Each says which it has, and up to
 * where; what all of them have told of is put together. If one has another roster, it is asked
 * again: a key that moves is on one of them at any time, under one roster.
 */
#ifndef TR_QUORUM_SCAN_H
#define TR_QUORUM_SCAN_H

#include "quorum/quorum.h"

/* Begins a page for a client, of about `count` keys of all nodes, or of one only; 0: how many there
 * are in all is to be said as a cursor. TR_DONE: an effect of a later step has it. */
enum tr_result tr_scan_ask(struct tr_quorum *quorum, uint64_t token, uint16_t only, uint64_t cursor,
                           uint32_t count);

/* SCAN, or PAGE and what is answered in its place. */
void tr_scan_asked(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                   bool is_same_roster);
void tr_scan_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry);

void tr_scan_link_lost(struct tr_quorum *quorum, uint16_t peer);
void tr_scan_run(struct tr_quorum *quorum, struct tr_effects *out);
tr_mono_ms tr_scan_wake_at(const struct tr_quorum *quorum);

#endif
