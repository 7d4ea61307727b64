/* SPDX-License-Identifier: Apache-2.0 */
/* Room to take a record, a message for another node, a ticket of the log: what all files here
 * need. */
#include "replication/replication.h"

#include "cluster/outbox.h"
#include "log/batch.h"
#include "replication/walk.h"
#include "wire/log.h"

#define ROOM_BESIDE 4096 /* bytes of the log beside a record: names of nodes, its parts */

bool tr_replication_can_wait(const struct tr_replication *replication)
{
    return tr_log_can_wait(replication->log, 2 * (TR_PARTS_MAX + 1));
}

bool tr_replication_has_room(const struct tr_replication *replication, const struct tr_head *head)
{
    const struct tr_cluster *cluster = replication->cluster;
    TR_ASSERT(cluster->members_logged <= cluster->member_count);
    return cluster->members_logged == cluster->member_count &&
           tr_replication_can_wait(replication) &&
           tr_log_has_room(replication->log, tr_log_head_bound(head) + ROOM_BESIDE, false);
}

bool tr_replication_has_room_for(const struct tr_replication *replication,
                                 const struct tr_whole *whole)
{
    return tr_replication_has_room(replication, &whole->head) &&
           tr_store_may_store(replication->store, whole);
}

/* Whether a message brings the other node something that is pending for it: if the message is lost,
 * the store is walked. The others are asked for again. */
static bool is_of_record(enum tr_message_kind kind)
{
    TR_ASSERT(kind < MESSAGE_KINDS);
    return kind == MESSAGE_OUTCOME || kind == MESSAGE_PART || kind == MESSAGE_COPY ||
           kind == MESSAGE_DROP;
}

bool tr_replication_send(struct tr_replication *replication, uint16_t index,
                         struct tr_message message)
{
    TR_ASSERT(tr_is_other(replication, index));
    struct tr_progress *progress = &replication->progress[index];
    if (tr_outbox_send(replication->cluster, index, message))
        return true;
    if (is_of_record(message.kind))
        tr_walk_all(progress);
    return false;
}

void tr_replication_wait(struct tr_replication *replication, const struct tr_head *head, tr_ref ref,
                         enum tr_then then, uint16_t peer, uint64_t operation)
{
    TR_ASSERT(then <= THEN_DROPPED && tr_log_can_wait(replication->log, 1));
    tr_log_wait(replication->log, (struct tr_waiting){
                                      .then = (uint8_t)then,
                                      .token = operation,
                                      .peer = peer,
                                      .key = head->key,
                                      .ref = ref,
                                      .order = head->order,
                                  });
}

void tr_replication_answer(struct tr_replication *replication, uint16_t peer, uint64_t operation,
                           const struct tr_head *record, enum tr_frame_result result)
{
    TR_ASSERT(tr_is_other(replication, peer));
    tr_replication_send(replication, peer,
                        (struct tr_message){
                            .kind = MESSAGE_ANSWER,
                            .operation = operation,
                            .result = result,
                            .key = record->key,
                        });
}
