/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was heard lately of a key: a table of fixed size whose notes run out.
 *
 * A note is about one key (id, part) and holds an order. A key has a few slots that it may be noted
 * in. A note that has not run out gives way to no other key, so a note can be refused: whoever is
 * refused has to be safe without it.
 *
 * Owns:    nothing; the notes are the caller's memory.
 * Bounds:  `cap` notes. A set of slots may be full while others are empty.
 */
#ifndef TR_REPLICATION_RECENT_H
#define TR_REPLICATION_RECENT_H

#include "base/record.h"

struct tr_recent_note {
    uint64_t hash; /* of the key; 0: never used */
    struct tr_order order;
    tr_mono_ms until_ms;  /* it has run out then */
    uint64_t incarnation; /* of `peer`, when the note was made */
    uint16_t peer;        /* the node that the key is left to; hold alone uses it, and the flags */
    bool is_open;         /* `peer` coordinates a write of this order, and has yet to decide it */
    bool is_past;         /* `peer` has popped: this order is the outcome */
    bool is_ahead;        /* `peer` has this order, which is not stored here */
    bool is_moved;        /* ... and nothing else: the record has only moved on to this order */
};

struct tr_recent {
    struct tr_recent_note *notes;
    uint32_t cap;
    tr_mono_ms busy_until_ms; /* by then all have run out: there is nothing to look for */
};

/* The note of a key, or NULL; it may have run out. */
struct tr_recent_note *tr_recent_find(const struct tr_recent *recent, const struct tr_key *key);

/* A slot for a key, marked as its: the one it has, or one whose note runs out before `free_ms`.
 * NULL: all that it may have are taken. */
struct tr_recent_note *tr_recent_place(struct tr_recent *recent, const struct tr_key *key,
                                       tr_mono_ms free_ms);

/* Says how long the note that was placed last is good. */
static inline void tr_recent_keep(struct tr_recent *recent, struct tr_recent_note *note,
                                  tr_mono_ms until_ms)
{
    note->until_ms = until_ms;
    if (until_ms > recent->busy_until_ms)
        recent->busy_until_ms = until_ms;
}

/* Whether tr_recent_place would find one. */
bool tr_recent_has_place(const struct tr_recent *recent, const struct tr_key *key,
                         tr_mono_ms free_ms);

#endif
