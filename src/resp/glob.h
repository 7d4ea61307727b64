/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of keys, as Redis has them: * and ? and [a-z], [^a-z], and a backslash before what is
 * meant as it stands. */
#ifndef TR_RESP_GLOB_H
#define TR_RESP_GLOB_H

#include "base/span.h"

/* Takes time in proportion to the product of both sizes, at most. */
bool tr_glob_matches(struct tr_span pattern, struct tr_span text);
bool tr_glob_matches_nocase(struct tr_span pattern, struct tr_span text);

#endif
