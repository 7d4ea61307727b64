/* SPDX-License-Identifier: Apache-2.0 */
/* The public face: what building refuses, and how lookups relate to each other. */
#include "base/random.h"
#include "unit.h"

#define ONE TRYST_PLACE_WEIGHT_ONE

static enum tryst_place_status build(const struct tryst_place_config *config,
                                     const struct tryst_place_node *nodes, size_t count,
                                     size_t *fault)
{
    size_t size = tryst_place_map_size(config, nodes, count);
    struct tryst_place_map *map = malloc(size);
    *fault = SIZE_MAX;
    enum tryst_place_status status = tryst_place_map_init(map, size, config, nodes, count, fault);
    free(map);
    return status;
}

struct bad_nodes {
    const char *strategy;
    struct tryst_place_node nodes[3];
    enum tryst_place_status status;
    size_t fault;
};

static void expect_refusals(const struct bad_nodes *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tryst_place_config config = {.strategy = cases[i].strategy};
        size_t fault;
        enum tryst_place_status status = build(&config, cases[i].nodes, 3, &fault);
        if (status != cases[i].status || fault != cases[i].fault)
            fail_msg("case %zu: node %zu, %s", i, fault, tryst_place_status_text(status));
    }
}

static void bad_positions_are_refused_with_their_node(void **state)
{
    (void)state;
    const struct bad_nodes cases[] = {
        {"keyspace",
         {{.name = "a"}, {.name = "b", .has_position = 1, .position = 1024}, {.name = "c"}},
         TRYST_PLACE_BAD_POSITION,
         1},
        {"keyspace@1",
         {{.name = "a"}, {.name = "b", .has_position = 1, .position = 1024}, {.name = "c"}},
         TRYST_PLACE_BAD_POSITION,
         1},
        {"keyspace@1",
         {{.name = "a"}, {.name = "b", .has_position = 1, .position = 0}, {.name = "c"}},
         TRYST_PLACE_POSITION_TAKEN,
         1},
        {"keyspace",
         {{.name = "a", .has_position = 1, .position = 7},
          {.name = "b"},
          {.name = "c", .has_position = 1, .position = 7}},
         TRYST_PLACE_POSITION_TAKEN,
         2},
    };
    expect_refusals(cases, UNIT_COUNT(cases));
}

