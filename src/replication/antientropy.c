/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/antientropy.h"

#include "base/hash.h"
#include "cluster/outbox.h"
#include "replication/dropped.h"
#include "replication/set.h"
#include "replication/tombstone.h"
#include "replication/walk.h"

#define SUM_SLICE   4096
#define PATIENCE_MS 2000 /* for the other's sums */
#define LOSABLE_MS  5000 /* what is older was on disk when a node went down */

_Static_assert(TR_BUCKETS % 64 == 0, "a bit for each bucket fills whole words");
_Static_assert(LOSABLE_MS < TR_TOMBSTONE_MS, "a tombstone that may be lost is still kept here");

static bool bit(const uint64_t *bits, unsigned at)
{
    TR_ASSERT(at < TR_BUCKETS);
    return (bits[at / 64] >> at % 64 & 1) != 0;
}

static void give_sums(struct tr_replication *replication, tr_ref *ref)
{
    TR_ASSERT(*ref == TR_ARENA_NONE ||
              tr_arena_capacity(replication->arena, *ref) >= (size_t)8 * TR_BUCKETS);
    if (*ref != TR_ARENA_NONE)
        tr_arena_give(replication->arena, *ref);
    *ref = TR_ARENA_NONE;
}

void tr_antientropy_end(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_progress *progress = &replication->progress[index];
    give_sums(replication, &progress->own_sums);
    give_sums(replication, &progress->their_sums);
    TR_ASSERT(progress->compare == COMPARE_NOT || replication->comparing > 0);
    replication->comparing -= progress->compare != COMPARE_NOT;
    progress->compare = COMPARE_NOT;
}

void tr_antientropy_begin(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_progress *progress = &replication->progress[index];
    tr_antientropy_end(replication, index);
    TR_ASSERT(progress->own_sums == TR_ARENA_NONE && progress->their_sums == TR_ARENA_NONE);
    size_t size = (size_t)8 * TR_BUCKETS;
    progress->own_sums = tr_arena_take(replication->arena, TR_ARENA_STRING, size, false);
    tr_walk_on(progress);
    progress->cursor = 0;
    progress->passed = 0;
    progress->sum_cursor = 0;
    progress->has_sent_sums = false;
    progress->compare_ms = replication->time->now_ms;
    memset(progress->equal, 0, sizeof progress->equal);
    memset(progress->dirty, 0, sizeof progress->dirty);
    if (progress->own_sums == TR_ARENA_NONE)
        return;
    memset(tr_arena_at(replication->arena, progress->own_sums), 0, size);
    progress->compare = COMPARE_SUMMING;
    replication->comparing++;
}

void tr_antientropy_touched(struct tr_replication *replication, uint64_t hash)
{
    TR_ASSERT(replication->comparing < replication->cluster->member_count);
    unsigned bucket = (unsigned)(hash >> 52);
    for (uint32_t i = 1; replication->comparing > 0 && i < replication->cluster->member_count; i++)
        replication->progress[i].dirty[bucket / 64] |= (uint64_t)1 << bucket % 64;
}

/* The same number wherever the same record is held. */
static uint64_t sum_of(const struct tr_replication *replication, const struct tr_head *record)
{
    TR_ASSERT((record->flags & TR_RECORD_TOMBSTONE) == 0);
    uint64_t words[7] = {record->key.id,
                         record->key.part,
                         record->order.version,
                         record->order.sequence,
                         (uint64_t)record->order.attempt << 32 | record->order.moves,
                         (uint64_t)record->order.version_node << 32 | record->flags,
                         tr_set_check(replication, record)};
    return tr_hash_xxh3(words, sizeof words);
}

static bool is_shared(const struct tr_head *record, uint16_t peer)
{
    TR_ASSERT(peer != 0);
    return (record->flags & TR_RECORD_TOMBSTONE) == 0 && tr_set_has(record, 0) &&
           tr_set_has(record, peer);
}

static void run_sums(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(replication->progress[index].compare == COMPARE_SUMMING);
    TR_ASSERT(replication->progress[index].own_sums != TR_ARENA_NONE);
    struct tr_progress *progress = &replication->progress[index];
    struct tr_index_walk walk =
        tr_index_seek(replication->store->index, progress->sum_cursor + (progress->sum_cursor > 0));
    uint8_t *sums = tr_arena_at(replication->arena, progress->own_sums);
    for (unsigned i = 0;; i++) {
        struct tr_head record;
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            progress->compare = COMPARE_SUMMED;
            return;
        }
        uint64_t hash = tr_store_hash(replication->store, ref);
        if (i >= tr_replication_slice(replication, SUM_SLICE) && hash != progress->sum_cursor)
            return;
        progress->sum_cursor = hash;
        tr_store_head(replication->store, ref, &record);
        uint8_t *sum = sums + (size_t)8 * (hash >> 52);
        if (is_shared(&record, index))
            tr_store(sum, tr_load(sum, 8) ^ sum_of(replication, &record), 8);
    }
}

static void conclude(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(replication->progress[index].compare == COMPARE_SUMMED);
    TR_ASSERT(replication->progress[index].their_sums != TR_ARENA_NONE);
    struct tr_progress *progress = &replication->progress[index];
    const uint8_t *own = tr_arena_at(replication->arena, progress->own_sums);
    const uint8_t *theirs = tr_arena_at(replication->arena, progress->their_sums);
    for (unsigned i = 0; i < TR_BUCKETS; i++) {
        bool is_equal = tr_load(own + (size_t)8 * i, 8) == tr_load(theirs + (size_t)8 * i, 8);
        if (!is_equal)
            tr_cover(replication->trial, RULE_DIFFERS);
        progress->equal[i / 64] |= (uint64_t)is_equal << i % 64;
    }
    progress->compare = COMPARE_DONE;
}

