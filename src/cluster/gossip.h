/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gossip: how a roster gets around. Heartbeats say which one a node has; whoever has a lower one is
 * sent the higher.
 */
#ifndef TR_CLUSTER_GOSSIP_H
#define TR_CLUSTER_GOSSIP_H

#include "cluster/membership.h"

/* A link has greeted: what was said on the one before does not count. */
void tr_gossip_greeted(struct tr_membership *membership, uint16_t peer);
/* Another node has said which roster it has. */
void tr_gossip_hear(struct tr_membership *membership, uint16_t peer, const struct tr_frame *beat);
/* Another node has sent its roster. */
void tr_gossip_take(struct tr_membership *membership, struct tr_reader *reader);

bool tr_gossip_wants_to_send(const struct tr_membership *membership, uint16_t peer);
void tr_gossip_send(struct tr_membership *membership, uint16_t peer, struct tr_effects *out);

/* It is about to be taken in by others, and takes no requests. */
bool tr_gossip_is_guest(const struct tr_membership *membership);
/* It shares its roster with nobody, or has left: any cluster may take it in. */
bool tr_gossip_is_free(const struct tr_membership *membership);

#endif
