/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the log: a type, a size, and a body of little-endian numbers, varints and spans. */
#include "base/assert.h"
#include "wire/key.h"
#include "wire/log.h"
#include "wire/log_key.h"
#include "wire/rest.h"

#define SHORT_MAX   (TR_KEY_ORDER_MAX + 1 + 6 + TR_VARINT_MAX + 6)
#define ADVICE_MAX  (TR_KEY_ORDER_MAX + 1 + TR_ATTEMPT_MOST + 8)
#define ADVICE      1    /* the first byte of advice; another one means something else */
#define HAS_INSTANT 0x20 /* beside the flags of a record: its instant follows the lag */

_Static_assert(TR_LOG_ENTRY_HEAD_MAX + ADVICE_MAX <= TR_ADVICE_SIZE, "there is room for it");

static size_t put_body(struct tr_writer *writer, enum tr_log_type type, const uint8_t *body,
                       size_t size)
{
    TR_ASSERT(type != TR_LOG_PADDING);
    size_t before = writer->size;
    tr_put_number(writer, (uint64_t)type, 1);
    tr_put_varint(writer, size);
    tr_put_bytes(writer, body, size);
    if (writer->is_full)
        writer->size = before;
    return writer->size - before;
}

static void put_times(struct tr_writer *out, const struct tr_head *head)
{
    bool has_instant = head->instant_ms != 0;
    tr_put_number(out, head->flags | (has_instant ? HAS_INSTANT : 0u), 1);
    tr_put_number(out, head->due_ms, 6);
    tr_put_varint(out, head->lag_ms);
    if (has_instant)
        tr_put_number(out, head->instant_ms, 6);
}

static void get_times(struct tr_reader *in, struct tr_head *head)
{
    uint64_t flags = tr_get_number(in, 1);
    head->flags = (uint8_t)(flags & ~(uint64_t)HAS_INSTANT);
    head->due_ms = tr_get_number(in, 6);
    head->lag_ms = tr_get_varint(in);
    head->instant_ms = (flags & HAS_INSTANT) != 0 ? tr_get_number(in, 6) : 0;
    head->attempt = (struct tr_attempt){0};
    head->fingerprint = 0;
}

size_t tr_log_put_short(struct tr_writer *writer, enum tr_log_type type, const struct tr_head *head)
{
    TR_ASSERT(type == TR_LOG_SHORT || type == TR_LOG_TOMBSTONE || type == TR_LOG_DROP);
    TR_ASSERT(head->due_ms <= TR_TIME_MAX || type != TR_LOG_SHORT);
    uint8_t body[SHORT_MAX];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    tr_put_key_order(&out, head);
    if (type == TR_LOG_SHORT) {
        put_times(&out, head);
    }
    TR_ASSERT(!out.is_full);
    return put_body(writer, type, body, out.size);
}

size_t tr_log_put_advice(struct tr_writer *writer, const struct tr_head *head, uint64_t fingerprint)
{
    uint8_t body[ADVICE_MAX];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    tr_put_number(&out, ADVICE, 1);
    tr_put_key_order(&out, head);
    tr_put_attempt(&out, &head->attempt);
    tr_put_number(&out, fingerprint, 8);
    TR_ASSERT(!out.is_full);
    return put_body(writer, TR_LOG_ADVICE, body, out.size);
}

/* What cannot be read is passed over, too: it is advice. */
static void get_advice(struct tr_reader *in, struct tr_log_entry *entry)
{
    struct tr_record *record = &entry->record;
    bool is_known = tr_get_number(in, 1) == ADVICE;
    tr_get_key_order(in, &record->head);
    tr_get_attempt(in, &record->head.attempt);
    record->head.fingerprint = tr_get_number(in, 8);
    if (is_known && !in->is_short)
        return;
    record->head.key = (struct tr_key){0};
    record->head.attempt = (struct tr_attempt){0};
    record->head.fingerprint = 0;
}

size_t tr_log_head_bound(const struct tr_head *head)
{
    TR_ASSERT(head->replicas.count <= TR_SET_MAX && head->from.count <= TR_FROM_MAX);
    return TR_LOG_ENTRY_HEAD_MAX + TR_KEY_ORDER_MAX + 6 + 8 * TR_VARINT_MAX + 5 +
           (head->instant_ms != 0 ? 6u : 0) +
           2u * (head->replicas.count + (unsigned)head->from.count) + head->body_bound;
}

size_t tr_log_record_bound(const struct tr_record *record)
{
    struct tr_head head = record->head;
    head.body_bound = tr_record_body_bound(record);
    return tr_log_head_bound(&head);
}

