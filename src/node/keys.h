/* SPDX-License-Identifier: Apache-2.0 */
/* What the room of keys asks of the others. */
#ifndef TR_NODE_KEYS_H
#define TR_NODE_KEYS_H

#include "node/parts.h"

void tr_keys_hooks(struct tr_node *node);

#endif
