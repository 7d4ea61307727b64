/* SPDX-License-Identifier: Apache-2.0 */
/* A timer as clients are shown it, as a backup keeps it, and as nodes of the original are told of
 * it. */
#ifndef TR_SHELL_FRONT_SHOW_H
#define TR_SHELL_FRONT_SHOW_H

#include "base/bytes.h"
#include "node/node.h"

enum tr_show {
    TR_SHOW_LISTED,
    TR_SHOW_ONE,  /* with the pops to come, and without what changes by itself */
    TR_SHOW_NOW,  /* with both */
    TR_SHOW_HELD, /* with what a PUT puts back */
};

void tr_show_timer(struct tr_writer *out, const struct tr_node *node, uint32_t ref,
                   enum tr_show how);
void tr_show_resync(struct tr_writer *out, const struct tr_node *node, uint32_t ref);

/* What a client may say it has seen, in quotes: which changes with all that TR_SHOW_ONE shows. */
#define TR_ETAG_MAX 64
void tr_show_etag(const struct tr_node *node, uint32_t ref, char out[TR_ETAG_MAX]);

/* Reads one. False: this node would not have written it. */
bool tr_etag_parse(struct tr_span text, struct tr_condition *condition);

/* At most what one of these takes. */
size_t tr_show_bound(const struct tr_node *node, uint32_t ref);

#endif
