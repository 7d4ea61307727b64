/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replication with a store that has nothing to do with timers: a key and a number. Two nodes, each
 * with a cluster, a log that is always durable, and this store; frames go from one to the other by
 * hand.
 */
#include "rooms.h"

#include "base/hash.h"
#include "cluster/clock.h"
#include "cluster/peer.h"
#include "log/batch.h"
#include "replication/antientropy.h"
#include "replication/encode.h"
#include "replication/operation.h"
#include "replication/pending.h"
#include "replication/rebalance.h"
#include "replication/receive.h"
#include "replication/ticket.h"
#include "replication/walk.h"

#define REGION     ((size_t)16 << 20)
#define NODES      2
#define NOTES      256
#define OPERATIONS 8
#define MESSAGES   1024
#define WAITING    256
#define ID         42

/* ---- the toy store ---- */

struct toy {
    uint8_t is_held; /* the first byte of a record that is held is not 0 */
    uint8_t acked;
    enum tr_store_state state;
    struct tr_head head;
    uint64_t value;
};

struct machine {
    struct tr_time time;
    struct tr_trial trial;
    struct tr_arena arena;
    struct tr_log log;
    struct tr_cluster cluster;
    struct tr_index index;
    struct tr_store store;
    struct tr_replication replication;
    struct tr_effects effects;
    char address[8];
    enum tr_result result; /* of the last answer; TR_RESULTS: none yet */
    uint64_t shown;        /* the value that it showed */
    void *region;
    struct machine *other;
    bool is_linked;
};

static struct toy *at(const struct machine *machine, tr_ref ref)
{
    return tr_arena_at(&machine->arena, ref);
}

static uint64_t hash_of(const void *owner, tr_ref ref)
{
    return tr_hash_mix(at(owner, ref)->head.key.id);
}

static tr_ref toy_find(void *context, const struct tr_key *key, bool *has_any)
{
    struct machine *machine = context;
    struct tr_index_walk walk = tr_index_seek(&machine->index, tr_hash_mix(key->id));
    tr_ref ref = TR_ARENA_NONE;
    if (has_any != NULL)
        *has_any = false;
    while (tr_index_next_like(&walk, tr_hash_mix(key->id), &ref)) {
        if (tr_key_equals(&at(machine, ref)->head.key, key))
            return ref;
    }
    return TR_ARENA_NONE;
}

static tr_ref toy_find_shown(void *context, tr_timer_id id)
{
    return toy_find(context, &(struct tr_key){.id = id}, NULL);
}

static uint64_t toy_hash(void *context, tr_ref ref)
{
    return hash_of(context, ref);
}

static void toy_head(void *context, tr_ref ref, struct tr_head *head)
{
    *head = at(context, ref)->head;
}

static void toy_whole(void *context, tr_ref ref, struct tr_whole *whole)
{
    whole->head = at(context, ref)->head;
    whole->body[0] = at(context, ref)->value;
}

static enum tr_store_state toy_state(void *context, tr_ref ref)
{
    return at(context, ref)->state;
}

static uint64_t toy_count(void *context)
{
    const struct machine *machine = context;
    return machine->index.count;
}

static uint8_t toy_acked(void *context, tr_ref ref)
{
    return at(context, ref)->acked;
}

static void toy_set_acked(void *context, tr_ref ref, uint8_t acked)
{
    at(context, ref)->acked = acked;
}

static bool toy_is_spread(void *context, tr_ref ref)
{
    (void)context;
    (void)ref;
    return false;
}

static void toy_forget_member(void *context, tr_ref ref, uint16_t member)
{
    struct tr_from *from = &at(context, ref)->head.from;
    for (unsigned i = 0; i < from->count; i++) {
        if (from->members[i] == member)
            from->members[i] = from->members[--from->count];
    }
}

static bool toy_put(void *context, const struct tr_whole *whole, tr_ref *place)
{
    tr_ref ref = *place;
    struct machine *machine = context;
    uint64_t hash = tr_hash_mix(whole->head.key.id);
    if (ref == TR_ARENA_NONE) {
        ref = tr_arena_take(&machine->arena, TR_ARENA_RECORD, sizeof(struct toy), false);
        assert_int_not_equal(ref, TR_ARENA_NONE);
        *at(machine, ref) = (struct toy){.is_held = 1, .head = whole->head};
        assert_true(tr_index_insert(&machine->index, hash, ref));
    }
    *at(machine, ref) = (struct toy){.is_held = 1, .head = whole->head, .value = whole->body[0]};
    tr_antientropy_touched(&machine->replication, hash);
    *place = ref;
    return true;
}

