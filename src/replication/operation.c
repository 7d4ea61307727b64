/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/operation.h"

#include "cluster/peer.h"
#include "replication/condition.h"

#define PASSED_PATIENCE 8 /* reading and writing, and a trip there and back */

static struct tr_operation *find(const struct tr_replication *replication, uint64_t number)
{
    if (number == 0 || replication->config.operations_max == 0)
        return NULL;
    struct tr_operation *operation =
        &replication->operations[number % replication->config.operations_max];
    return operation->number == number ? operation : NULL;
}

void tr_operation_unpack(const struct tr_replication *replication,
                         const struct tr_operation *operation, struct tr_whole *record)
{
    TR_ASSERT(operation->record != TR_ARENA_NONE);
    replication->store->unpack(tr_arena_at(replication->arena, operation->record),
                               operation->record_size, record);
}

bool tr_operation_keep(struct tr_replication *replication, struct tr_operation *operation,
                       const struct tr_whole *record)
{
    TR_ASSERT(operation->number != 0);
    size_t bound = replication->store->pack_bound(record);
    bool is_end = (record->head.flags & TR_RECORD_TOMBSTONE) != 0; /* by which memory is freed */
    tr_ref ref = tr_arena_take(replication->arena, TR_ARENA_STRING, bound, is_end);
    if (ref == TR_ARENA_NONE)
        return false;
    struct tr_writer writer = tr_writer_on(tr_arena_at(replication->arena, ref), bound);
    operation->record_size = replication->store->pack(record, &writer);
    TR_ASSERT(!writer.is_full);
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(replication->arena, operation->record);
    operation->record = ref;
    return true;
}

bool tr_operation_record(const struct tr_replication *replication, uint64_t number,
                         struct tr_whole *record, enum tr_write_mode *mode)
{
    TR_ASSERT(number != 0);
    const struct tr_operation *operation = find(replication, number);
    if (operation == NULL || operation->stage != STAGE_WRITING)
        return false;
    tr_operation_unpack(replication, operation, record);
    *mode = operation->mode;
    return true;
}

bool tr_operation_passed_on(const struct tr_replication *replication, uint64_t number,
                            struct tr_whole *whole, struct tr_frame_pass *pass)
{
    TR_ASSERT(number != 0);
    const struct tr_operation *operation = find(replication, number);
    if (operation == NULL || operation->stage != STAGE_PASSED)
        return false;
    tr_operation_unpack(replication, operation, whole);
    *pass = (struct tr_frame_pass){
        .operation = number, .is_keyed = operation->is_keyed, .condition = operation->condition};
    return true;
}

/* ---- answers ---- */

static void answer(struct tr_replication *replication, const struct tr_operation *operation,
                   enum tr_result result, bool has_happened, struct tr_effects *out)
{
    TR_ASSERT(result < TR_RESULTS);
    if (operation->peer != 0) {
        struct tr_head named = {.key.id = operation->id};
        tr_replication_answer(replication, operation->peer, operation->peer_operation, &named,
                              tr_condition_tell(result, operation->is_replayed));
        return;
    }
    struct tr_reply reply = {
        .token = operation->token,
        .id = operation->id,
        .factor = operation->factor,
        .result = result,
        .is_replayed = operation->is_replayed,
        .has_happened = has_happened,
    };
    replication->store->answer(replication->store->context, &reply, out);
}

void tr_operation_reply(struct tr_replication *replication, const struct tr_operation *operation,
                        enum tr_result result, struct tr_effects *out)
{
    answer(replication, operation, result, result == TR_DONE || result == TR_UNKNOWN, out);
}

void tr_operation_answer(struct tr_replication *replication, const struct tr_operation *operation,
                         enum tr_result result, struct tr_effects *out)
{
    TR_ASSERT(!tr_result_is_refusal(result) || result == TR_UNKNOWN);
    tr_operation_reply(replication, operation, result, out);
}

/* Answers with a refusal. No node was sent the write, so it has certainly not happened. */
void tr_operation_refuse(struct tr_replication *replication, const struct tr_operation *operation,
                         enum tr_result result, struct tr_effects *out)
{
    TR_ASSERT(tr_result_is_refusal(result) && result != TR_UNKNOWN);
    answer(replication, operation, result, false, out);
}

void tr_operation_end(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->number != 0 && replication->operation_count > 0);
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(replication->arena, operation->record);
    operation->record = TR_ARENA_NONE;
    operation->number = 0;
    replication->operation_count--;
}

void tr_operation_finish(struct tr_replication *replication, struct tr_operation *operation,
                         struct tr_effects *out)
{
    TR_ASSERT(operation->is_found || (operation->done | operation->above) != 0);
    tr_operation_answer(replication, operation, TR_DONE, out);
    tr_operation_end(replication, operation);
}

