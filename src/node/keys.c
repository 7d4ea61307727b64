/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, as clients reach them, and what the room of keys asks of the others. */
#include "node/keys.h"

#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/ring.h"
#include "kv/command.h"
#include "kv/expire.h"
#include "kv/scan.h"
#include "quorum/coordinate.h"
#include "quorum/exchange.h"
#include "quorum/scan.h"
#include "quorum/strays.h"
#include "quorum/target.h"
#include "timers/owe.h"
#include "wire/log_key.h"

#define SPREAD_MS 300   /* for all to hear of a roster, on links that take no time */
#define HEAR_MS   10000 /* after a start, to hear of what others hold for this node */

/* Whom a key's callback is owed by: all who hold it, and who stands in for those that are away, so
 * that two of them know of each other; and this node. One that leaves, and has said that it holds
 * nothing any more, is not asked to. Those that neither start nor stop come first, so that nobody
 * waits for the others. */
static struct tr_set owed_by(struct tr_node *node, struct tr_span key)
{
    struct tr_set set = {.count = 0};
    uint16_t members[TR_TARGETS_MAX + 1];
    unsigned count = 0;
    bool has_own = false;
    if (tr_ring_is_there(&node->cluster))
        count = tr_quorum_nodes(&node->quorum, key, members);
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        bool is_leaver = node->cluster.members[members[i]].role == TR_ROLE_LEAVING;
        bool is_settled = (node->cluster.peers[members[i]].flags & TR_BEAT_SETTLED) != 0;
        if (!is_leaver || !is_settled || members[i] == 0)
            members[kept++] = members[i];
    }
    count = kept;
    for (unsigned i = 0; i < count; i++)
        has_own |= members[i] == 0;
    if (!has_own)
        members[count++] = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < count && set.count < TR_SET_MAX; i++) {
            uint16_t member = members[i];
            bool is_first = tr_peer_is_serving(&node->cluster, member);
            if (is_first == (pass == 0))
                set.members[set.count++] = member;
        }
    }
    bool is_in = false;
    for (unsigned i = 0; i < set.count; i++)
        is_in |= set.members[i] == 0;
    if (!is_in)
        set.members[TR_SET_MAX - 1] = 0;
    return set;
}

/* Whether another node may know of a key what this one does not, since one of them was away: all
 * that it has to tell is heard first, or, of pairs that it holds for others, waited for a while. */
static bool may_know_more(const struct tr_node *node, uint16_t member,
                          const struct tr_holders *holders, bool is_new)
{
    const struct tr_exchange *exchange = &node->quorum.exchanges[member];
    const struct tr_peer *peer = &node->cluster.peers[member];
    if (member == 0 || node->cluster.members[member].role == TR_ROLE_NONE || !peer->is_up)
        return false;
    bool is_late = !node->had_keys || node->time.now_ms >= node->ready_ms + HEAR_MS;
    bool is_arrived = (peer->key_flags & TR_BEAT_KEYS_ARRIVED) != 0;
    bool is_met = is_new ? exchange->done_id == node->quorum.roster_id : exchange->is_met;
    is_met &= exchange->full_ms == 0 || !tr_quorum_is_healthy(&node->quorum, member);
    return (tr_holders_have(holders, member) && is_arrived && !is_met) ||
           (!exchange->is_home && !is_late);
}

/* While others may have an earlier roster, they may owe it by that: theirs is heard of first, so
 * that there are not two debts. */
static bool may_others_be_behind(const struct tr_node *node)
{
    uint64_t spread_ms = SPREAD_MS + 3 * tr_peers_trip(&node->cluster);
    return node->time.now_ms < node->viewed_ms + spread_ms;
}

/* Whether this node holds a key only since the roster has changed: what it has of it may be from
 * one who knew less than others. */
static bool is_new_holder(const struct tr_node *node, const struct tr_holders *holders)
{
    unsigned place = 0;
    while (place < holders->count && holders->members[place] != 0)
        place++;
    return node->cluster.old_ring.count > 0 && (holders->of_old >> place & 1) == 0;
}

