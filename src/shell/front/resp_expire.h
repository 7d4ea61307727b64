/* SPDX-License-Identifier: Apache-2.0 */
/* When a key expires, and who is called then, as commands say it. */
#ifndef TR_SHELL_FRONT_RESP_EXPIRE_H
#define TR_SHELL_FRONT_RESP_EXPIRE_H

#include "shell/front/resp_verbs.h"

enum tr_resp_unit { TR_UNIT_NONE, TR_UNIT_S, TR_UNIT_MS, TR_UNIT_AT_S, TR_UNIT_AT_MS };

/* EX, PX, EXAT or PXAT; TR_UNIT_NONE: another word. */
enum tr_resp_unit tr_resp_unit_of(struct tr_span word);

/* An expiry that a command sets: a number of some unit, above 0. False: it is none, and that is
 * said. */
bool tr_resp_read_expiry(struct tr_resp_call *call, enum tr_resp_unit unit, struct tr_span text,
                         struct tr_key_command *command);

/* The URI behind CALLBACK. Likewise. */
bool tr_resp_read_callback(struct tr_resp_call *call, struct tr_span text,
                           struct tr_key_command *command);

#endif
