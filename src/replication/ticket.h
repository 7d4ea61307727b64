/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to other nodes when the log has an entry: that it was stored, that it was dropped,
 * or the record itself.
 *
 * Owns:    nothing; tickets wait in the log.
 */
#ifndef TR_REPLICATION_TICKET_H
#define TR_REPLICATION_TICKET_H

#include "replication/replication.h"

void tr_ticket_due(struct tr_replication *replication, const struct tr_waiting *ticket,
                   struct tr_effects *out);

#endif
