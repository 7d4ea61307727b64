/* SPDX-License-Identifier: Apache-2.0 */
#include "calendar/date.h"

#include "base/assert.h"

#define ERA_DAYS   146097        /* of 400 years */
#define ERA_SHIFT  719468        /* from 0000-03-01 to 1970-01-01 */
#define LAST_DAY_S 253402300799u /* 9999-12-31T23:59:59Z */

/* Years are counted from March on, so that a leap day is the last one of its year. */
int64_t tr_date_days(struct tr_date date)
{
    TR_ASSERT(date.month >= 1 && date.month <= 12);
    int64_t year = date.year - (date.month <= 2 ? 1 : 0);
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t month = (date.month + 9) % 12;
    int64_t of_year = (153 * month + 2) / 5 + date.day - 1;
    return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - ERA_SHIFT;
}

struct tr_date tr_date_of_days(int64_t days)
{
    days += ERA_SHIFT;
    int64_t era = (days >= 0 ? days : days - (ERA_DAYS - 1)) / ERA_DAYS;
    int64_t day = days - era * ERA_DAYS;
    int64_t year = (day - day / 1460 + day / 36524 - day / (ERA_DAYS - 1)) / 365;
    int64_t of_year = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    struct tr_date date = {
        .month = (uint32_t)(month < 10 ? month + 3 : month - 9),
        .day = (uint32_t)(of_year - (153 * month + 2) / 5 + 1),
    };
    date.year = (int32_t)(year + era * 400 + (date.month <= 2 ? 1 : 0));
    return date;
}

uint32_t tr_date_weekday(int64_t days)
{
    int64_t weekday = (days + 4) % 7; /* 1970-01-01 was a Thursday */
    return (uint32_t)(weekday < 0 ? weekday + 7 : weekday);
}

uint32_t tr_date_month_days(int32_t year, uint32_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    TR_ASSERT(month >= 1 && month <= 12);
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap ? 1u : 0u);
}

/* ---- RFC 3339 ---- */

/* So many digits. False: they are not there. */
static bool take_digits(struct tr_span *text, unsigned count, uint32_t *value)
{
    *value = 0;
    if (text->size < count)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (text->text[i] < '0' || text->text[i] > '9')
            return false;
        *value = *value * 10 + (uint32_t)(text->text[i] - '0');
    }
    *text = tr_span_from(*text, count);
    return true;
}

static bool take_one_of(struct tr_span *text, const char *choice)
{
    for (; text->size > 0 && *choice != '\0'; choice++) {
        if (text->text[0] != *choice)
            continue;
        *text = tr_span_from(*text, 1);
        return true;
    }
    return false;
}

static bool take_date(struct tr_span *text, int64_t *days)
{
    uint32_t year = 0;
    struct tr_date date = {0};
    if (!take_digits(text, 4, &year) || !take_one_of(text, "-") ||
        !take_digits(text, 2, &date.month) || !take_one_of(text, "-") ||
        !take_digits(text, 2, &date.day))
        return false;
    date.year = (int32_t)year;
    if (date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > tr_date_month_days(date.year, date.month))
        return false;
    *days = tr_date_days(date);
    return true;
}

/* Milliseconds of a fraction, rounded up. */
static bool take_fraction(struct tr_span *text, uint32_t *ms)
{
    uint32_t scale = 100;
    uint32_t digits = 0;
    bool has_rest = false;
    *ms = 0;
    if (!take_one_of(text, "."))
        return true;
    for (; text->size > 0 && text->text[0] >= '0' && text->text[0] <= '9'; digits++) {
        uint32_t digit = (uint32_t)(text->text[0] - '0');
        *ms += scale * digit;
        has_rest |= scale == 0 && digit > 0;
        scale /= 10;
        *text = tr_span_from(*text, 1);
    }
    *ms += has_rest;
    return digits > 0;
}

