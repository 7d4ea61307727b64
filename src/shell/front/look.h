/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever is narrowed to some timers may change one only if it is one of them: such a request reads
 * the timer first, and is then done on condition that it is still as it was.
 *
 * Owns:    copies of requests that wait for that.
 */
#ifndef TR_SHELL_FRONT_LOOK_H
#define TR_SHELL_FRONT_LOOK_H

#include "shell/front/connection.h"

/* Whether the request of server->route is one of those. */
bool tr_look_is_due(const struct tr_connection *connection);
void tr_look_begin(struct tr_connection *connection, uint16_t number, const char *bytes);

/* An answer of the node. True: it was to a look, and nobody else needs it. */
bool tr_look_hear(struct tr_connection *connection, uint16_t number,
                  const struct tr_effect *effect);

void tr_looks_run(struct tr_server *server); /* once a turn: requests that were looked at go on */
void tr_looks_close(struct tr_server *server);

#endif
