/* SPDX-License-Identifier: Apache-2.0 */
#include "log/recovery.h"

#include "base/assert.h"
#include "log/batch.h"
#include "log/segment.h"

#define REPLAY_SLICE    16384 /* entries in a step */
#define RESTART_LATE_MS 2     /* what the clocks may differ by unlogged: rather late than early */

static void read_header(struct tr_log *log, const struct tr_log_segment *segment)
{
    struct tr_log_header header;
    size_t size = 0;
    enum tr_log_header_status status =
        tr_log_header_decode(segment->bytes, segment->size, &header, &size);
    TR_ASSERT(status == TR_LOG_HEADER_OK);
    memcpy(log->store_id, header.store_id, sizeof log->store_id);
    log->ceiling = header.ceiling > log->ceiling ? header.ceiling : log->ceiling;
    log->offset_ms = header.offset_ms;
    log->incarnation_count = header.incarnation_count;
    memcpy(log->incarnations, header.incarnations, sizeof log->incarnations);
    /* Entry 0 is this store, whatever its address was. */
    struct tr_reader reader = tr_reader_on(header.nodes.text, header.nodes.size);
    for (uint32_t i = 0; i < header.node_count; i++) {
        struct tr_span address = tr_get_span(&reader);
        if (i > 0 && address.size > 0)
            log->hooks.set_member(log->hooks.context, (uint16_t)i, address);
    }
}

/* What the log does not use: a torn tail's segments go, spare ones at the end stay. */
static void sort_rest(struct tr_log *log, const struct tr_log_check *check, struct tr_effects *out)
{
    struct tr_recovery *recovery = &log->recovery;
    if (check->verdict == TR_LOG_TORN)
        tr_note(out, check->is_whole ? TR_NOTE_TAIL_DAMAGED : TR_NOTE_TAIL_CUT,
                recovery->segments[check->segment].number, check->tail_bytes);
    uint64_t next = log->segment + 1;
    for (size_t i = check->used; i < recovery->count; i++) {
        const struct tr_log_segment *segment = &recovery->segments[i];
        if (check->verdict == TR_LOG_SOUND && segment->number == next &&
            segment->size == log->config.segment_size) {
            next++;
            recovery->spares++;
        } else if (tr_effects_has_room(out, 8)) {
            tr_effects_push(out, TR_EFFECT_SEGMENT_REMOVE)->of.segment.number = segment->number;
        }
    }
}

/* Steady time goes on from where the log left it: wall time less the last offset logged. The last
 * header tells it, unless an entry after it does. */
static void read_offset(struct tr_log *log)
{
    const struct tr_recovery *recovery = &log->recovery;
    struct tr_log_batch batch;
    struct tr_log_entry entry;
    if (recovery->count == 0)
        return;
    const struct tr_log_segment *last = &recovery->segments[recovery->count - 1];
    for (size_t at = last->header_size; at < last->valid_size;) {
        bool is_sound = tr_log_batch_at(last->bytes, last->size, last->first, at, &batch);
        TR_ASSERT(is_sound);
        struct tr_reader reader = tr_reader_on(batch.payload, batch.payload_size);
        while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE) {
            if (entry.type == TR_LOG_OFFSET)
                log->offset_ms = (int64_t)entry.number;
        }
        at += batch.size;
    }
    log->offset_ms += RESTART_LATE_MS;
}

struct tr_log_check tr_log_recover(struct tr_log *log, struct tr_log_segment *segments,
                                   size_t count, struct tr_effects *out)
{
    struct tr_recovery *recovery = &log->recovery;
    recovery->segments = segments;
    recovery->count = count;
    struct tr_log_check check = tr_log_check(segments, count);
    if (check.verdict == TR_LOG_TORN && tr_breaks(log->trial, MUTANT_TORN_IS_DAMAGE))
        check.verdict = TR_LOG_DAMAGED;
    if (check.verdict != TR_LOG_SOUND && check.verdict != TR_LOG_TORN)
        return check;
    for (size_t i = 0; i < check.used; i++)
        read_header(log, &segments[i]);
    log->oldest = check.used > 0 ? segments[0].number : 1;
    log->segment = check.used > 0 ? segments[check.used - 1].number : 0;
    sort_rest(log, &check, out);
    recovery->count = check.used;
    read_offset(log);
    return check;
}

