/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP front: reads requests, hands them to the node, puts answers into HTTP's words.
 *
 * A whole request is parsed where it was read, in the one buffer of all streams; what is not whole
 * is kept by the connection until the rest comes, so that an idle connection costs little.
 */
#ifndef TR_SHELL_FRONT_HTTP_H
#define TR_SHELL_FRONT_HTTP_H

#include "shell/front/connection.h"

/* What is done when something happens on a connection that speaks HTTP. */
extern const struct tr_stream_calls tr_http_calls;

/* An answer of the node to request `number`. */
void tr_http_answer(struct tr_connection *connection, uint16_t number,
                    const struct tr_effect *effect);

/* Timers that were set, and whose clients want to see them, are read. Once a turn. */
void tr_http_reread(struct tr_server *server);

/* Hands the request of server->route on, if the timer is as `condition` has it; NULL: or as its own
 * headers do. */
void tr_http_ask(struct tr_connection *connection, uint16_t number, const char *bytes,
                 const struct tr_condition *condition);

#endif
