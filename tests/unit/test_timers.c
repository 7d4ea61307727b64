/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room `timers` by hand: requests, the wheel, what came of pops and the replay of the log are
 * called as a node would, on the rooms of one that keeps everything in memory. Time passes when
 * the test says so, and nobody else decides what happens.
 */
#include "rooms.h"

#include "node/durable.h"
#include "node/parts.h"
#include "pops/destination.h"
#include "pops/flight.h"
#include "timers/due.h"
#include "timers/outcome.h"
#include "timers/replay.h"
#include "timers/request.h"

#define REGION     ((size_t)64 << 20)
#define ATTEMPTS   3
#define BACKOFF_MS 100
#define KEEP_MS    60000
#define URI        "http://receiver/path"

struct fixture {
    void *region;
    struct tr_node *node;
    struct tr_effects effects;
    enum tr_result result; /* of the last answer */
    struct tr_timer_text location;
    uint32_t flights[64]; /* under way */
    uint32_t flight_count;
    uint32_t shown; /* timers of the last page */
    uint32_t dead;  /* notes of dead pops */
};

static void heed(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->effects.count; i++) {
        const struct tr_effect *effect = &fixture->effects.items[i];
        if (effect->kind == TR_EFFECT_ANSWER) {
            fixture->result = effect->of.answer.result;
            if (effect->of.answer.has_location)
                fixture->location = effect->of.answer.location;
        } else if (effect->kind == TR_EFFECT_ANSWER_TIMER) {
            fixture->result = TR_DONE;
        } else if (effect->kind == TR_EFFECT_ANSWER_PAGE) {
            fixture->shown = effect->of.page.count;
        } else if (effect->kind == TR_EFFECT_FIRE) {
            assert_true(fixture->flight_count < UNIT_COUNT(fixture->flights));
            fixture->flights[fixture->flight_count++] = effect->of.fire.flight;
        } else if (effect->kind == TR_EFFECT_NOTE) {
            fixture->dead += effect->of.note.what == TR_NOTE_DEAD;
        }
    }
    fixture->effects.count = 0;
}

static void begin_node(struct fixture *fixture, bool is_started)
{
    struct tr_node_config config = unit_node_config();
    config.segment_size = (size_t)1 << 20;
    config.attempts_max = ATTEMPTS;
    config.backoff_ms = BACKOFF_MS;
    config.dead_keep_ms = KEEP_MS;
    config.key_keep_ms = KEEP_MS;
    config.opaque_max = 1000;
    config.operations_max = 4;
    config.messages_max = 64;
    fixture->node = unit_node(&config, REGION, &fixture->region);
    if (!is_started)
        return;
    const struct tr_view_node self = {.address = config.address, .role = TR_ROLE_STAYING};
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED, .now_ms = 1000, .wall_ms = 5000};
    tr_node_step(fixture->node, &event, &fixture->effects);
    event = (struct tr_event){.kind = TR_EVENT_VIEW_CHANGED, .now_ms = 1000, .wall_ms = 5000};
    event.of.view.nodes = &self;
    event.of.view.count = 1;
    tr_node_step(fixture->node, &event, &fixture->effects);
    assert_true(fixture->node->timers.is_ready);
    fixture->effects.count = 0;
}

static int set_up(void **state)
{
    struct fixture *fixture = unit_zeros(sizeof *fixture);
    begin_node(fixture, true);
    *state = fixture;
    return 0;
}

static int set_up_unstarted(void **state)
{
    struct fixture *fixture = unit_zeros(sizeof *fixture);
    begin_node(fixture, false);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    assert_true(tr_node_valid(fixture->node));
    free(fixture->region);
    free(fixture);
    return 0;
}

/* ---- what a node would do ---- */

static void ask(struct fixture *fixture, struct tr_event event)
{
    event.kind = TR_EVENT_REQUEST_RECEIVED;
    event.of.request.token = 1;
    fixture->result = TR_RESULTS;
    tr_request_received(&fixture->node->timers, &event, &fixture->effects);
    tr_durable_run(fixture->node, &fixture->effects);
    heed(fixture);
}

