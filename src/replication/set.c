/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/set.h"

#include "base/hash.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/view.h"

static bool has_twice(const uint16_t *members, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        for (unsigned k = 0; k < i; k++) {
            if (members[i] == members[k])
                return true;
        }
    }
    return false;
}

bool tr_set_is_sound(const struct tr_head *head)
{
    return tr_set_is_bounded(head) && !has_twice(head->replicas.members, head->replicas.count) &&
           !has_twice(head->from.members, head->from.count);
}

bool tr_set_has(const struct tr_head *record, uint16_t member)
{
    return tr_set_place_of(record, member) < record->replicas.count;
}

static bool is_from(const struct tr_head *record, uint16_t member)
{
    TR_ASSERT(record->from.count <= TR_FROM_MAX);
    for (unsigned i = 0; i < record->from.count; i++) {
        if (record->from.members[i] == member)
            return true;
    }
    return false;
}

bool tr_set_is_named(const struct tr_head *record, uint16_t member)
{
    return tr_set_has(record, member) || is_from(record, member);
}

/* There is no room for more than these: a node that is left out is sent a drop when it shows its
 * copy. */
void tr_set_remember(struct tr_head *record, uint16_t member)
{
    TR_ASSERT(member != TR_MEMBER_NONE && record->from.count <= TR_FROM_MAX);
    if (is_from(record, member) || record->from.count == TR_FROM_MAX)
        return;
    record->from.members[record->from.count++] = member;
    record->from.gone = 0;
}

unsigned tr_set_names(const struct tr_head *record, uint16_t *names)
{
    TR_ASSERT(tr_set_is_bounded(record));
    unsigned count = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        names[count++] = record->replicas.members[i];
    for (unsigned i = 0; i < record->from.count; i++) {
        if (!tr_set_has(record, record->from.members[i]))
            names[count++] = record->from.members[i];
    }
    TR_ASSERT(count <= TR_NAMES_MAX);
    return count;
}

unsigned tr_set_others(const struct tr_head *record)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_set_names(record, names);
    unsigned others = 0;
    for (unsigned i = 0; i < count; i++)
        others += names[i] != 0;
    return others;
}

void tr_set_end_move(struct tr_head *head)
{
    TR_ASSERT(tr_set_is_bounded(head));
    uint8_t count = head->from.count;
    head->from.count = 0;
    head->from.gone = 0;
    for (unsigned i = 0; i < count; i++) {
        if (head->from.members[i] != 0 && !tr_set_has(head, head->from.members[i]))
            head->from.members[head->from.count++] = head->from.members[i];
    }
}

static uint64_t popping_from(const struct tr_replication *replication, uint16_t member)
{
    TR_ASSERT(member < TR_LOG_NODES_MAX);
    return member == 0 ? replication->popping_from_ms
                       : replication->cluster->peers[member].popping_from_ms;
}

/* Whether a node was not there when this pop was shared out: it comes after all that were. */
static bool is_late_comer(const struct tr_replication *replication, const struct tr_head *record,
                          uint16_t member)
{
    return record->nominal_ms < popping_from(replication, member);
}

/* A late comer comes after those that came before it: one of them may have begun the pop before it
 * was there. */
static void insert_late_comer(const struct tr_replication *replication, uint16_t member,
                              uint16_t *late, unsigned count)
{
    TR_ASSERT(count < TR_FROM_MAX);
    unsigned place = count;
    for (; place > 0; place--) {
        uint16_t other = late[place - 1];
        if (popping_from(replication, other) <= popping_from(replication, member))
            break;
        late[place] = other;
        if (other == 0)
            tr_cover(replication->trial, RULE_LATER_STILL);
    }
    late[place] = member;
}

/* Appends those of a group, in the order of attempts; late comers last, as they came. */
static unsigned append_turns(const struct tr_replication *replication, const struct tr_head *record,
                             uint32_t attempt, const uint16_t *group, unsigned size,
                             uint16_t *turns)
{
    TR_ASSERT(size <= TR_FROM_MAX);
    uint16_t late[TR_FROM_MAX];
    unsigned count = 0;
    unsigned late_count = 0;
    for (unsigned i = 0; i < size; i++) {
        uint16_t member = group[(attempt + i) % size];
        if (!is_late_comer(replication, record, member))
            turns[count++] = member;
        else
            insert_late_comer(replication, member, late, late_count++);
    }
    for (unsigned i = 0; i < late_count; i++) {
        if (late[i] == 0)
            tr_cover(replication->trial, RULE_LAST_IN_TURN);
        turns[count++] = late[i];
    }
    TR_ASSERT(count == size); /* each once */
    return count;
}

