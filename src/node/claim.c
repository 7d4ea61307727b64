/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: a pop that is not settled a second after its due time is claimed by the node that makes
 * it, and again each second while it waits for its receiver or is under way. Whoever hears of it
 * holds back for three seconds. So a slow receiver is not called twice; and nobody waits for the
 * dead, since a claim is void when its node is down or has started anew.
 *
 * What others claim is kept in a table of fixed size, a newer claim in the place of an older one:
 * one that is lost costs a duplicate at worst.
 */
#include "node/internal.h"

#define CLAIM_MS      1000
#define CLAIM_HOLD_MS 3000
#define CLAIM_LOOK_MS 250
#define WAYS          4 /* slots that a key may have */

/* The slot of this key, or else the one of its few whose claim ends first. */
static struct tr_claim *slot_of(const struct tr_node *node, tr_timer_id id, uint64_t part)
{
    struct tr_claim *slots = &node->claims[tr_hash_mix(id + part) % (CLAIMS_MAX / WAYS) * WAYS];
    struct tr_claim *found = &slots[0];
    for (unsigned i = 0; i < WAYS; i++) {
        if (slots[i].id == id && slots[i].part == part)
            return &slots[i];
        if (slots[i].until_ms < found->until_ms)
            found = &slots[i];
    }
    return found;
}

void tr_claim_later(struct tr_node *node, tr_ref ref)
{
    struct tr_fifo_entry entry = {ref, node->steady_ms + CLAIM_MS};
    if (tr_is_clustered(node))
        tr_fifo_push(&node->claiming, &node->arena, entry); /* no room: a duplicate at worst */
}

static void claim(struct tr_node *node, const struct tr_record *record)
{
    uint16_t names[TR_NAMES_MAX];
    unsigned count = tr_breaks(node, TWIN_NO_CLAIMS) ? 0 : tr_names(record, names);
    node->stats.claims++;
    for (unsigned i = 0; i < count; i++) {
        bool is_told = tr_is_listed(record, names[i]) || !tr_breaks(node, TWIN_ONE_LIST);
        tr_cover(node, RULE_CLAIMED);
        if (names[i] != 0 && is_told)
            tr_send(node, names[i],
                    (struct tr_message){
                        .kind = MESSAGE_CLAIM,
                        .id = record->id,
                        .part = record->part,
                        .order = tr_record_order(record),
                    });
    }
}

void tr_claim_now(struct tr_node *node)
{
    node->claim_ms = node->now_ms;
    node->is_claiming_all = true;
}

/* Claims what is still under way; what is settled falls out. */
void tr_claims_run(struct tr_node *node)
{
    if (node->claiming.count == 0)
        node->is_claiming_all = false;
    if (node->claiming.count == 0 || node->now_ms < node->claim_ms)
        return;
    node->claim_ms = node->now_ms + CLAIM_LOOK_MS;
    bool is_all = node->is_claiming_all;
    node->is_claiming_all = false;
    for (uint32_t count = node->claiming.count; count > 0; count--) {
        struct tr_record record;
        struct tr_fifo_entry entry = tr_fifo_pop(&node->claiming, &node->arena);
        if (!tr_arena_holds(&node->arena, entry.ref))
            continue;
        enum tr_record_state state = tr_book_state(&node->book, entry.ref);
        if (state != TR_STATE_QUEUED && state != TR_STATE_FLYING)
            continue;
        if (is_all || entry.due_ms <= node->steady_ms) {
            tr_book_unpack(&node->book, entry.ref, &record);
            claim(node, &record);
            entry.due_ms = node->steady_ms + CLAIM_MS;
        }
        tr_fifo_push(&node->claiming, &node->arena, entry);
    }
}

void tr_claim_flights(struct tr_node *node)
{
    for (uint32_t i = 0; i < node->flight_fresh; i++) {
        struct tr_record record;
        const struct tr_flight *flight = &node->flights[i];
        if (!flight->is_used || !tr_arena_holds(&node->arena, flight->ref) ||
            tr_book_state(&node->book, flight->ref) != TR_STATE_FLYING)
            continue;
        tr_book_unpack(&node->book, flight->ref, &record);
        claim(node, &record);
    }
}

tr_mono_ms tr_claims_wake_at(const struct tr_node *node)
{
    return node->claiming.count == 0 ? TR_NODE_NEVER : node->claim_ms;
}

void tr_claim_heard(struct tr_node *node, uint16_t peer, const struct tr_record *record)
{
    *slot_of(node, record->id, record->part) = (struct tr_claim){
        .id = record->id,
        .part = record->part,
        .order = tr_record_order(record),
        .peer = peer,
        .incarnation = node->peers[peer].incarnation,
        .until_ms = node->now_ms + CLAIM_HOLD_MS,
    };
}

bool tr_is_claimed(const struct tr_node *node, const struct tr_record *record)
{
    const struct tr_claim *claimed = slot_of(node, record->id, record->part);
    const struct tr_peer *peer = &node->peers[claimed->peer];
    struct tr_order order = tr_record_order(record);
    order.moves = 0; /* wherever it belongs by now, it is the same pop */

    /* A node that stops sees its claims through. */
    bool is_stopping = (peer->flags & TR_BEAT_POPPING) == 0 && (peer->flags & TR_BEAT_READY) != 0;
    return (claimed->until_ms > node->now_ms || is_stopping) && claimed->id == record->id &&
           claimed->part == record->part && peer->is_up &&
           peer->incarnation == claimed->incarnation &&
           tr_order_compare(&claimed->order, &order) >= 0; /* higher: its outcome is on its way */
}
