/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's request, from its beginning to its answer. Whoever is asked coordinates, and keeps
 * nothing itself unless it is of the replica set. A node that is alone does it at once (local.c);
 * else it goes through stages:
 *
 *   passed    to the node that decides, of a request with a condition or a key (condition.c)
 *   reading   what do others hold? A read ends here (read.c)
 *   writing   to the replica set, until enough have it (write.c)
 *   yielding  to another write of the same record, before it is sent once more (write.c)
 *   dropping  those who may hold what was replaced are asked to drop it (replaced.c)
 *   answered
 *
 * Owns:    the operations, and the record of each.
 * Bounds:  `operations_max` at once; more are refused.
 */
#ifndef TR_REPLICATION_OPERATION_H
#define TR_REPLICATION_OPERATION_H

#include "replication/replication.h"

/* The patience of a request, unless twice a round trip takes longer. When it is over, other nodes
 * are hinted for those that are silent; after twice as long (three times, if the record was stamped
 * anew and nobody could be hinted) the client is answered if any node has the record; after four
 * times as long the nodes that were asked to drop what was replaced are waited for no more. A
 * request that yields has its patience once more, at least, when its record is sent again. */
#define SILENT_MS      250
#define TRIP_BESIDE_MS 50 /* what a sync takes, and more */

_Static_assert(TR_LOG_NODES_MAX % 64 == 0, "a bit for each member fills whole words");

/* What a client wants. */
enum tr_operation_kind {
    OPERATION_CREATE, /* under an id that was drawn; of a keyed record: unless there is one */
    OPERATION_REPLACE,
    OPERATION_RESTORE, /* under the version that it had, unless something higher is there */
    OPERATION_READ,
    OPERATION_PERFORM, /* what the store alone understands, wherever records of the id are */
};

struct tr_request {
    enum tr_operation_kind kind;
    uint64_t token;
    uint64_t filter; /* of the id that the client gave: who had it then; 0: nobody is known */
    struct tr_condition condition; /* of REPLACE */
    uint16_t peer; /* that has passed it on, as its operation; 0: a client of this node asks */
    uint64_t peer_operation;
    enum tr_ask_mode performs; /* of PERFORM, */
    uint64_t argument;         /* likewise */
};

enum tr_stage {
    STAGE_PASSED,   /* another node decides */
    STAGE_READING,  /* what other nodes hold */
    STAGE_WRITING,  /* to the replica set */
    STAGE_YIELDING, /* to another write of the same record, until it is sent once more */
    STAGE_DROPPING, /* what was replaced, on the nodes that may hold it */
};

/* A client's request under way in the cluster. */
struct tr_operation {
    uint64_t number; /* 0: free */
    uint64_t token;
    enum tr_stage stage;
    enum tr_operation_kind kind;
    enum tr_write_mode mode;
    tr_ref record; /* as a log entry: to be written, or the highest that was heard of */
    size_t record_size;
    tr_ref own; /* where this node's own copy was put */
    tr_mono_ms started_ms;
    uint64_t patience_ms; /* after which somebody is hinted for who is silent */
    tr_mono_ms sent_ms;   /* when the record was, the last time */
    tr_mono_ms again_ms;  /* when one that yields is sent once more */
    uint8_t factor;       /* copies wanted */
    uint8_t replica_count;
    uint16_t replicas[TR_SET_MAX];
    uint8_t done;   /* places of the replica set that have the record */
    uint8_t above;  /* that have a higher version, which is as good */
    uint8_t failed; /* that will not */
    uint8_t tries;
    bool is_late;      /* nodes were hinted for the silent; or all were asked once more */
    bool is_drawn;     /* its id, which may be drawn again */
    bool is_found;     /* somebody holds it, */
    bool is_unkept;    /* and there was no memory to keep what they hold */
    bool is_complete;  /* of a read: enough nodes were asked to say that nobody holds the record */
    bool is_stray_end; /* likewise: a tombstone was found, on a node where it is not placed */
    bool is_keyed;     /* a create with a key, whose body has this fingerprint, */
    uint64_t fingerprint;
    struct tr_condition condition; /* or a write that is done only if this holds: */
    bool has_best;                 /* of what nodes hold */
    struct tr_head best;           /* this is the highest */
    bool is_replayed;              /* it was done before */
    uint16_t peer;                 /* that has passed it on; 0: a client of this node asks */
    uint64_t peer_operation;
    tr_timer_id id;
    uint64_t version;
    enum tr_ask_mode performs;            /* of PERFORM */
    uint64_t argument;                    /* of what is performed */
    uint64_t filter;                      /* of the id that the client gave */
    uint64_t open[TR_LOG_NODES_MAX / 64]; /* bits: members that have yet to answer */
};

/* Begins what a client asks: of a write with its record, else with one that has the id and the
 * factor. It is answered through the store. */
void tr_operation_begin(struct tr_replication *replication, const struct tr_request *request,
                        struct tr_whole *whole, struct tr_effects *out);

/* Whether one that began by this time is under way. */
bool tr_operations_are_older(const struct tr_replication *replication, tr_mono_ms at_ms);