static tr_ref toy_put_head(void *context, tr_ref ref, const struct tr_head *head)
{
    struct tr_whole whole;
    toy_whole(context, ref, &whole);
    whole.head = *head;
    toy_put(context, &whole, &ref);
    return ref;
}

static tr_ref toy_change(void *context, tr_ref ref, const struct tr_head *before,
                         const struct tr_head *head)
{
    (void)before;
    ref = toy_put_head(context, ref, head);
    at(context, ref)->state = TR_STORE_IDLE;
    return ref;
}

static void toy_remove(void *context, tr_ref ref)
{
    struct machine *machine = context;
    tr_index_remove(&machine->index, hash_of(machine, ref), ref);
    at(machine, ref)->is_held = 0;
    tr_arena_give(&machine->arena, ref);
}

static void toy_arm(void *context, tr_ref ref)
{
    at(context, ref)->state = TR_STORE_IDLE;
}

static void toy_strip(struct tr_whole *whole)
{
    whole->body[0] = 0;
}

static size_t toy_pack_bound(const struct tr_whole *whole)
{
    return sizeof whole->head + sizeof whole->body[0];
}

static size_t toy_pack(const struct tr_whole *whole, struct tr_writer *writer)
{
    tr_put_bytes(writer, &whole->head, sizeof whole->head);
    tr_put_number(writer, whole->body[0], 8);
    return toy_pack_bound(whole);
}

static void toy_unpack(const uint8_t *bytes, size_t size, struct tr_whole *whole)
{
    assert_int_equal(size, toy_pack_bound(whole));
    memcpy(&whole->head, bytes, sizeof whole->head);
    whole->body[0] = tr_load(bytes + sizeof whole->head, 8);
}

static void toy_encode(struct tr_writer *writer, const struct tr_whole *whole,
                       const struct tr_frame_names *names, uint64_t version)
{
    (void)version;
    toy_pack(whole, writer);
    tr_put_number(writer, (uint64_t)names->due_in_ms, 8);
    for (unsigned i = 0; i < whole->head.replicas.count; i++)
        tr_put_span(writer, names->replicas[i]);
    for (unsigned i = 0; i < whole->head.from.count; i++)
        tr_put_span(writer, names->from[i]);
}

static bool toy_decode(struct tr_reader *reader, struct tr_whole *whole,
                       struct tr_frame_names *names)
{
    size_t size = toy_pack_bound(whole);
    if (reader->at == reader->end)
        return false;
    const uint8_t *bytes = tr_get_bytes(reader, size);
    assert_non_null(bytes);
    toy_unpack(bytes, size, whole);
    names->due_in_ms = (int64_t)tr_get_number(reader, 8);
    for (unsigned i = 0; i < whole->head.replicas.count; i++)
        names->replicas[i] = tr_get_span(reader);
    for (unsigned i = 0; i < whole->head.from.count; i++)
        names->from[i] = tr_get_span(reader);
    return !reader->is_short;
}

static bool toy_is_good(void *context, const struct tr_whole *whole)
{
    (void)context;
    (void)whole;
    return true;
}

static tr_timer_id toy_draw(void *context)
{
    struct machine *machine = context;
    return ID + machine->index.count;
}

static void toy_answer(void *context, const struct tr_reply *reply, struct tr_effects *out)
{
    struct machine *machine = context;
    struct tr_whole whole;
    (void)out;
    machine->result = reply->result;
    if (reply->shown == TR_ARENA_NONE)
        return;
    toy_unpack(tr_arena_at(&machine->arena, reply->shown), toy_pack_bound(&whole), &whole);
    machine->shown = whole.body[0];
}

static uint64_t toy_version(const struct tr_whole *whole)
{
    (void)whole;
    return 0;
}

