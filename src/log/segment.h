/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: the files of the log. Three are kept allocated ahead. When the disk refuses one, new
 * records are refused, while outcomes of pops and drops go on in the first of them. The other two
 * are for reclaim alone, which then goes through the whole log: two segments are enough to copy
 * whatever is live, one after the other, since what is copied frees as much as it takes. So a disk
 * that is full of garbage heals by itself, and one that is full of live records takes pops and
 * cancellations for as long as they leave garbage behind.
 */
#ifndef TR_LOG_SEGMENT_H
#define TR_LOG_SEGMENT_H

#include "log/log.h"

#define TR_LOG_SEGMENT_MASK 0xffffffu /* a record keeps the low 24 bits of its segment's number */

/* A segment that was asked for is there; or the disk has none. */
void tr_log_segment_allocated(struct tr_log *log, uint64_t number, struct tr_effects *out);
void tr_log_segment_refused(struct tr_log *log, struct tr_effects *out);

/* For the other files of this room. */
void tr_log_open(struct tr_log *log, uint64_t segment, uint64_t first, uint64_t previous_end);
bool tr_log_is_open(const struct tr_log *log); /* the current one takes another batch */
/* Nothing is left but what reclaim needs. */
bool tr_log_is_at_reserve(const struct tr_log *log);
/* Until the disk has given the next segment, it may yet refuse: half of the current one is for pops
 * and cancellations then. */
bool tr_log_is_half_full(const struct tr_log *log, size_t size);
/* The log is to hold records that only the latest format has: a segment that says it has none is
 * closed, and the next one begun. False: there is no next one yet. */
bool tr_log_extend(struct tr_log *log);

/* Closes the current segment when the largest batch would not fit any more. */
void tr_log_roll(struct tr_log *log, struct tr_effects *out);
void tr_log_ask_segment(struct tr_log *log, struct tr_effects *out);
/* The header of the current segment, into the log's scratch. Returns its size. */
size_t tr_log_encode_header(struct tr_log *log);

uint64_t tr_log_segment_of(const struct tr_log *log, uint32_t low); /* a record's, in full */
uint32_t *tr_log_live_of(struct tr_log *log, uint64_t segment);
uint64_t *tr_log_size_of(struct tr_log *log, uint64_t segment);

#endif
