/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be kept of a damaged log: every sound batch of every segment, under new headers.
 *
 * The store gets another id, so that other nodes know that it may have lost what it had. The table
 * of nodes is the largest that a sound header has: tables only grow, and records name their nodes
 * by indexes into them.
 */
#ifndef TR_WIRE_LOG_REPAIR_H
#define TR_WIRE_LOG_REPAIR_H

#include "wire/log.h"

struct tr_log_repair {
    struct tr_log_header header; /* of the segment being written */
    uint64_t position;
    size_t batches;    /* that were kept */
    size_t lost_bytes; /* about what was not */
};

/* The segments are borrowed until the repair is over. */
void tr_log_repair_begin(struct tr_log_repair *repair, const struct tr_log_segment *segments,
                         size_t count, const uint8_t *store_id);

/* How many bytes the repaired segment takes at most. */
size_t tr_log_repair_bound(const struct tr_log_segment *segment);

/* Writes what is sound of a segment to `out`, and returns its size. In the order of numbers,
 * without a gap: one that is missing is a segment without bytes. */
size_t tr_log_repair_segment(struct tr_log_repair *repair, const struct tr_log_segment *segment,
                             uint8_t *out, size_t cap);

#endif
