/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peer.h"

#include "base/assert.h"
#include "cluster/clock.h"
#include "cluster/member.h"
#include "cluster/outbox.h"
#include "cluster/view.h"

#define BEAT_MS     100
#define EXCUSED_MS  1000  /* of one silence, in which this node had no time itself */
#define HEARS_MS    1000  /* its last frame tells what of us it had heard by then */
#define SILENT_MS   60000 /* a link on which nothing was heard for so long is given up */
#define TRIP_WEIGHT 8

_Static_assert(TR_SUSPECT_MS > 2 * BEAT_MS, "one heartbeat may be lost");

bool tr_peer_is_up(const struct tr_cluster *cluster, uint16_t member)
{
    TR_ASSERT(member < cluster->member_count);
    return member == 0 || cluster->peers[member].is_up;
}

bool tr_peer_heeds(const struct tr_cluster *cluster, uint16_t member)
{
    return tr_peer_is_up(cluster, member) && (member == 0 || cluster->peers[member].view != 0);
}

bool tr_peer_is_serving(const struct tr_cluster *cluster, uint16_t member)
{
    TR_ASSERT(member < cluster->member_count);
    const struct tr_peer *peer = &cluster->peers[member];
    unsigned wanted = TR_BEAT_READY | TR_BEAT_POPPING;
    return member == 0 || (peer->is_up && (peer->flags & wanted) == wanted);
}

bool tr_peer_is_popping(const struct tr_cluster *cluster, uint16_t member)
{
    TR_ASSERT(member == TR_MEMBER_NONE || member < cluster->member_count);
    if (member == TR_MEMBER_NONE)
        return false;
    const struct tr_peer *peer = &cluster->peers[member];
    bool is_announced = peer->popping_from_ms > tr_clock_now(cluster) >> 16;
    return peer->is_up && ((peer->flags & TR_BEAT_POPPING) != 0 || is_announced);
}

uint16_t tr_peers_older(const struct tr_cluster *cluster, uint8_t version)
{
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_peer *peer = &cluster->peers[i];
        if (cluster->members[i].role != TR_ROLE_NONE && peer->link == LINK_GREETED &&
            peer->version < version)
            return (uint16_t)i;
    }
    return TR_MEMBER_NONE;
}

bool tr_peer_knows_more(const struct tr_cluster *cluster, uint16_t peer)
{
    TR_ASSERT(peer != 0 && peer < cluster->member_count);
    return !tr_view_has_others(cluster) && cluster->peers[peer].view != cluster->view.id;
}

/* When it heard us last, as far as we know; a new link is given some time. */
static tr_mono_ms heard_us_ms(const struct tr_peer *peer)
{
    return peer->echo_ms > peer->linked_ms ? peer->echo_ms : peer->linked_ms;
}

/* ---- links ---- */

void tr_peer_link_up(struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    struct tr_peer *peer = &cluster->peers[index];
    tr_peer_link_down(cluster, index);
    peer->link = LINK_OPEN;
    peer->linked_ms = cluster->time->now_ms;
    peer->heard_ms = cluster->time->now_ms;
    peer->echo_ms = 0;
    peer->beat_echo_ms = 0;
}

void tr_peer_link_down(struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    struct tr_peer *peer = &cluster->peers[index];
    tr_outbox_clear(cluster, index);
    peer->link = LINK_DOWN;
    peer->has_greeted = false;
    peer->is_sending = false;
    peer->tick_ms = 0;
    peer->version = 0;
    cluster->hooks.link_lost(cluster->hooks.context, index);
}

void tr_peer_frame_sent(struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    cluster->peers[index].is_sending = false;
}

static void reset(struct tr_cluster *cluster, uint16_t index, bool is_anew, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    tr_peer_link_down(cluster, index);
    if (!tr_effects_has_room(out, 1))
        return;
    struct tr_effect *effect = tr_effects_push(out, TR_EFFECT_LINK_RESET);
    effect->of.frame.peer = index;
    effect->of.frame.is_anew = is_anew;
}

void tr_peer_reset(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    reset(cluster, index, false, out);
}

void tr_peer_begin_anew(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    reset(cluster, index, true, out);
}

/* ---- greetings ---- */

