/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a record: who is named, whose turn it is, and where the view wants it.
 *
 * A record's own list rules, not the view: replicas in order, then stand-ins. Beside it stand the
 * nodes that may hold an older copy and must be told (`from`). While a record moves those are the
 * ones that had it before, in their old order, and they pop first; so whoever holds the record as
 * it was and whoever holds it as it will be agree on whose turn it is.
 */
#include "node/internal.h"

bool tr_is_listed(const struct tr_head *record, uint16_t member)
{
    return tr_place_of(record, member) < record->replicas.count;
}

static bool is_from(const struct tr_head *record, uint16_t member)
{
    for (unsigned i = 0; i < record->from.count; i++) {
        if (record->from.members[i] == member)
            return true;
    }
    return false;
}

bool tr_is_named(const struct tr_head *record, uint16_t member)
{
    return tr_is_listed(record, member) || is_from(record, member);
}

/* No room for more than these: one that is left out is told when it is met. */
void tr_remember(struct tr_head *record, uint16_t member)
{
    if (is_from(record, member) || record->from.count == TR_FROM_MAX)
        return;
    record->from.members[record->from.count++] = member;
    record->from.gone = 0;
}

unsigned tr_names(const struct tr_head *record, uint16_t *names)
{
    unsigned count = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        names[count++] = record->replicas.members[i];
    for (unsigned i = 0; i < record->from.count; i++) {
        if (!tr_is_listed(record, record->from.members[i]))
            names[count++] = record->from.members[i];
    }
    return count;
}

unsigned tr_others(const struct tr_head *record)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_names(record, names);
    unsigned others = 0;
    for (unsigned i = 0; i < count; i++)
        others += names[i] != 0;
    return others;
}

/* Whether a node was not there when this pop was shared out: it comes after all that were. */
static bool is_late_comer(const struct tr_node *node, const struct tr_head *record, uint16_t member)
{
    uint64_t from_ms =
        member == 0 ? node->popping_from_ms : node->cluster.peers[member].popping_from_ms;
    return record->nominal_ms < from_ms;
}

/* Appends those of a group, in the order of attempts, late comers last. */
static unsigned append_turns(const struct tr_node *node, const struct tr_head *record,
                             uint32_t attempt, const uint16_t *group, unsigned size,
                             uint16_t *turns)
{
    unsigned count = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < size; i++) {
            uint16_t member = group[(attempt + i) % size];
            bool is_late = is_late_comer(node, record, member);
            if (is_late && member == 0 && pass == 1)
                tr_cover(&node->trial, RULE_LAST_IN_TURN);
            if (is_late == (pass == 1))
                turns[count++] = member;
        }
    }
    return count;
}

unsigned tr_turns(const struct tr_node *node, const struct tr_head *record, uint32_t attempt,
                  uint16_t *turns)
{
    uint16_t rest[TR_SET_MAX];
    unsigned rest_count = 0;
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0 && record->from.count > 0;
    if (tr_breaks(&node->trial, MUTANT_ARM_BEFORE_DROPS) && !is_from(record, 0))
        is_moving = false;
    if (!is_moving)
        return append_turns(node, record, attempt, record->replicas.members, record->replicas.count,
                            turns);
    for (unsigned i = 0; i < record->replicas.count; i++) {
        if (!is_from(record, record->replicas.members[i]))
            rest[rest_count++] = record->replicas.members[i];
    }
    /* The others may not have heard that one has let go, and count with it. */
    uint16_t from[TR_FROM_MAX];
    unsigned from_count = tr_from_places(&record->from, from);
    unsigned count = append_turns(node, record, attempt, from, from_count, turns);
    for (unsigned i = 0; i < count; i++)
        turns[i] = is_from(record, turns[i]) ? turns[i] : TR_MEMBER_NONE;
    return count + append_turns(node, record, attempt, rest, rest_count, turns + count);
}

uint32_t tr_list_check(const struct tr_node *node, const struct tr_head *record)
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        hash = tr_hash_mix(hash + node->cluster.members[record->replicas.members[i]].hash);
    return (uint32_t)hash;
}

/* ---- what the view wants ---- */

unsigned tr_copies(const struct tr_node *node, uint32_t factor)
{
    unsigned copies = factor < node->cluster.view.count ? factor : node->cluster.view.count;
    return copies < TR_SET_MAX ? copies : TR_SET_MAX;
}

unsigned tr_want(const struct tr_node *node, tr_timer_id id, uint32_t factor,
                 const uint16_t *failed, unsigned failed_count, bool is_new, uint16_t *list)
{
    uint16_t order[TR_VIEW_NODES_MAX];
    unsigned copies = tr_copies(node, factor);
    unsigned missing = 0;
    unsigned count = tr_view_place(&node->cluster, id, copies, order);
    unsigned wanted = 0;
    for (unsigned i = 0; i < count && wanted < TR_SET_MAX; i++) {
        bool is_good = is_new ? tr_peer_is_serving(&node->cluster, order[i])
                              : tr_peer_is_up(&node->cluster, order[i]);
        for (unsigned k = 0; k < failed_count; k++)
            is_good &= failed[k] != order[i];
        if (i >= copies && (missing == 0 || !is_good))
            continue;
        missing += i < copies && !is_good;
        missing -= i >= copies;
        list[wanted++] = order[i];
        if (i + 1 == copies && missing > 0) /* only then does it matter who comes next */
            count = tr_view_place(&node->cluster, id, TR_VIEW_NODES_MAX, order);
    }
    return wanted;
}

bool tr_is_placed_well(const struct tr_node *node, const struct tr_head *record)
{
    uint16_t placed[TR_SET_MAX];
    unsigned count =
        tr_view_place(&node->cluster, record->key.id, tr_copies(node, record->factor), placed);
    unsigned down = 0;
    if (record->replicas.count < count)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (record->replicas.members[i] != placed[i])
            return false;
        down += !tr_peer_is_up(&node->cluster, placed[i]);
    }
    return record->replicas.count - count <= down; /* no stand-in for a node that is there */
}

bool tr_has_enough(const struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    uint8_t acked = tr_book_acked(&node->book, ref);
    unsigned count = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        count += record->replicas.members[i] == 0 || (acked & 1u << i) != 0;
    return count >= tr_copies(node, record->factor);
}

bool tr_is_known(const struct tr_node *node, tr_ref ref, const struct tr_head *record)
{
    uint8_t all = (uint8_t)((1u << record->replicas.count) - 1);
    uint8_t own = (uint8_t)(1u << tr_place_of(record, 0));
    return ((tr_book_acked(&node->book, ref) | own) & all) == all;
}
