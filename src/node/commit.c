/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log as the node sees it: entries gather in a batch; one batch is written at a time, and while
 * it is, the next one gathers. That is the group commit: the slower the disk, the larger the batch.
 *
 * A batch is bound to its segment when it is begun, so that each record knows where its entry will
 * be: a segment with less room left than the largest batch is closed early, and its file cut.
 *
 * Three segments are kept allocated ahead. When the disk refuses one, new timers get 507, while
 * outcomes of pops and drops go on in the first of them. The other two are for reclaim alone, which
 * then goes through the whole log: two segments are enough to copy whatever is live, one after the
 * other, since what is copied frees as much as it takes. So a disk that is full of garbage heals by
 * itself, and one that is full of live records takes pops and cancellations for as long as they
 * leave garbage behind.
 */
#include "node/internal.h"

#define SPARES        3
#define RESERVE       2 /* of them, for reclaim */
#define SEAL_MS       1000
#define SEAL_SIZE     8
#define RECLAIM_SLICE 1024 /* records looked at in a step */

static uint32_t *live_of(struct tr_node *node, uint64_t segment)
{
    return &node->log.live[segment % TR_NODE_SEGMENTS_MAX];
}

static uint64_t *size_of(struct tr_node *node, uint64_t segment)
{
    return &node->log.sizes[segment % TR_NODE_SEGMENTS_MAX];
}

/* The number of a record's segment: it keeps the low 24 bits. */
static uint64_t segment_of(const struct tr_node *node, uint32_t low)
{
    uint64_t back = (node->log.segment - low) & 0xffffff;
    return node->log.segment - back;
}

static bool is_open(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    return log->segment <= log->allocated &&
           log->offset + TR_LOG_BATCH_HEAD + log->batch_cap + 8 <= node->config.segment_size;
}

/* Nothing is left but what reclaim needs. */
static bool is_at_reserve(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    return log->is_refused && log->allocated < log->segment + RESERVE;
}

static bool has_room(const struct tr_node *node, size_t size, size_t cap)
{
    return is_open(node) && node->log.batch.size + size <= cap;
}

/* Until the disk has given the next segment, it may yet refuse: half of the current one is for pops
 * and cancellations then. */
static bool is_half_full(const struct tr_node *node, size_t size)
{
    const struct tr_log_state *log = &node->log;
    return log->allocated < log->segment + SPARES &&
           log->offset + log->batch.size + size > node->config.segment_size / 2;
}

bool tr_log_has_room(const struct tr_node *node, size_t size, bool is_new)
{
    if (!node->config.has_log)
        return true;
    const struct tr_writer *batch = &node->log.batch;
    size_t cap = is_new ? batch->cap / 4 * 3 : batch->cap;
    return !is_at_reserve(node) && !(is_new && is_half_full(node, size)) &&
           has_room(node, size, cap);
}

bool tr_log_is_idle(const struct tr_node *node)
{
    return !node->log.is_writing && node->log.batch.size == 0 &&
           node->waiting_head == node->waiting_tail;
}

static void begin_batch(struct tr_node *node)
{
    node->log.number++;
    node->log.batch = tr_writer_on(node->log.buffer + TR_LOG_BATCH_HEAD, node->log.batch_cap);
}

uint64_t tr_log_size(const struct tr_record *record)
{
    uint64_t size = 56 + record->uri.size + record->content_type.size + record->opaque.size;
    for (unsigned i = 0; i < record->tag_count; i++)
        size += record->tags[i].name.size + 2;
    return size;
}

void tr_log_dropped(struct tr_node *node, const struct tr_record *record)
{
    if (!node->config.has_log)
        return;
    uint32_t *live = live_of(node, segment_of(node, record->head.segment));
    TR_ASSERT(*live > 0 && node->log.live_bytes >= tr_log_size(record));
    *live -= 1;
    node->log.live_bytes -= tr_log_size(record);
}

void tr_log_record(struct tr_node *node, tr_ref ref, const struct tr_record *record)
{
    tr_compare_touched(node, record->head.key.id);
    if (!node->config.has_log)
        return;
    tr_log_put_record(&node->log.batch, record);
    TR_ASSERT(!node->log.batch.is_full);
    tr_book_set_segment(&node->book, ref, (uint32_t)(node->log.segment & 0xffffff));
    *live_of(node, node->log.segment) += 1;
    node->log.live_bytes += tr_log_size(record);
    node->stats.log_entries++;
}

static void put_short(struct tr_node *node, enum tr_log_type type, const struct tr_head *head)
{
    tr_compare_touched(node, head->key.id);
    if (!node->config.has_log)
        return;
    tr_log_put_short(&node->log.batch, type, head);
    TR_ASSERT(!node->log.batch.is_full);
    node->stats.log_entries++;
}

