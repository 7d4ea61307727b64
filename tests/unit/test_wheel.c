/* SPDX-License-Identifier: Apache-2.0 */
/* The wheel against a sorted array, and its memory. */
#include "unit.h"

#include "base/random.h"
#include "memory/wheel.h"

#define REGION ((size_t)64 << 20)

struct fixture {
    void *region;
    struct tr_arena arena;
    struct tr_wheel wheel;
};

static void setup(struct fixture *fixture, uint64_t now_ms)
{
    fixture->region = calloc(1, REGION);
    assert_non_null(fixture->region);
    tr_arena_init(&fixture->arena, fixture->region, REGION);
    tr_wheel_init(&fixture->wheel, &fixture->arena, now_ms);
}

/* An armed entry of the model. */
struct armed {
    uint64_t due;
    uint32_t order;
};

static int by_due(const void *a, const void *b)
{
    const struct armed *x = a;
    const struct armed *y = b;
    if (x->due != y->due)
        return x->due < y->due ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static uint64_t draw_delay(struct tr_random *random)
{
    switch (tr_random_below(random, 6)) {
    case 0:
        return tr_random_below(random, 3);
    case 1:
        return tr_random_below(random, 300);
    case 2:
        return tr_random_below(random, 70000);
    case 3:
        return tr_random_below(random, 20000000);
    case 4:
        return tr_random_below(random, (uint64_t)1 << 34);
    default:
        return tr_random_below(random, (uint64_t)1 << 41);
    }
}

/* Takes everything due out of the wheel and holds it to the model. */
static void take_due(struct fixture *fixture, struct armed *model, size_t *count)
{
    struct tr_fifo_entry entry;
    qsort(model, *count, sizeof *model, by_due);
    size_t taken = 0;
    while (tr_wheel_pop(&fixture->wheel, &entry)) {
        assert_true(taken < *count);
        assert_int_equal(entry.ref, model[taken].order);
        assert_true(entry.due_ms <= fixture->wheel.now_ms);
        taken++;
    }
    assert_true(taken == *count || model[taken].due > fixture->wheel.now_ms);
    memmove(model, model + taken, (*count - taken) * sizeof *model);
    *count -= taken;
}

static void entries_come_out_by_deadline_then_by_arming(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture fixture;
        struct tr_random random = {seed};
        struct armed model[4096];
        size_t count = 0;
        uint64_t now = tr_random_below(&random, (uint64_t)1 << 40);
        setup(&fixture, now);
        for (uint32_t order = 1; order <= 3000; order++) {
            uint64_t delay = draw_delay(&random);
            /* Every few share a deadline, so that the order of arming shows. */
            uint64_t due = count > 0 && order % 3 == 0 ? model[count - 1].due : now + delay;
            assert_true(tr_wheel_arm(&fixture.wheel, order, due));
            model[count++] = (struct armed){due > now ? due : now, order};
            if (order % 4 == 0) {
                uint64_t wake = tr_wheel_wake_at(&fixture.wheel);
                now = order % 16 == 0 && wake != TR_WHEEL_NEVER && wake > now
                          ? wake
                          : now + draw_delay(&random) / 50;
                tr_wheel_advance(&fixture.wheel, now);
                take_due(&fixture, model, &count);
            }
            if (order % 500 == 0)
                assert_true(tr_wheel_valid(&fixture.wheel));
        }
        tr_wheel_advance(&fixture.wheel, now + ((uint64_t)1 << 43));
        take_due(&fixture, model, &count);
        assert_int_equal(count, 0);
        assert_int_equal(fixture.wheel.count, 0);
        assert_true(tr_wheel_valid(&fixture.wheel));
        free(fixture.region);
    }
}

static void waking_at_its_word_is_never_late(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tr_random random = {7};
    setup(&fixture, 1000);
    for (uint32_t i = 1; i <= 2000; i++)
        assert_true(tr_wheel_arm(&fixture.wheel, i, 1000 + tr_random_below(&random, 10000000)));
    uint64_t now = 1000;
    size_t taken = 0;
    for (unsigned steps = 0; taken < 2000; steps++) {
        assert_true(steps < 100000);
        now = tr_wheel_wake_at(&fixture.wheel);
        assert_true(now != TR_WHEEL_NEVER);
        tr_wheel_advance(&fixture.wheel, now);
        struct tr_fifo_entry entry;
        while (tr_wheel_pop(&fixture.wheel, &entry)) {
            assert_int_equal(entry.due_ms, now);
            taken++;
        }
    }
    assert_true(tr_wheel_wake_at(&fixture.wheel) == TR_WHEEL_NEVER);
    free(fixture.region);
}

