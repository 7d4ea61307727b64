/* SPDX-License-Identifier: Apache-2.0 */
/* What commands on keys have in common: asking the node, and saying why something is not done. */
#ifndef TR_SHELL_FRONT_RESP_ASK_H
#define TR_SHELL_FRONT_RESP_ASK_H

#include "shell/front/resp_verbs.h"

#define TR_RESP_NOT_INT "ERR value is out of range, value must between -2147483648 and 2147483647"

#define TR_RESP_NOT_INTEGER "ERR value is not an integer or out of range"
#define TR_RESP_SYNTAX      "ERR syntax error"
#define TR_RESP_OOM         "OOM command not allowed when used memory > 'maxmemory'."
#define TR_RESP_TOO_LONG    "ERR string exceeds maximum allowed size (proto-max-bulk-len)"

/* What came of a command on a key. False: it was refused, which is said, or waits for the log. */
bool tr_resp_settle(struct tr_resp_call *call, const struct tr_key_result *result);

/* Carries out a command. Likewise. */
bool tr_resp_ask(struct tr_resp_call *call, const struct tr_key_command *command,
                 struct tr_key_result *result);
bool tr_resp_read_key(struct tr_resp_call *call, struct tr_span key, struct tr_key_result *result);

/* False: its keys may be on several nodes, and it is done on one alone, which is said. */
bool tr_resp_is_on_one_node(struct tr_resp_call *call);

/* What a key has, or had; null if there is none. */
void tr_resp_put_value(struct tr_resp_call *call, const struct tr_key_result *result);

/* False: it is no integer, which is said. */
bool tr_resp_get_integer(struct tr_resp_call *call, struct tr_span text, int64_t *number);

#endif
