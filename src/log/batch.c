/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch is bound to its segment when it is begun, so that each record knows where its entry will
 * be: a segment with less room left than the largest batch is closed early, and its file cut.
 */
#include "log/batch.h"

#include "base/assert.h"
#include "log/segment.h"

static bool fits(const struct tr_log *log, size_t size, size_t cap)
{
    TR_ASSERT(log->batch.size <= log->batch.cap);
    return tr_log_is_open(log) && log->batch.size + size <= cap;
}

bool tr_log_has_reserve(const struct tr_log *log, size_t size)
{
    return fits(log, size, log->batch.cap);
}

bool tr_log_has_room(const struct tr_log *log, size_t size, bool is_new)
{
    if (!log->config.has_log)
        return true;
    size_t quarters = !is_new ? 4 : log->is_copy_due ? 1 : 3;
    return !tr_log_is_at_reserve(log) && !(is_new && tr_log_is_half_full(log, size)) &&
           fits(log, size, log->batch.cap * quarters / 4);
}

void tr_log_begin_batch(struct tr_log *log)
{
    TR_ASSERT(log->waiting_tail - log->waiting_head <= log->config.waiting_cap);
    log->number++;
    log->batch = tr_writer_on(log->buffer + TR_LOG_BATCH_HEAD, log->config.batch_cap);
}

uint64_t tr_log_size(const struct tr_record *record)
{
    uint64_t size = 56 + record->uri.size + record->content_type.size + record->opaque.size;
    for (unsigned i = 0; i < record->tag_count; i++)
        size += record->tags[i].name.size + 2;
    return size;
}

struct tr_writer *tr_log_writer(struct tr_log *log)
{
    TR_ASSERT(log->config.has_log && log->number > 0);
    return &log->batch;
}

void tr_log_appended(struct tr_log *log)
{
    TR_ASSERT(!log->batch.is_full);
    log->entries++;
}

uint32_t tr_log_appended_live(struct tr_log *log, uint64_t size)
{
    tr_log_appended(log);
    *tr_log_live_of(log, log->segment) += 1;
    log->live_bytes += size;
    return (uint32_t)(log->segment & TR_LOG_SEGMENT_MASK);
}

void tr_log_restored(struct tr_log *log, uint32_t segment, uint64_t size)
{
    *tr_log_live_of(log, tr_log_segment_of(log, segment)) += 1;
    log->live_bytes += size;
}

void tr_log_resized(struct tr_log *log, uint64_t before, uint64_t after)
{
    if (!log->config.has_log)
        return;
    TR_ASSERT(log->live_bytes >= before);
    log->live_bytes = log->live_bytes - before + after;
}

void tr_log_is_dead(struct tr_log *log, uint32_t segment, uint64_t size)
{
    if (!log->config.has_log)
        return;
    uint32_t *live = tr_log_live_of(log, tr_log_segment_of(log, segment));
    TR_ASSERT(*live > 0 && log->live_bytes >= size);
    *live -= 1;
    log->live_bytes -= size;
}

void tr_log_put_number(struct tr_log *log, enum tr_log_type type, uint64_t number)
{
    TR_ASSERT(type != TR_LOG_RECORD && type != TR_LOG_SHORT);
    struct tr_log_entry entry = {.type = type, .number = number};
    tr_log_put(&log->batch, &entry);
    tr_log_appended(log);
}

bool tr_log_number(struct tr_log *log, enum tr_log_type type, uint64_t number)
{
    if (!log->config.has_log)
        return true;
    /* That the clock was set must be known after a restart: the reserve serves that, too. */
    bool is_rare = type == TR_LOG_OFFSET && tr_log_has_reserve(log, 16);
    if (!is_rare && !tr_log_has_room(log, 16, false))
        return false;
    tr_log_put_number(log, type, number);
    return true;
}

bool tr_log_member(struct tr_log *log, uint16_t index, struct tr_span address)
{
    TR_ASSERT(address.size > 0 && address.size <= TR_LOG_ADDRESS_MAX);
    struct tr_log_entry entry = {.type = TR_LOG_MEMBER, .number = index, .address = address};
    if (!log->config.has_log)
        return true;
    if (!tr_log_has_room(log, address.size + 32, false))
        return false;
    tr_log_put(&log->batch, &entry);
    tr_log_appended(log);
    return true;
}

/* ---- tickets ---- */

static struct tr_waiting *ticket(const struct tr_log *log, uint64_t at)
{
    TR_ASSERT(at < log->waiting_tail || at - log->waiting_head < log->config.waiting_cap);
    return &log->waiting[at & (log->config.waiting_cap - 1)];
}

bool tr_log_can_wait(const struct tr_log *log, uint32_t count)
{
    TR_ASSERT(log->waiting_head <= log->waiting_tail);
    return log->waiting_tail - log->waiting_head + count < log->config.waiting_cap;
}

void tr_log_wait(struct tr_log *log, struct tr_waiting waiting)
{
    TR_ASSERT(log->waiting_tail - log->waiting_head < log->config.waiting_cap);
    if (log->waiting_head == log->waiting_tail) { /* the same few slots, which are in the cache */
        log->waiting_head = 0;
        log->waiting_tail = 0;
    }
    waiting.since_ms = log->time->now_ms;
    waiting.batch = log->number;
    /* Nothing gathers, so it waits at most for what is under way. */
    if (log->batch.size == 0)
        waiting.batch--;
    TR_ASSERT(waiting.batch >= log->durable || !log->config.has_log);
    *ticket(log, log->waiting_tail++) = waiting;
}

uint64_t tr_log_lag_ms(const struct tr_log *log)
{
    TR_ASSERT(log->waiting_head <= log->waiting_tail);
    if (log->waiting_head == log->waiting_tail)
        return 0;
    return log->time->now_ms - ticket(log, log->waiting_head)->since_ms;
}

bool tr_log_next_durable(struct tr_log *log, struct tr_waiting *waiting)
{
    if (!log->config.has_log)
        log->durable = log->number;
    if (log->waiting_head == log->waiting_tail ||
        ticket(log, log->waiting_head)->batch > log->durable)
        return false;
    *waiting = *ticket(log, log->waiting_head++); /* what it brings about may wait in its turn */
    return true;
}

/* ---- writing ---- */

void tr_log_write_batch(struct tr_log *log, struct tr_effects *out)
{
    TR_ASSERT(!log->is_writing && log->batch.size > 0 && log->segment <= log->allocated);
    log->is_unsealed = !log->is_sealing;
    log->is_sealing = false;
    log->written_ms = log->time->now_ms;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_LOG_WRITE);
    effect->of.log.head = NULL;
    effect->of.log.head_size = 0;
    if (!log->is_begun) {
        effect->of.log.head_size = tr_log_encode_header(log);
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
    log->batches++;
    tr_log_begin_batch(log);
}
