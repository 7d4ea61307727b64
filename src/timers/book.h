/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of records: every record the node holds, packed, found by id and part.
 *
 * A record takes about 50 bytes beside its opaque data: fixed fields first, then varints, then the
 * opaque bytes, which never move while the rest changes unless its size class does. URIs, content
 * types and tags are shared texts.
 *
 * Owns:    the records and texts, in the arena.
 * Bounds:  the arena; at most TR_PARTS_MAX parts above 0 for an id are the caller's to keep.
 * Order:   a walk follows tr_book_hash(id), which is a bijection: no two ids are equal in it.
 */
#ifndef TR_TIMERS_BOOK_H
#define TR_TIMERS_BOOK_H

#include "base/hash.h"
#include "base/record.h"
#include "memory/strings.h"

struct tr_book {
    struct tr_arena *arena;
    struct tr_index index;
    struct tr_strings texts; /* URIs and content types */
    struct tr_strings tags;  /* tally: timers counted under it */
};

bool tr_book_init(struct tr_book *book, struct tr_arena *arena);

static inline uint64_t tr_book_hash(tr_timer_id id)
{
    return tr_hash_mix(id);
}

/* Adds a record under a key that is not there, in state UNSAFE. TR_ARENA_NONE, and nothing has
 * changed, when there is no room. */
tr_ref tr_book_insert(struct tr_book *book, const struct tr_record *record);

/* Packs `record` into the place of `ref`, whose key it has. The reference may change: the new one
 * is returned, or TR_ARENA_NONE when there is no room and the old one stays as it is. There always
 * is for a smaller record without new texts. */
tr_ref tr_book_replace(struct tr_book *book, tr_ref ref, const struct tr_record *record);

/* Changes sequence, attempt, moves, due, lag, instant, the last attempt and flags alone: never
 * refused for want of ordinary room, for which the last attempt may be forgotten. One
 * that no longer moves comes from nowhere. */
tr_ref tr_book_update(struct tr_book *book, tr_ref ref, const struct tr_head *head);

/* Whether an update by this head can be had without the reserve. */
bool tr_book_can_update(const struct tr_book *book, tr_ref ref, const struct tr_head *head);

void tr_book_remove(struct tr_book *book, tr_ref ref);

/* TR_ARENA_NONE if there is none. */
tr_ref tr_book_find(const struct tr_book *book, const struct tr_key *key);
/* The timer itself, and none of its failed pops. */
tr_ref tr_book_find_whole(const struct tr_book *book, tr_timer_id id);
/* And whether there is any part of that id. */
tr_ref tr_book_find_part(const struct tr_book *book, const struct tr_key *key, bool *has_any);

/* The first part of `id`, lowest hash first; then the next ones by tr_index_next while the id is
 * the same. */
tr_ref tr_book_first(const struct tr_book *book, tr_timer_id id, struct tr_index_walk *walk);
tr_ref tr_book_next(struct tr_index_walk *walk, tr_timer_id id);

/* All that replication knows of a record. */
void tr_book_head(const struct tr_book *book, tr_ref ref, struct tr_head *head);

/* Spans point into the book, until it changes. */
void tr_book_unpack(const struct tr_book *book, tr_ref ref, struct tr_record *record);

/* Whether `ref`, which may be stale, is a record of this state and due time. */
bool tr_book_matches(const struct tr_book *book, tr_ref ref, enum tr_record_state state,
                     tr_steady_ms due_ms);

/* Single fields, without unpacking. */
bool tr_book_is_plain(const struct tr_book *book,
                      tr_ref ref); /* it has nothing that only some have */
/* Has the cache fetch a record that is about to be looked at. */
void tr_book_fetch(const struct tr_book *book, tr_ref ref);

tr_timer_id tr_book_id(const struct tr_book *book, tr_ref ref);
uint64_t tr_book_version(const struct tr_book *book, tr_ref ref);
tr_steady_ms tr_book_due(const struct tr_book *book, tr_ref ref);
uint64_t tr_book_interval(const struct tr_book *book, tr_ref ref);
tr_ref tr_book_uri(const struct tr_book *book, tr_ref ref);
uint32_t tr_book_segment(const struct tr_book *book, tr_ref ref);
void tr_book_set_segment(struct tr_book *book, tr_ref ref, uint32_t segment);
uint8_t tr_book_flags(const struct tr_book *book, tr_ref ref);
enum tr_record_state tr_book_state(const struct tr_book *book, tr_ref ref);
void tr_book_set_state(struct tr_book *book, tr_ref ref, enum tr_record_state state);

/* Which places of its replica set are known to have exactly this order. Any change clears it. */
uint8_t tr_book_acked(const struct tr_book *book, tr_ref ref);
void tr_book_set_acked(struct tr_book *book, tr_ref ref, uint8_t acked);
/* All of them, and nobody else may hold a copy. */
bool tr_book_all_acked(const struct tr_book *book, tr_ref ref);

/* Takes a node out of `from`, in its place. */
void tr_book_forget(struct tr_book *book, tr_ref ref, uint16_t member);

bool tr_book_valid(const struct tr_book *book);

#endif
