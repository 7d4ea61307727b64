/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's write in the cluster. Whoever is asked coordinates: it places the timer, stamps the
 * record, sends it to every node of the list and answers when enough of them have it on disk: as
 * many as were asked for, or as there are nodes up. It keeps nothing itself unless it is on the
 * list.
 *
 *   asked -> sent to the list -> enough have it: 200
 *     half a second is over: 200 with what there is, or 503
 *     STALE, a higher version is there: stamped above it, sent again
 *     EXISTS, another timer has the id: another id, sent again
 *     silent for a quarter of a second, down or full: a stand-in, sent again
 */
#include "node/internal.h"

#define SILENT_MS 250
#define LIMIT_MS  500
#define REDRAWS   8
#define TRIES     8

static struct tr_operation *find(const struct tr_node *node, uint64_t number)
{
    if (number == 0 || node->config.operations_max == 0)
        return NULL;
    struct tr_operation *operation = &node->operations[number % node->config.operations_max];
    return operation->number == number ? operation : NULL;
}

static struct tr_record unpack(const struct tr_node *node, const struct tr_operation *operation)
{
    struct tr_log_entry entry = {0};
    struct tr_reader reader =
        tr_reader_on(tr_arena_at(&node->arena, operation->record), operation->record_size);
    enum tr_log_get_status status = tr_log_get(&reader, &entry);
    TR_ASSERT(status == TR_LOG_GET_ONE);
    return entry.record;
}

bool tr_operation_record(const struct tr_node *node, uint64_t number, struct tr_record *record,
                         enum tr_write_mode *mode)
{
    const struct tr_operation *operation = find(node, number);
    if (operation == NULL)
        return false;
    *record = unpack(node, operation);
    *mode = operation->mode;
    return true;
}

static void answer(struct tr_node *node, const struct tr_operation *operation, unsigned status,
                   const char *detail, struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER);
    effect->of.answer.token = operation->token;
    effect->of.answer.status = status;
    effect->of.answer.has_location = true;
    effect->of.answer.location = tr_node_text(node, operation->id, operation->factor);
    effect->of.answer.detail = detail;
    effect->of.answer.retry_after_s = status == 200 ? 0 : 1;
    node->stats.refused += status >= 500;
}

static void end(struct tr_node *node, struct tr_operation *operation)
{
    tr_arena_give(&node->arena, operation->record);
    operation->number = 0;
    node->operation_count--;
}

static unsigned bits(uint8_t mask)
{
    unsigned count = 0;
    for (; mask != 0; mask &= (uint8_t)(mask - 1))
        count++;
    return count;
}

static unsigned nodes_up(const struct tr_node *node)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < node->view.count; i++)
        count += tr_node_is_up(node, node->view.placed[i]);
    return count;
}

/* Replicas in their order, then a stand-in for each of them that is not up or failed. */
static void make_list(const struct tr_node *node, struct tr_operation *operation,
                      const uint16_t *failed, unsigned failed_count)
{
    uint16_t order[TR_VIEW_NODES_MAX];
    unsigned count = tr_place(node, operation->id, TR_VIEW_NODES_MAX, order);
    unsigned replicas = operation->factor < count ? operation->factor : count;
    unsigned missing = 0;
    replicas = replicas < TR_LIST_MAX ? replicas : TR_LIST_MAX;
    operation->list_count = 0;
    for (unsigned i = 0; i < count && operation->list_count < TR_LIST_MAX; i++) {
        bool is_good = tr_node_is_up(node, order[i]);
        for (unsigned k = 0; k < failed_count; k++)
            is_good &= failed[k] != order[i];
        if (i >= replicas && (missing == 0 || !is_good))
            continue;
        missing += i < replicas && !is_good;
        missing -= i >= replicas;
        operation->list[operation->list_count++] = order[i];
    }
}

/* Packs the record anew: its id, version or list have changed. False: no memory. */
static bool repack(struct tr_node *node, struct tr_operation *operation, struct tr_record *record)
{
    record->id = operation->id;
    record->version = operation->version;
    record->version_node = node->stamp_node;
    record->list_count = operation->list_count;
    memcpy(record->list, operation->list, sizeof operation->list);
    size_t bound = tr_log_record_bound(record);
    tr_ref ref = tr_arena_take(&node->arena, TR_ARENA_STRING, bound, false);
    if (ref == TR_ARENA_NONE)
        return false;
    struct tr_writer writer = tr_writer_on(tr_arena_at(&node->arena, ref), bound);
    operation->record_size = tr_log_put_record(&writer, record);
    TR_ASSERT(!writer.is_full);
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(&node->arena, operation->record);
    operation->record = ref;
    return true;
}

