/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/request.h"

#include "cluster/clock.h"
#include "cluster/peer.h"
#include "log/batch.h"
#include "log/segment.h"
#include "replication/operation.h"
#include "timers/list.h"
#include "timers/redrive.h"
#include "timers/replicated.h"
#include "timers/schedule.h"
#include "timers/store.h"
#include "wire/plan.h"

#define DEFAULT_FACTOR 2
#define WRITE_ROOM     64 /* bytes of the log beside the entries: a stamp's ceiling */

struct request {
    struct tr_timers *timers;
    const struct tr_event *event;
    struct tr_effects *out;
};

static void answer(const struct request *request, enum tr_result result)
{
    TR_ASSERT(result < TR_RESULTS);
    struct tr_effect *effect = tr_effects_push(request->out, TR_EFFECT_ANSWER);
    effect->of.answer.token = request->event->of.request.token;
    effect->of.answer.result = result;
    effect->of.answer.is_replayed = false;
    effect->of.answer.has_location = false;
    request->timers->stats.refused += tr_result_is_refusal(result);
}

/* What a record points to while it is put together. */
struct bytes {
    uint8_t plan[TR_PLAN_MAX];
    uint8_t own[TR_OWN_MAX];
};

/* Whether a member of the cluster is of a version that cannot hold what only some records have. */
static bool has_older_member(const struct tr_timers *timers)
{
    return tr_peers_older(timers->cluster, TR_PLAN_VERSION) != TR_MEMBER_NONE;
}

/* Whether the log, and all members, can hold a record that a version before this one cannot. If
 * not, that has been answered. */
static bool admit_extended(const struct request *request, const struct tr_record *record)
{
    if (!tr_record_is_extended(record))
        return true;
    if (has_older_member(request->timers))
        answer(request, TR_OLDER_MEMBER);
    else if (!tr_log_extend(request->timers->log))
        answer(request, TR_TOO_MANY_WRITES);
    else
        return true;
    return false;
}

/* Whether a write may begin; if not, it has been answered. */
static bool admit(const struct request *request, size_t size, bool is_new)
{
    TR_ASSERT(size > 0);
    const struct tr_timers *timers = request->timers;
    const struct tr_log *log = timers->log;
    if (!log->is_running || !tr_replication_is_open(timers->replication))
        answer(request, timers->is_stopping ? TR_STOPPING : TR_STARTING);
    else if (tr_clock_is_ahead(timers->cluster))
        answer(request, TR_CLOCK_AHEAD);
    else if (log->is_refused && is_new)
        answer(request, TR_DISK_FULL);
    else if (tr_log_lag_ms(log) > timers->config.latency_target_ms)
        answer(request, TR_DISK_SLOW);
    else if (!tr_log_can_wait(log, 2 * (TR_PARTS_MAX + 1)) ||
             !tr_log_has_room(log, size + WRITE_ROOM, is_new))
        answer(request, log->is_refused ? TR_DISK_FULL : TR_TOO_MANY_WRITES);
    else
        return true;
    return false;
}

/* All but the id, the version and when it is due. */
static void fill(const struct tr_timers *timers, const struct tr_timer_body *body,
                 struct bytes *bytes, struct tr_record *record)
{
    TR_ASSERT(body->factor <= TR_FACTOR_MAX && body->tag_count <= TR_TAGS_MAX);
    struct tr_writer plan = tr_writer_on(bytes->plan, sizeof bytes->plan);
    struct tr_writer own = tr_writer_on(bytes->own, sizeof bytes->own);
    tr_plan_put(&plan, &body->plan);
    tr_own_put(&own, &body->own);
    TR_ASSERT(!plan.is_full && !own.is_full);
    record->plan = (struct tr_span){(const char *)bytes->plan, plan.size};
    record->own = (struct tr_span){(const char *)bytes->own, own.size};
    record->head.fingerprint = 0;
    record->head.instant_ms = 0;
    record->head.key.part = 0;
    record->head.order.sequence = 1;
    record->head.order.attempt = 0;
    record->head.order.moves = 0;
    record->head.attempt = (struct tr_attempt){0};
    record->head.flags = 0;
    record->head.order.version_node = timers->cluster->stamp_node;
    record->head.replicas.count = 1;
    record->head.from.count = 0;
    record->head.from.gone = 0;
    record->head.replicas.members[0] = 0;
    record->head.segment = 0;
    record->tag_count = body->tag_count;
    record->uri = body->uri;
    record->opaque = body->opaque;
    record->content_type = body->content_type;
    memcpy(record->tags, body->tags, body->tag_count * sizeof body->tags[0]);
}

