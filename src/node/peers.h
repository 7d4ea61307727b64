/* SPDX-License-Identifier: Apache-2.0 */
/* What this node does about each other one, in each step and when the cluster tells of it. */
#ifndef TR_NODE_PEERS_H
#define TR_NODE_PEERS_H

#include "node/node.h"

void tr_peers_hooks(struct tr_node *node); /* what the cluster asks of this node */
/* In the middle of a turn only for nodes that wait for what has become durable. */
void tr_peers_run(struct tr_node *node, bool has_more, struct tr_effects *out);
tr_mono_ms tr_peers_wake_at(const struct tr_node *node);
bool tr_peers_have_all(struct tr_node *node); /* nothing is pending for any node that is up */
void tr_frame_received(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);

#endif
