/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: the log is looked at as a whole, then replayed in slices, so that the node can say
 * meanwhile that it is starting. Entries are applied by order, not by their place; each start ends
 * the segment before and begins a new one, so that no position is ever used twice.
 */
#include "node/internal.h"

#include "wire/text.h"

#define REPLAY_SLICE    16384 /* entries in a step */
#define RECORD_ROOM     2048  /* of a batch, beside the largest record */
#define RESTART_LATE_MS 2     /* what the clocks may differ by unlogged: rather late than early */

static void refuse_log(struct tr_node *node, struct tr_log_check check, struct tr_effects *out)
{
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_REFUSED);
    effect->of.check = check;
    node->phase = PHASE_REFUSED;
}

static void read_header(struct tr_node *node, const struct tr_log_segment *segment)
{
    struct tr_log_header header;
    size_t size = 0;
    enum tr_log_header_status status =
        tr_log_header_decode(segment->bytes, segment->size, &header, &size);
    TR_ASSERT(status == TR_LOG_HEADER_OK);
    struct tr_log_state *log = &node->log;
    memcpy(node->store_id, header.store_id, sizeof node->store_id);
    log->ceiling = header.ceiling > log->ceiling ? header.ceiling : log->ceiling;
    log->offset_ms = header.offset_ms;
    log->incarnation_count = header.incarnation_count;
    memcpy(log->incarnations, header.incarnations, sizeof log->incarnations);
    /* Entry 0 is this store, whatever its address was. */
    struct tr_reader reader = tr_reader_on(header.nodes.text, header.nodes.size);
    for (uint32_t i = 0; i < header.node_count; i++) {
        struct tr_span address = tr_get_span(&reader);
        if (i > 0 && address.size > 0)
            tr_member_set(node, (uint16_t)i, address);
    }
}

static void remove_segment(uint64_t number, struct tr_effects *out)
{
    if (tr_effects_has_room(out, 8))
        tr_effects_push(out, TR_EFFECT_SEGMENT_REMOVE)->of.segment.number = number;
}

/* What the log does not use: a torn tail's segments go, spare ones at the end stay. */
static void sort_rest(struct tr_node *node, const struct tr_log_check *check,
                      struct tr_effects *out)
{
    struct tr_replay *replay = &node->replay;
    if (check->verdict == TR_LOG_TORN)
        tr_note(out, check->is_whole ? TR_NOTE_TAIL_DAMAGED : TR_NOTE_TAIL_CUT,
                replay->segments[check->segment].number, check->tail_bytes);
    uint64_t next = node->log.segment + 1;
    for (size_t i = check->used; i < replay->count; i++) {
        const struct tr_log_segment *segment = &replay->segments[i];
        if (check->verdict == TR_LOG_SOUND && segment->number == next &&
            segment->size == node->config.segment_size) {
            next++;
            replay->spares++;
        } else {
            remove_segment(segment->number, out);
        }
    }
}

/* Steady time goes on from where the log left it: wall time less the last offset logged. The last
 * header tells it, unless an entry after it does. */
static void set_steady(struct tr_node *node)
{
    struct tr_replay *replay = &node->replay;
    struct tr_log_batch batch;
    struct tr_log_entry entry;
    const struct tr_log_segment *last =
        replay->count > 0 ? &replay->segments[replay->count - 1] : NULL;
    for (size_t at = last == NULL ? 0 : last->header_size; last != NULL && at < last->valid_size;) {
        bool is_sound = tr_log_batch_at(last->bytes, last->size, last->first, at, &batch);
        TR_ASSERT(is_sound);
        struct tr_reader reader = tr_reader_on(batch.payload, batch.payload_size);
        while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE) {
            if (entry.type == TR_LOG_OFFSET)
                node->log.offset_ms = (int64_t)entry.number;
        }
        at += batch.size;
    }
    if (last != NULL)
        node->log.offset_ms += RESTART_LATE_MS;
    node->time.steady_base = node->time.wall_ms - (uint64_t)node->log.offset_ms - node->time.now_ms;
    node->time.steady_ms = node->time.now_ms + node->time.steady_base;
    tr_wheel_init(&node->wheel, &node->arena, node->time.steady_ms);
}

void tr_recovery_start(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    struct tr_replay *replay = &node->replay;
    TR_ASSERT(node->phase == PHASE_NEW);
    node->phase = PHASE_REPLAYING;
    replay->segments = event->of.recovery.segments;
    replay->count = event->of.recovery.count;
    struct tr_log_check check = tr_log_check(replay->segments, replay->count);
    if (check.verdict == TR_LOG_TORN && tr_breaks(&node->trial, MUTANT_TORN_IS_DAMAGE))
        check.verdict = TR_LOG_DAMAGED;
    if (check.verdict != TR_LOG_SOUND && check.verdict != TR_LOG_TORN) {
        refuse_log(node, check, out);
        return;
    }
    for (size_t i = 0; i < check.used; i++)
        read_header(node, &replay->segments[i]);
    node->log.oldest = check.used > 0 ? replay->segments[0].number : 1;
    node->log.segment = check.used > 0 ? replay->segments[check.used - 1].number : 0;
    sort_rest(node, &check, out);
    replay->count = check.used;
    set_steady(node);
}

