/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worked examples from the documents that the strategies come from: Chronos's hashing, with its
 * made-up hash values injected; Shriek's ring with its joins and leaves; and consistent hashing as
 * a special case of highest random weight.
 */
#include "base/hash.h"
#include "base/random.h"
#include "place/map.h"
#include "unit.h"

/* Values to be returned for names and for seeds, instead of hashing. */
struct table {
    const char *name[4];
    uint64_t node[4];
    uint64_t seed[4];
    uint64_t score[4];
};

static uint64_t node_from_table(void *context, const char *name, size_t size)
{
    const struct table *table = context;
    for (size_t i = 0; i < 4 && table->name[i] != NULL; i++) {
        if (strlen(table->name[i]) == size && memcmp(table->name[i], name, size) == 0)
            return table->node[i];
    }
    fail_msg("no hash for %.*s", (int)size, name);
    return 0;
}

static uint64_t score_from_table(void *context, uint64_t key, uint64_t seed)
{
    const struct table *table = context;
    (void)key;
    for (size_t i = 0; i < 4; i++) {
        if (table->seed[i] == seed)
            return table->score[i];
    }
    fail_msg("no score for %llu", (unsigned long long)seed);
    return 0;
}

/* Checks that `names` (space-separated) are the replicas of any key on `nodes`. */
static void expect_chronos(struct table *table, const char *const *nodes, size_t count,
                           const char *const *replicas, size_t want)
{
    struct tryst_place_node list[4];
    for (size_t i = 0; i < count; i++)
        list[i] = (struct tryst_place_node){.name = nodes[i]};
    const struct tryst_place_hash hash = {node_from_table, score_from_table, table};
    const struct tryst_place_config config = {.strategy = "chronos", .hash = &hash};
    struct tryst_place_map *map = unit_map(&config, list, count);
    uint32_t found[4];
    assert_int_equal(tryst_place_lookup(map, tryst_place_key_of_id(map, 100), want, found, NULL),
                     want);
    for (size_t i = 0; i < want; i++)
        assert_string_equal(nodes[found[i]], replicas[i]);
    free(map);
}

static void chronos_scales_up_from_three_to_four(void **state)
{
    (void)state;
    struct table table = {.name = {"A", "B", "C", "D"},
                          .node = {1000, 2000, 3000, 4000},
                          .seed = {1000, 2000, 3000, 4000},
                          .score = {7777, 9999, 8888, 6666}};
    const char *const nodes[] = {"A", "B", "C", "D"};
    expect_chronos(&table, nodes, 3, (const char *const[]){"A", "B", "C"}, 3);
    expect_chronos(&table, nodes, 4, (const char *const[]){"D", "B", "C"}, 3);
}

static void chronos_settles_a_clash_of_servers(void **state)
{
    (void)state;
    struct table table = {.name = {"A1", "A2", "B", "C"},
                          .node = {1000, 1000, 2000, 3000},
                          .seed = {1000, 1001, 2000, 3000},
                          .score = {7777, 9000, 9999, 8888}};
    expect_chronos(&table, (const char *const[]){"A1", "A2", "B", "C"}, 4,
                   (const char *const[]){"A1", "B", "A2"}, 3);
    expect_chronos(&table, (const char *const[]){"A2", "B", "C"}, 3,
                   (const char *const[]){"A2", "B", "C"}, 3);
}

static void chronos_settles_a_clash_of_timers(void **state)
{
    (void)state;
    struct table table = {.name = {"A", "B", "C"},
                          .node = {1000, 2000, 3000},
                          .seed = {1000, 2000, 3000},
                          .score = {800, 800, 900}};
    expect_chronos(&table, (const char *const[]){"A", "B", "C"}, 3,
                   (const char *const[]){"A", "C", "B"}, 3);
}

