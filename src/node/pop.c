/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pops: from due to delivered, tried again, or dead.
 *
 * What is due waits in the wheel until a flight is free; a pop whose destination has enough flights
 * of its own waits in that destination's queue. So a slow receiver holds back nobody else's pops,
 * and a pop is handed out only into a free slot: what a client cancels meanwhile is still here.
 *
 * An entry of a queue, like one of the wheel, is stale when its record has another state or due
 * time. A stale entry that matches a later record of the same place, state and time does no harm:
 * that record is due then too, and its own entry will find it gone.
 */
#include "node/internal.h"

#include "wire/uri.h"

#define LOOK_MS           100 /* whether it is its turn by now */
#define TOMBSTONE_LOOK_MS 15000
#define LIMIT_LEAST       1
#define DUE_SLICE         2048    /* timers taken from the wheel in a step, so that none is long */
#define RETRY_AFTER_MS    3600000 /* a receiver may ask for an hour's patience, no more */
#define JITTER            5       /* backoff varies by a fifth, up and down */
#define OUTCOME_ROOM      512     /* bytes of the log that the outcome of a pop takes at most, */
                                  /* besides a record that splits off */

void tr_pops_init(struct tr_node *node)
{
    node->ended_first = NONE;
    node->ended_last = NONE;
    node->flight_free = NONE;
    node->held_first = NONE;
    node->destination_free = NONE;
    for (uint32_t i = 0; i < BUCKETS; i++)
        node->buckets[i] = NONE;
}

static bool has_flight(const struct tr_node *node)
{
    return node->flight_free != NONE || node->flight_fresh < node->config.flights_max;
}

static uint32_t take_flight(struct tr_node *node)
{
    uint32_t index = node->flight_free;
    TR_ASSERT(has_flight(node));
    if (index == NONE)
        return node->flight_fresh++;
    node->flight_free = node->flights[index].next;
    return index;
}

static uint32_t find_destination(struct tr_node *node, uint64_t hash)
{
    uint32_t *bucket = &node->buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i != NONE; i = node->destinations[i].next) {
        if (node->destinations[i].hash == hash)
            return i;
    }
    uint32_t index = node->destination_free;
    if (index == NONE)
        index = node->destination_fresh++;
    else
        node->destination_free = node->destinations[index].next;
    TR_ASSERT(index < DESTINATIONS_MAX); /* each has a flight, and there are fewer of those */
    struct tr_destination *destination = &node->destinations[index];
    *destination = (struct tr_destination){
        .hash = hash, .next = *bucket, .limit = node->config.per_destination};
    *bucket = index;
    return index;
}

static void drop_destination(struct tr_node *node, uint32_t index)
{
    struct tr_destination *destination = &node->destinations[index];
    if (destination->flights > 0 || destination->queue.count > 0 || destination->is_held)
        return;
    uint32_t *link = &node->buckets[destination->hash % BUCKETS];
    while (*link != index)
        link = &node->destinations[*link].next;
    *link = destination->next;
    destination->next = node->destination_free;
    node->destination_free = index;
}

static uint64_t origin_hash(const struct tr_node *node, tr_ref ref)
{
    struct tr_uri uri;
    struct tr_span text = tr_strings_text(&node->book.texts, tr_book_uri(&node->book, ref));
    /* One that cannot be called, out of an older log, fails in the shell and is retried there. */
    struct tr_span origin = tr_uri_parse(text, &uri) == NULL ? uri.origin : text;
    return tr_hash_xxh3(origin.text, origin.size);
}

static void fire(struct tr_node *node, tr_ref ref, uint32_t destination, struct tr_effects *out)
{
    struct tr_record record;
    uint32_t index = take_flight(node);
    struct tr_flight *flight = &node->flights[index];
    tr_book_unpack(&node->book, ref, &record);
    *flight = (struct tr_flight){
        .ref = ref,
        .key = record.head.key,
        .order = record.head.order,
        .destination = destination,
        .is_used = true,
    };
    node->flight_count++;
    node->destinations[destination].flights++;
    tr_book_set_state(&node->book, ref, TR_STATE_FLYING);
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_FIRE);
    node->replication.busy_ms = node->time.now_ms;
    effect->of.fire.flight = index;
    effect->of.fire.ref = ref;
    effect->of.fire.due_ms = record.head.due_ms;
    effect->of.fire.due_mono_ms = record.head.due_ms - node->time.steady_base;
}