static void bad_nodes_are_refused_with_their_index(void **state)
{
    (void)state;
    char long_name[258];
    memset(long_name, 'n', 257);
    long_name[257] = '\0';
    const struct bad_nodes cases[] = {
        {"rendezvous",
         {{.name = "a"}, {.name = "b"}, {.name = "a"}},
         TRYST_PLACE_DUPLICATE_NAME,
         2},
        {"rendezvous", {{.name = "a"}, {.name = ""}, {.name = "c"}}, TRYST_PLACE_BAD_NAME, 1},
        {"rendezvous", {{.name = "a"}, {.name = NULL}, {.name = "c"}}, TRYST_PLACE_BAD_NAME, 1},
        {"rendezvous",
         {{.name = long_name}, {.name = "b"}, {.name = "c"}},
         TRYST_PLACE_BAD_NAME,
         0},
        {"rendezvous",
         {{.name = "a"}, {.name = "b", .weight = 1}, {.name = "c"}},
         TRYST_PLACE_BAD_WEIGHT,
         1},
        {"ring",
         {{.name = "a"}, {.name = "b", .weight = UINT64_MAX}, {.name = "c"}},
         TRYST_PLACE_BAD_WEIGHT,
         1},
        {"chronos",
         {{.name = "a"}, {.name = "b"}, {.name = "c", .weight = ONE}},
         TRYST_PLACE_WEIGHT_UNUSED,
         2},
        {"keyspace",
         {{.name = "a", .weight = ONE}, {.name = "b"}, {.name = "c"}},
         TRYST_PLACE_WEIGHT_UNUSED,
         0},
        {"rendezvous",
         {{.name = "a", .zone = "z"}, {.name = "b"}, {.name = "c"}},
         TRYST_PLACE_ZONE_UNUSED,
         0},
        {"rendezvous",
         {{.name = "a"}, {.name = "b", .has_position = 1}, {.name = "c"}},
         TRYST_PLACE_POSITION_UNUSED,
         1},
        {"crush",
         {{.name = "a", .zone = "z"}, {.name = "b", .zone = "z/y"}, {.name = "c"}},
         TRYST_PLACE_ZONE_DEPTH,
         1},
        {"crush",
         {{.name = "a", .zone = "z"}, {.name = "b", .zone = "y"}, {.name = "c"}},
         TRYST_PLACE_ZONE_DEPTH,
         2},
        {"crush",
         {{.name = "a", .zone = "z/"}, {.name = "b", .zone = "y/"}, {.name = "c"}},
         TRYST_PLACE_BAD_ZONE,
         0},
        {"crush",
         {{.name = "a", .zone = "1/2/3/4/5/6/7/8/9"}, {.name = "b"}, {.name = "c"}},
         TRYST_PLACE_BAD_ZONE,
         0},
    };
    expect_refusals(cases, UNIT_COUNT(cases));
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    const struct tryst_place_node plain[] = {{.name = "a"}, {.name = "b"}};
    const struct tryst_place_node zoned[] = {{.name = "a", .zone = "x"},
                                             {.name = "b", .zone = "y"}};
    const struct tryst_place_node heavy[] = {{.name = "a", .weight = TRYST_PLACE_WEIGHT_MAX},
                                             {.name = "b", .weight = TRYST_PLACE_WEIGHT_MAX}};
    const struct {
        struct tryst_place_config config;
        const struct tryst_place_node *nodes;
        size_t count;
        enum tryst_place_status status;
    } cases[] = {
        {{.strategy = "rendezvous"}, plain, 0, TRYST_PLACE_NO_NODES},
        {{.strategy = "rendezvouz"}, plain, 2, TRYST_PLACE_UNKNOWN_STRATEGY},
        {{.strategy = ""}, plain, 2, TRYST_PLACE_UNKNOWN_STRATEGY},
        {{.strategy = NULL}, plain, 2, TRYST_PLACE_UNKNOWN_STRATEGY},
        {{.strategy = "rendezvous@2"}, plain, 2, TRYST_PLACE_UNKNOWN_VERSION},
        {{.strategy = "rendezvous@"}, plain, 2, TRYST_PLACE_UNKNOWN_VERSION},
        {{.strategy = "rendezvous", .spread = 1}, plain, 2, TRYST_PLACE_SPREAD_UNUSED},
        {{.strategy = "rendezvous", .partitions = 8}, plain, 2, TRYST_PLACE_PARTITIONS_UNUSED},
        {{.strategy = "keyspace", .partitions = ((uint64_t)1 << 32) + 1},
         plain,
         2,
         TRYST_PLACE_BAD_PARTITIONS},
        {{.strategy = "keyspace", .partitions = 1}, plain, 2, TRYST_PLACE_NO_POSITION_LEFT},
        {{.strategy = "crush", .spread = 2}, zoned, 2, TRYST_PLACE_BAD_SPREAD},
        {{.strategy = "crush", .spread = 1}, plain, 2, TRYST_PLACE_BAD_SPREAD},
        {{.strategy = "ring"}, heavy, 2, TRYST_PLACE_TOO_MANY_POINTS},
        {{.strategy = "rendezvous", .flags = 2}, plain, 2, TRYST_PLACE_BAD_FLAGS},
        {{.strategy = "rendezvous@1"}, plain, 2, TRYST_PLACE_OK},
        {{.strategy = "keyspace", .partitions = (uint64_t)1 << 32}, plain, 2, TRYST_PLACE_OK},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        size_t fault;
        enum tryst_place_status status =
            build(&cases[i].config, cases[i].nodes, cases[i].count, &fault);
        if (status != cases[i].status)
            fail_msg("case %zu: %s", i, tryst_place_status_text(status));
    }
}

