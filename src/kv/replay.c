/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/replay.h"

#include "kv/store.h"

#define PAIR_ROOM 4096 /* of a batch, beside the largest pair */

bool tr_kv_drop_expired(struct tr_kv *kv)
{
    if (kv->dropped_ms == kv->replayed_ms)
        return false;
    tr_ref next = tr_arena_next_of(kv->arena, TR_ARENA_KEY, TR_ARENA_NONE);
    while (next != TR_ARENA_NONE) {
        struct tr_pair pair;
        tr_ref ref = next;
        next = tr_arena_next_of(kv->arena, TR_ARENA_KEY, ref);
        tr_kv_book_unpack(&kv->book, ref, &pair);
        if (pair.expires_ms < kv->replayed_ms && pair.callback.size == 0 && !pair.is_end)
            tr_kv_forget(kv, ref, tr_kv_hash(pair.key));
    }
    kv->stale = 0; /* nothing is in the wheel yet */
    kv->dropped_ms = kv->replayed_ms;
    return true;
}

static bool apply_full(struct tr_kv *kv, struct tr_pair pair, uint64_t segment)
{
    uint64_t hash = tr_kv_hash(pair.key);
    tr_ref ref = tr_kv_book_find(&kv->book, pair.key, hash);
    pair.segment = (uint32_t)(segment & 0xffffff);
    if (tr_breaks(kv->trial, MUTANT_KEY_COUNTED_ANEW) && pair.expires_ms != TR_NEVER)
        pair.expires_ms += kv->time->steady_ms % 1000;
    if (ref != TR_ARENA_NONE) {
        struct tr_pair held;
        tr_kv_book_unpack(&kv->book, ref, &held);
        if (tr_pair_is_below(&pair, &held))
            return true;
    }
    /* Of what ended with all others, a copy is made only of what is owed a callback. */
    kv->is_flushing |= pair.version < kv->floor;
    return tr_kv_restore(kv, ref, hash, &pair);
}

/* The pair held under the key of an entry, if it is not above the entry's version. */
static tr_ref find_below(const struct tr_kv *kv, const struct tr_pair *pair, uint64_t hash)
{
    struct tr_pair held;
    tr_ref ref = tr_kv_book_find(&kv->book, pair->key, hash);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_kv_book_unpack(&kv->book, ref, &held);
    return tr_pair_is_below(pair, &held) ? TR_ARENA_NONE : ref;
}

static bool apply_expiry(struct tr_kv *kv, const struct tr_pair *pair)
{
    uint64_t hash = tr_kv_hash(pair->key);
    tr_ref ref = find_below(kv, pair, hash);
    return ref == TR_ARENA_NONE || tr_kv_restore_expiry(kv, ref, hash, pair);
}

static void apply_end(struct tr_kv *kv, const struct tr_pair *pair)
{
    uint64_t hash = tr_kv_hash(pair->key);
    tr_ref ref = find_below(kv, pair, hash);
    if (ref != TR_ARENA_NONE)
        tr_kv_forget(kv, ref, hash);
}

/* Entries before this one are of lower versions, but for some that others wrote when it was asked
 * for. What had expired by then and was to be called stays until that is owed. */
static void apply_floor(struct tr_kv *kv, const struct tr_pair *floor)
{
    tr_ref ref = TR_ARENA_NONE;
    uint64_t hash = 0;
    if (tr_breaks(kv->trial, MUTANT_KEY_FLOOR_LATE))
        return;
    kv->floor = floor->version;
    kv->floor_ms = floor->expires_ms;
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, 0);
    while (tr_index_next(&walk, &ref)) {
        struct tr_pair pair;
        tr_kv_book_unpack(&kv->book, ref, &pair);
        hash = tr_kv_hash(pair.key);
        if (pair.version >= kv->floor)
            continue;
        if (pair.callback.size > 0 && pair.expires_ms < kv->floor_ms) {
            kv->is_flushing = true;
            continue;
        }
        tr_kv_forget(kv, ref, hash);
        walk = tr_index_seek(&kv->book.index, hash);
    }
    tr_kv_recount(kv);
    kv->stale = 0; /* nothing is in the wheel yet */
}

enum tr_log_verdict tr_kv_replay(struct tr_kv *kv, const struct tr_log_entry *entry,
                                 uint64_t segment)
{
    const struct tr_pair *pair = &entry->pair;
    if (pair->version > kv->cluster->last_stamp)
        kv->cluster->last_stamp = pair->version;
    if (entry->type == TR_LOG_KEY_TIME) {
        if (pair->expires_ms < kv->replayed_ms) /* the clock was set back: what had expired has */
            tr_kv_drop_expired(kv);
        kv->replayed_ms = pair->expires_ms;
        return TR_LOG_SOUND;
    }
    if (entry->type == TR_LOG_KEY_FLOOR) {
        apply_floor(kv, pair);
        return TR_LOG_SOUND;
    }
    if (entry->type == TR_LOG_KEY_END) {
        apply_end(kv, pair);
        return TR_LOG_SOUND;
    }
    if (entry->type == TR_LOG_KEY_EXPIRY)
        return apply_expiry(kv, pair) ? TR_LOG_SOUND : TR_LOG_NO_MEMORY;
    if (pair->key.size + pair->value.size + PAIR_ROOM > kv->log->config.batch_cap)
        return TR_LOG_TOO_LARGE;
    return apply_full(kv, *pair, segment) ? TR_LOG_SOUND : TR_LOG_NO_MEMORY;
}
