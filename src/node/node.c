/* SPDX-License-Identifier: Apache-2.0 */
/* The step, the clocks and the stamps. */
#include "node/internal.h"

#define CLOCK_STEP_MS 2     /* wall and steady time differ by less through rounding alone */
#define STALE_MIN     65536 /* entries of the wheel that may be stale before it is swept */
#define SWEEP_SLICE   2048

#define WORKSPACE_SIZE ((size_t)64 << 10)
#define LOG_BATCH_MAX  ((size_t)4 << 20)
#define NOTES_SHARE    128 /* one part in so many of the memory is for each table of notes, */
#define NOTES_LEAST    8192
#define NOTES_MOST     (1u << 20)
#define WAITING_LEAST  128  /* a timer, its parts and more */
#define SEGMENT_REST   4096 /* bytes of a segment beside its largest batch, at least */
#define DRAIN_MS       3000 /* others have this long to hear the last */

/* Takes `size` bytes off the front of the region. */
static void *carve(struct tr_memory *memory, size_t size)
{
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
    node->flights = carve(memory, node->config.flights_max * sizeof *node->flights);
    node->destinations = carve(memory, DESTINATIONS_MAX * sizeof *node->destinations);
    node->buckets = carve(memory, BUCKETS * sizeof *node->buckets);
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
    node->claimants = carve(memory, TR_LOG_NODES_MAX * sizeof *node->claimants);
    return node->claimants != NULL;
}

static struct tr_recent carve_recent(struct tr_memory *memory, uint32_t cap)
{
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
        .owed = OWED_MAX,
        .waiting = TR_NODE_WAITING_MAX,
        .slice = UINT32_MAX,
        .batch = segment_size / 4 < LOG_BATCH_MAX ? segment_size / 4 : LOG_BATCH_MAX,
        .memory = TR_ARENA_MOST,
    };
    limits->claims = limits->claims > 0 ? limits->claims : usual.claims;
    limits->drops = limits->drops > 0 ? limits->drops : usual.drops;
    limits->moves = limits->moves > 0 ? limits->moves : usual.moves;
    limits->owed = limits->owed > 0 ? limits->owed : usual.owed;
    limits->waiting = limits->waiting > 0 ? limits->waiting : usual.waiting;
    limits->slice = limits->slice > 0 ? limits->slice : usual.slice;
    limits->batch = limits->batch > 0 ? limits->batch : usual.batch;
    limits->memory = limits->memory > 0 ? limits->memory : usual.memory;
    TR_ASSERT(limits->waiting <= TR_NODE_WAITING_MAX && limits->waiting >= WAITING_LEAST);
    TR_ASSERT((limits->waiting & (limits->waiting - 1)) == 0);
    TR_ASSERT(limits->batch + SEGMENT_REST < segment_size);
}

/* What only a cluster needs. */
static bool carve_cluster(struct tr_node *node, struct tr_memory *memory)
{
    struct tr_cluster *cluster = &node->cluster;
    struct tr_view *view = &cluster->view;
    if (node->config.messages_max == 0)
        return true;
    view->map_size = tr_view_map_size();
    view->workspace_size = WORKSPACE_SIZE;
    view->map = carve(memory, view->map_size);
    view->workspace = carve(memory, view->workspace_size);
    cluster->messages_max = node->config.messages_max;
    cluster->messages = carve(memory, cluster->messages_max * sizeof *cluster->messages);
    node->replication.operations =
        carve(memory, node->config.operations_max * sizeof *node->replication.operations);
    struct tr_node_limits *limits = &node->config.limits;
    node->replication.held = carve_recent(memory, limits->claims);
    node->replication.dropped = carve_recent(memory, limits->drops);
    cluster->frames = carve(memory, TR_FRAMES_SIZE);
    cluster->message_free = TR_QUEUE_END;
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
    cluster->address = node->config.address;
    cluster->entry_max = node->config.opaque_max;
    tr_peers_hooks(node);
}

