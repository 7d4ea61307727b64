/* SPDX-License-Identifier: Apache-2.0 */
/* A start: the log is replayed, then a segment is opened to write to. */
#ifndef TR_NODE_RECOVER_H
#define TR_NODE_RECOVER_H

#include "node/node.h"

void tr_recovery_hooks(struct tr_node *node); /* what the log asks of this node */
void tr_recovery_start(struct tr_node *node, const struct tr_event *event, struct tr_effects *out);
void tr_recovery_run(struct tr_node *node, struct tr_effects *out);

#endif
