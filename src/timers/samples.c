/* SPDX-License-Identifier: Apache-2.0 */
#include "timers/samples.h"

#include "cluster/clock.h"
#include "replication/set.h"
#include "timers/store.h"

#define SAMPLE_MS     1500 /* what took longer does not tell the time */
#define CLOCK_OFF_MS  100  /* less is what frames take */
#define CLOCK_LATE_MS 10   /* what the copies here may have taken longer than those there */
#define SAMPLES_LEAST 4
#define SEGMENT_MASK  0xffffffu /* of a record's segment */
#define SAMPLES_SEEN  4096      /* records looked at for */
#define SAMPLES_SENT  16        /* so many that are shared */

/* When the timer of a version began, by its next pop: no pop and no failure changes that. */
static int64_t begin_of(const struct tr_head *head, uint64_t interval_ms, int64_t due_ms)
{
    return due_ms - (int64_t)head->lag_ms - (int64_t)(head->order.sequence * interval_ms);
}

static void hear_sample(struct tr_timers *timers, const struct tr_head *outcome, int64_t due_in_ms)
{
    TR_ASSERT(timers->sample_count <= TR_SAMPLES_MAX);
    struct tr_record held;
    tr_ref ref = tr_book_find(&timers->book, &outcome->key);
    if (ref == TR_ARENA_NONE || outcome->key.part != 0 || timers->sample_count == TR_SAMPLES_MAX)
        return;
    tr_book_unpack(&timers->book, ref, &held);
    /* What was stored since the start is by the clock that is in question. */
    uint32_t age = ((uint32_t)timers->log->started - held.head.segment) & SEGMENT_MASK;
    if (age == 0 || age > SEGMENT_MASK / 2)
        return;
    uint8_t flags = held.head.flags | outcome->flags;
    bool is_sane = due_in_ms < (int64_t)TR_TIME_MAX && due_in_ms > -(int64_t)TR_TIME_MAX &&
                   outcome->lag_ms <= TR_TIME_MAX &&
                   outcome->order.sequence <= tr_record_pops(&held);
    bool is_by_wall = held.head.instant_ms != 0 || outcome->instant_ms != 0; /* each by its own */
    if (!tr_is_same_write(&held.head, outcome) || !is_sane || is_by_wall ||
        (flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) != 0)
        return;
    timers->samples[timers->sample_count++] =
        begin_of(outcome, held.interval_ms, (int64_t)timers->time->steady_ms + due_in_ms) -
        begin_of(&held.head, held.interval_ms, (int64_t)held.head.due_ms);
}

/* The first that a node hears on a link: when is what we share due? If it starts, its clock may
 * have been set meanwhile. The frame comes also when nothing is. */
void tr_samples_send(struct tr_timers *timers, uint16_t index)
{
    TR_ASSERT(index != 0 && index < timers->cluster->member_count);
    struct tr_index_walk walk = tr_index_seek(&timers->book.index, 0);
    tr_ref ref = TR_ARENA_NONE;
    unsigned sent = 0;
    for (unsigned i = 0; i < SAMPLES_SEEN && sent < SAMPLES_SENT && tr_index_next(&walk, &ref);
         i++) {
        struct tr_record record;
        tr_book_unpack(&timers->book, ref, &record);
        if ((record.head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) != 0 ||
            record.head.key.part != 0 || record.head.instant_ms != 0 ||
            tr_book_state(&timers->book, ref) != TR_STATE_ARMED || !tr_set_has(&record.head, 0) ||
            !tr_set_has(&record.head, index))
            continue;
        tr_replication_send(timers->replication, index,
                            (struct tr_message){.kind = MESSAGE_OUTCOME, .key = record.head.key});
        sent++;
    }
    if (sent == 0)
        tr_replication_send(timers->replication, index,
                            (struct tr_message){.kind = MESSAGE_OUTCOME});
}

