/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from 64-bit hashes to references, kept in the order of the hashes.
 *
 * Pages of up to 254 sorted slots, found through a directory by the top bits of the hash; a full
 * page splits in two, so nothing ever rehashes the whole table and no insert takes long. A walk in
 * hash order can stop anywhere and go on later from a hash: inserts, removals and splits between
 * do not move a slot across it.
 *
 * A slot holds 32 bits of the hash; for equal ones the owner is asked for all 64. Several slots may
 * have equal hashes; they stand in the order of insertion.
 *
 * Owns:    its directory and pages, in the arena.
 * Bounds:  2^20 directory entries. When thousands of hashes agree in their first 20 bits, which
 *          only happens on purpose, the insert is refused.
 */
#ifndef TR_MEMORY_INDEX_H
#define TR_MEMORY_INDEX_H

#include "memory/arena.h"

struct tr_index {
    struct tr_arena *arena;
    const void *owner;
    uint64_t (*hash_of)(const void *owner, tr_ref ref); /* all bits of a slot's hash */
    tr_ref directory;
    unsigned depth; /* the directory has 2^depth entries */
    uint64_t count;
};

/* False when the arena has no room for the first page. */
bool tr_index_init(struct tr_index *index, struct tr_arena *arena, const void *owner,
                   uint64_t (*hash_of)(const void *owner, tr_ref ref));

/* False, and nothing has changed, when there is no room. */
bool tr_index_insert(struct tr_index *index, uint64_t hash, tr_ref ref);

/* Removes a slot, which must be there. */
void tr_index_remove(struct tr_index *index, uint64_t hash, tr_ref ref);

/* Lets the slot of `old` refer to `ref`. */
void tr_index_replace(struct tr_index *index, uint64_t hash, tr_ref old, tr_ref ref);

/* A place in the walk; any insert or removal ends it. */
struct tr_index_walk {
    const struct tr_index *index;
    uint64_t entry; /* of the directory */
    uint32_t slot;
};

/* Starts at the first slot whose hash is at least `hash`. */
struct tr_index_walk tr_index_seek(const struct tr_index *index, uint64_t hash);

/* Starts at the first slot whose hash may be `hash`, for tr_index_next_like. */
struct tr_index_walk tr_index_seek_like(const struct tr_index *index, uint64_t hash);

/* Has the cache fetch what a seek reads first, and, called again for all of a crowd when that has
 * come, what it reads then: the waits for one are those for all. */
void tr_index_fetch_page(const struct tr_index *index, uint64_t hash);
void tr_index_fetch_slot(const struct tr_index *index, uint64_t hash);

/* The next slot; false at the end. */
bool tr_index_next(struct tr_index_walk *walk, tr_ref *ref);

/* The next slot if its hash may be `hash`, going by what the slot holds of it: the owner compares
 * the rest. False: no more of them. */
bool tr_index_next_like(struct tr_index_walk *walk, uint64_t hash, tr_ref *ref);

/* True when every page is sorted, reachable and counted. O(n). */
bool tr_index_valid(const struct tr_index *index);

#endif
