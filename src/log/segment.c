/* SPDX-License-Identifier: Apache-2.0 */
#include "log/segment.h"

#include "base/assert.h"

#define SPARES   3
#define RESERVE  2    /* of them, for reclaim */
#define RETRY_MS 1000 /* after the disk refused a segment */

_Static_assert(RESERVE < SPARES, "one is for pops and drops on a full disk");
_Static_assert((TR_LOG_SEGMENTS_MAX & (TR_LOG_SEGMENTS_MAX - 1)) == 0,
               "numbers are taken modulo it");
_Static_assert(TR_LOG_SEGMENTS_MAX <= TR_LOG_SEGMENT_MASK, "the low bits tell them apart");

uint32_t *tr_log_live_of(struct tr_log *log, uint64_t segment)
{
    return &log->live[segment % TR_LOG_SEGMENTS_MAX];
}

uint64_t *tr_log_size_of(struct tr_log *log, uint64_t segment)
{
    return &log->sizes[segment % TR_LOG_SEGMENTS_MAX];
}

uint64_t tr_log_segment_of(const struct tr_log *log, uint32_t low)
{
    uint64_t back = (log->segment - low) & TR_LOG_SEGMENT_MASK;
    TR_ASSERT(back <= log->segment);
    return log->segment - back;
}

/* The largest batch fits behind what the current segment holds. */
static bool has_batch_room(const struct tr_log *log)
{
    TR_ASSERT(log->offset <= log->config.segment_size);
    return log->offset + TR_LOG_BATCH_HEAD + log->config.batch_cap + 8 <= log->config.segment_size;
}

/* Its header, if it has one, does not say that the version before can read it. */
static bool takes_extended(const struct tr_log *log)
{
    return !log->is_begun || log->format == TR_LOG_FORMAT;
}

bool tr_log_is_open(const struct tr_log *log)
{
    return log->segment <= log->allocated && has_batch_room(log);
}

bool tr_log_is_at_reserve(const struct tr_log *log)
{
    return log->is_refused && log->allocated < log->segment + RESERVE;
}

bool tr_log_is_half_full(const struct tr_log *log, size_t size)
{
    return log->allocated < log->segment + SPARES &&
           log->offset + log->batch.size + size > log->config.segment_size / 2;
}

void tr_log_open(struct tr_log *log, uint64_t segment, uint64_t first, uint64_t previous_end)
{
    TR_ASSERT(segment > log->segment || log->segment == 0);
    log->segment = segment;
    log->first = first;
    log->previous_end = previous_end;
    log->offset = 0;
    log->is_begun = false;
    *tr_log_live_of(log, segment) = 0;
    *tr_log_size_of(log, segment) = 0;
}

size_t tr_log_encode_header(struct tr_log *log)
{
    struct tr_writer nodes =
        tr_writer_on(log->table, (size_t)TR_LOG_NODES_MAX * (TR_LOG_ADDRESS_MAX + 2));
    struct tr_log_header header = {
        .shard_count = 1,
        .format = log->is_extended ? TR_LOG_FORMAT : TR_LOG_FORMAT_PLAIN,
        .segment = log->segment,
        .oldest = log->oldest,
        .first = log->first,
        .previous_end = log->previous_end,
        .ceiling = log->ceiling,
        .offset_ms = log->offset_ms,
        .incarnation_count = log->incarnation_count,
        .node_count = log->hooks.put_members(log->hooks.context, &nodes),
    };
    log->format = header.format;
    header.nodes = (struct tr_span){(const char *)log->table, nodes.size};
    memcpy(header.store_id, log->store_id, sizeof header.store_id);
    memcpy(header.incarnations, log->incarnations, sizeof header.incarnations);
    size_t size = tr_log_header_encode(&header, log->header, TR_LOG_HEADER_MAX);
    TR_ASSERT(size > 0 && !nodes.is_full);
    return size;
}

/* What gathers for a batch goes into the next segment, too, though its records say that they are in
 * this one: they are copied when this one is reclaimed, which is before the next one can be. */
static void close_segment(struct tr_log *log)
{
    TR_ASSERT(log->segment < log->allocated);
    log->trim_segment = log->segment;
    log->trim_size = log->offset;
    *tr_log_size_of(log, log->segment) = log->offset;
    log->bytes += log->offset;
    tr_log_open(log, log->segment + 1, log->first + log->config.segment_size,
                log->first + log->offset);
}

static void trim(struct tr_log *log, struct tr_effects *out)
{
    if (log->trim_segment == 0 || !tr_effects_has_room(out, 1))
        return;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_TRIM);
    effect->of.segment.number = log->trim_segment;
    effect->of.segment.size = log->trim_size;
    log->trim_segment = 0;
}

void tr_log_roll(struct tr_log *log, struct tr_effects *out)
{
    trim(log, out);
    bool is_over = log->batch.size == 0 && !has_batch_room(log);
    if (!is_over || log->segment >= log->allocated || !tr_effects_has_room(out, 1))
        return;
    close_segment(log);
    trim(log, out);
}

bool tr_log_extend(struct tr_log *log)
{
    if (!log->config.has_log)
        return true;
    log->is_extended = true;
    if (!takes_extended(log) && log->segment < log->allocated && log->trim_segment == 0)
        close_segment(log);
    return takes_extended(log);
}

void tr_log_ask_segment(struct tr_log *log, struct tr_effects *out)
{
    TR_ASSERT(log->oldest <= log->segment);
    bool is_wanted = log->allocated < log->segment + SPARES;
    bool is_late = log->is_refused && log->time->now_ms < log->retry_at_ms;
    bool is_limit = log->allocated - log->oldest + 2 >= TR_LOG_SEGMENTS_MAX;
    if (!is_wanted || log->is_asked || is_late || !tr_effects_has_room(out, 2))
        return;
    if (is_limit) { /* as if the disk were full: there is no number for it */
        log->is_asked = true;
        tr_log_segment_refused(log, out);
        return;
    }
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_ALLOCATE);
    effect->of.segment.number = log->allocated + 1;
    effect->of.segment.size = log->config.segment_size;
    log->is_asked = true;
}

void tr_log_segment_allocated(struct tr_log *log, uint64_t number, struct tr_effects *out)
{
    TR_ASSERT(number == log->allocated + 1);
    log->allocated = number;
    log->is_asked = false;
    if (log->is_refused && log->allocated >= log->segment + SPARES) {
        log->is_refused = false;
        tr_note(out, TR_NOTE_DISK_HEALED, 0, 0);
    }
}

void tr_log_segment_refused(struct tr_log *log, struct tr_effects *out)
{
    TR_ASSERT(log->is_asked);
    log->is_asked = false;
    log->retry_at_ms = log->time->now_ms + RETRY_MS;
    if (!log->is_refused)
        tr_note(out, TR_NOTE_DISK_FULL, 0, 0);
    log->is_refused = true;
}
