/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/node_spec.h"

static enum tr_node_spec_status parse(const char *text, struct tr_node_spec *spec)
{
    return tr_node_spec_parse(text, strlen(text), spec);
}

static bool is(struct tr_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.text, text, span.size) == 0;
}

static void a_name_alone_is_a_node(void **state)
{
    (void)state;
    struct tr_node_spec spec;
    assert_int_equal(parse("10.0.0.1:7253", &spec), TR_NODE_SPEC_OK);
    assert_true(is(spec.name, "10.0.0.1:7253"));
    assert_true(spec.weight == 0 && spec.zone.text == NULL && !spec.has_position);
}

static void attributes_come_in_any_order(void **state)
{
    (void)state;
    struct tr_node_spec spec;
    assert_int_equal(parse("a,at=.25,zone=eu/r1,weight=2.5", &spec), TR_NODE_SPEC_OK);
    assert_true(is(spec.name, "a") && is(spec.zone, "eu/r1"));
    assert_true(spec.weight == 5 * TRYST_PLACE_WEIGHT_ONE / 2);
    assert_true(spec.has_position);
    assert_int_equal(tr_decimal_fraction(&spec.position, 1024), 256);
}

static void weights_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    uint64_t weight;
    assert_true(tr_weight_parse("1", 1, &weight) && weight == TRYST_PLACE_WEIGHT_ONE);
    assert_true(tr_weight_parse("65536", 5, &weight) && weight == TRYST_PLACE_WEIGHT_MAX);
    const char *least = "0.0000152587890625";
    assert_true(tr_weight_parse(least, strlen(least), &weight) && weight == TRYST_PLACE_WEIGHT_MIN);
    assert_true(tr_weight_parse("0.1", 3, &weight) &&
                weight == 429496730); /* .1 x 2^32 = 429496729.6 */
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum tr_node_spec_status status;
    } cases[] = {
        {"", TR_NODE_SPEC_NO_NAME},
        {",weight=1", TR_NODE_SPEC_NO_NAME},
        {"a,weight=0", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=-1", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=two", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=1e3", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=nan", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=65536.0000001", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=0.000015", TR_NODE_SPEC_BAD_WEIGHT},
        {"a,weight=1,weight=1", TR_NODE_SPEC_TWICE},
        {"a,at=1", TR_NODE_SPEC_BAD_POSITION},
        {"a,at=-.1", TR_NODE_SPEC_BAD_POSITION},
        {"a,at=1.5", TR_NODE_SPEC_BAD_POSITION},
        {"a,at=x", TR_NODE_SPEC_BAD_POSITION},
        {"a,at=.1,at=.1", TR_NODE_SPEC_TWICE},
        {"a,zone=", TR_NODE_SPEC_BAD_ZONE},
        {"a,zone=/r1", TR_NODE_SPEC_BAD_ZONE},
        {"a,zone=eu/", TR_NODE_SPEC_BAD_ZONE},
        {"a,zone=eu//r1", TR_NODE_SPEC_BAD_ZONE},
        {"a,zone=eu,zone=us", TR_NODE_SPEC_TWICE},
        {"a,", TR_NODE_SPEC_UNKNOWN_ATTRIBUTE},
        {"a,,", TR_NODE_SPEC_UNKNOWN_ATTRIBUTE},
        {"a,color=red", TR_NODE_SPEC_UNKNOWN_ATTRIBUTE},
        {"a,weight", TR_NODE_SPEC_UNKNOWN_ATTRIBUTE},
        {"a\tb", TR_NODE_SPEC_BAD_CHARACTER},
        {"a\n", TR_NODE_SPEC_BAD_CHARACTER},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        struct tr_node_spec spec;
        enum tr_node_spec_status status = parse(cases[i].text, &spec);
        if (status != cases[i].status)
            fail_msg("'%s': %s", cases[i].text, tr_node_spec_status_text(status));
        assert_true(strlen(tr_node_spec_status_text(status)) > 10);
    }
}

static void a_name_has_255_bytes_at_most(void **state)
{
    (void)state;
    char text[257];
    memset(text, 'n', sizeof text);
    struct tr_node_spec spec;
    assert_int_equal(tr_node_spec_parse(text, 255, &spec), TR_NODE_SPEC_OK);
    assert_int_equal(tr_node_spec_parse(text, 256, &spec), TR_NODE_SPEC_LONG_NAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_alone_is_a_node),
        cmocka_unit_test(attributes_come_in_any_order),
        cmocka_unit_test(weights_are_rounded_to_the_nearest),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(a_name_has_255_bytes_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
