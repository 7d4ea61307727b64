/* SPDX-License-Identifier: Apache-2.0 */
#include "resp/resp.h"

#include "base/integer.h"

#define ARGUMENT_LEAST 6 /* bytes of the shortest one: $0, and the ends of two lines */

static enum tr_resp_state bad(struct tr_resp_command *command, enum tr_resp_fault fault)
{
    TR_ASSERT(fault != TR_RESP_NO_FAULT);
    command->fault = fault;
    return TR_RESP_BAD;
}

static enum tr_resp_state more(struct tr_resp_command *command, size_t need)
{
    command->need = need;
    return TR_RESP_MORE;
}

bool tr_resp_is(struct tr_span argument, const char *word)
{
    return tr_span_equals_nocase(argument, (struct tr_span){word, strlen(word)});
}

const char *tr_resp_line_end(const char *bytes, size_t size, char last)
{
    const char *end = memchr(bytes, last, size);
    if (end == NULL || memchr(bytes, '\0', (size_t)(end - bytes)) != NULL)
        return NULL;
    return end;
}

/* ---- an array of bulk strings ---- */

/* A line that begins at `at`, without its first byte and its end; `at` is behind it then. False:
 * the line is not there yet. */
static bool take_line(const char *bytes, size_t size, size_t *at, struct tr_span *line)
{
    TR_ASSERT(*at <= size);
    const char *end = tr_resp_line_end(bytes + *at, size - *at, '\r');
    if (end == NULL || end + 1 == bytes + size)
        return false;
    size_t length = (size_t)(end - bytes) - *at;
    *line = (struct tr_span){bytes + *at, length};
    *at += length + 2;
    return true;
}

/* How many arguments there are. */
static enum tr_resp_state read_count(struct tr_resp_command *command, const char *bytes,
                                     size_t size, size_t *at)
{
    struct tr_span line;
    int64_t count = 0;
    if (!take_line(bytes, size, at, &line))
        return size > TR_RESP_LINE_MAX ? bad(command, TR_RESP_COUNT_LINE) : more(command, size + 1);
    if (!tr_integer_read(tr_span_from(line, 1), &count) || count > TR_RESP_ARGUMENTS_MAX)
        return bad(command, TR_RESP_COUNT);
    command->count = count > 0 ? (uint32_t)count : 0;
    return command->count > command->cap ? TR_RESP_ROOM : TR_RESP_COMMAND;
}

/* The length of an argument. */
static enum tr_resp_state read_length(struct tr_resp_command *command, const char *bytes,
                                      size_t size, size_t *at, size_t *length)
{
    struct tr_span line;
    int64_t number = 0;
    size_t start = *at;
    if (!take_line(bytes, size, at, &line)) {
        bool is_long = size - start > TR_RESP_LINE_MAX;
        return is_long ? bad(command, TR_RESP_LENGTH_LINE) : more(command, size + 1);
    }
    if (bytes[start] != '$') {
        command->found = bytes[start];
        return bad(command, TR_RESP_NO_LENGTH);
    }
    bool is_number = line.size > 0 && tr_integer_read(tr_span_from(line, 1), &number);
    if (!is_number || number < 0 || number > (int64_t)TR_RESP_BULK_MAX)
        return bad(command, TR_RESP_LENGTH);
    *length = (size_t)number;
    return TR_RESP_COMMAND;
}

/* Reads arguments from the one on that is next, as far as they are there. Where they are is kept
 * only if all are read from the first one on. */
static enum tr_resp_state read_arguments(struct tr_resp_command *command, const char *bytes,
                                         size_t size)
{
    bool is_whole = command->done == 0;
    for (uint32_t i = command->done; i < command->count; i++) {
        size_t length = 0;
        size_t at = command->done_at;
        size_t left = (size_t)(command->count - i - 1) * ARGUMENT_LEAST;
        command->done = i;
        enum tr_resp_state state = at < size ? read_length(command, bytes, size, &at, &length)
                                             : more(command, at + ARGUMENT_LEAST + left);
        if (state != TR_RESP_COMMAND)
            return state;
        if (size - at < length + 2) /* the two bytes behind it may be any, as in Redis */
            return more(command, at + length + 2 + left);
        if (is_whole)
            command->arguments[i] = (struct tr_span){bytes + at, length};
        command->done_at = at + length + 2;
    }
    return TR_RESP_COMMAND;
}

