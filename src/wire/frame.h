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

#define TR_FRAME_VERSION 1
#define TR_FRAME_MAX     65536             /* bytes of a frame on a link, its size not counted */
#define TR_FRAME_WHOLE   ((size_t)2 << 20) /* of one that came in parts */
#define TR_FROM_MAX      16                /* nodes that a moving record comes from */

enum tr_frame_kind {
    TR_FRAME_HELLO = 1,    /* who I am; the first on a link, each way */
    TR_FRAME_BEAT = 2,     /* I live */
    TR_FRAME_WRITE = 3,    /* store this record; entries: one */
    TR_FRAME_ANSWER = 4,   /* what became of a WRITE, an ASK or a DROP */
    TR_FRAME_OUTCOMES = 5, /* pops that succeeded or failed: new orders of records you hold */
    TR_FRAME_ACKS = 6,     /* I have exactly these, durably */
    TR_FRAME_CLAIMS = 7,   /* I am popping these */
    TR_FRAME_DROP = 8,     /* let this go, or what is older */
    TR_FRAME_ASK = 9,      /* what do you hold of this timer? */
    TR_FRAME_BUCKETS = 10, /* sums over the records we share, to compare */
    TR_FRAME_LIST = 11,    /* send me what you hold of these buckets, from a cursor */
    TR_FRAME_PAGE = 12,    /* records, and the cursor to go on from */
    TR_FRAME_PART = 13,    /* a piece of a frame that is too large for one */
    TR_FRAME_MARKS = 14,   /* these nodes of their lists have these records, durably */
};

/* How a WRITE is meant. */
enum tr_write_mode {
    TR_WRITE_CREATE = 1,  /* a client's POST: refused if the id is there */
    TR_WRITE_REPLACE = 2, /* a client's PUT or DELETE: refused if something newer is there */
    TR_WRITE_COPY = 3,    /* a record as it is: the higher one stays */
};

enum tr_frame_result {
    TR_RESULT_STORED = 1, /* durable, or something higher is */
    TR_RESULT_STALE = 2,  /* a higher version is here: its order follows */
    TR_RESULT_EXISTS = 3, /* of CREATE: a live record of that id is here */
    TR_RESULT_FULL = 4,
    TR_RESULT_NONE = 5,  /* of ASK: not here, and never was in this store */
    TR_RESULT_MOVED = 6, /* of ASK: it was here and was moved away */
    TR_RESULT_HELD = 7,  /* of ASK: here, with this order */
    TR_RESULT_BUSY = 8,  /* of DROP: its callback is under way */
};

enum tr_beat_flag {
    TR_BEAT_UNSETTLED = 1, /* it holds a record that is not where its view places it */
    TR_BEAT_POPPING = 2,
    TR_BEAT_READY = 4, /* it takes requests */
    TR_BEAT_OWES = 8,  /* it may have records for the addressee that it has not sent */
};

/* A record that travels. Its list is by name; `due_ms` is a delta, which may be past. */
struct tr_frame_record {
    struct tr_record record;
    int64_t due_in_ms;
    struct tr_span list[TR_LIST_MAX]; /* record.list_count of them */
    uint8_t from_count;               /* 0: it does not move */
    struct tr_span from[TR_FROM_MAX];
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
            uint64_t stamp; /* the sender's hybrid clock */
            uint64_t view;
            uint64_t position;        /* of its log */
            uint8_t memory_fill;      /* per cent */
            uint8_t disk_fill;        /* likewise */
            uint8_t flags;            /* of enum tr_beat_flag */
            uint64_t popping_from_ms; /* nominal due times below are left to others */
        } beat;
        struct {
            uint64_t operation;
            enum tr_write_mode mode;
            uint8_t had; /* nodes of the list that have it already */
        } write;
        struct {
            uint64_t operation;
            enum tr_frame_result result;
        } answer; /* entries: at most one, the record that is here */
        struct {
            uint64_t operation;
        } drop; /* entries: one, its key and order */
        struct {
            uint64_t operation;
            tr_timer_id id;
        } ask;
        struct {
            uint16_t first;
            uint16_t count;
            const uint8_t *sums; /* 8 bytes each */
        } buckets;
        struct {
            uint64_t view;
            uint64_t cursor; /* hash(id) above this */
            uint16_t first;
            uint16_t count; /* buckets wanted */
            uint16_t limit; /* of records */
        } list;
        struct {
            uint64_t view;
            uint64_t cursor;
            bool is_last;
        } page;
        struct {
            bool is_last;
            struct tr_span bytes;
        } part;
    } of;
};

/* Appends the head of a frame. */
void tr_frame_put(struct tr_writer *writer, const struct tr_frame *frame);

/* Append an entry: of OUTCOMES, ACKS, CLAIMS and DROP the key and the order, of OUTCOMES also flags
 * and times, of MARKS which places of the list; of WRITE, ANSWER and PAGE the whole record. */
void tr_frame_put_key(struct tr_writer *writer, const struct tr_record *record);
void tr_frame_put_mark(struct tr_writer *writer, const struct tr_record *record, uint8_t mask);
void tr_frame_put_outcome(struct tr_writer *writer, const struct tr_record *record,
                          int64_t due_in_ms);
void tr_frame_put_record(struct tr_writer *writer, const struct tr_frame_record *record);

/* At least what tr_frame_put_record takes. */
size_t tr_frame_record_bound(const struct tr_frame_record *record);

/* Reads the head of a frame; entries follow in the reader. False: it is none of this version. */
bool tr_frame_get(struct tr_reader *reader, struct tr_frame *frame);

/* The next entry. False at the end, or with reader->is_short set: it is broken. */
bool tr_frame_get_key(struct tr_reader *reader, struct tr_record *record);
bool tr_frame_get_mark(struct tr_reader *reader, struct tr_record *record, uint8_t *mask);
bool tr_frame_get_outcome(struct tr_reader *reader, struct tr_record *record, int64_t *due_in_ms);
bool tr_frame_get_record(struct tr_reader *reader, struct tr_frame_record *record);

#endif
