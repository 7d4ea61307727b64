/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster: who is there. Members, the view that places records on them, the links between them,
 * who is up, the clock that they share, and what waits to be sent.
 *
 *   member.c  every node that this store has ever heard of
 *   view.c    which of them there are now, and where the view places a timer
 *   ring.c    and which of them hold a key
 *   clock.c   stamps, above every one that was given before on any node
 *   outbox.c  messages that wait for a peer, and the frames that take them
 *   peer.c    links, greetings, heartbeats: who is up
 *
 * What the messages are about is the business of the rooms above, which the cluster knows by a
 * table of functions.
 *
 * Owns:    the tables of members and peers, the pool of messages, the frames of one step.
 * Bounds:  TR_LOG_NODES_MAX members, TR_VIEW_NODES_MAX of a view, `messages_max` messages.
 */
#ifndef TR_CLUSTER_CLUSTER_H
#define TR_CLUSTER_CLUSTER_H

#include "log/log.h"
#include "wire/frame.h"

#define TR_SUSPECT_MS    400  /* a node that was silent for as long is down */
#define TR_FRAME_LIFE_MS 5000 /* a frame that took longer is not believed */

struct tryst_place_map;

/* A node that this store has heard of. */
struct tr_member {
    uint64_t hash;
    uint64_t replica_bits;
    enum tr_role role;
    uint8_t address_size;
    char address[TR_LOG_ADDRESS_MAX + 1];
};

struct tr_view {
    uint64_t id;
    uint32_t count;                     /* nodes of the new cluster; 0: there is no view yet */
    uint16_t placed[TR_VIEW_NODES_MAX]; /* the members that the map's nodes are */
    struct tryst_place_map *map;
    size_t map_size;
    void *workspace;
    size_t workspace_size;
};

/* A ring of keys: cluster/ring.h. */
struct tr_ring {
    uint32_t count;                     /* nodes on it; 0: there is none */
    uint8_t copies;                     /* of a key, no more than there are nodes, */
    uint8_t reads;                      /* of which so many are to answer a read, */
    uint8_t writes;                     /* and so many to have a write */
    uint16_t placed[TR_VIEW_NODES_MAX]; /* the members that the map's nodes are */
    struct tryst_place_map *map;
};

/* In the order in which they are sent: what somebody waits for first, records in bulk last. */
enum tr_message_kind {
    MESSAGE_ANSWER, /* to a WRITE or an ASK */
    MESSAGE_WRITE,  /* the record of an operation */
    MESSAGE_ASK,
    MESSAGE_PASS, /* the request of an operation, which the other node is to decide */
    MESSAGE_CLAIM,
    MESSAGE_PART,    /* all of a failed pop that split off, before its timer goes on elsewhere */
    MESSAGE_OUTCOME, /* a record's order and times, as they are when it is sent */
    MESSAGE_ACK,
    MESSAGE_DROPPED,
    MESSAGE_DROP,
    MESSAGE_MARK,
    MESSAGE_COPY, /* all of a record, likewise */
    MESSAGE_KINDS,
};

/* Something for another node. What it says of a record is looked up when it is sent. */
struct tr_message {
    uint32_t next; /* for the same node, or of the free ones */
    enum tr_message_kind kind;
    enum tr_frame_result result; /* of ANSWER */
    union {                      /* by its kind */
        bool has_record;         /* of ANSWER: what is held goes with it */
        enum tr_ask_mode ask;
        uint8_t places;     /* of MARK: those of the replica set that have the record */
        bool is_decided;    /* of COPY: no fresh write that its coordinator may take back */
        bool is_taken_back; /* of DROP: that write alone, as if it had not been */
        bool is_wanted;     /* of DROPPED: it never was here, and is asked for */
    } of;
    uint64_t operation;
    struct tr_key key;
    struct tr_order order; /* of ASK: the sequence of the pop that is meant, or 0 */
};

