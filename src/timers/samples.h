/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that was set while the node was down is noticed by what others say: the first that they
 * send on a link is when timers that they share are due. A node that is new shares none with them,
 * and goes by their clocks.
 */
#ifndef TR_TIMERS_SAMPLES_H
#define TR_TIMERS_SAMPLES_H

#include "timers/timers.h"

/* The first that a node hears on a link. */
void tr_samples_send(struct tr_timers *timers, uint16_t peer);

/* A heartbeat was heard. True: this node has no timers yet, and has taken the time of the others,
 * of which its own was far ahead. */
bool tr_samples_follow(struct tr_timers *timers);

/* A frame, before its entries are stored; the clock is corrected by it. */
void tr_samples_hear(struct tr_timers *timers, const struct tr_frame *frame,
                     struct tr_reader samples);

#endif