static void create(struct fixture *fixture, uint64_t interval_ms, uint64_t repeat_ms)
{
    const struct tr_timer_body body = {
        .interval_ms = interval_ms, .repeat_ms = repeat_ms, .uri = TR_SPAN(URI), .opaque = {"", 0}};
    struct tr_event event = {.of.request.command = TR_COMMAND_CREATE};
    event.of.request.body = &body;
    ask(fixture, event);
    assert_int_equal(fixture->result, TR_DONE);
}

static enum tr_result ask_of(struct fixture *fixture, enum tr_command command)
{
    static const struct tr_query all = {.limit = 100};
    const struct tr_timer_body body = {.interval_ms = 5000, .uri = TR_SPAN(URI), .opaque = {"", 0}};
    struct tr_event event = {.of.request.command = command};
    event.of.request.timer = fixture->location;
    event.of.request.body = &body;
    event.of.request.query = &all;
    ask(fixture, event);
    return fixture->result;
}

/* Time passes, and what is due is handed out. */
static void pass(struct fixture *fixture, uint64_t ms)
{
    unit_pass(&fixture->node->time, ms);
    tr_destinations_run(&fixture->node->pops, &fixture->effects);
    tr_due_run(&fixture->node->timers, &fixture->effects);
    heed(fixture);
}

static void end(struct fixture *fixture, unsigned status)
{
    struct tr_event event = {.kind = TR_EVENT_CALLBACK_ENDED};
    assert_true(fixture->flight_count > 0);
    event.of.callback.flight = fixture->flights[--fixture->flight_count];
    event.of.callback.result = TR_CALLBACK_ANSWERED;
    event.of.callback.status = status;
    tr_flight_ended(&fixture->node->pops, &event);
    tr_outcome_run(&fixture->node->timers, &fixture->effects);
    tr_durable_run(fixture->node, &fixture->effects);
    heed(fixture);
}

/* ---- tests ---- */

static void a_timer_pops_when_it_is_due_and_not_before(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 1000, 0);
    pass(fixture, 1000);
    assert_int_equal(fixture->flight_count, 0); /* the millisecond that had begun counts whole */
    pass(fixture, 1);
    assert_int_equal(fixture->flight_count, 1);
    assert_int_equal(ask_of(fixture, TR_COMMAND_READ), TR_DONE);
    end(fixture, 200);
    assert_int_equal(ask_of(fixture, TR_COMMAND_READ), TR_NOT_FOUND);
    assert_int_equal(fixture->node->timers.stats.pops_delivered, 1);
    assert_int_equal(fixture->node->timers.stats.timers, 0);
}

static void a_timer_repeats_as_often_as_it_was_asked_to(void **state)
{
    struct fixture *fixture = *state;
    unsigned pops = 0;
    create(fixture, 100, 350);
    for (unsigned i = 0; i < 100; i++) {
        pass(fixture, 10);
        for (; fixture->flight_count > 0; pops++)
            end(fixture, 200);
    }
    assert_int_equal(pops, 3);
    assert_int_equal(ask_of(fixture, TR_COMMAND_READ), TR_NOT_FOUND);
}

static void a_cancelled_timer_does_not_pop(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 100, 0);
    assert_int_equal(ask_of(fixture, TR_COMMAND_CANCEL), TR_DONE);
    pass(fixture, 1000);
    assert_int_equal(fixture->flight_count, 0);
    assert_int_equal(ask_of(fixture, TR_COMMAND_READ), TR_NOT_FOUND);
    assert_int_equal(ask_of(fixture, TR_COMMAND_CANCEL), TR_DONE); /* once more is the same */
}

static void a_replaced_timer_pops_at_its_new_time(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 100, 0);
    assert_int_equal(ask_of(fixture, TR_COMMAND_REPLACE), TR_DONE); /* in five seconds */
    pass(fixture, 1000);
    assert_int_equal(fixture->flight_count, 0);
    pass(fixture, 4001);
    assert_int_equal(fixture->flight_count, 1);
    end(fixture, 200);
}

