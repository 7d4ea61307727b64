/* SPDX-License-Identifier: Apache-2.0 */
/* A node out of a region of memory: its rooms, and what each may take. */
#include "cluster/member.h"
#include "cluster/outbox.h"
#include "cluster/ring.h"
#include "cluster/view.h"
#include "node/keys.h"
#include "node/members.h"
#include "node/parts.h"
#include "node/peers.h"
#include "node/recover.h"
#include "pops/destination.h"
#include "replication/operation.h"
#include "timers/replicated.h"

#define WORKSPACE_SIZE     ((size_t)64 << 10)
#define LOG_BATCH_MAX      ((size_t)4 << 20)
#define NOTES_SHARE        128 /* one part in so many of the memory is for each table of notes, */
#define NOTES_LEAST        8192
#define NOTES_MOST         (1u << 20)
#define WAITING_LEAST      128    /* a timer, its parts and more */
#define SEGMENT_REST       4096   /* bytes of a segment beside its largest batch, at least */
#define MOVES_MAX          4096   /* of records, under way here at once */
#define PENDING_MAX        262144 /* records of one node; of more than that the book is walked */
#define KEY_OPERATIONS_MAX 8192   /* commands on keys under way at other nodes */
#define EXCHANGE_MS        600000 /* between two exchanges of keys with a node */
#define SCRATCH_SIZE       ((size_t)256 << 10) /* for a list of keys, of which one may be long */

/* Takes `size` bytes off the front of the region. */
static void *carve(struct tr_memory *memory, size_t size)
{
    TR_ASSERT(size <= SIZE_MAX - 63);
    size_t rounded = (size + 63) / 64 * 64;
    if (memory->size < rounded)
        return NULL;
    void *piece = memory->region;
    memory->region = (uint8_t *)memory->region + rounded;
    memory->size -= rounded;
    return piece;
}

static bool carve_tables(struct tr_node *node, struct tr_memory *memory)
{
    node->pops.flights = carve(memory, node->config.flights_max * sizeof *node->pops.flights);
    node->pops.destinations = carve(memory, TR_DESTINATIONS_MAX * sizeof *node->pops.destinations);
    node->pops.buckets = carve(memory, TR_DESTINATION_BUCKETS * sizeof *node->pops.buckets);
    node->log.waiting = carve(memory, node->config.limits.waiting * sizeof *node->log.waiting);
    node->log.buffer = carve(memory, node->log.config.batch_cap + TR_LOG_BATCH_HEAD + 8);
    node->log.header = carve(memory, TR_LOG_HEADER_MAX);
    node->log.live = carve(memory, TR_LOG_SEGMENTS_MAX * sizeof *node->log.live);
    node->log.sizes = carve(memory, TR_LOG_SEGMENTS_MAX * sizeof *node->log.sizes);
    node->log.table = carve(memory, (size_t)TR_LOG_NODES_MAX * (TR_LOG_ADDRESS_MAX + 2));
    node->cluster.members = carve(memory, TR_LOG_NODES_MAX * sizeof *node->cluster.members);
    node->cluster.peers = carve(memory, TR_LOG_NODES_MAX * sizeof *node->cluster.peers);
    node->replication.progress =
        carve(memory, TR_LOG_NODES_MAX * sizeof *node->replication.progress);
    node->pops.claimants = carve(memory, TR_LOG_NODES_MAX * sizeof *node->pops.claimants);
    node->kv.old = carve(memory, TR_VALUE_MAX);
    return node->kv.old != NULL;
}

static struct tr_recent carve_recent(struct tr_memory *memory, uint32_t cap)
{
    TR_ASSERT(cap > 0);
    struct tr_recent_note *notes = carve(memory, cap * sizeof *notes);
    return (struct tr_recent){.notes = notes, .cap = notes != NULL ? cap : 0};
}

/* What was not set is as usual. */
static void set_limits(struct tr_node_limits *limits, size_t memory, size_t segment_size)
{
    uint64_t notes = memory / NOTES_SHARE / sizeof(struct tr_recent_note);
    uint32_t most = (uint32_t)(notes < NOTES_MOST ? notes : NOTES_MOST);
    most = most > NOTES_LEAST ? most : NOTES_LEAST;
    const struct tr_node_limits usual = {
        .claims = most,
        .drops = most,
        .moves = MOVES_MAX,
        .pending = PENDING_MAX,
        .waiting = TR_NODE_WAITING_MAX,
        .slice = UINT32_MAX,
        .batch = segment_size / 4 < LOG_BATCH_MAX ? segment_size / 4 : LOG_BATCH_MAX,
        .memory = TR_ARENA_MOST,
    };
    limits->claims = limits->claims > 0 ? limits->claims : usual.claims;
    limits->drops = limits->drops > 0 ? limits->drops : usual.drops;
    limits->moves = limits->moves > 0 ? limits->moves : usual.moves;
    limits->pending = limits->pending > 0 ? limits->pending : usual.pending;
    limits->waiting = limits->waiting > 0 ? limits->waiting : usual.waiting;
    limits->slice = limits->slice > 0 ? limits->slice : usual.slice;
    limits->batch = limits->batch > 0 ? limits->batch : usual.batch;
    limits->memory = limits->memory > 0 ? limits->memory : usual.memory;
    TR_ASSERT(limits->waiting <= TR_NODE_WAITING_MAX && limits->waiting >= WAITING_LEAST);
    TR_ASSERT((limits->waiting & (limits->waiting - 1)) == 0);
    TR_ASSERT(limits->batch + SEGMENT_REST < segment_size);
}

