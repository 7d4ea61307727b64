/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes as texts name them: what the configuration says when a node begins, and changes of the
 * cluster that an operator asks for. Which nodes there are then is the node's own business.
 */
#ifndef TR_SHELL_VIEW_H
#define TR_SHELL_VIEW_H

#include "shell/config.h"
#include "wire/text.h"

#define TR_VIEW_TEXT_MAX 131072

/* A version before this one kept the nodes that were applied in the data directory: they stand for
 * those of the configuration as long as that has not changed since. */
void tr_view_choose(struct tr_config *config);

/* A change that is asked for: nodes that shall join (or be there already), leave, or are lost. */
struct tr_view_change {
    struct tr_config_node names[TR_VIEW_NODES_MAX];
    struct tr_view_node nodes[TR_VIEW_NODES_MAX];
    uint32_t count;
    bool is_check; /* it is only asked whether the text, and who sent it, would be heeded */
};

/* False: `problem` says what is wrong with the text. */
bool tr_view_read_change(const struct tr_node *node, struct tr_span text,
                         struct tr_view_change *change, struct tr_problem *problem);

#endif
