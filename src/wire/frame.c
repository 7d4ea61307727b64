/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include "base/assert.h"
#include "wire/key.h"
#include "wire/rest.h"

#define BEAT_FLAGS     (2 * TR_BEAT_SETTLED - 1) /* all of them */
#define HAS_INSTANT    0x20 /* beside the flags of a record: its instant follows, */
#define HAS_ATTEMPT    0x40 /* and its last attempt */
#define BEAT_KEY_FLAGS (2 * TR_BEAT_KEYS_OLDER - 1)

/* Small negative numbers are small too. */
static void put_signed(struct tr_writer *out, int64_t value)
{
    tr_put_varint(out, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static int64_t get_signed(struct tr_reader *in)
{
    uint64_t value = tr_get_varint(in);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

/* A number that must not be above `most`. */
static uint64_t get_limited(struct tr_reader *in, size_t size, uint64_t most)
{
    TR_ASSERT(size < 8 && most >> 8 * size == 0);
    uint64_t value = tr_get_number(in, size);
    in->is_short |= value > most;
    return in->is_short ? 0 : value;
}

/* ---- heads ---- */

static void put_hello(struct tr_writer *out, const struct tr_frame *frame)
{
    TR_ASSERT(frame->of.hello.address.size <= TR_LOG_ADDRESS_MAX);
    TR_ASSERT(frame->of.hello.incarnation_count <= TR_LOG_INCARNATIONS_MAX);
    tr_put_varint(out, frame->of.hello.version);
    tr_put_span(out, frame->of.hello.address);
    tr_put_bytes(out, frame->of.hello.store_id, TR_LOG_STORE_ID_SIZE);
    tr_put_number(out, frame->of.hello.view, 8);
    tr_put_varint(out, frame->of.hello.tick_ms);
    tr_put_number(out, frame->of.hello.incarnation_count, 1);
    for (uint32_t i = 0; i < frame->of.hello.incarnation_count; i++) {
        tr_put_number(out, frame->of.hello.incarnations[i].number, 8);
        tr_put_number(out, frame->of.hello.incarnations[i].start, 8);
    }
}

static void get_hello(struct tr_reader *in, struct tr_frame *frame)
{
    frame->of.hello.version = tr_get_varint(in);
    frame->of.hello.address = tr_get_span(in);
    in->is_short |= frame->of.hello.address.size > TR_LOG_ADDRESS_MAX;
    const uint8_t *store = tr_get_bytes(in, TR_LOG_STORE_ID_SIZE);
    if (store != NULL)
        memcpy(frame->of.hello.store_id, store, TR_LOG_STORE_ID_SIZE);
    frame->of.hello.view = tr_get_number(in, 8);
    frame->of.hello.tick_ms = tr_get_varint(in);
    uint64_t count = get_limited(in, 1, TR_LOG_INCARNATIONS_MAX);
    TR_ASSERT(count <= TR_LOG_INCARNATIONS_MAX);
    frame->of.hello.incarnation_count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        frame->of.hello.incarnations[i].number = tr_get_number(in, 8);
        frame->of.hello.incarnations[i].start = tr_get_number(in, 8);
    }
}

static void put_beat(struct tr_writer *out, const struct tr_frame *frame)
{
    TR_ASSERT(frame->of.beat.memory_fill <= 100 && frame->of.beat.disk_fill <= 100);
    TR_ASSERT(frame->of.beat.flags <= BEAT_FLAGS);
    tr_put_varint(out, frame->of.beat.tick_ms);
    tr_put_number(out, frame->of.beat.stamp, 8);
    tr_put_number(out, frame->of.beat.view, 8);
    tr_put_varint(out, frame->of.beat.position);
    tr_put_number(out, frame->of.beat.memory_fill, 1);
    tr_put_number(out, frame->of.beat.disk_fill, 1);
    tr_put_number(out, frame->of.beat.flags, 1);
    tr_put_varint(out, frame->of.beat.popping_from_ms);
    if (!frame->of.beat.has_roster)
        return;
    tr_put_number(out, frame->of.beat.cluster, 8);
    tr_put_varint(out, frame->of.beat.epoch);
    tr_put_number(out, frame->of.beat.roster_id, 8);
    tr_put_number(out, frame->of.beat.key_flags, 1);
}

static void get_beat(struct tr_reader *in, struct tr_frame *frame)
{
    frame->of.beat.tick_ms = tr_get_varint(in);
    frame->of.beat.stamp = tr_get_number(in, 8);
    frame->of.beat.view = tr_get_number(in, 8);
    frame->of.beat.position = tr_get_varint(in);
    frame->of.beat.memory_fill = (uint8_t)get_limited(in, 1, 100);
    frame->of.beat.disk_fill = (uint8_t)get_limited(in, 1, 100);
    frame->of.beat.flags = (uint8_t)get_limited(in, 1, BEAT_FLAGS);
    frame->of.beat.popping_from_ms = tr_get_varint(in);
    frame->of.beat.has_roster = !in->is_short && in->at != in->end;
    if (!frame->of.beat.has_roster)
        return;
    frame->of.beat.cluster = tr_get_number(in, 8);
    frame->of.beat.epoch = tr_get_varint(in);
    frame->of.beat.roster_id = tr_get_number(in, 8);
    frame->of.beat.key_flags = (uint8_t)get_limited(in, 1, BEAT_KEY_FLAGS);
}

void tr_frame_put(struct tr_writer *out, const struct tr_frame *frame)
{
    tr_put_number(out, (uint64_t)frame->kind, 1);
    if (frame->kind != TR_FRAME_HELLO)
        tr_put_varint(out, frame->heard_ms);
    switch (frame->kind) {
    case TR_FRAME_HELLO:
        put_hello(out, frame);
        return;
    case TR_FRAME_BEAT:
        put_beat(out, frame);
        return;
    case TR_FRAME_WRITES:
    case TR_FRAME_ANSWERS:
    case TR_FRAME_COPIES:
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
    case TR_FRAME_ASKS:
    case TR_FRAME_ROSTER:
    case TR_FRAME_KEYS:
    case TR_FRAME_PASSES:
        return;
    case TR_FRAME_BUCKETS:
        TR_ASSERT(frame->of.sums != NULL);
        tr_put_bytes(out, frame->of.sums, (size_t)8 * TR_BUCKETS);
        return;
    }
    TR_UNREACHABLE("no such frame");
}

bool tr_frame_get(struct tr_reader *in, struct tr_frame *frame)
{
    uint64_t kind = tr_get_number(in, 1);
    if (in->is_short || kind == 0 || kind >= TR_FRAMES)
        return false;
    frame->kind = (enum tr_frame_kind)kind;
    frame->heard_ms = 0;
    if (frame->kind != TR_FRAME_HELLO)
        frame->heard_ms = tr_get_varint(in);
    bool has_entries = true;
    switch (frame->kind) {
    case TR_FRAME_HELLO:
        get_hello(in, frame);
        has_entries = false;
        break;
    case TR_FRAME_BEAT:
        get_beat(in, frame);
        has_entries = false;
        break;
    case TR_FRAME_WRITES:
    case TR_FRAME_ANSWERS:
    case TR_FRAME_COPIES:
    case TR_FRAME_OUTCOMES:
    case TR_FRAME_ACKS:
    case TR_FRAME_MARKS:
    case TR_FRAME_CLAIMS:
    case TR_FRAME_DROPS:
    case TR_FRAME_DROPPED:
    case TR_FRAME_ASKS:
    case TR_FRAME_ROSTER:
    case TR_FRAME_KEYS:
    case TR_FRAME_PASSES:
        break;
    case TR_FRAME_BUCKETS:
        frame->of.sums = tr_get_bytes(in, (size_t)8 * TR_BUCKETS);
        has_entries = false;
        break;
    }
    return !in->is_short && (has_entries || in->at == in->end);
}

/* ---- entries ---- */

/* A stamp is one above those that were heard of, so there must be one. */
static void get_key_order(struct tr_reader *in, struct tr_head *head)
{
    tr_get_key_order(in, head);
    in->is_short |= head->order.version > UINT64_MAX / 2;
}

void tr_frame_put_key(struct tr_writer *out, const struct tr_head *head)
{
    tr_put_key_order(out, head);
}

bool tr_frame_get_key(struct tr_reader *in, struct tr_head *head)
{
    if (in->at == in->end)
        return false;
    get_key_order(in, head);
    return !in->is_short;
}

void tr_frame_put_mark(struct tr_writer *out, const struct tr_head *head, uint8_t mask)
{
    tr_put_key_order(out, head);
    tr_put_number(out, mask, 1);
}

bool tr_frame_get_mark(struct tr_reader *in, struct tr_head *head, uint8_t *mask)
{
    if (in->at == in->end)
        return false;
    get_key_order(in, head);
    *mask = (uint8_t)tr_get_number(in, 1);
    return !in->is_short;
}

void tr_frame_put_drop(struct tr_writer *out, const struct tr_head *head, uint64_t operation,
                       bool is_exact)
{
    tr_put_key_order(out, head);
    tr_put_varint(out, operation);
    tr_put_number(out, is_exact, 1);
}

bool tr_frame_get_drop(struct tr_reader *in, struct tr_head *head, uint64_t *operation,
                       bool *is_exact)
{
    if (in->at == in->end)
        return false;
    get_key_order(in, head);
    *operation = tr_get_varint(in);
    *is_exact = get_limited(in, 1, 1) == 1;
    return !in->is_short;
}

/* Bits that a later version might set are refused rather than carried along unread. */
static uint8_t get_flags(struct tr_reader *in)
{
    unsigned both = TR_RECORD_DEAD | TR_RECORD_TOMBSTONE; /* one is kept, the other is over */
    uint64_t flags = get_limited(in, 1, TR_RECORD_FLAGS | HAS_INSTANT | HAS_ATTEMPT);
    in->is_short |= (flags & both) == both;
    in->is_short |= (flags & TR_RECORD_FIRED) != 0 && (flags & HAS_INSTANT) == 0;
    return (uint8_t)flags;
}

static void put_times(struct tr_writer *out, const struct tr_head *head, int64_t due_in_ms,
                      uint64_t version)
{
    TR_ASSERT((head->flags & ~TR_RECORD_FLAGS) == 0);
    tr_put_key_order(out, head);
    bool has_instant = head->instant_ms != 0;
    bool has_attempt = head->attempt.at_ms != 0 && version >= TR_PLAN_VERSION;
    TR_ASSERT(!has_instant || version >= TR_PLAN_VERSION);
    tr_put_number(
        out, head->flags | (has_instant ? HAS_INSTANT : 0u) | (has_attempt ? HAS_ATTEMPT : 0u), 1);
    put_signed(out, due_in_ms);
    tr_put_varint(out, head->lag_ms);
    if (has_instant)
        tr_put_number(out, head->instant_ms, 6);
    if (has_attempt)
        tr_put_attempt(out, &head->attempt);
}

static bool get_times(struct tr_reader *in, struct tr_head *head, int64_t *due_in_ms)
{
    if (in->at == in->end)
        return false;
    get_key_order(in, head);
    uint8_t flags = get_flags(in);
    head->flags = flags & TR_RECORD_FLAGS;
    *due_in_ms = get_signed(in);
    head->lag_ms = tr_get_varint(in);
    head->instant_ms = (flags & HAS_INSTANT) != 0 ? tr_get_number(in, 6) : 0;
    head->attempt = (struct tr_attempt){0};
    head->fingerprint = 0;
    if ((flags & HAS_ATTEMPT) != 0)
        tr_get_attempt(in, &head->attempt);
    in->is_short |= head->lag_ms > TR_TIME_MAX;
    /* What is there is not 0, which means that it is not. */
    in->is_short |= (flags & HAS_INSTANT) != 0 && head->instant_ms == 0;
    in->is_short |= (flags & HAS_ATTEMPT) != 0 && head->attempt.at_ms == 0;
    return !in->is_short;
}

void tr_frame_put_outcome(struct tr_writer *out, const struct tr_head *head, int64_t due_in_ms,
                          uint32_t check, uint64_t version)
{
    put_times(out, head, due_in_ms, version);
    tr_put_number(out, check, 4);
}

bool tr_frame_get_outcome(struct tr_reader *in, struct tr_head *head, int64_t *due_in_ms,
                          uint32_t *check)
{
    if (!get_times(in, head, due_in_ms))
        return false;
    *check = (uint32_t)tr_get_number(in, 4);
    return !in->is_short;
}

size_t tr_frame_record_bound(const struct tr_frame_record *from)
{
    TR_ASSERT(from->record.head.replicas.count <= TR_SET_MAX);
    TR_ASSERT(from->record.head.from.count <= TR_FROM_MAX);
    const struct tr_record *record = &from->record;
    size_t size = TR_KEY_ORDER_MAX + 8 * TR_VARINT_MAX + 8 + record->uri.size +
                  record->content_type.size + record->opaque.size + record->plan.size +
                  record->own.size + (size_t)2 * TR_REST_BESIDE + TR_ADVICE_SIZE;
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        size += from->names.replicas[i].size + 2;
    for (unsigned i = 0; i < record->head.from.count; i++)
        size += from->names.from[i].size + 2;
    for (unsigned i = 0; i < record->tag_count; i++)
        size += record->tags[i].name.size + (size_t)2 * TR_VARINT_MAX;
    return size;
}

static void put_names(struct tr_writer *out, const struct tr_span *names, unsigned count)
{
    TR_ASSERT(count <= TR_FROM_MAX);
    tr_put_number(out, count, 1);
    for (unsigned i = 0; i < count; i++)
        tr_put_span(out, names[i]);
}

static uint8_t get_names(struct tr_reader *in, struct tr_span *names, unsigned most)
{
    TR_ASSERT(most <= TR_FROM_MAX);
    uint64_t count = get_limited(in, 1, most);
    TR_ASSERT(count <= most);
    for (uint64_t i = 0; i < count; i++) {
        names[i] = tr_get_span(in);
        in->is_short |= names[i].size == 0 || names[i].size > TR_LOG_ADDRESS_MAX;
    }
    return in->is_short ? 0 : (uint8_t)count;
}

void tr_frame_put_record(struct tr_writer *out, const struct tr_record *record,
                         const struct tr_frame_names *names, uint64_t version)
{
    TR_ASSERT(record->head.replicas.count <= TR_SET_MAX);
    TR_ASSERT(record->head.factor <= TR_FACTOR_MAX && record->tag_count <= TR_TAGS_MAX);
    uint8_t rest = tr_rest_of(record, version >= TR_PLAN_VERSION);
    put_times(out, &record->head, names->due_in_ms, version);
    tr_put_varint(out, record->interval_ms);
    tr_put_varint(out, record->repeat_ms);
    tr_put_number(out, record->head.factor, 1);
    tr_put_number(out, rest, 1);
    put_names(out, names->replicas, record->head.replicas.count);
    put_names(out, names->from, record->head.from.count);
    tr_put_number(out, record->tag_count, 1);
    for (unsigned i = 0; i < record->tag_count; i++) {
        tr_put_span(out, record->tags[i].name);
        tr_put_varint(out, record->tags[i].count);
    }
    tr_put_span(out, record->uri);
    tr_put_span(out, record->content_type);
    tr_put_span(out, record->opaque);
    tr_put_rest(out, record, rest);
}

static void get_tags(struct tr_reader *in, struct tr_record *record)
{
    uint64_t count = get_limited(in, 1, TR_TAGS_MAX);
    TR_ASSERT(count <= TR_TAGS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        record->tags[i].name = tr_get_span(in);
        record->tags[i].count = tr_get_varint(in);
        in->is_short |= record->tags[i].name.size > TR_TAG_SIZE;
    }
    record->tag_count = in->is_short ? 0 : (uint8_t)count;
}

bool tr_frame_get_record(struct tr_reader *in, struct tr_record *record,
                         struct tr_frame_names *names)
{
    if (!get_times(in, &record->head, &names->due_in_ms))
        return false;
    record->head.due_ms = 0;
    record->head.segment = 0;
    record->interval_ms = tr_get_varint(in);
    record->repeat_ms = tr_get_varint(in);
    record->head.factor = (uint32_t)tr_get_number(in, 1);
    uint8_t rest = (uint8_t)tr_get_number(in, 1);
    record->head.replicas.count = get_names(in, names->replicas, TR_SET_MAX);
    record->head.from.count = get_names(in, names->from, TR_FROM_MAX);
    record->head.from.gone = 0;
    get_tags(in, record);
    record->uri = tr_get_span(in);
    record->content_type = tr_get_span(in);
    record->opaque = tr_get_span(in);
    tr_get_rest(in, record, rest);
    in->is_short |= record->interval_ms > TR_TIME_MAX || record->repeat_ms > TR_TIME_MAX ||
                    record->uri.size > TR_URI_MAX || record->content_type.size > TR_TYPE_MAX;
    record->head.nominal_ms = tr_head_nominal(&record->head, record->interval_ms);
    record->head.body_bound = tr_record_body_bound(record);
    return !in->is_short;
}

/* ---- what operations ask, and hear ---- */

void tr_frame_put_write_head(struct tr_writer *out, uint64_t operation, enum tr_write_mode mode)
{
    TR_ASSERT(mode == TR_WRITE_CREATE || mode == TR_WRITE_REPLACE);
    tr_put_varint(out, operation);
    tr_put_number(out, (uint64_t)mode, 1);
}

void tr_frame_put_write(struct tr_writer *out, const struct tr_frame_write *write)
{
    tr_frame_put_write_head(out, write->operation, write->mode);
    tr_frame_put_record(out, &write->record.record, &write->record.names, TR_FRAME_VERSION);
}

bool tr_frame_get_write_head(struct tr_reader *in, uint64_t *operation, enum tr_write_mode *mode)
{
    if (in->at == in->end)
        return false;
    *operation = tr_get_varint(in);
    *mode = (enum tr_write_mode)get_limited(in, 1, TR_WRITE_REPLACE);
    in->is_short |= (unsigned)*mode == 0;
    return !in->is_short;
}

bool tr_frame_get_write(struct tr_reader *in, struct tr_frame_write *write)
{
    if (!tr_frame_get_write_head(in, &write->operation, &write->mode))
        return false;
    in->is_short |= !tr_frame_get_record(in, &write->record.record, &write->record.names);
    return !in->is_short;
}

void tr_frame_put_answer_head(struct tr_writer *out, uint64_t operation,
                              enum tr_frame_result result, bool has_record)
{
    TR_ASSERT(result >= TR_RESULT_STORED && result <= TR_RESULT_UNKNOWN);
    tr_put_varint(out, operation);
    tr_put_number(out, (uint64_t)result, 1);
    tr_put_number(out, has_record, 1);
}

void tr_frame_put_answer(struct tr_writer *out, const struct tr_frame_answer *answer)
{
    tr_frame_put_answer_head(out, answer->operation, answer->result, answer->has_record);
    if (answer->has_record)
        tr_frame_put_record(out, &answer->record.record, &answer->record.names, TR_FRAME_VERSION);
}

bool tr_frame_get_answer_head(struct tr_reader *in, uint64_t *operation,
                              enum tr_frame_result *result, bool *has_record)
{
    if (in->at == in->end)
        return false;
    *operation = tr_get_varint(in);
    *result = (enum tr_frame_result)get_limited(in, 1, TR_RESULT_UNKNOWN);
    *has_record = get_limited(in, 1, 1) == 1;
    in->is_short |= (unsigned)*result == 0;
    return !in->is_short;
}

bool tr_frame_get_answer(struct tr_reader *in, struct tr_frame_answer *answer)
{
    if (!tr_frame_get_answer_head(in, &answer->operation, &answer->result, &answer->has_record))
        return false;
    in->is_short |= answer->has_record &&
                    !tr_frame_get_record(in, &answer->record.record, &answer->record.names);
    return !in->is_short;
}

void tr_frame_put_pass_head(struct tr_writer *out, const struct tr_frame_pass *pass)
{
    TR_ASSERT(pass->condition.when <= TR_WHEN_SAME);
    tr_put_varint(out, pass->operation);
    tr_put_number(out, pass->is_keyed, 1);
    tr_put_number(out, pass->condition.when, 1);
    tr_put_number(out, pass->condition.version, 8);
    tr_put_varint(out, pass->condition.sequence);
    tr_put_varint(out, pass->condition.attempt);
    tr_put_number(out, pass->condition.is_dead, 1);
}

bool tr_frame_get_pass_head(struct tr_reader *in, struct tr_frame_pass *pass)
{
    if (in->at == in->end)
        return false;
    pass->operation = tr_get_varint(in);
    pass->is_keyed = get_limited(in, 1, 1) == 1;
    pass->condition.when = (enum tr_when)get_limited(in, 1, TR_WHEN_SAME);
    pass->condition.version = tr_get_number(in, 8);
    pass->condition.sequence = tr_get_varint(in);
    uint64_t attempt = tr_get_varint(in);
    in->is_short |= attempt > TR_ATTEMPT_MAX;
    pass->condition.attempt = (uint32_t)attempt;
    pass->condition.is_dead = get_limited(in, 1, 1) == 1;
    in->is_short |= pass->is_keyed == (pass->condition.when != TR_WHEN_ANY);
    return !in->is_short;
}

void tr_frame_put_ask(struct tr_writer *out, const struct tr_frame_ask *ask)
{
    TR_ASSERT(ask->mode >= TR_ASK_READ && ask->mode <= TR_ASK_FIRE);
    tr_put_varint(out, ask->operation);
    tr_put_number(out, (uint64_t)ask->mode, 1);
    tr_put_number(out, ask->id, 8);
    tr_put_varint(out, ask->sequence);
}

bool tr_frame_get_ask(struct tr_reader *in, struct tr_frame_ask *ask)
{
    if (in->at == in->end)
        return false;
    ask->operation = tr_get_varint(in);
    ask->mode = (enum tr_ask_mode)get_limited(in, 1, TR_ASK_FIRE);
    ask->id = tr_get_number(in, 8);
    ask->sequence = tr_get_varint(in);
    in->is_short |= (unsigned)ask->mode == 0;
    return !in->is_short;
}
