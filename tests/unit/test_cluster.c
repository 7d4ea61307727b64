/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room `cluster` by itself: two nodes, each with members, a view, a clock and an outbox. Frames
 * go from one to the other by hand; of the rooms above there are only hooks, which count.
 */
#include "rooms.h"

#include "cluster/clock.h"
#include "cluster/peer.h"

#define MESSAGES      64
#define WAITING       16
#define BEAT_APART_MS 200 /* a heartbeat is as old, at most */

struct machine {
    struct tr_time time;
    struct tr_trial trial;
    struct tr_log log;
    struct tr_cluster cluster;
    struct tr_effects effects;
    struct machine *other;
    unsigned greeted;
    unsigned lost;
    unsigned stores_lost;
    unsigned beats;
    unsigned changes; /* of who is up */
    unsigned entries; /* of frames that are for the rooms above */
    unsigned resets;
    uint8_t flags; /* that its heartbeats say */
    enum tr_frame_kind last;
};

/* ---- hooks ---- */

static void link_lost(void *context, uint16_t peer)
{
    struct machine *machine = context;
    assert_int_equal(peer, 1);
    machine->lost++;
}

static void store_lost(void *context, uint16_t peer)
{
    struct machine *machine = context;
    (void)peer;
    machine->stores_lost++;
}

static void greeted(void *context, uint16_t peer)
{
    struct machine *machine = context;
    (void)peer;
    machine->greeted++;
}

static void beat_heard(void *context, uint16_t peer, const struct tr_frame *beat,
                       bool has_another_view)
{
    struct machine *machine = context;
    (void)peer;
    (void)beat;
    (void)has_another_view;
    machine->beats++;
}

static void up_changed(void *context, uint16_t peer)
{
    struct machine *machine = context;
    (void)peer;
    machine->changes++;
}

static void fill_beat(void *context, uint16_t peer, struct tr_frame *beat)
{
    const struct machine *machine = context;
    (void)peer;
    beat->of.beat.flags = machine->flags;
}

static void put(void *context, const struct tr_message *message, uint64_t version,
                struct tr_writer *writer)
{
    (void)version;
    struct tr_head head = {.key = message->key, .order = message->order};
    (void)context;
    tr_frame_put_key(writer, &head);
}

/* ---- links ---- */

static void receive(struct machine *machine, const uint8_t *bytes, size_t size)
{
    struct tr_event event = {.kind = TR_EVENT_FRAME_RECEIVED};
    struct tr_frame frame = {0};
    struct tr_reader reader;
    struct tr_head head;
    event.of.frame.peer = 1;
    event.of.frame.bytes = bytes;
    event.of.frame.size = size;
    if (!tr_peer_receive(&machine->cluster, &event, &frame, &reader, &machine->effects))
        return;
    machine->last = frame.kind;
    while (tr_frame_get_key(&reader, &head))
        machine->entries++;
}

/* What a step does for its peer, and what it has sent comes to the other. */
static void step(struct machine *machine)
{
    struct tr_cluster *cluster = &machine->cluster;
    cluster->frames_size = 0;
    tr_peer_look(cluster, 1, &machine->effects);
    if (tr_peer_greet(cluster, 1, &machine->effects)) {
        tr_outbox_send_all(cluster, 1, &machine->effects);
        if (machine->time.now_ms >= cluster->peers[1].beat_ms)
            tr_peer_beat(cluster, 1, &machine->effects);
    }
    uint32_t count = machine->effects.count;
    machine->effects.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct tr_effect *effect = &machine->effects.items[i];
        machine->resets += effect->kind == TR_EFFECT_LINK_RESET;
        if (effect->kind == TR_EFFECT_FRAME_SEND)
            receive(machine->other, effect->of.frame.bytes, effect->of.frame.size);
    }
    if (cluster->peers[1].is_sending)
        tr_peer_frame_sent(cluster, 1);
}

static void pass(struct machine *machines, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        for (unsigned k = 0; k < 2; k++) {
            unit_pass(&machines[k].time, 10);
            step(&machines[k]);
        }
    }
}

static void link(struct machine *machines)
{
    tr_peer_link_up(&machines[0].cluster, 1);
    tr_peer_link_up(&machines[1].cluster, 1);
    pass(machines, 200);
}

