/* SPDX-License-Identifier: Apache-2.0 */
#include "calendar/zone.h"

#include "calendar/date.h"

#define HEAD_SIZE     44
#define TIME_SIZE     8
#define TYPE_SIZE     6
#define COUNT_MAX     65536 /* of anything in a file: more is damage */
#define OFFSET_MAX    (26 * 3600)
#define RULE_TIME_MAX (167 * 3600)

/* ---- the file ---- */

struct counts {
    uint32_t utc, standard, leaps, times, types, chars;
};

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int64_t time_at(const struct tr_zone *zone, uint32_t index)
{
    const uint8_t *bytes = zone->times + (size_t)index * TIME_SIZE;
    return (int64_t)((uint64_t)number_at(bytes) << 32 | number_at(bytes + 4));
}

static bool read_head(const uint8_t *bytes, size_t size, struct counts *counts)
{
    if (size < HEAD_SIZE || memcmp(bytes, "TZif", 4) != 0 || bytes[4] < '2')
        return false;
    *counts = (struct counts){
        .utc = number_at(bytes + 20),
        .standard = number_at(bytes + 24),
        .leaps = number_at(bytes + 28),
        .times = number_at(bytes + 32),
        .types = number_at(bytes + 36),
        .chars = number_at(bytes + 40),
    };
    return counts->utc <= COUNT_MAX && counts->standard <= COUNT_MAX &&
           counts->leaps <= COUNT_MAX && counts->times <= COUNT_MAX && counts->types <= 256 &&
           counts->chars <= COUNT_MAX;
}

static size_t body_size(const struct counts *counts, size_t time_size)
{
    return counts->times * (time_size + 1) + (size_t)counts->types * TYPE_SIZE + counts->chars +
           counts->leaps * (time_size + 4) + counts->standard + counts->utc;
}

static bool is_table_sound(const struct tr_zone *zone)
{
    for (uint32_t i = 0; i < zone->type_count; i++) {
        int32_t offset = (int32_t)number_at(zone->types + (size_t)i * TYPE_SIZE);
        if (offset > OFFSET_MAX || offset < -OFFSET_MAX)
            return false;
    }
    for (uint32_t i = 0; i < zone->time_count; i++) {
        if (zone->kinds[i] >= zone->type_count ||
            (i > 0 && time_at(zone, i) <= time_at(zone, i - 1)))
            return false;
    }
    return zone->type_count > 0;
}

/* ---- the rule behind the table: TZ of POSIX ---- */

static bool take(struct tr_span *text, char c)
{
    if (text->size == 0 || text->text[0] != c)
        return false;
    *text = tr_span_from(*text, 1);
    return true;
}

static bool take_number(struct tr_span *text, uint32_t most, uint32_t *value)
{
    size_t digits = 0;
    *value = 0;
    for (; digits < text->size && text->text[digits] >= '0' && text->text[digits] <= '9';
         digits++) {
        *value = *value * 10 + (uint32_t)(text->text[digits] - '0');
        if (*value > most)
            return false;
    }
    *text = tr_span_from(*text, digits);
    return digits > 0;
}

/* Letters, or anything between < and >. */
static bool take_name(struct tr_span *text)
{
    size_t size = 0;
    if (take(text, '<')) {
        while (size < text->size && text->text[size] != '>')
            size++;
        *text = tr_span_from(*text, size);
        return size > 0 && take(text, '>');
    }
    while (size < text->size && ((text->text[size] >= 'A' && text->text[size] <= 'Z') ||
                                 (text->text[size] >= 'a' && text->text[size] <= 'z')))
        size++;
    *text = tr_span_from(*text, size);
    return size >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct tr_span *text, int32_t *seconds)
{
    uint32_t parts[3] = {0};
    bool is_negative = take(text, '-');
    if (!is_negative)
        take(text, '+');
    if (!take_number(text, 167, &parts[0]))
        return false;
    for (unsigned i = 1; i < 3 && take(text, ':'); i++) {
        if (!take_number(text, 59, &parts[i]))
            return false;
    }
    int32_t value = (int32_t)(parts[0] * 3600 + parts[1] * 60 + parts[2]);
    *seconds = is_negative ? -value : value;
    return true;
}

static bool take_day(struct tr_span *text, struct tr_zone_day *day)
{
    *day = (struct tr_zone_day){.kind = '0', .time_s = 2 * 3600};
    if (take(text, 'M')) {
        day->kind = 'M';
        if (!take_number(text, 12, &day->month) || !take(text, '.') ||
            !take_number(text, 5, &day->week) || !take(text, '.') ||
            !take_number(text, 6, &day->day) || day->month == 0 || day->week == 0)
            return false;
    } else {
        if (take(text, 'J'))
            day->kind = 'J';
        if (!take_number(text, 365, &day->day) || (day->kind == 'J' && day->day == 0))
            return false;
    }
    return !take(text, '/') || take_time(text, &day->time_s);
}

/* Offsets are written as what is to be added to local time to get UTC. */
static bool read_rule(struct tr_span text, struct tr_zone *zone)
{
    int32_t behind = 0;
    if (text.size == 0)
        return true;
    if (!take_name(&text) || !take_time(&text, &behind))
        return false;
    zone->has_rule = true;
    zone->standard_s = -behind;
    if (text.size == 0)
        return behind <= OFFSET_MAX && behind >= -OFFSET_MAX;
    zone->has_summer = true;
    zone->summer_s = zone->standard_s + 3600;
    if (!take_name(&text))
        return false;
    if (text.size > 0 && text.text[0] != ',') {
        if (!take_time(&text, &behind))
            return false;
        zone->summer_s = -behind;
    }
    return take(&text, ',') && take_day(&text, &zone->begins) && take(&text, ',') &&
           take_day(&text, &zone->ends) && text.size == 0 && zone->standard_s <= OFFSET_MAX &&
           zone->standard_s >= -OFFSET_MAX && zone->summer_s <= OFFSET_MAX &&
           zone->summer_s >= -OFFSET_MAX;
}

