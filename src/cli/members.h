/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster as its nodes tell it: each is asked for what it sees. */
#ifndef TR_CLI_MEMBERS_H
#define TR_CLI_MEMBERS_H

#include "cli/node.h"

#define TR_MEMBER_NAME 256

/* Another node, as one sees it. */
struct tr_seen {
    char address[TR_MEMBER_NAME];
    char role[16];  /* staying, joining, leaving, lost or gone */
    char state[32]; /* up, down, or on its way */
    bool has_same_view;
    bool is_behind;
    uint64_t heard_ms;
    int64_t clock_ms;
    uint64_t queued;
    uint64_t pending;
    uint64_t fill;
};

/* What a node says of itself and of the others. */
struct tr_told {
    bool is_reached;
    char why[320]; /* it is not reached */
    char node[TR_MEMBER_NAME];
    char role[16];
    char state[32];
    char view[20];
    char cluster[20]; /* which it belongs to */
    uint64_t epoch;
    bool is_changing;               /* nodes join, leave or are lost */
    bool has_waiting;               /* its configuration asks for a change that has to wait */
    char waits_for[TR_MEMBER_NAME]; /* whom the change waits for, or nobody */
    char challenge[20];
    char version[32];
    uint64_t uptime_s;
    uint64_t memory;      /* bytes, */
    uint64_t memory_most; /* of so many */
    uint64_t log;
    uint64_t disk_free; /* 0: not told */
    bool has_secret;
    bool is_rebalancing;
    uint64_t held;
    uint64_t to_rebalance;
    uint64_t moving;
    uint64_t walked; /* per cent */
    uint64_t keys;
    bool are_keys_moving;
    struct tr_seen *seen;
    size_t seen_count;
};

/* Asks a node; false: it cannot be reached, or says nothing that is understood. `is_quiet`: it is
 * not said why. */
bool tr_told_ask(const char *command, const char *address, bool is_quiet, struct tr_told *told);
void tr_told_free(struct tr_told *told);
/* What it calls a node, itself too; "gone" if it does not know of it. */
const char *tr_told_role(const struct tr_told *told, const char *address);

/* A node of the cluster, and what it tells. */
struct tr_cluster_member {
    char address[TR_MEMBER_NAME];
    struct tr_told told;
    bool is_old; /* for apply: it is of the cluster as it was found */
};

struct tr_cluster_members {
    struct tr_cluster_member *list; /* by address */
    size_t count;
};

/* The contact and all nodes that it sees, each asked in turn. False: the contact is not there. */
bool tr_members_ask(const char *command, const char *contact, struct tr_cluster_members *members);
struct tr_cluster_member *tr_members_add(struct tr_cluster_members *members, const char *address);
struct tr_cluster_member *tr_members_find(const struct tr_cluster_members *members,
                                          const char *address);
void tr_members_free(struct tr_cluster_members *members);

tr_command tr_command_cluster_status;
tr_command tr_command_cluster_apply;

#endif
