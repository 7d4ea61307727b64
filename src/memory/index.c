/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extendible hashing, with the top bits so that directory order is hash order. A page of depth d
 * serves 2^(depth - d) neighbouring directory entries. Within a page slots are packed and sorted;
 * a guess from the hash's own bits lands near the slot, since hashes are spread evenly.
 *
 * Ordered linear probing in one large table was the alternative: about as fast, but growing it
 * means moving everything, at once or in steps that every lookup then has to know about.
 */
#include "memory/index.h"

#include <string.h>

#define PAGE_SLOTS 254u
#define DEPTH_MAX  21u

struct slot {
    uint32_t tag; /* the top 32 bits of the hash */
    tr_ref ref;
};

struct page {
    uint32_t depth;
    uint32_t count;
    uint64_t unused; /* 2,048 bytes in all */
    struct slot slots[PAGE_SLOTS];
};

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static tr_ref *directory(const struct tr_index *index)
{
    return tr_arena_at(index->arena, index->directory);
}

static uint64_t entry_of(const struct tr_index *index, uint64_t hash)
{
    return index->depth == 0 ? 0 : hash >> (64 - index->depth);
}

static struct page *page_at(const struct tr_index *index, uint64_t entry)
{
    TR_ASSERT(entry < (uint64_t)1 << index->depth);
    return tr_arena_at(index->arena, directory(index)[entry]);
}

bool tr_index_init(struct tr_index *index, struct tr_arena *arena, const void *owner,
                   uint64_t (*hash_of)(const void *owner, tr_ref ref))
{
    *index = (struct tr_index){.arena = arena, .owner = owner, .hash_of = hash_of};
    index->directory = tr_arena_take(arena, TR_ARENA_PAGE, sizeof(tr_ref), false);
    tr_ref first = tr_arena_take(arena, TR_ARENA_PAGE, sizeof(struct page), false);
    if (index->directory == TR_ARENA_NONE || first == TR_ARENA_NONE)
        return false;
    struct page *page = tr_arena_at(arena, first);
    page->depth = 0;
    page->count = 0;
    directory(index)[0] = first;
    return true;
}

/* About where a tag is. */
static uint32_t guess(const struct page *page, uint32_t tag)
{
    uint32_t offset = page->depth == 0 ? tag : tag << page->depth;
    return (uint32_t)((uint64_t)offset * page->count >> 32);
}

/* The first slot whose tag is at least `tag`. */
static uint32_t find_tag(const struct page *page, uint32_t tag)
{
    uint32_t at = guess(page, tag);
    while (at < page->count && page->slots[at].tag < tag)
        at++;
    while (at > 0 && page->slots[at - 1].tag >= tag)
        at--;
    return at;
}

/* The first slot whose whole hash is at least `hash` (or above it). */
static uint32_t find_hash(const struct tr_index *index, const struct page *page, uint64_t hash,
                          bool is_above)
{
    uint32_t at = find_tag(page, tag_of(hash));
    while (at < page->count && page->slots[at].tag == tag_of(hash)) {
        uint64_t other = index->hash_of(index->owner, page->slots[at].ref);
        if (other > hash || (other == hash && !is_above))
            break;
        at++;
    }
    return at;
}

static bool double_directory(struct tr_index *index)
{
    TR_ASSERT(index->depth <= DEPTH_MAX);
    size_t count = (size_t)1 << index->depth;
    if (index->depth == DEPTH_MAX)
        return false;
    tr_ref larger = tr_arena_take(index->arena, TR_ARENA_PAGE, 2 * count * sizeof(tr_ref), false);
    if (larger == TR_ARENA_NONE)
        return false;
    tr_ref *to = tr_arena_at(index->arena, larger);
    const tr_ref *from = directory(index);
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[i];
    }
    tr_arena_give(index->arena, index->directory);
    index->directory = larger;
    index->depth++;
    return true;
}

/* Splits the page of `hash` by one more bit. */
static bool split(struct tr_index *index, uint64_t hash)
{
    struct page *low = page_at(index, entry_of(index, hash));
    if (low->depth == index->depth && !double_directory(index))
        return false;
    tr_ref ref = tr_arena_take(index->arena, TR_ARENA_PAGE, sizeof(struct page), false);
    if (ref == TR_ARENA_NONE)
        return false;
    struct page *high = tr_arena_at(index->arena, ref);
    uint32_t bit = (uint32_t)1 << (31 - low->depth);
    uint32_t keep = 0;
    while (keep < low->count && (low->slots[keep].tag & bit) == 0)
        keep++;
    high->count = low->count - keep;
    memcpy(high->slots, low->slots + keep, high->count * sizeof high->slots[0]);
    low->count = keep;
    high->depth = ++low->depth;
    uint64_t span = (uint64_t)1 << (index->depth - low->depth);
    uint64_t first = (entry_of(index, hash) & ~(2 * span - 1)) + span;
    for (uint64_t i = first; i < first + span; i++)
        directory(index)[i] = ref;
    return true;
}