static void set_machine(struct machine *machine, const char *address, const char *other)
{
    struct tr_view_node view[2] = {{.address = {address, strlen(address)}, .role = TR_ROLE_STAYING},
                                   {.address = {other, strlen(other)}, .role = TR_ROLE_STAYING}};
    machine->time = unit_time();
    machine->flags = TR_BEAT_READY | TR_BEAT_POPPING;
    unit_set_log(&machine->log, &machine->time, &machine->trial, WAITING);
    machine->cluster.hooks = (struct tr_cluster_hooks){
        .context = machine,
        .link_lost = link_lost,
        .store_lost = store_lost,
        .greeted = greeted,
        .beat_heard = beat_heard,
        .up_changed = up_changed,
        .fill_beat = fill_beat,
        .put = put,
    };
    machine->cluster.time = &machine->time;
    machine->cluster.trial = &machine->trial;
    machine->cluster.log = &machine->log;
    unit_set_cluster(&machine->cluster, address, MESSAGES);
    assert_true(tr_view_set(&machine->cluster, view, 2));
}

static int set_up(void **state)
{
    struct machine *machines = unit_zeros(2 * sizeof *machines);
    set_machine(&machines[0], "a:1", "b:1");
    set_machine(&machines[1], "b:1", "a:1");
    machines[0].other = &machines[1];
    machines[1].other = &machines[0];
    *state = machines;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *machines = *state;
    for (unsigned i = 0; i < 2; i++) {
        free(machines[i].log.waiting);
        unit_free_cluster(&machines[i].cluster);
    }
    free(machines);
    return 0;
}

/* ---- tests ---- */

static void nodes_that_greet_are_up(void **state)
{
    struct machine *machines = *state;
    assert_false(tr_peer_is_up(&machines[0].cluster, 1));
    assert_true(tr_peer_is_up(&machines[0].cluster, 0)); /* itself */
    link(machines);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(machines[i].greeted, 1);
        assert_int_equal(machines[i].changes, 1);
        assert_true(machines[i].beats > 0);
        assert_true(tr_peer_is_up(&machines[i].cluster, 1));
        assert_true(tr_peer_is_serving(&machines[i].cluster, 1));
        assert_int_equal(machines[i].cluster.peers[1].view, machines[i].cluster.view.id);
    }
}

static void one_that_is_only_starting_is_up_and_does_not_serve(void **state)
{
    struct machine *machines = *state;
    machines[1].flags = 0;
    link(machines);
    assert_true(tr_peer_is_up(&machines[0].cluster, 1));
    assert_false(tr_peer_is_serving(&machines[0].cluster, 1));
    assert_false(tr_peer_is_popping(&machines[0].cluster, 1));
}

static void a_silent_node_is_down_after_its_time_and_not_before(void **state)
{
    struct machine *machines = *state;
    link(machines);
    uint64_t heard_ms = machines[0].cluster.peers[1].heard_ms;
    unit_pass(&machines[0].time, heard_ms + TR_SUSPECT_MS - 1 - machines[0].time.now_ms);
    tr_peer_look(&machines[0].cluster, 1, &machines[0].effects);
    assert_true(tr_peer_is_up(&machines[0].cluster, 1));
    unit_pass(&machines[0].time, 1);
    tr_peer_look(&machines[0].cluster, 1, &machines[0].effects);
    assert_false(tr_peer_is_up(&machines[0].cluster, 1));
    assert_int_equal(machines[0].changes, 2);
}

/* Nothing was heard while this node stood still; but it gets little time all along, and the other
 * one is dead. */
static void own_standstill_excuses_a_silence_for_a_second_in_all(void **state)
{
    struct machine *machines = *state;
    struct tr_cluster *cluster = &machines[0].cluster;
    link(machines);
    unit_pass(&machines[0].time, TR_SUSPECT_MS);
    tr_peers_excuse(cluster, TR_SUSPECT_MS - 50);
    tr_peer_look(cluster, 1, &machines[0].effects);
    assert_true(tr_peer_is_up(cluster, 1));
    uint64_t passed_ms = 0;
    for (; tr_peer_is_up(cluster, 1) && passed_ms < 10000; passed_ms += 100) {
        unit_pass(&machines[0].time, 100);
        tr_peers_excuse(cluster, 90);
        tr_peer_look(cluster, 1, &machines[0].effects);
        machines[0].effects.count = 0;
    }
    assert_in_range(passed_ms, TR_SUSPECT_MS, 1000 + TR_SUSPECT_MS);
}

