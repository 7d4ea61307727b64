/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's request in the cluster. Whoever is asked coordinates. To write, it places the timer,
 * stamps the record, sends it to every node of the list and answers when enough of them have it on
 * disk: as many as were asked for, or as there are nodes up. It keeps nothing itself unless it is
 * on the list.
 *
 *   asking    what do others hold? A read ends here: the highest wins
 *   writing   to the list
 *     STALE, a higher version is there: stamped above it, sent again
 *     EXISTS, another timer has the id: another id, sent again
 *     silent for a quarter of a second, down or full: a stand-in, sent again
 *     enough have it, or half a second is over and one has:
 *   telling   those who may hold what was replaced, to let it go: who the list knows of, and, while
 *             records may be elsewhere than placed, every node that is up
 *   answered  200; or 503, when nobody has it and the outcome is unknown
 */
#include "node/internal.h"

#define SILENT_MS 250
#define LIMIT_MS  500
#define TELL_MS   1000 /* since the request came */
#define REDRAWS   8
#define TRIES     8
#define FILL_MOST 90 /* per cent of a replica; the rest is for copies */

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
    if (operation == NULL || operation->stage != STAGE_WRITING)
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
    effect->of.answer.has_location = status != 404;
    effect->of.answer.location = tr_node_text(node, operation->id, operation->factor);
    effect->of.answer.detail = detail;
    effect->of.answer.retry_after_s = status == 503 || status == 507 ? 1 : 0;
    node->stats.refused += status >= 500;
}

/* Nothing was sent: it has definitely not happened. */
static void answer_refused(struct tr_node *node, const struct tr_operation *operation,
                           unsigned status, const char *detail, struct tr_effects *out)
{
    answer(node, operation, status, detail, out);
    out->items[out->count - 1].of.answer.has_location = false;
}

static void end(struct tr_node *node, struct tr_operation *operation)
{
    if (operation->record != TR_ARENA_NONE)
        tr_arena_give(&node->arena, operation->record);
    operation->record = TR_ARENA_NONE;
    operation->number = 0;
    node->operation_count--;
}

