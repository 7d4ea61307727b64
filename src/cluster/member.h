/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members: every node that this store has ever heard of, in a table that only grows. Records name
 * the nodes of their replica sets by two-byte indexes into it. Entry 0 is this store, whatever its
 * address is now. Each segment's header has the table; one that grows in between is logged.
 */
#ifndef TR_CLUSTER_MEMBER_H
#define TR_CLUSTER_MEMBER_H

#include "cluster/cluster.h"

struct tr_span tr_member_address(const struct tr_cluster *cluster, uint16_t index);
bool tr_member_is_named(const struct tr_cluster *cluster, uint16_t index);
/* TR_MEMBER_NONE: it was never heard of. */
uint16_t tr_member_find(const struct tr_cluster *cluster, struct tr_span address);
void tr_member_set(struct tr_cluster *cluster, uint16_t index, struct tr_span address);
/* Enters it if there are fewer than `most`; or TR_MEMBER_NONE. */
uint16_t tr_member_intern(struct tr_cluster *cluster, struct tr_span address, uint32_t most);
/* Logs those that are not yet, if there is room. */
void tr_members_log(struct tr_cluster *cluster);
/* After a replay: where a name is missing between others, one that no node has takes its place. */
void tr_members_complete(struct tr_cluster *cluster);

#endif