/* A pop under way goes on, whatever becomes of the list of its record. */
void tr_fly_on(struct tr_node *node, tr_ref before, tr_ref ref, const struct tr_head *record)
{
    for (uint32_t i = 0; i < node->flight_fresh; i++) {
        struct tr_flight *flight = &node->flights[i];
        if (!flight->is_used || flight->ref != before ||
            !tr_key_equals(&flight->key, &record->key) ||
            flight->order.version != record->order.version ||
            flight->order.sequence != record->order.sequence ||
            flight->order.attempt != record->order.attempt)
            continue;
        flight->ref = ref;
        flight->order = record->order;
        tr_forget_entry(node, ref);
        tr_book_set_state(&node->book, ref, TR_STATE_FLYING);
        tr_claim_later(node, ref, record);
        return;
    }
}

static bool can_fire(const struct tr_node *node)
{
    return has_flight(node) && tr_log_has_room(&node->log, OUTCOME_ROOM, false);
}

static void run_queue(struct tr_node *node, uint32_t index, struct tr_effects *out)
{
    struct tr_destination *destination = &node->destinations[index];
    while (node->phase == PHASE_READY && destination->queue.count > 0 &&
           destination->flights < destination->limit && can_fire(node) &&
           tr_effects_has_room(out, 8)) {
        struct tr_fifo_entry entry = tr_fifo_pop(&destination->queue, &node->arena);
        if (!tr_book_matches(&node->book, entry.ref, TR_STATE_QUEUED, entry.due_ms))
            continue;
        node->stats.queued--;
        fire(node, entry.ref, index, out);
    }
}

/* A queue that may fire is looked at when pops are handed out; one that then cannot, for want of
 * effects or of room in the log, in the next step: no answer of its own may be there to do so. */
static void hold_queue(struct tr_node *node, uint32_t index)
{
    struct tr_destination *destination = &node->destinations[index];
    if (destination->is_held || destination->queue.count == 0 ||
        destination->flights >= destination->limit)
        return;
    destination->is_held = true;
    destination->next_held = node->held_first;
    node->held_first = index;
}

static void run_held(struct tr_node *node, struct tr_effects *out)
{
    uint32_t index = node->held_first;
    node->held_first = NONE;
    while (index != NONE) {
        uint32_t next = node->destinations[index].next_held;
        node->destinations[index].is_held = false;
        run_queue(node, index, out);
        hold_queue(node, index);
        drop_destination(node, index);
        index = next;
    }
}

void tr_pops_recall(struct tr_node *node)
{
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        for (uint32_t i = node->buckets[bucket]; i != NONE;) {
            struct tr_destination *destination = &node->destinations[i];
            uint32_t next = destination->next;
            while (destination->queue.count > 0) {
                struct tr_fifo_entry entry = tr_fifo_pop(&destination->queue, &node->arena);
                if (!tr_book_matches(&node->book, entry.ref, TR_STATE_QUEUED, entry.due_ms))
                    continue;
                node->stats.queued--;
                tr_arm(node, entry.ref);
            }
            drop_destination(node, i);
            i = next;
        }
    }
}

/* ---- whose turn it is ---- */

/* How many nodes come before this one, and whether any of them will see to it. One that is alone in
 * its view, with a record that others have too, has yet to hear of them: they come before it. */
static unsigned rank_of(const struct tr_node *node, const struct tr_record *record, bool *is_first,
                        bool *is_stray)
{
    uint16_t turns[TR_NAMES_MAX];
    unsigned count =
        tr_set_turns(&node->replication, &record->head, record->head.order.attempt, turns);
    unsigned rank = 0;
    *is_first = true;
    for (; rank < count && turns[rank] != 0; rank++)
        *is_first &= !tr_peer_is_popping(&node->cluster, turns[rank]) &&
                     !tr_breaks(&node->trial, MUTANT_NO_TAKEOVER);
    *is_stray = rank == count;
    unsigned others = tr_set_others(&record->head);
    if (others > 0 && !tr_view_has_others(&node->cluster) &&
        tr_rebalance_is_view_new(&node->replication)) {
        tr_cover(&node->trial, RULE_LEFT_TO_OTHERS);
        *is_first = *is_stray = false;
        rank += others;
    }
    return rank;
}

