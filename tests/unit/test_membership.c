/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Membership by itself: one node, `a`, which is told by hand what others say. There are no links
 * and no log; of the rooms above there are only hooks.
 */
#include "rooms.h"

#include "cluster/gossip.h"
#include "cluster/membership.h"
#include "cluster/peer.h"

#define MESSAGES 16
#define WAITING  4

struct machine {
    struct tr_time time;
    struct tr_trial trial;
    struct tr_log log;
    struct tr_cluster cluster;
    struct tr_membership membership;
    unsigned changes;
    bool is_empty;
};

static void changed(void *context)
{
    struct machine *machine = context;
    machine->changes++;
}

static bool has_keys(void *context)
{
    (void)context;
    return false;
}

static bool is_empty(void *context)
{
    const struct machine *machine = context;
    return machine->is_empty;
}

static int set_up(void **state)
{
    struct machine *machine = unit_zeros(sizeof *machine);
    struct tr_membership *membership = &machine->membership;
    machine->time = unit_time();
    machine->is_empty = true;
    unit_set_log(&machine->log, &machine->time, &machine->trial, WAITING);
    machine->cluster.time = &machine->time;
    machine->cluster.trial = &machine->trial;
    machine->cluster.log = &machine->log;
    unit_set_cluster(&machine->cluster, "a", MESSAGES);
    membership->hooks = (struct tr_membership_hooks){
        .context = machine, .changed = changed, .is_empty = is_empty, .has_keys = has_keys};
    membership->cluster = &machine->cluster;
    membership->time = &machine->time;
    membership->log = &machine->log;
    membership->roster = unit_zeros(sizeof *membership->roster);
    membership->heeded = unit_zeros(sizeof *membership->heeded);
    membership->configured = unit_zeros(sizeof *membership->configured);
    membership->scratch = unit_zeros(sizeof *membership->scratch);
    membership->bytes = unit_zeros(1 + TR_ROSTER_SIZE_MAX);
    membership->standings = unit_zeros(TR_LOG_NODES_MAX * sizeof *membership->standings);
    *state = machine;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *machine = *state;
    struct tr_membership *membership = &machine->membership;
    free(membership->roster);
    free(membership->heeded);
    free(membership->configured);
    free(membership->scratch);
    free(membership->bytes);
    free(membership->standings);
    free(machine->log.waiting);
    unit_free_cluster(&machine->cluster);
    free(machine);
    return 0;
}

/* ---- what is said ---- */

/* "ab+c-d!": a stays, b joins, c leaves, d is lost. */
static uint32_t nodes_of(const char *text, struct tr_view_node *nodes)
{
    uint32_t count = 0;
    for (; *text != '\0'; text++) {
        char sign = text[1];
        enum tr_role role = sign == '+'   ? TR_ROLE_JOINING
                            : sign == '-' ? TR_ROLE_LEAVING
                            : sign == '!' ? TR_ROLE_LOST
                                          : TR_ROLE_STAYING;
        nodes[count++] = (struct tr_view_node){.address = {text, 1}, .role = role};
        text += role != TR_ROLE_STAYING;
    }
    return count;
}

static void configure(struct machine *machine, const char *text)
{
    struct tr_view_node nodes[26];
    tr_membership_configure(&machine->membership, nodes, nodes_of(text, nodes));
}

static enum tr_change ask(struct machine *machine, const char *text)
{
    struct tr_view_node nodes[26];
    uint16_t who = TR_MEMBER_NONE;
    return tr_membership_ask(&machine->membership, nodes, nodes_of(text, nodes), &who);
}

static uint16_t meet(struct machine *machine, char name)
{
    uint16_t peer =
        tr_member_intern(&machine->cluster, (struct tr_span){&name, 1}, TR_LOG_NODES_MAX);
    machine->cluster.peers[peer].is_up = true;
    machine->cluster.peers[peer].version = TR_FRAME_VERSION;
    return peer;
}

/* It has this roster, and says so. */
static void hear(struct machine *machine, char name, const struct tr_roster *roster,
                 bool is_settled)
{
    struct tr_frame beat = {.kind = TR_FRAME_BEAT};
    beat.of.beat.has_roster = true;
    beat.of.beat.flags = is_settled ? TR_BEAT_SETTLED : 0;
    beat.of.beat.cluster = roster->cluster;
    beat.of.beat.epoch = roster->epoch;
    beat.of.beat.roster_id = roster->id;
    tr_gossip_hear(&machine->membership, meet(machine, name), &beat);
}