/* When it pops, which depends on its id. False: never, which has been answered. */
static bool schedule(const struct request *request, struct tr_record *record)
{
    const struct tr_timer_body *body = request->event->of.request.body;
    enum tr_result result = tr_schedule_first(request->timers, body, record);
    if (result != TR_DONE)
        answer(request, result);
    return result == TR_DONE;
}

/* Wherever the records of its id are: here, on other nodes, or both. */
static void begin(const struct request *request, const struct tr_record *record)
{
    TR_ASSERT(record->head.factor > 0);
    const struct tr_event *event = request->event;
    enum tr_command command = event->of.request.command;
    bool is_past = command == TR_COMMAND_REPLACE && event->of.request.body->past.version != 0;
    struct tr_request asked = {
        .kind = command == TR_COMMAND_CREATE                                  ? OPERATION_CREATE
                : command == TR_COMMAND_READ                                  ? OPERATION_READ
                : command == TR_COMMAND_REDRIVE || command == TR_COMMAND_FIRE ? OPERATION_PERFORM
                : is_past                                                     ? OPERATION_RESTORE
                                                                              : OPERATION_REPLACE,
        .token = event->of.request.token,
        .filter = command == TR_COMMAND_CREATE ? 0 : event->of.request.timer.replicas,
        .condition = event->of.request.condition,
        .performs = command == TR_COMMAND_FIRE ? TR_ASK_FIRE : TR_ASK_REDRIVE,
        .argument = command == TR_COMMAND_REDRIVE ? event->of.request.query->sequence : 0,
    };
    struct tr_whole whole;
    tr_record_to_whole(record, &whole);
    tr_operation_begin(request->timers->replication, &asked, &whole, request->out);
}

/* Of what a client asks for, however it is written: but for the trace that it belongs to. */
static uint64_t fingerprint_of(const struct tr_timer_body *body, const struct tr_record *record)
{
    const uint64_t numbers[] = {body->interval_ms, body->repeat_ms, body->pops,
                                body->at_ms,       body->factor,    body->tag_count};
    const struct tr_span texts[] = {record->uri, record->opaque, record->content_type, record->plan,
                                    body->own.name};
    uint64_t hash = tr_hash_xxh3(numbers, sizeof numbers);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++)
        hash = tr_hash_mix(hash ^ tr_hash_xxh3(texts[i].text, texts[i].size)) + i;
    for (unsigned i = 0; i < body->tag_count; i++) {
        struct tr_span name = body->tags[i].name;
        hash = tr_hash_mix(hash ^ tr_hash_xxh3(name.text, name.size)) + body->tags[i].count;
    }
    return hash != 0 ? hash : 1;
}

static void create(const struct request *request)
{
    TR_ASSERT(request->event->of.request.body != NULL);
    struct tr_timers *timers = request->timers;
    const struct tr_timer_body *body = request->event->of.request.body;
    struct tr_span key = request->event->of.request.key;
    struct tr_record record;
    struct bytes bytes;
    fill(timers, body, &bytes, &record);
    if (!admit(request, tr_log_record_bound(&record), true) || !admit_extended(request, &record))
        return;
    record.head.order.version = tr_clock_stamp(timers->cluster, 0);
    if (key.text != NULL) {
        record.head.key.id = tr_hash_mix(tr_hash_xxh3(key.text, key.size));
        record.head.flags |= TR_RECORD_KEYED;
        record.head.fingerprint = fingerprint_of(body, &record);
    } else {
        record.head.key.id = tr_timers_draw(timers);
    }
    if (!schedule(request, &record))
        return;
    record.head.factor = body->factor > 0 ? body->factor : DEFAULT_FACTOR;
    timers->stats.created++;
    begin(request, &record);
}

