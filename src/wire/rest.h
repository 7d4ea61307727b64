/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only some records have, behind the rest of them in the log and in frames. A byte says which
 * of it follows. A version that knows of none of it writes 0 there, and the first ones wrote which
 * nodes had the record: never all eight bits, which a byte that means this has at the top.
 */
#ifndef TR_WIRE_REST_H
#define TR_WIRE_REST_H

#include "base/bytes.h"
#include "base/record.h"

enum tr_rest {
    TR_REST_PLAN = 1,
    TR_REST_OWN = 2,
    TR_REST_FINGERPRINT = 4, /* not in records of the log: there it is advice */
    TR_REST_ANY = 0x80,      /* beside each of these */
};

#define TR_ATTEMPT_MOST (6 + 2 + 2 + TR_VARINT_MAX) /* bytes of an attempt */

uint8_t tr_rest_of(const struct tr_record *record, bool has_advice);
void tr_put_rest(struct tr_writer *writer, const struct tr_record *record, uint8_t rest);
/* Sets all of it; what does not follow is empty. */
void tr_get_rest(struct tr_reader *reader, struct tr_record *record, uint8_t rest);

void tr_put_attempt(struct tr_writer *writer, const struct tr_attempt *attempt);
void tr_get_attempt(struct tr_reader *reader, struct tr_attempt *attempt);

#endif
