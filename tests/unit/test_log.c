/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room `log` by itself: batches, tickets, segments, reclaim and recovery, on a disk that is an
 * array of files. Entries are numbers (ceilings), and tombstones of one key each, which the test
 * counts when they are replayed.
 */
#include "rooms.h"

#include "log/batch.h"
#include "log/reclaim.h"
#include "log/recovery.h"
#include "log/segment.h"

#define SEGMENT_SIZE ((size_t)16 << 10)
#define BATCH_CAP    ((size_t)2 << 10)
#define WAITING      64
#define FILES        16
#define ENTRY_SIZE   100 /* of what is live, as the log reckons it */

struct fixture {
    struct tr_time time;
    struct tr_trial trial;
    struct tr_log log;
    struct tr_effects effects;
    uint8_t files[FILES][SEGMENT_SIZE]; /* by number */
    bool is_there[FILES];
    uint64_t written; /* the end of the write under way */
    bool is_full;     /* the disk refuses segments */
    uint32_t writes;
    uint64_t applied[4096]; /* keys, in the order in which they were replayed */
    uint32_t applied_count;
    uint32_t live; /* entries of the oldest segment that are to be copied */
};

/* ---- hooks ---- */

static uint32_t put_members(void *context, struct tr_writer *writer)
{
    (void)context;
    tr_put_span(writer, TR_SPAN("a:1"));
    return 1;
}

static void set_member(void *context, uint16_t index, struct tr_span address)
{
    (void)context;
    (void)address;
    assert_int_not_equal(index, 0);
}

static enum tr_log_verdict apply(void *context, struct tr_log_entry *entry, uint64_t segment)
{
    struct fixture *fixture = context;
    assert_true(segment > 0 && fixture->applied_count < UNIT_COUNT(fixture->applied));
    fixture->applied[fixture->applied_count++] = entry->record.head.key.id;
    *tr_log_live_of(&fixture->log, segment) += 1; /* its owner would say so */
    fixture->log.live_bytes += ENTRY_SIZE;
    return TR_LOG_SOUND;
}

static void append(struct fixture *fixture, uint64_t id)
{
    struct tr_head head = {.key.id = id, .order.version = 1};
    assert_true(tr_log_has_room(&fixture->log, 64, false));
    tr_log_put_short(tr_log_writer(&fixture->log), TR_LOG_TOMBSTONE, &head);
    tr_log_appended(&fixture->log);
}

static uint32_t append_live(struct fixture *fixture, uint64_t id)
{
    struct tr_head head = {.key.id = id, .order.version = 1};
    tr_log_put_short(tr_log_writer(&fixture->log), TR_LOG_TOMBSTONE, &head);
    return tr_log_appended_live(&fixture->log, ENTRY_SIZE);
}

static void copy_oldest(void *context, uint64_t *cursor)
{
    struct fixture *fixture = context;
    struct tr_log *log = &fixture->log;
    for (; fixture->live > 0 && tr_log_begin_copy(log, 64); fixture->live--) {
        append_live(fixture, ++*cursor);
        tr_log_is_dead(log, (uint32_t)(log->oldest & TR_LOG_SEGMENT_MASK), ENTRY_SIZE);
        tr_log_end_copy(log);
    }
}

/* ---- the disk ---- */

static void heed(struct fixture *fixture)
{
    struct tr_effects effects = fixture->effects;
    fixture->effects.count = 0;
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct tr_effect *effect = &effects.items[i];
        uint64_t number = effect->of.segment.number;
        if (effect->kind == TR_EFFECT_LOG_WRITE) {
            uint8_t *file = fixture->files[effect->of.log.segment];
            assert_true(fixture->is_there[effect->of.log.segment]);
            if (effect->of.log.head != NULL)
                memcpy(file, effect->of.log.head, effect->of.log.head_size);
            memcpy(file + effect->of.log.offset, effect->of.log.bytes, effect->of.log.size);
            fixture->written = effect->of.log.end;
            fixture->writes++;
        } else if (effect->kind == TR_EFFECT_SEGMENT_ALLOCATE && fixture->is_full) {
            tr_log_segment_refused(&fixture->log, &fixture->effects);
        } else if (effect->kind == TR_EFFECT_SEGMENT_ALLOCATE) {
            assert_in_range(number, 1, FILES - 1);
            fixture->is_there[number] = true;
            tr_log_segment_allocated(&fixture->log, number, &fixture->effects);
        } else if (effect->kind == TR_EFFECT_SEGMENT_REMOVE) {
            fixture->is_there[number] = false;
            memset(fixture->files[number], 0, SEGMENT_SIZE);
        }
    }
}