/* Whether this node has heard of what others have written under a key: it may have been away when
 * the key was written anew. Who does not hold it hands it over first, if there is anybody. */
static bool may_owe(const struct tr_node *node, struct tr_span key)
{
    struct tr_holders holders;
    if (!tr_quorum_is_needed(&node->quorum))
        return true;
    if (!tr_replication_is_popping(&node->replication) || !tr_ring_is_there(&node->cluster) ||
        may_others_be_behind(node))
        return false;
    tr_ring_holders(&node->cluster, key, &holders);
    bool is_stray = !tr_holders_have(&holders, 0);
    for (unsigned i = 0; is_stray && i < holders.count; i++) {
        if (tr_quorum_is_healthy(&node->quorum, holders.members[i]))
            return false;
    }
    bool is_new = is_new_holder(node, &holders);
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        if (may_know_more(node, (uint16_t)i, &holders, is_new))
            return false;
    }
    return true;
}

/* A key that was flushed, and had expired before that. Those who held it before the roster changed
 * owe it, if they stay; what they know of it is compared no more, so that one who holds it since
 * then may not know that it is over. */
static bool is_left_to_others(const struct tr_node *node, const struct tr_pair *pair)
{
    struct tr_holders holders;
    if (pair->version >= node->kv.floor || !tr_ring_is_there(&node->cluster))
        return false;
    tr_ring_holders(&node->cluster, pair->key, &holders);
    bool is_there = false;
    for (unsigned i = 0; i < holders.count; i++) {
        bool is_old = (holders.of_old >> i & 1) != 0;
        is_there |= is_old && node->cluster.members[holders.members[i]].role != TR_ROLE_LEAVING;
    }
    return is_there && tr_holders_have(&holders, 0) && is_new_holder(node, &holders);
}

static tr_timer_id owed_id(const struct tr_pair *pair)
{
    return tr_hash_mix(tr_kv_hash(pair->key) ^ tr_hash_mix(pair->version));
}

/* A key that has expired owes its callback once, under an id that follows from key and version. */
static bool owe(void *context, const struct tr_pair *pair, bool is_replaced)
{
    struct tr_node *node = context;
    struct tr_owed owed = {
        .id = owed_id(pair),
        .uri = pair->callback,
        .opaque = pair->value,
        .due_ms = pair->expires_ms,
        .version = pair->version,
        .version_node = pair->version_node,
        .by = owed_by(node, pair->key),
    };
    bool is_leaving = node->cluster.members[0].role == TR_ROLE_LEAVING;
    if (is_leaving && node->membership.was_settled)
        return is_replaced; /* those who stay have the key, too, and owe it */
    if (is_left_to_others(node, pair))
        return true;
    if (!is_replaced && !may_owe(node, pair->key))
        return false;
    if (owed.due_ms > node->time.steady_ms) /* the clock was set back while the node was down */
        owed.due_ms = node->time.steady_ms;
    return tr_timers_owe(&node->timers, &owed, tr_log_key_size(TR_LOG_KEY_END, pair));
}

static bool is_owing(void *context, const struct tr_pair *tombstone)
{
    const struct tr_node *node = context;
    return tr_timers_are_owing(&node->timers, owed_id(tombstone), tombstone->version,
                               tombstone->version_node);
}

static bool may_forget(void *context, const struct tr_pair *tombstone, bool is_known)
{
    const struct tr_node *node = context;
    tr_steady_ms ended_ms = tombstone->expires_ms - TR_KV_END_MS;
    if (!tr_ring_is_there(&node->cluster))
        return true;
    if (!tr_strays_are_all_home(&node->quorum))
        return false;
    if (is_known)
        return true;
    tr_mono_ms at_ms = ended_ms > node->time.steady_base ? ended_ms - node->time.steady_base : 0;
    return tr_exchange_is_known(&node->quorum, tombstone->key, at_ms);
}

void tr_keys_hooks(struct tr_node *node)
{
    node->kv.hooks = (struct tr_kv_hooks){
        .context = node, .owe = owe, .is_owing = is_owing, .may_forget = may_forget};
}

