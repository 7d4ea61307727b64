/* SPDX-License-Identifier: Apache-2.0 */
/* Arena, index and book against models. */
#include "unit.h"

#include "base/random.h"
#include "timers/book.h"

#define REGION ((size_t)64 << 20)
#define IDS    3000

static void *new_arena(struct tr_arena *arena, size_t size)
{
    void *region = calloc(1, size);
    assert_non_null(region);
    tr_arena_init(arena, region, size);
    return region;
}

static void pieces_do_not_overlap_and_come_back(void **state)
{
    (void)state;
    struct tr_arena arena;
    void *region = new_arena(&arena, REGION);
    struct tr_random random = {3};
    struct {
        tr_ref ref;
        size_t size;
        uint8_t mark;
    } pieces[500];
    memset(pieces, 0, sizeof pieces);
    size_t empty = tr_arena_used(&arena);
    for (unsigned i = 0; i < 30000; i++) {
        size_t at = tr_random_below(&random, UNIT_COUNT(pieces));
        if (pieces[at].ref != TR_ARENA_NONE) {
            const uint8_t *bytes = tr_arena_at(&arena, pieces[at].ref);
            for (size_t j = 0; j < pieces[at].size; j += 1 + pieces[at].size / 16)
                assert_int_equal(bytes[j], pieces[at].mark);
            tr_arena_give(&arena, pieces[at].ref);
            pieces[at].ref = TR_ARENA_NONE;
            continue;
        }
        size_t size = 1 + tr_random_below(&random, i % 50 == 0 ? 200000 : i % 5 == 0 ? 40000 : 300);
        pieces[at].ref = tr_arena_take(&arena, TR_ARENA_STRING, size, false);
        assert_true(pieces[at].ref != TR_ARENA_NONE);
        assert_true(tr_arena_rounded(size) >= size);
        pieces[at].size = size;
        pieces[at].mark = (uint8_t)(1 + i % 250);
        memset(tr_arena_at(&arena, pieces[at].ref), pieces[at].mark, size);
        if (i % 1000 == 0)
            assert_true(tr_arena_valid(&arena));
    }
    for (size_t i = 0; i < UNIT_COUNT(pieces); i++) {
        if (pieces[i].ref != TR_ARENA_NONE)
            tr_arena_give(&arena, pieces[i].ref);
    }
    assert_int_equal(tr_arena_used(&arena), empty);
    assert_true(tr_arena_valid(&arena));
    free(region);
}

static void the_reserve_is_for_urgent_pieces(void **state)
{
    (void)state;
    struct tr_arena arena;
    void *region = new_arena(&arena, TR_ARENA_LEAST);
    while (tr_arena_take(&arena, TR_ARENA_RECORD, 1000, false) != TR_ARENA_NONE) {
    }
    assert_int_equal(tr_arena_room(&arena), 0);
    unsigned urgent = 0;
    while (tr_arena_take(&arena, TR_ARENA_RECORD, 1000, true) != TR_ARENA_NONE)
        urgent++;
    assert_true((size_t)urgent * 1000 > TR_ARENA_LEAST / 10);
    free(region);
}

static struct tr_record make(tr_timer_id id, uint64_t part, struct tr_random *random)
{
    static char text[3000];
    memset(text, 'o', sizeof text);
    struct tr_record record = {
        .head.key.id = id,
        .head.key.part = part,
        .head.order.version = tr_random_next(random),
        .head.order.version_node = 3,
        .head.order.sequence = tr_random_below(random, 1000),
        .head.order.attempt = (uint32_t)tr_random_below(random, 9),
        .head.order.moves = (uint32_t)tr_random_below(random, 300),
        .head.due_ms = tr_random_below(random, TR_TIME_MAX),
        .head.lag_ms = tr_random_below(random, 100000),
        .interval_ms = tr_random_below(random, (uint64_t)1 << 40),
        .repeat_ms = tr_random_below(random, 2) * tr_random_below(random, (uint64_t)1 << 45),
        .head.factor = 1 + (uint32_t)tr_random_below(random, 200),
        .head.flags = TR_RECORD_KEYED,
        .head.replicas.count = 2,
        .head.replicas.members = {0, 7},
        .head.segment = (uint32_t)tr_random_below(random, 1 << 24),
        .uri = id % 2 == 0 ? TR_SPAN("http://a/1") : TR_SPAN("https://b:99/other?x"),
        .opaque = {text, tr_random_below(random, id % 9 == 0 ? 3000 : 80)},
        .content_type = id % 3 == 0 ? TR_SPAN("application/json") : TR_SPAN(""),
        .tag_count = (uint8_t)(id % 3),
        .tags = {{TR_SPAN("REG"), 2}, {TR_SPAN("CALL"), 1}},
    };
    return record;
}

