/* SPDX-License-Identifier: Apache-2.0 */
/* The URI of a callback: absolute, http or https, taken apart without copying. */
#ifndef TR_WIRE_URI_H
#define TR_WIRE_URI_H

#include "base/span.h"

#include <stdint.h>

struct tr_uri {
    struct tr_span origin;    /* scheme, host and port, as written: what a connection serves */
    struct tr_span authority; /* host and port, as written: the Host header */
    struct tr_span host;      /* without the brackets of an IPv6 address */
    struct tr_span target;    /* path and query; may be empty, or begin with the '?' */
    uint16_t port;
    bool is_tls;
};

/* NULL if it is a URI that can be called, else what is wrong with it. */
const char *tr_uri_parse(struct tr_span text, struct tr_uri *uri);

#endif
