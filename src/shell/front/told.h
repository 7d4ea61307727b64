/* SPDX-License-Identifier: Apache-2.0 */
/* GET /pops: what became of the last pops, of this node or, merged, of all. */
#ifndef TR_SHELL_FRONT_TOLD_H
#define TR_SHELL_FRONT_TOLD_H

#include "shell/front/server.h"

struct tr_connection;

/* Answers now, or when the other nodes have answered. */
void tr_told_begin(struct tr_connection *connection, uint16_t number);

#endif