static void set_replication(struct tr_node *node)
{
    struct tr_replication *replication = &node->replication;
    const struct tr_node_config *config = &node->config;
    node->store = tr_timers_as_store(node);
    replication->config = (struct tr_replication_config){
        .operations_max = config->operations_max,
        .moves = config->limits.moves,
        .pending = config->limits.owed,
        .slice = config->limits.slice,
        .keyed_keep_ms = config->key_keep_ms,
        .tombstone_keep_ms = config->tombstone_keep_ms,
    };
    replication->store = &node->store;
    replication->cluster = &node->cluster;
    replication->log = &node->log;
    replication->arena = &node->arena;
    replication->time = &node->time;
    replication->trial = &node->trial;
    replication->rebalance.again_ms = TR_NEVER;
}

struct tr_node *tr_node_new(const struct tr_node_config *config, const struct tr_memory *memory)
{
    struct tr_memory rest = *memory;
    TR_ASSERT(config->flights_max > 0 && config->flights_max < DESTINATIONS_MAX);
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
    node->random.state = config->seed;
    if (!carve_tables(node, &rest) || !carve_cluster(node, &rest) || rest.size < TR_ARENA_LEAST)
        return NULL;
    tr_member_set(&node->cluster, 0, node->config.address);
    node->cluster.stamp_node = (uint16_t)node->cluster.members[0].hash;
    node->replication.is_popping =
        config->messages_max == 0; /* in a cluster it waits for its first view */
    node->replication.is_serving = node->replication.is_popping;
    size_t most = node->config.limits.memory;
    tr_arena_init(&node->arena, rest.region, rest.size < most ? rest.size : most);
    if (!tr_book_init(&node->book, &node->arena))
        return NULL;
    tr_pops_init(node);
    return node;
}

static void set_clock(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    if (!node->has_clock) {
        node->has_clock = true;
        node->time.steady_base = event->wall_ms - event->now_ms;
    }
    node->time.now_ms = event->now_ms > node->time.now_ms ? event->now_ms : node->time.now_ms;
    node->time.wall_ms = event->wall_ms;
    node->time.steady_ms = node->time.now_ms + node->time.steady_base;
    if (node->phase != PHASE_READY && node->phase != PHASE_DRAINING)
        return;
    int64_t offset = (int64_t)(node->time.wall_ms - node->time.steady_ms);
    int64_t change = offset - node->log.offset_ms;
    if ((change <= -CLOCK_STEP_MS || change >= CLOCK_STEP_MS) &&
        tr_log_number(&node->log, TR_LOG_OFFSET, (uint64_t)offset)) {
        node->log.offset_ms = offset;
        tr_note(out, TR_NOTE_CLOCK_STEPPED, 0, (uint64_t)offset);
    }
}

/* 34 bits of milliseconds, 10 of identity, 20 of a counter that runs on. One that is in use, which
 * a client can bring about by PUT, is passed over. */
tr_timer_id tr_new_id(struct tr_node *node)
{
    uint64_t time = (node->cluster.last_stamp >> 16) & (((uint64_t)1 << 34) - 1);
    for (;;) {
        uint32_t counter = node->id_counter++ & 0xfffff;
        tr_timer_id id = time << 30 | (uint64_t)node->config.identity << 20 | counter;
        struct tr_index_walk walk;
        if (tr_book_first(&node->book, id, &walk) == TR_ARENA_NONE)
            return id;
        time = (time + (counter == 0)) & (((uint64_t)1 << 34) - 1);
    }
}

