/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between nodes. docs/protocol.md is the normative text.
 *
 * A frame is a head and, for most kinds, entries after it, each of which stands for itself: a
 * receiver that cannot use one goes on with the next. Nodes are named by their addresses, times
 * are deltas from the moment of encoding, and every count and size is bounded here, so that what
 * has been decoded can be used without looking twice.
 *
 * When a frame changes: raise TR_FRAME_VERSION, and go on reading the one before.
 */
#ifndef TR_WIRE_FRAME_H
#define TR_WIRE_FRAME_H

#include "wire/log.h"

#ifndef TR_FRAME_VERSION /* a build for tests may say 3 or 5 */
#define TR_FRAME_VERSION 4
#endif

#define TR_PLAN_VERSION 4 /* from it on: plans, instants, what is a timer's own, attempts */
#define TR_FRAME_MAX    ((size_t)4 << 20) /* bytes of a frame; most have less than 64 KiB */
#define TR_BUCKETS      4096              /* of hashes of ids, by their first bits */

enum tr_frame_kind {
    TR_FRAME_HELLO = 1,    /* who I am; the first on a link, each way */
    TR_FRAME_BEAT = 2,     /* I live */
    TR_FRAME_WRITES = 3,   /* clients' writes, each with its record */
    TR_FRAME_ANSWERS = 4,  /* what became of WRITES and ASKS, each with at most one record */
    TR_FRAME_COPIES = 5,   /* records as they are here */
    TR_FRAME_OUTCOMES = 6, /* pops that succeeded or failed: new orders of records you hold */
    TR_FRAME_ACKS = 7,     /* I have exactly these, durably */
    TR_FRAME_MARKS = 8,    /* these nodes of their replica sets have these records, durably */
    TR_FRAME_CLAIMS = 9,   /* I am popping these */
    TR_FRAME_DROPS = 10,   /* drop these, or what is older */
    TR_FRAME_DROPPED = 11, /* they are dropped here */
    TR_FRAME_ASKS = 12,    /* what do you hold of these timers? */
    TR_FRAME_BUCKETS = 13, /* sums over the records we share, to compare */
    TR_FRAME_ROSTER = 14,  /* from version 3 on: the nodes of the cluster, which follow */
    TR_FRAME_KEYS = 15,    /* likewise: requests and answers about keys (quorum/frame.h) */
    TR_FRAME_PASSES = 16,  /* from version 4 on: requests that the addressee is to decide */
};

#define TR_FRAMES (TR_FRAME_PASSES + 1)

/* How a write is meant. */
enum tr_write_mode {
    TR_WRITE_CREATE = 1,  /* a client's POST: refused if the id is there */
    TR_WRITE_REPLACE = 2, /* a client's PUT or DELETE: refused if something newer is there */
};

/* What an ask wants. */
enum tr_ask_mode {
    TR_ASK_READ = 1,
    TR_ASK_REDRIVE = 2, /* try its dead pops again */
    TR_ASK_FIRE = 3,    /* from version 4 on: make its next pop now */
};

enum tr_frame_result {
    TR_RESULT_STORED = 1, /* durable, or something higher is; the record follows if it may be */
                          /* elsewhere too */
    TR_RESULT_STALE = 2,  /* a higher version is here: it follows */
    TR_RESULT_EXISTS = 3, /* of a create: a live record of that id is here */
    TR_RESULT_FULL = 4,
    TR_RESULT_NONE = 5, /* of an ask: not here */
    TR_RESULT_HELD = 6, /* of an ask: here, and it follows */
    /* From version 4 on, of PASSES: */
    TR_RESULT_REPLAYED = 7, /* the same request was done before */
    TR_RESULT_FAILED = 8,   /* its condition does not hold */
    TR_RESULT_REUSED = 9,   /* its key came with another body */
    TR_RESULT_BUSY = 10,    /* a request with that key is under way */
    TR_RESULT_UNKNOWN = 11, /* what became of it is not known */
};

enum tr_beat_flag {
    TR_BEAT_REBALANCING = 1, /* it holds a record that is not where its view places it */
    TR_BEAT_POPPING = 2,
    TR_BEAT_READY = 4,    /* it takes requests */
    TR_BEAT_PENDING = 8,  /* it may have records for the addressee that it has not sent */
    TR_BEAT_BACKLOG = 16, /* from version 2 on: it has more pops under way than it claims */
    TR_BEAT_SETTLED = 32, /* from version 3 on: all it has is where its roster places it */
};

/* From version 3 on: what a node says of its keys. */
enum tr_beat_key_flag {
    TR_BEAT_KEYS_ARRIVED = 1, /* it has those that it should have */
    TR_BEAT_KEYS_LESS = 2,    /* the addressee has less than it had when it was last met */
    TR_BEAT_KEYS_HOME = 4,    /* it has none that belong to others */
    TR_BEAT_KEYS_OLDER = 8,   /* from version 4 on: it has yet to finish commands that it began
                               * before what has changed last */
};

/* What a record that travels has instead of times and indexes of members, which mean something on
 * one node alone: when it is due from now, which may be past, and addresses. */
struct tr_frame_names {
    int64_t due_in_ms;
    struct tr_span replicas[TR_SET_MAX]; /* head.replicas.count of them */
    struct tr_span from[TR_FROM_MAX];    /* head.from.count of them */
};

struct tr_frame_record {
    struct tr_record record;
    struct tr_frame_names names;
};

