/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of keys: which nodes hold a key. A key's list is the first nodes at or after its
 * partition; the nodes behind them stand in when one of the list is not there.
 *
 * While nodes join or leave, or keys are to be spread in another way, there are two rings: as it
 * was and as it will be. A key is on the lists of both.
 *
 * Owns:    the maps of the rings.
 * Bounds:  TR_VIEW_NODES_MAX nodes, TR_POSITIONS_MAX positions of each.
 */
#ifndef TR_CLUSTER_RING_H
#define TR_CLUSTER_RING_H

#include "cluster/cluster.h"

/* Nodes of a key's list, and those that may stand in for them. */
#define TR_RING_WANT (2 * TR_COPIES_MAX)

/* Who is to hold a key, by one ring or by both: first the list of the new one, then those of the
 * old one's that are not on it. */
struct tr_holders {
    uint8_t count;
    uint16_t of_new; /* a bit for each that is on the new ring's list, */
    uint16_t of_old; /* or on the old one's, if there are two */
    uint16_t members[2 * TR_COPIES_MAX];
};

/* Bytes that a map of the largest ring takes. */
size_t tr_ring_map_size(void);

/* The rings are those of this roster. False: its positions make no ring, and nothing has
 * changed. */
bool tr_ring_set(struct tr_cluster *cluster, const struct tr_roster *roster);

/* Gives positions to the nodes of the roster that have none. False: none are left. */
bool tr_ring_choose(struct tr_cluster *cluster, struct tr_roster *roster);

/* Whether there is a keyspace. */
static inline bool tr_ring_is_there(const struct tr_cluster *cluster)
{
    return cluster->ring.count > 0;
}

/* Up to `want` nodes from the key's partition on; returns how many. */
unsigned tr_ring_list(const struct tr_cluster *cluster, const struct tr_ring *ring,
                      struct tr_span key, unsigned want, uint16_t *members);

/* Everybody who is to hold the key. */
void tr_ring_holders(const struct tr_cluster *cluster, struct tr_span key,
                     struct tr_holders *holders);

/* Whether this member is among them. */
bool tr_holders_have(const struct tr_holders *holders, uint16_t member);

#endif
