/* SPDX-License-Identifier: Apache-2.0 */
#include "pops/claim.h"

#include "cluster/peer.h"
#include "replication/hold.h"
#include "replication/set.h"

#define CLAIM_MS      1000
#define CLAIM_LOOK_MS 250
#define FULL          100 /* per cent */
#define CLAIM_VERSION 2   /* of frames: from it on a heartbeat tells of a backlog */

/* ---- pops under way here ---- */

static uint32_t backlog_max(const struct tr_pops *pops)
{
    uint32_t half = pops->config.claims / 2;
    return half < TR_BACKLOG_MAX ? half : TR_BACKLOG_MAX;
}

/* Due ones, for a free flight. */
static bool are_waiting(const struct tr_pops *pops)
{
    TR_ASSERT(pops->flight_count <= pops->config.flights_max);
    return pops->wheel->ready.count > 0 && !tr_pops_has_flight(pops);
}

static void look_for_backlog(struct tr_pops *pops)
{
    bool is_many = pops->flight_count + pops->stats.queued > backlog_max(pops);
    if (!is_many && !pops->is_claim_blocked && !are_waiting(pops))
        return;
    tr_cover(pops->trial, RULE_BACKLOG);
    pops->backlog_ms = pops->time->now_ms;
}

/* For a while after it had one: what others remember of that must not run out in between. One that
 * stops has claimed what is under way, and makes no other. */
bool tr_claim_has_backlog(const struct tr_pops *pops)
{
    bool may = pops->log->is_running || pops->is_claim_blocked;
    return may && pops->backlog_ms > 0 && pops->time->now_ms < pops->backlog_ms + CLAIM_MS;
}

/* Who comes before this node in turn, or in none, does not wait for its backlog. */
static bool comes_after(const struct tr_pops *pops, const struct tr_head *record, uint16_t member)
{
    TR_ASSERT(member != 0 && member < pops->cluster->member_count);
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_set_turns(pops->replication, record, record->order.attempt, turns);
    bool is_after = false;
    for (unsigned i = 0; i < count; i++) {
        if (turns[i] == member)
            return is_after;
        is_after |= turns[i] == 0;
    }
    return false;
}

/* False: the claim cannot be sent to one of them now. */
static bool claim(struct tr_pops *pops, const struct tr_head *record, bool is_forced)
{
    TR_ASSERT(tr_set_is_bounded(record));
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_breaks(pops->trial, MUTANT_NO_CLAIMS) ? 0 : tr_set_names(record, names);
    bool is_sent = true;
    bool is_summed_up = !is_forced && tr_claim_has_backlog(pops);
    pops->stats.claims++;
    for (unsigned i = 0; i < count; i++) {
        const struct tr_peer *peer = &pops->cluster->peers[names[i]];
        bool is_meant = tr_set_has(record, names[i]) || !tr_breaks(pops->trial, MUTANT_ONE_SET);
        if (names[i] == 0 || !is_meant || peer->link != LINK_GREETED ||
            (is_summed_up && peer->version >= CLAIM_VERSION && comes_after(pops, record, names[i])))
            continue;
        tr_cover(pops->trial, RULE_CLAIMED);
        is_sent &= tr_replication_send(pops->replication, names[i],
                                       (struct tr_message){
                                           .kind = MESSAGE_CLAIM,
                                           .key = record->key,
                                           .order = record->order,
                                       });
    }
    if (!is_sent)
        tr_cover(pops->trial, RULE_CLAIM_BLOCKED);
    return is_sent;
}

/* What is late by as much may be about to be made by the next in turn. */
static bool is_late(const struct tr_pops *pops, const struct tr_head *record)
{
    tr_steady_ms own_ms = record->due_ms - (record->order.attempt == 0 ? record->lag_ms : 0);
    return pops->time->steady_ms >= own_ms + TR_SUSPECT_MS && record->replicas.count > 1;
}

/* Another node comes first, and is up: it may be about to make pops again. Not while its disk is
 * full. */
static bool is_of_another(const struct tr_pops *pops, const struct tr_head *record)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_set_turns(pops->replication, record, record->order.attempt, turns);
    uint16_t first = count > 0 ? turns[0] : TR_MEMBER_NONE;
    return first != 0 && first != TR_MEMBER_NONE && tr_peer_is_up(pops->cluster, first) &&
           pops->cluster->peers[first].fill < FULL;
}

