/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/hold.h"

#include "cluster/peer.h"
#include "replication/set.h"

#define DECIDE_MOST_MS 1500

_Static_assert(DECIDE_MOST_MS < TR_POSITION_MS, "it is decided before the next in turn acts");
_Static_assert(TR_HOLD_MS > TR_POSITION_MS, "a claim is good for longer than the next one waits");

static struct tr_recent_note *note_hold(struct tr_replication *replication, uint16_t peer,
                                        const struct tr_head *record, uint64_t hold_ms)
{
    TR_ASSERT(peer < replication->cluster->member_count);
    TR_ASSERT(hold_ms > 0);
    struct tr_recent_note *note =
        tr_recent_place(&replication->held, &record->key, replication->time->now_ms);
    if (note == NULL)
        return NULL;
    note->order = record->order;
    note->peer = peer;
    note->incarnation = replication->cluster->peers[peer].incarnation;
    tr_recent_keep(&replication->held, note, replication->time->now_ms + hold_ms);
    note->is_open = false;
    note->is_past = false;
    note->is_ahead = false;
    note->is_moved = false;
    return note;
}

/* Notes that `peer` acts on this order, and returns the note. NULL: a note of a higher order, or of
 * a higher undecided write, stays instead; or the table is full, and for a while all is held back
 * for `peer`. The note that stays may stand for a claim, too, from then on: it does not merely say
 * any more that the record has moved. */
static struct tr_recent_note *hear(struct tr_replication *replication, uint16_t peer,
                                   const struct tr_head *record)
{
    TR_ASSERT(peer < replication->cluster->member_count);
    struct tr_recent_note *held = tr_recent_find(&replication->held, &record->key);
    struct tr_order order = record->order;
    bool is_held = held != NULL && held->until_ms > replication->time->now_ms;
    int above = is_held ? tr_order_compare(&held->order, &order) : 0;
    if (is_held && held->is_ahead && above >= 0) {
        tr_mono_ms until_ms = replication->time->now_ms + TR_HOLD_MS;
        tr_recent_keep(&replication->held, held,
                       until_ms > held->until_ms ? until_ms : held->until_ms);
        held->is_moved = false;
        if (above == 0) { /* who said so first may go; this one has the record, too */
            held->peer = peer;
            held->incarnation = replication->cluster->peers[peer].incarnation;
        }
        return NULL;
    }
    if (is_held && held->is_open && above > 0)
        return NULL;
    struct tr_recent_note *note = note_hold(replication, peer, record, TR_HOLD_MS);
    if (note == NULL) {
        tr_cover(replication->trial, RULE_CLAIMS_FULL);
        replication->progress[peer].unnoted_until_ms = replication->time->now_ms + TR_HOLD_MS;
    }
    return note;
}

void tr_hold_claim(struct tr_replication *replication, uint16_t peer, const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    hear(replication, peer, record);
}

void tr_hold_past(struct tr_replication *replication, uint16_t peer, const struct tr_head *outcome)
{
    TR_ASSERT(tr_is_other(replication, peer));
    struct tr_recent_note *note = hear(replication, peer, outcome);
    if (note != NULL)
        note->is_past = true;
}

void tr_hold_ahead(struct tr_replication *replication, uint16_t peer, const struct tr_head *record)
{
    TR_ASSERT(peer < replication->cluster->member_count);
    struct tr_recent_note *note = hear(replication, peer, record);
    if (note == NULL)
        return;
    note->is_ahead = true;
    tr_recent_keep(&replication->held, note, replication->time->now_ms + TR_FRAME_LIFE_MS);
}

/* Whether a note, which may be about to give way to another one, holds back the pop that `record`
 * stands for: it is claimed, say. Of a node that stops a claim is heeded for a while after it has
 * run out. */
static bool holds_already(const struct tr_replication *replication, const struct tr_head *record)
{
    const struct tr_recent_note *note = tr_recent_find(&replication->held, &record->key);
    struct tr_order order = record->order;
    if (note == NULL || note->is_moved || note->until_ms + TR_HOLD_MS <= replication->time->now_ms)
        return false;
    order.moves = note->is_past ? UINT32_MAX : 0; /* wherever it belongs by now */
    return tr_order_compare(&note->order, &order) >= 0;
}

