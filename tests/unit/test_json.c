/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON parser: what RFC 8259 allows and forbids, and the public suite where it is at hand. */
#include "unit.h"

#include "wire/json.h"

#include <dirent.h>

static bool accepts(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    struct tr_json json;
    memcpy(copy, text, size);
    tr_json_init(&json, copy, size);
    enum tr_json_token token = TR_JSON_NULL;
    for (size_t i = 0; i <= size + 2 && token != TR_JSON_END && token != TR_JSON_BAD; i++)
        token = tr_json_next(&json);
    free(copy);
    assert_true(token == TR_JSON_END || token == TR_JSON_BAD);
    return token == TR_JSON_END;
}

static void good_texts_are_taken(void **state)
{
    (void)state;
    static const char *const good[] = {
        "0",
        "-0",
        "1",
        "-12",
        "1.5",
        "1e9",
        "1E+9",
        "1.25e-3",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        " [ 1 , 2 ] ",
        "\t\r\n{\"a\":[{}]}\n",
        "[[[[]]]]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\xc3\xa9\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\\u0000\"",
        "\"\x7f\"",
        "[1,[2],{\"b\":null}]",
        "{\"\":0}",
        "{\"a\":1,\"a\":2}",
    };
    for (size_t i = 0; i < UNIT_COUNT(good); i++) {
        if (!accepts(good[i], strlen(good[i])))
            fail_msg("refused: %s", good[i]);
    }
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x10",
        "NaN",
        "Infinity",
        "tru",
        "nul",
        "True",
        "\"",
        "\"a",
        "'a'",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "1 2",
        "[] []",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\n\"",
        "\"\x01\"",
        "\"\x80\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xc3\"",
        "\xef\xbb\xbf[]",
        "/**/1",
        "[1]#",
    };
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        if (accepts(bad[i], strlen(bad[i])))
            fail_msg("taken: %s", bad[i]);
    }
    assert_false(accepts("[1\0]", 4));
}

static void depth_has_a_limit(void **state)
{
    (void)state;
    size_t size = (size_t)1 << 20;
    char *text = malloc(size);
    memset(text, '[', size);
    assert_false(accepts(text, size));
    for (size_t i = 0; i < TR_JSON_DEPTH_MAX; i++)
        text[TR_JSON_DEPTH_MAX + i] = ']';
    assert_true(accepts(text, (size_t)2 * TR_JSON_DEPTH_MAX));
    free(text);
}

static void strings_are_decoded(void **state)
{
    (void)state;
    char text[] = "{\"k\\u00e9y\": \"a\\n\\ud83d\\ude00\\\"z\"}";
    struct tr_json json;
    tr_json_init(&json, text, strlen(text));
    assert_int_equal(tr_json_next(&json), TR_JSON_OBJECT);
    assert_int_equal(tr_json_next(&json), TR_JSON_KEY);
    assert_true(tr_span_equals(json.text, TR_SPAN("k\xc3\xa9y")));
    assert_int_equal(tr_json_next(&json), TR_JSON_STRING);
    assert_true(tr_span_equals(json.text, TR_SPAN("a\n\xf0\x9f\x98\x80\"z")));
    assert_int_equal(tr_json_next(&json), TR_JSON_OBJECT_END);
    assert_int_equal(tr_json_next(&json), TR_JSON_END);
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t floor;
        bool is_exact;
    } cases[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"0.0004", 0, false},
        {"0.001", 1, true},
        {"0.1", 100, true},
        {"0.3", 300, true},
        {"1.0000000000000000000001", 1000, false},
        {"30", 30000, true},
        {"1e2", 100000, true},
        {"25e-1", 2500, true},
        {"0.00001e5", 1000, true},
        {"1e-400", 0, false},
        {"0e999999999999", 0, true},
        {"9007199254740993.001", 9007199254740993001u, true},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        uint64_t floor = 0;
        bool is_exact = false;
        struct tr_span text = {cases[i].text, strlen(cases[i].text)};
        assert_true(tr_json_thousandths(text, &floor, &is_exact));
        assert_int_equal(floor, cases[i].floor);
        assert_int_equal(is_exact, cases[i].is_exact);
    }
    uint64_t floor = 0;
    bool is_exact = false;
    assert_false(tr_json_thousandths(TR_SPAN("-0.0001"), &floor, &is_exact));
    assert_false(tr_json_thousandths(TR_SPAN("-5"), &floor, &is_exact));
    assert_true(tr_json_thousandths(TR_SPAN("1e30"), &floor, &is_exact));
    assert_true(floor == UINT64_MAX);
    uint64_t value = 0;
    assert_true(tr_json_whole(TR_SPAN("20e-1"), 255, &value) && value == 2);
    assert_false(tr_json_whole(TR_SPAN("2.5"), 255, &value));
    assert_false(tr_json_whole(TR_SPAN("256"), 255, &value));
    assert_false(tr_json_whole(TR_SPAN("-1"), 255, &value));
}

/* Where the public suite is, if it is anywhere. */
static const char *suite_path(void)
{
    const char *path = getenv("TRYST_JSON_SUITE");
    return path != NULL ? path : "../shared/data/json";
}

/* https://github.com/nst/JSONTestSuite: y_ must be taken, n_ refused, i_ must only not crash. */
static void the_public_suite_agrees(void **state)
{
    (void)state;
    const char *path = suite_path();
    DIR *directory = opendir(path);
    assert_non_null(directory);
    struct dirent *entry;
    unsigned count = 0;
    while ((entry = readdir(directory)) != NULL) {
        char name[1024];
        static char bytes[1 << 20];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = strstr(entry->d_name, ".json") != NULL ? fopen(name, "rb") : NULL;
        if (file == NULL)
            continue;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        bool is_taken = accepts(bytes, size);
        if ((entry->d_name[0] == 'y' && !is_taken) || (entry->d_name[0] == 'n' && is_taken))
            fail_msg("%s: %s", is_taken ? "taken" : "refused", entry->d_name);
        count++;
    }
    closedir(directory);
    assert_true(count > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_are_taken), cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(depth_has_a_limit),    cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(numbers_are_exact),
    };
    const struct CMUnitTest with_suite[] = {
        cmocka_unit_test(good_texts_are_taken), cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(depth_has_a_limit),    cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(numbers_are_exact),    cmocka_unit_test(the_public_suite_agrees),
    };
    DIR *suite = opendir(suite_path());
    if (suite == NULL) {
        puts("# the public suite is not here; TRYST_JSON_SUITE names its folder");
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    closedir(suite);
    return cmocka_run_group_tests(with_suite, NULL, NULL);
}
