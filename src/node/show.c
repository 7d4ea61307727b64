/* SPDX-License-Identifier: Apache-2.0 */
/* What the shell and the simulator see of a node. */
#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "cluster/ring.h"
#include "cluster/view.h"
#include "kv/merge.h"
#include "log/segment.h"
#include "node/parts.h"
#include "pops/destination.h"
#include "quorum/exchange.h"
#include "quorum/strays.h"
#include "replication/operation.h"
#include "replication/set.h"
#include "timers/list.h"
#include "timers/replicated.h"
#include "timers/schedule.h"
#include "timers/store.h"
#include "timers/survey.h"

void tr_node_peer(const struct tr_node *node, uint16_t member, struct tr_node_peer *seen)
{
    TR_ASSERT(member < node->cluster.member_count);
    const struct tr_cluster *cluster = &node->cluster;
    const struct tr_peer *peer = &cluster->peers[member];
    const struct tr_progress *progress = &node->replication.progress[member];
    *seen = (struct tr_node_peer){
        .address = tr_member_address(cluster, member),
        .role = tr_roster_role(node->membership.roster, tr_member_address(cluster, member)),
        .is_linked = peer->link != LINK_DOWN,
        .is_up = tr_peer_is_up(cluster, member),
        .is_serving = tr_peer_is_serving(cluster, member),
        .is_rebalancing = peer->is_up && (peer->flags & TR_BEAT_REBALANCING) != 0,
        .has_same_view = member == 0 || peer->view == cluster->view.id,
        .is_behind = progress->walk != WALK_NOT,
        .heard_ms = node->time.now_ms - peer->heard_ms,
        .clock_ms = peer->skew_ms,
        .queued = peer->count,
        .pending = progress->pending.count,
        .fill = peer->fill,
    };
}

void tr_node_record(const struct tr_node *node, uint32_t ref, struct tr_record *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    for (uint32_t i = 0; i < node->replication.read_count; i++) {
        if (node->replication.read[i] == ref) {
            struct tr_whole whole;
            tr_operation_unpack_shown(&node->replication, i, &whole);
            tr_record_from_whole(&whole, record);
            return;
        }
    }
    tr_book_unpack(&node->timers.book, ref, record);
}

tr_steady_ms tr_node_steady(const struct tr_node *node)
{
    return node->time.steady_ms;
}

unsigned tr_node_placed(const struct tr_node *node, uint32_t ref, uint16_t *members)
{
    struct tr_head head;
    tr_book_head(&node->timers.book, ref, &head);
    return tr_view_place(&node->cluster, head.key.id,
                         tr_set_copies(&node->replication, head.factor), members);
}

tr_wall_ms tr_node_wall(const struct tr_node *node, tr_steady_ms at_ms)
{
    return at_ms + (uint64_t)node->log.offset_ms; /* not by what the last step rounded off */
}

void tr_node_stats(const struct tr_node *node, struct tr_node_stats *stats)
{
    const struct tr_replication *replication = &node->replication;
    const struct tr_timers_stats *timers = &node->timers.stats;
    const struct tr_pops_stats *pops = &node->pops.stats;
    *stats = (struct tr_node_stats){
        .timers = timers->timers,
        .debts = timers->debts,
        .dead = timers->dead,
        .tombstones = timers->tombstones,
        .copies = timers->copies,
        .created = timers->created,
        .replaced = timers->replaced,
        .cancelled = timers->cancelled,
        .refused = timers->refused,
        .pops_delivered = timers->pops_delivered,
        .pops_failed = timers->pops_failed,
        .pops_dead = timers->pops_dead,
        .pops_discarded = timers->pops_discarded,
        .redriven = timers->redriven,
        .swept = timers->swept,
        .queued = pops->queued,
        .takeovers = pops->takeovers,
        .late_turns = pops->late_turns,
        .claims = pops->claims,
        .held_back = pops->held_back,
    };
    stats->moved = replication->stats.moved;
    stats->hinted = replication->stats.hinted;
    stats->records_in = replication->stats.records_in;
    stats->drops = replication->stats.drops;
    stats->catchups = replication->stats.catchups;
    stats->forgotten_early = replication->stats.forgotten_early;
    stats->due_waiting = node->timers.wheel.ready.count;
    stats->flights = node->pops.flight_count;
    stats->log_bytes = node->log.bytes + node->log.offset;
    stats->log_live_bytes = node->log.live_bytes;
    stats->log_segments = tr_log_segment_count(&node->log);
    stats->log_batches = node->log.batches;
    stats->log_entries = node->log.entries;
    stats->reclaimed = node->log.reclaimed;
    stats->memory_used = tr_arena_used(&node->arena);
    stats->memory_room = tr_arena_room(&node->arena);
    stats->waiting = node->log.waiting_tail - node->log.waiting_head;
    stats->is_ready = node->phase == PHASE_READY;
    stats->is_disk_full = node->log.is_refused;
    stats->is_log_full = node->log.is_exhausted;
    stats->is_serving = node->phase == PHASE_READY && tr_replication_is_open(&node->replication);
    stats->is_guest = node->is_guest || !tr_membership_is_in(&node->membership);
    stats->is_popping = node->phase == PHASE_READY && tr_replication_is_popping(&node->replication);
    stats->operations = node->replication.operation_count;
    stats->keys = node->kv.stats.keys;
    stats->keys_expiring = node->kv.stats.expiring;
    stats->keys_expired = node->kv.stats.expired;
    stats->keys_bytes = node->kv.stats.bytes;
    stats->keys_batch = node->kv.written_last;
    stats->keys_tombstones = node->kv.stats.tombstones;
    stats->keys_forgotten_early = node->kv.stats.forgotten_early;
    stats->keys_operations = node->quorum.operation_count;
    stats->are_keys_home =
        !tr_ring_is_there(&node->cluster) ||
        (tr_exchange_is_through(&node->quorum) && tr_strays_are_home(&node->quorum));
    stats->is_ahead = tr_clock_is_ahead(&node->cluster);
    stats->to_rebalance = node->replication.rebalance.to_rebalance;
    stats->moving = node->replication.rebalance.moves.count;
    stats->rebalance_walk = node->replication.rebalance.is_walking
                                ? node->replication.rebalance.cursor >> 48
                                : UINT16_MAX;
    stats->is_rebalancing = node->replication.rebalance.is_rebalancing;
}