/* When this node is to make the pop that `record` stands for: now, or when to look again. */
static tr_steady_ms turn_at(struct tr_node *node, const struct tr_record *record)
{
    bool is_first = false;
    bool is_stray = false;
    unsigned rank = rank_of(node, record, &is_first, &is_stray);
    tr_steady_ms latest = record->head.due_ms + (uint64_t)rank * TR_POSITION_MS;
    if (is_stray && !is_first) {
        tr_cover(&node->trial, RULE_STRAY_WAITS);
        return node->time.steady_ms +
               LOOK_MS; /* its turn never comes while one that is named is up */
    }
    if (!is_first && rank > 0 && latest <= node->time.steady_ms) {
        tr_steady_ms held_ms =
            tr_held_until(node, &record->head); /* all were: not all at once, now */
        if (held_ms > record->head.due_ms)
            latest = held_ms + (uint64_t)rank * TR_POSITION_MS;
    }
    if (is_first || latest <= node->time.steady_ms) {
        if (rank > 0)
            tr_cover(&node->trial, is_first ? RULE_TAKEOVER : RULE_LATE_TURN);
        if (!tr_is_claimed(node, &record->head)) {
            node->stats.takeovers += rank > 0 && is_first;
            node->stats.late_turns += rank > 0 && !is_first;
            return node->time.steady_ms;
        }
        node->stats.held_back++;
        tr_cover(&node->trial, RULE_CLAIM_HELD);
        if (is_first) /* nodes after this one leave to it what it waits for */
            node->backlog_ms = node->time.now_ms;
        return node->time.steady_ms + LOOK_MS;
    }
    tr_steady_ms next = record->head.due_ms + TR_SUSPECT_MS;
    next = next > node->time.steady_ms ? next : node->time.steady_ms + LOOK_MS;
    return next < latest ? next : latest;
}

/* A record in the wheel under its due time, or, for one that waits for its turn, under a later one.
 * An entry too many does no harm: it is looked at, and its turn has not come; when the pop is made
 * it is gone. Not so with tombstones, which may wait for long and hear of many changes. */
bool tr_entry_is_live(const struct tr_node *node, const struct tr_fifo_entry *entry)
{
    if (!tr_is_clustered(node))
        return tr_book_matches(&node->book, entry->ref, TR_STATE_ARMED, entry->due_ms);
    if (!tr_arena_holds(&node->arena, entry->ref) ||
        tr_book_state(&node->book, entry->ref) != TR_STATE_ARMED)
        return false;
    tr_steady_ms due_ms = tr_book_due(&node->book, entry->ref);
    if ((tr_book_flags(&node->book, entry->ref) & TR_RECORD_TOMBSTONE) != 0)
        return entry->due_ms == due_ms;
    return entry->due_ms >= due_ms; /* a claim may hold it back for as long as it likes */
}

void tr_look_again(struct tr_node *node, tr_ref ref, tr_steady_ms at_ms)
{
    bool is_armed = tr_wheel_arm(&node->wheel, ref, at_ms);
    TR_ASSERT(is_armed);
}

/* Under a due time of its own: of all entries that it has had, one is live. */
static void keep_tombstone(struct tr_node *node, tr_ref ref, struct tr_record *record)
{
    tr_steady_ms at_ms = node->time.steady_ms + TOMBSTONE_LOOK_MS;
    uint8_t acked = tr_book_acked(&node->book, ref);
    record->head.lag_ms += at_ms - record->head.due_ms;
    record->head.due_ms = at_ms;
    tr_ref placed = tr_book_update(&node->book, ref, &record->head);
    TR_ASSERT(placed != TR_ARENA_NONE); /* it grows by a byte or two, from the arena's reserve */
    tr_book_set_acked(&node->book, placed, acked);
    tr_arm(node, placed);
    if (placed != ref)
        tr_pending_add(&node->replication, placed, &record->head);
}

/* True: it was put off. */
static bool put_off(struct tr_node *node, tr_ref ref)
{
    struct tr_record record;
    if (!tr_is_clustered(node))
        return false;
    tr_book_unpack(&node->book, ref, &record);
    if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0) {
        bool is_kept =
            !tr_tombstone_may_forget(&node->replication, ref, &record.head, node->stats.tombstones);
        if (is_kept)
            keep_tombstone(node, ref, &record);
        return is_kept;
    }
    if ((record.head.flags & TR_RECORD_DEAD) != 0)
        return false; /* it was kept for long enough, by each on its own */
    tr_steady_ms at_ms =
        node->replication.is_popping ? turn_at(node, &record) : node->time.steady_ms + LOOK_MS;
    if (at_ms <= node->time.steady_ms)
        return false;
    tr_look_again(node, ref, at_ms);
    return true;
}

