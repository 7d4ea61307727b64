/* SPDX-License-Identifier: Apache-2.0 */
#include "replication/dropped.h"

#define YOUNG_MS 2000

_Static_assert(YOUNG_MS < TR_TOMBSTONE_MS, "a note is old before it runs out");

/* A note that is as young as that may still be needed: no frame is on its way for longer, but for
 * links that have failed. */
static tr_mono_ms free_from(const struct tr_replication *replication)
{
    return replication->time->now_ms + TR_TOMBSTONE_MS - YOUNG_MS;
}

bool tr_dropped_can_note(const struct tr_replication *replication, const struct tr_key *key)
{
    TR_ASSERT(replication->dropped.cap > 0);
    bool can = tr_recent_has_place(&replication->dropped, key, free_from(replication));
    if (!can)
        tr_cover(replication->trial, RULE_DROPS_FULL);
    return can;
}

/* A key that no part has: what is noted of the timer itself stays. */
static struct tr_key taken_back_key(const struct tr_head *head)
{
    return (struct tr_key){head->key.id, ~head->order.version};
}

static const struct tr_recent_note *find_taken_back(const struct tr_replication *replication,
                                                    const struct tr_head *head)
{
    struct tr_key key = taken_back_key(head);
    const struct tr_recent_note *note = tr_recent_find(&replication->dropped, &key);
    bool is_it = note != NULL && note->until_ms > replication->time->now_ms &&
                 note->order.version == head->order.version &&
                 note->order.version_node == head->order.version_node;
    return is_it ? note : NULL;
}

bool tr_dropped_is_taken_back(const struct tr_replication *replication, const struct tr_head *head)
{
    return replication->dropped.busy_until_ms > replication->time->now_ms &&
           find_taken_back(replication, head) != NULL;
}

const struct tr_order *tr_dropped_find(const struct tr_replication *replication,
                                       const struct tr_head *head)
{
    if (replication->dropped.busy_until_ms <= replication->time->now_ms)
        return NULL;
    struct tr_order order = head->order;
    const struct tr_recent_note *dropped = tr_recent_find(&replication->dropped, &head->key);
    if (dropped != NULL && dropped->until_ms > replication->time->now_ms &&
        tr_order_compare(&dropped->order, &order) >= 0)
        return &dropped->order;
    dropped = find_taken_back(replication, head);
    return dropped != NULL ? &dropped->order : NULL;
}

static void note_dropped(struct tr_replication *replication, const struct tr_head *head,
                         const struct tr_key *key)
{
    if (tr_dropped_find(replication, head) != NULL)
        return;
    struct tr_recent_note *note =
        tr_recent_place(&replication->dropped, key, free_from(replication));
    if (note == NULL)
        return; /* who could wait has asked tr_dropped_can_note */
    note->order = head->order;
    tr_recent_keep(&replication->dropped, note, replication->time->now_ms + TR_TOMBSTONE_MS);
}

void tr_dropped_note(struct tr_replication *replication, const struct tr_head *head)
{
    note_dropped(replication, head, &head->key);
}

void tr_dropped_note_taken_back(struct tr_replication *replication, const struct tr_head *head)
{
    struct tr_key key = taken_back_key(head);
    note_dropped(replication, head, &key);
}

void tr_dropped_remove(struct tr_replication *replication, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_head head;
    tr_store_head(replication->store, ref, &head);
    tr_dropped_note(replication, &head);
    replication->store->remove(replication->store->context, ref);
}
