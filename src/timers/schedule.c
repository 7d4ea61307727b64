/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/schedule.h"

#include "cluster/view.h"
#include "log/batch.h"
#include "pops/turn.h"
#include "replication/pending.h"
#include "replication/set.h"
#include "timers/store.h"

#define PASS_SLICE  1024                /* pops that one step passes over */
#define LOOK_SLICE  4096                /* records that one step looks at */
#define WALL_MOST   (TR_TIME_MAX / 2)   /* what is due later is due then: the year 6429 */
#define PERIOD_MOST ((uint64_t)1 << 40) /* ms, of a cron expression, as far as that matters */

/* ---- the clocks ---- */

/* A moment of the wall clock by the steady one. */
static tr_steady_ms steady_of(const struct tr_timers *timers, tr_wall_ms at_ms)
{
    const struct tr_time *time = timers->time;
    at_ms = at_ms < WALL_MOST ? at_ms : WALL_MOST;
    if (at_ms >= time->wall_ms)
        return time->steady_ms + (at_ms - time->wall_ms) + timers->config.begun_ms;
    uint64_t late_ms = time->wall_ms - at_ms;
    return late_ms < time->steady_ms ? time->steady_ms - late_ms : 0;
}

static tr_wall_ms wall_of(const struct tr_timers *timers, tr_steady_ms at_ms)
{
    uint64_t wall_ms = at_ms + (uint64_t)timers->log->offset_ms; /* as it is shown, too */
    return wall_ms > 0 && wall_ms <= TR_TIME_MAX ? wall_ms : 1;
}

/* By how much a pop is later: the same on every node. */
static uint64_t jitter_of(const struct tr_plan *plan, tr_timer_id id, uint64_t occurrence)
{
    if (plan->jitter_ms == 0)
        return 0;
    return tr_hash_mix(tr_hash_mix(id) ^ occurrence) % (plan->jitter_ms + 1);
}

static bool is_by_wall(const struct tr_plan *plan)
{
    return plan->timing != TR_TIMING_INTERVAL;
}

/* ---- pops, one after another ---- */

/* A pop, as far as when it is due is concerned. */
struct pop {
    uint64_t sequence;
    tr_wall_ms instant_ms; /* of what goes by the wall clock */
    tr_steady_ms own_ms;   /* when it is due by itself, jitter included */
};

static const struct tr_zone *zone_of(const struct tr_timers *timers, const struct tr_plan *plan)
{
    const struct tr_zones *zones = &timers->config.zones;
    struct tr_span name = plan->zone.size > 0 ? plan->zone : TR_SPAN("UTC");
    return zones->find != NULL ? zones->find(zones->context, name) : NULL;
}

static bool cron_after(const struct tr_timers *timers, const struct tr_plan *plan,
                       tr_wall_ms after_ms, tr_wall_ms *next_ms)
{
    struct tr_cron cron = {.gap = plan->gap, .overlap = plan->overlap};
    const struct tr_zone *zone = zone_of(timers, plan);
    if (zone == NULL) /* its file is gone, or was never here: by UTC, rather than never */
        return tr_cron_parse(plan->cron, &cron) == NULL &&
               tr_cron_next(&cron, &timers->utc, after_ms, next_ms);
    return tr_cron_parse(plan->cron, &cron) == NULL && tr_cron_next(&cron, zone, after_ms, next_ms);
}

static bool is_fired(const struct tr_head *head)
{
    return (head->flags & TR_RECORD_FIRED) != 0;
}

static struct pop pop_of(const struct tr_timers *timers, const struct tr_record *record,
                         const struct tr_plan *plan)
{
    const struct tr_head *head = &record->head;
    struct pop pop = {head->order.sequence, head->instant_ms, head->due_ms - head->lag_ms};
    if (is_by_wall(plan))
        pop.own_ms =
            steady_of(timers, head->instant_ms + jitter_of(plan, head->key.id, head->instant_ms));
    else if (is_fired(head))
        pop.own_ms = head->instant_ms - (uint64_t)timers->log->offset_ms;
    return pop;
}

/* False: there is none after it. */
static bool next_pop(const struct tr_timers *timers, const struct tr_record *record,
                     const struct tr_plan *plan, struct pop *pop)
{
    tr_timer_id id = record->head.key.id;
    uint64_t before = pop->sequence;
    if (before >= tr_record_pops(record))
        return false;
    pop->sequence++;
    if (plan->timing == TR_TIMING_CRON) {
        if (!cron_after(timers, plan, pop->instant_ms, &pop->instant_ms))
            return false;
    } else if (plan->timing == TR_TIMING_AT) {
        pop->instant_ms += record->interval_ms;
    } else {
        pop->own_ms += record->interval_ms + jitter_of(plan, id, pop->sequence);
        pop->own_ms -= jitter_of(plan, id, before);
    }
    tr_wall_ms nominal_ms = pop->instant_ms;
    if (is_by_wall(plan))
        pop->own_ms = steady_of(timers, nominal_ms + jitter_of(plan, id, nominal_ms));
    else
        nominal_ms = wall_of(timers, pop->own_ms - jitter_of(plan, id, pop->sequence));
    return (plan->until_ms == 0 || nominal_ms <= plan->until_ms) && nominal_ms <= TR_TIME_MAX;
}

