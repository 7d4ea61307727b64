/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of other nodes: each entry goes to the file that it is for. */
#ifndef TR_REPLICATION_RECEIVE_H
#define TR_REPLICATION_RECEIVE_H

#include "replication/replication.h"

/* The head of the frame was read; its entries follow. If one is broken, reader->is_short is set. */
void tr_receive_frame(struct tr_replication *replication, uint16_t peer,
                      const struct tr_frame *frame, struct tr_reader *reader,
                      struct tr_effects *out);

#endif
