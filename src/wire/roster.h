/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: which nodes the cluster has, with their roles and their positions on the ring of
 * keys, and how keys are spread over them, in which epoch. It is what the nodes of a cluster agree
 * on; each change of it is a new epoch. It is written to the log and sent to other nodes in one
 * form, the same on every node, and known by a hash of that.
 *
 * Owns:    what is in the struct; nothing else.
 * Bounds:  TR_VIEW_NODES_MAX nodes, TR_POSITIONS_MAX positions of each.
 */
#ifndef TR_WIRE_ROSTER_H
#define TR_WIRE_ROSTER_H

#include "base/bytes.h"
#include "wire/log.h"

#define TR_VIEW_NODES_MAX 256

/* The new cluster is what stays and what joins; the old one is what stays and what leaves. A lost
 * node is in neither: the operator has said that it will not come back. */
enum tr_role {
    TR_ROLE_NONE,
    TR_ROLE_STAYING,
    TR_ROLE_JOINING,
    TR_ROLE_LEAVING,
    TR_ROLE_LOST,
};

#define TR_EPOCH_MAX (UINT64_MAX / 2) /* a higher one is nonsense */

#define TR_POSITIONS_MAX  32
#define TR_COPIES_MAX     7
#define TR_PARTITIONS_MAX ((uint64_t)1 << 32)

/* Bytes that the largest roster takes. */
#define TR_ROSTER_SIZE_MAX                                                                         \
    (128 + TR_VIEW_NODES_MAX * (TR_LOG_ADDRESS_MAX + 6 + 5 * TR_POSITIONS_MAX))

/* How keys are spread over the nodes, as CREATE KEYSPACE says. */
struct tr_definition {
    uint64_t partitions; /* of the ring; 0: there is no keyspace */
    uint8_t copies;      /* nodes of a preference list, */
    uint8_t reads;       /* of which so many are to answer a read, */
    uint8_t writes;      /* and so many to have a write */
    uint8_t positions;   /* that a node takes when it joins, unless it is told which */
    bool is_assumed;     /* a single node's own: nobody has asked for it */
};

struct tr_roster_node {
    enum tr_role role;
    uint8_t address_size;
    uint8_t position_count; /* 0: there is no keyspace */
    char address[TR_LOG_ADDRESS_MAX];
    uint32_t positions[TR_POSITIONS_MAX];
};

struct tr_roster {
    uint64_t cluster;          /* a hash of the nodes that it began with: whose epochs these are */
    uint64_t epoch;            /* from 1 on; 0: there is none */
    uint64_t id;               /* of this very roster, by tr_roster_seal */
    struct tr_definition keys; /* as it is when all that is under way is through, */
    struct tr_definition before; /* and as it was before */
    uint64_t floor;              /* keys of a lower version have ended, all at once */
    uint32_t count;
    struct tr_roster_node nodes[TR_VIEW_NODES_MAX]; /* by address */
};

/* What became of a change that was asked for. */
enum tr_change {
    TR_CHANGE_MADE,
    TR_CHANGE_NONE,        /* it is so already */
    TR_CHANGE_BUSY,        /* another one is under way */
    TR_CHANGE_DOWN,        /* a member is down, or has not heard of the present roster */
    TR_CHANGE_OLDER,       /* a member is of an older version */
    TR_CHANGE_UP,          /* a node that is to be lost is up */
    TR_CHANGE_FULL,        /* there is no room for so many nodes */
    TR_CHANGE_LAST,        /* no node would be left */
    TR_CHANGE_GONE,        /* the node that was asked is no member itself */
    TR_CHANGE_NO_POSITION, /* on the ring is left, or those that were asked for are not free */
    TR_CHANGE_EXISTS,      /* there is a keyspace already */
    TR_CHANGE_NO_KEYSPACE, /* there is none */
};

static inline struct tr_span tr_roster_address(const struct tr_roster *roster, uint32_t index)
{
    TR_ASSERT(index < roster->count);
    return (struct tr_span){roster->nodes[index].address, roster->nodes[index].address_size};
}

/* TR_ROLE_NONE: it is not there. */
enum tr_role tr_roster_role(const struct tr_roster *roster, struct tr_span address);

/* Adds a node, or gives one another role; TR_ROLE_NONE takes it out. False: there is no room. It is
 * to be sealed then. */
bool tr_roster_set(struct tr_roster *roster, struct tr_span address, enum tr_role role);

/* NULL: it is not there. */
struct tr_roster_node *tr_roster_find(struct tr_roster *roster, struct tr_span address);

void tr_roster_sort_positions(struct tr_roster_node *node);

bool tr_definition_is_sound(const struct tr_definition *keys);
bool tr_definition_is_same(const struct tr_definition *a, const struct tr_definition *b);

/* Gives it its id. */
void tr_roster_seal(struct tr_roster *roster);

/* Whether nodes join, leave or are lost, or keys are to be spread in another way: the epoch is not
 * a final one. */
bool tr_roster_is_changing(const struct tr_roster *roster);

/* What it is when all of that is through: the next epoch. */
void tr_roster_finish(struct tr_roster *roster);

/* Above 0: `a` is to hold; below: `b`. Of one cluster. */
int tr_roster_compare(uint64_t epoch_a, uint64_t id_a, uint64_t epoch_b, uint64_t id_b);

void tr_roster_put(struct tr_writer *writer, const struct tr_roster *roster);

/* False: it is none. Its epoch may be 0, which whoever takes it for a roster in force refuses. */
bool tr_roster_get(struct tr_reader *reader, struct tr_roster *roster);

#endif