/* A step of whoever owns the log. */
static void run(struct fixture *fixture)
{
    tr_log_reclaim(&fixture->log, &fixture->effects);
    tr_log_run(&fixture->log, true, &fixture->effects);
    heed(fixture);
}

static void sync_all(struct fixture *fixture)
{
    tr_log_written(&fixture->log, fixture->written, fixture->written);
    run(fixture);
}

/* As often as it takes: the log wants a few segments ahead. */
static void settle(struct fixture *fixture)
{
    for (unsigned i = 0; i < 8; i++)
        run(fixture);
}

static void set_log(struct fixture *fixture)
{
    struct tr_log *log = &fixture->log;
    log->config = (struct tr_log_config){
        .has_log = true,
        .is_always_synced = true,
        .segment_size = SEGMENT_SIZE,
        .batch_cap = BATCH_CAP,
        .slice = UINT32_MAX,
    };
    fixture->time = unit_time();
    unit_set_log(log, &fixture->time, &fixture->trial, WAITING);
    log->number = 0;
    log->incarnation_count = 0;
    log->hooks = (struct tr_log_hooks){fixture, put_members, set_member, apply, copy_oldest};
    log->buffer = unit_zeros(BATCH_CAP + TR_LOG_BATCH_HEAD + 8);
    log->header = unit_zeros(TR_LOG_HEADER_MAX);
    log->table = unit_zeros((size_t)TR_LOG_NODES_MAX * (TR_LOG_ADDRESS_MAX + 2));
    log->live = unit_zeros(TR_LOG_SEGMENTS_MAX * sizeof *log->live);
    log->sizes = unit_zeros(TR_LOG_SEGMENTS_MAX * sizeof *log->sizes);
}

static void free_log(struct tr_log *log)
{
    free(log->waiting);
    free(log->buffer);
    free(log->header);
    free(log->table);
    free(log->live);
    free(log->sizes);
    *log = (struct tr_log){.config = {.has_log = false}};
}

static const uint8_t store_id[TR_LOG_STORE_ID_SIZE] = {7};

/* Starts on what the disk holds; returns what the log thought of it. */
static enum tr_log_verdict start(struct fixture *fixture)
{
    static struct tr_log_segment segments[FILES];
    size_t count = 0;
    for (uint64_t i = 1; i < FILES; i++) {
        if (fixture->is_there[i])
            segments[count++] = (struct tr_log_segment){
                .number = i, .bytes = fixture->files[i], .size = SEGMENT_SIZE};
    }
    set_log(fixture);
    fixture->applied_count = 0;
    struct tr_log_check check = tr_log_recover(&fixture->log, segments, count, &fixture->effects);
    if (check.verdict != TR_LOG_SOUND && check.verdict != TR_LOG_TORN)
        return check.verdict;
    while (!tr_log_is_replayed(&fixture->log))
        assert_int_equal(tr_log_replay(&fixture->log).verdict, TR_LOG_SOUND);
    tr_log_begin(&fixture->log, 1 + count, store_id, &fixture->effects);
    heed(fixture);
    settle(fixture);
    return check.verdict;
}

static void crash(struct fixture *fixture)
{
    free_log(&fixture->log);
    fixture->effects.count = 0;
}

static int set_up(void **state)
{
    struct fixture *fixture = unit_zeros(sizeof *fixture);
    *state = fixture;
    assert_int_equal(start(fixture), TR_LOG_SOUND);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    free_log(&fixture->log);
    free(fixture);
    return 0;
}

