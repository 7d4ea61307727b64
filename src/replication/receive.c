/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/receive.h"

#include "cluster/member.h"
#include "replication/acknowledge.h"
#include "replication/antientropy.h"
#include "replication/drop.h"
#include "replication/hold.h"
#include "replication/operation.h"
#include "replication/replica.h"
#include "replication/set.h"

/* A record in an answer, which is only read: when it is due by this node's clock, and which nodes
 * hold it by its indexes. */
static void read_names(const struct tr_replication *replication, struct tr_head *head,
                       const struct tr_frame_names *names)
{
    TR_ASSERT(tr_set_is_bounded(head));
    int64_t now_ms = (int64_t)replication->time->steady_ms;
    bool is_sane = names->due_in_ms > -now_ms && names->due_in_ms < (int64_t)TR_TIME_MAX - now_ms;
    head->due_ms = (uint64_t)(is_sane ? now_ms + names->due_in_ms : now_ms);
    for (unsigned i = 0; i < head->from.count; i++)
        head->from.members[i] = tr_member_find(replication->cluster, names->from[i]);
    for (unsigned i = 0; i < head->replicas.count; i++)
        head->replicas.members[i] = tr_member_find(replication->cluster, names->replicas[i]);
}

static void hear_writes(struct tr_replication *replication, uint16_t peer, struct tr_reader *reader)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_whole whole;
    struct tr_frame_names names;
    uint64_t operation = 0;
    enum tr_write_mode mode;
    while (tr_frame_get_write_head(reader, &operation, &mode)) {
        if (!replication->store->decode(reader, &whole, &names)) {
            reader->is_short = true;
            return;
        }
        tr_replica_write(replication, peer, operation, mode, &whole, &names);
    }
}

/* A request that this node is to decide comes from a node of this version or a later one. */
static void hear_passes(struct tr_replication *replication, uint16_t peer, struct tr_reader *reader,
                        struct tr_effects *out)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_whole whole;
    struct tr_frame_names names;
    struct tr_frame_pass pass;
    while (tr_effects_has_room(out, 16) && tr_frame_get_pass_head(reader, &pass)) {
        if (!replication->store->decode(reader, &whole, &names)) {
            reader->is_short = true;
            return;
        }
        read_names(replication, &whole.head, &names);
        tr_operation_passed(replication, peer, &pass, &whole, out);
    }
}

/* No honest frame has more answers than there is room for. */
static void hear_answers(struct tr_replication *replication, uint16_t peer,
                         struct tr_reader *reader, struct tr_effects *out)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_whole whole;
    struct tr_frame_names names;
    uint64_t operation = 0;
    enum tr_frame_result result;
    bool has_record = false;
    while (tr_effects_has_room(out, 16) &&
           tr_frame_get_answer_head(reader, &operation, &result, &has_record)) {
        if (has_record && !replication->store->decode(reader, &whole, &names)) {
            reader->is_short = true;
            return;
        }
        if (has_record)
            read_names(replication, &whole.head, &names);
        tr_operation_answered(replication, operation, peer, result, has_record ? &whole : NULL,
                              out);
    }
}

static void hear_copies(struct tr_replication *replication, uint16_t peer, struct tr_reader *reader)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_whole whole;
    struct tr_frame_names names;
    while (replication->store->decode(reader, &whole, &names))
        tr_replica_copy(replication, peer, &whole, &names);
}

static void hear_drops(struct tr_replication *replication, uint16_t peer, struct tr_reader *reader,
                       const struct tr_frame *frame, struct tr_effects *out)
{
    TR_ASSERT(frame->kind == TR_FRAME_DROPS || frame->kind == TR_FRAME_DROPPED);
    struct tr_head head = {0};
    uint64_t operation = 0;
    bool is_exact = false;
    while (tr_frame_get_drop(reader, &head, &operation, &is_exact)) {
        if (frame->kind == TR_FRAME_DROPS && is_exact)
            tr_drop_take_back(replication, &head);
        else if (frame->kind == TR_FRAME_DROPS)
            tr_drop_asked(replication, peer, &head, operation);
        else if (tr_effects_has_room(out, 8)) {
            if (operation != 0)
                tr_operation_dropped(replication, operation, peer, out);
            tr_drop_heard(replication, peer, &head, operation != 0, is_exact);
        }
    }
}

static void hear_keys(struct tr_replication *replication, uint16_t peer, struct tr_reader *reader,
                      const struct tr_frame *frame)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head head = {0};
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    uint8_t mask = 0;
    if (frame->kind == TR_FRAME_OUTCOMES) {
        while (tr_frame_get_outcome(reader, &head, &due_in_ms, &check))
            tr_replica_outcome(replication, peer, &head, due_in_ms, check);
    } else if (frame->kind == TR_FRAME_ACKS) {
        while (tr_frame_get_key(reader, &head))
            tr_acknowledge_heard(replication, peer, &head);
    } else if (frame->kind == TR_FRAME_CLAIMS) {
        while (tr_frame_get_key(reader, &head))
            tr_hold_claim(replication, peer, &head);
    } else {
        while (tr_frame_get_mark(reader, &head, &mask)) {
            tr_acknowledge_marked(replication, TR_ARENA_NONE, &head, mask);
            tr_hold_close(replication, &head);
        }
    }
}

void tr_receive_frame(struct tr_replication *replication, uint16_t peer,
                      const struct tr_frame *frame, struct tr_reader *reader,
                      struct tr_effects *out)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_frame_ask ask;
    switch (frame->kind) {
    case TR_FRAME_HELLO:
    case TR_FRAME_BEAT:
    case TR_FRAME_ROSTER:
    case TR_FRAME_KEYS:
        TR_UNREACHABLE("other rooms hear these");
    case TR_FRAME_WRITES:
        hear_writes(replication, peer, reader);
        return;
    case TR_FRAME_ANSWERS:
        hear_answers(replication, peer, reader, out);
        return;
    case TR_FRAME_PASSES:
        hear_passes(replication, peer, reader, out);
        return;
    case TR_FRAME_ASKS:
        while (tr_frame_get_ask(reader, &ask))
            tr_read_asked(replication, peer, &ask);
        return;
    case TR_FRAME_COPIES:
        hear_copies(replication, peer, reader);
        return;
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
        hear_keys(replication, peer, reader, frame);
        return;
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
        hear_drops(replication, peer, reader, frame, out);
        return;
    case TR_FRAME_BUCKETS:
        tr_antientropy_heard(replication, peer, frame->of.sums);
        return;
    }
}
