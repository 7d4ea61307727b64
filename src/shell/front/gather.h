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

/* Whom it answers: the server, which is above it. */
struct tr_gather_calls {
    bool (*has)(struct tr_server *server, uint64_t token); /* the client is still there */
    void (*answer)(struct tr_server *server, uint64_t token, struct tr_span body,
                   struct tr_span end);
    bool (*take_own)(struct tr_server *server, int file); /* the other end of a connection */
    void (*refuse)(struct tr_server *server, uint64_t token, const struct tr_problem *problem);
};

/* NULL: no memory. */
struct tr_gather *tr_gather_open(struct tr_daemon *daemon, const struct tr_gather_calls *calls);

/* Asks for a page; the server gets it for the request `token`, now or later. */
void tr_gather_page(struct tr_gather *gather, uint64_t token, const struct tr_api_request *query);

/* Asks another node, of this place among all by address, what a client would: one line of a request
 * and nothing besides, for somebody narrowed to some timers; `is_long`: it is to do something, and
 * may take minutes. `done` gets the body of its 200, or NULL, once, also if the client behind
 * `token` has gone; not when all is closed. False: there is no such node up, or no room. */
typedef void tr_gather_done(void *context, struct tr_span body);
bool tr_gather_ask(struct tr_gather *gather, uint64_t token, uint16_t place, struct tr_span line,
                   const struct tr_narrow *narrow, bool is_long, tr_gather_done *done,
                   void *context);
/* The first place from this one on of another node that is up; UINT16_MAX: there is none. */
uint16_t tr_gather_next(struct tr_gather *gather, uint16_t place);
/* Which nodes there are, and are up: another number when that is not the same any more. */
uint64_t tr_gather_nodes(struct tr_gather *gather);
/* What chooses timers, as parameters of a request. */
void tr_gather_put_filters(struct tr_writer *out, const struct tr_api_request *query);

void tr_gather_close(struct tr_gather *gather);

#endif