/* What it brings about is of the old version: it changes nothing of the new one. */
static void a_callback_that_ends_after_its_timer_was_replaced_is_for_nothing(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 100, 0);
    pass(fixture, 101);
    assert_int_equal(fixture->flight_count, 1);
    assert_int_equal(ask_of(fixture, TR_COMMAND_REPLACE), TR_DONE);
    end(fixture, 500);
    assert_int_equal(fixture->node->timers.stats.debts, 0);
    pass(fixture, 5001);
    assert_int_equal(fixture->flight_count, 1);
    end(fixture, 200);
    assert_int_equal(ask_of(fixture, TR_COMMAND_READ), TR_NOT_FOUND);
}

static void a_pop_that_fails_is_tried_again_later_and_later_and_then_is_dead(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 100, 0);
    pass(fixture, 101);
    uint64_t waited[ATTEMPTS] = {0};
    for (unsigned attempt = 1; attempt < ATTEMPTS; attempt++) {
        end(fixture, 503);
        while (fixture->flight_count == 0 && waited[attempt] < 10000) {
            pass(fixture, 10);
            waited[attempt] += 10;
        }
    }
    assert_in_range(waited[1], BACKOFF_MS / 2, 2 * BACKOFF_MS);
    assert_in_range(waited[2], BACKOFF_MS, 4 * BACKOFF_MS);
    assert_int_equal(fixture->dead, 0);
    end(fixture, 503);
    assert_int_equal(fixture->dead, 1);
    assert_int_equal(fixture->node->timers.stats.dead, 1);
    pass(fixture, 10000);
    assert_int_equal(fixture->flight_count, 0);

    assert_int_equal(ask_of(fixture, TR_COMMAND_REDRIVE), TR_DONE);
    pass(fixture, 10);
    assert_int_equal(fixture->flight_count, 1);
    end(fixture, 200);
    assert_int_equal(fixture->node->timers.stats.dead, 0);
}

static void a_dead_pop_is_forgotten_when_it_was_kept_long_enough(void **state)
{
    struct fixture *fixture = *state;
    create(fixture, 0, 0);
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        for (unsigned k = 0; k < 100 && fixture->flight_count == 0; k++)
            pass(fixture, 10);
        end(fixture, 503);
    }
    assert_int_equal(fixture->node->timers.stats.dead, 1);
    pass(fixture, KEEP_MS + 10);
    assert_int_equal(fixture->node->timers.stats.dead, 0);
}

static void a_request_with_a_key_is_the_same_once_more(void **state)
{
    struct fixture *fixture = *state;
    const struct tr_timer_body body = {.interval_ms = 1000, .uri = TR_SPAN(URI), .opaque = {"", 0}};
    struct tr_event event = {.of.request.command = TR_COMMAND_CREATE};
    event.of.request.body = &body;
    event.of.request.key = TR_SPAN("order 17");
    ask(fixture, event);
    struct tr_timer_text first = fixture->location;
    ask(fixture, event);
    assert_int_equal(fixture->result, TR_DONE);
    assert_int_equal(fixture->location.id, first.id);
    assert_int_equal(fixture->node->timers.stats.timers, 1);
    event.of.request.key = TR_SPAN("order 18");
    ask(fixture, event);
    assert_int_not_equal(fixture->location.id, first.id);
    assert_int_equal(ask_of(fixture, TR_COMMAND_LIST), TR_RESULTS);
    assert_int_equal(fixture->shown, 2);
}

/* ---- what a log says ---- */

static struct tr_log_entry entry_of(uint64_t id, uint64_t version)
{
    return (struct tr_log_entry){
        .type = TR_LOG_RECORD,
        .record = {.head = {.key.id = id,
                            .order = {.version = version, .sequence = 1},
                            .due_ms = 100000,
                            .factor = 2,
                            .replicas = {.count = 1}},
                   .interval_ms = 1000,
                   .uri = TR_SPAN(URI)},
    };
}

