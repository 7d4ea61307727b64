/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json.h"

#include "base/assert.h"
#include "wire/hex.h"

enum expects {
    EXPECTS_VALUE,
    EXPECTS_VALUE_OR_END, /* after [ */
    EXPECTS_KEY_OR_END,   /* after { */
    EXPECTS_KEY,          /* after a comma in an object */
    EXPECTS_COMMA_OR_END, /* after a value in an array or object */
    EXPECTS_NOTHING,      /* after the value of all */
    EXPECTS_FAULT,
};

_Static_assert(TR_JSON_DEPTH_MAX <= 64, "a bit of `in_object` for each");

void tr_json_init(struct tr_json *json, char *text, size_t size)
{
    *json = (struct tr_json){.start = text, .at = text, .end = text + size};
}

size_t tr_json_offset(const struct tr_json *json)
{
    TR_ASSERT(json->start <= json->at && json->at <= json->end);
    return (size_t)(json->at - json->start);
}

static enum tr_json_token bad(struct tr_json *json, const char *fault)
{
    TR_ASSERT(fault != NULL);
    json->fault = fault;
    json->expects = EXPECTS_FAULT;
    return TR_JSON_BAD;
}

static void skip_space(struct tr_json *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

static bool is_object(const struct tr_json *json)
{
    TR_ASSERT(json->depth > 0);
    return (json->in_object >> (json->depth - 1) & 1) != 0;
}

/* A value has ended: what may follow it. */
static void after_value(struct tr_json *json)
{
    json->expects = json->depth == 0 ? EXPECTS_NOTHING : EXPECTS_COMMA_OR_END;
}

static enum tr_json_token open_nest(struct tr_json *json, bool object)
{
    if (json->depth == TR_JSON_DEPTH_MAX)
        return bad(json, "nested too deeply");
    TR_ASSERT(json->depth < TR_JSON_DEPTH_MAX);
    json->at++;
    uint64_t bit = (uint64_t)1 << json->depth;
    json->in_object = object ? json->in_object | bit : json->in_object & ~bit;
    json->depth++;
    json->expects = object ? EXPECTS_KEY_OR_END : EXPECTS_VALUE_OR_END;
    return object ? TR_JSON_OBJECT : TR_JSON_ARRAY;
}

static enum tr_json_token close_nest(struct tr_json *json)
{
    TR_ASSERT(json->depth > 0 && json->at < json->end);
    bool object = is_object(json);
    json->at++;
    json->depth--;
    after_value(json);
    return object ? TR_JSON_OBJECT_END : TR_JSON_ARRAY_END;
}

static bool hex4(const char *at, const char *end, uint32_t *value)
{
    uint64_t number = 0;
    bool is_good = end - at >= 4 && tr_hex_number((struct tr_span){at, 4}, &number);
    *value = (uint32_t)number;
    return is_good;
}

static char *put_utf8(char *to, uint32_t point)
{
    TR_ASSERT(point <= 0x10ffff);
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3f));
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* After \u: the character, both halves of a pair. NULL: no such escape. */
static char *unicode_escape(char *at, const char *end, uint32_t *point)
{
    if (!hex4(at, end, point))
        return NULL;
    at += 4;
    if (*point < 0xd800 || *point > 0xdfff)
        return at;
    uint32_t low = 0;
    if (*point > 0xdbff || end - at < 6 || at[0] != '\\' || at[1] != 'u' ||
        !hex4(at + 2, end, &low) || low < 0xdc00 || low > 0xdfff)
        return NULL;
    *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    return at + 6;
}

/* The bytes of the UTF-8 character at `at`, which is not ASCII; 0 if it is none. */
static size_t utf8_size(const unsigned char *at, size_t left)
{
    TR_ASSERT(left > 0 && at[0] >= 0x80);
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < size)
        return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

/* One escape at `at`, after the backslash: writes it to `*to`. NULL: there is none such. */
static char *escape(char *at, const char *end, char **to)
{
    TR_ASSERT(at <= end);
    static const char from[] = "\"\\/bfnrt";
    static const char into[] = "\"\\/\b\f\n\r\t";
    if (at == end)
        return NULL;
    if (*at == 'u') {
        uint32_t point = 0;
        at = unicode_escape(at + 1, end, &point);
        if (at != NULL)
            *to = put_utf8(*to, point);
        return at;
    }
    for (unsigned i = 0; i < sizeof from - 1; i++) {
        if (*at == from[i]) {
            *(*to)++ = into[i];
            return at + 1;
        }
    }
    return NULL;
}

