/* SPDX-License-Identifier: Apache-2.0 */
/* A log as a disk may give it back: a sound one is built from the input, then its bytes are changed
 * as the input says. Checking never reads beyond, entries read are written the same again. */
#include "base/assert.h"
#include "wire/log.h"

#include <stdlib.h>

#define SIZE 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_entries(const uint8_t *bytes, size_t size)
{
    struct tr_reader reader = tr_reader_on(bytes, size);
    struct tr_log_entry entry;
    while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE) {
        uint8_t again[SIZE];
        struct tr_writer out = tr_writer_on(again, sizeof again);
        if (entry.type != TR_LOG_RECORD)
            continue;
        struct tr_log_entry second;
        tr_log_put(&out, &entry);
        if (out.is_full)
            continue;
        struct tr_reader in = tr_reader_on(again, out.size);
        TR_ASSERT(tr_log_get(&in, &second) == TR_LOG_GET_ONE);
        TR_ASSERT(second.record.head.key.id == entry.record.head.key.id &&
                  second.record.head.due_ms == entry.record.head.due_ms);
        TR_ASSERT(tr_span_equals(second.record.opaque, entry.record.opaque));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_log_segment segments[2] = {0};
    uint8_t *bytes[2];
    read_entries(data, size);
    size_t half = size / 2 < 1024 ? size / 2 : 1024;
    for (unsigned i = 0; i < 2; i++) {
        bytes[i] = calloc(1, SIZE);
        struct tr_log_header header = {.format = TR_LOG_FORMAT,
                                       .segment = i + 1,
                                       .first = i * SIZE,
                                       .node_count = 1,
                                       .nodes = TR_SPAN("\001a"),
                                       .shard_count = 1};
        size_t at = tr_log_header_encode(&header, bytes[i], SIZE);
        if (half > 0) {
            memcpy(bytes[i] + at + TR_LOG_BATCH_HEAD, data, half);
            at += tr_log_batch_seal(bytes[i] + at, half, i * SIZE + at, i * 200);
        }
        segments[i] = (struct tr_log_segment){.number = i + 1, .bytes = bytes[i], .size = SIZE};
    }
    for (size_t i = half; i + 2 < size; i += 3) /* a place and a byte */
        bytes[data[i] & 1][((size_t)data[i] << 4 | data[i + 1] >> 4) % SIZE] ^= data[i + 2];
    struct tr_log_check check = tr_log_check(segments, 2);
    TR_ASSERT(check.used <= 2 && check.segment < 2 && check.offset <= SIZE);
    for (size_t i = 0; i < check.used; i++) {
        struct tr_log_batch batch;
        TR_ASSERT(segments[i].valid_size <= SIZE);
        for (size_t at = segments[i].header_size; at < segments[i].valid_size; at += batch.size) {
            TR_ASSERT(tr_log_batch_at(bytes[i], SIZE, segments[i].first, at, &batch));
            read_entries(batch.payload, batch.payload_size);
        }
    }
    free(bytes[0]);
    free(bytes[1]);
    return 0;
}
