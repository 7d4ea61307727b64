/* SPDX-License-Identifier: Apache-2.0 */
#include "calendar/cron.h"

#include "calendar/date.h"

#define ERAS_MAX 4096 /* looked at for the next instant */

/* ---- reading an expression ---- */

struct names {
    const char *text; /* three letters each */
    uint32_t first;   /* the number of the first */
};

struct field {
    uint32_t least;
    uint32_t most;
    struct names names;
    const char *fault;
};

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const struct field fields[FIELDS] = {
    [SECOND] = {0, 59, {NULL, 0}, "has a second that is none: 0 to 59"},
    [MINUTE] = {0, 59, {NULL, 0}, "has a minute that is none: 0 to 59"},
    [HOUR] = {0, 23, {NULL, 0}, "has an hour that is none: 0 to 23"},
    [DAY] = {1, 31, {NULL, 0}, "has a day of the month that is none: 1 to 31"},
    [MONTH] = {1,
               12,
               {"janfebmaraprmayjunjulaugsepoctnovdec", 1},
               "has a month that is none: 1 to 12, or jan to dec"},
    [WEEKDAY] = {0,
                 7,
                 {"sunmontuewedthufrisat", 0},
                 "has a weekday that is none: 0 to 7, or sun to sat"},
};

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static bool take(struct tr_span *text, char c)
{
    if (text->size == 0 || text->text[0] != c)
        return false;
    *text = tr_span_from(*text, 1);
    return true;
}

static bool take_name(struct tr_span *text, const struct names *names, uint32_t *value)
{
    const char *name = names->text;
    for (uint32_t i = 0; name != NULL && *name != '\0' && text->size >= 3; i++, name += 3) {
        if (lower(text->text[0]) != name[0] || lower(text->text[1]) != name[1] ||
            lower(text->text[2]) != name[2])
            continue;
        *value = names->first + i;
        *text = tr_span_from(*text, 3);
        return true;
    }
    return false;
}

static bool take_number(struct tr_span *text, uint32_t *value)
{
    size_t digits = 0;
    *value = 0;
    for (; digits < text->size && text->text[digits] >= '0' && text->text[digits] <= '9';
         digits++) {
        if (digits == 4)
            return false;
        *value = *value * 10 + (uint32_t)(text->text[digits] - '0');
    }
    *text = tr_span_from(*text, digits);
    return digits > 0;
}

static bool take_value(struct tr_span *text, const struct field *field, uint32_t *value)
{
    return (take_name(text, &field->names, value) || take_number(text, value)) &&
           *value >= field->least && *value <= field->most;
}

/* One of a list: * or a value or a range, with a step. NULL: it is read. */
static const char *read_item(struct tr_span *text, const struct field *field, uint64_t *bits)
{
    uint32_t from = field->least;
    uint32_t to = field->most;
    uint32_t step = 1;
    bool is_one = false;
    if (!take(text, '*')) {
        if (!take_value(text, field, &from))
            return field->fault;
        is_one = !take(text, '-');
        to = from;
        if (!is_one && !take_value(text, field, &to))
            return field->fault;
        if (to == 0 && from > 0 && field == &fields[WEEKDAY])
            to = 7; /* fri-sun */
        if (to < from)
            return "has a range that ends before it begins";
    }
    if (take(text, '/')) {
        if (is_one)
            return "has a step behind a single value: a range or * goes before it";
        if (!take_number(text, &step) || step == 0)
            return "has a step that is none";
    }
    for (uint32_t value = from; value <= to; value += step)
        *bits |= (uint64_t)1 << value;
    return NULL;
}

static const char *read_field(struct tr_span text, const struct field *field, uint64_t *bits)
{
    *bits = 0;
    do {
        const char *fault = read_item(&text, field, bits);
        if (fault != NULL)
            return fault;
    } while (take(&text, ','));
    return text.size == 0 ? NULL : field->fault;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next field; empty at the end. */
static struct tr_span take_word(struct tr_span *text)
{
    size_t start = 0;
    while (start < text->size && is_blank(text->text[start]))
        start++;
    size_t end = start;
    while (end < text->size && !is_blank(text->text[end]))
        end++;
    struct tr_span word = {text->text + start, end - start};
    *text = tr_span_from(*text, end);
    return word;
}

static const char *of_macro(struct tr_span text, struct tr_span *meant)
{
    static const struct {
        struct tr_span name;
        struct tr_span meant;
    } macros[] = {
        {{"@yearly", 7}, {"0 0 1 1 *", 9}},  {{"@annually", 9}, {"0 0 1 1 *", 9}},
        {{"@monthly", 8}, {"0 0 1 * *", 9}}, {{"@weekly", 7}, {"0 0 * * 0", 9}},
        {{"@daily", 6}, {"0 0 * * *", 9}},   {{"@midnight", 9}, {"0 0 * * *", 9}},
        {{"@hourly", 7}, {"0 * * * *", 9}},
    };
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++) {
        if (!tr_span_equals_nocase(text, macros[i].name))
            continue;
        *meant = macros[i].meant;
        return NULL;
    }
    if (tr_span_equals_nocase(text, TR_SPAN("@every")))
        return "has @every: that is timing.interval";
    return "has a name that is none: @yearly, @monthly, @weekly, @daily and @hourly are there";
}

