/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/view.h"

#include "base/hash.h"
#include "wire/address.h"
#include "wire/ini.h"

#include <errno.h>
#include <fcntl.h>
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

static bool parse(struct tr_span text, struct nodes *nodes, struct tr_problem *problem)
{
    struct tr_ini ini;
    enum tr_ini_step step;
    uint32_t placed = 0;
    nodes->count = 0;
    nodes->configured = 0;
    nodes->is_check = false;
    tr_ini_init(&ini, text);
    while ((step = tr_ini_next(&ini)) == TR_INI_VALUE) {
        enum tr_role role = tr_span_equals(ini.key, TR_SPAN("node"))      ? TR_ROLE_STAYING
                            : tr_span_equals(ini.key, TR_SPAN("joining")) ? TR_ROLE_JOINING
                            : tr_span_equals(ini.key, TR_SPAN("leaving")) ? TR_ROLE_LEAVING
                                                                          : TR_ROLE_NONE;
        bool is_ours = tr_span_equals(ini.section, TR_SPAN("cluster"));
        char number[20] = {0};
        if (is_ours && tr_span_equals(ini.key, TR_SPAN("check"))) {
            nodes->is_check = tr_span_equals(ini.value, TR_SPAN("yes"));
        } else if (is_ours && tr_span_equals(ini.key, TR_SPAN("configured")) &&
                   ini.value.size == 16) {
            memcpy(number, ini.value.text, 16);
            nodes->configured = strtoull(number, NULL, 16);
        } else if (!is_ours || role == TR_ROLE_NONE) {
            return fail(problem, "only node, joining and leaving lines of [cluster] are taken");
        } else if (!add(nodes, role, ini.value, problem)) {
            return false;
        }
        placed += role == TR_ROLE_STAYING || role == TR_ROLE_JOINING;
    }
    if (step == TR_INI_BAD)
        return fail(problem, ini.fault);
    return placed > 0 || fail(problem, "there must be a node that stays or joins");
}

static void path_of(const struct tr_config *config, const char *end, char *path, size_t size)
{
    snprintf(path, size, "%s/" NAME "%s", config->data_dir, end);
}

static bool read_kept(const struct tr_config *config, struct nodes *nodes)
{
    char path[TR_CONFIG_TEXT + 32];
    struct tr_problem problem;
    path_of(config, "", path, sizeof path);
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

/* Without a data directory, what was applied is known to the process alone. */
static bool read_now(const struct tr_config *now, struct nodes *nodes)
{
    if (now == NULL || !now->is_applied)
        return false;
    memcpy(nodes->list, now->nodes, now->node_count * sizeof now->nodes[0]);
    nodes->count = now->node_count;
    nodes->configured = now->configured;
    return true;
}

static void take(struct tr_config *config, const struct nodes *nodes)
{
    memset(config->nodes, 0, sizeof config->nodes);
    memcpy(config->nodes, nodes->list, nodes->count * sizeof nodes->list[0]);
    config->node_count = nodes->count;
    config->is_applied = true;
}

void tr_view_choose(struct tr_config *config, const struct tr_config *now)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    char path[TR_CONFIG_TEXT + 32];
    config->configured = hash_of(config);
    config->is_applied = false;
    if (nodes == NULL)
        abort();
    bool is_kept = config->has_disk ? read_kept(config, nodes) : read_now(now, nodes);
    if (is_kept && nodes->configured == config->configured) {
        take(config, nodes);
    } else if (is_kept) {
        path_of(config, "", path, sizeof path);
        tr_say(TR_STATUS,
               "the nodes in the configuration have changed since 'tryst cluster apply': "
               "the configuration holds");
        if (config->has_disk)
            unlink(path);
    }
    free(nodes);
}

static bool write_whole(int file, const char *text, size_t size)
{
    errno = file < 0 ? errno : ENOSPC; /* what a write that is cut short means */
    bool is_written = file >= 0 && write(file, text, size) == (ssize_t)size && fsync(file) == 0;
    if (file >= 0)
        close(file);
    return is_written;
}

/* Either the old file or the new one is there, whatever happens. */
static bool keep(const struct tr_config *config, const struct nodes *nodes)
{
    static const char *const keys[] = {"", "node", "joining", "leaving"};
    char path[TR_CONFIG_TEXT + 32];
    char next[TR_CONFIG_TEXT + 32];
    char *text = malloc(TR_VIEW_TEXT_MAX);
    if (text == NULL)
        abort();
    size_t size = (size_t)snprintf(
        text, TR_VIEW_TEXT_MAX,
        "# Set by 'tryst cluster apply'. It holds until the nodes in the configuration change.\n"
        "[cluster]\nconfigured = %016llx\n",
        (unsigned long long)config->configured);
    for (uint32_t i = 0; i < nodes->count; i++)
        size += (size_t)snprintf(text + size, TR_VIEW_TEXT_MAX - size, "%s = %s\n",
                                 keys[nodes->list[i].role], nodes->list[i].address);
    path_of(config, "", path, sizeof path);
    path_of(config, ".next", next, sizeof next);
    int file = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool is_kept = write_whole(file, text, size) && rename(next, path) == 0;
    free(text);
    if (!is_kept)
        return false;
    int folder = open(config->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fsync(folder) != 0)
        tr_say(TR_WARNING, "%s may be the one before after a power loss: %s", path,
               strerror(errno));
    if (folder >= 0)
        close(folder);
    return true;
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

bool tr_view_apply(struct tr_config *config, const struct tr_node *node, struct tr_span text,
                   bool *is_check, struct tr_problem *problem)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes == NULL)
        abort();
    bool is_good = parse(text, nodes, problem) && has_room(node, nodes, problem);
    *is_check = is_good && nodes->is_check;
    if (is_good && !*is_check && config->has_disk && !keep(config, nodes)) {
        tr_problem_set(problem, 507, "it cannot be kept in the data directory: ", strerror(errno),
                       NULL);
        is_good = false;
    }
    if (is_good && !*is_check)
        take(config, nodes);
    free(nodes);
    return is_good;
}
