/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators and clients say of all keys at once: that there is a keyspace, how its keys are
 * spread, and that they end. Each is a change of the roster.
 */
#ifndef TR_CLUSTER_DEFINE_H
#define TR_CLUSTER_DEFINE_H

#include "cluster/membership.h"

/* There is a keyspace from now on. `who` stands in the way, if it is one node. */
enum tr_change tr_define_keyspace(struct tr_membership *membership,
                                  const struct tr_definition *keys, uint16_t *who);

/* Its keys are spread in another way, in the same partitions: a change that moves them. */
enum tr_change tr_define_spread(struct tr_membership *membership, const struct tr_definition *keys,
                                uint16_t *who);

/* All keys of a version below `floor` end. */
enum tr_change tr_define_floor(struct tr_membership *membership, uint64_t floor, uint16_t *who);

#endif
