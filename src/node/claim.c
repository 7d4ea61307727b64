/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: a pop that is not settled a second after it was handed out is claimed by the node that
 * makes it, and again each second while it waits for its receiver or is under way; one that is made
 * late, at once. Whoever hears of a claim holds back for three seconds. So a slow receiver is not
 * called twice; and nobody waits for the dead, since a claim is void when its node is down or has
 * started anew.
 *
 * A node with more pops under way than it can claim one by one, or with pops that wait for a free
 * flight, says that it has a backlog: those who come after it leave to it all that is due. The same
 * is done for a node that claims more than the table of claims has room for. So a full table, or a
 * full queue, makes pops late and never makes them twice.
 */
#include "node/internal.h"

#define CLAIM_MS      1000
#define CLAIM_LOOK_MS 250
#define CLAIM_VERSION 2 /* of frames: from it on a heartbeat tells of a backlog */

/* ---- pops under way here ---- */

static uint32_t backlog_max(const struct tr_node *node)
{
    uint32_t half = node->config.limits.claims / 2;
    return half < BACKLOG_MAX ? half : BACKLOG_MAX;
}

static void look_for_backlog(struct tr_node *node)
{
    bool is_many = node->flight_count + node->stats.queued > backlog_max(node);
    if (!is_many && !node->is_claim_blocked && !tr_pops_wait(node))
        return;
    tr_cover(&node->trial, RULE_BACKLOG);
    node->backlog_ms = node->time.now_ms;
}

/* For a while after it had one: what others remember of that must not run out in between. One that
 * stops has claimed what is under way, and makes no other. */
bool tr_has_backlog(const struct tr_node *node)
{
    bool may = node->phase == PHASE_READY || node->is_claim_blocked;
    return may && node->backlog_ms > 0 && node->time.now_ms < node->backlog_ms + CLAIM_MS;
}

/* Who comes before this node in turn, or in none, does not wait for its backlog. */
static bool comes_after(const struct tr_node *node, const struct tr_head *record, uint16_t member)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_set_turns(&node->replication, record, record->order.attempt, turns);
    bool is_after = false;
    for (unsigned i = 0; i < count; i++) {
        if (turns[i] == member)
            return is_after;
        is_after |= turns[i] == 0;
    }
    return false;
}

/* False: somebody cannot be told now. */
static bool claim(struct tr_node *node, const struct tr_head *record, bool is_forced)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_breaks(&node->trial, MUTANT_NO_CLAIMS) ? 0 : tr_set_names(record, names);
    bool is_told = true;
    bool is_summed_up = !is_forced && tr_has_backlog(node);
    node->stats.claims++;
    for (unsigned i = 0; i < count; i++) {
        const struct tr_peer *peer = &node->cluster.peers[names[i]];
        bool is_meant =
            tr_set_is_listed(record, names[i]) || !tr_breaks(&node->trial, MUTANT_ONE_LIST);
        if (names[i] == 0 || !is_meant || !peer->is_greeted ||
            (is_summed_up && peer->version >= CLAIM_VERSION && comes_after(node, record, names[i])))
            continue;
        tr_cover(&node->trial, RULE_CLAIMED);
        is_told &= tr_replication_send(&node->replication, names[i],
                                       (struct tr_message){
                                           .kind = MESSAGE_CLAIM,
                                           .key = record->key,
                                           .order = record->order,
                                       });
    }
    if (!is_told)
        tr_cover(&node->trial, RULE_CLAIM_BLOCKED);
    return is_told;
}

/* What is late by as much may be about to be made by the next in turn. */
static bool is_late(const struct tr_node *node, const struct tr_head *record)
{
    tr_steady_ms own_ms = record->due_ms - (record->order.attempt == 0 ? record->lag_ms : 0);
    return node->time.steady_ms >= own_ms + TR_SUSPECT_MS && record->replicas.count > 1;
}

