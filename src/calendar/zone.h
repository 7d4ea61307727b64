/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time zones: how far local time is from UTC, as the files of the tz database tell (TZif of RFC
 * 9636, version 2 or later): a table of transitions, and a rule for the time after the last.
 *
 * A zone points into the bytes that it was read from, and is good for as long as they are.
 */
#ifndef TR_CALENDAR_ZONE_H
#define TR_CALENDAR_ZONE_H

#include "base/span.h"

#include <stdint.h>

#define TR_ZONE_NAME_MAX 64 /* bytes of a zone's name */

/* A day on which summer time begins or ends, in each year. */
struct tr_zone_day {
    char kind;      /* J: day 1 to 365, never the leap day; 0: day 0 to 365; M: a weekday */
    uint32_t month; /* of M, */
    uint32_t week;  /* 5 is the last, */
    uint32_t day;   /* the weekday; of the others the day */
    int32_t time_s; /* of that day, by the clock that ends there */
};

struct tr_zone {
    const uint8_t *times; /* of transitions, 8 bytes each */
    const uint8_t *kinds; /* what begins there: an index into the types */
    const uint8_t *types; /* 6 bytes each: 4 of them the offset */
    uint32_t time_count;
    uint32_t type_count;

    /* After the last transition. */
    bool has_rule; /* else its type goes on for ever */
    bool has_summer;
    int32_t standard_s;
    int32_t summer_s;
    struct tr_zone_day begins;
    struct tr_zone_day ends;
};

/* A time in which the offset is the same: from its first second to before the last. */
struct tr_zone_era {
    int64_t from_s; /* UTC; INT64_MIN: there is none before it, */
    int64_t to_s;   /* and INT64_MAX: none after it */
    int32_t offset_s;
};

/* False: it is no file of a time zone, of version 1, or one that counts leap seconds. */
bool tr_zone_parse(const uint8_t *bytes, size_t size, struct tr_zone *zone);

/* Where zones are found. What a name gives stays the same until all who use it are told that zones
 * have changed. */
struct tr_zones {
    const struct tr_zone *(*find)(void *context, struct tr_span name); /* NULL: there is none */
    void *context;
};

/* UTC, which needs no file. */
struct tr_zone tr_zone_utc(void);

/* Whether a zone may be called so: letters, digits and _+-, in parts with a slash between them. It
 * is the path of a file below the folder of zones, and never leads out of it. */
bool tr_zone_is_name(struct tr_span name);

struct tr_zone_era tr_zone_era_at(const struct tr_zone *zone, int64_t at_s);

#endif
