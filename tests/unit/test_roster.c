/* SPDX-License-Identifier: Apache-2.0 */
/* The roster, as it is written and read, and what a change makes of it. */
#include "unit.h"

#include "cluster/change.h"
#include "wire/roster.h"

#define TEST(name) cmocka_unit_test(name)

static struct tr_span span(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

/* "a b+ c- d!": a stays, b joins, c leaves, d is lost. */
static struct tr_roster roster_of(const char *text)
{
    struct tr_roster roster = {.cluster = 7, .epoch = 3};
    while (*text != '\0') {
        size_t size = strcspn(text, " ");
        char sign = text[size - 1];
        enum tr_role role = sign == '+'   ? TR_ROLE_JOINING
                            : sign == '-' ? TR_ROLE_LEAVING
                            : sign == '!' ? TR_ROLE_LOST
                                          : TR_ROLE_STAYING;
        struct tr_span name = {text, role == TR_ROLE_STAYING ? size : size - 1};
        assert_true(tr_roster_set(&roster, name, role));
        text += size;
        text += *text == ' ';
    }
    tr_roster_seal(&roster);
    return roster;
}

static size_t encode(const struct tr_roster *roster, uint8_t *bytes)
{
    struct tr_writer out = tr_writer_on(bytes, TR_ROSTER_SIZE_MAX);
    tr_roster_put(&out, roster);
    assert_false(out.is_full);
    return out.size;
}

static bool decode(const uint8_t *bytes, size_t size, struct tr_roster *roster)
{
    struct tr_reader in = tr_reader_on(bytes, size);
    return tr_roster_get(&in, roster) && in.at == in.end;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint8_t bytes[TR_ROSTER_SIZE_MAX];
    struct tr_roster roster = roster_of("10.0.0.2:7253 10.0.0.1:7253+ 10.0.0.3:7253- [::1]:7253!");
    struct tr_roster read;
    assert_true(decode(bytes, encode(&roster, bytes), &read));
    assert_int_equal(read.count, 4);
    assert_true(read.cluster == 7 && read.epoch == 3 && read.id == roster.id);
    assert_true(tr_change_is_none(&roster, &read));
    assert_string_equal(read.nodes[0].address, "10.0.0.1:7253"); /* by address */
}

static void the_order_in_which_nodes_were_added_makes_no_difference(void **state)
{
    (void)state;
    struct tr_roster a = roster_of("a b+ c");
    struct tr_roster b = roster_of("c a b+");
    struct tr_roster c = roster_of("c a b");
    assert_true(a.id == b.id);
    assert_true(a.id != c.id);
}

static void what_is_cut_short_or_changed_is_none_or_another(void **state)
{
    (void)state;
    uint8_t bytes[TR_ROSTER_SIZE_MAX];
    struct tr_roster roster = roster_of("a b+ c- d!");
    struct tr_roster read;
    size_t size = encode(&roster, bytes);
    for (size_t i = 0; i < size; i++)
        assert_false(decode(bytes, i, &read));
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_true(!decode(bytes, size, &read) || read.id != roster.id);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static void epochs_beyond_reason_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[TR_ROSTER_SIZE_MAX];
    struct tr_roster roster = roster_of("a b");
    struct tr_roster read;
    roster.epoch = TR_EPOCH_MAX + 1;
    assert_false(decode(bytes, encode(&roster, bytes), &read));
    roster.epoch = 0; /* a list of the configuration that was heeded in part once had none */
    assert_true(decode(bytes, encode(&roster, bytes), &read) && read.epoch == 0);
}

static void it_holds_so_many_nodes_and_no_more(void **state)
{
    (void)state;
    char name[32];
    struct tr_roster roster = {.epoch = 1};
    for (unsigned i = 0; i < TR_VIEW_NODES_MAX; i++) {
        snprintf(name, sizeof name, "node-%u:7253", i);
        assert_true(tr_roster_set(&roster, span(name), TR_ROLE_STAYING));
    }
    assert_false(tr_roster_set(&roster, span("one-more:7253"), TR_ROLE_JOINING));
    assert_true(tr_roster_set(&roster, span("node-7:7253"), TR_ROLE_LEAVING)); /* it is there */
    assert_true(tr_roster_set(&roster, span("node-8:7253"), TR_ROLE_NONE));
    assert_true(tr_roster_set(&roster, span("one-more:7253"), TR_ROLE_JOINING));
}

static void the_higher_epoch_holds_and_of_two_the_higher_id(void **state)
{
    (void)state;
    assert_true(tr_roster_compare(2, 1, 1, 9) > 0);
    assert_true(tr_roster_compare(1, 9, 2, 1) < 0);
    assert_true(tr_roster_compare(2, 9, 2, 1) > 0);
    assert_true(tr_roster_compare(2, 1, 2, 1) == 0);
}

static void when_it_is_through_who_joined_stays_and_who_left_is_gone(void **state)
{
    (void)state;
    struct tr_roster roster = roster_of("a b+ c- d!");
    struct tr_roster after = roster_of("a b");
    assert_int_equal(tr_change_count_left(&roster), 2);
    tr_roster_finish(&roster);
    assert_true(tr_change_is_none(&roster, &after));
    assert_true(roster.epoch == 4);
}

/* What the configuration asks for: by its difference from what was heeded. */
static void check_lists(const char *heeded, const char *configured, const char *now,
                        const char *wanted)
{
    struct tr_roster was = roster_of(heeded);
    struct tr_roster is = roster_of(configured);
    struct tr_roster next = roster_of(now);
    struct tr_roster after = roster_of(wanted);
    bool has_any = tr_change_by_lists(&was, &is, &next);
    if (!tr_change_is_none(&next, &after))
        fail_msg("%s, then %s, in %s", heeded, configured, now);
    assert_int_equal(has_any, strcmp(now, wanted) != 0);
}

static void the_configuration_asks_by_its_difference(void **state)
{
    (void)state;
    check_lists("a b", "a b c+", "a b", "a b c+");    /* the first node's file */
    check_lists("a b", "a b c+", "a b c+", "a b c+"); /* the second one's: it is so already */
    check_lists("a b", "a b c", "a b", "a b c+");     /* a node that is simply there joins */
    check_lists("a b c+", "a b c", "a b c", "a b c"); /* the end of it asks for nothing, */
    check_lists("a b c-", "a b", "a b", "a b");       /* nor that of a leave */
    check_lists("a b", "a b-", "a b", "a b-");
    check_lists("a b-", "a b", "a b-", "a b+"); /* taken back */
    check_lists("a b c+", "a b c-", "a b c+", "a b c-");
    check_lists("a b c+", "a b", "a b c+", "a b c-"); /* likewise */
    check_lists("a b c", "a b", "a b c", "a b c");    /* a line that is gone asks for nothing */
    check_lists("a b", "a b c+", "a b c!", "a b c!"); /* one that is lost has to be gone first */
}

static void while_a_change_is_under_way_another_may_only_take_it_back(void **state)
{
    (void)state;
    struct tr_roster roster = roster_of("a b+ c-");
    struct tr_roster next = roster_of("a b- c+ d+");
    struct tr_roster kept = roster_of("a b- c+");
    assert_false(tr_change_keep_allowed(&roster, &next)); /* d has to wait */
    assert_true(tr_change_is_none(&next, &kept));
    next = roster_of("a! b+ c-");
    assert_true(tr_change_keep_allowed(&roster, &next));
    roster = roster_of("a b c");
    next = roster_of("a- b c d+");
    assert_true(tr_change_keep_allowed(&roster, &next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(the_order_in_which_nodes_were_added_makes_no_difference),
        TEST(what_is_cut_short_or_changed_is_none_or_another),
        TEST(epochs_beyond_reason_are_refused),
        TEST(it_holds_so_many_nodes_and_no_more),
        TEST(the_higher_epoch_holds_and_of_two_the_higher_id),
        TEST(when_it_is_through_who_joined_stays_and_who_left_is_gone),
        TEST(the_configuration_asks_by_its_difference),
        TEST(while_a_change_is_under_way_another_may_only_take_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