/* The rule stands between two newlines at the end. */
static bool read_footer(const uint8_t *bytes, size_t size, struct tr_zone *zone)
{
    struct tr_span text = {(const char *)bytes, size};
    if (!take(&text, '\n'))
        return false;
    const char *end = memchr(text.text, '\n', text.size);
    if (end == NULL)
        return false;
    text.size = (size_t)(end - text.text);
    return read_rule(text, zone);
}

bool tr_zone_parse(const uint8_t *bytes, size_t size, struct tr_zone *zone)
{
    struct counts counts;
    *zone = (struct tr_zone){0};
    if (!read_head(bytes, size, &counts))
        return false;
    size_t first = HEAD_SIZE + body_size(&counts, 4); /* the same once more, with short times */
    if (size < first || !read_head(bytes + first, size - first, &counts))
        return false;
    const uint8_t *body = bytes + first + HEAD_SIZE;
    size_t left = size - first - HEAD_SIZE;
    size_t body_bytes = body_size(&counts, TIME_SIZE);
    if (left < body_bytes)
        return false;
    if (counts.leaps > 0)
        return false; /* its times count leap seconds, which clocks do not */
    zone->time_count = counts.times;
    zone->type_count = counts.types;
    zone->times = body;
    zone->kinds = body + (size_t)counts.times * TIME_SIZE;
    zone->types = zone->kinds + counts.times;
    return is_table_sound(zone) && read_footer(body + body_bytes, left - body_bytes, zone);
}

struct tr_zone tr_zone_utc(void)
{
    return (struct tr_zone){.has_rule = true};
}

bool tr_zone_is_name(struct tr_span name)
{
    bool is_first = true; /* of a part */
    if (name.size == 0 || name.size > TR_ZONE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.text[i];
        bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool is_other = (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
        if (is_first ? !is_letter : !is_letter && !is_other && c != '/')
            return false;
        is_first = c == '/';
    }
    return !is_first;
}

/* ---- eras ---- */

static int64_t day_in(const struct tr_zone_day *day, int32_t year)
{
    int64_t first = tr_date_days((struct tr_date){.year = year, .month = 1, .day = 1});
    if (day->kind == '0')
        return first + day->day;
    if (day->kind == 'J') {
        bool is_leap = tr_date_month_days(year, 2) == 29;
        return first + day->day - 1 + (is_leap && day->day >= 60 ? 1 : 0);
    }
    int64_t month = tr_date_days((struct tr_date){.year = year, .month = day->month, .day = 1});
    uint32_t ahead = (day->day + 7 - tr_date_weekday(month)) % 7;
    uint32_t of_month = ahead + (day->week - 1) * 7;
    while (of_month >= tr_date_month_days(year, day->month))
        of_month -= 7; /* the last */
    return month + of_month;
}

/* By the rule: summer begins and ends once a year, in whatever order. */
static struct tr_zone_era era_by_rule(const struct tr_zone *zone, int64_t at_s)
{
    struct tr_zone_era era = {INT64_MIN, INT64_MAX, zone->standard_s};
    if (!zone->has_summer)
        return era;
    int64_t days = (at_s >= 0 ? at_s : at_s - (TR_DAY_S - 1)) / TR_DAY_S;
    int32_t year = tr_date_of_days(days).year;
    for (int32_t i = year - 2; i <= year + 2; i++) {
        int64_t begins =
            day_in(&zone->begins, i) * TR_DAY_S + zone->begins.time_s - zone->standard_s;
        int64_t ends = day_in(&zone->ends, i) * TR_DAY_S + zone->ends.time_s - zone->summer_s;
        const struct {
            int64_t at_s;
            int32_t offset_s;
        } changes[] = {{ends, zone->standard_s}, {begins, zone->summer_s}};
        for (unsigned k = 0; k < 2; k++) { /* of two at once summer stays */
            if (changes[k].at_s <= at_s && changes[k].at_s >= era.from_s) {
                era.from_s = changes[k].at_s;
                era.offset_s = changes[k].offset_s;
            } else if (changes[k].at_s > at_s && changes[k].at_s < era.to_s) {
                era.to_s = changes[k].at_s;
            }
        }
    }
    return era;
}

/* The last transition that is not after it; the count of them if all are. */
static uint32_t transition_before(const struct tr_zone *zone, int64_t at_s)
{
    uint32_t low = 0;
    uint32_t high = zone->time_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (time_at(zone, middle) <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : zone->time_count;
}

struct tr_zone_era tr_zone_era_at(const struct tr_zone *zone, int64_t at_s)
{
    uint32_t last = transition_before(zone, at_s);
    bool is_before = last == zone->time_count; /* all, or there are none */
    bool is_after = zone->time_count == 0 || last + 1 == zone->time_count;
    if (is_after && zone->has_rule) {
        struct tr_zone_era era = era_by_rule(zone, at_s);
        if (!is_before && time_at(zone, last) > era.from_s)
            era.from_s = time_at(zone, last);
        return era;
    }
    TR_ASSERT(zone->type_count > 0);
    uint8_t type = is_before ? 0 : zone->kinds[last];
    uint32_t next = is_before ? 0 : last + 1;
    return (struct tr_zone_era){
        .from_s = is_before ? INT64_MIN : time_at(zone, last),
        .to_s = next < zone->time_count ? time_at(zone, next) : INT64_MAX,
        .offset_s = (int32_t)number_at(zone->types + (size_t)type * TYPE_SIZE),
    };
}
