/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes: cmocka and the headers it needs. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/place.h>

#define UNIT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A map that must be good, in memory that the caller frees. */
static inline struct tryst_place_map *unit_map(const struct tryst_place_config *config,
                                               const struct tryst_place_node *nodes, size_t count)
{
    size_t size = tryst_place_map_size(config, nodes, count);
    struct tryst_place_map *map = malloc(size);
    assert_non_null(map);
    size_t fault = count;
    enum tryst_place_status status = tryst_place_map_init(map, size, config, nodes, count, &fault);
    if (status != TRYST_PLACE_OK)
        fail_msg("node %zu: %s", fault, tryst_place_status_text(status));
    return map;
}

#endif