bool tr_node_is_replayed(const struct tr_node *node)
{
    return node->log.is_running || node->kv.is_stopping;
}

bool tr_node_is_spread(const struct tr_node *node)
{
    return tr_quorum_is_needed(&node->quorum);
}

bool tr_node_ask_key(struct tr_node *node, uint64_t token, const struct tr_key_command *command,
                     struct tr_key_result *result)
{
    if (tr_quorum_is_needed(&node->quorum) && !node->replication.is_serving) {
        *result = (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = TR_STARTING};
        return true;
    }
    if (tr_quorum_is_needed(&node->quorum))
        return tr_quorum_ask(&node->quorum, token, command, result);
    tr_node_key(node, command, result);
    return true;
}

enum tr_result tr_node_ask_keys(struct tr_node *node, uint64_t token, uint16_t only,
                                uint64_t cursor, uint32_t count)
{
    return node->replication.is_serving ? tr_scan_ask(&node->quorum, token, only, cursor, count)
                                        : TR_STARTING;
}

unsigned tr_node_key_list(const struct tr_node *node, struct tr_span key,
                          struct tr_span addresses[TR_COPIES_MAX])
{
    uint16_t members[TR_COPIES_MAX];
    const struct tr_ring *ring = &node->cluster.ring;
    if (!tr_ring_is_there(&node->cluster))
        return 0;
    unsigned count = tr_ring_list(&node->cluster, ring, key, ring->copies, members);
    for (unsigned i = 0; i < count; i++)
        addresses[i] = tr_member_address(&node->cluster, members[i]);
    return count;
}

bool tr_node_begin_together(struct tr_node *node)
{
    if (tr_arena_is_tight(&node->arena))
        return false;
    tr_arena_lend(&node->arena);
    return true;
}

void tr_node_end_together(struct tr_node *node)
{
    tr_arena_give_back(&node->arena);
}

void tr_node_key(struct tr_node *node, const struct tr_key_command *command,
                 struct tr_key_result *result)
{
    if (node->is_guest) /* it is about to be taken in, with no keys of its own */
        *result = (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = TR_NO_MEMBER};
    else
        tr_kv_command(&node->kv, command, result);
}

void tr_node_delete_keys(struct tr_node *node, struct tr_key_result *result)
{
    tr_kv_delete_all(&node->kv, result);
}

void tr_node_expire_keys(struct tr_node *node)
{
    if (node->log.is_running)
        tr_kv_expire_run(&node->kv);
}

enum tr_key_room tr_node_key_room(const struct tr_node *node, size_t size, uint32_t count)
{
    return tr_kv_room(&node->kv, size, count);
}

void tr_node_scan_keys(const struct tr_node *node, uint64_t cursor, uint32_t count,
                       struct tr_key_page *page)
{
    tr_kv_scan(&node->kv, cursor, count, page);
}

void tr_node_draw_key(struct tr_node *node, struct tr_key_page *page)
{
    tr_kv_draw(&node->kv, page);
}

struct tr_span tr_node_key_name(const struct tr_node *node, uint32_t ref)
{
    return tr_kv_book_key(&node->kv.book, ref);
}

struct tr_span tr_node_key_callback(const struct tr_node *node, struct tr_span key)
{
    struct tr_pair pair = {.callback = {NULL, 0}};
    tr_ref ref = tr_kv_book_find(&node->kv.book, key, tr_kv_hash(key));
    if (ref != TR_ARENA_NONE)
        tr_kv_book_unpack(&node->kv.book, ref, &pair);
    return pair.callback;
}

size_t tr_node_key_memory(const struct tr_node *node, struct tr_span key)
{
    tr_ref ref = tr_kv_book_find(&node->kv.book, key, tr_kv_hash(key));
    return ref != TR_ARENA_NONE ? tr_kv_book_memory(&node->kv.book, ref) : 0;
}

uint64_t tr_node_durable(const struct tr_node *node)
{
    return node->config.has_log ? node->log.durable : UINT64_MAX;
}
