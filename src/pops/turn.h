/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is to make a pop: the nodes of a record make it one after the other, each when
 * those before it are down, or have not made it in time; and none while another has claimed it.
 */
#ifndef TR_POPS_TURN_H
#define TR_POPS_TURN_H

#include "pops/pops.h"

#define TR_TURN_LOOK_MS 100 /* until it is asked again whether it is its turn by now */

/* Whether no node that pops comes before this one. */
bool tr_turn_is_first(const struct tr_pops *pops, const struct tr_head *head);

/* When this node is to make the pop that is due: now, or when to look again. */
tr_steady_ms tr_turn_at(struct tr_pops *pops, const struct tr_head *head);

#endif
