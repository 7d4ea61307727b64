/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the log that are about keys. Their sizes are known before they are written. */
#include "wire/log_key.h"

#define HAS_EXPIRY   1
#define HAS_CALLBACK 2
#define HAS_VALUE    4
#define IS_END       8

static size_t span_size(struct tr_span span)
{
    return tr_varint_size(span.size) + span.size;
}

static uint8_t flags_of(enum tr_log_type type, const struct tr_pair *pair)
{
    unsigned flags = type != TR_LOG_KEY ? 0 : pair->is_end ? IS_END : HAS_VALUE;
    TR_ASSERT(!pair->is_end || (type == TR_LOG_KEY && pair->callback.size == 0));
    TR_ASSERT(type < TR_LOG_KEY_FLOOR || (pair->key.size == 0 && pair->expires_ms != TR_NEVER));
    if (type != TR_LOG_KEY_END && pair->expires_ms != TR_NEVER)
        flags |= HAS_EXPIRY;
    if (type != TR_LOG_KEY_END && pair->callback.size > 0)
        flags |= HAS_CALLBACK;
    return (uint8_t)flags;
}

static size_t body_size(uint8_t flags, const struct tr_pair *pair)
{
    size_t size = 8 + 2 + 1 + span_size(pair->key);
    size += (flags & HAS_EXPIRY) != 0 ? 8 : 0;
    size += (flags & HAS_CALLBACK) != 0 ? span_size(pair->callback) : 0;
    size += (flags & HAS_VALUE) != 0 ? span_size(pair->value) : 0;
    return size;
}

size_t tr_log_key_size(enum tr_log_type type, const struct tr_pair *pair)
{
    size_t size = body_size(flags_of(type, pair), pair);
    return 1 + tr_varint_size(size) + size;
}

void tr_log_put_key(struct tr_writer *writer, enum tr_log_type type, const struct tr_pair *pair)
{
    TR_ASSERT(type >= TR_LOG_KEY && type <= TR_LOG_KEY_TIME);
    TR_ASSERT(writer->cap - writer->size >= tr_log_key_size(type, pair));
    uint8_t flags = flags_of(type, pair);
    size_t before = writer->size;
    tr_put_number(writer, (uint64_t)type, 1);
    tr_put_varint(writer, body_size(flags, pair));
    tr_put_number(writer, pair->version, 8);
    tr_put_number(writer, pair->version_node, 2);
    tr_put_number(writer, flags, 1);
    if ((flags & HAS_EXPIRY) != 0)
        tr_put_number(writer, pair->expires_ms, 8);
    tr_put_span(writer, pair->key);
    if ((flags & HAS_CALLBACK) != 0)
        tr_put_span(writer, pair->callback);
    if ((flags & HAS_VALUE) != 0)
        tr_put_span(writer, pair->value);
    TR_ASSERT(!writer->is_full && writer->size - before == tr_log_key_size(type, pair));
}

bool tr_log_get_key(struct tr_reader *in, enum tr_log_type type, struct tr_pair *pair)
{
    *pair = (struct tr_pair){.expires_ms = TR_NEVER};
    pair->version = tr_get_number(in, 8);
    pair->version_node = (uint16_t)tr_get_number(in, 2);
    uint64_t flags = tr_get_number(in, 1);
    if ((flags & HAS_EXPIRY) != 0)
        pair->expires_ms = tr_get_number(in, 8);
    pair->key = tr_get_span(in);
    if ((flags & HAS_CALLBACK) != 0)
        pair->callback = tr_get_span(in);
    if ((flags & HAS_VALUE) != 0)
        pair->value = tr_get_span(in);
    bool is_bounded = pair->key.size <= TR_KEY_MAX && pair->value.size <= TR_VALUE_MAX &&
                      pair->callback.size <= TR_URI_MAX;
    pair->is_end = type == TR_LOG_KEY && (flags & IS_END) != 0;
    uint64_t wanted = type >= TR_LOG_KEY_FLOOR ? HAS_EXPIRY
                      : pair->is_end           ? IS_END | HAS_EXPIRY
                      : type == TR_LOG_KEY     ? HAS_VALUE
                                               : 0;
    bool may_call = (type == TR_LOG_KEY || type == TR_LOG_KEY_EXPIRY) && !pair->is_end;
    uint64_t allowed = may_call ? HAS_EXPIRY | HAS_CALLBACK : 0;
    bool is_flagged_well = (flags & ~allowed) == wanted;
    bool is_calling = (flags & HAS_CALLBACK) == 0 || (flags & HAS_EXPIRY) != 0;
    bool is_named_well = type < TR_LOG_KEY_FLOOR || pair->key.size == 0;
    bool is_timed_well = (flags & HAS_EXPIRY) == 0 || pair->expires_ms != TR_NEVER;
    return !in->is_short && in->at == in->end && is_bounded && is_flagged_well && is_calling &&
           is_named_well && is_timed_well;
}
