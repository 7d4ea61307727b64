/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster's clock, a hybrid one: stamps of 48 bits of milliseconds and 16 of a counter. The
 * clocks of a cluster go with the fastest of them, so that of two writes on the two sides of a
 * split the later one has the higher stamp; but not with one that is out of its mind.
 */
#ifndef TR_CLUSTER_CLOCK_H
#define TR_CLUSTER_CLOCK_H

#include "cluster/cluster.h"

#define TR_CEILING_MS 1000 /* stamps are reserved this far ahead */
#define TR_SKEW_MS    5000 /* another node's clock is followed this far, and no further */

/* The cluster's clock, as this node knows it: a stamp that may have been given. */
uint64_t tr_clock_now(const struct tr_cluster *cluster);

/* A stamp above every one given before and above `above`. Stamps up to the ceiling may be used: a
 * restart begins above it, whatever the clock says then. */
uint64_t tr_clock_stamp(struct tr_cluster *cluster, uint64_t above);

/* Another node's stamp was heard. */
void tr_clock_hear(struct tr_cluster *cluster, uint64_t stamp);

/* The stamp of a heartbeat. It needs no counter: in its place it tells how far it is ahead of the
 * time of day as the node has it, up to half a minute either way, since who is told only the
 * cluster's clock cannot see whose is wrong. */
uint64_t tr_clock_tell(const struct tr_cluster *cluster);
/* What such a stamp tells of the other node's clocks. */
void tr_clock_read(const struct tr_cluster *cluster, struct tr_peer *peer, uint64_t stamp);

/* When a stamp was given, by the clock of the cluster. */
static inline tr_steady_ms tr_clock_time_of(uint64_t stamp)
{
    return stamp >> 16;
}

/* The clocks of most others are behind: stamps of this node would beat later writes on all of
 * them. */
bool tr_clock_is_ahead(const struct tr_cluster *cluster);

#endif