static const struct tr_store toy_store = {
    .find = toy_find,
    .find_shown = toy_find_shown,
    .hash = toy_hash,
    .head = toy_head,
    .whole = toy_whole,
    .state = toy_state,
    .count = toy_count,
    .acked = toy_acked,
    .set_acked = toy_set_acked,
    .is_spread = toy_is_spread,
    .forget_member = toy_forget_member,
    .put = toy_put,
    .put_head = toy_put_head,
    .change = toy_change,
    .remove = toy_remove,
    .arm = toy_arm,
    .strip = toy_strip,
    .pack_bound = toy_pack_bound,
    .pack = toy_pack,
    .unpack = toy_unpack,
    .encode = toy_encode,
    .version = toy_version,
    .decode = toy_decode,
    .is_sound = toy_is_good,
    .fits = toy_is_good,
    .draw = toy_draw,
    .answer = toy_answer,
};

/* ---- a machine ---- */

static void greeted(void *context, uint16_t peer)
{
    struct machine *machine = context;
    tr_antientropy_begin(&machine->replication, peer);
}

static void link_lost(void *context, uint16_t peer)
{
    struct machine *machine = context;
    struct tr_progress *progress = &machine->replication.progress[peer];
    while (progress->pending.count > 0)
        tr_fifo_pop(&progress->pending, &machine->arena);
    tr_walk_on(progress);
    tr_antientropy_end(&machine->replication, peer);
}

static void store_lost(void *context, uint16_t peer)
{
    struct machine *machine = context;
    tr_antientropy_forget_acks(&machine->replication, peer);
}

static void beat_heard(void *context, uint16_t peer, const struct tr_frame *beat,
                       bool has_another_view)
{
    struct machine *machine = context;
    (void)peer;
    (void)beat;
    if (has_another_view)
        tr_rebalance_again(&machine->replication);
}

static void up_changed(void *context, uint16_t peer)
{
    struct machine *machine = context;
    (void)peer;
    tr_rebalance_again(&machine->replication);
    tr_operations_look(&machine->replication);
}

static void fill_beat(void *context, uint16_t peer, struct tr_frame *beat)
{
    (void)context;
    (void)peer;
    beat->of.beat.flags = TR_BEAT_POPPING | TR_BEAT_READY;
}

static void put(void *context, const struct tr_message *message, uint64_t version,
                struct tr_writer *writer)
{
    struct machine *machine = context;
    tr_encode_message(&machine->replication, message, version, writer);
}

static void set_cluster(struct machine *machine)
{
    struct tr_cluster *cluster = &machine->cluster;
    cluster->hooks = (struct tr_cluster_hooks){
        .context = machine,
        .link_lost = link_lost,
        .store_lost = store_lost,
        .greeted = greeted,
        .beat_heard = beat_heard,
        .up_changed = up_changed,
        .fill_beat = fill_beat,
        .put = put,
    };
    cluster->time = &machine->time;
    cluster->trial = &machine->trial;
    cluster->log = &machine->log;
    unit_set_cluster(cluster, machine->address, MESSAGES);
}

static void set_replication(struct machine *machine)
{
    struct tr_replication *replication = &machine->replication;
    machine->store = toy_store;
    machine->store.context = machine;
    machine->store.index = &machine->index;
    *replication = (struct tr_replication){
        .config = {.operations_max = OPERATIONS, .moves = 16, .pending = 64, .slice = 64},
        .store = &machine->store,
        .cluster = &machine->cluster,
        .log = &machine->log,
        .arena = &machine->arena,
        .time = &machine->time,
        .trial = &machine->trial,
        .progress = unit_zeros(TR_LOG_NODES_MAX * sizeof(struct tr_progress)),
        .held = {.notes = unit_zeros(NOTES * sizeof(struct tr_recent_note)), .cap = NOTES},
        .dropped = {.notes = unit_zeros(NOTES * sizeof(struct tr_recent_note)), .cap = NOTES},
        .operations = unit_zeros(OPERATIONS * sizeof(struct tr_operation)),
        .rebalance.again_ms = TR_NEVER,
        .catchup = CATCHUP_OVER,
        .is_serving = true,
    };
}

static void set_machine(struct machine *machine, const char *address, struct machine *other)
{
    snprintf(machine->address, sizeof machine->address, "%s", address);
    machine->other = other;
    machine->time = unit_time();
    machine->region = aligned_alloc(16, REGION);
    assert_non_null(machine->region);
    memset(machine->region, 0, REGION);
    tr_arena_init(&machine->arena, machine->region, REGION);
    assert_true(tr_index_init(&machine->index, &machine->arena, machine, hash_of));
    unit_set_log(&machine->log, &machine->time, &machine->trial, WAITING);
    set_cluster(machine);
    set_replication(machine);
}

