/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `chronos`: the original's rendezvous hashing. The lowest hash is the primary, the backups are the
 * highest, the second highest and so on.
 *
 * Equal hashes are told apart by incrementing the later node's until it is free, which may push it
 * past a hash that was larger: all of them are settled, in list order, before any is compared. That
 * is for the hashes of the servers, and for injected ones. MurmurHash3 of one key is a bijection of
 * its seed, and settled servers have distinct ones, so the hashes of a key never clash by
 * themselves.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "base/heap.h"
#include "place/map.h"

#include <string.h>

#define FEW_NODES 16 /* settled on the stack, by comparing each with each */

/* A set of 32-bit hashes: open addressing, at most half full. */
struct hash_set {
    uint32_t *slots;
    uint8_t *is_taken;
    size_t mask;
};

static size_t set_slots(size_t count)
{
    size_t slots = 2 * (size_t)FEW_NODES;
    while (slots < 2 * count)
        slots *= 2;
    TR_ASSERT((slots & (slots - 1)) == 0 && slots >= 2 * count);
    return slots;
}

/* Adds `hash`; false if it is there already. */
static bool set_add(struct hash_set *set, uint32_t hash)
{
    size_t slot = (size_t)(hash * 0x9e3779b1u) & set->mask;
    for (; set->is_taken[slot]; slot = (slot + 1) & set->mask) {
        if (set->slots[slot] == hash)
            return false;
    }
    set->is_taken[slot] = 1;
    set->slots[slot] = hash;
    return true;
}

static struct hash_set set_make(void *memory, size_t count)
{
    size_t slots = set_slots(count);
    struct hash_set set = {.slots = memory, .mask = slots - 1};
    set.is_taken = (uint8_t *)(set.slots + slots);
    memset(set.is_taken, 0, slots);
    return set;
}

static size_t set_size(size_t count)
{
    return set_slots(count) * (sizeof(uint32_t) + sizeof(uint8_t));
}

static void settle_few(uint32_t *hashes, size_t count)
{
    TR_ASSERT(count <= FEW_NODES);
    for (size_t i = 1; i < count; i++) {
        for (size_t earlier = 0; earlier < i; earlier++) {
            if (hashes[earlier] == hashes[i]) {
                hashes[i]++;
                earlier = (size_t)-1; /* the new value may be taken too: from the start */
            }
        }
    }
}

/* Increments each hash until no earlier one equals it, modulo 2^32. */
static void settle(uint32_t *hashes, size_t count, void *set_memory)
{
    if (count <= FEW_NODES) {
        settle_few(hashes, count);
        return;
    }
    struct hash_set set = set_make(set_memory, count);
    TR_ASSERT(set.mask >= count);
    for (size_t i = 0; i < count; i++) {
        while (!set_add(&set, hashes[i]))
            hashes[i]++;
    }
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    (void)build;
    map->chronos.server = tr_room_take(room, map->count, sizeof(uint32_t));
    void *set_memory = tr_room_take(room, set_size(map->count), 1);
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    bool is_injected = map->hash != NULL && map->hash->node != NULL;
    for (uint32_t i = 0; i < map->count; i++) {
        map->chronos.server[i] = is_injected
                                     ? (uint32_t)map->seed[i]
                                     : tr_hash_murmur3(map->name[i], strlen(map->name[i]), 0);
    }
    settle(map->chronos.server, map->count, set_memory);
    return TRYST_PLACE_OK;
}

static uint64_t key_of_id(const struct tryst_place_map *map, uint64_t id)
{
    (void)map;
    return id;
}

static uint64_t key_of_text(const struct tryst_place_map *map, const void *text, size_t size)
{
    (void)map;
    return tr_hash_xxh3(text, size);
}

static void hash_all(const struct tryst_place_map *map, uint64_t key, uint32_t *hashes)
{
    const struct tryst_place_hash *hash = map->scorer.hash;
    const uint32_t *server = map->chronos.server;
    if (hash == NULL) {
        for (uint32_t i = 0; i < map->count; i++)
            hashes[i] = tr_hash_murmur3_id(key, server[i]);
    } else {
        for (uint32_t i = 0; i < map->count; i++)
            hashes[i] = (uint32_t)hash->score(hash->context, key, server[i]);
    }
}

