/* SPDX-License-Identifier: Apache-2.0 */
/* What a message says, as an entry of a frame: looked up when the frame is made. */
#include "replication/encode.h"

#include "cluster/member.h"
#include "replication/hold.h"
#include "replication/operation.h"
#include "replication/pending.h"
#include "replication/set.h"

/* A timer that has gone on beyond a pop which failed is not shown before that pop, a record of its
 * own, is safe here: if this node lost it, nobody would make it. */
static bool is_beyond_unsafe(const struct tr_replication *replication, const struct tr_head *head)
{
    TR_ASSERT(replication->split_batch <= replication->log->number);
    bool is_beyond = head->key.part == 0 && replication->split_batch > replication->log->durable;
    if (is_beyond)
        tr_cover(replication->trial, RULE_BEYOND_UNSAFE);
    return is_beyond;
}

/* The record that a message is about, as it is now; or TR_ARENA_NONE. An answer to a read may show
 * one that is not durable or whose write is undecided. Another node must not store such a record,
 * so no other message carries it. */
static tr_ref find_record(const struct tr_replication *replication,
                          const struct tr_message *message, struct tr_head *head)
{
    TR_ASSERT(message->kind != MESSAGE_WRITE && message->kind < MESSAGE_KINDS);
    const struct tr_store *store = replication->store;
    tr_ref ref = tr_store_find(store, &message->key);
    bool is_read = message->kind == MESSAGE_ANSWER && message->result == TR_RESULT_HELD;
    if (ref == TR_ARENA_NONE || (tr_store_state_of(store, ref) == TR_STORE_UNSAFE && !is_read))
        return TR_ARENA_NONE;
    tr_store_head(store, ref, head);
    bool is_early = message->kind == MESSAGE_COPY && !message->of.is_decided &&
                    tr_pending_is_fresh(replication, head);
    bool is_stored = message->kind == MESSAGE_COPY || message->kind == MESSAGE_OUTCOME;
    if (is_stored && is_beyond_unsafe(replication, head))
        return TR_ARENA_NONE;
    bool is_said = is_read || (!tr_hold_is_open(replication, head) && !is_early);
    return is_said ? ref : TR_ARENA_NONE;
}

/* Where an entry goes. */
struct target {
    struct tr_writer *writer;
    uint64_t version; /* of the frames that the peer speaks */
};

static void put_record(const struct tr_replication *replication, struct target target,
                       const struct tr_whole *whole)
{
    TR_ASSERT(whole->head.replicas.count > 0);
    TR_ASSERT(tr_set_is_bounded(&whole->head));
    const struct tr_head *head = &whole->head;
    struct tr_frame_names names;
    names.due_in_ms = (int64_t)(head->due_ms - replication->time->steady_ms);
    for (unsigned i = 0; i < head->replicas.count; i++)
        names.replicas[i] = tr_member_address(replication->cluster, head->replicas.members[i]);
    for (unsigned i = 0; i < head->from.count; i++)
        names.from[i] = tr_member_address(replication->cluster, head->from.members[i]);
    replication->store->encode(target.writer, whole, &names, target.version);
}

/* The record at `ref`. False: the peer cannot hold it. */
static bool get_whole(const struct tr_replication *replication, struct target target, tr_ref ref,
                      struct tr_whole *whole)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    replication->store->whole(replication->store->context, ref, whole);
    return target.version >= replication->store->version(whole);
}

static void put_copy(const struct tr_replication *replication, const struct tr_message *message,
                     struct target target)
{
    TR_ASSERT(message->kind == MESSAGE_COPY || message->kind == MESSAGE_PART);
    struct tr_head head;
    struct tr_whole whole;
    tr_ref ref = find_record(replication, message, &head);
    if (ref != TR_ARENA_NONE && get_whole(replication, target, ref, &whole))
        put_record(replication, target, &whole);
}

static void put_outcome(const struct tr_replication *replication, const struct tr_message *message,
                        struct target target)
{
    TR_ASSERT(message->kind == MESSAGE_OUTCOME);
    struct tr_head head;
    if (find_record(replication, message, &head) == TR_ARENA_NONE ||
        (head.instant_ms != 0 && target.version < TR_PLAN_VERSION))
        return;
    tr_frame_put_outcome(target.writer, &head,
                         (int64_t)(head.due_ms - replication->time->steady_ms),
                         tr_set_check(replication, &head), target.version);
}