static int set_up(void **state)
{
    static const struct tr_view_node view[NODES] = {
        {.address = {"a:1", 3}, .role = TR_ROLE_STAYING},
        {.address = {"b:1", 3}, .role = TR_ROLE_STAYING}};
    struct machine *machines = unit_zeros(NODES * sizeof *machines);
    set_machine(&machines[0], "a:1", &machines[1]);
    set_machine(&machines[1], "b:1", &machines[0]);
    for (unsigned i = 0; i < NODES; i++) {
        assert_true(tr_view_set(&machines[i].cluster, view, NODES));
        machines[i].cluster.members_logged = machines[i].cluster.member_count;
    }
    *state = machines;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *machines = *state;
    for (unsigned i = 0; i < NODES; i++) {
        struct machine *machine = &machines[i];
        free(machine->region);
        free(machine->log.waiting);
        unit_free_cluster(&machine->cluster);
        free(machine->replication.progress);
        free(machine->replication.held.notes);
        free(machine->replication.dropped.notes);
        free(machine->replication.operations);
    }
    free(machines);
    return 0;
}

/* ---- time goes on ---- */

static void receive(struct machine *machine, const uint8_t *bytes, size_t size)
{
    struct tr_event event = {.kind = TR_EVENT_FRAME_RECEIVED, .now_ms = machine->time.now_ms};
    struct tr_frame frame;
    struct tr_reader reader;
    event.of.frame.peer = 1;
    event.of.frame.bytes = bytes;
    event.of.frame.size = size;
    if (tr_peer_receive(&machine->cluster, &event, &frame, &reader, &machine->effects))
        tr_receive_frame(&machine->replication, 1, &frame, &reader, &machine->effects);
}

static void heed_tickets(struct machine *machine)
{
    struct tr_waiting ticket;
    while (tr_log_next_durable(&machine->log, &ticket)) {
        if (ticket.ref != TR_ARENA_NONE && tr_arena_holds(&machine->arena, ticket.ref))
            toy_arm(machine, ticket.ref);
        tr_ticket_due(&machine->replication, &ticket, &machine->effects);
    }
}

static void run_peer(struct machine *machine)
{
    struct tr_replication *replication = &machine->replication;
    tr_peer_look(&machine->cluster, 1, &machine->effects);
    if (machine->cluster.peers[1].link == LINK_GREETED) {
        tr_antientropy_run(replication, 1);
        tr_walk_run(replication, 1);
    }
    if (machine->cluster.peers[1].is_up)
        tr_pending_run(replication, 1);
    if (!machine->is_linked || !tr_peer_greet(&machine->cluster, 1, &machine->effects))
        return;
    if (machine->time.now_ms >= machine->cluster.peers[1].beat_ms)
        tr_peer_beat(&machine->cluster, 1, &machine->effects);
    if (tr_antientropy_has_sums(replication, 1))
        tr_antientropy_send_sums(replication, 1, &machine->effects);
    tr_outbox_send_all(&machine->cluster, 1, &machine->effects);
}

/* A millisecond of one machine; what it sends arrives at once, unless the link is down. */
static void tick(struct machine *machine)
{
    machine->time.now_ms++;
    machine->time.wall_ms++;
    machine->time.steady_ms++;
    machine->effects.count = 0;
    machine->cluster.frames_size = 0;
    tr_operations_run(&machine->replication, &machine->effects);
    tr_rebalance_run(&machine->replication, &machine->effects);
    heed_tickets(machine);
    run_peer(machine);
    for (uint32_t i = 0; i < machine->effects.count; i++) {
        const struct tr_effect *effect = &machine->effects.items[i];
        if (effect->kind != TR_EFFECT_FRAME_SEND)
            continue;
        tr_peer_frame_sent(&machine->cluster, 1);
        if (machine->is_linked)
            receive(machine->other, effect->of.frame.bytes, effect->of.frame.size);
    }
}

static void pass(struct machine *machines, unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        for (unsigned k = 0; k < NODES; k++)
            tick(&machines[k]);
    }
}

static void link_up(struct machine *machines)
{
    for (unsigned i = 0; i < NODES; i++) {
        machines[i].is_linked = true;
        tr_peer_link_up(&machines[i].cluster, 1);
    }
    pass(machines, 100);
    for (unsigned i = 0; i < NODES; i++)
        assert_true(tr_peer_is_up(&machines[i].cluster, 1));
}