/* What became of it is unknown, and the client is told so. */
void tr_operation_give_up(struct tr_replication *replication, struct tr_operation *operation,
                          struct tr_effects *out)
{
    TR_ASSERT(operation->number != 0);
    tr_cover(replication->trial, RULE_UNKNOWN);
    tr_operation_answer(replication, operation, TR_UNKNOWN, out);
    tr_operation_end(replication, operation);
}

/* Answers to what was sent before are none to what is sent now. */
void tr_operation_renumber(struct tr_replication *replication, struct tr_operation *operation)
{
    TR_ASSERT(operation->number != 0);
    uint64_t slots = replication->config.operations_max;
    uint64_t slot = operation->number % slots;
    uint64_t next = replication->operation_number + 1;
    next += (slot + slots - next % slots) % slots;
    TR_ASSERT(next > operation->number && next % slots == slot);
    replication->operation_number = next;
    operation->number = next;
}

/* ---- members that were asked something ---- */

void tr_operation_open(struct tr_operation *operation, uint32_t member)
{
    TR_ASSERT(member < TR_LOG_NODES_MAX);
    operation->open[member / 64] |= (uint64_t)1 << member % 64;
}

bool tr_operation_is_open(const struct tr_operation *operation, uint32_t member)
{
    TR_ASSERT(member < TR_LOG_NODES_MAX);
    return (operation->open[member / 64] >> member % 64 & 1) != 0;
}

void tr_operation_close(struct tr_operation *operation, uint32_t member)
{
    TR_ASSERT(member < TR_LOG_NODES_MAX);
    operation->open[member / 64] &= ~((uint64_t)1 << member % 64);
}

/* A member that went down does not answer any more. */
bool tr_operation_has_open(const struct tr_replication *replication,
                           const struct tr_operation *operation)
{
    TR_ASSERT(operation->number != 0);
    for (uint32_t i = 0; i < replication->cluster->member_count; i++) {
        if (tr_operation_is_open(operation, i) && tr_peer_is_up(replication->cluster, (uint16_t)i))
            return true;
    }
    return false;
}

/* ---- what comes back ---- */

/* The node that it was passed on to has answered. */
static void passed_answered(struct tr_replication *replication, struct tr_operation *operation,
                            uint16_t member, enum tr_frame_result result, struct tr_effects *out)
{
    TR_ASSERT(operation->stage == STAGE_PASSED);
    if (!tr_operation_is_open(operation, member))
        return;
    operation->is_replayed = result == TR_RESULT_REPLAYED;
    tr_operation_reply(replication, operation, tr_condition_hear_result(result), out);
    tr_operation_end(replication, operation);
}

void tr_operation_answered(struct tr_replication *replication, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_whole *held,
                           struct tr_effects *out)
{
    TR_ASSERT(member < replication->cluster->member_count);
    struct tr_operation *operation = find(replication, number);
    if (operation == NULL || operation->stage == STAGE_YIELDING)
        return; /* of one that yields nothing was sent under its new number */
    if (operation->stage == STAGE_PASSED)
        passed_answered(replication, operation, member, result, out);
    else if (operation->stage == STAGE_READING)
        tr_read_answered(replication, operation, member, result, held, out);
    else if (operation->stage == STAGE_WRITING)
        tr_write_answered(replication, operation, member, result, held, out);
    else if (result == TR_RESULT_STALE)
        tr_write_contested(replication, operation, member, held, out);
    else if (result == TR_RESULT_STORED)
        tr_write_late(operation, member);
}

void tr_operation_dropped(struct tr_replication *replication, uint64_t number, uint16_t member,
                          struct tr_effects *out)
{
    TR_ASSERT(member < replication->cluster->member_count);
    struct tr_operation *operation = find(replication, number);
    if (operation == NULL || !tr_operation_is_open(operation, member))
        return;
    tr_operation_close(operation, member);
    if (operation->stage == STAGE_DROPPING && !tr_operation_has_open(replication, operation))
        tr_replaced_finish(replication, operation, out);
}

/* ---- the life of one ---- */

/* A node is not silent before its answer could be here. */
static uint64_t patience(const struct tr_replication *replication)
{
    uint64_t patience_ms = 2 * tr_peers_trip(replication->cluster) + TRIP_BESIDE_MS;
    bool is_long = patience_ms > SILENT_MS && !tr_breaks(replication->trial, MUTANT_SLOW_IS_SILENT);
    return is_long ? patience_ms : SILENT_MS;
}

static struct tr_operation *take(struct tr_replication *replication)
{
    TR_ASSERT(replication->config.operations_max > 0);
    for (uint32_t i = 0; i < replication->config.operations_max; i++) {
        replication->operation_number++;
        uint32_t slot =
            (uint32_t)(replication->operation_number % replication->config.operations_max);
        if (replication->operations[slot].number == 0 && replication->operation_number != 0)
            return &replication->operations[slot];
    }
    return NULL;
}