void tr_log_short(struct tr_node *node, const struct tr_head *head)
{
    put_short(node, TR_LOG_SHORT, head);
}

void tr_log_end(struct tr_node *node, enum tr_log_type type, const struct tr_head *head)
{
    TR_ASSERT(type == TR_LOG_TOMBSTONE || type == TR_LOG_DROP);
    put_short(node, type, head);
}

static void put_number(struct tr_node *node, enum tr_log_type type, uint64_t number)
{
    struct tr_log_entry entry = {.type = type, .number = number};
    tr_log_put(&node->log.batch, &entry);
    TR_ASSERT(!node->log.batch.is_full);
    node->stats.log_entries++;
}

/* False: the batch has no room for it. */
bool tr_log_number(struct tr_node *node, enum tr_log_type type, uint64_t number)
{
    if (!node->config.has_log)
        return true;
    /* That the clock was set must be known after a restart: the reserve serves that, too. */
    bool is_rare = type == TR_LOG_OFFSET && has_room(node, 16, node->log.batch.cap);
    if (!is_rare && !tr_log_has_room(node, 16, false))
        return false;
    put_number(node, type, number);
    return true;
}

bool tr_log_member(struct tr_node *node, uint16_t index, struct tr_span address)
{
    struct tr_log_entry entry = {.type = TR_LOG_MEMBER, .number = index, .address = address};
    if (!node->config.has_log)
        return true;
    if (!tr_log_has_room(node, address.size + 32, false))
        return false;
    tr_log_put(&node->log.batch, &entry);
    TR_ASSERT(!node->log.batch.is_full);
    node->stats.log_entries++;
    return true;
}

void tr_wait(struct tr_node *node, struct tr_waiting waiting)
{
    TR_ASSERT(node->waiting_tail - node->waiting_head < node->config.limits.waiting);
    if (node->waiting_head == node->waiting_tail) { /* the same few slots, which are in the cache */
        node->waiting_head = 0;
        node->waiting_tail = 0;
    }
    waiting.since_ms = node->time.now_ms;
    waiting.batch = node->log.number;
    /* Nothing gathers, so it waits at most for what is under way. */
    if (node->log.batch.size == 0)
        waiting.batch--;
    node->waiting[node->waiting_tail++ & (node->config.limits.waiting - 1)] = waiting;
}

void tr_log_open(struct tr_node *node, uint64_t segment, uint64_t first, uint64_t previous_end)
{
    struct tr_log_state *log = &node->log;
    log->segment = segment;
    log->first = first;
    log->previous_end = previous_end;
    log->offset = 0;
    log->is_begun = false;
    *live_of(node, segment) = 0;
    *size_of(node, segment) = 0;
    if (log->number == 0)
        begin_batch(node);
}

/* The header of the current segment, into the log's scratch. */
static size_t encode_header(struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    struct tr_writer nodes =
        tr_writer_on(log->table, (size_t)TR_LOG_NODES_MAX * (TR_LOG_ADDRESS_MAX + 2));
    for (uint32_t i = 0; i < node->member_count; i++)
        tr_put_span(&nodes, tr_member_address(node, (uint16_t)i));
    struct tr_log_header header = {
        .shard_count = 1,
        .segment = log->segment,
        .oldest = log->oldest,
        .first = log->first,
        .previous_end = log->previous_end,
        .ceiling = log->ceiling,
        .offset_ms = log->offset_ms,
        .incarnation_count = log->incarnation_count,
        .node_count = node->member_count,
        .nodes = {(const char *)log->table, nodes.size},
    };
    memcpy(header.store_id, node->store_id, sizeof header.store_id);
    memcpy(header.incarnations, log->incarnations, sizeof header.incarnations);
    size_t size = tr_log_header_encode(&header, log->header, TR_LOG_HEADER_MAX);
    TR_ASSERT(size > 0);
    return size;
}

/* When what was written last is sealed, unless more is written until then. */
static tr_mono_ms seal_at(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    bool is_idle =
        log->is_unsealed && !log->is_writing && log->batch.size == 0 && node->phase == PHASE_READY;
    return is_idle ? log->written_ms + SEAL_MS : TR_NEVER;
}

tr_mono_ms tr_log_wake_at(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    bool is_retried = log->is_refused && !log->is_asked;
    tr_mono_ms at = is_open(node) ? seal_at(node) : TR_NEVER;
    return is_retried && log->retry_at_ms < at ? log->retry_at_ms : at;
}

