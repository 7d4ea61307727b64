/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/view.h"

#include "base/hash.h"
#include "wire/address.h"
#include "wire/ini.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "cluster.conf"

struct nodes {
    struct tr_config_node list[TR_VIEW_NODES_MAX];
    uint32_t count;
    uint64_t configured; /* what stood in the configuration when it was applied */
    bool is_check;       /* it is only to be said whether they would be taken */
};

/* Of the nodes in the configuration, in whatever order. */
static uint64_t hash_of(const struct tr_config *config)
{
    uint64_t hash = config->node_count;
    for (uint32_t i = 0; i < config->node_count; i++) {
        const char *address = config->nodes[i].address;
        hash +=
            tr_hash_mix(tr_hash_xxh3(address, strlen(address)) + (uint64_t)config->nodes[i].role);
    }
    return hash;
}

static bool fail(struct tr_problem *problem, const char *detail)
{
    tr_problem_set(problem, 400, detail, NULL);
    return false;
}

static bool add(struct nodes *nodes, enum tr_role role, struct tr_span address,
                struct tr_problem *problem)
{
    const char *fault = tr_address_fault(address);
    if (fault != NULL)
        return fail(problem, fault);
    if (nodes->count == TR_VIEW_NODES_MAX)
        return fail(problem, "these are more nodes than a cluster can have");
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct tr_span other = {nodes->list[i].address, strlen(nodes->list[i].address)};
        if (tr_span_equals(other, address))
            return fail(problem, "a node is named twice");
    }
    struct tr_config_node *node = &nodes->list[nodes->count++];
    *node = (struct tr_config_node){.role = role};
    memcpy(node->address, address.text, address.size);
    return true;
}

static enum tr_role role_of(struct tr_span key)
{
    return tr_span_equals(key, TR_SPAN("node"))      ? TR_ROLE_STAYING
           : tr_span_equals(key, TR_SPAN("joining")) ? TR_ROLE_JOINING
           : tr_span_equals(key, TR_SPAN("leaving")) ? TR_ROLE_LEAVING
           : tr_span_equals(key, TR_SPAN("lost"))    ? TR_ROLE_LOST
                                                     : TR_ROLE_NONE;
}

static bool parse(struct tr_span text, struct nodes *nodes, struct tr_problem *problem)
{
    struct tr_ini ini;
    enum tr_ini_step step;
    nodes->count = 0;
    nodes->configured = 0;
    tr_ini_init(&ini, text);
    while ((step = tr_ini_next(&ini)) == TR_INI_VALUE) {
        enum tr_role role = role_of(ini.key);
        bool is_ours = tr_span_equals(ini.section, TR_SPAN("cluster"));
        char number[20] = {0};
        if (is_ours && tr_span_equals(ini.key, TR_SPAN("check"))) {
            nodes->is_check = tr_span_equals(ini.value, TR_SPAN("yes"));
        } else if (is_ours && tr_span_equals(ini.key, TR_SPAN("configured")) &&
                   ini.value.size == 16) {
            memcpy(number, ini.value.text, 16);
            nodes->configured = strtoull(number, NULL, 16);
        } else if (!is_ours || role == TR_ROLE_NONE) {
            return fail(problem,
                        "only node, joining, leaving and lost lines of [cluster] are taken");
        } else if (!add(nodes, role, ini.value, problem)) {
            return false;
        }
    }
    if (step == TR_INI_BAD)
        return fail(problem, ini.fault);
    return nodes->count > 0 || fail(problem, "it names no node");
}

static void path_of(const struct tr_config *config, char *path, size_t size)
{
    snprintf(path, size, "%s/" NAME, config->data_dir);
}

static bool read_kept(const struct tr_config *config, struct nodes *nodes)
{
    char path[TR_CONFIG_TEXT + 32];
    struct tr_problem problem;
    path_of(config, path, sizeof path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char *text = malloc(TR_VIEW_TEXT_MAX);
    size_t size = text == NULL ? 0 : fread(text, 1, TR_VIEW_TEXT_MAX, file);
    fclose(file);
    bool is_good = parse((struct tr_span){text, size}, nodes, &problem);
    if (!is_good)
        tr_say(TR_WARNING, "%s is not heeded: %s", path, problem.detail);
    free(text);
    return is_good;
}

static void take(struct tr_config *config, const struct nodes *nodes)
{
    memset(config->nodes, 0, sizeof config->nodes);
    memcpy(config->nodes, nodes->list, nodes->count * sizeof nodes->list[0]);
    config->node_count = nodes->count;
}

void tr_view_choose(struct tr_config *config)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    char path[TR_CONFIG_TEXT + 32];
    if (nodes == NULL)
        abort();
    bool is_kept = config->has_disk && read_kept(config, nodes);
    if (is_kept && nodes->configured == hash_of(config)) {
        take(config, nodes);
    } else if (is_kept) {
        path_of(config, path, sizeof path);
        unlink(path);
    }
    free(nodes);
}

/* A store knows 1,024 nodes by number, and forgets none. */
static bool has_room(const struct tr_node *node, const struct nodes *nodes,
                     struct tr_problem *problem)
{
    uint32_t count = tr_node_members(node);
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct tr_span address = {nodes->list[i].address, strlen(nodes->list[i].address)};
        count += tr_node_member(node, address) == TR_MEMBER_NONE;
    }
    if (count > TR_LOG_NODES_MAX)
        tr_problem_set(
            problem, 507,
            "this node has heard of 1,024 addresses of nodes, and can learn no more: let "
            "it leave, and join again with an empty data directory",
            NULL);
    return count <= TR_LOG_NODES_MAX;
}

bool tr_view_read_change(const struct tr_node *node, struct tr_span text,
                         struct tr_view_change *change, struct tr_problem *problem)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes == NULL)
        abort();
    bool is_good = parse(text, nodes, problem) && has_room(node, nodes, problem);
    if (is_good) {
        memcpy(change->names, nodes->list, sizeof change->names);
        change->count = nodes->count;
        change->is_check = nodes->is_check;
    }
    for (uint32_t i = 0; is_good && i < nodes->count; i++) {
        const struct tr_config_node *name = &change->names[i];
        enum tr_role role = name->role == TR_ROLE_STAYING ? TR_ROLE_JOINING : name->role;
        change->nodes[i] =
            (struct tr_view_node){.address = {name->address, strlen(name->address)}, .role = role};
    }
    free(nodes);
    return is_good;
}
