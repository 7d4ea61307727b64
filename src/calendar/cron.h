/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cron expressions, in Vixie's dialect, and when they are due next in a time zone.
 *
 * An expression without * in its minute and hour fields names times of day. On a day on which such
 * a time does not exist it is due at the first instant after the gap; where it comes twice, at the
 * first. Any other expression goes through the hours as they come: it is due at each instant whose
 * local time matches.
 */
#ifndef TR_CALENDAR_CRON_H
#define TR_CALENDAR_CRON_H

#include "base/time.h"
#include "calendar/zone.h"

#define TR_CRON_MAX   256 /* bytes of an expression */
#define TR_CRON_YEARS 8 /* in which it must be due; from one leap day to the next it may be that */

enum tr_cron_gap {
    TR_GAP_AFTER, /* a time that a day does not have: right after the gap */
    TR_GAP_SKIP,
};

enum tr_cron_overlap {
    TR_OVERLAP_FIRST, /* of a time that a day has twice */
    TR_OVERLAP_LAST,
    TR_OVERLAP_BOTH,
};

struct tr_cron {
    uint64_t seconds; /* a bit for each that matches; so the others */
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;      /* from bit 1 on */
    uint32_t months;    /* likewise */
    uint32_t weekdays;  /* bit 0: Sunday */
    bool are_days_open; /* the field begins with *: then both fields of days are to match */
    bool are_weekdays_open;
    bool names_times; /* no * in the minute and hour fields */
    enum tr_cron_gap gap;
    enum tr_cron_overlap overlap;
};

/* Sets all but what becomes of gaps and overlaps, which is left as it is. NULL: it is one; else
 * what is wrong, as the end of a sentence. */
const char *tr_cron_parse(struct tr_span text, struct tr_cron *cron);

/* The first instant after `after_ms`, on a whole second. False: there is none in TR_CRON_YEARS. */
bool tr_cron_next(const struct tr_cron *cron, const struct tr_zone *zone, tr_wall_ms after_ms,
                  tr_wall_ms *next_ms);

#endif