static enum tr_resp_state read_array(struct tr_resp_command *command, const char *bytes,
                                     size_t size)
{
    size_t at = 0;
    enum tr_resp_state state = read_count(command, bytes, size, &at);
    if (state != TR_RESP_COMMAND)
        return state;
    if (command->done > 0) {
        state = read_arguments(command, bytes, size);
        if (state != TR_RESP_COMMAND)
            return state;
    }
    command->done = 0;
    command->done_at = at;
    state = read_arguments(command, bytes, size);
    command->used = command->done_at;
    return state;
}

/* ---- a line of words ---- */

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static int hex(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte = (char)(byte | 0x20);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* What a backslash and a letter stand for within double quotes. */
static char escaped(char letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return letter;
    }
}

/* Unquotes a line in its place: what is written is never ahead of what is read. */
struct line {
    char *bytes;
    size_t size;
    size_t read;
    size_t written;
};

static char peek(const struct line *line, size_t ahead)
{
    if (line->read + ahead >= line->size)
        return '\0';
    return line->bytes[line->read + ahead];
}

static void put(struct line *line, char byte, size_t read)
{
    TR_ASSERT(line->written < line->size && read > 0);
    line->read += read;
    line->bytes[line->written++] = byte;
    TR_ASSERT(line->written <= line->read);
}

/* Between quotes; false: they are not closed, or something follows them at once. */
static bool unquote(struct line *line, char quote)
{
    TR_ASSERT(peek(line, 0) == quote);
    line->read++;
    while (peek(line, 0) != quote) {
        char byte = peek(line, 0);
        bool is_escape = byte == '\\' && peek(line, 1) != '\0';
        if (byte == '\0')
            return false;
        if (is_escape && quote == '"' && peek(line, 1) == 'x' && hex(peek(line, 2)) >= 0 &&
            hex(peek(line, 3)) >= 0)
            put(line, (char)(hex(peek(line, 2)) * 16 + hex(peek(line, 3))), 4);
        else if (is_escape && quote == '"')
            put(line, escaped(peek(line, 1)), 2);
        else if (is_escape && peek(line, 1) == '\'')
            put(line, '\'', 2);
        else
            put(line, byte, 1);
    }
    line->read++;
    return peek(line, 0) == '\0' || is_space(peek(line, 0));
}

/* The next word; false: its quotes are not closed. */
static bool take_word(struct line *line, struct tr_span *word)
{
    *word = (struct tr_span){line->bytes + line->written, 0};
    size_t start = line->written;
    for (;;) {
        char byte = peek(line, 0);
        if (byte == '"' || byte == '\'') {
            if (!unquote(line, byte))
                return false;
            break;
        }
        if (byte == '\0' || byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t')
            break;
        put(line, byte, 1);
    }
    word->size = line->written - start;
    return true;
}

static enum tr_resp_state read_line(struct tr_resp_command *command, char *bytes, size_t size)
{
    size_t most = size < TR_RESP_LINE_MAX ? size : TR_RESP_LINE_MAX;
    const char *end = tr_resp_line_end(bytes, most, '\n');
    if (end == NULL)
        return size > TR_RESP_LINE_MAX ? bad(command, TR_RESP_INLINE_LINE)
                                       : more(command, size + 1);
    command->used = (size_t)(end - bytes) + 1;
    struct line line = {.bytes = bytes, .size = command->used - 1};
    if (line.size > 0 && bytes[line.size - 1] == '\r')
        line.size--;
    command->count = (uint32_t)(line.size / 2 + 1); /* no more words than that */
    if (command->count > command->cap)
        return TR_RESP_ROOM;
    command->count = 0;
    for (;;) {
        while (is_space(peek(&line, 0)))
            line.read++;
        if (peek(&line, 0) == '\0')
            return TR_RESP_COMMAND;
        if (!take_word(&line, &command->arguments[command->count++]))
            return bad(command, TR_RESP_INLINE_QUOTES);
    }
}

enum tr_resp_state tr_resp_read(struct tr_resp_command *command, char *bytes, size_t size)
{
    TR_ASSERT(size > 0);
    command->count = 0;
    command->used = 0;
    command->need = 0;
    command->fault = TR_RESP_NO_FAULT;
    return bytes[0] == '*' ? read_array(command, bytes, size) : read_line(command, bytes, size);
}
