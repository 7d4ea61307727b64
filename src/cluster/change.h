/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change makes of a roster: which role each node has in the next one, by what is asked for
 * and by what is under way. Nothing here knows of other nodes, links or time.
 */
#ifndef TR_CLUSTER_CHANGE_H
#define TR_CLUSTER_CHANGE_H

#include "wire/roster.h"

/* What a node would be in the next roster if it is to be there, or not. */
enum tr_role tr_change_role(enum tr_role now, bool is_wanted);

/* Changes `next`, which is as the roster in force, by what the configuration asks for: by its
 * difference from what was heeded. False: it asks for nothing that is not so. */
bool tr_change_by_lists(const struct tr_roster *heeded, const struct tr_roster *configured,
                        struct tr_roster *next);

/* Takes out of `next` what has to wait until the change that is under way is through: meanwhile
 * another one may only take it back, or lose nodes. False: there was such. */
bool tr_change_keep_allowed(const struct tr_roster *roster, struct tr_roster *next);

/* Whether all roles are the same, and keys are spread as they were. */
bool tr_change_is_none(const struct tr_roster *roster, const struct tr_roster *next);

/* Whether it loses nodes, and does nothing else. */
bool tr_change_is_loss(const struct tr_roster *roster, const struct tr_roster *next);

/* Nodes that are there when it is through. */
/* What of the difference the roster has is heeded; returns whether that is all of it. */
bool tr_change_heed(const struct tr_roster *roster, const struct tr_roster *configured,
                    struct tr_roster *heeded);
uint32_t tr_change_count_left(const struct tr_roster *roster);

#endif
