/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/due.h"

#include "pops/claim.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "pops/turn.h"
#include "replication/pending.h"
#include "replication/tombstone.h"
#include "timers/store.h"

#define TOMBSTONE_LOOK_MS 15000
#define DUE_SLICE         2048  /* timers taken from the wheel in a step, so that none is long */
#define STALE_MIN         65536 /* entries of the wheel that may be stale before it is swept */
#define SWEEP_SLICE       2048

/* A record in the wheel under its due time, or, for one that waits for its turn, under a later one.
 * An entry too many does no harm: it is looked at, and its turn has not come; when the pop is made
 * it is gone. Not so with tombstones, which may wait for long and hear of many changes. */
static bool is_live(const struct tr_timers *timers, const struct tr_fifo_entry *entry)
{
    if (!tr_replication_is_clustered(timers->replication))
        return tr_book_matches(&timers->book, entry->ref, TR_STATE_ARMED, entry->due_ms);
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
    bool is_armed = tr_wheel_arm(&timers->wheel, ref, at_ms);
    TR_ASSERT(is_armed);
}

/* Under a due time of its own: of all entries that it has had, one is live. */
static void keep_tombstone(struct tr_timers *timers, tr_ref ref, struct tr_record *record)
{
    tr_steady_ms at_ms = timers->time->steady_ms + TOMBSTONE_LOOK_MS;
    uint8_t acked = tr_book_acked(&timers->book, ref);
    record->head.lag_ms += at_ms - record->head.due_ms;
    record->head.due_ms = at_ms;
    tr_ref placed = tr_book_update(&timers->book, ref, &record->head);
    TR_ASSERT(placed != TR_ARENA_NONE); /* it grows by a byte or two, from the arena's reserve */
    tr_book_set_acked(&timers->book, placed, acked);
    tr_timers_arm(timers, placed);
    if (placed != ref)
        tr_pending_add(timers->replication, placed, &record->head);
}

/* True: it was put off. */
static bool put_off(struct tr_timers *timers, tr_ref ref)
{
    struct tr_record record;
    if (!tr_replication_is_clustered(timers->replication))
        return false;
    tr_book_unpack(&timers->book, ref, &record);
    if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0) {
        bool is_kept = !tr_tombstone_may_forget(timers->replication, ref, &record.head,
                                                timers->stats.tombstones);
        if (is_kept)
            keep_tombstone(timers, ref, &record);
        return is_kept;
    }
    if ((record.head.flags & TR_RECORD_DEAD) != 0)
        return false; /* it was kept for long enough, by each on its own */
    tr_steady_ms at_ms = timers->replication->is_popping
                             ? tr_turn_at(timers->pops, &record.head)
                             : timers->time->steady_ms + TR_TURN_LOOK_MS;
    if (at_ms <= timers->time->steady_ms)
        return false;
    tr_due_look_again(timers, ref, at_ms);
    return true;
}

void tr_due_run(struct tr_timers *timers, struct tr_effects *out)
{
    struct tr_fifo_entry entry;
    if (!timers->replication->is_popping && !tr_replication_is_clustered(timers->replication))
        return;
    tr_wheel_advance(&timers->wheel, timers->time->steady_ms);
    for (unsigned i = 0; i < tr_replication_slice(timers->replication, DUE_SLICE); i++) {
        if (!tr_flight_can_begin(timers->pops) || !tr_effects_has_room(out, 8) ||
            !tr_wheel_pop(&timers->wheel, &entry))
            return;
        if (!is_live(timers, &entry)) {
            timers->stale -= timers->stale > 0;
            continue;
        }
        if (put_off(timers, entry.ref))
            continue;
        if ((tr_book_flags(&timers->book, entry.ref) & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) !=
            0) {
            tr_book_set_state(&timers->book, entry.ref, TR_STATE_UNSAFE); /* out of the wheel */
            tr_timers_remove(timers, entry.ref);
            continue;
        }
        tr_destination_take(timers->pops, entry.ref, out);
    }
}

/* Takes stale entries out of the wheel when they are many, a slice at a time. */
void tr_due_sweep(struct tr_timers *timers)
{
    uint64_t live = timers->wheel.count - (timers->stale < timers->wheel.count ? timers->stale : 0);
    if (!timers->is_sweeping && timers->stale > STALE_MIN && timers->stale > live / 2)
        timers->is_sweeping = true;
    for (unsigned i = 0;
         timers->is_sweeping && i < tr_replication_slice(timers->replication, SWEEP_SLICE); i++) {
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
    const struct tr_replication *replication = timers->replication;
    bool may_pop = timers->log->is_running &&
                   (replication->is_popping || tr_replication_is_clustered(replication));
    uint64_t at = may_pop ? tr_wheel_wake_at(&timers->wheel) : TR_WHEEL_NEVER;
    if (at <= timers->time->steady_ms && !tr_flight_can_begin(timers->pops))
        at = TR_WHEEL_NEVER; /* a callback that ends, or a segment, will move it on */
    return at == TR_WHEEL_NEVER ? TR_NEVER : at - timers->time->steady_base;
}
