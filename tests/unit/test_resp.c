/* SPDX-License-Identifier: Apache-2.0 */
#include "base/integer.h"
#include "resp/resp.h"
#include "unit.h"

#include <stdio.h>

#define ROOM 64

static struct tr_span arguments[ROOM];
static char text[1 << 17];

/* Reads what stands in a text of its own, at the end of which nothing may be read. */
static enum tr_resp_state read_bytes(struct tr_resp_command *command, const char *bytes,
                                     size_t size)
{
    *command = (struct tr_resp_command){.arguments = arguments, .cap = ROOM};
    memcpy(text + sizeof text - size, bytes, size);
    return tr_resp_read(command, text + sizeof text - size, size);
}

#define READ(command, literal) read_bytes(command, literal, sizeof(literal) - 1)

static void assert_argument(const struct tr_resp_command *command, uint32_t index,
                            struct tr_span wanted)
{
    assert_true(index < command->count);
    assert_true(tr_span_equals(command->arguments[index], wanted));
}

static void an_array_of_bulk_strings_is_a_command(void **state)
{
    struct tr_resp_command command;
    (void)state;
    assert_int_equal(READ(&command, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n*1\r\n"),
                     TR_RESP_COMMAND);
    assert_int_equal(command.count, 3);
    assert_int_equal(command.used, 26);
    assert_argument(&command, 0, TR_SPAN("SET"));
    assert_argument(&command, 1, TR_SPAN("a"));
    assert_argument(&command, 2, TR_SPAN(""));
}

/* Byte by byte, going on where the last reading stopped. */
static void what_drips_is_read_on_from_where_it_stopped(void **state)
{
    static char bytes[] = "*3\r\n$3\r\nSET\r\n$12\r\na\r\nb*2\r\n$3\r\n\r\n$1\r\nx\r\n";
    struct tr_resp_command command = {.arguments = arguments, .cap = ROOM};
    size_t last = 0;
    (void)state;
    for (size_t size = 1; size < sizeof bytes - 1; size++) {
        assert_int_equal(tr_resp_read(&command, bytes, size), TR_RESP_MORE);
        assert_true(command.need > size && command.done_at >= last);
        last = command.done > 0 ? command.done_at : 0;
    }
    assert_int_equal(command.done, 2);
    assert_int_equal(tr_resp_read(&command, bytes, sizeof bytes - 1), TR_RESP_COMMAND);
    assert_int_equal(command.used, sizeof bytes - 1);
    assert_argument(&command, 0, TR_SPAN("SET"));
    assert_argument(&command, 1, TR_SPAN("a\r\nb*2\r\n$3\r\n"));
    assert_argument(&command, 2, TR_SPAN("x"));
}

static void every_beginning_of_a_command_wants_more_and_no_more_than_there_is(void **state)
{
    static const char whole[] = "*3\r\n$3\r\nSET\r\n$12\r\na\r\nb*2\r\n$3\r\n\r\n$1\r\nx\r\n";
    struct tr_resp_command command;
    (void)state;
    for (size_t size = 1; size < sizeof whole - 1; size++) {
        assert_int_equal(read_bytes(&command, whole, size), TR_RESP_MORE);
        assert_in_range(command.need, size + 1, sizeof whole - 1);
    }
    assert_int_equal(READ(&command, whole), TR_RESP_COMMAND);
    assert_int_equal(command.used, sizeof whole - 1);
}

static void a_large_command_is_read_a_few_times_alone(void **state)
{
    static char bytes[1 << 17];
    static struct tr_span many[8192];
    struct tr_resp_command command = {.arguments = many, .cap = 8192};
    size_t size = (size_t)snprintf(bytes, sizeof bytes, "*8192\r\n");
    (void)state;
    for (unsigned i = 0; i < 8192; i++)
        size += (size_t)snprintf(bytes + size, sizeof bytes - size, "$5\r\n%05u\r\n", i);
    unsigned times = 1;
    size_t there = 1;
    while (tr_resp_read(&command, bytes, there) == TR_RESP_MORE) {
        assert_in_range(command.need, there + 1, size);
        there = command.need;
        times++;
    }
    assert_int_equal(command.used, size);
    assert_in_range(times, 2, 40);
}

static void what_has_no_arguments_is_passed_over(void **state)
{
    struct tr_resp_command command;
    (void)state;
    assert_int_equal(READ(&command, "*0\r\nx"), TR_RESP_COMMAND);
    assert_int_equal(command.count, 0);
    assert_int_equal(command.used, 4);
    assert_int_equal(READ(&command, "*-10\r\n"), TR_RESP_COMMAND);
    assert_int_equal(command.count, 0);
    assert_int_equal(READ(&command, "\r\n"), TR_RESP_COMMAND);
    assert_int_equal(command.count, 0);
    assert_int_equal(command.used, 2);
    assert_int_equal(READ(&command, "  \t \n"), TR_RESP_COMMAND);
    assert_int_equal(command.count, 0);
}

static void more_arguments_than_there_is_room_for_ask_for_it(void **state)
{
    struct tr_resp_command command;
    (void)state;
    assert_int_equal(READ(&command, "*65\r\n"), TR_RESP_ROOM);
    assert_int_equal(command.count, 65);
}

static void a_line_of_words_is_a_command(void **state)
{
    struct tr_resp_command command;
    (void)state;
    assert_int_equal(READ(&command, " SET  a\tb \r\nGET a\r\n"), TR_RESP_COMMAND);
    assert_int_equal(command.count, 3);
    assert_int_equal(command.used, 12);
    assert_argument(&command, 0, TR_SPAN("SET"));
    assert_argument(&command, 1, TR_SPAN("a"));
    assert_argument(&command, 2, TR_SPAN("b"));
}

static void quotes_and_escapes_of_a_line_are_taken_off(void **state)
{
    struct tr_resp_command command;
    (void)state;
    assert_int_equal(READ(&command, "\"a b\\n\\x41\\\"\\q\\xzz\" 'it\\'s \\n' x\"y z\" \"\" \n"),
                     TR_RESP_COMMAND);
    assert_int_equal(command.count, 4);
    assert_argument(&command, 0, TR_SPAN("a b\nA\"qxzz"));
    assert_argument(&command, 1, TR_SPAN("it's \\n"));
    assert_argument(&command, 2, TR_SPAN("xy z"));
    assert_argument(&command, 3, TR_SPAN(""));
}

static void what_breaks_the_protocol_is_named(void **state)
{
    const struct {
        struct tr_span bytes;
        enum tr_resp_fault fault;
    } cases[] = {
        {TR_SPAN("*x\r\n"), TR_RESP_COUNT},
        {TR_SPAN("*\r\n"), TR_RESP_COUNT},
        {TR_SPAN("*01\r\n"), TR_RESP_COUNT},
        {TR_SPAN("*9223372036854775808\r\n"), TR_RESP_COUNT},
        {TR_SPAN("*1\r\n$-1\r\n"), TR_RESP_LENGTH},
        {TR_SPAN("*1\r\n$\r\n"), TR_RESP_LENGTH},
        {TR_SPAN("*1\r\n$99999999999\r\n"), TR_RESP_LENGTH},
        {TR_SPAN("*1\r\n$18446744073709551617\r\n"), TR_RESP_LENGTH},
        {TR_SPAN("*1\r\n:1\r\n"), TR_RESP_NO_LENGTH},
        {TR_SPAN("*1\r\n*1\r\n"), TR_RESP_NO_LENGTH},
        {TR_SPAN("GET \"a\n"), TR_RESP_INLINE_QUOTES},
        {TR_SPAN("GET \"a\"b\n"), TR_RESP_INLINE_QUOTES},
        {TR_SPAN("GET 'a\\'\n"), TR_RESP_INLINE_QUOTES},
    };
    struct tr_resp_command command;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_bytes(&command, cases[i].bytes.text, cases[i].bytes.size),
                         TR_RESP_BAD);
        assert_int_equal(command.fault, cases[i].fault);
    }
    READ(&command, "*1\r\n:1\r\n");
    assert_int_equal(command.found, ':');
}