/* A clash may push a node past one that was ahead of it: A 5, C 6, B 5 -> 6 is taken -> 7. */
static void chronos_lets_a_clash_ripple(void **state)
{
    (void)state;
    struct table table = {
        .name = {"A", "C", "B"}, .node = {1, 2, 3}, .seed = {1, 2, 3}, .score = {5, 6, 5}};
    expect_chronos(&table, (const char *const[]){"A", "C", "B"}, 3,
                   (const char *const[]){"A", "B", "C"}, 3);
    /* Nor is it enough to look at later nodes: A 6, C 5, B 5 -> 6 is A's -> 7. */
    table.score[0] = 6;
    table.score[1] = 5;
    expect_chronos(&table, (const char *const[]){"A", "C", "B"}, 3,
                   (const char *const[]){"C", "B", "A"}, 3);
    table.score[1] = 6;
    table.score[0] = UINT32_MAX; /* and wraps round: B becomes 0, the lowest */
    table.score[2] = UINT32_MAX;
    expect_chronos(&table, (const char *const[]){"A", "C", "B"}, 3,
                   (const char *const[]){"B", "A", "C"}, 3);
}

static void chronos_hashes_real_names(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "10.0.0.1:7253"},
                                             {.name = "10.0.0.2:7253"},
                                             {.name = "10.0.0.3:7253"},
                                             {.name = "10.1.11.242:7253"},
                                             {.name = "10.2.90.135:7253"}};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "chronos"}, nodes, 5);
    const uint64_t hashes[] = {0x3e2c5d23, 0x89be5d95, 0x4ba33747, 0x677d1e7e, 0x677d1e7f};
    for (size_t i = 0; i < 5; i++)
        assert_true(tryst_place_node_hash(map, i) == hashes[i]);
    free(map);
}

/* The same with more nodes than fit on the stack: 40 nodes of three hashes only. */
static uint64_t few_hashes(void *context, uint64_t key, uint64_t seed)
{
    (void)context;
    return (key + seed) % 3;
}

static void chronos_settles_many_clashes(void **state)
{
    (void)state;
    struct tryst_place_node nodes[40];
    char names[40][32];
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        nodes[i] = (struct tryst_place_node){.name = names[i]};
    }
    const struct tryst_place_hash hash = {NULL, few_hashes, NULL};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "chronos", .hash = &hash}, nodes, 40);
    void *workspace = malloc(tryst_place_workspace_size(map, 40));
    for (uint64_t key = 0; key < 3; key++) {
        /* The model: a row of 64 places. */
        bool is_taken[64] = {false};
        uint32_t owner[64];
        for (uint32_t i = 0; i < 40; i++) {
            size_t at = (key + tryst_place_node_hash(map, i)) % 3;
            while (is_taken[at])
                at++;
            is_taken[at] = true;
            owner[at] = i;
        }
        uint32_t expected[40];
        uint32_t found[40];
        size_t count = 0;
        for (size_t at = 64; at > 0; at--) {
            if (is_taken[at - 1])
                expected[++count % 40] = owner[at - 1];
        }
        tryst_place_lookup(map, tryst_place_key_of_id(map, key), 40, found, workspace);
        assert_memory_equal(found, expected, sizeof found);
    }
    free(workspace);
    free(map);
}

/* A ring of nodes at hundredths of the circle, with 100 partitions, and the keys .20 .25 .55 .75
 * .90. */
static const uint32_t shriek_keys[] = {20, 25, 55, 75, 90};

