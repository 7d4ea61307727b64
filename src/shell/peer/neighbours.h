/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an address is one of the cluster's nodes, this one among them. */
#ifndef TR_SHELL_PEER_NEIGHBOURS_H
#define TR_SHELL_PEER_NEIGHBOURS_H

#include "node/node.h"
#include "shell/config.h"
#include "wire/uri.h"

#include <sys/socket.h>

/* A socket's other end is on this machine, or on one of a node, or of one that the configuration
 * names: it may be about to join that. */
bool tr_neighbours_are_near(const struct tr_node *node, const struct tr_config *config, int file);

/* By the name that a URI gives, */
bool tr_neighbours_have_uri(const struct tr_node *node, const struct tr_uri *uri);

/* and by the address that a name turned out to have. */
bool tr_neighbours_have_address(const struct tr_node *node, const struct sockaddr_storage *address,
                                uint16_t port);

#endif