static void put_write(const struct tr_replication *replication, const struct tr_message *message,
                      struct target target)
{
    TR_ASSERT(message->kind == MESSAGE_WRITE && message->operation != 0);
    struct tr_whole whole;
    enum tr_write_mode mode;
    if (!tr_operation_record(replication, message->operation, &whole, &mode))
        return; /* it is over */
    if (target.version < replication->store->version(&whole))
        return; /* it counts as silent */
    tr_frame_put_write_head(target.writer, message->operation, mode);
    put_record(replication, target, &whole);
}

/* With the record that is here, where that says more. */
static void put_answer(const struct tr_replication *replication, const struct tr_message *message,
                       struct target target)
{
    TR_ASSERT(message->kind == MESSAGE_ANSWER && message->result >= TR_RESULT_STORED);
    struct tr_head head;
    struct tr_whole whole;
    enum tr_frame_result result = message->result;
    bool is_asked = result != TR_RESULT_STORED || message->of.has_record;
    tr_ref ref = is_asked ? find_record(replication, message, &head) : TR_ARENA_NONE;
    if (ref != TR_ARENA_NONE && !get_whole(replication, target, ref, &whole))
        ref = TR_ARENA_NONE;
    if (ref == TR_ARENA_NONE && result == TR_RESULT_HELD)
        result = TR_RESULT_NONE;
    bool has_record = ref != TR_ARENA_NONE && result != TR_RESULT_NONE;
    if (has_record && result == TR_RESULT_STORED)
        has_record = head.from.count > 0 && (head.flags & TR_RECORD_MOVING) == 0;
    tr_frame_put_answer_head(target.writer, message->operation, result, has_record);
    if (has_record)
        put_record(replication, target, &whole);
}

/* The record that it would write, as it is now. */
static void put_pass(const struct tr_replication *replication, const struct tr_message *message,
                     struct target target)
{
    TR_ASSERT(message->kind == MESSAGE_PASS && message->operation != 0);
    struct tr_whole whole;
    struct tr_frame_pass pass;
    if (target.version < TR_PLAN_VERSION ||
        !tr_operation_passed_on(replication, message->operation, &whole, &pass))
        return; /* it is over */
    tr_frame_put_pass_head(target.writer, &pass);
    put_record(replication, target, &whole);
}

static void put_ask(const struct tr_message *message, struct tr_writer *writer)
{
    TR_ASSERT(message->of.ask >= TR_ASK_READ && message->of.ask <= TR_ASK_FIRE);
    struct tr_frame_ask ask = {
        .operation = message->operation,
        .mode = message->of.ask,
        .id = message->key.id,
        .sequence = message->order.sequence,
    };
    tr_frame_put_ask(writer, &ask);
}

void tr_encode_message(struct tr_replication *replication, const struct tr_message *message,
                       uint64_t version, struct tr_writer *writer)
{
    struct target target = {writer, version};
    struct tr_head named = {
        .key = message->key,
        .order = message->order,
    };
    switch (message->kind) {
    case MESSAGE_ACK:
    case MESSAGE_CLAIM:
        tr_frame_put_key(writer, &named);
        return;
    case MESSAGE_MARK:
        tr_frame_put_mark(writer, &named, message->of.places);
        return;
    case MESSAGE_DROP:
        tr_frame_put_drop(writer, &named, message->operation, message->of.is_taken_back);
        return;
    case MESSAGE_DROPPED:
        tr_frame_put_drop(writer, &named, message->operation, message->of.is_wanted);
        return;
    case MESSAGE_OUTCOME:
        put_outcome(replication, message, target);
        return;
    case MESSAGE_PART:
    case MESSAGE_COPY:
        put_copy(replication, message, target);
        return;
    case MESSAGE_WRITE:
        put_write(replication, message, target);
        return;
    case MESSAGE_ANSWER:
        put_answer(replication, message, target);
        return;
    case MESSAGE_ASK:
        put_ask(message, writer);
        return;
    case MESSAGE_PASS:
        put_pass(replication, message, target);
        return;
    case MESSAGE_KINDS:
        TR_UNREACHABLE("no such message");
    }
}