/* Takes stale entries out of the wheel when they are many, a slice at a time. */
static void sweep(struct tr_node *node)
{
    uint64_t live = node->wheel.count - (node->stale < node->wheel.count ? node->stale : 0);
    if (!node->is_sweeping && node->stale > STALE_MIN && node->stale > live / 2)
        node->is_sweeping = true;
    for (unsigned i = 0;
         node->is_sweeping && i < tr_replication_slice(&node->replication, SWEEP_SLICE); i++) {
        struct tr_fifo_entry entry;
        if (!tr_wheel_sweep_take(&node->wheel, &entry)) {
            node->is_sweeping = false;
            node->stale = 0;
        } else if (tr_entry_is_live(node, &entry)) {
            tr_wheel_sweep_keep(&node->wheel, entry);
        } else {
            node->stale -= node->stale > 0;
            node->stats.swept++;
        }
    }
}

static void drain(struct tr_node *node, struct tr_effects *out)
{
    bool is_told = node->replication.operation_count == 0 && tr_all_are_told(node);
    if (node->flight_count > 0)
        node->drain_ms = node->time.now_ms; /* what comes of them is to be told yet */
    if (node->flight_count > 0 || !tr_log_is_idle(&node->log) || !tr_effects_has_room(out, 1))
        return;
    if (tr_is_clustered(node) && !is_told && node->time.now_ms < node->drain_ms + DRAIN_MS)
        return;
    if (!node->is_stop_logged && node->config.has_log) {
        node->is_stop_logged = true;
        tr_log_number(&node->log, TR_LOG_CLEAN_STOP, 0);
        tr_log_run(&node->log, true, out);
        return;
    }
    node->phase = PHASE_STOPPED;
    tr_cover(&node->trial, RULE_DRAINED);
    tr_effects_push(out, TR_EFFECT_STOPPED);
}

/* Ready when there is a segment to write to, or the disk has said that there will be none. */
static void open_log(struct tr_node *node, struct tr_effects *out)
{
    tr_log_run(&node->log, true, out);
    bool is_open = !node->config.has_log || node->log.allocated >= node->log.segment;
    if (!tr_effects_has_room(out, 1) || (!is_open && !node->log.is_refused))
        return;
    node->phase = PHASE_READY;
    node->log.is_running = true;
    node->log.started = node->log.segment;
    tr_effects_push(out, TR_EFFECT_RECOVERED);
}

static void configure(struct tr_node *node, const struct tr_node_config *config)
{
    node->config.per_destination = config->per_destination;
    node->config.attempts_max = config->attempts_max;
    node->config.backoff_ms = config->backoff_ms;
    node->config.dead_keep_ms = config->dead_keep_ms;
    node->config.key_keep_ms = config->key_keep_ms;
    node->config.latency_target_ms = config->latency_target_ms;
    node->config.tombstone_keep_ms = config->tombstone_keep_ms;
    node->replication.config.keyed_keep_ms = config->key_keep_ms;
    node->replication.config.tombstone_keep_ms = config->tombstone_keep_ms;
}

static bool is_alone(const struct tr_node *node, const struct tr_event *event)
{
    return event->of.view.count == 1 &&
           tr_span_equals(event->of.view.nodes[0].address, node->config.address);
}

/* Others were there before: this one has come to them, whatever it is called by now. */
static bool has_joined(const struct tr_node *node)
{
    bool has_others = false;
    for (uint32_t i = 1; i < node->cluster.member_count; i++)
        has_others |= node->cluster.members[i].role == TR_ROLE_STAYING ||
                      node->cluster.members[i].role == TR_ROLE_LEAVING;
    bool is_joining = node->cluster.members[0].role == TR_ROLE_JOINING;
    if (has_others && !is_joining)
        tr_cover(&node->trial, RULE_JOINED_LATE);
    return is_joining || has_others;
}