static void write_batch(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    log->is_unsealed = !log->is_sealing;
    log->is_sealing = false;
    log->written_ms = node->time.now_ms;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_LOG_WRITE);
    effect->of.log.head = NULL;
    effect->of.log.head_size = 0;
    if (!log->is_begun) {
        effect->of.log.head_size = encode_header(node);
        effect->of.log.head = log->header;
        log->offset = effect->of.log.head_size;
        log->is_begun = true;
    }
    size_t size =
        tr_log_batch_seal(log->buffer, log->batch.size, log->first + log->offset, log->synced);
    effect->of.log.segment = log->segment;
    effect->of.log.offset = log->offset;
    effect->of.log.bytes = log->buffer;
    effect->of.log.size = size;
    log->offset += size;
    log->appended += (int64_t)size;
    log->is_writing = true;
    log->writing_end = log->first + log->offset;
    effect->of.log.end = log->writing_end;
    node->stats.log_batches++;
    begin_batch(node);
}

/* Closes the current segment when the largest batch would not fit any more. */
static void roll(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    bool is_full = log->offset + TR_LOG_BATCH_HEAD + log->batch_cap + 8 > node->config.segment_size;
    if (!is_full || log->segment >= log->allocated || !tr_effects_has_room(out, 1))
        return;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_TRIM);
    effect->of.segment.number = log->segment;
    effect->of.segment.size = log->offset;
    *size_of(node, log->segment) = log->offset;
    log->bytes += log->offset;
    tr_log_open(node, log->segment + 1, log->first + node->config.segment_size,
                log->first + log->offset);
}

static void ask_segment(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    bool is_wanted = log->allocated < log->segment + SPARES;
    bool is_late = log->is_refused && node->time.now_ms < log->retry_at_ms;
    bool is_limit = log->allocated - log->oldest + 2 >= TR_NODE_SEGMENTS_MAX;
    if (!is_wanted || log->is_asked || is_late || is_limit || !tr_effects_has_room(out, 1))
        return;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_ALLOCATE);
    effect->of.segment.number = log->allocated + 1;
    effect->of.segment.size = node->config.segment_size;
    log->is_asked = true;
}

void tr_log_segment_allocated(struct tr_node *node, uint64_t number, struct tr_effects *out)
{
    TR_ASSERT(number == node->log.allocated + 1);
    node->log.allocated = number;
    node->log.is_asked = false;
    if (node->log.is_refused && node->log.allocated >= node->log.segment + SPARES) {
        node->log.is_refused = false;
        tr_note(out, TR_NOTE_DISK_HEALED, 0, 0);
    }
}

void tr_log_segment_refused(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    log->is_asked = false;
    log->retry_at_ms = node->time.now_ms + RETRY_LOG_MS;
    if (!log->is_refused)
        tr_note(out, TR_NOTE_DISK_FULL, 0, 0);
    log->is_refused = true;
}

void tr_log_written(struct tr_node *node, const struct tr_event *event)
{
    struct tr_log_state *log = &node->log;
    log->synced = event->of.log.synced > log->synced ? event->of.log.synced : log->synced;
    if (!log->is_writing || event->of.log.written < log->writing_end)
        return;
    log->is_writing = false;
    log->durable = log->number - 1;
}

void tr_log_answer(struct tr_node *node, struct tr_effects *out)
{
    if (!node->config.has_log)
        node->log.durable = node->log.number;
    while (node->waiting_head < node->waiting_tail && tr_effects_has_room(out, 4)) {
        /* A copy: what it brings about may wait in its turn. */
        struct tr_waiting copy =
            node->waiting[node->waiting_head & (node->config.limits.waiting - 1)];
        const struct tr_waiting *waiting = &copy;
        if (waiting->batch > node->log.durable)
            return;
        node->waiting_head++;
        if (waiting->ref != TR_ARENA_NONE && tr_arena_holds(&node->arena, waiting->ref) &&
            tr_book_state(&node->book, waiting->ref) == TR_STATE_UNSAFE &&
            tr_book_id(&node->book, waiting->ref) == waiting->key.id &&
            tr_book_version(&node->book, waiting->ref) == waiting->order.version)
            tr_arm(node, waiting->ref);
        if (waiting->then != THEN_ANSWER)
            tr_told(node, waiting, out);
        if (waiting->then != THEN_ANSWER || waiting->token == 0)
            continue;
        struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER);
        effect->of.answer.token = waiting->token;
        effect->of.answer.status = 200;
        effect->of.answer.has_location = waiting->has_location;
        effect->of.answer.location = tr_node_text(node, waiting->key.id, waiting->factor);
        effect->of.answer.detail = NULL;
    }
}

/* A batch without entries says that the one before it was synced: what was acknowledged is known to
 * have been, also when nothing is written after it. */
static void seal(struct tr_node *node)
{
    struct tr_log_state *log = &node->log;
    if (node->time.now_ms < seal_at(node) || !has_room(node, SEAL_SIZE, log->batch.cap))
        return;
    for (unsigned i = 0; i < SEAL_SIZE; i++)
        tr_put_number(&log->batch, 0, 1);
    log->is_sealing = true;
}

