/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/text.h"

#include "base/assert.h"
#include "calendar/date.h"

#include <stdarg.h>

void tr_put_text(struct tr_writer *writer, const char *text)
{
    TR_ASSERT(text != NULL);
    tr_put_bytes(writer, text, strlen(text));
}

void tr_put_decimal(struct tr_writer *writer, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    tr_put_bytes(writer, digits + at, sizeof digits - at);
}

void tr_put_signed(struct tr_writer *writer, int64_t value)
{
    tr_put_text(writer, value < 0 ? "-" : "");
    tr_put_decimal(writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void tr_put_hex(struct tr_writer *writer, uint64_t value, unsigned digits)
{
    TR_ASSERT(digits <= 16);
    char text[16];
    for (unsigned i = 0; i < digits; i++)
        text[digits - 1 - i] = "0123456789abcdef"[value >> 4 * i & 15];
    tr_put_bytes(writer, text, digits);
}

void tr_put_seconds(struct tr_writer *writer, uint64_t ms)
{
    tr_put_decimal(writer, ms / 1000);
    if (ms % 1000 == 0)
        return;
    char fraction[4] = {'.', (char)('0' + ms % 1000 / 100), (char)('0' + ms % 100 / 10),
                        (char)('0' + ms % 10)};
    size_t size = 4;
    while (fraction[size - 1] == '0')
        size--;
    TR_ASSERT(size >= 2);
    tr_put_bytes(writer, fraction, size);
}

/* Bytes of the UTF-8 character at `at`; 0 if it is none. */
static size_t character_size(const unsigned char *at, size_t left)
{
    TR_ASSERT(left > 0);
    size_t size = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if ((at[0] >= 0x80 && at[0] < 0xc2) || at[0] > 0xf4 || left < size)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_out = size > 1 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
                               (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f));
    return is_out ? 0 : size;
}

static void put_escaped(struct tr_writer *writer, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char into[] = "\"\\bfnrt";
    for (unsigned i = 0; i < sizeof from - 1; i++) {
        if (c == (unsigned char)from[i]) {
            tr_put_bytes(writer, "\\", 1);
            tr_put_bytes(writer, into + i, 1);
            return;
        }
    }
    tr_put_text(writer, "\\u");
    tr_put_hex(writer, c, 4);
}

void tr_put_json_string(struct tr_writer *writer, struct tr_span text)
{
    const unsigned char *at = (const unsigned char *)text.text;
    size_t left = text.size;
    tr_put_bytes(writer, "\"", 1);
    while (left > 0) {
        size_t plain = 0;
        while (plain < left && at[plain] >= 0x20 && at[plain] < 0x7f && at[plain] != '"' &&
               at[plain] != '\\')
            plain++;
        tr_put_bytes(writer, at, plain);
        at += plain;
        left -= plain;
        if (left == 0)
            break;
        size_t size = character_size(at, left);
        if (size > 1)
            tr_put_bytes(writer, at, size);
        else if (size == 1)
            put_escaped(writer, *at);
        else
            tr_put_text(writer, "\xef\xbf\xbd");
        TR_ASSERT(size <= left);
        at += size > 0 ? size : 1;
        left -= size > 0 ? size : 1;
    }
    tr_put_bytes(writer, "\"", 1);
}

static void put_name(struct tr_writer *writer, const char *name)
{
    tr_put_text(writer, ",\"");
    tr_put_text(writer, name);
    tr_put_text(writer, "\":");
}

void tr_put_member(struct tr_writer *writer, const char *name, const char *value)
{
    put_name(writer, name);
    tr_put_json_string(writer, (struct tr_span){value, strlen(value)});
}

void tr_put_count(struct tr_writer *writer, const char *name, uint64_t value)
{
    put_name(writer, name);
    tr_put_decimal(writer, value);
}

void tr_put_counts(struct tr_writer *writer, const char *name, const uint64_t *values, size_t count)
{
    put_name(writer, name);
    tr_put_text(writer, "[");
    for (size_t i = 0; i < count; i++) {
        tr_put_text(writer, i > 0 ? "," : "");
        tr_put_decimal(writer, values[i]);
    }
    tr_put_text(writer, "]");
}

void tr_put_flag(struct tr_writer *writer, const char *name, bool value)
{
    put_name(writer, name);
    tr_put_text(writer, value ? "true" : "false");
}

void tr_put_rfc3339(struct tr_writer *writer, tr_wall_ms at_ms)
{
    char text[TR_INSTANT_SIZE + 1];
    tr_instant_write(at_ms, text);
    tr_put_text(writer, text);
}

void tr_problem_set(struct tr_problem *problem, unsigned status, const char *first, ...)
{
    size_t used = 0;
    va_list rest;
    va_start(rest, first);
    for (const char *piece = first; piece != NULL; piece = va_arg(rest, const char *)) {
        size_t size = strlen(piece);
        size_t room = TR_PROBLEM_MAX - 1 - used;
        size = size < room ? size : room;
        memcpy(problem->detail + used, piece, size);
        used += size;
    }
    va_end(rest);
    TR_ASSERT(used < TR_PROBLEM_MAX);
    problem->detail[used] = '\0';
    problem->status = status;
    problem->retry_after_s = 0;
    problem->type = NULL;
    problem->pointer[0] = '\0';
}

/* A name as a part of a pointer: `~` and `/` have a meaning there. */
static void put_part(struct tr_writer *writer, struct tr_span name)
{
    tr_put_text(writer, "/");
    for (size_t i = 0; i < name.size; i++) {
        if (name.text[i] == '~' || name.text[i] == '/')
            tr_put_text(writer, name.text[i] == '~' ? "~0" : "~1");
        else
            tr_put_bytes(writer, name.text + i, 1);
    }
}

void tr_problem_point(struct tr_problem *problem, const char *path, struct tr_span member)
{
    struct tr_writer writer = tr_writer_on(problem->pointer, TR_POINTER_MAX - 1);
    while (*path != '\0') {
        size_t size = strcspn(path, ".");
        put_part(&writer, (struct tr_span){path, size});
        path += size + (path[size] == '.');
    }
    if (member.text != NULL)
        put_part(&writer, member);
    problem->pointer[writer.is_full ? 0 : writer.size] = '\0'; /* half of one would mislead */
}

void tr_put_problem(struct tr_writer *writer, const struct tr_problem *problem)
{
    tr_put_text(writer, "{\"type\":\"");
    tr_put_text(writer, problem->type != NULL ? problem->type : "about:blank");
    tr_put_text(writer, "\",\"title\":");
    const char *title = tr_status_phrase(problem->status);
    tr_put_json_string(writer, (struct tr_span){title, strlen(title)});
    tr_put_text(writer, ",\"status\":");
    tr_put_decimal(writer, problem->status);
    tr_put_text(writer, ",\"detail\":");
    struct tr_span detail = {problem->detail, strlen(problem->detail)};
    tr_put_json_string(writer, detail);
    if (problem->pointer[0] != '\0') {
        size_t size = strlen(problem->pointer);
        tr_put_text(writer, ",\"errors\":[{\"pointer\":");
        char text[TR_POINTER_MAX + 1] = "#";
        memcpy(text + 1, problem->pointer, size);
        tr_put_json_string(writer, (struct tr_span){text, size + 1});
        tr_put_text(writer, ",\"detail\":");
        tr_put_json_string(writer, detail);
        tr_put_text(writer, "}]");
    }
    tr_put_text(writer, "}\n");
}

const char *tr_status_phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } phrases[] = {
        {100, "Continue"},
        {200, "OK"},
        {202, "Accepted"},
        {206, "Partial Content"},
        {302, "Found"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return "Unknown";
}