/* `held` lists, for each node in order, the keys on it. */
static void expect_ring_of(const char *strategy, uint32_t partitions, const uint32_t *positions,
                           size_t count, size_t replicas, const char *const *held)
{
    struct tryst_place_node nodes[8];
    char names[8][32];
    char actual[8][64] = {""};
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        nodes[i] = (struct tryst_place_node){
            .name = names[i], .has_position = 1, .position = positions[i] * partitions / 100};
    }
    struct tryst_place_map *map = unit_map(
        &(struct tryst_place_config){.strategy = strategy, .partitions = partitions}, nodes, count);
    for (size_t k = 0; k < UNIT_COUNT(shriek_keys); k++) {
        struct tryst_place_key key;
        uint32_t found[8];
        uint32_t partition = shriek_keys[k] * partitions / 100;
        assert_int_equal(tryst_place_key_at(map, partition, &key), TRYST_PLACE_OK);
        tryst_place_lookup(map, key, replicas, found, NULL);
        for (size_t i = 0; i < replicas; i++) {
            size_t used = strlen(actual[found[i]]);
            snprintf(actual[found[i]] + used, sizeof actual[0] - used, " %u", shriek_keys[k]);
        }
    }
    for (size_t i = 0; i < count; i++)
        assert_string_equal(actual[i], held[i]);
    free(map);
}

static void expect_ring(const uint32_t *positions, size_t count, size_t replicas,
                        const char *const *held)
{
    for (uint32_t partitions = 20; partitions <= 100; partitions += 80) {
        expect_ring_of("keyspace@1", partitions, positions, count, replicas, held);
        expect_ring_of("keyspace@2", partitions, positions, count, replicas, held);
    }
}

/* A key between two partitions belongs to the one after it: .73 of four partitions to .75. */
static void a_key_does_not_belong_to_a_node_before_it(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "0", .has_position = 1},
                                             {.name = ".25", .has_position = 1, .position = 1},
                                             {.name = ".5", .has_position = 1, .position = 2},
                                             {.name = ".75", .has_position = 1, .position = 3}};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "keyspace@2", .partitions = 4}, nodes, 4);
    static const struct {
        double fraction;
        uint32_t node;
    } cases[] = {{0, 0}, {.01, 1}, {.25, 1}, {.26, 2}, {.73, 3}, {.75, 3}, {.76, 0}, {.99, 0}};
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        struct tryst_place_key key = {(uint64_t)(cases[i].fraction * 4294967296)};
        uint32_t found;
        tryst_place_lookup(map, key, 1, &found, NULL);
        assert_int_equal(found, cases[i].node);
    }
    free(map);
}

static void shriek_has_four_nodes(void **state)
{
    (void)state;
    expect_ring((const uint32_t[]){0, 25, 50, 75}, 4, 2,
                (const char *const[]){" 55 75 90", " 20 25 90", " 20 25", " 55 75"});
}

static void shriek_joins_a_fifth(void **state)
{
    (void)state;
    expect_ring((const uint32_t[]){0, 25, 50, 75, 85}, 5, 2,
                (const char *const[]){" 90", " 20 25 90", " 20 25", " 55 75", " 55 75"});
}

static void shriek_leaves_four_of_five(void **state)
{
    (void)state;
    expect_ring(
        (const uint32_t[]){0, 20, 40, 60, 80}, 5, 3,
        (const char *const[]){" 55 75 90", " 20 75 90", " 20 25 90", " 20 25 55", " 25 55 75"});
    expect_ring((const uint32_t[]){0, 20, 40, 80}, 4, 3,
                (const char *const[]){" 25 55 75 90", " 20 55 75 90", " 20 25 90", " 20 25 55 75"});
}

static void nodes_without_a_position_take_the_widest_gap(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {
        {.name = "a"}, {.name = "b"},
        {.name = "c"}, {.name = "d", .has_position = 1, .position = 1000},
        {.name = "e"}, {.name = "f"}};
    const uint32_t positions[] = {0, 512, 256, 1000, 756, 128};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "keyspace@1"}, nodes, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tryst_place_node_position(map, i), positions[i]);
    free(map);
}

/* Of how many partitions a node is the first. */
static void count_shares(const struct tryst_place_map *map, uint32_t *shares)
{
    for (uint64_t i = 0; i < tryst_place_partitions(map); i++) {
        struct tryst_place_key key;
        uint32_t found;
        tryst_place_key_at(map, i, &key);
        tryst_place_lookup(map, key, 1, &found, NULL);
        shares[found]++;
    }
}

