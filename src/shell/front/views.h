/* SPDX-License-Identifier: Apache-2.0 */
/* What operators look at besides timers: GET /history, /destinations, all of /cluster, and keys. */
#ifndef TR_SHELL_FRONT_VIEWS_H
#define TR_SHELL_FRONT_VIEWS_H

#include "shell/front/server.h"

struct tr_connection;

/* Each answers now, or when the other nodes have answered. */
void tr_history_begin(struct tr_connection *connection, uint16_t number);
void tr_destinations_begin(struct tr_connection *connection, uint16_t number);
void tr_nodes_begin(struct tr_connection *connection, uint16_t number);

/* GET /keys, /keys/... and /keyspace, DELETE /keys/...: as a Redis client of this node would ask,
 * by a connection of its own. */
void tr_keys_begin(struct tr_connection *connection, uint16_t number);

#endif
