/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes say to each other about keys, as it is written and read. */
#include "unit.h"

#include "quorum/frame.h"

#define TEST(name) cmocka_unit_test(name)
#define NOW        1000000
#define LATER      2500000 /* what the reader's clock shows */

static const struct tr_key_frame head = {.epoch = 7, .roster_id = 0x1234, .now_ms = NOW};

static struct tr_span span(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

static struct tr_key_entry turn(const struct tr_key_entry *entry, struct tr_span list)
{
    static uint8_t bytes[4096];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    struct tr_key_frame read_head;
    struct tr_key_entry read;
    tr_keys_put_head(&out, &head);
    size_t before = out.size;
    tr_keys_put(&out, entry, list);
    assert_true(out.size - before <= tr_keys_bound(entry, list));
    struct tr_reader in = tr_reader_on(bytes, out.size);
    assert_true(tr_keys_get_head(&in, &read_head));
    assert_true(read_head.epoch == 7 && read_head.roster_id == 0x1234);
    assert_true(tr_keys_get(&in, &read_head, LATER, &read));
    assert_true(in.at == in.end);
    assert_int_equal(read.kind, entry->kind);
    assert_int_equal(read.operation, entry->operation);
    for (size_t cut = before; cut < out.size; cut++) { /* no part of it is one */
        struct tr_key_entry part;
        struct tr_reader cut_in = tr_reader_on(bytes, cut);
        assert_true(tr_keys_get_head(&cut_in, &read_head));
        assert_false(tr_keys_get(&cut_in, &read_head, LATER, &part));
    }
    return read;
}

static const struct tr_pair pair = {
    .key = {"key", 3},
    .value = {"value", 5},
    .version = 99,
    .version_node = 4,
    .expires_ms = NOW + 60000,
    .callback = {"http://h/", 9},
};

static void a_write_has_its_pair_with_the_time_that_is_left(void **state)
{
    (void)state;
    struct tr_key_entry entry = {.kind = TR_KEYS_WRITE, .operation = 300, .pair = pair};
    struct tr_key_entry read = turn(&entry, span(""));
    assert_true(tr_span_equals(read.pair.key, pair.key));
    assert_true(tr_span_equals(read.pair.value, pair.value));
    assert_true(tr_span_equals(read.pair.callback, pair.callback));
    assert_true(read.pair.version == 99 && read.pair.version_node == 4 && !read.pair.is_end);
    assert_int_equal(read.pair.expires_ms, LATER + 60000);
    assert_false(read.is_conditional);
}

static void a_write_on_a_condition_says_over_what(void **state)
{
    (void)state;
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WRITE,
        .pair = {.key = {"k", 1}, .version = 5, .is_end = true, .expires_ms = TR_NEVER},
        .is_conditional = true,
        .known = {.version = 3, .node = 2, .is_end = true},
        .since = {.version = 4, .node = 1},
    };
    struct tr_key_entry read = turn(&entry, span(""));
    assert_true(read.is_conditional && read.pair.is_end && read.pair.value.size == 0);
    assert_int_equal(tr_pair_compare(read.known, entry.known), 0);
    assert_int_equal(tr_pair_compare(read.since, entry.since), 0);
}

static void an_end_says_whether_its_callback_is_owed(void **state)
{
    (void)state;
    struct tr_key_entry entry = {
        .kind = TR_KEYS_WRITE,
        .pair = {.key = {"k", 1}, .version = 5, .is_end = true, .expires_ms = TR_NEVER},
    };
    assert_false(turn(&entry, span("")).pair.is_owed);
    entry.pair.is_owed = true;
    struct tr_key_entry read = turn(&entry, span(""));
    assert_true(read.pair.is_end && read.pair.is_owed);
}

