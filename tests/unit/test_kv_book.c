/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "kv/book.h"
#include "unit.h"

#define REGION ((size_t)64 << 20)

static void *region;
static struct tr_arena arena;
static struct tr_kv_book book;

static int set_up(void **state)
{
    (void)state;
    region = calloc(1, REGION);
    tr_arena_init(&arena, region, REGION);
    assert_true(tr_kv_book_init(&book, &arena));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(tr_kv_book_valid(&book));
    free(region);
    return 0;
}

static tr_ref find(struct tr_span key)
{
    return tr_kv_book_find(&book, key, tr_kv_hash(key));
}

static tr_ref put(const struct tr_pair *pair)
{
    return tr_kv_book_put(&book, find(pair->key), tr_kv_hash(pair->key), pair);
}

static void assert_span(struct tr_span found, struct tr_span wanted)
{
    assert_int_equal(found.size, wanted.size);
    assert_memory_equal(found.text, wanted.text, wanted.size);
}

static void a_pair_comes_back_as_it_was_put(void **state)
{
    struct tr_pair pair = {
        .key = TR_SPAN("a key"),
        .value = TR_SPAN("a value"),
        .version = 0x123456789abcdef0,
        .version_node = 0x4321,
        .expires_ms = 1234567890123,
        .callback = TR_SPAN("http://localhost/gone"),
        .segment = 0xabcdef,
    };
    struct tr_pair found;
    (void)state;
    tr_ref ref = put(&pair);
    assert_int_equal(find(pair.key), ref);
    tr_kv_book_unpack(&book, ref, &found);
    assert_span(found.key, pair.key);
    assert_span(found.value, pair.value);
    assert_span(found.callback, pair.callback);
    assert_true(found.version == pair.version && found.version_node == pair.version_node);
    assert_true(found.expires_ms == pair.expires_ms && found.segment == pair.segment);
    assert_int_equal(find(TR_SPAN("another")), TR_ARENA_NONE);
    tr_kv_book_remove(&book, ref, tr_kv_hash(pair.key));
    assert_int_equal(find(pair.key), TR_ARENA_NONE);
    assert_int_equal(arena.pieces[TR_ARENA_KEY], 0);
    assert_int_equal(book.callbacks.index.count, 0);
}

static void a_key_and_a_value_may_be_empty_or_hold_any_bytes(void **state)
{
    struct tr_pair empty = {.key = {"", 0}, .value = {"", 0}, .expires_ms = TR_NEVER};
    struct tr_pair zero = {.key = {"\0", 1}, .value = {"\0\n", 2}, .expires_ms = TR_NEVER};
    (void)state;
    put(&empty);
    put(&zero);
    assert_span(tr_kv_book_value(&book, find(empty.key)), empty.value);
    assert_span(tr_kv_book_value(&book, find(zero.key)), zero.value);
}

static void a_short_pair_takes_one_piece_of_96_bytes(void **state)
{
    char value[60];
    memset(value, 'v', sizeof value);
    struct tr_pair pair = {
        .key = TR_SPAN("0123456789abcdef"),
        .value = {value, sizeof value},
        .expires_ms = TR_NEVER,
    };
    (void)state;
    tr_ref ref = put(&pair);
    assert_int_equal(tr_arena_capacity(&arena, ref), 96);
}

static void an_overwrite_of_the_same_size_stays_in_its_place(void **state)
{
    struct tr_pair pair = {.key = TR_SPAN("k"), .value = TR_SPAN("one"), .expires_ms = TR_NEVER};
    (void)state;
    tr_ref ref = put(&pair);
    pair.value = TR_SPAN("two");
    assert_int_equal(put(&pair), ref);
    assert_span(tr_kv_book_value(&book, ref), TR_SPAN("two"));
}

static void what_a_longer_value_has_more_is_zero(void **state)
{
    struct tr_pair pair = {.key = TR_SPAN("k"), .value = TR_SPAN("one"), .expires_ms = 5};
    uint64_t hash = tr_kv_hash(pair.key);
    (void)state;
    tr_ref ref = tr_kv_book_resize(&book, put(&pair), hash, 300);
    assert_int_equal(find(pair.key), ref);
    struct tr_span value = tr_kv_book_value(&book, ref);
    assert_int_equal(value.size, 300);
    assert_memory_equal(value.text, "one", 3);
    for (unsigned i = 3; i < 300; i++)
        assert_int_equal(value.text[i], 0);
    ref = tr_kv_book_resize(&book, ref, hash, 2);
    assert_span(tr_kv_book_value(&book, ref), TR_SPAN("on"));
    assert_int_equal(tr_kv_book_expires(&book, ref), 5);
}