static void hear_all(struct machine *machine, const char *names, bool is_settled)
{
    for (; *names != '\0'; names++)
        hear(machine, *names, machine->membership.roster, is_settled);
}

/* It is sent this roster. */
static void take(struct machine *machine, const struct tr_roster *roster, bool is_shared)
{
    uint8_t bytes[1 + TR_ROSTER_SIZE_MAX];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_put_number(&out, is_shared, 1);
    tr_roster_put(&out, roster);
    struct tr_reader in = tr_reader_on(bytes, out.size);
    tr_gossip_take(&machine->membership, &in);
    assert_false(in.is_short);
}

static struct tr_roster roster_of(const char *text, uint64_t cluster, uint64_t epoch)
{
    struct tr_view_node nodes[26];
    struct tr_roster roster = {.cluster = cluster, .epoch = epoch};
    uint32_t count = nodes_of(text, nodes);
    for (uint32_t i = 0; i < count; i++)
        tr_roster_set(&roster, nodes[i].address, nodes[i].role);
    tr_roster_seal(&roster);
    return roster;
}

/* The roster in force, in the form that it is written here. */
static void check_roster(const struct machine *machine, uint64_t epoch, const char *text)
{
    static const char *const signs[] = {"", "", "+", "-", "!"};
    const struct tr_roster *roster = machine->membership.roster;
    char is[128] = "";
    for (uint32_t i = 0; i < roster->count; i++) {
        strncat(is, roster->nodes[i].address, 1);
        strncat(is, signs[roster->nodes[i].role], 1);
    }
    assert_string_equal(is, text);
    assert_true(roster->epoch == epoch);
}

static void run(struct machine *machine, bool is_settled)
{
    unit_pass(&machine->time, 300);
    tr_membership_run(&machine->membership, is_settled);
}

/* ---- beginnings ---- */

static void nodes_with_one_file_are_one_cluster(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    check_roster(machine, 1, "abc");
    uint64_t cluster = machine->membership.roster->cluster;
    assert_true(cluster != 0);
    configure(machine, "cba"); /* in whatever order */
    assert_true(machine->membership.roster->cluster == cluster);
    assert_int_equal(machine->changes, 1);
}

static void one_that_is_to_join_makes_none_and_waits(void **state)
{
    struct machine *machine = *state;
    configure(machine, "a+bc");
    assert_true(machine->membership.roster->epoch == 0);
    assert_true(tr_gossip_is_guest(&machine->membership));
    struct tr_roster theirs = roster_of("a+bc", 5, 2);
    take(machine, &theirs, true);
    check_roster(machine, 2, "a+bc");
    run(machine, false);
    assert_false(tr_gossip_is_guest(&machine->membership));
}

static void one_that_is_alone_is_taken_in(void **state)
{
    struct machine *machine = *state;
    configure(machine, "a");
    assert_true(tr_gossip_is_free(&machine->membership));
    struct tr_roster others = roster_of("bc", 5, 2);
    struct tr_roster theirs = roster_of("a+bc", 5, 2);
    take(machine, &others, true); /* it does not name this one */
    check_roster(machine, 1, "a");
    take(machine, &theirs, true);
    check_roster(machine, 2, "a+bc");
    hear(machine, 'b', &theirs, false);
    assert_false(tr_gossip_is_free(&machine->membership));
    struct tr_roster strangers = roster_of("a+xyz", 9, 8);
    take(machine, &strangers, true); /* it belongs to somebody now */
    check_roster(machine, 2, "a+bc");
}

static void one_that_has_left_may_be_taken_in_when_it_holds_nothing(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    struct tr_roster after = roster_of("bc", machine->membership.roster->cluster, 3);
    struct tr_roster strangers = roster_of("a+xyz", 9, 1);
    take(machine, &after, true);
    assert_true(tr_gossip_is_free(&machine->membership));
    machine->is_empty = false;
    take(machine, &strangers, true);
    check_roster(machine, 3, "bc");
    machine->is_empty = true;
    take(machine, &strangers, true);
    check_roster(machine, 1, "a+xyz");
}

/* ---- changes ---- */