static void answers_have_an_order_and_perhaps_a_pair(void **state)
{
    (void)state;
    struct tr_key_entry entry = {.kind = TR_KEYS_ANSWER,
                                 .operation = 1,
                                 .answer = TR_ANSWER_ABOVE,
                                 .known = {.version = 8, .node = 3},
                                 .has_pair = true,
                                 .pair = pair};
    struct tr_key_entry read = turn(&entry, span(""));
    assert_true(read.answer == TR_ANSWER_ABOVE && read.has_pair && read.known.version == 8);
    assert_true(tr_span_equals(read.pair.value, pair.value));
    entry.has_pair = false;
    entry.answer = TR_ANSWER_NONE;
    read = turn(&entry, span(""));
    assert_true(read.answer == TR_ANSWER_NONE && !read.has_pair);
}

static void a_command_and_its_result_are_whole(void **state)
{
    (void)state;
    struct tr_key_entry call = {
        .kind = TR_KEYS_CALL,
        .operation = 70000,
        .command = {.verb = TR_KEY_ADD,
                    .only_if = TR_IF_PRESENT,
                    .key = {"n", 1},
                    .number = -5,
                    .expiry = TR_EXPIRY_AT,
                    .expires_ms = NOW + 1000,
                    .wants_old = true},
    };
    struct tr_key_entry read = turn(&call, span(""));
    assert_true(read.command.verb == TR_KEY_ADD && read.command.number == -5);
    assert_true(read.command.wants_old && read.command.only_if == TR_IF_PRESENT);
    assert_int_equal(read.command.expires_ms, LATER + 1000);
    struct tr_key_entry result = {
        .kind = TR_KEYS_RESULT,
        .operation = 70000,
        .result = {.outcome = TR_KEY_DONE,
                   .was_there = true,
                   .value = {"old", 3},
                   .number = -4,
                   .version = 12,
                   .expires_ms = TR_NEVER},
    };
    read = turn(&result, span(""));
    assert_true(read.result.outcome == TR_KEY_DONE && read.result.was_there);
    assert_true(read.result.number == -4 && read.result.version == 12);
    assert_true(read.result.expires_ms == TR_NEVER);
    assert_true(tr_span_equals(read.result.value, span("old")));
}

static void lists_are_read_one_by_one(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_keys_put_listed(&out, span("a"), (struct tr_pair_order){.version = 1});
    tr_keys_put_listed(&out, span("bb"), (struct tr_pair_order){.version = 2, .is_end = true});
    struct tr_span list = {(const char *)bytes, out.size};
    struct tr_key_entry entry = {.kind = TR_KEYS_TELL, .from = 10, .to = 20, .count = 2};
    struct tr_key_entry read = turn(&entry, list);
    struct tr_span key;
    struct tr_pair_order order;
    assert_true(read.from == 10 && read.to == 20 && read.count == 2);
    assert_true(tr_keys_get_listed(&read.list, &key, &order) && tr_span_equals(key, span("a")));
    assert_true(tr_keys_get_listed(&read.list, &key, &order) && order.is_end);
    assert_false(tr_keys_get_listed(&read.list, &key, &order));
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[512];
    struct tr_key_entry read;
    for (unsigned kind = 0; kind < 256; kind++) {
        struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
        tr_put_number(&out, kind, 1);
        tr_put_varint(&out, 1);
        tr_put_number(&out, 0xff, 1); /* flags that there are none of */
        memset(bytes + out.size, 0, 64);
        struct tr_reader in = tr_reader_on(bytes, out.size + 64);
        assert_false(tr_keys_get(&in, &head, LATER, &read));
        assert_true(in.is_short);
    }
    struct tr_key_entry range = {.kind = TR_KEYS_RANGE, .from = 20, .to = 10};
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_keys_put(&out, &range, span(""));
    struct tr_reader in = tr_reader_on(bytes, out.size);
    assert_false(tr_keys_get(&in, &head, LATER, &read)); /* it ends before it begins */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_write_has_its_pair_with_the_time_that_is_left),
        TEST(a_write_on_a_condition_says_over_what),
        TEST(an_end_says_whether_its_callback_is_owed),
        TEST(answers_have_an_order_and_perhaps_a_pair),
        TEST(a_command_and_its_result_are_whole),
        TEST(lists_are_read_one_by_one),
        TEST(what_is_out_of_bounds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
