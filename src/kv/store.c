/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/store.h"

#include "cluster/clock.h"
#include "kv/expire.h"
#include "log/batch.h"
#include "log/reclaim.h"
#include "wire/log_key.h"

#define RECLAIM_SLICE  2048 /* pairs looked at in a step */
#define FLUSH_SLICE    1024
#define TELL_TIME_MS   200 /* between entries that say up to when keys have expired */
#define FLUSH_AGAIN_MS 20  /* until a callback that could not be owed is tried again */
#define ENTRY_BESIDE   24  /* bytes of a full entry beside its texts, about */

/* What a pair counts for, taken before it changes. */
struct weight {
    bool is_there;
    bool is_end;     /* it is a tombstone */
    bool is_counted; /* as a key: it had not ended, by itself or with all others */
    tr_steady_ms expires_ms;
    uint64_t bytes;
    uint64_t logged; /* bytes of its full entry, about */
    uint32_t segment;
};

/* With its callback, which a full entry would have now: what it has is not known. */
static uint64_t logged_size(const struct tr_pair *pair)
{
    return pair->key.size + pair->value.size + pair->callback.size + ENTRY_BESIDE;
}

static struct weight weigh(const struct tr_kv *kv, tr_ref ref)
{
    if (ref == TR_ARENA_NONE)
        return (struct weight){.expires_ms = TR_NEVER};
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    return (struct weight){
        .is_there = true,
        .is_end = pair.is_end,
        .is_counted = pair.version >= kv->floor && !pair.is_end,
        .expires_ms = pair.expires_ms,
        .bytes = pair.key.size + pair.value.size,
        .logged = logged_size(&pair),
        .segment = pair.segment,
    };
}

static void uncount(struct tr_kv *kv, const struct weight *weight)
{
    kv->stats.tombstones -= weight->is_end;
    if (!weight->is_counted)
        return;
    TR_ASSERT(kv->stats.keys > 0 && kv->stats.bytes >= weight->bytes);
    kv->stats.keys--;
    kv->stats.bytes -= weight->bytes;
    kv->stats.expiring -= weight->expires_ms != TR_NEVER;
}

static void count(struct tr_kv *kv, const struct tr_pair *pair)
{
    kv->stats.tombstones += pair->is_end;
    if (pair->is_end)
        return;
    kv->stats.keys++;
    kv->stats.bytes += pair->key.size + pair->value.size;
    kv->stats.expiring += pair->expires_ms != TR_NEVER;
}

/* ---- the log ---- */

static void note_written(struct tr_kv *kv, uint64_t hash)
{
    kv->written[hash % TR_KV_WRITTEN] = kv->log->number;
    kv->written_last = kv->log->number;
}

uint64_t tr_kv_written(const struct tr_kv *kv, uint64_t hash)
{
    return kv->written[hash % TR_KV_WRITTEN];
}

static void log_full(struct tr_kv *kv, tr_ref ref, const struct tr_pair *pair)
{
    if (!kv->log->config.has_log)
        return;
    tr_log_put_key(tr_log_writer(kv->log), TR_LOG_KEY, pair);
    tr_kv_book_set_segment(&kv->book, ref, tr_log_appended_live(kv->log, logged_size(pair)));
}

static void log_short(struct tr_kv *kv, enum tr_log_type type, const struct tr_pair *pair)
{
    if (!kv->log->config.has_log)
        return;
    tr_log_put_key(tr_log_writer(kv->log), type, pair);
    tr_log_appended(kv->log);
}

static void log_dead(struct tr_kv *kv, const struct weight *weight)
{
    if (weight->is_there)
        tr_log_is_dead(kv->log, weight->segment, weight->logged);
}

/* ---- changing ---- */

uint64_t tr_kv_stamp(struct tr_kv *kv, tr_ref ref)
{
    uint64_t above = kv->floor;
    if (ref != TR_ARENA_NONE && tr_kv_book_version(&kv->book, ref) > above)
        above = tr_kv_book_version(&kv->book, ref);
    return tr_clock_stamp(kv->cluster, above);
}

/* The book has a pair as it is to be from now on: what was at `before` is at `ref`. */
static void changed(struct tr_kv *kv, const struct weight *weight, tr_ref before, tr_ref ref,
                    uint64_t hash, bool is_full)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    uncount(kv, weight);
    count(kv, &pair);
    if (is_full) {
        log_dead(kv, weight);
        log_full(kv, ref, &pair);
    } else {
        log_short(kv, TR_LOG_KEY_EXPIRY, &pair);
        tr_log_resized(kv->log, weight->logged, logged_size(&pair));
    }
    bool is_armed = before == ref && weight->expires_ms == pair.expires_ms;
    if (!is_armed && weight->expires_ms != TR_NEVER)
        kv->stale++;
    if (!is_armed && pair.expires_ms != TR_NEVER)
        tr_kv_arm(kv, ref, pair.expires_ms);
    note_written(kv, hash);
}

