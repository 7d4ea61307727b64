/* SPDX-License-Identifier: Apache-2.0 */
/* The log's format: entries, batches, headers, and telling a torn tail from damage. */
#include "unit.h"
#include "wire/log_key.h"

#include "base/random.h"
#include "wire/log_repair.h"

#define SIZE 65536

struct file {
    struct tr_log_segment segment;
    uint8_t bytes[SIZE];
    size_t end;
    uint64_t first;
};

static void begin(struct file *file, uint64_t number, uint64_t first, uint64_t previous_end)
{
    static const uint8_t nodes[] = {3, 'a', ':', '1'};
    struct tr_log_header header = {.format = TR_LOG_FORMAT,
                                   .shard_count = 1,
                                   .segment = number,
                                   .oldest = 1,
                                   .first = first,
                                   .previous_end = previous_end,
                                   .ceiling = 77,
                                   .offset_ms = -5,
                                   .incarnation_count = 2,
                                   .incarnations = {{1, 2}, {3, 4}},
                                   .node_count = 1,
                                   .nodes = {(const char *)nodes, sizeof nodes}};
    memset(file->bytes, 0, SIZE);
    file->end = tr_log_header_encode(&header, file->bytes, SIZE);
    assert_true(file->end > 0 && file->end % 8 == 0);
    file->first = first;
    file->segment = (struct tr_log_segment){.number = number, .bytes = file->bytes, .size = SIZE};
}

/* A batch of one tombstone; returns the position after it. */
static uint64_t append(struct file *file, uint64_t id, uint64_t synced)
{
    uint8_t *at = file->bytes + file->end;
    struct tr_writer writer = tr_writer_on(at + TR_LOG_BATCH_HEAD, 1000);
    struct tr_record record = {.head.key.id = id, .head.order.version = id};
    tr_log_put_short(&writer, TR_LOG_TOMBSTONE, &record.head);
    file->end += tr_log_batch_seal(at, writer.size, file->first + file->end, synced);
    return file->first + file->end;
}

static struct tr_log_check check(struct file *files, size_t count)
{
    struct tr_log_segment segments[8];
    for (size_t i = 0; i < count; i++)
        segments[i] = files[i].segment;
    struct tr_log_check result = tr_log_check(segments, count);
    for (size_t i = 0; i < count; i++)
        files[i].segment = segments[i];
    return result;
}

static void a_header_is_read_back(void **state)
{
    (void)state;
    static struct file file;
    struct tr_log_header header;
    size_t size = 0;
    begin(&file, 9, 1000, 900);
    assert_int_equal(tr_log_header_decode(file.bytes, SIZE, &header, &size), TR_LOG_HEADER_OK);
    assert_int_equal(size, file.end);
    assert_int_equal(header.segment, 9);
    assert_int_equal(header.previous_end, 900);
    assert_int_equal(header.ceiling, 77);
    assert_true(header.offset_ms == -5);
    assert_int_equal(header.incarnations[1].start, 4);
    for (size_t i = 0; i < size; i++) {
        file.bytes[i] ^= 1;
        enum tr_log_header_status status = tr_log_header_decode(file.bytes, SIZE, &header, &size);
        assert_true(status == TR_LOG_HEADER_BAD ||
                    (status == TR_LOG_HEADER_NEWER && i >= 8 && i < 12));
        file.bytes[i] ^= 1;
    }
    memset(file.bytes, 0, SIZE);
    assert_int_equal(tr_log_header_decode(file.bytes, SIZE, &header, &size), TR_LOG_HEADER_SPARE);
}

