/* SPDX-License-Identifier: Apache-2.0 */
/* What there is of a cluster that is to be changed: which nodes, and which of them stay. */
#ifndef TR_CLI_CLUSTER_SURVEY_H
#define TR_CLI_CLUSTER_SURVEY_H

#include "cli/cluster.h"
#include "cli/members.h"
#include "cli/target.h"

enum tr_verb { TR_VERB_APPLY, TR_VERB_JOIN, TR_VERB_LEAVE };

struct tr_apply {
    enum tr_verb verb;
    const char *command; /* for messages */
    char **addresses;    /* of join and leave */
    size_t address_count;
    struct tr_target target;
    const char *node;
    const char *secret_file;
    bool is_dry;
    bool is_sure;
    bool is_forced;
    bool is_help;
    char secret[TR_TARGET_SECRET];
    struct tr_cluster_members members; /* old and new */
    char (*staying)[TR_MEMBER_NAME];   /* of the target, those that are there already */
    size_t staying_count;
    char cluster[20]; /* that is to be changed */
};

bool tr_apply_is_target(const struct tr_apply *apply, const char *address);
bool tr_apply_is_staying(const struct tr_apply *apply, const char *address);
bool tr_apply_is_named(const struct tr_apply *apply, const char *address); /* of join and leave */

/* What a node is to be: staying, joining or leaving. */
const char *tr_apply_role(const struct tr_apply *apply, const char *address);

/* The node whose word counts: it has the highest epoch of those that are of the cluster. */
const struct tr_told *tr_apply_find_word(const struct tr_apply *apply);

/* A node that is to go is lost if it is down and that was said of it: named to leave, or not in the
 * file, with --force. It is down if nobody who stays hears it, though it may answer here. */
bool tr_apply_is_lost(const struct tr_apply *apply, const struct tr_cluster_member *member);

/* Of join and leave: the nodes that the cluster shall have, by what one of them says. False: nobody
 * answers, and that was said. */
bool tr_apply_find_target(struct tr_apply *apply);

/* Asks every node of the old and the new cluster. False: nobody answers, and that was said. */
bool tr_apply_survey(struct tr_apply *apply);

/* Whether all who are there would heed what this command says: one of them may have another
 * secret. (cluster_tell.c) */
bool tr_apply_check_all(struct tr_apply *apply);
/* Asks for the change: of any member that stays; if none does, of any. */
bool tr_apply_ask(struct tr_apply *apply);

/* Until no change is under way, and all who are of the cluster know that. (cluster_watch.c) */
void tr_apply_watch(struct tr_apply *apply);

#endif