void tr_hold_moved(struct tr_replication *replication, uint16_t peer, const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    bool says_more = holds_already(replication, record);
    tr_hold_ahead(replication, peer, record);
    struct tr_recent_note *note = tr_recent_find(&replication->held, &record->key);
    if (note != NULL && note->is_ahead)
        note->is_moved = !says_more;
}

uint16_t tr_hold_who_is_ahead(const struct tr_replication *replication,
                              const struct tr_head *record)
{
    if (replication->held.busy_until_ms <= replication->time->now_ms)
        return TR_MEMBER_NONE;
    const struct tr_recent_note *note = tr_recent_find(&replication->held, &record->key);
    struct tr_order order = record->order;
    bool is_it = note != NULL && note->is_ahead && note->until_ms > replication->time->now_ms &&
                 tr_order_compare(&note->order, &order) > 0;
    TR_ASSERT(!is_it || note->peer < replication->cluster->member_count);
    return is_it ? note->peer : TR_MEMBER_NONE;
}

/* ---- writes that are not decided ---- */

/* How long a coordinator takes to decide; less than until the next in turn pops. This node knows
 * how far those are that it waits for. */
static uint64_t decision_ms(const struct tr_replication *replication, uint16_t peer)
{
    const struct tr_cluster *cluster = replication->cluster;
    TR_ASSERT(peer < cluster->member_count);
    uint64_t trip_ms = peer != 0 ? cluster->peers[peer].trip_ms : tr_peers_trip(cluster);
    uint64_t decision_ms = TR_DECIDE_MS + 2 * trip_ms;
    return decision_ms < DECIDE_MOST_MS ? decision_ms : DECIDE_MOST_MS;
}

/* Whether it is to be held back: it is due before that is decided. */
static bool is_undecided(const struct tr_replication *replication, uint16_t peer,
                         const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_bounded(record));
    return (record->flags & TR_RECORD_TOMBSTONE) == 0 && record->key.part == 0 &&
           record->due_ms < replication->time->steady_ms + decision_ms(replication, peer) &&
           !tr_breaks(replication->trial, MUTANT_UNDECIDED_POPS);
}

void tr_hold_prepare(const struct tr_replication *replication, uint16_t peer,
                     struct tr_head *record)
{
    TR_ASSERT(record->lag_ms <= record->due_ms);
    if (!is_undecided(replication, peer, record) ||
        tr_recent_has_place(&replication->held, &record->key, replication->time->now_ms))
        return;
    tr_cover(replication->trial, RULE_CLAIMS_FULL);
    uint64_t late_ms =
        replication->time->steady_ms + decision_ms(replication, peer) - record->due_ms;
    record->due_ms += late_ms;
    record->lag_ms += late_ms;
    TR_ASSERT(record->due_ms > replication->time->steady_ms);
}

void tr_hold_open(struct tr_replication *replication, uint16_t peer, const struct tr_head *record)
{
    TR_ASSERT(peer < replication->cluster->member_count);
    if (!is_undecided(replication, peer, record))
        return;
    struct tr_recent_note *note =
        note_hold(replication, peer, record, decision_ms(replication, peer));
    if (note != NULL)
        note->is_open = true;
}

bool tr_hold_is_open(const struct tr_replication *replication, const struct tr_head *record)
{
    if (replication->held.busy_until_ms <= replication->time->now_ms)
        return false;
    const struct tr_recent_note *note = tr_recent_find(&replication->held, &record->key);
    struct tr_order order = record->order;
    return note != NULL && note->is_open && note->until_ms > replication->time->now_ms &&
           tr_order_compare(&note->order, &order) == 0;
}

void tr_hold_close(struct tr_replication *replication, const struct tr_head *record)
{
    struct tr_head held;
    if (replication->held.busy_until_ms <= replication->time->now_ms)
        return;
    struct tr_recent_note *note = tr_recent_find(&replication->held, &record->key);
    struct tr_order order = record->order;
    if (note == NULL || !note->is_open || tr_order_compare(&note->order, &order) != 0)
        return; /* another write's */
    note->until_ms = 0;
    note->is_open = false;
    /* Of a node that stops a claim is heeded for a while after it has run out: this note, below
     * every order, holds nothing back. */
    note->order = (struct tr_order){0};
    tr_ref ref = tr_store_find_exactly(replication->store, record, &held);
    if (ref == TR_ARENA_NONE || tr_store_state_of(replication->store, ref) != TR_STORE_IDLE)
        return;
    if (replication->store->wake != NULL)
        replication->store->wake(replication->store->context, ref, &held);
}
