/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on keys from their beginning to their end, whoever they are of: a client here, or
 * another node that was asked.
 */
#ifndef TR_QUORUM_COORDINATE_H
#define TR_QUORUM_COORDINATE_H

#include "quorum/quorum.h"

/* Begins a command for a client. True: it is over already, and `result` says how; or it is to be
 * tried again when the log has room. */
bool tr_quorum_ask(struct tr_quorum *quorum, uint64_t token, const struct tr_key_command *command,
                   struct tr_key_result *result);

/* The same for another node. */
void tr_quorum_call(struct tr_quorum *quorum, uint16_t peer, uint64_t operation,
                    const struct tr_key_command *command);

/* What other nodes answer. */
void tr_quorum_answered(struct tr_quorum *quorum, uint16_t peer, const struct tr_key_entry *entry,
                        bool is_same_roster, struct tr_effects *out);

void tr_quorum_link_lost(struct tr_quorum *quorum, uint16_t peer);
/* Another roster is in force. */
void tr_quorum_roster_changed(struct tr_quorum *quorum);

/* In each step: what has become durable, and who was silent for too long. */
void tr_quorum_run(struct tr_quorum *quorum, struct tr_effects *out);
tr_mono_ms tr_quorum_wake_at(const struct tr_quorum *quorum);

#endif
