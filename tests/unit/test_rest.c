/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/rest.h"
#include "unit.h"

#define CROWD  64
#define BEGAN  32000 /* when the second period does, and when a batch has just gone out */
#define LATELY (BEGAN + 10)

/* Of a crowd, each of which has asked in the period before, so many ask now: so long after they
 * were answered. */
static struct tr_rest after_pause(unsigned crowd, unsigned asked, uint64_t pause_us)
{
    struct tr_rest rest = {.period = 2};
    struct tr_rest_client clients[CROWD] = {0};
    for (unsigned i = 0; i < crowd; i++) {
        clients[i].asked_in = 1;
        tr_rest_asked(&rest, &clients[i], BEGAN - 20000);
        tr_rest_event(&rest, TR_EVENT_REQUEST_RECEIVED);
        tr_rest_answered(&rest, &clients[i], LATELY - pause_us);
    }
    rest.work = 1; /* it did not all come at once */
    tr_rest_ends(&rest, BEGAN);
    for (unsigned i = 0; i < asked; i++) {
        tr_rest_asked(&rest, &clients[i], LATELY);
        tr_rest_event(&rest, TR_EVENT_REQUEST_RECEIVED);
    }
    return rest;
}

static struct tr_rest after(unsigned crowd, unsigned asked)
{
    return after_pause(crowd, asked, 10000);
}

static bool takes(unsigned crowd, unsigned asked)
{
    struct tr_rest rest = after(crowd, asked);
    return tr_rest_takes(&rest, LATELY);
}

static void a_request_rests_where_most_of_a_crowd_may_still_ask(void **state)
{
    (void)state;
    assert_true(takes(64, 1));
    assert_true(takes(64, 20));
    assert_true(takes(17, 1));
}

static void it_does_not_where_those_who_ask_all_wait(void **state)
{
    (void)state;
    assert_false(takes(1, 1));
    assert_false(takes(8, 1));
    assert_false(takes(32, 32));
    assert_false(takes(64, 32));
}

static void it_does_not_where_somebody_asks_when_it_is_answered(void **state)
{
    (void)state;
    struct tr_rest rest = after_pause(64, 1, 100);
    assert_false(tr_rest_takes(&rest, LATELY));
    /* One that does so in a crowd of others is not kept either. */
    struct tr_rest_client eager = {.asked_in = rest.period, .answered_us = LATELY - 100};
    rest = after(64, 3);
    tr_rest_asked(&rest, &eager, LATELY);
    assert_false(tr_rest_takes(&rest, LATELY));
    tr_rest_answered(&rest, &eager, LATELY);
    assert_true(tr_rest_takes(&rest, LATELY));
    tr_rest_asked(&rest, &eager, LATELY + 20);
    tr_rest_gone(&rest, &eager);
    assert_true(tr_rest_takes(&rest, LATELY + 30));
}

static void who_connects_for_each_request_is_no_crowd(void **state)
{
    (void)state;
    struct tr_rest rest = {.period = 2};
    for (unsigned i = 0; i < 40; i++) {
        struct tr_rest_client client = {0};
        tr_rest_asked(&rest, &client, BEGAN - 20000);
        tr_rest_event(&rest, TR_EVENT_REQUEST_RECEIVED);
        if (i == 39)
            tr_rest_ends(&rest, BEGAN);
        tr_rest_answered(&rest, &client, BEGAN - 19000);
    }
    rest.handed = 1;
    tr_rest_event(&rest, TR_EVENT_REQUEST_RECEIVED);
    assert_false(tr_rest_takes(&rest, LATELY));
}

static void a_rest_is_over_in_time(void **state)
{
    (void)state;
    struct tr_rest rest = after(64, 1);
    assert_true(tr_rest_takes(&rest, BEGAN + 500));
    assert_false(tr_rest_takes(&rest, BEGAN + 800));
    assert_false(tr_rest_takes(&rest, BEGAN + 1000000));
}

static void what_is_much_does_not_rest_nor_what_follows_it(void **state)
{
    (void)state;
    struct tr_rest rest = after(64, 1);
    for (unsigned i = 0; i < 60; i++)
        tr_rest_event(&rest, TR_EVENT_FRAME_RECEIVED);
    assert_false(tr_rest_takes(&rest, LATELY));
    tr_rest_ends(&rest, LATELY);
    tr_rest_event(&rest, TR_EVENT_CALLBACK_ENDED);
    assert_false(tr_rest_takes(&rest, LATELY + 10));
}

static void what_nobody_waits_for_rests(void **state)
{
    (void)state;
    struct tr_rest rest = after(1, 0);
    assert_false(tr_rest_takes(&rest, LATELY)); /* there is nothing */
    tr_rest_event(&rest, TR_EVENT_CALLBACK_ENDED);
    assert_true(tr_rest_takes(&rest, LATELY));
    tr_rest_event(&rest, TR_EVENT_FRAME_RECEIVED);
    assert_false(tr_rest_takes(&rest, LATELY));
}

static void who_has_not_asked_for_long_is_of_no_crowd(void **state)
{
    (void)state;
    struct tr_rest rest = after(64, 20);
    for (unsigned i = 0; i < 20; i++) {
        struct tr_rest_client client = {.asked_in = 1, .under_way = 1};
        tr_rest_answered(&rest, &client, LATELY);
        tr_rest_asked(&rest, &client, BEGAN + 20000);
        tr_rest_gone(&rest, &client);
    }
    tr_rest_ends(&rest, BEGAN + 1000000);
    tr_rest_event(&rest, TR_EVENT_REQUEST_RECEIVED);
    rest.handed = 1;
    assert_false(tr_rest_takes(&rest, BEGAN + 1000010));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_rests_where_most_of_a_crowd_may_still_ask),
        cmocka_unit_test(it_does_not_where_those_who_ask_all_wait),
        cmocka_unit_test(it_does_not_where_somebody_asks_when_it_is_answered),
        cmocka_unit_test(who_connects_for_each_request_is_no_crowd),
        cmocka_unit_test(a_rest_is_over_in_time),
        cmocka_unit_test(what_is_much_does_not_rest_nor_what_follows_it),
        cmocka_unit_test(what_nobody_waits_for_rests),
        cmocka_unit_test(who_has_not_asked_for_long_is_of_no_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
