/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view: which nodes there are, and where it places a key. The new cluster, staying and joining
 * nodes, holds records; leaving ones are on their way out.
 */
#ifndef TR_CLUSTER_VIEW_H
#define TR_CLUSTER_VIEW_H

#include "cluster/cluster.h"

/* Bytes for the map of the largest view there can be. */
size_t tr_view_map_size(void);

/* False: it is no view, or names more nodes than there is room for; the one before stays. */
bool tr_view_set(struct tr_cluster *cluster, const struct tr_view_node *nodes, uint32_t count);

bool tr_view_has_others(const struct tr_cluster *cluster); /* it names any other node */

/* The first `want` nodes that the view places `id` on. Returns how many there are. */
unsigned tr_view_place(const struct tr_cluster *cluster, tr_timer_id id, unsigned want,
                       uint16_t *members);

#endif
