/* SPDX-License-Identifier: Apache-2.0 */
/* What the node notes, as lines of the log. */
#include "shell/callback/fault.h"
#include "shell/daemon.h"
#include "shell/pops.h"

#define STEP_SMALL_MS                                                                              \
    100 /* a wall clock that is kept right by others is set by less all the time */

static void say_stepped(long long offset_ms)
{
    bool is_small = offset_ms > -STEP_SMALL_MS && offset_ms < STEP_SMALL_MS;
    tr_say(is_small ? TR_INFO : TR_STATUS,
           "the wall clock is %lld ms from where it was; timers are not moved by it", offset_ms);
}

static void say_cluster_note(const struct tr_daemon *daemon, const struct tr_effect *effect)
{
    unsigned long long number = effect->of.note.number;
    struct tr_span peer = {"", 0};
    if (effect->of.note.what != TR_NOTE_REBALANCED)
        peer = tr_node_member_address(daemon->node, (uint16_t)number);
    int size = (int)peer.size;
    struct tr_said about = {.node = peer};
    switch ((unsigned)effect->of.note.what) {
    case TR_NOTE_PEER_UP:
        tr_say_of(about, TR_STATUS, "%.*s is up", size, peer.text);
        return;
    case TR_NOTE_PEER_DOWN:
        tr_say_of(about, TR_WARNING, "%.*s is down: its timers are popped by others", size,
                  peer.text);
        return;
    case TR_NOTE_REBALANCED:
        tr_say(TR_STATUS, "resync: complete; the %llu timers held here are where they belong",
               number);
        return;
    case TR_NOTE_REBALANCE_DOWN:
        tr_say_of(about, TR_STATUS, "resync: incomplete, since %.*s is down; it goes on by itself",
                  size, peer.text);
        return;
    case TR_NOTE_PEER_LESS:
        tr_say_of(
            about, TR_WARNING,
            "%.*s has come back with another store, or with less than it had on disk: what it "
            "lacks is sent to it again",
            size, peer.text);
        return;
    case TR_NOTE_REBALANCE_VIEW:
        tr_say_of(
            about, TR_STATUS,
            "resync: incomplete, since %.*s has another list of nodes; it goes on by itself when "
            "they agree",
            size, peer.text);
        return;
    }
}

static void say_dead(const struct tr_effect *effect, const char *id)
{
    char why[160];
    unsigned status = effect->of.note.status;
    if (effect->of.note.result == TR_CALLBACK_ANSWERED)
        snprintf(why, sizeof why, "HTTP status %u", status);
    else if (effect->of.note.result == TR_CALLBACK_TIMED_OUT)
        snprintf(why, sizeof why, "a timeout");
    else
        tr_fault_write(effect->of.note.fault, why, sizeof why);
    tr_say_of(
        (struct tr_said){.timer = {id, strlen(id)}}, TR_WARNING,
        "timer %s: pop %llu is dead: its attempts are spent, the last one ended with %s; POST "
        "/timers/%s/redrive tries it again",
        id, (unsigned long long)effect->of.note.number, why, id);
}

void tr_daemon_say_note(struct tr_daemon *daemon, const struct tr_effect *effect)
{
    uint64_t now_ms = daemon->now_us / 1000;
    unsigned long long number = effect->of.note.number;
    char id[TR_TIMER_TEXT_MAX + 1];
    struct tr_writer out = tr_writer_on(id, sizeof id - 1);
    struct tr_timer_text text =
        tr_node_text(daemon->node, effect->of.note.id, effect->of.note.factor);
    tr_put_timer_text(&out, &text);
    id[out.size] = '\0';
    switch (effect->of.note.what) {
    case TR_NOTE_DEAD:
        tr_pop_ring_is_dead(daemon->pops, effect->of.note.id, number);
        if (!tr_say_may(&daemon->dead_lines, now_ms))
            return;
        say_dead(effect, id);
        return;
    case TR_NOTE_ZONES:
        tr_say(TR_STATUS, "zone files have changed: %llu timers pop at another time", number);
        return;
    case TR_NOTE_DISCARDED:
        if (!tr_say_may(&daemon->discarded_lines, now_ms))
            return;
        tr_say_of((struct tr_said){.timer = {id, out.size}}, TR_WARNING,
                  "timer %s: failed pop %llu was given up for newer ones", id, number);
        return;
    case TR_NOTE_DISK_FULL:
        tr_say(TR_ERROR, "the disk is full: new timers are refused with 507, pops go on; free some "
                         "space and it heals by itself");
        return;
    case TR_NOTE_DISK_HEALED:
        tr_say(TR_STATUS, "the disk has room again: new timers are taken");
        return;
    case TR_NOTE_LOG_EXHAUSTED:
        tr_say(TR_ERROR, "the log has no room at all: pops wait until there is some");
        return;
    case TR_NOTE_TAIL_CUT:
        tr_say(TR_STATUS, "cut a torn tail of %llu bytes, never acknowledged, off the log", number);
        return;
    case TR_NOTE_TAIL_DAMAGED:
        tr_say(TR_ERROR,
               "the last batch of segment %016llx is all there, but its checksum is wrong: it and "
               "what follows, %llu bytes, are cut off. If a crash tore it, it was never "
               "acknowledged; if the disk has damaged it, up to a second of acknowledged writes is "
               "gone, unless other nodes have them",
               (unsigned long long)effect->of.note.id, number);
        return;
    case TR_NOTE_CLOCK_STEPPED:
        say_stepped((long long)number);
        return;
    case TR_NOTE_PEER_UP:
    case TR_NOTE_PEER_DOWN:
    case TR_NOTE_REBALANCED:
    case TR_NOTE_REBALANCE_DOWN:
    case TR_NOTE_REBALANCE_VIEW:
    case TR_NOTE_PEER_LESS:
        say_cluster_note(daemon, effect);
        return;
    case TR_NOTE_ROSTER:
        tr_epochs_say(daemon);
        return;
    case TR_NOTE_STOOD_STILL:
        tr_say(TR_WARNING,
               "stood still for %llu ms: the machine gave it no time, or it was stopped; what was "
               "due meanwhile is late, or was popped by others",
               number);
        return;
    case TR_NOTE_VIEW_REFUSED:
        tr_say(TR_ERROR, "the list of nodes is not taken: this store has heard of 1,024 addresses "
                         "and has no room for more; start with an empty data directory");
        return;
    case TR_NOTE_MEMORY_FULL:
        tr_say(TR_ERROR, "the memory budget is used up: new timers are refused; raise [storage] "
                         "memory-budget");
        return;
    }
}