static void a_change_needs_every_member(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_DOWN); /* nobody was heard */
    hear_all(machine, "bc", true);
    machine->cluster.peers[meet(machine, 'b')].version = TR_ROSTER_VERSION - 1;
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_OLDER);
    meet(machine, 'b');
    struct tr_roster earlier = roster_of("ab", machine->membership.roster->cluster, 1);
    hear(machine, 'c', &earlier, true); /* it has not heard of the present one */
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_DOWN);
    hear_all(machine, "bc", true);
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_MADE);
    check_roster(machine, 2, "abcd+");
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_NONE); /* it is so already */
}

static void one_change_at_a_time_but_for_its_end(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_MADE);
    hear_all(machine, "bc", false);
    assert_int_equal(ask(machine, "e+"), TR_CHANGE_BUSY);
    assert_int_equal(ask(machine, "c!"), TR_CHANGE_UP);
    machine->cluster.peers[meet(machine, 'c')].is_up = false;
    assert_int_equal(ask(machine, "c!"), TR_CHANGE_MADE); /* a loss is told at any time */
    check_roster(machine, 3, "abc!d+");
    hear_all(machine, "b", false);
    assert_int_equal(ask(machine, "d-"), TR_CHANGE_MADE); /* and it may be taken back */
    check_roster(machine, 4, "abc!d-");
}

static void somebody_is_to_be_left(void **state)
{
    struct machine *machine = *state;
    configure(machine, "ab");
    hear_all(machine, "b", true);
    assert_int_equal(ask(machine, "a-b-"), TR_CHANGE_LAST);
    struct tr_roster after = roster_of("b", machine->membership.roster->cluster, 3);
    take(machine, &after, true);
    assert_int_equal(ask(machine, "c+"), TR_CHANGE_GONE); /* it is no member itself */
}

static void a_change_ends_when_everybody_has_settled(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    run(machine, true);
    assert_int_equal(ask(machine, "c-d+"), TR_CHANGE_MADE);
    hear_all(machine, "bc", true);
    hear_all(machine, "d", false);
    run(machine, false);
    run(machine, true);
    check_roster(machine, 2, "abc-d+");
    uint16_t who = TR_MEMBER_NONE;
    assert_true(tr_membership_is_waiting_for(&machine->membership, &who));
    assert_int_equal(who, meet(machine, 'd'));
    machine->cluster.peers[meet(machine, 'b')].is_up = false; /* it has said so before */
    hear(machine, 'd', machine->membership.roster, true);
    run(machine, true);
    check_roster(machine, 3, "abd");
}

static void who_is_lost_is_not_waited_for(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    machine->cluster.peers[meet(machine, 'c')].is_up = false;
    assert_int_equal(ask(machine, "c!"), TR_CHANGE_MADE);
    hear_all(machine, "b", true);
    run(machine, true);
    run(machine, true);
    check_roster(machine, 3, "ab");
}

static void what_the_configuration_asks_for_waits_for_its_turn(void **state)
{
    struct machine *machine = *state;
    configure(machine, "ab");
    hear_all(machine, "b", true);
    run(machine, true);
    machine->cluster.peers[meet(machine, 'b')].is_up = false;
    configure(machine, "abc+");
    check_roster(machine, 1, "ab");
    assert_true(tr_membership_is_behind(&machine->membership));
    hear_all(machine, "b", true);
    run(machine, true);
    check_roster(machine, 2, "abc+");
    hear_all(machine, "b", true);
    run(machine, true);
    assert_false(tr_membership_is_behind(&machine->membership));
}

static void what_the_configuration_asked_for_is_asked_for_again_if_another_change_wins(void **state)
{
    struct machine *machine = *state;
    configure(machine, "ab");
    hear_all(machine, "b", true);
    run(machine, true);
    configure(machine, "abx+");
    check_roster(machine, 2, "abx+");
    struct tr_roster other = roster_of("aby+", machine->membership.roster->cluster, 2);
    while (other.id < machine->membership.roster->id) { /* it has to win */
        other.cluster++;
        tr_roster_seal(&other);
    }
    machine->membership.roster->cluster = other.cluster;
    take(machine, &other, true);
    check_roster(machine, 2, "aby+");
    assert_true(tr_membership_is_behind(&machine->membership));
    struct tr_roster after = roster_of("aby", other.cluster, 3);
    take(machine, &after, true);
    hear_all(machine, "by", true);
    run(machine, true);
    check_roster(machine, 4, "abx+y");
    hear_all(machine, "by", true);
    run(machine, true);
    assert_false(tr_membership_is_behind(&machine->membership)); /* all have it */
}

