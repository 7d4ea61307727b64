/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a command on a key asks, who stands in for those that are not there, and when enough of them
 * have answered.
 */
#ifndef TR_QUORUM_TARGET_H
#define TR_QUORUM_TARGET_H

#include "quorum/quorum.h"

/* Whom to ask of a key: all of its list, and who stands in for those that are not there. */
void tr_quorum_choose(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                      struct tr_span key);
/* Another one for each that has failed since; true: there was any, and it is to be asked. */
bool tr_quorum_choose_more(struct tr_quorum *quorum, struct tr_quorum_operation *operation,
                           struct tr_span key);
/* The nodes that a command on a key would ask now. */
unsigned tr_quorum_nodes(struct tr_quorum *quorum, struct tr_span key,
                         uint16_t members[TR_TARGETS_MAX]);
/* The first node of a key's list that is there, or stands in. TR_MEMBER_NONE: there is none. */
uint16_t tr_quorum_first(const struct tr_quorum *quorum, struct tr_span key);
bool tr_quorum_is_healthy(const struct tr_quorum *quorum, uint16_t member);
/* Another node could store something, as far as it has said. */
bool tr_quorum_has_room(const struct tr_quorum *quorum, uint16_t member);

bool tr_target_is_open(const struct tr_target *target); /* it is waited for */
struct tr_target *tr_quorum_target(struct tr_quorum_operation *operation, uint16_t member);
bool tr_quorum_has_open(const struct tr_quorum_operation *operation);
bool tr_quorum_is_write(const struct tr_quorum_operation *operation); /* pairs are sent for it */

enum tr_enough { ENOUGH_NOT_YET, ENOUGH, ENOUGH_NEVER };
enum tr_enough tr_quorum_judge(const struct tr_quorum *quorum,
                               const struct tr_quorum_operation *operation);

#endif