static void expiry_and_callback_come_and_go_and_the_value_stays(void **state)
{
    struct tr_pair pair = {.key = TR_SPAN("k"), .value = TR_SPAN("one"), .expires_ms = TR_NEVER};
    uint64_t hash = tr_kv_hash(pair.key);
    struct tr_pair found;
    (void)state;
    tr_ref ref = tr_kv_book_expire(&book, put(&pair), hash, 77, TR_SPAN("http://x/"));
    tr_kv_book_unpack(&book, ref, &found);
    assert_span(found.value, pair.value);
    assert_span(found.callback, TR_SPAN("http://x/"));
    ref = tr_kv_book_expire(&book, ref, hash, 78, (struct tr_span){NULL, 0});
    assert_int_equal(tr_kv_book_expires(&book, ref), 78);
    assert_int_equal(book.callbacks.index.count, 0);
    ref = tr_kv_book_expire(&book, ref, hash, TR_NEVER, (struct tr_span){NULL, 0});
    assert_true(tr_kv_book_expires(&book, ref) == TR_NEVER);
    assert_span(tr_kv_book_value(&book, ref), pair.value);
}

/* ---- against a model ---- */

#define KEYS 512

static void random_changes_agree_with_a_table(void **state)
{
    static char values[KEYS][4096];
    static size_t sizes[KEYS];
    static bool is_there[KEYS];
    struct tr_random random = {.state = 7};
    (void)state;
    for (unsigned step = 0; step < 100000; step++) {
        unsigned i = (unsigned)tr_random_below(&random, KEYS);
        char key[16];
        struct tr_span name = {key, (size_t)snprintf(key, sizeof key, "key-%u", i)};
        tr_ref ref = find(name);
        assert_int_equal(ref != TR_ARENA_NONE, is_there[i]);
        if (is_there[i])
            assert_span(tr_kv_book_value(&book, ref), (struct tr_span){values[i], sizes[i]});
        uint64_t what = tr_random_below(&random, 4);
        size_t size = (size_t)tr_random_below(&random, step % 50 == 0 ? 4096 : 100);
        if (what == 0 && is_there[i]) {
            tr_kv_book_remove(&book, ref, tr_kv_hash(name));
            is_there[i] = false;
        } else if (what == 1 && is_there[i]) {
            ref = tr_kv_book_resize(&book, ref, tr_kv_hash(name), size);
            assert_int_not_equal(ref, TR_ARENA_NONE);
            if (size > sizes[i])
                memset(values[i] + sizes[i], 0, size - sizes[i]);
            sizes[i] = size;
        } else if (what == 2 && is_there[i]) {
            bool expires = tr_random_below(&random, 2) == 0;
            bool calls = expires && tr_random_below(&random, 2) == 0;
            tr_kv_book_expire(&book, ref, tr_kv_hash(name), expires ? step : TR_NEVER,
                              calls ? name : (struct tr_span){NULL, 0});
        } else {
            memset(values[i], (int)('a' + step % 26), size);
            sizes[i] = size;
            is_there[i] = true;
            struct tr_pair pair = {
                .key = name, .value = {values[i], size}, .version = step, .expires_ms = TR_NEVER};
            assert_int_not_equal(put(&pair), TR_ARENA_NONE);
        }
    }
}

static void a_full_book_changes_nothing(void **state)
{
    static char large[100000];
    struct tr_pair pair = {.value = {large, sizeof large}, .expires_ms = TR_NEVER};
    char key[16];
    unsigned count = 0;
    (void)state;
    for (;; count++) {
        pair.key = (struct tr_span){key, (size_t)snprintf(key, sizeof key, "%u", count)};
        if (put(&pair) == TR_ARENA_NONE)
            break;
    }
    assert_in_range(count, 100, 1000);
    assert_int_equal(find(pair.key), TR_ARENA_NONE);
    assert_int_equal(book.index.count, count);
    tr_ref ref = find(TR_SPAN("0"));
    assert_int_equal(tr_kv_book_resize(&book, ref, tr_kv_hash(TR_SPAN("0")), TR_VALUE_MAX),
                     TR_ARENA_NONE);
    assert_int_equal(tr_kv_book_value(&book, ref).size, sizeof large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pair_comes_back_as_it_was_put),
        TEST(a_key_and_a_value_may_be_empty_or_hold_any_bytes),
        TEST(a_short_pair_takes_one_piece_of_96_bytes),
        TEST(an_overwrite_of_the_same_size_stays_in_its_place),
        TEST(what_a_longer_value_has_more_is_zero),
        TEST(expiry_and_callback_come_and_go_and_the_value_stays),
        TEST(random_changes_agree_with_a_table),
        TEST(a_full_book_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
