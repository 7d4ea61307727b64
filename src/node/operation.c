/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's request in the cluster, from its beginning to its answer. Whoever is asked
 * coordinates, and keeps nothing itself unless it is on the list.
 *
 *   asking    what do others hold? A read ends here (ask.c)
 *   writing   to the list, until enough have it (write.c)
 *   telling   those who may hold what was replaced, to let it go (write.c)
 *   answered
 */
#include "node/operation.h"

static struct tr_operation *find(const struct tr_node *node, uint64_t number)
{
    if (number == 0 || node->config.operations_max == 0)
        return NULL;
    struct tr_operation *operation = &node->operations[number % node->config.operations_max];
    return operation->number == number ? operation : NULL;
}

struct tr_record tr_operation_unpack(const struct tr_node *node,
                                     const struct tr_operation *operation)
{
    struct tr_log_entry entry = {0};
    struct tr_reader reader =
        tr_reader_on(tr_arena_at(&node->arena, operation->record), operation->record_size);
    enum tr_log_get_status status = tr_log_get(&reader, &entry);
    TR_ASSERT(status == TR_LOG_GET_ONE);
    return entry.record;
}

bool tr_operation_keep(struct tr_node *node, struct tr_operation *operation,
                       const struct tr_record *record)
{
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

bool tr_operation_record(const struct tr_node *node, uint64_t number, struct tr_record *record,
                         enum tr_write_mode *mode)
{
    const struct tr_operation *operation = find(node, number);
    if (operation == NULL || operation->stage != STAGE_WRITING)
        return false;
    *record = tr_operation_unpack(node, operation);
    *mode = operation->mode;
    return true;
}

/* ---- answers ---- */

void tr_operation_answer(struct tr_node *node, const struct tr_operation *operation,
                         unsigned status, const char *detail, struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER);
    effect->of.answer.token = operation->token;
    effect->of.answer.status = status;
    effect->of.answer.has_location = status != 404;
    effect->of.answer.location = tr_node_text(node, operation->id, operation->factor);
    effect->of.answer.detail = detail;
    effect->of.answer.retry_after_s = status == 503 || status == 507 ? 1 : 0;
    node->stats.refused += status >= 500;
}

/* Nothing was sent: it has definitely not happened. */
void tr_operation_refuse(struct tr_node *node, const struct tr_operation *operation,
                         unsigned status, const char *detail, struct tr_effects *out)
{
    tr_operation_answer(node, operation, status, detail, out);
    out->items[out->count - 1].of.answer.has_location = false;
}

void tr_operation_end(struct tr_node *node, struct tr_operation *operation)
{
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(&node->arena, operation->record);
    operation->record = TR_ARENA_NONE;
    operation->number = 0;
    node->operation_count--;
}

void tr_operation_finish(struct tr_node *node, struct tr_operation *operation,
                         struct tr_effects *out)
{
    tr_operation_answer(node, operation, 200, NULL, out);
    tr_operation_end(node, operation);
}

/* Answers to what was sent before are none to what is sent now. */
void tr_operation_renumber(struct tr_node *node, struct tr_operation *operation)
{
    uint64_t slots = node->config.operations_max;
    uint64_t slot = operation->number % slots;
    uint64_t next = node->operation_number + 1;
    next += (slot + slots - next % slots) % slots;
    node->operation_number = next;
    operation->number = next;
}

/* ---- members that were asked or told ---- */

void tr_operation_open(struct tr_operation *operation, uint32_t member)
{
    operation->open[member / 64] |= (uint64_t)1 << member % 64;
}

bool tr_operation_is_open(const struct tr_operation *operation, uint32_t member)
{
    return (operation->open[member / 64] >> member % 64 & 1) != 0;
}

void tr_operation_close(struct tr_operation *operation, uint32_t member)
{
    operation->open[member / 64] &= ~((uint64_t)1 << member % 64);
}

/* One that went down does not answer any more. */
bool tr_operation_has_open(const struct tr_node *node, const struct tr_operation *operation)
{
    for (uint32_t i = 0; i < node->cluster.member_count; i++) {
        if (tr_operation_is_open(operation, i) && tr_peer_is_up(&node->cluster, (uint16_t)i))
            return true;
    }
    return false;
}

/* ---- what comes back ---- */

void tr_operation_answered(struct tr_node *node, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_record *held,
                           struct tr_effects *out)
{
    struct tr_operation *operation = find(node, number);
    if (operation == NULL)
        return;
    if (operation->stage == STAGE_ASKING)
        tr_ask_answered(node, operation, member, result, held, out);
    else if (operation->stage == STAGE_WRITING)
        tr_write_answered(node, operation, member, result, held, out);
    else if (result == TR_RESULT_STALE)
        tr_write_contested(node, operation, member, held, out);
    else if (result == TR_RESULT_STORED)
        tr_write_late(operation, member);
}

void tr_operation_dropped(struct tr_node *node, uint64_t number, uint16_t member,
                          struct tr_effects *out)
{
    struct tr_operation *operation = find(node, number);
    if (operation == NULL || !tr_operation_is_open(operation, member))
        return;
    tr_operation_close(operation, member);
    if (operation->stage == STAGE_TELLING && !tr_operation_has_open(node, operation))
        tr_write_finish(node, operation, out);
}