/* What other dialects have, and is refused by name. */
static const char *find_foreign(struct tr_span word)
{
    static const char marks[] = ",-0123456789";
    for (size_t i = 0; i < word.size; i++) {
        char c = word.text[i];
        bool is_apart = i == 0 || memchr(marks, word.text[i - 1], sizeof marks - 1) != NULL;
        if (c == '?')
            return "has ?, which is not taken: write *";
        if (c == '#')
            return "has #, which is not taken";
        if (c == 'L' && is_apart)
            return "has L, which is not taken";
        if (c == 'W' && is_apart && (i + 1 == word.size || lower(word.text[i + 1]) != 'e'))
            return "has W, which is not taken";
    }
    return NULL;
}

const char *tr_cron_parse(struct tr_span text, struct tr_cron *cron)
{
    struct tr_span words[FIELDS] = {{NULL, 0}};
    uint64_t bits[FIELDS];
    unsigned count = 0;
    if (text.size > TR_CRON_MAX)
        return "has more than 256 characters";
    struct tr_span word = take_word(&text);
    if (word.size > 0 && word.text[0] == '@') {
        struct tr_span meant;
        const char *fault = of_macro(word, &meant);
        if (fault != NULL)
            return fault;
        if (take_word(&text).size > 0)
            return "has something behind its name";
        text = meant;
        word = take_word(&text);
    }
    for (; word.size > 0 && count < FIELDS; word = take_word(&text))
        words[count++] = word;
    if (word.size > 0 || count < FIELDS - 1)
        return "must have five fields, or six with seconds first";
    if (count < FIELDS) {
        memmove(&words[1], &words[0], (FIELDS - 1) * sizeof words[0]);
        words[SECOND] = TR_SPAN("0");
    }
    for (unsigned i = 0; i < FIELDS; i++) {
        const char *fault = find_foreign(words[i]);
        if (fault == NULL)
            fault = read_field(words[i], &fields[i], &bits[i]);
        if (fault != NULL)
            return fault;
    }
    cron->seconds = bits[SECOND];
    cron->minutes = bits[MINUTE];
    cron->hours = (uint32_t)bits[HOUR];
    cron->days = (uint32_t)bits[DAY];
    cron->months = (uint32_t)bits[MONTH];
    cron->weekdays = (uint32_t)((bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f);
    cron->are_days_open = words[DAY].text[0] == '*';
    cron->are_weekdays_open = words[WEEKDAY].text[0] == '*';
    cron->names_times = memchr(words[MINUTE].text, '*', words[MINUTE].size) == NULL &&
                        memchr(words[HOUR].text, '*', words[HOUR].size) == NULL;
    return NULL;
}

/* ---- local times that match ---- */

static bool is_day(const struct tr_cron *cron, int64_t days)
{
    struct tr_date date = tr_date_of_days(days);
    bool is_of_month = (cron->days >> date.day & 1) != 0;
    bool is_of_week = (cron->weekdays >> tr_date_weekday(days) & 1) != 0;
    if ((cron->months >> date.month & 1) == 0)
        return false;
    return cron->are_days_open || cron->are_weekdays_open ? is_of_month && is_of_week
                                                          : is_of_month || is_of_week;
}

/* The first bit from `from` on; `count` if there is none. */
static uint32_t next_bit(uint64_t bits, uint32_t from, uint32_t count)
{
    while (from < count && (bits >> from & 1) == 0)
        from++;
    return from;
}

/* The first second of a day that matches, from `from` on. TR_DAY_S: none. */
static int64_t next_of_day(const struct tr_cron *cron, int64_t from)
{
    uint32_t hour = (uint32_t)(from / 3600);
    uint32_t minute = (uint32_t)(from / 60 % 60);
    uint32_t second = next_bit(cron->seconds, (uint32_t)(from % 60), 60);
    if (second == 60) {
        second = next_bit(cron->seconds, 0, 60);
        minute++;
    }
    uint32_t next = next_bit(cron->minutes, minute, 60);
    if (next != minute)
        second = next_bit(cron->seconds, 0, 60);
    minute = next;
    if (minute >= 60) {
        minute = next_bit(cron->minutes, 0, 60);
        second = next_bit(cron->seconds, 0, 60);
        hour++;
    }
    next = next_bit(cron->hours, hour, 24);
    if (next != hour) {
        minute = next_bit(cron->minutes, 0, 60);
        second = next_bit(cron->seconds, 0, 60);
    }
    return next >= 24 ? TR_DAY_S : (int64_t)next * 3600 + (int64_t)minute * 60 + second;
}

static int64_t day_of(int64_t local_s)
{
    return (local_s >= 0 ? local_s : local_s - (TR_DAY_S - 1)) / TR_DAY_S;
}

/* The first local time in [from, to) that matches. False: there is none. */
static bool find_local(const struct tr_cron *cron, int64_t from_s, int64_t to_s, int64_t *local_s)
{
    int64_t start = from_s - day_of(from_s) * TR_DAY_S;
    for (int64_t day = day_of(from_s); day * TR_DAY_S < to_s; day++, start = 0) {
        int64_t second = is_day(cron, day) ? next_of_day(cron, start) : TR_DAY_S;
        if (second == TR_DAY_S)
            continue;
        *local_s = day * TR_DAY_S + second;
        return *local_s < to_s;
    }
    return false;
}

/* ---- instants ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The local time from which on an era does not repeat what the one before it had. */
static int64_t repeated_until(const struct tr_zone *zone, const struct tr_zone_era *era)
{
    if (era->from_s == INT64_MIN)
        return INT64_MIN;
    struct tr_zone_era before = tr_zone_era_at(zone, era->from_s - 1);
    return before.offset_s > era->offset_s ? era->from_s + before.offset_s : INT64_MIN;
}

/* The local time from which on the next era repeats what this one has. */
static int64_t repeated_from(const struct tr_zone *zone, const struct tr_zone_era *era)
{
    if (era->to_s == INT64_MAX)
        return INT64_MAX;
    struct tr_zone_era after = tr_zone_era_at(zone, era->to_s);
    return after.offset_s < era->offset_s ? era->to_s + after.offset_s : INT64_MAX;
}

/* Whether a time of day fell into the gap before this era. */
static bool is_gap_due(const struct tr_cron *cron, const struct tr_zone *zone,
                       const struct tr_zone_era *era)
{
    int64_t local_s = 0;
    if (!cron->names_times || cron->gap == TR_GAP_SKIP || era->from_s == INT64_MIN)
        return false;
    struct tr_zone_era before = tr_zone_era_at(zone, era->from_s - 1);
    return before.offset_s < era->offset_s &&
           find_local(cron, era->from_s + before.offset_s, era->from_s + era->offset_s, &local_s);
}

/* The first instant of an era from `from_s` on, and before `limit_s`. */
static bool find_in_era(const struct tr_cron *cron, const struct tr_zone *zone,
                        const struct tr_zone_era *era, int64_t from_s, int64_t limit_s,
                        int64_t *at_s)
{
    int64_t local_s = 0;
    int64_t from = from_s + era->offset_s;
    int64_t to = least(era->to_s, limit_s) + era->offset_s;
    if (cron->names_times && cron->overlap == TR_OVERLAP_FIRST)
        from = most(from, repeated_until(zone, era));
    if (cron->names_times && cron->overlap == TR_OVERLAP_LAST)
        to = least(to, repeated_from(zone, era));
    bool is_found = find_local(cron, from, to, &local_s);
    *at_s = local_s - era->offset_s;
    return is_found;
}

bool tr_cron_next(const struct tr_cron *cron, const struct tr_zone *zone, tr_wall_ms after_ms,
                  tr_wall_ms *next_ms)
{
    TR_ASSERT(cron->seconds != 0 && cron->minutes != 0 && cron->hours != 0);
    int64_t from_s = (int64_t)(after_ms / 1000) + 1;
    int64_t limit_s = from_s + (int64_t)TR_CRON_YEARS * 366 * TR_DAY_S;
    int64_t at_s = 0;
    for (unsigned i = 0; i < ERAS_MAX && from_s < limit_s; i++) {
        struct tr_zone_era era = tr_zone_era_at(zone, from_s);
        TR_ASSERT(era.from_s <= from_s && era.to_s > from_s);
        bool is_due = from_s == era.from_s && is_gap_due(cron, zone, &era);
        if (is_due)
            at_s = from_s;
        if (is_due || find_in_era(cron, zone, &era, from_s, limit_s, &at_s)) {
            *next_ms = (tr_wall_ms)at_s * 1000;
            return true;
        }
        from_s = era.to_s;
    }
    return false;
}
