/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Membership: the roster that the nodes of the cluster agree on, and how it changes.
 *
 * Every roster has an epoch. Heartbeats say which one a node has; whoever has a lower one is sent
 * the higher. Of two rosters with one epoch the one with the higher id holds on all nodes in the
 * end, and whoever asked for the other asks again.
 *
 * A change is one epoch in which nodes join or leave, and then one in which they have. The second
 * one is made when every node has said, of the first, that all it has is where it belongs: by the
 * node with the lowest address that is up. Nobody drives a change; it goes on with whoever is
 * there.
 *
 * What asks for changes is the configuration, by its difference from what it said when it was last
 * heeded, and the operator.
 *
 * Owns:    the roster, what the configuration says and said, what others have said of theirs.
 */
#ifndef TR_CLUSTER_MEMBERSHIP_H
#define TR_CLUSTER_MEMBERSHIP_H

#include "cluster/cluster.h"
#include "wire/roster.h"

#define TR_ROSTER_VERSION 3 /* of frames: from it on nodes tell of their rosters */

/* What another node has said. By member. */
struct tr_standing {
    bool is_heard; /* on this link: what follows */
    uint64_t cluster;
    uint64_t epoch;
    uint64_t id;
    uint64_t settled;   /* the id of the last roster of which it said that it is settled */
    tr_mono_ms sent_ms; /* when it was last sent the roster; 0: not on this link */
    uint64_t sent_id;   /* and which it was */
};

/* Where the log has one of them. */
struct tr_kept {
    size_t size;      /* of its entry; 0: there is none */
    uint32_t segment; /* of that: the low bits */
    bool is_due;      /* it has changed since */
};

struct tr_membership_hooks {
    void *context;
    void (*changed)(void *context);  /* another roster is in force */
    bool (*is_empty)(void *context); /* whether this node holds no records */
    bool (*has_keys)(void *context);
};

struct tr_membership {
    struct tr_membership_hooks hooks;
    struct tr_cluster *cluster;
    const struct tr_time *time;
    struct tr_log *log;

    struct tr_roster *roster;     /* in force; epoch 0: there is none yet */
    struct tr_roster *heeded;     /* the configuration, when it was last heeded; epoch 0: never */
    struct tr_roster *configured; /* as it is now; epoch 0: it was not read yet */
    struct tr_roster *scratch;
    uint8_t *bytes;                /* of one roster, encoded */
    struct tr_standing *standings; /* by member */
    struct tr_kept roster_kept;
    struct tr_kept heeded_kept;
    uint64_t asked_id; /* the roster that was made for the configuration, and may not hold yet */
    bool is_read;      /* the configuration was, just now */
    bool is_shared;    /* another node has, or had, a roster of the same cluster */
    bool is_arrived;   /* since its store began, this node has had all keys that it is to hold */
    bool is_released;  /* it has left, and the others have all that it had */
    bool is_waiting;   /* to be taken in by others, as its configuration says */
    bool is_settled;   /* all that this node has is where this roster places it, */
    bool was_settled;  /* or has been since the roster came into force */
    tr_mono_ms through_ms; /* when all were heard to have settled; 0: they were not */
    tr_mono_ms look_ms;    /* when there is something to do next */
};

/* The configuration was read. */
void tr_membership_configure(struct tr_membership *membership, const struct tr_view_node *nodes,
                             uint32_t count);

/* An operator asks for nodes to join, leave or be lost, all at once. `who` is who stands in the
 * way. */
enum tr_change tr_membership_ask(struct tr_membership *membership, const struct tr_view_node *nodes,
                                 uint32_t count, uint16_t *who);

/* The next roster, made of the one in force, if those who are to agree are there. */
enum tr_change tr_membership_make(struct tr_membership *membership, struct tr_roster *next,
                                  uint16_t *who);

/* What the configuration says is taken as done: it is a guest's, and asks its hosts for nothing. */
void tr_membership_heed_all(struct tr_membership *membership);
/* Another roster comes into force. */
void tr_membership_adopt(struct tr_membership *membership, const struct tr_roster *roster);
void tr_membership_look_now(struct tr_membership *membership); /* there may be something to do */
/* This node has all keys that it is to hold, or has not any more. */
void tr_membership_set_arrived(struct tr_membership *membership, bool is_arrived);

/* In each step: what can be done now. `is_settled`: all that this node has is where it belongs. */
void tr_membership_run(struct tr_membership *membership, bool is_settled);

/* Whether a node has yet to settle in the change that is under way: `who`, TR_MEMBER_NONE if this
 * node has no number for it. */
bool tr_membership_is_waiting_for(const struct tr_membership *membership, uint16_t *who);
/* Every node that is to agree on a change is there, and has this roster. */
bool tr_membership_is_agreed(const struct tr_membership *membership);
/* The roster in force, if there is one, names this node, and does not call it lost. */
bool tr_membership_is_in(const struct tr_membership *membership);
/* It may take requests: it is a member, or has left, holds nothing, and sees all members, and so
 * can answer only with what they have. */
bool tr_membership_may_serve(const struct tr_membership *membership);
/* What the configuration asks for has yet to be done. */
bool tr_membership_is_behind(const struct tr_membership *membership);

#endif
