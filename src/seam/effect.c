/* SPDX-License-Identifier: Apache-2.0 */
#include "seam/effect.h"

#include "base/assert.h"

bool tr_effects_has_room(const struct tr_effects *out, uint32_t count)
{
    TR_ASSERT(out->count <= TR_EFFECTS_MAX);
    return TR_EFFECTS_MAX - out->count >= count;
}

struct tr_effect *tr_effects_push(struct tr_effects *out, enum tr_effect_kind kind)
{
    TR_ASSERT(out->count < TR_EFFECTS_MAX);
    struct tr_effect *effect = &out->items[out->count++];
    effect->kind = kind;
    return effect;
}

struct tr_effect *tr_note(struct tr_effects *out, enum tr_note what, tr_timer_id id,
                          uint64_t number)
{
    if (!tr_effects_has_room(out, 1))
        return NULL; /* a line for the operator is not worth a broken step */
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_NOTE);
    effect->of.note.what = what;
    effect->of.note.id = id;
    effect->of.note.number = number;
    effect->of.note.factor = 0;
    return effect;
}
