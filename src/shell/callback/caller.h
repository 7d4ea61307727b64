/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receivers' side: POSTs pops to their URIs, and tells the node how that went.
 *
 * Connections are kept and used again, per destination; names are looked up once and remembered for
 * a while; https is checked against the system's certificates.
 *
 * Owns:    connections and the cache of names.
 * Bounds:  the node hands out a pop only into a free slot, so there are never more connections in
 *          use than it allows.
 */
#ifndef TR_SHELL_CALLBACK_CALLER_H
#define TR_SHELL_CALLBACK_CALLER_H

#include "shell/daemon.h"

/* NULL: it has said why. */
struct tr_caller *tr_caller_open(struct tr_daemon *daemon);

/* A FIRE of the node. The outcome comes as TR_EVENT_CALLBACK_ENDED, never from inside this call. */
void tr_caller_fire(struct tr_caller *caller, const struct tr_effect *effect);

/* The destinations to which connections are open, or were a moment ago. */
void tr_caller_each_origin(const struct tr_caller *caller,
                           void (*each)(void *context, struct tr_span origin), void *context);

void tr_caller_close(struct tr_caller *caller);

#endif