static void entries_are_read_back(void **state)
{
    (void)state;
    static uint8_t bytes[SIZE];
    struct tr_writer writer = tr_writer_on(bytes, sizeof bytes);
    struct tr_record record = {.head.key.id = 1,
                               .head.key.part = 3,
                               .head.order.version = 1ull << 60,
                               .head.order.version_node = 2,
                               .head.order.sequence = 300,
                               .head.order.attempt = 4,
                               .head.order.moves = 5,
                               .head.due_ms = TR_TIME_MAX,
                               .head.lag_ms = 6,
                               .interval_ms = 7,
                               .repeat_ms = 8,
                               .head.factor = 9,
                               .head.flags = TR_RECORD_DEAD,
                               .head.replicas.count = 2,
                               .head.replicas.members = {0, 513},
                               .tag_count = 1,
                               .uri = TR_SPAN("http://u"),
                               .opaque = TR_SPAN("o\0o"),
                               .content_type = TR_SPAN("t"),
                               .tags = {{TR_SPAN("TAG"), 11}}};
    assert_true(tr_log_put_record(&writer, &record) <= tr_log_record_bound(&record));
    tr_log_put_short(&writer, TR_LOG_SHORT, &record.head);
    tr_log_put(&writer, &(struct tr_log_entry){.type = TR_LOG_OFFSET, .number = (uint64_t)-3});
    tr_log_put(&writer, &(struct tr_log_entry){.type = TR_LOG_CLEAN_STOP});
    size_t size = writer.size;
    struct tr_reader reader = tr_reader_on(bytes, size + 5); /* padding follows */
    struct tr_log_entry entry;
    assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
    assert_int_equal(entry.type, TR_LOG_RECORD);
    assert_int_equal(entry.record.head.key.part, 3);
    assert_int_equal(entry.record.head.replicas.members[1], 513);
    assert_true(tr_span_equals(entry.record.opaque, record.opaque));
    assert_true(tr_span_equals(entry.record.tags[0].name, TR_SPAN("TAG")));
    assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
    assert_int_equal(entry.type, TR_LOG_SHORT);
    assert_int_equal(entry.record.head.due_ms, TR_TIME_MAX);
    assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
    assert_true((int64_t)entry.number == -3);
    assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
    assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_END);
    for (size_t cut = 1; cut < size;
         cut++) { /* every shorter text ends badly or early, never beyond */
        reader = tr_reader_on(bytes, cut);
        while (tr_log_get(&reader, &entry) == TR_LOG_GET_ONE) {
        }
        assert_true(reader.at <= bytes + cut);
    }
    writer = tr_writer_on(bytes, 40);
    assert_int_equal(tr_log_put_record(&writer, &record), 0);
    assert_true(writer.is_full && writer.size == 0);
}

static void a_sound_log_is_sound(void **state)
{
    (void)state;
    static struct file files[3];
    begin(&files[0], 1, 0, 0);
    uint64_t end = append(&files[0], 1, 0);
    begin(&files[1], 2, SIZE, end);
    append(&files[1], 2, end);
    memset(files[2].bytes, 0, SIZE);
    files[2].segment = (struct tr_log_segment){.number = 3, .bytes = files[2].bytes, .size = SIZE};
    struct tr_log_check result = check(files, 3);
    assert_int_equal(result.verdict, TR_LOG_SOUND);
    assert_int_equal(result.used, 2);
}

static void an_unsynced_end_is_a_torn_tail(void **state)
{
    (void)state;
    static struct file files[1];
    begin(&files[0], 1, 0, 0);
    uint64_t synced = append(&files[0], 1, 0);
    size_t good = files[0].end;
    append(&files[0], 2, synced);
    size_t torn = files[0].end;
    append(&files[0], 3,
           synced); /* written behind it, by a disk that reorders; nothing newer was synced */
    files[0].bytes[torn - 9] ^= 4;
    struct tr_log_check result = check(files, 1);
    assert_int_equal(result.verdict, TR_LOG_TORN);
    assert_int_equal(result.offset, good);
    assert_int_equal(files[0].segment.valid_size, good);
}