bool tr_kv_put(struct tr_kv *kv, tr_ref *ref, uint64_t hash, const struct tr_pair *pair)
{
    TR_ASSERT(pair->version >= kv->floor);
    struct weight weight = weigh(kv, *ref);
    tr_ref placed = tr_kv_book_put(&kv->book, *ref, hash, pair);
    if (placed == TR_ARENA_NONE)
        return false;
    changed(kv, &weight, *ref, placed, hash, true);
    *ref = placed;
    return true;
}

bool tr_kv_patch(struct tr_kv *kv, tr_ref *ref, uint64_t hash, size_t at, struct tr_span part)
{
    struct weight weight = weigh(kv, *ref);
    size_t size = tr_kv_book_value(&kv->book, *ref).size;
    size = at + part.size > size ? at + part.size : size;
    uint64_t version = tr_kv_stamp(kv, *ref);
    tr_ref placed = tr_kv_book_resize(&kv->book, *ref, hash, size);
    if (placed == TR_ARENA_NONE)
        return false;
    memcpy(tr_kv_book_value_bytes(&kv->book, placed) + at, part.text, part.size);
    tr_kv_book_set_version(&kv->book, placed, version, kv->cluster->stamp_node);
    changed(kv, &weight, *ref, placed, hash, true);
    *ref = placed;
    return true;
}

bool tr_kv_set_expiry(struct tr_kv *kv, tr_ref *ref, uint64_t hash, tr_steady_ms expires_ms,
                      struct tr_span callback)
{
    struct weight weight = weigh(kv, *ref);
    uint64_t version = tr_kv_stamp(kv, *ref);
    tr_ref placed = tr_kv_book_expire(&kv->book, *ref, hash, expires_ms, callback);
    if (placed == TR_ARENA_NONE)
        return false;
    tr_kv_book_set_version(&kv->book, placed, version, kv->cluster->stamp_node);
    changed(kv, &weight, *ref, placed, hash, false);
    *ref = placed;
    return true;
}

void tr_kv_forget(struct tr_kv *kv, tr_ref ref, uint64_t hash)
{
    struct weight weight = weigh(kv, ref);
    uncount(kv, &weight);
    log_dead(kv, &weight);
    kv->stale += weight.expires_ms != TR_NEVER;
    tr_kv_book_remove(&kv->book, ref, hash);
}

/* Other nodes have to hear that it has ended, and what they have of it is to be older than what is
 * here. The value is let go at once. False: there is no memory to remember it with. */
static bool bury(struct tr_kv *kv, tr_ref *ref, uint64_t hash, uint64_t version, uint16_t node,
                 bool is_logged)
{
    struct weight weight = weigh(kv, *ref);
    bool is_same = tr_kv_book_version(&kv->book, *ref) == version; /* it has expired */
    uint8_t marks = tr_kv_book_marks(&kv->book, *ref) & TR_KV_MARK_KNOWN;
    tr_steady_ms until_ms = kv->time->steady_ms + TR_KV_END_MS;
    if (tr_arena_is_almost_full(kv->arena))
        return false;
    tr_ref placed = tr_kv_book_end(&kv->book, *ref, hash, until_ms);
    if (placed == TR_ARENA_NONE)
        return false;
    tr_kv_book_set_version(&kv->book, placed, version, node);
    tr_kv_book_set_marks(&kv->book, placed, is_same ? marks : 0);
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, placed, &pair);
    uncount(kv, &weight);
    count(kv, &pair);
    if (is_logged) {
        log_dead(kv, &weight);
        log_full(kv, placed, &pair);
        note_written(kv, hash);
    } else { /* the entry of the key itself says when it has expired */
        tr_log_resized(kv->log, weight.logged, logged_size(&pair));
    }
    kv->stale += weight.expires_ms != TR_NEVER;
    tr_kv_arm(kv, placed, until_ms);
    *ref = placed;
    return true;
}

bool tr_kv_bury_expired(struct tr_kv *kv, tr_ref *ref, uint64_t hash, bool is_logged)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, *ref, &pair);
    TR_ASSERT(!pair.is_end);
    return bury(kv, ref, hash, pair.version, pair.version_node, is_logged);
}

