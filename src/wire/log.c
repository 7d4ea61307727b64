/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/log.h"

#include "base/assert.h"
#include "base/hash.h"

#define SEGMENT_MAGIC "trystlog"
#define BATCH_MAGIC   0x31425254u /* "TRB1" */
#define SECTOR        512

size_t tr_log_header_encode(const struct tr_log_header *header, uint8_t *bytes, size_t cap)
{
    struct tr_writer out = tr_writer_on(bytes, cap);
    TR_ASSERT(header->incarnation_count <= TR_LOG_INCARNATIONS_MAX);
    TR_ASSERT(header->node_count >= 1 && header->node_count <= TR_LOG_NODES_MAX);
    tr_put_bytes(&out, SEGMENT_MAGIC, 8);
    TR_ASSERT(header->format == TR_LOG_FORMAT_PLAIN || header->format == TR_LOG_FORMAT);
    tr_put_number(&out, header->format, 4);
    tr_put_number(&out, 0, 4); /* the size, below */
    tr_put_bytes(&out, header->store_id, TR_LOG_STORE_ID_SIZE);
    tr_put_number(&out, header->shard, 2);
    tr_put_number(&out, header->shard_count, 2);
    TR_ASSERT(header->oldest <= header->segment);
    tr_put_number(&out, header->segment - header->oldest, 4);
    tr_put_number(&out, header->segment, 8);
    tr_put_number(&out, header->first, 8);
    tr_put_number(&out, header->previous_end, 8);
    tr_put_number(&out, header->ceiling, 8);
    tr_put_number(&out, (uint64_t)header->offset_ms, 8);
    tr_put_varint(&out, header->incarnation_count);
    for (uint32_t i = 0; i < header->incarnation_count; i++) {
        tr_put_number(&out, header->incarnations[i].number, 8);
        tr_put_number(&out, header->incarnations[i].start, 8);
    }
    tr_put_varint(&out, header->node_count);
    tr_put_bytes(&out, header->nodes.text, header->nodes.size);
    while (!out.is_full && out.size % 8 != 0)
        tr_put_number(&out, 0, 1);
    if (out.is_full || cap - out.size < 8)
        return 0;
    tr_store(bytes + 12, out.size + 8, 4);
    tr_put_number(&out, tr_hash_xxh3(bytes, out.size), 8);
    TR_ASSERT(!out.is_full && out.size % 8 == 0);
    return out.size;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    /* Each byte equals the one before it, and the first is 0: at the speed of memcmp. */
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static bool decode_tables(struct tr_reader *in, struct tr_log_header *header)
{
    uint64_t incarnations = tr_get_varint(in);
    if (incarnations > TR_LOG_INCARNATIONS_MAX)
        return false;
    header->incarnation_count = (uint32_t)incarnations;
    for (uint64_t i = 0; i < incarnations; i++) {
        header->incarnations[i].number = tr_get_number(in, 8);
        header->incarnations[i].start = tr_get_number(in, 8);
    }
    uint64_t nodes = tr_get_varint(in);
    if (nodes == 0 || nodes > TR_LOG_NODES_MAX)
        return false;
    header->node_count = (uint32_t)nodes;
    const uint8_t *start = in->at;
    for (uint64_t i = 0; i < nodes; i++) {
        if (tr_get_span(in).size > TR_LOG_ADDRESS_MAX)
            return false;
    }
    header->nodes = (struct tr_span){(const char *)start, (size_t)(in->at - start)};
    return !in->is_short;
}

enum tr_log_header_status tr_log_header_decode(const uint8_t *bytes, size_t size,
                                               struct tr_log_header *header, size_t *header_size)
{
    if (is_zero(bytes, size < 64 ? size : 64))
        return is_zero(bytes, size) ? TR_LOG_HEADER_SPARE : TR_LOG_HEADER_BAD;
    struct tr_reader in = tr_reader_on(bytes, size);
    const uint8_t *magic = tr_get_bytes(&in, 8);
    if (magic == NULL || memcmp(magic, SEGMENT_MAGIC, 8) != 0)
        return TR_LOG_HEADER_BAD;
    uint64_t format = tr_get_number(&in, 4);
    if (format > TR_LOG_FORMAT && !in.is_short)
        return TR_LOG_HEADER_NEWER;
    uint64_t total = tr_get_number(&in, 4);
    if (in.is_short || format == 0 || total < 96 || total > size || total % 8 != 0 ||
        tr_load(bytes + total - 8, 8) != tr_hash_xxh3(bytes, (size_t)total - 8))
        return TR_LOG_HEADER_BAD;
    in = tr_reader_on(bytes + 16, (size_t)total - 24);
    memcpy(header->store_id, tr_get_bytes(&in, TR_LOG_STORE_ID_SIZE), TR_LOG_STORE_ID_SIZE);
    header->shard = (uint16_t)tr_get_number(&in, 2);
    header->shard_count = (uint16_t)tr_get_number(&in, 2);
    uint64_t behind = tr_get_number(&in, 4); /* in format 1: 0 */
    header->segment = tr_get_number(&in, 8);
    if (behind > header->segment)
        return TR_LOG_HEADER_BAD;
    header->format = (uint32_t)format;
    header->oldest = header->segment - behind;
    header->first = tr_get_number(&in, 8);
    header->previous_end = tr_get_number(&in, 8);
    header->ceiling = tr_get_number(&in, 8);
    header->offset_ms = (int64_t)tr_get_number(&in, 8);
    if (!decode_tables(&in, header))
        return TR_LOG_HEADER_BAD;
    TR_ASSERT(header->oldest <= header->segment && total <= size);
    *header_size = (size_t)total;
    return TR_LOG_HEADER_OK;
}

size_t tr_log_batch_seal(uint8_t *bytes, size_t payload_size, uint64_t position, uint64_t synced)
{
    size_t padded = (payload_size + 7) / 8 * 8;
    uint8_t *payload = bytes + TR_LOG_BATCH_HEAD;
    TR_ASSERT(padded > 0 && padded <= UINT32_MAX);
    TR_ASSERT(synced <= position);
    memset(payload + payload_size, 0, padded - payload_size);
    tr_store(bytes, BATCH_MAGIC, 4);
    tr_store(bytes + 4, padded, 4);
    tr_store(bytes + 16, position, 8);
    tr_store(bytes + 24, synced, 8);
    tr_store(bytes + 8, tr_hash_xxh3(bytes + 16, padded + 16), 8);
    return TR_LOG_BATCH_HEAD + padded;
}

bool tr_log_batch_at(const uint8_t *bytes, size_t size, uint64_t first, size_t offset,
                     struct tr_log_batch *batch)
{
    if (offset > size || size - offset < TR_LOG_BATCH_HEAD + 8)
        return false;
    const uint8_t *head = bytes + offset;
    uint64_t padded = tr_load(head + 4, 4);
    if (tr_load(head, 4) != BATCH_MAGIC || padded == 0 || padded % 8 != 0 ||
        padded > size - offset - TR_LOG_BATCH_HEAD || tr_load(head + 16, 8) != first + offset ||
        tr_load(head + 8, 8) != tr_hash_xxh3(head + 16, (size_t)padded + 16))
        return false;
    TR_ASSERT(TR_LOG_BATCH_HEAD + padded <= size - offset);
    *batch = (struct tr_log_batch){
        .offset = offset,
        .size = TR_LOG_BATCH_HEAD + (size_t)padded,
        .position = first + offset,
        .synced = tr_load(head + 24, 8),
        .payload = head + TR_LOG_BATCH_HEAD,
        .payload_size = (size_t)padded,
    };
    return true;
}

bool tr_log_batch_find(const uint8_t *bytes, size_t size, uint64_t first, size_t offset,
                       struct tr_log_batch *batch)
{
    for (offset = (offset + 7) / 8 * 8; offset < size; offset += 8) {
        if (tr_log_batch_at(bytes, size, first, offset, batch))
            return true;
    }
    return false;
}

bool tr_log_batch_find_any(const uint8_t *bytes, size_t size, size_t offset,
                           struct tr_log_batch *batch)
{
    for (offset = (offset + 7) / 8 * 8; offset + TR_LOG_BATCH_HEAD <= size; offset += 8) {
        if (tr_load(bytes + offset, 4) != BATCH_MAGIC)
            continue;
        uint64_t first = tr_load(bytes + offset + 16, 8) - offset;
        if (tr_log_batch_at(bytes, size, first, offset, batch))
            return true;
    }
    return false;
}

/* Whether a batch of a segment without a sound header names a synced position within it: then the
 * header was synced too, and is damaged. */
static bool is_synced_within(const struct tr_log_segment *segment)
{
    struct tr_log_batch batch;
    for (size_t at = 0; tr_log_batch_find_any(segment->bytes, segment->size, at, &batch);
         at = batch.offset + batch.size) {
        if (batch.synced > batch.position - batch.offset)
            return true;
    }
    return false;
}

/* Finds how far a segment is sound; returns the highest synced position that a sound batch behind
 * the first fault names. */
static uint64_t check_segment(struct tr_log_segment *segment, const struct tr_log_header *header)
{
    TR_ASSERT(segment->header_size > 0 && segment->header_size <= segment->size);
    struct tr_log_batch batch;
    size_t at = segment->header_size;
    uint64_t synced = 0;
    segment->first = header->first;
    while (tr_log_batch_at(segment->bytes, segment->size, header->first, at, &batch))
        at += batch.size;
    segment->valid_size = at;
    TR_ASSERT(segment->valid_size <= segment->size);
    while (tr_log_batch_find(segment->bytes, segment->size, header->first, at, &batch)) {
        at = batch.offset + batch.size;
        synced = batch.synced > synced ? batch.synced : synced;
    }
    return synced;
}

/* Whether a sound batch in a segment after `index` names a synced position above `position`. */
static bool is_synced_later(struct tr_log_segment *segments, size_t index, size_t count,
                            uint64_t position)
{
    TR_ASSERT(index < count);
    for (size_t i = index + 1; i < count; i++) {
        struct tr_log_header header;
        struct tr_log_batch batch;
        size_t at = 0;
        if (tr_log_header_decode(segments[i].bytes, segments[i].size, &header, &at) !=
            TR_LOG_HEADER_OK)
            continue;
        while (tr_log_batch_find(segments[i].bytes, segments[i].size, header.first, at, &batch)) {
            if (batch.synced > position)
                return true;
            at = batch.offset + batch.size;
        }
    }
    return false;
}

/* Whether a batch at `offset` has its head and something at its end, and yet is not sound. A write
 * that a crash has torn may look like that, if its sectors went to the disk in another order. */
static bool is_whole_batch(const struct tr_log_segment *segment, size_t offset)
{
    if (offset > segment->size || segment->size - offset < TR_LOG_BATCH_HEAD + 8)
        return false;
    const uint8_t *head = segment->bytes + offset;
    uint64_t padded = tr_load(head + 4, 4);
    if (tr_load(head, 4) != BATCH_MAGIC || tr_load(head + 16, 8) != segment->first + offset ||
        padded < 8 || padded > segment->size - offset - TR_LOG_BATCH_HEAD)
        return false;
    size_t tail = padded < SECTOR ? (size_t)padded : SECTOR;
    TR_ASSERT(tail <= padded);
    return !is_zero(head + TR_LOG_BATCH_HEAD + padded - tail, tail);
}

/* The first segment that the log needs, as its last one says. */
static uint64_t find_floor(const struct tr_log_segment *last)
{
    struct tr_log_header header;
    struct tr_log_batch batch;
    size_t at = 0;
    if (tr_log_header_decode(last->bytes, last->size, &header, &at) != TR_LOG_HEADER_OK)
        return UINT64_MAX;
    uint64_t floor = header.oldest;
    for (; tr_log_batch_at(last->bytes, last->size, header.first, at, &batch); at += batch.size) {
        struct tr_reader reader = tr_reader_on(batch.payload, batch.payload_size);
        struct tr_log_entry entry;
        while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE) {
            if (entry.type == TR_LOG_OLDEST && entry.number > floor)
                floor = entry.number;
        }
    }
    return floor;
}

