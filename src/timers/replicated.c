/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that replication and pops ask. */
#include "timers/replicated.h"

#include "log/batch.h"
#include "log/segment.h"
#include "pops/claim.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "replication/dropped.h"
#include "replication/set.h"
#include "timers/due.h"
#include "timers/fire.h"
#include "timers/outcome.h"
#include "timers/redrive.h"
#include "timers/store.h"
#include "wire/plan.h"
#include "wire/uri.h"

#include <stddef.h>

#define NEAR_MS 1000 /* a timer that is due sooner pops before it moves */

_Static_assert(sizeof(struct tr_record) <= sizeof(struct tr_whole), "a timer fits");
_Static_assert(offsetof(struct tr_record, head) == 0, "both begin with the head");

void tr_record_to_whole(const struct tr_record *record, struct tr_whole *whole)
{
    memcpy(whole, record, sizeof *record);
}

void tr_record_from_whole(const struct tr_whole *whole, struct tr_record *record)
{
    memcpy(record, whole, sizeof *record);
}

/* ---- reading ---- */

static tr_ref find(void *context, const struct tr_key *key, bool *has_any)
{
    const struct tr_timers *timers = context;
    return has_any != NULL ? tr_book_find_part(&timers->book, key, has_any)
                           : tr_book_find(&timers->book, key);
}

/* Its live part, or what remains of it. */
static tr_ref find_shown(void *context, tr_timer_id id)
{
    const struct tr_timers *timers = context;
    struct tr_index_walk walk;
    tr_ref found = TR_ARENA_NONE;
    unsigned best = 0;
    for (tr_ref ref = tr_book_first(&timers->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        struct tr_head head;
        tr_book_head(&timers->book, ref, &head);
        bool is_live = (head.flags & TR_RECORD_TOMBSTONE) == 0;
        bool is_timer = head.key.part == 0;
        unsigned worth = is_live && is_timer ? 3 : is_live ? 2 : is_timer ? 1 : 0;
        if (worth > best) {
            best = worth;
            found = ref;
        }
    }
    return found;
}

static uint64_t hash(void *context, tr_ref ref)
{
    const struct tr_timers *timers = context;
    return tr_book_hash(tr_book_id(&timers->book, ref));
}

static void head(void *context, tr_ref ref, struct tr_head *head)
{
    const struct tr_timers *timers = context;
    tr_book_head(&timers->book, ref, head);
}

static void whole(void *context, tr_ref ref, struct tr_whole *whole)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_timers *timers = context;
    struct tr_record record;
    tr_book_unpack(&timers->book, ref, &record);
    tr_record_to_whole(&record, whole);
}

static enum tr_store_state state(void *context, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_timers *timers = context;
    enum tr_record_state state = tr_book_state(&timers->book, ref);
    return state == TR_STATE_UNSAFE  ? TR_STORE_UNSAFE
           : state == TR_STATE_ARMED ? TR_STORE_IDLE
                                     : TR_STORE_BUSY;
}

static uint64_t count(void *context)
{
    const struct tr_timers *timers = context;
    return timers->stats.timers + timers->stats.debts + timers->stats.dead;
}

static uint8_t acked(void *context, tr_ref ref)
{
    const struct tr_timers *timers = context;
    return tr_book_acked(&timers->book, ref);
}

static void set_acked(void *context, tr_ref ref, uint8_t acked)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_timers *timers = context;
    tr_book_set_acked(&timers->book, ref, acked);
}

static bool is_spread(void *context, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_timers *timers = context;
    return tr_book_all_acked(&timers->book, ref);
}

static void forget_member(void *context, tr_ref ref, uint16_t member)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_timers *timers = context;
    tr_book_forget(&timers->book, ref, member);
}

/* ---- changing ---- */

static bool put(void *context, const struct tr_whole *whole, tr_ref *ref)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    return tr_timers_put(context, &record, ref);
}

static tr_ref put_head(void *context, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(ref != TR_ARENA_NONE && tr_set_is_sound(head));
    return tr_timers_put_head(context, ref, head);
}