void tr_claim_later(struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    struct tr_fifo_entry entry = {ref, node->time.steady_ms + CLAIM_MS};
    if (!tr_is_clustered(node))
        return;
    if (is_late(node, record)) {
        tr_cover(&node->trial, RULE_CLAIMED_AT_ONCE);
        if (!claim(node, record, false))
            entry.due_ms = node->time.steady_ms;
    }
    if (!tr_fifo_push(&node->claiming, &node->arena, entry))
        node->is_claim_blocked = true; /* until the next look at them */
}

void tr_claim_now(struct tr_node *node)
{
    node->claim_ms = node->time.now_ms;
    node->is_claiming_all = true;
    node->claimed_from_ms =
        node->time.steady_ms + CLAIM_MS; /* what is due by then is not claimed yet */
}

/* Claims what is still under way; what is settled falls out. */
void tr_claims_run(struct tr_node *node)
{
    look_for_backlog(node);
    if (node->claiming.count == 0) {
        node->is_claiming_all = false;
        node->is_claim_blocked = false;
    }
    if (node->claiming.count == 0 || node->time.now_ms < node->claim_ms)
        return;
    node->claim_ms = node->time.now_ms + CLAIM_LOOK_MS;
    bool is_all = node->is_claiming_all;
    bool is_blocked = false;
    for (uint32_t count = node->claiming.count; count > 0; count--) {
        struct tr_head record;
        struct tr_fifo_entry entry = tr_fifo_pop(&node->claiming, &node->arena);
        if (!tr_arena_holds(&node->arena, entry.ref))
            continue;
        enum tr_record_state state = tr_book_state(&node->book, entry.ref);
        if (state != TR_STATE_QUEUED && state != TR_STATE_FLYING)
            continue;
        bool is_missed = is_all && entry.due_ms < node->claimed_from_ms;
        if ((is_missed || entry.due_ms <= node->time.steady_ms) && !is_blocked) {
            tr_book_head(&node->book, entry.ref, &record);
            is_blocked = !claim(node, &record, is_all);
            if (!is_blocked)
                entry.due_ms = node->time.steady_ms + CLAIM_MS;
        }
        tr_fifo_push(&node->claiming, &node->arena, entry);
    }
    node->is_claim_blocked = is_blocked;
    node->is_claiming_all = is_all && is_blocked;
}

void tr_claim_flights(struct tr_node *node)
{
    for (uint32_t i = 0; i < node->flight_fresh; i++) {
        struct tr_head record;
        const struct tr_flight *flight = &node->flights[i];
        if (!flight->is_used || !tr_arena_holds(&node->arena, flight->ref) ||
            tr_book_state(&node->book, flight->ref) != TR_STATE_FLYING)
            continue;
        tr_book_head(&node->book, flight->ref, &record);
        if (!claim(node, &record, true)) {
            node->is_claim_blocked = true;
            tr_claim_now(node);
        }
    }
}

tr_mono_ms tr_claims_wake_at(const struct tr_node *node)
{
    return node->claiming.count == 0 ? TR_NEVER : node->claim_ms;
}

/* ---- pops of others ---- */

/* By a heartbeat. One that stops and has none makes nothing more but what it has claimed. */
void tr_backlog_heard(struct tr_node *node, uint16_t index)
{
    struct tr_peer *peer = &node->cluster.peers[index];
    struct tr_claimant *claimant = &node->claimants[index];
    bool is_stopping = (peer->flags & (TR_BEAT_POPPING | TR_BEAT_READY)) == TR_BEAT_READY;
    if ((peer->flags & TR_BEAT_BACKLOG) != 0)
        claimant->backlog_until_ms = node->time.now_ms + TR_HOLD_MS;
    else if (is_stopping)
        claimant->backlog_until_ms = 0;
}