void tr_claim_later(struct tr_pops *pops, tr_ref ref, const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_fifo_entry entry = {ref, pops->time->steady_ms + CLAIM_MS};
    if (tr_set_is_own(record))
        return; /* nobody else would make it */
    if (is_late(pops, record) || is_of_another(pops, record)) {
        tr_cover(pops->trial, RULE_CLAIMED_AT_ONCE);
        if (!claim(pops, record, false))
            entry.due_ms = pops->time->steady_ms;
    }
    if (!tr_fifo_push(&pops->claiming, pops->arena, entry))
        pops->is_claim_blocked = true; /* until the next look at them */
}

void tr_claim_now(struct tr_pops *pops)
{
    pops->claim_ms = pops->time->now_ms;
    pops->is_claiming_all = true;
    /* A claim is due again then that was sent in this very millisecond, when the node that comes
     * back had not greeted yet. */
    pops->claimed_from_ms = pops->time->steady_ms + CLAIM_MS;
}

/* Claims what is still under way; what has ended falls out. */
void tr_claim_run(struct tr_pops *pops)
{
    look_for_backlog(pops);
    if (pops->claiming.count == 0) {
        pops->is_claiming_all = false;
        pops->is_claim_blocked = false;
    }
    if (pops->claiming.count == 0 || pops->time->now_ms < pops->claim_ms)
        return;
    pops->claim_ms = pops->time->now_ms + CLAIM_LOOK_MS;
    bool is_all = pops->is_claiming_all;
    bool is_blocked = false;
    for (uint32_t count = pops->claiming.count; count > 0; count--) {
        struct tr_head record;
        struct tr_fifo_entry entry = tr_fifo_pop(&pops->claiming, pops->arena);
        if (!tr_arena_holds(pops->arena, entry.ref))
            continue;
        enum tr_record_state state = pops->owner.state(pops->owner.context, entry.ref);
        if (state != TR_STATE_QUEUED && state != TR_STATE_FLYING)
            continue;
        bool is_missed = is_all && entry.due_ms <= pops->claimed_from_ms;
        if ((is_missed || entry.due_ms <= pops->time->steady_ms) && !is_blocked) {
            pops->owner.head(pops->owner.context, entry.ref, &record);
            is_blocked = !claim(pops, &record, is_all);
            if (!is_blocked)
                entry.due_ms = pops->time->steady_ms + CLAIM_MS;
        }
        tr_fifo_push(&pops->claiming, pops->arena, entry);
    }
    pops->is_claim_blocked = is_blocked;
    pops->is_claiming_all = is_all && is_blocked;
}

void tr_claim_flights(struct tr_pops *pops)
{
    TR_ASSERT(pops->flight_fresh <= pops->config.flights_max);
    for (uint32_t i = 0; i < pops->flight_fresh; i++) {
        struct tr_head record;
        const struct tr_flight *flight = &pops->flights[i];
        if (!flight->is_used || !tr_arena_holds(pops->arena, flight->ref) ||
            pops->owner.state(pops->owner.context, flight->ref) != TR_STATE_FLYING)
            continue;
        pops->owner.head(pops->owner.context, flight->ref, &record);
        if (!claim(pops, &record, true)) {
            pops->is_claim_blocked = true;
            tr_claim_now(pops);
        }
    }
}

tr_mono_ms tr_claim_wake_at(const struct tr_pops *pops)
{
    return pops->claiming.count == 0 ? TR_NEVER : pops->claim_ms;
}

/* ---- pops of others ---- */

/* By a heartbeat. One that stops and has none makes nothing more but what it has claimed. */
void tr_claim_backlog_heard(struct tr_pops *pops, uint16_t index)
{
    TR_ASSERT(index != 0 && index < pops->cluster->member_count);
    struct tr_peer *peer = &pops->cluster->peers[index];
    struct tr_claimant *claimant = &pops->claimants[index];
    bool is_stopping = (peer->flags & (TR_BEAT_POPPING | TR_BEAT_READY)) == TR_BEAT_READY;
    if ((peer->flags & TR_BEAT_BACKLOG) != 0)
        claimant->backlog_until_ms = pops->time->now_ms + TR_HOLD_MS;
    else if (is_stopping)
        claimant->backlog_until_ms = 0;
}

