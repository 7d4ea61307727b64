/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/due.h"

#include "log/batch.h"
#include "pops/claim.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "pops/turn.h"
#include "replication/pending.h"
#include "replication/tombstone.h"
#include "timers/outcome.h"
#include "timers/schedule.h"
#include "timers/store.h"

#define TOMBSTONE_LOOK_MS 15000
#define DUE_SLICE         2048  /* timers taken from the wheel in a step, so that none is long */
#define STALE_MIN         65536 /* entries of the wheel that may be stale before it is swept */
#define SWEEP_SLICE       2048
#define SWEEP_SHARE       32 /* of what is stale, beside that: who makes more is kept up with */
#define SWEEP_MOST        16384

/* A record in the wheel under its due time, or, for one that waits for its turn, under a later one.
 * An entry too many does no harm: it is looked at, and its turn has not come; when the pop is made
 * it is gone. Not so with tombstones, which may wait for long and hear of many changes. */
static bool is_live(const struct tr_timers *timers, const struct tr_fifo_entry *entry)
{
    if (!tr_arena_holds(timers->arena, entry->ref) ||
        tr_book_state(&timers->book, entry->ref) != TR_STATE_ARMED)
        return false;
    tr_steady_ms due_ms = tr_book_due(&timers->book, entry->ref);
    if ((tr_book_flags(&timers->book, entry->ref) & TR_RECORD_TOMBSTONE) != 0)
        return entry->due_ms == due_ms;
    return entry->due_ms >= due_ms; /* a claim may hold it back for as long as it likes */
}

void tr_due_look_again(struct tr_timers *timers, tr_ref ref, tr_steady_ms at_ms)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    bool is_armed = tr_wheel_arm(&timers->wheel, ref, at_ms);
    TR_ASSERT(is_armed);
}

/* Under a due time of its own: of all entries that it has had, one is live. */
static void keep_tombstone(struct tr_timers *timers, tr_ref ref, struct tr_head *head)
{
    TR_ASSERT((head->flags & TR_RECORD_TOMBSTONE) != 0);
    tr_steady_ms at_ms = timers->time->steady_ms + TOMBSTONE_LOOK_MS;
    uint8_t acked = tr_book_acked(&timers->book, ref);
    head->lag_ms += at_ms - head->due_ms;
    head->due_ms = at_ms;
    tr_ref placed = tr_book_update(&timers->book, ref, head);
    TR_ASSERT(placed != TR_ARENA_NONE); /* there is room for its lag to grow */
    tr_book_set_acked(&timers->book, placed, acked);
    tr_timers_arm(timers, placed);
    if (placed != ref)
        tr_pending_add(timers->replication, placed, head);
}

/* True: its turn has not come, or a tombstone is still needed, and it is looked at again later. */
static bool put_off(struct tr_timers *timers, tr_ref ref, struct tr_head *head)
{
    TR_ASSERT(tr_book_state(&timers->book, ref) == TR_STATE_ARMED);
    if ((head->flags & TR_RECORD_TOMBSTONE) != 0) {
        bool is_kept =
            !tr_tombstone_may_forget(timers->replication, ref, head, timers->stats.tombstones);
        if (is_kept)
            keep_tombstone(timers, ref, head);
        return is_kept;
    }
    if ((head->flags & TR_RECORD_DEAD) != 0)
        return false; /* it was kept for long enough, by each on its own */
    tr_steady_ms at_ms = tr_replication_is_popping(timers->replication)
                             ? tr_turn_at(timers->pops, head)
                             : timers->time->steady_ms + TR_TURN_LOOK_MS;
    if (at_ms <= timers->time->steady_ms)
        return false;
    tr_due_look_again(timers, ref, at_ms);
    return true;
}

/* A pop that fell due while nobody could make it, and the next one, too: the timer may go on
 * without it. True: it has, or there was no room to say so, and it is looked at again. */
static bool pass_over(struct tr_timers *timers, tr_ref ref, struct tr_record *record)
{
    struct tr_head next;
    enum tr_pass pass =
        record->plan.size > 0 ? tr_schedule_pass(timers, record, &next) : TR_PASS_NONE;
    if (pass == TR_PASS_NONE)
        return false;
    if (tr_log_has_room(timers->log, TR_OUTCOME_ROOM + tr_log_record_bound(record), false) &&
        tr_replication_has_room(timers->replication, &record->head))
        tr_outcome_go_on(timers, ref, record, pass == TR_PASS_ON ? &next : NULL, REPLICATE_AT_ONCE);
    else
        tr_due_look_again(timers, ref, timers->time->steady_ms + TR_TURN_LOOK_MS);
    return true;
}