static void pass_on(struct tr_replication *replication, struct tr_operation *operation,
                    uint16_t member)
{
    TR_ASSERT(tr_is_other(replication, member) && operation->record != TR_ARENA_NONE);
    tr_cover(replication->trial, RULE_PASSED_ON);
    operation->stage = STAGE_PASSED;
    tr_operation_open(operation, member);
    tr_replication_send(replication, member,
                        (struct tr_message){
                            .kind = MESSAGE_PASS,
                            .operation = operation->number,
                            .key.id = operation->id,
                        });
}

/* A request with a condition, or a key: here, or where all such requests for its record go. */
static void begin_decided(struct tr_replication *replication, struct tr_operation *operation,
                          const struct tr_whole *record, struct tr_effects *out)
{
    uint16_t place = tr_condition_place(replication, operation->id, operation->factor);
    bool is_here = operation->peer != 0 || place == 0 || operation->kind == OPERATION_PERFORM ||
                   replication->cluster->peers[place].version < TR_PLAN_VERSION;
    enum tr_result refusal = TR_DONE;
    if (is_here && tr_condition_is_busy(replication, operation))
        refusal = operation->is_keyed ? TR_KEY_BUSY : TR_CONDITION_FAILED;
    else if (operation->kind != OPERATION_PERFORM &&
             !tr_operation_keep(replication, operation, record))
        refusal = TR_MEMORY_FULL;
    if (refusal != TR_DONE) {
        tr_operation_reply(replication, operation, refusal, out);
        tr_operation_end(replication, operation);
    } else if (!is_here) {
        pass_on(replication, operation, place);
    } else {
        tr_read_begin(replication, operation);
        tr_read_conclude(replication, operation, false, out);
    }
}

void tr_operation_begin(struct tr_replication *replication, const struct tr_request *request,
                        struct tr_whole *record, struct tr_effects *out)
{
    TR_ASSERT(replication->cluster->view.count > 0);
    if (tr_cluster_is_alone(replication->cluster)) {
        tr_operation_locally(replication, request, record, out);
        return;
    }
    struct tr_operation *operation = take(replication);
    enum tr_operation_kind kind = request->kind;
    struct tr_operation begun = {
        .number = replication->operation_number,
        .token = request->token,
        .kind = kind,
        .is_drawn = kind == OPERATION_CREATE && (record->head.flags & TR_RECORD_KEYED) == 0,
        .started_ms = replication->time->now_ms,
        .patience_ms = patience(replication),
        .factor = (uint8_t)record->head.factor,
        .id = record->head.key.id,
        .version = record->head.order.version,
        .performs = request->performs,
        .argument = request->argument,
        .filter = kind == OPERATION_CREATE ? 0 : request->filter,
        .is_keyed = kind == OPERATION_CREATE && (record->head.flags & TR_RECORD_KEYED) != 0,
        .fingerprint = record->head.fingerprint,
        .condition = request->condition,
        .peer = request->peer,
        .peer_operation = request->peer_operation,
    };
    if (operation == NULL) {
        tr_operation_refuse(replication, &begun, TR_TOO_MANY_REQUESTS, out);
        return;
    }
    *operation = begun;
    if (replication->operation_count == 0 ||
        replication->operations_ms > replication->time->now_ms + begun.patience_ms)
        replication->operations_ms = replication->time->now_ms + begun.patience_ms;
    operation->mode = begun.is_drawn ? TR_WRITE_CREATE : TR_WRITE_REPLACE;
    replication->operation_count++;
    TR_ASSERT(replication->operation_count <= replication->config.operations_max);
    if (tr_condition_is_due(operation)) {
        begin_decided(replication, operation, record, out);
        return;
    }
    if (kind != OPERATION_READ && kind != OPERATION_PERFORM) {
        tr_write_begin(replication, operation, record, out);
        return;
    }
    tr_read_begin(replication, operation);
    tr_read_conclude(replication, operation, false, out);
}

void tr_operation_passed(struct tr_replication *replication, uint16_t peer,
                         const struct tr_frame_pass *pass, struct tr_whole *whole,
                         struct tr_effects *out)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_head *head = &whole->head;
    bool is_sound = head->factor > 0 && head->key.part == 0 &&
                    replication->store->fits(replication->store->context, whole) &&
                    replication->store->is_sound(replication->store->context, whole);
    bool may = is_sound && replication->is_serving && replication->log->is_running &&
               replication->cluster->view.count > 0 &&
               tr_replication_has_room_for(replication, whole);
    head->replicas = (struct tr_set){.count = 1};
    head->from = (struct tr_from){.count = 0};
    head->segment = 0;
    if (!may) {
        struct tr_head named = {.key = head->key};
        tr_replication_answer(replication, peer, pass->operation, &named, TR_RESULT_FULL);
        return;
    }
    struct tr_request request = {
        .kind = pass->is_keyed ? OPERATION_CREATE : OPERATION_REPLACE,
        .condition = pass->condition,
        .peer = peer,
        .peer_operation = pass->operation,
    };
    tr_operation_begin(replication, &request, whole, out);
}