/* A million timers in one minute: no single advance of a millisecond may move most of them. */
static void a_crowded_slot_is_emptied_little_by_little(void **state)
{
    (void)state;
    struct fixture fixture;
    setup(&fixture, 0);
    uint64_t start = 655360;
    for (uint32_t i = 1; i <= 200000; i++)
        assert_true(tr_wheel_arm(&fixture.wheel, i, start + i % 60000));
    uint32_t slot = 10;
    uint32_t most = 0;
    uint64_t now = 0;
    while (now < start) {
        uint32_t before = fixture.wheel.slots[2][slot].count;
        now = tr_wheel_wake_at(&fixture.wheel);
        tr_wheel_advance(&fixture.wheel, now);
        uint32_t moved = before - fixture.wheel.slots[2][slot].count;
        most = moved > most ? moved : most;
    }
    assert_true(most > 0 && most < 10000);
    free(fixture.region);
}

static void a_jump_of_years_takes_no_time(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tr_fifo_entry entry;
    setup(&fixture, 1);
    assert_true(tr_wheel_arm(&fixture.wheel, 1, (uint64_t)1 << 40));
    tr_wheel_advance(&fixture.wheel, ((uint64_t)1 << 40) - 1);
    assert_false(tr_wheel_pop(&fixture.wheel, &entry));
    tr_wheel_advance(&fixture.wheel, (uint64_t)1 << 40);
    assert_true(tr_wheel_pop(&fixture.wheel, &entry));
    free(fixture.region);
}

/* A machine that was suspended: all that is due since lies in one queue, and takes little more room
 * than it did in the slots. Each in a chunk of its own would take all the memory. */
static void what_is_overdue_after_a_long_time_takes_little_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    setup(&fixture, 1000);
    for (uint32_t i = 0; i < 400000; i++)
        assert_true(tr_wheel_arm(&fixture.wheel, 1 + i, 2000 + 9 * (uint64_t)i));
    tr_wheel_advance(&fixture.wheel, 2000 + 9 * (uint64_t)400000);
    assert_int_equal(fixture.wheel.ready.count, 400000);
    assert_true(tr_arena_used(&fixture.arena) < (size_t)400000 * 2 * 14);
    assert_true(tr_wheel_valid(&fixture.wheel));
    struct tr_fifo_entry entry;
    for (uint32_t i = 0; i < 400000; i++) {
        assert_true(tr_wheel_pop(&fixture.wheel, &entry));
        assert_int_equal(entry.ref, 1 + i);
    }
    free(fixture.region);
}

static void a_sweep_keeps_order_and_drops_what_is_stale(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tr_fifo_entry entry;
    setup(&fixture, 0);
    for (uint32_t i = 1; i <= 1000; i++)
        assert_true(tr_wheel_arm(&fixture.wheel, i, 5000));
    /* Half a round, with new entries arriving meanwhile, then time passes. */
    for (unsigned i = 0; i < 500 && tr_wheel_sweep_take(&fixture.wheel, &entry); i++) {
        if (entry.ref % 2 == 0)
            tr_wheel_sweep_keep(&fixture.wheel, entry);
    }
    assert_true(tr_wheel_arm(&fixture.wheel, 1001, 5000));
    assert_true(tr_wheel_valid(&fixture.wheel));
    tr_wheel_advance(&fixture.wheel, 4900);
    while (tr_wheel_sweep_take(&fixture.wheel, &entry))
        tr_wheel_sweep_keep(&fixture.wheel, entry);
    assert_true(tr_wheel_valid(&fixture.wheel));
    tr_wheel_advance(&fixture.wheel, 5000);
    uint32_t last = 0;
    unsigned count = 0;
    while (tr_wheel_pop(&fixture.wheel, &entry)) {
        assert_true(entry.ref > last);
        assert_true(entry.ref > 500 || entry.ref % 2 == 0);
        last = entry.ref;
        count++;
    }
    assert_int_equal(count, 751);
    free(fixture.region);
}

static void chunks_go_back_to_the_arena(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tr_fifo_entry entry;
    setup(&fixture, 0);
    size_t before = tr_arena_used(&fixture.arena);
    for (uint32_t i = 1; i <= 50000; i++)
        assert_true(tr_wheel_arm(&fixture.wheel, i, i));
    assert_true(tr_arena_used(&fixture.arena) > before);
    tr_wheel_advance(&fixture.wheel, 60000);
    while (tr_wheel_pop(&fixture.wheel, &entry)) {
    }
    assert_int_equal(tr_arena_used(&fixture.arena), before);
    assert_true(tr_arena_valid(&fixture.arena));
    free(fixture.region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_out_by_deadline_then_by_arming),
        cmocka_unit_test(waking_at_its_word_is_never_late),
        cmocka_unit_test(a_crowded_slot_is_emptied_little_by_little),
        cmocka_unit_test(a_jump_of_years_takes_no_time),
        cmocka_unit_test(what_is_overdue_after_a_long_time_takes_little_memory),
        cmocka_unit_test(a_sweep_keeps_order_and_drops_what_is_stale),
        cmocka_unit_test(chunks_go_back_to_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