void tr_kv_log_end(struct tr_kv *kv, tr_ref ref, uint64_t hash)
{
    struct tr_pair pair;
    uint64_t version = tr_kv_stamp(kv, ref);
    tr_kv_book_unpack(&kv->book, ref, &pair);
    pair.version = version;
    pair.version_node = kv->cluster->stamp_node;
    if (!tr_breaks(kv->trial, MUTANT_KEY_END_UNLOGGED))
        log_short(kv, TR_LOG_KEY_END, &pair);
    note_written(kv, hash);
}

void tr_kv_drop(struct tr_kv *kv, tr_ref ref, uint64_t hash)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    pair.is_end = false; /* an entry of its end alone */
    log_short(kv, TR_LOG_KEY_END, &pair);
    note_written(kv, hash);
    tr_kv_forget(kv, ref, hash);
}

void tr_kv_end(struct tr_kv *kv, tr_ref ref, uint64_t hash)
{
    bool is_remembered = tr_kv_remembers_ends(kv);
    if (is_remembered) {
        uint64_t version = tr_kv_stamp(kv, ref);
        if (bury(kv, &ref, hash, version, kv->cluster->stamp_node, true))
            return;
    }
    kv->stats.forgotten_early += is_remembered;
    tr_kv_log_end(kv, ref, hash);
    tr_kv_forget(kv, ref, hash);
}

void tr_kv_tell_time(struct tr_kv *kv)
{
    struct tr_pair time = {.expires_ms = kv->time->steady_ms};
    bool is_due = kv->is_time_due && kv->time->now_ms >= kv->told_ms + TELL_TIME_MS;
    if (!is_due || !tr_log_has_room(kv->log, tr_log_key_size(TR_LOG_KEY_TIME, &time), false))
        return;
    log_short(kv, TR_LOG_KEY_TIME, &time);
    kv->is_time_due = false;
    kv->told_ms = kv->time->now_ms;
}

void tr_kv_begin(struct tr_kv *kv)
{
    /* The clock was set back while the node was down: keys from now on may expire before the time
     * by which the log says that keys had. */
    struct tr_pair time = {.expires_ms = kv->time->steady_ms};
    if (kv->replayed_ms > kv->time->steady_ms)
        log_short(kv, TR_LOG_KEY_TIME, &time);
}

/* ---- at a start ---- */

bool tr_kv_restore(struct tr_kv *kv, tr_ref ref, uint64_t hash, const struct tr_pair *pair)
{
    struct weight weight = weigh(kv, ref);
    ref = tr_kv_book_put(&kv->book, ref, hash, pair);
    if (ref == TR_ARENA_NONE)
        return false;
    uncount(kv, &weight);
    if (pair->version >= kv->floor)
        count(kv, pair);
    log_dead(kv, &weight);
    tr_log_restored(kv->log, pair->segment, logged_size(pair));
    return true;
}

bool tr_kv_restore_expiry(struct tr_kv *kv, tr_ref ref, uint64_t hash, const struct tr_pair *pair)
{
    struct weight weight = weigh(kv, ref);
    ref = tr_kv_book_expire(&kv->book, ref, hash, pair->expires_ms, pair->callback);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_kv_book_set_version(&kv->book, ref, pair->version, pair->version_node);
    kv->stats.expiring -= weight.is_counted && weight.expires_ms != TR_NEVER;
    kv->stats.expiring += weight.is_counted && pair->expires_ms != TR_NEVER;
    struct weight after = weigh(kv, ref);
    tr_log_resized(kv->log, weight.logged, after.logged);
    return true;
}

/* ---- all of them ---- */

void tr_kv_recount(struct tr_kv *kv)
{
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, 0);
    tr_ref ref = TR_ARENA_NONE;
    kv->stats.keys = kv->stats.bytes = kv->stats.expiring = 0;
    while (tr_index_next(&walk, &ref)) {
        struct weight weight = weigh(kv, ref);
        if (!weight.is_counted)
            continue;
        kv->stats.keys++;
        kv->stats.bytes += weight.bytes;
        kv->stats.expiring += weight.expires_ms != TR_NEVER;
    }
}

/* When others gave a floor, by the clock here: it may be heard of long after that. */
static tr_steady_ms time_of(const struct tr_kv *kv, uint64_t floor)
{
    tr_steady_ms given_ms = tr_clock_time_of(floor);
    return given_ms > kv->cluster->ahead_ms ? given_ms - kv->cluster->ahead_ms : 0;
}