static void assert_same(const struct tr_record *a, const struct tr_record *b)
{
    assert_int_equal(a->head.key.id, b->head.key.id);
    assert_int_equal(a->head.key.part, b->head.key.part);
    assert_int_equal(tr_order_compare(&a->head.order, &b->head.order), 0);
    assert_int_equal(a->head.due_ms, b->head.due_ms);
    assert_int_equal(a->head.lag_ms, b->head.lag_ms);
    assert_int_equal(a->interval_ms, b->interval_ms);
    assert_int_equal(a->repeat_ms, b->repeat_ms);
    assert_int_equal(a->head.factor, b->head.factor);
    assert_int_equal(a->head.flags, b->head.flags);
    assert_int_equal(a->head.replicas.count, b->head.replicas.count);
    assert_int_equal(a->head.replicas.members[1], b->head.replicas.members[1]);
    assert_int_equal(a->head.segment, b->head.segment);
    assert_true(tr_span_equals(a->uri, b->uri));
    assert_true(tr_span_equals(a->opaque, b->opaque));
    assert_true(tr_span_equals(a->content_type, b->content_type));
    assert_int_equal(a->tag_count, b->tag_count);
    for (unsigned i = 0; i < a->tag_count; i++) {
        assert_true(tr_span_equals(a->tags[i].name, b->tags[i].name));
        assert_int_equal(a->tags[i].count, b->tags[i].count);
    }
}

static void the_book_holds_what_a_list_would(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    struct tr_random random = {11};
    void *region = new_arena(&arena, REGION);
    struct tr_record *model = calloc(IDS, sizeof *model);
    tr_ref *refs = calloc(IDS, sizeof *refs);
    assert_true(tr_book_init(&book, &arena));
    size_t empty = tr_arena_used(&arena);
    for (unsigned i = 0; i < 40000; i++) {
        uint64_t at = tr_random_below(&random, IDS);
        tr_timer_id id = at / 2 * 0x9e3779b97f4a7c15u;
        uint64_t part = at % 2;
        assert_int_equal(tr_book_find(&book, &(struct tr_key){id, part}), refs[at]);
        struct tr_record record = make(id, part, &random);
        if (refs[at] == TR_ARENA_NONE) {
            refs[at] = tr_book_insert(&book, &record);
            assert_true(refs[at] != TR_ARENA_NONE);
            model[at] = record;
        } else if (i % 3 == 0) {
            tr_book_remove(&book, refs[at]);
            refs[at] = TR_ARENA_NONE;
        } else if (i % 3 == 1) {
            refs[at] = tr_book_replace(&book, refs[at], &record);
            assert_true(refs[at] != TR_ARENA_NONE);
            model[at] = record;
        } else {
            model[at].head.order.sequence = record.head.order.sequence * 1000;
            model[at].head.order.attempt = record.head.order.attempt;
            model[at].head.due_ms = record.head.due_ms;
            model[at].head.lag_ms = record.head.lag_ms;
            refs[at] = tr_book_update(&book, refs[at], &model[at].head);
            assert_true(refs[at] != TR_ARENA_NONE);
        }
        if (refs[at] != TR_ARENA_NONE) {
            struct tr_record held;
            tr_book_unpack(&book, refs[at], &held);
            /* The model's opaque is always the same letters: sizes tell. */
            assert_same(&held, &model[at]);
            assert_true(tr_book_matches(&book, refs[at], TR_STATE_UNSAFE, held.head.due_ms));
            assert_false(tr_book_matches(&book, refs[at], TR_STATE_ARMED, held.head.due_ms));
        }
        if (i % 5000 == 0)
            assert_true(tr_book_valid(&book));
    }
    uint64_t reg = 0;
    for (unsigned i = 0; i < IDS; i++) {
        if (refs[i] != TR_ARENA_NONE && model[i].head.key.part == 0 && model[i].tag_count > 0)
            reg += 2;
    }
    tr_ref tag = tr_strings_find(&book.tags, TR_SPAN("REG"));
    assert_int_equal(tag == TR_ARENA_NONE ? 0 : *tr_strings_tally(&book.tags, tag), reg);
    for (unsigned i = 0; i < IDS; i++) {
        if (refs[i] != TR_ARENA_NONE)
            tr_book_remove(&book, refs[i]);
    }
    assert_true(tr_book_valid(&book));
    assert_int_equal(book.texts.index.count, 0);
    assert_true(tr_arena_used(&arena) <= empty + ((size_t)2 << 20)); /* pages of the index stay */
    free(model);
    free(refs);
    free(region);
}