unsigned tr_set_turns(const struct tr_replication *replication, const struct tr_head *record,
                      uint32_t attempt, uint16_t *turns)
{
    TR_ASSERT(tr_set_is_bounded(record));
    uint16_t rest[TR_SET_MAX];
    unsigned rest_count = 0;
    bool is_moving = (record->flags & TR_RECORD_MOVING) != 0 && record->from.count > 0;
    if (tr_breaks(replication->trial, MUTANT_ARM_BEFORE_DROPS) && !is_from(record, 0))
        is_moving = false;
    if (!is_moving)
        return append_turns(replication, record, attempt, record->replicas.members,
                            record->replicas.count, turns);
    for (unsigned i = 0; i < record->replicas.count; i++) {
        if (!is_from(record, record->replicas.members[i]))
            rest[rest_count++] = record->replicas.members[i];
    }
    /* The other nodes may not have heard that one of `from` has dropped the record, and count it
     * in: each keeps its place. */
    uint16_t from[TR_FROM_MAX];
    unsigned from_count = tr_from_places(&record->from, from);
    unsigned count = append_turns(replication, record, attempt, from, from_count, turns);
    for (unsigned i = 0; i < count; i++)
        turns[i] = is_from(record, turns[i]) ? turns[i] : TR_MEMBER_NONE;
    return count + append_turns(replication, record, attempt, rest, rest_count, turns + count);
}

uint16_t tr_set_mover(const struct tr_replication *replication, const struct tr_head *record)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count = tr_set_turns(replication, record, 0, turns);
    for (unsigned i = 0; i < count; i++) {
        if (turns[i] == 0 && i > 0 && (record->flags & TR_RECORD_MOVING) != 0)
            tr_cover(replication->trial, RULE_MOVE_TAKEN);
        if (turns[i] == 0 || tr_peer_is_popping(replication->cluster, turns[i]))
            return turns[i];
    }
    return 0;
}

uint32_t tr_set_check(const struct tr_replication *replication, const struct tr_head *record)
{
    TR_ASSERT(tr_set_is_bounded(record));
    uint64_t hash = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        hash = tr_hash_mix(hash + replication->cluster->members[record->replicas.members[i]].hash);
    return (uint32_t)hash;
}

/* ---- what the view wants ---- */

unsigned tr_set_copies(const struct tr_replication *replication, uint32_t factor)
{
    unsigned copies =
        factor < replication->cluster->view.count ? factor : replication->cluster->view.count;
    return copies < TR_SET_MAX ? copies : TR_SET_MAX;
}

unsigned tr_set_want(const struct tr_replication *replication, tr_timer_id id, uint32_t factor,
                     const uint16_t *failed, unsigned failed_count, bool is_new, uint16_t *list)
{
    TR_ASSERT(failed_count <= TR_SET_MAX);
    TR_ASSERT(factor > 0 && replication->cluster->view.count > 0);
    uint16_t order[TR_VIEW_NODES_MAX];
    unsigned copies = tr_set_copies(replication, factor);
    unsigned missing = 0;
    unsigned count = tr_view_place(replication->cluster, id, copies, order);
    unsigned wanted = 0;
    for (unsigned i = 0; i < count && wanted < TR_SET_MAX; i++) {
        bool is_good = is_new ? tr_peer_is_serving(replication->cluster, order[i])
                              : tr_peer_is_up(replication->cluster, order[i]);
        for (unsigned k = 0; k < failed_count; k++)
            is_good &= failed[k] != order[i];
        if (i >= copies && (missing == 0 || !is_good))
            continue;
        missing += i < copies && !is_good;
        missing -= i >= copies;
        list[wanted++] = order[i];
        if (i + 1 == copies && missing > 0) /* only then does it matter who comes next */
            count = tr_view_place(replication->cluster, id, TR_VIEW_NODES_MAX, order);
    }
    TR_ASSERT(wanted >= (copies < count ? copies : count) && wanted <= TR_SET_MAX);
    return wanted;
}

bool tr_set_is_placed(const struct tr_replication *replication, const struct tr_head *record)
{
    TR_ASSERT(record->factor > 0);
    uint16_t placed[TR_SET_MAX];
    unsigned count = tr_view_place(replication->cluster, record->key.id,
                                   tr_set_copies(replication, record->factor), placed);
    unsigned down = 0;
    if (record->replicas.count < count)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (record->replicas.members[i] != placed[i])
            return false;
        down += !tr_peer_is_up(replication->cluster, placed[i]);
    }
    return record->replicas.count - count <= down; /* no hint for a node that is there */
}

bool tr_set_has_enough(const struct tr_replication *replication, tr_ref ref,
                       const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    uint8_t acked = tr_store_acked(replication->store, ref);
    unsigned count = 0;
    for (unsigned i = 0; i < record->replicas.count; i++)
        count += record->replicas.members[i] == 0 || (acked & 1u << i) != 0;
    return count >= tr_set_copies(replication, record->factor);
}

bool tr_set_is_known(const struct tr_replication *replication, tr_ref ref,
                     const struct tr_head *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    TR_ASSERT(tr_set_is_bounded(record));
    uint8_t all = (uint8_t)((1u << record->replicas.count) - 1);
    uint8_t own = (uint8_t)(1u << tr_set_place_of(record, 0));
    return ((tr_store_acked(replication->store, ref) | own) & all) == all;
}