static void set_floor(struct tr_kv *kv, uint64_t floor, tr_steady_ms at_ms)
{
    kv->floor = floor;
    kv->floor_ms = at_ms < kv->time->steady_ms ? at_ms : kv->time->steady_ms;
    kv->stats.keys = 0;
    kv->stats.bytes = 0;
    kv->stats.expiring = 0;
    kv->is_flushing = true;
    kv->flush_cursor = 0;
    kv->flush_at_ms = 0;
    struct tr_pair raised = {
        .version = floor, .version_node = kv->cluster->stamp_node, .expires_ms = kv->floor_ms};
    log_short(kv, TR_LOG_KEY_FLOOR, &raised);
    for (uint32_t i = 0; i < TR_KV_WRITTEN; i++)
        note_written(kv, i);
}

void tr_kv_flush(struct tr_kv *kv)
{
    TR_ASSERT(!kv->is_flushing);
    set_floor(kv, tr_clock_stamp(kv->cluster, kv->floor), kv->time->steady_ms);
}

void tr_kv_set_floor(struct tr_kv *kv, uint64_t floor)
{
    if (floor <= kv->floor)
        return;
    tr_kv_flush_finish(kv); /* what cannot be owed now is as if it had ended now */
    set_floor(kv, floor, time_of(kv, floor));
    tr_kv_recount(kv); /* others may have written since it was asked for */
}

void tr_kv_lower_floor(struct tr_kv *kv, uint64_t floor)
{
    TR_ASSERT(kv->stats.keys == 0 && floor < kv->floor);
    tr_kv_flush_finish(kv);
    set_floor(kv, floor, time_of(kv, floor));
    tr_kv_recount(kv);
}

/* Takes out of the book what ended with all others, of a slice of it; what cannot be owed now is
 * left for another round. */
static void flush_slice(struct tr_kv *kv)
{
    tr_ref ref = TR_ARENA_NONE;
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, kv->flush_cursor);
    for (unsigned seen = 0; tr_index_next(&walk, &ref); seen++) {
        uint64_t hash = tr_kv_hash(tr_kv_book_key(&kv->book, ref));
        bool is_enough = seen >= tr_kv_slice(kv, FLUSH_SLICE) && hash != kv->flush_cursor;
        kv->flush_cursor = hash;
        if (is_enough)
            return;
        if (tr_kv_book_version(&kv->book, ref) >= kv->floor)
            continue;
        if (tr_kv_expire_flushed(kv, ref, false))
            walk = tr_index_seek(&kv->book.index, hash); /* the index has changed */
        else
            kv->is_blocked = true;
    }
    kv->flush_cursor = 0;
    kv->is_flushing = kv->is_blocked;
    if (kv->is_blocked)
        kv->flush_at_ms = kv->time->now_ms + FLUSH_AGAIN_MS;
    kv->is_blocked = false;
}

void tr_kv_flush_run(struct tr_kv *kv)
{
    if (kv->is_flushing && kv->time->now_ms >= kv->flush_at_ms)
        flush_slice(kv);
}

bool tr_kv_flush_finish(struct tr_kv *kv)
{
    if (!kv->is_flushing)
        return true;
    kv->flush_cursor = 0;
    kv->is_blocked = false; /* what was may be owed now */
    do {
        flush_slice(kv);
    } while (kv->flush_cursor != 0);
    return !kv->is_flushing;
}

/* Writes a pair of the oldest segment again, or takes it out of the book if it has ended with all
 * others. False: there is no room for it now. */
static bool copy_one(struct tr_kv *kv, tr_ref ref)
{
    struct tr_pair pair;
    tr_kv_book_unpack(&kv->book, ref, &pair);
    if (pair.version < kv->floor && tr_kv_expire_flushed(kv, ref, false))
        return true; /* else it is owed a callback, and stays as one that has expired */
    if (!tr_log_begin_copy(kv->log, tr_log_key_size(TR_LOG_KEY, &pair)))
        return false;
    struct weight weight = weigh(kv, ref);
    log_dead(kv, &weight);
    log_full(kv, ref, &pair);
    tr_log_end_copy(kv->log);
    return true;
}

bool tr_kv_copy_oldest(struct tr_kv *kv, uint64_t *cursor)
{
    tr_ref ref = TR_ARENA_NONE;
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, *cursor);
    for (unsigned seen = 0; tr_index_next(&walk, &ref); seen++) {
        uint64_t hash = tr_kv_hash(tr_kv_book_key(&kv->book, ref));
        bool is_enough = seen >= tr_kv_slice(kv, RECLAIM_SLICE) && hash != *cursor;
        *cursor = hash;
        if (is_enough)
            return false;
        if (!tr_log_is_oldest(kv->log, tr_kv_book_segment(&kv->book, ref)))
            continue;
        if (!copy_one(kv, ref))
            return false;
        walk = tr_index_seek(&kv->book.index, hash); /* the index may have changed */
    }
    *cursor = 0;
    return true;
}
