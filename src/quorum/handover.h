/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who carries out the commands that read and write a key is one node at a time: the first of its
 * list that is there. When the roster changes, or a node comes or goes, that may be another one,
 * and what the one before has begun is finished first.
 *
 *   begun   another roster is in force, or this node or another is there or not, as far as this
 *           one has heard: it begins no such command
 *   over    all who are up have said, since they heard from this node, that they have this roster
 *           too, and have none left that they began before; or that has taken too long. A command
 *           that has waited, or was still reading, goes to the node that is the first now
 *
 * Without this two nodes would carry out commands on one key for some milliseconds, each over what
 * the other has written half way, and count twice.
 */
#ifndef TR_QUORUM_HANDOVER_H
#define TR_QUORUM_HANDOVER_H

#include "quorum/quorum.h"

/* Another roster is in force. */
void tr_handover_begin(struct tr_quorum *quorum);
/* Somebody has come or gone: likewise, if anybody has asked for keys to be spread. */
void tr_handover_look(struct tr_quorum *quorum);
/* In each step: whether it is over by now. Then what has waited goes on, here or elsewhere. */
void tr_handover_run(struct tr_quorum *quorum);
/* A command that was not begun yet: it waits, or reads first. */
bool tr_handover_holds(const struct tr_quorum_operation *operation);
/* Another node may be the first for it now, and is called. It gets another number: what is still
 * said to those who were asked for the first read is not about the call. */
void tr_handover_pass_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
/* An operation is answered, or at its end. */
void tr_handover_answered(struct tr_quorum *quorum, struct tr_quorum_operation *operation);
tr_mono_ms tr_handover_wake_at(const struct tr_quorum *quorum);

#endif
