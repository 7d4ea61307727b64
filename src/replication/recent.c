/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/recent.h"

#include "base/assert.h"
#include "base/hash.h"

#define WAYS 8 /* slots that a key may have */

static uint64_t hash_of(const struct tr_key *key)
{
    uint64_t hash = tr_hash_mix(key->id + tr_hash_mix(key->part));
    return hash != 0 ? hash : 1;
}

/* The first of the slots of a key; they are `*count`. */
static struct tr_recent_note *slots_of(const struct tr_recent *recent, uint64_t hash,
                                       uint32_t *count)
{
    TR_ASSERT(recent->cap > 0);
    uint32_t ways = recent->cap < WAYS ? recent->cap : WAYS;
    *count = ways;
    return &recent->notes[hash % (recent->cap / ways) * ways];
}

/* The slot that a key has, or may have: the one of its few that runs out first. */
static struct tr_recent_note *slot_of(const struct tr_recent *recent, uint64_t hash)
{
    TR_ASSERT(hash != 0);
    uint32_t count = 0;
    struct tr_recent_note *slots = slots_of(recent, hash, &count);
    struct tr_recent_note *first = &slots[0];
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].hash == hash)
            return &slots[i];
        if (slots[i].until_ms < first->until_ms)
            first = &slots[i];
    }
    return first;
}

struct tr_recent_note *tr_recent_find(const struct tr_recent *recent, const struct tr_key *key)
{
    uint64_t hash = hash_of(key);
    struct tr_recent_note *slot = slot_of(recent, hash);
    return slot->hash == hash ? slot : NULL;
}

bool tr_recent_has_place(const struct tr_recent *recent, const struct tr_key *key,
                         tr_mono_ms free_ms)
{
    uint64_t hash = hash_of(key);
    const struct tr_recent_note *slot = slot_of(recent, hash);
    return slot->hash == hash || slot->until_ms <= free_ms;
}

struct tr_recent_note *tr_recent_place(struct tr_recent *recent, const struct tr_key *key,
                                       tr_mono_ms free_ms)
{
    TR_ASSERT(recent->cap > 0);
    uint64_t hash = hash_of(key);
    struct tr_recent_note *slot = slot_of(recent, hash);
    if (slot->hash != hash && slot->until_ms > free_ms)
        return NULL;
    slot->hash = hash;
    return slot;
}
