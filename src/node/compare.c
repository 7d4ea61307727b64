/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing: what two nodes share, by sums over ranges of hashes, whenever a link comes up. Where
 * the sums are equal both have the same, and it is marked so; where they differ, each sends what
 * the other is not known to have.
 *
 * A bucket that changes after it was summed counts as different. That somebody does not have a
 * record is never concluded from a sum: it is sent.
 */
#include "node/internal.h"

#define SUM_SLICE   4096
#define WALK_SLICE  512
#define WINDOW      64   /* messages that a walk keeps ahead */
#define OWED_TIGHT  1024 /* records that may be owed while memory is short */
#define PATIENCE_MS 2000 /* for the other's sums */
#define EARLY_MS    1500 /* by then what was not sent yet, since its write was under way, is */

static unsigned bucket_of(tr_timer_id id)
{
    return (unsigned)(tr_book_hash(id) >> 52);
}

static bool bit(const uint64_t *bits, unsigned at)
{
    return (bits[at / 64] >> at % 64 & 1) != 0;
}

static void give_sums(struct tr_node *node, tr_ref *ref)
{
    if (*ref != TR_ARENA_NONE)
        tr_arena_give(&node->arena, *ref);
    *ref = TR_ARENA_NONE;
}

void tr_compare_end(struct tr_node *node, uint16_t index)
{
    struct tr_progress *progress = &node->progress[index];
    give_sums(node, &progress->own_sums);
    give_sums(node, &progress->their_sums);
    node->comparing -= progress->compare != COMPARE_NOT;
    progress->compare = COMPARE_NOT;
}

void tr_compare_begin(struct tr_node *node, uint16_t index)
{
    struct tr_progress *progress = &node->progress[index];
    tr_compare_end(node, index);
    size_t size = (size_t)8 * TR_BUCKETS;
    progress->own_sums = tr_arena_take(&node->arena, TR_ARENA_STRING, size, false);
    progress->is_behind = true;
    progress->cursor = 0;
    progress->passed = 0;
    progress->sum_cursor = 0;
    progress->has_sent_sums = false;
    progress->compare_ms = node->time.now_ms;
    memset(progress->equal, 0, sizeof progress->equal);
    memset(progress->dirty, 0, sizeof progress->dirty);
    if (progress->own_sums == TR_ARENA_NONE)
        return;
    memset(tr_arena_at(&node->arena, progress->own_sums), 0, size);
    progress->compare = COMPARE_SUMMING;
    node->comparing++;
}

void tr_compare_touched(struct tr_node *node, tr_timer_id id)
{
    unsigned bucket = bucket_of(id);
    for (uint32_t i = 1; node->comparing > 0 && i < node->cluster.member_count; i++)
        node->progress[i].dirty[bucket / 64] |= (uint64_t)1 << bucket % 64;
}

/* The same number wherever the same record is held. */
static uint64_t sum_of(const struct tr_node *node, const struct tr_head *record)
{
    uint64_t words[7] = {record->key.id,
                         record->key.part,
                         record->order.version,
                         record->order.sequence,
                         (uint64_t)record->order.attempt << 32 | record->order.moves,
                         (uint64_t)record->order.version_node << 32 | record->flags,
                         tr_list_check(node, record)};
    return tr_hash_xxh3(words, sizeof words);
}

static bool is_shared(const struct tr_head *record, uint16_t peer)
{
    return (record->flags & TR_RECORD_TOMBSTONE) == 0 && tr_is_listed(record, 0) &&
           tr_is_listed(record, peer);
}

static void run_sums(struct tr_node *node, uint16_t index)
{
    struct tr_progress *progress = &node->progress[index];
    struct tr_index_walk walk =
        tr_index_seek(&node->book.index, progress->sum_cursor + (progress->sum_cursor > 0));
    uint8_t *sums = tr_arena_at(&node->arena, progress->own_sums);
    for (unsigned i = 0;; i++) {
        struct tr_head record;
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            progress->compare = COMPARE_SUMMED;
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        if (i >= tr_slice(node, SUM_SLICE) && hash != progress->sum_cursor)
            return;
        progress->sum_cursor = hash;
        tr_book_head(&node->book, ref, &record);
        uint8_t *sum = sums + (size_t)8 * (hash >> 52);
        if (is_shared(&record, index))
            tr_store(sum, tr_load(sum, 8) ^ sum_of(node, &record), 8);
    }
}