static bool has_name(const struct tr_node *node, uint16_t member)
{
    return member < node->member_count && node->members[member].address_size > 0;
}

/* A log that was repaired may have lost the names of nodes: what it says of them is of no use. */
static void forget_strangers(const struct tr_node *node, struct tr_record *record)
{
    bool is_known = true;
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        is_known &= has_name(node, record->head.replicas.members[i]);
    for (unsigned i = 0; i < record->head.from.count; i++)
        is_known &= has_name(node, record->head.from.members[i]);
    if (is_known)
        return;
    record->head.replicas.count = 1;
    record->head.replicas.members[0] = 0;
    record->head.from.count = 0;
    record->head.from.gone = 0;
    record->head.flags &= (uint8_t)~TR_RECORD_MOVING;
}

static void apply_record(struct tr_node *node, struct tr_record *record, uint64_t segment,
                         bool *is_full)
{
    struct tr_record held;
    tr_ref ref = tr_book_find(&node->book, &record->head.key);
    forget_strangers(node, record);
    record->head.segment = (uint32_t)(segment & 0xffffff);
    if (ref != TR_ARENA_NONE) {
        tr_book_unpack(&node->book, ref, &held);
        struct tr_order old = held.head.order;
        struct tr_order new = record->head.order;
        if (tr_order_compare(&old, &new) > 0)
            return;
        tr_log_dropped(node, &held);
        tr_count(node, &held.head, -1);
        ref = tr_book_replace(&node->book, ref, record);
    } else {
        ref = tr_book_insert(&node->book, record);
    }
    *is_full = ref == TR_ARENA_NONE;
    if (*is_full)
        return;
    node->log.live[segment % TR_NODE_SEGMENTS_MAX] += 1;
    node->log.live_bytes += tr_log_size(record);
    tr_count(node, &record->head, 1);
}

/* The record held under the key of an entry, if it is not above the entry's order. */
static tr_ref find_held(struct tr_node *node, const struct tr_record *record,
                        struct tr_record *held)
{
    tr_ref ref = tr_book_find(&node->book, &record->head.key);
    if (ref == TR_ARENA_NONE)
        return TR_ARENA_NONE;
    tr_book_unpack(&node->book, ref, held);
    return tr_order_compare(&held->head.order, &record->head.order) > 0 ? TR_ARENA_NONE : ref;
}