void tr_operation_unpack_shown(const struct tr_replication *replication, uint32_t index,
                               struct tr_whole *record)
{
    TR_ASSERT(index < replication->read_count);
    struct tr_operation operation = {.record = replication->read[index],
                                     .record_size = replication->read_size[index]};
    tr_operation_unpack(replication, &operation, record);
}

/* When it is to be looked at, whatever is heard. */
static tr_mono_ms next_of(const struct tr_operation *operation)
{
    TR_ASSERT(operation->number != 0);
    if (operation->stage == STAGE_PASSED)
        return operation->started_ms + PASSED_PATIENCE * operation->patience_ms;
    if (operation->stage == STAGE_DROPPING)
        return operation->started_ms + 4 * operation->patience_ms;
    if (operation->stage == STAGE_YIELDING)
        return operation->again_ms;
    if (operation->stage == STAGE_READING || operation->is_late)
        return operation->started_ms + 2 * operation->patience_ms;
    return operation->started_ms + operation->patience_ms;
}

/* The node that decides has gone, or takes longer than all it has to do may take. */
static void look_at_passed(struct tr_replication *replication, struct tr_operation *operation,
                           struct tr_effects *out)
{
    bool is_over = replication->time->now_ms >=
                   operation->started_ms + PASSED_PATIENCE * operation->patience_ms;
    if (!is_over && tr_operation_has_open(replication, operation))
        return;
    tr_operation_give_up(replication, operation, out);
}

static void run(struct tr_replication *replication, struct tr_operation *operation,
                struct tr_effects *out)
{
    TR_ASSERT(operation->number != 0);
    bool is_over = replication->time->now_ms >= operation->started_ms + 2 * operation->patience_ms;
    if (operation->stage == STAGE_PASSED)
        look_at_passed(replication, operation, out);
    else if (operation->stage == STAGE_READING)
        tr_read_conclude(replication, operation, is_over, out);
    else if (operation->stage == STAGE_DROPPING) {
        if (!tr_operation_has_open(replication, operation) ||
            replication->time->now_ms >= operation->started_ms + 4 * operation->patience_ms)
            tr_replaced_finish(replication, operation, out);
    } else if (operation->stage == STAGE_YIELDING) {
        if (replication->time->now_ms >= operation->again_ms)
            tr_write_again(replication, operation, out);
    } else if (is_over) {
        tr_write_conclude(replication, operation, true, out);
    } else if (!operation->is_late &&
               replication->time->now_ms >= operation->started_ms + operation->patience_ms) {
        tr_write_hint(replication, operation, out);
    }
}

/* Most end by the answers they get. All are looked at when one has waited too long, or when a node
 * has come or gone. */
void tr_operations_run(struct tr_replication *replication, struct tr_effects *out)
{
    TR_ASSERT(replication->operation_count <= replication->config.operations_max);
    tr_mono_ms next_ms = TR_NEVER;
    uint32_t left = replication->operation_count;
    if (left == 0 || replication->time->now_ms < replication->operations_ms)
        return;
    replication->operations_ms = TR_NEVER;
    for (uint32_t i = 0; left > 0 && i < replication->config.operations_max; i++) {
        struct tr_operation *operation = &replication->operations[i];
        if (operation->number == 0)
            continue;
        left--;
        if (!tr_effects_has_room(out, 8)) {
            tr_operations_look(replication);
            return;
        }
        run(replication, operation, out);
        if (operation->number != 0 && next_of(operation) < next_ms)
            next_ms = next_of(operation);
    }
    replication->operations_ms =
        next_ms < replication->operations_ms ? next_ms : replication->operations_ms;
}

void tr_operations_look(struct tr_replication *replication)
{
    replication->operations_ms = replication->time->now_ms;
}

bool tr_operations_are_older(const struct tr_replication *replication, tr_mono_ms at_ms)
{
    TR_ASSERT(at_ms <= replication->time->now_ms);
    uint32_t left = replication->operation_count;
    for (uint32_t i = 0; left > 0; i++) {
        const struct tr_operation *operation = &replication->operations[i];
        if (operation->number != 0 && operation->started_ms <= at_ms)
            return true;
        left -= operation->number != 0;
    }
    return false;
}

tr_mono_ms tr_operations_wake_at(const struct tr_replication *replication)
{
    TR_ASSERT(replication->operation_count <= replication->config.operations_max);
    return replication->operation_count > 0 ? replication->operations_ms : TR_NEVER;
}