void tr_antientropy_heard(struct tr_replication *replication, uint16_t index, const uint8_t *sums)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_progress *progress = &replication->progress[index];
    size_t size = (size_t)8 * TR_BUCKETS;
    if (progress->compare != COMPARE_SUMMING && progress->compare != COMPARE_SUMMED)
        return;
    give_sums(replication, &progress->their_sums);
    progress->their_sums = tr_arena_take(replication->arena, TR_ARENA_STRING, size, false);
    if (progress->their_sums != TR_ARENA_NONE)
        memcpy(tr_arena_at(replication->arena, progress->their_sums), sums, size);
}

static void set_acked(struct tr_replication *replication, tr_ref ref, unsigned place, bool is_acked)
{
    TR_ASSERT(ref != TR_ARENA_NONE && place < TR_SET_MAX);
    uint8_t acked = tr_store_acked(replication->store, ref);
    uint8_t mask = (uint8_t)(1u << place);
    tr_store_set_acked(replication->store, ref, (uint8_t)(is_acked ? acked | mask : acked & ~mask));
}

void tr_antientropy_forget_acks(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_index_walk walk = tr_index_seek(replication->store->index, 0);
    tr_ref ref = TR_ARENA_NONE;
    struct tr_head record;
    while (tr_index_next(&walk, &ref)) {
        tr_store_head(replication->store, ref, &record);
        if (tr_set_has(&record, index))
            set_acked(replication, ref, tr_set_place_of(&record, index), false);
    }
}

/* Whether a node may have lost a tombstone that it sent itself: the outcome of a pop is sent before
 * it is on disk, and a node that was killed in between would pop again. */
static bool may_have_lost(const struct tr_replication *replication, uint16_t index,
                          const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, index));
    tr_mono_ms down_ms = replication->progress[index].down_ms;
    return (record->flags & TR_RECORD_TOMBSTONE) != 0 && tr_set_has(record, index) &&
           tr_tombstone_ended_at(replication, record) + LOSABLE_MS >=
               down_ms + replication->time->steady_base;
}

void tr_antientropy_mark(struct tr_replication *replication, uint16_t index, tr_ref ref,
                         uint64_t hash, const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, index));
    const struct tr_progress *progress = &replication->progress[index];
    unsigned bucket = (unsigned)(hash >> 52);
    if (progress->compare != COMPARE_DONE)
        return;
    bool is_equal = bit(progress->equal, bucket);
    if (is_equal && bit(progress->dirty, bucket)) {
        tr_cover(replication->trial, RULE_DIRTY);
        is_equal = false;
    }
    if (is_shared(record, index)) {
        if (is_equal)
            tr_cover(replication->trial, RULE_COMPARED);
        set_acked(replication, ref, tr_set_place_of(record, index), is_equal);
    }
    if (!is_equal && may_have_lost(replication, index, record)) {
        tr_cover(replication->trial, RULE_TOMBSTONE_AGAIN);
        set_acked(replication, ref, tr_set_place_of(record, index), false);
    }
}

/* A mutant: records of a bucket of which the other node has nothing are dropped. */
bool tr_antientropy_drop_absent(struct tr_replication *replication, uint16_t index, tr_ref ref,
                                uint64_t hash, const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_progress *progress = &replication->progress[index];
    if (!tr_breaks(replication->trial, MUTANT_ABSENCE) || !is_shared(record, index) ||
        replication->log->is_writing || progress->their_sums == TR_ARENA_NONE)
        return false;
    const uint8_t *theirs = tr_arena_at(replication->arena, progress->their_sums);
    bool is_absent = tr_load(theirs + (size_t)8 * (hash >> 52), 8) == 0 &&
                     tr_store_state_of(replication->store, ref) == TR_STORE_IDLE &&
                     tr_replication_has_room(replication, record);
    if (is_absent)
        tr_dropped_remove(replication, ref);
    return is_absent;
}

void tr_antientropy_run(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(replication->cluster->peers[index].link == LINK_GREETED);
    struct tr_progress *progress = &replication->progress[index];
    if (progress->compare == COMPARE_SUMMING)
        run_sums(replication, index);
    if (progress->compare == COMPARE_SUMMED && progress->their_sums != TR_ARENA_NONE)
        conclude(replication, index);
}

bool tr_antientropy_is_summing(const struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    return replication->progress[index].compare == COMPARE_SUMMING;
}

bool tr_antientropy_is_waiting(const struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    const struct tr_progress *progress = &replication->progress[index];
    bool is_done = progress->compare == COMPARE_NOT ||
                   (progress->compare == COMPARE_DONE && progress->has_sent_sums);
    return !is_done && replication->time->now_ms < progress->compare_ms + PATIENCE_MS;
}

bool tr_antientropy_has_sums(const struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    const struct tr_progress *progress = &replication->progress[index];
    return progress->compare >= COMPARE_SUMMED && !progress->has_sent_sums;
}

void tr_antientropy_send_sums(struct tr_replication *replication, uint16_t index,
                              struct tr_effects *out)
{
    TR_ASSERT(tr_antientropy_has_sums(replication, index));
    TR_ASSERT(replication->progress[index].own_sums != TR_ARENA_NONE);
    struct tr_progress *progress = &replication->progress[index];
    struct tr_frame frame = {.kind = TR_FRAME_BUCKETS,
                             .heard_ms = replication->cluster->peers[index].tick_ms};
    struct tr_writer writer = tr_outbox_begin_frame(replication->cluster);
    frame.of.sums = tr_arena_at(replication->arena, progress->own_sums);
    tr_frame_put(&writer, &frame);
    tr_outbox_end_frame(replication->cluster, index, &writer, out);
    progress->has_sent_sums = true;
}
