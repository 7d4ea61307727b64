/* SPDX-License-Identifier: Apache-2.0 */
#include "pops/turn.h"

#include "cluster/peer.h"
#include "cluster/view.h"
#include "pops/claim.h"
#include "replication/rebalance.h"
#include "replication/set.h"

/* ---- whose turn it is ---- */

/* How many nodes come before this one, and whether any of them will see to it. One that is alone in
 * its view, with a record that others have too, has yet to hear of them: they come before it. */
static unsigned rank_of(const struct tr_pops *pops, const struct tr_head *record, bool *is_first,
                        bool *is_stray)
{
    TR_ASSERT(tr_set_is_bounded(record));
    uint16_t turns[TR_NAMES_MAX];
    unsigned rank = 0;
    *is_first = true;
    *is_stray = false;
    if (tr_set_is_own(record))
        return 0;
    unsigned count = tr_set_turns(pops->replication, record, record->order.attempt, turns);
    for (; rank < count && turns[rank] != 0; rank++)
        *is_first &= !tr_peer_is_popping(pops->cluster, turns[rank]) &&
                     !tr_breaks(pops->trial, MUTANT_NO_TAKEOVER);
    *is_stray = rank == count;
    unsigned others = tr_set_others(record);
    if (others > 0 && !tr_view_has_others(pops->cluster) &&
        tr_rebalance_is_view_new(pops->replication)) {
        tr_cover(pops->trial, RULE_LEFT_TO_OTHERS);
        *is_first = *is_stray = false;
        rank += others;
    }
    return rank;
}

bool tr_turn_is_first(const struct tr_pops *pops, const struct tr_head *head)
{
    bool is_first = false;
    bool is_stray = false;
    unsigned rank = rank_of(pops, head, &is_first, &is_stray);
    return rank == 0 || (is_first && !is_stray);
}

/* What fell due while this node caught up may wait for others that do so, too: they come before it
 * from when it has done so. */
static tr_steady_ms after_catchup(const struct tr_pops *pops, const struct tr_head *record,
                                  unsigned rank, tr_steady_ms latest)
{
    const struct tr_replication *replication = pops->replication;
    tr_steady_ms caught_up_ms = replication->caught_up_ms + pops->time->steady_base;
    tr_steady_ms next_ms = caught_up_ms + (uint64_t)rank * TR_POSITION_MS;
    return record->due_ms < caught_up_ms && latest < next_ms ? next_ms : latest;
}

/* When this node is to make the pop that `record` stands for: now, or when to look again. */
tr_steady_ms tr_turn_at(struct tr_pops *pops, const struct tr_head *record)
{
    TR_ASSERT(tr_replication_is_popping(pops->replication));
    bool is_first = false;
    bool is_stray = false;
    unsigned rank = rank_of(pops, record, &is_first, &is_stray);
    tr_steady_ms latest = record->due_ms + (uint64_t)rank * TR_POSITION_MS;
    if (is_stray && !is_first) {
        tr_cover(pops->trial, RULE_STRAY_WAITS);
        return pops->time->steady_ms +
               TR_TURN_LOOK_MS; /* its turn never comes while one that is named is up */
    }
    if (!is_first && rank > 0 && latest <= pops->time->steady_ms) {
        tr_steady_ms held_ms =
            tr_claim_held_until(pops, record); /* all were: not all at once, now */
        if (held_ms > record->due_ms)
            latest = held_ms + (uint64_t)rank * TR_POSITION_MS;
    }
    latest = after_catchup(pops, record, rank, latest);
    if (is_first || latest <= pops->time->steady_ms) {
        if (rank > 0)
            tr_cover(pops->trial, is_first ? RULE_TAKEOVER : RULE_LATE_TURN);
        if (!tr_claim_is_held(pops, record)) {
            pops->stats.takeovers += rank > 0 && is_first;
            pops->stats.late_turns += rank > 0 && !is_first;
            return pops->time->steady_ms;
        }
        pops->stats.held_back++;
        tr_cover(pops->trial, RULE_CLAIM_HELD);
        if (is_first) /* nodes after this one leave to it what it waits for */
            pops->backlog_ms = pops->time->now_ms;
        return pops->time->steady_ms + TR_TURN_LOOK_MS;
    }
    tr_steady_ms next = record->due_ms + TR_SUSPECT_MS;
    next = next > pops->time->steady_ms ? next : pops->time->steady_ms + TR_TURN_LOOK_MS;
    return next < latest ? next : latest;
}