void tr_log_run(struct tr_node *node, bool may_write, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    if (!node->config.has_log)
        return;
    if (may_write)
        seal(node);
    if (may_write && !log->is_writing && log->batch.size > 0 && tr_effects_has_room(out, 1))
        write_batch(node, out);
    if (log->batch.size == 0)
        roll(node, out);
    bool is_exhausted = is_at_reserve(node) || (log->is_refused && !is_open(node));
    if (is_exhausted && !log->is_exhausted)
        tr_note(out, TR_NOTE_LOG_EXHAUSTED, 0, 0);
    log->is_exhausted = is_exhausted;
    ask_segment(node, out);
}

bool tr_log_wants_tick(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    bool has_answers =
        node->waiting_head < node->waiting_tail &&
        node->waiting[node->waiting_head & (node->config.limits.waiting - 1)].batch <= log->durable;
    bool can_write = node->config.has_log && !log->is_writing && log->batch.size > 0;
    bool can_reclaim = log->is_reclaiming && !log->is_writing && is_open(node);
    bool can_remove = log->is_removing && log->durable >= log->remove_after;
    return has_answers || can_write || can_reclaim || can_remove;
}

/* The oldest segment holds nothing any more that is not, or will not be, elsewhere. */
static void remove_oldest(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    if (!log->is_removing || log->durable < log->remove_after || !tr_effects_has_room(out, 1))
        return;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_REMOVE);
    effect->of.segment.number = log->oldest;
    log->bytes -= *size_of(node, log->oldest);
    log->oldest++;
    log->is_removing = false;
    log->retry_at_ms = node->time.now_ms; /* there may be room for a segment now */
}

/* Appends the records of the oldest segment again, in the order of the book; all parts of a timer,
 * which share its hash, in one step. */
static void copy_oldest(struct tr_node *node)
{
    struct tr_log_state *log = &node->log;
    struct tr_index_walk walk = tr_index_seek(&node->book.index, log->reclaim_cursor);
    for (unsigned i = 0;; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            log->reclaim_cursor = 0;
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        bool is_next = hash != log->reclaim_cursor;
        log->reclaim_cursor = hash;
        if (is_next && i >= tr_slice(node, RECLAIM_SLICE))
            return;
        if (segment_of(node, tr_book_segment(&node->book, ref)) != log->oldest)
            continue;
        struct tr_record record;
        tr_book_unpack(&node->book, ref, &record);
        size_t before = log->batch.size;
        if (before > log->batch.cap / 2 ||
            !has_room(node, tr_log_record_bound(&record), log->batch.cap))
            return;
        tr_log_dropped(node, &record);
        tr_log_record(node, ref, &record);
        log->appended -= (int64_t)(log->batch.size - before);
        node->stats.reclaimed++;
    }
}

/* Whether the log may be mostly garbage. Live bytes are an estimate. */
static bool has_garbage(const struct tr_node *node)
{
    const struct tr_log_state *log = &node->log;
    return log->bytes + log->offset >
           log->live_bytes + log->live_bytes / 8 + node->config.segment_size / 2;
}

/* Whether the disk, which has refused a segment, may have some back: all that is in the log now is
 * gone through once. While pops wait, again as soon as something was written since: so nothing is
 * copied for ever to gain nothing. */
static bool is_worth_it(struct tr_node *node)
{
    struct tr_log_state *log = &node->log;
    bool is_new = log->round_end == 0 || log->appended >= (int64_t)node->config.segment_size / 8;
    if (!log->is_refused) {
        log->round_end = 0;
    } else if (log->oldest > log->round_end && is_new && (log->is_exhausted || has_garbage(node))) {
        tr_cover(&node->trial, RULE_RECLAIM_FULL);
        log->round_end = log->segment;
        log->appended = 0;
    }
    return log->oldest <= log->round_end;
}

void tr_reclaim(struct tr_node *node, struct tr_effects *out)
{
    struct tr_log_state *log = &node->log;
    if (!node->config.has_log)
        return;
    remove_oldest(node, out);
    if (log->is_removing || log->oldest == log->segment) {
        log->is_reclaiming = false;
        return;
    }
    uint64_t limit = 2 * log->live_bytes + 2 * node->config.segment_size;
    bool is_empty = *live_of(node, log->oldest) == 0;
    bool is_worth = log->bytes + log->offset > limit || is_worth_it(node);
    log->is_reclaiming = !is_empty && is_worth;
    if (log->is_reclaiming && !log->is_writing)
        copy_oldest(node);
    if (*live_of(node, log->oldest) == 0 && has_room(node, 16, log->batch.cap)) {
        log->is_reclaiming = false;
        log->is_removing = true;
        log->reclaim_cursor = 0;
        /* The log says first that it goes: one that is missing otherwise is missed. */
        put_number(node, TR_LOG_OLDEST, log->oldest + 1);
        log->remove_after = log->number;
    }
}
