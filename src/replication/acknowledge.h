/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another node has a record: when all of its set do they hear of each other, and a record that
 * moves goes on.
 *
 * Owns:    nothing; who has what is kept with the record.
 */
#ifndef TR_REPLICATION_ACKNOWLEDGE_H
#define TR_REPLICATION_ACKNOWLEDGE_H

#include "replication/replication.h"

/* A node says that it has this order. */
void tr_acknowledge_heard(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *named);

/* A node says which places of the set have it. `ref` is where the record was, if that is known. */
void tr_acknowledge_marked(struct tr_replication *replication, tr_ref ref,
                           const struct tr_head *named, uint8_t mask);

#endif
