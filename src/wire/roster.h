/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: which nodes the cluster has, with their roles, in which epoch. It is what the nodes
 * of a cluster agree on; each change of it is a new epoch. It is written to the log and sent to
 * other nodes in one form, the same on every node, and known by a hash of that.
 *
 * Owns:    what is in the struct; nothing else.
 * Bounds:  TR_VIEW_NODES_MAX nodes.
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

/* Bytes that the largest roster takes. */
#define TR_ROSTER_SIZE_MAX (64 + TR_VIEW_NODES_MAX * (TR_LOG_ADDRESS_MAX + 4))

struct tr_roster_node {
    enum tr_role role;
    uint8_t address_size;
    char address[TR_LOG_ADDRESS_MAX];
};

struct tr_roster {
    uint64_t cluster; /* a hash of the nodes that it began with: whose epochs these are */
    uint64_t epoch;   /* from 1 on; 0: there is none */
    uint64_t id;      /* of this very roster, by tr_roster_seal */
    uint32_t count;
    struct tr_roster_node nodes[TR_VIEW_NODES_MAX]; /* by address */
};

/* What became of a change that was asked for. */
enum tr_change {
    TR_CHANGE_MADE,
    TR_CHANGE_NONE,  /* it is so already */
    TR_CHANGE_BUSY,  /* another one is under way */
    TR_CHANGE_DOWN,  /* a member is down, or has not heard of the present roster */
    TR_CHANGE_OLDER, /* a member is of an older version */
    TR_CHANGE_UP,    /* a node that is to be lost is up */
    TR_CHANGE_FULL,  /* there is no room for so many nodes */
    TR_CHANGE_LAST,  /* no node would be left */
    TR_CHANGE_GONE,  /* the node that was asked is no member itself */
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

/* Gives it its id. */
void tr_roster_seal(struct tr_roster *roster);

/* Whether nodes join, leave or are lost: the epoch is not a final one. */
bool tr_roster_is_changing(const struct tr_roster *roster);

/* What it is when all of that is through: the next epoch. */
void tr_roster_finish(struct tr_roster *roster);

/* Above 0: `a` is to hold; below: `b`. Of one cluster. */
int tr_roster_compare(uint64_t epoch_a, uint64_t id_a, uint64_t epoch_b, uint64_t id_b);

void tr_roster_put(struct tr_writer *writer, const struct tr_roster *roster);

/* False: it is none. */
bool tr_roster_get(struct tr_reader *reader, struct tr_roster *roster);

#endif
