/* SPDX-License-Identifier: Apache-2.0 */
/* `timing` of a timer's body: when it pops. */
#include "base/assert.h"
#include "calendar/date.h"
#include "wire/body_reader.h"

#define INSTANT_MOST (TR_TIME_MAX / 2) /* the year 6429 */
#define JITTER_MOST  ((uint64_t)366 * 86400000)

static bool read_duration(struct tr_body_reader *reader, const char *path, uint64_t *floor,
                          bool *is_exact)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    if (token != TR_JSON_NUMBER || !tr_json_thousandths(reader->json.text, floor, is_exact))
        return tr_body_refuse(reader, path, " must be a number >= 0");
    return *floor < TR_INTERVAL_MAX ||
           tr_body_refuse(reader, path, " must be less than 1115 years");
}

static bool read_interval(struct tr_body_reader *reader)
{
    reader->has_interval = true;
    return read_duration(reader, "timing.interval", &reader->interval_floor,
                         &reader->is_interval_exact);
}

/* A duration, or that it does not end. */
static bool read_repeat(struct tr_body_reader *reader)
{
    static const char path[] = "timing.repeat-for";
    reader->has_repeat = true;
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    reader->is_forever =
        token == TR_JSON_STRING && tr_span_equals(reader->json.text, TR_SPAN("forever"));
    if (reader->is_forever)
        return true;
    if (token != TR_JSON_NUMBER ||
        !tr_json_thousandths(reader->json.text, &reader->repeat_floor, &reader->is_repeat_exact))
        return tr_body_refuse(reader, path, " must be a number >= 0, or \"forever\"");
    return reader->repeat_floor < TR_INTERVAL_MAX ||
           tr_body_refuse(reader, path, " must be less than 1115 years, or \"forever\"");
}

static bool read_count(struct tr_body_reader *reader)
{
    reader->has_count = true;
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    return (token == TR_JSON_NUMBER &&
            tr_json_whole(reader->json.text, UINT32_MAX, &reader->count) && reader->count > 0) ||
           tr_body_refuse(reader, "timing.count", " must be a whole number from 1 to 4294967295");
}

static bool read_instant(struct tr_body_reader *reader, const char *path, tr_wall_ms *at_ms)
{
    struct tr_span text = {NULL, 0};
    if (!tr_body_string(reader, path, &text))
        return false;
    if (!tr_instant_parse(text, at_ms) || *at_ms > INSTANT_MOST)
        return tr_body_refuse(reader, path, " must be an instant, as 2026-11-19T08:30:00Z");
    *at_ms = *at_ms > 0 ? *at_ms : 1; /* 0 is none */
    return true;
}

static bool read_at(struct tr_body_reader *reader)
{
    reader->has_at = true;
    return read_instant(reader, "timing.at", &reader->out->at_ms);
}

static bool read_until(struct tr_body_reader *reader)
{
    return read_instant(reader, "timing.until", &reader->out->plan.until_ms);
}

static bool read_cron(struct tr_body_reader *reader)
{
    struct tr_cron cron;
    struct tr_plan *plan = &reader->out->plan;
    if (!tr_body_string(reader, "timing.cron", &plan->cron))
        return false;
    const char *fault = tr_cron_parse(plan->cron, &cron);
    if (fault != NULL) {
        tr_problem_set(reader->problem, 400, "timing.cron ", fault, NULL);
        tr_body_point(reader, "timing.cron", (struct tr_span){0});
    }
    return fault == NULL;
}

static bool read_zone(struct tr_body_reader *reader)
{
    struct tr_plan *plan = &reader->out->plan;
    reader->has_cron_members = true;
    return tr_body_string(reader, "timing.zone", &plan->zone) &&
           ((plan->zone.size <= TR_ZONE_NAME_MAX && tr_zone_is_name(plan->zone)) ||
            tr_body_refuse(reader, "timing.zone", " must be the name of a zone, as Europe/Berlin"));
}

/* One of some words; which, from 0 on. */
static bool read_word(struct tr_body_reader *reader, const char *path, const char *const *words,
                      const char *what, unsigned *place)
{
    struct tr_span text = {NULL, 0};
    if (!tr_body_string(reader, path, &text))
        return false;
    for (*place = 0; words[*place] != NULL; (*place)++) {
        if (tr_span_equals(text, (struct tr_span){words[*place], strlen(words[*place])}))
            return true;
    }
    return tr_body_refuse(reader, path, what);
}

static bool read_gap(struct tr_body_reader *reader)
{
    static const char *const words[] = {
        [TR_GAP_AFTER] = "after", [TR_GAP_SKIP] = "skip", [TR_GAP_SKIP + 1] = NULL};
    unsigned place = 0;
    reader->has_cron_members = true;
    bool is_read = read_word(reader, "timing.gap", words, " must be after or skip", &place);
    reader->out->plan.gap = (enum tr_cron_gap)place;
    return is_read;
}

static bool read_overlap(struct tr_body_reader *reader)
{
    static const char *const words[] = {[TR_OVERLAP_FIRST] = "first",
                                        [TR_OVERLAP_LAST] = "last",
                                        [TR_OVERLAP_BOTH] = "both",
                                        [TR_OVERLAP_BOTH + 1] = NULL};
    unsigned place = 0;
    reader->has_cron_members = true;
    bool is_read =
        read_word(reader, "timing.overlap", words, " must be first, last or both", &place);
    reader->out->plan.overlap = (enum tr_cron_overlap)place;
    return is_read;
}