static enum tr_log_verdict apply(struct tr_log *log, struct tr_log_entry *entry, uint64_t segment)
{
    log->recovery.is_clean = entry->type == TR_LOG_CLEAN_STOP;
    switch (entry->type) {
    case TR_LOG_CEILING:
        log->ceiling = entry->number > log->ceiling ? entry->number : log->ceiling;
        return TR_LOG_SOUND;
    case TR_LOG_MEMBER:
        log->hooks.set_member(log->hooks.context, (uint16_t)entry->number, entry->address);
        return TR_LOG_SOUND;
    case TR_LOG_RECORD:
    case TR_LOG_SHORT:
    case TR_LOG_TOMBSTONE:
    case TR_LOG_DROP:
    case TR_LOG_KEY:
    case TR_LOG_KEY_EXPIRY:
    case TR_LOG_KEY_END:
    case TR_LOG_KEY_FLOOR:
    case TR_LOG_KEY_TIME:
    case TR_LOG_ROSTER:
    case TR_LOG_HEEDED:
    case TR_LOG_ADVICE:
        return log->hooks.apply(log->hooks.context, entry, segment);
    case TR_LOG_OFFSET: /* the last one was read before, and the time is set by it */
    case TR_LOG_PADDING:
    case TR_LOG_INCARNATION:
    case TR_LOG_CLEAN_STOP:
    case TR_LOG_OLDEST:
        return TR_LOG_SOUND;
    }
    TR_UNREACHABLE("no such entry");
}

static enum tr_log_verdict replay_batch(struct tr_log *log, const struct tr_log_segment *segment,
                                        const struct tr_log_batch *batch, unsigned *entries)
{
    struct tr_reader reader = tr_reader_on(batch->payload, batch->payload_size);
    struct tr_log_entry entry;
    for (;;) {
        enum tr_log_get_status status = tr_log_get(&reader, &entry);
        if (status == TR_LOG_GET_END)
            return TR_LOG_SOUND;
        enum tr_log_verdict verdict =
            status == TR_LOG_GET_BAD ? TR_LOG_DAMAGED : apply(log, &entry, segment->number);
        if (verdict != TR_LOG_SOUND)
            return verdict;
        (*entries)++;
    }
}

struct tr_log_check tr_log_replay(struct tr_log *log)
{
    struct tr_recovery *recovery = &log->recovery;
    struct tr_log_check check = {.verdict = TR_LOG_SOUND};
    unsigned slice = REPLAY_SLICE < log->config.slice ? REPLAY_SLICE : log->config.slice;
    unsigned entries = 0;
    while (recovery->index < recovery->count && entries < slice) {
        const struct tr_log_segment *segment = &recovery->segments[recovery->index];
        struct tr_log_batch batch;
        if (recovery->offset == 0)
            recovery->offset = segment->header_size;
        if (recovery->offset >= segment->valid_size) {
            *tr_log_size_of(log, segment->number) = segment->valid_size;
            log->bytes += segment->valid_size;
            recovery->index++;
            recovery->offset = 0;
            continue;
        }
        bool is_sound = tr_log_batch_at(segment->bytes, segment->size, segment->first,
                                        recovery->offset, &batch);
        TR_ASSERT(is_sound); /* the check has seen it */
        check.verdict = replay_batch(log, segment, &batch, &entries);
        check.segment = recovery->index;
        check.offset = batch.offset;
        if (check.verdict != TR_LOG_SOUND)
            return check;
        recovery->offset += batch.size;
    }
    return check;
}

bool tr_log_is_replayed(const struct tr_log *log)
{
    TR_ASSERT(log->recovery.index <= log->recovery.count);
    return log->recovery.index == log->recovery.count;
}

void tr_log_begin(struct tr_log *log, uint64_t incarnation, const uint8_t *new_store_id,
                  struct tr_effects *out)
{
    const struct tr_recovery *recovery = &log->recovery;
    uint64_t first = 0;
    uint64_t previous_end = 0;
    TR_ASSERT(tr_log_is_replayed(log));
    if (recovery->count > 0) {
        const struct tr_log_segment *last = &recovery->segments[recovery->count - 1];
        uint64_t room =
            last->size > log->config.segment_size ? last->size : log->config.segment_size;
        previous_end = last->first + last->valid_size;
        first = last->first + (room + 7) / 8 * 8;
        struct tr_effect *trim = tr_effects_push(out, TR_EFFECT_SEGMENT_TRIM);
        trim->of.segment.number = last->number;
        trim->of.segment.size = last->valid_size;
        if (!recovery->is_clean && !log->config.is_always_synced)
            memcpy(log->store_id, new_store_id, sizeof log->store_id);
    }
    if (log->incarnation_count == TR_LOG_INCARNATIONS_MAX) {
        memmove(log->incarnations, log->incarnations + 1,
                (TR_LOG_INCARNATIONS_MAX - 1) * sizeof log->incarnations[0]);
        log->incarnation_count--;
    }
    log->incarnations[log->incarnation_count++] =
        (struct tr_log_incarnation){incarnation, previous_end};
    log->allocated = log->segment + recovery->spares;
    tr_log_open(log, log->segment + 1, first, previous_end);
    tr_log_begin_batch(log);
}