static bool next(struct fixture *fixture, uint64_t *token)
{
    struct tr_waiting waiting;
    if (!tr_log_next_durable(&fixture->log, &waiting))
        return false;
    *token = waiting.token;
    return true;
}

/* ---- tests ---- */

static void one_batch_gathers_while_another_is_written(void **state)
{
    struct fixture *fixture = *state;
    uint64_t token = 0;
    append(fixture, 1);
    tr_log_wait(&fixture->log, (struct tr_waiting){.token = 11});
    run(fixture);
    assert_int_equal(fixture->writes, 1);
    append(fixture, 2);
    tr_log_wait(&fixture->log, (struct tr_waiting){.token = 12});
    append(fixture, 3);
    tr_log_wait(&fixture->log, (struct tr_waiting){.token = 13});
    run(fixture);
    assert_int_equal(fixture->writes, 1); /* one at a time */
    assert_false(next(fixture, &token));

    sync_all(fixture); /* the first is there, and the second is written */
    assert_int_equal(fixture->writes, 2);
    assert_true(next(fixture, &token));
    assert_int_equal(token, 11);
    assert_false(next(fixture, &token));
    sync_all(fixture);
    assert_true(next(fixture, &token) && token == 12);
    assert_true(next(fixture, &token) && token == 13);
    assert_true(tr_log_is_idle(&fixture->log));
}

static void a_ticket_for_nothing_new_waits_for_what_is_under_way(void **state)
{
    struct fixture *fixture = *state;
    uint64_t token = 0;
    append(fixture, 1);
    run(fixture);
    tr_log_wait(&fixture->log, (struct tr_waiting){.token = 5});
    assert_false(next(fixture, &token));
    sync_all(fixture);
    assert_true(next(fixture, &token) && token == 5);
    tr_log_wait(&fixture->log, (struct tr_waiting){.token = 6}); /* nothing is under way at all */
    assert_true(next(fixture, &token) && token == 6);
}

static void what_was_synced_is_replayed_in_its_order(void **state)
{
    struct fixture *fixture = *state;
    for (uint64_t id = 1; id <= 100; id++) {
        append(fixture, id);
        run(fixture);
        sync_all(fixture);
    }
    crash(fixture);
    assert_int_equal(start(fixture), TR_LOG_SOUND);
    assert_int_equal(fixture->applied_count, 100);
    for (uint64_t id = 1; id <= 100; id++)
        assert_int_equal(fixture->applied[id - 1], id);
    assert_int_equal(fixture->log.incarnation_count, 2);
}

static void a_write_that_was_torn_is_cut_off(void **state)
{
    struct fixture *fixture = *state;
    append_live(fixture, 1);
    run(fixture);
    sync_all(fixture);
    append(fixture, 2);
    run(fixture); /* on its way to the disk: all of it but the last bytes comes there */
    memset(fixture->files[1] + (fixture->written - fixture->log.first) - 24, 0, 24);
    crash(fixture);
    assert_int_equal(start(fixture), TR_LOG_TORN);
    assert_int_equal(fixture->applied_count, 1);
    append(fixture, 3);
    run(fixture);
    sync_all(fixture);
    crash(fixture);
    assert_int_equal(start(fixture), TR_LOG_SOUND); /* what was cut stays cut */
    assert_int_equal(fixture->applied_count, 2);
    assert_int_equal(fixture->applied[1], 3);
}

static void a_ceiling_outlives_a_crash(void **state)
{
    struct fixture *fixture = *state;
    assert_true(tr_log_number(&fixture->log, TR_LOG_CEILING, 12345));
    run(fixture);
    sync_all(fixture);
    crash(fixture);
    assert_int_equal(start(fixture), TR_LOG_SOUND);
    assert_int_equal(fixture->log.ceiling, 12345);
}

static void a_full_segment_is_closed_and_the_next_one_is_there(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->log.segment, 1);
    assert_int_equal(fixture->log.allocated, 4); /* three ahead */
    for (uint64_t id = 1; fixture->log.segment == 1; id++) {
        append(fixture, id);
        run(fixture);
        sync_all(fixture);
        assert_true(id < 1000);
    }
    assert_int_equal(fixture->log.first, SEGMENT_SIZE);
    assert_true(fixture->log.previous_end <= SEGMENT_SIZE);
    settle(fixture);
    assert_int_equal(fixture->log.allocated, 5);
}