static void apply_short(struct tr_node *node, const struct tr_record *record)
{
    struct tr_record held;
    tr_ref ref = find_held(node, record, &held);
    if (ref == TR_ARENA_NONE || held.head.order.version != record->head.order.version)
        return;
    tr_count(node, &held.head, -1);
    ref = tr_book_update(&node->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    held.head.flags = record->head.flags;
    held.head.order.attempt = record->head.order.attempt;
    tr_count(node, &held.head, 1);
}

static void apply_end(struct tr_node *node, const struct tr_record *record)
{
    struct tr_record held;
    tr_ref ref = find_held(node, record, &held);
    if (ref == TR_ARENA_NONE)
        return;
    tr_log_dropped(node, &held);
    tr_count(node, &held.head, -1);
    tr_book_remove(&node->book, ref);
}

/* TR_LOG_SOUND, or why it cannot be applied. */
static enum tr_log_verdict apply(struct tr_node *node, struct tr_log_entry *entry, uint64_t segment)
{
    bool is_full = false;
    node->replay.is_clean = entry->type == TR_LOG_CLEAN_STOP;
    switch (entry->type) {
    case TR_LOG_RECORD:
        node->last_stamp = entry->record.head.order.version > node->last_stamp
                               ? entry->record.head.order.version
                               : node->last_stamp;
        if (tr_log_record_bound(&entry->record) + RECORD_ROOM > node->log.batch_cap)
            return TR_LOG_TOO_LARGE;
        apply_record(node, &entry->record, segment, &is_full);
        return is_full ? TR_LOG_NO_MEMORY : TR_LOG_SOUND;
    case TR_LOG_SHORT:
        apply_short(node, &entry->record);
        return TR_LOG_SOUND;
    case TR_LOG_TOMBSTONE:
    case TR_LOG_DROP:
        apply_end(node, &entry->record);
        return TR_LOG_SOUND;
    case TR_LOG_CEILING:
        node->log.ceiling = entry->number > node->log.ceiling ? entry->number : node->log.ceiling;
        return TR_LOG_SOUND;
    case TR_LOG_MEMBER:
        tr_member_set(node, (uint16_t)entry->number, entry->address);
        return TR_LOG_SOUND;
    case TR_LOG_OFFSET: /* set_steady has read the last one, and the time is set by it */
    case TR_LOG_PADDING:
    case TR_LOG_MARKS:
    case TR_LOG_INCARNATION:
    case TR_LOG_CLEAN_STOP:
    case TR_LOG_OLDEST:
        return TR_LOG_SOUND;
    }
    return TR_LOG_SOUND;
}

/* Arms every record, once: only now is it known what each came to. In the order of memory, which is
 * about that of their making, and fast. False: not done yet. */
static bool arm_all(struct tr_node *node)
{
    struct tr_replay *replay = &node->replay;
    for (unsigned i = 0; i < tr_slice(node, REPLAY_SLICE); i++) {
        tr_ref ref = tr_arena_next_record(&node->arena, replay->armed);
        if (ref == TR_ARENA_NONE)
            return true;
        tr_arm(node, ref);
        replay->armed = ref;
    }
    return false;
}

/* Where a name is missing between others, a name that no node has takes its place. */
static void fill_names(struct tr_node *node)
{
    for (uint32_t i = 1; i < node->member_count; i++) {
        char name[16] = "lost-";
        struct tr_writer out = tr_writer_on(name + 5, sizeof name - 5);
        if (node->members[i].address_size > 0)
            continue;
        tr_put_decimal(&out, i);
        tr_member_set(node, (uint16_t)i, (struct tr_span){name, 5 + out.size});
    }
}

/* Everything is replayed: begins the segment of this start. */
static void finish(struct tr_node *node, struct tr_effects *out)
{
    struct tr_replay *replay = &node->replay;
    struct tr_log_state *log = &node->log;
    fill_names(node);
    uint64_t first = 0;
    uint64_t previous_end = 0;
    if (replay->count > 0) {
        const struct tr_log_segment *last = &replay->segments[replay->count - 1];
        uint64_t room =
            last->size > node->config.segment_size ? last->size : node->config.segment_size;
        previous_end = last->first + last->valid_size;
        first = last->first + (room + 7) / 8 * 8;
        struct tr_effect *trim = tr_effects_push(out, TR_EFFECT_SEGMENT_TRIM);
        trim->of.segment.number = last->number;
        trim->of.segment.size = last->valid_size;
        if (!replay->is_clean && !node->config.is_always_synced)
            memcpy(node->store_id, node->config.store_id, sizeof node->store_id);
    }
    node->last_stamp = node->last_stamp > log->ceiling ? node->last_stamp : log->ceiling;
    if (log->incarnation_count == TR_LOG_INCARNATIONS_MAX) {
        memmove(log->incarnations, log->incarnations + 1,
                (TR_LOG_INCARNATIONS_MAX - 1) * sizeof log->incarnations[0]);
        log->incarnation_count--;
    }
    log->incarnations[log->incarnation_count++] =
        (struct tr_log_incarnation){tr_random_next(&node->random), previous_end};
    log->allocated = log->segment + replay->spares;
    tr_log_open(node, log->segment + 1, first, previous_end);
    node->id_counter = (uint32_t)tr_random_below(&node->random, 1u << 20);
    node->members_logged = node->member_count; /* in the header of the segment that begins */
    node->phase = PHASE_OPENING;
}

static bool replay_batch(struct tr_node *node, const struct tr_log_segment *segment,
                         const struct tr_log_batch *batch, unsigned *entries,
                         struct tr_effects *out)
{
    struct tr_reader reader = tr_reader_on(batch->payload, batch->payload_size);
    struct tr_log_entry entry;
    struct tr_log_check check = {.segment = node->replay.index, .offset = batch->offset};
    for (;;) {
        enum tr_log_get_status status = tr_log_get(&reader, &entry);
        if (status == TR_LOG_GET_END)
            return true;
        check.verdict =
            status == TR_LOG_GET_BAD ? TR_LOG_DAMAGED : apply(node, &entry, segment->number);
        if (check.verdict != TR_LOG_SOUND) {
            refuse_log(node, check, out);
            return false;
        }
        (*entries)++;
    }
}

void tr_recovery_run(struct tr_node *node, struct tr_effects *out)
{
    struct tr_replay *replay = &node->replay;
    unsigned entries = 0;
    while (replay->index < replay->count && entries < tr_slice(node, REPLAY_SLICE)) {
        const struct tr_log_segment *segment = &replay->segments[replay->index];
        struct tr_log_batch batch;
        if (replay->offset == 0)
            replay->offset = segment->header_size;
        if (replay->offset >= segment->valid_size) {
            node->log.sizes[segment->number % TR_NODE_SEGMENTS_MAX] = segment->valid_size;
            node->log.bytes += segment->valid_size;
            replay->index++;
            replay->offset = 0;
            continue;
        }
        bool is_sound =
            tr_log_batch_at(segment->bytes, segment->size, segment->first, replay->offset, &batch);
        TR_ASSERT(is_sound); /* the check has seen it */
        if (!replay_batch(node, segment, &batch, &entries, out))
            return;
        replay->offset += batch.size;
    }
    if (replay->index < replay->count || !tr_effects_has_room(out, 8) || !arm_all(node))
        return;
    finish(node, out);
}
