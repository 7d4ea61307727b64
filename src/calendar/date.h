/* SPDX-License-Identifier: Apache-2.0 */
/* Days of the Gregorian calendar, and instants as RFC 3339 writes them. */
#ifndef TR_CALENDAR_DATE_H
#define TR_CALENDAR_DATE_H

#include "base/span.h"
#include "base/time.h"

#define TR_DAY_S        86400
#define TR_INSTANT_SIZE 24 /* characters of 2026-11-19T08:30:00.000Z */

struct tr_date {
    int32_t year;
    uint32_t month; /* from 1 on, and so are days */
    uint32_t day;
};

/* Days since 1970-01-01, which is day 0. */
int64_t tr_date_days(struct tr_date date);
struct tr_date tr_date_of_days(int64_t days);
uint32_t tr_date_weekday(int64_t days); /* 0: Sunday */
uint32_t tr_date_month_days(int32_t year, uint32_t month);

/* RFC 3339 with an offset. Parts of a millisecond count as a whole one, and what lies before 1970
 * is 1970: it has passed. False: it is none. */
bool tr_instant_parse(struct tr_span text, tr_wall_ms *at_ms);

/* A date of HTTP, as Sun, 06 Nov 1994 08:49:37 GMT. False: it is none. */
bool tr_http_date_parse(struct tr_span text, tr_wall_ms *at_ms);

/* In UTC, with a zero byte behind it. Years have four digits: what lies beyond is the last. */
void tr_instant_write(tr_wall_ms at_ms, char out[TR_INSTANT_SIZE + 1]);

#endif
