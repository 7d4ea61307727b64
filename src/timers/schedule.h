/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a timer pops: its first pop, the one after each, and those that are passed over.
 *
 * An interval goes by the steady clock. What goes by the wall clock has an instant, which is the
 * same on every holder: each makes the pop when its own wall clock shows it, also when that is set.
 * The next instant of a cron expression is found by the node that makes a pop, or sets the timer,
 * and travels with the record, since nodes may have different zone files.
 */
#ifndef TR_TIMERS_SCHEDULE_H
#define TR_TIMERS_SCHEDULE_H

#include "timers/timers.h"
#include "wire/plan.h"

/* Fills in when a new timer pops first, and how often: from what a client asked for. TR_DONE, or
 * why it never does. */
enum tr_result tr_schedule_first(const struct tr_timers *timers, const struct tr_timer_body *body,
                                 struct tr_record *record);

/* The pop after the one that a record stands for, whatever became of that: its order and times.
 * False: that was the last. */
bool tr_schedule_next(const struct tr_timers *timers, const struct tr_record *record,
                      struct tr_head *next);

/* How many of the next pops are due by now, too, and are to be passed over: `next` is then the one
 * that the record is to stand for. TR_PASS_OVER: none is left. */
enum tr_pass { TR_PASS_NONE, TR_PASS_ON, TR_PASS_OVER };
enum tr_pass tr_schedule_pass(const struct tr_timers *timers, const struct tr_record *record,
                              struct tr_head *next);

/* Of a record with an instant that was stored, or whose clock was set: due by this node's wall
 * clock. */
void tr_schedule_by_wall(const struct tr_timers *timers, const struct tr_record *record,
                         struct tr_head *head);

/* The pop of a record is pulled forward to now: `head` says so, and when it would have been. */
void tr_schedule_pull(const struct tr_timers *timers, const struct tr_record *record,
                      struct tr_head *head);

/* Goes through all records when the wall clock was set, and when zone files have changed, a slice
 * in a step. */
void tr_schedule_clock_set(struct tr_timers *timers);
void tr_schedule_zones_changed(struct tr_timers *timers);
void tr_schedule_run(struct tr_timers *timers, struct tr_effects *out);
tr_mono_ms tr_schedule_wake_at(const struct tr_timers *timers);

/* The pops to come of a record, at most `most`; returns how many. */
unsigned tr_schedule_ahead(const struct tr_timers *timers, const struct tr_record *record,
                           tr_wall_ms *instants, unsigned most);

#endif
