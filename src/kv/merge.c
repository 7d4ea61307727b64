/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/merge.h"

#include "cluster/clock.h"
#include "kv/expire.h"
#include "kv/store.h"
#include "log/batch.h"

#define ENTRY_ROOM 64 /* bytes of an entry beside its texts, at most */

/* Whether there is room for it. What only says that a key has ended may take what is kept back for
 * such. */
static enum tr_merge admit(const struct tr_kv *kv, const struct tr_pair *pair)
{
    const struct tr_log *log = kv->log;
    size_t size = pair->key.size + pair->value.size + pair->callback.size + ENTRY_ROOM;
    bool is_new = !pair->is_end;
    if (log->is_refused && is_new)
        return TR_MERGE_FULL;
    if (is_new && pair->expires_ms != TR_NEVER && tr_arena_is_tight(kv->arena))
        return TR_MERGE_FULL; /* entries of the wheel come from what is kept for urgent pieces */
    if (!is_new && tr_arena_is_almost_full(kv->arena))
        return TR_MERGE_FULL;
    if (size > log->config.batch_cap / 4 * 3)
        return TR_MERGE_FULL; /* segments here are smaller than those of the node that wrote it */
    if (!tr_log_has_room(log, size, is_new))
        return log->is_refused ? TR_MERGE_FULL : TR_MERGE_AGAIN;
    return TR_MERGE_STORED;
}

/* A callback that is owed by now is owed whatever is written from now on; but what was written
 * before the key expired, and comes only now, has ended it. */
static bool is_expired_before(const struct tr_kv *kv, const struct tr_pair *held,
                              const struct tr_pair *pair)
{
    if (held->is_end || held->callback.size == 0)
        return false;
    bool is_it = held->version == pair->version && held->version_node == pair->version_node;
    tr_steady_ms written_ms = tr_clock_time_of(pair->version); /* by the clock of the cluster */
    return !is_it && tr_kv_has_expired(kv, held->expires_ms) &&
           written_ms > held->expires_ms + kv->cluster->ahead_ms;
}

/* False: that its callback is owed cannot be written down now. */
static bool clear_expired(struct tr_kv *kv, tr_ref ref, uint64_t hash, const struct tr_pair *held)
{
    if (held->version < kv->floor) /* it was flushed before it expired, or it is owed */
        return tr_kv_expire_flushed(kv, ref, true);
    return tr_kv_expire(kv, ref, hash, true);
}

struct tr_kv_place tr_kv_place(const struct tr_kv *kv, struct tr_span key)
{
    uint64_t hash = tr_kv_hash(key);
    return (struct tr_kv_place){hash, tr_kv_book_find(&kv->book, key, hash)};
}

enum tr_merge tr_kv_merge(struct tr_kv *kv, const struct tr_pair *pair, uint64_t *batch)
{
    return tr_kv_merge_at(kv, tr_kv_place(kv, pair->key), pair, batch);
}

enum tr_merge tr_kv_merge_at(struct tr_kv *kv, struct tr_kv_place place, const struct tr_pair *pair,
                             uint64_t *batch)
{
    TR_ASSERT(pair->key.size <= TR_KEY_MAX && pair->value.size <= TR_VALUE_MAX);
    uint64_t hash = place.hash;
    tr_ref ref = place.ref;
    struct tr_pair held;
    *batch = tr_kv_written(kv, hash);
    if (pair->version < kv->floor)
        return TR_MERGE_ABOVE;
    if (ref != TR_ARENA_NONE) {
        tr_kv_book_unpack(&kv->book, ref, &held);
        bool is_below = tr_pair_is_below(&held, pair) || tr_breaks(kv->trial, MUTANT_KEY_LATEST);
        if (!is_below)
            return tr_pair_is_below(pair, &held) ? TR_MERGE_ABOVE : TR_MERGE_HELD;
        bool is_owed = pair->is_owed && held.version == pair->version &&
                       held.version_node == pair->version_node;
        if (is_owed && !tr_kv_owe_too(kv, ref))
            return TR_MERGE_FULL; /* whoever said so says it again, or that it is made by then */
        bool is_expired = !is_owed && is_expired_before(kv, &held, pair);
        if (is_expired && !clear_expired(kv, ref, hash, &held))
            return TR_MERGE_AGAIN;
        if (is_owed || is_expired) /* it may be gone, or a tombstone at another place */
            ref = tr_kv_book_find(&kv->book, pair->key, hash);
    }
    enum tr_merge merge = admit(kv, pair);
    if (merge != TR_MERGE_STORED)
        return merge;
    struct tr_pair stored = *pair;
    if (pair->is_end)
        stored.expires_ms = kv->time->steady_ms + TR_KV_END_MS;
    if (!tr_kv_put(kv, &ref, hash, &stored))
        return TR_MERGE_FULL;
    *batch = tr_kv_written(kv, hash);
    return TR_MERGE_STORED;
}

bool tr_kv_look(const struct tr_kv *kv, struct tr_span key, struct tr_pair *pair, uint64_t *batch)
{
    return tr_kv_look_at(kv, tr_kv_place(kv, key), pair, batch);
}

bool tr_kv_look_at(const struct tr_kv *kv, struct tr_kv_place place, struct tr_pair *pair,
                   uint64_t *batch)
{
    *batch = tr_kv_written(kv, place.hash);
    if (place.ref == TR_ARENA_NONE || tr_kv_book_version(&kv->book, place.ref) < kv->floor)
        return false;
    tr_kv_book_unpack(&kv->book, place.ref, pair);
    return true;
}

void tr_kv_mark_known(struct tr_kv *kv, struct tr_span key, struct tr_pair_order order)
{
    struct tr_pair held;
    tr_ref ref = tr_kv_book_find(&kv->book, key, tr_kv_hash(key));
    if (ref == TR_ARENA_NONE)
        return;
    tr_kv_book_unpack(&kv->book, ref, &held);
    if (held.version == order.version && held.version_node == order.node)
        tr_kv_book_set_marks(&kv->book, ref, tr_kv_book_marks(&kv->book, ref) | TR_KV_MARK_KNOWN);
}