static void what_was_not_said_for_long_is_known_unless_the_link_takes_nothing(void **state)
{
    struct machine *machines = *state;
    struct tr_cluster *cluster = &machines[0].cluster;
    link(machines);
    cluster->peers[1].beat_ms = machines[0].time.now_ms + 100;
    tr_peers_note_beats(cluster);
    unit_pass(&machines[0].time, 99);
    assert_int_equal(tr_peers_unsaid_ms(cluster), 0);
    unit_pass(&machines[0].time, 251);
    assert_int_equal(tr_peers_unsaid_ms(cluster), 350);
    tr_peers_note_beats(cluster); /* it is due, and was not sent */
    assert_int_equal(tr_peers_unsaid_ms(cluster), 0);
}

/* It is heard, and says that it does not hear. */
static void a_link_that_works_one_way_is_no_link(void **state)
{
    struct machine *machines = *state;
    link(machines);
    for (unsigned i = 0; i < 150; i++) { /* A is silent, B is not */
        unit_pass(&machines[0].time, 10);
        unit_pass(&machines[1].time, 10);
        step(&machines[1]);
        tr_peer_look(&machines[0].cluster, 1, &machines[0].effects);
        machines[0].effects.count = 0;
    }
    assert_false(tr_peer_is_up(&machines[0].cluster, 1));
    assert_false(tr_peer_is_up(&machines[1].cluster, 1));
    assert_int_equal(machines[0].cluster.peers[1].link, LINK_GREETED);
}

static void broken_frames_and_frames_before_a_greeting_reset_the_link(void **state)
{
    struct machine *machines = *state;
    static const uint8_t claims[] = {TR_FRAME_CLAIMS, 0};
    static const uint8_t nonsense[] = {250, 1, 2, 3};
    receive(&machines[0], claims, sizeof claims); /* there is no link: it is not even looked at */
    step(&machines[0]);
    assert_int_equal(machines[0].resets, 0);
    tr_peer_link_up(&machines[0].cluster, 1);
    receive(&machines[0], claims, sizeof claims);
    step(&machines[0]);
    assert_int_equal(machines[0].resets, 1);
    assert_int_equal(machines[0].cluster.peers[1].link, LINK_DOWN);
    link(machines);
    receive(&machines[0], nonsense, sizeof nonsense);
    step(&machines[0]);
    assert_int_equal(machines[0].resets, 2);
    link(machines);
    assert_true(tr_peer_is_up(&machines[0].cluster, 1));
}

static void a_store_that_has_lost_something_is_noticed(void **state)
{
    struct machine *machines = *state;
    link(machines);
    machines[1].log.synced = 5000;
    pass(machines, 200);
    tr_peer_link_down(&machines[0].cluster, 1);
    tr_peer_link_down(&machines[1].cluster, 1);
    link(machines);
    assert_int_equal(machines[0].stores_lost, 0); /* the same, as it was */
    machines[1].log.incarnations[1] = (struct tr_log_incarnation){2, 4000};
    machines[1].log.incarnation_count = 2; /* the one before ended below what it had said */
    tr_peer_link_down(&machines[0].cluster, 1);
    tr_peer_link_down(&machines[1].cluster, 1);
    link(machines);
    assert_int_equal(machines[0].stores_lost, 1);
    machines[1].log.store_id[0] ^= 1;
    tr_peer_link_down(&machines[0].cluster, 1);
    tr_peer_link_down(&machines[1].cluster, 1);
    link(machines);
    assert_int_equal(machines[0].stores_lost, 2);
}

static void messages_wait_by_kind_and_go_in_one_frame(void **state)
{
    struct machine *machines = *state;
    struct tr_message copy = {.kind = MESSAGE_COPY, .key.id = 1, .order.version = 1};
    struct tr_message ack = {.kind = MESSAGE_ACK, .key.id = 2, .order.version = 1};
    assert_false(tr_outbox_send(&machines[0].cluster, 1, ack)); /* nobody has greeted */
    link(machines);
    assert_true(tr_outbox_send(&machines[0].cluster, 1, copy));
    for (unsigned i = 0; i < 5; i++)
        assert_true(tr_outbox_send(&machines[0].cluster, 1, ack));
    step(&machines[0]);
    assert_int_equal(machines[1].entries, 6);
    assert_int_equal(machines[0].cluster.peers[1].count, 0);
    assert_int_equal(machines[1].last, TR_FRAME_COPIES); /* in bulk, and last */
}

