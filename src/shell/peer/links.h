/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other nodes' side: one proven link to each, dialled or accepted, and dialled again when it
 * breaks.
 *
 * Both ends of a pair dial, the one with the lower address first. Of two links the newer one stays,
 * except that the lower end keeps one that it dialled itself and that lives.
 *
 * Owns:    the links.
 * Bounds:  one link to each node of the view; 64 that have proven nothing yet, for two seconds.
 */
#ifndef TR_SHELL_PEER_LINKS_H
#define TR_SHELL_PEER_LINKS_H

#include "shell/daemon.h"
#include "wire/uri.h"

#include <sys/socket.h>

/* NULL: no memory. */
struct tr_links *tr_links_open(struct tr_daemon *daemon);

/* The view has changed: there may be nodes to dial. */
void tr_links_look(struct tr_links *links);

/* A socket on which another node has asked for the upgrade. */
void tr_links_accept(struct tr_links *links, int file, struct tr_tls *tls);

/* A FRAME_SEND, and a LINK_RESET, of the node. */
void tr_links_send(struct tr_links *links, const struct tr_effect *effect);
void tr_links_reset(struct tr_links *links, uint16_t member, bool is_anew);

void tr_links_close(struct tr_links *links);

#endif
