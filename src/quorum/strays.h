/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strays: pairs here that others are to hold and this node is not. Hints, which it took for a node
 * that was not there; and, after a change of the roster, what has moved away.
 *
 * A walk over the book offers each of them to all its holders, who say that they have it or are
 * sent it. What all of them have is dropped here; but not while a change is under way, since it may
 * be taken back.
 */
#ifndef TR_QUORUM_STRAYS_H
#define TR_QUORUM_STRAYS_H

#include "quorum/quorum.h"

void tr_strays_run(struct tr_quorum *quorum);
tr_mono_ms tr_strays_wake_at(const struct tr_quorum *quorum);

/* A node may take what it could not before. */
void tr_strays_look(struct tr_quorum *quorum);

void tr_strays_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry);

/* Whether there are none here that a holder lacks; and on no node of the cluster, all of which are
 * there and say so. */
bool tr_strays_are_home(const struct tr_quorum *quorum);
bool tr_strays_are_all_home(const struct tr_quorum *quorum);

#endif