/* The rest of a string, after its quote, into json->text. */
static bool read_string(struct tr_json *json)
{
    TR_ASSERT(*json->at == '"');
    char *at = json->at + 1;
    char *to = at;
    json->text.text = at;
    while (at < json->end) {
        char *run = at;
        while (at < json->end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
            at++;
        if (to != run)
            memmove(to, run, (size_t)(at - run));
        to += at - run;
        if (at == json->end)
            break;
        unsigned char c = (unsigned char)*at;
        if (c == '"') {
            TR_ASSERT(to <= at);
            json->text.size = (size_t)(to - json->text.text);
            json->at = at + 1;
            return true;
        }
        json->at = at;
        if (c < 0x20)
            return bad(json, "control character in a string"), false;
        if (c == '\\') {
            char decoded[4];
            char *into = json->is_raw ? decoded : to;
            TR_ASSERT(to <= at);
            at = escape(at + 1, json->end, &into);
            if (at == NULL)
                return bad(json, "no such escape"), false;
            to = json->is_raw ? at : into;
            continue;
        }
        size_t size = c < 0x80 ? 1 : utf8_size((unsigned char *)at, (size_t)(json->end - at));
        if (size == 0)
            return bad(json, "not UTF-8"), false;
        if (to != at)
            memmove(to, at, size);
        to += size;
        at += size;
    }
    json->at = json->end;
    return bad(json, "a string without an end"), false;
}

static bool is_digit(const struct tr_json *json, const char *at)
{
    return at < json->end && *at >= '0' && *at <= '9';
}

static enum tr_json_token read_number(struct tr_json *json)
{
    TR_ASSERT(json->at < json->end);
    char *at = json->at;
    char *start = at;
    if (*at == '-')
        at++;
    if (!is_digit(json, at))
        return bad(json, "not a number");
    if (*at++ != '0') {
        while (is_digit(json, at))
            at++;
    }
    if (at < json->end && *at == '.') {
        at++;
        if (!is_digit(json, at))
            return bad(json, "not a number");
        while (is_digit(json, at))
            at++;
    }
    if (at < json->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < json->end && (*at == '+' || *at == '-'))
            at++;
        if (!is_digit(json, at))
            return bad(json, "not a number");
        while (is_digit(json, at))
            at++;
    }
    json->text = (struct tr_span){start, (size_t)(at - start)};
    json->at = at;
    after_value(json);
    return TR_JSON_NUMBER;
}

static enum tr_json_token read_word(struct tr_json *json, struct tr_span word,
                                    enum tr_json_token token)
{
    struct tr_span rest = {json->at, (size_t)(json->end - json->at)};
    if (!tr_span_starts(rest, word))
        return bad(json, "not a value");
    json->at += word.size;
    after_value(json);
    return token;
}

static enum tr_json_token read_value(struct tr_json *json)
{
    TR_ASSERT(json->at < json->end);
    switch (*json->at) {
    case '{':
        return open_nest(json, true);
    case '[':
        return open_nest(json, false);
    case '"':
        if (!read_string(json))
            return TR_JSON_BAD;
        after_value(json);
        return TR_JSON_STRING;
    case 't':
        return read_word(json, TR_SPAN("true"), TR_JSON_TRUE);
    case 'f':
        return read_word(json, TR_SPAN("false"), TR_JSON_FALSE);
    case 'n':
        return read_word(json, TR_SPAN("null"), TR_JSON_NULL);
    default:
        if (*json->at == '-' || is_digit(json, json->at))
            return read_number(json);
        return bad(json, "not a value");
    }
}

static enum tr_json_token read_key(struct tr_json *json)
{
    TR_ASSERT(json->at < json->end && is_object(json));
    if (*json->at != '"')
        return bad(json, "a member's name must be a string");
    if (!read_string(json))
        return TR_JSON_BAD;
    skip_space(json);
    if (json->at == json->end || *json->at != ':')
        return bad(json, "expected a colon");
    json->at++;
    json->expects = EXPECTS_VALUE;
    return TR_JSON_KEY;
}