static struct tr_record held(struct fixture *fixture, uint64_t id)
{
    struct tr_record record;
    tr_ref ref = tr_book_find(&fixture->node->timers.book, &(struct tr_key){.id = id});
    assert_int_not_equal(ref, TR_ARENA_NONE);
    tr_book_unpack(&fixture->node->timers.book, ref, &record);
    return record;
}

static void entries_are_replayed_by_their_order_not_by_their_place(void **state)
{
    struct fixture *fixture = *state;
    struct tr_timers *timers = &fixture->node->timers;
    struct tr_log_entry newer = entry_of(7, 200);
    struct tr_log_entry older = entry_of(7, 100);
    newer.record.interval_ms = 2000;
    timers->log->config.batch_cap = 65536;
    assert_int_equal(tr_replay_entry(timers, &newer, 1), TR_LOG_SOUND);
    assert_int_equal(tr_replay_entry(timers, &older, 2), TR_LOG_SOUND);
    assert_int_equal(held(fixture, 7).interval_ms, 2000);
    struct tr_log_entry end = {.type = TR_LOG_TOMBSTONE, .record.head = older.record.head};
    assert_int_equal(tr_replay_entry(timers, &end, 3), TR_LOG_SOUND);
    assert_int_equal(timers->stats.timers, 1); /* it ends what is older than what is there */
    end.record.head.order.version = 200;
    assert_int_equal(tr_replay_entry(timers, &end, 4), TR_LOG_SOUND);
    assert_int_equal(timers->stats.timers, 0);
}

/* A log that was repaired may name nodes that it does not know any more. */
static void what_no_node_would_have_written_is_brought_within_bounds(void **state)
{
    struct fixture *fixture = *state;
    struct tr_timers *timers = &fixture->node->timers;
    struct tr_log_entry strange = entry_of(7, 100);
    struct tr_head *head = &strange.record.head;
    head->factor = 0;
    head->lag_ms = head->due_ms + 1000;
    head->order.moves = UINT32_MAX;
    head->flags = TR_RECORD_MOVING;
    head->replicas.count = 2;
    head->replicas.members[1] = 1000;
    head->from.count = 1;
    head->from.members[0] = 999;
    timers->log->config.batch_cap = 65536;
    assert_int_equal(tr_replay_entry(timers, &strange, 1), TR_LOG_SOUND);
    struct tr_record record = held(fixture, 7);
    assert_int_equal(record.head.factor, 1);
    assert_true(record.head.lag_ms <= record.head.due_ms);
    assert_int_equal(record.head.order.moves, 0);
    assert_int_equal(record.head.flags, 0);
    assert_int_equal(record.head.replicas.count, 1);
    assert_int_equal(record.head.replicas.members[0], 0);
    assert_int_equal(record.head.from.count, 0);
}

static void a_record_that_no_batch_could_hold_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct tr_log_entry large = entry_of(7, 100);
    fixture->node->timers.log->config.batch_cap = 2048;
    assert_int_equal(tr_replay_entry(&fixture->node->timers, &large, 1), TR_LOG_TOO_LARGE);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_REPLAY(name) cmocka_unit_test_setup_teardown(name, set_up_unstarted, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_timer_pops_when_it_is_due_and_not_before),
        TEST(a_timer_repeats_as_often_as_it_was_asked_to),
        TEST(a_cancelled_timer_does_not_pop),
        TEST(a_replaced_timer_pops_at_its_new_time),
        TEST(a_callback_that_ends_after_its_timer_was_replaced_is_for_nothing),
        TEST(a_pop_that_fails_is_tried_again_later_and_later_and_then_is_dead),
        TEST(a_dead_pop_is_forgotten_when_it_was_kept_long_enough),
        TEST(a_request_with_a_key_is_the_same_once_more),
        TEST_REPLAY(entries_are_replayed_by_their_order_not_by_their_place),
        TEST_REPLAY(what_no_node_would_have_written_is_brought_within_bounds),
        TEST_REPLAY(a_record_that_no_batch_could_hold_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