/* Overdue: it is from now on that others may be waited for. */
static void set_due(const struct tr_timers *timers, struct tr_head *head, tr_steady_ms own_ms)
{
    tr_steady_ms now_ms = timers->time->steady_ms;
    head->due_ms = own_ms > now_ms ? own_ms : now_ms;
    head->lag_ms = head->due_ms - own_ms;
}

static void stand_for(const struct tr_timers *timers, const struct pop *pop,
                      const struct tr_plan *plan, struct tr_head *head)
{
    head->order.sequence = pop->sequence;
    head->order.attempt = 0;
    head->flags &= (uint8_t)~TR_RECORD_FIRED;
    head->instant_ms = is_by_wall(plan) ? pop->instant_ms : 0;
    head->attempt = (struct tr_attempt){0};
    set_due(timers, head, pop->own_ms);
}

static struct tr_plan plan_of(const struct tr_record *record)
{
    struct tr_plan plan;
    bool is_known = tr_plan_get(record->plan, &plan);
    TR_ASSERT(is_known); /* none is stored that is not */
    return plan;
}

bool tr_schedule_next(const struct tr_timers *timers, const struct tr_record *record,
                      struct tr_head *next)
{
    TR_ASSERT(record->head.key.part == 0);
    struct tr_plan plan = plan_of(record);
    struct pop pop = pop_of(timers, record, &plan);
    if (!next_pop(timers, record, &plan, &pop))
        return false;
    *next = record->head;
    stand_for(timers, &pop, &plan, next);
    return true;
}

/* ---- pops that are passed over ---- */

enum tr_pass tr_schedule_pass(const struct tr_timers *timers, const struct tr_record *record,
                              struct tr_head *next)
{
    const struct tr_head *head = &record->head;
    struct tr_plan plan = plan_of(record);
    bool is_usual_last = plan.timing == TR_TIMING_CRON && plan.missed == TR_MISSED_USUAL;
    enum tr_missed missed = is_usual_last ? TR_MISSED_LAST : plan.missed;
    bool is_fresh = head->order.attempt == 0 && head->key.part == 0 && !is_fired(head);
    if (missed == TR_MISSED_USUAL || missed == TR_MISSED_ALL || !is_fresh)
        return TR_PASS_NONE;
    struct pop pop = pop_of(timers, record, &plan);
    struct pop after = pop;
    unsigned count = 0;
    bool has_next = next_pop(timers, record, &plan, &after);
    /* One that is left for the next step is due, too: it is never taken for the last. */
    while (has_next && after.own_ms <= timers->time->steady_ms && count < PASS_SLICE) {
        pop = after;
        count++;
        has_next = next_pop(timers, record, &plan, &after);
    }
    if (count == 0)
        return TR_PASS_NONE;
    bool is_done = count < PASS_SLICE;
    tr_cover(timers->trial, RULE_PASSED_OVER);
    if (is_done && missed == TR_MISSED_NONE && !has_next)
        return TR_PASS_OVER;
    *next = *head;
    stand_for(timers, is_done && missed == TR_MISSED_NONE ? &after : &pop, &plan, next);
    return TR_PASS_ON;
}

/* ---- the first ---- */

/* So that repeat_ms counts the pops: about how long it is from one to the next. */
static void count_by_period(struct tr_record *record, uint64_t pops, uint64_t period_ms)
{
    TR_ASSERT(pops > 0);
    uint64_t most_ms = pops == TR_REPEAT_EVER ? PERIOD_MOST : TR_INTERVAL_MAX / pops;
    record->interval_ms = period_ms < most_ms ? period_ms : most_ms;
    record->repeat_ms = pops == TR_REPEAT_EVER ? TR_REPEAT_EVER : pops * record->interval_ms;
}

