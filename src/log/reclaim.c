/* SPDX-License-Identifier: Apache-2.0 */
#include "log/reclaim.h"

#include "base/assert.h"
#include "log/batch.h"
#include "log/segment.h"

bool tr_log_is_oldest(const struct tr_log *log, uint32_t segment)
{
    return tr_log_segment_of(log, segment) == log->oldest;
}

bool tr_log_begin_copy(struct tr_log *log, size_t bound)
{
    TR_ASSERT(bound > 0);
    size_t quarters = log->is_copy_due ? 3 : 2;
    log->copy_start = log->batch.size;
    bool has_room =
        log->batch.size <= log->batch.cap * quarters / 4 && tr_log_has_reserve(log, bound);
    log->is_copy_refused |= !has_room && tr_log_is_open(log);
    return has_room;
}

void tr_log_end_copy(struct tr_log *log)
{
    TR_ASSERT(log->batch.size > log->copy_start);
    log->appended -= (int64_t)(log->batch.size - log->copy_start);
    log->copied += log->batch.size - log->copy_start;
    log->reclaimed++;
}

/* The oldest segment holds nothing any more that is not, or will not be, elsewhere. */
static void remove_oldest(struct tr_log *log, struct tr_effects *out)
{
    if (!log->is_removing || log->durable < log->remove_after || !tr_effects_has_room(out, 1))
        return;
    TR_ASSERT(log->oldest < log->segment);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_SEGMENT_REMOVE);
    effect->of.segment.number = log->oldest;
    log->bytes -= *tr_log_size_of(log, log->oldest);
    log->oldest++;
    log->is_removing = false;
    log->retry_at_ms = log->time->now_ms; /* there may be room for a segment now */
}

/* Whether the log may be mostly garbage. Live bytes are an estimate. */
static bool has_garbage(const struct tr_log *log)
{
    return log->bytes + log->offset >
           log->live_bytes + log->live_bytes / 8 + log->config.segment_size / 2;
}

/* Whether the disk, which has refused a segment, may have some back: all that is in the log now is
 * gone through once. While pops wait, again as soon as something was written since: so nothing is
 * copied for ever to gain nothing. */
static bool is_worth_it(struct tr_log *log)
{
    TR_ASSERT(log->oldest <= log->segment);
    bool is_new = log->round_end == 0 || log->appended >= (int64_t)log->config.segment_size / 8;
    if (!log->is_refused) {
        log->round_end = 0;
    } else if (log->oldest > log->round_end && is_new && (log->is_exhausted || has_garbage(log))) {
        tr_cover(log->trial, RULE_RECLAIM_FULL);
        log->round_end = log->segment;
        log->appended = 0;
    }
    return log->oldest <= log->round_end;
}

/* Copies go into what clients have left of a batch. Where that was less than a quarter of it,
 * clients get less of the next one, and copies more: else a flood of large values would keep all
 * garbage. Of the one after it clients have their share again, so none waits for long. */
static void copy_oldest(struct tr_log *log)
{
    if (log->copied_to != log->number) {
        log->copied_to = log->number;
        log->copied = 0;
    }
    log->is_copy_refused = false;
    log->hooks.copy_oldest(log->hooks.context, &log->reclaim_cursor);
    log->is_copy_due = log->is_copy_refused && log->copied < log->batch.cap / 4;
}

void tr_log_reclaim(struct tr_log *log, struct tr_effects *out)
{
    TR_ASSERT(log->oldest <= log->segment);
    if (!log->config.has_log)
        return;
    remove_oldest(log, out);
    if (log->is_removing || log->oldest == log->segment) {
        log->is_reclaiming = false;
        log->is_copy_due = false;
        return;
    }
    uint64_t limit = 2 * log->live_bytes + 2 * log->config.segment_size;
    bool is_empty = *tr_log_live_of(log, log->oldest) == 0;
    bool is_worth = log->bytes + log->offset > limit || is_worth_it(log);
    log->is_reclaiming = !is_empty && is_worth;
    log->is_copy_due &= log->is_reclaiming;
    if (log->is_reclaiming && !log->is_writing)
        copy_oldest(log);
    if (*tr_log_live_of(log, log->oldest) == 0 && tr_log_has_reserve(log, 16)) {
        log->is_reclaiming = false;
        log->is_removing = true;
        log->reclaim_cursor = 0;
        /* The log says first that it goes: one that is missing otherwise is missed. */
        tr_log_put_number(log, TR_LOG_OLDEST, log->oldest + 1);
        log->remove_after = log->number;
    }
}
