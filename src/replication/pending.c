/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/pending.h"

#include "cluster/clock.h"
#include "cluster/peer.h"
#include "log/batch.h"
#include "replication/set.h"
#include "replication/walk.h"

#define WALK_MS  500
#define WINDOW   1024 /* messages that wait, beyond which nothing is sent again */
#define FRESH_MS 800  /* less than until it is sent again */
#define LONG     8192

_Static_assert(FRESH_MS < TR_PENDING_AGAIN_MS, "what is fresh is not sent again");

/* ---- who has what ---- */

/* Whether the coordinator of a write may still be busy with it: it may find that the id is taken,
 * and take the write back. Until then nobody else passes the record on; a node that lacks it later
 * is sent it then. */
bool tr_pending_is_fresh(const struct tr_replication *replication, const struct tr_head *record)
{
    uint64_t clock_ms = tr_clock_now(replication->cluster) >> 16;
    uint64_t stamp_ms = record->order.version >> 16;
    return record->order.moves == 0 && record->order.sequence == 1 && record->order.attempt == 0 &&
           stamp_ms + FRESH_MS > clock_ms && stamp_ms < clock_ms + FRESH_MS &&
           (record->flags & TR_RECORD_TOMBSTONE) == 0;
}

void tr_pending_mark(struct tr_replication *replication, tr_ref ref, const struct tr_head *record,
                     uint16_t member)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    unsigned place = tr_set_place_of(record, member);
    if (place < record->replicas.count)
        tr_store_set_acked(replication->store, ref,
                           tr_store_acked(replication->store, ref) | (uint8_t)(1u << place));
}

/* Whether the node is to drop the record rather than to have it. Not of a record that moves from
 * that node: the node that moves it sends the drop. */
bool tr_pending_is_drop(const struct tr_head *record, uint16_t peer)
{
    TR_ASSERT(tr_set_is_bounded(record));
    return !tr_set_has(record, peer) && tr_set_is_named(record, peer) &&
           (record->flags & TR_RECORD_MOVING) == 0;
}

static bool is_pending(const struct tr_replication *replication, tr_ref ref, uint16_t peer,
                       const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    TR_ASSERT(ref != TR_ARENA_NONE);
    if (tr_store_state_of(replication->store, ref) == TR_STORE_UNSAFE)
        return false; /* when it is durable, it is sent to its set */
    unsigned place = tr_set_place_of(record, peer);
    /* Only the node that moves a record knows which of its old holders have dropped it. */
    if (place == record->replicas.count)
        return tr_set_is_named(record, peer) &&
               (tr_pending_is_drop(record, peer) ||
                (replication->log->is_running && tr_set_mover(replication, record) == 0));
    return (tr_store_acked(replication->store, ref) & (uint8_t)(1u << place)) == 0;
}

bool tr_pending_has(const struct tr_replication *replication, tr_ref ref, uint16_t peer,
                    struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    if (replication->store->is_spread(replication->store->context, ref))
        return false;
    tr_store_head(replication->store, ref, record);
    return is_pending(replication, ref, peer, record);
}

void tr_pending_send_copy(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_replication_send(replication, peer,
                        (struct tr_message){.kind = MESSAGE_COPY, .key = record->key});
}

void tr_pending_send_decided(struct tr_replication *replication, uint16_t peer,
                             const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_replication_send(
        replication, peer,
        (struct tr_message){.kind = MESSAGE_COPY, .of.is_decided = true, .key = record->key});
}

void tr_pending_send_drop(struct tr_replication *replication, uint16_t peer,
                          const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_replication_send(replication, peer,
                        (struct tr_message){
                            .kind = MESSAGE_DROP,
                            .key = record->key,
                            .order = record->order,
                        });
}

void tr_pending_send_take_back(struct tr_replication *replication, uint16_t peer,
                               const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_replication_send(replication, peer,
                        (struct tr_message){
                            .kind = MESSAGE_DROP,
                            .of.is_taken_back = true,
                            .key = record->key,
                            .order = record->order,
                        });
}

void tr_pending_send(struct tr_replication *replication, uint16_t peer,
                     const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_named(record, peer));
    if (tr_pending_is_drop(record, peer))
        tr_pending_send_drop(replication, peer, record);
    else
        tr_pending_send_copy(replication, peer, record);
}