static bool carve_cluster(struct tr_node *node, struct tr_memory *memory)
{
    struct tr_cluster *cluster = &node->cluster;
    struct tr_view *view = &cluster->view;
    view->map_size = tr_view_map_size();
    view->workspace_size = WORKSPACE_SIZE;
    view->map = carve(memory, view->map_size);
    view->workspace = carve(memory, view->workspace_size);
    cluster->ring_map_size = tr_ring_map_size();
    cluster->ring.map = carve(memory, cluster->ring_map_size);
    cluster->old_ring.map = carve(memory, cluster->ring_map_size);
    cluster->ring_scratch = carve(memory, cluster->ring_map_size);
    cluster->messages_max = node->config.messages_max;
    cluster->messages = carve(memory, cluster->messages_max * sizeof *cluster->messages);
    node->replication.operations =
        carve(memory, node->config.operations_max * sizeof *node->replication.operations);
    struct tr_node_limits *limits = &node->config.limits;
    node->replication.held = carve_recent(memory, limits->claims);
    node->replication.dropped = carve_recent(memory, limits->drops);
    cluster->frames = carve(memory, TR_FRAMES_SIZE);
    cluster->message_free = TR_QUEUE_END;
    struct tr_membership *membership = &node->membership;
    membership->roster = carve(memory, sizeof *membership->roster);
    membership->heeded = carve(memory, sizeof *membership->heeded);
    membership->configured = carve(memory, sizeof *membership->configured);
    membership->scratch = carve(memory, sizeof *membership->scratch);
    membership->bytes = carve(memory, 1 + TR_ROSTER_SIZE_MAX);
    membership->standings = carve(memory, TR_LOG_NODES_MAX * sizeof *membership->standings);
    if (membership->roster == NULL || membership->heeded == NULL ||
        membership->configured == NULL || membership->scratch == NULL ||
        membership->bytes == NULL || membership->standings == NULL)
        return false;
    return cluster->frames != NULL;
}

static void set_log(struct tr_node *node)
{
    struct tr_log *log = &node->log;
    const struct tr_node_config *config = &node->config;
    log->config = (struct tr_log_config){
        .has_log = config->has_log,
        .is_always_synced = config->is_always_synced,
        .segment_size = config->segment_size,
        .batch_cap = config->limits.batch,
        .waiting_cap = config->limits.waiting,
        .slice = config->limits.slice,
    };
    log->time = &node->time;
    log->trial = &node->trial;
    memcpy(log->store_id, config->store_id, sizeof log->store_id);
    tr_recovery_hooks(node);
}

static void set_cluster(struct tr_node *node)
{
    struct tr_cluster *cluster = &node->cluster;
    cluster->time = &node->time;
    cluster->trial = &node->trial;
    cluster->log = &node->log;
    cluster->beat_ms = TR_NEVER;
    cluster->address = node->config.address;
    size_t pair_max = TR_KEY_MAX + node->config.value_max + TR_URI_MAX;
    cluster->entry_max = node->config.opaque_max > pair_max ? node->config.opaque_max : pair_max;
    tr_peers_hooks(node);
    struct tr_membership *membership = &node->membership;
    membership->cluster = cluster;
    membership->time = &node->time;
    membership->log = &node->log;
    tr_members_hooks(node);
}

static void set_replication(struct tr_node *node)
{
    struct tr_replication *replication = &node->replication;
    const struct tr_node_config *config = &node->config;
    replication->config = (struct tr_replication_config){
        .operations_max = config->operations_max,
        .moves = config->limits.moves,
        .pending = config->limits.pending,
        .slice = config->limits.slice,
        .keyed_keep_ms = config->key_keep_ms,
        .tombstone_keep_ms = config->tombstone_keep_ms,
    };
    replication->store = &node->timers.store;
    replication->cluster = &node->cluster;
    replication->log = &node->log;
    replication->arena = &node->arena;
    replication->time = &node->time;
    replication->trial = &node->trial;
    replication->rebalance.again_ms = TR_NEVER;
}

static void set_pops(struct tr_node *node)
{
    struct tr_pops *pops = &node->pops;
    pops->config = (struct tr_pops_config){
        .flights_max = node->config.flights_max,
        .per_destination = node->config.per_destination,
        .claims = node->config.limits.claims,
    };
    pops->owner = tr_timers_as_owner(&node->timers);
    pops->replication = &node->replication;
    pops->cluster = &node->cluster;
    pops->log = &node->log;
    pops->arena = &node->arena;
    pops->wheel = &node->timers.wheel;
    pops->time = &node->time;
    pops->trial = &node->trial;
}

