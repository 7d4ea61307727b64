/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/arena.h"

#include <string.h>

#define NO_BLOCK  UINT32_MAX
#define LARGE     255 /* the class of a piece of whole blocks */
#define SMALL_MAX (TR_ARENA_BLOCK / 2)

struct tr_arena_block {
    uint8_t kind;
    uint8_t class;
    uint16_t used;
    uint32_t span; /* a large piece: its blocks */
    uint32_t next; /* of the partial or idle list */
    uint32_t previous;
    uint16_t free;  /* first piece of the free list, counted from 1; 0: none */
    uint16_t fresh; /* pieces from here on were never handed out */
};

/* A free piece: its first byte is 0, so that it is no record. */
struct free_piece {
    uint16_t zero;
    uint16_t next;
};

static uint32_t class_size(unsigned class)
{
    TR_ASSERT(class < TR_ARENA_CLASSES);
    if (class < 32)
        return (class + 1) * TR_ARENA_UNIT;
    if (class >= 64)
        return TR_ARENA_BLOCK / (7 - (class - 64)) / TR_ARENA_UNIT * TR_ARENA_UNIT;
    unsigned doubling = (class - 32) / 8;
    return (512u << doubling) + ((class - 32) % 8 + 1) * (64u << doubling);
}

/* Steps of 16 bytes to 512, eighths of each doubling to 8 KiB, then whole shares of a block. */
static unsigned class_of(size_t size)
{
    TR_ASSERT(size > 0 && size <= SMALL_MAX);
    if (size <= 512)
        return size <= TR_ARENA_UNIT ? 0 : (unsigned)((size - 1) / TR_ARENA_UNIT);
    if (size > 8192) {
        unsigned share = 7;
        while (share > 2 && class_size(64 + (7 - share)) < size)
            share--;
        return 64 + (7 - share);
    }
    unsigned doubling = 0;
    while ((size_t)1024 << doubling < size)
        doubling++;
    size_t step = (size_t)64 << doubling;
    size_t low = (size_t)512 << doubling;
    return 32 + 8 * doubling + (unsigned)((size - low - 1) / step);
}

static uint32_t class_pieces(unsigned class)
{
    return TR_ARENA_BLOCK / class_size(class);
}

size_t tr_arena_rounded(size_t size)
{
    if (size <= SMALL_MAX)
        return class_size(class_of(size));
    return (size + TR_ARENA_BLOCK - 1) / TR_ARENA_BLOCK * TR_ARENA_BLOCK;
}

void tr_arena_init(struct tr_arena *arena, void *region, size_t size)
{
    TR_ASSERT(size >= TR_ARENA_LEAST && size <= TR_ARENA_MOST);
    TR_ASSERT((uintptr_t)region % TR_ARENA_UNIT == 0);
    memset(arena, 0, sizeof *arena);
    arena->base = region;
    arena->block_count = (uint32_t)(size / TR_ARENA_BLOCK);
    arena->blocks = (struct tr_arena_block *)region;
    size_t table = (size_t)arena->block_count * sizeof *arena->blocks;
    arena->blocks_fresh = (uint32_t)((table + TR_ARENA_BLOCK - 1) / TR_ARENA_BLOCK);
    arena->blocks_used = arena->blocks_fresh;
    arena->reserve = arena->block_count / 8;
    arena->idle = NO_BLOCK;
    for (unsigned kind = 0; kind < TR_ARENA_KINDS; kind++) {
        for (unsigned class = 0; class < TR_ARENA_CLASSES; class ++)
            arena->partial[kind][class] = NO_BLOCK;
    }
}

static void link_block(struct tr_arena *arena, uint32_t *list, uint32_t index)
{
    TR_ASSERT(index < arena->blocks_fresh);
    struct tr_arena_block *block = &arena->blocks[index];
    block->next = *list;
    block->previous = NO_BLOCK;
    if (*list != NO_BLOCK)
        arena->blocks[*list].previous = index;
    *list = index;
}