static void too_many_nodes_are_refused(void **state)
{
    (void)state;
    struct tryst_place_node *nodes = calloc(TRYST_PLACE_NODES_MAX + 1, sizeof *nodes);
    size_t fault;
    assert_int_equal(build(&(struct tryst_place_config){.strategy = "rendezvous"}, nodes,
                           TRYST_PLACE_NODES_MAX + 1, &fault),
                     TRYST_PLACE_TOO_MANY_NODES);
    free(nodes);
}

static void a_block_that_is_too_small_is_refused(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}};
    const struct tryst_place_config config = {.strategy = "ring"};
    size_t size = tryst_place_map_size(&config, nodes, 2);
    struct tryst_place_map *map = malloc(size);
    assert_int_equal(tryst_place_map_init(map, size - 1, &config, nodes, 2, NULL),
                     TRYST_PLACE_MEMORY_TOO_SMALL);
    assert_int_equal(tryst_place_map_init(map, size, &config, nodes, 2, NULL), TRYST_PLACE_OK);
    free(map);
}

/* Nodes for any strategy: weights and zones where it can use them. */
#define NODES 40

static void make_nodes(const char *strategy, struct tryst_place_node *nodes, char (*names)[48],
                       char (*zones)[48])
{
    bool has_weights =
        strncmp(strategy, "chronos", 7) != 0 && strncmp(strategy, "keyspace", 8) != 0;
    for (size_t i = 0; i < NODES; i++) {
        snprintf(names[i], 48, "node%zu", i);
        snprintf(zones[i], 48, "r%zu/k%zu", i % 3, i % 7);
        nodes[i] = (struct tryst_place_node){.name = names[i]};
        if (has_weights)
            nodes[i].weight = ONE / 2 * (1 + i % 4);
        if (strncmp(strategy, "crush", 5) == 0)
            nodes[i].zone = zones[i];
    }
}

static void every_strategy(void (*check)(const struct tryst_place_map *map,
                                         struct tr_random *random))
{
    for (size_t s = 0; tryst_place_strategy_name(s) != NULL; s++) {
        struct tryst_place_node nodes[NODES];
        char names[NODES][48];
        char zones[NODES][48];
        const struct tryst_place_config config = {.strategy = tryst_place_strategy_name(s)};
        struct tr_random random = {s};
        make_nodes(config.strategy, nodes, names, zones);
        struct tryst_place_map *map = unit_map(&config, nodes, NODES);
        assert_string_equal(tryst_place_strategy(map), config.strategy);
        check(map, &random);
        free(map);
    }
}

static void check_exclusion(const struct tryst_place_map *map, struct tr_random *random)
{
    void *workspace = malloc(tryst_place_workspace_size(map, NODES) + 1);
    for (int round = 0; round < 300; round++) {
        struct tryst_place_key key = tryst_place_key_of_id(map, tr_random_next(random));
        uint32_t full[NODES];
        uint32_t kept[NODES];
        uint32_t out[NODES];
        assert_int_equal(tryst_place_lookup(map, key, NODES + 5, full, workspace), NODES);
        struct tryst_place_except except = {out, tr_random_below(random, NODES + 1)};
        for (size_t i = 0; i < except.count; i++)
            out[i] = full[(i * 7 + (size_t)round) % NODES];
        size_t want = 1 + tr_random_below(random, NODES);
        size_t found = tryst_place_lookup_except(map, key, want, kept, &except, workspace);
        size_t at = 0;
        for (size_t i = 0; i < NODES && at < want; i++) {
            bool is_out = false;
            for (size_t j = 0; j < except.count; j++)
                is_out = is_out || out[j] == full[i];
            if (!is_out)
                assert_int_equal(kept[at++], full[i]);
        }
        assert_int_equal(found, at);
    }
    free(workspace);
}

