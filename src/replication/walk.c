/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/walk.h"

#include "cluster/outbox.h"
#include "replication/antientropy.h"
#include "replication/pending.h"

#define SLICE         512
#define WINDOW        64   /* messages that a walk keeps ahead */
#define PENDING_TIGHT 1024 /* records that may be pending while memory is short */
#define EARLY_MS      1500 /* by then what was not sent yet, since its write was under way, is */

/* Where the walk goes on: behind the last part of a timer that it has looked at. If that is no
 * longer where it was, all parts are looked at again. */
static struct tr_index_walk resume(const struct tr_replication *replication,
                                   struct tr_progress *progress)
{
    TR_ASSERT(progress->passed == 0 || progress->passed_ref != TR_ARENA_NONE);
    struct tr_index_walk walk = tr_index_seek(replication->store->index, progress->cursor);
    tr_ref ref = progress->passed_ref;
    for (unsigned i = 0; i < progress->passed; i++) {
        if (!tr_index_next(&walk, &ref) ||
            tr_store_hash(replication->store, ref) != progress->cursor)
            ref = TR_ARENA_NONE;
    }
    if (progress->passed == 0 || ref == progress->passed_ref)
        return walk;
    progress->passed = 0;
    return tr_index_seek(replication->store->index, progress->cursor);
}

/* Sends one record, if the node is not known to have it. False: there is no room for more now. */
static bool walk_record(struct tr_replication *replication, uint16_t index, tr_ref ref,
                        uint64_t hash)
{
    TR_ASSERT(replication->progress[index].walk != WALK_NOT);
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_progress *progress = &replication->progress[index];
    struct tr_head record;
    tr_store_head(replication->store, ref, &record);
    tr_antientropy_mark(replication, index, ref, hash, &record);
    if (!tr_pending_has(replication, ref, index, &record))
        return true;
    if (tr_antientropy_drop_absent(replication, index, ref, hash, &record))
        return false;
    if (tr_pending_is_fresh(replication, &record)) {
        tr_cover(replication->trial, RULE_EARLY);
        progress->early_until_ms = replication->time->now_ms + EARLY_MS;
    }
    struct tr_fifo_entry entry = {ref, replication->time->now_ms + TR_PENDING_AGAIN_MS};
    if (!tr_outbox_can_send(replication->cluster, index, MESSAGE_COPY) ||
        !tr_fifo_push(&progress->pending, replication->arena, entry))
        return false;
    tr_pending_send(replication, index, &record);
    return true;
}

/* What the other is not known to have, in the order of hashes: parts of one timer together. */
static void run(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(replication->cluster->peers[index].is_up);
    struct tr_peer *peer = &replication->cluster->peers[index];
    struct tr_progress *progress = &replication->progress[index];
    struct tr_index_walk walk = resume(replication, progress);
    for (unsigned i = 0; progress->walk != WALK_NOT; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            progress->walk = progress->walk == WALK_TWICE ? WALK_ON : WALK_NOT;
            progress->cursor = 0;
            progress->passed = 0;
            tr_antientropy_end(replication, index);
            return;
        }
        uint64_t hash = tr_store_hash(replication->store, ref);
        if (hash != progress->cursor) {
            progress->cursor = hash;
            progress->passed = 0;
            if (i >= tr_replication_slice(replication, SLICE) || peer->count >= WINDOW ||
                progress->pending.count >= replication->config.pending)
                return;
        }
        if (!walk_record(replication, index, ref, hash))
            return; /* from here on in a later step */
        progress->passed++;
        progress->passed_ref = ref;
    }
}

/* A node that has not caught up sends nothing: what it holds may have ended long ago. */
static bool may_run(const struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    const struct tr_peer *peer = &replication->cluster->peers[index];
    const struct tr_progress *progress = &replication->progress[index];
    return progress->walk != WALK_NOT && peer->is_up &&
           !tr_antientropy_is_waiting(replication, index) &&
           tr_replication_is_popping(replication) && peer->count < WINDOW &&
           tr_outbox_can_send(replication->cluster, index, MESSAGE_COPY) &&
           progress->pending.count < replication->config.pending &&
           (progress->pending.count < PENDING_TIGHT || !tr_arena_is_tight(replication->arena));
}

void tr_walk_run(struct tr_replication *replication, uint16_t index)
{
    if (may_run(replication, index))
        run(replication, index);
}

bool tr_walk_wants_tick(const struct tr_replication *replication, uint16_t index)
{
    return replication->cluster->peers[index].link == LINK_GREETED && may_run(replication, index);
}