static void claim_later(struct tr_node *node, tr_ref ref)
{
    struct tr_record record;
    if (!tr_is_clustered(node))
        return;
    tr_book_unpack(&node->book, ref, &record);
    tr_claim_later(node, ref, &record.head);
}

static void run_due(struct tr_node *node, struct tr_effects *out)
{
    struct tr_fifo_entry entry;
    if (!node->replication.is_popping && !tr_is_clustered(node))
        return;
    tr_wheel_advance(&node->wheel, node->time.steady_ms);
    for (unsigned i = 0; i < tr_replication_slice(&node->replication, DUE_SLICE); i++) {
        if (!can_fire(node) || !tr_effects_has_room(out, 8) || !tr_wheel_pop(&node->wheel, &entry))
            return;
        if (!tr_entry_is_live(node, &entry)) {
            node->stale -= node->stale > 0;
            continue;
        }
        if (put_off(node, entry.ref))
            continue;
        if ((tr_book_flags(&node->book, entry.ref) & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) != 0) {
            tr_book_set_state(&node->book, entry.ref, TR_STATE_UNSAFE); /* out of the wheel */
            tr_forget(node, entry.ref);
            continue;
        }
        uint32_t index = find_destination(node, origin_hash(node, entry.ref));
        struct tr_destination *destination = &node->destinations[index];
        claim_later(node, entry.ref);
        if (destination->flights < destination->limit && destination->queue.count == 0) {
            fire(node, entry.ref, index, out);
            continue;
        }
        entry.due_ms = tr_book_due(&node->book, entry.ref);
        bool is_queued = tr_fifo_push(&destination->queue, &node->arena, entry);
        TR_ASSERT(is_queued); /* its entry in the wheel took as much */
        tr_book_set_state(&node->book, entry.ref, TR_STATE_QUEUED);
        node->stats.queued++;
    }
}

bool tr_pops_can_run(const struct tr_node *node)
{
    return can_fire(node);
}

bool tr_pops_wait(const struct tr_node *node)
{
    return node->wheel.ready.count > 0 && !has_flight(node);
}

bool tr_pops_want_tick(const struct tr_node *node)
{
    return node->phase == PHASE_READY && node->held_first != NONE && can_fire(node);
}

