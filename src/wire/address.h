/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a node: HOST:PORT, the host a name, an IPv4 address, or an IPv6 one in brackets. */
#ifndef TR_WIRE_ADDRESS_H
#define TR_WIRE_ADDRESS_H

#include "base/span.h"

#include <stdint.h>

#define TR_HOST_MAX 256 /* with its end */
#define TR_NODE_MAX 240 /* bytes of a node's name */

/* NULL: `host`, without brackets, and `port` are what it says; else what is wrong with it. */
const char *tr_address_split(struct tr_span name, char host[TR_HOST_MAX], uint16_t *port);

/* NULL if it is one. */
const char *tr_address_fault(struct tr_span name);

#endif
