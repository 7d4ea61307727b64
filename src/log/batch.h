/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch that gathers: whether there is room in it, its entries, and the tickets of those who
 * wait for them.
 */
#ifndef TR_LOG_BATCH_H
#define TR_LOG_BATCH_H

#include "log/log.h"

/* Whether entries of `size` bytes fit into the open batch; what is new, by a client, must leave a
 * quarter of it to the pops, and three to them and reclaim if that had no room in the last one. */
bool tr_log_has_room(const struct tr_log *log, size_t size, bool is_new);
/* Likewise, and what is kept for reclaim may be used. */
bool tr_log_has_reserve(const struct tr_log *log, size_t size);

/* Where an entry is appended, by one of the functions of wire/log.h; there must be room for it.
 * One of the three below is told of it. */
struct tr_writer *tr_log_writer(struct tr_log *log);
void tr_log_appended(struct tr_log *log);
/* It is the full entry of a record, which takes about `size` bytes and is live from now on. Returns
 * the low bits of its segment's number. */
uint32_t tr_log_appended_live(struct tr_log *log, uint64_t size);
/* Likewise, of one that was replayed. */
void tr_log_restored(struct tr_log *log, uint32_t segment, uint64_t size);
/* What such an entry takes has turned out to be something else. */
void tr_log_resized(struct tr_log *log, uint64_t before, uint64_t after);
/* Such an entry is of no use any more. */
void tr_log_is_dead(struct tr_log *log, uint32_t segment, uint64_t size);

/* False: the batch has no room for it. */
bool tr_log_number(struct tr_log *log, enum tr_log_type type, uint64_t number);
bool tr_log_member(struct tr_log *log, uint16_t index, struct tr_span address);

/* About what the full entry of a record takes. */
uint64_t tr_log_size(const struct tr_record *record);

/* Leaves a ticket for what was appended last. There must be room for it. */
void tr_log_wait(struct tr_log *log, struct tr_waiting waiting);
/* Whether there is for so many more. */
bool tr_log_can_wait(const struct tr_log *log, uint32_t count);
/* How long the oldest ticket has been waiting: what a client would wait now, at least. */
uint64_t tr_log_lag_ms(const struct tr_log *log);
/* The next ticket whose entry is durable; false: there is none. */
bool tr_log_next_durable(struct tr_log *log, struct tr_waiting *waiting);

/* For the other files of this room. */
void tr_log_begin_batch(struct tr_log *log);
void tr_log_write_batch(struct tr_log *log, struct tr_effects *out);
void tr_log_put_number(struct tr_log *log, enum tr_log_type type, uint64_t number);

#endif
