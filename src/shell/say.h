/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon tells its operator: one line an event, as text or as JSON, on standard error or
 * in a folder as the original has it. */
#ifndef TR_SHELL_SAY_H
#define TR_SHELL_SAY_H

#include <stdbool.h>

enum tr_level { TR_ERROR = 1, TR_WARNING = 2, TR_STATUS = 3, TR_INFO = 4, TR_DEBUG = 5 };

/* Until this is called, text on standard error. `folder` may be NULL; the file in it is made anew
 * each hour. False: the folder cannot be written to. */
bool tr_say_setup(enum tr_level level, bool is_json, const char *folder);

void tr_say(enum tr_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
