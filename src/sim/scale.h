/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling with many timers: from three nodes to four. */
#ifndef TR_SIM_SCALE_H
#define TR_SIM_SCALE_H

#include <stdint.h>

/* Prints what moved and what that took; 1 if it is not what it should be. */
int sim_scale_run(uint64_t timers);

#endif