static void change_view(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    bool is_first = !tr_is_clustered(node);
    bool was_alone = !tr_view_has_others(&node->cluster);
    if (is_first && node->cluster.member_count == 1 && is_alone(node, event)) {
        node->replication.is_popping = true; /* it runs without all that a cluster needs */
        node->replication.is_serving = true;
        return;
    }
    if (!tr_view_set(&node->cluster, event->of.view.nodes, event->of.view.count)) {
        tr_note(out, TR_NOTE_VIEW_REFUSED, 0, 0);
        return;
    }
    /* One that was alone and to which others come has missed nothing. One that joins them has. */
    bool is_joining = was_alone && has_joined(node);
    if (is_joining || (is_first && !node->replication.is_serving)) {
        node->is_clock_checked |=
            node->replication.is_serving; /* there are timers by its clock as it is */
        node->replication.is_serving = false;
        tr_catchup_begin(&node->replication);
    }
    node->replication.rebalance.is_unsettled = true;
    node->replication.rebalance.changed_ms = node->time.now_ms;
    tr_rebalance_again(&node->replication);
    tr_peers_beat_now(&node->cluster);
}

static void run_cluster(struct tr_node *node, struct tr_effects *out)
{
    if (!tr_is_clustered(node))
        return;
    tr_members_log(&node->cluster);
    tr_catchup_mind_log(&node->replication);
    if (!node->replication.is_popping && node->phase == PHASE_READY && !node->log.is_exhausted)
        tr_catchup_run(&node->replication);
    tr_operations_run(&node->replication, out);
    tr_claims_run(node);
    if (node->phase == PHASE_READY)
        tr_rebalance_run(&node->replication, out);
}

/* Others hear of the pops under way here before they hear that it makes no more of them. */
static void ask_drain(struct tr_node *node, struct tr_effects *out)
{
    if (node->phase < PHASE_READY) { /* nothing has begun that could be left undone */
        node->phase = PHASE_STOPPED;
        tr_effects_push(out, TR_EFFECT_STOPPED);
    } else if (node->phase == PHASE_READY) {
        node->phase = PHASE_DRAINING;
        node->log.is_running = false;
        node->drain_ms = node->time.now_ms;
        tr_claim_flights(node);
        tr_pops_recall(node); /* nobody waits for what is not made any more */
        tr_peers_beat_now(&node->cluster);
    }
    node->is_sweeping = false;
    node->log.is_reclaiming = false;
    node->log.is_removing = false;
}

static void handle(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    switch (event->kind) {
    case TR_EVENT_TICK:
        return;
    case TR_EVENT_RECOVERY_STARTED:
        tr_recovery_start(node, event, out);
        return;
    case TR_EVENT_REQUEST_RECEIVED:
        tr_request(node, event, out);
        return;
    case TR_EVENT_CALLBACK_ENDED:
        tr_callback_ended(node, event);
        return;
    case TR_EVENT_LOG_WRITTEN:
        tr_log_written(&node->log, event->of.log.written, event->of.log.synced);
        return;
    case TR_EVENT_SEGMENT_ALLOCATED:
        tr_log_segment_allocated(&node->log, event->of.segment.number, out);
        return;
    case TR_EVENT_SEGMENT_REFUSED:
        tr_log_segment_refused(&node->log, out);
        return;
    case TR_EVENT_DRAIN_ASKED:
        ask_drain(node, out);
        return;
    case TR_EVENT_SETTLE_ASKED:
        tr_rebalance_asked(&node->replication);
        return;
    case TR_EVENT_CONFIGURED:
        configure(node, event->of.config);
        return;
    case TR_EVENT_VIEW_CHANGED:
        change_view(node, event, out);
        return;
    case TR_EVENT_LINK_UP:
        tr_peer_link_up(&node->cluster, event->of.frame.peer);
        return;
    case TR_EVENT_LINK_DOWN:
        tr_peer_link_down(&node->cluster, event->of.frame.peer);
        return;
    case TR_EVENT_FRAME_RECEIVED:
        tr_frame_received(node, event, out);
        return;
    case TR_EVENT_FRAME_SENT:
        tr_peer_frame_sent(&node->cluster, event->of.frame.peer);
        return;
    }
}

/* What answers of the step before referred to. */
static void give_reads(struct tr_node *node)
{
    while (node->replication.read_count > 0)
        tr_arena_give(&node->arena, node->replication.read[--node->replication.read_count]);
}

