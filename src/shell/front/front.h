/* SPDX-License-Identifier: Apache-2.0 */
/* One port, two protocols: a first byte `*` is RESP, a first line that ends in HTTP/x.y is HTTP,
 * and any other line is a command that somebody typed. */
#ifndef TR_SHELL_FRONT_FRONT_H
#define TR_SHELL_FRONT_FRONT_H

#include "shell/front/connection.h"

/* What is done when something happens on a connection that has not said what it speaks. */
extern const struct tr_stream_calls tr_front_calls;

#endif