static void excluded_nodes_are_taken_out_of_the_order(void **state)
{
    (void)state;
    every_strategy(check_exclusion);
}

static void check_many(const struct tryst_place_map *map, struct tr_random *random)
{
    struct tryst_place_key keys[50];
    static uint32_t rows[50 * NODES];
    void *workspace = malloc(tryst_place_workspace_size(map, NODES) + 1);
    for (size_t want = 1; want <= NODES + 1; want++) {
        for (size_t i = 0; i < 50; i++)
            keys[i] = tryst_place_key_of_id(map, tr_random_next(random));
        size_t length = tryst_place_lookup_many(map, keys, 50, want, rows, workspace);
        assert_int_equal(length, want < NODES ? want : NODES);
        for (size_t i = 0; i < 50; i++) {
            uint32_t one[NODES];
            tryst_place_lookup(map, keys[i], want, one, workspace);
            assert_memory_equal(one, rows + i * length, length * sizeof one[0]);
        }
    }
    free(workspace);
}

static void many_keys_at_once_are_the_same(void **state)
{
    (void)state;
    every_strategy(check_many);
}

static void check_no_workspace(const struct tryst_place_map *map, struct tr_random *random)
{
    if (tryst_place_workspace_size(map, 3) > 0)
        return;
    uint32_t found[3];
    struct tryst_place_key key = tryst_place_key_of_id(map, tr_random_next(random));
    assert_int_equal(tryst_place_lookup(map, key, 3, found, NULL), 3);
    assert_int_equal(tryst_place_lookup(map, key, 0, found, NULL), 0);
}

static void a_few_nodes_need_no_workspace(void **state)
{
    (void)state;
    every_strategy(check_no_workspace);
}

static void excluding_what_is_not_there_does_no_harm(void **state)
{
    (void)state;
    struct tryst_place_node nodes[NODES];
    char names[NODES][48];
    char zones[NODES][48];
    make_nodes("rendezvous", nodes, names, zones);
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "rendezvous"}, nodes, NODES);
    void *workspace = malloc(tryst_place_workspace_size(map, NODES));
    const uint32_t strange[] = {99, UINT32_MAX, 99};
    const struct tryst_place_except except = {strange, 3};
    struct tryst_place_key key = tryst_place_key_of_id(map, 1);
    for (size_t want = 1; want <= NODES; want++) {
        uint32_t plain[NODES];
        uint32_t found[NODES];
        tryst_place_lookup(map, key, want, plain, workspace);
        assert_int_equal(tryst_place_lookup_except(map, key, want, found, &except, workspace),
                         want);
        assert_memory_equal(found, plain, want * sizeof found[0]);
        assert_int_equal(tryst_place_lookup_except(map, key, want, found, NULL, workspace), want);
        assert_memory_equal(found, plain, want * sizeof found[0]);
    }
    free(workspace);
    free(map);
}

/* A key is the hash, not the partition: it means the same on a ring of any size. */
static void check_keys_of_rings(const char *strategy)
{
    const struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct tryst_place_map *large = unit_map(
        &(struct tryst_place_config){.strategy = strategy, .partitions = (uint64_t)1 << 32}, nodes,
        3);
    for (uint64_t partitions = 4; partitions <= (uint64_t)1 << 32; partitions *= 2) {
        struct tryst_place_map *map = unit_map(
            &(struct tryst_place_config){.strategy = strategy, .partitions = partitions}, nodes, 3);
        assert_true(tryst_place_partitions(map) == partitions);
        for (uint64_t id = 0; id < 100; id++) {
            uint32_t a;
            uint32_t b;
            tryst_place_lookup(map, tryst_place_key_of_id(large, id), 1, &a, NULL);
            tryst_place_lookup(map, tryst_place_key_of_id(map, id), 1, &b, NULL);
            assert_int_equal(a, b);
        }
        free(map);
    }
    free(large);
}