enum tr_json_token tr_json_next(struct tr_json *json)
{
    if (json->expects == EXPECTS_FAULT)
        return TR_JSON_BAD;
    skip_space(json);
    if (json->at == json->end) {
        if (json->expects == EXPECTS_NOTHING)
            return TR_JSON_END;
        return bad(json, json->start == json->end ? "there is nothing" : "it ends too soon");
    }
    char c = *json->at;
    if (json->expects == EXPECTS_COMMA_OR_END) {
        if (c == (is_object(json) ? '}' : ']'))
            return close_nest(json);
        if (c != ',')
            return bad(json, is_object(json) ? "expected a comma or }" : "expected a comma or ]");
        json->at++;
        json->expects = is_object(json) ? EXPECTS_KEY : EXPECTS_VALUE;
        skip_space(json);
        if (json->at == json->end)
            return bad(json, "it ends too soon");
        return json->expects == EXPECTS_KEY ? read_key(json) : read_value(json);
    }
    if (json->expects == EXPECTS_KEY_OR_END)
        return c == '}' ? close_nest(json) : read_key(json);
    if (json->expects == EXPECTS_VALUE_OR_END && c == ']')
        return close_nest(json);
    if (json->expects == EXPECTS_NOTHING)
        return bad(json, "something follows the value");
    return read_value(json);
}

bool tr_json_skip(struct tr_json *json, enum tr_json_token token)
{
    unsigned depth = json->depth;
    if (token == TR_JSON_OBJECT || token == TR_JSON_ARRAY)
        depth--;
    TR_ASSERT(token != TR_JSON_OBJECT_END && token != TR_JSON_ARRAY_END);
    while (json->depth > depth) {
        if (tr_json_next(json) == TR_JSON_BAD)
            return false;
    }
    return token != TR_JSON_BAD;
}

bool tr_json_raw(struct tr_json *json, struct tr_span *text)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
    const char *start = json->at;
    json->is_raw = true;
    bool is_read = tr_json_skip(json, tr_json_next(json));
    json->is_raw = false;
    *text = (struct tr_span){start, (size_t)(json->at - start)};
    return is_read;
}

/* A number's digits, and where its decimal point is among them. */
struct digits {
    struct tr_span text;
    int64_t point; /* this many digits are before it; may be below 0, or beyond the last */
    size_t count;
    bool is_negative;
};

#define EXPONENT_MAX 1000000000

static struct digits read_digits(struct tr_span number)
{
    TR_ASSERT(number.size > 0);
    struct digits digits = {.text = number};
    bool has_point = false;
    size_t i = 0;
    if (i < number.size && number.text[i] == '-') {
        digits.is_negative = true;
        digits.text = tr_span_from(number, 1);
        i++;
    }
    for (; i < number.size && number.text[i] != 'e' && number.text[i] != 'E'; i++) {
        if (number.text[i] == '.') {
            has_point = true;
            continue;
        }
        digits.count++;
        digits.point += !has_point;
    }
    digits.text.size = (size_t)(number.text + i - digits.text.text);
    if (i == number.size)
        return digits;
    i++;
    bool is_below = number.text[i] == '-';
    i += number.text[i] == '-' || number.text[i] == '+';
    int64_t exponent = 0;
    for (; i < number.size; i++) {
        if (exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (number.text[i] - '0');
    }
    digits.point += is_below ? -exponent : exponent;
    return digits;
}

/* The digits as a whole number once the point is moved `shift` places to the right. */
static uint64_t scaled(const struct digits *digits, int64_t shift, bool *is_exact)
{
    int64_t whole = digits->point + shift;
    uint64_t value = 0;
    int64_t place = 0;
    *is_exact = true;
    for (size_t i = 0; i < digits->text.size; i++) {
        char c = digits->text.text[i];
        if (c == '.')
            continue;
        uint64_t digit = (uint64_t)(c - '0');
        if (place++ >= whole) {
            *is_exact &= digit == 0;
            continue;
        }
        if (value > (UINT64_MAX - digit) / 10)
            return UINT64_MAX;
        value = value * 10 + digit;
    }
    for (; value > 0 && place < whole; place++) {
        if (value > UINT64_MAX / 10)
            return UINT64_MAX;
        value *= 10;
    }
    return value;
}

bool tr_json_thousandths(struct tr_span number, uint64_t *floor, bool *is_exact)
{
    struct digits digits = read_digits(number);
    *floor = scaled(&digits, 3, is_exact);
    return !digits.is_negative || (*floor == 0 && *is_exact);
}

bool tr_json_whole(struct tr_span number, uint64_t most, uint64_t *value)
{
    struct digits digits = read_digits(number);
    bool is_exact = false;
    uint64_t whole = scaled(&digits, 0, &is_exact);
    if (!is_exact || whole > most || (digits.is_negative && whole > 0))
        return false;
    *value = whole;
    return true;
}
