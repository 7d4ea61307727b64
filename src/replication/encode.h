/* SPDX-License-Identifier: Apache-2.0 */
/* What a message says, as an entry of a frame: looked up when the frame is made. */
#ifndef TR_REPLICATION_ENCODE_H
#define TR_REPLICATION_ENCODE_H

#include "replication/replication.h"

/* Appends the entry, for a peer of this version of the frames; nothing, if there is nothing to say
 * any more, or not to that one: it cannot hold the record. */
void tr_encode_message(struct tr_replication *replication, const struct tr_message *message,
                       uint64_t version, struct tr_writer *writer);

#endif
