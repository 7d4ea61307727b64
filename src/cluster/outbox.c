/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/outbox.h"

#include "base/assert.h"

#define PEER_SHARE  4      /* of the pool of messages one peer has at most this part */
#define BATCH_SIZE  32768  /* bytes after which a frame takes no more entries, */
#define BATCH_COUNT 1024   /* and entries */
#define BULK_SIZE   16384  /* bytes of records in bulk: what they take to store delays others */
#define FRAME_ROOM  131072 /* more than a frame takes, the last entry's opaque data aside */

_Static_assert(BULK_SIZE <= BATCH_SIZE && BATCH_SIZE < FRAME_ROOM, "a frame has room for a batch");

bool tr_outbox_can_send(const struct tr_cluster *cluster, uint16_t index, enum tr_message_kind kind)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    const struct tr_peer *peer = &cluster->peers[index];
    uint32_t share = cluster->messages_max / PEER_SHARE;
    bool is_bulk = kind >= MESSAGE_DROP; /* it leaves room for what somebody waits for */
    bool is_empty =
        cluster->message_free == TR_QUEUE_END && cluster->message_fresh == cluster->messages_max;
    return peer->link == LINK_GREETED && peer->count < (is_bulk ? share / 2 : share) && !is_empty;
}

bool tr_outbox_send(struct tr_cluster *cluster, uint16_t index, struct tr_message message)
{
    struct tr_peer *peer = &cluster->peers[index];
    uint32_t slot = cluster->message_free;
    TR_ASSERT(index != 0 && message.kind < MESSAGE_KINDS);
    if (!tr_outbox_can_send(cluster, index, message.kind))
        return false;
    if (slot != TR_QUEUE_END)
        cluster->message_free = cluster->messages[slot].next;
    else
        slot = cluster->message_fresh++;
    TR_ASSERT(slot < cluster->messages_max);
    cluster->messages[slot] = message;
    cluster->messages[slot].next = TR_QUEUE_END;
    struct tr_queue *queue = &peer->queues[message.kind];
    if (queue->count == 0)
        queue->first = slot;
    else
        cluster->messages[queue->last].next = slot;
    queue->last = slot;
    queue->count++;
    peer->count++;
    return true;
}

static void drop_first(struct tr_cluster *cluster, struct tr_peer *peer, struct tr_queue *queue)
{
    TR_ASSERT(queue->count > 0 && peer->count > 0);
    uint32_t slot = queue->first;
    queue->first = cluster->messages[slot].next;
    queue->count--;
    peer->count--;
    cluster->messages[slot].next = cluster->message_free;
    cluster->message_free = slot;
}

void tr_outbox_clear(struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    struct tr_peer *peer = &cluster->peers[index];
    for (unsigned kind = 0; kind < MESSAGE_KINDS; kind++) {
        while (peer->queues[kind].count > 0)
            drop_first(cluster, peer, &peer->queues[kind]);
    }
    TR_ASSERT(peer->count == 0);
}

/* ---- frames ---- */

bool tr_outbox_has_frame_room(const struct tr_cluster *cluster, const struct tr_effects *out)
{
    TR_ASSERT(cluster->frames_size <= TR_FRAMES_SIZE);
    size_t most = FRAME_ROOM + cluster->entry_max;
    return tr_effects_has_room(out, 8) && TR_FRAMES_SIZE - cluster->frames_size >= most;
}

struct tr_writer tr_outbox_begin_frame(struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->frames_size <= TR_FRAMES_SIZE);
    return tr_writer_on(cluster->frames + cluster->frames_size,
                        TR_FRAMES_SIZE - cluster->frames_size);
}

void tr_outbox_end_frame(struct tr_cluster *cluster, uint16_t index, const struct tr_writer *writer,
                         struct tr_effects *out)
{
    TR_ASSERT(!writer->is_full);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_FRAME_SEND);
    effect->of.frame.peer = index;
    effect->of.frame.bytes = writer->bytes;
    effect->of.frame.size = writer->size;
    cluster->frames_size += writer->size;
    cluster->peers[index].is_sending = true;
}

static enum tr_frame_kind frame_of(enum tr_message_kind kind)
{
    switch (kind) {
    case MESSAGE_PART:
    case MESSAGE_COPY:
        return TR_FRAME_COPIES;
    case MESSAGE_OUTCOME:
        return TR_FRAME_OUTCOMES;
    case MESSAGE_ACK:
        return TR_FRAME_ACKS;
    case MESSAGE_MARK:
        return TR_FRAME_MARKS;
    case MESSAGE_CLAIM:
        return TR_FRAME_CLAIMS;
    case MESSAGE_DROP:
        return TR_FRAME_DROPS;
    case MESSAGE_DROPPED:
        return TR_FRAME_DROPPED;
    case MESSAGE_WRITE:
        return TR_FRAME_WRITES;
    case MESSAGE_ANSWER:
        return TR_FRAME_ANSWERS;
    case MESSAGE_ASK:
        return TR_FRAME_ASKS;
    case MESSAGE_PASS:
        return TR_FRAME_PASSES;
    case MESSAGE_KINDS:
        break;
    }
    TR_UNREACHABLE("no such message");
}

void tr_outbox_send_queue(struct tr_cluster *cluster, uint16_t index, enum tr_message_kind kind,
                          struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    TR_ASSERT(cluster->peers[index].queues[kind].count > 0);
    struct tr_peer *peer = &cluster->peers[index];
    struct tr_queue *queue = &peer->queues[kind];
    struct tr_frame frame = {.kind = frame_of(kind), .heard_ms = peer->tick_ms};
    struct tr_writer writer = tr_outbox_begin_frame(cluster);
    tr_frame_put(&writer, &frame);
    size_t most = kind == MESSAGE_COPY ? BULK_SIZE : BATCH_SIZE;
    for (unsigned i = 0; i < BATCH_COUNT && queue->count > 0 && writer.size < most; i++) {
        struct tr_writer before = writer;
        cluster->hooks.put(cluster->hooks.context, &cluster->messages[queue->first], peer->version,
                           &writer);
        if (writer.is_full) { /* its data is of a time with a higher limit: in a later step */
            writer = before;
            break;
        }
        drop_first(cluster, peer, queue);
    }
    tr_outbox_end_frame(cluster, index, &writer, out);
    peer->sent_ms = cluster->time->now_ms;
}

void tr_outbox_send_all(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    struct tr_peer *peer = &cluster->peers[index];
    bool is_starting = (peer->flags & TR_BEAT_READY) == 0; /* by samples it corrects its clock */
    if (is_starting && peer->queues[MESSAGE_OUTCOME].count > 0 &&
        peer->queues[MESSAGE_PART].count == 0 && tr_outbox_has_frame_room(cluster, out))
        tr_outbox_send_queue(cluster, index, MESSAGE_OUTCOME, out);
    for (unsigned kind = 0; kind < MESSAGE_KINDS && peer->count > 0; kind++) {
        if (kind == MESSAGE_OUTCOME && peer->queues[MESSAGE_PART].count > 0)
            continue; /* parts go before what follows from them */
        if (peer->queues[kind].count > 0 && tr_outbox_has_frame_room(cluster, out))
            tr_outbox_send_queue(cluster, index, (enum tr_message_kind)kind, out);
    }
}
