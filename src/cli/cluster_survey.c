/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster_survey.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX 256

bool tr_apply_is_target(const struct tr_apply *apply, const char *address)
{
    return tr_target_has(&apply->target, address);
}

bool tr_apply_is_staying(const struct tr_apply *apply, const char *address)
{
    for (size_t i = 0; i < apply->staying_count; i++) {
        if (strcmp(apply->staying[i], address) == 0)
            return true;
    }
    return false;
}

/* The node that speaks for the cluster as it is: the one named, or the first of the file that knows
 * others, or the first that answers. */
static bool find_contact(const struct tr_apply *apply, char contact[TR_MEMBER_NAME])
{
    const char *from_environment = getenv("TRYST_NODE");
    const char *named = apply->node != NULL ? apply->node : from_environment;
    contact[0] = '\0';
    if (named != NULL && named[0] != '\0') {
        snprintf(contact, TR_MEMBER_NAME, "%s", named);
        return true;
    }
    for (size_t i = 0; i < apply->target.count; i++) {
        struct tr_told told;
        if (!tr_told_ask(apply->command, apply->target.list[i], true, &told))
            continue;
        bool knows_others = told.seen_count > 0;
        tr_told_free(&told);
        if (contact[0] == '\0' || knows_others)
            snprintf(contact, TR_MEMBER_NAME, "%s", apply->target.list[i]);
        if (knows_others)
            return true;
    }
    if (contact[0] == '\0')
        tr_failure(apply->command, "no node of %s can be reached; --node names one of the cluster",
                   apply->target.path);
    return contact[0] != '\0';
}

static void add_target(struct tr_apply *apply, const char *address)
{
    struct tr_target *target = &apply->target;
    if (tr_target_has(target, address))
        return;
    target->list = tr_reallocate(target->list, target->count + 1, sizeof *target->list);
    snprintf(target->list[target->count++], TR_MEMBER_NAME, "%s", address);
}

bool tr_apply_is_named(const struct tr_apply *apply, const char *address)
{
    for (size_t i = 0; i < apply->address_count; i++) {
        if (strcmp(apply->addresses[i], address) == 0)
            return true;
    }
    return false;
}

static void add_member(struct tr_apply *apply, const char *address, const char *role)
{
    bool is_in = strcmp(role, "staying") == 0 || strcmp(role, "joining") == 0;
    if (is_in && !(apply->verb == TR_VERB_LEAVE && tr_apply_is_named(apply, address)))
        add_target(apply, address);
}

bool tr_apply_find_target(struct tr_apply *apply)
{
    struct tr_told told;
    const char *contact = tr_node_address_or_default(apply->node);
    if (!tr_told_ask(apply->command, contact, false, &told))
        return false;
    apply->node = contact;
    add_member(apply, told.node, told.role);
    for (size_t i = 0; i < told.seen_count; i++)
        add_member(apply, told.seen[i].address, told.seen[i].role);
    for (size_t i = 0; apply->verb == TR_VERB_JOIN && i < apply->address_count; i++)
        add_target(apply, apply->addresses[i]);
    bool is_known = true;
    for (size_t i = 0; apply->verb == TR_VERB_LEAVE && i < apply->address_count; i++) {
        if (strcmp(tr_told_role(&told, apply->addresses[i]), "gone") != 0)
            continue;
        is_known = false;
        tr_failure(apply->command, "%s is no node of this cluster", apply->addresses[i]);
    }
    tr_told_free(&told);
    return is_known;
}

static void note_staying(struct tr_apply *apply, const char *address)
{
    if (!tr_apply_is_target(apply, address) || tr_apply_is_staying(apply, address))
        return;
    apply->staying =
        tr_reallocate(apply->staying, apply->staying_count + 1, sizeof *apply->staying);
    snprintf(apply->staying[apply->staying_count++], TR_MEMBER_NAME, "%s", address);
}

/* Whether any node calls another one so. */
static bool is_called(const struct tr_apply *apply, const char *address, const char *role)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        for (size_t k = 0; k < told->seen_count; k++) {
            if (strcmp(told->seen[k].address, address) == 0 &&
                strcmp(told->seen[k].role, role) == 0)
                return true;
        }
    }
    return false;
}

/* Of the target those stay that the cluster calls so, and nobody calls joining. One that knows
 * nobody says so of itself, and may not even have heard that it is to join. */
static void find_staying(struct tr_apply *apply, const char *contact)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        const char *address = apply->members.list[i].address;
        bool is_heard = told->seen_count > 0 || strcmp(address, contact) == 0;
        bool says_so = told->is_reached && is_heard && strcmp(told->role, "staying") == 0;
        if ((says_so || is_called(apply, address, "staying")) &&
            !is_called(apply, address, "joining"))
            note_staying(apply, address);
    }
}

/* Adds the nodes that a member sees and that have not left. True: there was one to add. */
static bool add_seen(struct tr_apply *apply, size_t index)
{
    const struct tr_told told = apply->members.list[index].told; /* the list may move */
    for (size_t i = 0; i < told.seen_count; i++) {
        if (strcmp(told.seen[i].role, "gone") == 0 ||
            tr_members_find(&apply->members, told.seen[i].address) != NULL)
            continue;
        struct tr_cluster_member *member = tr_members_add(&apply->members, told.seen[i].address);
        tr_told_ask(apply->command, member->address, true, &member->told);
        return true;
    }
    return false;
}

/* The old nodes are those that the contact and its peers name; the new ones, those of the file. */
bool tr_apply_survey(struct tr_apply *apply)
{
    char contact[TR_MEMBER_NAME];
    struct tr_told told;
    if (!find_contact(apply, contact) || !tr_told_ask(apply->command, contact, false, &told))
        return false;
    snprintf(contact, sizeof contact, "%s", told.node);
    snprintf(apply->cluster, sizeof apply->cluster, "%s", told.cluster);
    tr_members_add(&apply->members, contact)->told = told;
    for (size_t i = 0; i < apply->members.count && apply->members.count <= NODES_MAX;)
        i = add_seen(apply, i) ? 0 : i + 1;
    for (size_t i = 0; i < apply->members.count; i++)
        apply->members.list[i].is_old = true;
    find_staying(apply, contact);
    for (size_t i = 0; i < apply->target.count; i++) {
        if (tr_members_find(&apply->members, apply->target.list[i]) != NULL)
            continue;
        struct tr_cluster_member *member = tr_members_add(&apply->members, apply->target.list[i]);
        tr_told_ask(apply->command, member->address, true, &member->told);
    }
    if (apply->members.count > NODES_MAX)
        tr_failure(apply->command, "these are more than %d nodes, and no cluster has so many",
                   NODES_MAX);
    return apply->members.count <= NODES_MAX;
}

const char *tr_apply_role(const struct tr_apply *apply, const char *address)
{
    return !tr_apply_is_target(apply, address)   ? "leaving"
           : tr_apply_is_staying(apply, address) ? "staying"
                                                 : "joining";
}

const struct tr_told *tr_apply_find_word(const struct tr_apply *apply)
{
    const struct tr_told *word = NULL;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (told->is_reached && strcmp(told->cluster, apply->cluster) == 0 &&
            (word == NULL || told->epoch > word->epoch))
            word = told;
    }
    return word;
}
