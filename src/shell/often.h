/* SPDX-License-Identifier: Apache-2.0 */
/* How often something happened lately. */
#ifndef TR_SHELL_OFTEN_H
#define TR_SHELL_OFTEN_H

#include <stdbool.h>
#include <stdint.h>

struct tr_often {
    unsigned count;
    uint64_t since_ms;
};

/* It has happened again. True: so many times, or more, within `span_ms`. */
static inline bool tr_often_again(struct tr_often *often, uint64_t now_ms, uint64_t span_ms,
                                  unsigned least)
{
    if (now_ms >= often->since_ms + span_ms)
        *often = (struct tr_often){.since_ms = now_ms};
    often->count++;
    return often->count >= least;
}

#endif
