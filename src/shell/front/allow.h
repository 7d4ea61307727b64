/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may ask for: its token is looked up, each request held against it.
 *
 * Owns:    which connections are slowed after a token that is none.
 */
#ifndef TR_SHELL_FRONT_ALLOW_H
#define TR_SHELL_FRONT_ALLOW_H

#include "shell/front/connection.h"

#define TR_ALLOW_NO_TIMER "this timer is not one that the token is for"

/* Whether the request that was read, of server->route, may be done. False: it has been answered. */
bool tr_allow_request(struct tr_connection *connection, uint16_t number, const char *bytes);

/* Whether a timer may be set with these tags and this name, and, if it is one more, there
 * may be as many. */
bool tr_allow_timer(const struct tr_connection *connection, const struct tr_timer_body *body,
                    bool is_more, struct tr_problem *problem);

/* One more line of a request: each counts against what the token may ask for in a second. */
bool tr_allow_line(const struct tr_connection *connection, struct tr_problem *problem);

/* The rights that a command of RESP may have; NULL: all. Sets them, by a token; false: there is
 * none such. */
bool tr_allow_session(struct tr_connection *connection, struct tr_span secret);
void tr_allow_all(struct tr_connection *connection);
void tr_allow_none(struct tr_connection *connection);
/* What is said against a command; NULL: nothing. */
const char *tr_allow_command(struct tr_connection *connection, const char *flags,
                             const struct tr_span *keys, uint32_t count, uint32_t step,
                             bool is_of_all);

/* Nothing more is read of it for a moment. */
void tr_allow_slow(struct tr_connection *connection);

/* The tokens are others: sessions whose token is gone end. */
void tr_allow_reloaded(struct tr_server *server);
void tr_allow_open(struct tr_server *server);
void tr_allow_close(struct tr_server *server);

#endif
