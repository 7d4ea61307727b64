/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log on disk: segments of batches of entries. docs/disk-format.md is the normative text.
 *
 * Positions are logical, 64 bits wide and never used twice: a segment's first position plus the
 * offset in its file. A batch has one checksum over its own position and the position that was
 * known to be synced when it was written: by the latter, a torn tail can be told from damage.
 *
 * When the format changes: raise TR_LOG_FORMAT, keep reading the older one, say so in
 * docs/disk-format.md, and add a segment of the older one to tests/data.
 */
#ifndef TR_WIRE_LOG_H
#define TR_WIRE_LOG_H

#include "base/bytes.h"
#include "base/pair.h"
#include "base/record.h"

#define TR_LOG_FORMAT           5
#define TR_LOG_FORMAT_PLAIN     4 /* of a segment that the version before can read, too */
#define TR_LOG_STORE_ID_SIZE    16
#define TR_LOG_INCARNATIONS_MAX 64
#define TR_LOG_NODES_MAX        1024
#define TR_LOG_ADDRESS_MAX      255
#define TR_LOG_BATCH_HEAD       32
#define TR_LOG_HEADER_MAX       (1024 + 16 * TR_LOG_INCARNATIONS_MAX + 260 * TR_LOG_NODES_MAX)
#define TR_LOG_ENTRY_HEAD_MAX   (1 + TR_VARINT_MAX)

/* A start of the node: a random number, and the position at which the start before it ended. */
struct tr_log_incarnation {
    uint64_t number;
    uint64_t start;
};

struct tr_log_header {
    uint8_t store_id[TR_LOG_STORE_ID_SIZE];
    uint16_t shard;
    uint16_t shard_count;
    uint32_t format;       /* TR_LOG_FORMAT_PLAIN or TR_LOG_FORMAT; of one that is read, any */
    uint64_t segment;      /* its number; the file is named by it */
    uint64_t oldest;       /* the first segment of the log when this one began */
    uint64_t first;        /* logical position of the header's first byte */
    uint64_t previous_end; /* where the segment before ends */
    uint64_t ceiling;      /* no stamp above it was given out */
    int64_t offset_ms;     /* wall time less steady time */
    uint32_t incarnation_count;
    struct tr_log_incarnation incarnations[TR_LOG_INCARNATIONS_MAX];
    uint32_t node_count;  /* entry 0 is this store */
    struct tr_span nodes; /* count times: varint size and address */
};

enum tr_log_header_status {
    TR_LOG_HEADER_OK,
    TR_LOG_HEADER_SPARE, /* only zeros: allocated, never used */
    TR_LOG_HEADER_NEWER, /* of a later format */
    TR_LOG_HEADER_BAD,
};

/* How many bytes the header takes, a multiple of 8; 0 if it does not fit. */
size_t tr_log_header_encode(const struct tr_log_header *header, uint8_t *bytes, size_t cap);
enum tr_log_header_status tr_log_header_decode(const uint8_t *bytes, size_t size,
                                               struct tr_log_header *header, size_t *header_size);

enum tr_log_type {
    TR_LOG_PADDING = 0,
    TR_LOG_RECORD = 1,    /* a full record */
    TR_LOG_SHORT = 2,     /* new sequence, attempt and due time of a record */
    TR_LOG_TOMBSTONE = 3, /* the end of a record, by order */
    TR_LOG_DROP = 4,      /* this store drops a record, by order; other stores are not concerned */
    TR_LOG_ADVICE = 5,    /* of a record: its last attempt and its fingerprint; all versions may
                             pass over it */
    TR_LOG_CEILING = 6,
    TR_LOG_INCARNATION = 7,
    TR_LOG_OFFSET = 8,
    TR_LOG_CLEAN_STOP = 9,
    TR_LOG_MEMBER = 10, /* a new entry of the node table */
    TR_LOG_OLDEST = 11, /* from format 2 on: segments before this number may go */
    /* From format 3 on: */
    TR_LOG_KEY = 12,        /* a key with its value */
    TR_LOG_KEY_EXPIRY = 13, /* another time for it to expire, and another callback */
    TR_LOG_KEY_END = 14,
    TR_LOG_KEY_FLOOR = 15, /* all keys of lower versions ended, at this time */
    TR_LOG_KEY_TIME = 16,  /* keys without a callback that had expired by this time are over */
    /* From format 4 on: */
    TR_LOG_ROSTER = 17, /* the nodes of the cluster, as they are from now on */
    TR_LOG_HEEDED = 18, /* those of the configuration, which was heeded */
};