static uint32_t find_lowest(const uint32_t *hashes, size_t count)
{
    TR_ASSERT(count >= 1);
    size_t lowest = 0;
    for (size_t i = 1; i < count; i++)
        lowest = hashes[i] < hashes[lowest] ? i : lowest;
    return (uint32_t)lowest;
}

static bool is_higher(const void *context, uint32_t a, uint32_t b)
{
    const uint32_t *hashes = context;
    return hashes[a] > hashes[b];
}

/* The `want` highest but for `primary`, few enough to insert one by one. */
static void take_highest_few(const uint32_t *hashes, size_t count, uint32_t primary, size_t want,
                             uint32_t *numbers)
{
    TR_ASSERT(primary < count && want < count);
    size_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == primary || (taken == want && hashes[i] < hashes[numbers[want - 1]]))
            continue;
        size_t at = taken < want ? taken++ : want - 1;
        for (; at > 0 && hashes[i] > hashes[numbers[at - 1]]; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = i;
    }
}

/* Puts a few nodes in falling order of their hashes: each one's place is the number of higher ones,
 * counted with no branch to guess. False if two are equal, which the count sees by the way. Inlined
 * with a constant count, it unrolls. */
static inline bool sort_few(const uint32_t *hashes, size_t count, uint32_t *falling)
{
    uint32_t higher[FEW_NODES] = {0};
    uint32_t clashes = 0;
    for (size_t i = 1; i < count; i++) {
        for (size_t earlier = 0; earlier < i; earlier++) {
            uint32_t is_above = hashes[i] > hashes[earlier];
            clashes |= hashes[i] == hashes[earlier];
            higher[earlier] += is_above;
            higher[i] += 1 - is_above;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        falling[higher[i]] = i;
    return clashes == 0;
}

static void rank_few(uint32_t *hashes, size_t count, size_t want, uint32_t *numbers)
{
    TR_ASSERT(want >= 1 && want <= count && count <= FEW_NODES);
    uint32_t falling[FEW_NODES] = {0};
    bool is_sorted = count == 3 ? sort_few(hashes, 3, falling) : sort_few(hashes, count, falling);
    if (!is_sorted) {
        settle_few(hashes, count);
        sort_few(hashes, count, falling);
    }
    numbers[0] = falling[count - 1];
    for (size_t i = 1; i < want; i++)
        numbers[i] = falling[i - 1];
}

static void choose(const uint32_t *hashes, size_t count, size_t want, uint32_t *numbers,
                   uint32_t *items)
{
    TR_ASSERT(want >= 1 && want <= count);
    uint32_t primary = find_lowest(hashes, count);
    numbers[0] = primary;
    if (want == 1)
        return;
    if (want - 1 <= TR_FIELD_FEW) {
        take_highest_few(hashes, count, primary, want - 1, numbers + 1);
        return;
    }
    size_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i != primary)
            items[others++] = i;
    }
    tr_heap_take(items, others, is_higher, hashes, want - 1, numbers + 1);
}

static size_t scratch_size(const struct tryst_place_map *map, size_t want)
{
    (void)want;
    if (map->count <= FEW_NODES)
        return 0;
    size_t hashes_and_items = 2 * (size_t)map->count * sizeof(uint32_t);
    return hashes_and_items + (map->scorer.hash == NULL ? 0 : set_size(map->count));
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    if (map->count <= FEW_NODES) {
        uint32_t hashes[FEW_NODES];
        hash_all(map, key, hashes);
        rank_few(hashes, map->count, want, numbers);
        return;
    }
    TR_ASSERT(scratch != NULL);
    uint32_t *hashes = scratch;
    uint32_t *items = hashes + map->count;
    hash_all(map, key, hashes);
    if (map->scorer.hash != NULL)
        settle(hashes, map->count, items + map->count);
    choose(hashes, map->count, want, numbers, items);
}

const struct tr_strategy tr_strategy_chronos = {
    .name = "chronos@1",
    .uses = TR_KEEPS_THE_ORDER,
    .build = build,
    .key_of_id = key_of_id,
    .key_of_text = key_of_text,
    .scratch_size = scratch_size,
    .rank = rank,
};
