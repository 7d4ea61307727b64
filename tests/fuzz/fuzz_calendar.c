/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text as an instant and as a cron expression, and any bytes as a time zone: what is read is within
 * its bounds, eras follow each other without a gap, and what is due next is after what was before.
 */
#include "base/assert.h"
#include "calendar/cron.h"
#include "calendar/date.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void turn_instant(struct tr_span text)
{
    char written[TR_INSTANT_SIZE + 1];
    tr_wall_ms at_ms = 0;
    tr_wall_ms again_ms = 0;
    if (!tr_instant_parse(text, &at_ms))
        return;
    tr_instant_write(at_ms, written);
    TR_ASSERT(strlen(written) == TR_INSTANT_SIZE);
    bool is_read = tr_instant_parse((struct tr_span){written, TR_INSTANT_SIZE}, &again_ms);
    TR_ASSERT(is_read && (again_ms == at_ms || written[3] == '9'));
}

static void walk_cron(struct tr_span text, const struct tr_zone *zone)
{
    tr_wall_ms at_ms = 1774659600000;
    for (unsigned overlap = TR_OVERLAP_FIRST; overlap <= TR_OVERLAP_BOTH; overlap++) {
        struct tr_cron cron = {.overlap = (enum tr_cron_overlap)overlap};
        if (tr_cron_parse(text, &cron) != NULL)
            return;
        for (unsigned i = 0; i < STEPS; i++) {
            tr_wall_ms next_ms = 0;
            if (!tr_cron_next(&cron, zone, at_ms, &next_ms))
                break;
            TR_ASSERT(next_ms > at_ms && next_ms % 1000 == 0);
            at_ms = next_ms;
        }
    }
}

static void walk_zone(const struct tr_zone *zone)
{
    struct tr_zone_era era = tr_zone_era_at(zone, 0);
    for (unsigned i = 0; i < STEPS && era.to_s != INT64_MAX; i++) {
        TR_ASSERT(era.from_s < era.to_s);
        struct tr_zone_era next = tr_zone_era_at(zone, era.to_s);
        TR_ASSERT(next.from_s == era.to_s);
        era = next;
    }
}

/* Up to a zero byte there is text, and behind it a zone. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    struct tr_zone zone = tr_zone_utc();
    if (size > 0)
        memcpy(copy, data, size);
    const uint8_t *end = memchr(copy, 0, size);
    struct tr_span text = {(const char *)copy, end != NULL ? (size_t)(end - copy) : size};
    turn_instant(text);
    walk_cron(text, &zone);
    size_t used = text.size + (end != NULL ? 1 : 0);
    if (tr_zone_parse(copy + used, size - used, &zone)) {
        walk_zone(&zone);
        walk_cron(text, &zone);
    }
    free(copy);
    return 0;
}