static bool take_clock(struct tr_span *text, int64_t *seconds, uint32_t *ms)
{
    uint32_t hour = 0;
    uint32_t minute = 0;
    uint32_t second = 0;
    if (!take_digits(text, 2, &hour) || !take_one_of(text, ":") || !take_digits(text, 2, &minute) ||
        !take_one_of(text, ":") || !take_digits(text, 2, &second) || !take_fraction(text, ms))
        return false;
    *seconds = (int64_t)hour * 3600 + (int64_t)minute * 60 + second;
    return hour < 24 && minute < 60 &&
           second <= 60; /* a leap second is the first of the next minute */
}

static bool take_offset(struct tr_span *text, int64_t *seconds)
{
    uint32_t hour = 0;
    uint32_t minute = 0;
    *seconds = 0;
    if (take_one_of(text, "Zz"))
        return true;
    bool is_behind = text->size > 0 && text->text[0] == '-';
    if (!take_one_of(text, "+-") || !take_digits(text, 2, &hour) || !take_one_of(text, ":") ||
        !take_digits(text, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *seconds = (int64_t)hour * 3600 + (int64_t)minute * 60;
    *seconds = is_behind ? -*seconds : *seconds;
    return true;
}

bool tr_instant_parse(struct tr_span text, tr_wall_ms *at_ms)
{
    int64_t days = 0;
    int64_t seconds = 0;
    int64_t offset = 0;
    uint32_t ms = 0;
    if (!take_date(&text, &days) || !take_one_of(&text, "Tt ") ||
        !take_clock(&text, &seconds, &ms) || !take_offset(&text, &offset) || text.size > 0)
        return false;
    int64_t at = (days * TR_DAY_S + seconds - offset) * 1000 + ms;
    *at_ms = at > 0 ? (tr_wall_ms)at : 0;
    return true;
}

static char *put_digits(char *out, uint64_t value, unsigned count)
{
    for (unsigned i = count; i > 0; i--, value /= 10)
        out[i - 1] = (char)('0' + value % 10);
    return out + count;
}

void tr_instant_write(tr_wall_ms at_ms, char out[TR_INSTANT_SIZE + 1])
{
    uint64_t seconds = at_ms / 1000 < LAST_DAY_S ? at_ms / 1000 : LAST_DAY_S;
    struct tr_date date = tr_date_of_days((int64_t)(seconds / TR_DAY_S));
    uint64_t of_day = seconds % TR_DAY_S;
    const struct {
        uint64_t value;
        unsigned digits;
        char behind;
    } parts[] = {
        {(uint64_t)date.year, 4, '-'}, {date.month, 2, '-'},       {date.day, 2, 'T'},
        {of_day / 3600, 2, ':'},       {of_day / 60 % 60, 2, ':'}, {of_day % 60, 2, '.'},
        {at_ms % 1000, 3, 'Z'},
    };
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        out = put_digits(out, parts[i].value, parts[i].digits);
        *out++ = parts[i].behind;
    }
    *out = '\0';
}

static bool read_digits(const char *text, unsigned count, uint32_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

/* The form that is to be sent; the two older ones are not. */
bool tr_http_date_parse(struct tr_span text, tr_wall_ms *at_ms)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const char form[] = "..., .. ... .... ..:..:.. GMT";
    uint32_t day = 0;
    uint32_t year = 0;
    uint32_t hour = 0;
    uint32_t minute = 0;
    uint32_t second = 0;
    uint32_t month = 0;
    if (text.size != sizeof form - 1)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (form[i] != '.' && form[i] != text.text[i])
            return false;
    }
    while (month < 12 && memcmp(months + (size_t)3 * month, text.text + 8, 3) != 0)
        month++;
    if (month == 12 || !read_digits(text.text + 5, 2, &day) ||
        !read_digits(text.text + 12, 4, &year) || !read_digits(text.text + 17, 2, &hour) ||
        !read_digits(text.text + 20, 2, &minute) || !read_digits(text.text + 23, 2, &second) ||
        year < 1970 || day < 1 || day > tr_date_month_days((int32_t)year, month + 1) || hour > 23 ||
        minute > 59 || second > 60)
        return false;
    int64_t days = tr_date_days((struct tr_date){(int32_t)year, month + 1, day});
    *at_ms =
        ((uint64_t)days * TR_DAY_S + (uint64_t)hour * 3600 + (uint64_t)minute * 60 + second) * 1000;
    return true;
}
