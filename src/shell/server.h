/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' side: listens, reads requests, hands them to the node, writes answers in the order
 * of the requests.
 *
 * Owns:    the connections.
 * Bounds:  [limits] connections; 128 requests under way on one; a request must be whole within the
 *          idle timeout.
 */
#ifndef TR_SHELL_SERVER_H
#define TR_SHELL_SERVER_H

#include "shell/daemon.h"

/* NULL: it has said why. */
struct tr_server *tr_server_open(struct tr_daemon *daemon);

/* An ANSWER, ANSWER_TIMER or ANSWER_PAGE of the node. */
void tr_server_answer(struct tr_server *server, const struct tr_effect *effect);

/* No new connections; those that are idle close, others after their answer. */
void tr_server_drain(struct tr_server *server);

/* Every answer is with the kernel. */
bool tr_server_is_quiet(const struct tr_server *server);
void tr_server_close(struct tr_server *server);

/* The port it listens on, also when 0 was asked for. */
unsigned tr_server_port(const struct tr_server *server);

#endif
