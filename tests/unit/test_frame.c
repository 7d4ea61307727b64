/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between nodes: read back as they were written, refused when anything is missing. */
#include "unit.h"

#include "wire/frame.h"

static const struct tr_frame_record sample = {
    .record =
        {
            .head.key.id = 0x1122334455667788,
            .head.order.version = 77,
            .head.order.version_node = 513,
            .head.order.sequence = 3,
            .head.order.attempt = 2,
            .head.order.moves = 1,
            .head.lag_ms = 40,
            .interval_ms = 60000,
            .repeat_ms = 600000,
            .head.factor = 3,
            .head.flags = TR_RECORD_KEYED,
            .head.replicas.count = 3,
            .head.from.count = 2,
            .tag_count = 1,
            .uri = {"http://a/", 9},
            .opaque = {"x\0y", 3},
            .content_type = {"text/x", 6},
            .tags = {{{"calls", 5}, 4}},
        },
    .names =
        {
            .due_in_ms = -1234,
            .replicas = {{"a:1", 3}, {"b:1", 3}, {"c:1", 3}},
            .from = {{"d:1", 3}, {"a:1", 3}},
        },
};

static size_t encode(uint8_t *bytes, size_t cap, const struct tr_frame *frame,
                     const struct tr_frame_record *record)
{
    struct tr_writer out = tr_writer_on(bytes, cap);
    tr_frame_put(&out, frame);
    if (record != NULL)
        tr_frame_put_record(&out, &record->record, &record->names, TR_FRAME_VERSION);
    assert_false(out.is_full);
    return out.size;
}

static void a_record_is_read_back(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct tr_frame frame = {.kind = TR_FRAME_COPIES, .heard_ms = 99};
    size_t size = encode(bytes, sizeof bytes, &frame, &sample);
    struct tr_reader in = tr_reader_on(bytes, size);
    struct tr_frame back;
    struct tr_frame_record record;
    assert_true(tr_frame_get(&in, &back));
    assert_int_equal(back.heard_ms, 99);

    assert_true(tr_frame_get_record(&in, &record.record, &record.names));
    assert_int_equal(tr_order_compare(&sample.record.head.order, &record.record.head.order), 0);
    assert_int_equal(record.record.head.key.id, sample.record.head.key.id);
    assert_int_equal(record.names.due_in_ms, -1234);
    assert_int_equal(record.record.head.lag_ms, 40);
    assert_int_equal(record.record.repeat_ms, 600000);
    assert_int_equal(record.record.head.replicas.count, 3);
    assert_true(tr_span_equals(record.names.replicas[2], sample.names.replicas[2]));
    assert_int_equal(record.record.head.from.count, 2);
    assert_true(tr_span_equals(record.names.from[0], sample.names.from[0]));
    assert_true(tr_span_equals(record.record.opaque, sample.record.opaque));
    assert_true(tr_span_equals(record.record.uri, sample.record.uri));
    assert_int_equal(record.record.tags[0].count, 4);
    assert_false(tr_frame_get_record(&in, &record.record, &record.names));
    assert_false(in.is_short);
}

static void heads_are_read_back(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    struct tr_frame back;
    struct tr_frame hello = {.kind = TR_FRAME_HELLO};
    hello.of.hello.version = TR_FRAME_VERSION;
    hello.of.hello.address = TR_SPAN("10.0.0.1:7253");
    hello.of.hello.view = 42;
    hello.of.hello.store_id[15] = 9;
    hello.of.hello.incarnation_count = 2;
    hello.of.hello.incarnations[1] = (struct tr_log_incarnation){7, 8};
    struct tr_reader in = tr_reader_on(bytes, encode(bytes, sizeof bytes, &hello, NULL));
    assert_true(tr_frame_get(&in, &back));
    assert_true(tr_span_equals(back.of.hello.address, hello.of.hello.address));
    assert_int_equal(back.of.hello.view, 42);
    assert_int_equal(back.of.hello.store_id[15], 9);
    assert_int_equal(back.of.hello.incarnations[1].start, 8);

    struct tr_frame beat = {.kind = TR_FRAME_BEAT, .heard_ms = 5};
    beat.of.beat.stamp = (uint64_t)1 << 60;
    beat.of.beat.memory_fill = 100;
    beat.of.beat.flags = TR_BEAT_POPPING | TR_BEAT_REBALANCING;
    in = tr_reader_on(bytes, encode(bytes, sizeof bytes, &beat, NULL));
    assert_true(tr_frame_get(&in, &back));
    assert_int_equal(back.of.beat.stamp, (uint64_t)1 << 60);
    assert_int_equal(back.of.beat.memory_fill, 100);
    assert_int_equal(back.of.beat.flags, TR_BEAT_POPPING | TR_BEAT_REBALANCING);

    static uint8_t many[8 * TR_BUCKETS + 64];
    static uint8_t sums[8 * TR_BUCKETS] = {1, [8] = 2};
    struct tr_frame buckets = {.kind = TR_FRAME_BUCKETS};
    buckets.of.sums = sums;
    in = tr_reader_on(many, encode(many, sizeof many, &buckets, NULL));
    assert_true(tr_frame_get(&in, &back));
    assert_memory_equal(back.of.sums, sums, sizeof sums);
}