struct tr_frame {
    enum tr_frame_kind kind;
    uint64_t heard_ms; /* the addressee's own tick that its sender heard last; not of HELLO */
    union {
        struct {
            uint64_t version;
            struct tr_span address;
            uint8_t store_id[TR_LOG_STORE_ID_SIZE];
            uint64_t view;
            uint64_t tick_ms; /* the sender's */
            uint32_t incarnation_count;
            struct tr_log_incarnation incarnations[TR_LOG_INCARNATIONS_MAX];
        } hello;
        struct {
            uint64_t tick_ms;
            uint64_t stamp; /* of the cluster's clock; its low bits: cluster/clock.h */
            uint64_t view;
            uint64_t position;        /* of its log */
            uint8_t memory_fill;      /* per cent */
            uint8_t disk_fill;        /* likewise */
            uint8_t flags;            /* of enum tr_beat_flag */
            uint64_t popping_from_ms; /* nominal due times below are left to others */
            bool has_roster;          /* from version 3 on: what follows */
            uint64_t cluster;         /* of its roster; 0: it has none */
            uint64_t epoch;
            uint64_t roster_id;
            uint8_t key_flags; /* of enum tr_beat_key_flag */
        } beat;
        const uint8_t *sums; /* of BUCKETS, 8 bytes each */
    } of;
};

/* Entries of WRITES, ANSWERS and ASKS. The operation is the one of whoever asked. */
struct tr_frame_write {
    uint64_t operation;
    enum tr_write_mode mode;
    struct tr_frame_record record;
};

struct tr_frame_answer {
    uint64_t operation;
    enum tr_frame_result result;
    bool has_record;
    struct tr_frame_record record;
};

/* Its record follows. */
struct tr_frame_pass {
    uint64_t operation;
    bool is_keyed; /* a create */
    struct tr_condition condition;
};

struct tr_frame_ask {
    uint64_t operation;
    enum tr_ask_mode mode;
    tr_timer_id id;
    uint64_t sequence; /* of REDRIVE; 0: all of them */
};

/* Appends the head of a frame. */
void tr_frame_put(struct tr_writer *writer, const struct tr_frame *frame);

/* Append an entry: of ACKS and CLAIMS the key and the order, of OUTCOMES also flags, times and a
 * check of the set that they are meant for, of MARKS which places of the set, of DROPS and
 * DROPPED an operation or 0, and whether that order alone is meant; of COPIES the whole record. */
void tr_frame_put_key(struct tr_writer *writer, const struct tr_head *head);
void tr_frame_put_mark(struct tr_writer *writer, const struct tr_head *head, uint8_t mask);
void tr_frame_put_drop(struct tr_writer *writer, const struct tr_head *head, uint64_t operation,
                       bool is_exact);
/* For a peer of this version of the frames: an older one is not told of attempts. */
void tr_frame_put_outcome(struct tr_writer *writer, const struct tr_head *head, int64_t due_in_ms,
                          uint32_t check, uint64_t version);
void tr_frame_put_record(struct tr_writer *writer, const struct tr_record *record,
                         const struct tr_frame_names *names, uint64_t version);
void tr_frame_put_write(struct tr_writer *writer, const struct tr_frame_write *write);
void tr_frame_put_answer(struct tr_writer *writer, const struct tr_frame_answer *answer);
void tr_frame_put_pass_head(struct tr_writer *writer, const struct tr_frame_pass *pass);
void tr_frame_put_ask(struct tr_writer *writer, const struct tr_frame_ask *ask);
/* Without the record, which follows. */
void tr_frame_put_write_head(struct tr_writer *writer, uint64_t operation, enum tr_write_mode mode);
void tr_frame_put_answer_head(struct tr_writer *writer, uint64_t operation,
                              enum tr_frame_result result, bool has_record);

/* At least what tr_frame_put_record takes. */
size_t tr_frame_record_bound(const struct tr_frame_record *record);

/* Reads the head of a frame; entries follow in the reader. False: it is none of this version. */
bool tr_frame_get(struct tr_reader *reader, struct tr_frame *frame);

/* The next entry. False at the end, or with reader->is_short set: it is broken. */
bool tr_frame_get_key(struct tr_reader *reader, struct tr_head *head);
bool tr_frame_get_mark(struct tr_reader *reader, struct tr_head *head, uint8_t *mask);
bool tr_frame_get_drop(struct tr_reader *reader, struct tr_head *head, uint64_t *operation,
                       bool *is_exact);
bool tr_frame_get_outcome(struct tr_reader *reader, struct tr_head *head, int64_t *due_in_ms,
                          uint32_t *check);
bool tr_frame_get_record(struct tr_reader *reader, struct tr_record *record,
                         struct tr_frame_names *names);
bool tr_frame_get_write(struct tr_reader *reader, struct tr_frame_write *write);
bool tr_frame_get_answer(struct tr_reader *reader, struct tr_frame_answer *answer);
bool tr_frame_get_pass_head(struct tr_reader *reader, struct tr_frame_pass *pass);
bool tr_frame_get_ask(struct tr_reader *reader, struct tr_frame_ask *ask);
bool tr_frame_get_write_head(struct tr_reader *reader, uint64_t *operation,
                             enum tr_write_mode *mode);
bool tr_frame_get_answer_head(struct tr_reader *reader, uint64_t *operation,
                              enum tr_frame_result *result, bool *has_record);

#endif