struct tr_log_entry {
    enum tr_log_type type;
    struct tr_record
        record;      /* RECORD all of it; SHORT, TOMBSTONE, DROP and ADVICE the key and order */
    uint64_t number; /* CEILING, INCARNATION, OFFSET, OLDEST; MEMBER: its index */
    struct tr_span address; /* MEMBER; ROSTER and HEEDED: all of it, as bytes */
    struct tr_pair pair;    /* KEY; KEY_EXPIRY all but the value, KEY_END key and version,
                              * KEY_FLOOR version, and the time as its expiry, KEY_TIME the time */
};

/* Appends an entry; when it does not fit the writer is full, and its size is as before. Returns the
 * entry's size. */
size_t tr_log_put(struct tr_writer *writer, const struct tr_log_entry *entry);
size_t tr_log_put_record(struct tr_writer *writer, const struct tr_record *record);
size_t tr_log_put_short(struct tr_writer *writer, enum tr_log_type type,
                        const struct tr_head *head);
size_t tr_log_put_advice(struct tr_writer *writer, const struct tr_head *head,
                         uint64_t fingerprint);

/* At least what tr_log_put_record will take. */
size_t tr_log_record_bound(const struct tr_record *record);
size_t tr_log_head_bound(const struct tr_head *head);

enum tr_log_get_status { TR_LOG_GET_ONE, TR_LOG_GET_END, TR_LOG_GET_BAD };

/* The next entry of a batch's payload. An unknown type is bad: a newer format has its own
 * number. */
enum tr_log_get_status tr_log_get(struct tr_reader *reader, struct tr_log_entry *entry);

struct tr_log_batch {
    size_t offset; /* in the segment's file */
    size_t size;   /* with its head, a multiple of 8 */
    uint64_t position;
    uint64_t synced;
    const uint8_t *payload;
    size_t payload_size;
};

/* Completes a batch whose payload stands at bytes + TR_LOG_BATCH_HEAD: pads it and fills the head.
 * Returns its whole size. There must be 7 bytes of room after the payload. */
size_t tr_log_batch_seal(uint8_t *bytes, size_t payload_size, uint64_t position, uint64_t synced);

/* Whether a whole, sound batch of the segment that begins at `first` stands at `offset`. */
bool tr_log_batch_at(const uint8_t *bytes, size_t size, uint64_t first, size_t offset,
                     struct tr_log_batch *batch);

/* The same for a segment whose header is lost: the batch says itself where it stands. */
bool tr_log_batch_find_any(const uint8_t *bytes, size_t size, size_t offset,
                           struct tr_log_batch *batch);

/* The first sound batch at or after `offset`; false if there is none. */
bool tr_log_batch_find(const uint8_t *bytes, size_t size, uint64_t first, size_t offset,
                       struct tr_log_batch *batch);

/* A segment's file in memory. */
struct tr_log_segment {
    uint64_t number;
    const uint8_t *bytes;
    size_t size;
    /* Set by the check: */
    enum tr_log_header_status header_status;
    uint64_t first;
    size_t header_size;
    size_t valid_size; /* batches up to here are sound, one after another */
};

enum tr_log_verdict {
    TR_LOG_SOUND,
    TR_LOG_TORN, /* a tail that was never synced is cut: segments from `segment` at `offset` on */
    TR_LOG_DAMAGED, /* something that was synced is no longer there */
    TR_LOG_MISSING, /* a segment before another is not there */
    TR_LOG_TOO_NEW,
    TR_LOG_NO_MEMORY, /* sound, but more than the memory budget holds */
    TR_LOG_TOO_LARGE, /* sound, but with a timer that a batch of this segment size cannot hold */
};

struct tr_log_check {
    enum tr_log_verdict verdict;
    size_t segment; /* index into the segments */
    size_t offset;
    size_t used;         /* segments that hold anything to be replayed */
    uint64_t tail_bytes; /* of a torn tail */
    bool is_whole;       /* it begins with a batch that is there to its end: it may be damage */
};

/* Looks at all segments, in the order of their numbers: reads every byte once. */
struct tr_log_check tr_log_check(struct tr_log_segment *segments, size_t count);

#endif
