/* SPDX-License-Identifier: Apache-2.0 */
/* Timers as people read them: one, line by line, or many, a line each, by when they are due. */
#ifndef TR_CLI_TIMER_SHOW_H
#define TR_CLI_TIMER_SHOW_H

#include "cli/node.h"

#define TR_CURSOR_MAX 20

/* The answer to GET of one timer; what it is read into it overwrites. */
void tr_timer_show(struct tr_reply *reply);

struct tr_timer_row;

struct tr_timer_rows {
    bool are_dead;
    bool are_many; /* more than are sorted: they are printed as they come */
    struct tr_timer_row *list;
    size_t count;
    size_t cap;
};

/* Takes a page, and keeps its cursor. False: it was the last. */
bool tr_timer_rows_take(struct tr_timer_rows *rows, struct tr_reply *page,
                        char cursor[TR_CURSOR_MAX + 1]);
/* Prints what was taken and was not printed yet. */
void tr_timer_rows_end(struct tr_timer_rows *rows);

#endif