static void unlink_block(struct tr_arena *arena, uint32_t *list, uint32_t index)
{
    TR_ASSERT(index < arena->blocks_fresh);
    struct tr_arena_block *block = &arena->blocks[index];
    if (block->next != NO_BLOCK)
        arena->blocks[block->next].previous = block->previous;
    if (block->previous != NO_BLOCK)
        arena->blocks[block->previous].next = block->next;
    else
        *list = block->next;
}

static bool has_room(const struct tr_arena *arena, uint32_t blocks, bool is_urgent)
{
    TR_ASSERT(arena->blocks_used <= arena->blocks_fresh);
    uint32_t limit = arena->block_count - (is_urgent ? 0 : arena->reserve);
    return arena->blocks_used + blocks <= limit;
}

/* Blocks that were never used are given to others up to here: the rest, in one piece, is the
 * reserve's, so that an urgent piece of many blocks finds neighbours. */
static uint32_t fresh_limit(const struct tr_arena *arena, bool is_urgent)
{
    return arena->block_count - (is_urgent ? 0 : arena->reserve);
}

/* One block, cleared; NO_BLOCK when there is none. */
static uint32_t take_block(struct tr_arena *arena, bool is_urgent)
{
    if (!has_room(arena, 1, is_urgent))
        return NO_BLOCK;
    uint32_t index = arena->idle;
    if (index != NO_BLOCK)
        unlink_block(arena, &arena->idle, index);
    else if (arena->blocks_fresh < fresh_limit(arena, is_urgent))
        index = arena->blocks_fresh++;
    else
        return NO_BLOCK;
    arena->blocks_used++;
    memset(&arena->blocks[index], 0, sizeof arena->blocks[index]);
    return index;
}

/* Neighbouring blocks among those that are free again; NO_BLOCK if there are none. */
static uint32_t find_idle_run(const struct tr_arena *arena, uint32_t count)
{
    TR_ASSERT(count > 0);
    size_t table = arena->block_count * sizeof *arena->blocks;
    uint32_t first = (uint32_t)((table + TR_ARENA_BLOCK - 1) / TR_ARENA_BLOCK);
    uint32_t run = 0;
    if (arena->blocks_fresh - arena->blocks_used < count)
        return NO_BLOCK;
    for (uint32_t i = first; i < arena->blocks_fresh; i++) {
        run = arena->blocks[i].kind == TR_ARENA_FREE ? run + 1 : 0;
        if (run == count)
            return i + 1 - count;
    }
    return NO_BLOCK;
}

/* The first of `count` neighbouring blocks: free again, or never used. */
static uint32_t take_run(struct tr_arena *arena, uint32_t count, bool is_urgent)
{
    uint32_t first = find_idle_run(arena, count);
    if (first != NO_BLOCK) {
        for (uint32_t i = first; i < first + count; i++)
            unlink_block(arena, &arena->idle, i);
        return first;
    }
    uint32_t limit = fresh_limit(arena, is_urgent);
    if (arena->blocks_fresh > limit || limit - arena->blocks_fresh < count)
        return NO_BLOCK;
    first = arena->blocks_fresh;
    arena->blocks_fresh += count;
    return first;
}

static tr_ref take_large(struct tr_arena *arena, enum tr_arena_kind kind, size_t size,
                         bool is_urgent)
{
    TR_ASSERT(size > SMALL_MAX);
    if (size > TR_ARENA_MOST)
        return TR_ARENA_NONE;
    uint32_t count = (uint32_t)((size + TR_ARENA_BLOCK - 1) / TR_ARENA_BLOCK);
    if (!has_room(arena, count, is_urgent))
        return TR_ARENA_NONE;
    uint32_t first = take_run(arena, count, is_urgent);
    if (first == NO_BLOCK)
        return TR_ARENA_NONE;
    arena->blocks_used += count;
    for (uint32_t i = first; i < first + count; i++) {
        memset(&arena->blocks[i], 0, sizeof arena->blocks[i]);
        arena->blocks[i].kind = (uint8_t)kind;
        arena->blocks[i].class = LARGE;
    }
    arena->blocks[first].span = count;
    arena->pieces[kind]++;
    return (tr_ref)((size_t)first * (TR_ARENA_BLOCK / TR_ARENA_UNIT));
}

