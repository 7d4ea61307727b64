/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of keys, as Redis has them: * and ? and [a-z], [^a-z], and a backslash before what is
 * meant as it stands. */
#ifndef TR_RESP_GLOB_H
#define TR_RESP_GLOB_H

#include "base/span.h"

#include <stdint.h>

/* Bytes of a pattern that may be looked at, one by one and again: about a second. */
#define TR_GLOB_STEPS 100000000

/* Takes time in proportion to the product of both sizes, at most; and no more than `steps`, from
 * which what it took is taken off. When none is left it is not known whether it matches. */
bool tr_glob_matches(struct tr_span pattern, struct tr_span text, uint64_t *steps);
bool tr_glob_matches_nocase(struct tr_span pattern, struct tr_span text);

#endif
