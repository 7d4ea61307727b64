/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' side: listens, reads requests, hands them to the node, writes answers in the order
 * of the requests.
 *
 * Owns:    the connections.
 * Bounds:  [limits] connections; 128 requests under way on one; a request must be whole within the
 *          idle timeout.
 */
#ifndef TR_SHELL_FRONT_SERVER_H
#define TR_SHELL_FRONT_SERVER_H

#include "shell/daemon.h"

/* NULL: it has said why. */
struct tr_server *tr_server_open(struct tr_daemon *daemon);

/* An ANSWER, ANSWER_TIMER or ANSWER_PAGE of the node. */
void tr_server_answer(struct tr_server *server, const struct tr_effect *effect);

/* Whether the client that asked is still there. */
bool tr_server_has(struct tr_server *server, uint64_t token);

/* What another node, or none, had to say on a request. */
void tr_server_answer_page(struct tr_server *server, uint64_t token, struct tr_span body,
                           struct tr_span end);
void tr_server_answer_problem(struct tr_server *server, uint64_t token,
                              const struct tr_problem *problem);

/* No new connections; those that are idle close, others after their answer. */
/* A connection that this process makes to itself: what another node would be asked for is asked of
 * this one. */
bool tr_server_take_own(struct tr_server *server, int file);

void tr_server_drain(struct tr_server *server);

/* Every answer is with the kernel. */
bool tr_server_is_quiet(const struct tr_server *server);
void tr_server_close(struct tr_server *server);

/* The port it listens on, also when 0 was asked for. */
unsigned tr_server_port(const struct tr_server *server);

#endif