static void nodes_take_from_the_one_that_has_most(void **state)
{
    (void)state;
    for (uint64_t partitions = 1024; partitions <= 65536; partitions *= 8) {
        for (size_t count = 3; count <= 20; count++) {
            struct tryst_place_node nodes[20];
            char names[20][8];
            uint32_t shares[20] = {0};
            for (size_t i = 0; i < count; i++) {
                snprintf(names[i], sizeof names[i], "n%zu", i);
                nodes[i] = (struct tryst_place_node){.name = names[i]};
            }
            struct tryst_place_map *map = unit_map(
                &(struct tryst_place_config){.strategy = "keyspace@2", .partitions = partitions},
                nodes, count);
            count_shares(map, shares);
            for (size_t i = 0; i < count; i++) {
                const uint32_t *positions;
                assert_int_equal(tryst_place_node_positions(map, i, &positions), 16);
                assert_true((double)shares[i] * (double)count <= 1.125 * (double)partitions);
            }
            free(map);
        }
    }
}

/* A node that takes many positions beside nodes that were given one each does not take all they
 * have. */
static void nodes_that_choose_leave_others_their_share(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "a", .has_position = 1},
                                             {.name = "b", .has_position = 1, .position = 256},
                                             {.name = "c", .has_position = 1, .position = 512},
                                             {.name = "d", .has_position = 1, .position = 768},
                                             {.name = "e"}};
    uint32_t shares[5] = {0};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "keyspace@2"}, nodes, 5);
    count_shares(map, shares);
    for (size_t i = 0; i < 5; i++)
        assert_in_range(shares[i], 128, 256);
    free(map);
    uint32_t halves[2] = {0};
    map = unit_map(
        &(struct tryst_place_config){.strategy = "keyspace@2"},
        (const struct tryst_place_node[]){{.name = "a", .has_position = 1}, {.name = "b"}}, 2);
    count_shares(map, halves);
    assert_int_equal(halves[0], 512);
    assert_int_equal(halves[1], 512);
    free(map);
}

static void several_positions_can_be_given(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    const uint32_t a[] = {10, 30};
    const uint32_t b[] = {20, 40, 90};
    const struct tryst_place_given given[] = {{a, 2}, {b, 3}, {NULL, 0}};
    const struct tryst_place_positions positions = {given, 2};
    const struct tryst_place_config config = {.strategy = "keyspace@2", .partitions = 100};
    size_t size = tryst_place_keyspace_size(&config, &positions, nodes, 3);
    struct tryst_place_map *map = malloc(size);
    assert_int_equal(tryst_place_keyspace_init(map, size, &config, &positions, nodes, 3, NULL),
                     TRYST_PLACE_OK);
    const uint32_t *chosen;
    assert_int_equal(tryst_place_node_positions(map, 2, &chosen), 2);
    assert_int_equal(chosen[0], 65); /* b has 70, of which 50 are before 90 */
    assert_int_equal(chosen[1], 52); /* b has 45, c 25, and would have 37 with half of b's gap */
    free(map);
}

/* Consistent hashing as a two-place function: the closer the node's next token behind the key, the
 * higher its score. */
static uint64_t closeness(void *context, uint64_t key, uint64_t seed)
{
    (void)context;
    uint64_t nearest = UINT64_MAX;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t distance = tr_point(seed, i) - key;
        nearest = distance < nearest ? distance : nearest;
    }
    return ~nearest;
}

static void a_key_on_a_token_is_its_owners(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "ring"}, nodes, 3);
    for (uint32_t node = 0; node < 3; node++) {
        for (uint64_t i = 0; i < 200; i++) {
            struct tryst_place_key key;
            uint32_t found;
            uint64_t token = tr_point(tr_hash_xxh3(nodes[node].name, 1), i);
            assert_int_equal(tryst_place_key_at(map, token, &key), TRYST_PLACE_OK);
            tryst_place_lookup(map, key, 1, &found, NULL);
            assert_int_equal(found, node);
        }
    }
    free(map);
}

