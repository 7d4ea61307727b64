/* SPDX-License-Identifier: Apache-2.0 */
/* The table of notes against a list of all of them. */
#include "unit.h"

#include "base/random.h"
#include "replication/recent.h"

#define NOTES 64
#define KEYS  200

static struct tr_recent_note notes[NOTES];

static struct tr_recent make(uint32_t cap)
{
    memset(notes, 0, sizeof notes);
    return (struct tr_recent){.notes = notes, .cap = cap};
}

static void a_note_is_found_until_another_wants_its_place(void **state)
{
    (void)state;
    struct tr_recent recent = make(1);
    assert_null(tr_recent_find(&recent, &(struct tr_key){7, 0}));
    struct tr_recent_note *note = tr_recent_place(&recent, &(struct tr_key){7, 0}, 100);
    assert_non_null(note);
    tr_recent_keep(&recent, note, 200);
    assert_ptr_equal(tr_recent_find(&recent, &(struct tr_key){7, 0}), note);
    assert_null(tr_recent_find(&recent, &(struct tr_key){7, 1}));
    assert_ptr_equal(tr_recent_place(&recent, &(struct tr_key){7, 0}, 100), note);
    assert_false(tr_recent_has_place(&recent, &(struct tr_key){8, 0}, 199));
    assert_null(tr_recent_place(&recent, &(struct tr_key){8, 0}, 199));
    assert_true(tr_recent_has_place(&recent, &(struct tr_key){8, 0}, 200));
    assert_ptr_equal(tr_recent_place(&recent, &(struct tr_key){8, 0}, 200), note);
    assert_null(tr_recent_find(&recent, &(struct tr_key){7, 0}));
}

/* What was noted and has not run out is there, whatever came after it. */
static void nothing_is_forgotten_before_its_time(void **state)
{
    (void)state;
    struct tr_random random = {.state = 1};
    uint64_t until_ms[KEYS] = {0};
    for (uint32_t cap = 1; cap <= NOTES; cap++) {
        struct tr_recent recent = make(cap);
        memset(until_ms, 0, sizeof until_ms);
        for (uint64_t now_ms = 1; now_ms < 2000; now_ms++) {
            uint64_t id = tr_random_below(&random, KEYS);
            struct tr_recent_note *note = tr_recent_place(&recent, &(struct tr_key){id, 0}, now_ms);
            if (note != NULL) {
                tr_recent_keep(&recent, note, now_ms + 1 + tr_random_below(&random, 40));
                until_ms[id] = note->until_ms;
            }
            id = tr_random_below(&random, KEYS);
            note = tr_recent_find(&recent, &(struct tr_key){id, 0});
            if (until_ms[id] > now_ms)
                assert_true(note != NULL && note->until_ms == until_ms[id]);
            assert_true(note == NULL || note->until_ms <= recent.busy_until_ms);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_is_found_until_another_wants_its_place),
        cmocka_unit_test(nothing_is_forgotten_before_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
