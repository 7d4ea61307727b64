/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon tells its operator: one line an event, as text or as JSON, on standard error or
 * in a folder as the original has it. */
#ifndef TR_SHELL_SAY_H
#define TR_SHELL_SAY_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum tr_level { TR_ERROR = 1, TR_WARNING = 2, TR_STATUS = 3, TR_INFO = 4, TR_DEBUG = 5 };

/* Until this is called, text on standard error. `folder` may be NULL; the file in it is made anew
 * each hour. False: the folder cannot be written to. */
bool tr_say_setup(enum tr_level level, bool is_json, const char *folder);

/* From now on the folder alone has it; up to here it is on standard error, too. */
void tr_say_started(void);

void tr_say(enum tr_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a line is about: members of its own where lines are JSON. What is empty, or 0, is left
 * out. */
struct tr_said {
    struct tr_span timer;
    struct tr_span node;
    struct tr_span destination;
    unsigned attempt;
};

void tr_say_of(struct tr_said about, enum tr_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Lines of one kind that may come in millions: a few at once, then one every ten seconds, with how
 * many like it were left out. */
struct tr_say_limit {
    enum tr_level level;
    const char *what; /* they are about, in the plural */
    uint64_t tokens;
    uint64_t filled_ms; /* when it was last given one; 0: never */
    uint64_t left_out;
};

/* Whether such a line may be written now. If not, it is counted. */
bool tr_say_may(struct tr_say_limit *limit, uint64_t now_ms);

/* Says how many lines were left out, if it is time for that; at the end, whether it is or not. */
void tr_say_left_out(struct tr_say_limit *limit, uint64_t now_ms, bool is_end);

#endif
