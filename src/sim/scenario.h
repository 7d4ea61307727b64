/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: short stories in text, played to the letter. */
#ifndef TR_SIM_SCENARIO_H
#define TR_SIM_SCENARIO_H

#include "seam/mutant.h"

#include <stdbool.h>

/* 0 when the trace is the one that the file has; recording writes it there. */
int sim_scenario_run(const char *path, bool is_recording, enum tr_mutant mutant);

#endif
