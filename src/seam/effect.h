/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Effects: what a node wants done in the world: an answer, a callback, a write to the log, a frame
 * to another node, a line for the operator. The effects of one step are independent of each other.
 *
 * Owns:    nothing. What an effect points to is good until the node's next step.
 * Bounds:  TR_EFFECTS_MAX of one step; whoever wants to push one asks for room first.
 */
#ifndef TR_SEAM_EFFECT_H
#define TR_SEAM_EFFECT_H

#include "seam/event.h"
#include "seam/key.h"

#define TR_EFFECTS_MAX 4096 /* of one step; what is left follows in the next */

enum tr_effect_kind {
    TR_EFFECT_ANSWER,       /* to a request, without a body */
    TR_EFFECT_ANSWER_TIMER, /* to READ */
    TR_EFFECT_ANSWER_PAGE,  /* to LIST */
    TR_EFFECT_KEY,          /* to a command on a key that went to other nodes */
    TR_EFFECT_KEY_PAGE,     /* to a scan of the keys of all nodes */
    TR_EFFECT_FIRE,         /* call a URI */
    TR_EFFECT_LOG_WRITE,
    TR_EFFECT_SEGMENT_ALLOCATE,
    TR_EFFECT_SEGMENT_REMOVE,
    TR_EFFECT_SEGMENT_TRIM, /* cut the file to its size */
    TR_EFFECT_RECOVERED,
    TR_EFFECT_REFUSED, /* the log cannot be replayed: `check` says where */
    TR_EFFECT_NOTE,    /* for the operator */
    TR_EFFECT_STOPPED, /* drained and durable */
    TR_EFFECT_FRAME_SEND,
    TR_EFFECT_LINK_RESET, /* close the link and connect again */
};

enum tr_note {
    TR_NOTE_DEAD,      /* a pop is dead: id, number = its sequence */
    TR_NOTE_DISCARDED, /* a failed pop was given up for a newer one: id, number = its sequence */
    TR_NOTE_DISK_FULL,
    TR_NOTE_DISK_HEALED,
    TR_NOTE_LOG_EXHAUSTED, /* not even the reserve is left: pops wait */
    TR_NOTE_TAIL_CUT,      /* number = bytes */
    TR_NOTE_TAIL_DAMAGED,  /* likewise; its batch was all there, so it may have been acknowledged */
    TR_NOTE_PEER_LESS,     /* a node comes back with less than it had: number = which */
    TR_NOTE_CLOCK_STEPPED, /* number = wall less steady time, ms, signed */
    TR_NOTE_MEMORY_FULL,
    TR_NOTE_PEER_UP,        /* number = which */
    TR_NOTE_PEER_DOWN,      /* likewise */
    TR_NOTE_REBALANCED,     /* everything is where it belongs: number = records held */
    TR_NOTE_VIEW_REFUSED,   /* too many nodes were ever heard of: the view before stays */
    TR_NOTE_REBALANCE_DOWN, /* not all, since a node is down: number = which */
    TR_NOTE_REBALANCE_VIEW, /* not all, since a node has another view: number = which */
    TR_NOTE_ROSTER,         /* another roster is in force: number = its epoch */
    TR_NOTE_ZONES,          /* zone files have changed: number = timers that pop at another time */
    TR_NOTE_STOOD_STILL,    /* it had no time to run for as long: number = ms */
};

struct tr_effect {
    enum tr_effect_kind kind;
    union {
        struct {
            uint64_t token;
            enum tr_result result;
            bool is_replayed;  /* it had happened before, by the same key */
            bool has_location; /* it has happened, or may have, there */
            struct tr_timer_text location;
        } answer;
        struct {
            uint64_t token;
            struct tr_key_result result;
        } key;
        struct {
            uint64_t token;
            enum tr_result refusal; /* TR_DONE: what follows */
            uint64_t cursor;        /* where the next page begins; 0: this was the last */
            uint32_t count;
            struct tr_span keys; /* by tr_get_span, each */
        } key_page;
        struct {
            uint64_t token;
            uint32_t ref;
        } timer;
        struct {
            uint64_t token;
            const uint32_t *refs;
            uint32_t count;
            bool has_more;
            bool is_resync; /* as nodes of the original want it */
            bool is_held;   /* as a backup keeps it */
            uint64_t cursor;
        } page;
        struct {
            uint32_t flight;
            uint32_t ref;
            tr_steady_ms due_ms;
            tr_mono_ms due_mono_ms;
        } fire;
        struct {
            uint64_t segment;
            uint64_t offset;
            const uint8_t *head; /* the segment's header, when this is its first write; or NULL */
            size_t head_size;
            const uint8_t *bytes;
            size_t size;
            uint64_t end; /* the position after it */
        } log;
        struct {
            uint64_t number;
            uint64_t size;
        } segment;
        struct tr_log_check check;
        struct {
            enum tr_note what;
            tr_timer_id id;
            uint64_t number;
            uint32_t factor;                /* of DEAD and DISCARDED */
            enum tr_callback_result result; /* of DEAD: how its last attempt ended, */
            unsigned status;                /* and the HTTP status if there was one, */
            enum tr_fault fault;            /* or what was wrong */
        } note;
        struct {
            uint16_t peer;
            const uint8_t *bytes;
            size_t size;
            bool is_anew; /* of LINK_RESET: nothing is wrong, it is only to begin anew */
        } frame;
    } of;
};

struct tr_effects {
    uint32_t count;
    struct tr_effect items[TR_EFFECTS_MAX];
};

bool tr_effects_has_room(const struct tr_effects *out, uint32_t count);
/* There must be room. The caller fills the rest in. */
struct tr_effect *tr_effects_push(struct tr_effects *out, enum tr_effect_kind kind);
/* A line for the operator; NULL, and none is written, when there is no room for it. */
struct tr_effect *tr_note(struct tr_effects *out, enum tr_note what, tr_timer_id id,
                          uint64_t number);

#endif