static int by_value(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* A tombstone that was heard of, or put off, by a clock that was ahead would wait for that time. */
static tr_ref redate(struct tr_timers *timers, tr_ref ref)
{
    struct tr_head head;
    tr_book_head(&timers->book, ref, &head);
    bool is_keyed = (head.flags & TR_RECORD_KEYED) != 0;
    tr_steady_ms latest_ms =
        timers->time->steady_ms + (is_keyed ? timers->config.key_keep_ms : TR_TOMBSTONE_MS);
    if ((head.flags & TR_RECORD_TOMBSTONE) == 0 || head.due_ms <= latest_ms)
        return ref;
    uint8_t acked = tr_book_acked(&timers->book, ref);
    tr_steady_ms own_ms = head.due_ms - head.lag_ms;
    head.lag_ms = own_ms < latest_ms ? latest_ms - own_ms : 0;
    head.due_ms = latest_ms;
    tr_ref placed = tr_book_update(&timers->book, ref, &head);
    TR_ASSERT(placed != TR_ARENA_NONE); /* there is room for its lag to grow */
    tr_book_set_acked(&timers->book, placed, acked);
    return placed;
}

/* The clock was set while nobody looked: what others say of shared records tells by how much. Time
 * goes on from where it should be, and the wheel is filled anew. It is the first thing that is
 * heard: what is stored from then on is by the right time. */
static void correct_clock(struct tr_timers *timers, int64_t age_ms)
{
    TR_ASSERT(timers->sample_count <= TR_SAMPLES_MAX);
    int64_t *samples = timers->samples;
    if (timers->sample_count < SAMPLES_LEAST || timers->is_clock_checked)
        return;
    timers->is_clock_checked = true;
    for (uint32_t i = 1; i < timers->sample_count; i++) {
        for (uint32_t k = i; k > 0 && by_value(samples[k - 1], samples[k]) > 0; k--) {
            int64_t sample = samples[k];
            samples[k] = samples[k - 1];
            samples[k - 1] = sample;
        }
    }
    /* As much may be what frames took. One record that came late to either node tells a wrong time:
     * most must say that the clock was set ahead, or agree but for what it took each of them to
     * come here or there. That it was set back is believed only if they agree, and only while
     * nothing is stored by it: that would be early then. */
    uint32_t count = timers->sample_count;
    int64_t low_ms = samples[count / 4];
    int64_t high_ms = samples[count * 3 / 4];
    int64_t doubt_ms = CLOCK_OFF_MS + age_ms;
    bool do_agree = high_ms - low_ms <= doubt_ms;
    bool is_ahead = high_ms >= doubt_ms && (low_ms >= doubt_ms || do_agree);
    bool is_back = high_ms <= -doubt_ms && do_agree && !timers->is_clock_used;
    if (!is_ahead && !is_back)
        return;
    int64_t off_ms = high_ms; /* the latest that agrees with them: rather late than early */
    for (uint32_t i = count * 3 / 4; i < count && samples[i] <= high_ms + doubt_ms; i++)
        off_ms = samples[i];
    tr_cover(timers->trial, RULE_CLOCK_CORRECTED);
    int64_t shift = off_ms + CLOCK_LATE_MS;
    if (shift > 0 && (uint64_t)shift >= timers->time->steady_ms)
        return; /* no clock is that far off */
    int64_t ahead_ms = (int64_t)timers->cluster->ahead_ms + shift;
    timers->time->steady_base -= (uint64_t)shift;
    timers->time->steady_ms -= (uint64_t)shift;
    timers->cluster->ahead_ms = ahead_ms > 0 ? (uint64_t)ahead_ms : 0;
    tr_wheel_clear(&timers->wheel, timers->time->steady_ms);
    timers->stale = 0;
    timers->is_sweeping = false;
    for (tr_ref ref = tr_arena_next_of(timers->arena, TR_ARENA_RECORD, TR_ARENA_NONE);
         ref != TR_ARENA_NONE; ref = tr_arena_next_of(timers->arena, TR_ARENA_RECORD, ref)) {
        if (tr_book_state(&timers->book, ref) == TR_STATE_ARMED)
            tr_timers_arm(timers, shift > 0 ? redate(timers, ref) : ref);
    }
}

/* How far the others that serve are behind, if most are further than they would follow: the fastest
 * of them. 0: they are not. */
static uint64_t lead_over_most(const struct tr_cluster *cluster)
{
    unsigned heard = 0;
    unsigned behind = 0;
    int64_t fastest_ms = INT64_MIN;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_peer *peer = &cluster->peers[i];
        bool is_meant = peer->link == LINK_GREETED && (peer->flags & TR_BEAT_READY) != 0;
        bool is_behind = is_meant && peer->clock_ms < -(int64_t)TR_SKEW_MS;
        heard += is_meant;
        behind += is_behind;
        if (is_behind && peer->clock_ms > fastest_ms)
            fastest_ms = peer->clock_ms;
    }
    TR_ASSERT(behind <= heard);
    return behind * 2 > heard ? 0 - (uint64_t)fastest_ms : 0;
}

/* Clocks of others may all be behind the time of day, which was set after they had started, or went
 * on while their machines were suspended: a node that comes then would be ahead of them, and take
 * no writes, for as long as they run. */
bool tr_samples_follow(struct tr_timers *timers)
{
    struct tr_cluster *cluster = timers->cluster;
    struct tr_time *time = timers->time;
    bool is_blank = timers->book.index.count == 0 && !timers->is_clock_used;
    uint64_t lead_ms = lead_over_most(cluster);
    if (timers->replication->is_serving || !is_blank || lead_ms == 0 || lead_ms >= time->steady_ms)
        return false;
    if (cluster->last_stamp >> 16 > time->steady_ms - lead_ms + TR_SKEW_MS)
        return false; /* it has given stamps by its own clock: no later one may be below them */
    tr_cover(timers->trial, RULE_CLOCK_FOLLOWED);
    time->steady_base -= lead_ms;
    time->steady_ms -= lead_ms;
    cluster->ahead_ms = 0;
    for (uint32_t i = 1; i < cluster->member_count; i++)
        cluster->peers[i].clock_ms += (int64_t)lead_ms;
    tr_wheel_clear(&timers->wheel, time->steady_ms);
    return true;
}

/* By when shared records are due; and what is stored from here on is by the clock as it is then. */
void tr_samples_hear(struct tr_timers *timers, const struct tr_frame *frame,
                     struct tr_reader samples)
{
    struct tr_head head = {0};
    int64_t due_in_ms = 0;
    uint32_t check = 0;
    bool has_entries = samples.at < samples.end;
    if (frame->kind == TR_FRAME_OUTCOMES) {
        uint64_t age_ms = timers->time->now_ms - frame->heard_ms;
        bool is_prompt = frame->heard_ms <= timers->time->now_ms && age_ms < SAMPLE_MS;
        while (!timers->replication->is_serving && is_prompt &&
               tr_frame_get_outcome(&samples, &head, &due_in_ms, &check))
            hear_sample(timers, &head, due_in_ms);
        correct_clock(timers, (int64_t)age_ms);
        timers->is_clock_used |= has_entries;
    }
    if (frame->kind == TR_FRAME_WRITES || frame->kind == TR_FRAME_COPIES)
        timers->is_clock_used = true;
}