tr_ref tr_arena_take(struct tr_arena *arena, enum tr_arena_kind kind, size_t size, bool is_urgent)
{
    TR_ASSERT(kind > TR_ARENA_FREE && kind < TR_ARENA_KINDS && size > 0);
    /* What has room in a block that is there would need urgent pieces in its turn. */
    if (!is_urgent && arena->blocks_used > arena->block_count - (arena->reserve + arena->lent) / 2)
        return TR_ARENA_NONE;
    if (size > SMALL_MAX)
        return take_large(arena, kind, size, is_urgent);
    unsigned class = class_of(size);
    uint32_t *list = &arena->partial[kind][class];
    if (*list == NO_BLOCK) {
        uint32_t fresh = take_block(arena, is_urgent);
        if (fresh == NO_BLOCK)
            return TR_ARENA_NONE;
        arena->blocks[fresh].kind = (uint8_t)kind;
        arena->blocks[fresh].class = (uint8_t) class;
        link_block(arena, list, fresh);
    }
    uint32_t index = *list;
    struct tr_arena_block *block = &arena->blocks[index];
    uint8_t *start = arena->base + (size_t)index * TR_ARENA_BLOCK;
    uint32_t piece = block->fresh;
    if (block->free != 0) {
        piece = block->free - 1u;
        struct free_piece *free = (void *)(start + (size_t)piece * class_size(class));
        block->free = free->next;
    } else {
        block->fresh++;
    }
    block->used++;
    arena->pieces[kind]++;
    if (block->used == class_pieces(class))
        unlink_block(arena, list, index);
    size_t offset = (size_t)index * TR_ARENA_BLOCK + (size_t)piece * class_size(class);
    return (tr_ref)(offset / TR_ARENA_UNIT);
}

static void give_block(struct tr_arena *arena, uint32_t index)
{
    TR_ASSERT(arena->blocks_used > 0 && arena->blocks[index].kind != TR_ARENA_FREE);
    arena->blocks[index].kind = TR_ARENA_FREE;
    arena->blocks_used--;
    link_block(arena, &arena->idle, index);
}

void tr_arena_give(struct tr_arena *arena, tr_ref ref)
{
    size_t offset = (size_t)ref * TR_ARENA_UNIT;
    uint32_t index = (uint32_t)(offset / TR_ARENA_BLOCK);
    TR_ASSERT(ref != TR_ARENA_NONE && index < arena->blocks_fresh);
    struct tr_arena_block *block = &arena->blocks[index];
    TR_ASSERT(block->kind != TR_ARENA_FREE && arena->pieces[block->kind] > 0);
    arena->pieces[block->kind]--;
    if (block->class == LARGE) {
        uint32_t count = block->span;
        TR_ASSERT(count > 0);
        *(arena->base + offset) = 0;
        for (uint32_t i = index; i < index + count; i++)
            give_block(arena, i);
        return;
    }
    uint32_t size = class_size(block->class);
    uint32_t piece = (uint32_t)(offset % TR_ARENA_BLOCK / size);
    TR_ASSERT(offset % TR_ARENA_BLOCK % size == 0 && piece < block->fresh && block->used > 0);
    uint32_t *list = &arena->partial[block->kind][block->class];
    if (block->used == class_pieces(block->class))
        link_block(arena, list, index);
    struct free_piece *free = (void *)(arena->base + offset);
    free->zero = 0;
    free->next = block->free;
    block->free = (uint16_t)(piece + 1);
    block->used--;
    if (block->used == 0) {
        unlink_block(arena, list, index);
        give_block(arena, index);
    }
}

void tr_arena_lend(struct tr_arena *arena)
{
    TR_ASSERT(arena->lent == 0);
    arena->lent = arena->reserve / 2;
    arena->reserve -= arena->lent;
}

void tr_arena_give_back(struct tr_arena *arena)
{
    arena->reserve += arena->lent;
    arena->lent = 0;
}

size_t tr_arena_capacity(const struct tr_arena *arena, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_arena_block *block =
        &arena->blocks[(size_t)ref * TR_ARENA_UNIT / TR_ARENA_BLOCK];
    return block->class == LARGE ? (size_t)block->span * TR_ARENA_BLOCK : class_size(block->class);
}

