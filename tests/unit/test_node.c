/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is driven by hand, for what the simulator's dice hardly ever throw. */
#include "rooms.h"

#define REGION ((size_t)64 << 20)
#define TIMERS 400
#define DUE_MS 1000

struct fixture {
    void *region;
    struct tr_node *node;
    struct tr_effects effects;
    uint64_t now_ms;
    uint64_t written; /* the end of what the node wants on disk */
    uint32_t flights[TIMERS];
    uint32_t flight_count;
    uint32_t answer_count;
};

static void step(struct fixture *fixture, struct tr_event event);

/* A disk that allocates at once, and writes when the test says so. */
static void heed(struct fixture *fixture)
{
    struct tr_event allocated = {.kind = TR_EVENT_SEGMENT_ALLOCATED};
    for (uint32_t i = 0; i < fixture->effects.count; i++) {
        const struct tr_effect *effect = &fixture->effects.items[i];
        if (effect->kind == TR_EFFECT_LOG_WRITE) {
            fixture->written = effect->of.log.end;
        } else if (effect->kind == TR_EFFECT_SEGMENT_ALLOCATE) {
            allocated.of.segment.number = effect->of.segment.number;
        } else if (effect->kind == TR_EFFECT_FIRE) {
            assert_in_range(fixture->flight_count, 0, TIMERS - 1);
            fixture->flights[fixture->flight_count++] = effect->of.fire.flight;
        } else if (effect->kind == TR_EFFECT_ANSWER) {
            assert_int_equal(effect->of.answer.result, TR_DONE);
            fixture->answer_count++;
        }
    }
    if (allocated.of.segment.number != 0)
        step(fixture, allocated);
}

static void step(struct fixture *fixture, struct tr_event event)
{
    event.now_ms = fixture->now_ms;
    event.wall_ms = 1000000000 + fixture->now_ms;
    tr_node_step(fixture->node, &event, &fixture->effects);
    heed(fixture);
}

static void write_all(struct fixture *fixture)
{
    struct tr_event event = {.kind = TR_EVENT_LOG_WRITTEN};
    while (event.of.log.written != fixture->written) {
        event.of.log.written = fixture->written;
        event.of.log.synced = fixture->written;
        step(fixture, event);
    }
}

static void setup(struct fixture *fixture)
{
    struct tr_node_config config = unit_node_config();
    config.has_log = true;
    config.is_always_synced = true;
    config.flights_max = TIMERS;
    config.per_destination = TIMERS;
    config.backoff_ms = 60000;
    fixture->node = unit_node(&config, REGION, &fixture->region);
    step(fixture, (struct tr_event){.kind = TR_EVENT_RECOVERY_STARTED});
    struct tr_view_node self = {.address = config.address, .role = TR_ROLE_STAYING};
    step(fixture, (struct tr_event){.kind = TR_EVENT_VIEW_CHANGED, .of.view = {&self, 1}});
    for (unsigned i = 0; i < 100; i++) {
        write_all(fixture);
        step(fixture, (struct tr_event){.kind = TR_EVENT_TICK});
    }
}

static void create(struct fixture *fixture, uint64_t token)
{
    /* Of each there is another pop before the first is tried again, which then is a record of its
     * own: that takes more of the log than ends do. */
    struct tr_timer_body body = {
        .interval_ms = DUE_MS,
        .repeat_ms = (uint64_t)2 * DUE_MS,
        .uri = TR_SPAN("http://receiver/a-path-that-is-long-enough-to-fill-the-log-with-some-of-"
                       "them-before-the-disk-has-written-any"),
    };
    struct tr_event event = {.kind = TR_EVENT_REQUEST_RECEIVED};
    event.of.request.token = token;
    event.of.request.command = TR_COMMAND_CREATE;
    event.of.request.body = &body;
    step(fixture, event);
    write_all(fixture);
}

/* Callbacks end while the log has no room for what came of them; then it has. They share one
 * destination, which must not be gone with the first of them. */
static void callbacks_end_while_the_log_is_full(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct tr_node_stats stats;
    (void)state;
    assert_non_null(fixture);
    setup(fixture);
    for (uint64_t i = 0; i < TIMERS; i++)
        create(fixture, 1 + i);
    assert_int_equal(fixture->answer_count, TIMERS);
    fixture->now_ms = DUE_MS + 1;
    step(fixture, (struct tr_event){.kind = TR_EVENT_TICK});
    assert_int_equal(fixture->flight_count, TIMERS);
    struct tr_event ended = {.kind = TR_EVENT_CALLBACK_ENDED};
    ended.of.callback.result = TR_CALLBACK_ANSWERED;
    ended.of.callback.status = 500;
    for (uint32_t i = 0; i < TIMERS; i++) {
        ended.of.callback.flight = fixture->flights[i];
        step(fixture, ended);
    }
    tr_node_stats(fixture->node, &stats);
    assert_in_range(stats.flights, 3, TIMERS - 3); /* the log was full before all were booked */
    write_all(fixture);
    tr_node_stats(fixture->node, &stats);
    assert_int_equal(stats.flights, 0);
    assert_int_equal(stats.debts, TIMERS);
    assert_int_equal(stats.timers, TIMERS);
    assert_true(tr_node_valid(fixture->node));
    free(fixture->region);
    free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_end_while_the_log_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
