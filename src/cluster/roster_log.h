/* SPDX-License-Identifier: Apache-2.0 */
/* The log has the roster in force and the configuration that was last heeded, one entry each. */
#ifndef TR_CLUSTER_ROSTER_LOG_H
#define TR_CLUSTER_ROSTER_LOG_H

#include "cluster/membership.h"

/* Writes what has changed. False: there was no room. */
bool tr_roster_log_keep(struct tr_membership *membership);

/* A replayed entry; false: it is damaged. */
bool tr_roster_log_restore(struct tr_membership *membership, const struct tr_log_entry *entry,
                           uint64_t segment);
/* What the log has of them is written again when its oldest segment is to go. False: there is no
 * room now. */
bool tr_roster_log_copy(struct tr_membership *membership);

#endif