/* Until when a pop that is due now may be in the backlog of a node. */
static tr_mono_ms backlog_end(const struct tr_pops *pops, const struct tr_head *record,
                              uint16_t index)
{
    TR_ASSERT(index != 0 && index < pops->cluster->member_count);
    const struct tr_peer *peer = &pops->cluster->peers[index];
    const struct tr_claimant *claimant = &pops->claimants[index];
    tr_mono_ms due_ms = record->due_ms - pops->time->steady_base;
    bool is_popping = (peer->flags & TR_BEAT_POPPING) != 0;
    if (!is_popping && due_ms > claimant->popped_ms)
        return 0; /* it has begun nothing since then */
    tr_mono_ms unnoted_ms = pops->replication->progress[index].unnoted_until_ms;
    tr_mono_ms until_ms =
        claimant->backlog_until_ms > unnoted_ms ? claimant->backlog_until_ms : unnoted_ms;
    return peer->is_up || until_ms < peer->up_ms ? until_ms : peer->up_ms;
}

/* The latest that a node which comes before this one may have it in its backlog. */
static tr_mono_ms backlogs_end(const struct tr_pops *pops, const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_bounded(record));
    uint16_t turns[TR_NAMES_MAX];
    tr_mono_ms latest_ms = 0;
    if (record->due_ms > pops->time->steady_ms || tr_set_is_own(record))
        return 0;
    unsigned count = tr_set_turns(pops->replication, record, record->order.attempt, turns);
    for (unsigned i = 0; i < count && turns[i] != 0; i++) {
        tr_mono_ms end_ms = turns[i] != TR_MEMBER_NONE ? backlog_end(pops, record, turns[i]) : 0;
        latest_ms = end_ms > latest_ms ? end_ms : latest_ms;
    }
    return latest_ms;
}

static bool is_in_backlog(const struct tr_pops *pops, const struct tr_head *record)
{
    bool is_in = backlogs_end(pops, record) > pops->time->now_ms;
    if (is_in)
        tr_cover(pops->trial, RULE_BACKLOG_HELD);
    return is_in;
}

tr_steady_ms tr_claim_held_until(const struct tr_pops *pops, const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_bounded(record));
    const struct tr_recent_note *note = tr_recent_find(&pops->replication->held, &record->key);
    tr_mono_ms end_ms = backlogs_end(pops, record);
    if (note != NULL && note->peer != 0 && !note->is_past && !note->is_ahead) {
        const struct tr_peer *peer = &pops->cluster->peers[note->peer];
        bool is_cut = !peer->is_up && peer->up_ms < note->until_ms;
        tr_mono_ms claim_ms = is_cut ? peer->up_ms : note->until_ms;
        end_ms = claim_ms > end_ms ? claim_ms : end_ms;
    }
    end_ms = end_ms < pops->time->now_ms ? end_ms : pops->time->now_ms;
    return end_ms == 0 ? 0 : end_ms + pops->time->steady_base;
}

bool tr_claim_is_held(const struct tr_pops *pops, const struct tr_head *record)
{
    const struct tr_recent *held = &pops->replication->held;
    bool is_idle = held->busy_until_ms + TR_HOLD_MS <= pops->time->now_ms;
    const struct tr_recent_note *claimed = is_idle ? NULL : tr_recent_find(held, &record->key);
    if (claimed == NULL)
        return is_in_backlog(pops, record);
    const struct tr_peer *peer = &pops->cluster->peers[claimed->peer];
    struct tr_order order = record->order;
    if (!claimed->is_ahead) /* wherever it belongs by now, it is the same pop */
        order.moves = claimed->is_past ? UINT32_MAX : 0;

    /* A node that stops sees its claims through, and says so as often as it gets to it. */
    bool is_stopping = (peer->flags & TR_BEAT_POPPING) == 0 && (peer->flags & TR_BEAT_READY) != 0;
    uint64_t more_ms = is_stopping && !claimed->is_open ? TR_HOLD_MS : 0;
    bool is_there =
        claimed->peer == 0 || (peer->is_up && peer->incarnation == claimed->incarnation);
    int above = tr_order_compare(&claimed->order, &order); /* above 0: it is on its way */
    bool is_held = claimed->until_ms + more_ms > pops->time->now_ms && is_there && above >= 0;
    /* The record had only moved on, which this node has heard of since: it pops here in turn. */
    if (above == 0 && claimed->is_moved && tr_set_has(record, 0))
        is_held = false;
    if (is_held && claimed->is_open)
        tr_cover(pops->trial, RULE_UNDECIDED);
    return is_held || is_in_backlog(pops, record);
}
