/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of sim/pairs.h share: clients (pairs.c), the operator, scans, and what must hold
 * after healing. */
#ifndef TR_SIM_PAIRS_PARTS_H
#define TR_SIM_PAIRS_PARTS_H

#include "sim/pairs.h"

#define KEYS       12   /* that are written, read and deleted; */
#define COUNTERS   3    /* the last of them are added to, and nothing else */
#define WRITES_MAX 2048 /* of a life */
#define OPEN_KEYS  64
#define NEVER      UINT64_MAX

/* A write of a key by a client. */
struct key_write {
    uint32_t key;
    uint32_t appointment; /* of the timers' model; 0: none */
    uint64_t version;     /* known when it is answered */
    uint64_t expires_ms;  /* true time */
    bool is_end;          /* a deletion */
    bool is_acked;
    bool is_refused; /* nothing has come of it */
    unsigned copies; /* when it was acknowledged */
};

enum ask_kind { ASK_READ, ASK_WRITE, ASK_DELETE, ASK_COUNT };

struct key_open {
    uint64_t token;
    enum ask_kind kind;
    uint32_t machine;
    uint32_t key;
    uint32_t write;        /* 0: a read */
    uint64_t acknowledged; /* of a read: the highest version that was, when it was asked for */
    bool is_sure;          /* of a read: nothing was wrong then */
    uint64_t epoch;        /* of the cluster, when it was asked for */
};

/* A client that goes through all keys, page by page. */
struct key_scan {
    uint64_t token; /* of the page that is awaited; 0: none is */
    uint32_t machine;
    uint64_t cursor;
    bool is_on;
    bool is_sure;
    bool was_throughout[KEYS]; /* it has been there since the scan began, */
    bool was_kept[KEYS];       /* on so many nodes that faults were no excuse then, */
    bool was_seen[KEYS];       /* and the scan has told of it */
};

struct sim_pairs {
    struct key_scan scan;
    char names[KEYS][16];
    uint64_t acked[KEYS];  /* the highest version that was acknowledged, */
    uint64_t shared[KEYS]; /* and the highest that two nodes had then */
    uint64_t floor;        /* all below it may have ended; 0: nothing was flushed */
    int64_t counted[COUNTERS];
    int64_t uncertain[COUNTERS];
    uint8_t numbers[COUNTERS][WRITES_MAX]; /* that were answered */
    struct key_write writes[WRITES_MAX];   /* [0] is none */
    uint32_t write_count;
    struct key_open open[OPEN_KEYS];
    uint32_t open_count;
    uint64_t token;
    bool has_quorums; /* of all definitions so far: any read meets any write */
    char value[OPAQUE_MAX];
    char uri[64];
};

/* By the address of a node. */
uint32_t sim_pairs_machine(const struct world *world, struct tr_span address);

/* Whether what was acknowledged must be seen: nobody failed, or stood in for another lately. */
bool sim_pairs_are_sure(const struct world *world);

/* What is there of a key, for one who knows of what was acknowledged up to a version. */
void sim_pairs_check_one(struct world *world, uint32_t key, uint64_t acknowledged, bool is_there,
                         uint64_t version, struct tr_span value);
/* Whether whoever asked has yet to hear what has come of a write. */
bool sim_pairs_is_unanswered(const struct key_write *write);

/* All that was written under a lower version may be gone. */
void sim_pairs_flushed(struct world *world, uint64_t floor);

/* Scans: one goes on, or begins; and what it is told. */
void sim_pairs_scan_on(struct world *world);
void sim_pairs_scan_begin(struct world *world, uint32_t index);
void sim_pairs_scan_hear(struct world *world, uint32_t index, const struct tr_effect *effect);

extern const struct sim_key_calls sim_pairs_calls;

#endif
