/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/log_repair.h"

#include "base/assert.h"

#define APART 65536 /* positions between two repaired segments: none is used twice */

void tr_log_repair_begin(struct tr_log_repair *repair, const struct tr_log_segment *segments,
                         size_t count, const uint8_t *store_id)
{
    static const char nobody[] = {1, '-'}; /* an address of one byte: the next start has its own */
    *repair = (struct tr_log_repair){
        .header = {.format = TR_LOG_FORMAT, .shard_count = 1, .node_count = 1}};
    repair->header.nodes = (struct tr_span){nobody, sizeof nobody};
    repair->header.oldest = count > 0 ? segments[0].number : 0;
    memcpy(repair->header.store_id, store_id, TR_LOG_STORE_ID_SIZE);
    for (size_t i = 0; i < count; i++) {
        struct tr_log_header own;
        size_t size = 0;
        if (tr_log_header_decode(segments[i].bytes, segments[i].size, &own, &size) !=
                TR_LOG_HEADER_OK ||
            own.node_count < repair->header.node_count)
            continue;
        repair->header.node_count = own.node_count;
        repair->header.nodes = own.nodes;
    }
}

size_t tr_log_repair_bound(const struct tr_log_segment *segment)
{
    return segment->size + TR_LOG_HEADER_MAX + 64;
}

size_t tr_log_repair_segment(struct tr_log_repair *repair, const struct tr_log_segment *segment,
                             uint8_t *out, size_t cap)
{
    struct tr_log_header own;
    struct tr_log_batch batch;
    size_t at = 0;
    bool is_known =
        tr_log_header_decode(segment->bytes, segment->size, &own, &at) == TR_LOG_HEADER_OK;
    if (is_known) {
        uint64_t ceiling = repair->header.ceiling;
        repair->header.ceiling = own.ceiling > ceiling ? own.ceiling : ceiling;
        repair->header.offset_ms = own.offset_ms;
    }
    repair->header.segment = segment->number;
    repair->header.first = repair->position;
    size_t size = tr_log_header_encode(&repair->header, out, cap);
    TR_ASSERT(size > 0);
    size_t kept = at;
    while (is_known ? tr_log_batch_find(segment->bytes, segment->size, own.first, at, &batch)
                    : tr_log_batch_find_any(segment->bytes, segment->size, at, &batch)) {
        TR_ASSERT(cap - size >= batch.size);
        memcpy(out + size + TR_LOG_BATCH_HEAD, batch.payload, batch.payload_size);
        size += tr_log_batch_seal(out + size, batch.payload_size, repair->position + size, 0);
        at = batch.offset + batch.size;
        kept += batch.size;
        repair->batches++;
    }
    TR_ASSERT(at <= segment->size && kept <= at + segment->size);
    size_t end = segment->size; /* space that was allocated ahead is no loss */
    while (end > 0 && segment->bytes[end - 1] == 0)
        end--;
    repair->lost_bytes += end > kept ? end - kept : 0;
    repair->header.previous_end = repair->position + size;
    repair->position += segment->size + APART;
    return size;
}