static tr_ref change(void *context, tr_ref ref, const struct tr_head *before,
                     const struct tr_head *head)
{
    TR_ASSERT(tr_key_equals(&before->key, &head->key));
    return tr_timers_change(context, ref, before, head);
}

static void remove_record(void *context, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_timers_remove(context, ref);
}

static void arm(void *context, tr_ref ref)
{
    tr_timers_arm(context, ref);
}

static void strip(struct tr_whole *whole)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    tr_timers_strip(&record);
    tr_record_to_whole(&record, whole);
}

/* ---- as bytes ---- */

/* What is advice in the log goes with it, as an entry behind it. */
static size_t pack_bound(const struct tr_whole *whole)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    return tr_log_record_bound(&record) + TR_ADVICE_SIZE;
}

static size_t pack(const struct tr_whole *whole, struct tr_writer *writer)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    size_t size = tr_log_put_record(writer, &record);
    if (record.head.fingerprint != 0 || record.head.attempt.at_ms != 0)
        size += tr_log_put_advice(writer, &record.head, record.head.fingerprint);
    return size;
}

static void unpack(const uint8_t *bytes, size_t size, struct tr_whole *whole)
{
    struct tr_log_entry entry = {0};
    struct tr_log_entry advice = {0};
    struct tr_reader reader = tr_reader_on(bytes, size);
    enum tr_log_get_status status = tr_log_get(&reader, &entry);
    TR_ASSERT(status == TR_LOG_GET_ONE && entry.type == TR_LOG_RECORD);
    if (tr_log_get(&reader, &advice) == TR_LOG_GET_ONE && advice.type == TR_LOG_ADVICE) {
        entry.record.head.fingerprint = advice.record.head.fingerprint;
        entry.record.head.attempt = advice.record.head.attempt;
    }
    tr_record_to_whole(&entry.record, whole);
}

static void encode(struct tr_writer *writer, const struct tr_whole *whole,
                   const struct tr_frame_names *names, uint64_t version)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    tr_frame_put_record(writer, &record, names, version);
}

static uint64_t version(const struct tr_whole *whole)
{
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    return tr_record_is_extended(&record) ? TR_PLAN_VERSION : 0;
}

static bool decode(struct tr_reader *reader, struct tr_whole *whole, struct tr_frame_names *names)
{
    struct tr_record record;
    if (!tr_frame_get_record(reader, &record, names))
        return false;
    tr_record_to_whole(&record, whole);
    return true;
}

/* A timer stands for one of its pops, and has somebody to call, or is over. */
static bool is_sound(void *context, const struct tr_whole *whole)
{
    struct tr_record record;
    (void)context;
    tr_record_from_whole(whole, &record);
    if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0)
        return true;
    struct tr_plan plan;
    struct tr_own own;
    if (!tr_plan_get(record.plan, &plan) || !tr_own_get(record.own, &own))
        return false;
    bool is_by_wall = plan.timing != TR_TIMING_INTERVAL;
    if (is_by_wall ? record.head.instant_ms == 0
                   : record.head.instant_ms != 0 && record.head.key.part == 0 &&
                         (record.head.flags & TR_RECORD_FIRED) == 0)
        return false;
    return record.uri.size > 0 &&
           (record.head.key.part > 0 || (record.head.order.sequence >= 1 &&
                                         record.head.order.sequence <= tr_record_pops(&record)));
}

static bool fits(void *context, const struct tr_whole *whole)
{
    const struct tr_timers *timers = context;
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    return record.opaque.size <= timers->config.opaque_max;
}

/* A log that has no segment which could hold it has one in a moment. */
static bool may_store(void *context, const struct tr_whole *whole)
{
    const struct tr_timers *timers = context;
    struct tr_record record;
    tr_record_from_whole(whole, &record);
    if (!tr_record_is_extended(&record))
        return true;
    tr_ref ref = tr_book_find(&timers->book, &record.head.key);
    bool has_memory = ref == TR_ARENA_NONE || tr_book_can_update(&timers->book, ref, &record.head);
    return has_memory && tr_log_extend(timers->log);
}

