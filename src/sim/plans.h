/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives with plans: timers by the wall clock, by cron expressions, with headers and with names; and
 * what clients may ask beside a write.
 *
 *   cron        each occurrence is made once, and none is left out; where the zone files of all
 *               nodes are the same it is the one that the expression says
 *   conditions  of two writes at once that want the same state one wins at most, while all goes
 *               well
 *   twins       two requests with one key, on two nodes, make one timer
 */
#ifndef TR_SIM_PLANS_H
#define TR_SIM_PLANS_H

#include "sim/world.h"

void sim_plans_fill(struct world *world, uint32_t number);

/* A write wants the timer to be as a machine has it now. */
void sim_plans_want(struct world *world, uint32_t number, struct tr_condition *condition);

/* The request that has just been sent is to be sent once more, to another machine. False: none can
 * take it. */
bool sim_plans_twin(struct world *world, uint32_t number, struct tr_event *again, uint32_t *on);
/* `is_settled`: no nodes have come or gone since it was asked. */
void sim_plans_twin_answered(struct world *world, const struct open_request *request,
                             const struct tr_effect *effect, bool is_settled);

/* A write is answered: whether it is the only one that may have been. */
void sim_plans_answered(struct world *world, uint32_t number, bool is_settled);

void sim_plans_popped(struct world *world, uint32_t number, const struct tr_record *record);

#endif
