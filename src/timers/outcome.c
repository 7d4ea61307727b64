/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/outcome.h"

#include "cluster/clock.h"
#include "log/batch.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "replication/dropped.h"
#include "replication/pending.h"
#include "replication/set.h"
#include "timers/schedule.h"
#include "timers/store.h"

#define RETRY_AFTER_MS 3600000 /* a receiver may ask for an hour's patience, no more */
#define JITTER         5       /* backoff varies by a fifth, up and down */

/* To those who have it too. */
static void replicate(struct tr_timers *timers, tr_ref ref, const struct tr_head *head,
                      enum tr_replicate how)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    if (!tr_set_is_own(head))
        tr_pending_replicate(timers->replication, ref, how);
}

void tr_outcome_go_on(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                      const struct tr_head *next, enum tr_replicate how)
{
    TR_ASSERT((record->head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) == 0);
    if (next == NULL) {
        /* Above the record that it ends, so that to have heard of one is not to know the other. */
        struct tr_order order = record->head.order;
        order.sequence++;
        TR_ASSERT(tr_order_compare(&order, &record->head.order) > 0);
        ref = tr_timers_end(timers, ref, &order);
        if (ref != TR_ARENA_NONE)
            tr_pending_replicate(timers->replication, ref, how);
        return;
    }
    TR_ASSERT(next->order.sequence > record->head.order.sequence);
    tr_timers_count(timers, &record->head, -1);
    record->head = *next;
    tr_timers_count(timers, &record->head, 1);
    ref = tr_book_update(&timers->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_log_short(timers, &record->head);
    tr_timers_arm(timers, ref);
    replicate(timers, ref, &record->head, how);
}

/* The timer goes on with its next pop, or is over. */
static void move_on(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                    enum tr_replicate telling)
{
    struct tr_head next;
    bool has_next = record->head.key.part == 0 && tr_schedule_next(timers, record, &next);
    tr_outcome_go_on(timers, ref, record, has_next ? &next : NULL, telling);
}

/* When a timer has too many failed pops, the oldest dead one goes, or the oldest. */
void tr_outcome_limit_parts(struct tr_timers *timers, tr_timer_id id, uint64_t newest,
                            struct tr_effects *out)
{
    struct tr_index_walk walk;
    unsigned count = 0;
    tr_ref oldest = TR_ARENA_NONE;
    uint64_t oldest_rank = UINT64_MAX;
    struct tr_record record;
    for (tr_ref ref = tr_book_first(&timers->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&timers->book, ref, &record);
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
    tr_book_unpack(&timers->book, oldest, &record);
    struct tr_effect *note =
        out != NULL ? tr_note(out, TR_NOTE_DISCARDED, id, record.head.key.part) : NULL;
    if (note != NULL)
        note->of.note.factor = record.head.factor;
    timers->stats.pops_discarded++;
    tr_dropped_remove(timers->replication, oldest);
}

/* The failed pop of a timer becomes a record of its own, due or dead. False: no memory for it. */
static bool split(struct tr_timers *timers, const struct tr_record *record, struct tr_effects *out)
{
    TR_ASSERT(record->head.key.part == 0 && record->head.order.sequence > 0);
    struct tr_record part = *record;
    part.head.key.part = record->head.order.sequence;
    part.head.order.sequence = 0;
    part.head.flags =
        (uint8_t)(record->head.flags & (TR_RECORD_DEAD | TR_RECORD_MOVING | TR_RECORD_FIRED));
    tr_cover(timers->trial, RULE_SPLIT_OFF);
    tr_ref old = tr_book_find(&timers->book, &part.head.key);
    if (old != TR_ARENA_NONE) { /* a dead one of an older version */
        tr_dropped_remove(timers->replication, old);
    }
    tr_ref ref = tr_book_insert(&timers->book, &part);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_timers_log_record(timers, ref, &part);
    tr_timers_count(timers, &part.head, 1);
    tr_timers_arm(timers, ref);
    tr_pending_replicate(timers->replication, ref, REPLICATE_PART);
    tr_outcome_limit_parts(timers, part.head.key.id, part.head.key.part, out);
    return true;
}

/* How often a pop is tried, and how long between: what the timer has, and for the rest what the
 * operator has. */
struct policy {
    uint64_t attempts;
    uint64_t backoff_ms;
    uint64_t most_ms;
    uint64_t give_up_ms;
};

static struct policy policy_of(const struct tr_timers *timers, const struct tr_record *record)
{
    struct tr_plan plan;
    uint64_t most = timers->config.attempts_max;
    struct policy policy = {most, timers->config.backoff_ms, UINT64_MAX, UINT64_MAX};
    if (record->plan.size == 0 || !tr_plan_get(record->plan, &plan))
        return policy;
    policy.attempts = plan.attempts > 0 && plan.attempts < most ? plan.attempts : most;
    policy.backoff_ms = plan.backoff_ms > 0 ? plan.backoff_ms : policy.backoff_ms;
    policy.most_ms = plan.backoff_max_ms > 0 ? plan.backoff_max_ms : UINT64_MAX;
    policy.give_up_ms = plan.give_up_ms > 0 ? plan.give_up_ms : UINT64_MAX;
    return policy;
}

static uint64_t backoff(struct tr_timers *timers, const struct tr_flight *flight, uint32_t attempt,
                        const struct policy *policy)
{
    TR_ASSERT(attempt > 0);
    uint64_t delay = policy->backoff_ms << (attempt - 1 < 20 ? attempt - 1 : 20);
    delay = delay < policy->most_ms ? delay : policy->most_ms;
    uint64_t spread = 2 * delay / JITTER + 1;
    delay = delay - delay / JITTER + tr_random_below(timers->random, spread);
    uint64_t asked = flight->retry_after_ms;
    asked = asked < RETRY_AFTER_MS ? asked : RETRY_AFTER_MS;
    return delay > asked ? delay : asked;
}

/* The record in its place becomes what `record` says, and waits for its due time. */
static void put_back(struct tr_timers *timers, tr_ref ref, const struct tr_record *record)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    ref = tr_book_update(&timers->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_log_short(timers, &record->head);
    tr_timers_arm(timers, ref);
    replicate(timers, ref, &record->head, REPLICATE_AT_ONCE);
}

/* `before` is the record as the book has it, `record` the same with its last attempt. */
static void die(struct tr_timers *timers, tr_ref ref, struct tr_record *before,
                const struct tr_record *record, const struct tr_flight *flight,
                struct tr_effects *out)
{
    timers->stats.pops_dead++;
    struct tr_effect *note = tr_note(out, TR_NOTE_DEAD, record->head.key.id, tr_record_pop(record));
    if (note != NULL) {
        note->of.note.factor = record->head.factor;
        note->of.note.result = flight->result;
        note->of.note.status = flight->status;
        note->of.note.fault = flight->fault;
    }
    struct tr_record dead = *record;
    dead.head.flags |= TR_RECORD_DEAD;
    tr_steady_ms due_ms = timers->time->steady_ms + timers->config.dead_keep_ms;
    dead.head.lag_ms += due_ms - dead.head.due_ms;
    dead.head.due_ms = due_ms;
    if (record->head.key.part == 0 && split(timers, &dead, out)) {
        move_on(timers, ref, before, REPLICATE_DURABLE);
        return;
    }
    struct tr_head next;
    if (record->head.key.part == 0 && tr_schedule_next(timers, before, &next)) {
        /* No memory to keep it: told, and the timer goes on. */
        timers->stats.pops_discarded++;
        tr_note(out, TR_NOTE_DISCARDED, record->head.key.id, record->head.order.sequence);
        move_on(timers, ref, before, REPLICATE_DURABLE);
        return;
    }
    tr_timers_count(timers, &before->head, -1);
    tr_timers_count(timers, &dead.head, 1);
    put_back(timers, ref, &dead);
}

/* What became of it, for whoever asks. */
static struct tr_attempt attempt_of(const struct tr_timers *timers, const struct tr_flight *flight)
{
    bool is_answered = flight->result == TR_CALLBACK_ANSWERED;
    unsigned fault = flight->result == TR_CALLBACK_TIMED_OUT ? TR_FAULT_TIMED_OUT : flight->fault;
    return (struct tr_attempt){
        .at_ms = timers->time->wall_ms,
        .result = (uint16_t)(is_answered ? flight->status : TR_ATTEMPT_FAULT + fault),
        .node = timers->cluster->stamp_node,
        .duration_ms = flight->duration_ms,
    };
}

/* The receiver has said that it wants no more of it. */
static bool is_final(const struct tr_flight *flight)
{
    return flight->result == TR_CALLBACK_ANSWERED && flight->status == 410;
}

static void fail(struct tr_timers *timers, tr_ref ref, struct tr_record *record,
                 const struct tr_flight *flight, struct tr_effects *out)
{
    TR_ASSERT((record->head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) == 0);
    struct tr_record before = *record;
    timers->stats.pops_failed++;
    struct policy policy = policy_of(timers, record);
    record->head.order.attempt += record->head.order.attempt < TR_ATTEMPT_MAX;
    record->head.attempt = attempt_of(timers, flight);
    tr_steady_ms own_ms = record->head.due_ms - record->head.lag_ms;
    /* What was due before it was set is owed from then on. */
    tr_steady_ms set_ms = tr_clock_time_of(record->head.order.version);
    tr_steady_ms since_ms = own_ms > set_ms ? own_ms : set_ms;
    bool is_late = since_ms < timers->time->steady_ms &&
                   timers->time->steady_ms - since_ms >= policy.give_up_ms;
    if (record->head.order.attempt >= policy.attempts || is_final(flight) || is_late) {
        die(timers, ref, &before, record, flight, out);
        return;
    }
    tr_steady_ms retry_ms = timers->time->steady_ms + timers->config.begun_ms;
    /* Nobody was reached from here: each of the others tries at once. */
    bool is_handed_over = record->head.replicas.count > 1 &&
                          flight->result == TR_CALLBACK_UNREACHED &&
                          record->head.order.attempt % record->head.replicas.count != 0;
    if (is_handed_over)
        tr_cover(timers->trial, RULE_HANDED_OVER);
    else
        retry_ms += backoff(timers, flight, record->head.order.attempt, &policy);
    /* One that was moved meanwhile may be due later, by the clock of who moved it. */
    retry_ms = retry_ms > own_ms ? retry_ms : own_ms;
    struct tr_head next;
    bool has_next = record->head.key.part == 0 && tr_schedule_next(timers, &before, &next);
    record->head.due_ms = retry_ms;
    record->head.lag_ms = retry_ms - own_ms;
    if (has_next && next.due_ms <= retry_ms && split(timers, record, out)) {
        move_on(timers, ref, &before, REPLICATE_DURABLE);
        return;
    }
    tr_timers_count(timers, &before.head, -1);
    tr_timers_count(timers, &record->head, 1);
    put_back(timers, ref, record);
}

/* The record of a flight, if it is still what it was when it left: one that was cancelled or
 * replaced meanwhile is none of its business. A record moves only while it is changed, so its place
 * tells, and no search is needed. */
static bool find_flown(const struct tr_timers *timers, const struct tr_flight *flight,
                       struct tr_record *record)
{
    TR_ASSERT(flight->is_used);
    if (!tr_arena_holds(timers->arena, flight->ref) ||
        tr_book_id(&timers->book, flight->ref) != flight->key.id ||
        tr_book_state(&timers->book, flight->ref) != TR_STATE_FLYING)
        return false;
    tr_book_unpack(&timers->book, flight->ref, record);
    struct tr_order order = record->head.order;
    return record->head.key.part == flight->key.part &&
           tr_order_compare(&order, &flight->order) == 0;
}

static void book_outcome(struct tr_timers *timers, const struct tr_flight *flight,
                         struct tr_record *record, struct tr_effects *out)
{
    TR_ASSERT(tr_book_state(&timers->book, flight->ref) == TR_STATE_FLYING);
    bool is_success = flight->result == TR_CALLBACK_ANSWERED && flight->status / 100 == 2;
    if (is_success) {
        timers->stats.pops_delivered++;
        move_on(timers, flight->ref, record, REPLICATE_AT_ONCE);
    } else {
        fail(timers, flight->ref, record, flight, out);
    }
}

void tr_outcome_run(struct tr_timers *timers, struct tr_effects *out)
{
    struct tr_flight *flight = NULL;
    while ((flight = tr_flight_first_ended(timers->pops)) != NULL && tr_effects_has_room(out, 16)) {
        struct tr_record record;
        bool is_there = find_flown(timers, flight, &record);
        if (is_there &&
            (!tr_log_has_room(timers->log, TR_OUTCOME_ROOM + tr_log_record_bound(&record), false) ||
             !tr_replication_has_room(timers->replication, &record.head)))
            return;
        if (is_there)
            book_outcome(timers, flight, &record, out);
        tr_destination_landed(timers->pops);
    }
}