bool tr_index_insert(struct tr_index *index, uint64_t hash, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct page *page = page_at(index, entry_of(index, hash));
    while (page->count == PAGE_SLOTS) {
        if (!split(index, hash))
            return false;
        page = page_at(index, entry_of(index, hash));
    }
    uint32_t at = find_hash(index, page, hash, true);
    memmove(page->slots + at + 1, page->slots + at, (page->count - at) * sizeof page->slots[0]);
    page->slots[at] = (struct slot){tag_of(hash), ref};
    page->count++;
    index->count++;
    return true;
}

static struct slot *find_slot(struct tr_index *index, uint64_t hash, tr_ref ref,
                              struct page **page_out)
{
    struct page *page = page_at(index, entry_of(index, hash));
    uint32_t at = find_tag(page, tag_of(hash));
    while (at < page->count && page->slots[at].tag == tag_of(hash) && page->slots[at].ref != ref)
        at++;
    TR_ASSERT(at < page->count && page->slots[at].ref == ref);
    *page_out = page;
    return &page->slots[at];
}

void tr_index_remove(struct tr_index *index, uint64_t hash, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE && index->count > 0);
    struct page *page = NULL;
    struct slot *slot = find_slot(index, hash, ref, &page);
    size_t after = page->count - (size_t)(slot - page->slots) - 1;
    memmove(slot, slot + 1, after * sizeof *slot);
    page->count--;
    index->count--;
}

void tr_index_replace(struct tr_index *index, uint64_t hash, tr_ref old, tr_ref ref)
{
    TR_ASSERT(old != TR_ARENA_NONE && ref != TR_ARENA_NONE);
    struct page *page = NULL;
    find_slot(index, hash, old, &page)->ref = ref;
}

struct tr_index_walk tr_index_seek(const struct tr_index *index, uint64_t hash)
{
    uint64_t entry = entry_of(index, hash);
    uint32_t slot = find_hash(index, page_at(index, entry), hash, false);
    return (struct tr_index_walk){index, entry, slot};
}

struct tr_index_walk tr_index_seek_like(const struct tr_index *index, uint64_t hash)
{
    uint64_t entry = entry_of(index, hash);
    return (struct tr_index_walk){index, entry, find_tag(page_at(index, entry), tag_of(hash))};
}

void tr_index_fetch_page(const struct tr_index *index, uint64_t hash)
{
    __builtin_prefetch(page_at(index, entry_of(index, hash)));
}

void tr_index_fetch_slot(const struct tr_index *index, uint64_t hash)
{
    const struct page *page = page_at(index, entry_of(index, hash));
    __builtin_prefetch(&page->slots[guess(page, tag_of(hash))]);
}

bool tr_index_next(struct tr_index_walk *walk, tr_ref *ref)
{
    const struct tr_index *index = walk->index;
    while (walk->entry >> index->depth == 0) {
        const struct page *page = page_at(index, walk->entry);
        if (walk->slot < page->count) {
            *ref = page->slots[walk->slot++].ref;
            return true;
        }
        uint64_t span = (uint64_t)1 << (index->depth - page->depth);
        walk->entry = (walk->entry & ~(span - 1)) + span;
        walk->slot = 0;
    }
    return false;
}

bool tr_index_next_like(struct tr_index_walk *walk, uint64_t hash, tr_ref *ref)
{
    const struct page *page = page_at(walk->index, walk->entry);
    if (walk->slot == page->count || page->slots[walk->slot].tag != tag_of(hash))
        return false; /* equal hashes share a page */
    *ref = page->slots[walk->slot++].ref;
    return true;
}

bool tr_index_valid(const struct tr_index *index)
{
    uint64_t count = 0;
    uint64_t last = 0;
    for (uint64_t entry = 0; entry >> index->depth == 0;) {
        const struct page *page = page_at(index, entry);
        if (page->depth > index->depth || page->count > PAGE_SLOTS)
            return false;
        uint64_t span = (uint64_t)1 << (index->depth - page->depth);
        for (uint64_t i = entry; i < entry + span; i++) {
            if (page_at(index, i) != page)
                return false;
        }
        for (uint32_t i = 0; i < page->count; i++) {
            uint64_t hash = index->hash_of(index->owner, page->slots[i].ref);
            if (hash < last || tag_of(hash) != page->slots[i].tag ||
                entry_of(index, hash) < entry || entry_of(index, hash) >= entry + span)
                return false;
            last = hash;
        }
        count += page->count;
        entry += span;
    }
    return count == index->count;
}
