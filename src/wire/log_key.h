/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the log that are about keys: KEY has all of a pair, KEY_EXPIRY all but its value,
 * KEY_END the key and the version, KEY_FLOOR a version and a time, KEY_TIME a time.
 * docs/disk-format.md is the normative text. */
#ifndef TR_WIRE_LOG_KEY_H
#define TR_WIRE_LOG_KEY_H

#include "wire/log.h"

/* Exactly what tr_log_put_key will take. */
size_t tr_log_key_size(enum tr_log_type type, const struct tr_pair *pair);

/* Appends an entry, for which there must be room. */
void tr_log_put_key(struct tr_writer *writer, enum tr_log_type type, const struct tr_pair *pair);

/* Reads the body of one; false: it is none. */
bool tr_log_get_key(struct tr_reader *in, enum tr_log_type type, struct tr_pair *pair);

#endif