/* ---- the life of one ---- */

/* A node is not silent before its answer could be here. */
static uint64_t patience(const struct tr_node *node)
{
    uint64_t longest_ms = 0;
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[i];
        if (peer->is_up && peer->trip_ms > longest_ms)
            longest_ms = peer->trip_ms;
    }
    uint64_t patience_ms = 2 * longest_ms + TRIP_BESIDE_MS;
    bool is_long = patience_ms > SILENT_MS && !tr_breaks(&node->trial, MUTANT_SLOW_IS_SILENT);
    return is_long ? patience_ms : SILENT_MS;
}

static struct tr_operation *take(struct tr_node *node)
{
    for (uint32_t i = 0; i < node->config.operations_max; i++) {
        node->operation_number++;
        uint32_t slot = (uint32_t)(node->operation_number % node->config.operations_max);
        if (node->operations[slot].number == 0 && node->operation_number != 0)
            return &node->operations[slot];
    }
    return NULL;
}

void tr_operation_begin(struct tr_node *node, const struct tr_event *event,
                        struct tr_record *record, struct tr_effects *out)
{
    struct tr_operation *operation = take(node);
    enum tr_api_kind kind = event->of.request.kind;
    struct tr_operation begun = {
        .number = node->operation_number,
        .token = event->of.request.token,
        .kind = kind,
        .is_drawn = kind == TR_API_CREATE && (record->head.flags & TR_RECORD_KEYED) == 0,
        .started_ms = node->time.now_ms,
        .patience_ms = patience(node),
        .factor = (uint8_t)record->head.factor,
        .id = record->head.key.id,
        .version = record->head.order.version,
        .filter = kind == TR_API_CREATE ? 0 : event->of.request.timer.replicas,
    };
    if (operation == NULL) {
        tr_operation_refuse(node, &begun, 503, "too many requests at once", out);
        return;
    }
    *operation = begun;
    if (node->operation_count == 0 || node->operations_ms > node->time.now_ms + begun.patience_ms)
        node->operations_ms = node->time.now_ms + begun.patience_ms;
    operation->mode = begun.is_drawn ? TR_WRITE_CREATE : TR_WRITE_REPLACE;
    node->operation_count++;
    bool is_keyed = kind == TR_API_CREATE && !begun.is_drawn;
    if ((kind != TR_API_READ && kind != TR_API_REDRIVE && !is_keyed) ||
        (is_keyed && !tr_operation_keep(node, operation, record))) {
        tr_write_begin(node, operation, record, out);
        return;
    }
    tr_ask_begin(node, operation, event);
    tr_ask_conclude(node, operation, false, out);
}

void tr_operation_read(const struct tr_node *node, uint32_t index, struct tr_record *record)
{
    struct tr_operation operation = {.record = node->read[index],
                                     .record_size = node->read_size[index]};
    *record = tr_operation_unpack(node, &operation);
}

/* When it is to be looked at, whatever is heard. */
static tr_mono_ms next_of(const struct tr_operation *operation)
{
    if (operation->stage == STAGE_TELLING)
        return operation->started_ms + 4 * operation->patience_ms;
    if (operation->stage == STAGE_ASKING || operation->is_late)
        return operation->started_ms + 2 * operation->patience_ms;
    return operation->started_ms + operation->patience_ms;
}

static void run(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    bool is_over = node->time.now_ms >= operation->started_ms + 2 * operation->patience_ms;
    if (operation->stage == STAGE_ASKING)
        tr_ask_conclude(node, operation, is_over, out);
    else if (operation->stage == STAGE_TELLING) {
        if (!tr_operation_has_open(node, operation) ||
            node->time.now_ms >= operation->started_ms + 4 * operation->patience_ms)
            tr_write_finish(node, operation, out);
    } else if (is_over) {
        tr_write_conclude(node, operation, true, out);
    } else if (!operation->is_late &&
               node->time.now_ms >= operation->started_ms + operation->patience_ms) {
        tr_write_stand_in(node, operation, out);
    }
}

/* Most end by the answers they get. All are looked at when one has waited too long, or when a node
 * has come or gone. */
void tr_operations_run(struct tr_node *node, struct tr_effects *out)
{
    tr_mono_ms next_ms = TR_NEVER;
    uint32_t left = node->operation_count;
    if (left == 0 || node->time.now_ms < node->operations_ms)
        return;
    node->operations_ms = TR_NEVER;
    for (uint32_t i = 0; left > 0 && i < node->config.operations_max; i++) {
        struct tr_operation *operation = &node->operations[i];
        if (operation->number == 0)
            continue;
        left--;
        if (!tr_effects_has_room(out, 8)) {
            tr_operations_look(node);
            return;
        }
        run(node, operation, out);
        if (operation->number != 0 && next_of(operation) < next_ms)
            next_ms = next_of(operation);
    }
    node->operations_ms = next_ms < node->operations_ms ? next_ms : node->operations_ms;
}

void tr_operations_look(struct tr_node *node)
{
    node->operations_ms = node->time.now_ms;
}

tr_mono_ms tr_operations_wake_at(const struct tr_node *node)
{
    return node->operation_count > 0 ? node->operations_ms : TR_NEVER;
}