static void a_peer_has_its_share_of_the_messages_and_bulk_half_of_that(void **state)
{
    struct machine *machines = *state;
    struct tr_message copy = {.kind = MESSAGE_COPY, .key.id = 1, .order.version = 1};
    struct tr_message answer = {.kind = MESSAGE_ANSWER, .key.id = 1, .order.version = 1};
    link(machines);
    unsigned copies = 0;
    while (tr_outbox_send(&machines[0].cluster, 1, copy))
        copies++;
    assert_int_equal(copies, MESSAGES / 8);
    unsigned answers = 0;
    while (tr_outbox_send(&machines[0].cluster, 1, answer))
        answers++;
    assert_int_equal(copies + answers, MESSAGES / 4);
    tr_outbox_clear(&machines[0].cluster, 1);
    assert_true(tr_outbox_can_send(&machines[0].cluster, 1, MESSAGE_COPY));
}

static void stamps_rise_whatever_the_clock_does(void **state)
{
    struct machine *machines = *state;
    struct tr_cluster *cluster = &machines[0].cluster;
    uint64_t first = tr_clock_stamp(cluster, 0);
    assert_true(tr_clock_stamp(cluster, 0) > first);
    machines[0].time.steady_ms -= 1000;
    assert_true(tr_clock_stamp(cluster, 0) > first);
    uint64_t above = first + ((uint64_t)100000 << 16);
    assert_true(tr_clock_stamp(cluster, above) > above);
}

static void clocks_go_with_the_fastest_but_not_with_one_out_of_its_mind(void **state)
{
    struct machine *machines = *state;
    machines[1].time.steady_ms += 2000;
    link(machines);
    uint64_t behind = tr_clock_now(&machines[1].cluster) - tr_clock_now(&machines[0].cluster);
    assert_true(behind <= (uint64_t)BEAT_APART_MS << 16);
    machines[1].time.steady_ms += 60000;
    pass(machines, 300);
    assert_true(tr_clock_now(&machines[1].cluster) - tr_clock_now(&machines[0].cluster) >
                (uint64_t)50000 << 16);
    assert_true(tr_clock_is_ahead(&machines[1].cluster)); /* and it knows */
    assert_false(tr_clock_is_ahead(&machines[0].cluster));
}

static void a_view_places_each_key_on_the_nodes_that_stay_or_join(void **state)
{
    struct machine *machines = *state;
    struct tr_cluster *cluster = &machines[0].cluster;
    const struct tr_view_node view[] = {{.address = {"a:1", 3}, .role = TR_ROLE_LEAVING},
                                        {.address = {"b:1", 3}, .role = TR_ROLE_STAYING},
                                        {.address = {"c:1", 3}, .role = TR_ROLE_JOINING}};
    uint16_t members[4];
    uint64_t before = cluster->view.id;
    assert_true(tr_view_set(cluster, view, 3));
    assert_int_not_equal(cluster->view.id, before);
    for (tr_timer_id id = 1; id < 100; id++) {
        assert_int_equal(tr_view_place(cluster, id, 4, members), 2);
        assert_true(members[0] != 0 && members[1] != 0 && members[0] != members[1]);
    }
    assert_false(tr_view_set(cluster, view, 0));
    assert_int_equal(tr_member_find(cluster, TR_SPAN("c:1")), 2);
    assert_int_equal(tr_member_find(cluster, TR_SPAN("d:1")), TR_MEMBER_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_that_greet_are_up),
        TEST(one_that_is_only_starting_is_up_and_does_not_serve),
        TEST(own_standstill_excuses_a_silence_for_a_second_in_all),
        TEST(what_was_not_said_for_long_is_known_unless_the_link_takes_nothing),
        TEST(a_silent_node_is_down_after_its_time_and_not_before),
        TEST(a_link_that_works_one_way_is_no_link),
        TEST(broken_frames_and_frames_before_a_greeting_reset_the_link),
        TEST(a_store_that_has_lost_something_is_noticed),
        TEST(messages_wait_by_kind_and_go_in_one_frame),
        TEST(a_peer_has_its_share_of_the_messages_and_bulk_half_of_that),
        TEST(stamps_rise_whatever_the_clock_does),
        TEST(clocks_go_with_the_fastest_but_not_with_one_out_of_its_mind),
        TEST(a_view_places_each_key_on_the_nodes_that_stay_or_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