/* Messages of one kind for one node. */
struct tr_queue {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

enum tr_link {
    LINK_DOWN,
    LINK_OPEN,    /* nothing was heard on it yet */
    LINK_GREETED, /* the other node's HELLO was */
};

/* Another node, as the link to it shows it. By member. */
struct tr_peer {
    enum tr_link link;
    bool has_greeted; /* our own HELLO was sent */
    bool is_sending;  /* a frame is on its way to the link */
    bool is_up;       /* it has greeted, and was heard of lately */
    bool is_apart;    /* it says that it is of another cluster, or of none so far */
    bool has_store;   /* it has greeted before: */
    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    uint64_t incarnation;
    uint64_t position; /* of its log, as it said last, in that incarnation */

    tr_mono_ms linked_ms; /* from then on it is to have heard us; later, if we had no time */
    tr_mono_ms up_ms;     /* since when it is up, or is not */
    tr_mono_ms heard_ms;
    uint64_t excused_ms;   /* of its silence since then, in which this node had no time */
    tr_mono_ms beat_ms;    /* when the next heartbeat is due */
    tr_mono_ms sent_ms;    /* of the last frame of records */
    uint64_t tick_ms;      /* its own time, as it said last */
    uint64_t echo_ms;      /* our own tick that it heard last, */
    uint64_t beat_echo_ms; /* and that it had heard when it sent its last heartbeat */
    uint64_t trip_ms;      /* what a frame and its answer take, about */
    int64_t clock_ms;      /* the cluster's clock, as it goes there, less ours */
    int64_t skew_ms;       /* and the time of day as it has it, less ours */
    uint64_t view;
    uint64_t popping_from_ms;
    uint8_t key_flags; /* of enum tr_beat_key_flag */
    uint8_t flags;     /* of enum tr_beat_flag */
    uint8_t version;   /* of the frames that both speak */
    uint8_t fill;      /* of its memory or disk, per cent */
    struct tr_queue queues[MESSAGE_KINDS];
    uint32_t count; /* messages in all of them */
};

/* What the cluster tells the rooms above, and asks of them. */
struct tr_cluster_hooks {
    void *context;
    void (*link_lost)(void *context, uint16_t peer);
    /* It comes back with less than it had. */
    void (*store_lost)(void *context, uint16_t peer);
    void (*greeted)(void *context, uint16_t peer);
    void (*beat_heard)(void *context, uint16_t peer, const struct tr_frame *beat,
                       bool has_another_view);
    void (*up_changed)(void *context, uint16_t peer);
    /* What a heartbeat for this peer says of the rooms above. */
    void (*fill_beat)(void *context, uint16_t peer, struct tr_frame *beat);
    /* Appends what a message says; nothing, if there is nothing to say any more. */
    void (*put)(void *context, const struct tr_message *message, uint64_t version,
                struct tr_writer *writer);
};

struct tr_cluster {
    struct tr_cluster_hooks hooks;
    const struct tr_time *time;
    const struct tr_trial *trial;
    struct tr_log *log;
    struct tr_span address;
    size_t entry_max; /* bytes of a frame's last entry, at most */

    struct tr_member *members; /* entry 0 is this store */
    uint32_t member_count;
    uint32_t members_logged; /* no record is logged that names others */
    uint16_t stamp_node;     /* a hash of who stamps, to tell equal stamps apart */
    uint64_t last_stamp;
    uint64_t ahead_ms; /* how far the fastest clock of the cluster is ahead of this one */
    struct tr_view view;
    struct tr_ring ring;     /* of keys, as it is to be, */
    struct tr_ring old_ring; /* and as it was, while that is under way */
    struct tryst_place_map *ring_scratch;
    size_t ring_map_size;
    struct tr_peer *peers; /* by member */
    tr_mono_ms beat_ms;    /* when the first heartbeat is due to a node that is up */

    struct tr_message *messages;
    uint32_t messages_max;
    uint32_t message_free;
    uint32_t message_fresh;
    uint8_t *frames; /* those of one step */
    size_t frames_size;
};

/* There is no other node, nor ever was: whatever there is, is here. */
static inline bool tr_cluster_is_alone(const struct tr_cluster *cluster)
{
    return cluster->member_count == 1;
}

#endif