static void put_record_body(struct tr_writer *out, const struct tr_record *record)
{
    TR_ASSERT(record->head.replicas.count <= TR_SET_MAX);
    TR_ASSERT(record->head.from.count <= TR_FROM_MAX);
    TR_ASSERT(record->head.due_ms <= TR_TIME_MAX && record->tag_count <= TR_TAGS_MAX);
    tr_put_key_order(out, &record->head);
    uint8_t rest = tr_rest_of(record, false);
    put_times(out, &record->head);
    tr_put_varint(out, record->interval_ms);
    tr_put_varint(out, record->repeat_ms);
    tr_put_varint(out, record->head.factor);
    tr_put_number(out, rest, 1);
    tr_put_number(out, record->head.replicas.count, 1);
    for (unsigned i = 0; i < record->head.replicas.count; i++)
        tr_put_number(out, record->head.replicas.members[i], 2);
    tr_put_number(out, record->head.from.count, 1);
    for (unsigned i = 0; i < record->head.from.count; i++)
        tr_put_number(out, record->head.from.members[i], 2);
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

/* The body is written in place, after room for its size, and pushed back if the size took less. */
size_t tr_log_put_record(struct tr_writer *writer, const struct tr_record *record)
{
    size_t before = writer->size;
    size_t width = tr_varint_size(tr_log_record_bound(record));
    tr_put_number(writer, TR_LOG_RECORD, 1);
    if (writer->is_full || writer->cap - writer->size < width) {
        writer->is_full = true;
        writer->size = before;
        return 0;
    }
    uint8_t *start = writer->bytes + writer->size;
    struct tr_writer body = tr_writer_on(start + width, writer->cap - writer->size - width);
    put_record_body(&body, record);
    if (body.is_full) {
        writer->is_full = true;
        writer->size = before;
        return 0;
    }
    size_t real = tr_varint_size(body.size);
    TR_ASSERT(real <= width && body.size <= tr_log_record_bound(record));
    tr_put_varint(writer, body.size);
    if (real != width)
        memmove(start + real, start + width, body.size);
    writer->size += body.size;
    return writer->size - before;
}

static size_t put_member(struct tr_writer *writer, const struct tr_log_entry *entry)
{
    TR_ASSERT(entry->number < TR_LOG_NODES_MAX);
    TR_ASSERT(entry->address.size > 0 && entry->address.size <= TR_LOG_ADDRESS_MAX);
    uint8_t body[2 + TR_LOG_ADDRESS_MAX];
    struct tr_writer out = tr_writer_on(body, sizeof body);
    tr_put_number(&out, entry->number, 2);
    tr_put_bytes(&out, entry->address.text, entry->address.size);
    TR_ASSERT(!out.is_full);
    return put_body(writer, TR_LOG_MEMBER, body, out.size);
}

size_t tr_log_put(struct tr_writer *writer, const struct tr_log_entry *entry)
{
    uint8_t body[8] = {0};
    switch (entry->type) {
    case TR_LOG_RECORD:
        return tr_log_put_record(writer, &entry->record);
    case TR_LOG_SHORT:
    case TR_LOG_TOMBSTONE:
    case TR_LOG_DROP:
        return tr_log_put_short(writer, entry->type, &entry->record.head);
    case TR_LOG_CEILING:
    case TR_LOG_INCARNATION:
    case TR_LOG_OFFSET:
    case TR_LOG_OLDEST:
        tr_store(body, entry->number, 8);
        return put_body(writer, entry->type, body, 8);
    case TR_LOG_CLEAN_STOP:
        return put_body(writer, entry->type, body, 0);
    case TR_LOG_MEMBER:
        return put_member(writer, entry);
    case TR_LOG_ROSTER:
    case TR_LOG_HEEDED:
        return put_body(writer, entry->type, (const uint8_t *)entry->address.text,
                        entry->address.size);
    case TR_LOG_ADVICE:
        return tr_log_put_advice(writer, &entry->record.head, entry->record.head.fingerprint);
    case TR_LOG_PADDING:
    case TR_LOG_KEY:
    case TR_LOG_KEY_EXPIRY:
    case TR_LOG_KEY_END:
    case TR_LOG_KEY_FLOOR:
    case TR_LOG_KEY_TIME:
        break;
    }
    TR_UNREACHABLE("an entry of this type is not written");
}

static void get_record(struct tr_reader *in, struct tr_record *record)
{
    get_times(in, &record->head);
    record->interval_ms = tr_get_varint(in);
    record->repeat_ms = tr_get_varint(in);
    uint64_t factor = tr_get_varint(in);
    uint8_t rest = (uint8_t)tr_get_number(in, 1);
    record->head.replicas.count = (uint8_t)tr_get_number(in, 1);
    in->is_short |= record->head.replicas.count > TR_SET_MAX || factor > TR_FACTOR_MAX;
    record->head.factor = (uint32_t)factor;
    for (unsigned i = 0; i < record->head.replicas.count && !in->is_short; i++)
        record->head.replicas.members[i] = (uint16_t)tr_get_number(in, 2);
    record->head.from.count = (uint8_t)tr_get_number(in, 1);
    record->head.from.gone = 0;
    in->is_short |= record->head.from.count > TR_FROM_MAX;
    for (unsigned i = 0; i < record->head.from.count && !in->is_short; i++)
        record->head.from.members[i] = (uint16_t)tr_get_number(in, 2);
    record->tag_count = (uint8_t)tr_get_number(in, 1);
    in->is_short |= record->tag_count > TR_TAGS_MAX;
    for (unsigned i = 0; i < record->tag_count && !in->is_short; i++) {
        record->tags[i].name = tr_get_span(in);
        record->tags[i].count = tr_get_varint(in);
        in->is_short |= record->tags[i].name.size > TR_TAG_SIZE;
    }
    record->uri = tr_get_span(in);
    record->content_type = tr_get_span(in);
    record->opaque = tr_get_span(in);
    tr_get_rest(in, record, rest);
    in->is_short |= record->uri.size > TR_URI_MAX || record->content_type.size > TR_TYPE_MAX;
    if (in->is_short) {
        record->head.replicas.count = 0;
        record->head.from.count = 0;
        record->tag_count = 0;
    }
    TR_ASSERT(record->head.replicas.count <= TR_SET_MAX);
    TR_ASSERT(record->head.from.count <= TR_FROM_MAX && record->tag_count <= TR_TAGS_MAX);
    record->head.nominal_ms = tr_head_nominal(&record->head, record->interval_ms);
    record->head.body_bound = tr_record_body_bound(record);
}

/* Bits that a later writer might set are refused rather than carried along unread. */
static bool is_flagged_well(const struct tr_record *record)
{
    bool is_fired = (record->head.flags & TR_RECORD_FIRED) != 0;
    return (record->head.flags & ~TR_RECORD_FLAGS) == 0 &&
           (!is_fired || record->head.instant_ms != 0);
}

enum tr_log_get_status tr_log_get(struct tr_reader *reader, struct tr_log_entry *entry)
{
    while (reader->at < reader->end && *reader->at == TR_LOG_PADDING)
        reader->at++;
    if (reader->at == reader->end)
        return TR_LOG_GET_END;
    uint64_t type = tr_get_number(reader, 1);
    struct tr_span body = tr_get_span(reader);
    if (reader->is_short || type > TR_LOG_HEEDED)
        return TR_LOG_GET_BAD;
    struct tr_reader in = tr_reader_on(body.text, body.size);
    struct tr_record *record = &entry->record;
    entry->type = (enum tr_log_type)type;
    switch (entry->type) {
    case TR_LOG_RECORD:
        tr_get_key_order(&in, &record->head);
        get_record(&in, record);
        break;
    case TR_LOG_SHORT:
        tr_get_key_order(&in, &record->head);
        get_times(&in, &record->head);
        break;
    case TR_LOG_TOMBSTONE:
    case TR_LOG_DROP:
        tr_get_key_order(&in, &record->head);
        record->head.flags = 0;
        record->head.instant_ms = 0;
        record->head.attempt = (struct tr_attempt){0};
        record->head.fingerprint = 0;
        break;
    case TR_LOG_CEILING:
    case TR_LOG_INCARNATION:
    case TR_LOG_OFFSET:
    case TR_LOG_OLDEST:
        entry->number = tr_get_number(&in, 8);
        return in.is_short || in.at != in.end ? TR_LOG_GET_BAD : TR_LOG_GET_ONE;
    case TR_LOG_MEMBER:
        entry->number = tr_get_number(&in, 2);
        entry->address = (struct tr_span){(const char *)in.at, (size_t)(in.end - in.at)};
        return in.is_short || entry->number >= TR_LOG_NODES_MAX || entry->address.size == 0 ||
                       entry->address.size > TR_LOG_ADDRESS_MAX
                   ? TR_LOG_GET_BAD
                   : TR_LOG_GET_ONE;
    case TR_LOG_KEY:
    case TR_LOG_KEY_EXPIRY:
    case TR_LOG_KEY_END:
    case TR_LOG_KEY_FLOOR:
    case TR_LOG_KEY_TIME:
        return tr_log_get_key(&in, entry->type, &entry->pair) ? TR_LOG_GET_ONE : TR_LOG_GET_BAD;
    case TR_LOG_ROSTER:
    case TR_LOG_HEEDED:
        entry->address = body;
        return TR_LOG_GET_ONE;
    case TR_LOG_ADVICE:
        get_advice(&in, entry);
        return TR_LOG_GET_ONE;
    case TR_LOG_CLEAN_STOP:
    case TR_LOG_PADDING:
        return TR_LOG_GET_ONE;
    }
    bool is_good = !in.is_short && in.at == in.end && is_flagged_well(record);
    return is_good ? TR_LOG_GET_ONE : TR_LOG_GET_BAD;
}
