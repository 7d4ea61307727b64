/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/handover.h"

#include "cluster/peer.h"
#include "quorum/operation.h"
#include "quorum/target.h"

#define PATIENCE_MS 500 /* beside two round trips: then who has not said so is not waited for */

static bool is_begun(const struct tr_quorum_operation *operation)
{
    return operation->kind == QUORUM_MODIFY && operation->attempts > 0 && !operation->is_answered;
}

void tr_handover_begin(struct tr_quorum *quorum)
{
    struct tr_handover *handover = &quorum->handover;
    handover->is_on =
        !tr_cluster_is_alone(quorum->cluster) && !tr_breaks(quorum->trial, MUTANT_KEY_TWO_FIRST);
    handover->begun_ms = quorum->time->now_ms;
    handover->until_ms = quorum->time->now_ms + PATIENCE_MS + 2 * tr_peers_trip(quorum->cluster);
    handover->older_count = 0;
    for (uint32_t i = quorum->active; i != TR_OPERATION_NONE; i = quorum->operations[i].next) {
        quorum->operations[i].is_older = is_begun(&quorum->operations[i]);
        handover->older_count += quorum->operations[i].is_older;
    }
    tr_peers_beat_now(quorum->cluster);
}

void tr_handover_look(struct tr_quorum *quorum)
{
    const struct tr_roster *roster = quorum->membership->roster;
    if (roster->keys.partitions > 0 && !roster->keys.is_assumed)
        tr_handover_begin(quorum);
}

void tr_handover_answered(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    if (!operation->is_older)
        return;
    operation->is_older = false;
    TR_ASSERT(quorum->handover.older_count > 0);
    if (--quorum->handover.older_count == 0)
        tr_peers_beat_now(quorum->cluster);
}

/* One that is up has said, since it heard of what has changed here, that it has this roster, and
 * has finished what it began before. */
static bool has_finished(const struct tr_quorum *quorum, uint16_t member)
{
    const struct tr_standing *standing = &quorum->membership->standings[member];
    const struct tr_peer *peer = &quorum->cluster->peers[member];
    bool is_of_another =
        standing->is_heard && standing->cluster != quorum->membership->roster->cluster;
    if (!tr_peer_is_up(quorum->cluster, member) || peer->version < TR_ROSTER_VERSION ||
        is_of_another)
        return true;
    return standing->is_heard && standing->id == quorum->roster_id &&
           peer->beat_echo_ms >= quorum->handover.begun_ms &&
           (peer->key_flags & TR_BEAT_KEYS_OLDER) == 0;
}

bool tr_handover_holds(const struct tr_quorum_operation *operation)
{
    return operation->is_first_read ||
           (operation->kind == QUORUM_MODIFY && operation->attempts == 0);
}

void tr_handover_pass_on(struct tr_quorum *quorum, struct tr_quorum_operation *operation)
{
    tr_quorum_renumber(quorum, operation);
    tr_quorum_drop_pair(quorum, operation);
    operation->kind = QUORUM_CALL;
    operation->is_first_read = operation->has_read = operation->has_failed = false;
    operation->look_ms = quorum->time->now_ms;
    operation->target_count = 1;
    operation->targets[0] = (struct tr_target){.member = TR_MEMBER_NONE, .state = TARGET_AGAIN};
}

/* The handover is over. What has waited for that, or read meanwhile, belongs to the first node that
 * is there now, which carries out others by now; also what another node has called for, which may
 * not have heard of that one. It goes towards the head of the list, so it comes to an end. */
static void pass_all_on(struct tr_quorum *quorum)
{
    for (uint32_t i = quorum->active; i != TR_OPERATION_NONE; i = quorum->operations[i].next) {
        struct tr_quorum_operation *operation = &quorum->operations[i];
        struct tr_span key;
        if (!tr_handover_holds(operation) || operation->is_answered ||
            operation->result.outcome == TR_KEY_REFUSED || !tr_quorum_key(quorum, operation, &key))
            continue;
        uint16_t first = tr_quorum_first(quorum, key);
        if (first == 0 || first == TR_MEMBER_NONE)
            continue;
        tr_cover(quorum->trial, RULE_MODIFIER_PASSED_ON);
        tr_handover_pass_on(quorum, operation);
    }
}

void tr_handover_run(struct tr_quorum *quorum)
{
    struct tr_handover *handover = &quorum->handover;
    if (!handover->is_on)
        return;
    bool is_over = quorum->time->now_ms >= handover->until_ms;
    for (uint32_t i = 1; i < quorum->cluster->member_count && !is_over; i++) {
        if (!has_finished(quorum, (uint16_t)i))
            return;
    }
    handover->is_on = false;
    quorum->look_ms = quorum->time->now_ms; /* what has waited begins */
    pass_all_on(quorum);
}

tr_mono_ms tr_handover_wake_at(const struct tr_quorum *quorum)
{
    return quorum->handover.is_on ? quorum->handover.until_ms : TR_NEVER;
}
