/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask of keys. */
#ifndef TR_KV_COMMAND_H
#define TR_KV_COMMAND_H

#include "kv/kv.h"

/* Carries out a command, and says how that went. */
void tr_kv_command(struct tr_kv *kv, const struct tr_key_command *command,
                   struct tr_key_result *result);

/* Deletes all keys. */
void tr_kv_delete_all(struct tr_kv *kv, struct tr_key_result *result);

/* Whether commands that write so many bytes of keys and values, `count` of them without callbacks,
 * will be in one batch: together or not at all. */
enum tr_key_room tr_kv_room(const struct tr_kv *kv, size_t size, uint32_t count);

#endif