/* This node's own copy. */
static void store_here(struct tr_node *node, struct tr_operation *operation, unsigned place,
                       struct tr_effects *out)
{
    struct tr_record record = unpack(node, operation);
    enum tr_write_mode mode = operation->mode;
    tr_ref ref = TR_ARENA_NONE;
    enum tr_frame_result result =
        tr_has_room(node, &record) ? tr_judge(node, mode, &record) : TR_RESULT_FULL;
    if (result == TR_RESULT_STORED)
        result = tr_replica_store(node, &record, &ref);
    if (result == TR_RESULT_STORED || result == TR_RESULT_HELD) {
        tr_wait(node, (struct tr_waiting){
                          .then = THEN_OPERATION,
                          .token = operation->number,
                          .id = record.id,
                          .part = record.part,
                          .version = record.version,
                          .ref = ref,
                          .order = tr_record_order(&record),
                      });
        return;
    }
    if (result == TR_RESULT_FULL) {
        operation->failed |= (uint8_t)(1u << place);
        return;
    }
    struct tr_record held;
    tr_book_unpack(&node->book, tr_book_find(&node->book, record.id, 0), &held);
    tr_operation_answered(node, operation->number, 0, result, &held, out);
}

static void send(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    uint64_t number = operation->number;
    operation->done = 0;
    operation->failed = 0;
    for (unsigned i = 0; i < operation->list_count; i++) {
        uint16_t member = operation->list[i];
        if (member != 0 && tr_node_is_up(node, member))
            tr_send(node, member, (struct tr_message){.kind = MESSAGE_WRITE, .operation = number});
        else if (member != 0)
            operation->failed |= (uint8_t)(1u << i);
    }
    /* Last: it may find at once that all begins again. */
    for (unsigned i = 0; i < operation->list_count; i++) {
        if (operation->list[i] == 0 && operation->number == number)
            store_here(node, operation, i, out);
    }
}

/* Sends a changed record to its list, or answers that it cannot go on. */
static void send_again(struct tr_node *node, struct tr_operation *operation,
                       struct tr_record *record, struct tr_effects *out)
{
    if (++operation->tries > TRIES || !repack(node, operation, record)) {
        answer(node, operation, 503, "the outcome is unknown: retry as PUT", out);
        end(node, operation);
        return;
    }
    send(node, operation, out);
}

/* Tells those who have it who else has. */
static void spread_marks(struct tr_node *node, const struct tr_operation *operation)
{
    struct tr_record record = unpack(node, operation);
    for (unsigned i = 0; i < operation->list_count; i++) {
        if ((operation->done & 1u << i) == 0)
            continue;
        if (operation->list[i] == 0)
            tr_replica_marked(node, &record, operation->done);
        else
            tr_send(node, operation->list[i],
                    (struct tr_message){
                        .kind = MESSAGE_MARK,
                        .mask = operation->done,
                        .id = record.id,
                        .part = record.part,
                        .order = tr_record_order(&record),
                    });
    }
}

/* Answers if enough have it, or nobody is left to wait for. */
static void conclude(struct tr_node *node, struct tr_operation *operation, bool is_over,
                     struct tr_effects *out)
{
    unsigned up = nodes_up(node);
    unsigned wanted = operation->factor < up ? operation->factor : up;
    unsigned done = bits(operation->done);
    uint8_t all = (uint8_t)((1u << operation->list_count) - 1);
    bool is_enough = done >= (wanted > 0 ? wanted : 1);
    bool is_left = (uint8_t)(operation->done | operation->failed) != all;
    if (!is_enough && is_left && !is_over)
        return;
    if (done > 0) {
        spread_marks(node, operation);
        answer(node, operation, 200, NULL, out);
    } else {
        answer(node, operation, 503, "the outcome is unknown: retry as PUT", out);
    }
    end(node, operation);
}