/* What is new is refused at once; pops and drops go on in one segment; two are for reclaim. */
static void a_full_disk_takes_what_ends_and_nothing_new(void **state)
{
    struct fixture *fixture = *state;
    fixture->is_full = true;
    fixture->live = 1000; /* nothing is garbage */
    *tr_log_live_of(&fixture->log, 1) = 1000;
    fixture->log.live_bytes = (uint64_t)1000 * ENTRY_SIZE;
    bool took_new = false;
    while (!fixture->log.is_refused || tr_log_has_room(&fixture->log, 64, false)) {
        took_new = tr_log_has_room(&fixture->log, 64, true);
        append(fixture, 1);
        run(fixture);
        sync_all(fixture);
        assert_true(fixture->writes < 2000);
    }
    assert_false(took_new);
    assert_true(tr_log_has_reserve(&fixture->log, 64)); /* for reclaim */
    run(fixture);
    assert_true(fixture->log.is_exhausted);

    fixture->is_full = false;
    unit_pass(&fixture->time, 2000);
    settle(fixture);
    assert_false(fixture->log.is_refused || fixture->log.is_exhausted);
    assert_true(tr_log_has_room(&fixture->log, 64, true));
}

static void garbage_is_reclaimed_and_the_live_rest_is_copied(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 3; i++)
        append_live(fixture, 1000 + i);
    run(fixture);
    sync_all(fixture);
    fixture->live = 3;
    for (unsigned i = 0; fixture->is_there[1]; i++) {
        append(fixture, i);
        run(fixture);
        sync_all(fixture);
        assert_true(i < 2000);
    }
    assert_int_equal(fixture->live, 0);
    assert_int_equal(fixture->log.reclaimed, 3);
    assert_int_equal(fixture->log.live_bytes, 3 * ENTRY_SIZE);
    assert_true(fixture->log.oldest > 1);
    crash(fixture);
    assert_int_equal(start(fixture), TR_LOG_SOUND); /* the log says itself that the first went */
}

/* Clients that fill what they are given of each batch leave reclaim its share: else the log would
 * grow until the disk is full, with nothing in it but garbage. */
static void clients_that_fill_every_batch_do_not_starve_reclaim(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 100; i++) {
        append_live(fixture, 1000 + i);
        run(fixture);
        sync_all(fixture);
    }
    fixture->live = 100;
    for (unsigned i = 0; fixture->is_there[1]; i++) {
        run(fixture);
        while (tr_log_has_room(&fixture->log, 64, true))
            append(fixture, i);
        sync_all(fixture);
        assert_true(i < 200);
    }
    assert_int_equal(fixture->log.reclaimed, 100);
}

static void a_segment_that_is_missing_is_missed(void **state)
{
    struct fixture *fixture = *state;
    append_live(fixture, 1); /* so that the segment is of use */
    for (uint64_t id = 2; fixture->log.segment == 1; id++) {
        append(fixture, id);
        run(fixture);
        sync_all(fixture);
    }
    append(fixture, 1);
    run(fixture);
    sync_all(fixture);
    crash(fixture);
    fixture->is_there[1] = false;
    assert_int_equal(start(fixture), TR_LOG_MISSING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_batch_gathers_while_another_is_written),
        TEST(a_ticket_for_nothing_new_waits_for_what_is_under_way),
        TEST(what_was_synced_is_replayed_in_its_order),
        TEST(a_write_that_was_torn_is_cut_off),
        TEST(a_ceiling_outlives_a_crash),
        TEST(a_full_segment_is_closed_and_the_next_one_is_there),
        TEST(a_full_disk_takes_what_ends_and_nothing_new),
        TEST(garbage_is_reclaimed_and_the_live_rest_is_copied),
        TEST(clients_that_fill_every_batch_do_not_starve_reclaim),
        TEST(a_segment_that_is_missing_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
