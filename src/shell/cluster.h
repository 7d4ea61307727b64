/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask a node about the cluster: how it is, another list of nodes, rebalancing now.
 *
 * To set the nodes one proves that one knows the cluster's secret, by a HMAC over the node's
 * address, its challenge and the text; the challenge is good once. Without a secret it is taken
 * from this machine and from nodes of the cluster.
 */
#ifndef TR_SHELL_CLUSTER_H
#define TR_SHELL_CLUSTER_H

#include "shell/daemon.h"
#include "wire/text.h"

#define TR_CLUSTER_TEXT_MAX 1048576 /* more than a description takes */

void tr_cluster_describe(struct tr_daemon *daemon, struct tr_writer *out);

/* The nodes of the configuration are in force from now on. */
void tr_cluster_set_view(struct tr_daemon *daemon);

/* Settles now, and says in the log how that went. */
void tr_cluster_resync(struct tr_daemon *daemon);

/* A list of nodes that came on the socket `file`. False: `problem` says why not. */
bool tr_cluster_apply(struct tr_daemon *daemon, int file, struct tr_span proof, struct tr_span text,
                      struct tr_problem *problem);

/* Why a change was not made; `who` stands in the way, if it is one node. */
void tr_cluster_explain(const struct tr_daemon *daemon, enum tr_change result, uint16_t who,
                        struct tr_problem *problem);

#endif