/* A fault at the end of what is sound in segment `index`: damage, or a tail to be cut. */
static struct tr_log_check judge(struct tr_log_segment *segments, size_t index, size_t count,
                                 bool is_damage)
{
    TR_ASSERT(index < count);
    struct tr_log_check check = {.segment = index, .offset = segments[index].valid_size};
    uint64_t position = segments[index].first + segments[index].valid_size;
    bool is_head = segments[index].header_status != TR_LOG_HEADER_OK;
    if (is_damage || is_synced_later(segments, index, count, is_head ? 0 : position)) {
        check.verdict = TR_LOG_DAMAGED;
        return check;
    }
    check.verdict = TR_LOG_TORN;
    check.used = is_head ? index : index + 1;
    check.tail_bytes = segments[index].size - check.offset;
    check.is_whole = !is_head && is_whole_batch(&segments[index], check.offset);
    for (size_t i = index + 1; i < count; i++)
        check.tail_bytes += segments[i].size;
    return check;
}

/* Where the segment after `index` says that this one ends; UINT64_MAX if there is none. */
static uint64_t claimed_end(struct tr_log_segment *segments, size_t index, size_t count)
{
    TR_ASSERT(index < count);
    struct tr_log_header next;
    size_t size = 0;
    if (index + 1 == count ||
        tr_log_header_decode(segments[index + 1].bytes, segments[index + 1].size, &next, &size) !=
            TR_LOG_HEADER_OK)
        return UINT64_MAX;
    return next.previous_end;
}

