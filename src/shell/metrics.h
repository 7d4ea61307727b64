/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms, and everything as Prometheus text. */
#ifndef TR_SHELL_METRICS_H
#define TR_SHELL_METRICS_H

#include "node/node.h"

#define TR_HISTOGRAM_BUCKETS 24 /* powers of two */

/* Of microseconds, or of counts. */
struct tr_histogram {
    uint64_t counts[TR_HISTOGRAM_BUCKETS + 1]; /* [i]: at most 2^i; the last: above */
    uint64_t sum;
    uint64_t count;
};

void tr_histogram_add(struct tr_histogram *histogram, uint64_t value);

enum tr_request_kind { TR_REQUEST_WRITE, TR_REQUEST_READ, TR_REQUEST_LIST, TR_REQUEST_KINDS };

struct tr_metrics {
    struct tr_histogram lateness_us;
    uint64_t lateness_most_us; /* of the minute under way */
    struct tr_histogram callback_us;
    struct tr_histogram request_us[TR_REQUEST_KINDS];
    struct tr_histogram commit_us;
    struct tr_histogram batch_bytes;
    uint64_t callbacks_by_class[6]; /* [1]..[5]: HTTP classes; [0]: no answer */
    uint64_t callbacks_denied;
    struct tr_histogram command_us;
    uint64_t command_errors;
    uint64_t requests_bad;
    uint64_t connections;
    bool has_test_clock;
    uint64_t changes_still; /* of the cluster: 1 while one has not got on for a minute */
    uint64_t connections_refused;
    uint64_t applies_refused;
    uint64_t links_made;
    uint64_t links_refused; /* that others dialled */
    uint64_t links_reset;   /* by what came on them */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frame_bytes_sent;
    uint64_t frame_bytes_received;
    uint64_t tls_refused;
    uint64_t config_faults; /* of the last reload; 0: it is in force */
    uint64_t started_s;     /* since 1970 */
};

/* A metric's head, and a sample of it; labels may be NULL. */
void tr_metrics_head(struct tr_writer *out, const char *name, const char *type, const char *help);
void tr_metrics_sample(struct tr_writer *out, const char *name, const char *labels, uint64_t value);

/* Appends the whole text. */
void tr_metrics_put(struct tr_writer *out, const struct tr_metrics *metrics,
                    const struct tr_node *node);

#endif
