/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many timers in one request: a body of one line each (application/x-ndjson), and an answer of one
 * line each, in their order, each when its timer is stored. Every line stands for itself.
 *
 * A batch is the one request of its connection that is under way from when it begins. The node
 * knows its lines by the numbers that follow the request's own.
 *
 * Owns:    the lines, and what became of those that are not answered yet.
 * Bounds:  TR_BATCH_LINES lines, TR_BATCH_SIZE bytes, 256 MiB of all batches; so many lines under
 *          way that others on this node find room. Lines that find none now wait, until no timer
 *          of the batch was set for WAIT_MS.
 */
#ifndef TR_SHELL_FRONT_BATCH_H
#define TR_SHELL_FRONT_BATCH_H

#include "shell/front/connection.h"

#define TR_BATCH_LINES 10000
#define TR_BATCH_SIZE  ((size_t)16 << 20)

struct tr_batch;

/* Takes the body of request `number` apart, and begins. False: `problem` says why not. */
bool tr_batch_begin(struct tr_connection *connection, uint16_t number, struct tr_span body,
                    struct tr_problem *problem);

/* Whether the node's answer to `number` is to a line of it; then it is heard. */
bool tr_batch_hear(struct tr_connection *connection, uint16_t number,
                   const struct tr_effect *effect);

/* Whether answers wait for the client to read those before them. */
bool tr_batch_waits_for_client(const struct tr_connection *connection);

/* Goes on with all of them, between steps of the node; those whose clients are gone end. */
void tr_batches_run(struct tr_server *server);

#endif
