/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/catchup.h"

#include "cluster/clock.h"
#include "cluster/peer.h"
#include "cluster/view.h"
#include "replication/hold.h"
#include "replication/rebalance.h"

#define SILENT_MS      2000 /* a silent node is waited for as long */
#define SILENT_MOST_MS 10000
#define FULL_MOST_MS   60000 /* while its own disk is full, which may be all the time */
#define AHEAD_MS       500   /* half of it is for others to hear, half to hear that they have */
#define AHEAD_MOST_MS  4000
#define LOOK_MS        50
#define LATE_MS        20                   /* a step that is later than asked for by as much */
#define DOUBTED_MS     (TR_SUSPECT_MS - 50) /* heartbeats, and claims, take some time */

_Static_assert(TR_SUSPECT_MS < SILENT_MS && SILENT_MS < SILENT_MOST_MS,
               "a node that is waited for has had time to be heard");
_Static_assert(AHEAD_MS < AHEAD_MOST_MS, "an announcement may be given more time");

/* What was missed is heard before anything pops. */
void tr_catchup_begin(struct tr_replication *replication)
{
    TR_ASSERT(replication->cluster->view.count > 0);
    const struct tr_store *store = replication->store;
    bool was_popping = tr_replication_is_popping(replication);
    bool is_broken = tr_breaks(replication->trial, MUTANT_NO_CATCHUP);
    replication->catchup = is_broken ? CATCHUP_OVER : CATCHUP_HEARING;
    replication->is_serving |= is_broken;
    replication->catchup_ms = replication->time->now_ms;
    replication->stats.catchups++;
    replication->ahead_least_ms = AHEAD_MS;
    if (!is_broken && store->pause != NULL)
        store->pause(store->context, was_popping);
    for (uint32_t i = 1; i < replication->cluster->member_count; i++)
        replication->progress[i].has_said_all = false;
}

/* Every other node has said that it has nothing pending for this one, or is silent. A node whose
 * view names nobody else waits for the nodes that it knew before, and may have yet to hear of. */
static bool has_heard_all(const struct tr_replication *replication)
{
    TR_ASSERT(replication->catchup == CATCHUP_HEARING);
    bool is_alone = !tr_view_has_others(replication->cluster);
    bool was_full = replication->refused_ms > replication->catchup_ms;
    tr_mono_ms begun_ms = was_full ? replication->refused_ms : replication->catchup_ms;
    for (uint32_t i = 1; i < replication->cluster->member_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        const struct tr_progress *progress = &replication->progress[i];
        /* A node that joins waits longer for silent nodes, which may have yet to hear of it. Any
         * node waits as long for a peer whose link is open: its greeting is on its way. */
        bool is_coming = peer->link != LINK_DOWN && !peer->is_up;
        bool is_joining = replication->cluster->members[0].role == TR_ROLE_JOINING;
        uint64_t patience = is_joining || is_coming ? SILENT_MOST_MS : SILENT_MS;
        if (tr_breaks(replication->trial, MUTANT_CATCHUP_IN_HASTE))
            patience = SILENT_MS / 2;
        bool is_silent =
            !peer->is_up && replication->time->now_ms >= replication->catchup_ms + patience;
        /* A node that is up and never comes to an end is given ten seconds; more, if it may be this
         * node's own disk that stores nothing of what is sent. */
        bool is_long = replication->time->now_ms >= begun_ms + SILENT_MOST_MS ||
                       replication->time->now_ms >= replication->catchup_ms + FULL_MOST_MS;
        bool is_over = is_silent || is_long;
        bool is_meant =
            replication->cluster->members[i].role != TR_ROLE_NONE || peer->is_up || is_alone;
        if (is_meant && !is_over && !progress->has_said_all)
            return false;
    }
    return true;
}

static bool is_announced(const struct tr_replication *replication)
{
    TR_ASSERT(replication->catchup == CATCHUP_ANNOUNCED);
    for (uint32_t i = 1; i < replication->cluster->member_count; i++) {
        const struct tr_peer *peer = &replication->cluster->peers[i];
        if (peer->is_up && peer->echo_ms < replication->announced_ms)
            return false;
    }
    return true;
}

void tr_catchup_end(struct tr_replication *replication)
{
    TR_ASSERT(replication->cluster->view.count > 0);
    replication->catchup = CATCHUP_OVER;
    replication->is_serving = true;
    replication->caught_up_ms = replication->time->now_ms;
    replication->has_missed = false;
}

/* This node says from when on it pops; what is due before is left to others. When all have heard
 * that, it pops. */
void tr_catchup_run(struct tr_replication *replication)
{
    TR_ASSERT(!tr_replication_is_popping(replication));
    TR_ASSERT(replication->log->is_running && !replication->log->is_exhausted);
    tr_cover(replication->trial, RULE_CATCHUP);
    if (replication->catchup == CATCHUP_ANNOUNCED &&
        replication->time->now_ms > replication->announced_ms + replication->ahead_least_ms / 2) {
        /* The announced time is too near to be heard everywhere: it is announced once more, and on
         * slow links with more time. */
        replication->catchup = CATCHUP_HEARING;
        tr_cover(replication->trial, RULE_ANNOUNCED_AGAIN);
        if (replication->ahead_least_ms < AHEAD_MOST_MS &&
            !tr_breaks(replication->trial, MUTANT_ANNOUNCE_ONCE))
            replication->ahead_least_ms *= 2;
    }
    if (replication->catchup == CATCHUP_HEARING) {
        if (!has_heard_all(replication))
            return;
        /* What was reserved before the start is waited out rather than jumped over: stamps ahead of
         * all clocks would beat later writes on nodes that do not hear of them. */
        uint64_t clock = tr_clock_now(replication->cluster);
        if (replication->cluster->last_stamp > clock &&
            replication->cluster->last_stamp - clock <= (uint64_t)TR_CEILING_MS << 16)
            return;
        replication->popping_from_ms = (clock >> 16) + replication->ahead_least_ms;
        replication->announced_ms = replication->time->now_ms;
        replication->catchup = CATCHUP_ANNOUNCED;
        tr_peers_beat_now(replication->cluster);
    }
    if (!is_announced(replication))
        return;
    tr_catchup_end(replication);
    tr_rebalance_again(replication);
    tr_peers_beat_now(replication->cluster);
}