static struct tr_log_check check_all(struct tr_log_segment *segments, size_t count)
{
    while (count > 0) { /* segments that were allocated ahead and never used */
        struct tr_log_header header;
        size_t size = 0;
        struct tr_log_segment *last = &segments[count - 1];
        last->header_status = tr_log_header_decode(last->bytes, last->size, &header, &size);
        if (last->header_status != TR_LOG_HEADER_SPARE)
            break;
        count--;
    }
    for (size_t i = 0; i < count; i++) {
        struct tr_log_segment *segment = &segments[i];
        struct tr_log_header header = {0};
        segment->valid_size = 0;
        segment->header_status =
            tr_log_header_decode(segment->bytes, segment->size, &header, &segment->header_size);
        if (segment->header_status == TR_LOG_HEADER_NEWER)
            return (struct tr_log_check){.verdict = TR_LOG_TOO_NEW, .segment = i};
        if (i > 0 && segment->number != segments[i - 1].number + 1)
            return (struct tr_log_check){.verdict = TR_LOG_MISSING, .segment = i};
        if (segment->header_status != TR_LOG_HEADER_OK || header.segment != segment->number) {
            segment->header_status = TR_LOG_HEADER_BAD;
            return judge(segments, i, count, is_synced_within(segment));
        }
        uint64_t behind = check_segment(segment, &header);
        uint64_t end = segment->first + segment->valid_size;
        uint64_t claim = claimed_end(segments, i, count);
        bool is_last = i + 1 == count;
        if (behind > end)
            return judge(segments, i, count, true);
        bool has_rest =
            !is_zero(segment->bytes + segment->valid_size, segment->size - segment->valid_size);
        if (is_last ? has_rest : claim != UINT64_MAX && end < claim)
            return judge(segments, i, count, false);
    }
    return (struct tr_log_check){.verdict = TR_LOG_SOUND, .used = count};
}

struct tr_log_check tr_log_check(struct tr_log_segment *segments, size_t count)
{
    struct tr_log_check check = check_all(segments, count);
    TR_ASSERT(check.used <= count);
    bool is_good = check.verdict == TR_LOG_SOUND || check.verdict == TR_LOG_TORN;
    if (is_good && check.used > 0 && find_floor(&segments[check.used - 1]) < segments[0].number)
        return (struct tr_log_check){.verdict = TR_LOG_MISSING, .segment = 0};
    return check;
}