bool tr_peer_greet(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    const struct tr_log *log = cluster->log;
    struct tr_peer *peer = &cluster->peers[index];
    if (peer->link == LINK_DOWN || peer->is_sending || !tr_outbox_has_frame_room(cluster, out))
        return false;
    if (peer->has_greeted)
        return true;
    struct tr_frame frame = {.kind = TR_FRAME_HELLO};
    struct tr_writer writer = tr_outbox_begin_frame(cluster);
    frame.of.hello.version = TR_FRAME_VERSION;
    frame.of.hello.address = cluster->address;
    memcpy(frame.of.hello.store_id, log->store_id, sizeof log->store_id);
    frame.of.hello.view = cluster->view.id;
    frame.of.hello.tick_ms = cluster->time->now_ms;
    frame.of.hello.incarnation_count = log->incarnation_count;
    memcpy(frame.of.hello.incarnations, log->incarnations, sizeof log->incarnations);
    tr_frame_put(&writer, &frame);
    tr_outbox_end_frame(cluster, index, &writer, out);
    peer->has_greeted = true;
    peer->beat_ms = cluster->time->now_ms;
    return false;
}

/* A store that is another one, or an older state of itself, may have lost what it had. */
static void meet_store(struct tr_cluster *cluster, uint16_t index, const struct tr_frame *frame,
                       struct tr_effects *out)
{
    TR_ASSERT(frame->kind == TR_FRAME_HELLO);
    struct tr_peer *peer = &cluster->peers[index];
    const struct tr_log_incarnation *history = frame->of.hello.incarnations;
    uint32_t count = frame->of.hello.incarnation_count;
    bool is_same = memcmp(peer->store_id, frame->of.hello.store_id, sizeof peer->store_id) == 0;
    bool is_rolled_back = peer->incarnation != 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_known = history[i].number == peer->incarnation;
        if (is_known && (i + 1 == count || history[i + 1].start >= peer->position))
            is_rolled_back = false;
    }
    if (peer->has_store && (!is_same || is_rolled_back)) {
        tr_cover(cluster->trial, is_same ? RULE_ROLLED_BACK : RULE_NEW_STORE);
        cluster->hooks.store_lost(cluster->hooks.context, index);
        tr_note(out, TR_NOTE_PEER_LESS, 0, index);
    }
    memcpy(peer->store_id, frame->of.hello.store_id, sizeof peer->store_id);
    peer->has_store = true;
}

static void hear_hello(struct tr_cluster *cluster, uint16_t index, const struct tr_frame *frame,
                       struct tr_effects *out)
{
    TR_ASSERT(frame->kind == TR_FRAME_HELLO && cluster->peers[index].link != LINK_DOWN);
    struct tr_peer *peer = &cluster->peers[index];
    uint32_t count = frame->of.hello.incarnation_count;
    uint64_t version = frame->of.hello.version;
    if (peer->link == LINK_GREETED || version < 1 || count == 0 ||
        !tr_span_equals(frame->of.hello.address, tr_member_address(cluster, index))) {
        tr_peer_reset(cluster, index, out);
        return;
    }
    meet_store(cluster, index, frame, out);
    peer->link = LINK_GREETED;
    peer->version = (uint8_t)(version < TR_FRAME_VERSION ? version : TR_FRAME_VERSION);
    peer->trip_ms = 0;
    peer->view = frame->of.hello.view;
    peer->incarnation = frame->of.hello.incarnations[count - 1].number;
    peer->tick_ms = frame->of.hello.tick_ms;
    peer->flags = TR_BEAT_POPPING | TR_BEAT_REBALANCING; /* until it says */
    peer->key_flags = 0;
    peer->popping_from_ms = 0;
    cluster->hooks.greeted(cluster->hooks.context, index);
}

/* ---- heartbeats ---- */

void tr_peer_beat(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    struct tr_peer *peer = &cluster->peers[index];
    TR_ASSERT(peer->has_greeted);
    struct tr_frame frame = {.kind = TR_FRAME_BEAT, .heard_ms = peer->tick_ms};
    struct tr_writer writer = tr_outbox_begin_frame(cluster);
    frame.of.beat.tick_ms = cluster->time->now_ms;
    frame.of.beat.stamp = tr_clock_tell(cluster);
    frame.of.beat.view = cluster->view.id;
    frame.of.beat.position = cluster->log->synced;
    cluster->hooks.fill_beat(cluster->hooks.context, index, &frame);
    tr_frame_put(&writer, &frame);
    tr_outbox_end_frame(cluster, index, &writer, out);
    peer->beat_ms = cluster->time->now_ms + BEAT_MS;
}