bool tr_arena_holds_kind(const struct tr_arena *arena, tr_ref ref, enum tr_arena_kind kind)
{
    TR_ASSERT(kind == TR_ARENA_RECORD || kind == TR_ARENA_KEY);
    size_t offset = (size_t)ref * TR_ARENA_UNIT;
    uint32_t index = (uint32_t)(offset / TR_ARENA_BLOCK);
    if (ref == TR_ARENA_NONE || index >= arena->blocks_fresh)
        return false;
    const struct tr_arena_block *block = &arena->blocks[index];
    if (block->kind != kind)
        return false;
    if (block->class == LARGE)
        return block->span > 0 && offset % TR_ARENA_BLOCK == 0 && *(arena->base + offset) != 0;
    uint32_t size = class_size(block->class);
    uint32_t within = (uint32_t)(offset % TR_ARENA_BLOCK);
    return within % size == 0 && within / size < block->fresh && *(arena->base + offset) != 0;
}

tr_ref tr_arena_next_of(const struct tr_arena *arena, enum tr_arena_kind kind, tr_ref ref)
{
    TR_ASSERT(kind == TR_ARENA_RECORD || kind == TR_ARENA_KEY);
    size_t table = arena->block_count * sizeof *arena->blocks;
    uint32_t index = (uint32_t)((table + TR_ARENA_BLOCK - 1) / TR_ARENA_BLOCK);
    uint32_t piece = 0;
    if (ref != TR_ARENA_NONE) {
        size_t offset = (size_t)ref * TR_ARENA_UNIT;
        index = (uint32_t)(offset / TR_ARENA_BLOCK);
        const struct tr_arena_block *block = &arena->blocks[index];
        if (block->class == LARGE)
            index += block->span;
        else
            piece = (uint32_t)(offset % TR_ARENA_BLOCK) / class_size(block->class) + 1;
    }
    for (; index < arena->blocks_fresh; index++, piece = 0) {
        const struct tr_arena_block *block = &arena->blocks[index];
        size_t start = (size_t)index * TR_ARENA_BLOCK;
        if (block->kind != kind)
            continue;
        if (block->class == LARGE) {
            if (block->span > 0)
                return (tr_ref)(start / TR_ARENA_UNIT);
            continue;
        }
        for (uint32_t size = class_size(block->class); piece < block->fresh; piece++) {
            if (*(arena->base + start + (size_t)piece * size) != 0)
                return (tr_ref)((start + (size_t)piece * size) / TR_ARENA_UNIT);
        }
    }
    return TR_ARENA_NONE;
}

uint32_t tr_arena_room(const struct tr_arena *arena)
{
    uint32_t limit = arena->block_count - arena->reserve;
    if (arena->blocks_used >= limit)
        return 0;
    return (uint32_t)((uint64_t)(limit - arena->blocks_used) * 1000 / limit);
}

size_t tr_arena_used(const struct tr_arena *arena)
{
    return (size_t)arena->blocks_used * TR_ARENA_BLOCK;
}

bool tr_arena_valid(const struct tr_arena *arena)
{
    uint32_t idle = 0;
    for (uint32_t i = arena->idle; i != NO_BLOCK && idle <= arena->block_count; idle++) {
        if (arena->blocks[i].kind != TR_ARENA_FREE)
            return false;
        i = arena->blocks[i].next;
    }
    if (idle + arena->blocks_used != arena->blocks_fresh)
        return false;
    for (unsigned kind = 1; kind < TR_ARENA_KINDS; kind++) {
        for (unsigned class = 0; class < TR_ARENA_CLASSES; class ++) {
            uint32_t steps = 0;
            for (uint32_t i = arena->partial[kind][class]; i != NO_BLOCK; steps++) {
                const struct tr_arena_block *block = &arena->blocks[i];
                if (steps > arena->block_count || block->kind != kind || block->class != class ||
                    block->used == 0 || block->used >= class_pieces(class))
                    return false;
                i = block->next;
            }
        }
    }
    return true;
}