bool tr_node_next_tag(const struct tr_node *node, uint64_t *cursor, struct tr_tag *tag)
{
    const struct tr_strings *tags = &node->timers.book.tags;
    struct tr_index_walk walk = tr_index_seek(&tags->index, *cursor);
    tr_ref ref = TR_ARENA_NONE;
    if (!tr_index_next(&walk, &ref))
        return false;
    tag->name = tr_strings_text(tags, ref);
    tag->count = *tr_strings_tally(tags, ref);
    *cursor = tr_hash_xxh3(tag->name.text, tag->name.size) + 1;
    return true;
}

bool tr_node_is_up(const struct tr_node *node, uint16_t member)
{
    return tr_peer_is_up(&node->cluster, member);
}

uint16_t tr_node_member(const struct tr_node *node, struct tr_span address)
{
    return tr_member_find(&node->cluster, address);
}

uint32_t tr_node_members(const struct tr_node *node)
{
    return node->cluster.member_count;
}

bool tr_node_is_alone(const struct tr_node *node)
{
    return tr_cluster_is_alone(&node->cluster);
}

uint64_t tr_node_view(const struct tr_node *node)
{
    return node->cluster.view.id;
}

struct tr_span tr_node_member_address(const struct tr_node *node, uint16_t member)
{
    return tr_member_address(&node->cluster, member);
}

bool tr_node_next_record(const struct tr_node *node, struct tr_node_walk *walk,
                         struct tr_record *record)
{
    struct tr_index_walk at = tr_index_seek(&node->timers.book.index, walk->hash);
    tr_ref ref = TR_ARENA_NONE;
    for (uint32_t i = 0; i <= walk->skip; i++) {
        if (!tr_index_next(&at, &ref))
            return false;
    }
    uint64_t hash = tr_book_hash(tr_book_id(&node->timers.book, ref));
    walk->skip = hash == walk->hash ? walk->skip + 1 : 1;
    walk->hash = hash;
    walk->is_safe = tr_book_state(&node->timers.book, ref) != TR_STATE_UNSAFE;
    tr_book_unpack(&node->timers.book, ref, record);
    return true;
}

bool tr_node_pair(const struct tr_node *node, struct tr_span key, struct tr_pair *pair)
{
    uint64_t batch = 0;
    return tr_kv_look(&node->kv, key, pair, &batch);
}

struct tr_span tr_node_address(const struct tr_node *node)
{
    return node->config.address;
}

const uint8_t *tr_node_store_id(const struct tr_node *node)
{
    return node->log.store_id;
}

/* Texts that are shared, the records of operations and of answers, and the sums of anti-entropy. */
static uint64_t count_strings(const struct tr_node *node)
{
    const struct tr_replication *replication = &node->replication;
    const struct tr_book *book = &node->timers.book;
    uint64_t count = book->texts.index.count + book->tags.index.count + replication->read_count +
                     node->kv.book.callbacks.index.count;
    for (uint32_t i = 0; i < replication->config.operations_max; i++) {
        const struct tr_operation *operation = &replication->operations[i];
        count += operation->number != 0 && operation->record != TR_ARENA_NONE;
    }
    for (uint32_t i = 1; i < node->cluster.member_count; i++) {
        const struct tr_progress *progress = &replication->progress[i];
        count += progress->own_sums != TR_ARENA_NONE;
        count += progress->their_sums != TR_ARENA_NONE;
    }
    return count;
}

