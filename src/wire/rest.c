/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/rest.h"

uint8_t tr_rest_of(const struct tr_record *record, bool has_advice)
{
    unsigned rest = record->plan.size > 0 ? TR_REST_PLAN : 0;
    rest |= record->own.size > 0 ? TR_REST_OWN : 0;
    rest |= has_advice && record->head.fingerprint != 0 ? TR_REST_FINGERPRINT : 0;
    return (uint8_t)(rest != 0 ? rest | TR_REST_ANY : 0);
}

void tr_put_rest(struct tr_writer *writer, const struct tr_record *record, uint8_t rest)
{
    TR_ASSERT(record->plan.size <= TR_PLAN_MAX && record->own.size <= TR_OWN_MAX);
    if ((rest & TR_REST_PLAN) != 0)
        tr_put_span(writer, record->plan);
    if ((rest & TR_REST_OWN) != 0)
        tr_put_span(writer, record->own);
    if ((rest & TR_REST_FINGERPRINT) != 0)
        tr_put_number(writer, record->head.fingerprint, 8);
}

void tr_get_rest(struct tr_reader *reader, struct tr_record *record, uint8_t rest)
{
    static const struct tr_span none = {"", 0};
    if ((rest & TR_REST_ANY) == 0)
        rest = 0;
    reader->is_short |=
        (rest & ~(TR_REST_ANY | TR_REST_PLAN | TR_REST_OWN | TR_REST_FINGERPRINT)) != 0;
    record->plan = (rest & TR_REST_PLAN) != 0 ? tr_get_span(reader) : none;
    record->own = (rest & TR_REST_OWN) != 0 ? tr_get_span(reader) : none;
    record->head.fingerprint = (rest & TR_REST_FINGERPRINT) != 0 ? tr_get_number(reader, 8) : 0;
    reader->is_short |= (rest & TR_REST_PLAN) != 0 && record->plan.size == 0;
    reader->is_short |= (rest & TR_REST_OWN) != 0 && record->own.size == 0;
    reader->is_short |= record->plan.size > TR_PLAN_MAX || record->own.size > TR_OWN_MAX;
}

void tr_put_attempt(struct tr_writer *writer, const struct tr_attempt *attempt)
{
    TR_ASSERT(attempt->at_ms <= TR_TIME_MAX);
    tr_put_number(writer, attempt->at_ms, 6);
    tr_put_number(writer, attempt->result, 2);
    tr_put_number(writer, attempt->node, 2);
    tr_put_varint(writer, attempt->duration_ms);
}

void tr_get_attempt(struct tr_reader *reader, struct tr_attempt *attempt)
{
    attempt->at_ms = tr_get_number(reader, 6);
    attempt->result = (uint16_t)tr_get_number(reader, 2);
    attempt->node = (uint16_t)tr_get_number(reader, 2);
    uint64_t duration_ms = tr_get_varint(reader);
    attempt->duration_ms = duration_ms < UINT32_MAX ? (uint32_t)duration_ms : UINT32_MAX;
}