static bool read_missed(struct tr_body_reader *reader)
{
    static const char *const words[] = {"all", "last", "none", NULL};
    unsigned place = 0;
    bool is_read = read_word(reader, "timing.missed", words, " must be all, last or none", &place);
    reader->out->plan.missed = (enum tr_missed)(TR_MISSED_ALL + place);
    return is_read;
}

static bool read_jitter(struct tr_body_reader *reader)
{
    bool is_exact = false;
    return read_duration(reader, "timing.jitter", &reader->out->plan.jitter_ms, &is_exact) &&
           (reader->out->plan.jitter_ms <= JITTER_MOST ||
            tr_body_refuse(reader, "timing.jitter", " must be at most a year"));
}

bool tr_body_read_timing(struct tr_body_reader *reader)
{
    static const char *const known[] = {"interval", "repeat-for", "count",  "at",
                                        "until",    "cron",       "zone",   "gap",
                                        "overlap",  "missed",     "jitter", NULL};
    static bool (*const read[])(struct tr_body_reader *) = {
        read_interval, read_repeat, read_count,   read_at,     read_until, read_cron,
        read_zone,     read_gap,    read_overlap, read_missed, read_jitter};
    static const char *const foreign[] = {"start-time", "start-time-delta", "sequence-number",
                                          NULL};
    struct tr_members members;
    tr_members_init(&members, "timing");
    bool is_done = false;
    if (!tr_body_object(reader, "timing"))
        return false;
    while (tr_body_next(reader, &members, &is_done)) {
        struct tr_span name = reader->json.text;
        unsigned i = 0;
        while (known[i] != NULL &&
               !tr_span_equals(name, (struct tr_span){known[i], strlen(known[i])}))
            i++;
        bool is_read =
            known[i] != NULL
                ? read[i](reader)
                : tr_body_refuse_unknown(reader, "timing", (struct tr_body_names){known, foreign});
        if (!is_read)
            return false;
    }
    return is_done;
}

/* ---- when all of it is read ---- */

/* So many pops are as long a time of repeating. */
static bool repeat_by_count(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (reader->has_repeat)
        return tr_body_refuse(reader, "timing.count",
                              " and timing.repeat-for cannot both be given");
    if (reader->count > 1 && out->interval_ms == 0)
        return tr_body_refuse(reader, "timing.count", " must be 1 when timing.interval is 0");
    if (reader->count > 1 && reader->count > TR_INTERVAL_MAX / out->interval_ms)
        return tr_body_refuse(reader, "timing.count", " must end within 1115 years");
    out->repeat_ms = reader->count > 1 ? reader->count * out->interval_ms : 0;
    return true;
}

static bool repeat_by_time(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (reader->is_forever && out->interval_ms == 0)
        return tr_body_refuse(reader, "timing.repeat-for", " must be 0 when timing.interval is 0");
    if (reader->is_forever) {
        out->repeat_ms = TR_REPEAT_EVER;
        return true;
    }
    out->repeat_ms = reader->repeat_floor;
    if (out->interval_ms == 0) {
        if (out->repeat_ms > 0 || !reader->is_repeat_exact)
            return tr_body_refuse(reader, "timing.repeat-for",
                                  " must be 0 when timing.interval is 0");
        return true;
    }
    if (out->repeat_ms <= out->interval_ms) /* one pop, as the original makes it */
        out->repeat_ms = 0;
    TR_ASSERT(out->repeat_ms == 0 || out->repeat_ms > out->interval_ms);
    return true;
}

static bool check_cron(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (reader->has_interval || reader->has_at)
        return tr_body_refuse(reader, "timing.cron", " stands instead of interval and at");
    if (reader->has_repeat && !reader->is_forever)
        return tr_body_refuse(reader, "timing.repeat-for",
                              " is for intervals: with cron, count or until say when it ends");
    if (reader->has_repeat && reader->has_count)
        return tr_body_refuse(reader, "timing.count",
                              " and timing.repeat-for cannot both be given");
    out->plan.timing = TR_TIMING_CRON;
    out->pops = reader->has_count ? reader->count : TR_REPEAT_EVER;
    return true;
}

bool tr_body_check_timing(struct tr_body_reader *reader)
{
    struct tr_timer_body *out = reader->out;
    if (out->plan.cron.size > 0)
        return check_cron(reader);
    if (reader->has_cron_members)
        return tr_body_refuse(reader, "timing.cron",
                              " is missing: zone, gap and overlap go with it");
    if (!reader->has_interval && !reader->has_at)
        return tr_body_refuse(reader, "timing.interval", " is missing, as are at and cron");
    TR_ASSERT(reader->interval_floor < TR_INTERVAL_MAX);
    out->plan.timing = reader->has_at ? TR_TIMING_AT : TR_TIMING_INTERVAL;
    /* Up, so that it is never early; the end of the repeats down, so that none is after it. */
    out->interval_ms =
        reader->interval_floor + (reader->has_interval && !reader->is_interval_exact);
    if (reader->has_count ? !repeat_by_count(reader)
                          : reader->has_repeat && !repeat_by_time(reader))
        return false;
    out->pops = out->repeat_ms == 0                ? 1
                : out->repeat_ms == TR_REPEAT_EVER ? TR_REPEAT_EVER
                                                   : out->repeat_ms / out->interval_ms;
    return true;
}
