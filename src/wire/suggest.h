/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody may have meant by a name that there is not. */
#ifndef TR_WIRE_SUGGEST_H
#define TR_WIRE_SUGGEST_H

#include "base/span.h"

/* The one of the names, of which NULL is the last, that is closest: but for capitals, `-` and `_`
 * the same, or two letters away at most. NULL: none is close. */
const char *tr_suggest(struct tr_span name, const char *const *names);

#endif
