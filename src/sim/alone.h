/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one node: virtual time, a faulty disk, faulty receivers, clients, crashes; everything
 * drawn from one seed. First faults everywhere, then healing, then everything owed must be paid.
 */
#ifndef TR_SIM_ALONE_H
#define TR_SIM_ALONE_H

#include "sim/life.h"

/* Runs a whole life; on failure the trace's tail goes to standard output. */
struct sim_result sim_alone_run(const struct sim_options *options);

#endif