static void conclude(struct tr_node *node, uint16_t index)
{
    struct tr_progress *progress = &node->progress[index];
    const uint8_t *own = tr_arena_at(&node->arena, progress->own_sums);
    const uint8_t *theirs = tr_arena_at(&node->arena, progress->their_sums);
    for (unsigned i = 0; i < TR_BUCKETS; i++) {
        bool is_equal = tr_load(own + (size_t)8 * i, 8) == tr_load(theirs + (size_t)8 * i, 8);
        if (!is_equal)
            tr_cover(&node->trial, RULE_DIFFERS);
        progress->equal[i / 64] |= (uint64_t)is_equal << i % 64;
    }
    progress->compare = COMPARE_DONE;
}

void tr_compare_heard(struct tr_node *node, uint16_t index, const uint8_t *sums)
{
    struct tr_progress *progress = &node->progress[index];
    size_t size = (size_t)8 * TR_BUCKETS;
    if (progress->compare != COMPARE_SUMMING && progress->compare != COMPARE_SUMMED)
        return;
    give_sums(node, &progress->their_sums);
    progress->their_sums = tr_arena_take(&node->arena, TR_ARENA_STRING, size, false);
    if (progress->their_sums != TR_ARENA_NONE)
        memcpy(tr_arena_at(&node->arena, progress->their_sums), sums, size);
}

static void set_acked(struct tr_node *node, tr_ref ref, unsigned place, bool is_acked)
{
    uint8_t acked = tr_book_acked(&node->book, ref);
    uint8_t mask = (uint8_t)(1u << place);
    tr_book_set_acked(&node->book, ref, (uint8_t)(is_acked ? acked | mask : acked & ~mask));
}

void tr_forget_acks(struct tr_node *node, uint16_t index)
{
    struct tr_index_walk walk = tr_index_seek(&node->book.index, 0);
    tr_ref ref = TR_ARENA_NONE;
    struct tr_head record;
    while (tr_index_next(&walk, &ref)) {
        tr_book_head(&node->book, ref, &record);
        if (tr_is_listed(&record, index))
            set_acked(node, ref, tr_place_of(&record, index), false);
    }
}

/* A mutant: a bucket of which the other has nothing is let go. */
static bool let_go(struct tr_node *node, const struct tr_progress *progress, tr_ref ref,
                   unsigned bucket)
{
    struct tr_head record;
    tr_book_head(&node->book, ref, &record);
    bool is_absent =
        tr_breaks(&node->trial, MUTANT_ABSENCE) && !node->log.is_writing &&
        progress->their_sums != TR_ARENA_NONE &&
        tr_load((uint8_t *)tr_arena_at(&node->arena, progress->their_sums) + (size_t)8 * bucket,
                8) == 0 &&
        tr_book_state(&node->book, ref) == TR_STATE_ARMED && tr_has_room(node, &record);
    if (is_absent)
        tr_drop(node, ref);
    return is_absent;
}

/* Where the walk goes on: behind the last part of a timer that it has looked at. If that is no
 * longer where it was, all parts are looked at again. */
static struct tr_index_walk resume(const struct tr_node *node, struct tr_progress *progress)
{
    struct tr_index_walk walk = tr_index_seek(&node->book.index, progress->cursor);
    tr_ref ref = progress->passed_ref;
    for (unsigned i = 0; i < progress->passed; i++) {
        if (!tr_index_next(&walk, &ref) ||
            tr_book_hash(tr_book_id(&node->book, ref)) != progress->cursor)
            ref = TR_ARENA_NONE;
    }
    if (progress->passed == 0 || ref == progress->passed_ref)
        return walk;
    progress->passed = 0;
    return tr_index_seek(&node->book.index, progress->cursor);
}