/* Until when a pop that is due now may be in the backlog of a node. */
static tr_mono_ms backlog_end(const struct tr_node *node, const struct tr_head *record,
                              uint16_t index)
{
    const struct tr_peer *peer = &node->cluster.peers[index];
    const struct tr_claimant *claimant = &node->claimants[index];
    tr_mono_ms due_ms = record->due_ms - node->time.steady_base;
    bool is_popping = (peer->flags & TR_BEAT_POPPING) != 0;
    if (!is_popping && due_ms > claimant->popped_ms)
        return 0; /* it has begun nothing since then */
    tr_mono_ms unnoted_ms = node->replication.progress[index].unnoted_until_ms;
    tr_mono_ms until_ms =
        claimant->backlog_until_ms > unnoted_ms ? claimant->backlog_until_ms : unnoted_ms;
    return peer->is_up || until_ms < peer->up_ms ? until_ms : peer->up_ms;
}

/* The latest that a node which comes before this one may have it in its backlog. */
static tr_mono_ms backlogs_end(const struct tr_node *node, const struct tr_head *record)
{
    uint16_t turns[TR_NAMES_MAX];
    tr_mono_ms latest_ms = 0;
    if (record->due_ms > node->time.steady_ms)
        return 0;
    unsigned count = tr_set_turns(&node->replication, record, record->order.attempt, turns);
    for (unsigned i = 0; i < count && turns[i] != 0; i++) {
        tr_mono_ms end_ms = turns[i] != TR_MEMBER_NONE ? backlog_end(node, record, turns[i]) : 0;
        latest_ms = end_ms > latest_ms ? end_ms : latest_ms;
    }
    return latest_ms;
}

static bool is_in_backlog(const struct tr_node *node, const struct tr_head *record)
{
    bool is_in = backlogs_end(node, record) > node->time.now_ms;
    if (is_in)
        tr_cover(&node->trial, RULE_BACKLOG_HELD);
    return is_in;
}

tr_steady_ms tr_held_until(const struct tr_node *node, const struct tr_head *record)
{
    const struct tr_recent_note *note = tr_recent_find(&node->replication.held, &record->key);
    tr_mono_ms end_ms = backlogs_end(node, record);
    if (note != NULL && note->peer != 0 && !note->is_past && !note->is_moved) {
        const struct tr_peer *peer = &node->cluster.peers[note->peer];
        bool is_cut = !peer->is_up && peer->up_ms < note->until_ms;
        tr_mono_ms claim_ms = is_cut ? peer->up_ms : note->until_ms;
        end_ms = claim_ms > end_ms ? claim_ms : end_ms;
    }
    end_ms = end_ms < node->time.now_ms ? end_ms : node->time.now_ms;
    return end_ms == 0 ? 0 : end_ms + node->time.steady_base;
}

bool tr_is_claimed(const struct tr_node *node, const struct tr_head *record)
{
    const struct tr_recent_note *claimed = tr_recent_find(&node->replication.held, &record->key);
    if (claimed == NULL)
        return is_in_backlog(node, record);
    const struct tr_peer *peer = &node->cluster.peers[claimed->peer];
    struct tr_order order = record->order;
    if (!claimed->is_moved) /* wherever it belongs by now, it is the same pop */
        order.moves = claimed->is_past ? UINT32_MAX : 0;

    /* A node that stops sees its claims through, and says so as often as it gets to it. */
    bool is_stopping = (peer->flags & TR_BEAT_POPPING) == 0 && (peer->flags & TR_BEAT_READY) != 0;
    uint64_t more_ms = is_stopping && !claimed->is_open ? TR_HOLD_MS : 0;
    bool is_there =
        claimed->peer == 0 || (peer->is_up && peer->incarnation == claimed->incarnation);
    bool is_held = claimed->until_ms + more_ms > node->time.now_ms && is_there &&
                   tr_order_compare(&claimed->order, &order) >= 0; /* higher: it is on its way */
    if (is_held && claimed->is_open)
        tr_cover(&node->trial, RULE_UNDECIDED);
    return is_held || is_in_backlog(node, record);
}
