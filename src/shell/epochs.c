/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/epochs.h"

#include "shell/daemon.h"

#define STILL_MS 60000
#define LINE     512

/* Appends the addresses that have this role, and what they do. */
static void put_role(struct tr_writer *out, const struct tr_roster *roster, enum tr_role role,
                     const char *does)
{
    bool is_first = true;
    for (uint32_t i = 0; i < roster->count; i++) {
        if (roster->nodes[i].role != role)
            continue;
        struct tr_span address = tr_roster_address(roster, i);
        tr_put_text(out, is_first ? "" : ", ");
        tr_put_bytes(out, address.text, address.size);
        is_first = false;
    }
    if (!is_first)
        tr_put_text(out, does);
}

void tr_epochs_say(const struct tr_daemon *daemon)
{
    const struct tr_roster *roster = tr_node_roster(daemon->node);
    unsigned long long epoch = roster->epoch;
    char line[LINE + 1];
    struct tr_writer out = tr_writer_on(line, LINE);
    if (tr_roster_role(roster, tr_node_address(daemon->node)) == TR_ROLE_NONE) {
        tr_say(TR_STATUS,
               "epoch %llu: this node is no member of the cluster; it hands over what it holds, "
               "and may be stopped then",
               epoch);
        return;
    }
    if (!tr_roster_is_changing(roster)) {
        tr_say(roster->count > 1 ? TR_STATUS : TR_INFO, "epoch %llu: the cluster has %u node%s",
               epoch, roster->count, roster->count == 1 ? "" : "s");
        return;
    }
    put_role(&out, roster, TR_ROLE_JOINING, " joining; ");
    put_role(&out, roster, TR_ROLE_LEAVING, " leaving; ");
    put_role(&out, roster, TR_ROLE_LOST, " lost; ");
    line[out.is_full ? LINE : out.size] = '\0';
    tr_say(TR_STATUS, "epoch %llu: %sit goes on by itself", epoch, line);
}

static bool is_still(struct tr_epochs *epochs, const struct tr_epochs *now, uint64_t now_ms)
{
    bool is_same = epochs->roster == now->roster && epochs->moved == now->moved &&
                   epochs->who == now->who && epochs->is_up == now->is_up;
    if (!is_same) {
        *epochs = *now;
        epochs->since_ms = now_ms;
    }
    return is_same && now_ms >= epochs->since_ms + STILL_MS;
}

void tr_epochs_watch(struct tr_daemon *daemon)
{
    const struct tr_roster *roster = tr_node_roster(daemon->node);
    struct tr_epochs *epochs = &daemon->epochs;
    struct tr_node_stats stats;
    struct tr_node_peer peer = {.is_up = true};
    uint16_t who = TR_MEMBER_NONE;
    bool is_waiting = tr_node_is_waiting_for(daemon->node, &who);
    if (!is_waiting || who == TR_MEMBER_NONE) { /* there is no change, or it is about to end */
        *epochs = (struct tr_epochs){0};
        daemon->metrics.changes_still = 0;
        return;
    }
    tr_node_stats(daemon->node, &stats);
    tr_node_peer(daemon->node, who, &peer);
    bool is_up = who == 0 || (peer.is_up && peer.has_same_view);
    struct tr_epochs now = {
        .roster = roster->id, .moved = stats.moved + stats.drops, .who = who, .is_up = is_up};
    bool is_stuck = is_still(epochs, &now, daemon->now_us / 1000) && (who == 0 || !is_up);
    daemon->metrics.changes_still = is_stuck;
    if (!is_stuck || epochs->is_said)
        return;
    epochs->is_said = true;
    if (who == 0)
        tr_say(TR_WARNING,
               "the change of epoch %llu has stood still for a minute: it waits for this node, "
               "which has timers to move, or has yet to hear from others; tryst cluster status "
               "shows more",
               (unsigned long long)roster->epoch);
    else
        tr_say(TR_WARNING,
               "the change of epoch %llu has stood still for a minute: it waits for %.*s, which is "
               "down, or has not heard of it; bring it back, or say that it is lost (tryst cluster "
               "leave --force)",
               (unsigned long long)roster->epoch, (int)peer.address.size, peer.address.text);
}