/* What comes many times in a turn. */
static bool is_short_work(enum tr_event_kind kind)
{
    return kind == TR_EVENT_REQUEST_RECEIVED || kind == TR_EVENT_FRAME_RECEIVED ||
           kind == TR_EVENT_FRAME_SENT;
}

void tr_node_step(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    out->count = 0;
    node->cluster.frames_size = 0;
    give_reads(node);
    set_clock(node, event, out);
    if (tr_is_clustered(node))
        tr_catchup_notice(&node->replication, out);
    handle(node, event, out);
    if (node->phase == PHASE_REPLAYING)
        tr_recovery_run(node, out);
    if (node->phase == PHASE_OPENING)
        open_log(node, out);
    /* In the middle of a turn the rest of the work is left to the turn's end. */
    bool is_brief = event->has_more && is_short_work(event->kind);
    bool is_running = node->phase == PHASE_READY || node->phase == PHASE_DRAINING;
    if (is_running && !is_brief) {
        tr_pops_finish(node, out);
        run_cluster(node, out);
    }
    if (is_running)
        tr_durable_run(node, out);
    /* After all that may replace a record: what is handed out must still be there. */
    if (node->phase == PHASE_READY && !is_brief) {
        tr_pops_run(node, out);
        sweep(node);
        tr_log_reclaim(&node->log, out);
    }
    if (is_running) {
        /* The batch that is handed out here must not be written to any more in this step. */
        tr_log_run(&node->log, !event->has_more, out);
        /* Others wait for what has become durable; the rest goes with the turn's end. */
        if (!event->has_more || event->kind == TR_EVENT_LOG_WRITTEN)
            tr_peers_run(node, out);
    }
    if (node->phase == PHASE_DRAINING)
        drain(node, out);
    if (tr_is_clustered(node)) {
        tr_mono_ms wake = event->has_more ? node->time.now_ms : tr_node_wake_at(node);
        node->replication.wake_ms = wake > node->time.now_ms ? wake : node->time.now_ms;
    }
}

static tr_mono_ms cluster_wake_at(const struct tr_node *node)
{
    tr_mono_ms peers = tr_peers_wake_at(node);
    tr_mono_ms operations = tr_operations_wake_at(&node->replication);
    tr_mono_ms catchup = tr_catchup_wake_at(&node->replication);
    tr_mono_ms claims = tr_claims_wake_at(node);
    tr_mono_ms wake = peers < operations ? peers : operations;
    wake = claims < wake ? claims : wake;
    tr_mono_ms rebalance = tr_rebalance_wake_at(&node->replication);
    wake = rebalance < wake ? rebalance : wake;
    return wake < catchup ? wake : catchup;
}

tr_mono_ms tr_node_wake_at(const struct tr_node *node)
{
    if (node->phase == PHASE_REPLAYING)
        return node->time.now_ms;
    if (node->phase != PHASE_READY && node->phase != PHASE_DRAINING)
        return TR_NEVER;
    if (node->is_sweeping || tr_log_wants_tick(&node->log) || tr_pops_want_tick(node))
        return node->time.now_ms;
    bool may_pop =
        node->phase == PHASE_READY && (node->replication.is_popping || tr_is_clustered(node));
    uint64_t at = may_pop ? tr_wheel_wake_at(&node->wheel) : TR_WHEEL_NEVER;
    if (at <= node->time.steady_ms && !tr_pops_can_run(node))
        at = TR_WHEEL_NEVER; /* a callback that ends, or a segment, will move it on */
    tr_mono_ms wake = at == TR_WHEEL_NEVER ? TR_NEVER : at - node->time.steady_base;
    tr_mono_ms cluster = tr_is_clustered(node) ? cluster_wake_at(node) : TR_NEVER;
    wake = cluster < wake ? cluster : wake;
    tr_mono_ms log = tr_log_wake_at(&node->log);
    return log < wake ? log : wake;
}

