/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a node: NAME[,weight=W][,zone=A/B][,at=POSITION].
 */
#ifndef TR_WIRE_NODE_SPEC_H
#define TR_WIRE_NODE_SPEC_H

#include "base/decimal.h"
#include "base/span.h"

enum tr_node_spec_status {
    TR_NODE_SPEC_OK,
    TR_NODE_SPEC_NO_NAME,
    TR_NODE_SPEC_LONG_NAME,     /* over TR_NODE_SPEC_NAME_MAX bytes */
    TR_NODE_SPEC_BAD_CHARACTER, /* a control character */
    TR_NODE_SPEC_UNKNOWN_ATTRIBUTE,
    TR_NODE_SPEC_TWICE, /* an attribute given twice */
    TR_NODE_SPEC_BAD_WEIGHT,
    TR_NODE_SPEC_BAD_ZONE,
    TR_NODE_SPEC_BAD_POSITION,
};

#define TR_NODE_SPEC_NAME_MAX 255 /* bytes of a name, and of a zone */

/* Points into the text it was read from. */
struct tr_node_spec {
    struct tr_span name;
    struct tr_span zone;
    uint64_t weight; /* 32.32; 0: not given */
    bool has_position;
    struct tr_decimal position; /* in [0,1) */
};

/* Reads a node. On failure `*out` is unspecified. */
enum tr_node_spec_status tr_node_spec_parse(const char *text, size_t size,
                                            struct tr_node_spec *out);

/* What is wrong, as one line without a full stop. */
const char *tr_node_spec_status_text(enum tr_node_spec_status status);

/* A decimal from 1/65536 to 65536 as 32.32, to the nearest; false for anything else. */
bool tr_weight_parse(const char *text, size_t size, uint64_t *weight);

/* A decimal in [0,1). */
bool tr_position_parse(const char *text, size_t size, struct tr_decimal *position);

#endif