/* ---- for clients ---- */

static tr_timer_id draw(void *context)
{
    return tr_timers_draw(context);
}

static void answer(void *context, const struct tr_reply *reply, struct tr_effects *out)
{
    TR_ASSERT(reply->result < TR_RESULTS);
    struct tr_timers *timers = context;
    if (reply->shown != TR_ARENA_NONE) {
        struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER_TIMER);
        effect->of.timer.token = reply->token;
        effect->of.timer.ref = reply->shown;
        return;
    }
    if (reply->result == TR_MEMORY_FULL && !timers->is_memory_noted) {
        timers->is_memory_noted = true;
        tr_note(out, TR_NOTE_MEMORY_FULL, 0, 0);
    }
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_ANSWER);
    effect->of.answer.token = reply->token;
    effect->of.answer.result = reply->result;
    effect->of.answer.is_replayed = reply->is_replayed;
    effect->of.answer.has_location = reply->has_happened;
    effect->of.answer.location = tr_timers_text(timers, reply->id, reply->factor);
    timers->stats.refused += tr_result_is_refusal(reply->result);
}

static bool can_perform(void *context, enum tr_ask_mode mode)
{
    const struct tr_timers *timers = context;
    return tr_redrive_has_room(timers) && (mode != TR_ASK_FIRE || tr_log_extend(timers->log));
}

static unsigned perform(void *context, tr_timer_id id, enum tr_ask_mode mode, uint64_t argument,
                        struct tr_waiting ticket)
{
    struct tr_timers *timers = context;
    TR_ASSERT(tr_log_can_wait(timers->log, 2 * (TR_PARTS_MAX + 1)));
    return mode == TR_ASK_FIRE ? tr_fire_timer(timers, id, ticket)
                               : tr_redrive_timer(timers, id, argument, ticket);
}

/* ---- pops, and the parts of a timer ---- */

/* A pop that is near, or under way, comes first. */
static bool may_move(void *context, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_timers *timers = context;
    bool is_near = tr_book_interval(&timers->book, ref) >= 2 * (uint64_t)NEAR_MS &&
                   (head->flags & TR_RECORD_DEAD) == 0 &&
                   head->due_ms < timers->time->steady_ms + NEAR_MS;
    if (is_near)
        tr_cover(timers->trial, RULE_MOVE_WAITS);
    return !is_near && !tr_claim_is_held(timers->pops, head);
}

/* Whether what `timer` says ends this part of it: a new version ends what older ones still owe, a
 * cancellation their dead pops too. */
static bool ends(const struct tr_head *timer, const struct tr_head *part)
{
    TR_ASSERT(timer->key.id == part->key.id && timer->key.part == 0);
    bool is_dead = (part->flags & TR_RECORD_DEAD) != 0;
    /* A client's: one that follows the last pop is of a later sequence. */
    bool is_cancelled = (timer->flags & TR_RECORD_TOMBSTONE) != 0 && timer->order.sequence <= 1;
    return part->key.part > 0 && part->order.version < timer->order.version &&
           (!is_dead || is_cancelled);
}

static bool is_ended(void *context, const struct tr_head *part)
{
    const struct tr_timers *timers = context;
    struct tr_head timer;
    tr_ref ref =
        part->key.part == 0 ? TR_ARENA_NONE : tr_book_find_whole(&timers->book, part->key.id);
    if (ref == TR_ARENA_NONE)
        return false;
    tr_book_head(&timers->book, ref, &timer);
    return ends(&timer, part);
}

/* No tombstones for them: every node that holds them gets the new version, and drops them
 * likewise. */