static enum tr_result first_of_cron(const struct tr_timers *timers, const struct tr_plan *plan,
                                    uint64_t pops, struct tr_record *record)
{
    tr_wall_ms second_ms = 0;
    if (zone_of(timers, plan) == NULL)
        return TR_NO_ZONE;
    record->head.instant_ms = timers->time->wall_ms;
    if (!cron_after(timers, plan, timers->time->wall_ms, &record->head.instant_ms)) {
        count_by_period(record, pops, PERIOD_MOST);
        return TR_NEVER_DUE;
    }
    bool has_second = cron_after(timers, plan, record->head.instant_ms, &second_ms);
    count_by_period(record, pops, has_second ? second_ms - record->head.instant_ms : PERIOD_MOST);
    return TR_DONE;
}

/* In the past: at once, and what would have come between is not owed. */
static tr_wall_ms first_of_at(const struct tr_timers *timers, const struct tr_timer_body *body)
{
    tr_wall_ms now_ms = timers->time->wall_ms;
    if (body->at_ms >= now_ms || body->interval_ms == 0 || body->pops == 1)
        return body->at_ms;
    return body->at_ms + (now_ms - body->at_ms) / body->interval_ms * body->interval_ms;
}

enum tr_result tr_schedule_first(const struct tr_timers *timers, const struct tr_timer_body *body,
                                 struct tr_record *record)
{
    const struct tr_plan *plan = &body->plan;
    struct tr_head *head = &record->head;
    enum tr_result result = TR_DONE;
    record->interval_ms = body->interval_ms;
    record->repeat_ms = body->repeat_ms;
    head->instant_ms = body->at_ms;
    head->lag_ms = 0;
    if (plan->timing == TR_TIMING_CRON)
        result = first_of_cron(timers, plan, body->pops, record);
    if (result != TR_DONE)
        return result;
    if (plan->timing == TR_TIMING_AT)
        head->instant_ms = first_of_at(timers, body);
    tr_wall_ms nominal_ms = head->instant_ms;
    if (is_by_wall(plan)) {
        head->due_ms = steady_of(timers, nominal_ms + jitter_of(plan, head->key.id, nominal_ms));
        /* What the client asked for is owed from now on. */
        if (head->due_ms < timers->time->steady_ms)
            head->due_ms = timers->time->steady_ms;
    } else {
        uint64_t wait_ms =
            body->interval_ms + (body->interval_ms > 0 ? timers->config.begun_ms : 0);
        head->due_ms =
            timers->time->steady_ms + wait_ms + jitter_of(plan, head->key.id, head->order.sequence);
        nominal_ms = wall_of(timers, timers->time->steady_ms + wait_ms);
    }
    return plan->until_ms != 0 && nominal_ms > plan->until_ms ? TR_NEVER_DUE : TR_DONE;
}

unsigned tr_schedule_ahead(const struct tr_timers *timers, const struct tr_record *record,
                           tr_wall_ms *instants, unsigned most)
{
    struct tr_plan plan = plan_of(record);
    struct pop pop = pop_of(timers, record, &plan);
    unsigned count = 0;
    bool has_next = (record->head.flags & (TR_RECORD_DEAD | TR_RECORD_TOMBSTONE)) == 0;
    if (has_next && record->head.order.attempt > 0)
        has_next = record->head.key.part == 0 && next_pop(timers, record, &plan, &pop);
    for (; has_next && count < most; count++) {
        tr_steady_ms at_ms =
            is_fired(&record->head) && count == 0 ? record->head.due_ms : pop.own_ms;
        /* A millisecond is for rounding up. */
        instants[count] =
            is_by_wall(&plan) && !(is_fired(&record->head) && count == 0)
                ? pop.instant_ms + jitter_of(&plan, record->head.key.id, pop.instant_ms)
                : wall_of(timers, at_ms);
        has_next = record->head.key.part == 0 && next_pop(timers, record, &plan, &pop);
    }
    return count;
}

void tr_schedule_pull(const struct tr_timers *timers, const struct tr_record *record,
                      struct tr_head *head)
{
    struct tr_plan plan = plan_of(record);
    if (!is_fired(head) && !is_by_wall(&plan))
        head->instant_ms = wall_of(timers, head->due_ms - head->lag_ms);
    head->flags |= TR_RECORD_FIRED;
    head->due_ms = timers->time->steady_ms;
    head->lag_ms = 0;
}

/* ---- when a clock is set ---- */

void tr_schedule_by_wall(const struct tr_timers *timers, const struct tr_record *record,
                         struct tr_head *head)
{
    unsigned others = TR_RECORD_DEAD | TR_RECORD_TOMBSTONE | TR_RECORD_FIRED;
    struct tr_plan plan;
    if (head->instant_ms == 0 || (head->flags & others) != 0)
        return;
    TR_ASSERT(head->order.sequence > 0 || head->key.part > 0);
    if (!tr_plan_get(record->plan, &plan) || !is_by_wall(&plan))
        return;
    tr_steady_ms own_ms =
        steady_of(timers, head->instant_ms + jitter_of(&plan, head->key.id, head->instant_ms));
    bool is_put_off = head->order.attempt > 0 || head->lag_ms > 0;
    if (!is_put_off)
        set_due(timers, head, own_ms);
    else if (own_ms > head->due_ms)
        head->due_ms = own_ms;
    head->lag_ms = head->due_ms > own_ms ? head->due_ms - own_ms : 0;
}

