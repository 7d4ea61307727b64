/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of keys: positions, lists, and both rings while nodes join and leave. */
#include "rooms.h"

struct machine {
    struct tr_time time;
    struct tr_trial trial;
    struct tr_log log;
    struct tr_cluster cluster;
};

static int set_up(void **state)
{
    struct machine *machine = unit_zeros(sizeof *machine);
    machine->time = unit_time();
    unit_set_log(&machine->log, &machine->time, &machine->trial, 16);
    machine->cluster.time = &machine->time;
    machine->cluster.trial = &machine->trial;
    machine->cluster.log = &machine->log;
    unit_set_cluster(&machine->cluster, "a", 16);
    *state = machine;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *machine = *state;
    free(machine->log.waiting);
    unit_free_cluster(&machine->cluster);
    free(machine);
    return 0;
}

static struct tr_cluster *cluster_of(void **state)
{
    struct machine *machine = *state;
    return &machine->cluster;
}

static struct tr_definition keys_of(uint64_t partitions, uint8_t copies)
{
    return (struct tr_definition){.partitions = partitions,
                                  .copies = copies,
                                  .reads = 1,
                                  .writes = 1,
                                  .positions = partitions >= 1024 ? 16 : 1};
}

/* "a b+ c-", as nodes that have no positions yet. */
static struct tr_roster *roster_of(const char *text, struct tr_definition keys)
{
    struct tr_roster *roster = unit_zeros(sizeof *roster);
    *roster = (struct tr_roster){.cluster = 1, .epoch = 1, .keys = keys, .before = keys};
    for (; *text != '\0'; text++) {
        enum tr_role role = text[1] == '+'   ? TR_ROLE_JOINING
                            : text[1] == '-' ? TR_ROLE_LEAVING
                                             : TR_ROLE_STAYING;
        if (*text >= 'a')
            assert_true(tr_roster_set(roster, (struct tr_span){text, 1}, role));
    }
    return roster;
}

static void the_first_node_stands_at_0(void **state)
{
    struct tr_cluster *cluster = cluster_of(state);
    struct tr_roster *roster = roster_of("a b c d", keys_of(20, 2));
    assert_true(tr_ring_choose(cluster, roster));
    assert_int_equal(roster->nodes[0].positions[0], 0);
    assert_int_equal(roster->nodes[1].positions[0], 10); /* the middle of what is left */
    for (uint32_t i = 0; i < roster->count; i++)
        assert_int_equal(roster->nodes[i].position_count, 1);
    free(roster);
}

static void a_ring_without_a_free_position_takes_nobody(void **state)
{
    struct tr_cluster *cluster = cluster_of(state);
    struct tr_roster *roster = roster_of("a b c", keys_of(2, 1));
    assert_false(tr_ring_choose(cluster, roster));
    free(roster);
}

static void a_list_has_as_many_nodes_as_there_are_copies(void **state)
{
    struct tr_cluster *cluster = cluster_of(state);
    struct tr_roster *roster = roster_of("a b c", keys_of(1024, 2));
    uint16_t members[TR_RING_WANT];
    assert_true(tr_ring_choose(cluster, roster));
    assert_false(tr_ring_is_there(cluster));
    assert_true(tr_ring_set(cluster, roster));
    assert_true(tr_ring_is_there(cluster));
    assert_int_equal(cluster->old_ring.count, 0);
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        struct tr_holders holders;
        snprintf(name, sizeof name, "key-%u", i);
        struct tr_span key = {name, strlen(name)};
        assert_int_equal(tr_ring_list(cluster, &cluster->ring, key, TR_RING_WANT, members), 3);
        tr_ring_holders(cluster, key, &holders);
        assert_int_equal(holders.count, 2);
        assert_true(tr_holders_have(&holders, members[0]) && tr_holders_have(&holders, members[1]));
        assert_false(tr_holders_have(&holders, members[2])); /* it would stand in */
    }
    free(roster);
}

static void while_a_node_joins_both_lists_hold(void **state)
{
    struct tr_cluster *cluster = cluster_of(state);
    struct tr_roster *roster = roster_of("a b c d+", keys_of(1024, 2));
    unsigned wider = 0;
    assert_true(tr_ring_choose(cluster, roster));
    assert_true(tr_ring_set(cluster, roster));
    assert_int_equal(cluster->ring.count, 4);
    assert_int_equal(cluster->old_ring.count, 3);
    uint16_t joiner = tr_member_find(cluster, (struct tr_span){"d", 1});
    for (unsigned i = 0; i < 200; i++) {
        char name[16];
        struct tr_holders holders;
        snprintf(name, sizeof name, "key-%u", i);
        tr_ring_holders(cluster, (struct tr_span){name, strlen(name)}, &holders);
        assert_true(holders.count == 2 || holders.count == 3);
        assert_int_equal(holders.count == 3, tr_holders_have(&holders, joiner));
        wider += holders.count == 3;
        for (unsigned k = 0; k < holders.count; k++)
            assert_false((holders.of_old >> k & 1) != 0 && holders.members[k] == joiner);
    }
    assert_true(wider > 50 && wider < 150); /* half of the lists, about */
    free(roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_node_stands_at_0, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_without_a_free_position_takes_nobody, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_list_has_as_many_nodes_as_there_are_copies, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(while_a_node_joins_both_lists_hold, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
