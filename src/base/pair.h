/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key and its value, unpacked: what the book of keys keeps packed and the log writes.
 *
 * Of two pairs with one key the one with the higher version stays, then the one with the higher
 * version node, whatever the order of arrival.
 */
#ifndef TR_BASE_PAIR_H
#define TR_BASE_PAIR_H

#include "base/span.h"
#include "base/time.h"

#include <stdint.h>

#define TR_KEY_MAX   ((size_t)64 << 10) /* bytes of a key */
#define TR_VALUE_MAX ((size_t)2 << 20)  /* of a value, whatever the operator wants */

/* Spans point into whatever the pair was unpacked or decoded from. */
struct tr_pair {
    struct tr_span key;
    struct tr_span value;
    uint64_t version;        /* a stamp: 48 bits of milliseconds, 16 of a counter */
    uint16_t version_node;   /* a hash of who gave it */
    tr_steady_ms expires_ms; /* TR_NEVER: it does not */
    struct tr_span callback; /* when it expires; empty: none */
    uint32_t segment;        /* of the log, where its full entry is; 24 bits */
};

static inline bool tr_pair_is_below(const struct tr_pair *a, const struct tr_pair *b)
{
    return a->version != b->version ? a->version < b->version : a->version_node < b->version_node;
}

#endif
