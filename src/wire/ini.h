/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI text, line by line: `[section]`, `key = value`, comments after # or ; at the start of a line
 * (and after a space, behind a value). Values of any length; a key may come again.
 */
#ifndef TR_WIRE_INI_H
#define TR_WIRE_INI_H

#include "base/span.h"

enum tr_ini_step {
    TR_INI_VALUE, /* section, key and value are set */
    TR_INI_BAD,   /* `fault` is; the next step goes on with the line after */
    TR_INI_END,
};

struct tr_ini {
    struct tr_span rest;
    unsigned line; /* of the step last made, from 1 */
    struct tr_span section;
    struct tr_span key;
    struct tr_span value;
    const char *fault;
};

void tr_ini_init(struct tr_ini *ini, struct tr_span text);
enum tr_ini_step tr_ini_next(struct tr_ini *ini);

#endif