static void a_guest_asks_its_hosts_for_nothing(void **state)
{
    struct machine *machine = *state;
    configure(machine, "a+bcd");
    struct tr_roster theirs = roster_of("a+bc-", 5, 2); /* d has left long ago, and c leaves */
    take(machine, &theirs, true);
    hear_all(machine, "bc", false);
    run(machine, true);
    check_roster(machine, 2, "a+bc-");
    assert_false(tr_membership_is_behind(&machine->membership));
}

static void a_leave_that_is_taken_back_is_a_join(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    assert_int_equal(ask(machine, "c-"), TR_CHANGE_MADE);
    hear_all(machine, "bc", false);
    assert_int_equal(ask(machine, "c+"), TR_CHANGE_MADE);
    check_roster(machine, 3, "abc+"); /* what it has given away has to come back */
}

static void another_node_ends_a_change_that_the_first_one_does_not(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    struct tr_roster theirs = roster_of("a0bc-", machine->membership.roster->cluster, 2);
    take(machine, &theirs, true);   /* `0` comes before `a`, */
    hear_all(machine, "0bc", true); /* and is up */
    run(machine, true);
    run(machine, true);
    check_roster(machine, 2, "0abc-");
    unit_pass(&machine->time, 2000);
    run(machine, true);
    check_roster(machine, 3, "0ab");
}

static void one_that_has_left_may_be_alone_again(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    struct tr_roster after = roster_of("bc", machine->membership.roster->cluster, 3);
    take(machine, &after, true);
    run(machine, true);
    check_roster(machine, 3, "bc");
    configure(machine, "a");
    check_roster(machine, 1, "a");
}

/* ---- what others have ---- */

static void of_two_rosters_with_one_epoch_the_higher_holds(void **state)
{
    struct machine *machine = *state;
    configure(machine, "ab");
    uint64_t cluster = machine->membership.roster->cluster;
    struct tr_roster first = roster_of("abc+", cluster, 2);
    struct tr_roster second = roster_of("abd+", cluster, 2);
    const struct tr_roster *higher = first.id > second.id ? &first : &second;
    take(machine, &first, true);
    take(machine, &second, true);
    assert_true(machine->membership.roster->id == higher->id);
    take(machine, &first, true);
    assert_true(machine->membership.roster->id == higher->id);
}

static void who_has_an_older_one_is_sent_this_one(void **state)
{
    struct machine *machine = *state;
    configure(machine, "abc");
    hear_all(machine, "bc", true);
    struct tr_roster before = *machine->membership.roster;
    assert_false(tr_gossip_wants_to_send(&machine->membership, meet(machine, 'b')));
    assert_int_equal(ask(machine, "d+"), TR_CHANGE_MADE);
    assert_true(tr_gossip_wants_to_send(&machine->membership, meet(machine, 'b')));
    hear_all(machine, "b", true);
    assert_false(tr_gossip_wants_to_send(&machine->membership, meet(machine, 'b')));
    hear(machine, 'b', &before, true); /* its machine was set back */
    assert_true(tr_gossip_wants_to_send(&machine->membership, meet(machine, 'b')));
    machine->cluster.peers[meet(machine, 'c')].is_up = false;
    assert_false(tr_gossip_wants_to_send(&machine->membership, 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_with_one_file_are_one_cluster),
        TEST(one_that_is_to_join_makes_none_and_waits),
        TEST(one_that_is_alone_is_taken_in),
        TEST(one_that_has_left_may_be_taken_in_when_it_holds_nothing),
        TEST(a_change_needs_every_member),
        TEST(one_change_at_a_time_but_for_its_end),
        TEST(somebody_is_to_be_left),
        TEST(a_change_ends_when_everybody_has_settled),
        TEST(who_is_lost_is_not_waited_for),
        TEST(what_the_configuration_asks_for_waits_for_its_turn),
        TEST(what_the_configuration_asked_for_is_asked_for_again_if_another_change_wins),
        TEST(a_guest_asks_its_hosts_for_nothing),
        TEST(a_leave_that_is_taken_back_is_a_join),
        TEST(another_node_ends_a_change_that_the_first_one_does_not),
        TEST(one_that_has_left_may_be_alone_again),
        TEST(of_two_rosters_with_one_epoch_the_higher_holds),
        TEST(who_has_an_older_one_is_sent_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
