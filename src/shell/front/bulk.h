/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All timers that a filter chooses, cancelled or redriven: those that this node lists, and then
 * what each of the other nodes lists, which they do themselves when they are asked to. What is set
 * after the request came is left alone. It is a walk that can be begun again: what is done is done.
 *
 * Owns:    the runs under way, one of a connection at most.
 * Bounds:  256 timers of a run under way at once.
 */
#ifndef TR_SHELL_FRONT_BULK_H
#define TR_SHELL_FRONT_BULK_H

#include "shell/front/connection.h"
#include "shell/front/server.h"

/* Begins what the route says; it is answered in its turn. */
void tr_bulk_begin(struct tr_connection *connection, uint16_t number);

/* An answer of the node. False: it is not for a run. */
bool tr_bulk_hear(struct tr_connection *connection, uint16_t number,
                  const struct tr_effect *effect);

void tr_bulks_run(struct tr_server *server); /* once a turn */

#endif