static void a_walk_is_in_hash_order_and_survives_changes(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    struct tr_random random = {5};
    void *region = new_arena(&arena, REGION);
    assert_true(tr_book_init(&book, &arena));
    for (uint64_t i = 0; i < 20000; i++) {
        struct tr_record record = make(i, 0, &random);
        record.opaque.size = 10;
        assert_true(tr_book_insert(&book, &record) != TR_ARENA_NONE);
    }
    uint64_t cursor = 0;
    uint64_t last = 0;
    unsigned seen = 0;
    for (;;) {
        struct tr_index_walk walk = tr_index_seek(&book.index, cursor);
        tr_ref ref;
        unsigned page = 0;
        while (page < 100 && tr_index_next(&walk, &ref)) {
            uint64_t hash = tr_book_hash(tr_book_id(&book, ref));
            assert_true(seen == 0 || hash > last);
            last = hash;
            cursor = hash + 1;
            seen += tr_book_id(&book, ref) < 20000;
            page++;
        }
        if (page < 100)
            break;
        /* Between pages others come and go; pages split under the walk. */
        for (unsigned i = 0; i < 200; i++) {
            struct tr_record record =
                make(100000 + tr_random_below(&random, 1000000000), 0, &random);
            record.opaque.size = 10;
            if (tr_book_find_whole(&book, record.head.key.id) == TR_ARENA_NONE)
                assert_true(tr_book_insert(&book, &record) != TR_ARENA_NONE);
        }
    }
    assert_int_equal(seen, 20000);
    assert_true(tr_book_valid(&book));
    free(region);
}

/* Undoes tr_hash_mix: ids whose hashes agree in all their leading bits, as an attacker would. */
static uint64_t unmix(uint64_t value)
{
    value ^= value >> 31 ^ value >> 62;
    value *= 0x319642b2d24d8ec3u;
    value ^= value >> 27 ^ value >> 54;
    value *= 0x96de1b173f119089u;
    value ^= value >> 30 ^ value >> 60;
    return value;
}

static void ids_made_to_collide_are_refused_not_slow(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    struct tr_random random = {5};
    void *region = new_arena(&arena, REGION);
    assert_true(tr_book_init(&book, &arena));
    assert_int_equal(tr_hash_mix(unmix(12345)), 12345);
    unsigned taken = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        struct tr_record record = make(unmix(((uint64_t)0xabcdef << 40) + i), 0, &random);
        taken += tr_book_insert(&book, &record) != TR_ARENA_NONE;
    }
    assert_in_range(taken, 200, 300);
    assert_true(tr_book_valid(&book));
    struct tr_record record = make(1, 0, &random);
    assert_true(tr_book_insert(&book, &record) != TR_ARENA_NONE);
    free(region);
}

static struct tr_record small_record(uint64_t number, size_t opaque_size)
{
    static const char opaque[80] = {0};
    return (struct tr_record){.head.key.id = number + 1,
                              .head.order.version = number + 1,
                              .head.order.sequence = 1,
                              .head.due_ms = 1700000000000u,
                              .interval_ms = 1000,
                              .repeat_ms = number % 2 == 0 ? 0 : 300000000,
                              .head.factor = 2,
                              .head.replicas.count = (uint8_t)(1 + number % 3),
                              .uri = TR_SPAN("http://127.0.0.1:1234/pop"),
                              .opaque = {opaque, opaque_size}};
}

/* All pops fail, or all timers repeat, when there is no memory: each record grows in its place,
 * also one that was replaced by a longer one meanwhile. */
