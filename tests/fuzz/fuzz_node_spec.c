/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a node: what is accepted is within its bounds, means the same when written out
 * again, and builds a map or is refused by it.
 */
#include "base/assert.h"
#include "wire/node_spec.h"

#include <stdlib.h>
#include <string.h>
#include <tryst/place.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bounds(const struct tr_node_spec *spec, const char *text, size_t size)
{
    TR_ASSERT(spec->name.size >= 1 && spec->name.size <= TR_NODE_SPEC_NAME_MAX);
    TR_ASSERT(spec->name.text == text && spec->name.size <= size);
    TR_ASSERT(spec->weight == 0 ||
              (spec->weight >= TRYST_PLACE_WEIGHT_MIN && spec->weight <= TRYST_PLACE_WEIGHT_MAX));
    if (spec->zone.text != NULL)
        TR_ASSERT(spec->zone.text > text && spec->zone.text + spec->zone.size <= text + size);
    if (spec->has_position)
        TR_ASSERT(tr_decimal_fraction(&spec->position, 1024) < 1024);
}

static char *copy(struct tr_span span)
{
    char *text = calloc(span.size + 1, 1);
    if (span.size > 0)
        memcpy(text, span.text, span.size);
    return text;
}

/* A cluster of this node and a fixed one, under every strategy: built, or refused with a reason. */
static void build_maps(const struct tr_node_spec *spec)
{
    char *name = copy(spec->name);
    char *zone = copy(spec->zone);
    for (size_t i = 0; tryst_place_strategy_name(i) != NULL; i++) {
        const struct tryst_place_config config = {.strategy = tryst_place_strategy_name(i)};
        const struct tryst_place_node nodes[] = {
            {.name = name,
             .zone = spec->zone.text == NULL ? NULL : zone,
             .weight = spec->weight >> 34 > 0 ? 0 : spec->weight, /* not the slow ones */
             .has_position = spec->has_position,
             .position =
                 spec->has_position ? (uint32_t)tr_decimal_fraction(&spec->position, 1024) : 0},
            {.name = "other", .zone = spec->zone.text == NULL ? NULL : "z"},
        };
        size_t map_size = tryst_place_map_size(&config, nodes, 2);
        struct tryst_place_map *map = malloc(map_size);
        uint32_t found[2];
        if (tryst_place_map_init(map, map_size, &config, nodes, 2, NULL) == TRYST_PLACE_OK)
            TR_ASSERT(tryst_place_lookup(map, tryst_place_key_of_text(map, name, strlen(name)), 2,
                                         found, NULL) == 2);
        free(map);
    }
    free(name);
    free(zone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct tr_node_spec spec;
    enum tr_node_spec_status status = tr_node_spec_parse(text, size, &spec);
    TR_ASSERT(strlen(tr_node_spec_status_text(status)) > 0);
    if (status != TR_NODE_SPEC_OK)
        return 0;
    check_bounds(&spec, text, size);
    build_maps(&spec);
    return 0;
}
