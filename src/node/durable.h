/* SPDX-License-Identifier: Apache-2.0 */
/* What has become durable: a record is armed, a client answered, another node told. */
#ifndef TR_NODE_DURABLE_H
#define TR_NODE_DURABLE_H

#include "node/node.h"

void tr_durable_run(struct tr_node *node, struct tr_effects *out);

#endif
