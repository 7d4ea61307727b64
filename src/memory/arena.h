/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a node: one region of a fixed size, handed out in pieces that are known by a
 * 32-bit reference.
 *
 * The region is cut into blocks of 64 KiB; a block holds pieces of one kind and one size class
 * (steps of 16 bytes at first), or is part of a larger piece. Pages of the region that were never
 * handed out are never touched, so a budget of gigabytes costs nothing until it is used.
 *
 * Owns:    the region, which must be zero at first and outlive the arena.
 * Bounds:  the region's size, up to 64 GiB. An eighth is a reserve: only urgent pieces come from
 *          it, so that what is already held can always be re-armed, retried and moved on.
 */
#ifndef TR_MEMORY_ARENA_H
#define TR_MEMORY_ARENA_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TR_CACHE_LINE    64u
#define TR_ARENA_UNIT    16u
#define TR_ARENA_BLOCK   65536u
#define TR_ARENA_LEAST   ((size_t)1 << 20)
#define TR_ARENA_MOST    ((size_t)64 << 30)
#define TR_ARENA_NONE    0u
#define TR_ARENA_CLASSES 70

/* Units from the start of the region; 0 is none. */
typedef uint32_t tr_ref;

enum tr_arena_kind {
    TR_ARENA_FREE,
    TR_ARENA_RECORD, /* its first byte is not 0 while it is held: see tr_arena_holds_kind */
    TR_ARENA_KEY,    /* likewise */
    TR_ARENA_CHUNK,
    TR_ARENA_STRING,
    TR_ARENA_PAGE,
    TR_ARENA_KINDS,
};

struct tr_arena_block;

struct tr_arena {
    uint8_t *base;
    struct tr_arena_block *blocks;
    uint32_t block_count;
    uint32_t blocks_fresh; /* below it, blocks were used at least once */
    uint32_t blocks_used;
    uint32_t reserve;                                   /* blocks */
    uint32_t lent;                                      /* of the reserve */
    uint32_t idle;                                      /* a list of blocks that are free again */
    uint32_t partial[TR_ARENA_KINDS][TR_ARENA_CLASSES]; /* blocks with room */
    uint64_t pieces[TR_ARENA_KINDS];                    /* handed out and not given back */
};

/* Takes over a region of zeros, aligned to 16 bytes, of TR_ARENA_LEAST to TR_ARENA_MOST bytes. */
void tr_arena_init(struct tr_arena *arena, void *region, size_t size);

/* A piece of at least `size` bytes, its content undefined, or TR_ARENA_NONE when there is no room;
 * urgent ones may come from the reserve. */
tr_ref tr_arena_take(struct tr_arena *arena, enum tr_arena_kind kind, size_t size, bool is_urgent);

void tr_arena_give(struct tr_arena *arena, tr_ref ref);

/* How many bytes a piece of `size` would take, and how many one has. */
size_t tr_arena_rounded(size_t size);
size_t tr_arena_capacity(const struct tr_arena *arena, tr_ref ref);

/* Whether `ref`, which may be stale, is a piece of this kind, RECORD or KEY, that is held now. */
bool tr_arena_holds_kind(const struct tr_arena *arena, tr_ref ref, enum tr_arena_kind kind);

static inline bool tr_arena_holds(const struct tr_arena *arena, tr_ref ref)
{
    return tr_arena_holds_kind(arena, ref, TR_ARENA_RECORD);
}

/* The next piece of this kind, RECORD or KEY, that is held behind `ref`, or the first behind
 * TR_ARENA_NONE, in the order of memory; TR_ARENA_NONE at the end. */
tr_ref tr_arena_next_of(const struct tr_arena *arena, enum tr_arena_kind kind, tr_ref ref);

/* Half of the reserve is for all pieces until it is given back: for one that takes the place of
 * another, which goes at once. */
void tr_arena_lend(struct tr_arena *arena);
void tr_arena_give_back(struct tr_arena *arena);

/* Room left before only urgent pieces are given, as a share of 1000. */
uint32_t tr_arena_room(const struct tr_arena *arena);

/* Whether only urgent pieces are given. */
static inline bool tr_arena_is_tight(const struct tr_arena *arena)
{
    return arena->blocks_used >= arena->block_count - arena->reserve;
}

/* Whether most of what is kept for urgent pieces is used, too. */
static inline bool tr_arena_is_almost_full(const struct tr_arena *arena)
{
    return arena->blocks_used >= arena->block_count - arena->reserve / 4;
}

size_t tr_arena_used(const struct tr_arena *arena);

static inline void *tr_arena_at(const struct tr_arena *arena, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    return arena->base + (size_t)ref * TR_ARENA_UNIT;
}

/* True when lists and counts agree. O(blocks). */
bool tr_arena_valid(const struct tr_arena *arena);

#endif
