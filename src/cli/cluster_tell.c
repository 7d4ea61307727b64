/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes are told of a change: what differs from the cluster as it was found, proven. */
#include "cli/cluster_survey.h"

#include "proof/proof.h"
#include "wire/address.h"

#include <stdlib.h>
#include <string.h>

bool tr_apply_is_lost(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    bool is_named = apply->verb == TR_VERB_APPLY || tr_apply_is_named(apply, member->address);
    bool is_heard = false;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (!told->is_reached || !tr_apply_is_target(apply, apply->members.list[i].address))
            continue;
        for (size_t k = 0; k < told->seen_count; k++)
            is_heard |= strcmp(told->seen[k].address, member->address) == 0 &&
                        strcmp(told->seen[k].state, "down") != 0;
    }
    return apply->is_forced && is_named && !is_heard;
}

/* What is to be changed of a node; NULL: nothing. */
static const char *change_of(const struct tr_apply *apply, const struct tr_told *word,
                             const struct tr_cluster_member *member)
{
    const char *now = word == NULL ? "" : tr_told_role(word, member->address);
    const char *wanted = tr_apply_role(apply, member->address);
    if (strcmp(wanted, "leaving") == 0 && tr_apply_is_lost(apply, member))
        wanted = "lost";
    bool is_so = strcmp(wanted, "staying") == 0 || strcmp(wanted, now) == 0 ||
                 (strcmp(wanted, "leaving") == 0 && strcmp(now, "lost") == 0);
    return is_so ? NULL : wanted;
}

/* What differs from the cluster as it was found, and no more: somebody else may have changed the
 * rest since. A check changes nothing. */
static size_t write_change(const struct tr_apply *apply, bool is_check, char *text)
{
    const struct tr_told *word = tr_apply_find_word(apply);
    size_t size =
        (size_t)snprintf(text, TR_TARGET_TEXT, "[cluster]\n%s", is_check ? "check = yes\n" : "");
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        const char *change = change_of(apply, word, member);
        if (change != NULL)
            size += (size_t)snprintf(text + size, TR_TARGET_TEXT - size, "%s = %s\n", change,
                                     member->address);
    }
    return size;
}

static void write_proof(const struct tr_apply *apply, const struct tr_told *told, const char *text,
                        size_t size, char hex[2 * TR_PROOF_SIZE + 1])
{
    uint8_t proof[TR_PROOF_SIZE];
    uint8_t *oath = tr_allocate(TR_TARGET_TEXT + 1024, 1);
    struct tr_writer out = tr_writer_on(oath, TR_TARGET_TEXT + 1024);
    struct tr_span address = {told->node, strlen(told->node)};
    struct tr_span secret = {apply->secret, strlen(apply->secret)};
    tr_greeting_apply_oath(&out, address, strtoull(told->challenge, NULL, 16),
                           (struct tr_span){text, size});
    tr_proof(secret, (struct tr_span){(const char *)oath, out.size}, proof);
    for (unsigned i = 0; i < TR_PROOF_SIZE; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", proof[i]);
    free(oath);
}

static void say_refused(const struct tr_apply *apply, const struct tr_cluster_member *member,
                        const struct tr_reply *reply)
{
    bool is_secret = reply->status == 403 && tr_reply_says(reply, "must prove");
    if (is_secret && apply->secret[0] == '\0')
        tr_failure(apply->command,
                   "%s wants the cluster's secret: --secret-file, or TRYST_CLUSTER_SECRET",
                   member->address);
    else if (is_secret)
        tr_failure(apply->command, "%s has another secret than the one that was given",
                   member->address);
    else {
        tr_failure(apply->command, "%s refuses:", member->address);
        tr_reply_refused(apply->command, reply);
    }
}

static bool tell(struct tr_apply *apply, const struct tr_cluster_member *member, const char *text,
                 size_t size, bool *has_answered)
{
    char *request = tr_allocate(TR_TARGET_TEXT + 1024, 1);
    char proof[2 * TR_PROOF_SIZE + 1];
    struct tr_told told;
    struct tr_reply reply;
    bool is_told = false;
    *has_answered = false;
    if (tr_told_ask(apply->command, member->address, true,
                    &told)) { /* its challenge is good once */
        write_proof(apply, &told, text, size, proof);
        int head = snprintf(request, 1024,
                            "PUT /cluster HTTP/1.1\r\nHost: node\r\nConnection: close\r\n"
                            "Tryst-Proof: %s\r\nContent-Length: %zu\r\n\r\n",
                            proof, size);
        memcpy(request + head, text, size);
        if (tr_node_ask(NULL, member->address, request, (size_t)head + size, &reply)) {
            *has_answered = true;
            is_told = reply.status == 200;
            if (!is_told)
                say_refused(apply, member, &reply);
            tr_reply_free(&reply);
        }
        tr_told_free(&told);
    }
    free(request);
    return is_told;
}

bool tr_apply_check_all(struct tr_apply *apply)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_change(apply, true, text);
    bool is_good = true;
    for (size_t i = 0; i < apply->members.count && is_good; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        bool has_answered = false;
        if (!member->told.is_reached)
            continue;
        is_good = tell(apply, member, text, size, &has_answered);
        if (!has_answered)
            tr_failure(apply->command, "%s does not answer", member->address);
    }
    free(text);
    return is_good;
}

bool tr_apply_ask(struct tr_apply *apply)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_change(apply, false, text);
    bool is_told = false;
    bool has_answered = false;
    for (size_t n = 0; n < 2 * apply->members.count && !has_answered; n++) {
        const struct tr_cluster_member *member = &apply->members.list[n % apply->members.count];
        bool is_turn = n >= apply->members.count || tr_apply_is_staying(apply, member->address);
        if (!is_turn || !member->is_old || !member->told.is_reached ||
            strcmp(member->told.role, "gone") == 0)
            continue;
        is_told = tell(apply, member, text, size, &has_answered);
        if (!has_answered)
            tr_failure(apply->command, "%s does not answer", member->address);
    }
    free(text);
    return is_told;
}
