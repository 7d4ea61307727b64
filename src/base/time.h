/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks, all in milliseconds. The core is told the time of each step and never asks for it.
 */
#ifndef TR_BASE_TIME_H
#define TR_BASE_TIME_H

#include <stdint.h>

typedef uint64_t tr_mono_ms;   /* boot clock */
typedef uint64_t tr_wall_ms;   /* since 1970; steps when someone sets the clock */
typedef uint64_t tr_steady_ms; /* wall time at the start, plus boot clock since: never steps */

#define TR_NEVER UINT64_MAX /* of any of them */

/* The time of a step. Every room of the core reads the same one. */
struct tr_time {
    tr_mono_ms now_ms;
    tr_wall_ms wall_ms;
    tr_steady_ms steady_ms;
    uint64_t steady_base; /* steady less boot time, modulo 2^64 */
};

#endif
