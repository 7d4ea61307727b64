/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listing of the whole cluster: the pages of one node after those of the other, in the order of
 * their addresses, each asked for over HTTP as a client would. A cursor names the node and its own.
 *
 * Owns:    the requests under way.
 * Bounds:  64 at once, five seconds and 128 MiB each.
 */
#ifndef TR_SHELL_FRONT_GATHER_H
#define TR_SHELL_FRONT_GATHER_H

#include "http/api.h"
#include "shell/daemon.h"

/* NULL: no memory. */
struct tr_gather *tr_gather_open(struct tr_daemon *daemon);

/* Asks for a page; the server gets it for the request `token`, now or later. */
void tr_gather_page(struct tr_gather *gather, uint64_t token, const struct tr_api_request *query);

void tr_gather_close(struct tr_gather *gather);

#endif
