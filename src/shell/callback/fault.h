/* SPDX-License-Identifier: Apache-2.0 */
/* Why an attempt failed, in words. */
#ifndef TR_SHELL_CALLBACK_FAULT_H
#define TR_SHELL_CALLBACK_FAULT_H

#include "seam/event.h"

/* Of a certificate that was refused, by its number in OpenSSL. */
enum tr_fault tr_fault_of_certificate(long verdict);

/* A word or two, as clients see it. */
void tr_fault_write(enum tr_fault fault, char *out, size_t cap);

/* Likewise, with what may be done about it. */
void tr_fault_explain(enum tr_fault fault, char *out, size_t cap);

#endif
