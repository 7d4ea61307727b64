/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a peer sends: decoded within bounds or refused, and what was decoded is encoded into
 * bytes that decode to the same. */
#include "base/assert.h"
#include "wire/frame.h"
#include "wire/roster.h"

#define SIZE 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_of_operations(enum tr_frame_kind kind)
{
    return kind == TR_FRAME_WRITES || kind == TR_FRAME_ANSWERS || kind == TR_FRAME_ASKS;
}

static void read_operations(struct tr_reader *in, struct tr_writer *out, enum tr_frame_kind kind)
{
    struct tr_frame_write write;
    struct tr_frame_answer answer;
    struct tr_frame_ask ask;
    if (kind == TR_FRAME_WRITES) {
        while (tr_frame_get_write(in, &write))
            tr_frame_put_write(out, &write);
    } else if (kind == TR_FRAME_ANSWERS) {
        while (tr_frame_get_answer(in, &answer))
            tr_frame_put_answer(out, &answer);
    } else {
        while (tr_frame_get_ask(in, &ask))
            tr_frame_put_ask(out, &ask);
    }
}

static void read_records(struct tr_reader *in, struct tr_writer *out)
{
    struct tr_frame_record record;
    while (tr_frame_get_record(in, &record.record, &record.names)) {
        size_t before = out->size;
        TR_ASSERT(record.record.head.replicas.count <= TR_SET_MAX &&
                  record.record.head.from.count <= TR_FROM_MAX);
        tr_frame_put_record(out, &record.record, &record.names, TR_FRAME_VERSION);
        TR_ASSERT(out->size - before <= tr_frame_record_bound(&record));
    }
}

static void read_passes(struct tr_reader *in, struct tr_writer *out)
{
    struct tr_frame_pass pass;
    struct tr_frame_record record;
    while (tr_frame_get_pass_head(in, &pass)) {
        if (!tr_frame_get_record(in, &record.record, &record.names)) {
            in->is_short = true;
            return;
        }
        tr_frame_put_pass_head(out, &pass);
        tr_frame_put_record(out, &record.record, &record.names, TR_FRAME_VERSION);
    }
}

static void read_keys(struct tr_reader *in, struct tr_writer *out, enum tr_frame_kind kind)
{
    struct tr_head head;
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    uint64_t operation = 0;
    bool is_exact = false;
    uint8_t mask = 0;
    if (kind == TR_FRAME_MARKS) {
        while (tr_frame_get_mark(in, &head, &mask))
            tr_frame_put_mark(out, &head, mask);
    } else if (kind == TR_FRAME_OUTCOMES) {
        while (tr_frame_get_outcome(in, &head, &due_in_ms, &check))
            tr_frame_put_outcome(out, &head, due_in_ms, check, TR_FRAME_VERSION);
    } else if (kind == TR_FRAME_DROPS || kind == TR_FRAME_DROPPED) {
        while (tr_frame_get_drop(in, &head, &operation, &is_exact))
            tr_frame_put_drop(out, &head, operation, is_exact);
    } else {
        while (tr_frame_get_key(in, &head))
            tr_frame_put_key(out, &head);
    }
}

static void read_roster(struct tr_reader *in, struct tr_writer *out)
{
    struct tr_roster roster;
    tr_put_number(out, tr_get_number(in, 1), 1);
    if (tr_roster_get(in, &roster))
        tr_roster_put(out, &roster);
    else
        in->is_short = true;
}

/* Decodes `bytes` and encodes them again; 0 if they are no frame. */
static size_t turn(const uint8_t *bytes, size_t size, uint8_t *again)
{
    struct tr_reader in = tr_reader_on(bytes, size);
    struct tr_writer out = tr_writer_on(again, SIZE);
    struct tr_frame frame;
    if (!tr_frame_get(&in, &frame) || frame.kind == TR_FRAME_KEYS)
        return 0;
    tr_frame_put(&out, &frame);
    if (frame.kind == TR_FRAME_COPIES)
        read_records(&in, &out);
    else if (frame.kind == TR_FRAME_PASSES)
        read_passes(&in, &out);
    else if (is_of_operations(frame.kind))
        read_operations(&in, &out, frame.kind);
    else if (frame.kind == TR_FRAME_ROSTER)
        read_roster(&in, &out);
    else
        read_keys(&in, &out, frame.kind);
    TR_ASSERT(!out.is_full);
    return in.is_short ? 0 : out.size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t first[SIZE];
    static uint8_t second[SIZE];
    size_t once = turn(data, size, first);
    if (once == 0)
        return 0;
    size_t twice = turn(first, once, second);
    TR_ASSERT(twice == once && memcmp(first, second, once) == 0);
    return 0;
}