/* The highest version held under an id. */
static uint64_t version_of(const struct tr_timers *timers, tr_timer_id id)
{
    struct tr_index_walk walk;
    uint64_t version = 0;
    for (tr_ref ref = tr_book_first(&timers->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        uint64_t other = tr_book_version(&timers->book, ref);
        version = other > version ? other : version;
    }
    return version;
}

/* Puts a timer back as it was in a backup, under the version that it had: what was written since
 * then stays. What is due by now is so from the time it was due at, as after a restart. */
static void restore(const struct request *request)
{
    struct tr_timers *timers = request->timers;
    const struct tr_timer_text *text = &request->event->of.request.timer;
    const struct tr_timer_body *body = request->event->of.request.body;
    const struct tr_timer_past *past = &body->past;
    const struct tr_time *time = timers->time;
    struct tr_record record;
    TR_ASSERT(past->version > 0 && past->sequence > 0);
    if (body->factor > 0 && text->factor > 0 && body->factor != text->factor) {
        answer(request, TR_FACTOR_DISAGREES);
        return;
    }
    if (tr_clock_time_of(past->version) > time->steady_ms + TR_SKEW_MS) {
        answer(request, TR_VERSION_AHEAD);
        return;
    }
    struct bytes bytes;
    fill(timers, body, &bytes, &record);
    record.head.key.id = text->id;
    if (tr_schedule_first(timers, body, &record) == TR_NO_ZONE) {
        answer(request, TR_NO_ZONE);
        return;
    }
    record.head.factor = text->factor > 0   ? text->factor
                         : body->factor > 0 ? body->factor
                                            : DEFAULT_FACTOR;
    record.head.flags = past->is_keyed ? TR_RECORD_KEYED : 0;
    if (body->plan.timing != TR_TIMING_INTERVAL && past->instant_ms != 0)
        record.head.instant_ms = past->instant_ms;
    record.head.order.version = past->version;
    record.head.order.version_node = past->version_node;
    record.head.order.sequence = past->sequence;
    bool is_past = past->due_ms <= time->wall_ms;
    uint64_t off_ms = is_past ? time->wall_ms - past->due_ms : past->due_ms - time->wall_ms;
    uint64_t most_ms = is_past ? time->steady_ms / 2 : TR_INTERVAL_MAX;
    off_ms = off_ms < most_ms ? off_ms : most_ms;
    record.head.due_ms = time->steady_ms + (is_past ? 0 : off_ms);
    record.head.lag_ms = is_past ? off_ms : 0;
    if (!admit(request, tr_log_record_bound(&record) + TR_REDRIVE_ROOM, true) ||
        !admit_extended(request, &record))
        return;
    timers->stats.created++;
    begin(request, &record);
}

/* What it replaces was made with an Idempotency-Key, which stands for this id from now on, too. */
static void inherit_key(const struct tr_timers *timers, tr_ref ref, struct tr_record *record)
{
    struct tr_record held;
    tr_book_unpack(&timers->book, ref, &held);
    record->head.flags |= held.head.flags & TR_RECORD_KEYED;
    record->head.fingerprint = held.head.fingerprint;
}

/* Another timer's name has the same id: one in 2^64. */
static bool has_other_name(const struct tr_record *held, struct tr_span name)
{
    struct tr_own own;
    return name.size > 0 && tr_own_get(held->own, &own) && own.name.size > 0 &&
           !tr_span_equals(own.name, name);
}

static void replace(const struct request *request)
{
    TR_ASSERT(request->event->of.request.body != NULL);
    if (request->event->of.request.body->past.version != 0) {
        restore(request);
        return;
    }
    struct tr_timers *timers = request->timers;
    const struct tr_timer_text *text = &request->event->of.request.timer;
    const struct tr_timer_body *body = request->event->of.request.body;
    struct tr_record record;
    if (body->factor > 0 && text->factor > 0 && body->factor != text->factor) {
        answer(request, TR_FACTOR_DISAGREES);
        return;
    }
    struct bytes bytes;
    fill(timers, body, &bytes, &record);
    record.head.key.id = text->id;
    tr_ref ref = tr_book_find_whole(&timers->book, record.head.key.id);
    struct tr_record held = {.head.flags = TR_RECORD_TOMBSTONE};
    if (ref != TR_ARENA_NONE)
        tr_book_unpack(&timers->book, ref, &held);
    bool is_there = (held.head.flags & TR_RECORD_TOMBSTONE) == 0;
    if (is_there && text->factor > 0 && held.head.factor != text->factor) {
        answer(request, TR_FACTOR_IS_FIXED);
        return;
    }
    if (is_there && has_other_name(&held, body->own.name)) {
        answer(request, TR_NAME_TAKEN);
        return;
    }
    if (!schedule(request, &record) ||
        !admit(request, tr_log_record_bound(&record) + TR_REDRIVE_ROOM, true) ||
        !admit_extended(request, &record))
        return;
    record.head.order.version =
        tr_clock_stamp(timers->cluster, version_of(timers, record.head.key.id));
    record.head.factor = text->factor > 0   ? text->factor
                         : body->factor > 0 ? body->factor
                                            : DEFAULT_FACTOR;
    if (ref != TR_ARENA_NONE)
        inherit_key(timers, ref, &record);
    timers->stats.replaced++;
    begin(request, &record);
}

/* A tombstone is written like any other record. */
static void cancel(const struct request *request)
{
    struct tr_timers *timers = request->timers;
    const struct tr_timer_text *text = &request->event->of.request.timer;
    if (!admit(request, TR_REDRIVE_ROOM + 256, false))
        return;
    tr_ref ref = tr_book_find_whole(&timers->book, text->id);
    struct tr_record was = {.head.fingerprint = 0};
    if (ref != TR_ARENA_NONE)
        inherit_key(timers, ref, &was);
    uint8_t keyed = was.head.flags;
    uint64_t keep_ms = keyed != 0 ? timers->config.key_keep_ms : TR_TOMBSTONE_MS;
    struct tr_record record = {
        .head.key.id = text->id,
        .head.order.version = tr_clock_stamp(timers->cluster, version_of(timers, text->id)),
        .head.order.version_node = timers->cluster->stamp_node,
        .head.order.sequence = 1,
        .head.due_ms = timers->time->steady_ms + keep_ms,
        .head.factor = text->factor > 0 ? text->factor : DEFAULT_FACTOR,
        .head.flags = (uint8_t)(TR_RECORD_TOMBSTONE | keyed),
        .head.replicas = {.count = 1},
        .head.fingerprint = was.head.fingerprint,
        .plan = {"", 0},
        .own = {"", 0},
        .uri = {"", 0},
        .opaque = {"", 0},
        .content_type = {"", 0},
    };
    timers->stats.cancelled++;
    begin(request, &record);
}

/* Of a timer that is asked for by its id alone. */
static void begin_asking(const struct request *request)
{
    const struct tr_timer_text *text = &request->event->of.request.timer;
    struct tr_record record = {
        .head.key.id = text->id,
        .head.factor = text->factor > 0 ? text->factor : DEFAULT_FACTOR,
    };
    begin(request, &record);
}

static void read_timer(const struct request *request)
{
    const struct tr_timers *timers = request->timers;
    if (!timers->is_ready || !tr_replication_is_open(timers->replication))
        answer(request, TR_STARTING);
    else
        begin_asking(request);
}

static void list(const struct request *request)
{
    TR_ASSERT(request->event->of.request.query != NULL);
    struct tr_timers *timers = request->timers;
    const struct tr_query *query = request->event->of.request.query;
    if (!timers->is_ready || !tr_replication_is_open(timers->replication)) {
        answer(request, TR_STARTING);
        return;
    }
    bool is_resync = request->event->of.request.command == TR_COMMAND_RESYNC_LIST;
    enum tr_result result = is_resync ? tr_list_check_resync(timers, query) : TR_DONE;
    if (result != TR_DONE)
        answer(request, result);
    else
        tr_list_page(timers, request->event, request->out);
}

static void redrive(const struct request *request)
{
    if (admit(request, TR_REDRIVE_ROOM, false))
        begin_asking(request);
}

static void fire(const struct request *request)
{
    if (has_older_member(request->timers))
        answer(request, TR_OLDER_MEMBER);
    else if (!tr_log_extend(request->timers->log))
        answer(request, TR_TOO_MANY_WRITES);
    else if (admit(request, TR_REDRIVE_ROOM, false))
        begin_asking(request);
}

void tr_request_received(struct tr_timers *timers, const struct tr_event *event,
                         struct tr_effects *out)
{
    struct request request = {timers, event, out};
    timers->replication->busy_ms = timers->time->now_ms;
    switch (event->of.request.command) {
    case TR_COMMAND_CREATE:
        create(&request);
        return;
    case TR_COMMAND_REPLACE:
        replace(&request);
        return;
    case TR_COMMAND_CANCEL:
        cancel(&request);
        return;
    case TR_COMMAND_READ:
        read_timer(&request);
        return;
    case TR_COMMAND_LIST:
    case TR_COMMAND_RESYNC_LIST:
        list(&request);
        return;
    case TR_COMMAND_REDRIVE:
        redrive(&request);
        return;
    case TR_COMMAND_FIRE:
        fire(&request);
        return;
    }
}
