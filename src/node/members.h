/* SPDX-License-Identifier: Apache-2.0 */
/* The roster becomes the view that places records. */
#ifndef TR_NODE_MEMBERS_H
#define TR_NODE_MEMBERS_H

#include "node/parts.h"

void tr_members_hooks(struct tr_node *node);

/* In each step: what is to be done about membership, and the view if the roster has changed. */
void tr_members_run(struct tr_node *node, struct tr_effects *out);

#endif