static void end_others(void *context, const struct tr_head *timer)
{
    struct tr_timers *timers = context;
    for (unsigned i = 0; timer->key.part == 0 && i <= TR_PARTS_MAX; i++) {
        struct tr_index_walk walk;
        struct tr_head part;
        tr_ref ref = tr_book_first(&timers->book, timer->key.id, &walk);
        for (; ref != TR_ARENA_NONE; ref = tr_book_next(&walk, timer->key.id)) {
            tr_book_head(&timers->book, ref, &part);
            if (ends(timer, &part))
                break;
        }
        if (ref == TR_ARENA_NONE)
            return;
        tr_dropped_remove(timers->replication, ref);
    }
}

static void limit_others(void *context, const struct tr_head *part)
{
    tr_outcome_limit_parts(context, part->key.id, part->key.part, NULL);
}

static void carry_on(void *context, tr_ref before, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(before != TR_ARENA_NONE && ref != TR_ARENA_NONE);
    struct tr_timers *timers = context;
    tr_flight_carry_on(timers->pops, before, ref, head);
}

static void wake(void *context, tr_ref ref, const struct tr_head *head)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    struct tr_timers *timers = context;
    tr_steady_ms now_ms = timers->time->steady_ms;
    tr_due_look_again(timers, ref, head->due_ms > now_ms ? head->due_ms : now_ms);
}

static void pause_pops(void *context, bool was_popping)
{
    struct tr_timers *timers = context;
    if (was_popping)
        tr_claim_flights(timers->pops);
    tr_destinations_recall(timers->pops);
}

/* ---- the tables ---- */

struct tr_store tr_timers_as_store(struct tr_timers *timers)
{
    return (struct tr_store){
        .context = timers,
        .index = &timers->book.index,
        .find = find,
        .find_shown = find_shown,
        .hash = hash,
        .head = head,
        .whole = whole,
        .state = state,
        .count = count,
        .acked = acked,
        .set_acked = set_acked,
        .is_spread = is_spread,
        .forget_member = forget_member,
        .put = put,
        .put_head = put_head,
        .change = change,
        .remove = remove_record,
        .arm = arm,
        .strip = strip,
        .pack_bound = pack_bound,
        .pack = pack,
        .unpack = unpack,
        .encode = encode,
        .version = version,
        .decode = decode,
        .is_sound = is_sound,
        .fits = fits,
        .may_store = may_store,
        .draw = draw,
        .answer = answer,
        .may_move = may_move,
        .end_others = end_others,
        .is_ended = is_ended,
        .limit_others = limit_others,
        .carry_on = carry_on,
        .wake = wake,
        .pause = pause_pops,
        .can_perform = can_perform,
        .perform = perform,
    };
}

static enum tr_record_state record_state(void *context, tr_ref ref)
{
    const struct tr_timers *timers = context;
    return tr_book_state(&timers->book, ref);
}

static void set_state(void *context, tr_ref ref, enum tr_record_state state)
{
    struct tr_timers *timers = context;
    tr_book_set_state(&timers->book, ref, state);
}

static bool matches(void *context, tr_ref ref, enum tr_record_state state, tr_steady_ms due_ms)
{
    const struct tr_timers *timers = context;
    return tr_book_matches(&timers->book, ref, state, due_ms);
}

static uint64_t origin(void *context, tr_ref ref)
{
    TR_ASSERT(ref != TR_ARENA_NONE);
    const struct tr_timers *timers = context;
    struct tr_uri uri;
    struct tr_span text = tr_strings_text(&timers->book.texts, tr_book_uri(&timers->book, ref));
    /* One that cannot be called, out of an older log, fails in the shell and is retried there. */
    struct tr_span from = tr_uri_parse(text, &uri) == NULL ? uri.origin : text;
    return tr_hash_xxh3(from.text, from.size);
}

static void forget_entry(void *context, tr_ref ref)
{
    tr_timers_forget_entry(context, ref);
}

struct tr_pops_owner tr_timers_as_owner(struct tr_timers *timers)
{
    return (struct tr_pops_owner){
        .context = timers,
        .head = head,
        .state = record_state,
        .set_state = set_state,
        .matches = matches,
        .origin = origin,
        .arm = arm,
        .forget_entry = forget_entry,
    };
}