static void a_flipped_bit_below_what_was_synced_is_damage(void **state)
{
    (void)state;
    static struct file files[2];
    for (unsigned later = 0; later < 2; later++) {
        begin(&files[0], 1, 0, 0);
        uint64_t synced = append(&files[0], 1, 0);
        size_t second = files[0].end;
        synced = append(&files[0], 2, synced);
        begin(&files[1], 2, SIZE, synced);
        if (later == 0)
            append(&files[0], 3, synced); /* named in the same segment */
        else
            append(&files[1], 3, synced); /* or in the next */
        files[0].bytes[second + 40] ^= 1;
        struct tr_log_check result = check(files, 1 + later);
        assert_int_equal(result.verdict, TR_LOG_DAMAGED);
        assert_int_equal(result.segment, 0);
        assert_int_equal(result.offset, second);
    }
}

static void a_missing_segment_and_a_newer_format_are_told(void **state)
{
    (void)state;
    static struct file files[2];
    begin(&files[0], 1, 0, 0);
    uint64_t end = append(&files[0], 1, 0);
    begin(&files[1], 3, SIZE, end);
    append(&files[1], 2, end);
    assert_int_equal(check(files, 2).verdict, TR_LOG_MISSING);
    begin(&files[1], 2, SIZE, end);
    files[1].bytes[8] = TR_LOG_FORMAT + 1;
    struct tr_log_check result = check(files, 2);
    assert_int_equal(result.verdict, TR_LOG_TOO_NEW);
    assert_int_equal(result.segment, 1);
}

static void put_oldest(struct file *file, uint64_t number)
{
    struct tr_writer writer =
        tr_writer_on(file->bytes + file->end + TR_LOG_BATCH_HEAD, SIZE - file->end - 64);
    tr_log_put(&writer, &(struct tr_log_entry){.type = TR_LOG_OLDEST, .number = number});
    file->end +=
        tr_log_batch_seal(file->bytes + file->end, writer.size, file->first + file->end, 0);
}

static void the_first_segment_is_missed_unless_the_log_says_that_it_goes(void **state)
{
    (void)state;
    static struct file files[2];
    begin(&files[0], 2, SIZE, 0);
    uint64_t end = append(&files[0], 1, 0);
    begin(&files[1], 3, (uint64_t)2 * SIZE, end);
    append(&files[1], 2, end);
    assert_int_equal(check(files, 2).verdict, TR_LOG_MISSING);
    assert_int_equal(check(files, 2).segment, 0);
    put_oldest(&files[1], 2);
    assert_int_equal(check(files, 2).verdict, TR_LOG_SOUND);
    put_oldest(&files[1], 3); /* and one that is still there does no harm */
    assert_int_equal(check(files, 2).verdict, TR_LOG_SOUND);
}

static void a_tail_that_is_all_there_is_told_from_one_that_is_not(void **state)
{
    (void)state;
    static struct file files[1];
    begin(&files[0], 1, 0, 0);
    append(&files[0], 1, 0);
    size_t second = files[0].end;
    append(&files[0], 2, 0);
    files[0].bytes[second + 40] ^= 1;
    assert_int_equal(check(files, 1).verdict, TR_LOG_TORN);
    assert_true(check(files, 1).is_whole);
    memset(files[0].bytes + second + TR_LOG_BATCH_HEAD, 0,
           files[0].end - second - TR_LOG_BATCH_HEAD);
    assert_int_equal(check(files, 1).verdict, TR_LOG_TORN);
    assert_false(check(files, 1).is_whole);
}

