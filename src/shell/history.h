/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last hour of this node, by minutes: what was set and popped, and how late. A restart empties
 * it.
 *
 * Bounds:  60 minutes, of which the last is not over.
 */
#ifndef TR_SHELL_HISTORY_H
#define TR_SHELL_HISTORY_H

#include "shell/metrics.h"

#define TR_HISTORY_MINUTES 60

struct tr_history_counts {
    uint64_t created;
    uint64_t delivered;
    uint64_t failed; /* attempts */
    uint64_t dead;
    uint64_t late_us[TR_HISTOGRAM_BUCKETS + 1];
};

struct tr_history_minute {
    struct tr_history_counts counts; /* in it; and of the minute under way: before it */
    uint64_t late_most_us;
};

struct tr_history {
    uint64_t minute; /* the one under way, since 1970; 0: none yet */
    struct tr_history_minute ring[TR_HISTORY_MINUTES];
};

/* What one node, or all of them, tell of the hour: numbers alone, so that they can be added. */
struct tr_hour {
    uint64_t total[4]; /* since the start: created, delivered, failed, dead */
    uint64_t minutes[4][TR_HISTORY_MINUTES];
    uint64_t late_most_us[TR_HISTORY_MINUTES];
    uint64_t late_us[TR_HISTOGRAM_BUCKETS + 1];
};

#define TR_HOUR_NUMBERS (sizeof(struct tr_hour) / sizeof(uint64_t))

/* At least once in a minute. */
void tr_history_look(struct tr_history *history, tr_wall_ms now_ms, struct tr_metrics *metrics,
                     const struct tr_node *node);

void tr_history_tell(const struct tr_history *history, const struct tr_metrics *metrics,
                     const struct tr_node *node, struct tr_hour *hour);

/* Adds what another node has told. */
void tr_hour_add(struct tr_hour *hour, const struct tr_hour *other);

/* A bound of the lateness of this share of all, in thousandths. */
uint64_t tr_hour_late_us(const struct tr_hour *hour, unsigned thousandths);

#endif