static void set_timers(struct tr_node *node)
{
    struct tr_timers *timers = &node->timers;
    const struct tr_node_config *config = &node->config;
    timers->config = (struct tr_timers_config){
        .opaque_max = config->opaque_max,
        .identity = config->identity,
        .attempts_max = config->attempts_max,
        .backoff_ms = config->backoff_ms,
        .dead_keep_ms = config->dead_keep_ms,
        .key_keep_ms = config->key_keep_ms,
        .latency_target_ms = config->latency_target_ms,
        .zones = config->zones,
        .begun_ms = config->is_clock_exact ? 0 : 1,
    };
    timers->utc = tr_zone_utc();
    timers->store = tr_timers_as_store(timers);
    timers->replication = &node->replication;
    timers->pops = &node->pops;
    timers->cluster = &node->cluster;
    timers->log = &node->log;
    timers->arena = &node->arena;
    timers->time = &node->time;
    timers->random = &node->random;
    timers->trial = &node->trial;
}

static void set_kv(struct tr_node *node)
{
    struct tr_kv *kv = &node->kv;
    kv->config = (struct tr_kv_config){
        .value_max = node->config.value_max,
        .slice = node->config.limits.slice,
    };
    kv->cluster = &node->cluster;
    kv->log = &node->log;
    kv->arena = &node->arena;
    kv->time = &node->time;
    kv->random = &node->random;
    kv->trial = &node->trial;
    tr_keys_hooks(node);
}

static void set_quorum(struct tr_node *node)
{
    struct tr_quorum *quorum = &node->quorum;
    quorum->config = (struct tr_quorum_config){
        .operations_max = node->config.operations_max < KEY_OPERATIONS_MAX
                              ? node->config.operations_max
                              : KEY_OPERATIONS_MAX,
        .promises_max = node->config.limits.waiting,
        .is_strict = node->config.needs_quorum,
        .exchange_ms =
            node->config.key_exchange_ms > 0 ? node->config.key_exchange_ms : EXCHANGE_MS,
    };
    quorum->kv = &node->kv;
    quorum->cluster = &node->cluster;
    quorum->membership = &node->membership;
    quorum->log = &node->log;
    quorum->arena = &node->arena;
    quorum->time = &node->time;
    quorum->trial = &node->trial;
    quorum->operation_free = UINT32_MAX;
    quorum->active = UINT32_MAX;
    quorum->active_last = UINT32_MAX;
    quorum->look_ms = TR_NEVER;
}

static bool carve_quorum(struct tr_node *node, struct tr_memory *memory)
{
    struct tr_quorum *quorum = &node->quorum;
    for (unsigned i = 0; i < TR_CHAINS; i++)
        quorum->chains[i] = UINT32_MAX;
    quorum->operations = carve(memory, quorum->config.operations_max * sizeof *quorum->operations);
    quorum->promises = carve(memory, quorum->config.promises_max * sizeof *quorum->promises);
    quorum->mailboxes = carve(memory, TR_LOG_NODES_MAX * sizeof *quorum->mailboxes);
    quorum->exchanges = carve(memory, TR_LOG_NODES_MAX * sizeof *quorum->exchanges);
    quorum->scratch_size = SCRATCH_SIZE;
    quorum->scratch = carve(memory, quorum->scratch_size);
    return quorum->promises != NULL && quorum->mailboxes != NULL && quorum->exchanges != NULL &&
           quorum->scratch != NULL;
}

struct tr_node *tr_node_new(const struct tr_node_config *config, const struct tr_memory *memory)
{
    struct tr_memory rest = *memory;
    TR_ASSERT(config->flights_max > 0 && config->flights_max < TR_DESTINATIONS_MAX);
    TR_ASSERT(config->address.size <= TR_LOG_ADDRESS_MAX && config->identity < 1024);
    TR_ASSERT(config->segment_size >= 8 * config->opaque_max + 65536);
    struct tr_node *node = carve(&rest, sizeof *node);
    if (node == NULL)
        return NULL;
    node->config = *config;
    node->trial.mutant = config->mutant;
    set_limits(&node->config.limits, memory->size, config->segment_size);
    memcpy(node->address, config->address.text, config->address.size);
    node->config.address = (struct tr_span){node->address, config->address.size};
    set_log(node);
    set_cluster(node);
    set_replication(node);
    set_pops(node);
    set_timers(node);
    set_kv(node);
    set_quorum(node);
    node->random.state = config->seed;
    if (!carve_tables(node, &rest) || !carve_cluster(node, &rest) || !carve_quorum(node, &rest) ||
        rest.size < TR_ARENA_LEAST)
        return NULL;
    tr_member_set(&node->cluster, 0, node->config.address);
    node->cluster.stamp_node = (uint16_t)node->cluster.members[0].hash;
    size_t most = node->config.limits.memory;
    tr_arena_init(&node->arena, rest.region, rest.size < most ? rest.size : most);
    if (!tr_book_init(&node->timers.book, &node->arena) ||
        !tr_kv_book_init(&node->kv.book, &node->arena))
        return NULL;
    tr_destinations_init(&node->pops);
    return node;
}
