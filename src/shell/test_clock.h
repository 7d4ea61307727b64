/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time that a test moves: with --test-clock it stands still at the start, and is moved from event
 * to event, each pop made and answered before the next. The node is told this time, and nothing
 * else is: what a callback takes is real.
 *
 * Only of a node that is alone.
 */
#ifndef TR_SHELL_TEST_CLOCK_H
#define TR_SHELL_TEST_CLOCK_H

#include "shell/daemon.h"

struct tr_connection;

void tr_test_clock_start(struct tr_daemon *daemon);

/* GET and PUT /clock, POST /clock/advance. The last is answered when time has arrived. */
void tr_test_clock_show(struct tr_connection *connection, uint16_t number);
void tr_test_clock_set(struct tr_connection *connection, uint16_t number, struct tr_span body);
void tr_test_clock_advance(struct tr_connection *connection, uint16_t number, struct tr_span body);

/* At the end of a turn: time goes on as far as nothing is under way. True: it has, and the node is
 * to be told. */
bool tr_test_clock_run(struct tr_daemon *daemon);

#endif
