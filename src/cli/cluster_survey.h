/* SPDX-License-Identifier: Apache-2.0 */
/* What there is of a cluster that is to be changed: which nodes, and which of them stay. */
#ifndef TR_CLI_CLUSTER_SURVEY_H
#define TR_CLI_CLUSTER_SURVEY_H

#include "cli/cluster.h"
#include "cli/members.h"
#include "cli/target.h"

#define TR_APPLY_COMMAND "cluster apply"

struct tr_apply {
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
    char view[20]; /* that all should have, once one has said it */
};

bool tr_apply_is_target(const struct tr_apply *apply, const char *address);
bool tr_apply_is_staying(const struct tr_apply *apply, const char *address);

/* Asks every node of the old and the new cluster. False: nobody answers, and that was said. */
bool tr_apply_survey(struct tr_apply *apply);

#endif