/* What a node has answered; `held` is what it holds, if it has shown that. */
void tr_operation_answered(struct tr_replication *replication, uint64_t number, uint16_t member,
                           enum tr_frame_result result, const struct tr_whole *held,
                           struct tr_effects *out);
void tr_operation_dropped(struct tr_replication *replication, uint64_t number, uint16_t member,
                          struct tr_effects *out);

/* What is written. False: it is over. */
bool tr_operation_record(const struct tr_replication *replication, uint64_t number,
                         struct tr_whole *whole, enum tr_write_mode *mode);

/* Another node has passed a request on to this one, which is to decide it. */
void tr_operation_passed(struct tr_replication *replication, uint16_t peer,
                         const struct tr_frame_pass *pass, struct tr_whole *whole,
                         struct tr_effects *out);

/* What is passed on to the node that decides. False: it is over. */
bool tr_operation_passed_on(const struct tr_replication *replication, uint64_t number,
                            struct tr_whole *whole, struct tr_frame_pass *pass);

/* A record of another node that an answer of this step refers to. */
void tr_operation_unpack_shown(const struct tr_replication *replication, uint32_t index,
                               struct tr_whole *whole);

void tr_operations_run(struct tr_replication *replication, struct tr_effects *out);
void tr_operations_look(struct tr_replication *replication); /* at all of them, in the next step */
tr_mono_ms tr_operations_wake_at(const struct tr_replication *replication);

/* ---- what its stages share ---- */

/* operation.c */
void tr_operation_unpack(const struct tr_replication *replication,
                         const struct tr_operation *operation, struct tr_whole *record);
/* False: no memory. */
bool tr_operation_keep(struct tr_replication *replication, struct tr_operation *operation,
                       const struct tr_whole *record);
void tr_operation_answer(struct tr_replication *replication, const struct tr_operation *operation,
                         enum tr_result result, struct tr_effects *out);
void tr_operation_reply(struct tr_replication *replication, const struct tr_operation *operation,
                        enum tr_result result, struct tr_effects *out); /* any of them */
void tr_operation_refuse(struct tr_replication *replication, const struct tr_operation *operation,
                         enum tr_result result, struct tr_effects *out);
void tr_operation_finish(struct tr_replication *replication, struct tr_operation *operation,
                         struct tr_effects *out); /* 200 */
void tr_operation_give_up(struct tr_replication *replication, struct tr_operation *operation,
                          struct tr_effects *out); /* 503: the outcome is unknown */
void tr_operation_end(struct tr_replication *replication, struct tr_operation *operation);
void tr_operation_renumber(struct tr_replication *replication, struct tr_operation *operation);
/* Members that were asked something, and have not answered. */
void tr_operation_open(struct tr_operation *operation, uint32_t member);
void tr_operation_close(struct tr_operation *operation, uint32_t member);
bool tr_operation_is_open(const struct tr_operation *operation, uint32_t member);
bool tr_operation_has_open(const struct tr_replication *replication,
                           const struct tr_operation *operation);

/* local.c */
void tr_operation_locally(struct tr_replication *replication, const struct tr_request *request,
                          struct tr_whole *whole, struct tr_effects *out);

/* read.c */
void tr_read_asked(struct tr_replication *replication, uint16_t peer,
                   const struct tr_frame_ask *ask); /* by another node */
void tr_read_begin(struct tr_replication *replication, struct tr_operation *operation);
void tr_read_answered(struct tr_replication *replication, struct tr_operation *operation,
                      uint16_t member, enum tr_frame_result result, const struct tr_whole *held,
                      struct tr_effects *out);
void tr_read_conclude(struct tr_replication *replication, struct tr_operation *operation,
                      bool is_over, struct tr_effects *out);

/* write.c */
void tr_write_begin(struct tr_replication *replication, struct tr_operation *operation,
                    struct tr_whole *record, struct tr_effects *out);
void tr_write_answered(struct tr_replication *replication, struct tr_operation *operation,
                       uint16_t member, enum tr_frame_result result, const struct tr_whole *held,
                       struct tr_effects *out);
/* A node has stored the record after the operation went on without it. */
void tr_write_late(struct tr_operation *operation, uint16_t member);
/* A node that was asked to drop what was replaced holds something higher. */
void tr_write_contested(struct tr_replication *replication, struct tr_operation *operation,
                        uint16_t member, const struct tr_whole *held, struct tr_effects *out);
void tr_write_conclude(struct tr_replication *replication, struct tr_operation *operation,
                       bool is_over, struct tr_effects *out);
/* It has yielded long enough. */
void tr_write_again(struct tr_replication *replication, struct tr_operation *operation,
                    struct tr_effects *out);
void tr_write_hint(struct tr_replication *replication, struct tr_operation *operation,
                   struct tr_effects *out);

/* replaced.c */
void tr_replaced_begin(struct tr_replication *replication, struct tr_operation *operation,
                       struct tr_effects *out);
/* The copy that a replica holds now names others that may hold what was replaced. */
void tr_replaced_ask_named(struct tr_replication *replication, struct tr_operation *operation,
                           const struct tr_whole *stored);
/* All have answered, or time is up: the write is decided, and the client answered. */
void tr_replaced_finish(struct tr_replication *replication, struct tr_operation *operation,
                        struct tr_effects *out);

#endif