/* What the rooms hold is what the arena gave them, and their counts agree with each other. */
bool tr_node_valid(const struct tr_node *node)
{
    const struct tr_timers_stats *stats = &node->timers.stats;
    uint64_t records = stats->timers + stats->debts + stats->dead + stats->tombstones;
    return tr_book_valid(&node->timers.book) && tr_wheel_valid(&node->timers.wheel) &&
           records == node->timers.book.index.count &&
           records == node->arena.pieces[TR_ARENA_RECORD] && tr_kv_book_valid(&node->kv.book) &&
           tr_wheel_valid(&node->kv.wheel) &&
           node->kv.book.index.count == node->arena.pieces[TR_ARENA_KEY] &&
           count_strings(node) == node->arena.pieces[TR_ARENA_STRING];
}

unsigned tr_node_ahead(const struct tr_node *node, uint32_t ref, tr_wall_ms *instants,
                       unsigned most)
{
    struct tr_record record;
    tr_node_record(node, ref, &record);
    return tr_schedule_ahead(&node->timers, &record, instants, most);
}

unsigned tr_node_find_timers(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                             struct tr_timer_text *out, unsigned most)
{
    return tr_list_find(&node->timers, query, cursor, out, most);
}

bool tr_node_count_ahead(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                         struct tr_ahead *ahead)
{
    return tr_survey_count(&node->timers, query, cursor, ahead);
}

bool tr_node_find_next(struct tr_node *node, const struct tr_query *query, uint64_t *cursor,
                       struct tr_nexts *nexts)
{
    return tr_survey_next(&node->timers, query, cursor, nexts);
}

void tr_node_sort_next(struct tr_nexts *nexts)
{
    tr_survey_sort(nexts);
}

uint32_t tr_node_next_ref(const struct tr_node *node, const struct tr_next *next)
{
    return tr_survey_find(&node->timers, next);
}

bool tr_node_sees_own(const struct tr_node *node, uint32_t ref, const struct tr_narrow *narrow)
{
    struct tr_record record;
    tr_book_unpack(&node->timers.book, ref, &record);
    return tr_list_sees(&record, narrow);
}

bool tr_node_sees(const struct tr_node *node, uint32_t ref, const struct tr_narrow *narrow)
{
    struct tr_record record;
    if (narrow == NULL || narrow->count == 0)
        return true;
    tr_node_record(node, ref, &record); /* which knows where an effect's reference leads */
    return tr_list_sees(&record, narrow);
}

bool tr_node_destination(const struct tr_node *node, struct tr_span origin,
                         struct tr_destination_stats *stats)
{
    return tr_destination_look(&node->pops, tr_hash_xxh3(origin.text, origin.size), stats);
}

uint64_t tr_node_tag_count(const struct tr_node *node, struct tr_span name)
{
    tr_ref ref = tr_strings_find(&node->timers.book.tags, name);
    return ref == TR_ARENA_NONE ? 0 : *tr_strings_tally(&node->timers.book.tags, ref);
}

uint64_t tr_node_version(const struct tr_node *node)
{
    uint64_t now = tr_clock_now(&node->cluster);
    uint64_t last = node->cluster.last_stamp;
    return (last > now ? last : now) + 1;
}

tr_wall_ms tr_node_nominal(const struct tr_node *node, const struct tr_record *record)
{
    const struct tr_head *head = &record->head;
    return head->instant_ms != 0 ? head->instant_ms
                                 : tr_node_wall(node, head->due_ms - head->lag_ms);
}

struct tr_span tr_node_address_of(const struct tr_node *node, uint16_t hash)
{
    for (uint32_t i = 0; i < node->cluster.member_count; i++) {
        if ((uint16_t)node->cluster.members[i].hash == hash)
            return tr_member_address(&node->cluster, (uint16_t)i);
    }
    return (struct tr_span){"", 0};
}

struct tr_span tr_node_older_member(const struct tr_node *node)
{
    uint16_t member = tr_peers_older(&node->cluster, TR_PLAN_VERSION);
    return member == TR_MEMBER_NONE ? (struct tr_span){"", 0}
                                    : tr_member_address(&node->cluster, member);
}

struct tr_timer_text tr_node_text(const struct tr_node *node, tr_timer_id id, uint32_t factor)
{
    return tr_timers_text(&node->timers, id, factor);
}

#ifdef TR_MUTANTS
const uint64_t *tr_node_covered(const struct tr_node *node)
{
    return node->trial.covered;
}
#endif