void tr_node_record(const struct tr_node *node, uint32_t ref, struct tr_record *record)
{
    for (uint32_t i = 0; i < node->replication.read_count; i++) {
        if (node->replication.read[i] == ref) {
            struct tr_whole whole;
            tr_operation_read(&node->replication, i, &whole);
            tr_record_from_whole(&whole, record);
            return;
        }
    }
    tr_book_unpack(&node->book, ref, record);
}

struct tr_timer_text tr_node_text(const struct tr_node *node, tr_timer_id id, uint32_t factor)
{
    struct tr_timer_text text = {.id = id, .factor = factor};
    uint16_t list[TR_SET_MAX] = {0};
    unsigned count =
        tr_is_clustered(node)
            ? tr_view_place(&node->cluster, id, tr_set_copies(&node->replication, factor), list)
            : 1;
    for (unsigned i = 0; i < count; i++)
        text.replicas |= node->cluster.members[list[i]].replica_bits;
    return text;
}

tr_steady_ms tr_node_steady(const struct tr_node *node)
{
    return node->time.steady_ms;
}

tr_wall_ms tr_node_wall(const struct tr_node *node, tr_steady_ms at_ms)
{
    return at_ms + (node->time.wall_ms - node->time.steady_ms);
}

void tr_node_stats(const struct tr_node *node, struct tr_node_stats *stats)
{
    const struct tr_replication *replication = &node->replication;
    *stats = node->stats;
    stats->moved = replication->stats.moved;
    stats->stand_ins = replication->stats.hinted;
    stats->records_in = replication->stats.records_in;
    stats->drops = replication->stats.drops;
    stats->barriers = replication->stats.catchups;
    stats->forgotten_early = replication->stats.forgotten_early;
    stats->due_waiting = node->wheel.ready.count;
    stats->flights = node->flight_count;
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
    stats->is_serving = node->phase == PHASE_READY && node->replication.is_serving;
    stats->is_popping = node->phase == PHASE_READY && node->replication.is_popping;
    stats->operations = node->replication.operation_count;
    stats->is_ahead = tr_clock_is_ahead(&node->cluster);
    stats->unsettled = node->replication.rebalance.unsettled;
    stats->moving = node->replication.rebalance.moves.count;
    stats->settle_walk = node->replication.rebalance.is_walking
                             ? node->replication.rebalance.cursor >> 48
                             : UINT16_MAX;
    stats->is_unsettled = tr_is_clustered(node) && node->replication.rebalance.is_unsettled;
}

bool tr_node_next_tag(const struct tr_node *node, uint64_t *cursor, struct tr_tag *tag)
{
    const struct tr_strings *tags = &node->book.tags;
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
    struct tr_index_walk at = tr_index_seek(&node->book.index, walk->hash);
    tr_ref ref = TR_ARENA_NONE;
    for (uint32_t i = 0; i <= walk->skip; i++) {
        if (!tr_index_next(&at, &ref))
            return false;
    }
    uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
    walk->skip = hash == walk->hash ? walk->skip + 1 : 1;
    walk->hash = hash;
    walk->is_safe = tr_book_state(&node->book, ref) != TR_STATE_UNSAFE;
    tr_book_unpack(&node->book, ref, record);
    return true;
}

#ifdef TR_MUTANTS
const uint64_t *tr_node_covered(const struct tr_node *node)
{
    return node->trial.covered;
}
#endif

struct tr_span tr_node_address(const struct tr_node *node)
{
    return node->config.address;
}

const uint8_t *tr_node_store_id(const struct tr_node *node)
{
    return node->log.store_id;
}

bool tr_node_valid(const struct tr_node *node)
{
    const struct tr_node_stats *stats = &node->stats;
    uint64_t records = stats->timers + stats->debts + stats->dead + stats->tombstones;
    return tr_book_valid(&node->book) && tr_wheel_valid(&node->wheel) &&
           records == node->book.index.count;
}