/* Each node that the record names has a moment to acknowledge it. */
void tr_pending_add(struct tr_replication *replication, tr_ref ref, const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    TR_ASSERT(tr_set_is_bounded(record));
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_set_names(record, names);
    for (unsigned i = 0; i < count; i++) {
        struct tr_fifo_entry entry = {ref, replication->time->now_ms + TR_PENDING_AGAIN_MS};
        if (names[i] == 0 || !is_pending(replication, ref, names[i], record))
            continue;
        struct tr_peer *peer = &replication->cluster->peers[names[i]];
        struct tr_progress *progress = &replication->progress[names[i]];
        if (peer->link == LINK_GREETED && progress->pending.count < replication->config.pending &&
            !tr_arena_is_tight(replication->arena) &&
            tr_fifo_push(&progress->pending, replication->arena, entry))
            continue;
        tr_walk_all(progress);
    }
}

/* The record that is pending longest for a node. Entries of records that it has acknowledged
 * meanwhile are taken out. False: nothing is pending. */
static bool first_pending(struct tr_replication *replication, uint16_t index,
                          struct tr_fifo_entry *entry, struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_fifo *pending = &replication->progress[index].pending;
    for (; pending->count > 0; tr_fifo_pop(pending, replication->arena)) {
        *entry = tr_fifo_first(pending, replication->arena);
        if (tr_arena_holds(replication->arena, entry->ref) &&
            tr_pending_has(replication, entry->ref, index, record))
            return true;
    }
    return false;
}

/* Sends again what the node was sent a second ago and has not acknowledged. The queue is in the
 * order of due times: if the first entry is not due, none is. */
void tr_pending_run(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_peer *peer = &replication->cluster->peers[index];
    struct tr_progress *progress = &replication->progress[index];
    struct tr_head record;
    struct tr_fifo_entry entry;
    if (progress->pending.count == 0 || replication->time->now_ms < progress->pending_ms)
        return;
    bool is_long = progress->pending.count > LONG; /* most of it is acknowledged by now */
    progress->pending_ms = replication->time->now_ms + (is_long ? WALK_MS / 8 : WALK_MS);
    while (first_pending(replication, index, &entry, &record) &&
           entry.due_ms <= replication->time->now_ms && peer->count < WINDOW) {
        tr_fifo_pop(&progress->pending, replication->arena);
        /* A node from which the record moves is sent a drop by the mover, when others have the
         * record, and nothing before. But if it has missed something, it must not go on with the
         * state it has: then it is sent the record. */
        bool is_sent = tr_set_has(&record, index) || tr_pending_is_drop(&record, index) ||
                       progress->has_missed;
        if (!is_sent)
            continue;
        tr_cover(replication->trial, RULE_PENDING);
        tr_pending_send(replication, index, &record);
        entry.due_ms = replication->time->now_ms + TR_PENDING_AGAIN_MS;
        if (!tr_fifo_push(&progress->pending, replication->arena, entry))
            tr_walk_all(progress);
    }
}

bool tr_pending_is_empty(struct tr_replication *replication, uint16_t index)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_fifo_entry entry;
    struct tr_head record;
    return !first_pending(replication, index, &entry, &record);
}

/* ---- what happens here ---- */

/* Sends a record to every node that it names: all of it if it is new to them, else its new order
 * and times. While it moves the nodes of the old set are sent the same, since they pop it; when it
 * does not, a node outside the set is sent a drop. */
void tr_pending_send_all(struct tr_replication *replication, const struct tr_head *record,
                         enum tr_message_kind kind)
{
    TR_ASSERT(kind == MESSAGE_OUTCOME || kind == MESSAGE_PART || kind == MESSAGE_COPY);
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_set_names(record, names);
    for (unsigned i = 0; i < count; i++) {
        bool is_meant =
            tr_set_has(record, names[i]) || !tr_breaks(replication->trial, MUTANT_ONE_SET);
        if (names[i] == 0 || !is_meant)
            continue;
        if (tr_pending_is_drop(record, names[i]))
            tr_pending_send_drop(replication, names[i], record);
        else
            tr_replication_send(replication, names[i],
                                (struct tr_message){.kind = kind, .key = record->key});
    }
}

void tr_pending_replicate(struct tr_replication *replication, tr_ref ref, enum tr_replicate how)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head record;
    tr_store_head(replication->store, ref, &record);
    /* After a failed pop has split off, the timer itself is not sent before the split-off part is
     * durable here. */
    if (how == REPLICATE_AT_ONCE && replication->split_batch > replication->log->durable)
        how = REPLICATE_DURABLE;
    if (how == REPLICATE_PART)
        replication->split_batch = replication->log->number;
    if (how == REPLICATE_AT_ONCE)
        tr_pending_send_all(replication, &record, MESSAGE_OUTCOME);
    tr_log_wait(replication->log, (struct tr_waiting){
                                      .then = how == REPLICATE_AT_ONCE ? THEN_PENDING : THEN_SEND,
                                      .token = (uint64_t)how,
                                      .key = record.key,
                                      .ref = ref,
                                      .order = record.order,
                                  });
}
