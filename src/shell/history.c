/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/history.h"

#define MINUTE_MS 60000u

static void count(struct tr_history_counts *counts, const struct tr_metrics *metrics,
                  const struct tr_node *node)
{
    struct tr_node_stats stats;
    tr_node_stats(node, &stats);
    counts->created = stats.created + stats.replaced;
    counts->delivered = stats.pops_delivered;
    counts->failed = stats.pops_failed;
    counts->dead = stats.pops_dead;
    memcpy(counts->late_us, metrics->lateness_us.counts, sizeof counts->late_us);
}

/* What came to be since `before`. */
static void subtract(struct tr_history_counts *counts, const struct tr_history_counts *before)
{
    counts->created -= before->created;
    counts->delivered -= before->delivered;
    counts->failed -= before->failed;
    counts->dead -= before->dead;
    for (unsigned i = 0; i <= TR_HISTOGRAM_BUCKETS; i++)
        counts->late_us[i] -= before->late_us[i];
}

static struct tr_history_minute *place_of(struct tr_history *history, uint64_t minute)
{
    return &history->ring[minute % TR_HISTORY_MINUTES];
}

void tr_history_look(struct tr_history *history, tr_wall_ms now_ms, struct tr_metrics *metrics,
                     const struct tr_node *node)
{
    uint64_t minute = now_ms / MINUTE_MS;
    struct tr_history_counts now;
    if (minute <= history->minute)
        return; /* of a clock that was set back, too: it goes on when that is made up for */
    count(&now, metrics, node);
    struct tr_history_minute *last = place_of(history, history->minute);
    if (history->minute > 0) {
        struct tr_history_counts before = last->counts;
        last->counts = now;
        subtract(&last->counts, &before);
        last->late_most_us = metrics->lateness_most_us;
    }
    uint64_t passed = minute - history->minute;
    passed = history->minute > 0 && passed < TR_HISTORY_MINUTES ? passed : TR_HISTORY_MINUTES;
    for (uint64_t i = 0; i < passed; i++)
        *place_of(history, minute - i) = (struct tr_history_minute){.late_most_us = 0};
    if (history->minute > 0) { /* else it begins with nothing, as the counts did */
        place_of(history, minute)->counts = now;
        metrics->lateness_most_us = 0;
    }
    history->minute = minute;
}

void tr_history_tell(const struct tr_history *history, const struct tr_metrics *metrics,
                     const struct tr_node *node, struct tr_hour *hour)
{
    struct tr_history_counts now;
    *hour = (struct tr_hour){.total = {0}};
    count(&now, metrics, node);
    hour->total[0] = now.created;
    hour->total[1] = now.delivered;
    hour->total[2] = now.failed;
    hour->total[3] = now.dead;
    for (uint64_t i = 0; i < TR_HISTORY_MINUTES; i++) {
        uint64_t minute = history->minute + 1 + i; /* modulo 60: the oldest first */
        struct tr_history_minute at = history->ring[minute % TR_HISTORY_MINUTES];
        if (i == TR_HISTORY_MINUTES - 1) {
            struct tr_history_counts before = at.counts;
            at.counts = now;
            subtract(&at.counts, &before);
            at.late_most_us = metrics->lateness_most_us;
        }
        hour->minutes[0][i] = at.counts.created;
        hour->minutes[1][i] = at.counts.delivered;
        hour->minutes[2][i] = at.counts.failed;
        hour->minutes[3][i] = at.counts.dead;
        hour->late_most_us[i] = at.late_most_us;
        for (unsigned k = 0; k <= TR_HISTOGRAM_BUCKETS; k++)
            hour->late_us[k] += at.counts.late_us[k];
    }
}

void tr_hour_add(struct tr_hour *hour, const struct tr_hour *other)
{
    for (unsigned k = 0; k < 4; k++) {
        hour->total[k] += other->total[k];
        for (unsigned i = 0; i < TR_HISTORY_MINUTES; i++)
            hour->minutes[k][i] += other->minutes[k][i];
    }
    for (unsigned i = 0; i < TR_HISTORY_MINUTES; i++) {
        if (other->late_most_us[i] > hour->late_most_us[i])
            hour->late_most_us[i] = other->late_most_us[i];
    }
    for (unsigned i = 0; i <= TR_HISTOGRAM_BUCKETS; i++)
        hour->late_us[i] += other->late_us[i];
}

uint64_t tr_hour_late_us(const struct tr_hour *hour, unsigned thousandths)
{
    uint64_t all = 0;
    uint64_t seen = 0;
    uint64_t most_us = 0;
    for (unsigned i = 0; i <= TR_HISTOGRAM_BUCKETS; i++)
        all += hour->late_us[i];
    for (unsigned i = 0; i < TR_HISTORY_MINUTES; i++)
        most_us = hour->late_most_us[i] > most_us ? hour->late_most_us[i] : most_us;
    for (unsigned i = 0; i < TR_HISTOGRAM_BUCKETS && all > 0; i++) {
        seen += hour->late_us[i];
        uint64_t bound_us = UINT64_C(1) << i;
        if (seen * 1000 >= all * thousandths)
            return bound_us < most_us ? bound_us : most_us;
    }
    return most_us;
}