static void a_repair_keeps_what_is_sound_and_all_names(void **state)
{
    (void)state;
    static struct file files[2];
    static uint8_t out[2][SIZE + TR_LOG_HEADER_MAX + 64];
    static const uint8_t store_id[TR_LOG_STORE_ID_SIZE] = {9};
    struct tr_log_repair repair;
    begin(&files[0], 1, 0, 0);
    size_t first = files[0].end;
    append(&files[0], 1, 0);
    uint64_t end = append(&files[0], 2, 0);
    begin(&files[1], 2, SIZE, end);
    append(&files[1], 3, end);
    files[0].bytes[first + 40] ^= 1;
    struct tr_log_segment segments[2] = {files[0].segment, files[1].segment};
    tr_log_repair_begin(&repair, segments, 2, store_id);
    for (unsigned i = 0; i < 2; i++) {
        size_t size = tr_log_repair_segment(&repair, &segments[i], out[i], sizeof out[i]);
        files[i].segment = (struct tr_log_segment){i + 1, .bytes = out[i], .size = size};
    }
    assert_int_equal(repair.batches, 2);
    struct tr_log_segment repaired[2] = {files[0].segment, files[1].segment};
    assert_int_equal(tr_log_check(repaired, 2).verdict, TR_LOG_SOUND);
    struct tr_log_header header;
    size_t size = 0;
    assert_int_equal(tr_log_header_decode(out[1], repaired[1].size, &header, &size),
                     TR_LOG_HEADER_OK);
    assert_true(header.store_id[0] == 9 && header.node_count == 1 && header.nodes.text[1] == 'a');
}

/* Where an earlier start cut a tail, the next segment says so: the rest there is no damage. */
static void a_tail_that_was_cut_stays_cut(void **state)
{
    (void)state;
    static struct file files[2];
    begin(&files[0], 1, 0, 0);
    uint64_t end = append(&files[0], 1, 0);
    memset(files[0].bytes + files[0].end, 0xa5, 100);
    begin(&files[1], 2, SIZE, end);
    append(&files[1], 2, SIZE + 96);
    assert_int_equal(check(files, 2).verdict, TR_LOG_SOUND);
}

static void entries_about_keys_come_back_as_they_were(void **state)
{
    static uint8_t bytes[512];
    struct tr_pair pair = {
        .key = TR_SPAN("a key"),
        .value = TR_SPAN("its value"),
        .version = 0x123456789abcdef0,
        .version_node = 77,
        .expires_ms = 123456789,
        .callback = TR_SPAN("http://a/"),
    };
    struct tr_pair time = {.version = 5, .expires_ms = 17};
    (void)state;
    for (unsigned type = TR_LOG_KEY; type <= TR_LOG_KEY_TIME; type++) {
        const struct tr_pair *put = type < TR_LOG_KEY_FLOOR ? &pair : &time;
        struct tr_writer writer = tr_writer_on(bytes, sizeof bytes);
        struct tr_log_entry entry;
        tr_log_put_key(&writer, (enum tr_log_type)type, put);
        assert_int_equal(writer.size, tr_log_key_size((enum tr_log_type)type, put));
        struct tr_reader reader = tr_reader_on(bytes, writer.size);
        assert_int_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
        assert_int_equal(entry.type, type);
        assert_true(tr_span_equals(entry.pair.key, put->key));
        assert_int_equal(entry.pair.version, put->version);
        assert_int_equal(entry.pair.expires_ms,
                         type == TR_LOG_KEY_END ? TR_NEVER : put->expires_ms);
        assert_int_equal(entry.pair.value.size, type == TR_LOG_KEY ? pair.value.size : 0);
        for (size_t size = 1; size < writer.size; size++) {
            reader = tr_reader_on(bytes, size);
            assert_int_not_equal(tr_log_get(&reader, &entry), TR_LOG_GET_ONE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_read_back),
        cmocka_unit_test(entries_are_read_back),
        cmocka_unit_test(a_sound_log_is_sound),
        cmocka_unit_test(an_unsynced_end_is_a_torn_tail),
        cmocka_unit_test(a_flipped_bit_below_what_was_synced_is_damage),
        cmocka_unit_test(a_missing_segment_and_a_newer_format_are_told),
        cmocka_unit_test(a_tail_that_was_cut_stays_cut),
        cmocka_unit_test(the_first_segment_is_missed_unless_the_log_says_that_it_goes),
        cmocka_unit_test(a_tail_that_is_all_there_is_told_from_one_that_is_not),
        cmocka_unit_test(a_repair_keeps_what_is_sound_and_all_names),
        cmocka_unit_test(entries_about_keys_come_back_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
