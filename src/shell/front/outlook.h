/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ahead: GET /timers/ahead, and lists that are sorted by when timers are due. Both walk
 * over all timers of a node, a slice in each turn of the loop, and put together what others have
 * found.
 *
 * What was counted is kept, and told again, until it is as old as 400 times what counting it took,
 * three minutes at most: however many look on, that takes about a quarter of a percent of a
 * core. For a token that sees only some timers it is counted each time.
 *
 * Owns:    the walks under way, the last counts.
 */
#ifndef TR_SHELL_FRONT_OUTLOOK_H
#define TR_SHELL_FRONT_OUTLOOK_H

#include "shell/front/server.h"

struct tr_connection;

/* Answers now, or in a turn to come. */
void tr_ahead_begin(struct tr_connection *connection, uint16_t number);
void tr_sorted_begin(struct tr_connection *connection, uint16_t number);

void tr_outlooks_run(struct tr_server *server); /* once a turn */
void tr_outlooks_close(struct tr_server *server);

#endif