static void records_grow_where_they_are(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    void *region = new_arena(&arena, TR_ARENA_LEAST);
    assert_true(tr_book_init(&book, &arena));
    tr_ref refs[20000];
    unsigned count = 0;
    for (uint64_t i = 0;; i++) {
        struct tr_record record = small_record(i, i % 64);
        tr_ref ref = tr_book_insert(&book, &record);
        if (ref == TR_ARENA_NONE)
            break;
        refs[count++] = ref;
        assert_true(count < UNIT_COUNT(refs));
    }
    while (tr_arena_take(&arena, TR_ARENA_CHUNK, 60000, true) != TR_ARENA_NONE)
        ;
    unsigned refused = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tr_record record = small_record(i, i % 64 + i % 7);
        record.head.order.version++;
        tr_ref ref = tr_book_replace(&book, refs[i], &record);
        refused += ref == TR_ARENA_NONE;
        refs[i] = ref == TR_ARENA_NONE ? refs[i] : ref;
    }
    assert_in_range(refused, 1, count - 1);
    for (unsigned i = 0; i < count; i++) {
        struct tr_head head;
        tr_book_head(&book, refs[i], &head);
        head.order.sequence = i % 2 == 0 ? 2 : 300000;
        head.order.attempt = TR_ATTEMPT_MAX;
        head.order.moves = tr_next_move(0, 77);
        head.lag_ms = 7 * (uint64_t)86400000;
        assert_int_equal(tr_book_update(&book, refs[i], &head), refs[i]);
        struct tr_head after;
        tr_book_head(&book, refs[i], &after);
        assert_int_equal(tr_order_compare(&after.order, &head.order), 0);
        assert_int_equal(after.lag_ms, head.lag_ms);
    }
    assert_true(count > 3000 && tr_book_valid(&book));
    free(region);
}

static void a_record_of_60_bytes_takes_112(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    void *region = new_arena(&arena, REGION);
    assert_true(tr_book_init(&book, &arena));
    char opaque[60] = {0};
    size_t before = tr_arena_used(&arena);
    for (uint64_t i = 0; i < 100000; i++) {
        struct tr_record record = {.head.key.id = i,
                                   .head.order.version = i,
                                   .head.order.sequence = 1,
                                   .head.due_ms = 1700000000000u,
                                   .interval_ms = 3600000,
                                   .head.factor = 2,
                                   .head.replicas.count = 1,
                                   .uri = TR_SPAN("http://127.0.0.1:1234/pop"),
                                   .opaque = {opaque, 60}};
        assert_true(tr_book_insert(&book, &record) != TR_ARENA_NONE);
    }
    /* 112 for the record; the index between 8 and 17. */
    assert_in_range((tr_arena_used(&arena) - before) / 100000, 112, 130);
    free(region);
}

static void who_has_let_go_keeps_its_place(void **state)
{
    (void)state;
    struct tr_arena arena;
    struct tr_book book;
    void *region = new_arena(&arena, REGION);
    assert_true(tr_book_init(&book, &arena));
    struct tr_record record = {.head.key.id = 7,
                               .head.order.version = 1,
                               .head.order.sequence = 1,
                               .interval_ms = 1000,
                               .head.factor = 2,
                               .head.replicas.count = 1,
                               .head.flags = TR_RECORD_MOVING,
                               .head.from.members = {11, 12, 13, 14},
                               .head.from.count = 4,
                               .uri = TR_SPAN("http://127.0.0.1:1234/pop")};
    tr_ref ref = tr_book_insert(&book, &record);
    assert_true(ref != TR_ARENA_NONE);
    tr_book_forget(&book, ref, 11);
    tr_book_forget(&book, ref, 13);
    tr_book_unpack(&book, ref, &record);
    record.head.order.sequence = 300;
    ref = tr_book_update(&book, ref, &record.head);
    assert_true(ref != TR_ARENA_NONE);

    uint16_t places[TR_FROM_MAX] = {0};
    tr_book_unpack(&book, ref, &record);
    assert_int_equal(record.head.from.count, 2);
    assert_int_equal(record.head.from.members[0], 12);
    assert_int_equal(record.head.from.members[1], 14);
    assert_int_equal(tr_from_places(&record.head.from, places), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(places[i], 11 + i);
    free(region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_overlap_and_come_back),
        cmocka_unit_test(the_reserve_is_for_urgent_pieces),
        cmocka_unit_test(the_book_holds_what_a_list_would),
        cmocka_unit_test(a_walk_is_in_hash_order_and_survives_changes),
        cmocka_unit_test(ids_made_to_collide_are_refused_not_slow),
        cmocka_unit_test(records_grow_where_they_are),
        cmocka_unit_test(a_record_of_60_bytes_takes_112),
        cmocka_unit_test(who_has_let_go_keeps_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
