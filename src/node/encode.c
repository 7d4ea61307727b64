/* SPDX-License-Identifier: Apache-2.0 */
/* What a message says, as an entry of a frame: looked up when the frame is made. */
#include "node/internal.h"

/* The record of a message, as it is now. False: there is nothing to say of it any more, or not yet.
 * One that is not durable, or not decided, may be read; to be kept elsewhere it has to be. */
static bool find_record(const struct tr_node *node, const struct tr_message *message,
                        struct tr_record *record)
{
    tr_ref ref = tr_book_find(&node->book, &message->key);
    bool is_read = message->kind == MESSAGE_ANSWER && message->result == TR_RESULT_HELD;
    if (ref == TR_ARENA_NONE || (tr_book_state(&node->book, ref) == TR_STATE_UNSAFE && !is_read))
        return false;
    tr_book_unpack(&node->book, ref, record);
    bool is_early = message->kind == MESSAGE_COPY && tr_is_fresh(node, &record->head);
    return is_read || (!tr_claim_is_open(node, &record->head) && !is_early);
}

static void put_record(const struct tr_node *node, struct tr_writer *writer,
                       const struct tr_record *record)
{
    struct tr_frame_record travelling;
    tr_to_frame(node, record, &travelling);
    tr_frame_put_record(writer, &travelling);
}

static void put_write(const struct tr_node *node, const struct tr_message *message,
                      struct tr_writer *writer)
{
    struct tr_record record;
    struct tr_frame_write write = {.operation = message->operation};
    if (!tr_operation_record(node, message->operation, &record, &write.mode))
        return; /* it is over */
    tr_to_frame(node, &record, &write.record);
    tr_frame_put_write(writer, &write);
}

/* With the record that is here, where that says more. */
static void put_answer(const struct tr_node *node, const struct tr_message *message,
                       struct tr_writer *writer)
{
    struct tr_record record;
    struct tr_frame_answer answer = {.operation = message->operation, .result = message->result};
    bool is_asked = message->result != TR_RESULT_STORED || message->mask != 0;
    bool is_here = is_asked && find_record(node, message, &record);
    if (!is_here && message->result == TR_RESULT_HELD)
        answer.result = TR_RESULT_NONE;
    answer.has_record = is_here && message->result != TR_RESULT_NONE;
    if (is_here && message->result == TR_RESULT_STORED)
        answer.has_record =
            record.head.from.count > 0 && (record.head.flags & TR_RECORD_MOVING) == 0;
    if (answer.has_record)
        tr_to_frame(node, &record, &answer.record);
    tr_frame_put_answer(writer, &answer);
}

static void put_ask(const struct tr_message *message, struct tr_writer *writer)
{
    struct tr_frame_ask ask = {
        .operation = message->operation,
        .mode = (enum tr_ask_mode)message->order.attempt,
        .id = message->key.id,
        .sequence = message->order.sequence,
    };
    tr_frame_put_ask(writer, &ask);
}

void tr_encode(struct tr_node *node, const struct tr_message *message, struct tr_writer *writer)
{
    struct tr_record record = {
        .head.key = message->key,
        .head.order = message->order,
    };
    switch (message->kind) {
    case MESSAGE_ACK:
    case MESSAGE_CLAIM:
        tr_frame_put_key(writer, &record.head);
        return;
    case MESSAGE_MARK:
        tr_frame_put_mark(writer, &record.head, message->mask);
        return;
    case MESSAGE_DROP:
    case MESSAGE_DROPPED:
        tr_frame_put_drop(writer, &record.head, message->operation, message->mask == 1);
        return;
    case MESSAGE_OUTCOME:
        if (find_record(node, message, &record))
            tr_frame_put_outcome(writer, &record.head,
                                 (int64_t)(record.head.due_ms - node->time.steady_ms),
                                 tr_list_check(node, &record.head));
        return;
    case MESSAGE_PART:
    case MESSAGE_COPY:
        if (find_record(node, message, &record))
            put_record(node, writer, &record);
        return;
    case MESSAGE_WRITE:
        put_write(node, message, writer);
        return;
    case MESSAGE_ANSWER:
        put_answer(node, message, writer);
        return;
    case MESSAGE_ASK:
        put_ask(message, writer);
        return;
    case MESSAGE_KINDS:
        TR_UNREACHABLE("no such message");
    }
}