/* One record of the walk. False: there is no room for more now. */
static bool walk_record(struct tr_node *node, uint16_t index, tr_ref ref, uint64_t hash)
{
    struct tr_progress *progress = &node->progress[index];
    struct tr_head record;
    unsigned bucket = (unsigned)(hash >> 52);
    bool is_equal = progress->compare == COMPARE_DONE && bit(progress->equal, bucket);
    if (is_equal && bit(progress->dirty, bucket)) {
        tr_cover(&node->trial, RULE_DIRTY);
        is_equal = false;
    }
    tr_book_head(&node->book, ref, &record);
    if (progress->compare == COMPARE_DONE && is_shared(&record, index)) {
        if (is_equal)
            tr_cover(&node->trial, RULE_COMPARED);
        set_acked(node, ref, tr_place_of(&record, index), is_equal);
    }
    if (!tr_is_owed(node, ref, index, &record))
        return true;
    if (is_shared(&record, index) && let_go(node, progress, ref, bucket))
        return false;
    if (tr_is_fresh(node, &record)) {
        tr_cover(&node->trial, RULE_EARLY);
        progress->early_until_ms = node->time.now_ms + EARLY_MS;
    }
    struct tr_fifo_entry entry = {ref, node->time.now_ms + AGAIN_OWED_MS};
    if (!tr_outbox_can_send(&node->cluster, index, MESSAGE_COPY) ||
        !tr_fifo_push(&progress->owed, &node->arena, entry))
        return false;
    tr_send_owed(node, index, &record);
    return true;
}

/* What the other is not known to have, in the order of hashes: parts of one timer together. */
static void run_walk(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->cluster.peers[index];
    struct tr_progress *progress = &node->progress[index];
    struct tr_index_walk walk = resume(node, progress);
    for (unsigned i = 0; progress->is_behind; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            progress->is_behind = progress->is_passed;
            progress->is_passed = false;
            progress->cursor = 0;
            progress->passed = 0;
            tr_compare_end(node, index);
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        if (hash != progress->cursor) {
            progress->cursor = hash;
            progress->passed = 0;
            if (i >= tr_slice(node, WALK_SLICE) || peer->count >= WINDOW ||
                progress->owed.count >= node->config.limits.owed)
                return;
        }
        if (!walk_record(node, index, ref, hash))
            return; /* from here on in a later step */
        progress->passed++;
        progress->passed_ref = ref;
    }
}

/* Who has not yet heard what it missed has nothing to say: it may be long over. */
static bool may_walk(const struct tr_node *node, uint16_t index)
{
    const struct tr_peer *peer = &node->cluster.peers[index];
    const struct tr_progress *progress = &node->progress[index];
    bool is_done = progress->compare == COMPARE_NOT ||
                   (progress->compare == COMPARE_DONE && progress->has_sent_sums);
    bool is_waiting = !is_done && node->time.now_ms < progress->compare_ms + PATIENCE_MS;
    return progress->is_behind && peer->is_up && !is_waiting && node->is_popping &&
           peer->count < WINDOW && tr_outbox_can_send(&node->cluster, index, MESSAGE_COPY) &&
           progress->owed.count < node->config.limits.owed &&
           (progress->owed.count < OWED_TIGHT || !tr_arena_is_tight(&node->arena));
}

void tr_compare_run(struct tr_node *node, uint16_t index)
{
    struct tr_progress *progress = &node->progress[index];
    if (progress->compare == COMPARE_SUMMING)
        run_sums(node, index);
    if (progress->compare == COMPARE_SUMMED && progress->their_sums != TR_ARENA_NONE)
        conclude(node, index);
    if (may_walk(node, index))
        run_walk(node, index);
}

bool tr_compare_wants_tick(const struct tr_node *node, uint16_t index)
{
    const struct tr_peer *peer = &node->cluster.peers[index];
    const struct tr_progress *progress = &node->progress[index];
    return peer->is_greeted && (progress->compare == COMPARE_SUMMING || may_walk(node, index));
}
