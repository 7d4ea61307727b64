/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/change.h"

enum tr_role tr_change_role(enum tr_role now, bool is_wanted)
{
    if (is_wanted)
        return now == TR_ROLE_NONE || now == TR_ROLE_LEAVING ? TR_ROLE_JOINING : now;
    return now == TR_ROLE_STAYING || now == TR_ROLE_JOINING ? TR_ROLE_LEAVING : now;
}

/* The role that the change of one line of the configuration asks for; `now` if it asks for
 * nothing. */
static enum tr_role role_asked(enum tr_role was, enum tr_role is, enum tr_role now)
{
    bool was_in = was == TR_ROLE_STAYING || was == TR_ROLE_JOINING;
    bool is_in = is == TR_ROLE_STAYING || is == TR_ROLE_JOINING;
    if (is_in && !was_in)
        return tr_change_role(now, true);
    if ((is == TR_ROLE_LEAVING && was != TR_ROLE_LEAVING) ||
        (is == TR_ROLE_NONE && was == TR_ROLE_JOINING))
        return tr_change_role(now, false);
    return now;
}

bool tr_change_by_lists(const struct tr_roster *heeded, const struct tr_roster *configured,
                        struct tr_roster *next)
{
    bool has_any = false;
    for (uint32_t pass = 0; pass < 2; pass++) {
        const struct tr_roster *list = pass == 0 ? configured : heeded;
        for (uint32_t i = 0; i < list->count; i++) {
            struct tr_span address = tr_roster_address(list, i);
            enum tr_role now = tr_roster_role(next, address);
            enum tr_role asked = role_asked(tr_roster_role(heeded, address),
                                            tr_roster_role(configured, address), now);
            if (asked != now)
                has_any |= tr_roster_set(next, address, asked);
        }
    }
    return has_any;
}

bool tr_change_heed(const struct tr_roster *roster, const struct tr_roster *configured,
                    struct tr_roster *heeded)
{
    bool is_all = true;
    for (uint32_t pass = 0; pass < 2; pass++) {
        const struct tr_roster *list = pass == 0 ? configured : heeded;
        for (uint32_t i = list->count; i-- > 0;) { /* from the end: one may go */
            struct tr_span address = tr_roster_address(list, i);
            enum tr_role is = tr_roster_role(configured, address);
            enum tr_role now = tr_roster_role(roster, address);
            bool is_done = role_asked(tr_roster_role(heeded, address), is, now) == now;
            is_all &= is_done && tr_roster_set(heeded, address, is);
        }
    }
    return is_all;
}

uint32_t tr_change_count_left(const struct tr_roster *roster)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < roster->count; i++)
        left +=
            roster->nodes[i].role == TR_ROLE_STAYING || roster->nodes[i].role == TR_ROLE_JOINING;
    return left;
}

/* While one change is under way, another one may only take it back, or lose nodes. */
static bool is_allowed(enum tr_role was, enum tr_role is)
{
    return is == was || is == TR_ROLE_LOST || (was == TR_ROLE_JOINING && is == TR_ROLE_LEAVING) ||
           (was == TR_ROLE_LEAVING && is == TR_ROLE_JOINING);
}

bool tr_change_keep_allowed(const struct tr_roster *roster, struct tr_roster *next)
{
    bool is_all = true;
    for (uint32_t i = next->count; tr_roster_is_changing(roster) && i-- > 0;) {
        struct tr_span address = tr_roster_address(next, i);
        enum tr_role was = tr_roster_role(roster, address);
        if (is_allowed(was, next->nodes[i].role))
            continue;
        tr_roster_set(next, address, was);
        is_all = false;
    }
    return is_all;
}

bool tr_change_is_none(const struct tr_roster *a, const struct tr_roster *b)
{
    bool is_same =
        a->count == b->count && a->floor == b->floor && tr_definition_is_same(&a->keys, &b->keys);
    for (uint32_t i = 0; is_same && i < a->count; i++)
        is_same = a->nodes[i].role == tr_roster_role(b, tr_roster_address(a, i));
    return is_same;
}

bool tr_change_is_loss(const struct tr_roster *roster, const struct tr_roster *next)
{
    bool is_loss = roster->count == next->count && roster->floor == next->floor &&
                   tr_definition_is_same(&roster->keys, &next->keys);
    for (uint32_t i = 0; is_loss && i < roster->count; i++) {
        enum tr_role role = tr_roster_role(next, tr_roster_address(roster, i));
        is_loss = role == TR_ROLE_LOST || role == roster->nodes[i].role;
    }
    return is_loss;
}