static void write_value(struct machine *machine, enum tr_operation_kind kind, uint64_t value,
                        uint8_t flags)
{
    struct tr_request request = {.kind = kind, .token = 7};
    struct tr_whole whole = {
        .head = {.key.id = ID,
                 .order = {.version = tr_clock_stamp(&machine->cluster, 0),
                           .version_node = machine->cluster.stamp_node,
                           .sequence = 1},
                 .due_ms = machine->time.steady_ms + 60000,
                 .factor = NODES,
                 .flags = flags},
        .body = {value},
    };
    machine->result = TR_RESULTS;
    tr_operation_begin(&machine->replication, &request, &whole, &machine->effects);
}

static tr_ref find_held(struct machine *machine)
{
    return toy_find_shown(machine, ID);
}

static void assert_both_hold(struct machine *machines, uint64_t value)
{
    for (unsigned i = 0; i < NODES; i++) {
        tr_ref ref = find_held(&machines[i]);
        assert_int_not_equal(ref, TR_ARENA_NONE);
        assert_int_equal(at(&machines[i], ref)->value, value);
        assert_int_equal(at(&machines[i], ref)->state, TR_STORE_IDLE);
        assert_int_equal(at(&machines[i], ref)->head.replicas.count, NODES);
    }
}

/* ---- what is tried ---- */

static void test_a_write_is_on_both_when_it_is_answered(void **state)
{
    struct machine *machines = *state;
    link_up(machines);
    write_value(&machines[0], OPERATION_CREATE, 5, 0);
    assert_int_equal(machines[0].result, TR_RESULTS);
    pass(machines, 20);
    assert_int_equal(machines[0].result, TR_DONE);
    assert_both_hold(machines, 5);
    assert_true(tr_pending_is_empty(&machines[0].replication, 1));
}

static void test_the_later_write_stays(void **state)
{
    struct machine *machines = *state;
    link_up(machines);
    write_value(&machines[0], OPERATION_REPLACE, 5, 0);
    pass(machines, 20);
    write_value(&machines[1], OPERATION_REPLACE, 6, 0);
    pass(machines, 20);
    assert_int_equal(machines[1].result, TR_DONE);
    assert_both_hold(machines, 6);
}

static void test_a_read_is_answered_by_any_node(void **state)
{
    struct machine *machines = *state;
    link_up(machines);
    write_value(&machines[0], OPERATION_REPLACE, 9, 0);
    pass(machines, 20);
    struct tr_request request = {.kind = OPERATION_READ, .token = 8};
    struct tr_whole named = {.head = {.key.id = ID, .factor = NODES}};
    tr_operation_begin(&machines[1].replication, &request, &named, &machines[1].effects);
    pass(machines, 20);
    assert_int_equal(machines[1].result, TR_DONE);
    assert_int_equal(machines[1].shown, 9);
}

static void test_a_node_that_was_away_is_sent_what_it_lacks(void **state)
{
    struct machine *machines = *state;
    write_value(&machines[0], OPERATION_CREATE, 5, 0);
    pass(machines, 600);
    assert_int_equal(machines[0].result, TR_DONE);
    assert_int_equal(find_held(&machines[1]), TR_ARENA_NONE);
    link_up(machines);
    pass(machines, 4000);
    assert_both_hold(machines, 5);
}

static void test_a_tombstone_ends_it_everywhere(void **state)
{
    struct machine *machines = *state;
    link_up(machines);
    write_value(&machines[0], OPERATION_REPLACE, 5, 0);
    pass(machines, 20);
    write_value(&machines[1], OPERATION_REPLACE, 0, TR_RECORD_TOMBSTONE);
    pass(machines, 20);
    assert_int_equal(machines[1].result, TR_DONE);
    for (unsigned i = 0; i < NODES; i++) {
        tr_ref ref = find_held(&machines[i]);
        assert_int_not_equal(ref, TR_ARENA_NONE);
        assert_int_equal(at(&machines[i], ref)->head.flags, TR_RECORD_TOMBSTONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_write_is_on_both_when_it_is_answered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_later_write_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_read_is_answered_by_any_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_that_was_away_is_sent_what_it_lacks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_tombstone_ends_it_everywhere, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
