/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who carries out the commands that read and write a key is one node at a time: the first of its
 * list. When the roster changes that may be another one, and what the one before has begun is
 * finished first.
 *
 *   begun   another roster is in force: nobody begins such a command
 *   over    all who are up have said that they have this roster too, and have none left that they
 *           began under an earlier one; or that has taken too long
 *
 * Without this two nodes would carry out commands on one key for some milliseconds, each over what
 * the other has written half way, and count twice.
 */
#ifndef TR_QUORUM_HANDOVER_H
#define TR_QUORUM_HANDOVER_H

#include "quorum/quorum.h"

/* Another roster is in force. */
void tr_handover_begin(struct tr_quorum *quorum);
/* In each step: whether it is over by now. */
void tr_handover_run(struct tr_quorum *quorum);
/* An operation is answered, or at its end. */
void tr_handover_answered(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
tr_mono_ms tr_handover_wake_at(const struct tr_quorum *quorum);

#endif