static void what_operations_say_is_read_back(void **state)
{
    (void)state;
    uint8_t bytes[2048];
    struct tr_frame_write write = {1000, TR_WRITE_CREATE, sample};
    struct tr_frame_answer stale = {1001, TR_RESULT_STALE, true, sample};
    struct tr_frame_answer none = {.operation = 1002, .result = TR_RESULT_NONE};
    struct tr_frame_ask ask = {12, TR_ASK_REDRIVE, 77, 3};
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_frame_put_write(&out, &write);
    struct tr_frame_write write_back;
    struct tr_reader in = tr_reader_on(bytes, out.size);
    assert_true(tr_frame_get_write(&in, &write_back));
    assert_int_equal(write_back.operation, 1000);
    assert_int_equal(write_back.mode, TR_WRITE_CREATE);
    assert_int_equal(write_back.record.record.head.key.id, sample.record.head.key.id);
    assert_false(tr_frame_get_write(&in, &write_back) || in.is_short);

    out.size = 0;
    tr_frame_put_answer(&out, &stale);
    tr_frame_put_answer(&out, &none);
    struct tr_frame_answer answer;
    in = tr_reader_on(bytes, out.size);
    assert_true(tr_frame_get_answer(&in, &answer));
    assert_true(answer.has_record && answer.result == TR_RESULT_STALE);
    assert_true(tr_frame_get_answer(&in, &answer));
    assert_true(!answer.has_record && answer.operation == 1002);
    assert_false(tr_frame_get_answer(&in, &answer) || in.is_short);

    out.size = 0;
    tr_frame_put_ask(&out, &ask);
    struct tr_frame_ask ask_back;
    in = tr_reader_on(bytes, out.size);
    assert_true(tr_frame_get_ask(&in, &ask_back));
    assert_int_equal(ask_back.mode, TR_ASK_REDRIVE);
    assert_int_equal(ask_back.id, 77);
    assert_int_equal(ask_back.sequence, 3);
}

static void operations_out_of_bounds_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[2048];
    struct tr_frame_write write = {100, TR_WRITE_CREATE, sample};
    struct tr_frame_answer answer = {.operation = 1, .result = TR_RESULT_NONE};
    struct tr_frame_ask ask = {12, TR_ASK_READ, 77, 3};
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_frame_put_write(&out, &write);
    bytes[1] = 4; /* the mode, after an operation of one byte; so below */
    struct tr_reader in = tr_reader_on(bytes, out.size);
    assert_false(tr_frame_get_write(&in, &write));
    assert_true(in.is_short);
    in = tr_reader_on(bytes, 2); /* a write without its record */
    assert_false(tr_frame_get_write(&in, &write));
    assert_true(in.is_short);
    out.size = 0;
    tr_frame_put_answer(&out, &answer);
    bytes[1] = TR_RESULT_UNKNOWN + 1;
    in = tr_reader_on(bytes, out.size);
    assert_false(tr_frame_get_answer(&in, &answer));
    assert_true(in.is_short);
    out.size = 0;
    tr_frame_put_ask(&out, &ask);
    bytes[1] = 0;
    in = tr_reader_on(bytes, out.size);
    assert_false(tr_frame_get_ask(&in, &ask));
    assert_true(in.is_short);
}

/* Every prefix of a frame is refused, or ends between two entries. */
static void a_cut_frame_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct tr_frame frame = {.kind = TR_FRAME_COPIES};
    size_t head = encode(bytes, sizeof bytes, &frame, NULL);
    size_t size = encode(bytes, sizeof bytes, &frame, &sample);
    for (size_t cut = 0; cut < size; cut++) {
        struct tr_reader in = tr_reader_on(bytes, cut);
        struct tr_frame back;
        struct tr_frame_record record;
        bool is_head = tr_frame_get(&in, &back);
        assert_int_equal(is_head, cut >= head);
        if (!is_head)
            continue;
        assert_false(tr_frame_get_record(&in, &record.record, &record.names));
        assert_int_equal(in.is_short, cut > head);
    }
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct tr_frame back;
    struct tr_frame_record record;
    struct tr_frame frame = {.kind = TR_FRAME_COPIES};
    size_t head = encode(bytes, sizeof bytes, &frame, NULL);
    struct tr_writer key = tr_writer_on(bytes + head, sizeof bytes - head);
    tr_frame_put_key(&key, &sample.record.head);
    struct tr_reader in = tr_reader_on(bytes, encode(bytes, sizeof bytes, &frame, &sample));
    assert_int_equal(bytes[head + key.size], sample.record.head.flags);
    bytes[head + key.size] = 128; /* a flag that there is not */
    assert_true(tr_frame_get(&in, &back));
    assert_false(tr_frame_get_record(&in, &record.record, &record.names));

    struct tr_frame_record bad = sample;
    bad.record.interval_ms = TR_TIME_MAX + 1;
    in = tr_reader_on(bytes, encode(bytes, sizeof bytes, &frame, &bad));
    assert_true(tr_frame_get(&in, &back));
    assert_false(tr_frame_get_record(&in, &record.record, &record.names));

    frame = (struct tr_frame){.kind = TR_FRAME_BEAT};
    size_t size = encode(bytes, sizeof bytes, &frame, NULL);
    bytes[size] = 0; /* something after it */
    in = tr_reader_on(bytes, size + 1);
    assert_false(tr_frame_get(&in, &back));
    for (unsigned kind = TR_FRAMES; kind < 256; kind++) {
        bytes[0] = (uint8_t)kind;
        in = tr_reader_on(bytes, sizeof bytes);
        assert_false(tr_frame_get(&in, &back));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_back),
        cmocka_unit_test(heads_are_read_back),
        cmocka_unit_test(what_operations_say_is_read_back),
        cmocka_unit_test(operations_out_of_bounds_are_refused),
        cmocka_unit_test(a_cut_frame_is_refused),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