/* The timer goes on with its next pop, or is over. */
static void move_on(struct tr_node *node, tr_ref ref, struct tr_record *record,
                    enum tr_replicate telling)
{
    if (record->head.key.part > 0 || record->head.order.sequence >= tr_record_pops(record)) {
        /* Above the record that it ends, so that to have heard of one is not to know the other. */
        struct tr_order order = record->head.order;
        order.sequence++;
        ref = tr_end(node, ref, &order);
        if (ref != TR_ARENA_NONE)
            tr_pending_replicate(&node->replication, ref, telling);
        return;
    }
    tr_count(node, &record->head, -1);
    record->head.due_ms = record->head.due_ms - record->head.lag_ms + record->interval_ms;
    record->head.lag_ms = 0;
    if (tr_is_clustered(node) && record->head.due_ms < node->time.steady_ms) {
        /* Overdue: it is from now on that others may be waited for. */
        record->head.lag_ms = node->time.steady_ms - record->head.due_ms;
        record->head.due_ms = node->time.steady_ms;
    }
    record->head.order.attempt = 0;
    record->head.order.sequence++;
    tr_count(node, &record->head, 1);
    ref = tr_book_update(&node->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_store_log_short(node, &record->head);
    tr_arm(node, ref);
    tr_pending_replicate(&node->replication, ref, telling);
}

/* When a timer has too many failed pops, the oldest dead one goes, or the oldest. */
void tr_limit_parts(struct tr_node *node, tr_timer_id id, uint64_t newest, struct tr_effects *out)
{
    struct tr_index_walk walk;
    unsigned count = 0;
    tr_ref oldest = TR_ARENA_NONE;
    uint64_t oldest_rank = UINT64_MAX;
    struct tr_record record;
    for (tr_ref ref = tr_book_first(&node->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&node->book, ref, &record);
        if (record.head.key.part == 0)
            continue;
        count++;
        if (record.head.key.part == newest)
            continue;
        bool is_dead = (record.head.flags & TR_RECORD_DEAD) != 0;
        uint64_t rank = record.head.key.part | (is_dead ? 0 : (uint64_t)1 << 63);
        if (rank < oldest_rank) {
            oldest_rank = rank;
            oldest = ref;
        }
    }
    if (count <= TR_PARTS_MAX)
        return;
    tr_book_unpack(&node->book, oldest, &record);
    struct tr_effect *note =
        out != NULL ? tr_note(out, TR_NOTE_DISCARDED, id, record.head.key.part) : NULL;
    if (note != NULL)
        note->of.note.factor = record.head.factor;
    node->stats.pops_discarded++;
    tr_dropped_remove(&node->replication, oldest);
}

/* The failed pop of a timer becomes a record of its own, due or dead. False: no memory for it. */
static bool split(struct tr_node *node, const struct tr_record *record, struct tr_effects *out)
{
    struct tr_record part = *record;
    part.head.key.part = record->head.order.sequence;
    part.head.order.sequence = 0;
    part.head.flags = (uint8_t)(record->head.flags & (TR_RECORD_DEAD | TR_RECORD_MOVING));
    tr_cover(&node->trial, RULE_SPLIT_OFF);
    tr_ref old = tr_book_find(&node->book, &part.head.key);
    if (old != TR_ARENA_NONE) { /* a dead one of an older version */
        tr_dropped_remove(&node->replication, old);
    }
    tr_ref ref = tr_book_insert(&node->book, &part);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_store_log_record(node, ref, &part);
    tr_count(node, &part.head, 1);
    tr_arm(node, ref);
    tr_pending_replicate(&node->replication, ref, REPLICATE_PART);
    tr_limit_parts(node, part.head.key.id, part.head.key.part, out);
    return true;
}

static uint64_t backoff(struct tr_node *node, const struct tr_flight *flight, uint32_t attempt)
{
    uint64_t delay = node->config.backoff_ms << (attempt - 1 < 20 ? attempt - 1 : 20);
    uint64_t spread = 2 * delay / JITTER + 1;
    delay = delay - delay / JITTER + tr_random_below(&node->random, spread);
    uint64_t asked = flight->retry_after_ms;
    asked = asked < RETRY_AFTER_MS ? asked : RETRY_AFTER_MS;
    return delay > asked ? delay : asked;
}

/* The record in its place becomes what `record` says, and waits for its due time. */
static void put_back(struct tr_node *node, tr_ref ref, const struct tr_record *record)
{
    ref = tr_book_update(&node->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_store_log_short(node, &record->head);
    tr_arm(node, ref);
    tr_pending_replicate(&node->replication, ref, REPLICATE_AT_ONCE);
}

/* `before` is the record as the book has it, `record` the same with its last attempt. */
static void die(struct tr_node *node, tr_ref ref, struct tr_record *before,
                const struct tr_record *record, const struct tr_flight *flight,
                struct tr_effects *out)
{
    node->stats.pops_dead++;
    struct tr_effect *note = tr_note(out, TR_NOTE_DEAD, record->head.key.id, tr_record_pop(record));
    if (note != NULL) {
        note->of.note.factor = record->head.factor;
        note->of.note.result = flight->result;
        note->of.note.status = flight->status;
    }
    struct tr_record dead = *record;
    dead.head.flags |= TR_RECORD_DEAD;
    tr_steady_ms due_ms = node->time.steady_ms + node->config.dead_keep_ms;
    dead.head.lag_ms += due_ms - dead.head.due_ms;
    dead.head.due_ms = due_ms;
    if (record->head.key.part == 0 && split(node, &dead, out)) {
        move_on(node, ref, before, REPLICATE_DURABLE);
        return;
    }
    if (record->head.key.part == 0 && record->head.order.sequence < tr_record_pops(record)) {
        /* No memory to keep it: told, and the timer goes on. */
        node->stats.pops_discarded++;
        tr_note(out, TR_NOTE_DISCARDED, record->head.key.id, record->head.order.sequence);
        move_on(node, ref, before, REPLICATE_DURABLE);
        return;
    }
    tr_count(node, &before->head, -1);
    tr_count(node, &dead.head, 1);
    put_back(node, ref, &dead);
}

static void fail(struct tr_node *node, tr_ref ref, struct tr_record *record,
                 const struct tr_flight *flight, struct tr_effects *out)
{
    struct tr_record before = *record;
    node->stats.pops_failed++;
    record->head.order.attempt += record->head.order.attempt < TR_ATTEMPT_MAX;
    if (record->head.order.attempt >= node->config.attempts_max) {
        die(node, ref, &before, record, flight, out);
        return;
    }
    tr_steady_ms own_ms = record->head.due_ms - record->head.lag_ms;
    tr_steady_ms next_ms = own_ms + record->interval_ms;
    /* The millisecond that has begun counts as a whole one, as with due times. */
    tr_steady_ms retry_ms = node->time.steady_ms + 1;
    /* Nobody was reached from here: each of the others tries at once. */
    bool is_handed_over = record->head.replicas.count > 1 &&
                          flight->result == TR_CALLBACK_UNREACHED &&
                          record->head.order.attempt % record->head.replicas.count != 0;
    if (is_handed_over)
        tr_cover(&node->trial, RULE_HANDED_OVER);
    else
        retry_ms += backoff(node, flight, record->head.order.attempt);
    bool has_next =
        record->head.key.part == 0 && record->head.order.sequence < tr_record_pops(record);
    record->head.due_ms = retry_ms;
    record->head.lag_ms = retry_ms - own_ms;
    if (has_next && next_ms <= retry_ms && split(node, record, out)) {
        move_on(node, ref, &before, REPLICATE_DURABLE);
        return;
    }
    tr_count(node, &before.head, -1);
    tr_count(node, &record->head, 1);
    put_back(node, ref, record);
}

/* The record of a flight, if it is still what it was when it left: one that was cancelled or
 * replaced meanwhile is none of its business. A record moves only while it is changed, so its place
 * tells, and no search is needed. */
static bool find_flown(const struct tr_node *node, const struct tr_flight *flight,
                       struct tr_record *record)
{
    if (!tr_arena_holds(&node->arena, flight->ref) ||
        tr_book_id(&node->book, flight->ref) != flight->key.id ||
        tr_book_state(&node->book, flight->ref) != TR_STATE_FLYING)
        return false;
    tr_book_unpack(&node->book, flight->ref, record);
    struct tr_order order = record->head.order;
    return record->head.key.part == flight->key.part &&
           tr_order_compare(&order, &flight->order) == 0;
}

static void book_outcome(struct tr_node *node, const struct tr_flight *flight,
                         struct tr_record *record, struct tr_effects *out)
{
    bool is_success = flight->result == TR_CALLBACK_ANSWERED && flight->status / 100 == 2;
    if (is_success) {
        node->stats.pops_delivered++;
        move_on(node, flight->ref, record, REPLICATE_AT_ONCE);
    } else {
        fail(node, flight->ref, record, flight, out);
    }
}

void tr_pops_finish(struct tr_node *node, struct tr_effects *out)
{
    while (node->ended_first != NONE && tr_effects_has_room(out, 16)) {
        uint32_t index = node->ended_first;
        struct tr_flight *flight = &node->flights[index];
        struct tr_record record;
        bool is_there = find_flown(node, flight, &record);
        if (is_there &&
            (!tr_log_has_room(&node->log, OUTCOME_ROOM + tr_log_record_bound(&record), false) ||
             (tr_is_clustered(node) && !tr_replication_has_room(&node->replication, &record.head))))
            return;
        node->ended_first = flight->next;
        if (node->ended_first == NONE)
            node->ended_last = NONE;
        if (is_there)
            book_outcome(node, flight, &record, out);
        flight->is_used = false;
        flight->next = node->flight_free;
        node->flight_free = index;
        node->flight_count--;
        /* Not when it ended: of two that wait here the first would take the destination along. */
        node->destinations[flight->destination].flights--;
        hold_queue(node, flight->destination);
        drop_destination(node, flight->destination);
    }
}

void tr_callback_ended(struct tr_node *node, const struct tr_event *event)
{
    uint32_t index = event->of.callback.flight;
    TR_ASSERT(index < node->config.flights_max && node->flights[index].is_used);
    struct tr_flight *flight = &node->flights[index];
    struct tr_destination *destination = &node->destinations[flight->destination];
    flight->result = event->of.callback.result;
    flight->status = event->of.callback.status;
    flight->retry_after_ms = event->of.callback.retry_after_ms;
    if (flight->result == TR_CALLBACK_TIMED_OUT)
        destination->limit =
            destination->limit / 2 > LIMIT_LEAST ? destination->limit / 2 : LIMIT_LEAST;
    else if (destination->limit < node->config.per_destination)
        destination->limit++;
    else
        destination->limit = node->config.per_destination;
    flight->next = NONE;
    if (node->ended_last == NONE)
        node->ended_first = index;
    else
        node->flights[node->ended_last].next = index;
    node->ended_last = index;
}

void tr_pops_run(struct tr_node *node, struct tr_effects *out)
{
    run_held(node, out);
    run_due(node, out);
}