uint64_t tr_peers_trip(const struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->member_count > 0);
    uint64_t longest_ms = 0;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_peer *peer = &cluster->peers[i];
        if (peer->is_up && peer->trip_ms > longest_ms)
            longest_ms = peer->trip_ms;
    }
    return longest_ms;
}

void tr_peers_beat_now(struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->member_count > 0);
    for (uint32_t i = 1; i < cluster->member_count; i++)
        cluster->peers[i].beat_ms = cluster->time->now_ms;
}

void tr_peers_note_beats(struct tr_cluster *cluster)
{
    cluster->beat_ms = TR_NEVER;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_peer *peer = &cluster->peers[i];
        /* One that is due by now waits for a link that takes nothing. */
        bool is_next = peer->is_up && peer->has_greeted && peer->beat_ms > cluster->time->now_ms;
        if (is_next && peer->beat_ms < cluster->beat_ms)
            cluster->beat_ms = peer->beat_ms;
    }
}

uint64_t tr_peers_unsaid_ms(const struct tr_cluster *cluster)
{
    tr_mono_ms now_ms = cluster->time->now_ms;
    bool is_told = cluster->beat_ms == TR_NEVER || now_ms < cluster->beat_ms;
    return is_told ? 0 : now_ms - cluster->beat_ms + BEAT_MS;
}

static tr_mono_ms later(const struct tr_cluster *cluster, tr_mono_ms at_ms, uint64_t by_ms)
{
    tr_mono_ms now_ms = cluster->time->now_ms;
    return at_ms + by_ms < now_ms ? at_ms + by_ms : now_ms;
}

void tr_peers_excuse(struct tr_cluster *cluster, uint64_t for_ms)
{
    TR_ASSERT(for_ms > 0);
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        struct tr_peer *peer = &cluster->peers[i];
        uint64_t left_ms = EXCUSED_MS - peer->excused_ms;
        uint64_t by_ms = for_ms < left_ms ? for_ms : left_ms;
        if (!peer->is_up)
            continue;
        peer->excused_ms += by_ms;
        peer->heard_ms = later(cluster, peer->heard_ms, by_ms);
        peer->linked_ms = later(cluster, heard_us_ms(peer), by_ms);
    }
}

static void hear_beat(struct tr_cluster *cluster, uint16_t index, const struct tr_frame *frame)
{
    TR_ASSERT(frame->kind == TR_FRAME_BEAT && cluster->peers[index].link == LINK_GREETED);
    struct tr_peer *peer = &cluster->peers[index];
    uint8_t memory_fill = frame->of.beat.memory_fill;
    uint8_t disk_fill = frame->of.beat.disk_fill;
    bool has_another_view = peer->view != frame->of.beat.view;
    peer->tick_ms = frame->of.beat.tick_ms;
    peer->beat_echo_ms = frame->heard_ms;
    peer->view = frame->of.beat.view;
    peer->flags = frame->of.beat.flags;
    peer->key_flags = frame->of.beat.has_roster ? frame->of.beat.key_flags : 0;
    peer->position = frame->of.beat.position;
    peer->popping_from_ms = frame->of.beat.popping_from_ms;
    tr_clock_read(cluster, peer, frame->of.beat.stamp);
    peer->fill = memory_fill > disk_fill ? memory_fill : disk_fill;
    cluster->hooks.beat_heard(cluster->hooks.context, index, frame, has_another_view);
    tr_clock_hear(cluster, (uint64_t)tr_clock_time_of(frame->of.beat.stamp) << 16);
}

/* The answer to a heartbeat has waited for a frame to travel with: the shortest tell, and those
 * that become longer are believed little by little. */