static void a_line_without_an_end_is_too_long_at_64_KiB(void **state)
{
    static char bytes[TR_RESP_LINE_MAX + 16];
    struct tr_resp_command command;
    (void)state;
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(read_bytes(&command, bytes, TR_RESP_LINE_MAX), TR_RESP_MORE);
    assert_int_equal(read_bytes(&command, bytes, TR_RESP_LINE_MAX + 1), TR_RESP_BAD);
    assert_int_equal(command.fault, TR_RESP_INLINE_LINE);
    bytes[0] = '*';
    assert_int_equal(read_bytes(&command, bytes, TR_RESP_LINE_MAX + 1), TR_RESP_BAD);
    assert_int_equal(command.fault, TR_RESP_COUNT_LINE);
    bytes[1] = '1';
    bytes[2] = '\r';
    bytes[3] = '\n';
    assert_int_equal(read_bytes(&command, bytes, TR_RESP_LINE_MAX + 5), TR_RESP_BAD);
    assert_int_equal(command.fault, TR_RESP_LENGTH_LINE);
}

static void integers_are_read_as_redis_reads_them(void **state)
{
    const struct {
        struct tr_span text;
        int64_t number;
    } good[] = {
        {TR_SPAN("0"), 0},
        {TR_SPAN("-1"), -1},
        {TR_SPAN("9223372036854775807"), INT64_MAX},
        {TR_SPAN("-9223372036854775808"), INT64_MIN},
    };
    const struct tr_span bad[] = {
        TR_SPAN(""),   TR_SPAN("-"),   TR_SPAN("+1"),
        TR_SPAN("01"), TR_SPAN("-0"),  TR_SPAN(" 1"),
        TR_SPAN("1 "), TR_SPAN("1.0"), TR_SPAN("9223372036854775808"),
        TR_SPAN("x"),  TR_SPAN("--1"), TR_SPAN("-9223372036854775809"),
    };
    int64_t number = 7;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(tr_integer_read(good[i].text, &number));
        assert_true(number == good[i].number);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(tr_integer_read(bad[i], &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_drips_is_read_on_from_where_it_stopped),
        cmocka_unit_test(an_array_of_bulk_strings_is_a_command),
        cmocka_unit_test(every_beginning_of_a_command_wants_more_and_no_more_than_there_is),
        cmocka_unit_test(a_large_command_is_read_a_few_times_alone),
        cmocka_unit_test(what_has_no_arguments_is_passed_over),
        cmocka_unit_test(more_arguments_than_there_is_room_for_ask_for_it),
        cmocka_unit_test(a_line_of_words_is_a_command),
        cmocka_unit_test(quotes_and_escapes_of_a_line_are_taken_off),
        cmocka_unit_test(what_breaks_the_protocol_is_named),
        cmocka_unit_test(a_line_without_an_end_is_too_long_at_64_KiB),
        cmocka_unit_test(integers_are_read_as_redis_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