void tr_schedule_clock_set(struct tr_timers *timers)
{
    timers->look_cursor = 0;
    timers->look_ms = timers->time->now_ms;
    timers->is_looking = timers->is_ready && !timers->is_stopping;
}

void tr_schedule_zones_changed(struct tr_timers *timers)
{
    timers->are_zones_new = true;
    tr_schedule_clock_set(timers);
}

tr_mono_ms tr_schedule_wake_at(const struct tr_timers *timers)
{
    return timers->is_looking ? timers->look_ms : TR_NEVER;
}

/* By the zone as it is now another instant may be the next. The node that would make the pop says
 * so, as it would say that it has made it. */
static bool has_other_instant(const struct tr_timers *timers, const struct tr_record *record,
                              struct tr_head *head)
{
    struct tr_plan plan;
    tr_wall_ms next_ms = 0;
    if (!tr_plan_get(record->plan, &plan) || plan.timing != TR_TIMING_CRON ||
        record->head.key.part > 0 || record->head.order.attempt > 0 || is_fired(&record->head) ||
        record->head.instant_ms <= timers->time->wall_ms ||
        !tr_turn_is_first(timers->pops, &record->head) ||
        !cron_after(timers, &plan, timers->time->wall_ms, &next_ms) ||
        next_ms == record->head.instant_ms || (plan.until_ms != 0 && next_ms > plan.until_ms))
        return false;
    *head = record->head;
    head->instant_ms = next_ms;
    head->order.moves = tr_next_move(head->order.moves, timers->cluster->stamp_node);
    set_due(timers, head, steady_of(timers, next_ms + jitter_of(&plan, head->key.id, next_ms)));
    return true;
}

/* One that is due already goes on. False: there is no room for what is to be changed now. */
static bool look_at(struct tr_timers *timers, tr_ref ref)
{
    enum tr_record_state state = tr_book_state(&timers->book, ref);
    if (tr_book_is_plain(&timers->book, ref) || state == TR_STATE_QUEUED ||
        state == TR_STATE_FLYING)
        return true;
    struct tr_record record;
    struct tr_head head;
    tr_book_unpack(&timers->book, ref, &record);
    if (timers->are_zones_new && state == TR_STATE_ARMED &&
        has_other_instant(timers, &record, &head)) {
        if (!tr_log_has_room(timers->log, TR_OUTCOME_ROOM + tr_log_record_bound(&record), false) ||
            !tr_replication_has_room(timers->replication, &record.head))
            return false;
        struct tr_head before = record.head;
        tr_ref placed = tr_timers_change(timers, ref, &before, &head);
        timers->rescheduled++;
        if (!tr_set_is_own(&head))
            tr_pending_replicate(timers->replication, placed, REPLICATE_AT_ONCE);
        return true;
    }
    head = record.head;
    tr_schedule_by_wall(timers, &record, &head);
    if (head.due_ms != record.head.due_ms || head.lag_ms != record.head.lag_ms)
        tr_timers_redate(timers, ref, &head);
    return true;
}

static void end_looking(struct tr_timers *timers, struct tr_effects *out)
{
    timers->is_looking = false;
    if (timers->are_zones_new)
        tr_note(out, TR_NOTE_ZONES, 0, timers->rescheduled);
    timers->are_zones_new = false;
    timers->rescheduled = 0;
}

/* In the order of the book; all parts of a timer, which share its hash, in one step. What is stored
 * meanwhile is by the clock as it is now. */
void tr_schedule_run(struct tr_timers *timers, struct tr_effects *out)
{
    unsigned slice = tr_replication_slice(timers->replication, LOOK_SLICE);
    if (!timers->is_looking || timers->time->now_ms < timers->look_ms)
        return;
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, timers->look_cursor);
    for (unsigned i = 0;; i++) {
        tr_ref ref = TR_ARENA_NONE;
        if (!tr_index_next(&walk, &ref)) {
            end_looking(timers, out);
            return;
        }
        uint64_t hash = tr_book_hash(tr_book_id(&timers->book, ref));
        bool is_next = hash != timers->look_cursor;
        timers->look_cursor = hash;
        if (is_next && i >= slice)
            return;
        if (!look_at(timers, ref)) {
            timers->look_ms = timers->time->now_ms + TR_TURN_LOOK_MS;
            return;
        }
    }
}
