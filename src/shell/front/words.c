/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/words.h"

#include "base/assert.h"
#include "node/node.h"
#include "wire/address.h"

#include <stdio.h>

struct tr_words tr_words_of(enum tr_result result)
{
    static const struct {
        unsigned status;
        const char *detail;
    } words[TR_RESULTS] = {
        [TR_DONE] = {200, NULL},
        [TR_NOT_FOUND] = {404, "there is no such timer"},
        [TR_NO_DEAD_POP] = {404, "this timer has no such dead pop"},
        [TR_FACTOR_DISAGREES] = {400, "reliability.replication-factor disagrees with the timer's "
                                      "id"},
        [TR_FACTOR_IS_FIXED] = {400, "the timer was made with another replication factor"},
        [TR_VERSION_AHEAD] = {400, "restore.version is of a time to come: this node's clock is "
                                   "behind that of the cluster the backup is of"},
        [TR_CONDITION_FAILED] = {412,
                                 "the timer is not, or no longer, as the request wants it: GET "
                                 "it, and ask again with its ETag"},
        [TR_KEY_REUSED] = {422, "this Idempotency-Key came before with another body: a new request "
                                "has a key of its own"},
        [TR_KEY_BUSY] = {409, "a request with this Idempotency-Key is under way: ask again"},
        [TR_NAME_TAKEN] = {409, "another timer has the id that this name stands for"},
        [TR_NO_ZONE] = {400, "timing.zone is no zone that this node knows: names are those of the "
                             "package tzdata, or UTC"},
        [TR_NEVER_DUE] = {400, "timing says that it never pops"},
        [TR_RESYNC_INCOMPLETE] = {400, "node-for-replicas and cluster-view-id go together"},
        [TR_RESYNC_OTHER_VIEW] = {400,
                                  "this node has another cluster-view-id; GET /cluster tells it"},
        [TR_RESYNC_NO_NODE] = {400, "node-for-replicas is no node of this cluster"},
        [TR_STARTING] = {503, "the node is starting"},
        [TR_OLDER_MEMBER] = {503, "a node of the cluster is of an older version, which cannot hold "
                                  "such a timer: upgrade it first: "},
        [TR_STOPPING] = {503, "the node is stopping"},
        [TR_CLOCK_AHEAD] = {503, "this node's clock is ahead of the others'"},
        [TR_DISK_FULL] = {507, "the disk is full"},
        [TR_DISK_SLOW] = {503, "the disk is too slow for this load"},
        [TR_TOO_MANY_WRITES] = {503, "too many writes at once"},
        [TR_TOO_MANY_REQUESTS] = {503, "too many requests at once"},
        [TR_MEMORY_FULL] = {503, "the memory budget is used up"},
        [TR_REPLICA_FULL] = {503, "a replica is full"},
        [TR_NO_NODE_UP] = {503, "no node that could hold it is up"},
        [TR_NO_ANSWER] = {503, "a node that may have it did not answer"},
        [TR_NO_KEYSPACE] = {503, "there is no keyspace: CREATE KEYSPACE makes one"},
        [TR_NO_MEMBER] = {503, "this node is no member of the cluster"},
        [TR_UNKNOWN] = {503, "the outcome is unknown: retry as PUT"},
    };
    static const char *const types[TR_RESULTS] = {
        [TR_CONDITION_FAILED] = TR_PROBLEM_PRECONDITION, [TR_KEY_REUSED] = TR_PROBLEM_KEY_REUSED,
        [TR_DISK_FULL] = TR_PROBLEM_DISK_FULL,           [TR_MEMORY_FULL] = TR_PROBLEM_MEMORY_FULL,
        [TR_REPLICA_FULL] = TR_PROBLEM_MEMORY_FULL,      [TR_UNKNOWN] = TR_PROBLEM_UNKNOWN_OUTCOME,
    };
    TR_ASSERT(result < TR_RESULTS && words[result].status != 0);
    return (struct tr_words){words[result].status, words[result].detail, types[result]};
}

void tr_words_problem(struct tr_problem *problem, const struct tr_node *node, enum tr_result result)
{
    struct tr_words words = tr_words_of(result);
    char address[TR_HOST_MAX + 8] = "";
    if (result == TR_OLDER_MEMBER) {
        struct tr_span older = tr_node_older_member(node);
        snprintf(address, sizeof address, "%.*s", (int)older.size, older.text);
    }
    tr_problem_set(problem, words.status, words.detail, address, NULL);
    problem->type = words.type;
    problem->retry_after_s = tr_result_is_refusal(result);
}