static void measure_trip(const struct tr_cluster *cluster, struct tr_peer *peer)
{
    TR_ASSERT(peer->echo_ms <= cluster->time->now_ms);
    uint64_t trip_ms = cluster->time->now_ms - peer->echo_ms;
    trip_ms = trip_ms < HEARS_MS ? trip_ms : HEARS_MS; /* what takes longer counts as down */
    if (peer->trip_ms == 0 || trip_ms < peer->trip_ms)
        peer->trip_ms = trip_ms;
    else
        peer->trip_ms += (trip_ms - peer->trip_ms + TRIP_WEIGHT - 1) / TRIP_WEIGHT;
}

/* ---- frames ---- */

/* A page in flight must not bring back what was deleted meanwhile. */
static bool is_too_old(const struct tr_cluster *cluster, const struct tr_frame *frame)
{
    bool is_old = frame->kind != TR_FRAME_HELLO && frame->kind != TR_FRAME_BEAT &&
                  frame->heard_ms > 0 &&
                  cluster->time->now_ms > frame->heard_ms + TR_FRAME_LIFE_MS &&
                  !tr_breaks(cluster->trial, MUTANT_OLD_FRAMES);
    if (is_old)
        tr_cover(cluster->trial, RULE_OLD_FRAME);
    return is_old;
}

bool tr_peer_receive(struct tr_cluster *cluster, const struct tr_event *event,
                     struct tr_frame *frame, struct tr_reader *reader, struct tr_effects *out)
{
    uint16_t index = event->of.frame.peer;
    struct tr_peer *peer = &cluster->peers[index];
    *reader = tr_reader_on(event->of.frame.bytes, event->of.frame.size);
    if (peer->link == LINK_DOWN)
        return false;
    bool is_frame = tr_frame_get(reader, frame);
    if (!is_frame || (peer->link != LINK_GREETED && frame->kind != TR_FRAME_HELLO) ||
        is_too_old(cluster, frame)) {
        tr_peer_reset(cluster, index, out);
        return false;
    }
    peer->heard_ms = cluster->time->now_ms;
    peer->excused_ms = 0;
    if (frame->heard_ms > peer->echo_ms && frame->heard_ms <= cluster->time->now_ms) {
        peer->echo_ms = frame->heard_ms;
        measure_trip(cluster, peer);
    }
    if (frame->kind == TR_FRAME_HELLO)
        hear_hello(cluster, index, frame, out);
    else if (frame->kind == TR_FRAME_BEAT)
        hear_beat(cluster, index, frame);
    return frame->kind != TR_FRAME_HELLO && frame->kind != TR_FRAME_BEAT;
}

/* ---- each step ---- */

void tr_peer_look(struct tr_cluster *cluster, uint16_t index, struct tr_effects *out)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    struct tr_peer *peer = &cluster->peers[index];
    tr_mono_ms now_ms = cluster->time->now_ms;
    bool is_heard = peer->link == LINK_GREETED && now_ms < peer->heard_ms + TR_SUSPECT_MS;
    bool is_up = is_heard && now_ms < heard_us_ms(peer) + HEARS_MS;
    if (is_heard && !is_up)
        tr_cover(cluster->trial, RULE_ONE_WAY);
    if (is_up != peer->is_up) {
        peer->is_up = is_up;
        peer->up_ms = now_ms;
        tr_note(out, is_up ? TR_NOTE_PEER_UP : TR_NOTE_PEER_DOWN, 0, index);
        cluster->hooks.up_changed(cluster->hooks.context, index);
    }
    if (peer->link != LINK_DOWN && now_ms >= peer->heard_ms + SILENT_MS) {
        tr_cover(cluster->trial, RULE_HALF_OPEN);
        tr_peer_reset(cluster, index, out); /* the other end may not know of this link any more */
    }
}

tr_mono_ms tr_peer_wake_at(const struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index != 0 && index < cluster->member_count);
    const struct tr_peer *peer = &cluster->peers[index];
    tr_mono_ms now_ms = cluster->time->now_ms;
    if (peer->link == LINK_DOWN)
        return TR_NEVER;
    tr_mono_ms at = peer->heard_ms + (peer->is_up ? TR_SUSPECT_MS : SILENT_MS);
    if (peer->is_sending)
        return at;
    tr_mono_ms next = peer->count > 0 || !peer->has_greeted ? now_ms : peer->beat_ms;
    return next < at ? next : at;
}