/* The clock by which it is due was set, a moment ago: it is not due any more. */
static bool is_put_back(struct tr_timers *timers, tr_ref ref, const struct tr_record *record)
{
    struct tr_head head = record->head;
    tr_schedule_by_wall(timers, record, &head);
    if (head.due_ms <= timers->time->steady_ms)
        return false;
    tr_timers_redate(timers, ref, &head);
    return true;
}

/* Of a record that has a plan: true, it does not pop now. */
static bool is_passed(struct tr_timers *timers, tr_ref ref)
{
    struct tr_record record;
    if (tr_book_is_plain(&timers->book, ref))
        return false;
    tr_book_unpack(&timers->book, ref, &record);
    return is_put_back(timers, ref, &record) || pass_over(timers, ref, &record);
}

/* Out of the wheel: it is popped, put off, passed over or forgotten. */
static void take(struct tr_timers *timers, tr_ref ref, struct tr_effects *out)
{
    struct tr_head head;
    tr_book_head(&timers->book, ref, &head);
    if (put_off(timers, ref, &head))
        return;
    if ((head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) == 0) {
        if (!is_passed(timers, ref))
            tr_destination_take(timers->pops, ref, &head, out);
        return;
    }
    tr_book_set_state(&timers->book, ref, TR_STATE_UNSAFE);
    tr_timers_remove(timers, ref);
}

void tr_due_run(struct tr_timers *timers, struct tr_effects *out)
{
    struct tr_fifo_entry entry;
    if (timers->cluster->view.count == 0)
        return; /* whose turn it is, is not known yet */
    tr_wheel_advance(&timers->wheel, timers->time->steady_ms);
    for (unsigned i = 0; i < tr_replication_slice(timers->replication, DUE_SLICE); i++) {
        if (!tr_flight_can_begin(timers->pops) || !tr_effects_has_room(out, 8) ||
            !tr_wheel_pop(&timers->wheel, &entry))
            return;
        if (is_live(timers, &entry))
            take(timers, entry.ref, out);
        else
            timers->stale -= timers->stale > 0;
    }
}

/* Takes stale entries out of the wheel when they are many, a slice at a time. */
void tr_due_sweep(struct tr_timers *timers)
{
    TR_ASSERT(timers->is_ready);
    uint64_t stale = timers->stale;
    uint64_t live = timers->wheel.count - (stale < timers->wheel.count ? stale : 0);
    bool is_tight = tr_arena_is_tight(timers->arena) && stale > live / 8 + SWEEP_SLICE;
    if (!timers->is_sweeping && (is_tight || (stale > STALE_MIN && stale > live / 2)))
        timers->is_sweeping = true;
    uint64_t share = stale / SWEEP_SHARE < SWEEP_MOST ? stale / SWEEP_SHARE : SWEEP_MOST;
    unsigned slice = tr_replication_slice(timers->replication, SWEEP_SLICE) + (unsigned)share;
    for (unsigned i = 0; timers->is_sweeping && i < slice; i++) {
        struct tr_fifo_entry entry;
        if (!tr_wheel_sweep_take(&timers->wheel, &entry)) {
            timers->is_sweeping = false;
            timers->stale = 0;
        } else if (is_live(timers, &entry)) {
            tr_wheel_sweep_keep(&timers->wheel, entry);
        } else {
            timers->stale -= timers->stale > 0;
            timers->stats.swept++;
        }
    }
}

tr_mono_ms tr_due_wake_at(const struct tr_timers *timers)
{
    bool may_pop = timers->log->is_running && timers->cluster->view.count > 0;
    uint64_t at = may_pop ? tr_wheel_wake_at(&timers->wheel) : TR_WHEEL_NEVER;
    if (at <= timers->time->steady_ms && !tr_flight_can_begin(timers->pops))
        at = TR_WHEEL_NEVER; /* a callback that ends, or a segment, will move it on */
    return at == TR_WHEEL_NEVER ? TR_NEVER : at - timers->time->steady_base;
}