static void a_keyspace_key_is_good_for_every_ring(void **state)
{
    (void)state;
    check_keys_of_rings("keyspace@1");
    check_keys_of_rings("keyspace@2");
}

/* Thousands of zones of one node and one of thousands: dealing must not walk the empty ones again
 * and again. (It took 13 seconds once. The test would not fail, but it would be noticed.) */
static void uneven_zones_are_dealt_in_one_go(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct tryst_place_node *nodes = calloc(COUNT, sizeof *nodes);
    char(*names)[16] = calloc(COUNT, sizeof *names);
    char(*zones)[16] = calloc(COUNT, sizeof *zones);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        snprintf(zones[i], sizeof zones[i], "z%u", i < COUNT / 2 ? i : COUNT);
        nodes[i] = (struct tryst_place_node){.name = names[i], .zone = zones[i]};
    }
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "crush"}, nodes, COUNT);
    void *workspace = malloc(tryst_place_workspace_size(map, COUNT));
    uint32_t *found = calloc(COUNT, sizeof *found);
    bool *is_seen = calloc(COUNT, sizeof *is_seen);
    assert_int_equal(
        tryst_place_lookup(map, tryst_place_key_of_id(map, 7), COUNT, found, workspace), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_false(is_seen[found[i]]);
        is_seen[found[i]] = true;
        assert_true(i <= COUNT / 2 || found[i] >= COUNT / 2); /* the rest is the large zone's */
    }
    free(is_seen);
    free(found);
    free(workspace);
    free(map);
    free(zones);
    free(names);
    free(nodes);
}

static void the_map_keeps_copies_of_the_names(void **state)
{
    (void)state;
    char name[] = "alpha";
    struct tryst_place_node nodes[] = {{.name = "beta", .weight = 3 * ONE}, {.name = name}};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "carp"}, nodes, 2);
    name[0] = 'x';
    assert_string_equal(tryst_place_node_name(map, 0), "beta");
    assert_string_equal(tryst_place_node_name(map, 1), "alpha");
    assert_true(tryst_place_node_weight(map, 0) == 3 * ONE);
    assert_true(tryst_place_node_weight(map, 1) == ONE);
    assert_int_equal(tryst_place_node_count(map), 2);
    free(map);
}

static void positions_are_for_circles(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}};
    struct tryst_place_key key;
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "rendezvous"}, nodes, 2);
    assert_int_equal(tryst_place_key_at(map, 0, &key), TRYST_PLACE_POSITION_UNUSED);
    free(map);
    map = unit_map(&(struct tryst_place_config){.strategy = "keyspace"}, nodes, 2);
    assert_int_equal(tryst_place_key_at(map, 1023, &key), TRYST_PLACE_OK);
    assert_int_equal(tryst_place_key_at(map, 1024, &key), TRYST_PLACE_BAD_POSITION);
    free(map);
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    for (int status = TRYST_PLACE_OK; status <= TRYST_PLACE_BAD_FLAGS; status++)
        assert_string_not_equal(tryst_place_status_text((enum tryst_place_status)status),
                                "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_nodes_are_refused_with_their_index),
        cmocka_unit_test(bad_positions_are_refused_with_their_node),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(a_block_that_is_too_small_is_refused),
        cmocka_unit_test(excluded_nodes_are_taken_out_of_the_order),
        cmocka_unit_test(many_keys_at_once_are_the_same),
        cmocka_unit_test(a_few_nodes_need_no_workspace),
        cmocka_unit_test(excluding_what_is_not_there_does_no_harm),
        cmocka_unit_test(a_keyspace_key_is_good_for_every_ring),
        cmocka_unit_test(uneven_zones_are_dealt_in_one_go),
        cmocka_unit_test(the_map_keeps_copies_of_the_names),
        cmocka_unit_test(positions_are_for_circles),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