void tr_operation_begin(struct tr_node *node, uint64_t token, enum tr_write_mode mode,
                        struct tr_record *record, struct tr_effects *out)
{
    struct tr_operation *operation = NULL;
    for (uint32_t i = 0; i < node->config.operations_max && operation == NULL; i++) {
        node->operation_number++;
        uint32_t slot = (uint32_t)(node->operation_number % node->config.operations_max);
        if (node->operations[slot].number == 0 && node->operation_number != 0)
            operation = &node->operations[slot];
    }
    if (operation == NULL) {
        struct tr_operation none = {.token = token, .id = record->id};
        answer(node, &none, 503, "too many writes at once", out);
        return;
    }
    *operation = (struct tr_operation){
        .number = node->operation_number,
        .token = token,
        .mode = mode,
        .started_ms = node->now_ms,
        .factor = (uint8_t)record->factor,
        .id = record->id,
        .version = record->version,
    };
    node->operation_count++;
    bool is_drawn = mode == TR_WRITE_CREATE && (record->flags & TR_RECORD_KEYED) == 0;
    for (unsigned i = 0; i < REDRAWS; i++) {
        make_list(node, operation, NULL, 0);
        bool is_good = true;
        for (unsigned k = 0; k < operation->list_count; k++)
            is_good &= tr_node_is_up(node, operation->list[k]);
        if (is_good || !is_drawn)
            break;
        operation->id = tr_new_id(node);
    }
    if (!repack(node, operation, record)) {
        answer(node, operation, 503, "the memory budget is used up", out);
        operation->number = 0;
        node->operation_count--;
        return;
    }
    send(node, operation, out);
}

static void begin_again(struct tr_node *node, struct tr_operation *operation,
                        enum tr_frame_result result, const struct tr_record *held,
                        struct tr_effects *out)
{
    struct tr_record record = unpack(node, operation);
    if (result == TR_RESULT_EXISTS && (record.flags & TR_RECORD_KEYED) != 0) {
        answer(node, operation, 200, NULL, out); /* the same request as before */
        end(node, operation);
        return;
    }
    if (result == TR_RESULT_EXISTS)
        operation->id = tr_new_id(node);
    operation->version = tr_stamp(node, held != NULL ? held->version : operation->version);
    make_list(node, operation, NULL, 0);
    send_again(node, operation, &record, out);
}

void tr_operation_answered(struct tr_node *node, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_record *held,
                           struct tr_effects *out)
{
    struct tr_operation *operation = find(node, number);
    unsigned place = 0;
    if (operation == NULL)
        return;
    while (place < operation->list_count && operation->list[place] != member)
        place++;
    if (place == operation->list_count)
        return;
    switch (result) {
    case TR_RESULT_STORED:
        operation->done |= (uint8_t)(1u << place);
        break;
    case TR_RESULT_STALE:
    case TR_RESULT_EXISTS:
        begin_again(node, operation, result, held, out);
        return;
    case TR_RESULT_FULL:
    case TR_RESULT_NONE:
    case TR_RESULT_MOVED:
    case TR_RESULT_HELD:
    case TR_RESULT_BUSY:
        operation->failed |= (uint8_t)(1u << place);
        break;
    }
    conclude(node, operation, false, out);
}

/* Nodes that are silent, down or full are stood in for. */
static void stand_in(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    uint16_t failed[TR_LIST_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < operation->list_count; i++) {
        if ((operation->done & 1u << i) == 0)
            failed[count++] = operation->list[i];
    }
    uint8_t before = operation->list_count;
    make_list(node, operation, failed, count);
    operation->is_late = true;
    if (operation->list_count <= before)
        return;
    struct tr_record record = unpack(node, operation);
    record.moves++;
    send_again(node, operation, &record, out);
}

void tr_operations_run(struct tr_node *node, struct tr_effects *out)
{
    uint32_t left = node->operation_count;
    for (uint32_t i = 0; left > 0 && i < node->config.operations_max; i++) {
        struct tr_operation *operation = &node->operations[i];
        if (operation->number == 0)
            continue;
        left--;
        if (!tr_effects_has_room(out, 8))
            return;
        if (node->now_ms >= operation->started_ms + LIMIT_MS)
            conclude(node, operation, true, out);
        else if (!operation->is_late && node->now_ms >= operation->started_ms + SILENT_MS)
            stand_in(node, operation, out);
    }
}

tr_mono_ms tr_operations_wake_at(const struct tr_node *node)
{
    tr_mono_ms wake = TR_NODE_NEVER;
    uint32_t left = node->operation_count;
    for (uint32_t i = 0; left > 0 && i < node->config.operations_max; i++) {
        const struct tr_operation *operation = &node->operations[i];
        if (operation->number == 0)
            continue;
        left--;
        tr_mono_ms at = operation->started_ms + (operation->is_late ? LIMIT_MS : SILENT_MS);
        wake = at < wake ? at : wake;
    }
    return wake;
}
