/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key and its value, unpacked: what the book of keys keeps packed and the log writes.
 *
 * Of two pairs with one key the one with the higher version stays, then the one with the higher
 * version node, whatever the order of arrival; and a pair that has ended stays over itself as it
 * was before.
 */
#ifndef TR_BASE_PAIR_H
#define TR_BASE_PAIR_H

#include "base/span.h"
#include "base/time.h"

#include <stdint.h>

#define TR_KEY_MAX   ((size_t)64 << 10) /* bytes of a key */
#define TR_VALUE_MAX ((size_t)2 << 20)  /* of a value, whatever the operator wants */

/* Which of two pairs with one key stays. */
struct tr_pair_order {
    uint64_t version; /* a stamp: 48 bits of milliseconds, 16 of a counter; 0: there is none */
    uint16_t node;    /* a hash of who gave it */
    bool is_end;      /* it has ended: by a deletion, or since it has expired */
};

/* Spans point into whatever the pair was unpacked or decoded from. */
struct tr_pair {
    struct tr_span key;
    struct tr_span value;
    uint64_t version;        /* a stamp: 48 bits of milliseconds, 16 of a counter */
    uint16_t version_node;   /* a hash of who gave it */
    bool is_end;             /* a tombstone: the key has ended, and it has no value */
    bool is_owed;            /* likewise, as a node says it: what the key had is to be called yet */
    tr_steady_ms expires_ms; /* TR_NEVER: it does not. Of a tombstone: it may be forgotten then */
    struct tr_span callback; /* when it expires; empty: none */
    uint32_t segment;        /* of the log, where its full entry is; 24 bits */
};

static inline struct tr_pair_order tr_pair_order(const struct tr_pair *pair)
{
    return (struct tr_pair_order){pair->version, pair->version_node, pair->is_end};
}

/* Below 0: `a` is the older one. */
static inline int tr_pair_compare(struct tr_pair_order a, struct tr_pair_order b)
{
    int order = (a.version > b.version) - (a.version < b.version);
    order = order != 0 ? order : (a.node > b.node) - (a.node < b.node);
    return order != 0 ? order : a.is_end - b.is_end;
}

static inline bool tr_pair_is_below(const struct tr_pair *a, const struct tr_pair *b)
{
    return tr_pair_compare(tr_pair_order(a), tr_pair_order(b)) < 0;
}

#endif
