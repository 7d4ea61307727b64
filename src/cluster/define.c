/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/define.h"

#include "cluster/member.h"

/* What a node by itself has assumed may be said otherwise, as long as it holds no key. */
static bool may_define(const struct tr_membership *membership)
{
    const struct tr_roster *roster = membership->roster;
    bool is_free = roster->count == 1 && !membership->hooks.has_keys(membership->hooks.context);
    return roster->keys.partitions == 0 || (roster->keys.is_assumed && is_free);
}

enum tr_change tr_define_keyspace(struct tr_membership *membership,
                                  const struct tr_definition *keys, uint16_t *who)
{
    TR_ASSERT(tr_definition_is_sound(keys) && !keys->is_assumed);
    struct tr_roster *next = membership->scratch;
    *who = TR_MEMBER_NONE;
    if (!may_define(membership))
        return TR_CHANGE_EXISTS;
    if (tr_roster_is_changing(membership->roster))
        return TR_CHANGE_BUSY;
    *next = *membership->roster;
    next->keys = *keys;
    next->before = *keys; /* there is nothing to move */
    for (uint32_t i = 0; i < next->count; i++)
        next->nodes[i].position_count = 0;
    return tr_membership_make(membership, next, who);
}

enum tr_change tr_define_spread(struct tr_membership *membership, const struct tr_definition *keys,
                                uint16_t *who)
{
    struct tr_roster *next = membership->scratch;
    *who = TR_MEMBER_NONE;
    if (membership->roster->keys.partitions == 0)
        return TR_CHANGE_NO_KEYSPACE;
    if (tr_roster_is_changing(membership->roster))
        return TR_CHANGE_BUSY;
    TR_ASSERT(keys->partitions == membership->roster->keys.partitions);
    *next = *membership->roster;
    next->keys = *keys;
    return tr_membership_make(membership, next, who);
}

enum tr_change tr_define_floor(struct tr_membership *membership, uint64_t floor, uint16_t *who)
{
    struct tr_roster *next = membership->scratch;
    *who = TR_MEMBER_NONE;
    if (membership->roster->keys.partitions == 0)
        return TR_CHANGE_NO_KEYSPACE;
    TR_ASSERT(floor > membership->roster->floor);
    *next = *membership->roster;
    next->floor = floor;
    return tr_membership_make(membership, next, who);
}
