/* SPDX-License-Identifier: Apache-2.0 */
#include "resp/glob.h"
#include "unit.h"

static const struct {
    const char *pattern;
    const char *text;
    bool matches;
} cases[] = {
    {"", "", true},
    {"", "a", false},
    {"*", "", true},
    {"**", "", false},
    {"*", "anything", true},
    {"a*", "abc", true},
    {"*c", "abc", true},
    {"a*c", "abcbc", true},
    {"a*c", "abcb", false},
    {"a**c", "ac", true},
    {"h?llo", "hello", true},
    {"h?llo", "hllo", false},
    {"h[ae]llo", "hallo", true},
    {"h[ae]llo", "hillo", false},
    {"h[^e]llo", "hallo", true},
    {"h[^e]llo", "hello", false},
    {"h[a-c]llo", "hbllo", true},
    {"h[c-a]llo", "hbllo", true},
    {"h[a-c]llo", "hdllo", false},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"[\\]]", "]", true},
    {"[a", "a", true},
    {"[", "[", false},
    {"a\\", "a\\", true},
    {"a?", "a", false},
};

static bool fits(struct tr_span pattern, struct tr_span text)
{
    uint64_t steps = TR_GLOB_STEPS;
    return tr_glob_matches(pattern, text, &steps);
}

static struct tr_span span_of(const char *text)
{
    return (struct tr_span){text, strlen(text)};
}

static void patterns_match_as_those_of_redis_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < UNIT_COUNT(cases); i++)
        assert_int_equal(fits(span_of(cases[i].pattern), span_of(cases[i].text)), cases[i].matches);
}

/* With a step back for each star this would take longer than anybody lives. */
static void many_stars_take_no_longer_than_the_product_of_both_sizes(void **state)
{
    static char pattern[2048];
    static char text[4096];
    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    pattern[sizeof pattern - 1] = 'b';
    assert_false(
        fits((struct tr_span){pattern, sizeof pattern}, (struct tr_span){text, sizeof text}));
}

static void no_pattern_has_more_than_a_thousand_stars(void **state)
{
    static char pattern[2002];
    static char text[1001];
    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = i % 2 == 0 ? '*' : '?';
    assert_true(fits((struct tr_span){pattern, 2000}, (struct tr_span){text, 1001}));
    assert_true(fits((struct tr_span){pattern, 2001}, (struct tr_span){text, 1001}));
    assert_false(fits((struct tr_span){pattern, 2002}, (struct tr_span){text, 1001}));
    memset(pattern, '*', 1500);
    pattern[1500] = 'a';
    assert_true(fits((struct tr_span){pattern, 1501}, (struct tr_span){text, 1001}));
}

static void a_pattern_that_takes_too_long_is_given_up(void **state)
{
    static char pattern[32768];
    static char text[65536];
    (void)state;
    memset(text, 'a', sizeof text);
    memset(pattern, '?', sizeof pattern);
    pattern[0] = '*';
    pattern[sizeof pattern - 1] = 'b';
    uint64_t steps = 1000000;
    assert_false(tr_glob_matches((struct tr_span){pattern, sizeof pattern},
                                 (struct tr_span){text, sizeof text}, &steps));
    assert_int_equal(steps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_those_of_redis_do),
        cmocka_unit_test(many_stars_take_no_longer_than_the_product_of_both_sizes),
        cmocka_unit_test(no_pattern_has_more_than_a_thousand_stars),
        cmocka_unit_test(a_pattern_that_takes_too_long_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
