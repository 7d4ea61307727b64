/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/node_spec.h"

#include "base/assert.h"

#include <string.h>

#define WEIGHT_MIN ((uint64_t)1 << 16)
#define WEIGHT_MAX ((uint64_t)1 << 48)

bool tr_weight_parse(const char *text, size_t size, uint64_t *weight)
{
    struct tr_decimal decimal;
    if (!tr_decimal_parse(text, size, &decimal))
        return false;
    uint64_t whole = tr_decimal_whole(&decimal);
    if (whole > WEIGHT_MAX >> 32 || (whole == WEIGHT_MAX >> 32 && decimal.fraction_size > 0))
        return false;
    if (whole == 0 && tr_decimal_fraction(&decimal, (tr_u128)1 << 32) < WEIGHT_MIN)
        return false;
    uint64_t doubled = tr_decimal_fraction(&decimal, (tr_u128)1 << 33);
    *weight = (whole << 32) + (doubled + 1) / 2;
    TR_ASSERT(*weight >= WEIGHT_MIN && *weight <= WEIGHT_MAX);
    return true;
}

bool tr_position_parse(const char *text, size_t size, struct tr_decimal *position)
{
    return tr_decimal_parse(text, size, position) && position->whole_size == 0;
}

static bool has_control_character(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return true;
    }
    return false;
}

/* The piece up to the next comma, which is skipped. */
static struct tr_span take_piece(const char **text, size_t *size)
{
    const char *comma = memchr(*text, ',', *size);
    struct tr_span piece = {*text, comma == NULL ? *size : (size_t)(comma - *text)};
    size_t taken = piece.size + (comma != NULL);
    TR_ASSERT(taken <= *size);
    *text += taken;
    *size -= taken;
    return piece;
}

/* If `piece` is `name`=..., the value behind it. */
static bool take_value(struct tr_span piece, const char *name, struct tr_span *value)
{
    size_t name_size = strlen(name);
    if (piece.size <= name_size || memcmp(piece.text, name, name_size) != 0 ||
        piece.text[name_size] != '=')
        return false;
    *value = (struct tr_span){piece.text + name_size + 1, piece.size - name_size - 1};
    return true;
}

static bool is_zone(struct tr_span zone)
{
    if (zone.size == 0 || zone.size > TR_NODE_SPEC_NAME_MAX)
        return false;
    for (size_t i = 0; i < zone.size; i++) {
        bool is_first = i == 0 || zone.text[i - 1] == '/';
        bool is_last = i + 1 == zone.size;
        if (zone.text[i] == '/' && (is_first || is_last))
            return false;
    }
    return true;
}

static enum tr_node_spec_status take_attribute(struct tr_span piece, struct tr_node_spec *out)
{
    struct tr_span value;
    if (take_value(piece, "weight", &value)) {
        if (out->weight != 0)
            return TR_NODE_SPEC_TWICE;
        return tr_weight_parse(value.text, value.size, &out->weight) ? TR_NODE_SPEC_OK
                                                                     : TR_NODE_SPEC_BAD_WEIGHT;
    }
    if (take_value(piece, "zone", &value)) {
        if (out->zone.text != NULL)
            return TR_NODE_SPEC_TWICE;
        out->zone = value;
        return is_zone(value) ? TR_NODE_SPEC_OK : TR_NODE_SPEC_BAD_ZONE;
    }
    if (take_value(piece, "at", &value)) {
        if (out->has_position)
            return TR_NODE_SPEC_TWICE;
        out->has_position = tr_position_parse(value.text, value.size, &out->position);
        return out->has_position ? TR_NODE_SPEC_OK : TR_NODE_SPEC_BAD_POSITION;
    }
    return TR_NODE_SPEC_UNKNOWN_ATTRIBUTE;
}

enum tr_node_spec_status tr_node_spec_parse(const char *text, size_t size, struct tr_node_spec *out)
{
    *out = (struct tr_node_spec){.weight = 0};
    if (has_control_character(text, size))
        return TR_NODE_SPEC_BAD_CHARACTER;
    bool ends_in_comma = size > 0 && text[size - 1] == ',';
    out->name = take_piece(&text, &size);
    if (out->name.size == 0)
        return TR_NODE_SPEC_NO_NAME;
    if (out->name.size > TR_NODE_SPEC_NAME_MAX)
        return TR_NODE_SPEC_LONG_NAME;
    while (size > 0) {
        enum tr_node_spec_status status = take_attribute(take_piece(&text, &size), out);
        if (status != TR_NODE_SPEC_OK)
            return status;
    }
    return ends_in_comma ? TR_NODE_SPEC_UNKNOWN_ATTRIBUTE : TR_NODE_SPEC_OK;
}

const char *tr_node_spec_status_text(enum tr_node_spec_status status)
{
    switch (status) {
    case TR_NODE_SPEC_OK:
        return "no error";
    case TR_NODE_SPEC_NO_NAME:
        return "a node needs a name: NAME[,weight=W][,zone=A/B][,at=POSITION]";
    case TR_NODE_SPEC_LONG_NAME:
        return "a name has at most 255 bytes";
    case TR_NODE_SPEC_BAD_CHARACTER:
        return "control characters are not allowed";
    case TR_NODE_SPEC_UNKNOWN_ATTRIBUTE:
        return "after the name come weight=W, zone=A/B or at=POSITION, once each";
    case TR_NODE_SPEC_TWICE:
        return "an attribute is given twice";
    case TR_NODE_SPEC_BAD_WEIGHT:
        return "weight must be a decimal number from 0.0000152587890625 (1/65536) to 65536";
    case TR_NODE_SPEC_BAD_ZONE:
        return "zone must be names with slashes between them, none empty, 255 bytes at most";
    case TR_NODE_SPEC_BAD_POSITION:
        return "at must be a number in [0,1), such as 0 or .25";
    }
    return "unknown status";
}