/* By how much this step is later than the one before it has asked for. */
static uint64_t late_ms(const struct tr_replication *replication)
{
    tr_mono_ms now_ms = replication->time->now_ms;
    bool is_asked = replication->wake_ms != TR_NEVER && replication->wake_ms < now_ms;
    return is_asked ? now_ms - replication->wake_ms : 0;
}

/* The loop of this node stood still. What others have sent meanwhile may be read after this step,
 * so their silence is none. And if it was for so long that they may take this node for dead, they
 * make its pops. */
void tr_catchup_notice(struct tr_replication *replication, struct tr_effects *out)
{
    uint64_t still_ms = late_ms(replication);
    uint64_t unsaid_ms = tr_peers_unsaid_ms(replication->cluster);
    if (still_ms >= LATE_MS && !tr_breaks(replication->trial, MUTANT_OWN_STANDSTILL))
        tr_peers_excuse(replication->cluster, still_ms);
    bool is_unheard = unsaid_ms >= DOUBTED_MS && !tr_breaks(replication->trial, MUTANT_UNDOUBTED);
    bool is_doubted = still_ms > TR_SUSPECT_MS || is_unheard;
    bool is_popping = tr_replication_is_popping(replication) && replication->log->is_running;
    if (!is_popping || !is_doubted || tr_breaks(replication->trial, MUTANT_NO_CATCHUP))
        return;
    tr_cover(replication->trial, RULE_CATCHUP_AGAIN);
    tr_note(out, TR_NOTE_STOOD_STILL, 0, still_ms > unsaid_ms ? still_ms : unsaid_ms);
    tr_catchup_begin(replication);
}

tr_mono_ms tr_catchup_wake_at(const struct tr_replication *replication)
{
    TR_ASSERT(replication->catchup_ms <= replication->time->now_ms + 1);
    tr_mono_ms at = replication->catchup_ms + SILENT_MS;
    if (tr_replication_is_popping(replication))
        return TR_NEVER;
    return at > replication->time->now_ms ? at : replication->time->now_ms + LOOK_MS;
}

/* What is not stored now is sent again. While this node catches up it waits for that: it says that
 * it has missed something, and the others say that nothing is pending for it only when it has
 * acknowledged everything. */
void tr_catchup_miss(struct tr_replication *replication, uint16_t peer)
{
    TR_ASSERT(tr_is_other(replication, peer));
    if (tr_replication_is_popping(replication) || !replication->log->is_running)
        return;
    tr_cover(replication->trial, RULE_MISSED);
    replication->catchup = CATCHUP_HEARING;
    replication->progress[peer].has_said_all = false;
    if (replication->has_missed)
        return;
    replication->has_missed = true;
    tr_catchup_begin(replication);
    replication
        ->catchup_ms++; /* what others heard in this millisecond they may have heard before */
    tr_peers_beat_now(replication->cluster);
}

static bool holds_lower(const struct tr_replication *replication, const struct tr_head *record)
{
    struct tr_head held;
    tr_ref ref = tr_store_find(replication->store, &record->key);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_store_head(replication->store, ref, &held);
    struct tr_order order = record->order;
    return tr_order_compare(&held.order, &order) < 0;
}

/* There is no room for a record that `peer` has sent. If a lower state of it is held here, others
 * pop it. */
void tr_catchup_pass_up(struct tr_replication *replication, uint16_t peer,
                        const struct tr_head *record)
{
    TR_ASSERT(tr_is_other(replication, peer));
    if (!holds_lower(replication, record))
        return;
    tr_hold_ahead(replication, peer, record);
    tr_catchup_miss(replication, peer);
}

/* While the log is full, the outcome of a pop could not be stored: other nodes make the pops. Nor
 * are the outcomes of their pops stored: those stay pending for this node, and when there is room
 * again, it catches up and waits for them. */
void tr_catchup_mind_log(struct tr_replication *replication)
{
    bool is_exhausted = replication->log->is_exhausted;
    if (!replication->log->is_running)
        return;
    if (replication->log->is_refused)
        replication->refused_ms = replication->time->now_ms;
    if (is_exhausted && tr_replication_is_popping(replication)) {
        tr_cover(replication->trial, RULE_NOT_POPPING);
        tr_catchup_begin(replication);
        tr_peers_beat_now(replication->cluster);
    }
    if (replication->was_exhausted && !is_exhausted) {
        tr_cover(replication->trial, RULE_DEAF_NO_MORE);
        tr_catchup_begin(replication);
    }
    replication->was_exhausted = is_exhausted;
    replication->has_missed |= is_exhausted; /* until it has caught up */
    TR_ASSERT(!is_exhausted || !tr_replication_is_popping(replication) ||
              tr_breaks(replication->trial, MUTANT_NO_CATCHUP));
}