static uint64_t same_seed(void *context, const char *name, size_t size)
{
    (void)context;
    return size == 1 ? 42 : tr_hash_xxh3(name, size);
}

/* Names of one letter have one seed: they cannot be told apart by their paths. */
static void skeleton_keeps_equal_seeds_in_order(void **state)
{
    (void)state;
    const struct tryst_place_node nodes[] = {{.name = "d"},
                                             {.name = "b"},
                                             {.name = "other"},
                                             {.name = "c", .weight = 2 * TRYST_PLACE_WEIGHT_ONE},
                                             {.name = "a"}};
    const uint32_t expected[] = {3, 4, 1, 0}; /* c is heaviest, then a, b, d */
    const struct tryst_place_hash hash = {same_seed, NULL, NULL};
    struct tryst_place_map *map =
        unit_map(&(struct tryst_place_config){.strategy = "skeleton", .hash = &hash}, nodes, 5);
    for (uint64_t id = 0; id < 100; id++) {
        uint32_t found[5];
        tryst_place_lookup(map, tryst_place_key_of_id(map, id), 5, found, NULL);
        assert_memory_equal(found + (found[0] == 2), expected, sizeof expected);
    }
    free(map);
}

static void the_ring_is_a_special_case_of_rendezvous(void **state)
{
    (void)state;
    enum { COUNT = 12, KEYS = 5000 };
    struct tryst_place_node nodes[COUNT];
    char names[COUNT][32];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "site%zu", i);
        nodes[i] = (struct tryst_place_node){.name = names[i]};
    }
    const struct tryst_place_hash hash = {NULL, closeness, NULL};
    struct tryst_place_map *ring =
        unit_map(&(struct tryst_place_config){.strategy = "ring"}, nodes, COUNT);
    struct tryst_place_map *hrw = unit_map(
        &(struct tryst_place_config){.strategy = "rendezvous", .hash = &hash}, nodes, COUNT);
    for (uint64_t id = 0; id < KEYS; id++) {
        uint32_t by_ring[COUNT];
        uint32_t by_score[COUNT];
        tryst_place_lookup(ring, tryst_place_key_of_id(ring, id), COUNT, by_ring, NULL);
        tryst_place_lookup(hrw, tryst_place_key_of_id(hrw, id), COUNT, by_score, NULL);
        assert_memory_equal(by_ring, by_score, sizeof by_ring);
    }
    free(ring);
    free(hrw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chronos_scales_up_from_three_to_four),
        cmocka_unit_test(chronos_settles_a_clash_of_servers),
        cmocka_unit_test(chronos_settles_a_clash_of_timers),
        cmocka_unit_test(chronos_lets_a_clash_ripple),
        cmocka_unit_test(chronos_hashes_real_names),
        cmocka_unit_test(chronos_settles_many_clashes),
        cmocka_unit_test(shriek_has_four_nodes),
        cmocka_unit_test(shriek_joins_a_fifth),
        cmocka_unit_test(shriek_leaves_four_of_five),
        cmocka_unit_test(nodes_without_a_position_take_the_widest_gap),
        cmocka_unit_test(nodes_take_from_the_one_that_has_most),
        cmocka_unit_test(several_positions_can_be_given),
        cmocka_unit_test(nodes_that_choose_leave_others_their_share),
        cmocka_unit_test(a_key_does_not_belong_to_a_node_before_it),
        cmocka_unit_test(a_key_on_a_token_is_its_owners),
        cmocka_unit_test(skeleton_keeps_equal_seeds_in_order),
        cmocka_unit_test(the_ring_is_a_special_case_of_rendezvous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