static void answer_unknown(struct tr_node *node, struct tr_operation *operation,
                           struct tr_effects *out)
{
    tr_cover(node, RULE_UNKNOWN);
    answer(node, operation, 503, "the outcome is unknown: retry as PUT", out);
    end(node, operation);
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

/* ---- members that were asked or told ---- */

static void open_member(struct tr_operation *operation, uint32_t member)
{
    operation->open[member / 64] |= (uint64_t)1 << member % 64;
}

static bool is_open(const struct tr_operation *operation, uint32_t member)
{
    return (operation->open[member / 64] >> member % 64 & 1) != 0;
}

static void close_member(struct tr_operation *operation, uint32_t member)
{
    operation->open[member / 64] &= ~((uint64_t)1 << member % 64);
}

/* One that went down does not answer any more. */
static bool has_open(const struct tr_node *node, const struct tr_operation *operation)
{
    for (uint32_t i = 0; i < node->member_count; i++) {
        if (is_open(operation, i) && tr_node_is_up(node, (uint16_t)i))
            return true;
    }
    return false;
}

/* ---- keeping a record ---- */

static bool keep(struct tr_node *node, struct tr_operation *operation,
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

/* Who may hold what this replaces, and cannot be told now: those who have it tell it then. */
static void remember_absent(const struct tr_node *node, const struct tr_operation *operation,
                            struct tr_record *record)
{
    bool is_wide = tr_is_wide(node);
    record->from_count = 0;
    for (uint32_t i = 1; i < node->member_count && !operation->is_drawn; i++) {
        const struct tr_member *member = &node->members[i];
        bool is_meant = is_wide && member->role != TR_ROLE_NONE;
        is_meant |= operation->filter != 0 && (member->replica_bits & ~operation->filter) == 0;
        if (is_meant && !node->peers[i].is_up && !tr_is_listed(record, (uint16_t)i))
            tr_remember(record, (uint16_t)i);
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
    remember_absent(node, operation, record);
    return keep(node, operation, record);
}

static void make_list(const struct tr_node *node, struct tr_operation *operation,
                      const uint16_t *failed, unsigned failed_count)
{
    operation->list_count = (uint8_t)tr_want(node, operation->id, operation->factor, failed,
                                             failed_count, true, operation->list);
    if (tr_breaks(node, TWIN_NO_STAND_IN))
        operation->list_count = (uint8_t)tr_copies(node, operation->factor);
}

/* Who has it stays on the list, also when the view has changed meanwhile. */
static void add_to_list(const struct tr_node *node, struct tr_operation *operation,
                        const uint16_t *failed, unsigned failed_count)
{
    uint16_t wanted[TR_LIST_MAX];
    unsigned count =
        tr_want(node, operation->id, operation->factor, failed, failed_count, true, wanted);
    for (unsigned i = 0; i < count && !tr_breaks(node, TWIN_NO_STAND_IN); i++) {
        bool is_there = false;
        for (unsigned k = 0; k < operation->list_count; k++)
            is_there |= operation->list[k] == wanted[i];
        if (!is_there && operation->list_count < TR_LIST_MAX)
            operation->list[operation->list_count++] = wanted[i];
    }
}

/* ---- telling ---- */

static void tell(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                 const struct tr_record *record)
{
    if (member == 0 || member == TR_MEMBER_NONE || is_open(operation, member) ||
        tr_is_listed(record, member) || !tr_node_is_up(node, member))
        return;
    open_member(operation, member);
    tr_send(node, member,
            (struct tr_message){
                .kind = MESSAGE_DROP,
                .operation = operation->number,
                .id = record->id,
                .order = tr_record_order(record),
            });
}

/* What this node itself may hold, though the list does not name it. */
static void drop_here(struct tr_node *node, const struct tr_record *record)
{
    tr_ref ref = tr_book_find(&node->book, record->id, 0);
    if (tr_is_listed(record, 0) || ref == TR_ARENA_NONE)
        return;
    if (tr_book_version(&node->book, ref) < record->version && tr_has_room(node, record))
        tr_drop(node, ref);
}

static void finish(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    answer(node, operation, 200, NULL, out);
    end(node, operation);
}

/* Tells those who have it who else has. */
static void spread_marks(struct tr_node *node, const struct tr_operation *operation,
                         const struct tr_record *record)
{
    for (unsigned i = 0; i < operation->list_count; i++) {
        if ((operation->done & 1u << i) == 0)
            continue;
        if (operation->list[i] == 0)
            tr_marked(node, operation->own, record, operation->done);
        else
            tr_send(node, operation->list[i],
                    (struct tr_message){
                        .kind = MESSAGE_MARK,
                        .mask = operation->done,
                        .id = record->id,
                        .part = record->part,
                        .order = tr_record_order(record),
                    });
    }
}

static void begin_telling(struct tr_node *node, struct tr_operation *operation,
                          struct tr_effects *out)
{
    struct tr_record record = unpack(node, operation);
    spread_marks(node, operation, &record);
    operation->stage = STAGE_TELLING;
    bool is_new = operation->is_drawn;
    if (!is_new && tr_is_wide(node)) {
        tr_cover(node, RULE_WIDE);
        for (uint32_t i = 1; i < node->member_count; i++)
            tell(node, operation, (uint16_t)i, &record);
    }
    /* The id says who had it when it was given out. */
    for (uint32_t i = 1; i < node->member_count && operation->filter != 0; i++) {
        if ((node->members[i].replica_bits & ~operation->filter) == 0)
            tell(node, operation, (uint16_t)i, &record);
    }
    if (!is_new)
        drop_here(node, &record);
    if (!has_open(node, operation))
        finish(node, operation, out);
}

/* The record that a replica holds now names who may hold what it replaced. */
static void extend(struct tr_node *node, struct tr_operation *operation,
                   const struct tr_record *stored)
{
    if (stored->from_count == 0)
        return;
    struct tr_record record = unpack(node, operation);
    for (unsigned i = 0; i < stored->from_count; i++) {
        tr_cover(node, RULE_EXTENDED);
        tell(node, operation, stored->from[i], &record);
    }
}

/* Answers when enough have it, or when there is nothing more to wait for. */
static void conclude(struct tr_node *node, struct tr_operation *operation, bool is_over,
                     struct tr_effects *out)
{
    unsigned done = bits(operation->done | operation->above);
    unsigned up = nodes_up(node);
    unsigned wanted = tr_copies(node, operation->factor);
    wanted = wanted < up ? wanted : up;
    if (tr_breaks(node, TWIN_ONE_COPY))
        wanted = 1;
    bool is_enough = done >= wanted && done > 0;
    uint8_t all = (uint8_t)((1u << operation->list_count) - 1);
    bool is_left = (uint8_t)(operation->done | operation->above | operation->failed) != all;
    if (!is_enough && is_left && !is_over)
        return;
    if (!is_enough && !is_over && !operation->is_late)
        return; /* somebody will stand in */
    if (done > 0)
        begin_telling(node, operation, out);
    else
        answer_unknown(node, operation, out);
}

/* ---- writing ---- */

/* This node's own copy. */
static void store_here(struct tr_node *node, struct tr_operation *operation, unsigned place,
                       struct tr_effects *out)
{
    struct tr_record record = unpack(node, operation);
    bool has_room = tr_has_room(node, &record);
    enum tr_frame_result result =
        tr_replica_take(node, operation->mode, has_room, &record, &operation->own);
    if (result == TR_RESULT_STORED || result == TR_RESULT_HELD) {
        extend(node, operation, &record);
        tr_wait(node, (struct tr_waiting){
                          .then = THEN_OPERATION,
                          .token = operation->number,
                          .id = record.id,
                          .part = record.part,
                          .version = record.version,
                          .ref = operation->own,
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
    operation->stage = STAGE_WRITING;
    operation->done = 0;
    operation->above = 0;
    operation->failed = 0;
    memset(operation->open, 0, sizeof operation->open);
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
    bool is_sent = operation->failed != (uint8_t)((1u << operation->list_count) - 1);
    if (operation->number == number && !is_sent && operation->tries == 0) {
        answer_refused(node, operation, 503, "no node that could hold it is up", out);
        end(node, operation);
    }
}

/* Answers to what was sent before are none to what is sent now. */
static void renumber(struct tr_node *node, struct tr_operation *operation)
{
    uint64_t slots = node->config.operations_max;
    uint64_t slot = operation->number % slots;
    uint64_t next = node->operation_number + 1;
    next += (slot + slots - next % slots) % slots;
    node->operation_number = next;
    operation->number = next;
}

/* Sends a changed record to its list, or answers that it cannot go on. */
static void send_again(struct tr_node *node, struct tr_operation *operation,
                       struct tr_record *record, struct tr_effects *out)
{
    if (++operation->tries > TRIES || !repack(node, operation, record)) {
        answer_unknown(node, operation, out);
        return;
    }
    renumber(node, operation);
    send(node, operation, out);
}

/* What was stored of a create whose id is taken elsewhere must not stay. */
static void take_back(struct tr_node *node, struct tr_operation *operation,
                      const struct tr_record *record)
{
    for (unsigned i = 0; i < operation->list_count; i++) {
        struct tr_message drop = {.kind = MESSAGE_DROP, .id = record->id, .mask = 1};
        drop.order = tr_record_order(record);
        if (operation->list[i] != 0) {
            tr_send(node, operation->list[i], drop);
            continue;
        }
        tr_ref ref = tr_book_find(&node->book, record->id, 0);
        if (ref != TR_ARENA_NONE && tr_book_version(&node->book, ref) == record->version &&
            tr_has_room(node, record))
            tr_drop(node, ref);
    }
}

static void begin_again(struct tr_node *node, struct tr_operation *operation,
                        enum tr_frame_result result, const struct tr_record *held,
                        struct tr_effects *out)
{
    struct tr_record record = unpack(node, operation);
    tr_cover(node, result == TR_RESULT_EXISTS ? RULE_EXISTS : RULE_STALE);
    if (result == TR_RESULT_EXISTS) {
        take_back(node, operation, &record);
        operation->id = tr_new_id(node);
    }
    operation->version = tr_stamp(node, held != NULL ? held->version : operation->version);
    make_list(node, operation, NULL, 0);
    send_again(node, operation, &record, out);
}

/* Who was down or full when it was sent may have come back, or have room. */
static void try_failed(struct tr_node *node, struct tr_operation *operation)
{
    for (unsigned i = 0; i < operation->list_count; i++) {
        uint16_t member = operation->list[i];
        bool has_failed = (operation->failed & 1u << i) != 0;
        if (member == 0 || !has_failed || !tr_node_is_up(node, member))
            continue;
        operation->failed &= (uint8_t) ~(1u << i);
        tr_send(node, member,
                (struct tr_message){.kind = MESSAGE_WRITE, .operation = operation->number});
    }
}

/* Nodes that are silent, down or full are stood in for. */
static void stand_in(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    uint16_t failed[TR_LIST_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < operation->list_count; i++) {
        if (((operation->done | operation->above) & 1u << i) == 0)
            failed[count++] = operation->list[i];
    }
    uint8_t before = operation->list_count;
    add_to_list(node, operation, failed, count);
    operation->is_late = true;
    if (operation->list_count == before) {
        try_failed(node, operation);
        conclude(node, operation, false, out);
        return;
    }
    tr_cover(node, RULE_STAND_IN);
    node->stats.stand_ins++;

    struct tr_record record = unpack(node, operation);
    record.moves = tr_next_move(record.moves, node->stamp_node);
    send_again(node, operation, &record, out);
}

/* Above this the rest is kept for copies of what is there. */
static const char *find_full(const struct tr_node *node, const struct tr_operation *operation)
{
    for (unsigned i = 0; i < operation->list_count; i++) {
        const struct tr_peer *peer = &node->peers[operation->list[i]];
        if (operation->list[i] != 0 && peer->is_up && peer->fill > FILL_MOST)
            return "a replica is full";
    }
    return NULL;
}

static void begin_writing(struct tr_node *node, struct tr_operation *operation,
                          struct tr_record *record, struct tr_effects *out)
{
    for (unsigned i = 0; i < REDRAWS; i++) {
        make_list(node, operation, NULL, 0);
        bool is_good = true;
        for (unsigned k = 0; k < operation->list_count; k++)
            is_good &= tr_is_serving(node, operation->list[k]);
        if (is_good || !operation->is_drawn)
            break;
        tr_cover(node, RULE_REDRAWN);
        operation->id = tr_new_id(node);
    }
    bool is_tombstone = (record->flags & TR_RECORD_TOMBSTONE) != 0;
    const char *full = is_tombstone ? NULL : find_full(node, operation);
    if (full != NULL)
        tr_cover(node, RULE_ADMISSION);
    if (full != NULL || !repack(node, operation, record)) {
        answer_refused(node, operation, 503, full != NULL ? full : "the memory budget is used up",
                       out);
        end(node, operation);
        return;
    }
    /* Asking may have taken the time until a stand-in is looked for. */
    tr_mono_ms next_ms = operation->started_ms + SILENT_MS;
    node->operations_ms = next_ms < node->operations_ms ? next_ms : node->operations_ms;
    send(node, operation, out);
}

/* ---- asking ---- */

/* What it keeps of a read is found; of a create, is to be written. */
static void look_here(struct tr_node *node, struct tr_operation *operation)
{
    struct tr_record record;
    tr_ref ref = tr_replica_find(node, operation->id);
    operation->is_found |= ref != TR_ARENA_NONE;
    if (ref == TR_ARENA_NONE || operation->kind == TR_API_CREATE)
        return;
    tr_book_unpack(&node->book, ref, &record);
    keep(node, operation, &record);
}

static void redrive_here(struct tr_node *node, struct tr_operation *operation,
                         const struct tr_event *event)
{
    const struct tr_api_request *query = event->of.request.query;
    struct tr_waiting waiting = {.then = THEN_OPERATION, .token = operation->number};
    operation->sequence = query->has_sequence ? query->sequence : 0;
    if (tr_redrive(node, operation->id, operation->sequence, waiting) > 0)
        open_member(operation, 0);
}

/* Where it is placed, or, while it may be elsewhere, everywhere. */
static void begin_asking(struct tr_node *node, struct tr_operation *operation)
{
    uint16_t list[TR_LIST_MAX];
    bool is_wide = tr_is_wide(node);
    unsigned count = tr_place(node, operation->id, tr_copies(node, operation->factor), list);
    operation->stage = STAGE_ASKING;
    for (uint32_t i = 1; i < node->member_count; i++) {
        bool is_asked = is_wide;
        for (unsigned k = 0; k < count; k++)
            is_asked |= list[k] == i;
        if (!is_asked || !tr_node_is_up(node, (uint16_t)i))
            continue;
        tr_cover(node, operation->kind == TR_API_REDRIVE ? RULE_REDRIVEN : RULE_READ);
        open_member(operation, i);
        tr_send(node, (uint16_t)i,
                (struct tr_message){
                    .kind = MESSAGE_ASK,
                    .operation = operation->number,
                    .id = operation->id,
                    .order = {.attempt =
                                  operation->kind == TR_API_REDRIVE ? TR_ASK_REDRIVE : TR_ASK_READ,
                              .sequence = operation->sequence},
                });
    }
}

/* The higher of what was heard: of one part by its order, and the timer before its parts. */
static bool is_above(const struct tr_record *a, const struct tr_record *b)
{
    struct tr_order x = tr_record_order(a);
    struct tr_order y = tr_record_order(b);
    return a->part == b->part ? tr_order_compare(&x, &y) > 0 : a->part < b->part;
}

static void hear(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                 const struct tr_record *held)
{
    close_member(operation, member);
    if (held == NULL)
        return;
    operation->is_found = true;
    if (operation->kind == TR_API_CREATE)
        return; /* what it keeps is to be written */
    struct tr_record best;
    if (operation->record != TR_ARENA_NONE)
        best = unpack(node, operation);
    if (operation->record == TR_ARENA_NONE || is_above(held, &best))
        keep(node, operation, held);
}

/* All who were asked have answered, and one of those where it is placed was; while it may be
 * elsewhere, everybody was. */
static bool is_known(const struct tr_node *node, const struct tr_operation *operation)
{
    uint16_t list[TR_LIST_MAX];
    unsigned count = tr_place(node, operation->id, tr_copies(node, operation->factor), list);
    bool is_up = false;
    bool is_wide = tr_is_wide(node);
    for (unsigned i = 0; i < count; i++)
        is_up |= tr_node_is_up(node, list[i]);
    for (uint32_t i = 0; i < node->member_count; i++) {
        bool may_have = is_wide && node->members[i].role != TR_ROLE_NONE;
        is_up &= !is_open(operation, i) && (!may_have || tr_node_is_up(node, (uint16_t)i));
    }
    return is_up;
}

static void answer_read(struct tr_node *node, struct tr_operation *operation,
                        struct tr_effects *out)
{
    struct tr_record record = {.flags = TR_RECORD_TOMBSTONE};
    if (operation->record != TR_ARENA_NONE)
        record = unpack(node, operation);
    if ((record.flags & TR_RECORD_TOMBSTONE) != 0) {
        if (operation->record == TR_ARENA_NONE && !is_known(node, operation))
            answer_refused(node, operation, 503, "a node that may have it did not answer", out);
        else
            answer(node, operation, 404, "there is no such timer", out);
        end(node, operation);
        return;
    }
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER_TIMER);
    effect->of.timer.token = operation->token;
    effect->of.timer.ref = operation->record;
    node->read_size[node->read_count] = operation->record_size;
    node->read[node->read_count++] = operation->record; /* given back in the next step */
    operation->record = TR_ARENA_NONE;
    end(node, operation);
}

static void conclude_asking(struct tr_node *node, struct tr_operation *operation, bool is_over,
                            struct tr_effects *out)
{
    if (has_open(node, operation) && !is_over)
        return;
    /* It may have moved from one that was asked late to one that was asked early. */
    bool is_sought = !operation->is_found && operation->kind != TR_API_REDRIVE;
    if (is_sought && !is_over && !operation->is_late && tr_is_wide(node)) {
        tr_cover(node, RULE_ASKED_AGAIN);
        operation->is_late = true;
        renumber(node, operation);
        memset(operation->open, 0, sizeof operation->open);
        look_here(node, operation);
        begin_asking(node, operation);
        if (has_open(node, operation))
            return;
    }
    if (operation->kind == TR_API_READ) {
        if (node->read_count < READS_MAX)
            answer_read(node, operation, out);
        else
            tr_operations_look(node); /* in the next step there is room */
        return;
    }
    if (operation->kind == TR_API_REDRIVE) {
        bool is_done = operation->done > 0;
        answer(node, operation, is_done ? 200 : 404,
               is_done ? NULL : "this timer has no such dead pop", out);
        end(node, operation);
        return;
    }
    if (operation->is_found) {
        finish(node, operation, out);
        return;
    }
    struct tr_record record = unpack(node, operation);
    operation->is_late = false;
    begin_writing(node, operation, &record, out);
}

/* ---- what comes back ---- */

void tr_operation_answered(struct tr_node *node, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_record *held,
                           struct tr_effects *out)
{
    struct tr_operation *operation = find(node, number);
    unsigned place = 0;
    if (operation == NULL)
        return;
    if (operation->stage == STAGE_ASKING) {
        operation->done |= result == TR_RESULT_STORED;
        hear(node, operation, member, result == TR_RESULT_HELD ? held : NULL);
        conclude_asking(node, operation, false, out);
        return;
    }
    if (operation->stage == STAGE_TELLING) {
        bool is_other = operation->kind == TR_API_CREATE && !operation->is_drawn;
        if (result == TR_RESULT_STALE && is_open(operation, member) && is_other)
            tr_operation_dropped(node, number, member, out); /* another with the same key */
        else if (result == TR_RESULT_STALE && is_open(operation, member))
            begin_again(node, operation, result, held, out);
        return;
    }
    while (place < operation->list_count && operation->list[place] != member)
        place++;
    if (place == operation->list_count)
        return;
    switch (result) {
    case TR_RESULT_STORED:
        operation->done |= (uint8_t)(1u << place);
        if (held != NULL)
            extend(node, operation, held);
        break;
    case TR_RESULT_STALE:
    case TR_RESULT_EXISTS:
        if (operation->kind == TR_API_CREATE && !operation->is_drawn) {
            operation->above |= (uint8_t)(1u << place); /* another request with the same key */
            break;
        }
        begin_again(node, operation, result, held, out);
        return;
    case TR_RESULT_FULL:
    case TR_RESULT_NONE:
    case TR_RESULT_HELD:
        operation->failed |= (uint8_t)(1u << place);
        break;
    }
    conclude(node, operation, false, out);
}

void tr_operation_dropped(struct tr_node *node, uint64_t number, uint16_t member,
                          struct tr_effects *out)
{
    struct tr_operation *operation = find(node, number);
    if (operation == NULL || !is_open(operation, member))
        return;
    close_member(operation, member);
    if (operation->stage == STAGE_TELLING && !has_open(node, operation))
        finish(node, operation, out);
}

/* ---- the life of one ---- */

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
        .is_drawn = kind == TR_API_CREATE && (record->flags & TR_RECORD_KEYED) == 0,
        .started_ms = node->now_ms,
        .factor = (uint8_t)record->factor,
        .id = record->id,
        .version = record->version,
        .filter = kind == TR_API_CREATE ? 0 : event->of.request.timer.replicas,
    };
    if (operation == NULL) {
        answer_refused(node, &begun, 503, "too many requests at once", out);
        return;
    }
    *operation = begun;
    if (node->operation_count == 0 || node->operations_ms > node->now_ms + SILENT_MS)
        node->operations_ms = node->now_ms + SILENT_MS;
    operation->mode = begun.is_drawn ? TR_WRITE_CREATE : TR_WRITE_REPLACE;
    node->operation_count++;
    bool is_keyed = kind == TR_API_CREATE && !begun.is_drawn;
    if ((kind != TR_API_READ && kind != TR_API_REDRIVE && !is_keyed) ||
        (is_keyed && !keep(node, operation, record))) {
        begin_writing(node, operation, record, out);
        return;
    }
    if (kind == TR_API_REDRIVE)
        redrive_here(node, operation, event);
    else
        look_here(node, operation);
    begin_asking(node, operation);
    conclude_asking(node, operation, false, out);
}

void tr_operation_read(const struct tr_node *node, uint32_t index, struct tr_record *record)
{
    struct tr_operation operation = {.record = node->read[index],
                                     .record_size = node->read_size[index]};
    *record = unpack(node, &operation);
}

/* When it is to be looked at, whatever is heard. */
static tr_mono_ms next_of(const struct tr_operation *operation)
{
    if (operation->stage == STAGE_TELLING)
        return operation->started_ms + TELL_MS;
    if (operation->stage == STAGE_ASKING || operation->is_late)
        return operation->started_ms + LIMIT_MS;
    return operation->started_ms + SILENT_MS;
}

static void run(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out)
{
    bool is_over = node->now_ms >= operation->started_ms + LIMIT_MS;
    if (operation->stage == STAGE_ASKING)
        conclude_asking(node, operation, is_over, out);
    else if (operation->stage == STAGE_TELLING) {
        if (!has_open(node, operation) || node->now_ms >= operation->started_ms + TELL_MS)
            finish(node, operation, out);
    } else if (is_over) {
        conclude(node, operation, true, out);
    } else if (!operation->is_late && node->now_ms >= operation->started_ms + SILENT_MS) {
        stand_in(node, operation, out);
    }
}

/* Most end by the answers they get. All are looked at when one has waited too long, or when a node
 * has come or gone. */
void tr_operations_run(struct tr_node *node, struct tr_effects *out)
{
    tr_mono_ms next_ms = TR_NODE_NEVER;
    uint32_t left = node->operation_count;
    if (left == 0 || node->now_ms < node->operations_ms)
        return;
    node->operations_ms = TR_NODE_NEVER;
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
    node->operations_ms = node->now_ms;
}

tr_mono_ms tr_operations_wake_at(const struct tr_node *node)
{
    return node->operation_count > 0 ? node->operations_ms : TR_NODE_NEVER;
}
