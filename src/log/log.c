/* SPDX-License-Identifier: Apache-2.0 */
/* What the log does in each step, and when it wants the next one. */
#include "log/log.h"

#include "base/assert.h"
#include "log/batch.h"
#include "log/segment.h"

#define SEAL_MS   1000
#define SEAL_SIZE 8

/* A node that starts on a full disk has entries, and no segment yet that they could go to. */
static bool can_write(const struct tr_log *log)
{
    return log->config.has_log && !log->is_writing && log->batch.size > 0 &&
           log->segment <= log->allocated;
}

bool tr_log_is_idle(const struct tr_log *log)
{
    TR_ASSERT(log->waiting_head <= log->waiting_tail);
    return !log->is_writing && !can_write(log) && log->waiting_head == log->waiting_tail;
}

uint64_t tr_log_segment_count(const struct tr_log *log)
{
    return log->config.has_log ? log->segment - log->oldest + 1 : 0;
}

/* When what was written last is sealed, unless more is written until then. */
static tr_mono_ms seal_at(const struct tr_log *log)
{
    bool is_idle = log->is_unsealed && !log->is_writing && log->batch.size == 0 && log->is_running;
    return is_idle ? log->written_ms + SEAL_MS : TR_NEVER;
}

tr_mono_ms tr_log_wake_at(const struct tr_log *log)
{
    bool is_retried = log->is_refused && !log->is_asked;
    tr_mono_ms at = tr_log_is_open(log) ? seal_at(log) : TR_NEVER;
    return is_retried && log->retry_at_ms < at ? log->retry_at_ms : at;
}

void tr_log_written(struct tr_log *log, uint64_t written, uint64_t synced)
{
    log->synced = synced > log->synced ? synced : log->synced;
    if (!log->is_writing || written < log->writing_end)
        return;
    TR_ASSERT(log->durable < log->number);
    log->is_writing = false;
    log->durable = log->number - 1;
}

/* A batch without entries says that the one before it was synced: what was acknowledged is known to
 * have been, also when nothing is written after it. */
static void seal(struct tr_log *log)
{
    TR_ASSERT(!log->is_sealing);
    if (log->time->now_ms < seal_at(log) || !tr_log_has_reserve(log, SEAL_SIZE))
        return;
    for (unsigned i = 0; i < SEAL_SIZE; i++)
        tr_put_number(&log->batch, 0, 1);
    log->is_sealing = true;
}

void tr_log_run(struct tr_log *log, bool may_write, struct tr_effects *out)
{
    if (!log->config.has_log)
        return;
    if (may_write)
        seal(log);
    if (may_write && can_write(log) && tr_effects_has_room(out, 1))
        tr_log_write_batch(log, out);
    tr_log_roll(log, out);
    bool is_exhausted = tr_log_is_at_reserve(log) || (log->is_refused && !tr_log_is_open(log));
    if (is_exhausted && !log->is_exhausted)
        tr_note(out, TR_NOTE_LOG_EXHAUSTED, 0, 0);
    log->is_exhausted = is_exhausted;
    tr_log_ask_segment(log, out);
}

bool tr_log_wants_tick(const struct tr_log *log)
{
    const struct tr_waiting *next =
        &log->waiting[log->waiting_head & (log->config.waiting_cap - 1)];
    bool has_answers = log->waiting_head < log->waiting_tail && next->batch <= log->durable;
    bool can_reclaim = log->is_reclaiming && !log->is_writing && tr_log_is_open(log);
    bool can_remove = log->is_removing && log->durable >= log->remove_after;
    return has_answers || can_write(log) || can_reclaim || can_remove;
}
